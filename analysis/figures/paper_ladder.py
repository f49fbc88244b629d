"""The paper's figure of the fp32 ladder, as wide as one of its columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data import Measured, current
from analysis.figures import style
from analysis.quantities.machine import SIZE, Row, rows_of
from analysis.words import significant

LADDER = "sgemm_ladder"  # the experiment of the fp32 ladder


def share_bars(axes: Axes, rows: list[Row], head: str, number: Callable[[Row], str], **of_head: Any) -> None:
    """A bar a row, the share of cuBLAS with its interval (libraries hatched); at its right a number, under `head`."""
    at: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7}
    for place, row in enumerate(rows):
        library: dict[str, Any] = {"color": style.BASELINE, "hatch": "////", "edgecolor": "white"}
        look = library if row["kind"] == "baseline" else {"color": style.KERNEL}
        share, low, high = (100 * row[name] for name in ("share_of_baseline", "share_ci_low", "share_ci_high"))
        axes.barh(place, share, 0.72, linewidth=0, **look)
        if look is not library:
            axes.plot([low, high], [place, place], color=style.INK, linewidth=1.2)
        axes.text(1.01, place, number(row), **at)
    axes.text(1.01, -1.0, head, **at, **of_head)
    axes.axvline(100, color=style.INK, linewidth=0.8)
    style.name_rows(axes, range(len(rows)), [row["label"] for row in rows], margin=0.6, small=True)
    axes.set_xlim(0, 1.04 * max(100.0, 100 * max(row["share_of_baseline"] for row in rows)))


def draw(measured: Measured) -> Figure:
    """Share of cuBLAS of each fp32 rung and library at SIZE, with intervals, and TFLOP/s in numbers."""
    rows, _ = current(measured.bench)
    rows = rows[(rows["regime"] == "unlocked") & (rows["data"] == "uniform")]
    rows = rows[(rows["experiment"] == LADDER) & (rows["n"] == SIZE)]
    rows = rows[~rows["tensor"].astype(bool)].sort_values("order", kind="stable")
    if rows.empty:
        why = f"{LADDER} was not timed at n = {SIZE}."
        return style.left_out(measured, "The fp32 ladder", why, width=style.COLUMN)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.75 + style.ROW * len(rows)))
    share_bars(axes, rows_of(rows), "TFLOP/s", lambda row: significant(row["tflops"]))
    axes.set_xlabel("share of cuBLAS fp32, %")
    style.note(drawing, measured, f"n = {SIZE}, unlocked clocks, uniform inputs")
    return drawing
