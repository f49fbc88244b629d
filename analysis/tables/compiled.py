"""What nvcc makes of kernels for the GPUs that the worklogs name, beside what it makes for the one that is measured."""

from __future__ import annotations

import pandas as pd

from analysis import data
from analysis.inputs import Inputs
from contracts import worklogs

COLUMNS = [
    "registers",
    "spill_bytes",
    "blocks_per_sm",
    "occupancy",
    "limiter",
    "lds_32",
    "lds_128",
    "sts_32",
    "sts_128",
]


def beside(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel and architecture of theirs, with ours of the same kernel in columns that end in _here."""
    here = ours[["variant", "arch", *COLUMNS]]
    return theirs[["variant", "arch", *COLUMNS]].merge(here, on="variant", how="left", suffixes=("", "_here"))


def compiled(inputs: Inputs) -> pd.DataFrame:
    rows = worklogs.rows("compiled.csv", "resources")
    return beside(data.table(rows, "resources"), inputs.rows("resources"))
