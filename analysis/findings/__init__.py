"""The findings: what the measurements show beyond single verdicts. A finding is a folder here.

    finding.yaml    its title (the statement), part, order, what it reads, the kernels whose shares it is about, and the
                    title of its figure
    finding.py      compute(of: Sources) -> Statement: whether it holds on a machine, with thresholds, numbers and rows
    figure.py       draw(measured, found) of these, if it has a figure
    text.typ        what the paper says of it

All are computed once, into findings.json, which paper, figures, explorer and README read: a list of {name, part, title,
holds, why, summary, numbers, rows, evidence, tried, status}.

    part: "worklogs", of what they say; "beyond", of our kernels past them; "smaller", for supplement and explorer alone
    holds: true, false where the measurements here say otherwise, null where a table is missing (why: which)
    summary: a sentence or two with the numbers, names in backticks
    numbers: by name, in the units that their names end in; rows: what the figure or table of the finding shows
    evidence: ids of the entries of class `finding` in claims.yaml that bear it out, each judged by itself; an entry
    that bears out none of the findings here is a smaller one of its own
    tried: on this machine and on each archive, as `matrix` has it, with its numbers there; status: on which of them it
    holds, in words

A statement is held against the tables each time, so that another GPU's copy does not repeat what was found on this one.
"""

from __future__ import annotations

import functools
import importlib
import json
from typing import Any

from analysis import registry
from analysis.findings import matrix
from analysis.findings.sources import Row, Sources, Statement
from analysis.inputs import Inputs
from analysis.quantities.machine import Missing
from contracts import choose

HOLDS = "holds"  # verdicts
UNKNOWN = ("not measured", "not testable here")


@functools.cache
def manifests() -> dict[str, dict[str, Any]]:
    """finding.yaml of each finding by name, in the paper's order."""
    return registry.findings()


def compute(name: str, of: Sources) -> Statement:
    """One finding on one machine. Raises `Missing` for a table that is not there."""
    found: Statement = importlib.import_module(f"analysis.findings.{name}.finding").compute(of)
    return found


def findings(inputs: Inputs) -> list[Row]:
    """Every finding: those that the paper states, in its order, then the smaller ones; each also on every archive."""
    of = Sources(inputs)
    others = [Sources(inputs.run_in(folder)) for folder in inputs.archives]
    machines = [of, *(other for other in others if other.machine.name != of.machine.name)]
    found = {one: {row["name"]: row for row in on_machine(one)} for one in machines}
    for name, row in found[of].items():
        kernels = manifests().get(name, {}).get("kernels", [])
        on = [one for one in machines if name in found[one]]
        row["tried"] = [
            matrix.on(one, found[one][name], kernels) | {"numbers": found[one][name]["numbers"]} for one in on
        ]
        row["status"] = matrix.status(row["tried"])
    return list(found[of].values())


def on_machine(of: Sources) -> list[Row]:
    """Every finding on one machine."""
    found = []
    judged = [row for row in of.judged if row["class"] == "finding"]
    for name, manifest in manifests().items():
        row = blank(name, manifest["part"], manifest["title"])
        row["evidence"] = [entry["id"] for entry in judged if entry["bears_out"] == name]
        try:
            row |= vars(compute(name, of))
        except Missing as missing:
            row["why"] = str(missing)
        found.append(row)
    for entry in judged:
        if entry["bears_out"] is not None:
            choose(manifests(), entry["bears_out"], "finding", f"bears_out of {entry['id']}")
        else:
            row = blank(entry["id"], "smaller", entry["claim"].rstrip(".")) | {"evidence": [entry["id"]]}
            known = entry["verdict"] not in UNKNOWN
            row |= {"holds": entry["verdict"] == HOLDS, "summary": entry["remark"]} if known else {"why": entry["why"]}
            found.append(row)
    return found


def blank(name: str, part: str, title: str) -> Row:
    """A finding of which nothing is computed yet."""
    return {"name": name, "part": part, "title": title, "holds": None, "why": None, "summary": None, "numbers": {},
            "rows": [], "evidence": []}  # fmt: skip


def document(inputs: Inputs) -> str:
    """The text of findings.json."""
    return json.dumps(findings(inputs), indent=2, allow_nan=False) + "\n"
