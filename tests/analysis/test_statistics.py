"""Bootstrap intervals: right on known distributions, and repeatable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from analysis.statistics import interval

REPEATS = 150


def median_interval(values: np.ndarray, key: object = 0, level: float = 0.95) -> tuple[float, float]:
    """That of the median."""
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
