"""What one kernel shows without a GPU; cached for the rung that it is compared with."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from contracts import UserError, read_json, write_text
from contracts.rows import Resources
from experiments.emulation import bounds, launching, lens, predictions
from experiments.emulation.device import EmulatedDevice
from experiments.stages import build, check, toolchain
from experiments.stages.cases import cases
from kernels import catalogue
from kernels.catalogue import Variant
from kernels.problem import ProblemSpec
from ptxsim import Counters, Kernel, PtxsimError, annotate
from ptxsim.count.machines import Machine
from ptxsim.ptx.sources import choose_file, find_source

MAX_LINES = 8  # No more lines of the source are printed.
Checks = list[str]  # one line each, the failures first


@dataclass(frozen=True)
class Findings:
    """What one kernel shows at m = n = k = `size`.

    resources: its row of resources.csv. counters: predicted ones, by ncu's names. cycles: minimum
    cycles per SM of `gpu` by resource, with estimates. lines: those of the source that cost more
    than they must. why_not: why there are no counters. checks: how the checks went, if they were
    made. lens: what the page of the kernel shows, if that was asked for (contracts.rows.Lens).
    """

    name: str
    size: int
    gpu: str
    resources: dict[str, Any]
    counters: dict[str, float] = field(default_factory=dict)
    cycles: dict[str, float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    why_not: str | None = None
    checks: Checks = field(default_factory=list)
    passed: bool = True
    lens: dict[str, Any] | None = None


def folder_of(root: Path, arch: str) -> Path:
    """Return the folder where kernels are built."""
    return root / "build" / arch


def common_size(size: int, *variants: Variant) -> int:
    """Return the size nearest to `size` that is made of whole tiles and k-steps of all these."""
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
    seen: bool = False,
) -> Findings:
    """Build a kernel, check it on the emulator if asked to, and predict its counters and the minimum
    cycles on `gpu`; with `seen`, also what its page shows.

    Raises `UserError` where it does not compile.
    """
    build_dir = folder_of(root, arch)
    cubin = build.build_kernel(variant, arch, build_dir, nvcc)
    resources = vars(read_json(cubin.with_suffix(".json"), Resources))
    result = Findings(variant.name, size, gpu.name, resources)
    try:
        kernel = launching.load(variant, build_dir)
    except UserError as error:
        return replace(result, why_not=str(error))
    if checked:
        device = EmulatedDevice(build_dir, {variant.name: kernel})
        checks, failed = check_on(nullcontext(device), variant, large=None)
        if failed and not any(names_fault(line) for line in checks):
            checks.append(with_debug_code(variant, arch, build_dir, nvcc, failed))
        result = replace(result, checks=checks, passed=not failed)
    problem, costs = ProblemSpec.square(size), lens.Costs()
    try:
        predicted = predictions.predict(kernel, variant, problem, gpu.sms)
        rows = bounds.rows(variant, problem, kernel, cubin, predicted, gpu)
    except UserError as error:
        result, costs = replace(result, why_not=str(error)), lens.Costs(unknown=str(error))
    else:
        costs = lens.Costs.of(problem, predicted, rows)
        result = replace(
            result,
            counters={name: float(value) for name, value in predicted.totals.items()},
            cycles=costs.cycles,
            lines=costly_lines(kernel, predicted.counters, variant),
        )
    if seen:
        content = lens.content(variant, kernel, build_dir, gpu.name, costs, result.checks)
        result = replace(result, lens=content | {"passed": result.passed})
    return result


def check_on(
    device: AbstractContextManager[check.Device], variant: Variant, large: int | None
) -> tuple[Checks, set[str]]:
    """Return how the checks of a kernel went, in words, and the names of the cases that failed."""
    table = check.check_variant(device, variant, large=large, tell=False)
    return check.summary(variant, table), {row.case for row in table if not row.passed}


def names_fault(line: str) -> bool:
    """Return whether a failed check says what is wrong where.

    A trap, a wrong address or an undefined register may be the optimizer's doing.
    """
    optimizers = r": trap$|: out-of-bounds (?!local)|: misaligned |: register "
    return "on ptxsim: ptxsim: " in line and not re.search(optimizers, line)


def with_debug_code(
    variant: Variant, arch: str, build_dir: Path, nvcc: str | None, failed: set[str]
) -> str:
    """Return what the smallest of the failed cases shows in code that is not optimised (nvcc -G).

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


def costly_lines(kernel: Kernel, counters: Counters, variant: Variant) -> list[str]:
    """Return the source lines with more wavefronts or sectors than needed, the costliest first."""
    try:
        file = choose_file(kernel, None)
    except PtxsimError:
        return []
    path = find_source(file, [variant.source.parent])
    text = path.read_text(errors="replace").splitlines() if path else []
    costs = annotate.costs(counters).get(file, {})
    waves = sum(cost.excess_wavefronts for cost in costs.values()) or 1
    sectors = sum(cost.excess_sectors for cost in costs.values()) or 1
    shares = {n: c.excess_wavefronts / waves + c.excess_sectors / sectors for n, c in costs.items()}
    numbers = sorted((n for n in shares if shares[n]), key=lambda n: -shares[n])
    lines = []
    for number in numbers[:MAX_LINES]:
        source = " ".join(text[number - 1].split()) if number <= len(text) else ""
        lines.append(f"{Path(file).name}:{number}: {cost_in_words(costs[number])} │ {source}")
    more = len(numbers) - MAX_LINES
    return [*lines, f"and {more} lines more"] if more > 0 else lines


def cost_in_words(cost: annotate.Cost) -> str:
    """Return which accesses of a line cost more than they must."""
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
    """Return a hash that changes with the code that makes findings."""
    root = catalogue.ROOT.parent
    rooms = (root / room for room in ("contracts", "experiments", "kernels", "ptxsim"))
    code = sorted(
        path
        for room in rooms
        for path in room.rglob("*")
        if path.suffix in (".py", ".cu", ".toml") and path.parent.parent != catalogue.ROOT
    )
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in code)).hexdigest()


def cached(
    root: Path, variant: Variant, parts: Sequence[object], make: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Return what `make` returned last for the same kernel, code and `parts`, else call it."""
    key = json.dumps([variant.source_hash, code_hash(), *map(str, parts)])
    path = root / "cache" / f"{variant.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    with contextlib.suppress(OSError, ValueError):  # The file is missing or cut.
        stored: dict[str, Any] = json.loads(path.read_text())
        return stored
    made = make()
    write_text(path, json.dumps(made))
    return made


def find_cached(
    variant: Variant,
    size: int,
    arch: str,
    gpu: Machine,
    root: Path,
    nvcc: str | None = None,
    seen: bool = False,
) -> Findings:
    """Return the findings of the rung that a kernel builds on, without checks.

    They are cached as long as its source, the compiler and our code are the same.
    """
    compiler = toolchain.nvcc(nvcc)
    versions = [toolchain.version(str(tool)) for tool in (compiler, toolchain.ptxas(compiler))]

    def make() -> dict[str, Any]:
        return asdict(find(variant, size, arch, gpu, root, checked=False, nvcc=nvcc, seen=seen))

    return Findings(**cached(root, variant, ["findings", size, arch, gpu, seen, *versions], make))


def ensure_built(variant: Variant, arch: str, root: Path, nvcc: str | None = None) -> None:
    """Build a kernel whose cubin is not there, or is of another source or compiler."""
    stem = folder_of(root, arch) / variant.name
    if build.current(variant, stem, arch, toolchain.nvcc(nvcc)) is None:
        build.build_kernel(variant, arch, stem.parent, nvcc)
