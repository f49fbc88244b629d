"""emulator.csv: counters that the emulator predicts next to those that the hardware counted, one
row for each counter.

pairs counts kernels and sizes; exact and within_1_percent count pairs. Differences are of the
measured value; for bank conflicts they are of the wavefronts that the conflicts are part of.
"""

from __future__ import annotations

import pandas as pd

from analysis.counters import COUNTERS, KEY_OF_NCU
from analysis.results import Results

EXACT = 1e-6  # relative: the digits that Nsight Compute gives
KEYS = ["variant", "m", "n", "k", "metric"]
CONFLICTS = "data_bank_conflicts_pipe_lsu_mem_shared"
WAVEFRONTS = "data_pipe_lsu_wavefronts_mem_shared"


def pairs(results: Results) -> pd.DataFrame:
    """One row for each kernel, size and counter that both have of one source: variant, label,
    dtype, n, metric (ncu's), counter (our key), predicted, measured, and difference, relative to
    what was measured."""
    measured, predicted = (results.table(name, passed=True) for name in ("counters", "predictions"))
    both = measured.merge(predicted[[*KEYS, "value"]], on=KEYS, suffixes=("", "_predicted"))
    wavefronts = measured.assign(
        metric=measured["metric"].str.replace(WAVEFRONTS, CONFLICTS, regex=False)
    )
    wavefronts = wavefronts[wavefronts["metric"] != measured["metric"]]
    both = both.merge(
        wavefronts[[*KEYS, "value"]].rename(columns={"value": "whole"}), on=KEYS, how="left"
    )
    both = both.assign(whole=both["whole"].fillna(both["value"]))
    both = both[both["whole"] > 0].rename(
        columns={"value": "measured", "value_predicted": "predicted"}
    )
    both = both.assign(
        counter=both["metric"].map(KEY_OF_NCU),
        difference=(both["predicted"] - both["measured"]) / both["whole"],
    )
    return both[
        [
            "variant",
            "label",
            "dtype",
            "n",
            "metric",
            "counter",
            "predicted",
            "measured",
            "difference",
        ]
    ]


def emulator_table(results: Results) -> pd.DataFrame:
    """The table: counter, label, metric, pairs, exact, within_1_percent, median_difference,
    worst_difference (with its sign) and worst_variant; counters that are always exact come
    first."""
    rows = []
    for (counter, metric), group in pairs(results).groupby(["counter", "metric"], sort=False):
        apart = group["difference"].abs()
        worst = group.iloc[int(apart.to_numpy().argmax())]
        exact = int((apart <= EXACT).sum())
        row = {
            "counter": counter,
            "label": COUNTERS[str(counter)].label,
            "metric": metric,
            "pairs": len(group),
            "exact": exact,
        }
        row |= {"within_1_percent": int((apart <= 0.01).sum()), "median_difference": apart.median()}
        row |= {"worst_difference": worst["difference"] if exact < len(group) else 0.0}
        rows.append(row | {"worst_variant": worst["variant"] if exact < len(group) else ""})
    columns = ["counter", "label", "metric", "pairs", "exact", "within_1_percent"]
    columns += ["median_difference", "worst_difference", "worst_variant"]
    found = pd.DataFrame(rows, columns=columns)
    order = (-found["exact"] / found["pairs"]).rename("order")
    return (
        found.assign(order=order)
        .sort_values("order", kind="stable", ignore_index=True)
        .drop(columns="order")
    )
