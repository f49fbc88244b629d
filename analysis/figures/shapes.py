"""Dispatchers on problems that are not square: the fraction of cuBLAS that they reach, by shape and size.

A dot is a problem that played no part in choosing the rules of the dispatcher (held out). Its height is the
fraction of cuBLAS of the kernel that the dispatcher picks.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results

SHAPES = {"square": style.INK, "random": style.PALE, "tall": style.BLUE, "wide": style.GREEN, "deep": style.RED}


def picked(results: Results) -> pd.DataFrame:
    """Problems that were held out, with the fraction of the kernel that each dispatcher picks: dispatcher, m, n, k,
    shape, fraction, flop."""
    rows = results.raw("dispatch")
    if rows.empty:
        return rows
    rows = rows[rows["picked"].eq(True) & rows["held_out"].astype(bool)]
    flop = 2.0 * rows["m"] * rows["n"] * rows["k"]
    return rows.assign(flop=flop)[["dispatcher", "m", "n", "k", "shape", "fraction", "flop"]]


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure: a panel for each dispatcher."""
    rows = picked(results)
    if rows.empty:
        return style.empty(results, "Dispatchers on other shapes")
    names = list(dict.fromkeys(rows["dispatcher"]))
    figure, grid = plt.subplots(1, len(names), figsize=(style.WIDE, 2.6), sharey=True, squeeze=False)
    for axes, name in zip(grid.flat, names, strict=True):
        part = rows[rows["dispatcher"] == name]
        for shape, colour in SHAPES.items():
            own = part[part["shape"] == shape]
            axes.scatter(
                own["flop"] / 1e9, 100 * own["fraction"], s=9, color=colour, label=shape, linewidth=0, alpha=0.85
            )
        axes.axhline(100, color=style.INK, linewidth=0.8)
        mean = float(np.exp(np.log(part["fraction"]).mean()))
        ahead = int((part["fraction"] > 1).sum())
        axes.set_title(name)
        axes.text(0.98, 0.03, f"geometric mean {style.percent(mean)}\nfaster on {ahead} of {len(part)}", ha="right",
                  transform=axes.transAxes)  # fmt: skip
        axes.set(xscale="log", xlabel="GFLOP of the problem")
        axes.xaxis.set_major_formatter("{x:g}")  # exponents would be printed too small
        axes.grid(axis="both")
    grid[0][0].set_ylabel("% of cuBLAS")
    grid[0][0].set_ylim(bottom=100 * rows["fraction"].min() - 12)  # room for the words
    handles, labels = grid[0][0].get_legend_handles_labels()
    keep = [i for i, label in enumerate(labels) if label in set(rows["shape"])]
    figure.legend([handles[i] for i in keep], [labels[i] for i in keep], loc="outside upper right", ncols=5,
                  handletextpad=0.1, columnspacing=1.0)  # fmt: skip
    style.describe(
        figure, "Dispatchers on problems that are not square", "Fraction of cuBLAS over the size of the problem."
    )
    style.provenance(figure, results, "problems that the dispatcher's rules were not chosen on")
    return figure
