"""The share of cuBLAS of the fastest kernel of each problem, over its size."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import of_finding
from analysis.findings.sources import Statement
from analysis.tables.dispatch import SHAPES


@of_finding("fma")
def draw(measured: Measured, found: Statement) -> Figure:
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.5))
    for number, shape in enumerate(("square", *SHAPES)):
        rows = [row for row in found.rows if row["shape"] == shape]
        if not rows:
            continue
        sizes = [(row["m"] * row["n"] * row["k"]) ** (1 / 3) for row in rows]
        shares = [row["share"] for row in rows]
        look: dict[str, Any] = {"color": style.LINES[number], "marker": style.MARKERS[number]}
        axes.scatter(sizes, shares, s=13, linewidth=0, label=shape, **look)
    axes.axhline(1, color=style.INK, linewidth=0.9)
    axes.set(xlabel="cube root of m·n·k", ylabel="share of cuBLAS", ylim=(0, None))
    axes.grid(axis="y")
    axes.legend(loc="lower right", handletextpad=0.1, borderpad=0.2)
    style.note(drawing, measured, "fp32 without tensor cores; the fastest kernel of each problem", withheld=False)
    return drawing
