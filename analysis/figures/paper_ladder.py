"""The paper's figure of the fp32 ladder, as wide as one of its columns."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data import Measured, current
from analysis.figures import style
from analysis.quantities.machine import SIZE, Row, rows_of
from analysis.statistics import SHARE
from analysis.words import significant
from contracts import worklogs

LADDER = "sgemm_ladder"  # the experiment of the fp32 ladder
OURS, LIBRARIES = "our own", "lib."  # groups of rungs that follow no worklog
OWN = "#56B4E9"  # the colour of our own rungs
GAP = 0.5  # rows between groups


def by_worklog(measured: Measured, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each worklog's rungs, of our own, and of libraries, by the group's name; none that is empty."""
    keys = {one["file"].partition("_")[0]: key for key, one in worklogs.sources().items()}
    origins = measured.variants.set_index("variant")["origin"]
    seeds = rows["variant"].map(origins).fillna("").str.partition(":")[0]
    group = seeds.map(keys).fillna(OURS).where(rows["kind"] != "baseline", LIBRARIES)
    return {name: rows[group == name] for name in (*keys.values(), OURS, LIBRARIES) if (group == name).any()}


def share_bar(axes: Axes, place: float, row: Row, colour: str = style.KERNEL) -> None:
    """The share of cuBLAS as a bar with its interval; that of a library grey and hatched, without one."""
    share, low, high = (100 * row[key] for key in SHARE)
    library: dict[str, Any] = {"color": style.BASELINE, "hatch": "////", "edgecolor": "white"}
    axes.barh(place, share, 0.72, linewidth=0, **(library if row["kind"] == "baseline" else {"color": colour}))
    if row["kind"] != "baseline":
        axes.plot([low, high], [place, place], color=style.INK, linewidth=1.2)


def draw(measured: Measured) -> Figure:
    """Share of cuBLAS of each fp32 rung and library at SIZE, with intervals, and TFLOP/s in numbers."""
    rows, _ = current(measured.bench)
    rows = rows[(rows["regime"] == "unlocked") & (rows["data"] == "uniform")]
    rows = rows[(rows["experiment"] == LADDER) & (rows["n"] == SIZE)]
    rows = rows[~rows["tensor"].astype(bool)].sort_values("order", kind="stable")
    if rows.empty:
        why = f"{LADDER} was not timed at n = {SIZE}."
        return style.left_out(measured, "The fp32 ladder", why, width=style.COLUMN)
    groups = by_worklog(measured, rows)
    places, names, place = [], [], 0.0
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.75 + style.ROW * (len(rows) + GAP * len(groups))))
    right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7}
    for name, own in groups.items():
        axes.text(1.205, place + (len(own) - 1) / 2, name, rotation=90 if len(name) > 1 else 0, **right)
        axes.plot([1.19, 1.19], [place - 0.4, place + len(own) - 0.6], color=style.INK, linewidth=0.8, clip_on=False,
                  transform=axes.get_yaxis_transform())  # fmt: skip
        for row in rows_of(own):
            share_bar(axes, place, row, OWN if name == OURS else style.KERNEL)
            axes.text(1.01, place, significant(row["tflops"]), **right)
            places.append(place)
            names.append(row["label"])
            place += 1
        place += GAP
    axes.axvline(100, color=style.INK, linewidth=0.8)
    axes.text(1.01, -1.0, "TFLOP/s", **right)
    style.name_rows(axes, places, names, margin=0.6, small=True)
    axes.set_xlim(0, 1.04 * max(100.0, 100 * rows["share_of_baseline"].astype(float).max()))
    axes.set_xlabel("share of cuBLAS fp32, %")
    style.note(drawing, measured, f"n = {SIZE}, unlocked clocks, uniform inputs")
    return drawing
