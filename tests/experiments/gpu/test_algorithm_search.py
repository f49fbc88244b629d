"""The search among calls of a library finds the fastest, and finds the same again; no GPU in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from experiments.gpu.algorithm_search import FIRST_ROUNDS, NEAR, SECOND_ROUNDS, fastest, search


class Card:
    """Times of calls, with noise and drift of its own; knows what it was asked."""

    def __init__(self, times: Sequence[float], noise: float = 0.0, drift: float = 0.0) -> None:
        self.times, self.noise, self.drift = times, noise, drift
        self.rng = np.random.default_rng(5)
        self.asked: list[list[int]] = []

    def __call__(self, order: Sequence[int]) -> np.ndarray:
        self.asked.append(list(order))
        slower = (
            1
            + self.drift * np.arange(len(order))
            + self.noise * np.abs(self.rng.standard_normal(len(order)))
        )
        return np.array([self.times[place] for place in order]) * slower


def test_noise_and_a_falling_clock_do_not_decide() -> None:
    assert fastest(5, Card([104.0, 103.0, 100.0, 103.0, 300.0], noise=0.02, drift=2e-4)) == 2


def test_who_is_far_off_is_not_in_the_final_and_the_others_have_as_many_turns() -> None:
    card = Card([100.0, 200.0, 103.0])
    assert fastest(3, card) == 0
    first, final = map(Counter, card.asked)
    assert first == dict.fromkeys(range(3), FIRST_ROUNDS)
    assert final == dict.fromkeys((0, 2), SECOND_ROUNDS[1])
    slow = Card([3e5, 3.01e5])
    fastest(2, slow)
    assert Counter(slow.asked[1]) == dict.fromkeys((0, 1), SECOND_ROUNDS[0])


@pytest.mark.parametrize(
    ("times", "winner", "second", "decided"),
    [
        ([103.0, 100.0, 200.0], (1, 100.0), (0, 103.0), True),
        # There is no second pass, for no other is near.
        ([200.0, 100.0, 150.0], (1, 100.0), (2, 150.0), True),
        ([100.0, 100.0 * (1 + NEAR)], (0, 100.0), (1, 100.0 * (1 + NEAR)), True),  # still near
        ([100.0, 100.0], (0, 100.0), (1, 100.0), False),
        ([100.0], (0, 100.0), (None, None), True),
    ],
)
def test_a_search_says_how_long_the_winner_and_the_second_took(
    times: list[float],
    winner: tuple[int, float],
    second: tuple[int | None, float | None],
    decided: bool,
) -> None:
    found = search(len(times), Card(times))
    assert (found.winner, found.time_us) == winner and (found.next, found.next_time_us) == second
    assert found.decided is decided


def test_a_second_that_is_slower_in_most_rounds_is_not_decided_by_noise() -> None:
    assert not search(2, Card([100.0, 100.1], noise=0.03)).decided
    assert search(2, Card([100.0, 103.0], noise=0.01)).decided


def test_orders_vary_within_a_search_and_are_the_same_in_the_next() -> None:
    one, other = Card([1.0, 1.01, 1.02]), Card([1.0, 1.01, 1.02])
    fastest(3, one)
    fastest(3, other)
    assert one.asked == other.asked
    rounds = {tuple(one.asked[1][i : i + 3]) for i in range(0, len(one.asked[1]), 3)}
    assert len(rounds) > 2 and all(sorted(turn) == [0, 1, 2] for turn in rounds)


def test_one_alone_needs_no_run() -> None:
    alone = Card([1.0])
    assert fastest(1, alone) == 0 and not alone.asked


@pytest.mark.parametrize(("spoilt", "expected"), [("some", 0), ("the first", 1), ("all", 0)])
def test_spoilt_samples_do_not_count(spoilt: str, expected: int) -> None:
    """Where all are spoilt, the first stands."""
    rng = np.random.default_rng(1)

    def measure(order: Sequence[int]) -> np.ndarray:
        places = np.array(order)
        invalid = {"some": rng.random(len(order)) < 0.3, "the first": places == 0}
        return np.where(invalid.get(spoilt, True), np.nan, np.array([9.0, 10.0, 10.2])[places])

    assert fastest(3, measure) == expected
