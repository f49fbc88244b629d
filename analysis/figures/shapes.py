"""Problems that are not square: the fraction of cuBLAS, interleaved, in the layers of language
models and at random.

Language models: over m, the geometric mean over all (n, k), and their range. Random problems, which
no fit has seen: over the time that cuBLAS takes.
"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import gmean

from analysis.figures import style
from analysis.figures.ladder import measured
from analysis.results import Results
from analysis.tables.shapes import LLM, RANDOM, timed


def of_models(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw a line for each variant, over m, in the range of its (n, k)."""
    layouts = rows["b_layout"].map({"column": "B column-major", "row": "B row-major"})
    rows = rows.assign(name=rows["label"] + ", " + layouts, percent=100 * rows["fraction"])
    sns.lineplot(
        rows,
        x="m",
        y="percent",
        hue="name",
        style="name",
        estimator=gmean,
        errorbar=("pi", 100),
        err_kws={"linewidth": 0},
        **style.looks(rows["name"]),
        dashes=False,
        linewidth=0.9,
        markersize=3.5,
        markeredgewidth=0,
        ax=axes,
    )
    ms = sorted(rows["m"].unique())
    axes.set_xscale("log", base=2)
    axes.set_xticks(ms, [str(m) for m in ms], rotation=45)
    axes.set(xlabel="m", title="layers of language models")


def at_random(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw a mark for each problem, over cuBLAS's time."""
    means = rows.groupby("label")["fraction"].agg(gmean).map(style.percent)
    name = rows["label"] + ", " + rows["dtype"] + ": geometric mean " + rows["label"].map(means)
    rows = rows.assign(
        name=name, cublas_us=rows["time_us"] * rows["fraction"], percent=100 * rows["fraction"]
    )
    sns.scatterplot(
        rows,
        x="cublas_us",
        y="percent",
        hue="name",
        style="name",
        s=10,
        alpha=0.85,
        **style.looks(rows["name"]),
        linewidth=0,
        ax=axes,
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")  # exponents would be printed too small
    axes.set(xlabel="cuBLAS's time in µs", title="random problems")


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure: a panel for what was measured, of one experiment or of all."""
    others = (experiment,) if experiment and experiment not in LLM else RANDOM
    drawn: list[tuple[Callable[[Axes, pd.DataFrame], None], pd.DataFrame]] = []
    # A panel is left out where nothing of it was measured.
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
        1, len(drawn), figsize=(style.WIDE, 2.8), sharey=True, squeeze=False
    )
    for axes, (draw_panel, rows) in zip(grid.flat, drawn, strict=True):
        draw_panel(axes, rows)
        axes.axhline(100, color=style.INK, linewidth=0.8)
        axes.grid(axis="both")
        sns.move_legend(
            axes, "upper center", bbox_to_anchor=(0.5, -0.3), title=None, handletextpad=0.4
        )
    grid[0][0].set_ylabel("% of cuBLAS")
    title = "Fraction of cuBLAS on problems that are not square"
    description = "Over m in layers of language models, and over the time of random problems."
    of_layers = any(panel is of_models for panel, _ in drawn)
    facts = ("interleaved", *["shaded: range over (n, k)"] * of_layers)
    return style.finish(figure, results, title, description, *facts)
