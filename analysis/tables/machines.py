"""One machine against another: each rung's share of cuBLAS in turns with it, at every size that two of them have.
machines.csv

A machine is a folder of tables; two days on one GPU are two. Rungs that were measured on two machines or more, from the
source that the tree has now. The yardstick of a change is how far leases of one machine lie apart.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd

from analysis.data import Measured, current, one_row_each, squares
from analysis.inputs import Inputs
from analysis.statistics import IN_TURNS
from analysis.tables.leases import leases_table

YARDSTICK = 1.0  # percent, where no machine has the row from two leases


def name_of(measured: Measured) -> str:
    """A machine as the figure calls it: "h200, 2026-11-20"."""
    return f"{measured.provenance['machine']}, {measured.provenance['date']}"


def shares(machines: dict[str, Measured], spreads: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row per machine, kernel and size that at least two machines have, with free clocks and uniform data.

    Columns: machine (key of the argument), gpu, variant, label, n, tflops, flop_per_clock_sm, sm_clock_mhz,
    share_percent, share_low, share_high (95% interval), of times in turns with the baseline, which every archive has,
    as shares of leases are; share_change_percent and tflops_change_percent, against the first machine that has the
    kernel at this size; lease_spread_percent, the largest spread of the share between leases of one machine (missing
    where there is none); beyond_leases, whether the change is more than that, or than
    `YARDSTICK`. Kernels are in the catalogue's order. spreads: variant, n, spread (a fraction), as leases.csv has them.
    """
    columns = ["variant", "label", "order", "n", "flop_per_clock_sm", "sm_clock_mhz"]
    found = []
    for name, measured in machines.items():
        bench, _ = current(measured.bench)
        bench = squares(bench[(bench["regime"] == "unlocked") & (bench["data"] == "uniform")])
        rows = one_row_each(bench[bench["kind"] != "baseline"])
        parts = dict(zip(("share_percent", "share_low", "share_high"), IN_TURNS, strict=True))
        ends: dict[str, Any] = {new: 100 * rows[old] for new, old in parts.items()}
        ends["tflops"] = 2 * rows["n"].astype(float) ** 3 / rows["time_us_in_turns"] / 1e6
        found.append(rows[columns].assign(machine=name, gpu=measured.provenance["gpu"], **ends))
    rows = pd.concat(found, ignore_index=True).sort_values(["order", "n"], kind="stable", ignore_index=True)
    of_both = rows.groupby(["variant", "n"])
    rows = rows[of_both["machine"].transform("size") > 1].drop(columns="order")
    first = rows.groupby(["variant", "n"])
    changes: dict[str, Any] = {
        f"{new}_change_percent": 100 * (rows[old] / first[old].transform("first") - 1)
        for new, old in (("share", "share_percent"), ("tflops", "tflops"))
    }
    rows = rows.assign(**changes)
    widest = {} if spreads is None else spreads.groupby(["variant", "n"])["spread"].max().to_dict()
    yardstick = [100 * widest.get(key, float("nan")) for key in zip(rows["variant"], rows["n"], strict=True)]
    rows = rows.assign(lease_spread_percent=pd.Series(yardstick, index=rows.index, dtype=float))
    limit = rows["lease_spread_percent"].fillna(YARDSTICK).clip(lower=YARDSTICK)
    rows = rows.assign(beyond_leases=rows["share_change_percent"].abs() > limit)
    front = ["machine", "gpu"]
    return rows[front + [name for name in rows if name not in front]]


def lease_spreads(inputs: Inputs) -> pd.DataFrame:
    """How far shares lie apart between leases of one machine, of all machines: variant, n, spread (a fraction)."""
    parts = [
        leases_table(one).query("m == n and n == k and regime == 'unlocked' and data == 'uniform'")
        for one in (inputs, *map(inputs.run_in, inputs.other_runs))
    ]
    return pd.concat([part[["variant", "n", "spread"]] for part in parts], ignore_index=True).dropna()


def all_runs(inputs: Inputs) -> dict[str, Measured]:
    """The machines by name, this run first and no copies of it; its folder is added where two are of one name."""
    found: dict[str, Measured] = {}
    # what the emulator says of this tree is about none of them
    own = dataclasses.replace(inputs, tables={n: p for n, p in inputs.tables.items() if n != "emulated_checks"})
    for folder, one in [
        ("", own.measured()),
        *((path.name, inputs.run_in(path).measured()) for path in inputs.other_runs),
    ]:
        if any(one.provenance == other.provenance and one.bench.equals(other.bench) for other in found.values()):
            continue  # the run that was archived there
        name = name_of(one)
        found[f"{name} ({folder})" if name in found else name] = one
    return found


def machines_table(inputs: Inputs) -> pd.DataFrame:
    return shares(all_runs(inputs), lease_spreads(inputs))
