"""Worklog C's switch between two buffers, by an XOR of an address that it takes for aligned."""

from __future__ import annotations

import re

from analysis.findings.sources import Sources, Statement
from analysis.quantities.machine import Missing
from contracts import worklogs

SWITCH = ("c-switch-b-sm86", "c-switch-b-sm90")  # of analytic.yaml: on worklog C's GPU, and where it fails
SHIFTED = 90  # from this architecture on the system's part of shared memory comes first


def compute(of: Sources) -> Statement:
    worked = {(row["case"], row["quantity"]): row["value"] for row in of.inputs.listed("analytic")}
    if any((case, name) not in worked for case in SWITCH for name in ("begins_at", "misplaced_bytes")):
        raise Missing("analytic.csv has no case of the switch")
    stated = {row["id"]: row for row in worklogs.published()}
    slot, align, of_a = (int(stated[name]["value"]) for name in ("c-b-switch-xor", "c-a-align", "c-a-slot-bytes"))
    number = re.search(r"[0-9]+", of.measured.machine["arch"])
    here = number is not None and int(number[0]) >= SHIFTED
    before = 2 * of_a  # A's two slots lie before those of B
    theirs, first = (int(worked[(case, "begins_at")]) - before for case in SWITCH)
    fine, astray = (int(worked[(case, "misplaced_bytes")]) for case in SWITCH)
    buffer = range(first + before, first + before + slot)
    places = [address ^ slot for address in buffer if address ^ slot != address + slot]
    outside = sum(not first <= place < first + before + 2 * slot for place in places)
    numbers = {
        "slot_bytes": slot,
        "align_bytes": align,
        "before_bytes": before,
        "first_address": first,
        "first_address_theirs": theirs,
        "astray_bytes": astray,
        "astray_percent": 100 * astray / slot,
        "outside_bytes": outside,
    }
    return Statement(
        holds=here and astray > 0 and fine == outside == 0,
        summary=f"Worklog C's double buffer switches by an XOR of an address that it assumes to be aligned to {align} "
        f"bytes. From sm_90 on shared memory begins at {numbers['first_address']}, and "
        f"{numbers['astray_percent']:.0f}% of each tile of B go astray, to addresses that are the block's own.",
        numbers=numbers,
        rows=[],
    )
