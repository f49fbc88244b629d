"""From a claim's expression and a machine's tables to a verdict.

A verdict is one of: holds; direction only (not so, but on the same side of a neutral value as theirs); does not hold;
misses a narrow band (the text's digits, of another machine, allow less than 1%); not measured (a command would);
not testable here; within noise (archives of one GPU model disagree, or the interval leaves a side open). `tolerance`
decides how near is near enough, in the same way for all claims. Where a claim was judged and does not hold, its kind
says what failed (`KINDS`); where it cannot be tested, what is missing (`LACKS`). Each machine has verdicts of its own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analysis.claims import files, tolerance
from analysis.claims.files import Paper
from analysis.claims.tolerance import Level
from analysis.claims.vocabulary import Vocabulary
from analysis.quantities.estimates import Estimate, Truth, Undefined, number
from analysis.quantities.expressions import Expression
from analysis.quantities.machine import Machine, Missing, Unreadable
from analysis.quantities.registry import SOURCES, Noise
from contracts import UserError

HOLDS, DIRECTION, FAILS, UNTESTABLE = "holds", "direction only", "does not hold", "not testable here"
MISSES, UNMEASURED, NOISY = "misses a narrow band", "not measured", "within noise"
VERDICTS = (HOLDS, DIRECTION, FAILS, MISSES, UNMEASURED, UNTESTABLE, NOISY)
SLIP, RULE, READING = "slip of the text", "contradicts a documented rule", "our reading"
ON_PAPER = (SLIP, RULE, READING)  # what no machine can change, and so nothing that a machine measured may show
GPU, OURS, NARROW = "differs on this GPU", "differs in our kernel", "band under 1%"
KINDS = (*ON_PAPER, GPU, OURS, NARROW)
UNBUILT, UNRECORDED, ELSEWHERE = "not built", "not recorded", "another machine"
LACKS = (UNBUILT, UNRECORDED, ELSEWHERE)
UNKNOWN = (UNMEASURED, UNTESTABLE)
NARROWEST = 0.01  # width of a band, as a part of its middle, below which another machine cannot be expected to meet it
CLAIM, DEFINITION, FINDING = "claim", "definition", "finding"
MISSING = "\N{REPLACEMENT CHARACTER}"  # stands in a remark for a value that is missing
SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z\d])")  # where one ends and another begins
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

Ask = Callable[[str], Any]  # the value of an expression
Row = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """How a claim fared on a machine. `ours` is None where it is not testable."""

    verdict: str
    why: str
    ours: Estimate | Truth | str | None = None


@functools.cache
def parsed(text: str) -> Expression:
    return Expression.parse(text)


def noise_of(measure: str | float) -> Noise:
    """The noisiest of what a measure rests on."""
    return parsed(str(measure)).noise(Vocabulary.sources())


def independent(measure: str | float) -> bool:
    """Whether a value is the same on every machine: of the texts, of PTX's semantics, of a compiler's named target."""
    return all(SOURCES[name].anywhere for name in parsed(str(measure)).sources(Vocabulary.sources()))


def asking(paper: Paper, machine: Machine) -> Ask:
    """What evaluates expressions on one machine; each is evaluated once, however often it is asked for."""
    functions = Vocabulary(machine, paper.analytic, paper.numbers).functions()
    return functools.cache(lambda text: parsed(text).evaluate(functions, machine.value))


def value_of(expression: str | float, ask: Ask, source: str) -> Estimate | Truth | str:
    """The value of a claim's expression. A `UserError` names the claim and the expression."""
    text = " ".join(str(expression).split())
    try:
        found = ask(text)
        return found if isinstance(found, (Truth, str)) else Estimate.of(found)
    except Unreadable:
        raise
    except UserError as error:
        raise UserError(f"{source}: {text}: {error}") from error


def judge(claim: dict[str, Any], ask: Ask, paper: Paper | None = None, level: Level = Level.STANDARD) -> Verdict:
    """The verdict on one claim. Raises `UserError` where its expression makes no sense on any machine."""
    if "untestable" in claim:
        return Verdict(UNTESTABLE, claim["untestable"])
    try:
        ours = value_of(claim["measure"], ask, claim["id"])
    except Missing as missing:
        if missing.command is None:
            return Verdict(UNTESTABLE, str(missing))
        return Verdict(UNMEASURED, f"{missing}; this measures it: {missing.command}")
    except Undefined as undefined:
        return Verdict(UNTESTABLE, str(undefined))
    return compared(claim, ours, paper, level)


