"""What a dispatcher picks from: the share of cuBLAS of each of its kernels over sizes, and of the best over shapes.

Left: square problems. Right: rectangular ones, a mark for the fastest kernel of each.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.data import Measured, marked
from analysis.figures import style
from analysis.inputs import Inputs
from analysis.tables.dispatch import SHAPES, best


def draw(measured: Measured, rows: pd.DataFrame) -> Figure:
    """The figure. rows: of dispatch.csv, described, of one dispatcher."""
    rows = rows.assign(mark=marked(rows)).sort_values(["order", "n"])
    chosen = best(rows)
    squares = rows[(rows["m"] == rows["n"]) & (rows["n"] == rows["k"])]
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.WIDTH, 2.7), width_ratios=(1.4, 1), sharey=True)
    marks = list(dict.fromkeys(rows["mark"]))
    looks = dict(zip(marks, style.LINES, strict=False))
    for number, (mark, line) in enumerate(squares.groupby("mark", sort=False)):
        left.plot(line["n"], line["share"], color=looks[mark], marker=style.MARKERS[number], markersize=3, label=mark)
    left.set(xlabel="m = n = k", ylabel="share of cuBLAS", ylim=(0, None))
    left.grid(axis="both")
    rest = chosen[chosen["shape"] != "square"]
    sns.stripplot(
        rest,
        x="shape",
        y="share",
        order=SHAPES,
        hue="mark",
        hue_order=marks,
        palette=looks,
        size=4,
        alpha=0.8,
        legend=False,
        ax=right,
    )
    right.set(xlabel="rectangular, the fastest kernel of each", ylabel="")
    right.grid(axis="y")
    for axes in (left, right):
        axes.axhline(1, color=style.INK, linewidth=0.8, zorder=1)
    figure.legend(loc="outside upper center", ncols=len(marks), frameon=False)
    mean = float(np.exp(np.log(chosen.loc[chosen["shape"] == "square", "share"]).mean()))
    note = f"the fastest: {mean:.2f} of cuBLAS over the squares, geometric mean" if np.isfinite(mean) else ""
    style.note(figure, measured, note, stale=bool(rows["stale"].any()))
    return figure


def dispatch_figure(inputs: Inputs) -> Figure:
    rows = inputs.offered("dispatch", timed=True)
    return draw(inputs.measured(), rows[rows["dispatcher"] == rows["dispatcher"].iloc[0]])
