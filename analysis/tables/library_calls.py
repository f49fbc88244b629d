"""Which of its calls a library was at each size: library_calls.csv.

Shares are of the fastest that cuBLAS has for a problem on the card, as a contest in each measuring process found it
(experiments.gpu.contest). Processes may disagree about two that are equally fast.
"""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs
from analysis.registry import table

BEFORE = "cublasGemmEx"  # of windows that were measured before there was a choice
KEYS = ["baseline", "dtype", "regime", "data", "m", "n", "k"]


def told(windows: pd.DataFrame) -> bool:
    """Whether the call of each baseline is known: none of these windows is older than the choice."""
    return len(windows) > 0 and bool(windows["baseline_call"].notna().all())


def library_calls(windows: pd.DataFrame) -> pd.DataFrame:
    """One row per baseline, problem, clock regime, kind of data and call, the most frequent call first.

    Columns: those of `KEYS`; call, as windows.csv names it; windows (in which it was the baseline) and of_windows (of
    this baseline and problem).
    """
    rows = windows[KEYS].assign(call=windows["baseline_call"].fillna(BEFORE).astype(str))
    counted = rows.groupby([*KEYS, "call"]).size().reset_index(name="windows")
    counted["of_windows"] = counted.groupby(KEYS)["windows"].transform("sum")
    order, ascending = [*KEYS, "windows", "call"], [True] * len(KEYS) + [False, True]
    return counted.sort_values(order, ascending=ascending, ignore_index=True)


@table(
    "library_calls",
    title="Which call of its library a baseline was",
    caption="workflow/report/library_calls.rst",
    reads=("windows",),
)
def library_calls_table(inputs: Inputs) -> pd.DataFrame:
    return library_calls(inputs.rows("windows"))
