"""The rules that turn values into verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.claims import files, verdicts
from analysis.quantities.estimates import Estimate, Truth
from analysis.quantities.expressions import evaluate
from analysis.quantities.machine import Missing
from contracts import UserError

MEASURE = "sgemm_naive.time_us"  # a time, with its noise


def judged(rule: dict[str, Any], ours: Any, theirs: Any = 10, **more: Any) -> verdicts.Verdict:
    if set(rule) & {"near", "within", "at_least", "at_most"}:
        rule = {"reason": "as the test wants it"} | rule
    claim = {"id": "a-claim", "theirs": theirs, "measure": MEASURE, "rule": rule, "published": []} | more
    assert files.rule_faults(claim) == []
    return verdicts.judge(claim, lambda text: ours)


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
        ({"at_least": 5}, Estimate(6.0, 4.999, 7.0), "within noise"),  # the interval leaves the side open
        ({"at_least": 5}, Estimate(4.0, 3.0, 4.999), "does not hold"),
        ({"at_least": 5, "neutral": 1}, Estimate(6.0, 4.999, 7.0), "direction only"),
        ({"at_most": 5}, Estimate(4.0, 3.0, 5.0), "holds"),
        ({"at_most": 5}, Estimate(4.0, 3.0, 5.001), "within noise"),
        ({"equals": 8}, 8, "holds"),
        ({"equals": 8}, 8 + 1e-9, "holds"),  # the tables hold nine digits
        ({"equals": 8}, 8.03, "does not hold"),  # a time without an interval
        ({"equals": 8}, Estimate(8.05, 7.9, 8.1), "holds"),  # a time, whose interval has 8
        ({"equals": 8}, Estimate(8.05, 8.01, 8.1), "does not hold"),
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


def test_why_states_the_rule_and_the_reason() -> None:
    assert judged({"near": 0.15}, 10).why == "within 15% of 10"
    assert judged({"near": 0.15, "neutral": 1}, 20).why == "not within 15% of 10, but above 1 as theirs"
    assert judged({"at_least": 5}, Estimate(6.0, 4.0, 7.0)).why == "at least 5 in a part of the interval only"
    assert judged({"true": {}}, Truth(None, "1 < 1.1")).why == "the intervals do not decide: 1 < 1.1"
    assert judged({"equals": "shared"}, "registers").why == "is not shared"


def evaluated(text: str) -> Any:
    return evaluate(text, {})


TIMED = "sgemm_naive.speedup[over=sgemm_warptile]"


@pytest.mark.parametrize(
    ("change", "ours", "verdict", "kind"),
    [
        ({}, 9.0, "misses a narrow band", "band under 1%"),
        ({"theirs": 10.1}, 9.0, "misses a narrow band", "band under 1%"),
        ({"theirs": 3}, 9.0, "does not hold", "differs on this GPU"),  # half of 3 to 4 is no narrow band
        ({"gpu": None}, 9.0, "does not hold", "differs on this GPU"),  # of no machine
        ({"rule": {"as": "written", "neutral": 1}}, 9.0, "direction only", "band under 1%"),
        ({"rule": {"as": "written", "neutral": 1}}, 0.9, "does not hold", "differs on this GPU"),  # the other direction
        ({"kind": "differs in our kernel"}, 9.0, "misses a narrow band", "differs in our kernel"),
        ({"measure": "9"}, 9.0, "does not hold", None),  # arithmetic is exact
        ({"measure": "9", "kind": "slip of the text"}, 9.0, "does not hold", "slip of the text"),
    ],
)
def test_a_number_of_another_machine_with_many_digits_is_apart(
    change: dict[str, Any], ours: float, verdict: str, kind: str | None
) -> None:
    claim = {"id": "a", "theirs": 10.12, "gpu": "RTX A6000", "measure": TIMED, "rule": {"as": "written"}} | change
    found = verdicts.judge(claim, lambda text: Estimate.of(ours))
    assert (found.verdict, verdicts.kind_of(claim, found)) == (verdict, kind)


@pytest.mark.parametrize("kind", verdicts.ON_PAPER)
def test_what_a_machine_measured_shows_no_fault_of_a_text(kind: str) -> None:
    claim = {"id": "a", "theirs": 10, "gpu": "RTX A6000", "measure": TIMED, "rule": {"as": "written"}, "kind": kind}
    found = verdicts.judge(claim, lambda text: Estimate.of(2))
    with pytest.raises(UserError, match=f"a: kind = '{kind}' rests on time; allowed: of what rests on paper"):
        verdicts.kind_of(claim, found)


def test_what_is_missing_names_the_command_that_measures_it() -> None:
    claim = {"id": "a", "theirs": 1, "measure": TIMED, "rule": {"as": "written"}}

    def ours(text: str) -> None:
        raise Missing("no row of it", command="snakemake --cores 1 tile_autotune")

    found = verdicts.judge(claim, ours)
    assert (found.verdict, verdicts.kind_of(claim, found)) == ("not measured", None)
    assert found.why == "no row of it; this measures it: snakemake --cores 1 tile_autotune"


def test_what_cannot_be_tested_says_why() -> None:
    claim = {"id": "a", "theirs": None, "untestable": "Nothing measures it."}
    assert verdicts.judge(claim, evaluated) == verdicts.Verdict("not testable here", "Nothing measures it.", None)

    def ours(text: str) -> None:
        raise Missing("bench.csv has no row of it")

    claim = {"id": "a", "theirs": 1, "measure": MEASURE, "rule": {"near": 1}}
    assert verdicts.judge(claim, ours).why == "bench.csv has no row of it"
    found = verdicts.judge(claim | {"measure": "1 / 0"}, evaluated)
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
def test_a_measure_that_its_rule_cannot_take_is_reported(rule: dict[str, Any], ours: Any, said: str) -> None:
    with pytest.raises(UserError, match=r"^a-claim: sgemm_naive") as error:
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

    def words(text: str) -> Any:
        return evaluate(text, {"half": lambda: Estimate(0.51234, 0.5, 0.6), "gone": gone})

    verdict = verdicts.Verdict("holds", "", Estimate(5.4321, 5.0, 6.0))
    assert verdicts.remark(claim, verdict, words) == "Ours 5.43, theirs 6.4, and 51.2%. At n = 1.5 so."
    assert verdicts.remark(claim | {"remark": "It is {expr: gone()}."}, verdict, words) is None
    assert verdicts.remark(claim, verdicts.Verdict("not testable here", ""), words) == "At n = 1.5 so."
    with pytest.raises(UserError, match=r"a: remark: \{our\} is not allowed; allowed: \{ours\}"):
        verdicts.remark(claim | {"remark": "{our}"}, verdict, words)
    with pytest.raises(UserError, match=r"a: remark: hlf.*unknown function 'hlf'"):
        verdicts.remark(claim | {"remark": "{expr: hlf()}"}, verdict, words)
