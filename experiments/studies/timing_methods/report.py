"""What other ways of timing say: timing_methods.csv, one row per variant, size and way of timing.

variant, label, n, stale, protocol, description, time_us, difference_percent (of the time, from that of `ours` in the
same process), compared_with and alone_percent (a protocol that differs in one thing only, and the difference from
that), sm_clock_mhz, cycles_difference_percent (that from `ours` of time x clock, where the clock was seen), replays.
Without rows where it was not measured."""

from __future__ import annotations

import pandas as pd

from analysis.data import difference_percent
from analysis.inputs import Inputs

OURS = "ours"
# Protocols that depart from ours in more than their name says, and what they share the rest with
BESIDE = {"launch_gap": "no_flush", "host_clock": "no_flush", "after_idle": "host_clock"}


def timing_methods(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of timing_methods.csv from its rows as measured."""
    keys = ["variant", "n", "protocol"]
    known = rows.drop_duplicates(keys).set_index(keys)[["time_us", "sm_clock_mhz"]].astype(float)

    def other(names: pd.Series) -> pd.DataFrame:
        """For each row, the time and clock by the protocol named."""
        places = pd.MultiIndex.from_frame(rows[keys].assign(protocol=names))
        return known.reindex(places).set_axis(rows.index)

    compared_with = rows["protocol"].map(lambda name: BESIDE.get(name, OURS))
    ours = other(pd.Series(OURS, rows.index))
    cycles = rows["time_us"].astype(float) * rows["sm_clock_mhz"].astype(float)
    made = rows.assign(
        difference_percent=difference_percent(rows["time_us"], ours["time_us"]),
        compared_with=compared_with,
        alone_percent=difference_percent(rows["time_us"], other(compared_with)["time_us"]),
        cycles_difference_percent=difference_percent(cycles, ours["time_us"] * ours["sm_clock_mhz"]),
    )
    first = ["variant", "label", "n", "stale", "protocol", "description", "time_us", "difference_percent"]
    return made[[*first, "compared_with", "alone_percent", "sm_clock_mhz", "cycles_difference_percent", "replays"]]


def timing_methods_table(inputs: Inputs) -> pd.DataFrame:
    return timing_methods(inputs.offered("timing_methods", timed=True))
