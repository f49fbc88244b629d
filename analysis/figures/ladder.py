"""Bars per rung: TFLOP/s with its 95% interval, and the share of cuBLAS.

One panel per clock regime, size and kind of data. Where nothing was measured with locked clocks, FLOP/clock/SM stands
in, labelled as derived; where that would outgrow a page, it is left to the tables, and rows stand closer. A bar of
another dtype than the kernels' (TF32 next to fp32 kernels) that would squeeze all others is cut at the axis's end and
carries its number.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data import Measured, marked, records, share_text
from analysis.figures import style
from analysis.statistics import TIME

PAGE = 10.0  # inches: a figure that is higher would be made too small to read in the supplement
ROW, CLOSE_ROW = 0.2, 0.15  # inches


def axis_end(rows: pd.DataFrame, room: float) -> float:
    """Where the axis ends: the longest bar of the dtypes that kernels have, times `room` for the text."""
    tensor = rows["tensor"].astype(bool)
    kernels = tensor[rows["kind"] != "baseline"]
    shown = rows[tensor.isin(kernels)] if len(kernels) else rows
    return room * float(shown["high"].max())


def draw_panel(axes: Axes, rows: pd.DataFrame, places: dict[str, int], end: float) -> None:
    """One regime and size: a bar per row, at the place of its label, with its interval where it has one."""
    style.bars(axes, rows.assign(value=rows["value"].clip(upper=end)), "value", "mark", list(places))
    for row in records(rows):
        place = places[row.mark]
        text = style.significant(row.value)
        if pd.notna(row.share):
            text += f"  ({row.share:.{1 if row.share < 200 else 0}f}%)"
        if row.value > end:
            box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            axes.text(0.99 * end, place, f"{text}, beyond the axis ▶", ha="right", va="center", bbox=box)
            continue
        if row.low < row.high:
            error = [[row.value - row.low], [row.high - row.value]]
            axes.errorbar(row.value, place, xerr=error, color=style.INK, linewidth=1, capsize=2)
        axes.annotate(text, (row.high, place), xytext=(4, 0), textcoords="offset points", va="center", color=style.INK)
    axes.set_xlim(0, end)
    style.name_rows(axes, places.values(), places)


def height(panels: Sized, columns: int, rows: int, pitch: float) -> float:
    """The height of the figure in inches: its panels with so many rows, each of the height `pitch`."""
    return 0.45 - (-len(panels) // columns) * (0.62 + pitch * rows)


def draw(measured: Measured, experiment: str) -> Figure:
    """The figure of one experiment."""
    rows = measured.bench[measured.bench["experiment"] == experiment]
    if rows.empty:
        return style.left_out(measured, f"Timings of {experiment}", measured.untimed(experiment))
    time, shortest, longest = TIME
    rows = rows.assign(
        mark=marked(rows),
        value=rows["tflops"],
        low=rows["tflops"] * (rows[time] / rows[longest]),
        high=rows["tflops"] * (rows[time] / rows[shortest]),
        share=100 * rows["share_of_baseline"].where(rows["variant"] != rows["baseline"]),
    )
    places = {label: place for place, label in enumerate(rows["mark"].drop_duplicates())}
    legs = rows.groupby(["regime", "n", "data"])
    groups = sorted(legs, key=lambda group: (group[0][0] != "unlocked", *group[0][1:]))
    several = rows["data"].nunique() > 1
    panels, per_clock = [], []
    for (regime, n, data), part in groups:
        title = f"n = {n}, {data}" if several else f"n = {n}"
        panels.append((f"{title}, {regime} clocks", "TFLOP/s (share of cuBLAS)", part))
        clock = part["flop_per_clock_sm"]
        part = part.assign(value=clock, low=clock, high=clock, share=float("nan"))
        per_clock.append((f"{title}, per clock", "FLOP/clock/SM (derived)", part))
    if "locked" not in set(rows["regime"]):
        panels += per_clock
    columns, pitch = min(2, len(panels)), ROW
    if height(panels, columns, len(places), pitch) > PAGE:
        panels, pitch = panels[: len(groups)], CLOSE_ROW
    lines = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(style.WIDTH, height(panels, columns, len(places), pitch)), sharey=True, squeeze=False
    )
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, unit, part) in zip(grid.flat, panels, strict=False):
        draw_panel(axes, part, places, axis_end(part, 1.3 if columns == 1 else 1.5))
        axes.set_title(title, loc="left")
        axes.set_xlabel(unit)
    style.note(
        figure,
        measured,
        "m = n = k",
        style.data_text(rows["data"]),
        share_text(rows),
        "hatched: libraries",
        stale=rows["stale"].any(),
    )
    return figure
