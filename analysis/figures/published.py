"""Kernels' fractions of cuBLAS as the worklogs publish them for their authors' GPUs, next to ours.

A diamond is published, a bar where a text gives two values; a dot is ours, interleaved. There is no
verdict: the GPUs differ.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results, records
from analysis.tables.published import published_table

# From the value of a published quantity, in percent, to a fraction of cuBLAS in percent: offset and
# sign
FRACTIONS = {
    "fraction": (0, 1),
    "share_of_cublas": (0, 1),
    "lead_over_cublas": (100, 1),
    "gap_to_cublas": (100, -1),
}


def fractions(results: Results) -> pd.DataFrame:
    """One row for each worklog, GPU and kernel: label, then low and high (published) and ours, in
    percent.
    """
    rows = published_table({results.name: results})
    rows = rows[rows["quantity"].isin(list(FRACTIONS))]
    offset = rows["quantity"].map(lambda name: FRACTIONS[name][0]).astype(float)
    sign = rows["quantity"].map(lambda name: FRACTIONS[name][1]).astype(float)
    rows = rows.assign(
        theirs=offset + sign * rows["value"].astype(float),
        mine=offset + sign * rows["ours"].astype(float),
    )
    grouped = rows.groupby(["worklog", "gpu", "variant"], sort=False)
    found = grouped.agg(
        low=("theirs", "min"), high=("theirs", "max"), ours=("mine", "first")
    ).reset_index()
    return found.merge(results.variants[["variant", "label", "order"]], on="variant").sort_values(
        "order", kind="stable"
    )


def draw_row(axes: Axes, row: Any, place: float, colour: str) -> None:
    """What is published, what is ours, and both in numbers."""
    low, high, ours = row.low, row.high, row.ours
    axes.plot(
        [min(low, ours), max(high, ours)], [place] * 2, color=style.PALE, linewidth=1.0, zorder=1
    )
    axes.plot(
        [low, high],
        [place] * 2,
        "D-",
        color=colour,
        markersize=4,
        markerfacecolor="white",
        linewidth=2,
    )
    axes.plot(ours, place, "o", color=style.INK, markersize=4.5)
    right: dict[str, Any] = {"va": "center", "ha": "right", "transform": axes.get_yaxis_transform()}
    theirs = f"{low:.0f}%" if low == high else f"{low:.0f} to {high:.0f}%"
    axes.text(1.16, place, theirs, color=style.darker(colour), **right)
    axes.text(1.25, place, "–" if pd.isna(ours) else f"{ours:.0f}%", **right)


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure, by worklog."""
    rows = fractions(results)
    if rows.empty:
        return style.empty(results, "Published fractions of cuBLAS", "No worklog publishes one.")
    colours = style.worklog_colours(results.variants)
    groups = [
        (str(key[0]), str(key[1]), part)
        for key, part in rows.groupby(["worklog", "gpu"], sort=False)
    ]
    groups = sorted(groups, key=lambda group: list(colours).index(group[0]))
    figure, axes = plt.subplots(figsize=(style.WIDE, 0.85 + style.ROW * (len(rows) + len(groups))))
    places, names, at = [], [], 0.0
    for worklog, gpu, part in groups:
        axes.text(
            -0.015,
            at,
            f"{worklog}, {gpu}",
            color=style.darker(colours[worklog]),
            fontweight="bold",
            ha="right",
            va="center",
            transform=axes.get_yaxis_transform(),
        )
        at += 1
        for row in records(part):
            draw_row(axes, row, at, colours[worklog])
            places.append(at)
            names.append(row.label)
            at += 1
    style.list_rows(axes, places, names)
    axes.set_ylim(at - 0.3, -0.7)
    axes.axvline(100, color=style.INK, linewidth=0.8)
    axes.set(xlim=(0, 1.04 * max(100.0, rows["high"].max())), xlabel="% of cuBLAS")
    axes.plot(
        [],
        [],
        "D",
        color=style.GREY,
        markersize=4,
        markerfacecolor="white",
        label="published, authors' GPU",
    )
    axes.plot(
        [], [], "o", color=style.INK, markersize=4.5, label=f"here, {results.model}, interleaved"
    )
    figure.legend(loc="outside upper left", ncols=2, handletextpad=0.1)
    style.describe(
        figure,
        "Published fractions of cuBLAS next to ours",
        "Diamonds are published, dots are measured here.",
    )
    style.provenance(
        figure,
        results,
        "published fractions are stated, or follow from the published times or TFLOP/s",
    )
    return figure
