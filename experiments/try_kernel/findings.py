"""What is found out about one kernel without a GPU; kept for the rung that it is compared with."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from contracts import UserError, read_json, write_text
from contracts.rows import Resources
from experiments.emulation import bounds, launching, predictions
from experiments.emulation.device import EmulatedDevice
from experiments.stages import build, check, toolchain
from experiments.stages.cases import cases
from kernels import catalogue
from kernels.catalogue import Variant
from kernels.problem import ProblemSpec
from ptxsim import Counters, Kernel, PtxsimError, annotate
from ptxsim.count.machines import Machine
from ptxsim.ptx.sources import choose_file, find_source

# At most so many lines of the source are printed.
LINES = 8
# One line each, the failures first.
Checks = list[str]


@dataclass(frozen=True)
class Findings:
    """Resources; what the emulator predicts for m = n = k = `size`, or `why_not`; checks, where
    they were made.
    """

    name: str
    size: int
    gpu: str
    # A row of resources.csv.
    resources: dict[str, Any]
    # Predicted counters, under ncu's names.
    counters: dict[str, float] = field(default_factory=dict)
    # Minimum cycles per SM of `gpu` by resource; estimates, too.
    cycles: dict[str, float] = field(default_factory=dict)
    # those of the source that cost more than they must
    lines: list[str] = field(default_factory=list)
    why_not: str | None = None
    checks: Checks = field(default_factory=list)
    passed: bool = True


def folder_of(root: Path, arch: str) -> Path:
    """Where kernels are built."""
    return root / "build" / arch


def common_size(size: int, *variants: Variant) -> int:
    """The size nearest to `size` that is made of whole tiles and steps of k of all these
    kernels.
    """
    unit = math.lcm(*(predictions.unit(variant) for variant in variants))
    return max(1, round(size / unit)) * unit


def find(
    variant: Variant,
    size: int,
    arch: str,
    gpu: Machine,
    root: Path,
    *,
    checked: bool,
    nvcc: str | None = None,
) -> Findings:
    """Build a kernel, check it on the emulator if asked to, and predict its counters and the minimum
    cycles on `gpu`.

    Raises `UserError` where it does not compile.
    """
    build_dir = folder_of(root, arch)
    cubin = build.build_kernel(variant, arch, build_dir, nvcc)
    resources = vars(read_json(cubin.with_suffix(".json"), Resources))
    checks: Checks = []
    passed = True
    try:
        kernel = launching.load(variant, build_dir)
        if checked:
            device = EmulatedDevice(build_dir, {variant.name: kernel})
            table = check.check_variant(nullcontext(device), variant, large=None, tell=False)
            checks, failed = (
                check.summary(variant, table),
                {row.case for row in table if not row.passed},
            )
            passed = not failed
            if failed and not any(names_fault(line) for line in checks):
                checks.append(with_debug_code(variant, arch, build_dir, nvcc, failed))
        problem = ProblemSpec.square(size)
        predicted = predictions.predict(kernel, variant, problem, gpu.sms)
        rows = bounds.rows(variant, problem, kernel, cubin, predicted, gpu)
    except UserError as error:
        return Findings(
            variant.name,
            size,
            gpu.name,
            resources,
            why_not=str(error),
            checks=checks,
            passed=passed,
        )
    cycles = {row["resource"]: float(row["minimum_cycles"]) for row in rows}
    totals = {name: float(value) for name, value in predicted.totals.items()}
    lines = costly(kernel, predicted.counters, variant)
    named = (variant.name, size, gpu.name)
    return Findings(*named, resources, totals, cycles, lines, None, checks, passed)


def check_on(
    device: contextlib.AbstractContextManager[check.Device], variant: Variant, large: int | None
) -> tuple[Checks, bool]:
    """The checks of a kernel, in words, and whether all passed."""
    table = check.check_variant(device, variant, large=large, tell=False)
    return check.summary(variant, table), all(row.passed for row in table)


def names_fault(line: str) -> bool:
    """Whether a failed check says what is wrong where. A trap, a wrong address or an undefined
    register may be the optimizer's doing."""
    optimizers = r": trap$|: out-of-bounds (?!local)|: misaligned |: register "
    return "on ptxsim: ptxsim: " in line and not re.search(optimizers, line)


