"""Share of cuBLAS of each rung of the Hopper ladder, and what it does in a clock."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.figures.paper_ladder import share_bars
from analysis.findings.drawing import of_finding
from analysis.findings.sources import Statement


@of_finding("hopper")
def draw(measured: Measured, found: Statement) -> Figure:
    rows = found.rows
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.85 + style.ROW * len(rows)))
    share_bars(axes, rows, "FLOP/clk/SM", lambda row: f"{row['flop_per_clock_sm']:.0f}", ha="center")
    axes.set_xlabel("share of the fastest call of cuBLAS, %")
    style.note(drawing, measured, f"n = {found.numbers['n']}, unlocked clocks, uniform inputs")
    return drawing
