"""The files of the claims, read and held against each other: sources.yaml, published.csv, claims.yaml, analytic.csv.

Each may come in several parts, which are read as one. Everything that is wrong is told, a line for each thing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis.claims.estimates import shown
from contracts import UserError, load_yaml, read_rows, read_yaml, schema, validate
from contracts.errors import suggest

RULES = ("near", "within", "at_least", "at_most", "equals", "true")
DIRECTED = RULES[:4]  # those that have a side of `neutral`


@dataclass(frozen=True)
class Paper:
    """What the files say, parts joined. `analytic`: value by (case, quantity)."""

    sources: dict[str, Any]
    published: list[dict[str, Any]]
    claims: list[dict[str, Any]]
    analytic: dict[tuple[str, str], Any]

    @property
    def numbers(self) -> dict[str, float]:
        """Published values by id."""
        return {row["id"]: row["value"] for row in self.published}


def read(sources: list[Path], published: list[Path], claims: list[Path], analytic: list[Path]) -> Paper:
    """Read all parts. Raises `UserError` with a line for each thing that is wrong."""
    told: list[str] = []
    found = Paper(
        sources=dict(entry for path in sources for entry in read_yaml(path, "sources").items()),
        published=[row for path in published for row in read_rows(path, "published")],
        claims=[claim for path in claims for claim in read_claims(path, told)],
        analytic={(r["case"], r["quantity"]): r["value"] for path in analytic for r in read_rows(path, "analytic")},
    )
    told += source_faults(found, names(sources)) + row_faults(found, names(published))
    told += claim_faults(found, names(claims))
    if told:
        raise UserError("\nerror: ".join(told))
    return found


def names(paths: Iterable[Path]) -> str:
    """How an error speaks of the files: by name, or by folder where parts are many."""
    return ", ".join(str(path) for path in paths)


def read_claims(path: Path, told: list[str]) -> list[dict[str, Any]]:
    """The entries of a claims.yaml that its schema allows; what it forbids goes to `told`, by the entry's id."""
    entries = load_yaml(path) or []
    if not isinstance(entries, list):
        raise UserError(f"{path}: a {type(entries).__name__} is not allowed; allowed: a list of claims")
    good = []
    for place, entry in enumerate(entries, start=1):
        name = entry.get("id", f"entry {place}") if isinstance(entry, dict) else f"entry {place}"
        try:
            validate([entry], "claims", f"{path}: {name}")
            good.append(entry)
        except UserError as error:
            told.append(re.sub(r"(: | in )0\b", r"\1the claim", str(error), count=1).replace("the claim.", ""))
    return good


def source_faults(paper: Paper, where: str) -> list[str]:
    """Sections that overlap, end before they begin or after the text, or share a name."""
    told = []
    for key, source in paper.sources.items():
        sections = sorted(source["sections"], key=lambda section: section["first"])
        for name, count in Counter(section["name"] for section in sections).items():
            if count > 1:
                told.append(f"{where}: {key}: section {name!r} stands {count} times; allowed: once")
        for section in sections:
            if not section["first"] <= section["last"] <= source["lines"]:
                told.append(
                    f"{where}: {key}: section {section['name']!r} = lines {section['first']} to {section['last']} is"
                    f" not allowed; allowed: within lines 1 to {source['lines']}"
                )
        for before, after in pairwise(sections):
            if after["first"] <= before["last"]:
                told.append(f"{where}: {key}: sections {before['name']!r} and {after['name']!r} overlap")
    return told


def section_of(paper: Paper, worklog: str, name: str) -> tuple[dict[str, Any] | None, str]:
    """A section, or what is wrong with naming it."""
    if worklog not in paper.sources:
        return None, f"worklog = {worklog!r} is not in sources.yaml; allowed: {', '.join(paper.sources)}"
    sections = {section["name"]: section for section in paper.sources[worklog]["sections"]}
    if name not in sections:
        return None, f"section = {name!r} is not one of worklog {worklog}'s; {suggest(name, sections)}"
    return sections[name], ""


def listed(kind: str) -> list[str]:
    """The `units` or `quantities` that the worklogs' numbers are told in."""
    names: list[str] = schema("published")["$defs"][kind]["enum"]
    return names


