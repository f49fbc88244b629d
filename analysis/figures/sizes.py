"""Fraction of cuBLAS, interleaved, over n: a panel for each dtype and kind of data, a line for each
kernel.

Bars are the range of five processes; a point without one is of one process. The line only joins the
sizes that were measured.
"""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.ladder import bars_of, measured, rungs
from analysis.results import Results
from analysis.timings import PROCESSES, SINGLE_PROCESS

EXPERIMENT = "sgemm_sizes"
PANEL = 1.5  # inches: the height of a panel


def intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return n, label and percent of cuBLAS: of a row of five processes also both ends of its
    range.
    """
    full = rows["processes"] >= PROCESSES
    parts = {"fraction": rows, "fraction_low": rows[full], "fraction_high": rows[full]}
    return pd.concat(
        part[["n", "label"]].assign(percent=100 * part[name]) for name, part in parts.items()
    )


def draw_panel(axes: Axes, rows: pd.DataFrame, looks: dict[str, dict[str, str]]) -> None:
    """Draw lines with their ranges, each named at its right end."""
    sns.lineplot(
        intervals(rows),
        x="n",
        y="percent",
        hue="label",
        style="label",
        **looks,
        dashes=False,
        estimator="median",
        errorbar=("pi", 100),
        err_style="bars",
        err_kws={"elinewidth": 1.0, "capsize": 1.5},
        linewidth=0.9,
        markersize=4.2,
        markeredgewidth=0,
        legend=False,
        ax=axes,
    )
    # Name each line at its end, apart from its neighbours.
    last = rows.sort_values("n").groupby("label", sort=False)["fraction"].last()
    ends = {label: 100 * float(last[label]) for label in dict.fromkeys(rows["label"])}
    axes.axhline(100, color=style.INK, linewidth=0.8)
    axes.set(xlabel="n", ylabel="% of cuBLAS")
    axes.grid(axis="both")
    bottom, top = axes.get_ylim()
    ys = style.apart(list(ends.values()), 0.13 / PANEL * (top - bottom))
    right = axes.get_xlim()[1]
    for label, y in zip(ends, ys, strict=True):
        colour = style.darker(looks["palette"][label])
        style.beside(axes, label, (right, y), (3, 0), color=colour)


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure of one experiment."""
    asked = experiment or EXPERIMENT
    rows = bars_of(rungs(results, asked))
    if rows.empty:
        recorded = measured(results, asked)
        what = f"Sizes of {asked}"
        return style.empty(results, what, experiment=experiment, measured=recorded)
    labels = list(dict.fromkeys(rows["label"]))
    looks = style.looks_of_authors(rows, results.variants)
    panels = list(rows.groupby(["clock_policy", "dtype", "data"], sort=True))
    columns = min(2, len(panels)) if len(labels) <= 2 else 1
    figure, grid = style.panels(len(panels), columns, PANEL + 0.45, 0.4)
    for axes, ((policy, dtype, data), part) in zip(grid, panels, strict=True):
        draw_panel(axes, part, looks)
        axes.set_title(f"{dtype}, {data}" + ("" if policy == "boost" else ", locked clocks"))
    widest = max(SINGLE_PROCESS.get(str(name), 0.0) for name in rows["dtype"].unique())
    single = f"without a bar: one process (GPUs of one model differ by up to {widest:.1%})"
    facts = [
        "bars: range of five processes",
        single if (rows["processes"] < PROCESSES).any() else "",
    ]
    title = f"Fraction of cuBLAS over n: {asked}"
    description = "A line for each kernel, with intervals."
    return style.finish(figure, results, title, description, *facts)
