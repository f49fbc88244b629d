"""published.csv: what the worklogs measured on their authors' GPUs, beside the same quantity on
each GPU here.

There is no verdict: a number of an RTX A6000 is not refuted by one of an H100. A published fraction
of cuBLAS stands beside our interleaved one. Where a text gives only speeds, `fraction` rows are
made of them: of a kernel's time and that of cuBLAS, or of its TFLOP/s and those that a stated
fraction implies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.estimates import Estimate, Missing
from analysis.numbers import SIZE, Numbers
from analysis.results import Results
from contracts import worklogs
from contracts.declared import Published

COLUMNS = [
    "worklog",
    "id",
    "line",
    "subject",
    "as_written",
    "variant",
    "n",
    "gpu",
    "quantity",
    "value",
    "unit",
]
COLUMNS += ["here", "ours", "ours_low", "ours_high"]
COUNTED: tuple[str, ...] = (
    "achieved_occupancy",
    "sm_throughput",
    "memory_throughput",
    "l1_throughput",
    "dram_throughput",
)
COUNTED += (
    "ipc_elapsed",
    "issue_slots_busy",
    "fma_pipe",
    "issue_active",
    "no_eligible",
    "active_warps",
)
COUNTED += (
    "eligible_warps",
    "cycles_per_instruction",
    "waves",
    "blocks_by_registers",
    "blocks_by_shared",
)
EXCESS = "global_sectors_l2(KERNEL, n=SIZE, beta=BETA) - global_sectors_l2_ideal(KERNEL, n=SIZE, beta=BETA)"
# Our quantity for a published one, in its unit. SIDE is load or store, OVER the kernel that a
# speedup is over. BETA is 1 for the profiled kernels, which read C.
OURS = {
    "fraction": "100 * fraction(KERNEL, n=SIZE)",
    "share_of_cublas": "100 * fraction(KERNEL, n=SIZE)",
    "lead_over_cublas": "100 * (fraction(KERNEL, n=SIZE) - 1)",
    "gap_to_cublas": "100 * (1 - fraction(KERNEL, n=SIZE))",
    "tflops": "tflops(KERNEL, n=SIZE)",
    "time": "time_us(KERNEL, n=SIZE) / 1000",
    "speedup": "speedup(KERNEL, over=OVER, n=SIZE)",
    "gain": "100 * (speedup(KERNEL, over=OVER, n=SIZE) - 1)",
    "peak_share": '100 * flop_per_clock_sm(KERNEL, n=SIZE) / cell("machine", "fp32_fma_flop_per_clock_sm")',
    "power_excess": "100 * (power_w(KERNEL, n=SIZE) / power_w(cublas_fp32, n=SIZE) - 1)",
    "occupancy": "100 * occupancy(KERNEL)",
    "registers": "registers(KERNEL)",
    "ipc": "ipc_active(KERNEL, n=SIZE)",
    "bandwidth": "dram_gb_per_s(KERNEL, n=SIZE)",
    "bytes_moved": "dram_read(KERNEL, n=SIZE) / 1e6",
    "bank_conflicts": "shared_conflicts(KERNEL, n=SIZE)",
    "bytes_per_sector": "global_SIDE_bytes_per_sector(KERNEL, n=SIZE, beta=BETA)",
    "conflict_share": "shared_SIDE_conflicts_percent(KERNEL, n=SIZE)",
    "hit_rate": "LEVEL_hit_rate(KERNEL, n=SIZE)",
    "sectors": "global_sectors_l2(KERNEL, n=SIZE, beta=BETA)",
    "excess_sectors": EXCESS,
    "excess_share": f"100 * ({EXCESS}) / global_sectors_l2(KERNEL, n=SIZE, beta=BETA)",
    **{name: f"{name}(KERNEL, n=SIZE)" for name in COUNTED},
}
SCALE = {"GFLOP/s": 1000.0, "us": 1000.0}  # units of which ours is so many of the usual one
PERCENT = {
    "share_of_cublas",
    "lead_over_cublas",
    "gap_to_cublas",
    "gain",
    "peak_share",
    "power_excess",
    "occupancy",
}
READING_C = "profiling"  # The kernels of this worklog were profiled with beta = 1.


def published_table(folders: Mapping[str, Results], root: Path = worklogs.FOLDER) -> pd.DataFrame:
    """One row for each published number with a counterpart, and GPU: value is theirs, in unit, as
    ours are.

    folders: results folders and archives by name, which `here` has. ours is NaN where a GPU did not
    measure it, and a number that none measured is left out. A number that a text repeats stands
    once, with the most digits.
    """
    variants = next(iter(folders.values())).variants.set_index("variant")
    stated = []
    for worklog, entry in worklogs.rows("published.csv", Published, root):
        row = {"worklog": worklog, **entry.model_dump()}
        known = entry.gpu and entry.variant in variants.index
        if known and (expression := counterpart(row, variants)):
            stated.append(row | {"expression": expression})
    rows = [*_without_repetitions(stated), *_fractions(stated, variants)]
    numbers = {name: Numbers(results) for name, results in folders.items()}
    table = pd.DataFrame(
        {**row, "here": name, **_ours(of_gpu, row)}
        for row in rows
        for name, of_gpu in numbers.items()
    )
    table = table[table.groupby(["worklog", "id"])["ours"].transform("count") > 0]
    table = table.sort_values(["worklog", "line"], kind="stable", ignore_index=True)
    return table[COLUMNS].astype({"line": "Int64", "n": "Int64"})


def counterpart(row: Mapping[str, Any], variants: pd.DataFrame) -> str | None:
    """The expression of `analysis.numbers` that gives our value of a published number; None where
    there is none.
    """
    text = OURS.get(row["quantity"])
    side = re.search("load|store", row["id"])
    over = re.search(r"over (\w+)", row["note"] or "")
    builds_on = variants.loc[row["variant"], "builds_on"]
    before = over[1] if over else builds_on if row["quantity"] == "gain" else None
    level = re.search("L[12]", row["note"] or "")
    if text is None or (row["quantity"] in PERCENT and row["unit"] != "%"):
        return None
    values = {
        "KERNEL": row["variant"],
        "SIZE": row["n"] or SIZE,
        "OVER": before if before in variants.index else None,
        "BETA": int(row["worklog"] == READING_C),
        "SIDE": side[0] if side else None,
        "LEVEL": level[0].lower() if level else None,
    }
    if any(name in text and value is None for name, value in values.items()):
        return None
    expression = re.sub("|".join(values), lambda match: str(values[match[0]]), text)
    return f"{expression} * {SCALE.get(row['unit'], 1.0)}"


def _without_repetitions(stated: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each of our expressions and worklog, that which is written with the most
    digits.
    """

    def digits(row: dict[str, Any]) -> int:
        return sum(letter.isdigit() for letter in str(row["value"]))

    first: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in sorted(stated, key=digits, reverse=True):
        # Both ends of a range stand.
        end = row["id"] if row["id"].endswith(("-low", "-high")) else ""
        first.setdefault((row["worklog"], row["expression"], end), row)
    return list(first.values())


