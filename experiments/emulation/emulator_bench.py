"""Times ptxsim on each kernel: its check case, and how the time grows with the grid.

    python -m experiments.emulation.emulator_bench --build-dir results/build/sm_90a --out emulator_bench.csv \
        [VARIANT ...]

The first row of a kernel is m = n = 256, k = 64 (or the next whole tiles); then the grid doubles along n, three times.
One process, one thread; the peak of its memory is that since its start.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from contracts import run_command, write_rows
from experiments.command_line import add_build_dir
from experiments.emulation.launching import FEW_SMS, Arguments, refusals
from experiments.stages.cases import packed
from kernels import arguments, catalogue
from kernels.catalogue import Problem, Variant

CHECK = {"m": 256, "n": 256, "k": 64}
GROWTH = (1, 2, 4, 8)


class Executed(ptxsim.Observer):
    """Counts instructions executed by warps."""

    def __init__(self) -> None:
        self.warps = 0

    def executed(self, instruction: object, warps: int) -> None:
        self.warps += warps


def problem(variant: Variant, factor: int) -> Problem:
    """The check case, `factor` times as wide."""
    m, n, k = (-(-size // variant.tile[axis]) * variant.tile[axis] for axis, size in CHECK.items())
    return packed(variant, m, n * factor, k)


def launch(kernel: ptxsim.Kernel, variant: Variant, p: Problem, observers: list[ptxsim.Observer]) -> float:
    """Seconds of one launch on random matrices."""
    rng = np.random.default_rng(0)
    matrices = {
        name: ptxsim.Array(rng.uniform(-1, 1, (rows, columns)).astype(variant.types.of(name).numpy), name)
        for name, (rows, columns, _) in p.stored.items()
    }
    grid = variant.grid(p, FEW_SMS)
    packed = arguments.pack(variant.arguments, p, matrices, math.prod(grid), Arguments())
    began = time.perf_counter()
    kernel.launch(grid, variant.threads, packed, variant.shared_bytes, observers)
    return time.perf_counter() - began


def rows_of(name: str, build_dir: Path) -> list[dict[str, Any]]:
    """Rows of emulator_bench.csv of one kernel."""
    variant = catalogue.load().kernels[name]
    table = []
    with refusals():
        began = time.perf_counter()
        kernel = ptxsim.load(build_dir / f"{name}.ptx")
        load_s = time.perf_counter() - began
        executed = Executed()
        launch(kernel, variant, problem(variant, 1), [executed])
        for factor in GROWTH:
            p = problem(variant, factor)
            run_s = launch(kernel, variant, p, [])
            lanes = 32 * executed.warps * factor
            table.append(
                {
                    "variant": name,
                    "m": p.m,
                    "n": p.n,
                    "k": p.k,
                    "blocks": math.prod(variant.grid(p, FEW_SMS)),
                    "load_s": load_s,
                    "run_s": run_s,
                    "lane_instructions": lanes,
                    "lane_instructions_per_s": lanes / run_s,
                    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the emulator on the catalogue's kernels.")
    parser.add_argument("variants", nargs="*", help="names in kernels/catalogue.yaml; all kernels, if none is given")
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path, help="written: emulator_bench.csv")
    options = parser.parse_args()
    table = []
    print(f"{'kernel':34s} {'load s':>7s} {'run s at 1, 2, 4, 8 times the grid':>36s} {'lane-instr/s':>14s}")
    for name in options.variants or options.catalogue.kernels:
        rows = rows_of(name, options.build_dir)
        times = " ".join(f"{row['run_s']:8.3f}" for row in rows)
        print(
            f"{name:34s} {rows[0]['load_s']:7.3f} {times:>36s} {rows[-1]['lane_instructions_per_s']:14,.0f}", flush=True
        )
        table += rows
    write_rows(options.out, "emulator_bench", table)


if __name__ == "__main__":
    run_command(main)
