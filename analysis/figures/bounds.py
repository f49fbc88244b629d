"""Minimum cycles of each unit of an SM, in percent of the cycles that were measured, for the
kernels of an experiment.

The unit with the most minimum cycles limits the kernel from below; what is missing to 100% is
latency and scheduling.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.counters import counted, nothing
from analysis.figures.ladder import EXPERIMENT
from analysis.results import Results, records
from analysis.tables.steps import UNITS

MIN_PERCENT = 0.5  # Of the measured cycles: a unit with fewer has no mark.
LOOKS = {
    "FMA pipe": (style.BLUE, "o"),
    "FP64 pipe": (style.INK, "P"),
    "tensor cores": (style.RED, "s"),
    "issue slots": (style.GREEN, "^"),
    "register banks": (style.ORANGE, "D"),
    "shared memory": (style.PURPLE, "v"),
    "L1 lookups": (style.SKY, "X"),
    "DRAM reads": (style.GREY, "<"),
}


def fractions(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Minimum cycles over measured ones: variant, place, unit, percent.

    rows: of `counted`, whose cycles are the average over SMs.
    """
    bounds = results.table("bounds")
    bounds = bounds[bounds["resource"].isin(list(UNITS))]
    bounds = bounds.assign(unit=bounds["resource"].map(UNITS))
    bounds = bounds[["variant", "n", "unit", "minimum_cycles"]]
    both = rows[["variant", "n", "place", "sm_cycles_mean"]].merge(bounds, on=["variant", "n"])
    return both.assign(percent=100 * both["minimum_cycles"] / both["sm_cycles_mean"])


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure of one experiment, at n = 4096 where that was profiled."""
    asked = experiment or EXPERIMENT
    rows = counted(results, asked)
    rows = rows[rows["kind"] != "baseline"] if len(rows) else rows
    if rows.empty or "sm_cycles_mean" not in rows or results.raw("bounds").empty:
        return nothing(results, f"Minimum cycles of {asked}", asked, experiment)
    cycles = fractions(results, rows)
    rows = rows[rows["variant"].isin(cycles["variant"])].reset_index(drop=True)
    ys = {variant: y for y, variant in enumerate(rows["variant"])}
    figure, axes = plt.subplots(figsize=(style.WIDE, 0.9 + style.ROW * len(rows)))
    for unit, (colour, marker) in LOOKS.items():
        of_unit = cycles[(cycles["unit"] == unit) & (cycles["percent"] >= MIN_PERCENT)]
        look: dict[str, Any] = {"color": colour, "marker": marker, "label": unit}
        if len(of_unit):
            y = of_unit["variant"].map(ys)
            axes.scatter(of_unit["percent"], y, s=16, linewidth=0, zorder=3, **look)
    # Name the unit with the most minimum cycles at the right.
    limiting = cycles.loc[cycles.groupby("variant")["minimum_cycles"].idxmax()]
    for row in records(limiting):
        style.in_row(axes, 1.01, ys[row.variant], f"{row.unit} {row.percent:.0f}%")
    style.list_rows(axes, ys.values(), list(rows["label"]))
    axes.set(xlim=(0, 102), xlabel="minimum cycles, % of the measured cycles")
    figure.legend(loc="outside upper left", ncols=8, handletextpad=0.1, columnspacing=0.9)
    title = f"Minimum cycles of each unit: {asked}"
    description = (
        "A mark for each unit of an SM; the largest, named at the right, limits the kernel."
    )
    fact = f"n = {rows['n'].iloc[0]}"
    return style.finish(figure, results, title, description, fact)
