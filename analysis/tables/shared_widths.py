"""Widths of each kernel's shared-memory accesses by source line: predicted from its PTX, and found in its cubin."""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs


def shared_widths(inputs: Inputs) -> pd.DataFrame:
    return inputs.rows("shared_widths")
