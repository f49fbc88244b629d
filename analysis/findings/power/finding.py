"""What fp32 kernels draw as they come near the peak."""

from __future__ import annotations

from analysis.data import one_row_each
from analysis.findings.sources import Sources, Statement
from analysis.quantities.machine import SIZE, Missing, rows_of
from analysis.words import significant

NEAR = 0.97  # of the power limit: a kernel that draws so much is held by it
FAST = 0.9  # of the fastest: a kernel that still counts as fast


def compute(of: Sources) -> Statement:
    limit = of.measured.machine.get("power_limit_w")
    peak = of.measured.machine["ceilings"].get("fp32_fma_tflops")
    rows = of.timed[~of.timed["tensor"].astype(bool) & (of.timed["n"] >= SIZE)]
    rows = rows.assign(power=rows["power_w"].astype(float), joule=rows["gflop_per_j"].astype(float))
    rows = one_row_each(rows.dropna(subset=["power", "joule"]))
    if rows.empty or not limit or not peak:
        raise Missing("no power was measured, or no limit or ceiling is known")
    per_clock = of.measured.machine["ceilings"]["fp32_fma_flop_per_clock_sm"]
    rows = rows.assign(
        peak_percent=100 * rows["flop_per_clock_sm"].astype(float) / per_clock,
        capped=rows["throttle_reasons"].fillna("").str.contains("power_cap"),
    )
    columns = ["variant", "label", "kind", "n", "tflops", "power", "joule", "peak_percent", "sm_clock_mhz", "capped"]
    shown = rows_of(rows[columns])
    kernels = [row for row in shown if row["kind"] != "baseline"]
    if not kernels:
        raise Missing("no fp32 kernel was timed at the sizes in question")
    best = max(kernels, key=lambda row: row["tflops"])
    near = [row for row in kernels if row["power"] >= NEAR * limit]
    capped = [row for row in kernels if row["capped"]]
    frugal = max((row for row in kernels if row["tflops"] >= FAST * best["tflops"]), key=lambda row: row["joule"])
    reachable = frugal["joule"] * limit / 1000
    numbers = {
        "limit_w": float(limit),
        "near": len(near),
        "best_label": best["label"],
        "best_n": int(best["n"]),
        "best_tflops": best["tflops"],
        "best_power_w": best["power"],
        "best_peak_percent": best["peak_percent"],
        "capped": len(capped),
        "frugal_label": frugal["label"],
        "frugal_n": int(frugal["n"]),
        "frugal_gflop_per_j": frugal["joule"],
        "reachable_tflops": reachable,
        "reachable_percent": 100 * reachable / peak,
        "peak_tflops": float(peak),
    }
    if capped:
        row = min(capped, key=lambda row: row["sm_clock_mhz"])
        numbers |= {"capped_label": row["label"], "capped_n": int(row["n"]), "capped_mhz": row["sm_clock_mhz"]}
    return Statement(
        holds=bool(near) and bool(capped) and reachable < peak,
        summary=f"The fastest fp32 kernel, `{best['label']}` at n = {best['n']}, draws {best['power']:.0f} W of the "
        f"card's {limit:.0f} W at {significant(best['peak_percent'])}% of the measured FMA rate per clock. With the "
        f"energy per operation of the most frugal of them the limit allows {significant(reachable)} TFLOP/s, "
        f"{100 * reachable / peak:.0f}% of what FMAs alone reach.",
        numbers=numbers,
        rows=shown,
    )
