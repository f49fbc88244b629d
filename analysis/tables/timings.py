"""timings.csv: every timing of a results folder, with the kernel's place in the catalogue and its
gain.

worklog is the folder of the ladder that a variant belongs to, "ours" or "library". fraction is of
cuBLAS, interleaved, and baseline_tflops is cuBLAS's speed beside the row's tflops. gain says how many
times as fast a kernel is as the one that it builds on, in the same experiment. usual says whether the
row stands for its kernel and size (`results.usual`). Fractions are of one, times in microseconds,
clocks in MHz, power in watts.
"""

from __future__ import annotations

import pandas as pd

from analysis.numbers import gain
from analysis.results import Results, usual

SAME = ["experiment", "m", "n", "k", "alpha", "beta", "clock_policy", "data"]
WITH_ENDS = ("tflops", "fraction", "fraction_isolated")
COLUMNS = [
    "experiment",
    "worklog",
    "variant",
    "label",
    "kind",
    "dtype",
    "m",
    "n",
    "k",
    "alpha",
    "beta",
    "data",
]
COLUMNS += [
    "clock_policy",
    *(f"{name}{end}" for name in WITH_ENDS for end in ("", "_low", "_high")),
    "baseline_tflops",
]
COLUMNS += [
    "fraction_per_clock",
    "gain",
    "builds_on",
    "time_us",
    "sm_clock_mhz",
    "clock_held",
    "flop_per_clock_sm",
]
COLUMNS += [
    "power_w",
    "gflop_per_j",
    "throttle_reasons",
    "processes",
    "samples",
    "rejected",
    "usual",
]


def with_gains(rows: pd.DataFrame) -> pd.DataFrame:
    """Timings with `gain`; NaN where the kernel that one builds on was not timed in the same
    experiment.
    """
    table = rows.to_dict("records")
    # The first of several stands.
    known = {(*(row[key] for key in SAME), row["variant"]): row for row in reversed(table)}
    gains = []
    for row in table:
        before = known.get((*(row[key] for key in SAME), row["builds_on"]))
        gains.append(gain(row, before).value if before else float("nan"))
    return rows.assign(gain=gains)


def timings_table(results: Results) -> pd.DataFrame:
    """The table, by experiment, size and kind of data, in the catalogue's order."""
    rows = with_gains(results.timings)
    key = [*SAME, "variant"]
    rows = rows.merge(usual(results.squares)[key].assign(usual=True), on=key, how="left")
    rows = rows.assign(usual=rows["usual"].notna())
    return rows.sort_values([*SAME, "order"], kind="stable", ignore_index=True)[COLUMNS]
