"""The ladders as the worklogs published them and as they are here, side by side: each rung's share of cuBLAS.

A worklog's share is what it says, or its rung's speed over its own cuBLAS's on the same GPU and size. Where it gives no
speed of cuBLAS, that follows from the one rung of which it gives both speed and share; such shares are drawn hollow.
Ours is of the cuBLAS call that alternated with the rung, with its 95% interval. Rungs of our ladders that come from the
worklog, and of which it publishes no speed, have our mark alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.data import Measured, current, one_row_each
from analysis.figures import style
from analysis.inputs import Inputs
from analysis.statistics import SHARE
from analysis.tables.published import shares
from contracts import worklogs

SIZE = 4096  # of ours
HEAD = 1.0  # above each worklog, in rows


def ours(bench: pd.DataFrame) -> pd.DataFrame:
    """One row per variant at SIZE, by variant: `SHARE`."""
    rows = one_row_each(bench[(bench["n"] == SIZE) & (bench["regime"] == "unlocked")])
    return rows.set_index("variant")[list(SHARE)]


def without_theirs(variants: pd.DataFrame, drawn: pd.DataFrame, mine: pd.DataFrame) -> pd.DataFrame:
    """Rungs measured here that come from a drawn worklog, which gives no share of them: worklog, variant.

    They are of the precisions of which it gives some.
    """
    found, origins = [], variants["origin"].str.partition(":")[0]
    taken: set[str] = set()
    for worklog, part in drawn.groupby("worklog"):
        own = variants["variant"].isin(part["variant"])
        texts = set(origins[own]) - taken
        wanted = origins.isin(texts) & variants["dtype"].isin(variants["dtype"][own])
        rungs = variants.loc[wanted & variants["variant"].isin(mine.index), "variant"]
        found += [(worklog, rung) for rung in rungs if rung not in set(part["variant"])]
        taken |= texts
    return pd.DataFrame(found, columns=["worklog", "variant"])


def span(values: pd.Series) -> str:
    """Shares as text, in %: "94" or "79–82"; a dash where there is none."""
    values = values.dropna()
    if values.empty:
        return "–"
    low, high = (f"{100 * value:.{1 if value < 0.095 else 0}f}" for value in (values.min(), values.max()))
    return low if low == high else f"{low}–{high}"


def draw_rung(axes: Axes, place: float, theirs: pd.DataFrame, mine: Mapping[Any, float] | None) -> None:
    """Their marks and ours, the line between them, and both in numbers."""
    ends = [*theirs["share"].dropna(), *([] if mine is None else [mine["share_of_baseline"]])]
    axes.plot([100 * min(ends), 100 * max(ends)], [place] * 2, color=style.BASELINE, linewidth=1.6, zorder=1)
    for how, part in theirs.groupby("how"):
        face = "white" if how == "derived" else style.BAD
        look: dict[str, Any] = {"marker": "D", "s": 22, "facecolor": face, "edgecolor": style.BAD, "linewidth": 1.1}
        axes.scatter(100 * part["share"], [place] * len(part), zorder=2, **look)
    at: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
    axes.text(1.125, place, span(theirs["share"]), color=style.BAD, **at)
    if mine is None:
        axes.text(1.21, place, "–", **at)
        return
    middle, low, high = (100 * mine[name] for name in SHARE)
    axes.errorbar(middle, place, xerr=[[middle - low], [high - middle]], color=style.INK, linewidth=1, capsize=2)
    axes.scatter(middle, place, s=24, color=style.KERNEL, zorder=3, linewidth=0)
    axes.text(1.21, place, f"{middle:.1f}", color=style.KERNEL, **at)


def draw(measured: Measured, published: pd.DataFrame) -> Figure:
    """The figure: a group of rows per worklog, a row per rung."""
    theirs = shares(published, measured.variants)
    theirs = theirs[~theirs["variant"].isin(measured.failed["variant"])]
    _, outdated = current(measured.bench[measured.bench["variant"].isin(theirs["variant"])])
    bench, _ = current(measured.bench[measured.bench["experiment"].str.contains("ladder")])
    mine = ours(bench)
    if theirs.empty or mine.empty:
        return style.left_out(measured, "Published and reproduced shares", measured.reason("bench"))
    theirs = pd.concat([theirs, without_theirs(measured.variants, theirs, mine)], ignore_index=True)
    theirs = theirs.merge(measured.variants[["variant", "label", "order"]], on="variant")
    theirs = theirs.sort_values(["worklog", "order"], kind="stable")
    count = theirs.groupby("worklog")["variant"].nunique()
    figure, axes = plt.subplots(figsize=(style.WIDTH, 0.85 + 0.195 * (count.sum() + (HEAD + 0.3) * len(count))))
    of_rung = mine.to_dict(orient="index")
    place, labels = 0.0, {}
    for worklog, part in theirs.groupby("worklog"):
        gpus, sizes = sorted(part["gpu"].dropna().unique()), sorted(part["n"].dropna().unique())
        size = f", n = {', '.join(f'{n:.0f}' for n in sizes)}" if sizes else ", n not given"
        axes.text(0.005, place + 0.1, f"Worklog {worklog}: {' and '.join(gpus)}{size}", weight="bold", va="center",
                  transform=axes.get_yaxis_transform())  # fmt: skip
        place += HEAD
        for variant, rows in part.groupby("variant", sort=False):
            draw_rung(axes, place, rows, of_rung.get(variant))
            labels[place] = rows["label"].iloc[0]
            place += 1
        place += 0.3
    axes.axvline(100, color=style.INK, linewidth=0.9, zorder=0.9)
    for x, text, colour in ((1.125, "theirs", style.BAD), (1.21, "here", style.KERNEL)):
        axes.annotate(text, (x, 1), (0, 2), "axes fraction", textcoords="offset points", ha="right", weight="bold",
                      color=colour)  # fmt: skip
    axes.set_yticks(list(labels), list(labels.values()))
    axes.set_xlim(left=0, right=max(105.0, 104 * theirs["share"].max()))
    axes.set_ylim(place - 0.6, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="both")
    axes.set_xlabel("share of cuBLAS on the same GPU, %")
    looks: dict[str, dict[str, Any]] = {
        "published": {"marker": "D", "color": style.BAD},
        "published, cuBLAS derived": {"marker": "D", "color": style.BAD, "markerfacecolor": "white"},
        f"here, n = {SIZE}": {"marker": "o", "color": style.KERNEL},
    }
    if "derived" not in set(theirs["how"]):
        del looks["published, cuBLAS derived"]
    handles = [Line2D([], [], linestyle="", markersize=4.5, **look) for look in looks.values()]
    figure.legend(handles, list(looks), loc="outside upper center", ncols=len(looks), handletextpad=0.3)
    style.note(
        figure, measured, f"here: m = n = k = {SIZE}, unlocked clocks, uniform inputs, 95% intervals", outdated=outdated
    )
    return figure


def published_figure(inputs: Inputs) -> Figure:
    return draw(inputs.measured(), pd.DataFrame(worklogs.published()))
