"""How near is near enough: one principle for all worklogs, derived from how a text words a number.

What a text says, and what of ours it allows (`Wording`):

- a number with its digits ("6.15", "19%"): half a unit of the last digit. Zeros at the end of a whole number count as
  digits up to the third one only: 2000 is 1995 to 2005.
- a number that the text itself calls approximate ("~94%", "about 75x"): a whole unit of the last digit, and 5% at
  least.
- a range ("5-10%"): the range, and half a unit of the last digit beyond its ends.
- a count, a degree, a name: exactly that.
- a direction, a bound ("faster", "at most"): the side of it.

A number that follows from several of a text's has the interval that their digits give it (`derived`).

To ours comes the noise of its kind of quantity (`NOISE`), as far as its interval does not cover that; intervals of
times and shares do, by what the archive itself repeats (`analysis.statistics.noise`). What a text counts is held
against ours with that noise; a side asks for all of our interval. A claim with another tolerance says why (`reason`).

Each verdict is also given under two other rules (`Level`), so that one sees which verdicts hang on the choice.
Stricter: digits only, "about" or not, and no noise; a side also with the noise against it. Looser: a fifth of a
measured number, a twentieth of one on paper; a side if our middle value is there within noise.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass
from decimal import Decimal

from analysis.quantities.estimates import EQUAL, Estimate
from analysis.quantities.registry import Noise
from analysis.statistics import UNKNOWN

SIGNIFICANT = 3  # digits of a whole number that count although they are zeros
ABOUT = 0.05  # least relative width of "about", to either side
LOOSER = {"measured": 0.2, "computed": 0.05}


class Level(enum.Enum):
    """The rule that verdicts follow, and one to either side of it."""

    STRICTER = "stricter"
    STANDARD = "standard"
    LOOSER = "looser"


# Relative, of a value that was read once, or whose interval is of one run.
NOISE = {
    Noise.PAPER: 0.0,
    Noise.COMPILER: 0.0,
    Noise.EMULATOR: 0.0,
    Noise.COUNTER: 0.01,  # ncu misses a few sectors of a thousand, and launches differ in their tails
    Noise.TIME: 0.0,  # its interval covers fresh processes and cards: analysis.statistics.covering
    Noise.ONCE: UNKNOWN,
    Noise.POWER: 0.05,  # windows of one kernel at one size differ by up to 4.8% between experiments
}


# ---- what a text allows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wording:
    """A number as a text writes it: value, unit of its last digit, and whether the text calls it approximate."""

    value: float
    unit: float
    about: bool = False

    def interval(self, level: Level = Level.STANDARD) -> Estimate:
        """What of ours it allows, before noise. The looser level's fifth comes where ours is known to be measured."""
        half = self.unit / 2
        if self.about and level is not Level.STRICTER:
            half = max(self.unit, ABOUT * abs(self.value))
        return Estimate(self.value, self.value - half, self.value + half)


APPROXIMATE = re.compile(r"~|≈|\babout\b|\baround\b|\broughly\b|\bapproximately\b|\bnearly\b|\bsome\b|\bmaybe\b", re.I)
WRITTEN = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")


def worded(written: str, value: float | None = None, about: bool = False) -> Wording:
    """A number as it is written ("~18,200 GFLOPs", "0.80"); `value`: the same in another unit, which keeps its digits.

    Raises `ValueError` where no number is written.
    """
    found = WRITTEN.search(written)
    if found is None:
        raise ValueError(f"no number in {written!r}")
    digits = found[0].replace(",", "")
    number = Decimal(digits)
    unit = Decimal(1).scaleb(number.as_tuple().exponent)  # type: ignore[arg-type]  # of a finite number
    if "." not in digits and number:
        zeros = len(digits) - len(digits.rstrip("0"))
        unit = Decimal(10) ** max(0, min(zeros, len(digits) - SIGNIFICANT))
    scale = 1.0 if value is None or not number else value / float(number)
    value = float(number) if value is None else value
    return Wording(value, abs(float(unit) * scale), about or APPROXIMATE.search(written) is not None)


def of_number(value: float, about: bool = False) -> Wording:
    """A number that stands in claims.yaml, with the digits that it has there."""
    return worded(
        f"{Decimal(repr(abs(value))):f}" if not float(value).is_integer() else f"{abs(value):.0f}", value, about
    )


# ---- whether ours is there -------------------------------------------------------------------------------------------


def meets(ours: Estimate, theirs: Estimate, of: Noise, level: Level, own: bool = False) -> bool:
    """Whether ours is what a text allows; `own`: the claim's tolerance is its own, and is not widened for the text."""
    low, high = widened(ours, 0.0 if level is Level.STRICTER else NOISE[of])
    slack = 0.0
    if level is Level.LOOSER and not own:
        slack = LOOSER["computed" if of < Noise.COUNTER else "measured"] * abs(theirs.value)
    reach = EQUAL * max(abs(theirs.value), abs(ours.value))
    allowed = min(theirs.low, theirs.value - slack), max(theirs.high, theirs.value + slack)
    return high >= allowed[0] - reach and low <= allowed[1] + reach


def equals(ours: Estimate, wanted: float, of: Noise, level: Level) -> bool:
    """Whether ours is exactly that: all of it, but for the noise of counting."""
    if of is Noise.TIME and level is not Level.STRICTER:  # its interval is what noise leaves undecided
        return meets(ours, Estimate.of(wanted), of, Level.STANDARD)
    noise = 0.0 if level is Level.STRICTER else NOISE[of] * (2 if level is Level.LOOSER else 1)
    slack = max(EQUAL, noise * abs(wanted))
    return all(math.isclose(end, wanted, rel_tol=EQUAL, abs_tol=slack) for end in (ours.low, ours.high))


def beyond(ours: Estimate, bound: float, side: int, of: Noise, level: Level, strictly: bool = False) -> bool:
    """Whether ours is above (`side` 1) or below (-1) a bound: all of it; `strictly`: and not on it."""
    noise = NOISE[of] * max(abs(ours.value), abs(bound)) if math.isfinite(ours.value) else 0.0
    end = {
        Level.STANDARD: ours.low if side > 0 else ours.high,
        Level.STRICTER: ours.low - noise if side > 0 else ours.high + noise,
        Level.LOOSER: ours.value + side * noise,
    }[level]
    if strictly and level is not Level.LOOSER:
        return end > bound if side > 0 else end < bound
    reach = 0.0 if strictly else EQUAL * abs(bound)
    return end >= bound - reach if side > 0 else end <= bound + reach


def widened(ours: Estimate, noise: float) -> tuple[float, float]:
    """Ours with noise to either side."""
    more = noise * abs(ours.value) if math.isfinite(ours.value) else 0.0
    return ours.low - more, ours.high + more
