"""Checks one variant: every case of `experiments.stages.cases` against the bound of `experiments.stages.verify`.

    python -m experiments.stages.check sgemm_warptile --build-dir results/build/sm_90a --out check.csv

on the GPU. `experiments.emulation` makes the same checks on an emulator of PTX that needs none.
A failure is a row with passed = false, not an error: the pipeline leaves that variant out of every performance figure,
names it in the report, and ends non-zero (`experiments.stages.require_passed`).
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from contracts import UserError, run_command, write_rows
from experiments.command_line import add_build_dir, add_variant
from experiments.stages import patterns, verify
from experiments.stages.cases import Case, cases
from kernels import catalogue
from kernels.catalogue import Baseline, Problem, Runnable, Variant

logger = logging.getLogger(__name__)

GUARD = 256  # elements of NaN before and after each matrix, 512 bytes or more: alignment is kept
WHOLE_FLOP = 2**30  # above this, rows and Freivalds' test instead of every element
SAMPLED_ROWS = 8
LARGE = 4096
PROBLEM = list(Problem.square(1).numbers)
MUST_REFUSE = "ran a problem that it must refuse"
EXPLAINED = " | "  # between what is wrong and its pattern


class Device(Protocol):
    """What runs a variant: the GPU here, an emulator elsewhere."""

    name: str

    def run(self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int) -> list[np.ndarray]:
        """Run on flat host buffers of A, B and C that begin `GUARD + offset` elements in; return them as left.

        Raises `UserError` for a problem that the variant refuses.
        """
        ...

    def grid(self, kernel: Variant, problem: Problem) -> tuple[int, int, int]:
        """Blocks of a launch in x, y and z."""
        ...

    def owners(self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int) -> np.ndarray | None:
        """Run again; for each element of C, m x n, block x threads of a block + thread of the last store to it.

        -1 where there was none; None from a device that cannot tell.
        """
        ...


class GpuDevice:
    """The leased GPU."""

    name = "gpu"

    def __init__(self, build_dir: Path) -> None:
        from experiments.gpu.device import Gpu

        self.gpu = Gpu(build_dir)
        self._loaded: dict[str, Any] = {}

    def run(self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int) -> list[np.ndarray]:
        """See `Device.run`."""
        from experiments.gpu.libraries import load_gemm

        if variant.name not in self._loaded:
            self._loaded[variant.name] = load_gemm(self.gpu, variant)  # of a dispatcher, with all that it picks
        memories = [self.gpu.upload(buffer) for buffer in buffers]
        starts = [m.address + (GUARD + offset) * b.itemsize for m, b in zip(memories, buffers, strict=True)]
        work = self._loaded[variant.name].bind(problem, *starts)
        work()
        return [self.gpu.download(m, b.dtype, b.size) for m, b in zip(memories, buffers, strict=True)]

    def grid(self, kernel: Variant, problem: Problem) -> tuple[int, int, int]:
        """See `Device.grid`."""
        return kernel.grid(problem, self.gpu.sm_count)

    def owners(self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int) -> None:
        """See `Device.owners`: it cannot tell."""


def guarded(matrix: np.ndarray, ld: int, offset: int = 0) -> np.ndarray:
    """`matrix` in a flat buffer with rows `ld` apart; all that is not the matrix is NaN."""
    rows, cols = matrix.shape
    buffer = np.full(2 * GUARD + offset + rows * ld, np.nan, matrix.dtype)
    inside(buffer, rows, cols, ld, offset)[:] = matrix
    return buffer


def inside(buffer: np.ndarray, rows: int, cols: int, ld: int, offset: int = 0) -> np.ndarray:
    """The matrix within such a buffer, as a view."""
    return buffer[GUARD + offset : GUARD + offset + rows * ld].reshape(rows, ld)[:, :cols]


@dataclass
class Inputs:
    """One case's matrices, fresh and random, and the buffers that hold them as they lie in memory."""

    case: Case
    a: np.ndarray
    b: np.ndarray
    c0: np.ndarray
    before: list[np.ndarray]
    rng: np.random.Generator


