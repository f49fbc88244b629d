"""The part of the loop that needs a GPU: checks, times interleaved with cuBLAS and the rung, and
counters of both.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from contracts import UserError, write_text
from experiments.gpu import discovery
from experiments.stages import build, profile, toolchain
from experiments.stages.verify import CheckResult
from experiments.try_kernel import findings
from kernels import catalogue
from kernels.catalogue import Catalogue, Entry, Problem, Variant
from kernels.problem import ProblemSpec

HARNESS = catalogue.ROOT.parent / "experiments" / "gpu" / "harness.cu"
LARGE = 1024  # The large case of the checks. What is timed is checked at its own size.
WARM_S, WINDOW_S = 0.2, 0.5
ROUNDS = (20, 100)


@dataclass(frozen=True)
class Speed:
    """Medians of one kernel; `share` is the baseline's median time over its own."""

    time_us: float
    share: float
    flop_per_clock_sm: float
    sm_clock_mhz: float


@dataclass(frozen=True)
class Measured:
    """What a GPU measured. Speeds are by kernel, counters by kernel and ncu's name.

    why_not: why there are no counters.
    """

    gpu: str
    checks: findings.Checks = field(default_factory=list)
    passed: bool = True
    baseline: str = ""
    speeds: dict[str, Speed] = field(default_factory=dict)
    counters: dict[str, dict[str, float]] = field(default_factory=dict)
    why_not: str | None = None


def measure(
    known: Catalogue,
    variant: Variant,
    rung: Variant | None,
    size: int,
    gpu: discovery.Gpu,
    root: Path,
    named: Sequence[str],
    nvcc: str | None,
) -> Measured:
    """Check a built kernel, time it, and read its counters.

    :param rung: what it is compared with, where that takes the same problem.
    :param named: the arguments that name the kernel to another process.
    """
    from experiments.stages.check import held_gpu

    build_dir = findings.folder_of(root, gpu.arch)
    _ensure_harness(build_dir, gpu.arch, nvcc)
    checks, failed = findings.check_on(held_gpu(build_dir), variant, LARGE)
    baseline = known[variant.baseline]
    result = Measured(gpu.name, checks, not failed, baseline.name)
    if failed:  # A wrong result has no speed.
        return result
    # The rung runs beside the kernel where it takes the same matrices.
    problem = Problem.square(size, variant.b_layout)
    rungs = (
        [rung]
        if rung and rung.types == variant.types and not rung.unsupported_reason(problem)
        else []
    )
    for other in rungs:
        findings.ensure_built(other, gpu.arch, root, nvcc)
    speeds, timed = _times([variant, *rungs, baseline], problem, build_dir)
    if not timed.passed:
        reason = timed.detail or "out of its bound"
        line = f"FAILED {variant.name} at n = {size} after timing: {reason}"
        return replace(result, checks=[line, *checks], passed=False)
    # The rung's counters are read once, and cached.
    try:
        counters = {variant.name: _counters(variant, size, build_dir, named)}
        command = [str(profile.find_ncu()), "--version"]
        version = subprocess.run(command, capture_output=True, text=True).stdout
        parts = ["counters", size, gpu, version, build.compiler_name(toolchain.nvcc(nvcc))]
        for other in rungs:
            make = functools.partial(_counters, other, size, build_dir, ())
            counters[other.name] = findings.cached(root, other, parts, make)
    except profile.LeftOut as reason:
        return replace(result, speeds=speeds, why_not=str(reason))
    return replace(result, speeds=speeds, counters=counters)


def _ensure_harness(build_dir: Path, arch: str, nvcc: str | None) -> None:
    """Build the harness again where our code or the compiler changed."""
    compiler = toolchain.nvcc(nvcc)
    version = f"{findings.code_hash()} {build.compiler_name(compiler)}"
    stamp, cubin = build_dir / "harness.built-from", build_dir / "harness.cubin"
    if not (cubin.is_file() and stamp.is_file() and stamp.read_text() == version):
        build.compile_source(HARNESS, build_dir / "harness", arch, compiler)
        write_text(stamp, version)


def _counters(entry: Variant, size: int, build_dir: Path, named: Sequence[str]) -> dict[str, float]:
    rows, _ = profile.profile(entry, ProblemSpec.square(size), build_dir, named)
    return {row.metric: row.value for row in rows}


def _times(
    entries: list[Entry], problem: Problem, build_dir: Path
) -> tuple[dict[str, Speed], CheckResult]:
    """Interleave the entries, the baseline last; return their speeds and the first one's check."""
    from experiments.gpu.device import Gpu
    from experiments.gpu.libraries import import_early, load_gemm
    from experiments.gpu.session import session
    from experiments.gpu.timing import Stopwatch, warm_up
    from experiments.stages.interleave import MIN_KEPT, Matrices, check_output, interleave

    for entry in entries:
        import_early(entry)
    with session():
        gpu = Gpu(build_dir)
        names = [entry.name for entry in entries]
        matrices = Matrices.fill(gpu, problem, entries[0].types, "uniform", names)
        works = {entry.name: matrices.bind(load_gemm(gpu, entry), entry.name) for entry in entries}

        def each() -> None:
            for work in works.values():
                work()

        # What is checked below was written by timed runs.
        round_us = warm_up(gpu, each, WARM_S)
        matrices.poison(gpu, names[0])
        rounds = int(np.clip(WINDOW_S * 1e6 / round_us, *ROUNDS))
        runs = interleave(Stopwatch(gpu, len(entries) * rounds), works, rounds, matrices.seed)
        result = check_output(gpu, matrices, names[0], works[names[0]])
        sms = gpu.sm_count
    # Every sample of a round met the same clock as the baseline's.
    speeds = {}
    baseline_us = float(np.median(runs.of(names[-1]).time_us))
    for name in names:
        samples = runs.of(name)
        if len(samples.time_us) < MIN_KEPT:
            raise UserError(
                f"{name}: launch gaps spoilt all but a few samples; leave the host's processor to this"
            )
        time_us, clocks = float(np.median(samples.time_us)), samples.time_us * samples.sm_clock_mhz
        speeds[name] = Speed(
            time_us=time_us,
            share=baseline_us / time_us,
            flop_per_clock_sm=float(np.nanmedian(problem.flop / (clocks * sms))),
            sm_clock_mhz=float(np.nanmedian(samples.sm_clock_mhz)),
        )
    return speeds, result
