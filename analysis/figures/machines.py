"""One machine against another: each rung's share of cuBLAS on every machine that has been measured.

A machine is a folder of tables; two days on one GPU are two. Drawn are the rungs that were measured on two machines or
more from the source that the tree has now. On the right how far the others are from the first machine: in share of
cuBLAS (filled marks), and in TFLOP/s (hollow ones). What makes one machine faster than another, or one day faster than
the next, makes cuBLAS faster too, and so should leave the shares.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data import Measured, current
from analysis.figures import style
from analysis.inputs import Inputs
from analysis.tables.machines import SIZE, all_runs, shares

LOOKS = [
    {"color": style.KERNEL, "marker": "o"},
    {"color": style.BAD, "marker": "D"},
    {"color": style.EMULATED, "marker": "^"},
    {"color": style.LINES[3], "marker": "s"},
]
AGREE_PERCENT = 1.0


def draw_shares(axes: Axes, rows: pd.DataFrame, places: dict[str, int], looks: dict[str, dict[str, Any]]) -> None:
    """A mark per machine with its interval, around the place of its rung."""
    for number, (name, look) in enumerate(looks.items()):
        part = rows[rows["machine"] == name]
        y = part["label"].map(places) + 0.34 * (number - (len(looks) - 1) / 2) / max(len(looks) - 1, 1)
        error = [part["share_percent"] - part["share_low"], part["share_high"] - part["share_percent"]]
        axes.errorbar(part["share_percent"], y, xerr=error, fmt="none", color=style.INK, linewidth=0.8)
        axes.scatter(part["share_percent"], y, s=15, linewidth=0, zorder=3, label=name, **look)
    axes.axvline(100, color=style.INK, linewidth=0.9, zorder=0.9)
    axes.set(xlabel=f"share of cuBLAS, %, n = {SIZE}", xlim=(0, max(105.0, 1.03 * rows["share_percent"].max())))


def draw_changes(axes: Axes, rows: pd.DataFrame, places: dict[str, int], looks: dict[str, dict[str, Any]]) -> None:
    """How far each machine but the first is from it."""
    for name, look in list(looks.items())[1:]:
        part = rows[rows["machine"] == name]
        y = part["label"].map(places)
        hollow: dict[str, Any] = {
            "marker": look["marker"],
            "facecolor": "none",
            "edgecolor": look["color"],
            "linewidth": 0.9,
        }
        axes.scatter(part["tflops_change_percent"], y, s=34, zorder=2, **hollow)
        axes.scatter(part["share_change_percent"], y, s=12, linewidth=0, zorder=3, **look)
    far = max(1.2, 1.1 * rows[["share_change_percent", "tflops_change_percent"]].abs().max().max())
    axes.axvspan(-AGREE_PERCENT, AGREE_PERCENT, color="#EEEEEE", zorder=0)
    axes.axvline(0, color=style.INK, linewidth=0.9, zorder=0.9)
    axes.set(xlim=(-far, far), xlabel="against the first, %")


def draw(machines: dict[str, Measured]) -> Figure:
    """The figure: a row per rung. The first machine is the one that the others are held against."""
    first, *others = machines.values()
    rows = shares(machines)
    if rows.empty:
        one = "There is one run only" if not others else f"No rung of this tree was measured in two runs at n = {SIZE}"
        why = f"{one}; each folder of data/ with a bench.csv is one."
        return style.left_out(first, "Machine against machine", why)
    looks = {name: LOOKS[number % len(LOOKS)] for number, name in enumerate(machines)}
    places = {label: place for place, label in enumerate(rows["label"].unique())}
    figure, (share, change) = plt.subplots(
        1,
        2,
        figsize=(style.WIDTH, 1.05 + 0.2 * len(places)),
        sharey=True,
        gridspec_kw={"width_ratios": [1.35, 1]},
    )
    draw_shares(share, rows, places, looks)
    draw_changes(change, rows, places, looks)
    for axes in (share, change):
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="both")
    share.set_yticks(list(places.values()), list(places))
    share.set_ylim(len(places) - 0.4, -0.6)
    figure.legend(loc="outside upper center", ncols=len(machines), handletextpad=0.2)
    gone = {label for measured in machines.values() for label in current(measured.bench)[1]} - set(places)
    style.note(
        figure,
        first,
        *(origin for origin in dict.fromkeys(other.origin for other in others) if origin != first.origin),
        "unlocked clocks, uniform inputs, 95% intervals",
        f"right: filled: share, hollow: TFLOP/s; shaded: within {AGREE_PERCENT:.0f}%",
        withheld=False,
        outdated=sorted(gone),
    )
    return figure


def machines_figure(inputs: Inputs) -> Figure:
    return draw(all_runs(inputs))
