"""The rungs of an experiment, by worklog: fraction of cuBLAS, interleaved, with TFLOP/s and the
gain of each step.

A bar is as long as its fraction. cuBLAS itself is the line at 100%. Libraries whose dtype no kernel
of the experiment has are left out.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.estimates import number
from analysis.figures import style
from analysis.ladders import LIBRARY, worklog_of
from analysis.results import Results, records
from analysis.tables.summary import declared
from analysis.tables.timings import with_gains

EXPERIMENT = "sgemm_ladder"
MOST_PANELS = 8


def rungs(results: Results, experiment: str) -> pd.DataFrame:
    """Timings of an experiment with gain, worklog and mark (the label), by worklog and in the
    catalogue's order.
    """
    worklogs = dict(zip(results.variants["variant"], worklog_of(results.variants), strict=True))
    rows = results.squares
    rows = with_gains(rows[rows["experiment"] == experiment])
    dtypes = set(rows.loc[rows["kind"] != "baseline", "dtype"])
    rows = rows[rows["dtype"].isin(dtypes) | (rows["kind"] != "baseline")]
    rows = rows.assign(worklog=rows["variant"].map(worklogs))
    several = rows["dtype"].nunique() > 1
    place = {name: i for i, name in enumerate(style.worklog_colours(results.variants))}
    rows = rows.assign(
        place=rows["worklog"].map(place), dtype_place=rows["dtype"] if several else ""
    )
    rows = rows.assign(heading=rows["worklog"] + (", " + rows["dtype"] if several else ""))
    return rows.sort_values(["dtype_place", "place", "order"], kind="stable", ignore_index=True)


def measured(results: Results, experiment: str) -> pd.DataFrame:
    """The recorded windows of an experiment that could be bars: of no baseline next to itself."""
    rows = results.raw("windows")
    return rows[(rows["experiment"] == experiment) & (rows["variant"] != rows["baseline"])]


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are bars: all but each baseline next to itself."""
    return rows[rows["variant"] != rows["baseline"]]


def places_of(rows: pd.DataFrame) -> tuple[dict[str, float], dict[str, float]]:
    """The place of each variant, and of each heading above its first one."""
    places: dict[str, float] = {}
    headings: dict[str, float] = {}
    at = 0.0
    for row in records(rows.drop_duplicates("variant")):
        if row.heading not in headings:
            headings[row.heading] = at
            at += 1
        places[row.variant] = at
        at += 1
    return places, headings


def draw_bars(
    axes: Axes, rows: pd.DataFrame, places: dict[str, float], colours: dict[str, str]
) -> None:
    """A bar for each row, as long as its fraction, with its interval; libraries are hatched."""
    for row in records(rows):
        library = row.worklog == LIBRARY
        look: dict[str, Any] = {"hatch": "////", "edgecolor": "white"} if library else {}
        axes.barh(
            places[row.variant],
            100 * row.fraction,
            0.74,
            color=colours[row.worklog],
            linewidth=0,
            **look,
        )
        ends = [100 * row.fraction_low, 100 * row.fraction_high]
        axes.plot(ends, [places[row.variant]] * 2, color=style.INK, linewidth=1.0)
    axes.axvline(100, color=style.INK, linewidth=0.8)