def row_faults(paper: Paper, where: str) -> list[str]:
    """Rows of published.csv with an id that another has, a unit of no list, or a line that is not in their section."""
    told = []
    for name, count in Counter(row["id"] for row in paper.published).items():
        if count > 1:
            told.append(f"{where}: {name}: the id stands {count} times; allowed: once")
    for row in paper.published:
        section, fault = section_of(paper, row["worklog"], row["section"])
        if section is None:
            told.append(f"{where}: {row['id']}: {fault}")
        elif not section["first"] <= row["line"] <= section["last"]:
            allowed = f"{section['first']} to {section['last']}"
            told.append(
                f"{where}: {row['id']}: line = {row['line']} is not in section {section['name']!r}; allowed: {allowed}"
            )
        told += [f"{where}: {row['id']}: {fault}" for fault in id_faults(row)]
        for column, kind in (("unit", "units"), ("quantity", "quantities")):
            if row[column] not in listed(kind):
                near = suggest(row[column], listed(kind))
                told.append(f"{where}: {row['id']}: {column} = {row[column]!r} is not listed; {near}")
    return told


def id_faults(entry: dict[str, Any]) -> list[str]:
    """An id begins with its worklog's letter."""
    prefix = entry["worklog"].lower() + "-"
    return [] if entry["id"].startswith(prefix) else [f"id = {entry['id']!r} is not allowed; allowed: {prefix}..."]


def claim_faults(paper: Paper, where: str) -> list[str]:
    """Claims of no section, that rest on unknown rows, or whose rule makes no sense."""
    told = []
    for name, count in Counter(claim["id"] for claim in paper.claims).items():
        if count > 1:
            told.append(f"{where}: {name}: the id stands {count} times; allowed: once")
    known = paper.numbers
    for claim in paper.claims:
        faults = [section_of(paper, claim["worklog"], claim["section"])[1], *id_faults(claim), *rule_faults(claim)]
        if claim["unit"] is not None and claim["unit"] not in listed("units"):
            faults.append(f"unit = {claim['unit']!r} is not listed; {suggest(claim['unit'], listed('units'))}")
        faults += [
            f"published = {i!r} is not in published.csv; {suggest(i, known)}"
            for i in claim["published"]
            if i not in known
        ]
        told += [f"{where}: {claim['id']}: {fault}" for fault in faults if fault]
    return told


def rule_faults(claim: dict[str, Any]) -> list[str]:
    """What is wrong with a claim's measure and rule."""
    if "untestable" in claim:
        both = [key for key in ("measure", "rule") if key in claim]
        return [f"{both[0]} beside untestable is not allowed; allowed: one of them"] if both else []
    if missing := [key for key in ("measure", "rule") if key not in claim]:
        return [f"{missing[0]} is missing; allowed: measure and rule, or untestable"]
    rule, theirs = claim["rule"], claim["theirs"]
    kinds = [kind for kind in RULES if kind in rule]
    if len(kinds) != 1:
        return [f"rule = {rule} is not allowed; allowed: exactly one of {', '.join(RULES)}"]
    told = []
    if kinds[0] in ("near", "within") and not isinstance(theirs, (int, float)):
        told.append(f"theirs = {theirs!r} is not allowed; allowed beside {kinds[0]}: a number")
    if "neutral" in rule:
        if kinds[0] not in DIRECTED:
            told.append(f"neutral beside {kinds[0]} is not allowed; allowed beside {', '.join(DIRECTED)}")
        elif side(claim) == 0:
            told.append(f"neutral = {rule['neutral']} is theirs; allowed: a number on one side of it")
    return told


def kind_of(rule: dict[str, Any]) -> str:
    """Which of `RULES` a rule is."""
    return next(kind for kind in RULES if kind in rule)


def side(claim: dict[str, Any]) -> int:
    """On which side of `neutral` theirs is: 1 above, -1 below, 0 neither. Without a number of theirs, the rule's."""
    rule, theirs = claim["rule"], claim["theirs"]
    if not isinstance(theirs, (int, float)):
        theirs = next((rule[kind] for kind in ("at_least", "at_most") if kind in rule), None)
    difference = 0.0 if theirs is None else theirs - rule["neutral"]
    return (difference > 0) - (difference < 0)


def lines_of(paper: Paper, claim: dict[str, Any]) -> str:
    """The lines of the rows that a claim rests on ("12, 40-42"), else of its section."""
    wanted = set(claim["published"])
    found = sorted({row["line"] for row in paper.published if row["id"] in wanted})
    if not found:
        section, _ = section_of(paper, claim["worklog"], claim["section"])
        assert section is not None  # `read` has seen to it
        found = list(range(section["first"], section["last"] + 1))
    runs: list[list[int]] = []
    for line in found:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def short(value: str, low: float | None = None, high: float | None = None) -> str:
    """A value of claims.csv for a reader: three digits of a number, with its interval; anything else as it is."""
    try:
        one = float(value)
    except ValueError:
        return value
    return shown(one, one if low is None else low, one if high is None else high)