def _fractions(stated: list[dict[str, Any]], variants: pd.DataFrame) -> list[dict[str, Any]]:
    """A `fraction` row for each kernel of which a text gives a speed and none as a fraction of
    cuBLAS.
    """
    single = _without_repetitions(stated)
    with_fraction = {
        (row["worklog"], row["variant"]) for row in stated if "cublas" in row["quantity"]
    }
    speeds: dict[str, dict[tuple[str, str], dict[str, Any]]] = {"time": {}, "tflops": {}}
    for row in single:
        if row["quantity"] in speeds:
            speeds[row["quantity"]].setdefault((row["worklog"], row["variant"]), row)
    # The speed of cuBLAS that a stated fraction implies, by worklog
    implied = {}
    for row in single:
        speed = speeds["tflops"].get((row["worklog"], row["variant"]))
        if speed and row["quantity"] == "share_of_cublas":
            implied[row["worklog"]] = _tflops(speed) / (row["value"] / 100)
    # A kernel has a fraction by its own times, or by the implied speed of cuBLAS.
    fractions = []
    for key, row in {**speeds["tflops"], **speeds["time"]}.items():
        library = (row["worklog"], variants.loc[row["variant"], "baseline"])
        if key in with_fraction or variants.loc[row["variant"], "kind"] == "baseline":
            continue
        if row["quantity"] == "time" and library in speeds["time"]:
            theirs = speeds["time"][library]["value"] / row["value"]
        elif row["quantity"] == "tflops" and row["worklog"] in implied:
            theirs = _tflops(row) / implied[row["worklog"]]
        else:
            continue
        expression = f"100 * fraction({row['variant']}, n={row['n'] or SIZE})"
        change = {"id": f"{row['id']}-fraction", "quantity": "fraction", "expression": expression}
        fractions.append(row | change | {"value": 100 * theirs, "unit": "%"})
    return fractions


def _tflops(row: Mapping[str, Any]) -> float:
    return float(row["value"]) / SCALE.get(row["unit"], 1.0)


def _ours(numbers: Numbers, row: Mapping[str, Any]) -> dict[str, float]:
    try:
        ours = Estimate.of(numbers.evaluate(row["expression"]))
    except Missing:
        return {"ours": float("nan"), "ours_low": float("nan"), "ours_high": float("nan")}
    return {"ours": ours.value, "ours_low": ours.low, "ours_high": ours.high}
