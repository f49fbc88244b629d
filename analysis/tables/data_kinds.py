"""One kernel on several kinds of data: how far its timings lie apart."""

from __future__ import annotations

import pandas as pd

AGREE_PERCENT = 1.0
KEYS = ["experiment", "regime", "n", "variant"]


def spreads(timings: pd.DataFrame) -> pd.DataFrame:
    """The rows of one variant, size and regime on each kind of data, with what they say together joined to each.

    Columns added: tflops_alone (of the window in which the variant ran alone, L2 not flushed; power times work per
    joule), kinds (of data), tflops_spread_percent and flop_per_clock_sm_spread_percent (largest over smallest, less
    one), agrees_within_1_percent ("yes" or "no" for FLOP/clock/SM; empty where there is one kind only).
    """
    grouped = timings.groupby(KEYS, sort=False)
    found = timings.assign(
        tflops_alone=timings["power_w"].astype(float) * timings["gflop_per_j"].astype(float) / 1e3,
        kinds=grouped["data"].transform("nunique"),
    )
    for name in ("tflops", "flop_per_clock_sm"):
        found[f"{name}_spread_percent"] = 100 * (grouped[name].transform("max") / grouped[name].transform("min") - 1)
    within = found["flop_per_clock_sm_spread_percent"] <= AGREE_PERCENT
    found["agrees_within_1_percent"] = within.map({True: "yes", False: "no"}).where(found["kinds"] > 1, "")
    return found
