"""The last rung of each ladder, as published and here."""

from __future__ import annotations

import statistics

from analysis.findings.sources import CARRIED, Sources, Statement
from analysis.quantities.machine import SIZE, Missing


def compute(of: Sources) -> Statement:
    rows = of.shares
    last = list({(row["worklog"], row["tensor"]): row for row in rows}.values())
    plain, tensor = ([row for row in last if bool(row["tensor"]) == kind] for kind in (False, True))
    if not plain or not tensor:
        raise Missing("one of the two ladders has no published share")
    ceilings = of.measured.machine["ceilings"]
    keys = ("bf16_mma_flop_per_clock_sm", "bf16_wgmma_flop_per_clock_sm")
    rate = 100 * ceilings[keys[0]] / ceilings[keys[1]] if all(ceilings.get(key) for key in keys) else None
    best, best16 = (max(part, key=lambda row: row["here"]) for part in (plain, tensor))
    worst = min(plain, key=lambda row: row["ratio"])
    numbers = {
        "n": SIZE,
        "fp32_rungs": sum(not row["tensor"] for row in rows),
        "fp32_least_kept_percent": 100 * worst["ratio"],
        "fp32_least_kept_label": worst["label"],
        "fp32_median_kept_percent": 100 * statistics.median(row["ratio"] for row in rows if not row["tensor"]),
        "fp32_best_label": best["label"],
        "fp32_best_percent": 100 * best["here"],
        "half_label": best16["label"],
        "half_theirs_percent": 100 * best16["theirs"],
        "half_percent": 100 * best16["here"],
        "half_kept_percent": 100 * best16["ratio"],
        "mma_of_wgmma_percent": rate,
    }
    summary = (
        f"The last fp32 rungs keep at least {numbers['fp32_least_kept_percent']:.0f}% of their published share of "
        f"cuBLAS at n = {SIZE}; the last 16-bit rung, `{numbers['half_label']}`, published at "
        f"{numbers['half_theirs_percent']:.0f}%, has {numbers['half_percent']:.0f}%"
    )
    if rate is not None:
        summary += f", where `mma.sync` has {rate:.0f}% of the rate of `wgmma`"
    return Statement(
        holds=all(row["ratio"] >= CARRIED for row in plain) and all(row["ratio"] < CARRIED for row in tensor),
        summary=f"{summary}.",
        numbers=numbers,
        rows=rows,
    )