def prepare(variant: Runnable, case: Case, seed: int) -> Inputs:
    """What a case starts from. As BLAS has it, C is not read where beta is 0, nor A and B where alpha is: NaN then."""
    p, dtype = case.problem, verify.NUMPY_DTYPES[variant.dtype]
    rng = np.random.default_rng(seed)
    a, b, c0 = (
        verify.random_matrix(rng, rows, cols, dtype) if factor else np.full((rows, cols), np.nan, dtype)
        for factor, rows, cols in ((p.alpha, p.m, p.k), (p.alpha, p.k, p.n), (p.beta, p.m, p.n))
    )
    lie = (a, b if p.b_layout == "row" else b.T, c0)
    before = [guarded(x, max(ld, row), case.offset) for x, (_, row, ld) in zip(lie, p.stored.values(), strict=True)]
    return Inputs(case, a, b, c0, before, rng)


def attempt(device: Device, variant: Runnable, inputs: Inputs) -> list[np.ndarray] | str:
    """The buffers as the device left them, or why it did not run."""
    try:
        return device.run(variant, inputs.case.problem, inputs.before, inputs.case.offset)
    except UserError as error:
        return str(error)


def judge(variant: Runnable, inputs: Inputs, after: list[np.ndarray] | str) -> verify.CheckResult:
    """Right within the bound, and not a byte changed that is not C's; or refused, where it must be."""
    case, p = inputs.case, inputs.case.problem
    if isinstance(after, str):
        return verify.CheckResult(0.0 if case.refused else None, "" if case.refused else after)
    if case.refused:
        return verify.CheckResult(None, MUST_REFUSE)
    computed = inside(after[2], p.m, p.n, p.ldc, case.offset)
    c = computed.copy()
    computed[:] = inside(inputs.before[2], p.m, p.n, p.ldc, case.offset)
    outside = [n for n, old, new in zip("ABC", inputs.before, after, strict=True) if old.tobytes() != new.tobytes()]
    computed[:] = c
    if outside:
        return verify.CheckResult(None, f"wrote outside C: in {outside[0]} or its guard bands")
    a, b = (verify.as_read(x, variant.dtype, variant.narrowing) for x in (inputs.a, inputs.b))
    if p.flop <= WHOLE_FLOP:
        return verify.check_whole(p, variant.dtype, a, b, inputs.c0, c)
    return _check_large(p, variant.dtype, a, b, c, inputs.rng)


def run_case(device: Device, variant: Runnable, case: Case, seed: int) -> verify.CheckResult:
    """One case from inputs to result."""
    inputs = prepare(variant, case, seed)
    return judge(variant, inputs, attempt(device, variant, inputs))


def explain(device: Device, variant: Runnable, inputs: Inputs, after: list[np.ndarray]) -> str:
    """Which elements of C are wrong, who stored them and what they lack, in words; "" where none is."""
    case, p = inputs.case, inputs.case.problem
    kernel = variant.pick(p, dict.fromkeys("ABC", case.offset * inputs.before[2].itemsize))
    c = inside(after[2], p.m, p.n, p.ldc, case.offset)
    a, b = (verify.as_read(x, variant.dtype, variant.narrowing) for x in (inputs.a, inputs.b))
    reference, allowed = verify.expected(p, variant.dtype, a, b, inputs.c0)
    wrong = ~(np.abs(c.astype(np.float64) - reference) <= allowed)  # NaN is wrong
    if not wrong.any():
        return ""
    told = [
        f"{int(wrong.sum())} of {wrong.size} elements: {patterns.place(wrong, (kernel.tile['m'], kernel.tile['n']))}"
    ]
    owner = device.owners(variant, p, inputs.before, case.offset)
    if owner is not None:
        told.append(patterns.owners(wrong, owner, kernel.threads, device.grid(kernel, p)))
    result = patterns.Result(p, kernel.tile["k"], a, b, inputs.c0, c, reference, allowed, wrong)
    return "; ".join(filter(None, [*told, patterns.cause(result)]))


def _check_large(
    p: Problem, dtype: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, rng: np.random.Generator
) -> verify.CheckResult:
    """A sample of exact rows and Freivalds' test over all of C; for beta = 0."""
    rows = rng.choice(p.m, SAMPLED_ROWS, replace=False)
    exact = verify.check_whole(
        Problem(len(rows), p.n, p.k, p.lda, p.ldb, p.ldc, p.alpha), dtype, a[rows], b, c[rows], c[rows]
    )
    a64, b64, c64 = (x.astype(np.float64) for x in (a, b, c))
    x = rng.choice([-1.0, 1.0], p.n)
    whole = verify.freivalds(
        p,
        dtype,
        c64 @ x,
        p.alpha * (a64 @ (b64 @ x)),
        abs(p.alpha) * (np.abs(a64) @ np.abs(b64).sum(axis=1)),
        np.sqrt((c64 * c64).sum(axis=1)),
    )
    return verify.combine(exact, whole)


