"""Error against k: what fp32 multiply-adds, splits of fp32 into TF32 numbers and plain TF32 leave of a sum's digits.

Columns are kinds of data; root of the mean square above, the worst element below. A sum outside of the tensor cores is
drawn whole, one within them dashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.data import Measured, marked
from analysis.figures import style
from analysis.inputs import Inputs

TITLES = {"uniform": "uniform", "normal": "normal", "positive": "positive", "wide": "exponents ±30"}
STATISTICS = {"rms": "RMS", "worst": "worst"}
WITHIN = ("sgemm_3xtf32_mma", "sgemm_3xtf32_wgmma")  # whose long sums stay in the tensor cores


@dataclass(frozen=True)
class Origin:
    """Where the numbers come from."""

    origin: str


def origin(measured: Measured, devices: set[str]) -> Measured | Origin:
    """Where the rows come from: the machine, for a GPU's rows; the emulator's say so themselves."""
    return measured if devices == {"gpu"} else Origin("emulated (ptxsim, with the H200's tensor cores bit by bit)")


def draw(measured: Measured, rows: pd.DataFrame) -> Figure:
    """The figure. rows: of error_over_k.csv, described."""
    rows = rows.assign(mark=marked(rows)).sort_values(["order", "k"])
    figure, panels = plt.subplots(
        len(STATISTICS), len(TITLES), figsize=(style.WIDTH, 4.4), sharex=True, sharey=True, squeeze=False
    )
    for upper, (statistic, word) in zip(panels, STATISTICS.items(), strict=True):
        for axes, (data, title) in zip(upper, TITLES.items(), strict=True):
            of_data = rows[rows["data"] == data]
            for number, (variant, line) in enumerate(of_data.groupby("variant", sort=False)):
                library = line["kind"].iloc[0] == "baseline"
                look: dict[str, Any] = {
                    "color": style.BASELINE if library else style.LINES[number % len(style.LINES)],
                    "marker": style.MARKERS[number],
                    "linestyle": "--" if variant in WITHIN else "-",
                }
                axes.plot(line["k"], line[statistic], markersize=3, label=line["mark"].iloc[0], **look)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.grid(axis="both")
            if statistic == "rms":
                axes.set_title(title)
        upper[0].set_ylabel(f"{word} error, 2⁻²⁴ |A||B|")
    ks = sorted(rows["k"].unique())
    panels[0][0].set_xticks(ks, [f"{k}" for k in ks])
    panels[0][0].minorticks_off()
    for axes in panels[-1]:
        axes.tick_params(axis="x", labelrotation=45)
        axes.set_xlabel("k")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(4, style.legend_columns(labels)), frameon=False
    )
    side = int(rows["elements"].min() ** 0.5)
    note = f"{side} x {side} elements a point, against float64"
    style.note(figure, origin(measured, set(rows["device"])), note, stale=bool(rows["stale"].any()))
    return figure


def error_over_k_figure(inputs: Inputs) -> Figure:
    return draw(inputs.measured(), inputs.offered("error_over_k", timed=True))
