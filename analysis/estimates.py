"""Values with an interval, and comparisons that hold, do not hold, or are undecided.

Interval arithmetic: the result of an operation contains every result that values inside the
operands' intervals can give (Moore, Kearfott and Cloud, Introduction to Interval Analysis, 2009,
chapter 2).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from contracts import UserError

CLAIMED = {"=": "", ">": "more than ", ">=": "at least ", "<": "less than ", "<=": "at most "}


class Missing(Exception):
    """A number that this GPU's tables do not have, with the reason."""


@dataclass(frozen=True)
class Estimate:
    """A value and the interval around it. An exact value is its own interval.

    unit: as a table prints it, "fraction" of a share of one; sums and differences keep it.
    """

    value: float
    low: float
    high: float
    unit: str = field(default="", compare=False, kw_only=True)

    @property
    def ends(self) -> tuple[float, float, float]:
        return self.value, self.low, self.high

    @classmethod
    def of(cls, value: Any) -> Estimate:
        """A plain number as an exact estimate. Raises `UserError` for anything else."""
        if isinstance(value, Estimate):
            return value
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise UserError(f"{value!r} is not allowed; allowed: a finite number")
        return cls(float(value), float(value), float(value))

    @classmethod
    def around(cls, value: float, ends: Iterable[float]) -> Estimate:
        """A value with the interval that reaches from the least to the greatest of `ends`."""
        ends = list(ends)
        return cls(value, min(value, *ends), max(value, *ends))

    def __add__(self, other: Any) -> Estimate:
        return _alike(operator.add, self, other)

    def __radd__(self, other: Any) -> Estimate:
        return _alike(operator.add, other, self)

    def __sub__(self, other: Any) -> Estimate:
        return _alike(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Estimate:
        return _alike(operator.sub, other, self)

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
            what = f"{self} ** {power:g} is not allowed"
            raise UserError(f"{what}; allowed: powers of what is above zero")
        return Estimate.around(self.value**power, (self.low**power, self.high**power))

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, -self.high, -self.low, unit=self.unit)

    def __abs__(self) -> Estimate:
        ends = abs(self.low), abs(self.high)
        low = 0.0 if self.low < 0 < self.high else min(ends)
        return Estimate(abs(self.value), low, max(ends), unit=self.unit)

    def __lt__(self, other: Any) -> Truth:
        return _ordered(operator.lt, "<", self, Estimate.of(other))

    def __gt__(self, other: Any) -> Truth:
        return _ordered(operator.gt, ">", self, Estimate.of(other))

    def __le__(self, other: Any) -> Truth:
        return _ordered(operator.le, "<=", self, Estimate.of(other))

    def __ge__(self, other: Any) -> Truth:
        return _ordered(operator.ge, ">=", self, Estimate.of(other))

    def text(self, digits: int = 3) -> str:
        """The value, and its interval where that is another number at so many significant
        digits.
        """
        return _with_interval([number(value, digits) for value in self.ends])

    def in_unit(self, digits: int = 3, short: bool = True) -> str:
        """The same with its unit: "94.6 [94, 95]%"; short: a million and more in M or G."""
        texts = [_written(number(value, digits), self.unit, short) for value in self.ends]
        if self.unit == "fraction":
            return f"{_with_interval(texts)}%"
        unit = re.sub(r"s\b", "", self.unit, count=1) if texts[0] == "1" else self.unit
        return _with_interval(texts) + ("" if unit in ("%", "×", "") else " ") + unit

    def __str__(self) -> str:
        return self.text()


