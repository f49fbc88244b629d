"""Counters that the emulator predicts next to those that the hardware counted: predicted.csv.

variant, label, n, counter (a name in words), metric (ncu's), predicted, measured, difference_percent. A kernel whose
source changed since it was measured is left out.
"""

from __future__ import annotations

import pandas as pd

from analysis.data import metrics
from analysis.inputs import Inputs

CONFLICTS = "data_bank_conflicts_pipe_lsu_mem_shared"
WAVEFRONTS = "data_pipe_lsu_wavefronts_mem_shared"  # what such conflicts are a part of


def differences(counters: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """One row per variant and counter that both have: variant, label, n, metric, predicted, measured,
    difference_percent.

    `difference_percent` is of the measured value; of the measured wavefronts for bank conflicts.
    """
    keys = ["variant", "m", "n", "k", "metric"]
    current = counters[~counters["stale"].astype(bool)]
    both = current.merge(predictions[[*keys, "value"]], on=keys, suffixes=("", "_predicted"))
    both = both.rename(columns={"value": "measured", "value_predicted": "predicted"})
    wavefronts = current.assign(metric=current["metric"].str.replace(WAVEFRONTS, CONFLICTS))
    wavefronts = wavefronts[wavefronts["metric"] != current["metric"]][[*keys, "value"]]
    both = both.merge(wavefronts.rename(columns={"value": "whole"}), on=keys, how="left")
    both = both.assign(whole=both["whole"].fillna(both["measured"]))
    both = both[both["whole"] > 0]
    both = both.assign(difference_percent=100 * (both["predicted"] - both["measured"]) / both["whole"])
    return both[["variant", "label", "n", "metric", "predicted", "measured", "difference_percent"]]


def names() -> dict[str, str]:
    """ncu's names of counters, and their names in words, in the order of contracts/metrics.yaml."""
    return {metric["ncu"]: metric["label"] for group in metrics().values() for metric in group.values()}


def counter_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The report table of `differences`: kernels in the catalogue's order, counters in that of `names`."""
    words = names()
    rows = rows.assign(place=rows["metric"].map(list(words).index), counter=rows["metric"].map(words))
    order = {variant: number for number, variant in enumerate(dict.fromkeys(rows["variant"]))}
    rows = rows.assign(kernel=rows["variant"].map(order)).sort_values(["kernel", "n", "place"], kind="stable")
    return rows[["variant", "label", "n", "counter", "metric", "predicted", "measured", "difference_percent"]]


def predicted_table(inputs: Inputs) -> pd.DataFrame:
    return counter_table(differences(inputs.measured().counters, inputs.rows("predictions")))
