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


def compute(
    variant: Variant, kernel: ptxsim.Kernel, cubin: Path, predicted: Prediction, gpu: Machine
) -> bounds.Bounds:
    """The bounds on a launch. Raises `UserError` where ptxsim cannot tell them."""
    with launching.refusals():
        return bounds.compute(
            sass.read(cubin, kernel.name),
            kernel.program,
            predicted.work,
            gpu,
            variant.shared_bytes,
        )


def rows(
    variant: Variant,
    problem: ProblemSpec,
    kernel: ptxsim.Kernel,
    cubin: Path,
    predicted: Prediction,
    gpu: Machine,
) -> list[dict[str, Any]]:
    """For one problem; without units whose work only an estimate of executions tells. Raises
    `UserError` where there can be none."""
    found = compute(variant, kernel, cubin, predicted, gpu)
    if found.unrated:
        raise UserError(f"{variant.name}: no rate is known for {', '.join(found.unrated)}")
    shape = {"variant": variant.name, **problem.row, "gpu": gpu.name}
    modelled = [estimate for estimate in found.estimates if estimate.resource in bounds.ESTIMATES]
    entries = [(b.resource, b.cycles_per_sm, b.amount, b.unit) for b in (*found.bounds, *modelled)]
    entries.append(("tail", found.tail, found.waves, "waves"))
    return [
        {**shape, "resource": resource, "minimum_cycles": cycles, "amount": amount, "unit": unit}
        | {"disagreement": found.disagreement, "code_hash": code_of(variant, cubin.parent)}
        for resource, cycles, amount, unit in entries
    ]
