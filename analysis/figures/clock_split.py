"""What each rung gains over the one that it builds on, split into work per clock and clock.

Time is work over (FLOP/clock/SM x SMs x clock), so that a gain in TFLOP/s is the gain in FLOP/clock/SM times that of
the clock. A row per rung: on the left the first factor, on the right the second one. A kernel that does more in a clock
draws more power, and where power holds the clock down it gives some of its gain back.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.data import Measured, current, ladder_sizes, one_row_each
from analysis.figures import style
from analysis.statistics import IN_TURNS
from contracts.dtypes import dtypes

GAP = 0.5  # between families, in rows
SHIFT = 0.17  # of a rung's sizes from its place, in rows
LOOKS: list[dict[str, Any]] = [{"color": style.KERNEL, "marker": "o"}, {"color": style.LINES[4], "marker": "D"}]
COLUMNS = [56, 61]  # right of the axes, in points: where gains end, and where the names of the rungs before begin
TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]


def gains(bench: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """One row per kernel and size at which it and the rung that it builds on were timed alike, by family.

    Columns: variant, label, over (label of the rung before), family, n, regime, data; as ratios of the runs in turns
    with the library gain (of TFLOP/s), low and high (from the ends of the two 95% intervals of the shares), per_clock
    (of FLOP/clock/SM), clock (of the SM clock).
    """
    rows = one_row_each(bench).merge(variants[["variant", "builds_on"]], on="variant")
    share, lowest, highest = IN_TURNS
    shown = ["n", "regime", "data", "label", "time_us_in_turns", *IN_TURNS]
    before = rows[["variant", *shown, "flop_per_clock_sm", "sm_clock_mhz"]]
    both = rows.merge(
        before, left_on=["builds_on", "n", "regime", "data"], right_on=["variant", "n", "regime", "data"],
        suffixes=("", "_before"),
    )  # fmt: skip
    both["first"] = both.groupby("family")["order"].transform("min")  # dispatchers come last in the catalogue
    both = both.sort_values(["first", "order", "n"], kind="stable", ignore_index=True)
    gain = both["time_us_in_turns_before"] / both["time_us_in_turns"]
    ours, theirs = (both[[lowest + side, highest + side]].div(both[share + side], axis=0).to_numpy().T
                   for side in ("", "_before"))  # fmt: skip
    return both[["variant", "label", "family", "n", "regime", "data"]].assign(
        over=both["label_before"],
        gain=gain,
        low=gain * ours[0] / theirs[1],
        high=gain * ours[1] / theirs[0],
        per_clock=both["flop_per_clock_sm"] / both["flop_per_clock_sm_before"],
        clock=both["sm_clock_mhz"] / both["sm_clock_mhz_before"],
    )


def places_of(rows: pd.DataFrame) -> pd.Series:
    """The place of each row: one per kernel, with a gap between families."""
    kernels = rows.drop_duplicates("variant")
    gaps = (kernels["family"] != kernels["family"].shift()).cumsum() - 1
    places = dict(zip(kernels["variant"], np.arange(len(kernels)) + GAP * gaps.to_numpy(), strict=True))
    return rows["variant"].map(places)


def draw_factor(axes: Axes, rows: pd.DataFrame, values: pd.Series, start: float) -> None:
    """A mark per row, and a line to it from where nothing is gained."""
    for number, (_, part) in enumerate(rows.groupby("n")):
        look = LOOKS[number % len(LOOKS)]
        axes.hlines(part["y"], start, values[part.index], color=look["color"], linewidth=1.6)
        axes.scatter(values[part.index], part["y"], s=15, linewidth=0, zorder=3, **look)
    axes.axvline(start, color=style.INK, linewidth=0.8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def draw(measured: Measured) -> Figure:
    """The figure: every kernel that builds on another, at the sizes of the ladders."""
    bench, outdated = current(measured.bench)
    rows = gains(bench[bench["n"].isin(ladder_sizes(bench, len(LOOKS)))], measured.variants)
    if rows.empty:
        return style.left_out(measured, "Gains by clock and by work per clock", measured.reason("bench"))
    rows = rows.assign(place=places_of(rows))
    several = rows.groupby("variant")["n"].transform("size") > 1
    number = rows["n"].map({n: i for i, n in enumerate(sorted(rows["n"].unique()))})
    rows = rows.assign(y=rows["place"] + several * SHIFT * (2 * number - 1))
    kernels = rows.drop_duplicates("variant")
    figure, (work, clock) = plt.subplots(
        1,
        2,
        figsize=(style.WIDTH, 0.95 + 0.205 * (rows["place"].max() + 1)),
        sharey=True,
        gridspec_kw={"width_ratios": [1.5, 1]},
    )
    draw_factor(work, rows, rows["per_clock"], 1)
    draw_factor(clock, rows, 100 * (rows["clock"] - 1), 0)
    low, high = rows["per_clock"].min(), rows["per_clock"].max()
    work.set(xscale="log", xlim=(min(0.9, 0.85 * low), 1.15 * high), xlabel="FLOP/clock/SM, ×")
    work.xaxis.set_major_locator(FixedLocator(TICKS))
    work.xaxis.set_minor_locator(NullLocator())
    work.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    percent = 100 * (rows["clock"] - 1)
    margin = 0.06 * max(percent.max() - percent.min(), 5)
    clock.set(xlim=(min(percent.min(), -1) - margin, max(percent.max(), 1) + margin), xlabel="SM clock, %")
    beyond: dict[str, Any] = {"xycoords": clock.get_yaxis_transform(), "textcoords": "offset points", "fontsize": 7.5}
    for (place, over), part in rows.groupby(["place", "over"]):
        gain = " | ".join(f"{value:.{1 if value > 9.95 else 2}f}" for value in part["gain"])
        clock.annotate(gain, (1, place), (COLUMNS[0], 0), ha="right", va="center", **beyond)
        before = str(over)
        for dtype in dtypes():  # the rung's own label has it
            before = before.removesuffix(f"_{dtype}")
        clock.annotate(before, (1, place), (COLUMNS[1], 0), va="center", **beyond)
    head: dict[str, Any] = {"weight": "bold", "va": "bottom"} | beyond
    clock.annotate("gain, ×", (1, -0.75), (COLUMNS[0], 0), ha="right", **head)
    clock.annotate("over", (1, -0.75), (COLUMNS[1], 0), **head)
    work.set_yticks(kernels["place"], kernels["label"])
    work.set_ylim(rows["place"].max() + 0.6, -0.6)
    drawn = sorted(rows["n"].unique())
    if len(drawn) > 1:
        handles = [Line2D([], [], markersize=4, linewidth=1.6, **look) for look in LOOKS]
        figure.legend(handles, [f"n = {n}" for n in drawn], loc="outside upper left", ncols=len(drawn))
    widest = 100 * max((rows["high"] / rows["gain"] - 1).max(), (1 - rows["low"] / rows["gain"]).max())
    style.note(
        figure,
        measured,
        "m = n = k" if len(drawn) > 1 else f"m = n = k = {drawn[0]}",
        style.regime_text(rows["regime"]),
        style.data_text(rows["data"]),
        "gain in TFLOP/s in turns = left × right",
        f"95% intervals of the gains: within ±{widest:.1f}%",
        outdated=outdated,
    )
    return figure
