"""Widths of each kernel's shared-memory accesses by source line: predicted from its PTX, and found in its cubin."""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs
from analysis.registry import table


@table(
    "shared_widths",
    category="3 Counters",
    title="Widths of shared-memory accesses",
    caption="workflow/report/shared_widths.rst",
    optional=("shared_widths",),
    where_needed=("shared_widths",),
)
def shared_widths(inputs: Inputs) -> pd.DataFrame:
    return inputs.rows("shared_widths")
