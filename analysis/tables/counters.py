"""counters.csv: what Nsight Compute counted, one row for each variant and size and a column for
each counter.

Columns have our names of counters (analysis.counters); times are in ns, volumes in bytes.
summary.json has their labels and units.
"""

from __future__ import annotations

import pandas as pd

from analysis.results import Results


def counters_table(results: Results) -> pd.DataFrame:
    """The table, in the catalogue's order."""
    return results.counters.drop(columns=["order"])
