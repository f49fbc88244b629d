"""Values with an interval, and what may be said when two of them are compared.

Interval arithmetic: the result of an operation holds every result that values inside the operands' intervals can give
(Moore, Kearfott and Cloud 2009, ch. 2). Of two independent 95% intervals that is conservative: the result covers more
than 95%. A quantity that stands twice in an expression counts as two independent ones, which widens it further.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contracts import UserError
from contracts.errors import quoted

JOINED = "and, or and not join comparisons only"
EQUAL = 1e-6  # relative: the tables hold nine digits


class Undefined(Exception):
    """What has no value for these numbers, though it may for a machine's others: a division by zero."""


@dataclass(frozen=True)
class Estimate:
    """A value and the interval around it; an exact one is its own interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: Any) -> Estimate:
        """A plain number as an exact estimate. Raises `UserError` for what is no number, `Undefined` for nan."""
        if isinstance(value, Estimate):
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UserError(f"{quoted(value)} is no number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isnan(number):
            raise Undefined("no number is there")
        if math.isinf(number):
            raise UserError(f"{quoted(value)} is not allowed; allowed: finite numbers")
        return cls(number, number, number)

    def within(self, *operands: Estimate) -> Estimate:
        """Itself, as the result of an operation on `operands`.

        Of finite ones it is finite: raises `UserError` where it grew out of range. Raises `Undefined` where it is no
        number, such as infinite less infinite.
        """
        ends = (self.value, self.low, self.high)
        if any(map(math.isnan, ends)):
            raise Undefined(f"no number comes of {' and '.join(map(str, operands))}")
        if any(map(math.isinf, ends)) and all(math.isfinite(x) for o in operands for x in (o.value, o.low, o.high)):
            shown = " and ".join(map(str, operands))
            raise UserError(f"{shown} give a number out of range; allowed: finite numbers")
        return self

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def map(self, function: Callable[[float], float]) -> Estimate:
        """The image under a monotonic function."""
        try:
            value, *ends = (function(x) for x in (self.value, self.low, self.high))
        except OverflowError:
            value, ends = math.inf, [math.inf, math.inf]
        return Estimate(value, min(ends), max(ends)).within(self)

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, -self.high, -self.low)

    def __abs__(self) -> Estimate:
        ends = abs(self.low), abs(self.high)
        return Estimate(abs(self.value), 0.0 if self.low < 0 < self.high else min(ends), max(ends))

    def __str__(self) -> str:
        return shown(self.value, self.low, self.high)


def add(a: Any, b: Any) -> Estimate:
    a, b = Estimate.of(a), Estimate.of(b)
    return Estimate(a.value + b.value, a.low + b.low, a.high + b.high).within(a, b)


def total(values: list[Any]) -> Estimate:
    """The sum of all."""
    return functools.reduce(add, values, Estimate.of(0))


def subtract(a: Any, b: Any) -> Estimate:
    return add(a, -Estimate.of(b))


def multiply(a: Any, b: Any) -> Estimate:
    a, b = Estimate.of(a), Estimate.of(b)
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Estimate(a.value * b.value, min(ends), max(ends)).within(a, b)


def divide(a: Any, b: Any) -> Estimate:
    """Raises `Undefined` where the divisor's interval holds zero."""
    b = Estimate.of(b)
    if b.low <= 0 <= b.high:
        raise Undefined(f"division by {b}" if b.exact else f"division by {b}, which may be zero")
    return multiply(a, b.map(lambda x: 1 / x))


def power(a: Any, b: Any) -> Estimate:
    """A whole exponent, or any exponent of what is above zero."""
    base, exponent = Estimate.of(a), Estimate.of(b)
    whole = exponent.value.is_integer() and exponent.value >= 0
    if not exponent.exact or abs(exponent.value) > 64 or (base.low <= 0 and not (base.exact and whole)):
        raise UserError(
            f"({base}) ** ({exponent}) is not allowed; allowed: an exact exponent up to 64, of what is above zero"
        )
    return base.map(lambda x: float(x**exponent.value))


