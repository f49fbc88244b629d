"""Checks variants: every case of `experiments.stages.cases` against the bound of
`experiments.stages.verify`.

    python -m experiments.stages.check sgemm_warptile sgemm_naive --build-dir results/build/sm_90a --store measured \
        --out manifest.json

on the GPU; variants that have a case in common get the same inputs for it. The GPU is held only
while a process runs the kernels of some variants: their inputs are made before, and what they left
is evaluated after. `experiments.emulation` makes the same checks on an emulator of PTX that needs no
GPU. A failure is a row with passed = false, not an error: the pipeline leaves that variant out of
every performance figure, names it in the report, and ends non-zero
(`experiments.stages.tables passed`). So is a kernel that faults or hangs; a fresh process then
checks the rest. What was checked before is not checked again.
"""

from __future__ import annotations

import argparse
import functools
import logging
import mmap
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from contracts import UserError, run_command
from contracts.dtypes import Types
from contracts.files import checksum
from contracts.rows import Checks, MeasuredRows
from experiments.command_line import (
    add_build_dir,
    add_manifest,
    add_problems,
    add_variants,
    find_runnable,
)
from experiments.gpu import discovery
from experiments.gpu.session import UNKNOWN, Session, require_gpu, session
from experiments.gpu.worker import DeviceFault, Failure, Watch, work_through
from experiments.stages import patterns, store, verify
from experiments.stages.cases import Case, cases, of_problems
from experiments.stages.machine_code import code_of
from experiments.stages.store import Key, Measurement
from kernels.catalogue import Entry, Problem, Runnable, Variant
from kernels.problem import ProblemSpec

if TYPE_CHECKING:
    from experiments.gpu.device import Gpu

logger = logging.getLogger(__name__)

GUARD = 256  # So many NaN lie before and after each matrix; 256 bytes or more keep its alignment.
WHOLE_FLOP = 2**30  # above this, rows and Freivalds' test instead of every element
SAMPLED_ROWS = 8
LIMIT_BYTES = 5 * 2**28  # A batch has no more outputs: those of eight kernels with C in fp32.
LARGE = 4096
DeviceName = Literal["gpu", "ptxsim"]
PROBLEM = list(Problem.square(1).numbers)
MUST_REFUSE = "ran a problem that it must refuse"
EXPLAINED = " | "  # between what is wrong and its pattern


class Device(Protocol):
    """What runs a variant: the GPU here, an emulator elsewhere."""

    name: DeviceName

    def code_hash(self, entry: Entry) -> str:
        """What was built of an entry (experiments/stages/machine_code.py)."""
        ...

    def run(
        self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int
    ) -> list[np.ndarray]:
        """Run on flat host buffers of A, B and C that begin `GUARD + offset` elements in; return
        them as left.

        Raises `UserError` for a problem that the variant refuses.
        """
        ...

    def grid(self, kernel: Variant, problem: Problem) -> tuple[int, int, int]:
        """Blocks of a launch in x, y and z."""
        ...

    def stores(
        self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int
    ) -> patterns.Stores | None:
        """Run again; the last store to each element of C. None from a device that cannot tell."""
        ...


Sms = Callable[[Variant, Problem], int]  # how many SMs a launch is made for