def compared(claim: dict[str, Any], ours: Estimate | Truth | str, paper: Paper | None, level: Level) -> Verdict:
    """The verdict on a claim whose measure has this value."""
    kind = files.kind_of(claim["rule"])
    wanted = claim["rule"][kind]
    takes = "a name" if kind == "equals" and isinstance(wanted, str) else "a number"
    takes = "a comparison" if kind == "true" else takes
    given = {Truth: "a comparison", str: f"a name, {ours!r}"}.get(type(ours), f"a number, {ours}")
    if not given.startswith(takes):
        raise UserError(f"{claim['id']}: {claim['measure']}: is {given}; the rule {kind} takes {takes}")
    if isinstance(ours, Truth):
        words = {True: "{}", False: "not so: {}", None: "the intervals do not decide: {}"}[ours.holds]
        holds = ours.holds or (ours.holds is None and level is Level.LOOSER)
        return Verdict(HOLDS if holds else FAILS, words.format(ours.words), ours)
    if isinstance(ours, str):
        return Verdict(HOLDS, f"is {wanted}", ours) if ours == wanted else Verdict(FAILS, f"is not {wanted}", ours)
    return _number(claim, kind, ours, paper, level)


def _number(claim: dict[str, Any], kind: str, ours: Estimate, paper: Paper | None, level: Level) -> Verdict:
    rule, of = claim["rule"], noise_of(claim["measure"])
    wanted = rule[kind]
    if kind == "equals":
        holds = tolerance.equals(ours, wanted, of, level)
        condition = f"exactly {number(wanted)}"
    elif kind in ("at_least", "at_most"):
        side = 1 if kind == "at_least" else -1
        holds = tolerance.beyond(ours, wanted, side, of, level)
        condition = f"{kind.replace('_', ' ')} {wanted:g}"
    else:
        allowed, condition = files.allowed(claim, paper, level)
        holds = tolerance.meets(ours, allowed, of, level, own=kind in ("near", "within"))
    if holds:
        return Verdict(HOLDS, condition, ours)
    partly = kind in ("at_least", "at_most") and ours.low < wanted < ours.high
    why = f"{condition} in a part of the interval only" if partly else f"not {condition}"
    if "neutral" in rule:
        neutral, side = rule["neutral"], files.side(claim)
        if tolerance.beyond(ours, neutral, side, of, level, strictly=True):
            return Verdict(DIRECTION, f"{why}, but {'above' if side > 0 else 'below'} {neutral:g} as theirs", ours)
    elif is_narrow(claim, paper):  # with a neutral value, ours points the other way, whatever the band
        return Verdict(MISSES, why, ours)
    timed = of is Noise.TIME and math.isfinite(ours.value)
    undecided = partly and timed and (ours.value - wanted) * (1 if kind == "at_least" else -1) >= 0
    return Verdict(NOISY if undecided else FAILS, why, ours)


def is_narrow(claim: dict[str, Any], paper: Paper | None) -> bool:
    """Whether a claim gives a number of another machine with digits that allow less than 1%, and ours is measured."""
    if claim.get("gpu") is None or files.kind_of(claim["rule"]) not in files.BANDS:
        return False
    band, _ = files.allowed(claim, paper, Level.STANDARD)
    return noise_of(claim["measure"]) >= Noise.COUNTER and band.high - band.low < NARROWEST * abs(band.value)


def kind_of(claim: dict[str, Any], verdict: Verdict, paper: Paper | None = None) -> str | None:
    """What failed, or what is missing; None where a claim holds, was not measured or lies within
    noise.

    What a machine measured differs on that machine unless claims.yaml gives another kind. Raises `UserError` where it
    gives one of `ON_PAPER` to a claim that rests on counters or times.
    """
    if verdict.verdict in (HOLDS, UNMEASURED, NOISY):
        return None
    if verdict.verdict == UNTESTABLE:
        return str(claim.get("lacks", UNRECORDED))
    found: str | None = claim.get("kind", None if independent(claim["measure"]) else GPU)
    if found in ON_PAPER and (basis := noise_of(claim["measure"])) >= Noise.COUNTER:
        allowed = "of what rests on paper, compiler or emulator"
        raise UserError(f"{claim['id']}: kind = {found!r} rests on {basis.word}; allowed: {allowed}")
    return NARROW if found == GPU and verdict.verdict in (DIRECTION, MISSES) and is_narrow(claim, paper) else found


def remark(claim: dict[str, Any], verdict: Verdict, ask: Ask) -> str | None:
    """A claim's remark with its placeholders filled, without the sentences of which a value is missing."""
    if "remark" not in claim:
        return None

    def fill(match: re.Match[str]) -> str:
        what = match[1].strip()
        if what in ("ours", "theirs"):
            value = verdict.ours if what == "ours" else claim["theirs"]
            return MISSING if value is None else shown(value)
        if not what.startswith("expr:"):
            allowed = "{ours}, {theirs}, {expr: ...}"
            raise UserError(f"{claim['id']}: remark: {match[0]} is not allowed; allowed: {allowed}")
        try:
            return shown(value_of(what.removeprefix("expr:"), ask, f"{claim['id']}: remark"))
        except (Missing, Undefined):
            return MISSING

    filled = PLACEHOLDER.sub(fill, " ".join(claim["remark"].split()))
    return " ".join(part for part in SENTENCES.split(filled) if MISSING not in part) or None


