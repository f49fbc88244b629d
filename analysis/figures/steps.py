"""Each step of the ladders: how many times as fast it made the kernel, and what became of the
counter it was meant to move.

Steps are in the order of the ladders. Colour and shape say whether the counters moved as the worklog's
idea says.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import ladders
from analysis.counters import COUNTERS, STALLS
from analysis.figures import style
from analysis.results import Results, records
from analysis.tables.steps import steps_table

# A colour and a marker for what came of the counters of a step
OUTCOMES = {
    "as meant": (style.BLUE, "o"),
    "in part": (style.ORANGE, "D"),
    "hardly": (style.GREY, "s"),
    "the other way": (style.RED, "X"),
    "unknown": (style.PALE, "."),
}


def outcome(moved: list[str]) -> str:
    """What came of all counters of a step in one word of `OUTCOMES`."""
    known = {word for word in moved if word}
    if len(known) > 1:
        return "in part"
    return known.pop() if known else "unknown"


LOW, HIGH = 0.75, 14.0  # ends of the axis; a step beyond it is drawn as an arrow at the end


def counter_name(key: str) -> str:
    """A counter, or a column of resources.csv, in a few words."""
    counter = COUNTERS.get(key)
    if counter in STALLS:
        return f"stall: {counter.label}"
    return counter.short if counter else key.replace("_", " ")


def change(before: float, after: float) -> str:
    """How a counter changed: "-85%", "×3.4", "from 0"."""
    if pd.isna(before) or pd.isna(after):
        return ""
    if before == 0:
        return "none before" if after else "none"
    ratio = after / before
    if abs(ratio - 1) < 0.005:
        return "unchanged"
    return style.times(ratio) if ratio > 2 else f"{100 * (ratio - 1):+.0f}%".replace("-", "−")


def by_step(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each step: the columns of steps.csv, its outcome, and words on its counters."""
    steps = []
    for _, group in rows.groupby(["variant", "over"], sort=False):
        words = [
            f"{counter_name(row.counter)} {change(row.before, row.after)}".strip()
            for row in records(group)
        ]
        whole = {"outcome": outcome(list(group["moved"])), "words": "; ".join(words)}
        steps.append(group.iloc[0].to_dict() | whole)
    return pd.DataFrame(steps)


def draw_step(axes: Axes, row: Any, y: float) -> None:
    """Draw the speedup of a step with its interval, or an arrow at the end of the axis."""
    ends = [max(row.speedup_low, LOW), row.speedup_high]
    axes.plot(ends, [y, y], color=style.INK, linewidth=0.9)
    x = min(max(row.speedup, LOW), HIGH)
    colour, marker = OUTCOMES[row.outcome]
    if x != row.speedup:
        marker = "<" if x == LOW else ">"
    axes.plot(x, y, marker, color=colour, markersize=4.5, clip_on=False)


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure, as high as a page."""
    rows = steps_table(results)
    rows = rows[rows["speedup"].notna()]
    if rows.empty:
        return style.empty(results, "Steps of the ladders")
    steps = by_step(rows)
    colours, titles = ladders.colours(results.variants), ladders.titles()
    labels: dict[float, str] = {}
    y, size = 0.0, (style.WIDE, 0.7 + 0.13 * (len(steps) + 6))
    figure, (axes, text) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=(1, 1.75))
    # Each worklog has a heading, and each of its steps a row.
    for worklog, group in steps.groupby("worklog", sort=False):
        name, colour = titles[str(worklog)], style.darker(colours[str(worklog)])
        style.in_row(axes, -0.02, y, name, color=colour, fontweight="bold", ha="right")
        y += 1
        for row in records(group):
            draw_step(axes, row, y)
            text.text(0.0, y, style.times(row.speedup), va="center")
            text.text(0.14, y, row.words, va="center", color=style.darker(OUTCOMES[row.outcome][0]))
            labels[y] = row.label
            y += 1
    # The axis is of factors, so that halves and doubles lie alike.
    axes.set_xscale("log")
    ticks = [1, 2, 4, 8]
    axes.set_xlim(LOW, HIGH)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1, color=style.INK, linewidth=0.8)
    style.list_rows(axes, labels, list(labels.values()))
    axes.set_ylim(y - 0.3, -0.6)
    axes.set_xlabel("times as fast as the kernel before")
    text.set_axis_off()
    text.set_xlim(0, 1)
    text.set_title("counters that were meant to move")
    handles = [
        Line2D([], [], marker=marker, linestyle="", markersize=4.5, color=colour, label=word)
        for word, (colour, marker) in OUTCOMES.items()
        if word in set(steps["outcome"])
    ]
    look: dict[str, Any] = {"title": "counters moved", "title_fontsize": style.SMALL}
    look |= {"loc": "outside upper left", "alignment": "left", "handletextpad": 0.1}
    figure.legend(handles=handles, ncols=len(handles), **look)
    title = "Steps of the ladders: speedup and counters"
    description = "A mark for each step, by what its counters did."
    fact = "n = 4096, interleaved"
    return style.finish(figure, results, title, description, fact)
