"""Timings of hand-made windows and samples: medians, ranges over processes, and what does not
count.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from analysis.tables.timings import with_gains
from analysis.timings import timings
from contracts import UserError

SMS = 10
FLOP = 2 * 64**3
HEAD = {"experiment": "e", "variant": "v", "m": 64, "n": 64, "k": 64, "alpha": 1.0, "beta": 0.0}
HEAD |= {"clock_policy": "boost", "data": "uniform"}
WINDOW = HEAD | {
    "dtype": "fp32",
    "b_layout": "row",
    "clock_source": "as found",
    "baseline": "b",
    "temperature_c": 40.0,
}
WINDOW |= {
    "code_hash": "0",
    "throttle_reasons": "none",
    "passed": True,
    "left_out": None,
    "process": 0,
}
WINDOW |= {"power_w": 500.0, "power_run_us": 200.0, "baseline_run_us": 150.0}
Rows = list[dict[str, Any]]


def samples(ours: list[float], theirs: list[float], process: int = 0, **changes: Any) -> Rows:
    """Interleaved samples of a process at 1500 MHz, all of which count."""
    head = (
        HEAD
        | {"process": process, "window": "interleaved", "sm_clock_mhz": 1500.0, "kept": True}
        | changes
    )
    roles = (("variant", ours), ("baseline", theirs))
    return [
        head | {"role": role, "index": i, "time_us": t}
        for role, times in roles
        for i, t in enumerate(times)
    ]


def row_of(windows: Rows, rows: Rows) -> pd.Series:
    found = timings(pd.DataFrame(windows), pd.DataFrame(rows), SMS)
    assert len(found) == 1
    return found.iloc[0]


def five(ours: list[float], **changes: Any) -> tuple[Rows, Rows]:
    """Five processes with one time each; the baseline takes 4 µs."""
    windows = [WINDOW | {"process": process} | changes for process in range(5)]
    return windows, [
        row for process, time in enumerate(ours) for row in samples([time], [4.0], process)
    ]


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
    windows, rows = five([5.0] * 5)
    four = windows[:4], [one for one in rows if one["process"] < 4]
    assert math.isnan(row_of(*short)["fraction_isolated"])
    assert all(
        math.isnan(row_of(*four)[name]) for name in ("fraction_isolated", "time_isolated_us")
    )


def test_one_process_has_the_spread_between_gpus_as_its_interval() -> None:
    for dtype, half in (
        ("fp32", 0.003),
        ("tf32", 0.039),
        ("bf16", 0.085),
        ("fp16", 0.086),
        ("fp8_e4m3", 0.086),
    ):
        row = row_of([WINDOW | {"dtype": dtype}], samples([5.0], [4.0]))
        assert (row["fraction_low"], row["fraction_high"]) == pytest.approx(
            (0.8 * (1 - half), 0.8 * (1 + half))
        )
        assert (row["power_w_low"], row["power_w_high"]) == pytest.approx((450, 550))
        assert math.isnan(row["fraction_isolated"])


def test_rejected_samples_do_not_count_and_are_counted() -> None:
    slow = samples([1.0, 1.0], [9.0], kept=False, sm_clock_mhz=900.0)
    row = row_of([WINDOW], samples([5.0], [4.0]) + slow)
    assert (row["time_us"], row["fraction"], row["samples"], row["rejected"]) == (5.0, 0.8, 1, 2)
    assert (row["sm_clock_mhz"], row["fraction_per_clock"], row["clock_held"]) == (1500, 0.8, True)


@pytest.mark.parametrize("bad", [{"passed": False}, {"left_out": "no steady clock"}])
def test_a_window_that_failed_excludes_its_row(bad: dict[str, Any]) -> None:
    windows, rows = five([5.0] * 5)
    windows[3] |= bad
    other = [one | {"variant": "w"} for one in samples([5.0], [4.0])]
    found = timings(
        pd.DataFrame([*windows, WINDOW | {"variant": "w"}]), pd.DataFrame(rows + other), SMS
    )
    assert list(found["variant"]) == ["w"]


def test_rows_are_in_the_order_of_the_windows() -> None:
    windows, rows = (
        [one | {"variant": name} for name in "wv" for one in of]
        for of in ([WINDOW], samples([5.0], [4.0]))
    )
    assert list(timings(pd.DataFrame(windows), pd.DataFrame(rows), SMS)["variant"]) == ["w", "v"]


def test_the_fraction_per_clock_is_of_cycles_and_a_held_clock_stays_within_one_percent() -> None:
    row = row_of([WINDOW], samples([5.0], [], sm_clock_mhz=1000.0) + samples([], [4.0]))
    assert row["fraction"] == 0.8 and row["fraction_per_clock"] == pytest.approx(
        4 * 1500 / (5 * 1000)
    )
    assert not row["clock_held"] and row["sm_clock_mhz"] == 1000
    windows, rows = five([5.0] * 5)  # held in each process but one
    assert not row_of(windows, rows + samples([5.0] * 9, [4.0] * 9, 3, sm_clock_mhz=1000.0))[
        "clock_held"
    ]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        # at least half of the polls
        (["power_cap=0.500+sw_thermal=0.400", "power_cap=0.500"], "power_cap"),
        (["power_cap=0.499", "none"], "none"),
        ([None, None], "power_cap+thermal"),  # an older table: any poll
    ],
)
def test_a_throttle_reason_counts_from_half_of_the_polls_on(
    shown: list[str | None], expected: str
) -> None:
    head = WINDOW | {"throttle_reasons": "power_cap+thermal"}
    windows = [
        head | {"process": process, "throttle_fractions": one} for process, one in enumerate(shown)
    ]
    rows = samples([5.0], [4.0], 0) + samples([5.0], [4.0], 1)
    assert row_of(windows, rows)["throttle_reasons"] == expected
    unread = [one | {"throttle_reasons": None, "throttle_fractions": None} for one in windows]
    assert row_of(unread, rows)["throttle_reasons"] is None


def test_a_window_without_samples_is_one_clear_line() -> None:
    windows, _ = five([5.0] * 5)
    with pytest.raises(UserError, match=r"windows\.csv: e v 64 .* has no samples"):
        timings(pd.DataFrame(windows[:2]), pd.DataFrame(samples([5.0], [4.0])), SMS, "windows.csv")


def test_gain_is_the_ratio_of_fractions_or_of_times_with_other_baselines() -> None:
    def timing(**changes: Any) -> dict[str, Any]:
        ends = {
            f"{name}{end}": changes[name]
            for name in ("fraction", "time_us")
            for end in ("_low", "_high")
        }
        return HEAD | {"builds_on": "old", "baseline": "b"} | ends | changes

    old = timing(variant="old", builds_on=None, fraction=0.4, time_us=12.0)
    new = timing(variant="new", fraction=0.8, time_us=5.0)
    tf32 = timing(variant="tf32", baseline="c", fraction=0.1, time_us=4.0)
    gains = with_gains(pd.DataFrame([old, new, tf32, new | {"experiment": "f"}]))["gain"].tolist()
    assert gains[1:3] == [2.0, 3.0] and math.isnan(gains[0]) and math.isnan(gains[3])
