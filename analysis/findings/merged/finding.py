"""What a load of shared memory takes of issue, by its width and by whether neighbouring lanes are merged; and one
kernel with merged loads and without."""

from __future__ import annotations

from typing import Any

from analysis.findings.sources import Row, Sources, Statement
from analysis.quantities.machine import Missing

ISSUE_WARPS = 8  # of ffma_issue.csv: two a scheduler
CONFLICTS = ("stride 2", "stride 8")  # its patterns of lanes that wait for banks
APART = ("sgemm_t128x256x8_cpasync", "sgemm_t128x256x8_apart")  # one kernel, with loads that are merged and without


def compute(of: Sources) -> Statement:
    loads = of.optional("ffma_issue")
    loads = loads[(loads["beside"] == "load") & (loads["warps"] == ISSUE_WARPS) & ~loads["lanes"].isin(CONFLICTS)]
    if loads.empty:
        raise Missing(f"ffma_issue.csv has no loads with {ISSUE_WARPS} warps")
    merged = loads["wavefronts"] <= loads["bits"] / 64  # with only one half-warp merged, a load is as the others
    rows: list[Row] = []
    for bits, together in sorted(set(zip(loads["bits"].astype(int), merged, strict=True))):
        cycles = loads.loc[(loads["bits"] == bits) & (merged == together), "extra"].astype(float)
        spread = {"cycles": float(cycles.median()), "least": float(cycles.min()), "most": float(cycles.max())}
        rows.append({"bits": bits, "merged": bool(together), "loops": len(cycles), **spread})
    median = {(row["bits"], row["merged"]): row["cycles"] for row in rows}
    widest = max(row["bits"] for row in rows)
    numbers: dict[str, Any] = {
        "bits": widest,
        "plain_cycles": median[widest, False],
        "merged_cycles": median[widest, True],
        "least_more_cycles": min(median[bits, True] - median[bits, False] for bits, together in median if together),
    }
    summary = (
        f"A {widest}-bit load of shared memory takes {numbers['plain_cycles']:.1f} cycles of issue, and "
        f"{numbers['merged_cycles']:.1f} where neighbouring lanes want the same, for half the wavefronts"
    )
    holds = bool(numbers["least_more_cycles"] > 1)
    if all(of.has(name, "tflops") for name in APART):
        before, after = APART
        numbers |= {"label": of.variants[after]["label"], "over_label": of.variants[before]["label"]}
        numbers["gain_percent"] = 100 * (of.get(after, "tflops") / of.get(before, "tflops") - 1)
        summary += (
            f"; `{numbers['label']}`, whose loads are not merged, is {numbers['gain_percent']:.1f}% faster for it"
        )
        holds = holds and numbers["gain_percent"] > 0
    return Statement(holds=holds, summary=f"{summary}.", numbers=numbers, rows=rows)
