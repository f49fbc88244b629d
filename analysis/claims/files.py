"""The worklogs' files, read and checked against each other: source.yaml, published.csv, claims.yaml and analytic.csv.

Everything that is wrong is reported, one line for each fault.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis.claims import tolerance
from analysis.claims.tolerance import Level
from analysis.quantities.estimates import Estimate, Undefined, shown
from analysis.quantities.expressions import evaluate
from contracts import UserError, choose, load_yaml, read_rows, schema, validate, worklogs
from contracts.errors import LONGEST, one_line, suggest

RULES = ("as", "between", "near", "within", "at_least", "at_most", "equals", "true")
DIRECTED = RULES[:6]  # those that have a side of `neutral`
OWN = ("near", "within")  # a tolerance of the claim's own
BANDS = ("as", *OWN)  # around one number
QUESTION = ("measure", "rule", "untestable", "lacks", "kind")
LONGEST_QUOTE = 25  # words


@dataclass(frozen=True)
class Paper:
    """What the files of all worklogs say. `analytic`: value by (case, quantity); `compiled`: rows by (variant, arch);
    `emulated`: value by (variant, size, beta, metric).
    """

    sources: dict[str, Any]
    published: list[dict[str, Any]]
    claims: list[dict[str, Any]]
    analytic: dict[tuple[str, str], Any]
    compiled: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    emulated: dict[tuple[str, int, float, str], float] = field(default_factory=dict)

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Rows of published.csv by id."""
        return {row["id"]: row for row in self.published}

    @property
    def titles(self) -> dict[str, str]:
        """What the claims of each worklog, and ours, are about."""
        return {key: f"Worklog {key}: {one['title']}" for key, one in self.sources.items()} | {
            worklogs.OWN: "Our own rungs and dispatchers"
        }

    def file_of(self, claim: dict[str, Any]) -> str:
        """The claims.yaml that a claim is in, for messages."""
        own = claim["worklog"] == worklogs.OWN
        return "paper/claims.yaml" if own else f"{self.sources[claim['worklog']]['folder']}/claims.yaml"

    @property
    def numbers(self) -> dict[str, float]:
        """Published values by id."""
        return {row["id"]: row["value"] for row in self.published}


def read(root: Path = worklogs.FOLDER, analytic: Iterable[Path] = ()) -> Paper:
    """Read the folders of all worklogs. Raises `UserError` with a line for each thing that is wrong."""
    faults: list[str] = []
    found = Paper(
        sources=worklogs.sources(root),
        published=worklogs.published(root),
        claims=[
            claim | {"worklog": key}
            for key, path in worklogs.claims(root).items()
            for claim in read_claims(path, faults)
        ],
        analytic={(r["case"], r["quantity"]): r["value"] for path in analytic for r in read_rows(path, "analytic")},
        compiled={(r["variant"], r["arch"]): r for r in worklogs.rows("compiled.csv", "resources", root)},
        emulated={
            (r["variant"], r["size"], r["beta"], r["metric"]): r["value"]
            for r in worklogs.rows("emulated.csv", "emulated", root)
        },
    )
    faults += source_faults(found) + row_faults(found) + claim_faults(found)
    if faults:
        raise UserError("\nerror: ".join(faults))
    return found


def read_claims(path: Path, faults: list[str]) -> list[dict[str, Any]]:
    """The entries of a claims.yaml that its schema allows; what it forbids goes to `faults`, by the entry's id."""
    entries = load_yaml(path) or []
    if not isinstance(entries, list):
        raise UserError(f"{path}: a {type(entries).__name__} is not allowed; allowed: a list of claims")
    good = []
    for place, entry in enumerate(entries, start=1):
        name = entry.get("id", f"entry {place}") if isinstance(entry, dict) else f"entry {place}"
        try:
            validate([entry], "claims", f"{path}: {one_line(str(name))[:LONGEST]}")
            good.append(entry)
        except UserError as error:
            faults.append(re.sub(r"(: | in )0\b", r"\1the claim", str(error), count=1).replace("the claim.", ""))
    return good


