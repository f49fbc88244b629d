"""Finds which of several ways to compute the same thing is fastest on this card.

No GPU is in it: `measure` has that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

FIRST_ROUNDS = 3
NEAR = 0.05  # A call that is slower than the best of the first pass by more is out.
SECOND_S = 0.5  # The second pass takes about as long, within these numbers of rounds.
SECOND_ROUNDS = 7, 41
LEVEL = 0.95  # The interval that separates a winner from the next has this level.


@dataclass(frozen=True)
class Ranking:
    """How a search ended: indices of the winner and the second, and medians in microseconds.

    next: None where there was one alone. decided: the second is slower, by the 95% interval of the
    median ratio of their times in a round.
    """

    winner: int
    time_us: float
    next: int | None = None
    next_time_us: float | None = None
    decided: bool = True


# Takes indices in the order of their runs; returns the time of each run in microseconds, NaN of an
# invalid one.
Measure = Callable[[Sequence[int]], np.ndarray]


def fastest(count: int, measure: Measure) -> int:
    """Return the index of the fastest of `count`, which are at least one (see `search`)."""
    return search(count, measure).winner if count > 1 else 0


def search(count: int, measure: Measure) -> Ranking:
    """Find the fastest of `count`, which are at least one.

    A first pass of three rounds has all, a second pass those within 5% of the best median, with as
    many rounds as take half a second, 7 to 41. In a round each has one turn. Orders are drawn, so
    that none always follows the same one and drifts of clock and temperature fall on all alike, but
    always from the same seed. The lowest median wins; of equals, the first. Clocks vary, so another
    search may end otherwise between two that are equally fast.
    """
    first = _times(range(count), FIRST_ROUNDS, measure)
    best = min(map(_median, first.values()))
    near = [index for index, times in first.items() if _median(times) <= best * (1 + NEAR)]
    if len(near) == 1:
        return _result(first, near[0])
    round_us = sum(_median(first[index]) for index in near)
    second = _times(near, int(np.clip(SECOND_S * 1e6 / round_us, *SECOND_ROUNDS)), measure)
    return _result(second, min(near, key=lambda index: _median(second[index])))


def _result(times: dict[int, np.ndarray], winner: int) -> Ranking:
    others = [index for index in times if index != winner]
    if not others:
        return Ranking(winner, _median(times[winner]))
    second = min(others, key=lambda index: _median(times[index]))
    ratios = np.sort(times[second] / times[winner])
    ratios = ratios[np.isfinite(ratios)]
    low = int(binom.ppf((1 - LEVEL) / 2, len(ratios), 0.5)) - 1 if len(ratios) else -1
    decided = bool(low >= 0 and ratios[low] > 1) or bool(len(ratios) and ratios[0] > 1 + NEAR)
    return Ranking(winner, _median(times[winner]), second, _median(times[second]), decided)


def _times(indices: Sequence[int], rounds: int, measure: Measure) -> dict[int, np.ndarray]:
    """Return the times of each, one a round; NaN of an invalid one."""
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(indices) for _ in range(rounds)])
    times = np.asarray(measure(order.tolist()), np.float64)
    return {index: times[order == index] for index in indices}


def _median(times: np.ndarray) -> float:
    """Return the median; infinity where all runs were invalid."""
    valid = times[~np.isnan(times)]
    return float(np.median(valid)) if len(valid) else float("inf")
