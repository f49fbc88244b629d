"""Counters as readers want them: ratios and percentages made of ncu's raw ones, and which way is better.

`DERIVED` adds columns to a wide counters table; `HEAT` and `COMPARISON` say which columns are shown, and how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from contracts.dtypes import Types

SECTOR_BYTES = 32


def column(wide: pd.DataFrame, key: str) -> pd.Series:
    """A counter, NaN where it was not collected."""
    if key in wide:
        return wide[key].astype(float)
    return pd.Series(float("nan"), index=wide.index)


def percent(part: str, whole: str) -> Callable[[pd.DataFrame], pd.Series]:
    """100 part / whole; NaN where the whole is zero."""
    return lambda wide: 100 * column(wide, part) / column(wide, whole).where(lambda value: value > 0)


def _excess(actual: str, ideal: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda wide: 100 - percent(ideal, actual)(wide)


def _seen(wide: pd.DataFrame, sectors: str, matrices: int) -> pd.Series:
    """Whether a count of sectors holds at least half of so many n x n matrices, each moved once.

    Tiles that the tensor memory accelerator moves pass by these counters; what is left says nothing of the kernel.
    """
    element_bytes = wide["dtype"].map(lambda name: Types.named(name).ab.bytes)
    return column(wide, sectors) * SECTOR_BYTES >= 0.5 * matrices * wide["n"].astype(float) ** 2 * element_bytes


def _bytes_per_sector(op: str, matrices: int) -> Callable[[pd.DataFrame], pd.Series]:
    """ncu's ratio, NaN where it is 0: then every access that was counted was a cp.async, for which ncu has none."""

    def ratio(wide: pd.DataFrame) -> pd.Series:
        value = column(wide, f"global_{op}_bytes_per_sector")
        return value.where((value > 0) & _seen(wide, f"global_{op}_sectors", matrices))

    return ratio


def _global_excess(wide: pd.DataFrame) -> pd.Series:
    excess = _excess("global_sectors_l2", "global_sectors_l2_ideal")(wide)
    return excess.where(_seen(wide, "global_sectors_l2", 3))


def _math_pipe(wide: pd.DataFrame) -> pd.Series:
    return column(wide, "tensor_pipe").where(wide["tensor"].astype(bool), column(wide, "fma_pipe"))


DERIVED: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "load_bytes_per_sector": _bytes_per_sector("load", 2),
    "store_bytes_per_sector": _bytes_per_sector("store", 1),
    "shared_load_conflicts_percent": percent("shared_load_conflicts", "shared_load_wavefronts"),
    "shared_store_conflicts_percent": percent("shared_store_conflicts", "shared_store_wavefronts"),
    "shared_excess_percent": _excess("shared_wavefronts", "shared_wavefronts_ideal"),
    "global_excess_percent": _global_excess,
    "dram_gb_per_s": lambda wide: (column(wide, "dram_read") + column(wide, "dram_write")) / column(wide, "duration"),
    "no_eligible": lambda wide: 100 - column(wide, "issue_active"),
    "imbalance_percent": lambda wide: percent("sm_cycles_most", "sm_cycles_mean")(wide) - 100,
    "math_pipe": _math_pipe,
    "duration_us": lambda wide: column(wide, "duration") / 1e3,
}


def with_derived(wide: pd.DataFrame) -> pd.DataFrame:
    """The wide table with the columns of `DERIVED` added."""
    return wide.assign(**{name: rule(wide) for name, rule in DERIVED.items()})


@dataclass(frozen=True)
class Shown:
    """A counter in a figure or table. `better` is +1 where more is better, -1 where less is, 0 where neither is."""

    key: str
    label: str
    unit: str
    better: int
    full: float = 100.0  # the value that is as good (or as bad) as it gets


