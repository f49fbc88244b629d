"""The least cycles that each resource needs, from counts alone, as a share of the cycles measured.

A row per kernel and a mark per resource; the mark furthest to the right is the bottleneck, and its distance from 100%
is what the kernel loses in addition. Hollow marks are estimates, by rules that are only models; the text below compares
them with all measurements. A kernel whose source changed since it was measured is left out."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.data import Measured, at_usual_size, records
from analysis.figures import style
from analysis.tables.bounds import ESTIMATES, RESOURCES, bottlenecks, broken, errors, shares, unmeasured


def draw(measured: Measured, bounds: pd.DataFrame) -> Figure:
    """The figure: a row per kernel, in the catalogue's order."""
    rows = at_usual_size(shares(measured.counters, bounds))
    if rows.empty:
        return style.left_out(measured, "Bounds next to measured cycles", measured.reason("profile"))
    several = rows["n"].nunique() > 1
    names = rows["label"] + (" n=" + rows["n"].astype(str) if several else "")
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    figure, axes = plt.subplots(figsize=(style.WIDTH, 1.35 + 0.21 * len(places)))
    height = names.map(places)
    tail = rows["resource"] == "tail"
    bound = (rows["kind"] == "bound") & ~tail
    named = rows[bound].assign(place=height[bound], resource=rows["resource"][bound].map(RESOURCES))
    looks = {label: number for number, label in enumerate(RESOURCES.values()) if label in set(named["resource"])}
    sns.scatterplot(
        named,
        x="percent",
        y="place",
        hue="resource",
        style="resource",
        hue_order=list(looks),
        style_order=list(looks),
        palette=[style.LINES[number % len(style.LINES)] for number in looks.values()],
        markers=[style.MARKERS[number] for number in looks.values()],
        s=24,
        linewidth=0,
        zorder=3,
        ax=axes,
    )
    style.drop_legend(axes)
    for number, (resource, label) in enumerate(ESTIMATES.items()):
        part = rows["resource"] == resource
        look: dict[str, Any] = {
            "facecolors": "none",
            "edgecolors": style.LINES[number],
            "marker": style.MARKERS[number],
        }
        axes.scatter(rows["percent"][part], height[part], s=30, label=f"estimate: {label}", zorder=3, **look)
    look = {"color": style.INK, "marker": "|", "linewidth": 1.3}
    axes.scatter(rows["percent"][tail], height[tail], s=130, label="largest, SM with the most blocks", zorder=2, **look)
    axes.axvline(100, color=style.INK, linewidth=1.0, zorder=1)
    largest = bottlenecks(rows)
    right = max(104.0, 1.02 * rows["percent"].max())
    for place, row in zip(names[largest.index].map(places), records(largest), strict=True):
        text = f"{RESOURCES[row.resource]} {row.percent:.0f}%"
        axes.text(1.01, place, text, transform=axes.get_yaxis_transform(), va="center", color=style.INK)
    axes.set_xlim(-1, right)
    style.name_rows(axes, places.values(), places, grid="both")
    axes.set_ylabel("")
    axes.set_xlabel("least cycles of each resource, % of the measured cycles")
    axes.set_title("bottleneck", loc="right", x=1.01, ha="left", fontsize=8)
    labels = axes.get_legend_handles_labels()[1]
    figure.legend(loc="outside upper center", ncols=style.legend_columns(labels) + 1, handletextpad=0.2)
    wrong = broken(rows[rows["kind"] == "bound"])
    left = unmeasured(measured.counters, bounds)
    left_out = f"{left} kernel{'s' if left > 1 else ''} without counters left out" if left else ""
    style.note(
        figure,
        measured,
        "" if several else f"m = n = k = {rows['n'].iloc[0]}",
        f"bounds by ptxsim from the code of this tree, rates of {' and '.join(sorted(set(bounds['machine'])))}",
        *errors(rows),
        f"faster than a bound: {', '.join(sorted(set(wrong['label'])))}" if len(wrong) else "",
        left_out,
        withheld=False,
    )
    return figure
