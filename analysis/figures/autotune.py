"""A sweep over tiles: a heat map of what the best configuration of each BM, BN and BK reaches, with its patch per
thread; and the cycles of each configuration as they were estimated without a GPU, next to those measured.

The map has a line of panels per kernel, a panel per BK, one colour scale for all; a frame marks each kernel's winner.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.data import records
from analysis.figures import style
from analysis.inputs import Inputs
from analysis.tables.autotune import FIRST, Tuning, of, ranking
from contracts import UserError

COLOURS = "cividis"  # even in lightness: the same order in grey print and for the colour-blind


def draw_panel(axes: Axes, rows: pd.DataFrame, grid: pd.DataFrame, winner: pd.Series, norm: Normalize) -> None:
    """The best of each BM (down) and BN (across); `grid` has all values that were to be tried."""
    down, across = (sorted(grid[name].unique()) for name in ("BM", "BN"))
    best = rows.drop_duplicates(["BM", "BN"])  # the fastest comes first
    values = best.pivot(index="BM", columns="BN", values="tflops").astype(float).reindex(index=down, columns=across)
    style.cells(axes, values.to_numpy(), COLOURS, norm)
    for row in records(best):
        x, y = across.index(row.BN), down.index(row.BM)
        ink = "white" if norm(float(row.tflops)) < 0.55 else style.INK
        at: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
        axes.text(x + 0.5, y + 0.36, style.significant(row.tflops), **at)
        axes.text(x + 0.5, y + 0.72, f"{row.TM}×{row.TN}", fontsize=7, **at)
        if (winner["BM"], winner["BN"], winner["BK"]) == (row.BM, row.BN, row.BK):
            frame: dict[str, Any] = {
                "fill": False,
                "edgecolor": style.BAD,
                "linewidth": 2,
                "clip_on": False,
                "zorder": 5,
            }
            axes.add_patch(Rectangle((x, y), 1, 1, **frame))
    for y, x in zip(*np.nonzero(values.isna().to_numpy()), strict=True):
        axes.text(x + 0.5, y + 0.5, "–", ha="center", va="center", color="#777777")
    axes.tick_params(length=0)
    axes.set_yticks(np.arange(len(down)) + 0.5, down, rotation=0)
    axes.set_xticks(np.arange(len(across)) + 0.5, across)


def draw(tuning: Tuning) -> Figure:
    """The figure of one sweep."""
    kernels = list(tuning.record["kernels"])
    steps = sorted(tuning.rows["BK"].unique())
    shown = tuning.timed["tflops"].astype(float)
    grids = [tuning.rows[tuning.rows["kernel"] == kernel] for kernel in kernels]
    heights = [grid["BM"].nunique() for grid in grids]
    best = [tuning.of(kernel).drop_duplicates(["BM", "BN", "BK"])["tflops"].astype(float) for kernel in kernels]
    norm = Normalize(min(map(min, best)) if len(shown) else 0, max(map(max, best)) if len(shown) else 1)
    figure, panels = plt.subplots(
        len(kernels),
        len(steps),
        figsize=(style.WIDTH, 0.9 + 0.4 * len(kernels) + 0.42 * sum(heights)),
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )
    for line, kernel, grid in zip(panels, kernels, grids, strict=True):
        rows, winner = tuning.of(kernel), tuning.winner(kernel)
        for axes, bk in zip(line, steps, strict=True):
            draw_panel(axes, rows[rows["BK"] == bk], grid, winner, norm)
            axes.set_title(f"{tuning.label(kernel)}, BK = {bk}", loc="left")
            axes.set_xlabel("BN" if kernel == kernels[-1] else "")
            axes.set_ylabel("BM" if axes is line[0] else "")
            if axes is not line[0]:
                axes.set_yticks([])
    bar = figure.colorbar(ScalarMappable(norm, COLOURS), ax=panels, shrink=0.9, aspect=30, pad=0.02)
    bar.set_label("TFLOP/s")
    bar.outline.set_visible(False)
    style.note(
        figure,
        tuning,
        f"m = n = k = {tuning.record['size']}",
        "in small: TM×TN",
        "frame: the winner",
        "–: none measured",
        stale=any(map(tuning.stale, kernels)),
        withheld=False,
    )
    return figure


def autotune_figure(inputs: Inputs) -> Figure:
    tuning = of(inputs)
    if tuning is None:
        raise UserError("autotune: no sweep over tiles to draw; snakemake --cores 1 tile_autotune makes one on a GPU")
    return draw(tuning)


def draw_ranked(tuning: Tuning) -> Figure:
    """Estimated cycles next to measured ones, a panel a kernel."""
    kernels = [kernel for kernel in tuning.record["kernels"] if len(tuning.ranked(kernel))]
    drawing, panels = plt.subplots(1, len(kernels), figsize=(style.WIDTH, 2.7), squeeze=False)
    for axes, kernel in zip(panels[0], kernels, strict=True):
        rows = tuning.ranked(kernel)
        first, rest = rows.head(FIRST), rows.iloc[FIRST:]
        best = rows.sort_values("tflops").iloc[-1]
        for part, colour, label in ((rest, style.BASELINE, "others"), (first, style.KERNEL, f"first {FIRST}")):
            axes.scatter(part["estimate"] / 1e6, part["cycles"] / 1e6, s=10, linewidth=0, color=colour, label=label)
        at = float(best["estimate"]) / 1e6, float(best["cycles"]) / 1e6
        axes.scatter(*at, s=45, facecolor="none", edgecolor=style.BAD, linewidth=1.2, label="the fastest", zorder=4)
        axes.axline((at[0], at[0]), slope=1, color=style.INK, linewidth=0.8)
        agreement = ranking(rows)
        axes.set_title(
            f"{tuning.label(kernel)}, rank correlation {agreement['spearman']:.2f}" if agreement else "", loc="left"
        )
        axes.set(xlabel="estimate, millions of cycles", ylabel="measured" if axes is panels[0][0] else "")
        axes.grid(axis="both")
    panels[0][0].legend(loc="lower right", handletextpad=0.2)
    style.note(
        drawing,
        tuning,
        f"m = n = k = {tuning.record['size']}",
        "line: as estimated",
        stale=any(map(tuning.stale, kernels)),
        withheld=False,
    )
    return drawing


def ranked_figure(inputs: Inputs) -> Figure:
    tuning = of(inputs)
    if tuning is None or tuning.estimates is None:
        raise UserError("tuning_ranked: no sweep, or no ranking of it; experiments.tuning.sweep makes both")
    return draw_ranked(tuning)
