"""Timings of hand-made windows and samples: medians, ranges over processes, and what does not count."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from analysis.tables.timings import with_gains
from analysis.timings import SINGLE_PROCESS, timings
from contracts import UserError

SMS = 10
HEAD = {"experiment": "e", "variant": "v", "m": 64, "n": 64, "k": 64, "alpha": 1.0, "beta": 0.0}
HEAD |= {"clock_policy": "boost", "data": "uniform"}
WINDOW = HEAD | {"dtype": "fp32", "b_layout": "row", "clock_source": "as found", "baseline": "b", "temperature_c": 40.0}
WINDOW |= {"code_hash": "0", "throttle_reasons": "none", "passed": True, "left_out": None, "process": 0}
WINDOW |= {"power_w": 500.0, "power_run_us": 200.0, "baseline_run_us": 150.0}
FLOP = 2 * 64**3


def window(process: int = 0, **changes: Any) -> dict[str, Any]:
    return WINDOW | {"process": process} | changes


def samples(ours: list[float], theirs: list[float], process: int = 0, **changes: Any) -> list[dict[str, Any]]:
    """Interleaved samples of a process at 1500 MHz, all of which count."""
    head = HEAD | {"process": process, "window": "interleaved", "sm_clock_mhz": 1500.0, "kept": True} | changes
    roles = [("variant", ours), ("baseline", theirs)]
    return [head | {"role": role, "index": i, "time_us": t} for role, times in roles for i, t in enumerate(times)]


def row_of(windows: list[dict[str, Any]], rows: list[dict[str, Any]]) -> pd.Series:
    found = timings(pd.DataFrame(windows), pd.DataFrame(rows), SMS)
    assert len(found) == 1
    return found.iloc[0]


def five(ours: list[float], theirs: float = 4.0) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Five processes with one time each."""
    windows = [window(i) for i in range(5)]
    return windows, [row for i, time in enumerate(ours) for row in samples([time], [theirs], i)]


def test_a_process_counts_by_its_medians_and_a_row_by_the_median_and_range_over_processes() -> None:
    windows, rows = five([2.0, 4.0, 5.0, 8.0, 10.0])
    rows += samples([90.0, 2.0], [4.0, 4.0], 0)  # process 0: 2, 90, 2 have the median 2
    row = row_of(windows, rows)
    assert row["processes"] == 5 and row["samples"] == 7
    assert row["time_us"] == 5 and (row["time_us_low"], row["time_us_high"]) == (2, 10)
    assert row["fraction"] == 4 / 5 and (row["fraction_low"], row["fraction_high"]) == (4 / 10, 4 / 2)
    assert row["tflops"] == pytest.approx(FLOP / 5 / 1e6)
    assert row["flop_per_clock_sm"] == pytest.approx(FLOP / (5 * 1500 * SMS))


def test_the_isolated_fraction_is_of_the_runs_back_to_back_and_of_five_processes_alone() -> None:
    row = row_of(*five([5.0] * 5))
    assert row["fraction_isolated"] == 150 / 200 and row["time_isolated_us"] == 200
    assert row["gflop_per_j"] == pytest.approx(FLOP / (500 * 200e-6) / 1e9)
    windows, rows = five([5.0] * 5)
    short = [one | {"power_run_us": 100.0, "baseline_run_us": 75.0} for one in windows]  # not at a steady clock
    assert math.isnan(row_of(short, rows)["fraction_isolated"])
    assert math.isnan(row_of(windows[:4], [r for r in rows if r["process"] < 4])["fraction_isolated"])


def test_one_process_has_the_spread_between_gpus_as_its_interval() -> None:
    row = row_of([window(dtype="bf16")], samples([5.0], [4.0]))
    half = SINGLE_PROCESS["bf16"]
    assert row["fraction"] == 0.8 and row["fraction_low"] == pytest.approx(0.8 * (1 - half))
    assert row["fraction_high"] == pytest.approx(0.8 * (1 + half)) and math.isnan(row["fraction_isolated"])


def test_rejected_samples_do_not_count_and_are_counted() -> None:
    rows = samples([5.0], [4.0]) + samples([1.0, 1.0], [9.0, 9.0], kept=False)
    row = row_of([window()], rows)
    assert (row["time_us"], row["fraction"], row["samples"], row["rejected"]) == (5.0, 0.8, 1, 2)


@pytest.mark.parametrize("bad", [{"passed": False}, {"left_out": "no steady clock"}])
def test_a_window_that_failed_excludes_its_row(bad: dict[str, Any]) -> None:
    windows, rows = five([5.0] * 5)
    windows[3] |= bad
    other = [one | {"variant": "w"} for one in windows[:1]]
    rows += [one | {"variant": "w"} for one in samples([5.0], [4.0])]
    found = timings(pd.DataFrame(windows + other), pd.DataFrame(rows), SMS)
    assert list(found["variant"]) == ["w"]


def test_the_fraction_per_clock_is_of_cycles_and_a_held_clock_stays_within_one_percent() -> None:
    slow = [one | {"sm_clock_mhz": 1000.0} for one in samples([5.0], [])]
    row = row_of([window()], slow + samples([], [4.0]))
    assert row["fraction"] == 0.8 and row["fraction_per_clock"] == pytest.approx(4 * 1500 / (5 * 1000))
    assert not row["clock_held"] and row["sm_clock_mhz"] == 1000
    assert row_of([window()], samples([5.0], [4.0]))["clock_held"]


def test_worklog_time_is_the_mean_of_the_second_half_and_throttle_reasons_are_joined() -> None:
    rows = samples([5.0], [4.0]) + samples([9.0, 9.0, 6.0, 8.0], [], window="worklog")
    row = row_of([window(throttle_reasons="power_cap+thermal")], rows)
    assert row["time_worklog_us"] == 7 and row["throttle_reasons"] == "power_cap+thermal"


def test_a_window_without_samples_is_one_clear_line() -> None:
    with pytest.raises(UserError, match=r"windows\.csv: e v 64 .* has no samples"):
        timings(pd.DataFrame([window(), window(1)]), pd.DataFrame(samples([5.0], [4.0])), SMS, "windows.csv")


def test_gain_is_the_ratio_of_fractions_or_of_times_with_other_baselines() -> None:
    rows = pd.DataFrame(
        [
            HEAD | {"variant": "old", "builds_on": None, "baseline": "b", "fraction": 0.4, "time_us": 12.0},
            HEAD | {"variant": "new", "builds_on": "old", "baseline": "b", "fraction": 0.8, "time_us": 5.0},
            HEAD | {"variant": "tf32", "builds_on": "old", "baseline": "c", "fraction": 0.1, "time_us": 4.0},
            HEAD | {"experiment": "f", "variant": "new", "builds_on": "old", "baseline": "b", "fraction": 0.8},
        ]
    )
    gains = with_gains(rows)["gain"].tolist()
    assert gains[1:3] == [2.0, 3.0] and math.isnan(gains[0]) and math.isnan(gains[3])
