"""What nvcc makes of kernels for the GPUs that the worklogs name, next to what it makes for the measured one."""

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


def side_by_side(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel and architecture of theirs, with ours of the same kernel in columns that end in _here."""
    here = ours[["variant", "arch", *COLUMNS]]
    return theirs[["variant", "arch", *COLUMNS]].merge(here, on="variant", how="left", suffixes=("", "_here"))


def widths(shared_widths: pd.DataFrame) -> pd.DataFrame:
    """Widths of each kernel's shared-memory accesses by source line: predicted from its PTX, and found in its cubin."""
    return shared_widths


def compiled(inputs: Inputs) -> pd.DataFrame:
    rows = worklogs.rows("compiled.csv", "resources")
    return side_by_side(data.table(rows, "resources"), inputs.rows("resources"))
