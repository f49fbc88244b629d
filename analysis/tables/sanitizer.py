"""NVIDIA's compute-sanitizer, one row per kernel: sanitizer.csv.

variant, label, dtype, stale, launches (of each tool), memcheck, racecheck, initcheck and synccheck (errors; empty where
the tool did not run), passed, detail (the first thing reported). Without rows where it was not measured.
"""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def sanitizer(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of sanitizer.csv: the tools of a kernel in one row."""
    columns = ["variant", "label", "dtype", "stale", "launches", *TOOLS, "passed", "detail"]
    found = []
    for (variant, label, dtype), part in rows.groupby(["variant", "label", "dtype"], sort=False):
        errors = part.set_index("tool")["errors"]
        details = [text for text in part["detail"] if isinstance(text, str) and text]
        known = [variant, label, dtype, bool(part["stale"].any()), int(part["launches"].max())]
        counts = [int(errors[tool]) if tool in errors.index else None for tool in TOOLS]
        found.append([*known, *counts, bool(part["passed"].all()), details[0] if details else None])
    made = pd.DataFrame(found, columns=columns)
    return made.astype(dict.fromkeys(TOOLS, "Int64"))


def sanitizer_table(inputs: Inputs) -> pd.DataFrame:
    return sanitizer(inputs.offered("sanitizer", timed=False))
