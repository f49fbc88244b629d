"""Why warps wait: cycles of a warp per instruction that a scheduler issues, split by what the warp waits for.

A row per rung: on the left in cycles, on the right as shares of all of them. The parts add up to what ncu calls warp
cycles per issued instruction. "Selected" is the one cycle that issues; "not selected" is a warp that could go, but
another went.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.data import Measured, fold_twins, marked, metric_names, wide
from analysis.figures import style
from analysis.figures.counters import groups
from analysis.metrics import column
from analysis.tables.compare import STALLS

NAMED = 6  # reasons with a colour of their own, in addition to the two that are no waiting
READY = {"stall_selected": "#444444", "stall_not_selected": "#B5B5B5"}
OTHER = "#FFFFFF"
GAP = 0.6  # between groups of rungs, in rows


def split(counted: pd.DataFrame) -> pd.DataFrame:
    """Cycles by reason, a row per row of a wide counters table.

    Columns: the keys of READY, the NAMED others whose share of a rung's cycles is largest on average over rungs, in
    that order, and `other`, the sum of what is left.
    """
    keys = [key for key in counted.columns if key.startswith("stall_")]
    cycles = counted[keys].astype(float).fillna(0.0)
    waits = [key for key in keys if key not in READY]
    mean = cycles.div(cycles.sum(axis=1), axis=0)[waits].mean().sort_values(ascending=False, kind="stable")
    named = list(mean.index[:NAMED])
    left = [key for key in waits if key not in named]
    return pd.DataFrame(
        {**{key: column(cycles, key).fillna(0.0) for key in READY}, **{key: cycles[key] for key in named}}
    ).assign(other=cycles[left].sum(axis=1))


def axis_end(totals: pd.Series) -> float:
    """Where the axis of cycles ends: behind the longest bar that is not more than three times the median one."""
    return 1.12 * float(totals[totals <= 3 * totals.median()].max())


def look(colour: str) -> dict[str, Any]:
    """How a part is filled; the rest is hatched."""
    hatched = {"edgecolor": style.INK, "linewidth": 0.4, "hatch": "//////"}
    return {"facecolor": colour, **(hatched if colour == OTHER else {"linewidth": 0})}


def draw_bars(axes: Axes, parts: pd.DataFrame, places: np.ndarray, colours: dict[str, str]) -> None:
    """Stacked bars from left to right, in the order of the columns."""
    left = np.zeros(len(parts))
    for name, colour in colours.items():
        width = parts[name].to_numpy()
        axes.barh(places, width, left=left, height=0.74, **look(colour))
        left += width
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def draw(measured: Measured) -> Figure:
    """The figure: fp32 kernels, kernels on tensor cores, libraries."""
    counted, twins = fold_twins(wide(measured.counters, metric_names()))
    if not any(key.startswith("stall_") for key in counted.columns):
        return style.left_out(measured, "Stall reasons", measured.reason("profile"))
    counted = pd.concat(groups(counted), ignore_index=True)
    group = counted["library"].astype(int) * 2 + counted["tensor"].astype(int)
    places = np.arange(len(counted)) + GAP * (group != group.shift()).cumsum().sub(1).to_numpy()
    parts = split(counted)
    totals = parts.sum(axis=1)
    waits = [key for key in parts.columns if key not in READY and key != "other"]
    colours = READY | dict(zip(waits, style.LINES, strict=False)) | {"other": OTHER}
    figure, (cycles, shares) = plt.subplots(1, 2, figsize=(style.WIDTH, 1.45 + 0.165 * (places[-1] + 1)), sharey=True)
    end = axis_end(totals)
    draw_bars(cycles, parts, places, colours)
    draw_bars(shares, parts.div(totals, axis=0) * 100, places, colours)
    for place, total in zip(places, totals, strict=True):
        beyond = total > end
        box: dict[str, Any] | None = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if beyond else None
        text = f"{style.significant(total)}{' ▶' if beyond else ''}"
        x = 0.995 * end if beyond else total + 0.01 * end
        cycles.text(x, place, text, ha="right" if beyond else "left", va="center", bbox=box)
    sizes = sorted(counted["n"].unique())
    labels = marked(counted) + (" n=" + counted["n"].astype(str) if len(sizes) > 1 else "")
    cycles.set_yticks(places, labels)
    cycles.set(xlim=(0, end), ylim=(places[-1] + 0.6, -0.6))
    shares.set_xlim(0, 100)
    cycles.set_xlabel("warp cycles per issued instruction")
    shares.set_xlabel("% of them")
    named = {stall.key: stall.label for stall in STALLS}
    patches = [Rectangle((0, 0), 1, 1, **look(colour)) for colour in colours.values()]
    texts = [named.get(key, "Other reasons") for key in colours]
    figure.legend(patches, texts, loc="outside upper center", ncols=5, handlelength=1.2, handletextpad=0.5)
    style.note(
        figure,
        measured,
        "" if len(sizes) > 1 else f"m = n = k = {sizes[0]}",
        "ncu with clocks not locked",
        "selected: the cycle that issues; not selected: ready, but another warp went; ▶: beyond the axis",
        twins,
        stale=counted["stale"].any(),
    )
    return figure
