"""Worst error of every check case as a share of its rounding bound; 1 is the bound, and beyond it the case fails.

A case with no finite error (a refusal that was wanted, or a result with NaN) has no dot, but is counted at the right.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.data import Measured, marked
from analysis.figures import style


def draw(measured: Measured) -> Figure:
    """The figure: a line of marks per variant, those of the GPU above those of the emulator."""
    rows = measured.checks
    if rows.empty:
        return style.left_out(measured, "Checks", measured.reason("check"))
    # One stale case makes the variant's line stale.
    rows = rows.assign(stale=rows.groupby("variant")["stale"].transform("any"))
    rows = rows.assign(mark=marked(rows), share=rows["worst_error_share"].astype(float))
    places = {label: place for place, label in enumerate(rows["mark"].drop_duplicates())}
    positive = rows.loc[rows["share"] > 0, "share"]
    lowest = min(0.01, 0.7 * positive.min()) if len(positive) else 0.01
    highest = 1.6 * max(1.2, positive.max()) if len(positive) else 2.0

    figure, axes = plt.subplots(figsize=(style.WIDTH, 0.8 + 0.2 * len(places)))
    axes.set(xscale="log", xlim=(lowest, highest))
    axes.axvline(1, color=style.BAD, linewidth=1.4)
    passed, emulated = rows["passed"].astype(bool), rows["device"] == "ptxsim"
    height = rows["mark"].map(places) + emulated.map({False: -0.17, True: 0.17}) * emulated.any()
    looks: list[tuple[pd.Series, dict[str, Any]]] = [
        (passed & ~emulated, {"color": style.KERNEL, "marker": "|", "label": "GPU"}),
        (passed & emulated, {"color": style.EMULATED, "marker": "|", "label": "emulator"}),
        (~passed, {"color": style.BAD, "marker": "X"}),
    ]
    for which, look in looks:
        if which.any():
            every: dict[str, Any] = {"s": 34, "linewidth": 1, "zorder": 3, "clip_on": False}
            axes.scatter(rows["share"][which].clip(lower=lowest), height[which], **every, **look)
    if emulated.any() and not emulated.all():
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderpad=0)
    for label, cases in rows.groupby("mark", sort=False):
        good = int(cases["passed"].astype(bool).sum())
        bad = len(cases) - good
        text = f"{bad} of {len(cases)} failed" if bad else f"{len(cases)} passed"
        axes.text(
            1.015,
            places[label],
            text,
            transform=axes.get_yaxis_transform(),
            va="center",
            color=style.BAD if bad else style.INK,
            weight="bold" if bad else "normal",
        )
    style.name_rows(axes, places.values(), places, grid="both")
    axes.set_xlabel("worst error as a share of its bound (the line at 1)")
    zero = "an error of zero stands at the left edge" if (rows["share"] == 0).any() else ""
    style.note(figure, measured, "one mark per case", zero, stale=rows["stale"].any(), withheld=False)
    return figure
