"""Bootstrap intervals are right on known distributions and repeatable; the noise of repetitions is what was planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import statistics
from analysis.statistics import interval

REPEATS = 150


def median_interval(values: np.ndarray, key: object = 0, level: float = 0.95) -> tuple[float, float]:
    """The interval of the median of `values`."""
    return tuple(map(float, interval(np.median, (values,), f"median {key}", level)))


def ratio(above: np.ndarray, below: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.median(above, axis) / np.median(below, axis)


@pytest.mark.parametrize(
    ("draw", "median"),
    [
        (lambda rng: rng.normal(10.0, 1.0, 60), 10.0),
        (lambda rng: rng.exponential(1.0, 60), np.log(2)),
        (lambda rng: rng.uniform(0.0, 4.0, 60), 2.0),
    ],
    ids=["normal", "exponential", "uniform"],
)
def test_the_interval_covers_the_median_as_often_as_it_says(
    draw: Callable[[np.random.Generator], np.ndarray], median: float
) -> None:
    """95%: of 150 intervals, between 88 and 99 in a hundred hold the true median."""
    drawn = [draw(np.random.default_rng(seed)) for seed in range(REPEATS)]
    found = [median_interval(values, seed) for seed, values in enumerate(drawn)]
    share = sum(low <= median <= high for low, high in found) / REPEATS
    assert 0.88 <= share <= 0.99
    assert all(low <= np.median(values) <= high for values, (low, high) in zip(drawn, found, strict=True))


def test_the_ratio_s_interval_covers_the_ratio() -> None:
    inside = 0
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        both = rng.normal(30.0, 1.0, 50), rng.normal(10.0, 0.5, 80)
        low, high = interval(ratio, both, f"ratio {seed}")
        assert low <= ratio(*both) <= high
        inside += low <= 3.0 <= high
    assert 0.88 <= inside / REPEATS <= 0.995


def test_several_statistics_of_the_same_draws_have_an_interval_each() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(10.0, 0.5, 80), rng.normal(30.0, 1.0, 50)
    together = interval(lambda a, b, axis: np.stack([np.median(a, axis), ratio(b, a, axis)]), (ours, theirs), "both")
    for i, middle in enumerate((np.median(ours), ratio(theirs, ours))):
        assert together[0][i] < middle < together[1][i]
    assert together[0][1] == interval(lambda a, b, axis: ratio(b, a, axis), (ours, theirs), "both")[0]


def test_intervals_are_repeatable_and_those_of_other_keys_others() -> None:
    values = np.random.default_rng(1).normal(size=100)
    assert median_interval(values) == median_interval(values.copy())
    assert len({median_interval(values, key) for key in range(20)}) > 10


def test_a_lower_level_gives_a_narrower_interval() -> None:
    values = np.random.default_rng(1).normal(size=100)
    (low, high), (narrow_low, narrow_high) = median_interval(values), median_interval(values, level=0.5)
    assert low < narrow_low < narrow_high < high


def test_more_samples_give_a_narrower_interval() -> None:
    values = np.random.default_rng(1).normal(size=1600)
    few, many = median_interval(values[:100]), median_interval(values)
    assert (few[1] - few[0]) / (many[1] - many[0]) == pytest.approx(4, rel=0.5)


def test_what_does_not_vary_has_no_width() -> None:
    assert median_interval(np.full(7, 2.0)) == (2.0, 2.0)


# ---- how far repetitions lie apart ----------------------------------------------------------------------------------


def timed(share: float, half: float = 0.001, **row: Any) -> dict[str, Any]:
    sizes = {"m": 4096, "n": 4096, "k": 4096, "alpha": 1.0, "beta": 0.0}
    one = {"variant": "v", "dtype": "bf16", "regime": "unlocked", "data": "uniform", "throttle_reasons": "none"} | sizes
    for stem, (value, low, high) in statistics.TIMED.items():
        middle = share * (1000 if stem == "time" else 1)
        one |= {value: middle, low: middle * (1 - half), high: middle * (1 + half)}
    return one | {"processes": 1} | row


def table(repeats: int, sigma: float, **row: Any) -> list[dict[str, Any]]:
    """Pairs of rows of one kernel, each `sigma` away from the other's in the manner of a normal deviate."""
    rng = np.random.default_rng(5)
    return [
        timed(1 + sigma * rng.standard_normal(), **row, variant=f"v{number}", experiment=e)
        for number in range(repeats)
        for e in "ab"
    ]


def half_widths(rows: list[dict[str, Any]], leases: pd.DataFrame | None = None) -> dict[str, float]:
    found = statistics.noise(pd.DataFrame(rows), leases)
    found = found[found["quantity"] == "share"]
    return dict(zip(found["regime"], found["half_width"], strict=True))


def test_the_noise_of_a_regime_is_what_its_repeated_rows_differ_by() -> None:
    capped = table(300, 0.02, throttle_reasons="power_cap")
    found = half_widths([*table(300, 0.002), *capped])
    assert found["steady"] == pytest.approx(1.96 * 0.002, rel=0.1) and found["power"] == pytest.approx(0.0392, rel=0.1)
    assert found["short"] == statistics.UNKNOWN  # nothing was repeated
    assert half_widths(table(7, 0.02))["steady"] == statistics.UNKNOWN  # too little to believe


def test_one_measurement_that_several_experiments_show_is_no_repetition() -> None:
    assert half_widths([timed(1.0, experiment=name) for name in map(str, range(20))])["steady"] == statistics.UNKNOWN


def test_the_range_over_processes_counts_too() -> None:
    rng = np.random.default_rng(6)
    rows = []
    for number in range(200):
        values = 1 + 0.003 * rng.standard_normal(5)
        value, low, high = statistics.TIMED["share"]
        rows.append(timed(1.0, variant=f"v{number}", processes=5) | {value: 1.0, low: values.min(), high: values.max()})
    assert half_widths(rows)["steady"] == pytest.approx(1.96 * 0.003, rel=0.15)


def test_intervals_of_one_process_grow_to_the_noise_and_those_of_five_stay() -> None:
    once, five = statistics.covering(pd.DataFrame([*table(100, 0.01), timed(1.0, processes=5)])).iloc[[0, -1]].iloc
    share, least, most = statistics.SHARE
    assert once[most] / once[share] - 1 == pytest.approx(0.0196, rel=0.2)
    assert (five[least], five[most]) == (0.999, 1.001)


def test_cards_that_differ_widen_the_noise() -> None:
    keys = ["variant", "m", "n", "k", "regime", "data"]
    rows = table(100, 0.002)
    leases = pd.DataFrame(
        [{key: row[key] for key in keys} | {"time_us_median": 1000.0 * scale, "baseline_time_us_median": 1000.0}
         for row in rows[::2] for scale in (0.98, 1.02)]
    )  # fmt: skip
    assert half_widths(rows, leases)["steady"] > 0.05 > 0.01 > half_widths(rows)["steady"]
    several = pd.DataFrame([timed(1.0, processes=5, variant="v0")])  # of one card, whose five processes agree
    five = statistics.covering(several, leases[leases["variant"] == "v0"]).iloc[0]
    share, least, most = statistics.SHARE
    assert five[most] / five[share] - 1 == pytest.approx(0.0554, rel=0.02) == 1 - five[least] / five[share]
