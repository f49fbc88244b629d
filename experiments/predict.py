"""Predicts the hardware counters of one variant on ptxsim, without a GPU: rows of predictions.csv.

    python -m experiments.predict sgemm_warptile --size 4096 --build-dir results/build/sm_90a --out predictions.csv

Counts follow the cubin where ptxas merged shared accesses; `experiments.widths` says where a rule would err.
A grid of 2 x 2 tiles runs with three and with four stretches of k, in matrices as wide as the large problem's; where a
run of five comes out as those two foretell, every block does the same and every stretch costs the same, and the counts
of the large problem follow. Where they do not, the table has no rows, and the reason is told.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from contracts import UserError, run_command, write_rows
from kernels import arguments, catalogue
from kernels.catalogue import TEXTURE_ALIGNMENT, Baseline, Problem, Runnable, Variant
from ptxsim.counters import Counters, is_linear, scaled

TILES = 2  # of C in each direction
STRETCH = 32  # of k, or the least multiple of the variant's k-step from there: unrolled loops must come round
UNITS = {"inst_executed": "inst", "bytes_per_sector": "byte/sector", "sectors": "sector"}


def emulated_texture(matrix: ptxsim.Array, nbytes: int) -> ptxsim.Texture:
    """What `experiments.gpu.device.Texture` is on the GPU; the matrix ends where it does."""
    return ptxsim.Texture(matrix, 4, TEXTURE_ALIGNMENT, nbytes)


def launch(kernel: ptxsim.Kernel, variant: Variant, problem: Problem, observers: list[ptxsim.Observer]) -> None:
    """One launch, observed. The values of the matrices do not matter."""
    p = problem
    element = {"bf16": np.uint16}.get(variant.dtype, np.dtype(f"f{4 if variant.dtype in ('fp32', 'tf32') else 2}"))
    a, b, c = (
        ptxsim.Array(np.zeros(rows * ld, element), name)
        for name, rows, ld in (("A", p.m, p.lda), ("B", p.k, p.ldb), ("C", p.m, p.ldc))
    )
    packed = arguments.pack(variant, p, a, b, c, emulated_texture)
    kernel.launch(variant.grid(p), variant.threads, packed, variant.shared_bytes, observers, checks=False)


def count(kernel: ptxsim.Kernel, variant: Variant, problem: Problem) -> dict[str, float]:
    """The totals of one launch, under ncu's names."""
    counters = Counters()
    launch(kernel, variant, problem, [counters])
    return counters.totals()


def predict(entry: Runnable, size: int, build_dir: Path) -> list[dict[str, Any]]:
    """Rows of predictions.csv for m = n = k = `size`; of a dispatcher, those of the kernel that it picks.

    Raises `UserError` where the counts of small launches do not add up to those of a larger one.
    """
    large = Problem.square(size)
    variant = entry.pick(large)
    stretch = math.lcm(variant.tile["k"], STRETCH)
    if size % stretch or any(size % (TILES * variant.tile[axis]) for axis in "mn"):
        raise UserError(f"{variant.name}: size = {size} is not made of whole tiles and stretches of k = {stretch}")
    m, n = TILES * variant.tile["m"], TILES * variant.tile["n"]
    try:
        stem = build_dir / variant.name
        kernel = ptxsim.load(stem.with_suffix(".ptx"), cubin=stem.with_suffix(".cubin"))
        runs = {s: count(kernel, variant, Problem(m, n, s * stretch, size, size, size)) for s in (3, 4, 5)}
    except ptxsim.PtxsimError as error:
        raise UserError(f"ptxsim: {error}") from error
    blocks = TILES * TILES
    if not is_linear(scaled(runs[3], runs[4], (3, 4), blocks, 5, blocks), runs[5]):
        raise UserError(f"{variant.name}: its counts do not grow linearly with k, so those of {size} cannot be told")
    totals = scaled(runs[3], runs[4], (3, 4), blocks, size // stretch, math.prod(variant.grid(large)))
    shape = {"variant": entry.name, "m": size, "n": size, "k": size}
    return [
        {
            **shape,
            "metric": metric,
            "value": float(value),
            "unit": next((unit for part, unit in UNITS.items() if part in metric), ""),
            "kernel": kernel.name,
            "source_hash": entry.source_hash,
        }
        for metric, value in totals.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Predict hardware counters on ptxsim.")
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")
    parser.add_argument("--size", type=int, required=True, help="m = n = k")
    parser.add_argument("--build-dir", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    entry = catalogue.find(options.variant)
    if isinstance(entry, Baseline):
        raise UserError(f"{entry.name} is a library baseline: there is no PTX to run")
    try:
        rows = predict(entry, options.size, options.build_dir)
    except UserError as reason:
        print(f"prediction left out: {reason}", file=sys.stderr)
        rows = []
    write_rows(options.out, "counters", rows)


if __name__ == "__main__":
    run_command(main)