def draw_panel(
    axes: Axes, rows: pd.DataFrame, places: dict[str, float], colours: dict[str, str], wide: bool
) -> None:
    """One size: bars with their percentage at the end, TFLOP/s at the right and, with enough room,
    the gain.
    """
    bars = shown(rows)
    draw_bars(axes, bars, places, colours)
    end = 1.02 * max(100.0, 100 * bars["fraction_high"].max())
    axes.set_xlim(0, end * (1.13 if wide else 2.0))
    right: dict[str, Any] = {
        "va": "center",
        "ha": "right",
        "fontsize": style.SMALL,
        "transform": axes.get_yaxis_transform(),
    }
    for row in records(bars):
        place = places[row.variant]
        axes.annotate(
            style.percent(row.fraction),
            (max(100 * row.fraction, 100 * row.fraction_high), place),
            (3, 0),
            textcoords="offset points",
            va="center",
            zorder=3,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3},
        )
        if wide:
            axes.text(1.08, place, number(row.tflops), **right)
            axes.text(1.17, place, "" if math.isnan(row.gain) else style.times(row.gain), **right)
        else:
            axes.text(1.0, place, number(row.tflops), color=style.GREY, **right)
    first = min(places.values()) - 1
    if wide:
        axes.text(1.08, first, "TFLOP/s", **right)
        axes.text(1.17, first, "gain", **right)
    axes.set_xlabel("% of cuBLAS" if wide else "% of cuBLAS · TFLOP/s")
    axes.set_xticks([0, 25, 50, 75, 100] if wide else [0, 50, 100])


def title_of(rows: pd.DataFrame) -> str:
    """The size, with what differs from panel to panel, and cuBLAS's own speed."""
    row = rows.iloc[0]
    words = [f"n = {row['n']}", *([] if row["data"] == "uniform" else [row["data"]])]
    words += [] if row["clock_policy"] == "boost" else ["locked clocks"]
    own = rows[rows["variant"] == rows["baseline"]]
    if len(own) == 1:
        words.append(f"cuBLAS {number(own['tflops'].iloc[0])} TFLOP/s")
    return ", ".join(words)


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure of one experiment, a panel for each size, kind of data and clock policy."""
    asked = experiment or EXPERIMENT
    rows = rungs(results, asked)
    if rows.empty:
        return style.empty(
            results, f"Ladder of {asked}", experiment=experiment, measured=measured(results, asked)
        )
    keys = ["clock_policy", "n", "data"]
    panels = [part for _, part in rows.groupby(keys, sort=True)]
    panels = [part for part in panels if len(shown(part))][:MOST_PANELS]
    places, headings = places_of(shown(rows))
    colours = style.worklog_colours(results.variants)
    columns = min(4, len(panels)) if len(panels) != 6 else 3
    lines = math.ceil(len(panels) / columns)
    height = lines * (0.5 + style.ROW * (max(places.values()) + 1)) + 0.25
    figure, grid = plt.subplots(
        lines, columns, figsize=(style.WIDE, height), sharey=True, squeeze=False
    )
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    worklogs = dict(zip(rows["heading"], rows["worklog"], strict=True))
    for axes, part in zip(grid.flat, panels, strict=False):
        draw_panel(axes, part, places, colours, wide=len(panels) == 1)
        axes.set_title(
            title_of(part) if len(panels) < 3 else title_of(part).replace(" TFLOP/s", "")
        )
        style.list_rows(axes, places.values(), _labels(rows, places))
        axes.set_ylim(max(places.values()) + 0.6, -0.8)
        for name, place in headings.items():
            if axes in grid[:, 0]:
                ink = (
                    style.GREY
                    if worklogs[name] == LIBRARY
                    else style.darker(colours[worklogs[name]])
                )
                axes.text(
                    -0.015,
                    place,
                    name,
                    color=ink,
                    ha="right",
                    va="center",
                    fontweight="bold",
                    transform=axes.get_yaxis_transform(),
                )
    question = declared().get(asked, {}).get("title", asked)
    style.describe(
        figure,
        f"{question}: fraction of cuBLAS",
        "A bar for each kernel, by worklog; cuBLAS is the line at 100%.",
    )
    facts = [
        "fraction of cuBLAS, interleaved",
        *(["gain: over the kernel it builds on"] if len(panels) == 1 else []),
    ]
    style.provenance(figure, results, *facts)
    return figure


def _labels(rows: pd.DataFrame, places: dict[str, float]) -> list[str]:
    labels = dict(zip(rows["variant"], rows["label"], strict=True))
    return [labels[name] for name in places]
