"""Problems that are not square: the fraction of cuBLAS, interleaved, in the layers of language
models and at random.

Language models: over m, the geometric mean over all (n, k), and their range. Random problems, which
no fit has seen: over the time that cuBLAS takes.
"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.ladder import measured
from analysis.results import Results
from analysis.tables.shapes import LLM, RANDOM, timed


def of_models(axes: Axes, rows: pd.DataFrame) -> None:
    """A line for each variant, over m, in the range of its (n, k)."""
    for place, (label, own) in enumerate(rows.groupby("label", sort=False)):
        layout = "B column-major" if (own["b_layout"] == "column").all() else "B row-major"
        percent = 100 * own["fraction"]
        by_m = percent.groupby(own["m"])
        mean = np.exp(np.log(percent).groupby(own["m"]).mean())
        colour = style.COLOURS[place % len(style.COLOURS)]
        axes.fill_between(mean.index, by_m.min(), by_m.max(), color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            mean.index,
            mean,
            color=colour,
            marker=style.MARKERS[place % 7],
            markersize=3,
            linewidth=0.9,
            label=f"{label}, {layout}",
        )
    ms = sorted(rows["m"].unique())
    axes.set_xscale("log", base=2)
    axes.set_xticks(ms, [str(m) for m in ms], rotation=45)
    axes.set(xlabel="m", title="layers of language models")


def at_random(axes: Axes, rows: pd.DataFrame) -> None:
    """A mark for each problem, over cuBLAS's time."""
    for place, (label, own) in enumerate(rows.groupby("label", sort=False)):
        dtype = str(own["dtype"].iloc[0])
        mean = float(np.exp(np.log(own["fraction"]).mean()))
        axes.scatter(
            own["time_us"] * own["fraction"],
            100 * own["fraction"],
            s=9,
            linewidth=0,
            alpha=0.85,
            color=style.DTYPES[dtype],
            marker=style.MARKERS[place % 7],
            label=f"{label}, {dtype}: geometric mean {style.percent(mean)}",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")  # exponents would be printed too small
    axes.set(xlabel="cuBLAS's time in µs", title="random problems")


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure: a panel for what was measured, of one experiment or of all."""
    others = (experiment,) if experiment and experiment not in LLM else RANDOM
    drawn: list[tuple[Callable[[Axes, pd.DataFrame], None], pd.DataFrame]] = []
    for panel, experiments in ((of_models, LLM), (at_random, others)):
        rows = timed(results, experiments)
        square = (rows["m"] == rows["n"]) & (rows["n"] == rows["k"])
        rows = rows[~square & rows["experiment"].isin([experiment] if experiment else experiments)]
        if len(rows):
            drawn.append((panel, rows.sort_values("order", kind="stable")))
    if not drawn:
        what, recorded = (
            "Problems that are not square",
            measured(results, experiment) if experiment else None,
        )
        return style.empty(results, what, experiment=experiment, measured=recorded)
    figure, grid = plt.subplots(
        1, len(drawn), figsize=(style.WIDE, 3.1), sharey=True, squeeze=False
    )
    for axes, (draw_panel, rows) in zip(grid.flat, drawn, strict=True):
        draw_panel(axes, rows)
        axes.axhline(100, color=style.INK, linewidth=0.8)
        axes.grid(axis="both")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=1, handletextpad=0.4)
    grid[0][0].set_ylabel("% of cuBLAS")
    style.describe(
        figure,
        "Fraction of cuBLAS on problems that are not square",
        "Over m in layers of language models, and over the time of random problems.",
    )
    style.provenance(figure, results, "interleaved", "shaded: range over (n, k)")
    return figure
