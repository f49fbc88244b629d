"""Medians and their intervals: right on known distributions, repeatable, and labelled as what they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from experiments.stages.bench import drawn_order, worklog_replays
from experiments.stages.statistics import median_interval, ratio_interval, second_half_mean

REPEATS = 150


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
    found = [median_interval(draw(np.random.default_rng(seed))) for seed in range(REPEATS)]
    share = sum(low <= median <= high for _, low, high in found) / REPEATS
    assert 0.88 <= share <= 0.99
    assert all(low <= middle <= high for middle, low, high in found)


def test_the_ratio_s_interval_covers_the_ratio() -> None:
    inside = 0
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        ratio, low, high = ratio_interval(rng.normal(30.0, 1.0, 50), rng.normal(10.0, 0.5, 80))
        assert low <= ratio <= high
        inside += low <= 3.0 <= high
    assert 0.88 <= inside / REPEATS <= 0.995


def test_a_ratio_is_of_the_first_over_the_second() -> None:
    assert ratio_interval(np.full(9, 6.0), np.full(5, 2.0)) == (3.0, 3.0, 3.0)


def test_intervals_are_repeatable() -> None:
    values = np.random.default_rng(1).normal(size=100)
    assert median_interval(values) == median_interval(values.copy())
    assert ratio_interval(values + 9, values[:50] + 5) == ratio_interval(values + 9, values[:50] + 5)


def test_a_lower_level_gives_a_narrower_interval() -> None:
    values = np.random.default_rng(1).normal(size=100)
    (_, low, high), (_, narrow_low, narrow_high) = median_interval(values), median_interval(values, level=0.5)
    assert low < narrow_low < narrow_high < high


def test_more_samples_give_a_narrower_interval() -> None:
    values = np.random.default_rng(1).normal(size=1600)
    few, many = median_interval(values[:100]), median_interval(values)
    assert (few[2] - few[1]) / (many[2] - many[1]) == pytest.approx(4, rel=0.5)


def test_the_median_is_the_median() -> None:
    assert median_interval(np.array([5.0, 1.0, 3.0]))[0] == 3.0
    assert median_interval(np.array([4.0, 1.0, 3.0, 2.0]))[0] == 2.5
    assert median_interval(np.full(7, 2.0)) == (2.0, 2.0, 2.0)


def test_the_worklog_s_own_figure() -> None:
    """Worklog C: int(800000 / n) replays, and the mean of the second half of them."""
    assert [worklog_replays(n) for n in (4096, 1024, 12800)] == [195, 781, 62]
    assert second_half_mean(np.array([100.0, 100.0, 3.0, 5.0])) == 4.0
    assert second_half_mean(np.array([100.0, 2.0, 3.0])) == 2.5


def test_the_order_of_a_pair_is_drawn_and_balanced() -> None:
    """Neither role is first more often, nor tied to a place among four samples, as by reversing every second pair."""
    order = np.array(drawn_order(["variant", "baseline"], 400, seed=3)).reshape(-1, 2)
    assert all(sorted(pair) == ["baseline", "variant"] for pair in order.tolist())
    assert (order[:, 0] == "variant").sum() == 200
    first = (order[:, 0] == "variant").reshape(-1, 2)  # of each four samples
    assert 60 < first[:, 0].sum() < 140 and 60 < first[:, 1].sum() < 140
    assert drawn_order([1, 2], 9, seed=1) == drawn_order([1, 2], 9, seed=1) != drawn_order([1, 2], 9, seed=2)
