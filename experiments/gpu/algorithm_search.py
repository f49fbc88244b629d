"""Which of several ways to compute the same thing is fastest on this card.

No GPU in it: `measure` has that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

FIRST_ROUNDS = 3
NEAR = 0.05  # relative to the best median of the first pass: whoever is slower than that is out
SECOND_S = 0.5  # the second pass takes about as long, within these numbers of rounds
SECOND_ROUNDS = 7, 41
LEVEL = 0.95  # of the interval by which a winner is separated from the next


@dataclass(frozen=True)
class Ranking:
    """How a search ended: places in the sequence, and medians in microseconds."""

    winner: int
    time_us: float
    next: int | None = None  # the second; None where there was one alone
    next_time_us: float | None = None
    # the second is slower, by the 95% interval of the median ratio of their times in a round
    decided: bool = True


# From places in a sequence, in the order of their runs, to the time of each run in microseconds;
# NaN where it is spoilt
Measure = Callable[[Sequence[int]], np.ndarray]


def fastest(count: int, measure: Measure) -> int:
    """The place of the fastest of `count`, which are at least one (see `search`)."""
    return search(count, measure).winner if count > 1 else 0


def search(count: int, measure: Measure) -> Ranking:
    """Find the fastest of `count`, which are at least one.

    A first pass of three rounds has all, a second pass those within 5% of the best median, with as
    many rounds as take half a second, 7 to 41. In a round each has one turn. Orders are drawn, so
    that none always follows the same one and drifts of clock and temperature fall on all alike, but
    always from the same seed. The lowest median wins; of equals, the first. Clocks vary, so another
    search may end otherwise between two that are equally fast.
    """
    everyone = list(range(count))
    first = _times(everyone, FIRST_ROUNDS, measure)
    best = min(map(_middle, first.values()))
    near = [place for place in everyone if _middle(first[place]) <= best * (1 + NEAR)]
    if len(near) == 1:
        return _result(first, near[0])
    rounds = int(
        np.clip(SECOND_S * 1e6 / sum(_middle(first[place]) for place in near), *SECOND_ROUNDS)
    )
    second = _times(near, rounds, measure)
    return _result(second, min(near, key=lambda place: _middle(second[place])))


def _result(times: dict[int, np.ndarray], winner: int) -> Ranking:
    others = [place for place in times if place != winner]
    if not others:
        return Ranking(winner, _middle(times[winner]))
    second = min(others, key=lambda place: _middle(times[place]))
    ratios = np.sort(times[second] / times[winner])
    ratios = ratios[np.isfinite(ratios)]
    low = int(binom.ppf((1 - LEVEL) / 2, len(ratios), 0.5)) - 1 if len(ratios) else -1
    decided = bool(low >= 0 and ratios[low] > 1) or bool(len(ratios) and ratios[0] > 1 + NEAR)
    return Ranking(winner, _middle(times[winner]), second, _middle(times[second]), decided)


def _times(places: Sequence[int], rounds: int, measure: Measure) -> dict[int, np.ndarray]:
    """Times of each, one a round; NaN where they were spoilt."""
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(places) for _ in range(rounds)])
    times = np.asarray(measure([int(place) for place in order]), np.float64)
    return {place: times[order == place] for place in places}


def _middle(times: np.ndarray) -> float:
    """The median; infinite where all runs were spoilt."""
    kept = times[~np.isnan(times)]
    return float(np.median(kept)) if len(kept) else float("inf")
