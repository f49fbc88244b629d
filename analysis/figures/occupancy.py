"""Theoretical and achieved occupancy of each rung, and the blocks that each resource of an SM would allow.

What each resource allows is as Nsight Compute has it for the launch that it watched. For shared memory that is what
fits into the part of the L1 cache that the driver set aside, often just enough for the blocks that registers allow:
shared memory is named as the limiter of a kernel only where it is so with all of the SM's, as resources.csv has it.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from analysis.data import Measured, current, fold_twins, metric_names, records, wide
from analysis.figures import style
from analysis.figures.counters import GAP, groups
from analysis.metrics import column

# Our key of the counter: name, look; where marks coincide the smaller ones stay in sight
LIMITS: dict[str, tuple[str, dict[str, Any]]] = {
    "blocks_by_registers": ("registers", {"color": "#0072B2", "marker": "o", "s": 32}),
    "blocks_by_shared": ("shared memory", {"color": "#D55E00", "marker": "s", "s": 12}),
    "blocks_by_warps": ("threads", {"color": "#009E73", "marker": "^", "s": 14}),
    "blocks_by_slots": ("block slots", {"color": "#777777", "marker": "|", "s": 32}),
}


def limits(counted: pd.DataFrame, resources: pd.DataFrame) -> pd.DataFrame:
    """A wide counters table with what bounds the occupancy, without dispatchers: they have no block of their own.

    Columns added: a column per key of LIMITS (blocks), blocks (the least of them), and limiter, the names of all that
    allow only so many, joined by " and ".
    """
    own = counted[counted["kind"] != "dispatcher"].reset_index(drop=True)
    by = pd.DataFrame({key: column(own, key) for key in LIMITS})
    least = by.min(axis=1)
    modelled = own["variant"].map(resources.set_index("variant")["limiter"])
    binds = by.eq(least, axis=0)
    binds["blocks_by_shared"] &= modelled.isna() | (modelled == "shared")
    names = [" and ".join(name for key, (name, _) in LIMITS.items() if row[key]) for _, row in binds.iterrows()]
    return own.assign(**by, blocks=least, limiter=names)


def draw_blocks(axes: Axes, rows: pd.DataFrame) -> None:
    """The blocks that each resource would allow; those of the limiter are framed, and named at the right."""
    for key, (name, look) in LIMITS.items():
        axes.scatter(rows[key], rows["y"], label=name, zorder=3, linewidth=1 if look["marker"] == "|" else 0, **look)
    frame: dict[str, Any] = {"facecolor": "none", "edgecolor": style.INK, "linewidth": 0.9}
    axes.scatter(rows["blocks"], rows["y"], s=80, zorder=2, **frame)
    for row in records(rows):
        axes.text(1.03, row.y, row.limiter, transform=axes.get_yaxis_transform(), va="center")
    axes.set(xscale="log", xlabel="blocks per SM that each would allow")
    ticks = [1, 2, 4, 8, 16, 32, 64, 128]
    axes.set_xlim(0.7, 1.4 * rows[list(LIMITS)].max().max())
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(axis="both")


def draw(measured: Measured, resources: pd.DataFrame) -> Figure:
    """The figure: fp32 kernels, kernels on tensor cores, libraries."""
    counters, outdated = current(measured.counters)
    counted, twins = fold_twins(wide(counters, metric_names()))
    if "theoretical_occupancy" not in counted or not any(key in counted for key in LIMITS):
        return style.left_out(measured, "Occupancy", measured.reason("profile"))
    rows = limits(pd.concat(groups(counted), ignore_index=True), resources)
    group = rows["library"].astype(int) * 2 + rows["tensor"].astype(int)
    rows = rows.assign(y=rows.index + GAP * (group != group.shift()).cumsum().sub(1))
    figure, (share, blocks) = plt.subplots(
        1, 2, figsize=(style.WIDTH, 1.0 + 0.175 * len(rows)), sharey=True, gridspec_kw={"width_ratios": [1, 1.15]}
    )
    kernels = rows["kind"] != "baseline"
    for part, look in (
        (rows[kernels], {"color": style.KERNEL}),
        (rows[~kernels], {"color": style.BASELINE, "hatch": "////", "edgecolor": "white"}),
    ):
        share.barh(part["y"], part["theoretical_occupancy"], height=0.72, linewidth=0, **look)
    share.scatter(column(rows, "achieved_occupancy"), rows["y"], marker="D", s=13, color=style.LINES[4], zorder=3,
        edgecolor=style.INK, linewidth=0.5, label="achieved")  # fmt: skip
    for row in records(rows):
        x = max(row.theoretical_occupancy, getattr(row, "achieved_occupancy", 0))
        share.annotate(f"{row.theoretical_occupancy:.1f}", (x, row.y), (5, 0), textcoords="offset points", va="center")
    share.set(xlim=(0, 118), xlabel="occupancy, %")
    draw_blocks(blocks, rows)
    blocks.annotate("limiter", (1.03, 1), (0, 2), "axes fraction", textcoords="offset points", weight="bold")
    for axes in (share, blocks):
        axes.tick_params(axis="y", length=0)
    share.grid(axis="x")
    sizes = sorted(rows["n"].unique())
    labels = rows["label"] + (" n=" + rows["n"].astype(str) if len(sizes) > 1 else "")
    share.set_yticks(rows["y"], labels)
    share.set_ylim(rows["y"].max() + 0.6, -0.6)
    figure.legend(loc="outside upper center", ncols=5, handletextpad=0.2, columnspacing=1.4)
    style.note(
        figure,
        measured,
        "" if len(sizes) > 1 else f"m = n = k = {sizes[0]}",
        "ncu with clocks not locked",
        "bar: theoretical occupancy",
        "ring: the fewest blocks; shared memory: of what the driver set aside for the launch",
        twins,
        outdated=outdated,
    )
    return figure
