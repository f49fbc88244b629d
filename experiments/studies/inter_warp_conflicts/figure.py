"""Shared-memory wavefronts that the hardware counts beyond those that the addresses within each warp need.

A line per catalogue kernel over the warps of its block, with one and with two blocks on each SM: with a single warp on
an SM there is nothing else to collide with.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.inputs import Inputs

PANELS = {"store": "stores", "load": "loads"}
SHORT = "sgemm_"  # prefix of names that labels leave out


def excess(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with `store_excess` and `load_excess`, percent of the wavefronts that the addresses within warps need;
    empty where a launch has no such access."""
    found = rows.copy()
    for operation in PANELS:
        need = found[f"{operation}s_need"].astype(float)
        counted = found[f"{operation}_wavefronts"].astype(float)
        found[f"{operation}_excess"] = (100 * (counted - need) / need).where(need > 0)
    return found


def draw(measured: Measured, rows: pd.DataFrame) -> Figure:
    """The figure: stores next to loads."""
    rows = excess(rows)
    gemms = rows[rows["bits"].isna() & (rows["source"].isin(["A and B", "L2"]))]
    swept = gemms.groupby("kernel")["warps"].nunique()
    gemms = gemms[gemms["kernel"].isin(swept[swept > 1].index)]
    figure, panels = plt.subplots(1, 2, figsize=(style.WIDTH, 2.6), sharex=True)
    for axes, (operation, label) in zip(panels, PANELS.items(), strict=True):
        for number, (kernel, part) in enumerate(gemms.groupby("kernel", sort=False)):
            for _, line in part.groupby("blocks_per_sm"):
                blocks = int(line["blocks_per_sm"].iloc[0])
                sns.lineplot(
                    line,
                    x="warps",
                    y=f"{operation}_excess",
                    estimator=None,
                    legend=False,
                    ax=axes,
                    color=style.LINES[number],
                    marker=style.MARKERS[number],
                    linestyle="-" if blocks == 1 else "--",
                    markersize=4,
                    label=f"{str(kernel).removeprefix(SHORT)}, {blocks} block{'s' * (blocks > 1)} an SM",
                )
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(gemms["warps"].unique()), [str(w) for w in sorted(gemms["warps"].unique())])
        axes.minorticks_off()
        axes.set(xlabel="warps a block", ylabel="", title=f"shared {label}")
        axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])
        axes.grid(axis="both")
    panels[0].set_ylabel("wavefronts beyond need, %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    style.note(figure, measured, "need: by ptxsim's rules within a warp", withheld=False)
    return figure


def inter_warp_conflicts_figure(inputs: Inputs) -> Figure:
    return draw(inputs.measured(), inputs.rows("inter_warp_conflicts"))
