"""The part of the loop that needs a GPU: checks, times in turns with cuBLAS and the rung, counters
of both.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from experiments.gpu import discovery
from experiments.stages import build, profile, toolchain
from experiments.stages.verify import CheckResult
from experiments.try_kernel import findings
from kernels import catalogue
from kernels.catalogue import Catalogue, Entry, Problem, Variant
from kernels.problem import ProblemSpec

HARNESS = catalogue.ROOT.parent / "experiments" / "gpu" / "harness.cu"
LARGE = 1024  # the large case of the checks here; what is timed is checked at its own size
WARM_S, WINDOW_S = 0.2, 0.5
ROUNDS = (20, 100)


@dataclass(frozen=True)
class Speed:
    """Medians of one kernel. The share is of the baseline's median time in the same runs."""

    time_us: float
    share: float
    flop_per_clock_sm: float
    sm_clock_mhz: float


@dataclass(frozen=True)
class Measured:
    """What a GPU measured. Counters are under ncu's names; `why_not` has why there are none."""

    gpu: str
    checks: findings.Checks = field(default_factory=list)
    passed: bool = True
    baseline: str = ""
    speeds: dict[str, Speed] = field(default_factory=dict)  # by name
    counters: dict[str, dict[str, float]] = field(default_factory=dict)  # by name
    why_not: str | None = None


def measure(
    known: Catalogue,
    variant: Variant,
    base: Variant | None,
    size: int,
    gpu: discovery.Gpu,
    root: Path,
    named: Sequence[str],
    nvcc: str | None,
) -> Measured:
    """Check a built kernel, time it, read its counters. `named`: arguments that name it to another
    process.
    """
    from experiments.stages.check import held_gpu

    build_dir = findings.folder_of(root, gpu.arch)
    _ensure_harness(build_dir, gpu.arch, nvcc)
    checks, passed = findings.check_on(held_gpu(build_dir), variant, LARGE)
    baseline = known[variant.baseline]
    if not passed:  # a wrong result has no speed
        return Measured(gpu.name, checks, False, baseline.name)
    problem = Problem.square(size, variant.b_layout)
    others = (
        [base] if base and base.types == variant.types and base.refusal(problem) is None else []
    )
    for other in others:
        findings.ensure_built(other, gpu.arch, root, nvcc)
    speeds, result = _times([variant, *others, baseline], problem, build_dir)
    if not result.passed:
        line = f"FAILED {variant.name} at n = {size} after timing: {result.detail or 'out of its bound'}"
        return Measured(gpu.name, [line, *checks], False, baseline.name)
    counters: dict[str, dict[str, float]] = {}
    try:
        counters[variant.name] = _counters(variant, size, build_dir, named)
        version = subprocess.run(
            [profile.find_ncu(), "--version"], capture_output=True, text=True
        ).stdout
        parts = ["counters", size, gpu, version, build.compiler_name(toolchain.nvcc(nvcc))]
        for one in others:
            counters[one.name] = findings.kept(
                root, one, parts, functools.partial(_counters, one, size, build_dir, ())
            )
    except profile.LeftOut as reason:
        return Measured(gpu.name, checks, True, baseline.name, speeds, why_not=str(reason))
    return Measured(gpu.name, checks, True, baseline.name, speeds, counters)


def _ensure_harness(build_dir: Path, arch: str, nvcc: str | None) -> None:
    """Build the harness anew where its source or the compiler changed."""
    from contracts import write_text

    compiler = toolchain.nvcc(nvcc)
    known = f"{findings.code_hash()} {build.compiler_name(compiler)}"
    stamp = build_dir / "harness.built-from"
    if not (
        stamp.is_file() and stamp.read_text() == known and (build_dir / "harness.cubin").is_file()
    ):
        build.compile_source(HARNESS, build_dir / "harness", arch, compiler)
        write_text(stamp, known)


def _counters(entry: Variant, size: int, build_dir: Path, named: Sequence[str]) -> dict[str, float]:
    rows, _ = profile.profile(entry, ProblemSpec.square(size), build_dir, named)
    return {row.metric: row.value for row in rows}


def _times(
    entries: list[Entry], problem: Problem, build_dir: Path
) -> tuple[dict[str, Speed], CheckResult]:
    """The speed of each entry, the baseline last, in turns; and whether the first one's output was
    right.
    """
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

        round_us = warm_up(gpu, each, WARM_S)
        matrices.poison(gpu, names[0])
        rounds = int(np.clip(WINDOW_S * 1e6 / round_us, *ROUNDS))
        runs = interleave(Stopwatch(gpu, len(entries) * rounds), works, rounds, matrices.seed)
        result = check_output(gpu, matrices, names[0], works[names[0]])
        sms = gpu.sm_count
    samples = {name: runs.of(name) for name in names}
    if few := [name for name, one in samples.items() if len(one.time_us) < MIN_KEPT]:
        from contracts import UserError

        raise UserError(
            f"{few[0]}: launch gaps spoilt all but a few samples; leave the host's processor to this"
        )
    medians = {name: float(np.median(one.time_us)) for name, one in samples.items()}
    speeds = {
        name: Speed(
            time_us=medians[name],
            share=medians[names[-1]] / medians[name],
            flop_per_clock_sm=float(
                np.nanmedian(problem.flop / (one.time_us * one.sm_clock_mhz * sms))
            ),
            sm_clock_mhz=float(np.nanmedian(one.sm_clock_mhz)),
        )
        for name, one in samples.items()
    }
    return speeds, result
