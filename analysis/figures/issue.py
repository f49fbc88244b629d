"""Loads of shared memory next to FMAs: what a load costs in wavefronts, and what it costs in issue
cycles.

Where neighbouring lanes read the same address, the hardware merges them and needs half the
wavefronts; the load then takes more cycles of issue. A dot is one loop of the microbenchmark.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results

WARPS = 8  # two for each scheduler
CONFLICTS = ("stride 2", "stride 8")  # patterns of lanes that wait for banks
LANES = {False: "distinct lanes", True: "neighbours merged"}


def loads(results: Results) -> pd.DataFrame:
    """Loads without bank conflicts: bits of a thread, lanes (of `LANES`), wavefronts and
    issue_cycles of a load.
    """
    rows = results.raw("ffma_issue")
    if rows.empty:
        return rows
    rows = rows[
        (rows["beside"] == "load") & (rows["warps"] == WARPS) & ~rows["lanes"].isin(CONFLICTS)
    ]
    # With only one half-warp merged, a load takes as many wavefronts as any other.
    merged = rows["wavefronts"].astype(float) <= rows["bits"].astype(float) / 64
    return pd.DataFrame(
        {
            "bits": rows["bits"].astype(int),
            "lanes": merged.map(LANES),
            "wavefronts": rows["wavefronts"].astype(float),
            "issue_cycles": rows["extra"].astype(float),
        }
    )


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure."""
    rows = loads(results)
    if rows.empty:
        return style.empty(results, "Issue of loads")
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.WIDE, 2.1))
    look = {
        "x": "bits",
        "hue": "lanes",
        "hue_order": list(LANES.values()),
        "palette": [style.BLUE, style.RED],
    }
    sns.barplot(
        rows, y="wavefronts", estimator="median", errorbar=None, saturation=1, ax=left, **look
    )
    sns.stripplot(
        rows, y="issue_cycles", dodge=True, size=2.8, alpha=0.6, ax=right, legend=False, **look
    )
    left.set(xlabel="bits that each thread loads", ylabel="wavefronts of a load")
    right.set(xlabel="bits that each thread loads", ylabel="issue cycles of a load", ylim=(0, None))
    left.bar_label(left.containers[0], fmt="%g")
    left.bar_label(left.containers[1], fmt="%g")
    # Write the median of each strip at its foot.
    medians = rows.groupby(["bits", "lanes"])["issue_cycles"].median()
    for x, bits in enumerate(sorted(rows["bits"].unique())):
        for shift, lanes, colour in (
            (-0.2, LANES[False], style.BLUE),
            (0.2, LANES[True], style.RED),
        ):
            if (bits, lanes) in medians.index:
                value = medians[bits, lanes]
                right.text(x + shift, 0.1, f"{value:.1f}", ha="center", color=style.darker(colour))
    for axes in (left, right):
        axes.grid(axis="y")
    sns.move_legend(left, "upper left", title=None)
    left.set_title("Wavefronts")
    right.set_title("Issue cycles, median at the bottom")
    title = "Merged loads: wavefronts and issue cycles"
    description = "By width of a load and whether lanes merge."
    fact = f"loops of FMAs with loads, {WARPS} warps on an SM, no bank conflicts"
    return style.finish(figure, results, title, description, fact)
