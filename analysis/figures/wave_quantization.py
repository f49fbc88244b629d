"""Waves of blocks, and how evenly they load the SMs: as computed beforehand, and as measured.

A mark is the busiest or the idlest SM's active cycles over the mean of all SMs: open as computed from the number of
blocks, filled as Nsight Compute measured it. The model: all blocks take alike long, and each goes to the SM that has
had fewest. Then the busiest SM gets ceil(blocks / SMs) of them and the idlest floor(blocks / SMs), while the mean is
blocks / SMs. For worklog 002's load imbalance, 1024 blocks on 84 SMs, this gives 13 / 12.19, 6.6% over the mean; the
worklog measured 6.4%.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.data import Measured, fold_twins, marked, metric_names, records, wide
from analysis.figures import style
from analysis.tables.wave_quantization import load_balance

BEYOND = 50  # percent: what a grid of fewer blocks than SMs makes is written in words, or it would squeeze all others
COLUMNS = (32, 64)  # right of the axes, in points: where waves and empty places end
ENDS = {"busiest": ("sm_cycles_most", style.BAD, ">"), "idlest": ("sm_cycles_least", style.KERNEL, "<")}


def draw(measured: Measured, resources: pd.DataFrame) -> Figure:
    """The figure: a row per variant, libraries without computed marks."""
    kept, twins = fold_twins(wide(measured.counters, metric_names()))
    rows = load_balance(measured, resources).merge(kept[["variant", "n"]], on=["variant", "n"])
    rows = rows[rows["measured_busiest_percent"].notna()].reset_index(drop=True)
    if rows.empty:
        return style.left_out(measured, "Waves and load balance", measured.reason("profile"))
    sizes = sorted(rows["n"].unique())
    labels = marked(rows) + (" n=" + rows["n"].astype(str) if len(sizes) > 1 else "")
    figure, axes = plt.subplots(figsize=(style.WIDTH, 1.25 + 0.18 * len(rows)))
    for name, (_, colour, marker) in ENDS.items():
        computed, seen = (
            rows[key].where(rows[key].abs() <= BEYOND) for key in (f"{name}_percent", f"measured_{name}_percent")
        )
        axes.scatter(seen, rows.index, s=16, color=colour, marker=marker, label=f"{name} SM, measured", zorder=3)
        look: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "linewidth": 0.9}
        axes.scatter(computed, rows.index, s=62, label=f"{name} SM, computed", zorder=2, **look)
    axes.axvline(0, color=style.INK, linewidth=0.9, zorder=1)
    beyond: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "ha": "right"}
    for row in records(rows):
        if max(row.measured_busiest_percent, -row.measured_idlest_percent) > BEYOND:
            box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            text = f"{row.measured_idlest_percent:.0f}% and {row.measured_busiest_percent:+.0f}%, beyond the axis ▶"
            text = text.replace("-", "−")
            place = axes.get_yaxis_transform()
            axes.text(0.99, row.Index, text, transform=place, ha="right", va="center", bbox=box, zorder=4)
        waves = row.measured_waves if pd.isna(row.waves) else row.waves
        empty = "" if pd.isna(row.waves) else f"{row.last_wave_empty_percent:.0f}%"
        for x, text in zip(COLUMNS, (f"{waves:.2f}", empty), strict=True):
            axes.annotate(text, (1, row.Index), (x, 0), va="center", **beyond)
    for x, text in zip(COLUMNS, ("waves", "empty"), strict=True):
        axes.annotate(text, (1, -0.9), (x, 0), va="bottom", weight="bold", **beyond)
    style.name_rows(axes, rows.index, labels, grid="both", margin=0.65)
    axes.set_xlabel("active cycles of an SM over the mean of all, %")
    figure.legend(loc="outside upper center", ncols=4, handletextpad=0.2, columnspacing=1.2)
    style.note(
        figure,
        measured,
        "" if len(sizes) > 1 else f"m = n = k = {sizes[0]}",
        "empty: share of the last wave's places that no block takes; of libraries and dispatchers only what ncu saw",
        twins,
        stale=rows["stale"].any(),
    )
    return figure
