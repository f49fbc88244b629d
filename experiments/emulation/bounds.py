"""Computes the minimum cycles that each resource of a GPU needs for a kernel, and estimates next to
them: rows of bounds.csv.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from experiments.stages.machine_code import code_of
from kernels.catalogue import Variant
from kernels.problem import ProblemSpec
from ptxsim.count import bounds
from ptxsim.count.machines import Machine
from ptxsim.count.prediction import Prediction
from ptxsim.ptx import sass


def rows(
    variant: Variant,
    problem: ProblemSpec,
    kernel: ptxsim.Kernel,
    cubin: Path,
    predicted: Prediction,
    gpu: Machine,
) -> list[dict[str, Any]]:
    """Return the rows of one problem, without units whose work only an estimate tells.

    Raises `UserError` where ptxsim cannot tell any bound, or knows no rate.
    """
    with launching.refusals():
        code, work = sass.read(cubin, kernel.name), predicted.work
        result = bounds.compute(code, kernel.program, work, gpu, variant.shared_bytes)
    if result.unrated:
        raise UserError(f"{variant.name}: no rate is known for {', '.join(result.unrated)}")
    modelled = [estimate for estimate in result.estimates if estimate.resource in bounds.ESTIMATES]
    units = [(b.resource, b.cycles_per_sm, b.amount, b.unit) for b in (*result.bounds, *modelled)]
    shape = {"variant": variant.name, **problem.row, "gpu": gpu.name}
    code_hash = code_of(variant, cubin.parent)
    return [
        {**shape, "resource": resource, "minimum_cycles": cycles, "amount": amount, "unit": unit}
        | {"disagreement": result.disagreement, "code_hash": code_hash}
        for resource, cycles, amount, unit in [*units, ("tail", result.tail, result.waves, "waves")]
    ]
