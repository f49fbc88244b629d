"""Bars per rung: TFLOP/s with its 95% interval, and the share of cuBLAS.

One panel per clock regime and size. A bar of another dtype than the kernels' (TF32 beside fp32 kernels) that would
squeeze all others is cut at the axis's end and carries its number.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from analysis import style
from analysis.data import Measured, figure_arguments, is_tensor, marked, read
from analysis.style import plt
from contracts import run_command


def axis_end(rows: pd.DataFrame, room: float) -> float:
    """Where the TFLOP/s axis ends: the longest bar of the dtypes that kernels have, times `room` for the text."""
    tensor = rows["dtype"].map(is_tensor)
    kernels = tensor[rows["kind"] == "kernel"]
    shown = rows[tensor.isin(kernels)] if len(kernels) else rows
    return room * float(shown["time_us_ci_low"].rdiv(shown["flop"]).max())


def draw_panel(axes: Axes, rows: pd.DataFrame, places: dict[str, int], end: float) -> None:
    """One regime and size: a bar per row, at the place of its label."""
    for row in rows.itertuples():
        place = places[row.mark]
        kernel = row.kind == "kernel"
        look = {"color": style.KERNEL} if kernel else {"color": style.BASELINE, "hatch": "////", "edgecolor": "white"}
        text = style.significant(row.tflops)
        if row.variant != row.baseline:
            share = 100 * row.share_of_baseline
            text += f"  ({share:.{1 if share < 200 else 0}f}%)"
        cut = row.tflops > end
        axes.barh(place, end if cut else row.tflops, height=0.72, linewidth=0, **look)
        if cut:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            axes.text(0.99 * end, place, f"{text}, beyond the axis ▶", ha="right", va="center", bbox=box)
            continue
        low, high = row.flop / row.time_us_ci_high, row.flop / row.time_us_ci_low
        axes.errorbar(
            row.tflops, place, xerr=[[row.tflops - low], [high - row.tflops]], color=style.INK, linewidth=1, capsize=2
        )
        axes.annotate(text, (high, place), xytext=(4, 0), textcoords="offset points", va="center", color=style.INK)
    axes.set_xlim(0, end)
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.set_yticks(list(places.values()), list(places))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_xlabel("TFLOP/s (share of cuBLAS)")


def draw(measured: Measured, experiment: str) -> plt.Figure:
    """The figure of one experiment."""
    rows = measured.bench[measured.bench["experiment"] == experiment]
    if rows.empty:
        return style.left_out(measured, f"Timings of {experiment}", measured.reason("bench"))
    rows = rows.assign(mark=marked(rows), flop=2e-6 * rows["m"] * rows["n"] * rows["k"])
    places = {label: place for place, label in enumerate(rows["mark"].drop_duplicates())}
    groups = sorted(rows.groupby(["regime", "n"]), key=lambda group: (group[0][0] != "unlocked", group[0][1]))
    columns = min(2, len(groups))
    lines = -(-len(groups) // columns)
    figure, grid = plt.subplots(
        lines,
        columns,
        figsize=(style.WIDTH, 0.45 + lines * (0.62 + 0.2 * len(places))),
        sharey=True,
        squeeze=False,
    )
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    for axes, ((regime, n), group) in zip(grid.flat, groups, strict=False):
        draw_panel(axes, group, places, axis_end(group, 1.3 if columns == 1 else 1.5))
        axes.set_title(f"n = {n}, {regime} clocks", loc="left")
    style.note(
        figure,
        measured,
        "m = n = k",
        style.data_text(rows["data"]),
        "hatched: libraries",
        stale=rows["stale"].any(),
    )
    return figure


def main() -> None:
    parser = figure_arguments(__doc__)
    parser.add_argument("--experiment", required=True, metavar="NAME", help="as in bench.csv")
    args = parser.parse_args()
    style.save(draw(read(args), args.experiment), args.out)


if __name__ == "__main__":
    run_command(main)
