"""Runs one variant on the GPU and on ptxsim with the same inputs, and compares the two results bit by bit.

    python -m experiments.agree sgemm_warptile --build-dir results/build/sm_90a --out agreement.csv

In fp32 the program states the order of every addition, so that the two must be equal in every bit. What the tensor
cores do inside one mma is not documented: there the two may differ by what both bounds of `experiments.verify` allow.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, write_rows
from experiments import verify
from experiments.cases import OTHER_ALPHA, OTHER_BETA, Case, cases
from experiments.check import Device, EmulatedDevice, GpuDevice, guarded, inside
from experiments.lease import lease
from kernels import catalogue
from kernels.catalogue import Problem, Variant

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


def compare(p: Problem, dtype: str, a: np.ndarray, b: np.ndarray, c0: np.ndarray, one: np.ndarray, other: np.ndarray):
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


def agree(variant: Variant, gpu: Device, emulator: Device, seed: int) -> list[dict[str, Any]]:
    """Rows of agreement.csv."""
    table = []
    dtype = verify.NUMPY_DTYPES[variant.dtype]
    for number, case in enumerate(chosen(variant)):
        p, rng = case.problem, np.random.default_rng(seed + number)
        a = verify.random_matrix(rng, p.m, p.k, dtype)
        b = verify.random_matrix(rng, p.k, p.n, dtype)
        c0 = verify.random_matrix(rng, p.m, p.n, dtype)
        buffers = [guarded(x, ld) for x, ld in zip((a, b, c0), (p.lda, p.ldb, p.ldc), strict=True)]
        one, other = (
            inside(device.run(variant, p, buffers, 0)[2], p.m, p.n, p.ldc).copy() for device in (gpu, emulator)
        )
        differing, worst = compare(p, variant.dtype, a, b, c0, one, other)
        right = differing == 0 if variant.dtype == "fp32" else worst is not None and worst <= 1.0
        row = {"variant": variant.name, "dtype": variant.dtype, "case": case.name, **asdict(p), "seed": seed + number}
        row |= {"elements": p.m * p.n, "differing": differing, "worst_difference_share": worst, "passed": right}
        table.append(row | {"source_hash": variant.source_hash})
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the GPU's results with the emulator's, bit by bit.")
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")
    parser.add_argument("--build-dir", required=True, type=Path)
    parser.add_argument("--seed", type=int, help="of the first case; drawn afresh when left out")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    variant = catalogue.find(options.variant)
    if not isinstance(variant, Variant):
        raise UserError(f"{variant.name} is no kernel: there is no PTX to run")
    seed = options.seed if options.seed is not None else int(np.random.SeedSequence().entropy % 2**31)
    with lease():
        table = agree(variant, GpuDevice(options.build_dir), EmulatedDevice(options.build_dir), seed)
    differing, elements = (sum(row[key] for row in table) for key in ("differing", "elements"))
    print(f"{variant.name}: {differing} of {elements} elements differ from the GPU's", file=sys.stderr)
    write_rows(options.out, "agreement", table)


if __name__ == "__main__":
    run_command(main)
