"""One machine against another: a map of kernels and sizes, with how far each share of cuBLAS changed.

A machine is a folder of tables; two days on one GPU are two. A panel per machine but the first has the rungs and sizes
that both have, from the source that the tree has now. A cell has the change of the share in percent, in colour where it
is more than leases of one machine lie apart. What makes one machine faster than another, or one day faster than the
next, makes cuBLAS faster too, and so should leave the shares.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.data import Measured, current
from analysis.figures import style
from analysis.inputs import Inputs
from analysis.tables.machines import YARDSTICK, all_runs, lease_spreads, shares

FULL = 25.0  # percent: a change so large, or larger, has the full colour
ROW, CELL = 0.155, 0.36  # inches


def draw_map(axes: Axes, rows: pd.DataFrame, labels: list[str], sizes: list[int]) -> None:
    """A cell per kernel and size: its change, in colour where it is beyond what leases differ by."""
    for row in rows.to_dict("records"):
        x, y, change = sizes.index(row["n"]), labels.index(row["label"]), row["share_change_percent"]
        if row["beyond_leases"]:
            colour = style.KERNEL if change > 0 else style.BAD
            strength = 0.15 + 0.85 * min(1.0, abs(change) / FULL)
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=colour, alpha=strength, linewidth=0))
        strong = row["beyond_leases"] and abs(change) > FULL / 2
        look: dict[str, Any] = {"color": "white" if strong else style.INK, "fontsize": 6.5}
        text = f"{change:+.0f}" if abs(change) >= 10 else f"{change:+.1f}"
        axes.text(x, y, text, ha="center", va="center", **look)
    axes.set_xticks(range(len(sizes)), [f"{n}" for n in sizes], rotation=90, fontsize=7)
    axes.set(xlim=(-0.5, len(sizes) - 0.5), ylim=(len(labels) - 0.5, -0.5))
    axes.tick_params(length=0, pad=2)


def draw(machines: dict[str, Measured], spreads: pd.DataFrame | None = None) -> Figure:
    """The figure. The first machine is the one that the others are held against; `spreads`: see `shares`."""
    first, *others = machines.values()
    rows = shares(machines, spreads)
    if rows.empty:
        one = "There is one run only" if not others else "No rung of this tree was measured in two runs at one size"
        why = f"{one}; each folder of data/ with a bench.csv is one."
        return style.left_out(first, "Machine against machine", why)
    base, *names = machines
    rows = rows[rows["machine"] != base]
    labels, sizes = list(dict.fromkeys(rows["label"])), sorted(rows["n"].unique())
    names = [name for name in names if name in set(rows["machine"])]
    across = max(1, min(len(names), int((style.WIDTH - 1.6) / (CELL * len(sizes)))))
    down = math.ceil(len(names) / across)
    width = max(style.WIDTH, 1.8 + CELL * len(sizes) * across)
    size = (width, 0.9 + down * (0.6 + ROW * len(labels)))
    figure, grid = plt.subplots(down, across, figsize=size, sharey=True, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.remove()
    for name, axes in zip(names, grid.flat, strict=False):
        draw_map(axes, rows[rows["machine"] == name], labels, sizes)
        axes.set_title(f"{name} against {base}: share of cuBLAS in turns with it, %", loc="left", fontsize=8)
        axes.set_yticks(range(len(labels)), labels, fontsize=7)
        axes.set_xlabel("n")
    gone = {label for measured in machines.values() for label in current(measured.bench)[1]} - set(labels)
    style.note(
        figure,
        first,
        *(origin for origin in dict.fromkeys(other.origin for other in others) if origin != first.origin),
        "unlocked clocks, uniform inputs",
        f"colour: more than leases of one machine differ by, and than {YARDSTICK:.0f}%",
        withheld=False,
        outdated=sorted(gone),
    )
    return figure


def machines_figure(inputs: Inputs) -> Figure:
    return draw(all_runs(inputs), lease_spreads(inputs))
