"""What each way of timing gets wrong: how far the time that it reports is from ours, in %, by kernel and size.

A cell is above zero (orange) where the protocol makes the kernel look slower, below (blue) where it makes it look
faster. Some depart from ours in more than their name says; the lower rows show what their name says by itself, as the
difference from a protocol that shares the rest.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from analysis.data import Measured, marked
from analysis.figures import style
from analysis.inputs import Inputs
from experiments.studies.timing_methods.report import OURS, timing_methods

# Protocol and its row's name; one that is not here keeps its own
NAMES = {
    "no_flush": "L2 not flushed",
    "launch_gap": "launch gaps",
    "host_clock": "host clock, 100 launches",
    "after_idle": "after 2 s of idling",
    "worklog_c": "worklog C: mean of the 2nd half",
    "normal": "normal data",
    "zeros": "zeros as data",
}
# Of those that depart in more: their name's part alone
ALONE = {
    "launch_gap": "launch gaps alone",
    "host_clock": "host clock alone",
    "after_idle": "idling alone",
}
FULL = 10.0  # percent at which a colour is at its strongest
COLOURS = LinearSegmentedColormap.from_list("faster to slower", [style.KERNEL, "#FFFFFF", style.BAD])


def cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Differences in %, of rows' names by (label, n); kernels in catalogue order, sizes upwards.

    rows: from `report.timing_methods`. A column without a time of ours is left out.
    """
    rows = rows.assign(mark=marked(rows))[(rows["protocol"] != OURS) & rows["difference_percent"].notna()]
    rows = rows.assign(name=rows["protocol"].map(lambda name: NAMES.get(name, name)))
    alone = rows[rows["protocol"].isin(list(ALONE))]
    alone = alone.assign(name=alone["protocol"].map(ALONE), difference_percent=alone["alone_percent"])
    names = [*NAMES.values(), *(name for name in rows["name"].unique() if name not in NAMES.values()), *ALONE.values()]
    labels = list(dict.fromkeys(rows["mark"]))
    both = pd.concat([rows, alone])
    made = both.pivot_table(index="name", columns=["mark", "n"], values="difference_percent", sort=False)
    columns = sorted(made.columns, key=lambda column: (labels.index(column[0]), column[1]))
    return made.loc[[name for name in names if name in made.index], columns]


def in_percent(value: float) -> str:
    """A difference in a few characters: "-21", "+3.2", "0.0"; a dash where there is none."""
    if not np.isfinite(value):
        return "–"
    text = f"{value:+.0f}" if abs(value) >= 9.95 else f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def draw(measured: Measured, rows: pd.DataFrame) -> Figure:
    """The figure: a row per way of timing, a column per kernel and size."""
    shown = cells(rows) if len(rows) else pd.DataFrame()
    if shown.empty:
        why = (
            measured.reason("timing_methods")
            or "snakemake --cores 1 cross_validation makes timing_methods.csv where there is a GPU."
        )
        return style.left_out(measured, "Ways of timing", why)
    alone = shown.index.isin(list(ALONE.values()))
    parts = [part for part in (shown[~alone], shown[alone]) if len(part)]
    figure, panels = plt.subplots(
        len(parts),
        1,
        figsize=(style.WIDTH, 0.95 + 0.23 * len(shown)),
        squeeze=False,
        gridspec_kw={"height_ratios": [len(part) for part in parts]},
    )
    figure.set_layout_engine("constrained", hspace=0, h_pad=0.04)
    for panel, part in zip(panels.flat, parts, strict=True):
        style.cells(panel, part.to_numpy(), COLOURS, Normalize(-FULL, FULL), part.map(in_percent).to_numpy())
        panel.set_yticks(np.arange(len(part)) + 0.5, part.index)
        panel.tick_params(length=0, pad=1)
    axes = panels.flat[0]
    axes.set_xticks(np.arange(shown.shape[1]) + 0.5, shown.columns.get_level_values("n").map(str))
    axes.tick_params(labeltop=True, labelbottom=False)
    labels = list(shown.columns.get_level_values("mark"))
    for label in dict.fromkeys(labels):
        first, count = labels.index(label), labels.count(label)
        place = (first + count / 2, 0)
        look: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "weight": "bold"}
        axes.annotate(label, place, xytext=(0, 13), annotation_clip=False, **look)
        if first:
            for panel in panels.flat:
                panel.axvline(first, color="white", linewidth=6)
    stale = bool(rows["stale"].any())
    style.note(
        figure,
        measured,
        "difference from the time by our protocol, %: below zero the kernel looks faster than it is",
        "numbers above the columns: m = n = k",
        stale=stale,
    )
    return figure


def timing_methods_figure(inputs: Inputs) -> Figure:
    return draw(inputs.measured(), timing_methods(inputs.offered("timing_methods", timed=True)))
