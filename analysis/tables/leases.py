"""How far the shares of repeated measurements lie apart from card to card: leases.csv.

variant, label, dtype, m, n, k, regime, data, leases (how many cards), share_least, share_median, share_most, spread
(the most minus the least, as a part of the median; empty for one card). Without rows where nothing was repeated.
"""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs

KEYS = ["variant", "label", "dtype", "m", "n", "k", "regime", "data"]
COLUMNS = [*KEYS, "leases", "share_least", "share_median", "share_most", "spread"]


def leases(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of leases.csv from lease_medians.csv, in its order."""
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = rows.assign(share=rows["baseline_time_us_median"] / rows["time_us_median"])
    found = rows.groupby(KEYS, sort=False, observed=True)["share"].agg(["size", "min", "median", "max"]).reset_index()
    found.columns = pd.Index([*KEYS, "leases", "share_least", "share_median", "share_most"])
    spread = (found["share_most"] - found["share_least"]) / found["share_median"]
    return found.assign(spread=spread.where(found["leases"] > 1))


def leases_table(inputs: Inputs) -> pd.DataFrame:
    if not inputs.has("lease_medians"):
        return leases(pd.DataFrame())
    return leases(inputs.offered("lease_medians", timed=True))
