"""How GPUs of one model, and two models, compare: the fraction of cuBLAS of 16-bit kernels at two
sizes.

A dot is a GPU model's fraction; a bar reaches from the least to the greatest of the GPUs of that
model that measured it.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results, note_of, of_archives, records
from analysis.tables.gpus import gpus_table

DTYPE = "bf16"
SIZES = (4096, 8192, 16384)
LOOKS = [(style.BLUE, "o"), (style.RED, "D"), (style.GREEN, "s"), (style.ORANGE, "^")]


def compared(results: Results) -> pd.DataFrame:
    """gpus.csv of this folder and all archives, 16-bit kernels that two models have or several GPUs
    measured.
    """
    archives = of_archives(results.catalogue, Path("data"))
    rows = gpus_table({**archives, results.name: results})
    rows = rows[(rows["dtype"] == DTYPE) & rows["n"].isin(SIZES)]
    models = rows.groupby("variant")["model"].transform("nunique")
    return rows[(models > 1) | (rows["model"].nunique() == 1)]


def draw_panel(
    axes: Axes, rows: pd.DataFrame, places: dict[str, int], looks: dict[str, tuple[str, str]]
) -> None:
    """One size: a dot for each model, with the range over its GPUs."""
    for row in records(rows):
        colour, marker = looks[row.model]
        place = places[row.variant] + 0.14 * (list(looks).index(row.model) - (len(looks) - 1) / 2)
        if row.gpus > 1:
            axes.plot(
                [100 * row.fraction_least, 100 * row.fraction_greatest],
                [place] * 2,
                color=colour,
                linewidth=2.2,
                alpha=0.45,
                solid_capstyle="butt",
            )
        axes.plot(100 * row.fraction, place, marker, color=colour, markersize=3.5)
    axes.axvline(100, color=style.INK, linewidth=0.8)
    axes.set_xlabel("% of cuBLAS")


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure, a panel for each size."""
    rows = compared(results)
    if rows.empty:
        return style.empty(
            results, "GPUs of one model and of several", "One GPU alone measured these kernels."
        )
    places = {variant: place for place, variant in enumerate(dict.fromkeys(rows["variant"]))}
    labels = dict(zip(rows["variant"], rows["label"], strict=True))
    looks = dict(zip(dict.fromkeys(rows["model"]), LOOKS, strict=False))
    sizes = [n for n in SIZES if (rows["n"] == n).any()]
    figure, grid = plt.subplots(
        1, len(sizes), figsize=(style.WIDE, 0.9 + 0.17 * len(places)), sharey=True, squeeze=False
    )
    for axes, n in zip(grid.flat, sizes, strict=True):
        draw_panel(axes, rows[rows["n"] == n], places, looks)
        axes.set_title(f"n = {n}")
        style.list_rows(axes, places.values(), [labels[variant] for variant in places])
    for model, (colour, marker) in looks.items():
        most = rows.loc[rows["model"] == model, "gpus"].max()
        label = f"{model.upper()}, bar: {most:.0f} GPUs" if most > 1 else model.upper()
        grid[0][0].plot([], [], marker, color=colour, markersize=3.5, label=label)
    figure.legend(loc="outside upper left", ncols=len(looks), handletextpad=0.1)
    style.describe(
        figure,
        "Fraction of cuBLAS by GPU model",
        "A dot for each GPU model; bars span GPUs of one model.",
    )
    style.provenance(figure, results, f"{DTYPE}, interleaved")
    style.mark(figure, note_of([results, *of_archives(results.catalogue).values()]))
    return figure
