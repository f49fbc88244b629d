"""The paper's figure of the three shares of cuBLAS: Hopper's rungs in turns, alone and per clock."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured, current
from analysis.figures import style

LADDER, DTYPE, N = "hopper_ladder", "bf16", 8192
SHARES = {"share_in_turns": "in turns", "share_alone": "alone", "share_per_clock": "per clock"}


def draw(measured: Measured) -> Figure:
    """Each rung's shares in percent, one mark a share. A share that the archive lacks has no mark and no entry."""
    rows, _ = current(measured.bench)
    rows = rows[(rows["regime"] == "unlocked") & (rows["data"] == "uniform") & (rows["kind"] == "kernel")]
    rows = rows[(rows["experiment"] == LADDER) & (rows["dtype"] == DTYPE) & (rows["n"] == N)]
    rows = rows.sort_values("order", kind="stable")
    there = {name: words for name, words in SHARES.items() if rows[name].notna().any()}
    if len(there) < 2:
        why = f"{LADDER} has fewer than two kinds of shares at n = {N}."
        return style.left_out(measured, "Three shares of cuBLAS", why, width=style.COLUMN)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 1.1 + style.ROW * len(rows)))
    places = range(len(rows))
    shown = 100 * rows[list(there)].astype(float)
    axes.hlines(places, shown.min(axis=1), shown.max(axis=1), color=style.BASELINE, linewidth=2.5, zorder=1)
    for number, (name, words) in enumerate(there.items()):
        look: dict[str, Any] = {"color": style.LINES[number], "marker": style.MARKERS[number], "s": 16, "linewidth": 0}
        axes.scatter(shown[name], places, label=words, zorder=2 + number, **look)
    axes.axvline(100, color=style.INK, linewidth=0.8, zorder=0)
    style.name_rows(axes, places, rows["label"], margin=0.6, small=True)
    axes.set_xlabel("share of the fastest call of cuBLAS, %")
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=len(there), fontsize=7, frameon=False)
    style.note(drawing, measured, f"n = {N}, unlocked clocks, uniform inputs")
    return drawing