class GpuDevice:
    """The held GPU; its context is made by the first run. `sms`: persistent kernels of ours are
    launched as on a GPU with so many SMs."""

    name: DeviceName = "gpu"

    def __init__(self, build_dir: Path, sms: Sms | None = None) -> None:
        self.build_dir, self.sms = build_dir, sms
        self._loaded: dict[str, Any] = {}

    @functools.cached_property
    def gpu(self) -> Gpu:
        """Use while it is held."""
        from experiments.gpu.device import Gpu

        return Gpu(self.build_dir)

    def run(
        self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int
    ) -> list[np.ndarray]:
        """See `Device.run`."""
        from experiments.gpu.libraries import load_gemm

        if variant.name not in self._loaded:
            # A dispatcher is loaded with all that it picks.
            self._loaded[variant.name] = load_gemm(self.gpu, variant)
        memories = [self.gpu.upload(buffer) for buffer in buffers]
        starts = [
            m.address + (GUARD + offset) * b.itemsize
            for m, b in zip(memories, buffers, strict=True)
        ]
        fixed = {"sms": self.sms(variant.pick(problem), problem)} if self.sms else {}
        work = self._loaded[variant.name].bind(problem, *starts, **fixed)
        work()
        return [
            self.gpu.download(m, b.dtype, b.size) for m, b in zip(memories, buffers, strict=True)
        ]

    def code_hash(self, entry: Entry) -> str:
        """See `Device.code_hash`."""
        return code_of(entry, self.build_dir)

    def grid(self, kernel: Variant, problem: Problem) -> tuple[int, int, int]:
        """See `Device.grid`."""
        return kernel.grid(problem, self.sms(kernel, problem) if self.sms else self.gpu.sm_count)

    def stores(
        self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int
    ) -> None:
        """See `Device.stores`: it cannot tell."""


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
    """One case's matrices, fresh and random: views of the buffers that hold them as they lie in
    memory.
    """

    case: Case
    seed: int
    a: np.ndarray
    b: np.ndarray
    c0: np.ndarray
    before: list[np.ndarray]
    # How the kernel narrows what it reads decides by what its output is evaluated; an evaluator keeps its reference.
    evaluators: dict[str, Callable[[np.ndarray], verify.CheckResult]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The bytes of the buffers."""
        return sum(x.nbytes for x in self.before)


@dataclass(frozen=True)
class Left:
    """What a device left: the flat buffer of C, and which of A, B and C changed where it is not C
    ("": none).
    """

    c: np.ndarray
    outside: str


class Shared:
    """Inputs of cases that several variants have, the latest used, up to `LIMIT_BYTES` of them."""

    LIMIT_BYTES = 2**30

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Any, ...], Inputs] = OrderedDict()

    def prepared(self, variant: Runnable, case: Case, seed: int) -> Inputs:
        """As `prepare`; a problem that was prepared before keeps its inputs, and their seed."""
        key = (variant.dtype, case.problem, case.offset)
        inputs = self._known.pop(key, None) or prepare(variant, case, seed)
        self._known[key] = inputs
        while (
            len(self._known) > 1
            and sum(inputs.nbytes for inputs in self._known.values()) > self.LIMIT_BYTES
        ):
            self._known.popitem(last=False)
        return replace(inputs, case=case)


def prepare(variant: Runnable, case: Case, seed: int) -> Inputs:
    """What a case starts from.

    As BLAS has it, C is not read where beta is 0, nor A and B where alpha is: NaN then.
    """
    p, ab, c = case.problem, variant.types.ab, variant.types.c
    rng = np.random.default_rng(seed)
    a, b, c0 = (
        verify.random_matrix(rng, rows, cols, dtype)
        if factor
        else np.full((rows, cols), np.nan, dtype.numpy)
        for factor, rows, cols, dtype in (
            (p.alpha, p.m, p.k, ab),
            (p.alpha, p.k, p.n, ab),
            (p.beta, p.m, p.n, c),
        )
    )
    lie = (a, b if p.b_layout == "row" else b.T, c0)
    before, views = list[np.ndarray](), list[np.ndarray]()
    for x, (rows, row, ld) in zip(lie, p.stored.values(), strict=True):
        before.append(guarded(x, max(ld, row), case.offset))
        views.append(inside(before[-1], rows, row, max(ld, row), case.offset))
    return Inputs(
        case, seed, views[0], views[1] if p.b_layout == "row" else views[1].T, views[2], before
    )


def attempt(device: Device, variant: Runnable, inputs: Inputs) -> Left | str:
    """What the device left, or why it did not run."""
    p, offset = inputs.case.problem, inputs.case.offset
    try:
        after = device.run(variant, p, inputs.before, offset)
    except UserError as error:
        return str(error)
    pairs = [*zip("ABC", inputs.before, after, strict=True)]
    changed = [name for name, *both in pairs[:2] if _differ(*both)]
    whole = [slice(0, GUARD + offset), slice(GUARD + offset + p.m * p.ldc, None)]
    before, c = inputs.before[2], after[2]
    padding = [x[whole[0].stop : whole[1].start].reshape(p.m, p.ldc)[:, p.n :] for x in (before, c)]
    if _differ(*padding) or any(_differ(before[part], c[part]) for part in whole):
        changed.append("C")
    return Left(c, changed[0] if changed else "")


def _differ(before: np.ndarray, after: np.ndarray) -> bool:
    """Return whether two arrays differ in any bit."""
    bits = f"u{before.itemsize}"
    return not np.array_equal(before.view(bits), after.view(bits))


def evaluate(variant: Runnable, inputs: Inputs, after: Left | str) -> verify.CheckResult:
    """Right within the bound, and not a byte changed that is not C's; or refused, where it must
    be.
    """
    case, p = inputs.case, inputs.case.problem
    if isinstance(after, str):
        return verify.CheckResult(0.0 if case.refused else None, "" if case.refused else after)
    if case.refused:
        return verify.CheckResult(None, MUST_REFUSE)
    if after.outside:
        return verify.CheckResult(None, f"wrote outside C: in {after.outside} or its guard bands")
    if variant.narrowing not in inputs.evaluators:
        a, b = (
            verify.as_read(x, variant.types.ab, variant.narrowing) for x in (inputs.a, inputs.b)
        )
        made = (
            _evaluator_of_all(p, variant.types, a, b, inputs.c0) if p.flop <= WHOLE_FLOP else None
        )
        inputs.evaluators[variant.narrowing] = made or _evaluator_of_rows(
            p, variant.types, a, b, inputs.c0, inputs.seed
        )
    return inputs.evaluators[variant.narrowing](inside(after.c, p.m, p.n, p.ldc, case.offset))


def run_case(device: Device, variant: Runnable, case: Case, seed: int) -> verify.CheckResult:
    """One case from inputs to result."""
    inputs = prepare(variant, case, seed)
    return evaluate(variant, inputs, attempt(device, variant, inputs))


def explain(device: Device, variant: Runnable, inputs: Inputs, after: Left) -> str:
    """Which elements of C are wrong, who stored them and what they lack, in words; "" where none
    is.
    """
    case, p = inputs.case, inputs.case.problem
    kernel = variant.pick(p, case.starts(variant.types))
    c = inside(after.c, p.m, p.n, p.ldc, case.offset)
    a, b = (verify.as_read(x, variant.types.ab, variant.narrowing) for x in (inputs.a, inputs.b))
    reference, allowed = verify.expected(p, variant.types, a, b, inputs.c0)
    wrong = ~(np.abs(c.astype(np.float64) - reference) <= allowed)  # NaN is wrong
    if not wrong.any():
        return ""
    words = [
        f"{int(wrong.sum())} of {wrong.size} elements: {patterns.place(wrong, (kernel.tile['m'], kernel.tile['n']))}"
    ]
    stores = device.stores(variant, p, inputs.before, case.offset)
    if stores is not None:
        words.append(patterns.stored_by(wrong, stores, kernel.threads, device.grid(kernel, p)))
    start = GUARD + case.offset
    result = patterns.Result(
        p,
        kernel.tile["k"],
        a,
        b,
        inputs.c0,
        c,
        reference,
        allowed,
        wrong,
        unstored=None if stores is None else stores.owner < 0,
        memory={"A": inputs.before[0][start:], "B": inputs.before[1][start:], "C": after.c[start:]},
        sums=variant.types.accumulate.name,
    )
    return "; ".join(filter(None, [*words, patterns.cause(result)]))


Evaluator = Callable[[np.ndarray], verify.CheckResult]


def _evaluator_of_all(
    p: Problem, types: Types, a: np.ndarray, b: np.ndarray, c0: np.ndarray
) -> Evaluator:
    """Compares every element with float64."""
    reference, allowed = verify.expected(p, types, a, b, c0)
    return lambda c: verify.evaluate(c, reference, allowed)


def _evaluator_of_rows(
    p: Problem, types: Types, a: np.ndarray, b: np.ndarray, c0: np.ndarray, seed: int
) -> Evaluator:
    """Compares a sample of exact rows, and makes Freivalds' test over all of C."""
    rng = np.random.default_rng([seed, 1])
    rows, x = rng.choice(p.m, SAMPLED_ROWS, replace=False), rng.choice([-1.0, 1.0], p.n)
    reference, allowed = verify.expected(replace(p, m=len(rows)), types, a[rows], b, c0[rows])
    (bx, _), (b_sums, _) = _products(b, x), _products(b, np.ones(p.n), magnitudes=True)
    abx, magnitudes = (
        p.alpha * _products(a, bx)[0],
        abs(p.alpha) * _products(a, b_sums, magnitudes=True)[0],
    )
    if p.beta:
        sums, _ = _products(c0, np.ones(p.n), magnitudes=True)
        abx, magnitudes = abx + p.beta * _products(c0, x)[0], magnitudes + abs(p.beta) * sums

    def evaluate(c: np.ndarray) -> verify.CheckResult:
        cx, norms = _products(c, x)
        whole = verify.freivalds(p, types, cx, abx, magnitudes, norms)
        return verify.combine(verify.evaluate(c[rows], reference, allowed), whole)

    return evaluate


def _products(
    matrix: np.ndarray, x: np.ndarray, magnitudes: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Matrix (or its magnitudes) times x in float64, and the 2-norm of each row."""
    products, norms = [], []
    for block in verify.row_blocks(matrix):
        block64 = block.astype(np.float64)
        norms.append(np.sqrt(np.einsum("ij,ij->i", block64, block64)))
        products.append((np.abs(block64, out=block64) if magnitudes else block64) @ x)
    return np.concatenate(products), np.concatenate(norms)


@dataclass
class Checked:
    """A case that a variant ran: what it left, or why it did not run, and its row of checks.csv."""

    inputs: Inputs
    after: Left | str
    row: Checks


def check_variant(
    device: AbstractContextManager[Device],
    variant: Runnable,
    seed: int | None = None,
    large: int | None = LARGE,
    tell: bool = True,
) -> list[Checks]:
    """All cases as rows of checks.csv (see `check_cases`); with `tell`, how they went is logged."""
    table = [checked.row for checked in check_cases(device, variant, seed, large)]
    if tell:
        report(variant, table)
    return table


def report(variant: Runnable, table: list[Checks]) -> None:
    """Log how the cases went."""
    for line in summary(variant, table):
        logger.log(logging.WARNING if line.startswith("FAILED") else logging.INFO, line)


def check_cases(
    device: AbstractContextManager[Device],
    variant: Runnable,
    seed: int | None = None,
    large: int | None = LARGE,
    shared: Shared | None = None,
    problems: Sequence[ProblemSpec] = (),
) -> list[Checked]:
    """Every case of a variant, run and evaluated; or, where `problems` are named, a case for each of
    these.

    The device is held only while kernels run, not for inputs and evaluating. `seed`: of the first case
    (None: drawn); `shared`: where inputs are kept for the next variant.
    """
    prepared = prepare_cases(variant, seed, large, shared, problems)
    with device as opened:
        outputs = [attempt(opened, variant, inputs) for inputs in prepared]
    return evaluate_cases(opened, variant, prepared, outputs)


def prepare_cases(
    variant: Runnable,
    seed: int | None,
    large: int | None,
    shared: Shared | None,
    problems: Sequence[ProblemSpec],
) -> list[Inputs]:
    """The inputs of `check_cases`."""
    if seed is None:
        seed = verify.fresh_seed()
    make = shared.prepared if shared else prepare
    chosen = of_problems(variant, problems) if problems else cases(variant, large)
    return [make(variant, case, seed + number) for number, case in enumerate(chosen)]


def evaluate_cases(
    opened: Device, variant: Runnable, prepared: list[Inputs], outputs: Sequence[Left | str]
) -> list[Checked]:
    """What came of each case; what is wrong with the largest that failed is explained."""
    table: list[Checked] = []
    wrong: list[tuple[Inputs, Left, Checks]] = []
    for inputs, after in zip(prepared, outputs, strict=True):
        case, result = inputs.case, evaluate(variant, inputs, after)
        row = Checks(
            variant=variant.name,
            code_hash=opened.code_hash(variant),
            device=opened.name,
            case=case.name,
            **case.problem.numbers,
            seed=inputs.seed,
            error_over_bound=None if case.refused else result.worst,
            passed=result.passed,
            detail=result.detail,
        )
        table.append(Checked(inputs, after, row))
        if (
            not (result.passed or case.refused or isinstance(after, str))
            and case.problem.flop <= WHOLE_FLOP
        ):
            wrong.append((inputs, after, row))
    # One is explained: the largest problem, where a pattern shows best, and rather without an old C.
    if wrong:
        inputs, after, row = max(
            wrong, key=lambda item: (item[0].case.problem.flop, item[0].case.problem.beta == 0)
        )
        words = explain(opened, variant, inputs, after)
        row.detail = EXPLAINED.join(filter(None, [row.detail, words]))
    return table


def summary(variant: Runnable, table: list[Checks]) -> list[str]:
    """How the cases of `check_variant` went, in lines; a failure is explained once, by the case
    that explains most.
    """
    name, lines = table[0].device, list[str]()
    if failed := [row for row in table if not row.passed]:
        first = next((row for row in failed if EXPLAINED in row.detail), failed[0])
        lines.append(f"FAILED {variant.name}, {first.case}, on {name}: {first.detail}")
        if more := [row.case for row in failed if row is not first]:
            lines.append(
                f"FAILED {variant.name} on {name} in {len(more)} more cases: {'; '.join(more)}"
            )
    passed = len(table) - len(failed)
    lines.append(f"checked {variant.name} on {name}: {passed} of {len(table)} cases passed")
    ran = [
        row
        for row in table
        if row.detail != MUST_REFUSE and (row.error_over_bound is not None or row in failed)
    ]
    numbers = [{key: getattr(row, key) for key in PROBLEM} for row in ran]
    problems = [
        (Problem(**sizes, b_layout=variant.b_layout), row.passed)
        for sizes, row in zip(numbers, ran, strict=True)
    ]
    common = patterns.of_cases(
        [problem for problem, right in problems if not right],
        [problem for problem, right in problems if right],
        variant.variants[-1].tile,
    )
    return [*lines, *([f"it fails where {common}, and nowhere else"] if common else [])]


@contextmanager
def held_gpu(build_dir: Path) -> Iterator[Device]:
    """A GPU, until the block ends."""
    with session():
        yield GpuDevice(build_dir)


class HeldGpu:
    """A GPU that is held from the first block to the end of the process; `sms`: see `GpuDevice`."""

    def __init__(self, build_dir: Path, watch: Watch, sms: Sms | None = None) -> None:
        self.session, self.watch, self.build_dir, self.sms = Session(), watch, build_dir, sms
        self._device: GpuDevice | None = None
        self._process, self._block = ExitStack(), ExitStack()

    def __enter__(self) -> Device:
        if not self._device:
            self._process.enter_context(self.session.held())
        with ExitStack() as block:
            block.enter_context(self.watch.holding())
            self._device = self._device or GpuDevice(self.build_dir, self.sms)
            self._block = block.pop_all()
        return self._device

    def __exit__(self, *error: Any) -> None:
        self._block.close()


@dataclass
class Batch:
    """A variant's inputs, and memory for what its kernels leave in C, which a process and its forks
    share.
    """

    variant: Runnable
    prepared: list[Inputs]
    left: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.left = [_shared_like(inputs.before[2]) for inputs in self.prepared]

    @property
    def nbytes(self) -> int:
        """Of what is not shared with other variants."""
        return sum(c.nbytes for c in self.left)

    def of(self, outputs: list[Left | str]) -> list[Left | str]:
        """Return the outputs of `_running`, with what was left in C."""
        pairs = zip(outputs, self.left, strict=True)
        return [left if isinstance(left, str) else replace(left, c=c) for left, c in pairs]


def _shared_like(array: np.ndarray) -> np.ndarray:
    memory = np.ndarray(array.shape, array.dtype, mmap.mmap(-1, array.nbytes))
    memory[:] = 0  # The pages are there before the GPU is held.
    return memory


def batches(parts: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Yield some at a time, whose memory is at most `LIMIT_BYTES`, or one that has more."""
    batch: list[Batch] = []
    for part in parts:
        if batch and sum(member.nbytes for member in (*batch, part)) > LIMIT_BYTES:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


@contextmanager
def _running(
    batch: list[Batch], device: GpuDevice, watch: Watch
) -> Iterator[Callable[[int], list[Left | str]]]:
    """Run all cases of each, by its index in the batch; C comes back through its memory.

    Raises `DeviceFault`, naming the case that failed first, where a kernel has spoilt the context.
    """

    def run(index: int) -> list[Left | str]:
        part, outputs = batch[index], list[Left | str]()
        with watch.holding():
            for inputs, c in zip(part.prepared, part.left, strict=True):
                left = attempt(device, part.variant, inputs)
                if isinstance(left, Left):
                    c[:], left = left.c, replace(left, c=c[:0])
                outputs.append(left)
            try:
                device.gpu.sync()
            except DeviceFault as fault:
                pairs = zip(part.prepared, outputs, strict=True)
                failed = (
                    inputs.case.name
                    for inputs, left in pairs
                    if isinstance(left, str) and not inputs.case.refused
                )
                raise DeviceFault(f"{next(failed, 'after the last case')}: {fault}") from fault
        return outputs

    yield run


def measured(
    variants: list[Runnable],
    build_dir: Path,
    store_: store.Store,
    seed: int | None = None,
    problems: Sequence[ProblemSpec] = (),
) -> dict[str, Measurement]:
    """Return the checks of each variant, by name: those that are stored, and those made now.

    Raises `UserError` for what no kernel is to blame for, once the others are checked.
    """
    from experiments.gpu import libraries  # noqa: F401  # for the forks, and before the GPU is held

    shared, device, session = Shared(), GpuDevice(build_dir), Session()
    large = None if discovery.rehearsing() else LARGE  # It takes an emulator minutes.

    def key(variant: Runnable) -> Key:
        return _key(variant, problems)

    def serves(variant: Runnable) -> Callable[[store.Fingerprint], bool]:
        return fingerprint_of(variant, problems, build_dir).__eq__

    def measure(
        todo: list[Runnable], _: dict[Key, Measurement]
    ) -> Iterator[tuple[Runnable, Measurement | str]]:
        prepared = (Batch(v, prepare_cases(v, seed, large, shared, problems)) for v in todo)
        for batch in batches(prepared):
            with session.held():  # until the process has ended, and its context with it
                # Another job may have been asked for them meanwhile.
                stored = [store_.find(key(part.variant), serves(part.variant)) for part in batch]
                numbers = [number for number, checks in enumerate(stored) if checks is None]
                results = list(work_through(numbers, functools.partial(_running, batch, device)))
            pairs = zip(batch, stored, strict=True)
            yield from ((part.variant, checks) for part, checks in pairs if checks)
            for number, result in results:
                part, variant = batch[number], batch[number].variant
                if isinstance(result, Failure) and not result.of_kernel:
                    yield variant, f"{variant.name}: {result.reason}"
                    continue
                if isinstance(result, Failure):
                    rows, name = [_lost(variant, result.reason, build_dir)], UNKNOWN
                else:
                    evaluated = evaluate_cases(device, variant, part.prepared, part.of(result))
                    rows, name = [checked.row for checked in evaluated], session.name
                report(variant, rows)
                fingerprint = fingerprint_of(variant, problems, build_dir)
                yield variant, Measurement(fingerprint, name, MeasuredRows(checks=rows))
            batch.clear()  # Its memory is free before the next one's is taken.

    results = store.run_kept(store_, variants, key, serves, measure)
    return {variant.name: measurement for variant, measurement in results}


def fingerprint_of(
    variant: Runnable, problems: Sequence[ProblemSpec], build_dir: Path
) -> store.Fingerprint:
    """What its checks rest on."""
    return store.fingerprint_of(variant, build_dir) | (
        {"problems": list(map(str, problems))} if problems else {}
    )


def _key(variant: Runnable, problems: Sequence[ProblemSpec] = ()) -> Key:
    named = " ".join(map(str, problems))
    return Key(
        "check", variant.name, f"problems-{checksum(named.encode())[:8]}" if problems else "cases"
    )


def _lost(variant: Runnable, reason: str, build_dir: Path) -> Checks:
    """The row of a variant that ended the process in which it was checked."""
    first = next(iter(cases(variant)))
    return Checks(
        variant=variant.name,
        code_hash=code_of(variant, build_dir),
        device=GpuDevice.name,
        case="all cases",
        **first.problem.numbers,
        seed=0,
        passed=False,
        detail=reason,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Check variants.")
    add_variants(parser)
    add_build_dir(parser)
    add_manifest(parser)
    add_problems(parser, "that are checked in place of the usual cases")
    parser.add_argument(
        "--seed", type=int, help="of the first case of each; drawn afresh when left out"
    )
    options = parser.parse_args()
    variants = [
        find_runnable(options.catalogue, name, "its output is checked where it is timed")
        for name in options.variants
    ]
    require_gpu()
    store_ = store.Store(options.store)
    results = measured(variants, options.build_dir, store_, options.seed, options.problem)
    store.write_manifest(options.out, results.values())


if __name__ == "__main__":
    run_command(main)
