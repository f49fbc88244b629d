"""The three shares of cuBLAS next to each other, shares.csv, and how far repetitions lie apart, noise.csv.

shares.csv: a row of each timing of a kernel, where the shares differ most first: experiment, variant, label, dtype, n,
regime, data, share_kind (what the headline share is of: alone, or in turns), throttle_reasons; in percent
share_in_turns_percent (next to the baseline), share_alone_percent (each in windows of its own; empty for short runs and
where the baseline had none), share_per_clock_percent (at one clock); alone_against_turns_percent (what the second is
more than the first); sm_clock_mhz (in turns), processes.

noise.csv: as `analysis.statistics.noise` describes it, in percent.
"""

from __future__ import annotations

import pandas as pd

from analysis.data import difference_percent
from analysis.inputs import Inputs
from analysis.statistics import noise

COPIED = ["experiment", "variant", "label", "dtype", "n", "regime", "data", "share_kind", "throttle_reasons"]
SHARES = ("share_in_turns", "share_alone", "share_per_clock")


def shares(bench: pd.DataFrame) -> pd.DataFrame:
    """The columns of shares.csv from rows of `Measured.bench`."""
    rows = bench[bench["kind"] != "baseline"]
    rows = rows.assign(**{f"{name}_percent": 100 * rows[name].astype(float) for name in SHARES})
    rows = rows.assign(alone_against_turns_percent=difference_percent(rows["share_alone"], rows["share_in_turns"]))
    rows = rows.sort_values("alone_against_turns_percent", key=abs, ascending=False, kind="stable", ignore_index=True)
    percent = [f"{name}_percent" for name in SHARES]
    return rows[[*COPIED, *percent, "alone_against_turns_percent", "sm_clock_mhz", "processes"]]


def shares_table(inputs: Inputs) -> pd.DataFrame:
    return shares(inputs.measured().bench)


def noise_table(inputs: Inputs) -> pd.DataFrame:
    leases = inputs.rows("lease_medians") if inputs.has("lease_medians") else None
    found = noise(inputs.rows("bench"), leases)
    return found.assign(half_width_percent=100 * found.pop("half_width"))
