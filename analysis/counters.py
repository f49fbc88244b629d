"""Nsight Compute's counters as a reader wants them: one column each, with ratios and percentages
made of the raw ones.

`contracts/metrics.yaml` lists the counters with their labels and units. `DERIVED` makes those that
Nsight Compute does not have.
"""

from __future__ import annotations

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
# A counter's value times this has its unit without a prefix, and times in ns; plain units are not
# listed.
SCALE = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
SCALE |= {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9}


@dataclass(frozen=True)
class Counter:
    """A counter or another quantity of a kernel in a figure or table.

    better: 1 where more is better, -1 where less is, 0 where neither is; None of a counter that the
    comparison of two kernels leaves out. ncu: its name in Nsight Compute; "" where there is none.
    """

    key: str
    label: str
    unit: str = ""
    better: int | None = None
    short: str = ""
    ncu: str = ""


# contracts/metrics.yaml: each counter by section and by key
_METRICS = Path(contracts.__file__).with_name("metrics.yaml")
_FILE: dict[str, dict[str, dict[str, Any]]] = load_yaml(_METRICS)
COUNTERS = {
    key: Counter(key, **{"short": entry["label"]} | entry)
    for entries in _FILE.values()
    for key, entry in entries.items()
}
KEY_OF_NCU = {counter.ncu: key for key, counter in COUNTERS.items() if counter.ncu}
STALLS = [COUNTERS[key] for key in _FILE["stalls"]]
# The comparison of two kernels by the section's title, as Nsight Compute's pages have it
SECTIONS = {
    section.replace("_", " ").capitalize(): [
        COUNTERS[key] for key in entries if COUNTERS[key].better is not None
    ]
    for section, entries in _FILE.items()
    if section != "stalls"
}


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
        metric=rows["metric"].map(lambda name: KEY_OF_NCU.get(name, name)),
        value=rows["value"].astype(float) * scale,
    )
    of_row = rows.groupby(["variant", "n"])
    rows = rows.assign(kernel=of_row["kernel"].transform("last"))
    last: dict[str, Any] = {"values": "value", "aggfunc": "last", "sort": False}
    table = rows.pivot_table(index=INDEX, columns="metric", **last).reset_index()
    table = table.rename_axis(columns=None).sort_values(["order", "n"], ignore_index=True)
    return table.assign(**{name: rule(table) for name, rule in DERIVED.items()})


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
    matrix_bytes = rows["n"].astype(float) ** 2 * element_bytes
    return column(rows, sectors) * SECTOR_BYTES >= 0.5 * matrices * matrix_bytes


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


def top_stall(row: Any) -> tuple[str, float] | None:
    """The reason for which warps wait longest and its cycles per issued instruction. Being ready is
    no wait.

    row: a mapping of counters by key; None where no stall was counted.
    """
    ready = ("stall_selected", "stall_not_selected")
    waits = {
        stall: float(row[stall.key])
        for stall in STALLS
        if stall.key not in ready and pd.notna(row.get(stall.key))
    }
    stall = max(waits, key=lambda stall: waits[stall], default=None)
    return (stall.label, waits[stall]) if stall else None
