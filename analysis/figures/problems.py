"""Shares of cuBLAS on problems of any shape: over the problem's size, and how many problems reach a share.

The left panel has a mark for each problem and kernel, at the cube root of mnk. The right one has a line for each
kernel: at a share, the part of the problems on which the kernel reaches it.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from analysis.data import Measured, marked
from analysis.figures import style
from analysis.figures.sizes import line_looks
from analysis.tables.problems import edge, summary, timings


def draw(measured: Measured, experiment: str) -> Figure:
    """The figure of one experiment: a row of panels for each regime and kind of data."""
    rows = timings(measured, [experiment])
    rows = rows[rows["kind"] != "baseline"]
    if rows.empty:
        return style.left_out(measured, f"Timings of {experiment}", measured.untimed(experiment))
    order = measured.variants.set_index("variant")["order"]
    rows = rows.assign(mark=marked(rows), edge=edge(rows), order=rows["variant"].map(order))
    looks = line_looks(rows)
    parts = list(rows.groupby(["regime", "data"], sort=False))
    figure, grid = plt.subplots(len(parts), 2, figsize=(style.WIDTH, 0.6 + 2.2 * len(parts)), squeeze=False)
    for (left, right), ((regime, data), part) in zip(grid, parts, strict=True):
        for mark, of_kernel in part.groupby("mark", sort=False):
            look = {key: value for key, value in looks[str(mark)].items() if key != "linestyle"}
            left.plot(of_kernel["edge"], of_kernel["share_percent"], linestyle="", markersize=3, label=mark, **look)
            shares = np.sort(of_kernel["share_percent"].to_numpy(float))
            reached = 100 * (1 - np.arange(len(shares)) / len(shares))
            right.step(shares, reached, where="pre", color=look["color"], linewidth=1.2)
        left.set(xscale="log", xlabel="cube root of mnk", ylabel=f"% of cuBLAS, {regime}, {data}", ylim=(0, None))
        left.set_xscale("log", base=2)
        right.set(xlabel="share of cuBLAS, %", ylabel="% of the problems that reach it", ylim=(0, 100))
        left.axhline(100, color=style.INK, linewidth=0.8, zorder=1)
        right.axvline(100, color=style.INK, linewidth=0.8, zorder=1)
        for axes in (left, right):
            axes.grid(axis="both")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=style.legend_columns(labels))
    means = [f"{one.label} {one.mean:.0f}% (least {one.least:.0f}%)" for one in summary(rows).itertuples()]
    count = len(rows[["m", "n", "k", "alpha", "beta"]].drop_duplicates())
    note = f"{count} problems; geometric mean: {', '.join(means)}"
    style.note(figure, measured, note, style.data_text(rows["data"]), stale=bool(rows["stale"].any()))
    return figure
