"""Values with an interval, expressions over them, and the rules that turn them into verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims import estimates, files, verdicts
from analysis.claims.estimates import Estimate, Truth, Undefined
from analysis.claims.expressions import evaluate
from analysis.claims.machine_tables import Missing
from contracts import UserError

# ---- values with an interval ------------------------------------------------------------------------------------


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
        told = estimates.compare(sign, a, b).holds
        assert told is None or told == holds or abs(x - y) < 1e-6
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
def test_numbers_are_told_with_three_digits(value: float, text: str) -> None:
    assert estimates.number(value) == text


def test_an_interval_is_shown_where_it_can_be_seen() -> None:
    assert str(Estimate(1.5, 1.4, 1.6)) == "1.50 [1.40, 1.60]" and str(Estimate(1.5, 1.4999, 1.5001)) == "1.50"


# ---- expressions ------------------------------------------------------------------------------------------------

WORDS: dict[str, Callable[..., Any]] = {
    "speed": lambda n: Estimate(n, 0.9 * n, 1.1 * n),
    "sizes": lambda: (1, 2, 3),
    "name": lambda: "shared",
    "least": lambda f, sizes: estimates.least([f(n) for n in sizes]),
    "tuple": tuple,
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * 3 + 4 / 8", 6.5),
        ("800000 // 4096 % 100", 95),
        ("-speed(2) ** 2", -4),
        ("least(lambda n: speed(n) * 2, sizes())", 2),
        ("least(lambda n: n, tuple(n for n in sizes() if n >= 2))", 2),
        ("least(lambda n: n, [n for n in sizes() if n != 1])", 2),
        ("least(lambda n: n, [4, 5])", 4),
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
        ("speed(sgemm_naive)", "unknown name 'sgemm_naive'; names of variants stand in quotes"),
        ("speed()", "missing a required argument: 'n'; it is speed(n)"),
        ("speed(1, m=2)", "got an unexpected keyword argument 'm'; it is speed(n)"),
        ("speed(1) +", "not an expression"),
        ("", "not an expression"),
        ("a = 1", "not an expression"),
        ("1; 2", "not an expression"),
        ("sizes().__class__", "not available"),
        ("sizes()[0]", "not available"),
        ("(lambda n: n)(1)", "only functions of the vocabulary are called"),
        ("least(lambda a, b: a, sizes())", "a lambda here has one argument"),
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
def test_what_is_no_expression_is_told(expression: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        evaluate(expression, WORDS)
    assert said in str(error.value) and "\n" not in str(error.value)


# ---- verdicts ---------------------------------------------------------------------------------------------------


def judged(rule: dict[str, Any], ours: Any, theirs: Any = 10, **more: Any) -> verdicts.Verdict:
    if set(rule) & {"near", "within", "at_least", "at_most"}:
        rule = {"reason": "as the test wants it"} | rule
    claim = {"id": "a-claim", "theirs": theirs, "measure": "ours()", "rule": rule, "published": []} | more
    assert files.rule_faults(claim) == []
    return verdicts.judge(claim, {"ours": lambda: ours})


@pytest.mark.parametrize(
    ("rule", "ours", "verdict"),
    [
        ({"near": 0.1}, Estimate(8.5, 8.0, 9.0), "holds"),  # the upper end meets 9
        ({"near": 0.1}, Estimate(8.5, 8.0, 8.95), "does not hold"),
        ({"near": 0.1}, Estimate(11.5, 11.0, 12.0), "holds"),
        ({"near": 0.1}, Estimate(11.5, 11.06, 12.0), "does not hold"),
        ({"near": 0.1}, Estimate(10.0, 1.0, 100.0), "holds"),
        ({"within": 2}, 8, "holds"),
        ({"within": 2}, 7.95, "does not hold"),
        ({"within": 2}, 12.1, "does not hold"),
        ({"near": 0.1, "neutral": 1}, Estimate(2.0, 1.001, 3.0), "direction only"),
        ({"near": 0.1, "neutral": 1}, Estimate(2.0, 1.0, 3.0), "does not hold"),  # it touches 1
        ({"near": 0.1, "neutral": 1}, 20, "direction only"),
        ({"near": 0.1, "neutral": 1}, 0.5, "does not hold"),
        ({"near": 0.1, "neutral": 100}, 20, "direction only"),  # both below
        ({"near": 0.1, "neutral": 100}, 100, "does not hold"),
        ({"at_least": 5}, Estimate(6.0, 5.0, 7.0), "holds"),
        ({"at_least": 5}, Estimate(6.0, 4.999, 7.0), "does not hold"),
        ({"at_least": 5, "neutral": 1}, Estimate(6.0, 4.999, 7.0), "direction only"),
        ({"at_most": 5}, Estimate(4.0, 3.0, 5.0), "holds"),
        ({"at_most": 5}, Estimate(4.0, 3.0, 5.001), "does not hold"),
        ({"equals": 8}, 8, "holds"),
        ({"equals": 8}, 8 + 1e-9, "holds"),  # the tables hold nine digits
        ({"equals": 8}, 8.03, "holds"),  # ours() is a time, with its noise
        ({"equals": 8}, 8.05, "does not hold"),
        ({"equals": 8}, Estimate(8.0, 7.9, 8.1), "does not hold"),
        ({"equals": 0}, 0, "holds"),
        ({"equals": "shared"}, "shared", "holds"),
        ({"equals": "shared"}, "registers", "does not hold"),
        ({"true": {}}, Truth(True, "1 < 2"), "holds"),
        ({"true": {}}, Truth(False, "2 < 1"), "does not hold"),
        ({"true": {}}, Truth(None, "1 < 1"), "does not hold"),
        ({"at_least": 5}, Estimate(float("inf"), 1.0, float("inf")), "does not hold"),
    ],
)  # fmt: skip
def test_each_rule_at_its_edges(rule: dict[str, Any], ours: Any, verdict: str) -> None:
    assert judged(rule, ours).verdict == verdict


def test_the_side_of_a_claim_without_a_number_is_the_rule_s() -> None:
    assert judged({"at_most": 0.9, "neutral": 1}, 0.95, theirs=None).verdict == "direction only"
    assert judged({"at_most": 0.9, "neutral": 1}, 1.05, theirs=None).verdict == "does not hold"


def test_why_tells_the_rule_and_the_reason() -> None:
    assert judged({"near": 0.15}, 10).why == "within 15% of 10"
    assert judged({"near": 0.15, "neutral": 1}, 20).why == "not within 15% of 10, but above 1 as theirs"
    assert judged({"at_least": 5}, Estimate(6.0, 4.0, 7.0)).why == "at least 5 in a part of the interval only"
    assert judged({"true": {}}, Truth(None, "1 < 1.1")).why == "the intervals do not decide: 1 < 1.1"
    assert judged({"equals": "shared"}, "registers").why == "is not shared"


def test_what_cannot_be_tested_says_why() -> None:
    claim = {"id": "a", "theirs": None, "untestable": "Nothing measures it."}
    assert verdicts.judge(claim, {}) == verdicts.Verdict("not testable here", "Nothing measures it.", None)

    def ours() -> None:
        raise Missing("bench.csv has no row of it")

    claim = {"id": "a", "theirs": 1, "measure": "ours()", "rule": {"near": 1}}
    assert verdicts.judge(claim, {"ours": ours}).why == "bench.csv has no row of it"
    found = verdicts.judge(claim | {"measure": "1 / 0"}, {})
    assert (found.verdict, found.why) == ("not testable here", "division by 0")


@pytest.mark.parametrize(
    ("rule", "ours", "said"),
    [
        ({"near": 0.1}, Truth(True, "1 < 2"), "is a comparison; the rule near takes a number"),
        ({"as": "written"}, "shared", "is a name, 'shared'; the rule as takes a number"),
        ({"true": {}}, 3, "is a number, 3; the rule true takes a comparison"),
        ({"equals": 3}, "shared", "is a name, 'shared'; the rule equals takes a number"),
        ({"equals": "shared"}, 3, "is a number, 3; the rule equals takes a name"),
        ({"at_least": 3}, "shared", "the rule at_least takes a number"),
    ],
)
def test_a_measure_that_its_rule_cannot_take_is_told(rule: dict[str, Any], ours: Any, said: str) -> None:
    with pytest.raises(UserError, match=r"^a-claim: ours") as error:
        judged(rule, ours)
    assert said in str(error.value)


def test_a_remark_s_placeholders_are_filled() -> None:
    claim = {
        "id": "a",
        "theirs": 6.4,
        "remark": "Ours {ours}, theirs {theirs},\n and {expr: 100 * half()}%. Of {expr: gone()}. At n = 1.5 so.",
    }

    def gone() -> None:
        raise Missing("no row")

    words = {"half": lambda: Estimate(0.51234, 0.5, 0.6), "gone": gone}
    verdict = verdicts.Verdict("holds", "", Estimate(5.4321, 5.0, 6.0))
    assert verdicts.remark(claim, verdict, words) == "Ours 5.43, theirs 6.4, and 51.2%. At n = 1.5 so."
    assert verdicts.remark(claim | {"remark": "It is {expr: gone()}."}, verdict, words) is None
    assert verdicts.remark(claim, verdicts.Verdict("not testable here", ""), words) == "At n = 1.5 so."
    with pytest.raises(UserError, match=r"a: remark: \{our\} is not allowed; allowed: \{ours\}"):
        verdicts.remark(claim | {"remark": "{our}"}, verdict, words)
    with pytest.raises(UserError, match=r"a: remark: hlf.*unknown function 'hlf'"):
        verdicts.remark(claim | {"remark": "{expr: hlf()}"}, verdict, words)
