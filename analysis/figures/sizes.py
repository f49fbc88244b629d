"""Fraction of cuBLAS, interleaved, over n: a panel for each dtype and kind of data, a line for each
kernel.

Large points with bars are the range of five processes, small ones are of one process. The line only
joins the sizes that were measured.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.ladder import measured, rungs, shown
from analysis.results import Results
from analysis.timings import PROCESSES, SINGLE_PROCESS

EXPERIMENT = "sgemm_sizes"
PANEL = 2.2  # inches: the height of a panel


def draw_panel(axes: Axes, rows: pd.DataFrame, looks: dict[str, dict[str, Any]]) -> None:
    """Lines with error bars, each named at its right end."""
    ends: dict[str, float] = {}
    for label, line in rows.groupby("label", sort=False):
        line = line.sort_values("n")
        axes.plot(
            line["n"], 100 * line["fraction"], linewidth=0.9, markersize=1.8, **looks[str(label)]
        )
        full = line[line["processes"] >= PROCESSES]
        value, low, high = (
            100 * full[f"fraction{end}"].to_numpy() for end in ("", "_low", "_high")
        )
        axes.errorbar(
            full["n"],
            value,
            [value - low, high - value],
            linestyle="",
            elinewidth=1.0,
            capsize=1.5,
            markersize=4,
            **looks[str(label)],
        )
        ends[str(label)] = 100 * float(line["fraction"].iloc[-1])
    axes.axhline(100, color=style.INK, linewidth=0.8)
    axes.set(xlabel="n", ylabel="% of cuBLAS")
    axes.grid(axis="both")
    bottom, top = axes.get_ylim()
    places = style.apart(list(ends.values()), 0.13 / PANEL * (top - bottom))
    right = axes.get_xlim()[1]
    for label, place in zip(ends, places, strict=True):
        axes.annotate(
            label,
            (right, place),
            (3, 0),
            textcoords="offset points",
            va="center",
            color=style.darker(looks[label]["color"]),
            annotation_clip=False,
        )


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure of one experiment."""
    asked = experiment or EXPERIMENT
    rows = shown(rungs(results, asked))
    if rows.empty:
        return style.empty(
            results, f"Sizes of {asked}", experiment=experiment, measured=measured(results, asked)
        )
    labels = list(dict.fromkeys(rows["label"]))
    looks = {
        label: {
            "color": style.COLOURS[i % len(style.COLOURS)],
            "marker": style.MARKERS[i % len(style.MARKERS)],
        }
        for i, label in enumerate(labels)
    }
    panels = list(rows.groupby(["clock_policy", "dtype", "data"], sort=True))
    columns = min(2, len(panels)) if len(labels) <= 2 else 1
    lines = math.ceil(len(panels) / columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(style.WIDE, 0.4 + (PANEL + 0.45) * lines), squeeze=False
    )
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, ((policy, dtype, data), part) in zip(grid.flat, panels, strict=False):
        draw_panel(axes, part, looks)
        axes.set_title(f"{dtype}, {data}" + ("" if policy == "boost" else ", locked clocks"))
    style.describe(
        figure, f"Fraction of cuBLAS over n: {asked}", "A line for each kernel, with intervals."
    )
    widest = max(SINGLE_PROCESS.get(str(name), 0.0) for name in rows["dtype"].unique())
    single = f"small points: one process (GPUs of one model differ by up to {widest:.1%})"
    facts = [
        "large points: range of five processes",
        single if (rows["processes"] < PROCESSES).any() else "",
    ]
    style.provenance(figure, results, *facts)
    return figure
