"""Timings of hand-made windows and samples: medians, ranges over processes, and what does not
count.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pandas as pd
import pytest
from helpers import refused

from analysis.tables.timings import with_gains
from analysis.timings import timings

SMS = 10
FLOP = 2 * 64**3
HEAD = {"experiment": "e", "variant": "v", "m": 64, "n": 64, "k": 64, "alpha": 1.0, "beta": 0.0}
HEAD |= {"clock_policy": "boost", "data": "uniform"}
WINDOW = HEAD | {"dtype": "fp32", "b_layout": "row", "clock_source": "as found", "baseline": "b"}
WINDOW |= {"temperature_c": 40.0, "code_hash": "0", "throttle_reasons": "none", "process": 0}
WINDOW |= {"passed": True, "left_out": None}
WINDOW |= {"power_w": 500.0, "power_run_us": 200.0, "baseline_run_us": 150.0}
Rows = list[dict[str, Any]]


def samples(ours: list[float], theirs: list[float], process: int = 0, **changes: Any) -> Rows:
    """Interleaved samples of a process at 1500 MHz, all of which count."""
    head = HEAD | {"process": process, "window": "interleaved", "sm_clock_mhz": 1500.0}
    head |= {"kept": True} | changes
    times = [("variant", time) for time in ours] + [("baseline", time) for time in theirs]
    return [head | {"role": role, "time_us": time} for role, time in times]


def row_of(windows: Rows, rows: Rows) -> pd.Series:
    table = timings(pd.DataFrame(windows), pd.DataFrame(rows), SMS)
    assert len(table) == 1
    return table.iloc[0]


def five(ours: list[float], **changes: Any) -> tuple[Rows, Rows]:
    """Five processes with one time each; the baseline takes 4 µs."""
    windows = [WINDOW | {"process": process} | changes for process in range(5)]
    rows = [samples([time], [4.0], process) for process, time in enumerate(ours)]
    return windows, list(itertools.chain(*rows))


def test_a_process_counts_by_its_medians_and_a_row_by_the_median_and_range_over_processes() -> None:
    windows, rows = five([2.0, 4.0, 5.0, 8.0, 10.0])
    # of 2, 90 and 2 the median is 2
    row = row_of(windows, rows + samples([90.0, 2.0], [4.0, 4.0], 0))
    assert (row["processes"], row["samples"]) == (5, 7)
    assert (row["time_us"], row["time_us_low"], row["time_us_high"]) == (5, 2, 10)
    assert (row["fraction"], row["fraction_low"], row["fraction_high"]) == (4 / 5, 4 / 10, 4 / 2)
    assert row["tflops"] == pytest.approx(FLOP / 5 / 1e6)
    assert row["flop_per_clock_sm"] == pytest.approx(FLOP / (5 * 1500 * SMS))


def test_the_isolated_fraction_is_of_long_runs_back_to_back_and_of_five_processes_alone() -> None:
    row = row_of(*five([5.0] * 5))
    assert (row["fraction_isolated"], row["time_isolated_us"]) == (150 / 200, 200)
    assert row["gflop_per_j"] == pytest.approx(FLOP / (500 * 200e-6) / 1e9)
    short = five([5.0] * 5, power_run_us=149.0, baseline_run_us=150.0)  # not at a steady clock
    assert math.isnan(row_of(*short)["fraction_isolated"])
    windows, rows = five([5.0] * 5)
    four = row_of(windows[:4], [row for row in rows if row["process"] < 4])
    assert math.isnan(four["fraction_isolated"]) and math.isnan(four["time_isolated_us"])


@pytest.mark.parametrize(
    ("dtype", "half"),
    [("fp32", 0.003), ("tf32", 0.039), ("bf16", 0.085), ("fp16", 0.086), ("fp8_e4m3", 0.086)],
)
def test_one_process_has_the_spread_between_gpus_as_its_interval(dtype: str, half: float) -> None:
    row = row_of([WINDOW | {"dtype": dtype}], samples([5.0], [4.0]))
    ends = pytest.approx((0.8 * (1 - half), 0.8 * (1 + half)))
    assert (row["fraction_low"], row["fraction_high"]) == ends
    assert (row["power_w_low"], row["power_w_high"]) == pytest.approx((450, 550))
    assert math.isnan(row["fraction_isolated"])


def test_rejected_samples_do_not_count_and_are_counted() -> None:
    slow = samples([1.0, 1.0], [9.0], kept=False, sm_clock_mhz=900.0)
    row = row_of([WINDOW], samples([5.0], [4.0]) + slow)
    assert (row["time_us"], row["fraction"], row["samples"], row["rejected"]) == (5.0, 0.8, 1, 2)
    assert (row["sm_clock_mhz"], row["fraction_per_clock"], row["clock_held"]) == (1500, 0.8, True)


@pytest.mark.parametrize("bad", [{"passed": False}, {"left_out": "no steady clock"}])
def test_a_window_that_failed_excludes_its_row_and_others_keep_their_order(
    bad: dict[str, Any],
) -> None:
    windows, rows = five([5.0] * 5)
    windows[3] |= bad
    windows += [WINDOW | {"variant": name} for name in ("x", "w")]
    rows += [row | {"variant": name} for name in ("w", "x") for row in samples([5.0], [4.0])]
    table = timings(pd.DataFrame(windows), pd.DataFrame(rows), SMS)
    assert list(table["variant"]) == ["x", "w"]


def test_the_fraction_per_clock_is_of_cycles_and_a_held_clock_stays_within_one_percent() -> None:
    row = row_of([WINDOW], samples([5.0], [], sm_clock_mhz=1000.0) + samples([], [4.0]))
    per_clock = 4 * 1500 / (5 * 1000)
    assert row["fraction"] == 0.8 and row["fraction_per_clock"] == pytest.approx(per_clock)
    assert not row["clock_held"] and row["sm_clock_mhz"] == 1000
    windows, rows = five([5.0] * 5)  # held in each process but one
    rows += samples([5.0] * 9, [4.0] * 9, 3, sm_clock_mhz=1000.0)
    assert not row_of(windows, rows)["clock_held"]


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        # at least half of the polls
        (["power_cap=0.500+sw_thermal=0.400", "power_cap=0.500"], "power_cap"),
        (["power_cap=0.499", "none"], "none"),
        ([None, None], "power_cap+thermal"),  # an older table: any poll
    ],
)
def test_a_throttle_reason_counts_from_half_of_the_polls_on(
    polls: list[str | None], expected: str
) -> None:
    head = WINDOW | {"throttle_reasons": "power_cap+thermal"}
    windows = [
        head | {"throttle_fractions": fractions, "process": process}
        for process, fractions in enumerate(polls)
    ]
    rows = samples([5.0], [4.0], 0) + samples([5.0], [4.0], 1)
    assert row_of(windows, rows)["throttle_reasons"] == expected
    unread = [row | {"throttle_reasons": None, "throttle_fractions": None} for row in windows]
    assert row_of(unread, rows)["throttle_reasons"] is None


def test_a_window_without_samples_is_one_clear_line() -> None:
    windows, _ = five([5.0] * 5)
    with refused(r"windows\.csv: e v 64 .* has no samples"):
        timings(pd.DataFrame(windows[:2]), pd.DataFrame(samples([5.0], [4.0])), SMS, "windows.csv")


def test_gain_is_the_ratio_of_fractions_or_of_times_with_other_baselines() -> None:
    def timing(variant: str, fraction: float, time_us: float, **changes: Any) -> dict[str, Any]:
        row = {f"fraction{end}": fraction for end in ("", "_low", "_high")}
        row |= {f"time_us{end}": time_us for end in ("", "_low", "_high")}
        return HEAD | {"variant": variant, "builds_on": "old", "baseline": "b"} | row | changes

    old, new = timing("old", 0.4, 12.0, builds_on=None), timing("new", 0.8, 5.0)
    rows = [old, new, timing("tf32", 0.1, 4.0, baseline="c"), new | {"experiment": "f"}]
    gains = with_gains(pd.DataFrame(rows))["gain"].tolist()
    assert gains[1:3] == [2.0, 3.0] and math.isnan(gains[0]) and math.isnan(gains[3])
