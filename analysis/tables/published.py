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
READING_C = "profiling"  # the worklog whose kernels were profiled with beta = 1


def published_table(folders: Mapping[str, Results], root: Path = worklogs.FOLDER) -> pd.DataFrame:
    """One row for each published number with a counterpart, and GPU: value is theirs, in unit, as
    ours are.

    folders: results folders and archives by name, which `here` has. ours is NaN where a GPU did not
    measure it, and a number that none measured is left out. A number that a text repeats stands
    once, with the most digits.
    """
    variants = next(iter(folders.values())).variants.set_index("variant")
    stated = [
        {"worklog": worklog, **row.model_dump()}
        for worklog, row in worklogs.rows("published.csv", Published, root)
        if row.gpu and row.variant in variants.index
    ]
    stated = [
        row | {"expression": expression}
        for row in stated
        if (expression := counterpart(row, variants))
    ]
    numbers = {name: Numbers(results) for name, results in folders.items()}
    found = [
        {**row, "here": name, **_ours(of_gpu, row)}
        for row in [*_without_repetitions(stated), *_fractions(stated, variants)]
        for name, of_gpu in numbers.items()
    ]
    table = pd.DataFrame(found)
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
    if (
        text is None
        or ("SIDE" in text and not side)
        or ("OVER" in text and before not in variants.index)
    ):
        return None
    if ("LEVEL" in text and not level) or (row["quantity"] in PERCENT and row["unit"] != "%"):
        return None
    words = {
        "KERNEL": row["variant"],
        "SIZE": row["n"] or SIZE,
        "OVER": before,
        "BETA": int(row["worklog"] == READING_C),
    }
    words |= {"SIDE": side[0] if side else "", "LEVEL": level[0].lower() if level else ""}
    return f"{re.sub('|'.join(words), lambda match: str(words[match[0]]), text)} * {SCALE.get(row['unit'], 1.0)}"


def _without_repetitions(stated: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each of our expressions and worklog, that which is written with the most
    digits.
    """
    digits = [sum(letter.isdigit() for letter in str(row["value"])) for row in stated]
    ranked = [
        stated[place]
        for place in sorted(range(len(stated)), key=lambda place: (-digits[place], place))
    ]
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in ranked:
        is_range = row["id"].endswith(("-low", "-high"))  # both ends of a range stand
        found.setdefault((row["worklog"], row["expression"], row["id"] if is_range else ""), row)
    return list(found.values())


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
    implied = {
        row["worklog"]: _tflops(speeds["tflops"][row["worklog"], row["variant"]])
        / (row["value"] / 100)
        for row in single
        if row["quantity"] == "share_of_cublas"
        and (row["worklog"], row["variant"]) in speeds["tflops"]
    }
    found = []
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
        size = row["n"] or SIZE
        made = {
            "id": f"{row['id']}-fraction",
            "quantity": "fraction",
            "value": 100 * theirs,
            "unit": "%",
        }
        found.append(row | made | {"expression": f"100 * fraction({row['variant']}, n={size})"})
    return found


def _tflops(row: Mapping[str, Any]) -> float:
    return float(row["value"]) / SCALE.get(row["unit"], 1.0)


def _ours(numbers: Numbers, row: Mapping[str, Any]) -> dict[str, float]:
    try:
        ours = Estimate.of(numbers.evaluate(row["expression"]))
    except Missing:
        return {"ours": float("nan"), "ours_low": float("nan"), "ours_high": float("nan")}
    return {"ours": ours.value, "ours_low": ours.low, "ours_high": ours.high}
