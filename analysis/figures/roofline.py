"""Roofline: TFLOP/s against arithmetic intensity by DRAM bytes, below the ceilings measured on the same machine.

The intensity (FLOP/byte) is 2mnk over the DRAM bytes that ncu counted, the TFLOP/s is from the timed runs at that size.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data import Measured, fold_twins, marked, metric_names, one_row_each, wide
from analysis.figures import style
from analysis.metrics import column

CEILINGS = {"fp32_fma_tflops": "fp32 FMA", "bf16_mma_tflops": "16-bit mma.sync", "bf16_wgmma_tflops": "16-bit wgmma"}
LOOKS = {  # by whether it is a library and whether it runs on tensor cores
    (False, False): {"marker": "o", "color": style.KERNEL, "label": "fp32 kernels"},
    (False, True): {"marker": "^", "color": style.BAD, "label": "tensor-core kernels"},
    (True, False): {"marker": "o", "color": "white", "edgecolor": style.KERNEL, "label": "fp32 libraries"},
    (True, True): {"marker": "^", "color": "white", "edgecolor": style.BAD, "label": "tensor-core libraries"},
}
LEFT = 6.0  # FLOP/byte, where the axis starts
CHARACTER = 0.018  # of 8 points, in widths of the axes
GUTTER = 0.09  # between the axes and the names, in widths of the axes: there leaders fan out


def points(measured: Measured) -> tuple[pd.DataFrame, str]:
    """One row per variant and size with both counters and a timing: intensity (FLOP/byte), tflops, mark, stale.

    The text names libraries without a point, since they ran the function of another.
    """
    counted, twins = fold_twins(wide(measured.counters, metric_names()))
    counted = counted.assign(dram_bytes=column(counted, "dram_read") + column(counted, "dram_write"))
    timed = one_row_each(measured.bench)[["variant", "n", "m", "k", "tflops", "regime", "data", "stale"]]
    both = counted[counted["dram_bytes"] > 0].merge(timed, on=["variant", "n"], suffixes=("", "_timed"))
    both["stale"] = both["stale"].astype(bool) | both["stale_timed"].astype(bool)
    intensity = 2.0 * both["m"] * both["n"] * both["k"] / both["dram_bytes"]
    return both.assign(intensity=intensity, mark=marked(both)), twins


def draw_ceilings(axes: Axes, ceilings: dict[str, float], right: float, log_gap: float) -> None:
    """The slope of the memory, and a flat roof per kind of arithmetic, named left of its ridge or else above it."""
    bandwidth = ceilings["dram_copy_gb_per_s"] / 1e3  # TB/s, so that FLOP/byte times it is TFLOP/s
    roofs = {name: ceilings[key] for key, name in CEILINGS.items() if key in ceilings}
    top = max(roofs.values())
    axes.plot([LEFT, top / bandwidth], [LEFT * bandwidth, top], color=style.INK, linewidth=1.2)
    axes.text(
        1.2 * LEFT,
        1.25 * LEFT * bandwidth,
        f"DRAM copy, {bandwidth:.3g} TB/s",
        rotation=math.degrees(math.atan(1.25 * bandwidth)),  # in units of the data: along the line
        rotation_mode="anchor",
        transform_rotates_text=True,
        va="bottom",
    )
    heights = style.spread([np.log10(value) for value in roofs.values()], log_gap, *np.log10(axes.get_ylim()))
    for (name, value), height in zip(roofs.items(), heights, strict=True):
        ridge = value / bandwidth
        axes.plot([ridge, right], [value, value], color=style.INK, linewidth=1.2)
        text = f"{name}, {style.significant(value)} TFLOP/s"
        if np.log10(ridge / LEFT) > len(text) * CHARACTER * np.log10(right / LEFT):
            axes.plot([ridge / 1.25, ridge], [10**height, value], color=style.INK, linewidth=0.5)
            axes.text(ridge / 1.3, 10**height, text, ha="right", va="center")
        else:
            axes.text(1.4 * ridge, 1.04 * value, text, va="bottom")


def draw(measured: Measured) -> Figure:
    """The figure: every variant with counters and a timing at the same size."""
    rows, twins = points(measured)
    if rows.empty:
        return style.left_out(measured, "The roofline", measured.reason("profile") or measured.reason("bench"))
    figure, axes = plt.subplots(figsize=(style.WIDTH, max(3.7, 0.9 + 0.155 * len(rows))))
    left, right = LEFT, 1.6 * max(rows["intensity"].max(), 200.0)
    bottom = 0.5 * min(rows["tflops"].min(), 1.0)
    top = 1.6 * max(rows["tflops"].max(), *(measured.machine["ceilings"].get(key, 0) for key in CEILINGS))
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
    decades = np.log10(top / bottom)
    log_gap = decades * 0.15 / (figure.get_figheight() - 0.8)  # one line of text
    draw_ceilings(axes, measured.machine["ceilings"], right, log_gap)
    library = (rows["kind"] == "baseline").rename("library")
    for (of_library, tensor), group in rows.groupby([library, rows["tensor"]], sort=False):
        look: dict[str, Any] = {"s": 34, "linewidth": 0.9, "zorder": 3, "edgecolor": "white"} | LOOKS[
            bool(of_library), bool(tensor)
        ]
        axes.scatter(group["intensity"], group["tflops"], **look)
    several = rows["n"].nunique() > 1
    names = rows["mark"] + (" n=" + rows["n"].astype(str) if several else "")
    heights = style.spread(list(np.log10(rows["tflops"].astype(float))), log_gap, np.log10(bottom), np.log10(top))
    leader: dict[str, Any] = {"color": "#999999", "linewidth": 0.5, "zorder": 1, "clip_on": False}
    for name, x, y, height in zip(names, rows["intensity"], rows["tflops"], heights, strict=True):
        level, wanted = ((np.log10(value) - np.log10(bottom)) / decades for value in (y, 10**height))
        axes.plot([x, right], [y, y], **leader)  # level to the edge and only then apart: leaders do not cross
        axes.plot([1, 1 + GUTTER], [level, wanted], transform=axes.transAxes, **leader)
        axes.text(1.01 + GUTTER, wanted, name, transform=axes.transAxes, va="center")
    axes.set_xlabel("arithmetic intensity, FLOP per DRAM byte")
    axes.set_ylabel("TFLOP/s")
    axes.grid(which="major")
    figure.legend(loc="outside upper center", ncols=4, handletextpad=0.2)
    sizes = "" if several else f"m = n = k = {rows['n'].iloc[0]}"
    style.note(
        figure,
        measured,
        style.regime_text(rows["regime"]),
        sizes,
        style.data_text(rows["data"]),
        "ceilings measured",
        twins,
        stale=rows["stale"].any(),
    )
    return figure
