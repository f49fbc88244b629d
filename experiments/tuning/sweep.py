"""Times every tile of a grid on the GPU, and prints what to write in kernels/catalogue.yaml.

    python -m experiments.tuning.sweep --arch sm_90a --build-dir results/build/sm_90a --out results/h100/tuning.csv

The grid is tile_autotune.yaml; space.py says what is left out of it and why. All configurations are
built first, on all processors, and stay built for the next sweep. Each is checked with one case and
then interleaved with cuBLAS on the same matrices. Their order is drawn at random, so that a drift
of the clock does not look like an effect of the tile. The best of each kernel are timed again with
more samples, and the fastest of these wins. A further size is a sweep of its own after that.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, read_json, run_command, write_rows
from contracts.rows import Resources, Tuning
from experiments.gpu.device import CatalogueKernel
from experiments.gpu.libraries import load_gemm
from experiments.gpu.session import require_gpu, session
from experiments.gpu.timing import Stopwatch, warm_up
from experiments.gpu.worker import Failure, Watch, work_through
from experiments.stages import build, toolchain
from experiments.stages.cases import Case, cases
from experiments.stages.check import GpuDevice, run_case
from experiments.stages.interleave import MIN_KEPT, Matrices, check_output, interleave
from experiments.tuning import space
from experiments.tuning.space import Configuration, Sweep
from kernels import catalogue
from kernels.catalogue import Problem, Variant

logger = logging.getLogger(__name__)

SEED = 9
# This case has 2 x 2 tiles, three k-steps, and alpha and beta other than 0 and 1.
CASE = "leading dimensions beyond the row"
WARM_UP_S = 1.0  # cuBLAS warms up once.
# Each configuration and cuBLAS run together before their samples.
STEADY_S, MAX_STEADY_S, STEADY_CHUNK_S = 0.03, 0.15, 0.03
BUILD_COLUMNS = ["arch", "compiler", "source_hash", "registers", "stack_bytes", "spill_bytes"]
BUILD_COLUMNS += ["shared_bytes", "occupancy"]
TIME_COLUMNS = ("samples", "time_us", "tflops", "fraction_of_cublas", "checked")

Row = dict[str, Any]
# Measures the named configurations with so many samples each.
Measure = Callable[[list[str], int], Iterator[tuple[Variant, Row | Failure]]]


def sweep_case(variant: Variant) -> Case:
    """Return the one correctness case of a configuration."""
    return next(case for case in cases(variant) if case.name == CASE)


class GpuMeasurer:
    """Times configurations next to cuBLAS on the same matrices, in the process with the GPU."""

    def __init__(self, sweep: Sweep, harness_dir: Path, build_dir: Path) -> None:
        self.device = GpuDevice(harness_dir)
        self.gpu = self.device.gpu
        self.gpu.build_dir = build_dir  # The harness is loaded; configurations lie here.
        known = catalogue.load()
        swept = known.kernels[next(iter(sweep.kernels))]
        problem = Problem.square(sweep.size, swept.b_layout)
        self.matrices = Matrices.fill(self.gpu, problem, swept.types, sweep.data)
        capacity = 2 * max(sweep.samples, sweep.final_samples)
        self.stopwatch = Stopwatch(self.gpu, capacity, sweep.flush_l2)
        self.library = load_gemm(self.gpu, known[swept.baseline])  # It keeps its handle.
        self.cublas = self.matrices.bind(self.library, "baseline")
        warm_up(self.gpu, self.cublas, WARM_UP_S)
        result = check_output(self.gpu, self.matrices, "baseline", self.cublas)
        if not result.passed:
            message = f"failed its check at size = {sweep.size}: {result.detail}"
            raise UserError(f"{swept.baseline} {message}")

    def measure(self, variant: Variant, samples: int) -> Row:
        """Return `TIME_COLUMNS` of tuning.csv, or `checked` and the `reason` of a failure."""
        case = sweep_case(variant)
        result = run_case(self.device, variant, case, self.matrices.seed)
        if not result.passed:
            return {"checked": False, "reason": f"check, {case.name}: {result.detail}"}
        kernel = self.matrices.bind(CatalogueKernel(self.gpu, variant), "variant")

        def pair() -> None:
            kernel()
            self.cublas()

        # The output is poisoned, so that what is checked was written by timed runs.
        warm_up(self.gpu, pair, STEADY_S, MAX_STEADY_S, STEADY_CHUNK_S)
        self.matrices.poison(self.gpu, "variant")
        works = {"variant": kernel, "baseline": self.cublas}
        runs = interleave(self.stopwatch, works, samples, self.matrices.seed)
        result = check_output(self.gpu, self.matrices, "variant", kernel)
        if not result.passed:
            return {"checked": False, "reason": f"check after timing: {result.detail}"}
        timed, cublas = (runs.of(role) for role in works)
        if min(len(timed.time_us), len(cublas.time_us)) < MIN_KEPT:
            gaps = int((~runs.samples.kept).sum())
            reason = f"launch gaps spoilt {gaps} of {len(runs.roles)} samples"
            return {"checked": True, "reason": reason}
        time_us = float(np.median(timed.time_us))
        return {
            "checked": True,
            "samples": len(timed.time_us),
            "time_us": time_us,
            "tflops": self.matrices.problem.flop / time_us / 1e6,
            "fraction_of_cublas": float(np.median(cublas.time_us)) / time_us,
            "sm_clock_mhz": float(np.median(timed.sm_clock_mhz)),
        }


@contextlib.contextmanager
def opened(
    sweep: Sweep, harness_dir: Path, build_dir: Path, samples: int, watch: Watch
) -> Iterator[Callable[[Variant], Row]]:
    """Measure variants in this process, as `work_through` asks for it."""
    with watch.holding():
        measurer = GpuMeasurer(sweep, harness_dir, build_dir)

    def measure(variant: Variant) -> Row:
        with watch.holding():
            row = measurer.measure(variant, samples)
            measurer.gpu.sync()  # raises `DeviceFault` where the kernel has spoilt the context
        return row

    yield measure


def build_all(variants: Mapping[str, Variant], folder: Path, arch: str, nvcc: Path) -> list[Row]:
    """Build what is not current; return `BUILD_COLUMNS` of each, or the `reason` of a failure."""

    def build_one(variant: Variant) -> Row:
        try:
            row = build.current(variant, folder / variant.name, arch, nvcc)
            if row is None:
                cubin = build.build_kernel(variant, arch, folder, str(nvcc))
                row = read_json(cubin.with_suffix(".json"), Resources)
            return {key: getattr(row, key) for key in BUILD_COLUMNS}
        except UserError as error:
            return {"reason": f"build: {error}"}

    with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) - 1)) as pool:
        return list(pool.map(build_one, variants.values()))


def row_of(configuration: Configuration) -> Row:
    """Return a configuration's row before it is built."""
    row = dict.fromkeys(Tuning.model_fields) | dict(configuration.values)
    row |= {"kernel": configuration.kernel, "threads": configuration.threads}
    return row | {"valid": configuration.broken is None, "reason": configuration.broken}


