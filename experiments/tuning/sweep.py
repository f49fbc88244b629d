"""Times every tile of a grid on the GPU, and prints what to write in kernels/catalogue.yaml.

    python -m experiments.tuning.sweep --arch sm_90a --build-dir results/build/sm_90a --out results/h100/tuning.csv

The grid is tile_autotune.yaml, what is left out of it and why space.py (both here). All
configurations are built first, on all processors, and what is built stays for the next sweep. Each
is checked with one case, then alternates with cuBLAS on the same matrices, in an order drawn at
random, so that a drift of the machine does not look like an effect of the tile. The best of each
kernel are timed again with more samples; the winner is the best then.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
# of experiments.stages.cases: 2 x 2 tiles, 3 k-steps, alpha and beta not 0 or 1
CASE = "leading dimensions beyond the row"
WARM_UP_S = 1.0  # cuBLAS, once
# a configuration and cuBLAS, before its samples
STEADY_S, STEADY_MOST_S, STEADY_CHUNK_S = 0.03, 0.15, 0.03
# columns of tuning.csv that resources.csv has, too
OF_BUILD = (
    *("arch", "compiler", "source_hash", "registers"),
    *("stack_bytes", "spill_bytes", "shared_bytes", "occupancy"),
)

Row = dict[str, Any]


def sweep_case(variant: Variant) -> Case:
    """The one correctness case of a configuration."""
    return next(case for case in cases(variant) if case.name == CASE)


class GpuMeasurer:
    """Times one configuration after the other next to cuBLAS, on the same matrices, in the process
    that holds the GPU.
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

    def measure(self, variant: Variant, samples: int) -> Row:
        """The columns `samples` to `checked` of tuning.csv, and `reason`: what failed."""
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
        runs = interleave(self.stopwatch, works, samples, self.matrices.seed)
        result = check_output(self.gpu, self.matrices, "variant", ours)
        if not result.passed:
            return {"checked": False, "reason": f"check after timing: {result.detail}"}
        of_us, of_cublas = (runs.of(role) for role in works)
        if min(len(of_us.time_us), len(of_cublas.time_us)) < MIN_KEPT:
            gaps = int((~runs.samples.kept).sum())
            reason = f"launch gaps spoilt {gaps} of {len(runs.roles)} samples"
            return {"checked": True, "reason": reason}
        time_us = float(np.median(of_us.time_us))
        return {
            "checked": True,
            "samples": len(of_us.time_us),
            "time_us": time_us,
            "tflops": self.matrices.problem.flop / time_us / 1e6,
            "fraction_of_cublas": float(np.median(of_cublas.time_us)) / time_us,
            "sm_clock_mhz": float(np.median(of_us.sm_clock_mhz)),
        }


@contextlib.contextmanager
def opened(
    sweep: Sweep, harness_dir: Path, build_dir: Path, samples: int, watch: Watch
) -> Iterator[Callable[[Variant], Row]]:
    """Measures variants in this process, as `work_through` wants it."""
    with watch.holding():
        measurer = GpuMeasurer(sweep, harness_dir, build_dir)

    def measure(variant: Variant) -> Row:
        with watch.holding():
            row = measurer.measure(variant, samples)
            measurer.gpu.sync()  # raises `DeviceFault` where the kernel has spoilt the context
        return row

    yield measure


def build_all(
    variants: list[Variant], folder: Path, arch: str, nvcc: Path, jobs: int
) -> dict[str, Row | UserError]:
    """Each variant's row of resources.csv, or what the compiler said, by name; `jobs` at a time."""

    def built(variant: Variant) -> Row | UserError:
        try:
            row = build.current(variant, folder / variant.name, arch, nvcc)
            if row is None:
                cubin = build.build_kernel(variant, arch, folder, str(nvcc))
                row = read_json(cubin.with_suffix(".json"), Resources)
            return vars(row)
        except UserError as error:
            return error

    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip([one.name for one in variants], pool.map(built, variants), strict=True))


def row_of(configuration: Configuration) -> Row:
    """A configuration's row before anything is known of it."""
    row: Row = dict.fromkeys(Tuning.model_fields)
    row |= {key: value for key, value in configuration.values.items() if key in row}
    return row | {
        "kernel": configuration.kernel,
        "threads": configuration.threads,
        "valid": configuration.broken is None,
        "reason": configuration.broken,
    }


def best(rows: Mapping[str, Row], kernel: str) -> list[str]:
    """Names of a kernel's configurations that have a time, the fastest first."""
    timed = [name for name, row in rows.items() if row["kernel"] == kernel and row["tflops"]]
    return sorted(timed, key=lambda name: -rows[name]["tflops"])


# Measures variants with so many samples each: the columns of `GpuMeasurer.measure`
Measure = Callable[[list[Variant], int], Iterator[tuple[Variant, Row | Failure]]]


