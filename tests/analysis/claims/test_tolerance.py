"""How near is near enough: from how a text words a number, the same for all."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import files, tolerance, verdicts
from analysis.claims.tolerance import Level
from analysis.quantities.estimates import Estimate
from analysis.quantities.registry import Noise


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("268MB", 267.5, 268.5),
        ("6.15", 6.145, 6.155),
        ("0.80", 0.795, 0.805),  # a zero after the point is a digit
        ("2000 GFLOPS", 1995, 2005),  # of a whole number's zeros, those up to the third digit
        ("18,200", 18150, 18250),
        ("100%", 99.5, 100.5),
        ("~94%", 89.3, 98.7),  # a twentieth
        ("~5%", 4, 6),  # a unit of the last digit
        ("roughly 16×", 15, 17),
        ("0", -0.5, 0.5),
    ],
)
def test_digits_say_how_near(written: str, low: float, high: float) -> None:
    found = tolerance.worded(written).interval()
    assert (found.low, found.high) == pytest.approx((low, high))


def test_another_unit_keeps_the_digits() -> None:
    found = tolerance.worded("29.4M", 29_400_000).interval()
    assert (found.low, found.high) == pytest.approx((29_350_000, 29_450_000))


def test_the_stricter_level_takes_about_for_digits() -> None:
    strict = tolerance.worded("~94%").interval(Level.STRICTER)
    assert (strict.low, strict.high) == (93.5, 94.5)


@pytest.mark.parametrize(
    ("expression", "noise", "independent"),
    [
        ('published("a") / 2', Noise.PAPER, True),
        ('analytic("a", "degree")', Noise.PAPER, True),
        ("a.registers[arch=sm_86]", Noise.COMPILER, True),
        ("a.registers", Noise.COMPILER, False),
        ("tuned(BK)", Noise.ONCE, False),
        ("a.dram_read[beta=1, device=ptxsim]", Noise.EMULATOR, True),
        ("fastest(a.gflop_per_j, b.gflop_per_j)", Noise.POWER, False),
        ("8 * 8 % 32", Noise.PAPER, True),
        (3, Noise.PAPER, True),
    ],
)
def test_what_a_measure_rests_on(expression: str | float, noise: Noise, independent: bool) -> None:
    assert (verdicts.noise_of(expression), verdicts.independent(expression)) == (noise, independent)


def verdict(rule: dict[str, Any], measure: str, ours: Estimate, theirs: float, level: Level, **more: Any) -> str:
    claim = {"id": "a", "theirs": theirs, "measure": measure, "rule": rule, "published": []} | more
    return verdicts.compared(claim, ours, files.Paper({}, [], [claim], {}), level).verdict


@pytest.mark.parametrize(
    ("rule", "measure", "ours", "theirs", "three"),
    [
        # 1.41 where a text has 1.5: within a fifth, not within its digits
        ({"as": "written", "neutral": 1}, "a.swept_share", 1.41, 1.5, ("direction only", "direction only", "holds")),
        # noise carries 37.6 to 37.5, and a count has none
        ({"as": "written"}, "a.swept_share", 37.6, 37, ("does not hold", "holds", "holds")),
        ({"as": "written"}, "a.registers", 37.6, 37, ("does not hold", "does not hold", "holds")),
        ({"as": "about"}, "a.swept_share", 79, 75, ("does not hold", "holds", "holds")),
        # on paper a twentieth is all that the looser rule adds
        ({"as": "written"}, "published(1)", 44, 50, ("does not hold", "does not hold", "does not hold")),
        ({"between": [5, 10]}, "a.swept_share", 10.4, 7.5, ("holds", "holds", "holds")),
        ({"between": [5, 10]}, "a.swept_share", 14, 7.5, ("does not hold",) * 3),
        ({"equals": 32}, "a.dram_read", 32.02, 32, ("does not hold", "holds", "holds")),
        ({"equals": 32}, "a.registers", 32.02, 32, ("does not hold", "does not hold", "does not hold")),
        # a side: all of it; with noise to spare; and the middle alone
        ({"at_least": 1}, "a.swept_share", 1.003, None, ("does not hold", "holds", "holds")),
        ({"at_least": 1}, "a.swept_share", 0.997, None, ("does not hold", "does not hold", "holds")),
        ({"at_least": 1}, "published(1)", 1, None, ("holds", "holds", "holds")),
        # a tolerance of its own: half, as it is, and twice
        ({"within": 2, "reason": "x"}, "published(1)", 13, 10, ("does not hold", "does not hold", "holds")),
        ({"within": 2, "reason": "x"}, "published(1)", 11.5, 10, ("does not hold", "holds", "holds")),
    ],
)  # fmt: skip
def test_each_rule_under_the_three_levels(
    rule: dict[str, Any], measure: str, ours: float, theirs: Any, three: tuple[str, ...]
) -> None:
    found = tuple(verdict(rule, measure, Estimate.of(ours), theirs, level) for level in Level)
    assert found == three


def test_a_derived_number_has_the_width_of_those_it_is_derived_of() -> None:
    rows = [
        {"id": name, "value": value, "as_written": written}
        for name, value, written in [("a-fast", 2000.0, "~2000 GFLOPS"), ("a-slow", 300.0, "~300")]
    ]
    claim = {
        "theirs": 6.67,
        "rule": {"as": "written"},
        "published": [],
        "derived": 'published("a-fast") / published("a-slow")',
    }
    found, words = files.allowed(claim, files.Paper({}, rows, [], {}), Level.STANDARD)
    assert (found.low, found.high) == pytest.approx((1900 / 315, 2100 / 285))
    assert words == "6.0317 to 7.3684, as the digits of theirs give"
