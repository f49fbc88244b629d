"""Runs catalogue entries for a profiler, one after the other: what `experiments.stages.profile`
starts under ncu.

    python -m experiments.stages.profile_target sgemm_warptile --problem 4096 --build-dir results/build/sm_90a

Each entry runs once before it is profiled. In the profile, the harness's kernel `next_entry` stands
before a library's launches, and after them (`experiments.stages.profile.marked`). The GPU is held
from the first entry to the last.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from contracts import UserError, run_command
from experiments.command_line import add_build_dir, add_kernel, add_problems, find_kernel
from experiments.gpu.device import Gpu, cuda
from experiments.gpu.fastest_call import FastestCall, by_events
from experiments.gpu.libraries import bind_for_timing, import_early, load_gemm
from experiments.gpu.session import Session
from experiments.gpu.worker import LIMIT_S
from experiments.stages.library_calls import LibraryCalls
from experiments.stages.profile import MARK, marked
from experiments.stages.store import Store
from kernels.catalogue import Catalogue, Entry
from kernels.problem import ProblemSpec

HUNG = 70  # exit code


class Target:
    """Entries on one problem, on one GPU."""

    def __init__(
        self, problem: ProblemSpec, build_dir: Path, store: Path | None, entries: Catalogue
    ) -> None:
        self.problem, self.build_dir, self.store, self.entries = problem, build_dir, store, entries
        self.session, self._gpu = Session(), list[Gpu]()

    def run(self, entry: Entry, mark: bool) -> dict[str, Any]:
        """Run it once, and once more for the profiler, after the mark or not; its name, and what
        the GPU is called.
        """
        # what hangs in a CUDA call heeds no signal
        hangs = threading.Timer(LIMIT_S, os._exit, [HUNG])
        hangs.start()
        try:
            self._gpu = self._gpu or [Gpu(self.build_dir)]
            self._profile(self._gpu[0], entry, mark)
        finally:
            hangs.cancel()
        return {"variant": entry.name, "session": self.session.name}

    def _profile(self, gpu: Gpu, entry: Entry, mark: bool) -> None:
        problem = self.problem.of(entry.b_layout)
        matrices = [
            gpu.filled(entry.types.of(matrix), rows * ld, seed, "uniform")
            for seed, (matrix, (rows, _, ld)) in enumerate(problem.stored.items(), start=1)
        ]
        gemm = load_gemm(gpu, entry)
        if self.store and isinstance(gemm, FastestCall):
            LibraryCalls(Store(self.store), self.entries, self.build_dir).known(gemm, problem)
        a, b, c = (memory.address for memory in matrices)
        work = bind_for_timing(gemm, problem, a, b, c, by_events)
        work()
        gpu.sync()
        cuda(driver.cuProfilerStart())
        if mark:
            gpu.harness(MARK, 1, 1)
        work()
        gpu.sync()
        cuda(driver.cuProfilerStop())


def main() -> None:
    parser = argparse.ArgumentParser(description="Run catalogue entries under a profiler.")
    add_kernel(parser)
    parser.add_argument(
        "--then", nargs="+", default=[], metavar="VARIANT", help="further entries of the catalogue"
    )
    add_problems(parser, "of which each entry runs the first", required=True)
    parser.add_argument("--done", type=Path, help="written: a line of JSON for each entry that ran")
    add_build_dir(parser)
    parser.add_argument("--store", type=Path, help="with the library calls that were found")
    options = parser.parse_args()
    entries = [find_kernel(options), *map(options.catalogue.find, options.then)]
    for entry in entries:
        import_early(entry)
    target = Target(options.problem[0], options.build_dir, options.store, options.catalogue)
    with target.session.held():
        for entry, mark in zip(entries, marked(entries), strict=True):
            try:
                done = target.run(entry, mark)
            except UserError as error:
                raise UserError(f"{entry.name}: {error}") from error
            if options.done:
                with options.done.open("a") as file:
                    print(json.dumps(done), file=file)


if __name__ == "__main__":
    run_command(main)
