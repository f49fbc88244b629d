"""Nsight Compute's counters as a reader wants them: one column each, with ratios and percentages
made of the raw ones.

`contracts/metrics.yaml` lists the counters that are collected, under our keys. `DERIVED` adds what
is made of several, `SECTIONS` groups what the comparison of two kernels shows, and `label_of` gives
the name and unit of any of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import contracts
from contracts import load_yaml
from contracts.dtypes import Types

SECTOR_BYTES = 32
INDEX = ["variant", "label", "kind", "family", "dtype", "tensor", "order", "n", "kernel"]
# What to multiply a counter's value with to have its unit without a prefix; plain units are not
# listed
SCALE = {
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "us": 1e3,
    "usecond": 1e3,
    "ms": 1e6,
    "msecond": 1e6,
    "s": 1e9,
}


@functools.cache
def metrics() -> dict[str, dict[str, dict[str, Any]]]:
    """contracts/metrics.yaml: by section and our key, ncu's name and a label."""
    found: dict[str, dict[str, dict[str, Any]]] = load_yaml(
        Path(contracts.__file__).parent / "metrics.yaml"
    )
    return found


@functools.cache
def key_of_ncu() -> dict[str, str]:
    """Our key by ncu's name of a counter."""
    return {entry["ncu"]: key for section in metrics().values() for key, entry in section.items()}


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each variant and size, in the catalogue's order, and a column for each counter
    under our key.

    rows: of counters or predictions, with the catalogue's columns. Times are in ns, volumes in
    bytes; `kernel` is the function that ran. Counters that contracts/metrics.yaml does not have
    keep ncu's name.
    """
    if rows.empty:
        return pd.DataFrame(columns=INDEX)
    scale = rows["unit"].map(lambda unit: SCALE.get(unit, 1.0))
    rows = rows.assign(
        metric=rows["metric"].map(lambda name: key_of_ncu().get(name, name)),
        value=rows["value"].astype(float) * scale,
    )
    of_row = rows.groupby(["variant", "n"])
    rows = rows.assign(kernel=of_row["kernel"].transform("last"))
    pivoted = rows.pivot_table(
        index=INDEX, columns="metric", values="value", aggfunc="last", sort=False
    )
    found = (
        pivoted.reset_index()
        .rename_axis(columns=None)
        .sort_values(["order", "n"], ignore_index=True)
    )
    return found.assign(**{name: rule(found) for name, rule in DERIVED.items()})


# ---- counters made of others ---------------------------------------------------------------------


def column(rows: pd.DataFrame, key: str) -> pd.Series:
    """A counter, NaN where it was not collected."""
    return rows[key].astype(float) if key in rows else pd.Series(float("nan"), index=rows.index)


def total(*keys: str) -> Callable[[pd.DataFrame], pd.Series]:
    """The sum of several counters."""
    return lambda rows: sum((column(rows, key) for key in keys[1:]), column(rows, keys[0]))


def percent(part: str, whole: str) -> Callable[[pd.DataFrame], pd.Series]:
    """100 part / whole; NaN where the whole is zero."""
    return lambda rows: (
        100 * column(rows, part) / column(rows, whole).where(lambda value: value > 0)
    )


def _excess(actual: str, ideal: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda rows: 100 - percent(ideal, actual)(rows)


def _through_l1(rows: pd.DataFrame, sectors: str, matrices: int) -> pd.Series:
    """Whether a count of sectors holds at least half of so many n x n matrices, each moved once.

    Copies of the tensor memory accelerator do not pass the counted path; what is left then says
    nothing of the kernel.
    """
    element_bytes = rows["dtype"].map(lambda name: Types.named(name).ab.bytes)
    return (
        column(rows, sectors) * SECTOR_BYTES
        >= 0.5 * matrices * rows["n"].astype(float) ** 2 * element_bytes
    )


def _bytes_per_sector(op: str, matrices: int) -> Callable[[pd.DataFrame], pd.Series]:
    """ncu's ratio, NaN where it is 0: then every access that was counted is a cp.async, for which
    ncu has none.
    """

    def ratio(rows: pd.DataFrame) -> pd.Series:
        value = column(rows, f"global_{op}_bytes_per_sector")
        return value.where((value > 0) & _through_l1(rows, f"global_{op}_sectors", matrices))

    return ratio


def _global_excess(rows: pd.DataFrame) -> pd.Series:
    excess = _excess("global_sectors_l2", "global_sectors_l2_ideal")(rows)
    return excess.where(_through_l1(rows, "global_sectors_l2", 3))


DERIVED: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "load_bytes_per_sector": _bytes_per_sector("load", 2),
    "store_bytes_per_sector": _bytes_per_sector("store", 1),
    "shared_conflicts": total("shared_load_conflicts", "shared_store_conflicts"),
    "shared_load_conflicts_percent": percent("shared_load_conflicts", "shared_load_wavefronts"),
    "shared_store_conflicts_percent": percent("shared_store_conflicts", "shared_store_wavefronts"),
    "shared_excess_percent": _excess("shared_wavefronts", "shared_wavefronts_ideal"),
    "global_excess_percent": _global_excess,
    "dram_bytes": total("dram_read", "dram_write"),
    "dram_gb_per_s": lambda rows: total("dram_read", "dram_write")(rows) / column(rows, "duration"),
    "no_eligible": lambda rows: 100 - column(rows, "issue_active"),
    "imbalance_percent": lambda rows: percent("sm_cycles_most", "sm_cycles_mean")(rows) - 100,
    "math_pipe": lambda rows: column(rows, "tensor_pipe").where(
        rows["tensor"].astype(bool), column(rows, "fma_pipe")
    ),
    "duration_us": lambda rows: column(rows, "duration") / 1e3,
}


# ---- what is shown, and how ----------------------------------------------------------------------


@dataclass(frozen=True)
class Counter:
    """A counter in a figure or table: its key, label and unit. `better` is +1 where more is better,
    -1 where less is, 0 where neither is."""

    key: str
    label: str
    unit: str
    better: int = 0


# The comparison of two kernels, section by section, as Nsight Compute's pages have them
SECTIONS: dict[str, list[Counter]] = {
    "Speed of light": [
        Counter("duration_us", "Duration under Nsight Compute", "µs", -1),
        Counter("sm_throughput", "Compute (SM) throughput", "%", +1),
        Counter("memory_throughput", "Memory throughput", "%"),
        Counter("l1_throughput", "L1/TEX throughput", "%"),
        Counter("l2_throughput", "L2 throughput", "%"),
        Counter("dram_throughput", "DRAM throughput", "%"),
    ],
    "Compute": [
        Counter("ipc_active", "IPC, active cycles", "inst/cycle", +1),
        Counter("issue_slots_busy", "Issue slots busy", "%", +1),
        Counter("fma_pipe", "FMA pipe utilization", "%", +1),
        Counter("tensor_pipe", "Tensor pipe utilization", "%", +1),
        Counter("instructions", "Instructions executed", "", -1),
    ],
    "Memory": [
        Counter("load_bytes_per_sector", "Global load, bytes used per 32-byte sector", "byte", +1),
        Counter(
            "store_bytes_per_sector", "Global store, bytes used per 32-byte sector", "byte", +1
        ),
        Counter("global_excess_percent", "Excessive L2 sectors of global accesses", "%", -1),
        Counter("shared_conflicts", "Shared bank conflicts, loads and stores", "", -1),
        Counter("shared_load_conflicts", "Shared bank conflicts, loads", "", -1),
        Counter("shared_store_conflicts", "Shared bank conflicts, stores", "", -1),
        Counter("shared_excess_percent", "Excessive shared wavefronts", "%", -1),
        Counter("l1_hit_rate", "L1/TEX hit rate", "%"),
        Counter("l2_hit_rate", "L2 hit rate", "%"),
        Counter("dram_bytes", "DRAM bytes read and written", "byte", -1),
        Counter("dram_gb_per_s", "DRAM bandwidth", "GB/s"),
    ],
    "Scheduler": [
        Counter("issue_active", "Cycles with an eligible warp", "%", +1),
        Counter("active_warps", "Active warps per scheduler", "warp"),
        Counter("eligible_warps", "Eligible warps per scheduler", "warp", +1),
        Counter("cycles_per_instruction", "Warp cycles per issued instruction", "cycle", -1),
    ],
    "Occupancy": [
        Counter("registers", "Registers per thread", "", -1),
        Counter("blocks_by_registers", "Block limit, registers", "block", +1),
        Counter("blocks_by_shared", "Block limit, shared memory", "block", +1),
        Counter("theoretical_occupancy", "Theoretical occupancy", "%", +1),
        Counter("achieved_occupancy", "Achieved occupancy", "%", +1),
        Counter("waves", "Waves per SM", ""),
    ],
    "Balance": [Counter("imbalance_percent", "Busiest SM over the mean of all", "%", -1)],
}


@functools.cache
def shown() -> dict[str, Counter]:
    """Every counter by key, with its label and unit: those of `SECTIONS`, then the other ones of
    metrics.yaml.
    """
    found = {one.key: one for section in SECTIONS.values() for one in section}
    for section, entries in metrics().items():
        for key, entry in entries.items():
            unit = "%" if ".pct" in entry["ncu"] or entry["ncu"].endswith("_pct") else ""
            unit = "cycles per instruction" if section == "stalls" else unit
            found.setdefault(key, Counter(key, entry["label"], unit))
    for key in DERIVED:
        found.setdefault(
            key, Counter(key, key.replace("_", " ").capitalize(), "%" if "percent" in key else "")
        )
    return found


def top_stall(row: Any) -> tuple[str, float] | None:
    """The reason for which warps wait longest and its cycles per issued instruction. Being ready is
    no wait.

    row: a mapping of counters by key; None where no stall was counted.
    """
    ready = ("stall_selected", "stall_not_selected")
    known = {
        key: row[key] for key in metrics()["stalls"] if key not in ready and pd.notna(row.get(key))
    }
    key = max(known, key=lambda name: known[name], default=None)
    return (metrics()["stalls"][key]["label"], float(known[key])) if key else None