def source_faults(paper: Paper) -> list[str]:
    """Sections that overlap, end before they begin or after the text, or share a name."""
    faults = []
    for key, source in paper.sources.items():
        where = f"{source['folder']}/source.yaml: {key}"
        sections = sorted(source["sections"], key=lambda section: section["first"])
        for name, count in Counter(section["name"] for section in sections).items():
            if count > 1:
                faults.append(f"{where}: section {name!r} stands {count} times; allowed: once")
        for section in sections:
            if not section["first"] <= section["last"] <= source["lines"]:
                faults.append(
                    f"{where}: section {section['name']!r} = lines {section['first']} to {section['last']} is"
                    f" not allowed; allowed: within lines 1 to {source['lines']}"
                )
        for before, after in pairwise(sections):
            if after["first"] <= before["last"]:
                faults.append(f"{where}: sections {before['name']!r} and {after['name']!r} overlap")
    return faults


def section_of(paper: Paper, worklog: str, name: str) -> tuple[dict[str, Any] | None, str]:
    """A section, or what is wrong with naming it."""
    sections = {section["name"]: section for section in paper.sources[worklog]["sections"]}
    if name not in sections:
        return None, f"section = {name!r} is not one of worklog {worklog}'s; {suggest(name, sections)}"
    return sections[name], ""


def listed(kind: str) -> list[str]:
    """The `units` or `quantities` that the worklogs' numbers are given in."""
    names: list[str] = schema("published")["$defs"][kind]["enum"]
    return names


def row_faults(paper: Paper) -> list[str]:
    """Published numbers with an id that another has, a unit of no list, or a line that is not in their section."""
    faults = []
    counts = Counter(row["id"] for row in paper.published)
    for row in paper.published:
        found = [*id_faults(row), *count_faults(row, counts)]
        section, fault = section_of(paper, row["worklog"], row["section"])
        if section is None:
            found.append(fault)
        elif not section["first"] <= row["line"] <= section["last"]:
            allowed = f"{section['first']} to {section['last']}"
            found.append(f"line = {row['line']} is not in section {section['name']!r}; allowed: {allowed}")
        for column, kind in (("unit", "units"), ("quantity", "quantities")):
            if row[column] not in listed(kind):
                found.append(f"{column} = {row[column]!r} is not listed; {suggest(row[column], listed(kind))}")
        where = f"{paper.sources[row['worklog']]['folder']}/published.csv: {row['id']}"
        faults += [f"{where}: {fault}" for fault in found]
    return list(dict.fromkeys(faults))


def count_faults(entry: dict[str, Any], counts: Counter[str]) -> list[str]:
    """An id that stands more than once."""
    count = counts[entry["id"]]
    return [f"the id stands {count} times; allowed: once"] if count > 1 else []


def id_faults(entry: dict[str, Any]) -> list[str]:
    """An id begins with its worklog's letter."""
    prefix = entry["worklog"].lower() + "-"
    return [] if entry["id"].startswith(prefix) else [f"id = {entry['id']!r} is not allowed; allowed: {prefix}..."]


def claim_faults(paper: Paper) -> list[str]:
    """Claims of no section or line, that rest on unknown rows, or whose rule makes no sense."""
    found = []
    counts = Counter(claim["id"] for claim in paper.claims)
    known, claims = paper.numbers, {claim["id"]: claim for claim in paper.claims}
    for claim in paper.claims:
        faults = [*place_faults(paper, claim), *id_faults(claim), *same_faults(claim, claims)]
        faults += rule_faults(asked(claim, claims)) + count_faults(claim, counts)
        if claim["unit"] is not None and claim["unit"] not in listed("units"):
            faults.append(f"unit = {claim['unit']!r} is not listed; {suggest(claim['unit'], listed('units'))}")
        unknown = [i for i in claim["published"] if i not in known]
        faults += [f"published = {i!r} is not in published.csv; {suggest(i, known)}" for i in unknown]
        if not any(faults) and "as" in claim.get("rule", {}):
            faults += derived_faults(paper, claim)
        where = f"{paper.file_of(claim)}: {claim['id']}"
        found += [f"{where}: {fault}" for fault in faults if fault]
    return list(dict.fromkeys(found))


