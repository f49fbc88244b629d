"""Claims that their own arithmetic or the documented rules of the hardware contradict."""

from __future__ import annotations

from analysis.findings.sources import Sources, Statement
from analysis.quantities.machine import Missing

ON_PAPER = ("slip of the text", "contradicts a documented rule")  # kinds of verdicts that no GPU can change


def compute(of: Sources) -> Statement:
    rows = [row for row in of.judged if row["class"] == "claim" and row["same_as"] is None]
    if not rows:
        raise Missing("the claims were not judged")
    wrong = [row for row in rows if row["kind"] in ON_PAPER]
    columns = ("id", "worklog", "claim", "theirs", "ours", "unit", "basis")
    kept = [{name: row[name] for name in columns} for row in wrong]
    worklogs = len({row["worklog"] for row in wrong})
    return Statement(
        holds=bool(wrong),
        summary=f"{len(wrong)} claims, of {worklogs} of the worklogs, contradict arithmetic or the documented rules of "
        "their hardware; no measurement could save them.",
        numbers={"wrong": len(wrong), "worklogs": worklogs, "judged": len(rows)},
        rows=kept,
    )
