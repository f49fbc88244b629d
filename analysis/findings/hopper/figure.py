"""Share of cuBLAS of each rung of the Hopper ladder, and what it does in a clock."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.figures.paper_ladder import share_bar
from analysis.findings.drawing import of_finding, starred
from analysis.findings.sources import Statement


@of_finding("hopper")
def draw(measured: Measured, found: Statement) -> Figure:
    rows = found.rows
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.85 + style.ROW * len(rows)))
    for place, row in enumerate(rows):
        share_bar(axes, place, row)
        right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7}
        axes.text(1.01, place, f"{row['flop_per_clock_sm']:.0f}", **right)
    axes.text(1.01, -1.0, "FLOP/clk/SM", ha="center", **right)
    axes.axvline(100, color=style.INK, linewidth=0.8)
    style.name_rows(axes, range(len(rows)), starred(measured, rows), margin=0.6, small=True)
    axes.set_xlim(0, 1.04 * max(100.0, 100 * max(row["share_of_baseline"] for row in rows)))
    axes.set_xlabel("share of the fastest call of cuBLAS, %")
    style.note(drawing, measured, f"n = {found.numbers['n']}, unlocked clocks, uniform inputs")
    return drawing