def shown(value: Any) -> str:
    """A value in a sentence: three digits of what was measured, a worklog's number as it is."""
    if isinstance(value, Estimate):
        return number(value.value)
    if isinstance(value, Truth):
        return value.words
    return "n/a" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


ASKED = ("measure", "rule", "theirs", "untestable", "derived", "same_as", "class")


def rule_hash(claim: dict[str, Any]) -> str:
    """A hash of what is asked: measure, rule and theirs, or why it cannot be."""
    asked = {key: claim.get(key) for key in ASKED}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def table(paper: Paper, machine: Machine) -> list[Row]:
    """The rows of claims.csv for one machine. Raises `UserError` with a line for each claim that makes no sense."""
    ask = asking(paper, machine)
    rows, faults = [], []
    known = {claim["id"]: claim for claim in paper.claims}
    for claim in paper.claims:
        asked = files.asked(claim, known)
        try:
            verdicts = {level: judge(asked, ask, paper, level) for level in Level}
            verdict = verdicts[Level.STANDARD]
            note = remark(asked, verdict, ask)
            levels = {f"if_{level.value}": v.verdict for level, v in verdicts.items() if level is not Level.STANDARD}
            rows.append(_row(paper, machine, claim, asked, verdict, note) | levels)
        except Unreadable:
            raise
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("\nerror: ".join(faults))
    return rows


def _row(
    paper: Paper, machine: Machine, claim: dict[str, Any], asked: dict[str, Any], verdict: Verdict, note: str | None
) -> Row:
    copied = {key: claim[key] for key in ("id", "worklog", "section", "about", "unit", "gpu")}
    measure = asked.get("measure")
    class_ = claim.get("class", CLAIM)
    return copied | {
        "machine": machine.name,
        "origin": machine.measured.origin,
        "class": class_,
        "counted": class_ == CLAIM and "same_as" not in claim,
        "same_as": claim.get("same_as"),
        "lines": str(claim["line"]) if "line" in claim else None,
        "quote": claim.get("quote"),
        "claim": " ".join(claim["claim"].split()),
        "theirs": None if claim["theirs"] is None else shown(claim["theirs"]),
        **_ours(verdict.ours),
        "verdict": verdict.verdict,
        "kind": kind_of(asked, verdict, paper),
        "basis": noise_of(measure).word if measure is not None else None,
        "independent": measure is not None and independent(measure),
        "why": " ".join(verdict.why.split()),
        "reason": " ".join(asked["rule"]["reason"].split()) if "reason" in asked.get("rule", {}) else None,
        "remark": note,
        "evidence": claim.get("evidence"),
        "bears_out": claim.get("bears_out"),
        "flips": None,
    }


def across(archives: list[list[Row]]) -> None:
    """Mark what whole runs on one GPU model disagree about: "within noise", and what each archive says."""
    for first in archives:
        for row in first:
            others = [
                other
                for rows in archives
                for other in rows
                if other["id"] == row["id"] and model(other) == model(row) and other["verdict"] not in UNKNOWN
            ]
            said = {other["machine"]: other.get("alone", other["verdict"]) for other in others}
            if row["verdict"] not in UNKNOWN and len(set(said.values())) > 1:
                row["alone"] = row["verdict"]
                row["flips"] = ", ".join(f"{machine}: {verdict}" for machine, verdict in said.items())
    for rows in archives:
        for row in rows:
            if row.pop("alone", None) is not None:
                row["verdict"], row["kind"] = NOISY, None


def model(row: Row) -> str:
    """The GPU's model, of a row's origin: "archived: NVIDIA H200, 2026-11-22"."""
    return str(row["origin"]).partition(": ")[2].rpartition(",")[0]


def _ours(ours: Estimate | Truth | str | None) -> dict[str, Any]:
    """Our value as the table has it: a number to nine digits, "never", a name, or the truth of a comparison."""
    if not isinstance(ours, Estimate):
        return {"ours": None if ours is None else str(ours), "ours_low": None, "ours_high": None}
    value, low, high = (float(f"{x:.9g}") if math.isfinite(x) else None for x in (ours.value, ours.low, ours.high))
    return {"ours": number(ours.value) if value is None else f"{value:.9g}", "ours_low": low, "ours_high": high}
