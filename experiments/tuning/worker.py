"""Measures configurations of a sweep on the leased GPU, in a process of its own.

A kernel that faults takes its CUDA context with it, and one that hangs its process. Here that costs one row: the
process is replaced, and the sweep goes on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from cuda.core._utils.cuda_utils import CUDAError

from contracts import UserError
from experiments.gpu.device import CatalogueKernel
from experiments.gpu.libraries import load_gemm
from experiments.gpu.timing import Stopwatch, warm_up
from experiments.stages.cases import Case, cases
from experiments.stages.check import GpuDevice, run_case
from experiments.stages.turns import LEAST_KEPT, Matrices, check_output, take_turns
from experiments.tuning.space import Sweep
from kernels import catalogue
from kernels.catalogue import Problem, Variant

START_S, MEASURE_S = 120.0, 60.0  # longer than this: it hangs
# Of experiments.stages.cases: 2 x 2 tiles, 3 k-steps, alpha and beta not 0 or 1
CASE = "leading dimensions beyond the row"
WARM_UP_S = 1.0  # cuBLAS, once
STEADY_S, STEADY_MOST_S, STEADY_CHUNK_S = 0.03, 0.15, 0.03  # a configuration and cuBLAS, before its samples


def sweep_case(variant: Variant) -> Case:
    """The one correctness case of a configuration."""
    return next(case for case in cases(variant) if case.name == CASE)


class GpuMeasurer:
    """One configuration after the other alternating with cuBLAS, on the same matrices. Use inside `lease()`."""

    def __init__(self, sweep: Sweep, harness_dir: Path, build_dir: Path) -> None:
        self.device = GpuDevice(harness_dir)
        self.gpu = self.device.gpu
        self.gpu.build_dir = build_dir  # the harness is loaded; configurations come from here
        swept = catalogue.load().kernels[next(iter(sweep.kernels))]
        baseline = catalogue.load()[swept.baseline]
        self.matrices = Matrices.fill(self.gpu, Problem.square(sweep.size, swept.b_layout), swept.types, sweep.data)
        self.stopwatch = Stopwatch(self.gpu, 2 * max(sweep.samples, sweep.final_samples), sweep.flush_l2)
        self.library = load_gemm(self.gpu, baseline)  # keeps its handle
        self.cublas = self.matrices.bind(self.library, "baseline")
        warm_up(self.gpu, self.cublas, WARM_UP_S)
        result = check_output(self.gpu, self.matrices, "baseline", self.cublas)
        if not result.passed:
            raise UserError(f"{baseline.name} failed its check at size = {sweep.size}: {result.detail}")

    def measure(self, variant: Variant, samples: int) -> dict[str, Any]:
        """The columns `round` to `checked` of tuning.csv, without `round`; `reason` says what failed."""
        case = sweep_case(variant)
        result = run_case(self.device, variant, case, self.matrices.seed)
        if not result.passed:
            return {"checked": False, "reason": f"check, {case.name}: {result.detail}"}
        kernel = CatalogueKernel(self.gpu, variant)  # stays loaded until this ends
        ours = self.matrices.bind(kernel, "variant")

        def pair() -> None:
            ours()
            self.cublas()

        warm_up(self.gpu, pair, STEADY_S, STEADY_MOST_S, STEADY_CHUNK_S)
        self.matrices.poison(self.gpu, "variant")  # what is checked below was written by timed runs
        works = {"variant": ours, "baseline": self.cublas}
        turns = take_turns(self.stopwatch, works, samples, self.matrices.seed)
        result = check_output(self.gpu, self.matrices, "variant", ours)
        if not result.passed:
            return {"checked": False, "reason": f"check after timing: {result.detail}"}
        of_us, of_cublas = (turns.of(role) for role in works)
        if min(len(of_us.time_us), len(of_cublas.time_us)) < LEAST_KEPT:
            gaps = int((~turns.samples.kept).sum())
            return {"checked": True, "reason": f"launch gaps spoilt {gaps} of {len(turns.roles)} samples"}
        time_us = float(np.median(of_us.time_us))
        return {
            "checked": True,
            "reason": None,
            "samples": len(of_us.time_us),
            "time_us": time_us,
            "tflops": self.matrices.problem.flop / time_us / 1e6,
            "share_of_cublas": float(np.median(of_cublas.time_us)) / time_us,
            "sm_clock_mhz": float(np.median(of_us.sm_clock_mhz)),
        }


def _serve(pipe: Connection, sweep: Sweep, harness_dir: Path, build_dir: Path) -> None:
    """The process: answers None once it is ready, then each (variant, samples) with (columns, is it alive)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent heeds Ctrl-C, and closes the pipe
    try:
        measurer = GpuMeasurer(sweep, harness_dir, build_dir)
    except (UserError, CUDAError) as error:
        pipe.send(str(error))
        return
    pipe.send(None)
    while True:
        try:
            variant, samples = pipe.recv()
        except EOFError:
            return
        lives = True
        try:
            row = measurer.measure(variant, samples)
        except (UserError, CUDAError) as error:
            row = {"checked": None, "reason": f"run: {error}"}
        if row["reason"]:
            try:
                measurer.gpu.sync()
            except UserError:
                lives = False
        pipe.send((row, lives))
        if not lives:
            return


class Worker:
    """A `GpuMeasurer` in a process of its own, replaced when it is lost. Has the same `measure`."""

    def __init__(self, sweep: Sweep, harness_dir: Path, build_dir: Path) -> None:
        self.arguments = (sweep, harness_dir, build_dir)
        self.process: Any = None
        self.pipe: Any = None

    def measure(self, variant: Variant, samples: int) -> dict[str, Any]:
        """See `GpuMeasurer.measure`. Raises `UserError` where no process can start."""
        if self.process is None:
            self._start()
        try:
            self.pipe.send((variant, samples))
            if not self.pipe.poll(MEASURE_S):
                self.close()
                return {"checked": None, "reason": f"run: no result within {MEASURE_S:.0f} s"}
            row: dict[str, Any]
            row, lives = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            code = self.process.exitcode
            self.close()
            return {"checked": None, "reason": f"run: the measuring process ended (exit code {code})"}
        if not lives:
            self.close()
        return row

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process that uses threads may hang
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, *self.arguments), daemon=True)
        self.process.start()
        theirs.close()
        try:
            trouble = self.pipe.recv() if self.pipe.poll(START_S) else f"not ready within {START_S:.0f} s"
        except EOFError:
            trouble = "it ended before it was ready"
        if trouble is not None:
            self.close()
            raise UserError(f"the measuring process cannot start: {trouble}")

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.pipe.close()
            self.process.join(2)
            with contextlib.suppress(OSError):
                self.process.kill()
            self.process.join()
            self.process = None