def check_variant(
    device: AbstractContextManager[Device],
    variant: Runnable,
    seed: int | None = None,
    large: int | None = LARGE,
    tell: bool = True,
) -> list[dict[str, Any]]:
    """All cases as rows of checks.csv; with `tell`, how they went is logged.

    The device is held only while kernels run, not for inputs and judging. `seed`: of the first case (None: drawn).
    """
    if seed is None:
        seed = verify.fresh_seed()
    prepared = [prepare(variant, case, seed + number) for number, case in enumerate(cases(variant, large))]
    with device as opened:
        outputs = [attempt(opened, variant, inputs) for inputs in prepared]
    name, table = opened.name, []
    wrong: list[tuple[Inputs, list[np.ndarray], dict[str, Any]]] = []
    for number, (inputs, after) in enumerate(zip(prepared, outputs, strict=True)):
        case, result = inputs.case, judge(variant, inputs, after)
        row: dict[str, Any] = {
            "variant": variant.name,
            "source_hash": variant.source_hash,
            "device": name,
            "case": case.name,
        }
        row |= case.problem.numbers | {"seed": seed + number}
        row |= {"worst_error_share": result.worst, "passed": result.passed, "detail": result.detail}
        if case.refused:
            row["worst_error_share"] = None
        table.append(row)
        if not (result.passed or case.refused or isinstance(after, str)) and case.problem.flop <= WHOLE_FLOP:
            wrong.append((inputs, after, row))
    if wrong:  # once: of the largest problem, where a pattern shows best
        inputs, after, row = max(wrong, key=lambda one: one[0].case.problem.flop)
        told = explain(opened, variant, inputs, after)
        row["detail"] = EXPLAINED.join(filter(None, [row["detail"], told]))
    for line in summary(variant, table) if tell else ():
        logger.log(logging.WARNING if line.startswith("FAILED") else logging.INFO, line)
    return table


def summary(variant: Runnable, table: list[dict[str, Any]]) -> list[str]:
    """How the cases of `check_variant` went, in lines: what failed is told once, by the case that explains most."""
    name, lines = table[0]["device"], []
    if failed := [row for row in table if not row["passed"]]:
        first = next((row for row in failed if EXPLAINED in row["detail"]), failed[0])
        lines.append(f"FAILED {variant.name}, {first['case']}, on {name}: {first['detail']}")
        if more := [row["case"] for row in failed if row is not first]:
            lines.append(f"FAILED {variant.name} on {name} in {len(more)} more cases: {'; '.join(more)}")
    passed = len(table) - len(failed)
    lines.append(f"checked {variant.name} on {name}: {passed} of {len(table)} cases passed")
    ran = [
        row for row in table if row["detail"] != MUST_REFUSE and (row["worst_error_share"] is not None or row in failed)
    ]
    numbers = [{key: row[key] for key in PROBLEM} for row in ran]
    problems = [
        (Problem(**told, b_layout=variant.b_layout), row["passed"]) for told, row in zip(numbers, ran, strict=True)
    ]
    common = patterns.of_cases(
        [problem for problem, right in problems if not right],
        [problem for problem, right in problems if right],
        variant.variants[-1].tile,
    )
    return [*lines, *([f"it fails where {common}, and nowhere else"] if common else [])]


@contextmanager
def leased_gpu(build_dir: Path) -> Iterator[Device]:
    """A GPU, until the block ends."""
    from experiments.gpu.lease import lease

    with lease():
        yield GpuDevice(build_dir)


def main() -> None:
    parser = argparse.ArgumentParser(description="Check one variant.")
    add_variant(parser)
    add_build_dir(parser)
    parser.add_argument("--seed", type=int, help="of the first case; drawn afresh when left out")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    variant = catalogue.find(options.variant)
    if isinstance(variant, Baseline):
        raise UserError(f"{variant.name} is a library baseline: its output is checked where it is timed")
    write_rows(options.out, "checks", check_variant(leased_gpu(options.build_dir), variant, options.seed))


if __name__ == "__main__":
    run_command(main)
