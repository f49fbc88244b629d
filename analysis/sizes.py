"""Lines over the problem size, with 95% intervals as bands: TFLOP/s on the left, share of cuBLAS on the right."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator, PercentFormatter

from analysis import style
from analysis.data import Measured, figure_arguments, marked, read
from analysis.style import plt
from contracts import run_command


def draw_lines(axes: Axes, rows: pd.DataFrame, value: str, low: str, high: str, looks: dict[str, dict]) -> None:
    """A line and a band per variant."""
    for mark, line in rows.sort_values("n").groupby("mark", sort=False):
        look = looks[mark]
        every = -(-len(line) // 25)
        axes.plot(line["n"], line[value], label=mark, markersize=3, markevery=every, linewidth=1.1, **look)
        axes.fill_between(
            line["n"].astype(float),
            line[low].astype(float),
            line[high].astype(float),
            color=look["color"],
            alpha=0.25,
            linewidth=0,
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("n (m = n = k)")
    axes.xaxis.set_major_locator(MultipleLocator(2 ** math.ceil(math.log2(max(rows["n"].max() / 8, 1)))))
    axes.grid()


def line_looks(rows: pd.DataFrame) -> dict[str, dict]:
    """Colour, marker and dashes by label; libraries are grey and dashed."""
    looks = {}
    kernels = 0
    for row in rows.drop_duplicates("mark").sort_values("order").itertuples():
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


def draw(measured: Measured, experiment: str) -> plt.Figure:
    """The figure of one experiment: a line of two panels per clock regime and kind of data."""
    rows = measured.bench[measured.bench["experiment"] == experiment]
    if rows.empty:
        return style.left_out(measured, f"Timings of {experiment}", measured.untimed(experiment))
    flop = 2e-6 * rows["m"] * rows["n"] * rows["k"]
    rows = rows.assign(
        mark=marked(rows), tflops_low=flop / rows["time_us_ci_high"], tflops_high=flop / rows["time_us_ci_low"]
    )
    looks = line_looks(rows)
    legs = sorted(rows.groupby(["regime", "data"]), key=lambda leg: (leg[0][0] != "unlocked", leg[0][1]))
    legend_lines = -(-len(looks) // style.legend_columns(list(looks)))
    figure, grid = plt.subplots(
        len(legs), 2, figsize=(style.WIDTH, 0.55 + 2.35 * len(legs) + 0.17 * legend_lines), squeeze=False
    )
    for ((regime, data), part), (left, right) in zip(legs, grid, strict=True):
        of = f"{regime} clocks" + (f", {data}" if rows["data"].nunique() > 1 else "")
        draw_lines(left, part, "tflops", "tflops_low", "tflops_high", looks)
        draw_lines(right, part, "share_of_baseline", "share_ci_low", "share_ci_high", looks)
        right.yaxis.set_major_formatter(PercentFormatter(1))
        left.set_title(f"TFLOP/s, {of}", loc="left")
        right.set_title(f"share of cuBLAS, {of}", loc="left")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=style.legend_columns(labels))
    band = "bands: 95% intervals, where wider than the line"
    style.note(figure, measured, style.data_text(rows["data"]), band, stale=rows["stale"].any())
    return figure


def main() -> None:
    parser = figure_arguments(__doc__)
    parser.add_argument("--experiment", required=True, metavar="NAME", help="as in bench.csv")
    args = parser.parse_args()
    style.save(draw(read(args), args.experiment), args.out)


if __name__ == "__main__":
    run_command(main)
