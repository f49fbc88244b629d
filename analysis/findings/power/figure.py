"""Power over work per clock of every fp32 timing: the limit is met before the peak."""

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


@of_finding("power")
def draw(measured: Measured, found: Statement) -> Figure:
    rows = pd.DataFrame(found.rows)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.7))
    limit = found.numbers["limit_w"]
    axes.axhline(limit, color=style.INK, linewidth=0.9)
    axes.annotate(f"power limit, {limit:.0f} W", (2, limit), (0, 2), textcoords="offset points", va="bottom")
    axes.axvline(100, color=style.INK, linewidth=0.9, linestyle="--")
    parts = (
        ("kernels", rows[(rows["kind"] != "baseline") & ~rows["capped"]], style.KERNEL, "o"),
        ("kernels, held by power", rows[(rows["kind"] != "baseline") & rows["capped"]], style.BAD, "D"),
        ("libraries", rows[rows["kind"] == "baseline"], "#777777", "x"),
    )
    for label, part, colour, marker in parts:
        look: dict[str, Any] = {"linewidth": 1.0 if marker == "x" else 0}
        axes.scatter(part["peak_percent"], part["power"], s=16, color=colour, marker=marker, label=label, **look)
    axes.set(xlabel="FLOP per clock, % of a loop of FMAs", ylabel="power, W", xlim=(0, 104), ylim=(0, 1.12 * limit))
    axes.grid(axis="both")
    axes.legend(loc="lower center", handletextpad=0.2)
    style.note(drawing, measured, f"fp32, n from {SIZE} on, uniform inputs")
    return drawing
