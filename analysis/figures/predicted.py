"""Counters that the emulator predicts, next to those that the hardware counted: a mark per kernel and counter.

The mark's place is the relative difference; bank conflicts are compared as a share of the wavefronts that they are
among, since a count near zero has no useful relative difference. A kernel whose source changed since it was measured is
left out.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.tables.predicted import differences, names
from contracts.dtypes import dtypes

EXACT = 1e-6  # the tables hold nine digits
LEFT = 1e-4  # percent: where exact marks stand
NAMED = 0.05  # percent: from here on the kernel that is farthest off is named
SIXTEEN_BITS = {name: "16-bit" for name, dtype in dtypes().items() if dtype.bytes == 2}


def draw(measured: Measured, predictions: pd.DataFrame) -> Figure:
    """The figure: a row per counter, exact predictions at its left edge; the kernel farthest off is named."""
    rows = differences(measured.counters, predictions)
    if rows.empty:
        return style.left_out(measured, "Predicted against measured counters", measured.reason("profile"))
    labels = {name: label for name, label in names().items() if name in set(rows["metric"])}
    places = {name: place for place, name in enumerate(labels)}
    size = rows["difference_percent"].abs()
    exact = size <= 100 * EXACT
    figure, axes = plt.subplots(figsize=(style.WIDTH, 1.0 + 0.2 * len(labels)))
    kinds = rows["variant"].map(measured.variants.set_index("variant")["dtype"]).replace(SIXTEEN_BITS)
    rows = rows.assign(x=size.where(~exact, LEFT).clip(lower=LEFT), y=rows["metric"].map(places), of=kinds)
    number = rows["of"].map({kind: place for place, kind in enumerate(rows["of"].unique())})
    shown = rows.assign(y=rows["y"] + 0.3 * (number - (kinds.nunique() - 1) / 2), kernels=rows["of"] + " kernels")
    look: dict[str, Any] = {"hue": "kernels", "style": "kernels", "palette": style.LINES[: kinds.nunique()]}
    markers = style.MARKERS[: kinds.nunique()]
    sns.scatterplot(shown, x="x", y="y", **look, markers=markers, s=16, linewidth=0, zorder=3, ax=axes)
    handles, texts = axes.get_legend_handles_labels()
    style.drop_legend(axes)
    for _, part in rows[rows["x"] > NAMED].groupby("metric"):
        worst = part.iloc[int(part["x"].argmax())]
        axes.text(1.3 * worst["x"], worst["y"], worst["label"], va="center", fontsize=7, color=style.INK)
    for name, hits in exact.groupby(rows["metric"]):
        text = f"{int(hits.sum())} of {len(hits)} exact"
        axes.text(1.01, places[str(name)], text, transform=axes.get_yaxis_transform(), va="center", color=style.INK)
    axes.set(xscale="log", xlim=(0.6 * LEFT, 3e6))  # room for names on the right
    axes.set_xticks([LEFT * 10**power for power in range(7)], minor=False)
    axes.set_xticks([], minor=True)
    style.name_rows(axes, places.values(), labels.values(), grid="both")
    axes.set_xlabel("difference, % of the measured count; exact at the left edge")
    axes.set_ylabel("")
    figure.legend(handles, texts, loc="outside upper center", ncols=kinds.nunique(), frameon=False, handletextpad=0.2)
    style.note(figure, measured, "predicted by ptxsim from the PTX of this tree", withheld=False)
    return figure