def whole(operation: Callable[[int, int], int]) -> Callable[[Any, Any], Estimate]:
    """An operation that only whole numbers have: // or %."""

    def apply(a: Any, b: Any) -> Estimate:
        a, b = Estimate.of(a), Estimate.of(b)
        if not (a.exact and b.exact and a.value.is_integer() and b.value.is_integer() and b.value):
            raise UserError(f"// and % need whole numbers, not {a} and {b}")
        return Estimate.of(operation(int(a.value), int(b.value)))

    return apply


def least(values: list[Any]) -> Estimate:
    """The smallest; its interval holds the smallest of any values inside the intervals."""
    found = [Estimate.of(value) for value in values]
    return Estimate(*(min(getattr(e, end) for e in found) for end in ("value", "low", "high")))


def greatest(values: list[Any]) -> Estimate:
    """The largest, likewise."""
    return -least([-Estimate.of(value) for value in values])


@dataclass(frozen=True)
class Truth:
    """Whether a comparison is true over the whole intervals (True), false over them (False), or neither (None)."""

    holds: bool | None
    words: str  # the comparison with its values: "0.887 < 0.914"

    def __bool__(self) -> bool:
        """For the conditions of a comprehension. Raises `Undefined` where the intervals do not decide."""
        if self.holds is None:
            raise Undefined(f"the intervals do not decide {self.words}")
        return self.holds

    def __str__(self) -> str:
        return {True: "true", False: "false", None: "undecided"}[self.holds]


def compare(sign: str, a: Any, b: Any) -> Truth:
    """a `sign` b, for < <= > >= == and !=; names are only equal or different."""
    words = f"{a if isinstance(a, str) else Estimate.of(a)} {sign} {b if isinstance(b, str) else Estimate.of(b)}"
    if isinstance(a, str) or isinstance(b, str):
        if sign not in ("==", "!=") or not (isinstance(a, str) and isinstance(b, str)):
            raise UserError(f"{words}: names are compared with == and != to names only")
        return Truth((a == b) == (sign == "=="), words)
    a, b = Estimate.of(a), Estimate.of(b)
    if sign in (">", ">="):
        a, b = b, a
    if sign in ("<", ">"):
        return Truth(True if a.high < b.low else False if a.low >= b.high else None, words)
    if sign in ("<=", ">="):
        return Truth(True if a.high <= b.low else False if a.low > b.high else None, words)
    apart = a.high < b.low or b.high < a.low
    same = None if not (a.exact and b.exact) and not apart else math.isclose(a.value, b.value, rel_tol=EQUAL)
    return Truth(same if sign == "==" or same is None else not same, words)


def both(parts: list[Truth]) -> Truth:
    """Whether all of them are true."""
    words = " and ".join(part.words for part in parts)
    if any(part.holds is False for part in parts):
        return Truth(False, words)
    return Truth(True if all(part.holds for part in parts) else None, words)


def either(parts: list[Truth]) -> Truth:
    """Whether at least one is true."""
    holds = True if any(part.holds for part in parts) else None if any(p.holds is None for p in parts) else False
    return Truth(holds, " or ".join(part.words for part in parts))


def opposite(part: Any) -> Truth:
    """Not. Raises `UserError` of what is no comparison."""
    if not isinstance(part, Truth):
        raise UserError(f"{part}: {JOINED}")
    return Truth(None if part.holds is None else not part.holds, f"not ({part.words})")


def number(value: float) -> str:
    """Three significant digits, whole numbers whole: 0.0123, 0.498, 9.31, 35.6, 4096."""
    if not math.isfinite(value):
        return "never" if value > 0 else "n/a"
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{value:.0f}"
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return f"{value:.3g}"
    rounded = float(f"{value:.3g}")  # before the digits are counted: 0.9999 is 1.00
    return f"{rounded:.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}" if abs(value) < 1000 else f"{value:.0f}"


def shown(value: float, low: float, high: float) -> str:
    """A value with its interval, where that has other digits: "0.887 [0.885, 0.889]"."""
    texts = [number(x) for x in (value, low, high)]
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} [{texts[1]}, {texts[2]}]"
