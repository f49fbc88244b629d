"""From a claim's expression and a machine's tables to a verdict.

A verdict is one of: holds; direction only (not so, but on the same side of a neutral value as theirs); does not hold;
not testable here. An interval counts whole: `near` and `within` ask that it meets the range around theirs, the other
rules that all of it is there.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.claims import files
from analysis.claims.estimates import EQUAL, Estimate, Truth, Undefined, number
from analysis.claims.expressions import evaluate
from analysis.claims.files import Paper
from analysis.claims.machine_tables import Machine, Missing, Unreadable
from analysis.claims.vocabulary import Vocabulary
from contracts import UserError

HOLDS, DIRECTION, FAILS, UNTESTABLE = "holds", "direction only", "does not hold", "not testable here"
VERDICTS = (HOLDS, DIRECTION, FAILS, UNTESTABLE)
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

Functions = Mapping[str, Callable[..., Any]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """How a claim fared on a machine. `ours` is None where it is not testable."""

    verdict: str
    why: str
    ours: Estimate | Truth | str | None = None


def value_of(expression: str | float, functions: Functions, source: str) -> Estimate | Truth | str:
    """The value of a claim's expression. A `UserError` names the claim and the expression."""
    text = " ".join(str(expression).split())
    try:
        found = evaluate(text, functions)
        return found if isinstance(found, (Truth, str)) else Estimate.of(found)
    except Unreadable:
        raise
    except UserError as error:
        raise UserError(f"{source}: {text}: {error}") from error


def judge(claim: dict[str, Any], functions: Functions) -> Verdict:
    """The verdict on one claim. Raises `UserError` where its expression makes no sense on any machine."""
    if "untestable" in claim:
        return Verdict(UNTESTABLE, claim["untestable"])
    try:
        ours = value_of(claim["measure"], functions, claim["id"])
    except (Missing, Undefined) as missing:
        return Verdict(UNTESTABLE, str(missing))
    kind = files.kind_of(claim["rule"])
    wanted = claim["rule"][kind]
    if isinstance(ours, Truth) != (kind == "true") or isinstance(ours, str) != isinstance(wanted, str):
        is_ = (
            "a comparison"
            if isinstance(ours, Truth)
            else f"a name, {ours!r}"
            if isinstance(ours, str)
            else f"a number, {ours}"
        )
        takes = "a comparison" if kind == "true" else "a name" if isinstance(wanted, str) else "a number"
        raise UserError(f"{claim['id']}: {claim['measure']}: is {is_}; the rule {kind} takes {takes}")
    if isinstance(ours, Truth):
        words = {True: "{}", False: "not so: {}", None: "the intervals do not decide: {}"}[ours.holds]
        return Verdict(HOLDS if ours.holds else FAILS, words.format(ours.told), ours)
    if isinstance(ours, str):
        return Verdict(HOLDS, f"is {wanted}", ours) if ours == wanted else Verdict(FAILS, f"is not {wanted}", ours)
    return _number(claim, kind, ours)


def _number(claim: dict[str, Any], kind: str, ours: Estimate) -> Verdict:
    rule, theirs = claim["rule"], claim["theirs"]
    wanted = rule[kind]
    if kind == "equals":
        holds = all(math.isclose(end, wanted, rel_tol=EQUAL, abs_tol=EQUAL) for end in (ours.low, ours.high))
        condition = f"exactly {number(wanted)}"
    elif kind in ("near", "within"):
        slack = wanted * abs(theirs) if kind == "near" else wanted
        holds = ours.high >= theirs - slack and ours.low <= theirs + slack
        condition = f"within {f'{100 * wanted:g}%' if kind == 'near' else f'{wanted:g}'} of {theirs:g}"
    else:
        holds = ours.low >= wanted if kind == "at_least" else ours.high <= wanted
        condition = f"{kind.replace('_', ' ')} {wanted:g}"
    if holds:
        return Verdict(HOLDS, condition, ours)
    partly = kind in ("at_least", "at_most") and ours.low < wanted < ours.high
    why = f"{condition} in a part of the interval only" if partly else f"not {condition}"
    if "neutral" in rule:
        neutral, side = rule["neutral"], files.side(claim)
        if (ours.low > neutral) if side > 0 else (ours.high < neutral):
            return Verdict(DIRECTION, f"{why}, but {'above' if side > 0 else 'below'} {neutral:g} as theirs", ours)
    return Verdict(FAILS, why, ours)


def remark(claim: dict[str, Any], verdict: Verdict, functions: Functions) -> str | None:
    """A claim's remark with its placeholders filled; n/a where a value is missing."""

    def fill(match: re.Match[str]) -> str:
        what = match[1].strip()
        if what in ("ours", "theirs"):
            return told(verdict.ours if what == "ours" else claim["theirs"])
        if not what.startswith("expr:"):
            allowed = "{ours}, {theirs}, {expr: ...}"
            raise UserError(f"{claim['id']}: remark: {match[0]} is not allowed; allowed: {allowed}")
        try:
            return told(value_of(what.removeprefix("expr:"), functions, f"{claim['id']}: remark"))
        except (Missing, Undefined):
            return "n/a"

    return PLACEHOLDER.sub(fill, " ".join(claim["remark"].split())) if "remark" in claim else None


def told(value: Any) -> str:
    """A value in a sentence: three digits of what was measured, a worklog's number as it is."""
    if isinstance(value, Estimate):
        return number(value.value)
    if isinstance(value, Truth):
        return value.told
    return "n/a" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def rule_hash(claim: dict[str, Any]) -> str:
    """A hash of what is asked: measure, rule and theirs, or why it cannot be."""
    asked = {key: claim.get(key) for key in ("measure", "rule", "theirs", "untestable")}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def table(paper: Paper, machine: Machine, experiments: list[str]) -> list[Row]:
    """The rows of claims.csv for one machine. Raises `UserError` with a line for each claim that makes no sense."""
    functions = Vocabulary(machine, paper.analytic, paper.numbers, experiments).functions()
    rows, faults = [], []
    for claim in paper.claims:
        try:
            verdict = judge(claim, functions)
            rows.append(_row(paper, machine, claim, verdict, remark(claim, verdict, functions)))
        except Unreadable:
            raise
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("\nerror: ".join(faults))
    return rows


def _row(paper: Paper, machine: Machine, claim: dict[str, Any], verdict: Verdict, note: str | None) -> Row:
    copied = {key: claim[key] for key in ("id", "worklog", "section", "about", "unit", "gpu")}
    return copied | {
        "machine": machine.name,
        "origin": machine.measured.origin,
        "lines": files.lines_of(paper, claim),
        "claim": " ".join(claim["claim"].split()),
        "theirs": None if claim["theirs"] is None else told(claim["theirs"]),
        **_ours(verdict.ours),
        "verdict": verdict.verdict,
        "why": " ".join(verdict.why.split()),
        "remark": note,
    }


def _ours(ours: Estimate | Truth | str | None) -> dict[str, Any]:
    """Our value as the table has it: a number to nine digits, "never", a name, or the truth of a comparison."""
    if not isinstance(ours, Estimate):
        return {"ours": None if ours is None else str(ours), "ours_low": None, "ours_high": None}
    value, low, high = (float(f"{x:.9g}") if math.isfinite(x) else None for x in (ours.value, ours.low, ours.high))
    return {"ours": number(ours.value) if value is None else f"{value:.9g}", "ours_low": low, "ours_high": high}
