"""Error of a sum over k: fp32 multiply-adds, fp32 split into TF32 numbers (3xTF32), and plain TF32.

The root of the mean square of the error, in units of 2^-24 |A||B|, against a float64 reference. A
panel for each kind of data; long sums inside the tensor cores are dashed.
"""

from __future__ import annotations

from itertools import cycle

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results, records

TITLES = {
    "uniform": "uniform in [−1, 1]",
    "positive": "uniform in [0, 1]",
    "wide": "exponents from −30 to 30",
}
INSIDE = ("sgemm_3xtf32_mma", "sgemm_3xtf32_wgmma")  # whose long sums stay in the tensor cores


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure."""
    rows = results.table("error_over_k")
    if rows.empty:
        return style.empty(results, "Error over k")
    rows = rows.sort_values(["order", "k"], kind="stable")
    panels = [data for data in TITLES if data in set(rows["data"])]
    figure, grid = plt.subplots(
        1, len(panels), figsize=(style.WIDE, 2.4), sharex=True, sharey=True, squeeze=False
    )
    variants = list(records(rows.drop_duplicates("label")))
    kernels = cycle(style.COLOURS)
    colours: dict[str, str] = {
        row.label: style.GREY if row.kind == "baseline" else next(kernels) for row in variants
    }
    dashes = {row.label: (3, 1.5) if row.variant in INSIDE else "" for row in variants}
    # Draw a panel for each kind of data.
    for axes, data in zip(grid.flat, panels, strict=True):
        sns.lineplot(
            rows[rows["data"] == data],
            x="k",
            y="rms",
            hue="label",
            style="label",
            **style.looks(colours) | {"palette": colours},
            dashes=dashes,
            linewidth=0.9,
            markersize=4,
            markeredgewidth=0,
            legend=axes is grid[0][0],
            ax=axes,
        )
        for line in axes.lines:  # A library's marks are hollow, so that they hide no kernel's.
            if line.get_color() == style.GREY:
                line.set(markersize=6, markerfacecolor="none", markeredgewidth=0.8)
                line.set_markeredgecolor(style.GREY)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")  # exponents would be printed too small
        axes.set_title(TITLES[data])
        axes.set(xlabel="k", ylabel="RMS error, 2⁻²⁴ |A||B|")
        axes.grid(axis="both")
    ks = sorted(rows["k"].unique())
    grid[0][0].set_xticks(ks, [str(k) for k in ks])
    # One legend serves all panels.
    handles, labels = grid[0][0].get_legend_handles_labels()
    grid[0][0].get_legend().remove()
    figure.legend(
        handles, labels, loc="outside upper left", ncols=5, columnspacing=1.0, handletextpad=0.4
    )
    devices = "emulated" if set(rows["device"]) == {"ptxsim"} else ""
    title = "Error of a sum over k"
    description = "RMS error of fp32, 3xTF32 and TF32 kernels, by kind of data."
    facts = ("dashed: sums inside the tensor cores", devices)
    return style.finish(figure, results, title, description, *facts)
