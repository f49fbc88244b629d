"""Values with an interval: arithmetic that loses nothing, and comparisons that may be undecided."""

from __future__ import annotations

import operator
import random

import pytest
from helpers import refused

from analysis.estimates import (
    Estimate,
    Missing,
    Truth,
    all_of,
    any_of,
    largest,
    mean,
    not_,
    number,
    smallest,
)

A, B = Estimate(2.0, 1.5, 3.0), Estimate(-1.0, -2.0, 4.0)
YES, NO, OPEN = Truth(True, "yes"), Truth(False, "no"), Truth(None, "open")


def test_an_interval_holds_every_result_of_values_inside_the_operands() -> None:
    draw = random.Random(1).uniform
    divided, apart = lambda x, y: y / x, lambda x, y: abs(y) - x
    for operation in (operator.add, operator.sub, operator.mul, divided, apart):
        result = operation(A, B)
        drawn = [operation(draw(A.low, A.high), draw(B.low, B.high)) for _ in range(500)]
        assert result.low - 1e-12 <= min(drawn) and max(drawn) <= result.high + 1e-12
    assert abs(Estimate(-2.0, -3.0, -1.0)) == Estimate(2.0, 1.0, 3.0)
    for divisor in (B, Estimate(0.5, 0.0, 1.0), Estimate(-0.5, -1.0, 0.0)):
        with pytest.raises(Missing, match="which may be zero"):
            A / divisor
    assert Estimate(2.0, 1.0, 3.0) ** -1 == Estimate(0.5, 1 / 3, 1.0)
    with refused("powers of what is above zero"):
        Estimate(1.0, 0.0, 2.0) ** -1  # touches zero


@pytest.mark.parametrize(
    ("truth", "holds", "words"),
    [
        (Estimate(1.2, 1.1, 1.3) > 1, True, "1.20 [1.10, 1.30] > 1"),
        (Estimate(1.2, 0.9, 1.3) > 1, None, "1.20 [0.900, 1.30] > 1"),
        (Estimate(0.9, 0.8, 1.0) > 1, False, "0.900 [0.800, 1] > 1"),
        (Estimate(1.0, 1.0, 1.0) >= 1, True, "1 >= 1"),
        (Estimate(0.95, 0.9, 1.0) <= 1, True, "0.950 [0.900, 1] <= 1"),
        (Estimate(1.0, 1.0, 1.2) < 1, False, "1 [1, 1.20] < 1"),
        (Estimate(1.0013, 1.001, 1.0016) > 1, True, "1.001 [1.001, 1.002] > 1"),
        (Estimate(5.0, 4.0, 6.0) < Estimate(7.0, 6.0, 8.0), None, "5 [4, 6] < 7 [6, 8]"),
        (Estimate(1.2345, 1.1, 1.3) > 1.2345, None, "1.23 [1.10, 1.30] > 1.23"),
        (Estimate.of(1.2345678) > 1.2345612, True, "1.2346 > 1.2346"),  # five digits at most
    ],
)
def test_a_comparison_is_decided_where_all_of_both_intervals_agree(
    truth: Truth, holds: bool | None, words: str
) -> None:
    assert (truth.holds, truth.words) == (holds, words)


def test_what_is_undecided_stays_so_unless_another_part_decides() -> None:
    pairs = ((YES, OPEN), (NO, OPEN), (YES, YES), (NO, NO), (True, NO))
    assert [all_of(*parts).holds for parts in pairs] == [None, False, True, False, False]
    assert [any_of(*parts).holds for parts in pairs] == [True, None, True, False, True]
    assert [not_(truth).holds for truth in (YES, NO, OPEN, True)] == [False, True, None, False]
    assert not OPEN and not NO and YES
    several = A > 1, Estimate.of(3) > 2
    assert all_of(*several).ours == any_of(*several).ours == not_(several[0]).ours == A
    with refused("where a comparison is needed"):
        all_of(YES, A)  # type: ignore[arg-type]


def test_smallest_greatest_and_mean_have_intervals_of_their_own() -> None:
    assert smallest([A, B]) == Estimate(-1.0, -2.0, 3.0)
    assert largest([A, B]) == Estimate(2.0, 1.5, 4.0)
    result = mean([Estimate(1.0, 0.9, 1.1)] * 100)  # independent rows: half-widths add as squares
    assert (result.low, result.high) == pytest.approx((0.99, 1.01))


def test_numbers_have_three_digits() -> None:
    texts = {0.9999: "1.00", 0.49812: "0.498", 9.306: "9.31", 1234.5: "1234"}
    texts |= {4096.0: "4096", 1.2e-5: "1.2e-05"}
    assert {value: number(value) for value in texts} == texts
