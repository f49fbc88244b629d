"""counters.csv: what Nsight Compute counted, one row for each variant and size and a column for
each counter.

Columns have our names of counters (analysis.counters); times are in ns, volumes in bytes.
counter_names.csv has their labels and units, and the sections of the comparison of two kernels.
"""

from __future__ import annotations

import pandas as pd

from analysis.counters import COUNTERS, SECTIONS
from analysis.results import Results


def counters_table(results: Results) -> pd.DataFrame:
    """The table, in the catalogue's order."""
    return results.counters.drop(columns=["order"])


def names_table() -> pd.DataFrame:
    """section (empty outside the comparison), counter (a column of counters.csv), label, short,
    unit, and better: 1 more, -1 less, 0 neither.
    """
    sections = {counter.key: title for title, several in SECTIONS.items() for counter in several}
    return pd.DataFrame(
        {
            "section": sections.get(key),
            "counter": key,
            "label": counter.label,
            "short": counter.short,
            "unit": counter.unit,
            "better": counter.better or 0,
        }
        for key, counter in COUNTERS.items()
    )