def place_faults(paper: Paper, claim: dict[str, Any]) -> list[str]:
    """A claim's section, line and quotation; what is ours has none of the last two."""
    if (claim["worklog"] == worklogs.OWN) != (claim.get("class") == "rung"):
        return ["class = rung is of paper/claims.yaml, and no other class is there"]
    if claim["worklog"] == worklogs.OWN:
        return [] if "evidence" in claim else ["evidence is missing; allowed: what a rung's claim rests on"]
    section, fault = section_of(paper, claim["worklog"], claim["section"])
    if section is None:
        return [fault]
    if claim.get("class") == "finding":
        here = [key for key in ("line", "quote") if key in claim]
        faults = [f"{here[0]} of a finding is not allowed; allowed: evidence"] if here else []
        return faults + ([] if "evidence" in claim else ["evidence is missing; allowed: what a finding rests on"])
    faults = [f"{key} is missing; allowed: where the text says it" for key in ("line", "quote") if key not in claim]
    faults += [f"{key} is not allowed; allowed of a finding" for key in ("evidence", "bears_out") if key in claim]
    if "line" in claim and not section["first"] <= claim["line"] <= section["last"]:
        allowed = f"{section['first']} to {section['last']}"
        faults.append(f"line = {claim['line']} is not in section {claim['section']!r}; allowed: {allowed}")
    if (words := len(claim.get("quote", "").split())) > LONGEST_QUOTE:
        faults.append(f"quote of {words} words is not allowed; allowed: at most {LONGEST_QUOTE}")
    return faults


def same_faults(claim: dict[str, Any], claims: dict[str, dict[str, Any]]) -> list[str]:
    """A claim that rests on the same measure as another names that other one, which does not name a third."""
    if "same_as" not in claim:
        return []
    other = claims.get(claim["same_as"])
    if other is None:
        return [f"same_as = {claim['same_as']!r} is no claim; {suggest(claim['same_as'], claims)}"]
    faults = (
        [f"same_as = {claim['same_as']!r} is itself the same as another; allowed: that"] if "same_as" in other else []
    )
    return faults


