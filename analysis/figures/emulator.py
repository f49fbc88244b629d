"""How near the counters that the emulator predicts come to those that the hardware counted, by
counter.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.counters import COUNTERS
from analysis.figures import style
from analysis.results import Results
from analysis.tables.emulator import EXACT, pairs

BANDS = {
    "exact": (EXACT, style.BLUE),
    "within 1%": (0.01, style.SKY),
    "within 10%": (0.1, style.ORANGE),
}
BEYOND = ("further", style.RED)


def banded(rows: pd.DataFrame) -> pd.DataFrame:
    """Counts of pairs by counter's label: a column for each band, each pair in the first one that
    holds it.
    """
    apart = rows["difference"].abs()
    names = pd.Series(BEYOND[0], index=rows.index)
    for name, (limit, _) in reversed(BANDS.items()):
        names = names.where(apart > limit, name)
    counts = pd.crosstab(rows["label"], names).reindex(columns=[*BANDS, BEYOND[0]], fill_value=0)
    total = counts.sum(axis=1)
    order = (counts["exact"] / total + counts["within 1%"] / total / 1000).sort_values(
        ascending=False, kind="stable"
    )
    return counts.loc[order.index]


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure, for a column of the paper."""
    rows = pairs(results)
    if rows.empty:
        return style.empty(results, "The emulator next to the GPU", width=style.COLUMN)
    rows = rows.assign(label=rows["counter"].map(lambda key: COUNTERS[key].label))
    counts = banded(rows)
    figure, axes = plt.subplots(figsize=(style.COLUMN + 0.6, 0.75 + style.ROW * len(counts)))
    left = pd.Series(0.0, index=counts.index)
    for name, colour in [*((name, colour) for name, (_, colour) in BANDS.items()), BEYOND]:
        width = 100 * counts[name] / counts.sum(axis=1)
        axes.barh(range(len(counts)), width, 0.76, left=left, color=colour, label=name, linewidth=0)
        left = left + width
    for y, total in enumerate(counts.sum(axis=1)):
        style.in_row(axes, 1.02, y, str(total))
    style.list_rows(axes, range(len(counts)), list(counts.index))
    axes.set(xlim=(0, 100), xlabel="% of predictions; their number at the right")
    figure.legend(
        loc="outside upper left", ncols=4, handlelength=1, columnspacing=0.8, handletextpad=0.4
    )
    title = "Predicted counters next to counted ones"
    description = "How many predictions are exact, near, or off."
    return style.finish(figure, results, title, description)
