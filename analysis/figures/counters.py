"""Counters of an experiment's kernels side by side: a row for each kernel, a column for each
counter.

Percentages are shaded from 0 to 100; counts are shaded by their logarithm within the column, since
only their order of magnitude is comparable.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import ladders
from analysis.counters import COUNTERS
from analysis.estimates import number
from analysis.figures import style
from analysis.figures.ladder import EXPERIMENT
from analysis.numbers import SIZE
from analysis.results import Results
from analysis.tables.summary import declared

COLUMNS = (
    "duration_us",
    "sm_throughput",
    "l1_throughput",
    "l2_throughput",
    "dram_throughput",
    "math_pipe",
    "issue_active",
    "instructions",
    "global_load_sectors",
    "shared_load_wavefronts",
    "shared_conflicts",
    "achieved_occupancy",
)


def counted(results: Results, experiment: str) -> pd.DataFrame:
    """Counters at one size of the experiment's variants, with a mark each, by worklog and in the
    catalogue's order.

    The size is 4096 where that was profiled. Libraries whose dtype no kernel of the experiment has
    are left out.
    """
    rows = results.counters
    rows = rows[rows["variant"].isin(declared().get(experiment, {}).get("variants", []))]
    rows = rows[rows["dtype"].isin(set(rows.loc[rows["kind"] != "baseline", "dtype"]))]
    sizes = sorted(rows["n"].unique(), key=lambda n: (n != SIZE, n))
    rows = rows[rows["n"] == sizes[0]] if sizes else rows
    order = {name: i for i, name in enumerate(ladders.colours(results.variants))}
    worklogs = results.variants.set_index("variant")["worklog"]
    rows = rows.assign(ladder=rows["variant"].map(worklogs).map(order))
    rows = rows.sort_values(["ladder", "order"], kind="stable", ignore_index=True)
    return rows.assign(place=range(len(rows)))


def nothing(results: Results, what: str, asked: str, experiment: str | None) -> Figure:
    """The panel, or the error, where no counter of an experiment counts; `experiment` is None where
    none was named.
    """
    rows = results.raw("counters")
    rows = rows[rows["variant"].isin(declared().get(asked, {}).get("variants", []))]
    recorded = (
        (results.provenance.left_out or {}).get("profile") if results.has("counters") else None
    )
    why = recorded or "Nothing was profiled."
    return style.empty(results, what, why, experiment=experiment, measured=rows)


def shades(values: pd.Series, key: str) -> pd.Series:
    """Shades from 0 to 1 of one counter's values."""
    numbers = values.astype(float)
    if COUNTERS[key].unit == "%":
        return numbers / 100
    logs = numbers.where(numbers > 0).map(np.log10)
    span = float(logs.max() - logs.min()) if logs.notna().any() else 0.0
    relative: pd.Series = ((logs - logs.min()) / max(span, 1.0)).fillna(0.0)
    return relative


def draw_column(axes: Axes, values: pd.Series, key: str, x: int) -> None:
    """One counter: a shaded cell for each kernel, with its number."""
    for y, (value, shade) in enumerate(zip(values.astype(float), shades(values, key), strict=True)):
        if np.isnan(value):
            axes.text(x, y, "–", ha="center", va="center", color=style.GREY)
            continue
        shade = float(np.clip(shade, 0, 1))
        axes.barh(y, 1, 1, left=x - 0.5, color=plt.get_cmap("Blues")(0.75 * shade), linewidth=0)
        text = number(value) if COUNTERS[key].unit == "%" else style.short(value)
        axes.text(x, y, text, ha="center", va="center", color="white" if shade > 0.8 else style.INK)


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure of one experiment, at n = 4096 where that was profiled."""
    asked = experiment or EXPERIMENT
    rows = counted(results, asked)
    keys = [key for key in COLUMNS if key in rows and rows[key].notna().any()]
    if rows.empty or not keys:
        return nothing(results, f"Counters of {asked}", asked, experiment)
    figure, axes = plt.subplots(figsize=(style.WIDE, 1.1 + style.ROW * len(rows)))
    for x, key in enumerate(keys):
        draw_column(axes, rows[key], key, x)
    axes.set_yticks(range(len(rows)), list(rows["label"]))
    axes.set(xlim=(-0.5, len(keys) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axes.xaxis.tick_top()
    axes.set_xticks(
        range(len(keys)),
        [f"{COUNTERS[key].short} {COUNTERS[key].unit}" for key in keys],
        rotation=35,
        ha="left",
        rotation_mode="anchor",
    )
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)
    title = f"Nsight Compute's counters of {asked}"
    description = "A row for each kernel, a column for each counter; darker is more."
    facts = (f"n = {rows['n'].iloc[0]}, Nsight Compute", "darker: more")
    return style.finish(figure, results, title, description, *facts)
