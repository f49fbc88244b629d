"""Values with an interval, and comparisons that hold, do not hold, or are undecided.

Interval arithmetic: the result of an operation contains every result that values inside the operands' intervals can
give (Moore, Kearfott and Cloud, Introduction to Interval Analysis, 2009, chapter 2).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from contracts import UserError


class Missing(Exception):
    """A number that this GPU's tables do not have, with the reason."""


@dataclass(frozen=True)
class Estimate:
    """A value and the interval around it. An exact value is its own interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: Any) -> Estimate:
        """A plain number as an exact estimate. Raises `UserError` for anything else."""
        if isinstance(value, Estimate):
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise UserError(f"{value!r} is not allowed; allowed: a finite number")
        return cls(float(value), float(value), float(value))

    @classmethod
    def around(cls, value: float, ends: Iterable[float]) -> Estimate:
        """A value with the interval that reaches from the least to the greatest of `ends`."""
        ends = list(ends)
        return cls(value, min(value, *ends), max(value, *ends))

    def __add__(self, other: Any) -> Estimate:
        return _combined(operator.add, self, other)

    def __radd__(self, other: Any) -> Estimate:
        return _combined(operator.add, other, self)

    def __sub__(self, other: Any) -> Estimate:
        return _combined(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Estimate:
        return _combined(operator.sub, other, self)

    def __mul__(self, other: Any) -> Estimate:
        return _combined(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Estimate:
        return _combined(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Estimate:
        return _divided(self, other)

    def __rtruediv__(self, other: Any) -> Estimate:
        return _divided(other, self)

    def __pow__(self, exponent: Any) -> Estimate:
        power = Estimate.of(exponent).value
        if self.low <= 0:
            raise UserError(f"{self} ** {power:g} is not allowed; allowed: powers of what is above zero")
        return Estimate.around(self.value**power, (self.low**power, self.high**power))

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, -self.high, -self.low)

    def __abs__(self) -> Estimate:
        ends = abs(self.low), abs(self.high)
        return Estimate(abs(self.value), 0.0 if self.low < 0 < self.high else min(ends), max(ends))

    def __lt__(self, other: Any) -> Truth:
        other = Estimate.of(other)
        return Truth(_decided(self.high < other.low, self.low >= other.high), f"{self} < {other}", self)

    def __gt__(self, other: Any) -> Truth:
        other = Estimate.of(other)
        return Truth(_decided(self.low > other.high, self.high <= other.low), f"{self} > {other}", self)

    def __le__(self, other: Any) -> Truth:
        other = Estimate.of(other)
        return Truth(_decided(self.high <= other.low, self.low > other.high), f"{self} <= {other}", self)

    def __ge__(self, other: Any) -> Truth:
        other = Estimate.of(other)
        return Truth(_decided(self.low >= other.high, self.high < other.low), f"{self} >= {other}", self)

    def __str__(self) -> str:
        texts = [number(value) for value in (self.value, self.low, self.high)]
        return texts[0] if len(set(texts)) == 1 else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _combined(operation: Callable[[float, float], float], a: Any, b: Any) -> Estimate:
    a, b = Estimate.of(a), Estimate.of(b)
    ends = [operation(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Estimate.around(operation(a.value, b.value), ends)


def _divided(a: Any, b: Any) -> Estimate:
    divisor = Estimate.of(b)
    if divisor.low <= 0 <= divisor.high:
        raise Missing(f"division by {divisor}, which may be zero")
    return _combined(operator.truediv, a, divisor)


@dataclass(frozen=True)
class Truth:
    """A comparison: true over the whole intervals, false over them, or undecided (None).

    `words` shows it with its values: "0.887 < 0.914". `ours` is the value on the left, for a table.
    """

    holds: bool | None
    words: str
    ours: Estimate | str | None = None

    def __bool__(self) -> bool:
        """For `and`, `or` and conditions of a list: an undecided comparison counts as not true."""
        return self.holds is True


def _decided(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def all_of(*parts: Truth) -> Truth:
    """Whether all of several comparisons hold."""
    holds = _decided(all(part.holds for part in parts), any(part.holds is False for part in parts))
    return Truth(holds, " and ".join(part.words for part in parts), parts[0].ours)


def any_of(*parts: Truth) -> Truth:
    """Whether at least one of several comparisons holds."""
    holds = _decided(any(part.holds for part in parts), all(part.holds is False for part in parts))
    return Truth(holds, " or ".join(part.words for part in parts), parts[0].ours)


def least(values: Iterable[Any]) -> Estimate:
    """The smallest of several; its interval holds the smallest of any values inside theirs."""
    found = [Estimate.of(value) for value in values]
    return Estimate(*(min(getattr(one, end) for one in found) for end in ("value", "low", "high")))


def greatest(values: Iterable[Any]) -> Estimate:
    """The largest of several, likewise."""
    return -least(-Estimate.of(value) for value in values)


def mean(values: Iterable[Any]) -> Estimate:
    """The arithmetic mean of several; independent rows narrow its interval: half-widths add as squares."""
    found = [Estimate.of(value) for value in values]
    middle = sum(one.value for one in found) / len(found)
    half = math.sqrt(sum(((one.high - one.low) / 2) ** 2 for one in found)) / len(found)
    return Estimate(middle, middle - half, middle + half)


def number(value: float) -> str:
    """Three significant digits, whole numbers whole: 0.0123, 0.498, 9.31, 35.6, 4096."""
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{value:.0f}"
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return f"{value:.3g}"
    rounded = float(f"{value:.3g}")  # before the digits are counted: 0.9999 is 1.00
    return f"{rounded:.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}" if abs(value) < 1000 else f"{value:.0f}"
