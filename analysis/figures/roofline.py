"""Rooflines, a panel for each ladder: TFLOP/s over FLOP per DRAM byte, with an arrow from each
kernel to the next rung.

Bytes are those that Nsight Compute counted, TFLOP/s are of the timed runs. The roofs were measured
on the same GPU: a copy in DRAM, and FMA, mma.sync or wgmma from registers and shared memory alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from analysis import ladders
from analysis.estimates import number
from analysis.figures import style
from analysis.ladders import steps
from analysis.numbers import SIZE
from analysis.results import Results, records, usual

ROOFS = {
    "fp32": {"fp32_fma_tflops": "FMA"},
    "tf32": {},
    "bf16": {"bf16_mma_tflops": "mma.sync", "bf16_wgmma_tflops": "wgmma"},
    "fp16": {"bf16_mma_tflops": "mma.sync", "bf16_wgmma_tflops": "wgmma"},
}
PANELS = 6
# A roof's name fits before its ridge where that is so many times the axis's left end.
MIN_ROOM = 12
# A ladder has at least so many steps from another step's kernel.
MIN_CHAINED = 2


def points(results: Results) -> pd.DataFrame:
    """Kernels at n = 4096 with counters and a timing: intensity (FLOP/byte), tflops, mark and
    arithmetic (the dtype, or "fp32 from TF32")."""
    counted = results.counters
    if "dram_bytes" not in counted:
        return pd.DataFrame()
    counted = counted[(counted["n"] == SIZE) & (counted["dram_bytes"] > 0)]
    timed = usual(results.squares)
    rows = timed[timed["n"] == SIZE].merge(counted[["variant", "dram_bytes"]], on="variant")
    intensity = 2.0 * rows["n"].astype(float) ** 3 / rows["dram_bytes"]
    of_tensor_cores = rows["tensor"].astype(bool) & (rows["dtype"] == "fp32")
    arithmetic = rows["dtype"].where(~of_tensor_cores, "fp32 from TF32")
    return rows.assign(intensity=intensity, arithmetic=arithmetic)


def ladders_of(
    rows: pd.DataFrame, variants: pd.DataFrame
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The steps between measured kernels by worklog and arithmetic, of those that make a ladder,
    the longest first.
    """
    dtypes = dict(zip(rows["variant"], rows["arithmetic"], strict=True))
    by_ladder: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for step in steps(variants):
        if {step["variant"], step["over"]} <= set(dtypes):
            by_ladder.setdefault((step["worklog"], dtypes[step["variant"]]), []).append(step)

    def chained(group: list[dict[str, Any]]) -> int:
        return sum(step["over"] in {other["variant"] for other in group} for step in group)

    longest = sorted(by_ladder, key=lambda key: -len(by_ladder[key]))
    chosen = [key for key in longest if chained(by_ladder[key]) >= MIN_CHAINED][:PANELS]
    return {key: by_ladder[key] for key in by_ladder if key in chosen}


def draw_roofs(axes: Axes, results: Results, dtype: str, left: float, right: float) -> None:
    """The slope of DRAM and the flat roofs of one dtype, named."""
    ceilings = results.machine.ceilings.model_dump(exclude_none=True)
    bandwidth = ceilings["dram_copy_gb_per_s"] / 1e3  # TB/s, so that FLOP/byte times it is TFLOP/s
    roofs = {name: ceilings[key] for key, name in ROOFS.get(dtype, {}).items() if key in ceilings}
    top = max(roofs.values(), default=axes.get_ylim()[1])
    axes.plot([left, top / bandwidth], [left * bandwidth, top], color=style.INK, linewidth=1.0)
    for name, value in roofs.items():
        axes.plot([value / bandwidth, right], [value, value], color=style.INK, linewidth=1.0)
        text = f"{name} {number(value)}"
        if value / bandwidth > MIN_ROOM * left:
            axes.text(0.85 * value / bandwidth, value, text, ha="right", va="center")
        else:
            style.beside(axes, text, (right, value), (-1, 2), ha="right", va="bottom")


def draw_panel(
    axes: Axes, rows: pd.DataFrame, ladder: list[dict[str, Any]], look: dict[str, str]
) -> None:
    """The kernels of one ladder with an arrow for each step."""
    at = {row.variant: (row.intensity, row.tflops) for row in records(rows)}
    arrow = {"arrowstyle": "-|>", "mutation_scale": 6, "color": style.GREY, "linewidth": 0.7}
    arrow |= {"shrinkA": 2, "shrinkB": 2}
    for step in ladder:
        axes.annotate("", at[step["variant"]], at[step["over"]], arrowprops=arrow)
    sns.scatterplot(rows, x="intensity", y="tflops", s=14, **look, linewidth=0, zorder=3, ax=axes)
    axes.set(xlabel="", ylabel="")
    low, high = np.log10(axes.get_ylim())
    ys = style.apart(list(np.log10(rows["tflops"])), 0.058 * (high - low))
    right = axes.get_xlim()[1]
    line: dict[str, Any] = {"color": "#CCCCCC", "linewidth": 0.4, "zorder": 0}
    for row, y in zip(records(rows), ys, strict=True):
        axes.plot([row.intensity, right], [row.tflops, 10**y], **line)
        style.beside(axes, row.label, (right, 10**y), (2, 0))


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure: ladders of at least three kernels, by worklog and dtype; the six longest."""
    rows = points(results)
    if rows.empty:
        return style.empty(results, "Rooflines", "Counters and timings at n = 4096 are needed.")
    colours, titles = ladders.colours(results.variants), ladders.titles()
    markers = ladders.markers(results.variants)
    panels = ladders_of(rows, results.variants)
    figure, grid = style.panels(len(panels), 2, 2.5, 0.3)
    # All panels have the same range of intensities.
    named = {
        key: {step["variant"] for step in ladder} | {step["over"] for step in ladder}
        for key, ladder in panels.items()
    }
    drawn = rows.loc[rows["variant"].isin(set().union(*named.values())), "intensity"]
    left, right = 0.7 * drawn.min(), 1.4 * drawn.max()
    for axes, (key, ladder) in zip(grid, panels.items(), strict=True):
        worklog, dtype = key
        part = rows[rows["variant"].isin(named[key])]
        roofs = [getattr(results.machine.ceilings, key) or 0.0 for key in ROOFS.get(dtype, {})]
        axes.set(xscale="log", yscale="log", xlim=(left, right))
        top = 1.7 * max(part["tflops"].max(), *roofs, 1.0)
        axes.set_ylim(min(0.6 * part["tflops"].min(), top / 8), top)
        draw_roofs(axes, results, dtype, left, right)
        draw_panel(axes, part, ladder, {"color": colours[worklog], "marker": markers[worklog]})
        axes.set_title(f"{titles[worklog]}, {dtype}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
            axis.set_minor_formatter(NullFormatter())
        axes.grid(axis="both")
    figure.supylabel("TFLOP/s", fontsize=style.SMALL)
    for axes in grid[(len(panels) - 1) // 2 * 2 :]:
        axes.set_xlabel("FLOP per DRAM byte")
    bandwidth = results.machine.ceilings.dram_copy_gb_per_s / 1e3
    facts = [f"n = {SIZE}", f"roofs measured; slope: copy in DRAM, {bandwidth:.2f} TB/s"]
    title = "Rooflines of the ladders"
    description = "TFLOP/s over FLOP per DRAM byte, with an arrow for each step."
    return style.finish(figure, results, title, description, *facts)