def _with_interval(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _written(text: str, unit: str, short: bool) -> str:
    value, decimals = float(text), len(text.partition(".")[2])
    if unit == "fraction":
        return f"{100 * value:.{max(0, decimals - 2)}f}"
    if abs(value) >= 1e6 and short:
        scale, prefix = (1e9, "G") if abs(value) >= 1e9 else (1e6, "M")
        return f"{number(value / scale)} {prefix}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else text


def _alike(operation: Callable[[float, float], float], a: Any, b: Any) -> Estimate:
    """A sum or a difference, in the unit of the one or the other."""
    unit = Estimate.of(a).unit or Estimate.of(b).unit
    return replace(_combined(operation, a, b), unit=unit)


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

    `words` shows it with its values: "0.887 < 0.914". `ours` is the value on the left, for a table;
    `claimed` and `measured` are both sides with their units: "less than 91.4%", "88.7%".
    """

    holds: bool | None
    words: str
    ours: Estimate | str | None = None
    claimed: str | None = None
    measured: str | None = None

    def __bool__(self) -> bool:
        """For `and`, `or` and conditions of a list: an undecided comparison counts as not true."""
        return self.holds is True


def compared(
    holds: bool | None, ours: Estimate, sign: str, claimed: Estimate, digits: int = 3, end: str = ""
) -> Truth:
    """A comparison whose two sides are printed in one unit, that of the one or the other."""
    words = f"{ours.text(digits)} {sign} {claimed.text(digits)}{end}"
    unit = claimed.unit or ours.unit if sign == "=" else ours.unit or claimed.unit
    sides = [replace(side, unit=unit) for side in (ours, claimed)]
    alike = sides[0].in_unit(digits) == sides[1].in_unit(digits)
    differ = ours.text(digits) != claimed.text(digits)
    texts = [side.in_unit(digits, short=not (alike and differ)) for side in sides]
    return Truth(holds, words, ours, CLAIMED[sign] + texts[1], texts[0])


def _ordered(
    operation: Callable[[float, float], bool], sign: str, a: Estimate, b: Estimate
) -> Truth:
    """Two values compared, with as many digits as it takes to tell them apart, five at most."""
    pairs = [operation(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    enough = (n for n in (3, 4) if float(number(a.value, n)) != float(number(b.value, n)))
    digits = 3 if a.value == b.value else next(enough, 5)
    return compared(_decided(all(pairs), not any(pairs)), a, sign, b, digits)


def _decided(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def all_of(*parts: Truth | bool) -> Truth:
    """Whether all of several comparisons hold.

    A plain True or False is a comparison without words.
    """
    truths = [_truth(part) for part in parts]
    known = [truth.holds for truth in truths]
    words = " and ".join(truth.words for truth in truths)
    measured = _joined("; ", [truth.measured for truth in truths])
    claimed = _joined("; ", [truth.claimed for truth in truths])
    holds = _decided(all(known), False in known)
    return Truth(holds, words, truths[0].ours, claimed, measured)


def any_of(*parts: Truth | bool) -> Truth:
    """Whether at least one of several comparisons, of one value, holds; likewise."""
    truths = [_truth(part) for part in parts]
    known = [truth.holds for truth in truths]
    words = " or ".join(truth.words for truth in truths)
    claimed = _joined(" or ", [truth.claimed for truth in truths])
    holds = _decided(any(known), known.count(False) == len(known))
    return Truth(holds, words, truths[0].ours, claimed, truths[0].measured)


def not_(part: Truth | bool) -> Truth:
    """The opposite of a comparison; undecided stays undecided."""
    truth = _truth(part)
    holds = None if truth.holds is None else not truth.holds
    return Truth(holds, f"not ({truth.words})", truth.ours)


def _truth(part: Any) -> Truth:
    """Raises `UserError` for what is no comparison."""
    if isinstance(part, Truth):
        return part
    if not isinstance(part, bool):
        raise UserError(f"{part} is not allowed where a comparison is needed; allowed: as in a > b")
    return Truth(bool(part), str(bool(part)).lower())


def _joined(between: str, texts: list[str | None]) -> str | None:
    """The texts joined, or None where one of them is None."""
    return None if None in texts else between.join(filter(None, texts))


def smallest(values: Iterable[Any]) -> Estimate:
    """The smallest of several; its interval holds the smallest of any values inside theirs."""
    several = [Estimate.of(value) for value in values]
    ends = zip(*(estimate.ends for estimate in several), strict=True)
    return Estimate(*map(min, ends), unit=several[0].unit)


def largest(values: Iterable[Any]) -> Estimate:
    """The largest of several, likewise."""
    return -smallest(-Estimate.of(value) for value in values)


def mean(values: Iterable[Any]) -> Estimate:
    """The arithmetic mean of several; independent rows narrow its interval: half-widths add as
    squares.
    """
    estimates = [Estimate.of(value) for value in values]
    middle = sum(estimate.value for estimate in estimates) / len(estimates)
    squares = sum(((estimate.high - estimate.low) / 2) ** 2 for estimate in estimates)
    half = math.sqrt(squares) / len(estimates)
    return Estimate(middle, middle - half, middle + half, unit=estimates[0].unit)


def geometric_mean(values: Iterable[Any]) -> Estimate:
    """The geometric mean of several above zero; its interval is that of the mean of their
    logarithms.
    """
    several = [Estimate.of(value) for value in values]
    logs = mean(Estimate(*map(math.log, estimate.ends)) for estimate in several)
    return Estimate(*map(math.exp, logs.ends), unit=several[0].unit)


def number(value: float, digits: int = 3) -> str:
    """So many significant digits, whole numbers whole: 0.0123, 0.498, 9.31, 35.6, 4096."""
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{value:.0f}"
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return f"{value:.{digits}g}"
    rounded = float(f"{value:.{digits}g}")  # before the digits are counted: 0.9999 is 1.00
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{decimals}f}" if abs(value) < 10**digits else f"{value:.0f}"