def run(
    sweep: Sweep,
    configurations: list[Configuration],
    builds: Mapping[str, Row | UserError],
    measure: Measure,
) -> dict[str, Row]:
    """The rows of these configurations by name, each of its last round."""
    rows = {c.name: row_of(c) for c in configurations}
    variants = {c.name: c.variant() for c in configurations}
    for name, build_row in builds.items():
        if isinstance(build_row, UserError):
            rows[name] |= {"reason": f"build: {build_row}"}
        else:
            rows[name] |= {key: build_row[key] for key in OF_BUILD}
    names = [name for name in rows if not rows[name]["reason"]]
    random.Random(SEED).shuffle(names)
    for number, samples in ((1, sweep.samples), (2, sweep.final_samples)):
        start = time.monotonic()
        results = measure([variants[name] for name in names], samples)
        for done, (variant, result) in enumerate(results, start=1):
            if isinstance(result, Failure):
                result = {"reason": f"run: {result.reason}"}
            row = rows[variant.name]
            row |= dict.fromkeys(("samples", "time_us", "tflops", "fraction_of_cublas", "checked"))
            row |= {"round": number, "size": sweep.size} | result
            outcome = row["reason"] or _speed(row)
            left = (time.monotonic() - start) * (len(names) / done - 1)
            progress = f"round {number}, {done}/{len(names)}: {variant.name}"
            logger.info(f"{progress}: {outcome}; about {left:.0f} s left")
        names = [name for kernel in sweep.kernels for name in best(rows, kernel)[: sweep.finalists]]
    return rows


def _speed(row: Row) -> str:
    return f"{row['tflops']:.2f} TFLOP/s, {row['fraction_of_cublas']:.1%} of cuBLAS"


def winner(rows: Mapping[str, Row], kernel: str) -> str:
    """The name of a kernel's fastest configuration of the second round.

    Raises `UserError` with the commonest reason where there is none.
    """
    last = {name: row for name, row in rows.items() if row["round"] == 2}
    if names := best(last, kernel):
        return names[0]
    reasons = Counter(row["reason"] for row in rows.values() if row["kernel"] == kernel)
    raise UserError(f"{kernel}: no configuration could be measured; {reasons.most_common(1)[0][0]}")


def tune(options: argparse.Namespace, sweep: Sweep) -> None:
    """Build and time the configurations, write tuning.csv, and print the winners."""
    require_gpu()
    folder, nvcc = options.out.parent / "tune" / options.arch, toolchain.nvcc(options.nvcc)
    configurations = list(sweep.configurations())
    valid = [configuration for configuration in configurations if configuration.broken is None]
    chosen = random.Random(SEED).sample(valid, min(options.limit or len(valid), len(valid)))
    builds = build_all([c.variant() for c in chosen], folder, options.arch, nvcc, options.jobs)

    def measure(variants: list[Variant], samples: int) -> Iterator[tuple[Variant, Row | Failure]]:
        measuring = functools.partial(opened, sweep, options.build_dir, folder, samples)
        yield from work_through(variants, measuring, start="spawn")

    with session():
        rows = run(sweep, chosen, builds, measure)
    beyond = {"reason": "not measured: beyond --limit"}
    write_rows(
        options.out,
        Tuning,
        [
            rows.get(c.name) or row_of(c) | (beyond if c.broken is None else {})
            for c in configurations
        ],
    )
    by_name = {configuration.name: configuration for configuration in chosen}
    for kernel in dict.fromkeys(configuration.kernel for configuration in chosen):
        name = winner(rows, kernel)
        template = ", ".join(f"{key}: {value}" for key, value in by_name[name].values.items())
        print(f"{kernel} in kernels/catalogue.yaml, for {_speed(rows[name])}:")
        print(f"    template: {{{template}}}\n    threads: {by_name[name].threads}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time every tile of a grid.")
    parser.add_argument("--arch", required=True, help="for instance sm_90a")
    parser.add_argument("--build-dir", required=True, type=Path, help="with harness.cubin")
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--out", required=True, type=Path, metavar="tuning.csv")
    parser.add_argument(
        "--kernel", choices=list(space.RESTRICTIONS), help="only this kernel's grid"
    )
    parser.add_argument(
        "--limit", type=int, help="measure only so many configurations, drawn at random: a trial"
    )
    jobs = max(1, len(os.sched_getaffinity(0)) - 1)
    parser.add_argument("--jobs", type=int, default=jobs, help="builds at a time (%(default)s)")
    options = parser.parse_args()
    for name in ("limit", "jobs"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise UserError(f"--{name} {value} is not allowed; allowed: at least 1")
    sweep = space.load()
    if options.kernel:
        sweep = replace(sweep, kernels={options.kernel: sweep.kernels[options.kernel]})
    tune(options, sweep)


if __name__ == "__main__":
    run_command(main)
