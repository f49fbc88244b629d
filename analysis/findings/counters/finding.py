"""Steps that moved the counters that they were meant to move, and the time that followed."""

from __future__ import annotations

from typing import Any

from analysis.findings.sources import ALIKE, Row, Sources, Statement
from analysis.quantities.machine import SIZE

REMOVED = 0.9  # of its conflicts: a step that removes so many has done what it set out to do


def compute(of: Sources) -> Statement:
    rows = [row for row in of.steps if not row["control"]]  # what was slowed on purpose shows nothing here
    meant = [row for row in rows if row["meant"]]
    faster = [row for row in meant if row["speedup"] > 1 + ALIKE]
    slower = [row for row in meant if row["speedup"] < 1 - ALIKE]
    same = len(meant) - len(faster) - len(slower)
    numbers: dict[str, Any] = {
        "steps": len(rows),
        "meant": len(meant),
        "faster": len(faster),
        "same": same,
        "slower": len(slower),
        "alike_percent": 100 * ALIKE,
    }
    summary = (
        f"Of {len(rows)} steps, {len(meant)} moved their counters as meant; {len(faster)} of these made the "
        f"kernel more than {100 * ALIKE:.0f}% faster, {same} changed less, and {len(slower)} made it slower."
    )
    removed = max((found for row in slower if (found := _removed(of, row))), key=lambda one: one[0], default=None)
    if removed is not None:
        part, row = removed
        numbers |= {
            "removed_label": row["label"],
            "removed_over_label": row["over_label"],
            "removed_percent": 100 * part,
            "removed_slower_percent": 100 * (1 - row["speedup"]),
        }
        for when, name in (("before", row["over"]), ("after", row["variant"])):
            numbers[f"removed_loads_{when}"] = of.get(name, "shared_load_conflicts")
        summary = (
            f"At n = {SIZE} `{row['label']}` removes {numbers['removed_percent']:.0f}% of the conflicts of its stores "
            f"and is {numbers['removed_slower_percent']:.0f}% slower. {summary}"
        )
    enough = len(slower) + same >= max(1, len(meant) / 5)
    return Statement(holds=removed is not None and enough, summary=summary, numbers=numbers, rows=rows)


def _removed(of: Sources, row: Row) -> tuple[float, Row] | None:
    """Which part of the bank conflicts of its stores a step removes, if that is most of them and both are counted."""
    keys = ("shared_store_conflicts", "shared_load_conflicts")
    if not all(of.has(name, *keys) for name in (row["over"], row["variant"])):
        return None
    before, after = (of.get(name, keys[0]) for name in (row["over"], row["variant"]))
    part = 1 - after / before if before else 0.0
    return (part, row) if part >= REMOVED else None
