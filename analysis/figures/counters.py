"""Heat map of hardware counters, a row per rung: the number in each cell, and darker where it is worse.

Groups of columns without colour have no good or bad side: a high hit rate, for instance, may only mean that a line is
read often. A library that ran the very function of another is left to that one's row.
"""

from __future__ import annotations

import dataclasses
import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from analysis.data import Measured, fold_twins, marked, metric_names, wide
from analysis.figures import style
from analysis.inputs import Inputs
from analysis.metrics import HEAT, with_derived
from contracts import choose

SHOWN = [row for rows in HEAT.values() for row in rows]
ARROW = {1: " ▲", -1: " ▼", 0: ""}
WORSE = LinearSegmentedColormap.from_list("worse", ["#F3F0EF", style.BAD])
GAP = 0.35  # between groups of rungs, in rows


def groups(table: pd.DataFrame) -> list[pd.DataFrame]:
    """fp32 kernels, kernels on tensor cores, libraries: each in catalogue order."""
    table = table.assign(library=table["kind"] == "baseline")
    table.loc[table["library"], "tensor"] = True
    return [group for _, group in table.sort_values(["order", "n"], kind="stable").groupby(["library", "tensor"])]


def badness(table: pd.DataFrame) -> np.ndarray:
    """From 0 (as good as it gets) to 1, a row per rung and a column per counter; NaN where neither."""
    values = []
    for row in SHOWN:
        share = (table[row.key].astype(float) / row.full).clip(0, 1).to_numpy()
        values.append({1: 1 - share, -1: share, 0: np.full(len(table), np.nan)}[row.better])
    return np.array(values).T


def cell(value: float) -> str:
    """A number in three or four characters; a dash where there is none."""
    if not np.isfinite(value):
        return "–"
    return f"{value:.0f}" if value in (0, 4, 8, 16, 32) or abs(value) >= 99.95 else f"{value:.1f}"


def draw_group(axes: Axes, table: pd.DataFrame, *, sizes: bool) -> None:
    """The numbers in the cells: rungs down, counters across."""
    for x, row in enumerate(SHOWN):
        for y, value in enumerate(table[row.key].astype(float)):
            axes.text(x + 0.5, y + 0.5, cell(value), ha="center", va="center", color="black")
    for x in itertools.accumulate(len(rows) for rows in HEAT.values()):
        axes.axvline(x, color="white", linewidth=6)
    labels = marked(table) + (" n=" + table["n"].astype(str) if sizes else "")
    axes.set_yticks(np.arange(len(table)) + 0.5, labels, rotation=0)
    axes.set_xticks([])
    axes.tick_params(length=0)


def draw_head(axes: Axes) -> None:
    """The names of the counters above their columns, and of their groups above those."""
    axes.set_xticks(np.arange(len(SHOWN)) + 0.5, [row.label for row in SHOWN])
    axes.tick_params(axis="x", labeltop=True, labelbottom=False, pad=1, labelsize=7)  # at 8 neighbours touch
    left = 0
    for name, rows in HEAT.items():
        axes.annotate(
            name + ARROW[rows[0].better],
            (left + len(rows) / 2, 0),
            xytext=(0, 14),
            textcoords="offset points",
            ha="center",
            va="bottom",
            weight="bold",
            fontsize=7,  # at 8 the heads of narrow groups touch
            annotation_clip=False,
        )
        left += len(rows)


def draw(measured: Measured) -> Figure:
    """The figure: all rungs with counters."""
    counted, twins = fold_twins(wide(measured.counters, metric_names()))
    if counted.empty:
        return style.left_out(measured, "Hardware counters", measured.reason("profile"))
    parts = groups(with_derived(counted))
    sizes = sorted(counted["n"].unique())
    lines = len(counted) + GAP * (len(parts) - 1)
    figure, grid = plt.subplots(
        len(parts),
        1,
        figsize=(style.WIDTH, 0.98 + 0.19 * lines),
        squeeze=False,
        gridspec_kw={"height_ratios": [len(part) for part in parts], "hspace": 0},
    )
    figure.set_layout_engine("constrained", hspace=0, h_pad=0.19 * GAP / 2)
    for axes, part in zip(grid.flat, parts, strict=True):
        style.cells(axes, badness(part), WORSE, Normalize(0, 1.15))
    for axes, part in zip(grid.flat, parts, strict=True):
        draw_group(axes, part, sizes=len(sizes) > 1)
    draw_head(grid.flat[0])
    style.note(
        figure,
        measured,
        "" if len(sizes) > 1 else f"m = n = k = {sizes[0]}",
        "ncu with clocks not locked",
        "▲ more is better, ▼ less is better, darker is worse, white: neither",
        "– not counted",
        twins,
        stale=counted["stale"].any(),
    )
    return figure


def only(measured: Measured, names: list[str], sizes: list[int] | None = None) -> Measured:
    """The same measurements, of the variants named, counted at these sizes."""
    for name in names:
        choose(dict.fromkeys(measured.variants["variant"]), name, "variant", "the catalogue")
    counters, failed = (rows[rows["variant"].isin(names)] for rows in (measured.counters, measured.failed))
    at_size = counters[counters["n"].isin(sizes)] if sizes else counters
    return dataclasses.replace(measured, counters=at_size, failed=failed)


def counters_of_experiment(inputs: Inputs) -> Figure:
    experiment = inputs.experiments[str(inputs.experiment)]
    return draw(only(inputs.measured(), list(experiment["variants"]), experiment["profiled"]))
