"""Which of its calls a library was at each size: library_calls.csv.

Shares are of the fastest that a library has for a problem on the card. One contest for each problem found it, whose
outcome contests.csv records: the second call, how far it is behind, and whether that is more than noise. Tables from
before that was recorded have a contest in each measuring process, and these may disagree.
"""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs

BEFORE = "cublasGemmEx"  # of windows that were measured before there was a choice
KEYS = ["baseline", "dtype", "b_layout", "regime", "data", "m", "n", "k"]


def recorded(windows: pd.DataFrame) -> bool:
    """Whether the call of each baseline is known: none of these windows is older than the choice."""
    return len(windows) > 0 and bool(windows["baseline_call"].notna().all())


def library_calls(windows: pd.DataFrame, contests: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row per baseline, problem, clock regime, kind of data and call, the most frequent call first.

    Columns: those of `KEYS`; call, as windows.csv names it; windows (in which it was the baseline) and of_windows (of
    this baseline and problem). With contests, also: next_call, behind (how much longer the next call took, as
    a part of the winner's time) and decided (whether that is more than noise).
    """
    rows = windows[KEYS].assign(call=windows["baseline_call"].fillna(BEFORE).astype(str))
    counted = rows.groupby([*KEYS, "call"]).size().reset_index(name="windows")
    counted["of_windows"] = counted.groupby(KEYS)["windows"].transform("sum")
    order, ascending = [*KEYS, "windows", "call"], [True] * len(KEYS) + [False, True]
    counted = counted.sort_values(order, ascending=ascending, ignore_index=True)
    if contests is None:
        return counted
    found = contests.assign(behind=contests["next_time_us"] / contests["time_us"] - 1)
    shared = ["baseline", "b_layout", "m", "n", "k", "call"]
    return counted.merge(found[[*shared, "next_call", "behind", "decided"]], how="left", on=shared)


def library_calls_table(inputs: Inputs) -> pd.DataFrame:
    return library_calls(inputs.rows("windows"), inputs.rows("contests") if inputs.has("contests") else None)
