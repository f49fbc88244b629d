"""The rungs of an experiment, by worklog: fraction of cuBLAS, interleaved, with TFLOP/s and the
gain of each step.

A bar is as long as its fraction. cuBLAS itself is the line at 100%. Libraries whose dtype no kernel
of the experiment has are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import ladders
from analysis.estimates import number
from analysis.figures import style
from analysis.numbers import SIZE
from analysis.results import LIBRARY, Results, records
from analysis.tables.summary import declared
from analysis.tables.timings import with_gains

EXPERIMENT = "sgemm_ladder"
MAX_PANELS = 8
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.3}  # a text on a line


def rungs(results: Results, experiment: str) -> pd.DataFrame:
    """Return the timings of an experiment with gain, panel and heading, by worklog and in the
    catalogue's order.
    """
    rows = results.squares
    rows = with_gains(rows[rows["experiment"] == experiment])
    dtypes = set(rows.loc[rows["kind"] != "baseline", "dtype"])
    rows = rows[rows["dtype"].isin(dtypes) | (rows["kind"] != "baseline")]
    several = rows["dtype"].nunique() > 1
    rows = rows.assign(
        heading=rows["worklog"].map(ladders.titles()) + (", " + rows["dtype"] if several else "")
    )
    order = {name: i for i, name in enumerate(ladders.colours(results.variants))}
    rows = rows.assign(first=rows["dtype"] if several else "", second=rows["worklog"].map(order))
    return rows.sort_values(["first", "second", "order"], kind="stable", ignore_index=True)


def measured(results: Results, experiment: str) -> pd.DataFrame:
    """The recorded windows of an experiment that could be bars: of no baseline next to itself."""
    rows = results.raw("windows")
    return rows[(rows["experiment"] == experiment) & (rows["variant"] != rows["baseline"])]


def bars_of(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are bars: all but each baseline next to itself."""
    return rows[rows["variant"] != rows["baseline"]]


def rows_of(rows: pd.DataFrame) -> tuple[dict[str, float], dict[str, float]]:
    """Return the y of each variant, and of each heading above its first one."""
    ys: dict[str, float] = {}
    headings: dict[str, float] = {}
    for row in records(rows.drop_duplicates("variant")):
        headings.setdefault(row.heading, float(len(ys) + len(headings)))
        ys[row.variant] = float(len(ys) + len(headings))
    return ys, headings


def draw_bars(
    axes: Axes, rows: pd.DataFrame, ys: dict[str, float], colours: dict[str, str]
) -> None:
    """Draw a bar for each row, as long as its fraction, with its interval; libraries are
    hatched.
    """
    for row in records(rows):
        look: dict[str, Any] = {"color": colours[row.worklog], "linewidth": 0}
        look |= {"hatch": "////", "edgecolor": "white"} if row.worklog == LIBRARY else {}
        axes.barh(ys[row.variant], 100 * row.fraction, 0.74, **look)
        ends = [100 * row.fraction_low, 100 * row.fraction_high]
        axes.plot(ends, [ys[row.variant]] * 2, color=style.INK, linewidth=1.0)
    axes.axvline(100, color=style.INK, linewidth=0.8)


def draw_panel(
    axes: Axes, rows: pd.DataFrame, ys: dict[str, float], colours: dict[str, str], wide: bool
) -> None:
    """Draw one size: bars with their percentage at the end, TFLOP/s of kernel and library at the
    right and, with enough room, the gain.
    """
    bars = bars_of(rows)
    draw_bars(axes, bars, ys, colours)
    end = 1.02 * max(100.0, 100 * bars["fraction_high"].max())
    axes.set_xlim(0, end * (1.13 if wide else 2.0))
    right: dict[str, Any] = {"ha": "right", "fontsize": style.SMALL}
    for row in records(bars):
        y = ys[row.variant]
        at = (100 * max(row.fraction, row.fraction_high), y)
        style.beside(axes, style.percent(row.fraction), at, (3, 0), zorder=3, bbox=BEHIND)
        if wide:
            gain = "" if math.isnan(row.gain) else style.times(row.gain)
            style.in_row(axes, 1.14, y, speeds(row), **right)
            style.in_row(axes, 1.22, y, gain, **right)
        else:
            style.in_row(axes, 1.0, y, speeds(row), color=style.GREY, **right)
    if wide:
        first = min(ys.values()) - 1
        style.in_row(axes, 1.14, first, "TFLOP/s of cuBLAS", **right)
        style.in_row(axes, 1.22, first, "gain", **right)
    axes.set_xlabel("% of cuBLAS" if wide else "% of cuBLAS · TFLOP/s of cuBLAS")
    axes.set_xticks([0, 25, 50, 75, 100] if wide else [0, 50, 100])


