"""Steps that moved the counters that they were meant to move, and the time that followed."""

from __future__ import annotations

from analysis.findings.sources import ALIKE, Sources, Statement


def compute(of: Sources) -> Statement:
    rows = [row for row in of.steps if not row["control"]]  # what was slowed on purpose shows nothing here
    meant = [row for row in rows if row["meant"]]
    faster = [row for row in meant if row["speedup"] > 1 + ALIKE]
    slower = [row for row in meant if row["speedup"] < 1 - ALIKE]
    same = len(meant) - len(faster) - len(slower)
    numbers = {
        "steps": len(rows),
        "meant": len(meant),
        "faster": len(faster),
        "same": same,
        "slower": len(slower),
        "alike_percent": 100 * ALIKE,
    }
    if slower:
        worst = min(slower, key=lambda row: row["speedup"])
        numbers |= {"worst_label": worst["label"], "worst_speedup": worst["speedup"]}
    return Statement(
        holds=len(slower) + same >= max(1, len(meant) / 5),
        summary=f"Of {len(rows)} steps, {len(meant)} moved their counters as meant; {len(faster)} of these made the "
        f"kernel more than {100 * ALIKE:.0f}% faster, {same} changed less, and {len(slower)} made it slower.",
        numbers=numbers,
        rows=rows,
    )
