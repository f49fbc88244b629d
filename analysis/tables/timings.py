"""timings.csv: every timing of a results folder, with the kernel's place in the catalogue and its gain.

worklog is the folder of the ladder that a variant belongs to, "ours" or "library". fraction is of cuBLAS,
interleaved; gain says how many times as fast a kernel is as the one that it builds on, in the same experiment.
Fractions are of one, times in microseconds, clocks in MHz, power in watts.
"""

from __future__ import annotations

import pandas as pd

from analysis.ladders import worklog_of
from analysis.results import Results

SAME = ["experiment", "m", "n", "k", "alpha", "beta", "clock_policy", "data"]
WITH_ENDS = ("tflops", "fraction", "fraction_isolated")
COLUMNS = ["experiment", "worklog", "variant", "label", "kind", "dtype", "m", "n", "k", "alpha", "beta", "data"]
COLUMNS += ["clock_policy", *(f"{name}{end}" for name in WITH_ENDS for end in ("", "_low", "_high"))]
COLUMNS += ["fraction_per_clock", "gain", "builds_on", "time_us", "sm_clock_mhz", "clock_held", "flop_per_clock_sm"]
COLUMNS += ["power_w", "gflop_per_j", "throttle_reasons", "processes", "samples", "rejected", "stale"]


def with_gains(rows: pd.DataFrame) -> pd.DataFrame:
    """Timings with `gain`; NaN where the kernel that one builds on was not timed in the same experiment.

    The ratio is of fractions where both have one baseline, since drift of the clock cancels in them; else of times.
    """
    before = rows.drop_duplicates([*SAME, "variant"])[[*SAME, "variant", "baseline", "fraction", "time_us"]]
    before = before.rename(columns={"variant": "builds_on"})
    found = rows[[*SAME, "builds_on", "baseline", "fraction", "time_us"]].merge(
        before, on=[*SAME, "builds_on"], how="left", suffixes=("", "_before")
    )
    of_fractions = found["fraction"] / found["fraction_before"]
    of_times = found["time_us_before"] / found["time_us"]
    gain = of_fractions.where(found["baseline"] == found["baseline_before"], of_times)
    return rows.assign(gain=gain.to_numpy())


def timings_table(results: Results) -> pd.DataFrame:
    """The table, by experiment, size and kind of data, in the catalogue's order."""
    worklogs = dict(zip(results.variants["variant"], worklog_of(results.variants), strict=True))
    rows = with_gains(results.timings)
    rows = rows.assign(worklog=rows["variant"].map(worklogs))
    return rows.sort_values([*SAME, "order"], kind="stable", ignore_index=True)[COLUMNS]
