"""Each step of the ladders: how many times as fast it made the kernel, and what became of the
counter it was meant to move.

Steps are in the order of the ladders. The colour says whether the counters moved as the worklog's
idea says.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.counters import COUNTERS, STALLS
from analysis.figures import style
from analysis.results import Results, records
from analysis.tables.steps import steps_table

OUTCOMES = {
    "as meant": style.BLUE,
    "in part": style.ORANGE,
    "hardly": style.GREY,
    "the other way": style.RED,
    "unknown": style.PALE,
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
    found = []
    for _, group in rows.groupby(["variant", "over"], sort=False):
        words = [
            f"{counter_name(row.counter)} {change(row.before, row.after)}".strip()
            for row in records(group)
        ]
        step = group.iloc[0].to_dict() | {
            "outcome": outcome(list(group["moved"])),
            "words": "; ".join(words),
        }
        found.append(step)
    return pd.DataFrame(found)


def draw_step(axes: Axes, row: Any, place: float) -> None:
    """The speedup of a step with its interval, or an arrow at the end of the axis."""
    inside = LOW <= row.speedup <= HIGH
    axes.plot(
        [max(row.speedup_low, LOW), row.speedup_high], [place] * 2, color=style.INK, linewidth=0.9
    )
    marker = "o" if inside else "<" if row.speedup < LOW else ">"
    axes.plot(
        min(max(row.speedup, LOW), HIGH),
        place,
        marker,
        color=OUTCOMES[row.outcome],
        markersize=4.5,
        clip_on=False,
    )


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure, as high as a page."""
    rows = steps_table(results)
    rows = rows[rows["speedup"].notna()]
    if rows.empty:
        return style.empty(results, "Steps of the ladders")
    steps = by_step(rows)
    colours = style.worklog_colours(results.variants)
    places, names, at = [], [], 0.0
    figure, (axes, text) = plt.subplots(
        1,
        2,
        figsize=(style.WIDE, 0.7 + 0.14 * (len(steps) + 6)),
        sharey=True,
        width_ratios=(1, 1.75),
    )
    for worklog, group in steps.groupby("worklog", sort=False):
        axes.text(
            -0.02,
            at,
            str(worklog),
            color=style.darker(colours[str(worklog)]),
            fontweight="bold",
            ha="right",
            va="center",
            transform=axes.get_yaxis_transform(),
        )
        at += 1
        for row in records(group):
            draw_step(axes, row, at)
            text.text(0.0, at, style.times(row.speedup), va="center")
            text.text(0.14, at, row.words, va="center", color=style.darker(OUTCOMES[row.outcome]))
            places.append(at)
            names.append(row.label)
            at += 1
    axes.set_xscale("log")
    ticks = [1, 2, 4, 8]
    axes.set_xlim(LOW, HIGH)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1, color=style.INK, linewidth=0.8)
    style.list_rows(axes, places, names)
    axes.set_ylim(at - 0.3, -0.6)
    axes.set_xlabel("times as fast as the kernel before")
    text.set_axis_off()
    text.set_xlim(0, 1)
    text.set_title("counters that were meant to move")
    handles = [
        Line2D([], [], marker="o", linestyle="", markersize=4.5, color=colour, label=word)
        for word, colour in OUTCOMES.items()
        if word in set(steps["outcome"])
    ]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=len(handles),
        handletextpad=0.1,
        title="counters moved",
        alignment="left",
        title_fontsize=style.SMALL,
    )
    style.describe(
        figure,
        "Steps of the ladders: speedup and counters",
        "A dot for each step, coloured by its counters.",
    )
    style.provenance(figure, results, "n = 4096, interleaved")
    return figure
