"""Hardware counters of a kernel as the emulator predicts them: rows of predictions.csv.

Counts follow the cubin where ptxas merged shared accesses; `widths` says where a rule would err.
"""

from __future__ import annotations

from typing import Any

from experiments.emulation.scaling import Scaled
from kernels.catalogue import Runnable
from kernels.problem import ProblemSpec

UNITS = {"inst_executed": "inst", "bytes_per_sector": "byte/sector", "sectors": "sector"}


def rows(entry: Runnable, problem: ProblemSpec, kernel: str, scaled: Scaled, code: str) -> list[dict[str, Any]]:
    """For one problem; `kernel` is the name of the function that runs, `code` the entry's code hash."""
    shape = {"variant": entry.name, **problem.row}
    return [
        {
            **shape,
            "metric": metric,
            "value": float(value),
            "unit": next((unit for part, unit in UNITS.items() if part in metric), ""),
            "kernel": kernel,
            "code_hash": code,
        }
        for metric, value in scaled.totals.items()
    ]
