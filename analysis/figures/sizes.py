"""Lines over the problem size, as worklog C draws them: with free clocks on the left, at an equal clock on the right.

Above TFLOP/s, below the share of cuBLAS in turns, which neighbouring sizes repeat even where each has one process; 95%
intervals as bands. Where nothing was measured with locked clocks,
FLOP/clock/SM stands in on the right, labelled as derived: it is what the TFLOP/s would follow if the clock stood still.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

from analysis.data import Measured, marked, records
from analysis.figures import style
from analysis.statistics import IN_TURNS, TIME


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what is drawn over n, and the columns with the ends of its interval, where it has one."""

    title: str
    rows: pd.DataFrame
    value: str
    interval: tuple[str, str] | None
    share: bool


def draw_lines(axes: Axes, panel: Panel, looks: dict[str, dict[str, Any]]) -> None:
    """A line and a band per variant. Shares begin where the lowest one needs it, all else at zero."""
    rows = panel.rows.dropna(subset=panel.value)
    for mark, line in rows.sort_values("n").groupby("mark", sort=False):
        look = looks[str(mark)]
        every = -(-len(line) // 12)
        plain: dict[str, Any] = {
            "estimator": None,
            "markersize": 3,
            "markevery": every,
            "linewidth": 1.0,
            "markeredgewidth": 0,
        }
        sns.lineplot(line, x="n", y=panel.value, label=mark, legend=False, ax=axes, **plain, **look)
        if panel.interval:
            low, high = (line[name].astype(float) for name in panel.interval)
            axes.fill_between(line["n"].astype(float), low, high, color=look["color"], alpha=0.25, linewidth=0)
    if panel.share:
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_ylim(bottom=math.floor(10 * rows[panel.value].min()) / 10 if len(rows) else 0)
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(panel.title, loc="left")
    axes.set(xlabel="", ylabel="")
    axes.xaxis.set_major_locator(MultipleLocator(2 ** math.ceil(math.log2(max(panel.rows["n"].max() / 8, 1)))))
    axes.tick_params(axis="x", labelsize=7)
    axes.grid()


def with_shares_at_equal_clock(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with `share_per_clock`: FLOP/clock/SM over that of the baseline at the same size; NaN without one."""
    keys = ["regime", "data", "n"]
    baselines = rows[rows["variant"] == rows["baseline"]].drop_duplicates([*keys, "variant"])
    theirs = baselines.set_index([*keys, "variant"])["flop_per_clock_sm"]
    wanted = pd.MultiIndex.from_frame(rows[[*keys, "baseline"]])
    return rows.assign(share_per_clock=rows["flop_per_clock_sm"] / theirs.reindex(wanted).to_numpy())


def lines_of_panels(rows: pd.DataFrame) -> list[list[Panel]]:
    """Two lines of panels for each kind of data: TFLOP/s, then shares of cuBLAS."""
    several = rows["data"].nunique() > 1
    lines = []
    for data, part in rows.groupby("data"):
        of = f", {data}" if several else ""
        upper, lower = [], []
        for regime in sorted(part["regime"].unique(), reverse=True):
            own = part[part["regime"] == regime]
            interval, (share, least, most) = ("tflops_low", "tflops_high"), IN_TURNS
            upper.append(Panel(f"TFLOP/s, {regime} clocks{of}", own, "tflops", interval, False))
            lower.append(Panel(f"share of cuBLAS in turns, {regime} clocks{of}", own, share, (least, most), True))
        if len(upper) < 2:
            upper.append(Panel(f"FLOP/clock/SM (derived){of}", part, "flop_per_clock_sm", None, False))
            lower.append(Panel(f"share of cuBLAS per clock (derived){of}", part, "share_per_clock", None, True))
        lines += [upper, lower]
    return lines


def line_looks(rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes by label; libraries are grey and dashed."""
    looks: dict[str, dict[str, Any]] = {}
    kernels = 0
    for row in records(rows.drop_duplicates("mark").sort_values("order")):
        if row.kind != "baseline":
            cycle = kernels // len(style.LINES)
            looks[row.mark] = {
                "color": style.LINES[kernels % len(style.LINES)],
                "marker": style.MARKERS[kernels % len(style.MARKERS)],
                "linestyle": ["-", (0, (6, 1)), (0, (1, 1))][cycle % 3],
            }
            kernels += 1
        else:
            taken = len(looks) - kernels
            looks[row.mark] = {"color": ["#777777", "#AAAAAA", "#444444"][taken % 3], "linestyle": (0, (4, 2))}
    return looks


def draw(measured: Measured, experiment: str) -> Figure:
    """The figure of one experiment."""
    rows = measured.bench[measured.bench["experiment"] == experiment]
    if rows.empty:
        return style.left_out(measured, f"Timings of {experiment}", measured.untimed(experiment))
    flop, (_, shortest, longest) = 2e-6 * rows["m"] * rows["n"] * rows["k"], TIME
    rows = rows.assign(mark=marked(rows), tflops_low=flop / rows[longest], tflops_high=flop / rows[shortest])
    looks = line_looks(rows)
    lines = lines_of_panels(with_shares_at_equal_clock(rows))
    legend_lines = -(-len(looks) // style.legend_columns(list(looks)))
    figure, grid = plt.subplots(
        len(lines), 2, figsize=(style.WIDTH, 0.5 + 2.0 * len(lines) + 0.17 * legend_lines), sharex=True, squeeze=False
    )
    for panels, line in zip(grid, lines, strict=True):
        for axes, panel in zip(panels, line, strict=True):
            draw_lines(axes, panel, looks)
    for axes in grid[-1]:
        axes.set_xlabel("n (m = n = k)")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=style.legend_columns(labels))
    step = sorted(rows["n"].unique())
    sizes = f"{len(step)} sizes from {step[0]} to {step[-1]}"
    band = "bands: 95% intervals, where wider than the line"
    free = style.regime_text(rows["regime"]) if rows["regime"].nunique() == 1 else ""
    style.note(figure, measured, free, style.data_text(rows["data"]), sizes, band, stale=rows["stale"].any())
    return figure
