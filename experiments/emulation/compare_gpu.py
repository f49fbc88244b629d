"""Runs one variant on the GPU and on ptxsim with the same inputs, and compares the two results bit by bit.

    python -m experiments.emulation.compare_gpu sgemm_warptile --build-dir results/build/sm_90a --out agreement.csv

In fp32 the program states the order of every addition, so that the two must be equal in every bit. What the tensor
cores do inside one mma is not documented: there the two may differ by what both bounds of `experiments.stages.verify`
allow.
"""

from __future__ import annotations

import argparse
import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, write_rows
from experiments.command_line import add_build_dir, add_variant
from experiments.emulation.device import EmulatedDevice
from experiments.stages import verify
from experiments.stages.cases import OTHER_ALPHA, OTHER_BETA, Case, cases
from experiments.stages.check import Device, Inputs, inside, leased_gpu, prepare
from kernels import catalogue
from kernels.catalogue import Problem, Variant

logger = logging.getLogger(__name__)

FLOP = 2**26  # a case up to this size takes the emulator about a second


def chosen(variant: Variant) -> list[Case]:
    """The cases that both run: those with every kind of scalar, padded rows and odd shapes, up to `FLOP`."""
    return [
        case
        for case in cases(variant)
        if not case.refused
        and case.problem.flop <= FLOP
        and (case.problem.alpha, case.problem.beta) in ((1.0, 0.0), (OTHER_ALPHA, OTHER_BETA))
    ]


def compare(
    p: Problem, dtype: str, a: np.ndarray, b: np.ndarray, c0: np.ndarray, one: np.ndarray, other: np.ndarray
) -> tuple[int, float | None]:
    """How many elements differ in any bit, and the largest difference as a share of twice the rounding bound.

    Twice, since the two may lie on either side of the exact result. None where a difference is not finite.
    """
    bits = np.dtype(f"u{one.dtype.itemsize}")
    differing = int((one.view(bits) != other.view(bits)).sum())
    if not differing:
        return 0, 0.0
    x, y = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        allowed = 2.0 * verify.bound(p, dtype, y, verify.magnitude(p, a, b, c0))
        worst = float((np.abs(x - y) / allowed).max())
    return differing, worst if np.isfinite(worst) else None


def agree(variant: Variant, gpu: AbstractContextManager[Device], emulator: Device, seed: int) -> list[dict[str, Any]]:
    """Rows of agreement.csv. The GPU is held only while it runs, after the emulator has."""
    todo = chosen(variant)
    prepared = [prepare(variant, case, seed + number) for number, case in enumerate(todo)]
    emulated = [result(emulator, variant, inputs) for inputs in prepared]
    with gpu as opened:
        measured = [result(opened, variant, inputs) for inputs in prepared]
    table = []
    for number, (inputs, one, other) in enumerate(zip(prepared, measured, emulated, strict=True)):
        p = inputs.case.problem
        differing, worst = compare(p, variant.dtype, inputs.a, inputs.b, inputs.c0, one, other)
        right = differing == 0 if variant.dtype == "fp32" else worst is not None and worst <= 1.0
        row: dict[str, Any] = {"variant": variant.name, "dtype": variant.dtype, "case": inputs.case.name}
        row |= p.numbers | {"seed": seed + number}
        row |= {"elements": p.m * p.n, "differing": differing, "worst_difference_share": worst, "passed": right}
        table.append(row | {"source_hash": variant.source_hash})
    return table


def result(device: Device, variant: Variant, inputs: Inputs) -> np.ndarray:
    """C as the device leaves it."""
    p = inputs.case.problem
    after = device.run(variant, p, inputs.before, inputs.case.offset)
    return inside(after[2], p.m, p.n, p.ldc, inputs.case.offset).copy()


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the GPU's results with the emulator's, bit by bit.")
    add_variant(parser)
    add_build_dir(parser)
    parser.add_argument("--seed", type=int, help="of the first case; drawn afresh when left out")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    variant = catalogue.find(options.variant)
    if not isinstance(variant, Variant):
        raise UserError(f"{variant.name} is no kernel: there is no PTX to run")
    seed = options.seed if options.seed is not None else verify.fresh_seed()
    table = agree(variant, leased_gpu(options.build_dir), EmulatedDevice(options.build_dir), seed)
    differing, elements = (sum(row[key] for row in table) for key in ("differing", "elements"))
    logger.info(f"{variant.name}: {differing} of {elements} elements differ from the GPU's")
    write_rows(options.out, "agreement", table)


if __name__ == "__main__":
    run_command(main)
