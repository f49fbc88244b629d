"""From the last rung of `mma.sync` to Hopper's own instructions, one idea a rung."""

from __future__ import annotations

from itertools import pairwise

from analysis.findings.sources import CARRIED, Row, Sources, Statement
from analysis.quantities.machine import Missing, rows_of
from analysis.statistics import SHARE

HOPPER, HALF = "hopper_ladder", "bf16"  # the experiment of Hopper's rungs, and which of their types is reported
LARGE = 8192  # the size at which 16-bit kernels fill the GPU, and the rungs are set side by side
CLOSE = 0.95  # of the library: a kernel that has as much at each size has closed the gap


def _read_from_dram(of: Sources, last: Row, before: Row, n: int) -> Row:
    """What the last rung and the one before it read from DRAM at this size, in GB; nothing where it was not counted."""
    try:
        own, others = (of.get(row["variant"], "dram_read", n=n) / 1e9 for row in (last, before))
    except Missing:
        return {}
    return {"read_n": n, "read_gb": own, "read_before_gb": others, "before_label": before["label"]}


def compute(of: Sources) -> Statement:
    timed = of.timed[(of.timed["experiment"] == HOPPER) & (of.timed["dtype"] == HALF)].sort_values(
        "order", kind="stable"
    )
    rungs = timed[timed["kind"] == "kernel"]
    if rungs[rungs["n"] == LARGE].empty:
        raise Missing(f"{HOPPER} was not timed at n = {LARGE}")
    columns = ["variant", "label", "kind", "tflops", "flop_per_clock_sm", "sm_clock_mhz", "share_kind"]
    shares = list(SHARE)
    rows = rows_of(timed.loc[timed["n"] == LARGE, [*columns, *shares]].astype(dict.fromkeys(shares, float)))
    kernels = [row for row in rows if row["kind"] == "kernel"]
    for before, row in pairwise(kernels):
        row["gain"] = row["share_of_baseline"] / before["share_of_baseline"]
    first, last = kernels[0], kernels[-1]
    steps = sorted(kernels[1:], key=lambda row: -row["gain"])[:2]
    sizes = rows_of(rungs.loc[rungs["variant"] == last["variant"], ["n", "share_of_baseline"]].sort_values("n"))
    by_size = [{"n": int(row["n"]), "percent": 100 * float(row["share_of_baseline"])} for row in sizes]
    library = next((row for row in rows if row["variant"] == f"cublas_{HALF}"), None)
    numbers = {
        "n": LARGE,
        "rungs": len(kernels) - 1,
        "first_label": first["label"],
        "first_percent": 100 * first["share_of_baseline"],
        "last_label": last["label"],
        "last_percent": 100 * last["share_of_baseline"],
        "last_tflops": last["tflops"],
        "last_mhz": last["sm_clock_mhz"],
        "last_flop_per_clock_sm": last["flop_per_clock_sm"],
        "by_size": by_size,
        "steps": [{"label": row["label"], "percent": 100 * (row["gain"] - 1)} for row in steps],
    }
    if library is not None:
        numbers |= {f"library_{key}": library[key] for key in ("flop_per_clock_sm", "sm_clock_mhz")}
    if len(kernels) > 1:
        numbers |= _read_from_dram(of, last, kernels[-2], int(by_size[-1]["n"]))
    others = [row for row in by_size if row["n"] != LARGE]
    listed = ", ".join(f"{row['percent']:.0f}% at {row['n']}" for row in others)
    return Statement(
        holds=first["share_of_baseline"] < CARRIED and min(row["percent"] for row in by_size) >= 100 * CLOSE,
        summary=f"{len(kernels) - 1} rungs with `wgmma` take {HALF} from {numbers['first_percent']:.0f}% to "
        f"{numbers['last_percent']:.0f}% of the fastest call of cuBLAS at n = {LARGE}"
        + (f" ({listed})." if listed else "."),
        numbers=numbers,
        rows=rows,
    )
