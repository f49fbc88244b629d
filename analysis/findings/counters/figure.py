"""The speed-up of each step that moved its counters as meant, the slowest on top."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import of_finding, starred
from analysis.findings.sources import ALIKE, Statement
from analysis.quantities.machine import SIZE

MOST = 1.6  # times as fast: steps beyond it have an arrow and their number


@of_finding("counters")
def draw(measured: Measured, found: Statement) -> Figure:
    rows = sorted((row for row in found.rows if row["meant"]), key=lambda row: row["speedup"])
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.75 + style.ROW * len(rows)))
    low = min(0.95, *(row["speedup"] for row in rows)) - 0.03
    axes.axvspan(1 - ALIKE, 1 + ALIKE, color="#E4E4E4", linewidth=0, zorder=0)
    axes.axvline(1, color=style.INK, linewidth=0.8, zorder=1)
    for place, row in enumerate(rows):
        faster = row["speedup"] > 1 + ALIKE
        colour, marker = (style.KERNEL, "o") if faster else (style.BAD, "D")
        beyond = row["speedup"] > MOST
        end = MOST if beyond else row["speedup"]
        axes.plot([1, end], [place, place], color=colour, linewidth=1.2, zorder=2)
        axes.scatter(end, place, s=16, color=colour, marker=">" if beyond else marker, linewidth=0, zorder=3)
        if beyond:
            at: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 7, "color": colour}
            axes.annotate(f"{row['speedup']:.1f}", (end, place), (4, 0), **at)
    style.name_rows(axes, range(len(rows)), starred(measured, rows), margin=0.6, small=True)
    axes.set_xlim(low, MOST + 0.12)
    axes.set_xlabel("times as fast as before the step")
    style.note(drawing, measured, f"n = {SIZE}")
    return drawing
