"""coverage.csv: what was measured on each GPU, and what was left out and why.

One row for each GPU and part of a run (timings with `boost` and `locked` clocks, checks, counters,
...): gpu, part, status ("measured" or "left out"), rows, date and reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.results import Results
from contracts import choose
from contracts.rows import MADE_BY_OTHERS, TABLES

COLUMNS = ["gpu", "part", "status", "rows", "date", "reason"]
# Part, recorded table, and the cells that its rows have there; the key under `left_out` of
# provenance.json
PARTS: tuple[tuple[str, str, dict[str, str], str], ...] = (
    ("timings, boost clocks", "windows", {"clock_policy": "boost"}, "bench"),
    ("timings, locked clocks", "windows", {"clock_policy": "locked"}, "locked"),
    ("checks on the GPU", "checks", {"device": "gpu"}, "check"),
    ("checks on the emulator", "checks", {"device": "ptxsim"}, "emulator"),
    ("Nsight Compute's counters", "counters", {}, "profile"),
    ("predicted counters", "predictions", {}, "emulator"),
    ("compute-sanitizer", "sanitizer", {}, "sanitizer"),
    ("GPU results next to the emulator's", "emulator_next_to_gpu", {}, "emulator_next_to_gpu"),
    ("sweep over tiles", "tuning", {}, "tuning"),
)


def coverage_table(archives: Mapping[str, Results]) -> pd.DataFrame:
    """The table, GPUs in the order of `archives`."""
    parts = [part for part in PARTS if part[1] in TABLES]
    rows = [_row(results, *part) for results in archives.values() for part in parts]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(
    results: Results, part: str, table: str, cells: Mapping[str, str], stage: str
) -> dict[str, Any]:
    rows = results.raw(table)
    for column, value in cells.items():
        rows = rows[rows[column] == value]
    row: dict[str, Any] = {"gpu": results.name, "part": part, "rows": len(rows)}
    reason = (results.provenance.left_out or {}).get(stage)
    if len(rows):
        return row | {"status": "measured", "date": results.date_of(table), "reason": reason}
    recorded = choose(TABLES, table, "table", part)
    why = f"no rows in {recorded.file}"
    if recorded.target not in MADE_BY_OTHERS:
        why += f"; snakemake {recorded.target} measures it"
    return row | {"status": "left out", "reason": reason or why}
