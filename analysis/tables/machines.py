"""One machine against another: each rung's share of cuBLAS on every machine that has been measured. machines.csv

A machine is a folder of tables; two days on one GPU are two. Rungs that were measured on two machines or more, from the
source that the tree has now.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd

from analysis.data import Measured, current, one_row_each
from analysis.inputs import Inputs

SIZE = 4096


def name_of(measured: Measured) -> str:
    """A machine as the figure calls it: "h200, 2026-11-20"."""
    return f"{measured.provenance['machine']}, {measured.provenance['date']}"


def shares(machines: dict[str, Measured], n: int = SIZE) -> pd.DataFrame:
    """One row per machine and kernel measured on at least two, with free clocks and uniform data.

    Columns: machine (key of the argument), gpu, variant, label, n, share_percent, share_low, share_high (95% interval),
    tflops, flop_per_clock_sm, sm_clock_mhz; share_change_percent and tflops_change_percent, against the first machine
    that has the kernel. Kernels are in the catalogue's order.
    """
    columns = ["variant", "label", "order", "n", "tflops", "flop_per_clock_sm", "sm_clock_mhz"]
    found = []
    for name, measured in machines.items():
        bench, _ = current(measured.bench)
        bench = bench[(bench["n"] == n) & (bench["regime"] == "unlocked") & (bench["data"] == "uniform")]
        rows = one_row_each(bench[bench["kind"] != "baseline"])
        parts = {"share_percent": "share_of_baseline", "share_low": "share_ci_low", "share_high": "share_ci_high"}
        ends: dict[str, Any] = {new: 100 * rows[old] for new, old in parts.items()}
        found.append(rows[columns].assign(machine=name, gpu=measured.provenance["gpu"], **ends))
    rows = pd.concat(found, ignore_index=True).sort_values("order", kind="stable", ignore_index=True)
    rows = rows[rows.groupby("variant")["machine"].transform("size") > 1].drop(columns="order")
    first = rows.groupby("variant")
    changes: dict[str, Any] = {
        f"{new}_change_percent": 100 * (rows[old] / first[old].transform("first") - 1)
        for new, old in (("share", "share_percent"), ("tflops", "tflops"))
    }
    front = ["machine", "gpu"]
    return rows.assign(**changes)[front + [name for name in [*rows, *changes] if name not in front]]


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
    return shares(all_runs(inputs))
