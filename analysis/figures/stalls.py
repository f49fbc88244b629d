"""Why warps wait, for each kernel of an experiment: parts of the cycles between two instructions of
a warp.

A bar has the length 100%; the number at its right is the cycles per issued instruction that it
stands for.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.counters import STALLS
from analysis.estimates import number
from analysis.figures import style
from analysis.figures.counters import counted, nothing
from analysis.figures.ladder import EXPERIMENT
from analysis.results import Results

READY = {"stall_selected": "issuing", "stall_not_selected": "ready, another warp issued"}
MAX_REASONS = 6  # Reasons with a colour of their own.
MIN_WIDTH = 12  # Percent of a bar: a wider part has room for its number.


def parts(rows: pd.DataFrame) -> pd.DataFrame:
    """Cycles per issued instruction, a column for each reason: issuing and ready, those that matter
    most, others.
    """
    labels = {stall.key: stall.label for stall in STALLS}
    keys = [key for key in labels if key in rows and key not in READY]
    cycles = rows[keys].astype(float).fillna(0.0)
    ready = rows[[key for key in READY if key in rows]].astype(float).fillna(0.0)
    total = cycles.sum(axis=1) + ready.sum(axis=1)
    largest = cycles.div(total, axis=0).max().sort_values(ascending=False).index[:MAX_REASONS]
    named = ready.rename(columns=READY).join(cycles[list(largest)].rename(columns=labels))
    return named.assign(other=cycles.drop(columns=list(largest)).sum(axis=1))


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure of one experiment, at n = 4096 where that was profiled."""
    asked = experiment or EXPERIMENT
    rows = counted(results, asked)
    if rows.empty or not {stall.key for stall in STALLS} & set(rows):
        return nothing(results, f"Stalls of {asked}", asked, experiment)
    cycles = parts(rows)
    total = cycles.sum(axis=1)
    figure, axes = plt.subplots(figsize=(style.WIDE, 1.0 + style.ROW * len(rows)))
    reasons = [style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.RED]
    colours = ["#DDDDDD", "#BBBBBB", *reasons, "#555555"]
    # Stack the reasons from left to right; wide parts have their number.
    left = pd.Series(0.0, index=rows.index)
    for (name, values), colour in zip(cycles.items(), colours, strict=False):
        width = 100 * values / total
        axes.barh(range(len(rows)), width, 0.8, left=left, color=colour, label=name, linewidth=0)
        dark = colour in (style.BLUE, style.GREEN, style.RED, "#555555")
        ink = "white" if dark else style.INK
        for y in range(len(rows)):
            if width[y] >= MIN_WIDTH and name not in READY.values():
                middle = left[y] + width[y] / 2
                axes.text(middle, y, f"{width[y]:.0f}%", ha="center", va="center", color=ink)
        left = left + width
    for y, value in enumerate(total):
        style.in_row(axes, 1.01, y, number(value))
    style.in_row(axes, 1.01, -1, "cycles")
    style.list_rows(axes, range(len(rows)), list(rows["label"]), margin=0.6)
    axes.set(xlim=(0, 100), xlabel="% of the cycles per issued instruction")
    figure.legend(loc="outside upper left", ncols=4, handlelength=1, columnspacing=1.2)
    title = f"Why warps wait: {asked}"
    description = "A bar for each kernel, divided by the reason for which its warps wait."
    fact = f"n = {rows['n'].iloc[0]}, Nsight Compute"
    return style.finish(figure, results, title, description, fact)
