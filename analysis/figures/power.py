"""Power and speed of the same kernels with different data: zeros, uniform and normal numbers.

Left: the SM clock over power, a dot for each timing. Right: TFLOP/s over power, with a line that
joins the kinds of data of one kernel and size. The data alone change the power, and near the limit
the clock pays for it.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results
from analysis.timings import PROCESSES

DATA = {"zeros": "v", "normal": "s", "uniform": "o"}
LEAST_N = 4096
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
    rows = rows[rows["processes"] >= PROCESSES].drop_duplicates(
        ["variant", "n", "data", "clock_policy"]
    )
    return rows[
        (rows["n"] >= LEAST_N) & rows["power_w"].notna() & (rows["clock_policy"] == "boost")
    ]


def draw_clocks(axes: Axes, rows: pd.DataFrame, limit: float) -> None:
    """SM clock over power, coloured by dtype."""
    for dtype, colour in style.DTYPES.items():
        part = rows[rows["dtype"] == dtype]
        axes.scatter(
            part["power_w"],
            part["sm_clock_mhz"],
            s=8,
            color=colour,
            alpha=0.75,
            linewidth=0,
            label=dtype,
        )
    axes.axvline(limit, color=style.INK, linewidth=0.8, linestyle="--")
    axes.annotate(
        f"limit {limit:.0f} W",
        (limit, axes.get_ylim()[0]),
        (-3, 3),
        textcoords="offset points",
        ha="right",
    )
    axes.set(xlabel="mean power, W", ylabel="SM clock, MHz")
    axes.grid(axis="both")


def draw_data(axes: Axes, rows: pd.DataFrame, limit: float) -> None:
    """TFLOP/s over power of kernels that were timed with several kinds of data."""
    keys = ["variant", "n"]
    several = rows[rows.groupby(keys)["data"].transform("nunique") > 1]
    for _, group in several.groupby(keys):
        group = group.sort_values("power_w")
        axes.plot(group["power_w"], group["tflops"], color=style.PALE, linewidth=0.5, zorder=1)
    for data, marker in DATA.items():
        for dtype, colour in style.DTYPES.items():
            part = several[(several["data"] == data) & (several["dtype"] == dtype)]
            axes.scatter(
                part["power_w"],
                part["tflops"],
                s=12,
                marker=marker,
                color=colour,
                linewidth=0,
                zorder=2,
            )
        axes.scatter([], [], s=12, marker=marker, color=style.GREY, linewidth=0, label=data)
    axes.axvline(limit, color=style.INK, linewidth=0.8, linestyle="--")
    axes.set(
        xlabel="mean power, W",
        ylabel="TFLOP/s",
        ylim=(0, 1.25 * several["tflops"].max() if len(several) else None),
    )
    axes.grid(axis="both")


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure."""
    rows = timed(results)
    if rows.empty:
        return style.empty(results, "Power")
    limit = float(results.machine.power_limit_w or "nan")
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.WIDE, 2.7))
    draw_clocks(left, rows, limit)
    draw_data(right, rows, limit)
    left.legend(loc="lower left", handletextpad=0.1, bbox_to_anchor=(0, 0.05))
    right.legend(loc="upper left", handletextpad=0.1, ncols=3)
    left.set_title("Clock and power")
    right.set_title("Same kernel, other data")
    style.describe(
        figure,
        "Power, clock and data",
        "SM clock and TFLOP/s over mean power; lines join kinds of data.",
    )
    style.provenance(
        figure,
        results,
        f"n ≥ {LEAST_N}",
        LONG if results.raw("windows")["power_error_w"].notna().any() else SHORT,
    )
    return figure
