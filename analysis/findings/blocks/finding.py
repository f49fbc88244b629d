"""Kernels built once more with registers held to what another number of blocks an SM allows."""

from __future__ import annotations

from analysis.findings.sources import Row, Sources, Statement
from analysis.quantities.machine import SIZE, Missing

BUILT = ("registers", "spill_bytes", "blocks_per_sm")


def compute(of: Sources) -> Statement:
    rows: list[Row] = []
    for step in (step for step in of.steps if "active_warps" in step["counters"]):
        own: Row = {key: step[key] for key in ("variant", "label", "over", "over_label")}
        for when, name in (("before", step["over"]), ("after", step["variant"])):
            if not of.has(name, *BUILT, "share"):
                break
            own |= {f"{key}_{when}": int(of.get(name, key)) for key in BUILT}
            own[f"share_{when}"] = of.get(name, "share")
        else:
            rows.append(own | {"speedup": step["speedup"]})
    more = [row for row in rows if row["blocks_per_sm_after"] > row["blocks_per_sm_before"]]
    less = [row for row in rows if row["blocks_per_sm_after"] < row["blocks_per_sm_before"]]
    if not more:
        raise Missing("no kernel was built for more blocks than it has by itself")
    plain = [name for name, row in of.variants.items() if row["kind"] == "kernel" and not row["tensor"]]
    plain = [name for name in plain if of.has(name, "tflops", "occupancy")]
    fastest = max(plain, key=lambda name: of.get(name, "tflops"))
    label, occupancy = of.variants[fastest]["label"], of.get(fastest, "occupancy")
    lower = sum(of.get(name, "occupancy") < occupancy for name in plain)
    best, worst = (pick(more, key=lambda row: row["speedup"]) for pick in (max, min))
    numbers = {
        "more": len(more),
        "slower": sum(row["speedup"] < 1 for row in more),
        "best_change_percent": 100 * (best["speedup"] - 1),
        "best_label": best["label"],
        "worst_change_percent": 100 * (worst["speedup"] - 1),
        "worst_label": worst["label"],
        "worst_spill_bytes": worst["spill_bytes_after"],
        "fastest_label": label,
        "fastest_occupancy_percent": 100 * occupancy,
        "fastest_registers": int(of.get(fastest, "registers")),
        "lower": lower,
    }
    if less:
        numbers |= {"fewer_label": less[0]["label"], "fewer_change_percent": 100 * (less[0]["speedup"] - 1)}
    return Statement(
        holds=numbers["slower"] == len(more) and lower == 0,
        summary=f"Holding registers down for another block an SM slowed {numbers['slower']} of {len(more)} kernels at "
        f"n = {SIZE}, by {-numbers['best_change_percent']:.0f} to {-numbers['worst_change_percent']:.0f}%; the fastest "
        f"fp32 kernel, `{label}`, has the lowest occupancy of all, {numbers['fastest_occupancy_percent']:.1f}%.",
        numbers=numbers,
        rows=rows,
    )
