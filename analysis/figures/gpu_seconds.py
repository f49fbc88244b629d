"""Where the seconds of measuring went: each stage's jobs, by part of the work, and how much of it held the GPU."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style

# In the order in which a job goes through them; the second half of each name is what a reader sees
PARTS = {
    "start": "process and imports",
    "prepare": "inputs on the host",
    "lease": "waiting for the GPU",
    "ncu": "starting ncu",
    "context": "context",
    "inputs": "inputs",
    "load": "modules, library handles",
    "contest": "contest of library calls",
    "alone": "each alone",
    "warm-up": "warm-up",
    "window": "window",
    "check": "check",
    "power": "power",
    "worklog": "worklog C's protocol",
    "replay": "replays under ncu",
    "judge": "comparing with float64",
    "command": "whole commands",
}
ON_HOST = ("start", "prepare", "lease", "ncu", "judge", "command")  # the GPU is not held, or not by this alone
STAGES = {"bench": "timing", "profile": "counters", "check": "checks", "agreement": "comparison\nwith emulator"}


def seconds_by_part(rows: pd.DataFrame) -> pd.DataFrame:
    """Seconds by stage (index, most first) and part (columns, as in `PARTS`)."""
    table = rows.pivot_table(index="stage", columns="part", values="seconds", aggfunc="sum", fill_value=0.0)
    table = table.reindex(columns=[part for part in PARTS if part in table.columns])
    order = table.sum(axis=1).sort_values(ascending=False).index
    return table.loc[order]


def draw(measured: Measured, gpu_seconds: pd.DataFrame) -> Figure:
    """A bar a stage, from the parts that hold the GPU to those that do not, which are hatched."""
    table = seconds_by_part(gpu_seconds)
    held = [part for part in table.columns if part not in ON_HOST]
    figure, axes = plt.subplots(figsize=(style.WIDTH, 1.9 + 0.4 * len(table)))
    colours = dict(zip(table.columns, plt.get_cmap("tab20").colors, strict=False))  # type: ignore[attr-defined]
    at = pd.Series(0.0, index=table.index)
    labels = [STAGES.get(str(stage), str(stage)) for stage in table.index]
    for part in [*held, *(part for part in table.columns if part in ON_HOST)]:
        hatch = "" if part in held else "////"
        total = f"{PARTS[part]}, {table[part].sum():.0f} s"
        axes.barh(
            labels, table[part], left=at, color=colours[part], hatch=hatch, edgecolor="white", label=total, lw=0.4
        )
        at += table[part]
    axes.invert_yaxis()
    axes.set_xlabel("seconds of jobs, of which several run at a time; hatched: the GPU is not held")
    axes.grid(axis="x")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    measurements = gpu_seconds.drop_duplicates(["stage", "variant", "item", "lease"])
    held_s = table[held].to_numpy().sum()
    style.note(figure, measured, f"{len(measurements)} measurements, for which the GPU was held {held_s:.0f} s")
    return figure
