"""The least cycles that each resource of a GPU needs for a kernel, and estimates next to them: rows of bounds.csv."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from experiments.emulation.scaling import Scaled
from experiments.stages.machine_code import code_of
from kernels.catalogue import Variant
from kernels.problem import ProblemSpec
from ptxsim.count import bounds
from ptxsim.count.machines import Machine
from ptxsim.ptx import sass


def compute(variant: Variant, kernel: ptxsim.Kernel, cubin: Path, scaled: Scaled, machine: Machine) -> bounds.Bounds:
    """The bounds on a launch. Raises `UserError` where ptxsim cannot tell them."""
    with launching.refusals():
        return bounds.compute(sass.read(cubin, kernel.name), kernel.program, scaled.work, machine, variant.shared_bytes)


def rows(
    variant: Variant, problem: ProblemSpec, kernel: ptxsim.Kernel, cubin: Path, scaled: Scaled, machine: Machine
) -> list[dict[str, Any]]:
    """For one problem. Raises `UserError` where there can be none."""
    found = compute(variant, kernel, cubin, scaled, machine)
    if found.unrated:
        raise UserError(f"{variant.name}: no rate is known for {', '.join(found.unrated)}")
    shape = {"variant": variant.name, **problem.row, "gpu": machine.name}
    entries = [(b.resource, b.cycles_per_sm, b.amount, b.unit) for b in (*found.bounds, *found.estimates)]
    entries.append(("tail", found.tail, found.waves, "waves"))
    return [
        {**shape, "resource": resource, "minimum_cycles": cycles, "amount": amount, "unit": unit}
        | {"disagreement": found.disagreement, "code_hash": code_of(variant, cubin.parent)}
        for resource, cycles, amount, unit in entries
    ]
