"""How the isolated fraction of cuBLAS, and the one per clock, differ from the interleaved one.

A dot is a row that five processes measured. The interleaved fraction is the headline everywhere;
the figure shows how much another definition would change it.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.figures import style
from analysis.results import Results

OTHERS = {"fraction_isolated": "isolated", "fraction_per_clock": "per clock"}


def differences(timings: pd.DataFrame) -> pd.DataFrame:
    """dtype, definition ("isolated", "per clock") and difference, in percent of the interleaved
    fraction.
    """
    rows = timings[timings["fraction_isolated"].notna() & (timings["kind"] != "baseline")]
    rows = rows.assign(
        **{name: 100 * (rows[column] / rows["fraction"] - 1) for column, name in OTHERS.items()}
    )
    return rows.melt("dtype", list(OTHERS.values()), "definition", "difference")


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure, for a column of the paper."""
    rows = differences(results.squares)
    if rows.empty:
        return style.empty(
            results, "Fractions of cuBLAS", "No row was measured in five processes.", style.COLUMN
        )
    dtypes = [name for name in style.DTYPES if name in set(rows["dtype"])]
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.1))
    colours = dict(zip(OTHERS.values(), (style.RED, style.BLUE), strict=True))
    of: dict[str, Any] = {"x": "difference", "y": "dtype", "order": dtypes, "hue": "definition"}
    of |= {"palette": colours, "hue_order": list(colours), "dodge": True, "ax": axes}
    for name, marker in zip(colours, "oD", strict=True):
        part = rows[rows["definition"] == name]
        sns.stripplot(part, **of, marker=marker, size=2.6, alpha=0.6, jitter=0.22)
    handles = [
        Line2D([], [], marker=marker, linestyle="", markersize=3.5, color=colour, label=name)
        for (name, colour), marker in zip(colours.items(), "oD", strict=True)
    ]
    look: dict[str, Any] = {"bbox_to_anchor": (0, 1), "handletextpad": 0.1}
    axes.legend(handles=handles, loc="lower left", ncols=2, **look)
    axes.axvline(0, color=style.INK, linewidth=0.8)
    limit = 1.05 * rows["difference"].abs().max()
    axes.set(xlim=(-limit, limit), xlabel="difference from the interleaved fraction, %", ylabel="")
    axes.grid(axis="x")
    # Write the median of each dtype and definition at the right.
    medians = rows["difference"].abs().groupby([rows["dtype"], rows["definition"]]).median()
    for y, dtype in enumerate(dtypes):
        for shift, (name, colour) in zip((-0.2, 0.2), colours.items(), strict=True):
            text = f"median {medians[dtype, name]:.2g}%"
            style.in_row(axes, 1.03, y + shift, text, ha="left", color=colour)
    title = "Isolated and per-clock fractions of cuBLAS, next to interleaved ones"
    description = "Each dot is a row measured in five processes; at zero, both definitions agree."
    fact = f"{len(rows) // 2} rows of five processes"
    return style.finish(figure, results, title, description, fact)
