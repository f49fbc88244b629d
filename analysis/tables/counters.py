"""counters.csv: what Nsight Compute counted, one row for each variant and size and a column for
each counter.

Columns have our names of counters (analysis.counters); times are in ns, volumes in bytes.
counter_names.csv has their labels and units, in the sections in which Nsight Compute shows them.
"""

from __future__ import annotations

import pandas as pd

from analysis.counters import SECTIONS
from analysis.results import Results


def counters_table(results: Results) -> pd.DataFrame:
    """The table, in the catalogue's order."""
    return results.counters.drop(columns=["order"])


def names_table() -> pd.DataFrame:
    """section, counter (a column of counters.csv), label, unit, and better: 1 more, -1 less, 0
    neither.
    """
    rows = [
        (section, one.key, one.label, one.unit, one.better)
        for section, ones in SECTIONS.items()
        for one in ones
    ]
    return pd.DataFrame(rows, columns=["section", "counter", "label", "unit", "better"])
