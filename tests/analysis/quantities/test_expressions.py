"""The grammar: what expressions give, which are not allowed, and that they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from analysis.quantities import estimates
from analysis.quantities.estimates import Estimate
from analysis.quantities.expressions import Expression, evaluate
from analysis.quantities.registry import Noise
from contracts import UserError


def size_of(name: str) -> float:
    return {"a": 1.0}[name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("size([1])", r"size\(a tuple of 1\): arguments that it does not take"),
        ("size('b')", "arguments that it does not take"),
        ("1e300**64", "a number out of range; allowed: finite numbers"),
        ("1e308*10", "a number out of range"),
        ("1e308+1e308", "a number out of range"),
        ("1e400", "inf is not allowed; allowed: finite numbers"),
        ("+".join(["1"] * 20_000), "39999 characters are not allowed; allowed: at most 4000"),
        ("+".join(["1"] * 1500), "operations within each other"),
        ("(" * 500 + "1" + ")" * 500, "not an expression"),
        ("9" * 3999, "finite numbers|not an expression"),
        ("1 + [2]", "a tuple of 1 is no number"),
    ],
)
def test_an_expression_that_is_not_allowed(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        Estimate.of(evaluate(text, {"size": size_of}))
    assert "\n" not in str(error.value)


WORDS: dict[str, Callable[..., Any]] = {
    "speed": lambda n: Estimate(n, 0.9 * n, 1.1 * n),
    "sizes": lambda: (1, 2, 3),
    "name": lambda: "shared",
    "least": lambda values: estimates.least(list(values)),
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * 3 + 4 / 8", 6.5),
        ("800000 // 4096 % 100", 95),
        ("-speed(2) ** 2", -4),
        ("least(speed(n) * 2 for n in sizes())", 2),
        ("least([n for n in sizes() if n >= 2])", 2),
        ("least(n * m for n in sizes() if n != 1 for m in [2, 3])", 4),
        ("least([4, 5])", 4),
    ],
)
def test_arithmetic(expression: str, value: float) -> None:
    assert Estimate.of(evaluate(expression, WORDS)).value == value


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("1 < 2 < 3", True), ("1 < 3 < 2", False), ("speed(1) < speed(2)", True), ("speed(1) < speed(1.1)", None),
        ("speed(1) < speed(2) and not speed(1) > 2", True), ("name() == 'shared'", True), ("name() != 'shared'", False),
        ("speed(1) == 1", None), ("0.1 + 0.2 == 0.3", True), ("speed(2) < 1 or 1 == 1", True),
    ],
)  # fmt: skip
def test_comparisons(expression: str, holds: bool | None) -> None:
    assert evaluate(expression, WORDS).holds is holds


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("sped(1)", "unknown function 'sped'; nearest: speed"),
        ("speed_of_naive * 2", "'speed_of_naive' is no number"),
        ("speed()", "missing a required argument: 'n'; it is speed(n)"),
        ("speed(1, m=2)", "got an unexpected keyword argument 'm'; it is speed(n)"),
        ("speed(1) +", "not an expression"),
        ("", "not an expression"),
        ("a = 1", "not an expression"),
        ("1; 2", "not an expression"),
        ("sizes().__class__", "sizes().__class__ is not allowed; allowed: VARIANT.QUANTITY[SELECTORS]"),
        ("sizes()[0]", "is not allowed; allowed: arithmetic, comparisons, quantities and functions"),
        ("(lambda n: n)(1)", "is not allowed"),
        ("least(a for a, b in sizes())", "for (a, b) is not allowed; allowed: one name"),
        ("least(n for n in 3)", "3 is not allowed after in; allowed: sizes or a list"),
        ("naive.share", "naive.share is not allowed here; allowed: numbers and functions"),
        ("naive.__class__", "unknown quantity '__class__' in naive.__class__"),
        ("naive.share(8192)", "naive.share(...) is not allowed; allowed: selectors in square brackets"),
        ("naive.share[8192, 4096]", "naive.share[8192, 4096] is not allowed; allowed: n, then selectors"),
        ("least(**{'n': 1})", "not allowed"),
        ("__import__('os')", "unknown function '__import__'"),
        ("open('x')", "unknown function 'open'"),
        ("name() * 2", "'shared' is no number"),
        ("name() < 2", "names are compared with == and != to names only"),
        ("1 in sizes()", "the comparison In is not allowed; allowed: < <= > >= == !="),
        ("speed(1) and 2", "and, or and not join comparisons only"),
        ("not speed(1)", "and, or and not join comparisons only"),
        ("2 ** 1000", "an exact exponent up to 64"),
        ("5 // 0", "// and % need whole numbers"),
    ],
)
def test_what_is_no_expression_is_reported(expression: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        evaluate(expression, WORDS)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_reference_has_its_selectors() -> None:
    """A name that a comprehension binds is the variant; any other name of a selector stands for itself."""
    asked: list[tuple[str, str, dict[str, Any]]] = []

    def lookup(variant: str, key: str, **selectors: Any) -> float:
        asked.append((variant, key, selectors))
        return 1.0

    evaluate("least(v.share[2 * n, data=zeros] for v in (a, b) for n in [512]) + c.registers", WORDS, lookup)
    on_zeros = {"n": Estimate.of(1024), "data": "zeros"}
    assert asked == [("a", "share", on_zeros), ("b", "share", on_zeros), ("c", "registers", {})]


@pytest.mark.parametrize(
    ("text", "noise", "sources"),
    [
        ("8 * 8 % 32", Noise.PAPER, set()),
        ('published("a") / 2', Noise.PAPER, {"published"}),
        ("a.registers", Noise.COMPILER, {"resources"}),
        ("a.registers[arch=sm_86]", Noise.COMPILER, {"compiled"}),
        ("a.bottleneck", Noise.EMULATOR, {"bounds"}),
        ("a.dram_read[device=ptxsim]", Noise.EMULATOR, {"predictions"}),
        ("a.dram_read[beta=1, device=ptxsim]", Noise.EMULATOR, {"emulated"}),
        ("a.dram_read[beta=1]", Noise.COUNTER, {"counters_with_beta"}),
        ('a.stall_wait / published("x")', Noise.COUNTER, {"counters", "published"}),
        ("least(a.share[n] for n in a.sizes)", Noise.TIME, {"bench"}),
        ("a.power_w / a.time_us", Noise.POWER, {"bench"}),
    ],
)
def test_an_expression_knows_what_it_rests_on(text: str, noise: Noise, sources: set[str]) -> None:
    expression, of_functions = Expression.parse(text), {"published": "published"}
    assert (expression.noise(of_functions), expression.sources(of_functions)) == (noise, sources)


def test_an_expression_ends() -> None:
    """However many loops stand within each other."""
    text = "least(1 for a in few() for b in few() for c in few() for d in few())"
    functions = {"few": lambda: tuple(range(60)), "least": min}
    with pytest.raises(UserError, match="takes more than 200000 steps"):
        evaluate(text, functions)
