"""Published against measured shares, a mark a rung; the diagonal is where a rung carries over."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import of_finding
from analysis.findings.sources import Statement
from analysis.quantities.machine import SIZE


@of_finding("ladders")
def draw(measured: Measured, found: Statement) -> Figure:
    rows = pd.DataFrame(found.rows)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 3.1))
    top = 112.0
    axes.plot([0, top], [0, top], color=style.INK, linewidth=0.8, zorder=1)
    axes.annotate("as published", (46, 47), ha="right", va="bottom")
    looks: dict[bool, dict[str, Any]] = {
        False: {"color": style.KERNEL, "marker": "o", "label": "fp32"},
        True: {"color": style.BAD, "marker": "D", "label": "16-bit inputs"},
    }
    for tensor, part in rows.groupby("tensor"):
        theirs, here = 100 * part["theirs"], 100 * part["here"]
        wide = [theirs - 100 * part["theirs_low"], 100 * part["theirs_high"] - theirs]
        look = looks[bool(tensor)]
        axes.errorbar(theirs, here, xerr=wide, fmt="none", color=look["color"], linewidth=0.9, zorder=2)
        axes.scatter(theirs, here, s=22, linewidth=0, zorder=3, **look)
    rate = found.numbers["mma_of_wgmma_percent"]
    if rate is not None:
        axes.axhline(rate, color=style.BAD, linewidth=0.9, linestyle="--")
        above: dict[str, Any] = {"textcoords": "offset points", "va": "bottom", "color": style.BAD}
        axes.annotate(f"mma.sync: {rate:.0f}%", (1, rate), (0, 2), **above)
    axes.set(xlim=(0, top), ylim=(0, top), xlabel="share of cuBLAS as published, %", ylabel="share of cuBLAS here, %")
    axes.set_aspect("equal")
    axes.grid(axis="both")
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, handletextpad=0.2)
    style.note(drawing, measured, f"here: n = {SIZE}, unlocked clocks")
    return drawing