def draw_narrow(results: Results, variants: Sequence[str]) -> Figure:
    """Return the figure of some rungs of `EXPERIMENT` at n = 4096, for the width of a phone."""
    rows = rungs(results, EXPERIMENT)
    rows = rows[rows["variant"].isin(variants) & (rows["n"] == SIZE)]
    ys, headings = rows_of(rows)
    colours = ladders.colours(results.variants)
    figure, axes = plt.subplots(figsize=(style.COLUMN, 0.4 + style.ROW * (max(ys.values()) + 1)))
    draw_bars(axes, rows, ys, colours)
    for row in records(rows):
        gain = "" if math.isnan(row.gain) else f" {style.times(row.gain)}"
        text, at = style.percent(row.fraction) + gain, (100 * row.fraction_high, ys[row.variant])
        style.beside(axes, text, at, (3, 0), zorder=3, bbox=BEHIND)
    style.list_rows(axes, ys.values(), [row.label for row in records(rows)])
    worklogs = dict(zip(rows["heading"], rows["worklog"], strict=True))
    for name, y in headings.items():
        colour = style.darker(colours[worklogs[name]])
        style.in_row(axes, 0.0, y, f" {name}", color=colour, fontweight="bold")
    axes.set_ylim(max(ys.values()) + 0.6, -0.6)
    axes.set(
        xlim=(0, 168), xticks=[0, 50, 100], xlabel="% of cuBLAS, interleaved; × the rung before"
    )
    text = "A bar for each rung, by worklog; cuBLAS is the line at 100%."
    return style.finish(figure, results, f"{EXPERIMENT}: fraction of cuBLAS", text, f"n = {SIZE}")


def speeds(row: Any) -> str:
    """Return a row's TFLOP/s beside cuBLAS's in the same windows: "620 of 622"."""
    return f"{number(row.tflops)} of {number(row.baseline_tflops)}"


def title_of(rows: pd.DataFrame) -> str:
    """The size, with what differs from panel to panel."""
    row = rows.iloc[0]
    words = [f"n = {row['n']}", *([] if row["data"] == "uniform" else [row["data"]])]
    words += [] if row["clock_policy"] == "boost" else ["locked clocks"]
    return ", ".join(words)


def draw(results: Results, experiment: str | None = None) -> Figure:
    """Return the figure of one experiment, a panel for each size, kind of data and clock policy."""
    asked = experiment or EXPERIMENT
    rows = rungs(results, asked)
    if rows.empty:
        recorded = measured(results, asked)
        what = f"Ladder of {asked}"
        return style.empty(results, what, experiment=experiment, measured=recorded)
    bars = bars_of(rows)
    # Each size, kind of data and clock policy is a panel; all share their rows.
    panels = [part for _, part in rows.groupby(["clock_policy", "n", "data"], sort=True)]
    panels = [part for part in panels if len(bars_of(part))][:MAX_PANELS]
    ys, headings = rows_of(bars)
    labels = dict(zip(rows["variant"], rows["label"], strict=True))
    worklogs = dict(zip(rows["heading"], rows["worklog"], strict=True))
    colours = ladders.colours(results.variants)
    columns = min(4, len(panels)) if len(panels) != 6 else 3
    bottom = max(ys.values())
    height = 0.5 + style.ROW * (bottom + 1)
    figure, grid = style.panels(len(panels), columns, height, 0.25, sharey=True)
    # The leftmost panels name the worklogs.
    for index, (axes, part) in enumerate(zip(grid, panels, strict=True)):
        draw_panel(axes, part, ys, colours, wide=len(panels) == 1)
        axes.set_title(title_of(part))
        style.list_rows(axes, ys.values(), [labels[name] for name in ys])
        axes.set_ylim(bottom + 0.6, -0.8)
        for name, y in headings.items() if index % columns == 0 else ():
            colour = colours[worklogs[name]]
            ink = style.GREY if worklogs[name] == LIBRARY else style.darker(colour)
            style.in_row(axes, -0.015, y, name, color=ink, ha="right", fontweight="bold")
    title = declared().get(asked, {}).get("title", asked)
    text = "A bar for each kernel, by worklog; cuBLAS is the line at 100%."
    facts = ["gain: over the kernel it builds on"] if len(panels) == 1 else []
    facts = ["fraction of cuBLAS, interleaved; TFLOP/s of both in the same windows", *facts]
    return style.finish(figure, results, f"{title}: fraction of cuBLAS", text, *facts)
