"""Share of cuBLAS of each rung of the Hopper ladder, and what it does in a clock."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import BY_HEIGHT, of_finding, starred
from analysis.findings.sources import Statement
from analysis.statistics import SHARE


@of_finding("hopper")
def draw(measured: Measured, found: Statement) -> Figure:
    rows = found.rows
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.85 + BY_HEIGHT * len(rows)))
    for place, row in enumerate(rows):
        library: dict[str, Any] = {"color": style.BASELINE, "hatch": "////", "edgecolor": "white"}
        look = library if row["kind"] == "baseline" else {"color": style.KERNEL}
        share, low, high = (100 * row[name] for name in SHARE)
        axes.barh(place, share, 0.72, linewidth=0, **look)
        axes.plot([low, high], [place, place], color=style.INK, linewidth=1.2)
        right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7}
        axes.text(1.01, place, f"{row['flop_per_clock_sm']:.0f}", **right)
    axes.text(1.01, -1.0, "FLOP/clk/SM", ha="center", **right)
    axes.axvline(100, color=style.INK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), starred(measured, rows), fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.04 * max(100.0, 100 * max(row["share_of_baseline"] for row in rows)))
    axes.tick_params(axis="y", length=0, pad=1)
    axes.grid(axis="x")
    axes.set_xlabel("share of the fastest call of cuBLAS, %")
    style.note(drawing, measured, f"n = {found.numbers['n']}, unlocked clocks, uniform inputs")
    return drawing
