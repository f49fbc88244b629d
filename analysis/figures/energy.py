"""Work per joule and power of each rung, while it ran alone and back to back at its ladder's smallest size.

The bar is from the ladder itself. Where other experiments measured the same kernel on the same problem, a line shows
how far their figures lie apart.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data import Measured, current, ladder_sizes
from analysis.figures import style

VALUES = {"power_w": "power, W", "gflop_per_j": "GFLOP per joule"}
KEYS = ["variant", "m", "n", "k"]


def drawn_rows(bench: pd.DataFrame) -> pd.DataFrame:
    """One row per variant with power, unlocked and on uniform data; fp32 first, each part in the catalogue's order.

    It is that of a ladder, at the size that most variants of ladders have; where none has the variant, that with
    the most samples.
    Columns added: least and most of power_w and gflop_per_j over all experiments on the same problem.
    """
    rows = bench[(bench["regime"] == "unlocked") & (bench["data"] == "uniform") & bench["power_w"].notna()]
    of_ladder = rows["experiment"].str.contains("ladder")
    if rows.empty:
        return rows.assign(tensor=False)
    rows = rows[rows["n"].isin(ladder_sizes(rows, 1))]
    same = rows.groupby(KEYS)
    for name in VALUES:
        ends: dict[str, Any] = {
            f"{name}_least": same[name].transform("min"),
            f"{name}_most": same[name].transform("max"),
        }
        rows = rows.assign(**ends)
    ranked = rows.assign(_other=~of_ladder[rows.index], _few=-rows["samples"])
    ranked = ranked.sort_values(["tensor", "order", "_other", "_few"], kind="stable")
    shown: pd.DataFrame = ranked.drop_duplicates("variant").drop(columns=["_other", "_few"]).reset_index(drop=True)
    return shown


def draw_panel(axes: Axes, rows: pd.DataFrame, name: str) -> None:
    """A bar per row with its number, and the spread over experiments as a line."""
    style.bars(axes, rows, name, "label", list(rows["label"]))
    least, most = (rows[f"{name}_{end}"].astype(float) for end in ("least", "most"))
    wide = most > least
    axes.hlines(rows.index[wide], least[wide], most[wide], color=style.INK, linewidth=1.1)
    axes.scatter(pd.concat([least[wide], most[wide]]), [*rows.index[wide]] * 2, marker="|", s=18, color=style.INK, lw=1)
    digits = 0 if name == "power_w" or rows[name].max() > 200 else 1
    box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for place, value, end in zip(rows.index, rows[name], most, strict=True):
        axes.annotate(f"{value:.{digits}f}", (end, place), (4, 0), textcoords="offset points", va="center", bbox=box)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def draw(measured: Measured) -> Figure:
    """The figure: fp32 kernels above those on tensor cores, whose work per joule needs another scale."""
    bench, outdated = current(measured.bench)
    rows = drawn_rows(bench)
    if rows.empty:
        return style.left_out(measured, "Energy", measured.reason("bench") or "NVML gave no energy.")
    parts = [part.reset_index(drop=True) for _, part in rows.groupby("tensor")]
    figure, grid = plt.subplots(
        len(parts),
        2,
        figsize=(style.WIDTH, 0.55 + 0.3 * len(parts) + 0.165 * len(rows)),
        sharey="row",
        squeeze=False,
        gridspec_kw={"height_ratios": [len(part) + 0.6 for part in parts]},
    )
    limit = measured.machine.get("power_limit_w")
    for line, part in zip(grid, parts, strict=True):
        for axes, name in zip(line, VALUES, strict=True):
            draw_panel(axes, part, name)
        power, energy = line
        energy.set_xlim(0, 1.2 * part["gflop_per_j_most"].max())
        power.set_xlim(0, 1.2 * max(rows["power_w_most"].max(), limit or 0))
        if limit:
            power.axvline(limit, color=style.BAD, linewidth=1.2, zorder=0.9)
        power.set_ylim(len(part) - 0.4, -0.6)
        power.set_yticks(part.index, part["label"])
        power.set_title("tensor cores" if part["tensor"].iloc[0] else "fp32", loc="left")
    if limit:
        grid[0][0].annotate(f"limit, {limit:.0f} W", (limit, 1), (0, 3), ("data", "axes fraction"),
            textcoords="offset points", ha="center", color=style.BAD)  # fmt: skip
    for axes, unit in zip(grid[-1], VALUES.values(), strict=True):
        axes.set_xlabel(unit)
    style.note(
        figure,
        measured,
        f"m = n = k = {rows['n'].iloc[0]}",
        style.regime_text(rows["regime"]),
        style.data_text(rows["data"]),
        "hatched: libraries",
        "line: least to most over experiments on the same problem",
        outdated=outdated,
    )
    return figure
