"""How the isolated fraction of cuBLAS, and the one per clock, differ from the interleaved one.

A dot is a row that five processes measured. The interleaved fraction is the headline everywhere;
the figure shows how much another definition would change it.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results

OTHERS = {"fraction_isolated": "isolated", "fraction_per_clock": "per clock"}


def differences(timings: pd.DataFrame) -> pd.DataFrame:
    """dtype, definition ("isolated", "per clock") and difference, in percent of the interleaved
    fraction.
    """
    rows = timings[timings["fraction_isolated"].notna() & (timings["kind"] != "baseline")]
    parts = [
        pd.DataFrame(
            {
                "dtype": rows["dtype"],
                "definition": word,
                "difference": 100 * (rows[name] / rows["fraction"] - 1),
            }
        )
        for name, word in OTHERS.items()
    ]
    return pd.concat(parts, ignore_index=True)


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure, for a column of the paper."""
    rows = differences(results.squares)
    if rows.empty:
        return style.empty(
            results, "Fractions of cuBLAS", "No row was measured in five processes.", style.COLUMN
        )
    dtypes = [name for name in style.DTYPES if name in set(rows["dtype"])]
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.5))
    looks = {
        "hue_order": list(OTHERS.values()),
        "palette": [style.RED, style.BLUE],
        "order": dtypes,
        "dodge": True,
    }
    sns.stripplot(
        rows,
        x="difference",
        y="dtype",
        hue="definition",
        size=2.6,
        alpha=0.6,
        jitter=0.22,
        ax=axes,
        **looks,
    )
    axes.axvline(0, color=style.INK, linewidth=0.8)
    limit = 1.05 * rows["difference"].abs().max()
    axes.set(xlim=(-limit, limit), xlabel="difference from the interleaved fraction, %", ylabel="")
    axes.grid(axis="x")
    for place, dtype in enumerate(dtypes):
        for shift, (word, colour) in zip(
            (-0.2, 0.2), (("isolated", style.RED), ("per clock", style.BLUE)), strict=True
        ):
            off = rows[(rows["dtype"] == dtype) & (rows["definition"] == word)]["difference"].abs()
            axes.text(
                1.0,
                place + shift,
                f"median {off.median():.2g}%",
                transform=axes.get_yaxis_transform(),
                ha="left",
                va="center",
                color=colour,
            )
    sns.move_legend(
        axes, "lower left", bbox_to_anchor=(0, 1), ncols=2, title=None, handletextpad=0.1
    )
    style.describe(
        figure,
        "Isolated and per-clock fractions of cuBLAS, next to interleaved ones",
        "Each dot is a row measured in five processes; at zero, both definitions agree.",
    )
    style.provenance(figure, results, f"{len(rows) // 2} rows of five processes")
    return figure
