"""Error of a sum over k: fp32 multiply-adds, fp32 split into TF32 numbers (3xTF32), and plain TF32.

The root of the mean square of the error, in units of 2^-24 |A||B|, against a float64 reference. A
panel for each kind of data; long sums inside the tensor cores are dashed.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results

TITLES = {
    "uniform": "uniform in [−1, 1]",
    "positive": "uniform in [0, 1]",
    "wide": "exponents from −30 to 30",
}
INSIDE = ("sgemm_3xtf32_mma", "sgemm_3xtf32_wgmma")  # whose long sums stay in the tensor cores


def look(kind: str, place: int) -> dict[str, Any]:
    """Colour and marker of the kernel at this place; libraries are grey, with hollow marks."""
    if kind == "baseline":
        return {
            "color": style.GREY,
            "marker": style.MARKERS[place % 2],
            "markersize": 5,
            "markerfacecolor": "none",
        }
    return {
        "color": style.COLOURS[place % len(style.COLOURS)],
        "marker": style.MARKERS[place % 7],
        "markersize": 3,
    }


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure."""
    rows = results.table("error_over_k")
    if rows.empty:
        return style.empty(results, "Error over k")
    rows = rows.sort_values(["order", "k"], kind="stable")
    panels = [data for data in TITLES if data in set(rows["data"])]
    figure, grid = plt.subplots(
        1, len(panels), figsize=(style.WIDE, 2.7), sharex=True, sharey=True, squeeze=False
    )
    variants = list(dict.fromkeys(rows["variant"]))
    for axes, data in zip(grid.flat, panels, strict=True):
        for place, variant in enumerate(variants):
            line = rows[(rows["data"] == data) & (rows["variant"] == variant)]
            axes.plot(
                line["k"],
                line["rms"],
                linewidth=0.9,
                linestyle="--" if variant in INSIDE else "-",
                label=line["label"].iloc[0],
                **look(line["kind"].iloc[0], place),
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")  # exponents would be printed too small
        axes.set_title(TITLES[data])
        axes.set_xlabel("k")
        axes.grid(axis="both")
    ks = sorted(rows["k"].unique())
    grid[0][0].set_xticks(ks, [str(k) for k in ks])
    grid[0][0].set_ylabel("RMS error, 2⁻²⁴ |A||B|")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper left", ncols=5, columnspacing=1.0, handletextpad=0.4
    )
    style.describe(
        figure,
        "Error of a sum over k",
        "RMS error of fp32, 3xTF32 and TF32 kernels, by kind of data.",
    )
    devices = "emulated" if set(rows["device"]) == {"ptxsim"} else ""
    style.provenance(figure, results, "dashed: sums inside the tensor cores", devices)
    return figure
