"""The GPU's results next to the emulator's, one row per kernel: agreement.csv.

variant, label, dtype, stale, cases, elements, differing (in any bit), worst_difference_share (of twice the rounding
bound; empty where not finite), passed. Without rows where it was not measured.
"""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs


def agreement(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of agreement.csv: all cases of a kernel in one row."""
    rows = rows.assign(worst=rows["worst_difference_share"].astype(float), passed=rows["passed"].astype(bool))
    grouped = rows.groupby(["variant", "label", "dtype"], sort=False)
    return grouped.agg(
        stale=("stale", "any"),
        cases=("case", "size"),
        elements=("elements", "sum"),
        differing=("differing", "sum"),
        worst_difference_share=("worst", lambda worst: worst.max(skipna=False)),
        passed=("passed", "all"),
    ).reset_index()


def agreement_table(inputs: Inputs) -> pd.DataFrame:
    return agreement(inputs.offered("agreement", timed=False))
