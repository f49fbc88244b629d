"""Heat map of hardware counters across the rungs: the number in each cell, and darker where it is worse.

Rows without colour have no good or bad side: a high hit rate, for instance, may only mean that a line is read often.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from analysis import style
from analysis.data import Measured, figure_arguments, is_tensor, marked, metric_names, read, wide
from analysis.metrics import HEAT, with_derived
from analysis.style import plt
from contracts import choose, run_command

WIDEST = 16  # rungs to a panel; more are drawn in panels below each other
LABELS = 1.75  # inches for the names of the counters


def panels(table: pd.DataFrame) -> list[pd.DataFrame]:
    """Rungs of one panel each, fp32 before tensor cores, in catalogue order, evenly filled."""
    table = table.assign(tensor=table["dtype"].map(is_tensor)).sort_values(["tensor", "order", "n"], kind="stable")
    if len(table) <= WIDEST:
        return [table]
    parts = []
    for _, kind in table.groupby("tensor"):
        count = -(-len(kind) // WIDEST)
        bounds = [round(i * len(kind) / count) for i in range(count + 1)]
        parts += [kind.iloc[low:high] for low, high in itertools.pairwise(bounds)]
    return parts


def badness(table: pd.DataFrame) -> np.ndarray:
    """From 0 (as good as it gets) to 1, a row per counter and a column per rung; NaN where neither."""
    values = []
    for row in HEAT:
        share = (table[row.key].astype(float) / row.full).clip(0, 1).to_numpy()
        values.append({1: 1 - share, -1: share, 0: np.full(len(table), np.nan)}[row.better])
    return np.array(values)


def cell(value: float) -> str:
    """A number in three or four characters; a hyphen where there is none."""
    if not np.isfinite(value):
        return "-"
    return f"{value:.1f}" if 0 < abs(value) < 99.95 and round(value, 1) != round(value) else f"{value:.0f}"


def draw_panel(axes: Axes, table: pd.DataFrame, *, sizes: bool) -> None:
    """Counters down, rungs across."""
    texts = np.array([[cell(value) for value in table[row.key].astype(float)] for row in HEAT])
    colours = badness(table)
    sns.heatmap(
        np.nan_to_num(colours, nan=0.0),
        mask=np.isnan(colours),
        ax=axes,
        cmap=sns.light_palette(style.BAD, as_cmap=True),
        vmin=0,
        vmax=1.15,
        cbar=False,
        linewidths=0.8,
        linecolor="white",
    )
    for (y, x), text in np.ndenumerate(texts):
        axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=8, color="black")
    arrow = {1: " ▲", -1: " ▼", 0: ""}
    names = [f"{row.label}, {row.unit}{arrow[row.better]}" for row in HEAT]
    axes.set_yticks(np.arange(len(HEAT)) + 0.5, names, rotation=0)
    labels = marked(table) + (" n=" + table["n"].astype(str) if sizes else "")
    axes.set_xticks(np.arange(len(table)) + 0.5, labels, rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
    change = np.flatnonzero(np.diff(table["tensor"].to_numpy().astype(int)))
    for x in change + 1:
        axes.axvline(x, color=style.INK, linewidth=1)
    edge = np.searchsorted([row.better == 0 for row in HEAT], True)
    axes.axhline(edge, color=style.INK, linewidth=0.8)


def draw(measured: Measured) -> plt.Figure:
    """The figure: all rungs with counters."""
    table = wide(measured.counters, metric_names())
    if table.empty:
        return style.left_out(measured, "Hardware counters", measured.reason("profile"))
    parts = panels(with_derived(table))
    sizes = sorted(table["n"].unique())
    widest = max(len(part) for part in parts)
    figure, grid = plt.subplots(
        len(parts),
        1,
        figsize=(min(style.WIDTH, max(4.5, LABELS + 0.4 * widest)), 0.35 + len(parts) * (0.95 + 0.2 * len(HEAT))),
        squeeze=False,
    )
    for axes, part in zip(grid.flat, parts, strict=True):
        draw_panel(axes, part, sizes=len(sizes) > 1)
    style.note(
        figure,
        measured,
        "" if len(sizes) > 1 else f"m = n = k = {sizes[0]}",
        "ncu with clocks not locked",
        "▲ more is better, ▼ less is better, darker is worse, white: neither",
        stale=table["stale"].any(),
    )
    return figure


def only(measured: Measured, names: list[str]) -> Measured:
    """The same measurements, of the variants named."""
    for name in names:
        choose(dict.fromkeys(measured.variants["variant"]), name, "variant", "the catalogue")
    counters, failed = (rows[rows["variant"].isin(names)] for rows in (measured.counters, measured.failed))
    return dataclasses.replace(measured, counters=counters, failed=failed)


def main() -> None:
    parser = figure_arguments(__doc__)
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help="these alone; all when left out")
    args = parser.parse_args()
    measured = read(args)
    style.save(draw(only(measured, args.only) if args.only else measured), args.out)


if __name__ == "__main__":
    run_command(main)
