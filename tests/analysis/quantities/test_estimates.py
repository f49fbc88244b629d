"""Values with an interval: what operations and comparisons of them give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.quantities import estimates
from analysis.quantities.estimates import Estimate, Truth, Undefined


def inside(draw: Any) -> tuple[Estimate, float]:
    """An estimate, and a value inside its interval."""
    ends = st.floats(-1e3, 1e3).map(lambda end: end + 0.0)  # no -0.0, which sorts as 0.0 but is below it to st.floats
    low, value, high = sorted(draw(st.tuples(ends, ends, ends)))
    return Estimate(value, low, high), draw(st.floats(low, high))


@given(st.data())
def test_an_operation_s_interval_holds_what_values_inside_give(data: st.DataObject) -> None:
    (a, x), (b, y) = inside(data.draw), inside(data.draw)
    slack = 1e-6
    for operation, exact in [
        (estimates.add, x + y), (estimates.subtract, x - y), (estimates.multiply, x * y),
        (lambda a, b: estimates.least([a, b]), min(x, y)), (lambda a, b: estimates.greatest([a, b]), max(x, y)),
        (lambda a, b: abs(a), abs(x)), (lambda a, b: -a, -x),
    ]:  # fmt: skip
        found = operation(a, b)
        assert found.low - slack <= exact <= found.high + slack
        assert found.low - slack <= found.value <= found.high + slack
    if b.low > 0.01 or b.high < -0.01:
        found = estimates.divide(a, b)
        assert found.low - slack <= x / y <= found.high + slack


def test_a_divisor_that_may_be_zero_has_no_value() -> None:
    for divisor in (0, Estimate(1.0, -0.5, 2.0)):
        with pytest.raises(Undefined, match="division by"):
            estimates.divide(1, divisor)


@given(st.data())
def test_a_comparison_is_decided_only_where_the_intervals_are_apart(data: st.DataObject) -> None:
    (a, x), (b, y) = inside(data.draw), inside(data.draw)
    for sign, holds in {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}.items():
        verdict = estimates.compare(sign, a, b).holds
        assert verdict is None or verdict == holds or abs(x - y) < 1e-6
    if a.high < b.low:
        assert estimates.compare("<", a, b).holds is True and estimates.compare(">=", a, b).holds is False


def test_and_or_and_not_have_three_values() -> None:
    yes, no, open_ = (Truth(holds, "x") for holds in (True, False, None))
    assert [estimates.both(p).holds for p in ([yes, yes], [yes, open_], [no, open_])] == [True, None, False]
    assert [estimates.either(p).holds for p in ([no, yes], [no, open_], [no, no])] == [True, None, False]
    assert [estimates.opposite(p).holds for p in (yes, no, open_)] == [False, True, None]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.498, "0.498"), (9.314, "9.31"), (35.61, "35.6"), (671.2, "671"), (4273.4, "4273"), (4096.0, "4096"), (0.0, "0"),
     (0.01234, "0.0123"), (-2.5, "-2.50"), (1e12, "1e+12"), (0.99978, "1.00"), (99.97, "100"), (float("inf"), "never")],
)  # fmt: skip
def test_numbers_are_reported_with_three_digits(value: float, text: str) -> None:
    assert estimates.number(value) == text


def test_an_interval_is_shown_where_it_can_be_seen() -> None:
    assert str(Estimate(1.5, 1.4, 1.6)) == "1.50 [1.40, 1.60]" and str(Estimate(1.5, 1.4999, 1.5001)) == "1.50"
