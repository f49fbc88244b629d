"""One run of the emulator for a kernel: predictions of its counters, bounds on its cycles, widths of its shared accesses.

    python -m experiments.emulation sgemm_warptile --size 4096 --build-dir results/build/sm_90a --out-dir warptile

writes predictions.csv, bounds.csv and shared_widths.csv. Where small launches do not foretell a large one, the first two
have no rows for that size, and the reason is told. A dispatcher has the predictions of the kernel that it picks.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from contracts import UserError, run_command, write_rows
from experiments.emulation import bounds, launching, predictions, scaling, widths
from kernels import catalogue
from kernels.catalogue import Baseline, Problem, Runnable, Variant
from ptxsim import PtxsimError, machines

Tables = dict[str, list[dict[str, Any]]]


def tables(entry: Runnable, sizes: list[int], build_dir: Path, machine: machines.Machine) -> Tables:
    """Rows of each table by its schema's name; what is left out is told on stderr."""
    found: Tables = {"predictions": [], "bounds": [], "shared_widths": []}
    kernels = {v.name: launching.load(v, build_dir) for v in _run(entry, sizes)}
    for size in sizes:
        try:
            variant = entry.pick(Problem.square(size))
            kernel, cubin = kernels[variant.name], build_dir / f"{variant.name}.cubin"
            scaled = scaling.emulate(kernel, variant, size)
            found["predictions"] += predictions.rows(entry, size, kernel.name, scaled)
            if isinstance(entry, Variant):
                found["bounds"] += bounds.rows(variant, size, kernel, cubin, scaled, machine)
        except UserError as reason:
            print(f"{entry.name}, n = {size}, left out: {reason}", file=sys.stderr)
    if isinstance(entry, Variant):
        found["shared_widths"] = widths.rows(entry.name, kernels[entry.name], build_dir / f"{entry.name}.cubin")
    return found


def _run(entry: Runnable, sizes: list[int]) -> list[Variant]:
    """The kernels that run these sizes, each once; a variant itself in any case."""
    problems = [Problem.square(size) for size in sizes]
    picked = [entry.pick(problem) for problem in problems if entry.refusal(problem) is None]
    return [entry] if isinstance(entry, Variant) else list({v.name: v for v in picked}.values())


def main() -> None:
    parser = argparse.ArgumentParser(description="Run one variant on the emulator, and tell what that shows.")
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")
    parser.add_argument("--size", type=int, nargs="*", default=[], metavar="N", help="of m = n = k; none: only widths")
    parser.add_argument("--build-dir", required=True, type=Path, help="holds NAME.ptx and NAME.cubin")
    parser.add_argument("--machine", default="h200", help="whose rates bounds have: one of ptxsim's, or a .toml file")
    parser.add_argument("--out-dir", required=True, type=Path)
    options = parser.parse_args()
    entry = catalogue.find(options.variant)
    if isinstance(entry, Baseline):
        raise UserError(f"{entry.name} is a library baseline: there is no PTX to run")
    try:
        machine = machines.find(options.machine)
    except PtxsimError as error:
        raise UserError(str(error)) from error
    for name, rows in tables(entry, options.size, options.build_dir, machine).items():
        write_rows(options.out_dir / f"{name}.csv", "counters" if name == "predictions" else name, rows)


if __name__ == "__main__":
    run_command(main)