# Groups of columns; all of a group have one unit and one good side.
HEAT = {
    "Bytes per\nsector": [
        Shown("load_bytes_per_sector", "load", "of 32", +1, 32),
        Shown("store_bytes_per_sector", "store", "of 32", +1, 32),
    ],
    "Excess,\n%": [Shown("global_excess_percent", "L2", "%", -1), Shown("shared_excess_percent", "shared", "%", -1)],
    "Conflicts,\n%": [
        Shown("shared_load_conflicts_percent", "load", "%", -1),
        Shown("shared_store_conflicts_percent", "store", "%", -1),
    ],
    "Busy,\n%": [Shown("math_pipe", "pipe", "%", +1)],
    "Issue,\n%": [Shown("issue_slots_busy", "slots", "%", 0)],  # few instructions suffice where each does much
    "Traffic,\n% of peak": [Shown("l1_throughput", "L1", "%", 0), Shown("dram_throughput", "DRAM", "%", 0)],
    "Hit rate,\n%": [Shown("l1_hit_rate", "L1", "%", 0), Shown("l2_hit_rate", "L2", "%", 0)],
    "Occupancy,\n%": [Shown("theoretical_occupancy", "limit", "%", 0), Shown("achieved_occupancy", "actual", "%", 0)],
}

# Worklog 002's tables, section by section.
COMPARISON = {
    "Speed of light": [
        Shown("duration_us", "Duration under ncu", "µs", -1),
        Shown("sm_throughput", "Compute (SM) throughput", "%", +1),
        Shown("memory_throughput", "Memory throughput", "%", 0),
        Shown("l1_throughput", "L1/TEX throughput", "%", 0),
        Shown("l2_throughput", "L2 throughput", "%", 0),
        Shown("dram_throughput", "DRAM throughput", "%", 0),
    ],
    "Compute": [
        Shown("ipc_active", "IPC, active cycles", "inst/cycle", +1),
        Shown("ipc_elapsed", "IPC, elapsed cycles", "inst/cycle", +1),
        Shown("issue_slots_busy", "Issue slots busy", "%", +1),
        Shown("fma_pipe", "FMA pipe", "%", +1),
        Shown("tensor_pipe", "Tensor pipe", "%", +1),
    ],
    "Memory": [
        Shown("load_bytes_per_sector", "Global load, bytes used per 32-byte sector", "byte", +1),
        Shown("store_bytes_per_sector", "Global store, bytes used per 32-byte sector", "byte", +1),
        Shown("global_excess_percent", "L2 sectors in excess for global accesses", "%", -1),
        Shown("shared_excess_percent", "Shared wavefronts in excess", "%", -1),
        Shown("shared_load_conflicts_percent", "Shared load wavefronts from bank conflicts", "%", -1),
        Shown("shared_store_conflicts_percent", "Shared store wavefronts from bank conflicts", "%", -1),
        Shown("l1_hit_rate", "L1/TEX hit rate", "%", 0),
        Shown("l2_hit_rate", "L2 hit rate", "%", 0),
        Shown("dram_gb_per_s", "DRAM traffic", "GB/s", 0),
    ],
    "Scheduler": [
        Shown("issue_active", "Cycles with an eligible warp", "%", +1),
        Shown("no_eligible", "Cycles with no eligible warp", "%", -1),
        Shown("active_warps", "Active warps per scheduler", "warp", 0),
        Shown("eligible_warps", "Eligible warps per scheduler", "warp", +1),
        Shown("cycles_per_instruction", "Warp cycles per issued instruction", "cycle", -1),
    ],
    "Occupancy": [
        Shown("registers", "Registers per thread", "", -1),
        Shown("blocks_by_registers", "Blocks per SM, by registers", "block", +1),
        Shown("blocks_by_shared", "Blocks per SM, by shared memory", "block", +1),
        Shown("theoretical_occupancy", "Theoretical occupancy", "%", +1),
        Shown("achieved_occupancy", "Achieved occupancy", "%", +1),
        Shown("waves", "Waves per SM", "", 0),
    ],
    "Balance": [Shown("imbalance_percent", "Busiest SM over the mean", "%", -1)],
}