def best(rows: Mapping[str, Row], kernel: str) -> list[str]:
    """Return the names of a kernel's configurations that have a time, the fastest first."""
    timed = [name for name, row in rows.items() if row["kernel"] == kernel and row["tflops"]]
    return sorted(timed, key=lambda name: -rows[name]["tflops"])


def race(sweep: Sweep, rows: Mapping[str, Row], measure: Measure) -> None:
    """Fill in the rows of what was built, each with the last round that it took part in."""
    names = [name for name, row in rows.items() if not row["reason"]]
    random.Random(SEED).shuffle(names)
    for number, samples in ((1, sweep.samples), (2, sweep.final_samples)):
        for done, (variant, result) in enumerate(measure(names, samples), start=1):
            row = rows[variant.name]
            row |= dict.fromkeys(TIME_COLUMNS) | {"round": number, "size": sweep.size}
            row |= {"reason": f"run: {result.reason}"} if isinstance(result, Failure) else result
            outcome = row["reason"] or _speed(row)
            logger.info(f"round {number}, {done}/{len(names)}: {variant.name}: {outcome}")
        names = [name for kernel in sweep.kernels for name in best(rows, kernel)[: sweep.finalists]]


def _speed(row: Row) -> str:
    return f"{row['tflops']:.2f} TFLOP/s, {row['fraction_of_cublas']:.1%} of cuBLAS"


def winner(rows: Mapping[str, Row], kernel: str) -> Row:
    """Return the row of a kernel's fastest configuration of the second round.

    Raises `UserError` with the commonest reason where there is none.
    """
    finals = {name: row for name, row in rows.items() if row["round"] == 2}
    if names := best(finals, kernel):
        return rows[names[0]]
    reasons = Counter(row["reason"] for row in rows.values() if row["kernel"] == kernel)
    raise UserError(f"{kernel}: no configuration could be measured; {reasons.most_common(1)[0][0]}")


def tune(sweep: Sweep, arch: str, harness_dir: Path, nvcc: Path, out: Path) -> None:
    """Build and time the configurations, write tuning.csv, and print the winners.

    At a further size only what can be timed there has rows.
    """
    require_gpu()
    folder = out.parent / "tune" / arch
    main, *others = (timed(each, arch, harness_dir, folder, nvcc) for each in sweep.by_size())
    further = [row for rows in others for row in rows.values() if row["valid"]]
    write_rows(out, Tuning, [*main.values(), *further])
    for kernel, parameters in sweep.kernels.items():
        row = winner(main, kernel)
        template = ", ".join(f"{name}: {row[name]}" for name in parameters)
        print(f"{kernel} in kernels/catalogue.yaml, for {_speed(row)}:")
        print(f"    template: {{{template}}}\n    threads: {row['threads']}")


def timed(sweep: Sweep, arch: str, harness_dir: Path, folder: Path, nvcc: Path) -> dict[str, Row]:
    """Build and time the configurations at the sweep's size; return their rows by name.

    :param folder: of what is built, which stays there.
    """
    configurations = list(sweep.configurations())
    rows = {configuration.name: row_of(configuration) for configuration in configurations}
    variants = {c.name: c.variant() for c in configurations if c.broken is None}
    for name, columns in zip(variants, build_all(variants, folder, arch, nvcc), strict=True):
        rows[name] |= columns

    def measure(names: list[str], samples: int) -> Iterator[tuple[Variant, Row | Failure]]:
        measuring = functools.partial(opened, sweep, harness_dir, folder, samples)
        yield from work_through([variants[name] for name in names], measuring, start="spawn")

    with session():
        race(sweep, rows, measure)
    for row in rows.values():
        # What was not timed has no size.
        row["size"] = sweep.size if row["valid"] else None
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Time every tile of a grid.")
    parser.add_argument("--arch", required=True, help="for instance sm_90a")
    parser.add_argument("--build-dir", required=True, type=Path, help="with harness.cubin")
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--out", required=True, type=Path, metavar="tuning.csv")
    options = parser.parse_args()
    nvcc = toolchain.nvcc(options.nvcc)
    tune(space.load(), options.arch, options.build_dir, nvcc, options.out)


if __name__ == "__main__":
    run_command(main)
