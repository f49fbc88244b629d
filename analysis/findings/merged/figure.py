"""Cycles of issue of a load of shared memory, by width: the median over loops, and the range."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import of_finding
from analysis.findings.sources import Statement


@of_finding("merged")
def draw(measured: Measured, found: Statement) -> Figure:
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.0))
    widths = sorted({row["bits"] for row in found.rows})
    for merged, colour in ((False, style.KERNEL), (True, style.BAD)):
        rows = [row for row in found.rows if row["merged"] == merged]
        places = [widths.index(row["bits"]) + (0.12 if merged else -0.12) for row in rows]
        values = [row["cycles"] for row in rows]
        ranges = [[row["cycles"] - row["least"] for row in rows], [row["most"] - row["cycles"] for row in rows]]
        label = "neighbours merged" if merged else "not merged"
        marker = "D" if merged else "o"
        axes.errorbar(places, values, ranges, fmt=marker, color=colour, markersize=4, linewidth=1.0, label=label)
    axes.set_xticks(range(len(widths)), [str(bits) for bits in widths])
    axes.set(xlabel="bits a lane", ylabel="issue cycles of a load", xlim=(-0.5, len(widths) - 0.5), ylim=(0, None))
    axes.grid(axis="y")
    axes.legend(loc="upper left", handletextpad=0.2)
    style.note(drawing, measured, "median and range over loops of FMAs, two warps a scheduler", withheld=False)
    return drawing
