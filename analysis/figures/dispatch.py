"""What dispatchers pick: the share of cuBLAS on each problem of their sweep, over the time that cuBLAS takes for it.

A panel for each dispatcher. A problem that the fit has not seen has the kernel that was picked, in colour; a problem of
the fit has the fastest kernel, in grey. Of a sweep that held nothing out, the fastest of each problem is in colour.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.data import DAGGER, Measured
from analysis.figures import style
from analysis.inputs import Inputs
from analysis.tables.dispatch import SHAPES, best, of_kernels

LOOKS = {
    shape: {"color": style.LINES[number], "marker": style.MARKERS[number]}
    for number, shape in enumerate(["square", *SHAPES])
}
SEEN = "of the fit"


def draw(measured: Measured, rows: pd.DataFrame) -> Figure:
    """The figure. rows: of dispatch.csv, described."""
    names = list(dict.fromkeys(rows["dispatcher"]))
    figure, grid = plt.subplots(1, len(names), figsize=(style.WIDTH, 2.9), sharey=True, squeeze=False)
    for name, axes in zip(names, grid.flat, strict=True):
        own = rows[rows["dispatcher"] == name]
        shown = fastest = best(own)
        if own["picked"].eq(True).any():
            shown = of_kernels(own[own["picked"].eq(True)])
            rest = fastest[~fastest["held_out"].eq(True)]
            axes.scatter(rest["library_us"], rest["share"], s=5, linewidth=0, color=style.BASELINE, label=SEEN)
        for shape, of_shape in shown.groupby("shape", sort=False):
            axes.scatter(of_shape["library_us"], of_shape["share"], s=11, linewidth=0, label=shape, **LOOKS[str(shape)])
        axes.axhline(1, color=style.INK, linewidth=0.8, zorder=1)
        axes.set(xscale="log", xlabel="time of cuBLAS, µs")
        axes.grid(axis="y")
        dagger = f" {DAGGER}" if own["stale"].any() else ""
        mean = np.exp(np.log(shown["share"].astype(float)).mean())
        axes.set_title(f"{name}{dagger}: {mean:.2f}", loc="left")
    grid[0, 0].set_ylabel("share of cuBLAS")
    found = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    order = [label for label in (*LOOKS, SEEN) if label in found]
    figure.legend([found[label] for label in order], order, loc="outside upper center", ncols=len(order), frameon=False)
    what = "in colour: the kernel picked for a problem that the fit has not seen; of the fit: the fastest one"
    if not rows["picked"].eq(True).any():
        what = "the fastest kernel of each problem"
    facts = f"{what}; above: the geometric mean of those in colour"
    style.note(figure, measured, facts, stale=bool(rows["stale"].any()))
    return figure


def dispatch_figure(inputs: Inputs) -> Figure:
    return draw(inputs.measured(), inputs.offered("dispatch", timed=True))
