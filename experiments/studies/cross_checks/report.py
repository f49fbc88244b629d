"""Our median against another tool's: cross_checks.csv.

method ("nvbench": in the same process; "ncu": its duration of one launch, from counters.csv, against the timing of
bench.csv), variant, label, n, stale, time_us, other_time_us, time_difference_percent, time_within (true where that is
at most 1%), sm_clock_mhz, other_sm_clock_mhz, cycles_difference_percent (of time x clock, which removes a difference in
clock), cycles_within, samples, other_samples.
"""

from __future__ import annotations

import pandas as pd

from analysis.data import Measured, difference_percent, metric_names, one_row_each, wide
from analysis.inputs import Inputs

WITHIN_PERCENT = 1.0


def ncu_pairs(measured: Measured) -> pd.DataFrame:
    """Rows like those of cross_checks.csv as measured: our timings in turns, next to ncu's duration, each with its SM
    clock."""
    counted = wide(measured.counters, metric_names())
    counted = counted.assign(**{key: counted.get(key) for key in ("duration", "sm_frequency")})
    counted = counted[["variant", "n", "stale", "duration", "sm_frequency"]]
    both = one_row_each(measured.bench).merge(counted, on=["variant", "n"], suffixes=("", "_counted"))
    return both.assign(
        method="ncu",
        time_us=both["time_us_in_turns"],
        other_time_us=both["duration"].astype(float) / 1e3,  # wide() gives ns
        other_sm_clock_mhz=both["sm_frequency"].astype(float) / 1e6,
        other_samples=1,
        stale=both["stale"].astype(bool) | both["stale_counted"].astype(bool),
    ).dropna(subset=["other_time_us"])


def cross_checks(rows: pd.DataFrame, measured: Measured) -> pd.DataFrame:
    """The columns of cross_checks.csv: the rows as measured, then ncu's."""
    kept = ["method", "variant", "label", "n", "stale", "time_us", "other_time_us"]
    clocks, counts = ["sm_clock_mhz", "other_sm_clock_mhz"], ["samples", "other_samples"]
    parts = [part[[*kept, *clocks, *counts]] for part in (rows, ncu_pairs(measured)) if len(part)]
    both = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*kept, *clocks, *counts])
    time = difference_percent(both["time_us"], both["other_time_us"])
    cycles = 100 * ((1 + time / 100) * both[clocks[0]].astype(float) / both[clocks[1]].astype(float) - 1)
    return pd.DataFrame(
        {
            **{name: both[name] for name in kept},
            "time_difference_percent": time,
            "time_within": within(time),
            **{name: both[name] for name in clocks},
            "cycles_difference_percent": cycles,
            "cycles_within": within(cycles),
            **{name: both[name] for name in counts},
        }
    )


def within(percent: pd.Series) -> pd.Series:
    """Whether it is at most `WITHIN_PERCENT`, as true or false in words; None where there is no difference to judge."""
    return (percent.abs() <= WITHIN_PERCENT).map({True: "true", False: "false"}).where(percent.notna(), None)


def cross_checks_table(inputs: Inputs) -> pd.DataFrame:
    return cross_checks(inputs.offered("cross_checks", timed=True), inputs.measured())
