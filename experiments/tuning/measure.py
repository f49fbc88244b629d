"""Measures configurations of a sweep on the held GPU, in the process of a `Worker`
(`experiments.gpu.worker`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError
from experiments.gpu.device import CatalogueKernel, Gpu
from experiments.gpu.libraries import load_gemm
from experiments.gpu.timing import Stopwatch, warm_up
from experiments.gpu.worker import Watch
from experiments.stages.cases import Case, cases
from experiments.stages.check import GpuDevice, run_case
from experiments.stages.turns import LEAST_KEPT, Matrices, check_output, take_turns
from experiments.tuning.space import Sweep
from kernels import catalogue
from kernels.catalogue import Problem, Variant

# Of experiments.stages.cases: 2 x 2 tiles, 3 k-steps, alpha and beta not 0 or 1
CASE = "leading dimensions beyond the row"
WARM_UP_S = 1.0  # cuBLAS, once
# a configuration and cuBLAS, before its samples
STEADY_S, STEADY_MOST_S, STEADY_CHUNK_S = 0.03, 0.15, 0.03


def sweep_case(variant: Variant) -> Case:
    """The one correctness case of a configuration."""
    return next(case for case in cases(variant) if case.name == CASE)


class GpuMeasurer:
    """One configuration after the other alternating with cuBLAS, on the same matrices.

    Use inside `session()`.
    """

    def __init__(self, sweep: Sweep, harness_dir: Path, build_dir: Path) -> None:
        self.device = GpuDevice(harness_dir)
        self.gpu = self.device.gpu
        self.gpu.build_dir = build_dir  # the harness is loaded; configurations come from here
        swept = catalogue.load().kernels[next(iter(sweep.kernels))]
        baseline = catalogue.load()[swept.baseline]
        self.matrices = Matrices.fill(
            self.gpu, Problem.square(sweep.size, swept.b_layout), swept.types, sweep.data
        )
        self.stopwatch = Stopwatch(
            self.gpu, 2 * max(sweep.samples, sweep.final_samples), sweep.flush_l2
        )
        self.library = load_gemm(self.gpu, baseline)  # keeps its handle
        self.cublas = self.matrices.bind(self.library, "baseline")
        warm_up(self.gpu, self.cublas, WARM_UP_S)
        result = check_output(self.gpu, self.matrices, "baseline", self.cublas)
        if not result.passed:
            raise UserError(
                f"{baseline.name} failed its check at size = {sweep.size}: {result.detail}"
            )

    def measure(self, variant: Variant, samples: int) -> dict[str, Any]:
        """The columns `round` to `checked` of tuning.csv, without `round`; `reason` says what
        failed.
        """
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
            return {
                "checked": True,
                "reason": f"launch gaps spoilt {gaps} of {len(turns.roles)} samples",
            }
        time_us = float(np.median(of_us.time_us))
        return {
            "checked": True,
            "reason": None,
            "samples": len(of_us.time_us),
            "time_us": time_us,
            "tflops": self.matrices.problem.flop / time_us / 1e6,
            "fraction_of_cublas": float(np.median(of_cublas.time_us)) / time_us,
            "sm_clock_mhz": float(np.median(of_us.sm_clock_mhz)),
        }


@contextlib.contextmanager
def opened(
    sweep: Sweep, harness_dir: Path, build_dir: Path, watch: Watch
) -> Iterator[Callable[[tuple[Variant, int]], dict[str, Any]]]:
    """For a `Worker` whose items are (variant, samples): measures them as `GpuMeasurer.measure`
    does.
    """
    with watch.holding():
        measurer = GpuMeasurer(sweep, harness_dir, build_dir)

    def measure(item: tuple[Variant, int]) -> dict[str, Any]:
        row = None
        with watch.holding():
            try:
                row = measurer.measure(*item)
            finally:
                if row is None or row["reason"]:
                    watch.spoilt = _spoilt(measurer.gpu)
        return row

    yield measure


def _spoilt(gpu: Gpu) -> bool:
    """Whether a kernel has spoilt the context."""
    try:
        gpu.sync()
    except UserError:
        return True
    return False
