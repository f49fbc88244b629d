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
    # Conflicts are told as a part of the wavefronts.
    renamed = measured["metric"].str.replace(WAVEFRONTS, CONFLICTS, regex=False)
    wavefronts = measured.assign(metric=renamed, whole=measured["value"])
    wavefronts = wavefronts.loc[renamed != measured["metric"], [*KEYS, "whole"]]
    both = both.merge(wavefronts, on=KEYS, how="left")
    both = both.assign(whole=both["whole"].fillna(both["value"]))
    columns = {"value": "measured", "value_predicted": "predicted"}
    both = both[both["whole"] > 0].rename(columns=columns)
    both = both.assign(
        counter=both["metric"].map(KEY_OF_NCU),
        difference=(both["predicted"] - both["measured"]) / both["whole"],
    )
    head = ["variant", "label", "dtype", "n", "metric", "counter"]
    return both[[*head, "predicted", "measured", "difference"]]


def emulator_table(results: Results) -> pd.DataFrame:
    """The table: counter, label, metric, pairs, exact, within_1_percent, median_difference,
    worst_difference (with its sign) and worst_variant; counters that are always exact come
    first."""
    rows = []
    for (counter, metric), group in pairs(results).groupby(["counter", "metric"], sort=False):
        apart = group["difference"].abs()
        worst = group.iloc[int(apart.to_numpy().argmax())]
        exact, label = int((apart <= EXACT).sum()), COUNTERS[str(counter)].label
        row = {"counter": counter, "label": label, "metric": metric, "pairs": len(group)}
        row |= {
            "exact": exact,
            "within_1_percent": int((apart <= 0.01).sum()),
            "median_difference": apart.median(),
        }
        row |= {"worst_difference": worst["difference"] if exact < len(group) else 0.0}
        rows.append(row | {"worst_variant": worst["variant"] if exact < len(group) else ""})
    columns = ["counter", "label", "metric", "pairs", "exact", "within_1_percent"]
    columns += ["median_difference", "worst_difference", "worst_variant"]
    table = pd.DataFrame(rows, columns=columns)
    exact_first = (-table["exact"] / table["pairs"]).sort_values(kind="stable")
    return table.loc[exact_first.index].reset_index(drop=True)
