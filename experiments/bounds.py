"""The least cycles that each resource of a GPU needs for one variant, without a GPU: rows of bounds.csv.

    python -m experiments.bounds sgemm_warptile --size 4096 --build-dir results/build/sm_90a --machine h200 \
        --out bounds.csv

Counts come from small launches on ptxsim, as in `experiments.predict`; where they do not foretell those of a larger
one, the table has no rows, and the reason is told.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import ptxsim
from contracts import UserError, run_command, write_rows
from experiments.predict import STRETCH, TILES, launch
from kernels import catalogue
from kernels.catalogue import Problem, Variant
from ptxsim import bounds, machines, sass
from ptxsim.counters import Counters, is_linear, scaled

FEW, MORE, MOST = 3, 4, 5  # stretches of k: the first two foretell the third


def observe(kernel: ptxsim.Kernel, variant: Variant, problem: Problem) -> bounds.Work:
    """What one launch asks of the GPU."""
    counters, traffic = Counters(), bounds.Traffic()
    launch(kernel, variant, problem, [counters, traffic])
    return bounds.Work.observed(counters, traffic)


def large_work(kernel: ptxsim.Kernel, variant: Variant, size: int) -> bounds.Work:
    """What m = n = k = `size` asks, from launches of 2 x 2 tiles. Raises `UserError` where those do not tell."""
    large = Problem.square(size)
    if reason := variant.refusal(large):
        raise UserError(reason)
    stretch = math.lcm(variant.tile["k"], STRETCH)
    m, n = (TILES * variant.tile[axis] for axis in "mn")
    if size % stretch or size % m or size % n:
        raise UserError(f"{variant.name}: size = {size} is not made of whole tiles and stretches of k = {stretch}")
    runs = {s: observe(kernel, variant, Problem(m, n, s * stretch, size, size, size)) for s in (FEW, MORE, MOST)}
    names = {name: 0.0 for run in runs.values() for name in run.counts}
    counts = {s: names | run.counts for s, run in runs.items()}
    small, blocks = runs[FEW].blocks, math.prod(variant.grid(large))
    if not is_linear(scaled(counts[FEW], counts[MORE], (FEW, MORE), small, MOST, small), counts[MOST]):
        raise UserError(f"{variant.name}: its counts do not grow linearly with k, so those of {size} cannot be told")
    totals = scaled(counts[FEW], counts[MORE], (FEW, MORE), small, size // stretch, blocks)
    # Blocks of a row share A, those of a column share B: sectors of the launch grow with its area, not with its blocks.
    # An element of A and one of B being read alike, those of a step of k grow with m + n, and the rest with m n.
    step = (counts[MORE]["sectors"] - counts[FEW]["sectors"]) / stretch
    rest = counts[FEW]["sectors"] - step * FEW * stretch
    totals["sectors"] = step * size * 2 * size / (m + n) + rest * size * size / (m * n)
    return bounds.Work(blocks, variant.threads, totals)


def rows(variant: Variant, size: int, build_dir: Path, machine: machines.Machine) -> list[dict[str, Any]]:
    """Rows of bounds.csv for m = n = k = `size`. Raises `UserError` where there can be none."""
    try:
        cubin = build_dir / f"{variant.name}.cubin"
        kernel = ptxsim.load(build_dir / f"{variant.name}.ptx", cubin=cubin)
        function = sass.read(cubin, kernel.name)
        work = large_work(kernel, variant, size)
        found = bounds.compute(function, kernel.program, work, machine, variant.shared_bytes)
    except ptxsim.PtxsimError as error:
        raise UserError(f"ptxsim: {error}") from error
    if found.unrated:
        raise UserError(f"{variant.name}: no rate is known for {', '.join(found.unrated)}")
    shape = {"variant": variant.name, "m": size, "n": size, "k": size, "machine": machine.name}
    told = [(b.resource, b.cycles_per_sm, b.amount, b.unit) for b in found.bounds]
    told.append(("tail", found.tail, found.waves, "waves"))
    told.append(("register_rule", found.by_rule, found.instructions, "instructions"))
    return [
        {**shape, "resource": resource, "cycles_per_sm": cycles, "amount": amount, "unit": unit}
        | {"disagreement": found.disagreement, "source_hash": variant.source_hash}
        for resource, cycles, amount, unit in told
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Bounds on a variant's cycles, from counts alone.")
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")
    parser.add_argument("--size", type=int, required=True, help="m = n = k")
    parser.add_argument("--build-dir", required=True, type=Path, help="holds NAME.ptx and NAME.cubin")
    parser.add_argument("--machine", default="h200", help="one of ptxsim's machines, or a .toml file")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    variant = catalogue.find(options.variant)
    if not isinstance(variant, Variant):
        raise UserError(f"{variant.name} is a library baseline: there is no code to count")
    try:
        machine = machines.find(options.machine)
    except ptxsim.PtxsimError as error:
        raise UserError(str(error)) from error
    try:
        found = rows(variant, options.size, options.build_dir, machine)
    except UserError as reason:
        print(f"bounds left out: {reason}", file=sys.stderr)
        found = []
    write_rows(options.out, "bounds", found)


if __name__ == "__main__":
    run_command(main)
