"""The paper's figure of the fp32 ladder, as wide as one of its columns."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured, current
from analysis.figures import style
from analysis.quantities.machine import SIZE, rows_of
from analysis.statistics import SHARE
from analysis.words import significant

BY_HEIGHT = 0.145  # inches of a row of a list
LADDER = "sgemm_ladder"  # the experiment of the fp32 ladder


def draw(measured: Measured) -> Figure:
    """Share of cuBLAS of each fp32 rung and library at SIZE, with intervals, and TFLOP/s in numbers."""
    rows, _ = current(measured.bench)
    rows = rows[(rows["regime"] == "unlocked") & (rows["data"] == "uniform")]
    rows = rows[(rows["experiment"] == LADDER) & (rows["n"] == SIZE)]
    rows = rows[~rows["tensor"].astype(bool)].sort_values("order", kind="stable")
    if rows.empty:
        why = f"{LADDER} was not timed at n = {SIZE}."
        return style.left_out(measured, "The fp32 ladder", why, width=style.COLUMN)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.75 + BY_HEIGHT * len(rows)))
    for place, row in enumerate(rows_of(rows)):
        share, low, high = (100 * row[name] for name in SHARE)
        library = row["kind"] == "baseline"
        look: dict[str, Any] = {"color": style.BASELINE, "hatch": "////", "edgecolor": "white"}
        axes.barh(place, share, 0.72, linewidth=0, **(look if library else {"color": style.KERNEL}))
        if not library:
            axes.plot([low, high], [place, place], color=style.INK, linewidth=1.2)
        axes.text(
            1.01, place, significant(row["tflops"]), transform=axes.get_yaxis_transform(), va="center", fontsize=7
        )
    axes.axvline(100, color=style.INK, linewidth=0.8)
    axes.text(1.01, -1.0, "TFLOP/s", transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), list(rows["label"]), fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.04 * max(100.0, 100 * rows["share_of_baseline"].astype(float).max()))
    axes.tick_params(axis="y", length=0, pad=1)
    axes.grid(axis="x")
    axes.set_xlabel("share of cuBLAS fp32, %")
    style.note(drawing, measured, f"n = {SIZE}, unlocked clocks, uniform inputs")
    return drawing
