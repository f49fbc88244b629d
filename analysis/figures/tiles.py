"""The sweep over tile sizes: TFLOP/s of the best configuration for each block tile, a panel for
each kernel and BK.

A cell holds the TFLOP/s of the best thread tile and that thread tile; a frame marks the winner of
the whole sweep.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.estimates import number
from analysis.figures import style
from analysis.results import Results, records

COLOURS = "cividis"  # even in lightness


def best(results: Results) -> pd.DataFrame:
    """The fastest checked configuration for each kernel, BM, BN and BK, with TM, TN and tflops.

    A sweep over one kernel at a smaller size is left out.
    """
    rows = results.raw("tuning")
    if rows.empty:
        return rows
    rows = rows[rows["tflops"].notna() & rows["checked"].eq(True)]
    rows = rows[rows["size"].eq(rows["size"].max())].sort_values(
        "tflops", ascending=False, kind="stable"
    )
    return rows.drop_duplicates(["kernel", "BM", "BN", "BK"])


def draw_panel(
    axes: Axes, rows: pd.DataFrame, down: list[int], across: list[int], norm: Normalize
) -> None:
    """The configurations of one kernel and BK: BM downward, BN to the right."""
    values = rows.pivot(index="BM", columns="BN", values="tflops").astype(float)
    values = values.reindex(index=down, columns=across)
    axes.pcolormesh(values.to_numpy(), cmap=COLOURS, norm=norm, edgecolor="white", linewidth=0.6)
    axes.set_xticks([i + 0.5 for i in range(len(across))], map(str, across))
    axes.set_yticks([i + 0.5 for i in range(len(down))], map(str, down))
    axes.set_ylim(len(down), 0)
    axes.spines[:].set_visible(False)
    for row in records(rows):
        ink = "white" if norm(float(row.tflops)) < 0.55 else style.INK
        words = f"{number(row.tflops)}\n{row.TM}×{row.TN}"
        x, y = across.index(row.BN), down.index(row.BM)
        axes.text(x + 0.5, y + 0.52, words, ha="center", va="center", color=ink)
        if row.winner:
            look: dict[str, Any] = {"fill": False, "edgecolor": style.RED, "linewidth": 2}
            axes.add_patch(Rectangle((x, y), 1, 1, clip_on=False, zorder=5, **look))
    axes.tick_params(length=0)


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure of one sweep."""
    rows = best(results)
    if rows.empty:
        return style.empty(results, "The sweep over tiles")
    rows = rows.assign(winner=rows.groupby("kernel")["tflops"].transform("max") == rows["tflops"])
    kernels, steps = sorted(set(rows["kernel"])), sorted(rows["BK"].unique())
    down, across = sorted(rows["BM"].unique()), sorted(rows["BN"].unique())
    norm = Normalize(float(rows["tflops"].min()), float(rows["tflops"].max()))
    height = 0.5 + len(kernels) * (0.35 + 0.3 * len(down))
    shape, inches = (len(kernels), len(steps)), (style.WIDE, height)
    figure, grid = plt.subplots(*shape, figsize=inches, squeeze=False)
    for line, kernel in zip(grid, kernels, strict=True):
        for axes, bk in zip(line, steps, strict=True):
            part = rows[(rows["kernel"] == kernel) & (rows["BK"] == bk)]
            draw_panel(axes, part, down, across, norm)
            axes.set_title(f"{kernel.removeprefix('sgemm_')}, BK = {bk}")
        line[0].set_ylabel("BM")
    for axes in grid[-1]:
        axes.set_xlabel("BN")
    title = "TFLOP/s of the best configuration for each tile"
    size = int(rows["size"].iloc[0])
    description = "A cell for each BM and BN; the frame marks the fastest of a kernel."
    facts = (f"n = {size}", "in a cell: TFLOP/s and thread tile TM×TN; frame: fastest")
    return style.finish(figure, results, title, description, *facts)
