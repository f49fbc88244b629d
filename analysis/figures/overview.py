"""The fp32 ladder for README, 880 x 345 pixels on a transparent background: draw(results, "light"
or "dark").

A bar for each kernel, as high as its fraction of cuBLAS, with the percentage and the gain over the
kernel that it builds on. cuBLAS is the line at 100%.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.estimates import number
from analysis.figures import style
from analysis.figures.ladder import EXPERIMENT, rungs
from analysis.results import Results, records
from contracts import choose

WIDTH, HEIGHT = 880 / 96, 345 / 96  # inches
GAP = 1.1  # between worklogs, in bars


@dataclass(frozen=True)
class Theme:
    """Colours on one of GitHub's two backgrounds; `lighter` replaces colours of `style`."""

    ink: str
    grey: str
    lighter: dict[str, str]


THEMES = {
    "light": Theme("#1f2328", "#59636e", {}),
    "dark": Theme(
        "#f0f6fc", "#9198a1", {style.BLUE: "#4aa3e0", style.GREEN: "#2fbf8f", style.RED: "#ff7a33"}
    ),
}


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure for one background. Raises `UserError` for another word than "light" or "dark"."""
    theme = choose(THEMES, experiment or "light", "background", "analysis.draw")
    rows = rungs(results, EXPERIMENT)
    kernels = rows[(rows["kind"] == "kernel") & (rows["n"] == 4096) & (rows["data"] == "uniform")]
    if kernels.empty:
        return style.empty(results, f"Ladder of {EXPERIMENT}")
    figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
    places = _draw_bars(axes, kernels, style.worklog_colours(results.variants), theme)
    axes.set_xticks(
        list(places.values()),
        list(places),
        rotation=40,
        ha="right",
        rotation_mode="anchor",
        fontsize=8,
    )
    own = rows[rows["variant"] == rows["baseline"]]
    speed = f", {number(own['tflops'].iloc[0])} TFLOP/s" if len(own) else ""
    axes.axhline(100, color=theme.ink, linewidth=1)
    axes.text(
        -0.6,
        102,
        f"cuBLAS{speed} on an {results.model}",
        fontsize=9,
        color=theme.ink,
        fontweight="bold",
    )
    axes.set_xlim(-0.7, max(places.values()) + 0.7)
    axes.set_ylim(0, 128)
    axes.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100%"], fontsize=8)
    axes.set_ylabel("fraction of cuBLAS, n = 4096", fontsize=8, color=theme.ink)
    axes.tick_params(colors=theme.ink, length=0, pad=2)
    axes.spines[["left", "bottom"]].set_color(theme.grey)
    title = f"The fp32 ladder on an {results.model}"
    style.describe(
        figure,
        title,
        "Each kernel's fraction of cuBLAS at n = 4096, by worklog, with the gain of each step.",
    )
    return figure


def _draw_bars(
    axes: Axes, rows: pd.DataFrame, colours: dict[str, str], theme: Theme
) -> dict[str, float]:
    """Bars with percentage and gain, and the worklogs' names above; the place of each label."""
    places: dict[str, float] = {}
    at = 0.0
    for worklog, group in rows.groupby("worklog", sort=False):
        colour = theme.lighter.get(colours[str(worklog)], colours[str(worklog)])
        start = at
        for row in records(group):
            axes.bar(at, 100 * row.fraction, 0.78, color=colour, linewidth=0)
            top = 100 * row.fraction
            place = 101.5 if 88 < top < 100 else top + 1.5  # clear of the line
            gain = "" if math.isnan(row.gain) else style.times(row.gain)
            axes.text(at, place, gain, color=theme.ink, fontsize=7, ha="center", va="bottom")
            places[row.label] = at
            at += 1
        ink = style.darker(colour) if theme is THEMES["light"] else colour
        centre = (start + at - 1) / 2  # the heading of a single kernel is wider than its bar
        axes.text(
            centre,
            121,
            str(worklog),
            color=ink,
            fontsize=9,
            fontweight="bold",
            ha="center",
            va="bottom",
        )
        at += GAP
    return places
