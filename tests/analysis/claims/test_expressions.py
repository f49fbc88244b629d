"""Expressions that are not allowed, and that they end."""

from __future__ import annotations

import pytest

from analysis.claims.expressions import evaluate
from analysis.claims.verdicts import judge
from contracts import UserError


def size_of(name: str) -> float:
    return {"a": 1.0}[name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("size([1])", r"size\(a list of 1\): arguments that it does not take"),
        ("size('b')", "arguments that it does not take"),
        ("1e300**64", "a number out of range; allowed: finite numbers"),
        ("1e308*10", "a number out of range"),
        ("1e308+1e308", "a number out of range"),
        ("1e400", "inf is not allowed; allowed: finite numbers"),
        ("+".join(["1"] * 20_000), "39999 characters are not allowed; allowed: at most 4000"),
        ("+".join(["1"] * 1500), "operations within each other"),
        ("(" * 500 + "1" + ")" * 500, "not an expression"),
        ("9" * 3999, "finite numbers|not an expression"),
        ("1 + [2]", "a list of 1 is no number"),
    ],
)
def test_an_expression_that_is_not_allowed(text: str, said: str) -> None:
    claim = {"id": "a-claim", "measure": text, "rule": {"at_least": 1}, "theirs": 1, "unit": None}
    with pytest.raises(UserError, match=said) as error:
        judge(claim, {"size": size_of})
    assert str(error.value).startswith("a-claim: ") and "\n" not in str(error.value)


def test_an_expression_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many loops stand within each other."""
    text = "each(lambda n: each(lambda n: each(lambda n: each(lambda n: 1, s), s), s), s)".replace("s)", "few())")
    functions = {"few": lambda: tuple(range(60)), "each": lambda f, values: max([f(n) for n in values])}
    with pytest.raises(UserError, match="takes more than 200000 steps"):
        evaluate(text, functions)