def asked(claim: dict[str, Any], claims: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A claim with what it asks of the tables; of one that is the same as another, that one's where it has no own."""
    other = claims.get(claim.get("same_as", ""), {})
    return {key: other[key] for key in QUESTION if key in other} | claim


def rule_faults(claim: dict[str, Any]) -> list[str]:
    """What is wrong with a claim's measure and rule."""
    if "untestable" in claim:
        both = [key for key in ("measure", "rule") if key in claim]
        faults = [f"{both[0]} with untestable is not allowed; allowed: one of them"] if both else []
        return faults + ([] if "lacks" in claim else ["lacks is missing; allowed: with untestable, what is missing"])
    if missing := [key for key in ("measure", "rule") if key not in claim]:
        return [f"{missing[0]} is missing; allowed: measure and rule, untestable, or same_as"]
    rule, theirs = claim["rule"], claim["theirs"]
    kinds = [kind for kind in RULES if kind in rule]
    if len(kinds) != 1:
        return [f"rule = {rule} is not allowed; allowed: exactly one of {', '.join(RULES)}"]
    faults = []
    if kinds[0] in ("as", *OWN) and not isinstance(theirs, (int, float)):
        faults.append(f"theirs = {theirs!r} is not allowed; allowed with {kinds[0]}: a number")
    if kinds[0] == "between" and not rule["between"][0] < rule["between"][1]:
        faults.append(f"between = {rule['between']} is not allowed; allowed: the lower end first")
    if kinds[0] in OWN and "reason" not in rule:
        faults.append(f"reason is missing; allowed: why {kinds[0]} = {rule[kinds[0]]} and not as the text words it")
    if kinds[0] in ("at_least", "at_most") and "reason" not in rule and rule[kinds[0]] not in bounds(claim):
        faults.append(f"reason is missing; allowed without: {kinds[0]} theirs, 0, 1 or 100, not {rule[kinds[0]]:g}")
    if "derived" in claim and kinds[0] != "as":
        faults.append(f"derived with {kinds[0]} is not allowed; allowed with as")
    if "neutral" in rule:
        if kinds[0] not in DIRECTED:
            faults.append(f"neutral with {kinds[0]} is not allowed; allowed with {', '.join(DIRECTED)}")
        elif side(claim) == 0:
            faults.append(f"neutral = {rule['neutral']} is theirs; allowed: a number on one side of it")
    return faults


def bounds(claim: dict[str, Any]) -> tuple[Any, ...]:
    """Bounds that need no reason: the text's own, and where a ratio, a share or a count turns."""
    return (claim["theirs"], 0, 1, 100)


def derived_faults(paper: Paper, claim: dict[str, Any]) -> list[str]:
    """Theirs must follow from the numbers that it is derived of."""
    try:
        standard = Level.STANDARD
        found = derived(claim, paper, standard) if "derived" in claim else allowed(claim, paper, standard)[0]
    except (UserError, ValueError, Undefined) as error:
        return [f"derived: {error}"]
    reach = tolerance.of_number(claim["theirs"]).unit / 2
    if not found.low - reach <= claim["theirs"] <= found.high + reach:
        return [f"theirs = {claim['theirs']} is not what it is derived of, {found}"]
    return []


def derived(claim: dict[str, Any], paper: Paper, level: Level) -> Estimate:
    """What the digits of the numbers that a claim's is derived of give. Raises `UserError` for one of no sense."""
    words = {"published": lambda id: wording(paper.rows, id).interval(level)}
    return Estimate.of(evaluate(" ".join(str(claim["derived"]).split()), words))


def allowed(claim: dict[str, Any], paper: Paper | None, level: Level) -> tuple[Estimate, str]:
    """What of ours a claim's number allows, and the rule in words. Raises `UserError` for a derivation of no sense."""
    rule, theirs = claim["rule"], claim["theirs"]
    kind = kind_of(rule)
    if kind in OWN:
        slack = rule[kind] * abs(theirs) if kind == "near" else rule[kind]
        slack *= {Level.STRICTER: 0.5, Level.STANDARD: 1.0, Level.LOOSER: 2.0}[level]
        width = f"{100 * rule[kind]:g}%" if kind == "near" else f"{rule[kind]:g}"
        return Estimate(theirs, theirs - slack, theirs + slack), f"within {width} of {theirs:g}"
    if kind == "between":
        ends = [tolerance.of_number(end).interval(level) for end in rule["between"]]
        middle = (ends[0].value + ends[1].value) / 2
        return Estimate(
            middle, ends[0].low, ends[1].high
        ), f"in the range {rule['between'][0]:g} to {rule['between'][1]:g}"
    if "derived" in claim:
        assert paper is not None
        found = derived(claim, paper, level)
        half = tolerance.of_number(theirs).unit / 2  # a timer's digits are more than a text can mean
        found = Estimate(found.value, min(found.low, theirs - half), max(found.high, theirs + half))
        return found, f"{found.low:.5g} to {found.high:.5g}, as the digits of theirs give"
    rows = [paper.rows[name] for name in claim["published"] if name in paper.rows] if paper else []
    same = [row for row in rows if math.isclose(row["value"], theirs, rel_tol=1e-9)]
    about = rule["as"] == "about"
    one = wording({"": same[0]}, "", about) if same else tolerance.of_number(theirs, about)
    found = one.interval(level)
    words_ = "about " if one.about else ""
    return found, f"{words_}{theirs:g} as written, {found.low:.5g} to {found.high:.5g}"


def wording(rows: dict[str, dict[str, Any]], id: Any, about: bool = False) -> tolerance.Wording:
    """How a text writes a number of published.csv. Raises `UserError` for an id that is none."""
    row = choose(rows, id, "id", "published.csv")
    written = str(row["as_written"])
    for found in tolerance.WRITTEN.finditer(written):
        digits = found[0].replace(",", "")
        ratio = row["value"] / float(digits) if float(digits) else 1.0
        if any(math.isclose(ratio, factor, rel_tol=1e-6) for factor in FACTORS):
            said = about or tolerance.APPROXIMATE.search(written) is not None
            return tolerance.worded(found[0], row["value"], said)
    return tolerance.of_number(row["value"], about)


# By which a number in published.csv may differ from the digits that the text writes: prefixes and percent.
FACTORS = [1, 1e3, 1e-3, 100, 0.01, 1e6, 1e-6, 1e9, 1024, 1 / 1024]


def kind_of(rule: dict[str, Any]) -> str:
    """Which of `RULES` a rule is."""
    return next(kind for kind in RULES if kind in rule)


def side(claim: dict[str, Any]) -> int:
    """On which side of `neutral` theirs is: 1 above, -1 below, 0 neither. Without a number of theirs, the rule's."""
    rule, theirs = claim["rule"], claim["theirs"]
    if not isinstance(theirs, (int, float)):
        theirs = next((rule[kind] for kind in ("at_least", "at_most") if kind in rule), None)
    if "between" in rule:
        theirs = rule["between"][0]
    difference = 0.0 if theirs is None else theirs - rule["neutral"]
    return (difference > 0) - (difference < 0)


def short(value: str, low: float | None = None, high: float | None = None) -> str:
    """A value of claims.csv for a reader: three digits of a number, with its interval; anything else as it is."""
    try:
        one = float(value)
    except ValueError:
        return value
    return shown(one, one if low is None else low, one if high is None else high)