def with_debug_code(
    variant: Variant, arch: str, build_dir: Path, nvcc: str | None, failed: set[str]
) -> str:
    """What the smallest of the cases that failed finds in code that is not optimised (nvcc -G), in
    words.

    Compilers may drop what is undefined, such as an access past the end of an array; this code
    still has it.
    """
    ptx = build_dir / f"{variant.name}.debug.ptx"
    try:
        build.compile_debug(build_dir / f"{variant.name}.cu", ptx, arch, toolchain.nvcc(nvcc))
        device = EmulatedDevice(build_dir, {variant.name: launching.load_file(ptx)})
    except UserError as error:
        return f"the same with -G: {error}"
    case = min(
        (case for case in cases(variant) if case.name in failed), key=lambda case: case.problem.flop
    )
    result = check.run_case(device, variant, case, seed=0)
    if result.passed:
        return f"{case.name} passes with -G, so the optimised code differs: look for undefined behaviour"
    return f"the same with -G, {case.name}: {result.detail or 'a wrong result, and no fault'}"


def costly(kernel: Kernel, counters: Counters, variant: Variant) -> list[str]:
    """The lines of the kernel's file with more wavefronts or sectors than they need, the worst
    first.
    """
    try:
        file = choose_file(kernel, None)
    except PtxsimError:
        return []
    path = find_source(file, [variant.source.parent])
    text = path.read_text(errors="replace").splitlines() if path else []
    costs = {
        n: c
        for n, c in annotate.costs(counters).get(file, {}).items()
        if c.excess_wavefronts or c.excess_sectors
    }
    waves = sum(c.excess_wavefronts for c in costs.values()) or 1
    sectors = sum(c.excess_sectors for c in costs.values()) or 1
    worst = sorted(
        costs,
        key=lambda n: -(costs[n].excess_wavefronts / waves + costs[n].excess_sectors / sectors),
    )
    found = []
    for number in worst[:LINES]:
        source = " ".join(text[number - 1].split()) if number <= len(text) else ""
        found.append(f"{Path(file).name}:{number}: {cost_in_words(costs[number])} │ {source}")
    return found + ([f"and {len(worst) - LINES} lines more"] if len(worst) > LINES else [])


def cost_in_words(cost: annotate.Cost) -> str:
    """Which accesses of a line cost more than they must."""
    parts = [
        f"shared {name} {shared.degree:.3g}x the wavefronts ({shared.ways}-way)"
        for name, shared in (("load", cost.loads), ("store", cost.stores))
        if shared.excess
    ]
    parts += [
        f"global {name} {words}"
        for name, used in (("load", cost.reads), ("store", cost.writes))
        if used.excess
        for words in used.in_words
    ]
    return ", ".join(parts)


@functools.cache
def code_hash() -> str:
    """Changes with the code that makes findings."""
    root = catalogue.ROOT.parent
    files = [
        path
        for room in ("contracts", "experiments", "kernels", "ptxsim")
        for path in (root / room).rglob("*")
    ]
    code = sorted(
        path
        for path in files
        if path.suffix in (".py", ".cu", ".toml") and path.parent.parent != catalogue.ROOT
    )
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in code)).hexdigest()


def kept(
    root: Path, variant: Variant, parts: Sequence[object], make: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """What `make` returns, from the last time that it was made of the same kernel, code and
    `parts`.
    """
    key = json.dumps([variant.source_hash, code_hash(), *map(str, parts)])
    path = root / "kept" / f"{variant.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    with contextlib.suppress(OSError, ValueError):  # not there, or cut: made anew
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    made = make()
    write_text(path, json.dumps(made))
    return made


def find_kept(
    variant: Variant, size: int, arch: str, gpu: Machine, root: Path, nvcc: str | None = None
) -> Findings:
    """The findings of the rung that a kernel builds on: unchecked, and kept as long as its source,
    the compiler and our code are the same."""
    compiler = toolchain.nvcc(nvcc)
    versions = [toolchain.version(str(tool)) for tool in (compiler, toolchain.ptxas(compiler))]
    parts = ["findings", size, arch, gpu, *versions]
    return Findings(
        **kept(
            root,
            variant,
            parts,
            lambda: asdict(find(variant, size, arch, gpu, root, checked=False, nvcc=nvcc)),
        )
    )


def ensure_built(variant: Variant, arch: str, root: Path, nvcc: str | None = None) -> None:
    """Build a kernel whose cubin is not there, or is of another source or compiler."""
    stem = folder_of(root, arch) / variant.name
    if build.current(variant, stem, arch, toolchain.nvcc(nvcc)) is None:
        build.build_kernel(variant, arch, stem.parent, nvcc)
