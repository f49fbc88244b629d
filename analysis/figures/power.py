"""Power and speed of the same kernels with different data: zeros, uniform and normal numbers.

Left: the SM clock over power, a dot for each timing. Right: TFLOP/s over power, with a line that
joins the kinds of data of one kernel and size. The data alone change the power, and near the limit
the clock pays for it.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results
from analysis.timings import PROCESSES

DATA = {"zeros": "v", "normal": "s", "uniform": "o"}
MIN_N = 4096
LONG = "mean power over at least a second after settling, by NVML"
# of older tables
SHORT = (
    "mean power that NVML reports over a window of 0.2 to 0.5 s; short ones can exceed the limit"
)


def timed(results: Results) -> pd.DataFrame:
    """Timings of squares of five processes, from n = 4096 on, with a mean power; one for each
    variant, n and data.
    """
    rows = results.squares
    rows = rows[(rows["processes"] >= PROCESSES) & (rows["clock_policy"] == "boost")]
    rows = rows.drop_duplicates(["variant", "n", "data"])
    return rows[(rows["n"] >= MIN_N) & rows["power_w"].notna()]


def draw_clocks(axes: Axes, rows: pd.DataFrame, limit: float | None) -> None:
    """Draw the SM clock over power, with a colour and a shape for each dtype."""
    look: dict[str, Any] = {"hue": "dtype", "palette": style.DTYPES, "linewidth": 0}
    dtypes = [dtype for dtype in style.DTYPES if dtype in set(rows["dtype"])]
    look |= {"hue_order": dtypes, "style": "dtype", "style_order": dtypes, "markers": ["o", "D"]}
    sns.scatterplot(rows, x="power_w", y="sm_clock_mhz", s=10, alpha=0.75, ax=axes, **look)
    if limit:  # NVML does not tell it on every GPU
        at = (limit, axes.get_ylim()[0])
        style.beside(axes, f"limit {limit:.0f} W", at, (-3, 3), ha="right", va="baseline")
    axes.set(ylabel="SM clock, MHz", title="Clock and power")
    sns.move_legend(axes, "lower left", title=None, handletextpad=0.1, bbox_to_anchor=(0, 0.05))


def draw_data(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw TFLOP/s over power of kernels that were timed with several kinds of data."""
    keys = ["variant", "n"]
    several = rows[rows.groupby(keys)["data"].transform("nunique") > 1]
    kernels = several["variant"] + several["n"].astype(str)
    axis: dict[str, Any] = {"x": "power_w", "y": "tflops", "ax": axes}
    sns.lineplot(
        several, units=kernels, estimator=None, color=style.PALE, linewidth=0.5, zorder=1, **axis
    )
    look: dict[str, Any] = {"hue": "dtype", "palette": style.DTYPES, "linewidth": 0}
    sns.scatterplot(several, style="data", markers=DATA, s=12, zorder=2, **look, **axis)
    top = 1.25 * several["tflops"].max() if len(several) else None
    axes.set(ylabel="TFLOP/s", ylim=(0, top), title="Same kernel, other data")
    known = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = [data for data in DATA if data in known]
    axes.legend(
        [known[name] for name in names], names, loc="upper left", handletextpad=0.1, ncols=3
    )


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure."""
    rows = timed(results)
    if rows.empty:
        return style.empty(results, "Power")
    limit = results.machine.power_limit_w
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.WIDE, 2.3))
    draw_clocks(left, rows, limit)
    draw_data(right, rows)
    for axes in (left, right):
        if limit:
            axes.axvline(limit, color=style.INK, linewidth=0.8, linestyle="--")
        axes.set_xlabel("mean power, W")
        axes.grid(axis="both")
    title = "Power, clock and data"
    description = "SM clock and TFLOP/s over mean power; lines join kinds of data."
    facts = (
        f"n ≥ {MIN_N}",
        LONG if results.raw("windows")["power_error_w"].notna().any() else SHORT,
    )
    return style.finish(figure, results, title, description, *facts)
