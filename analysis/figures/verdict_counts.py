"""How many claims hold, by worklog and by what they are about: stacked bars, a line of panels for each machine."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.claims.verdicts import DIRECTION, FAILS, HOLDS, MISSES, NOISY, UNMEASURED, UNTESTABLE
from analysis.figures import style
from analysis.inputs import Inputs
from contracts import schema, worklogs

LOOKS: dict[str, dict[str, Any]] = {
    HOLDS: {"color": style.KERNEL},
    DIRECTION: {"color": "#8CC2E6"},
    FAILS: {"color": style.BAD, "hatch": "///"},
    MISSES: {"color": "#F3B59A"},
    NOISY: {"color": "#F2D58A"},
    UNMEASURED: {"color": "#C9C9C9"},
    UNTESTABLE: {"color": "#E4E4E4"},
}
INKS = {verdict: style.INK for verdict in LOOKS} | {HOLDS: "white", FAILS: "white"}
ROOM = 0.045  # share of the axis that a count needs to stand in its bar


def draw(rows: pd.DataFrame, worklogs: list[str]) -> Figure:
    """The figure, of rows of claims.csv: the counted ones."""
    rows = rows[rows["counted"]]
    kinds = [kind for kind in schema("claims_table")["properties"]["about"]["enum"] if kind in set(rows["about"])]
    kinds = sorted(kinds, key=lambda kind: -(rows["about"] == kind).sum())
    worklogs = [key for key in worklogs if key in set(rows["worklog"])]
    machines = list(rows["machine"].unique())
    height = 1.0 + len(machines) * (0.35 + 0.19 * max(len(worklogs), len(kinds)))
    figure, panels = plt.subplots(len(machines), 2, figsize=(style.WIDTH, height), squeeze=False)
    for (left, right), machine in zip(panels, machines, strict=True):
        part = rows[rows["machine"] == machine]
        bars(left, part, "worklog", worklogs)
        bars(right, part, "about", kinds)
        left.set_title(f"By worklog, {machine}" if len(machines) > 1 else "By worklog", loc="left")
        right.set_title("By what they are about", loc="left")
    for axes in panels[-1]:
        axes.set_xlabel("claims")
    seen = [verdict for verdict in LOOKS if verdict in set(rows["verdict"])]
    handles = [
        Rectangle((0, 0), 1, 1, linewidth=0, facecolor=look["color"], edgecolor="white", hatch=look.get("hatch"))
        for look in (LOOKS[verdict] for verdict in seen)
    ]
    figure.legend(handles, seen, loc="outside upper center", ncols=len(seen), handlelength=1.2)
    origins = " · ".join(rows["origin"].unique())
    figure.supxlabel(origins, x=0.01, ha="left", fontsize=8, color=style.INK)
    return figure


def bars(axes: Axes, rows: pd.DataFrame, column: str, names: list[str]) -> None:
    """A bar for each name, first on top, with the counts of the verdicts in it."""
    seen = [verdict for verdict in LOOKS if verdict in set(rows["verdict"])]
    counts = pd.crosstab(rows[column], rows["verdict"]).reindex(index=names, columns=seen, fill_value=0)
    longest = max(1, counts.sum(axis=1).max())
    start = [0] * len(names)
    for verdict in seen:
        look = LOOKS[verdict]
        widths = list(counts[verdict])
        bar: dict[str, Any] = {"height": 0.72 if len(names) > 6 else 0.55, "edgecolor": "white", "linewidth": 0.5}
        axes.barh(range(len(names)), widths, left=start, **bar, **look)
        for place, (first, width) in enumerate(zip(start, widths, strict=True)):
            if width >= ROOM * longest * len(str(width)):
                box: dict[str, Any] = {}
                if "hatch" in look:
                    box = {"bbox": {"facecolor": look["color"], "edgecolor": "none", "pad": 0.8}}
                at: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 7, "color": INKS[verdict]}
                axes.text(first + width / 2, place, str(width), **at, **box)
        start = [first + width for first, width in zip(start, widths, strict=True)]
    style.name_rows(axes, range(len(names)), names, margin=0.6)
    axes.set_xlim(0, longest * 1.02)
    axes.locator_params(axis="x", integer=True)


def claims_figure(inputs: Inputs) -> Figure:
    return draw(inputs.report("claims", "claims_table"), list(worklogs.sources()))
