"""Counters of a whole grid from a few of its blocks.

    predict(kernel, grid=(64, 64), block=256, args=[...]).totals

Blocks at the first and the last place of an axis may differ from those between (edges, ragged
tiles); blocks between must all do the same. So one block represents each combination of places, and
further blocks, spread over the grid, test the prediction. Where the test fails, a small grid (of a
persistent kernel, for example) is run once with its loop over k shortened, and blocks with equal
counts there are represented together; of any other grid nothing is predicted.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..engine.kernel import Kernel, dimensions
from ..engine.slicing import PURE
from ..errors import PtxsimError, TooCostlyError
from ..instructions import registry
from ..machine.clusters import in_clusters
from ..machine.launch import Limits
from ..machine.memory import Arena
from ..machine.observer import Launched, Observer
from ..machine.values import distinct
from ..ptx import polling
from ..ptx.program import Program
from ..ptx.reaching_definitions import UNKNOWN, Origins, named_spaces
from ..ptx.sizes import Dim3
from ..ptx.syntax import Address, Instruction, Register, registers_of
from .bounds import SECTOR, Traffic, Work
from .counters import Counters, Stats, at_least, named
from .trip_counts import trip_counts

# Values that are tried in turn for a count of trips: the least, and the step from it.
SHORTER = ((128, 64), (256, 128), (256, 256), (512, 256))
# All blocks of a small grid are run with this value, to find those that do the same.
SHORTEST = 64
# This many blocks are drawn (from a fixed seed) to test the prediction, in addition to those next
# to the edges.
MORE = 4
# Running all blocks may cost this many thread-instructions, which take some seconds.
WHOLE = 2e9
# All blocks of a grid with at most this many may be run.
FEW = 512
# `Sums` holds counts under the names of `Counters.sums`.
Sums = dict[str, float]
ANYWHERE = {"global", "shared", "local", "param"}
# These counts of an instruction (`Stats`) have the names of `_named`; they need not be equal in
# blocks that do the same.
OF_INSTRUCTION = (
    "executed",
    "requests",
    "wavefronts",
    "ideal",
    "sectors",
    "ideal_sectors",
    "bytes",
    "wanted",
    "local_sectors",
    "operand_bytes",
)
OF_TRAFFIC = ("lines", "block_sectors", "sectors")


# Two counts are equal within this relative tolerance.
EXACT = 1e-9


class BlocksDifferError(PtxsimError):
    """A few blocks do not predict the others."""


class NotLinearError(PtxsimError):
    """Counts do not grow linearly with the number of steps."""


def extrapolate(runs: Mapping[int, Mapping[str, float]], to_steps: int) -> dict[str, float]:
    """Return the sums of a launch with `to_steps` steps of its loop, from those of three or more
    by their number of steps. A name that a launch lacks counts as 0 there.

    Where a step costs the same each time, a sum is a + b * steps. Two launches give a and b; each
    further one must agree with their prediction. Only sums grow so: a ratio is made of sums
    afterwards. Raises `NotLinearError` that names the first sum that does not grow linearly.
    """
    few, more, *others = sorted(runs)
    names = dict.fromkeys(name for steps in (few, more, *others) for name in runs[steps])

    def predicted(name: str, steps: int) -> float:
        first, second = runs[few].get(name, 0.0), runs[more].get(name, 0.0)
        slope = (second - first) / (more - few)
        return first - slope * few + slope * steps

    for steps in others:
        for name in names:
            first, second, counted = (runs[n].get(name, 0.0) for n in (few, more, steps))
            if abs(predicted(name, steps) - counted) > EXACT * abs(counted):
                raise NotLinearError(
                    f"{name} does not grow linearly: {first:,.0f}, {second:,.0f} and {counted:,.0f} with "
                    f"{few}, {more} and {steps} steps"
                )
    return {name: predicted(name, to_steps) for name in names}


@dataclass(frozen=True)
class Prediction:
    """The counters of a launch of `blocks` blocks, predicted from `sampled` of them.

    Attributes: totals: under Nsight Compute's names. at_least: those of which a device may count
        more, with the reason. over: the index of an argument that counts trips of loops, and the
        smaller values from whose counts these follow. counters, work: by instruction, and what
        bounds need: filled where `by_instruction` was asked for.
    """

    totals: dict[str, float]
    blocks: int
    sampled: int
    at_least: dict[str, str]
    over: tuple[int, tuple[int, ...]] | None = None
    counters: Counters = field(default_factory=Counters)
    work: Work = field(default_factory=lambda: Work(0, 0, {}))


def _named(pc: int, name: str) -> str:
    return f"@{pc} {name}"


def _told(event: str) -> Callable[..., None]:
    """Return a method that tells an event to those who count the batch that runs."""

    def tell(self: _Apart, *args: object) -> None:
        for observer in self.now:
            getattr(observer, event)(*args)

    return tell


class _Apart(Observer):
    """Counts each block by itself."""

    by_block = True

    def __init__(self, by_instruction: bool = False) -> None:
        self.by_instruction = by_instruction
        self.batches: list[tuple[np.ndarray, Counters]] = []
        self.traffic: list[tuple[np.ndarray, Traffic]] = []
        self.launch: tuple[Launched, Dim3, Dim3]
        self.now: Sequence[Observer]

    def begins(self, kernel: Launched, grid: Dim3, block: Dim3) -> None:
        self.launch = kernel, grid, block

    def batch(self, blocks: np.ndarray) -> None:
        counters = Counters()
        self.batches.append((blocks, counters))
        self.now = [counters]
        if self.by_instruction:
            self.traffic.append((blocks, Traffic()))
            self.now = [counters, self.traffic[-1][1]]
        for observer in self.now:
            observer.begins(*self.launch)

    def sums(self, together: int) -> dict[int, dict[str, float]]:
        """Return the sums of each cluster of `together` blocks, by its first."""
        by_first: dict[int, dict[str, float]] = {}
        for number, (blocks, counters) in enumerate(self.batches):
            firsts = blocks[::together].tolist()
            for first in firsts:
                by_first[first] = {}
            sums: dict[str, Any] = dict(counters.sums())
            if self.by_instruction:
                traffic = self.traffic[number][1]
                sums |= {f"executed:{pc}": times for pc, times in traffic.executions.items()} | {
                    "lines": traffic.lines
                }
                for s in counters.by_instruction():
                    sums |= {
                        _named(s.instruction.pc, name): getattr(s, name) for name in OF_INSTRUCTION
                    }
            for name, value in sums.items():
                # The value is one for each block, or the same for all.
                each = np.asarray(value)
                each = (
                    each.reshape(-1, together).sum(axis=1)
                    if each.ndim
                    else np.full(len(firsts), each * together)
                )
                for first, amount in zip(firsts, each.tolist(), strict=True):
                    by_first[first][name] = amount
        return by_first

    executed, memory, bulk = _told("executed"), _told("memory"), _told("bulk")
    operands, texture = _told("operands"), _told("texture")


@dataclass
class _Seen:
    """What is known of single instructions, over all launches of a prediction."""

    stats: dict[int, Stats] = field(default_factory=dict)
    # `fetched` holds the sectors by cluster and array of the last launch.
    fetched: dict[int, dict[int, np.ndarray]] = field(default_factory=dict)
    # `sizes` counts the sectors of each array.
    sizes: dict[int, int] = field(default_factory=dict)
    # `together` holds, by array, how many times the sectors of one cluster all clusters read, where
    # all of them were run.
    together: dict[int, float] = field(default_factory=dict)

    def take(self, number: int, apart: _Apart, blocks: Sequence[int], arena: Arena) -> None:
        """Note what a cluster of these blocks fetched."""
        sectors = next(
            traffic.sectors_of(blocks) for those, traffic in apart.traffic if blocks[0] in those
        )
        arrays = np.searchsorted(np.asarray(arena.starts), sectors * SECTOR, side="right")
        self.fetched[number] = {int(n): sectors[arrays == n] for n in distinct(arrays)}
        for n in self.fetched[number]:
            first, last = arena.starts[n - 1] // SECTOR, (arena.ends[n - 1] - 1) // SECTOR
            self.sizes[n] = last - first + 1

    def take_all(self, middle: int) -> None:
        """Note what all clusters fetched together, once all of the grid were run."""
        for array, sectors in self.fetched[middle].items():
            parts = [fetched[array] for fetched in self.fetched.values() if array in fetched]
            self.together[array] = distinct(np.concatenate(parts)).size / sectors.size

    def sectors(self, middle: int, beside: Sequence[tuple[int, int]]) -> Sums:
        """Return different sectors of each array that the grid reads: those of a block times what
        all blocks read together or, where not all were run, as many more along each axis (`beside`:
        a block next to it there, and how many there are) as that block has for itself."""
        sums: Sums = {}
        for array, sectors in self.fetched[middle].items():
            many = sectors.size * self.together.get(array, 1.0)
            for number, size in beside if array not in self.together else ():
                new = np.setdiff1d(
                    self.fetched[number].get(array, sectors[:0]), sectors, assume_unique=True
                ).size
                many *= 1 + (size - 1) * new / sectors.size
            sums[f"sectors:{array}"] = many
        return sums

    def all_sectors(self, sums: Sums) -> float:
        """Return different sectors that the grid reads, of no array more than it has."""
        return sum(
            min(sums.get(f"sectors:{array}", 0.0), size) for array, size in self.sizes.items()
        )

    def counters(self, kernel: Kernel, grid: Dim3, block: Dim3, sums: Sums) -> Counters:
        """Return counters of the whole grid, with these sums."""
        counters = Counters()
        counters.begins(kernel, grid, block)
        for pc, stats in sorted(self.stats.items()):
            whole: dict[str, Any] = {
                name: round(sums.get(_named(pc, name), 0)) for name in OF_INSTRUCTION
            }
            # How often loops poll depends on the order in which warps run.
            counters.stats[pc] = replace(stats, polled=0, **whole)
        return counters


def waits_for_others(program: Program) -> Instruction | None:
    """Return an atomic operation on global memory whose result decides what a thread does next or
    where it reads: its block does not do the same alone as among others. Followed through
    registers, and through memory by space."""
    for i in program.code:
        if (
            i.opcode == "atom"
            and "shared" not in named_spaces(i)
            and decides(program, [i]) is not None
        ):
            return i
    return None


def decides(
    program: Program, sources: Sequence[Instruction], origins: Mapping[int, Origins] | None = None
) -> Instruction | None:
    """Return the instruction at which a result of these reaches an address, a branch, a barrier or
    the predicate of an access; None where none does. Memory is followed by space or, with
    `origins`, by the variables and buffers that addresses come from, as if no two parameters held
    one buffer."""

    def memory(i: Instruction) -> set[Any]:
        """Return what an access may touch, as values that are compared for equality."""
        possible = named_spaces(i) or ANYWHERE
        if origins is None:
            return set(possible)
        if possible == {"param"} and len(program.functions) == 1:
            # The host passes parameters.
            return set()
        return set(origins.get(i.pc, (UNKNOWN,)))

    def meets(touched: set[Any]) -> bool:
        return bool(spaces) and (
            not touched.isdisjoint(spaces) or UNKNOWN in touched or UNKNOWN in spaces
        )

    stores = [i for i in sources if isinstance(i.operands[0], Address)]
    # `known` holds the registers that depend on them, `spaces` the memory.
    known: set[Register] = {
        r for i in sources if i not in stores for r in registers_of(i.operands[0])
    }
    spaces: set[Any] = set().union(*map(memory, stores))
    before = None
    while before != (len(known), len(spaces)):
        before = len(known), len(spaces)
        for i in program.code:
            effect = not registry.is_elementwise(i)
            addresses = [operand for operand in i.operands if isinstance(operand, Address)]
            if i.predicate in known and effect and i.opcode not in PURE:
                return i
            if any(known.intersection(registers_of(a)) for a in addresses):
                return i
            if (
                i.opcode in registry.CONTROLS
                and i not in sources
                and known.intersection(registers_of(i.operands))
            ):
                return i
            if i.opcode in ("st", "atom", "red") and known.intersection(
                *[
                    [
                        r
                        for o in i.operands[i.opcode == "atom" :]
                        if o not in addresses
                        for r in registers_of(o)
                    ]
                ]
            ):
                spaces |= memory(i)
            if i.opcode in ("st", "red") or not i.operands:
                continue
            loads = i.opcode in ("ld", "ldu", "atom", "ldmatrix") and meets(memory(i))
            if loads or i.predicate in known or known.intersection(registers_of(i.operands[1:])):
                known.update(registers_of(i.operands[0]))
    return None


@dataclass(frozen=True)
class Classes:
    """Blocks (clusters, where there are some) that are assumed to do the same: `of` has the class
    of each that is to be run, by its number, and `sizes` how many of the grid each class has."""

    of: dict[int, Any]
    sizes: dict[Any, int]


def sample(grid: Sequence[int]) -> Classes:
    """Return classes by the place in the grid: first, between or last on each axis."""

    # The position is 0 for the first, 1 between, 2 for the last.
    def position(at: int, size: int) -> int:
        return 0 if at == 0 else 2 if at == size - 1 else 1

    def number(at: Sequence[int]) -> int:
        return at[0] + grid[0] * (at[1] + grid[1] * at[2])

    def classes(at: Sequence[int]) -> tuple[Any, ...]:
        return tuple(map(position, at, grid))

    axes = [sorted({0, size // 2, size - 1}) for size in grid]
    counts = [{0: 1, 1: size - 2, 2: 1} if size > 1 else {0: 1} for size in grid]
    chosen = [
        *itertools.product(*axes),
        tuple(min(1, s - 1) for s in grid),
        tuple(max(0, s - 2) for s in grid),
    ]
    draw = random.Random(0)
    chosen += [tuple(draw.randrange(s) for s in grid) for _ in range(MORE)]
    kinds = {classes(at): 0 for at in chosen}
    sizes = {kind: math.prod(c[k] for c, k in zip(counts, kind, strict=True)) for kind in kinds}
    return Classes({number(at): classes(at) for at in chosen}, sizes)


def _neighbours(grid: Sequence[int]) -> list[int]:
    """Return the number of a place in the middle of a grid, and of its neighbour along each axis
    that has several.
    """
    steps = (1, grid[0], grid[0] * grid[1])
    middle = sum(size // 2 * step for size, step in zip(grid, steps, strict=True))
    beside = [(size, step) for size, step in zip(grid, steps, strict=True) if size > 1]
    return [middle, *(middle + step if size > 2 else middle - step for size, step in beside)]


def classes_of(sums: Mapping[int, Sums]) -> Classes:
    """Return classes of blocks with equal sums; the first, the last and a drawn one of each class
    are to be run.
    """
    members: dict[Any, list[int]] = {}
    for number, counts in sums.items():
        compared = (
            (n, v) for n, v in counts.items() if v and not (n.startswith("@") or n in OF_TRAFFIC)
        )
        members.setdefault(tuple(sorted(compared)), []).append(number)
    draw = random.Random(0)
    chosen = {
        n: kind
        for kind, those in members.items()
        for n in (those[0], those[-1], draw.choice(those))
    }
    return Classes(chosen, {kind: len(those) for kind, those in members.items()})


def _first_block(number: int, grid: Sequence[int], cluster: Sequence[int]) -> int:
    """Return the first block of a cluster, given by its number."""
    x, y = grid[0] // cluster[0], grid[1] // cluster[1]
    first = number % x * cluster[0], number // x % y * cluster[1], number // (x * y) * cluster[2]
    return first[0] + grid[0] * (first[1] + grid[1] * first[2])


def _differences(first: Mapping[str, float], other: Mapping[str, float]) -> Iterator[str]:
    for name in {**first, **other}:
        if name.startswith("@") or name in OF_TRAFFIC:
            continue
        if first.get(name, 0.0) != other.get(name, 0.0):
            yield f"{name} is {first.get(name, 0.0):,.10g} and {other.get(name, 0.0):,.10g}"


def predict(
    kernel: Kernel,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    shared_bytes: int = 0,
    constants: Mapping[Any, Any] | None = None,
    limits: Limits | None = None,
    cluster: int | Sequence[int] | None = None,
    over: tuple[int, Sequence[int]] | None = None,
    by_instruction: bool = False,
) -> Prediction:
    """Predict the counters of a launch from a few of its blocks. `grid`, `block`, `args`,
    `shared_bytes`, `constants`, `limits` and `cluster` are those of `kernel.launch`, for the whole
    grid. What addresses and the flow of control depend on must be in the arrays. Of a grid with
    clusters, whole clusters are run.

    `over`: the place of a whole-number argument by which the work of each block grows linearly (k
    of a matrix product, say), and three or more smaller values in steps of one size: it is run with
    these, and what the launch's own value counts follows from them; all of them must lie on one
    line (`extrapolate`). Without it, a large argument that does no more than count trips
    of loops (`count/trip_counts.py`) is shortened so, where the counts lie on a line.

    `by_instruction`: the result has `counters` and `work`, too. Of what a launch reads from DRAM,
    how much more the blocks along each axis of the grid read than one block does is taken from two
    neighbours; of a small grid with one axis, whose blocks choose their tiles themselves, from all
    blocks in a short launch.

    Raises `PtxsimError`, one line, with the reason where a few blocks do not predict the others, or
    smaller values the launch's own.

    >>> kernel = ptxsim.load("scale.ptx")
    >>> x, y = (ptxsim.Array(np.zeros(1 << 20, np.float32), name) for name in "xy")
    >>> prediction = ptxsim.predict(kernel, grid=4096, block=256, args=[y, x, 2.0, 1 << 20])
    >>> prediction.totals["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    131072
    """
    _require_independent_blocks(kernel)
    grid = dimensions(grid)
    run = _Predictor(
        kernel,
        grid,
        dimensions(block),
        args,
        shared_bytes,
        constants,
        limits or Limits(),
        kernel.cluster_of(grid, cluster),
        by_instruction,
    )
    if over is not None:
        return run.over(over)
    run.compare_small_grid()
    return run.shortened() or run.prediction(*run.of_grid(args, run.classes))


def _require_independent_blocks(kernel: Kernel) -> None:
    """Raise `PtxsimError` where what a block does depends on other blocks."""
    if (atom := waits_for_others(kernel.program)) is not None:
        raise PtxsimError(
            f"{kernel.title}: {kernel.machine.diag.where(atom)}: what a block does depends on what others did before, "
            "by the result of this atomic operation: a few blocks do not predict the rest; run the whole grid"
        )
    if (looks := polling.across_blocks(kernel.machine.scheduler.polls)) is not None:
        raise PtxsimError(
            f"{kernel.title}: {kernel.machine.diag.where(looks)}: a block waits here for what others write: a few "
            "blocks do not predict the rest; run the whole grid"
        )


@dataclass
class _Predictor:
    """A prediction under way. Clusters are named by their number in the grid."""

    kernel: Kernel
    grid: Dim3
    block: Dim3
    args: Sequence[Any]
    shared_bytes: int
    constants: Mapping[Any, Any] | None
    limits: Limits
    cluster: Dim3
    by_instruction: bool
    seen: _Seen = field(default_factory=_Seen)

    def __post_init__(self) -> None:
        self.units = [g // c for g, c in zip(self.grid, self.cluster, strict=True)]
        self.classes = sample(self.units)

    def _launch(
        self, args: Sequence[Any], chosen: Sequence[int], limits: Limits
    ) -> dict[int, Sums]:
        """Run clusters; return the sums of each."""
        firsts = [_first_block(number, self.grid, self.cluster) for number in chosen]
        apart = _Apart(self.by_instruction)
        self.kernel.launch(
            self.grid,
            self.block,
            args,
            self.shared_bytes,
            observers=[apart],
            checks=False,
            limits=limits,
            values=False,
            constants=self.constants,
            blocks=sorted(firsts),
            cluster=self.cluster,
        )
        sums = apart.sums(math.prod(self.cluster))
        if self.by_instruction:
            self._take(apart, dict(zip(chosen, firsts, strict=True)), sums)
        return {number: sums[first] for number, first in zip(chosen, firsts, strict=True)}

    def _take(self, apart: _Apart, firsts: Mapping[int, int], sums: dict[int, Sums]) -> None:
        """Note what each cluster (its first block in `firsts`) fetched, and what is known of single
        instructions.
        """
        seen = self.seen
        for number, first in firsts.items():
            blocks = in_clusters(self.grid, self.cluster, np.asarray([first])).tolist()
            seen.take(number, apart, blocks, self.kernel.machine.launch.arena)
            sums[first]["block_sectors"] = sum(part.size for part in seen.fetched[number].values())
        for _, counters in apart.batches:
            for stats in counters.by_instruction():
                pc = stats.instruction.pc
                stats.ways.update(seen.stats[pc].ways if pc in seen.stats else {})
                seen.stats[pc] = stats

    def of_grid(self, args: Sequence[Any], classes: Classes) -> tuple[Sums, int]:
        """Return the sums of the grid, and from how many blocks they follow."""
        middle, *beside = _neighbours(self.units)
        more = [n for n in (middle, *beside) if n not in classes.of] if self.by_instruction else []
        sums = self._launch(args, [*classes.of, *more], self.limits)
        representative = self._require_alike(classes, sums)
        names = dict.fromkeys(name for counts in sums.values() for name in counts)
        kinds = classes.sizes.items()
        added = {
            name: sum(size * sums[representative[k]].get(name, 0.0) for k, size in kinds)
            for name in names
        }
        if self.by_instruction:
            along = [size for size in self.units if size > 1]
            added |= self.seen.sectors(middle, list(zip(beside, along, strict=True)))
        return added, len(classes.of) * math.prod(self.cluster)

    def _require_alike(self, classes: Classes, sums: Mapping[int, Sums]) -> dict[Any, int]:
        """Return a cluster of each class.

        Raises `BlocksDifferError` where those of a class do not do the same.
        """
        representative: dict[Any, int] = {}
        for number, kind in classes.of.items():
            first = representative.setdefault(kind, number)
            difference = next(_differences(sums[first], sums[number]), None)
            if difference is not None:
                block, other = (
                    self.kernel.state.grid_index(_first_block(n, self.grid, self.cluster))
                    for n in (first, number)
                )
                raise BlocksDifferError(
                    f"{self.kernel.title}: blocks {block} and {other}, neither at another edge of the grid, do not do "
                    f"the same: {difference}: a few blocks do not predict the rest; run the whole grid"
                )
        return representative

    def _with(self, index: int, value: int) -> list[Any]:
        """Return the arguments, with another value for one."""
        return [*self.args[:index], value, *self.args[index + 1 :]]

    def _from_smaller(
        self, index: int, values: Sequence[int], step: int, classes: Classes
    ) -> tuple[Sums, int]:
        """Return the sums that follow from smaller values of an argument, and from how many
        blocks. Raises `NotLinearError`.
        """
        ran = {value: self.of_grid(self._with(index, value), classes) for value in values}
        sums = {value // step: counts for value, (counts, _) in ran.items()}
        added = extrapolate(sums, int(self.args[index]) // step)
        return added, max(sampled for _, sampled in ran.values())

    @cached_property
    def _lengths(self) -> list[tuple[int, list[int]]]:
        """Return arguments that count trips of loops, with smaller values for them."""
        return list(_shorter(self.kernel.program, self.args))

    @cached_property
    def _alike(self) -> Classes:
        """Return classes of clusters that do the same, found by running all of them once, with few
        trips of their loops.
        """
        index = self._lengths[0][0]
        few = int(self.args[index]) % SHORTEST + SHORTEST
        cheap = replace(
            self.limits, thread_instructions=min(self.limits.thread_instructions, WHOLE)
        )
        sums = self._launch(self._with(index, few), range(math.prod(self.units)), cheap)
        if self.by_instruction:
            self.seen.take_all(_neighbours(self.units)[0])
        return classes_of(sums)

    def over(self, given: tuple[int, Sequence[int]]) -> Prediction:
        """Predict from the values of an argument that the caller gives."""
        index, values, step = _steps(self.kernel, self.args, given)
        try:
            result = self._from_smaller(index, values, step, self.classes)
        except NotLinearError as error:
            raise PtxsimError(
                f"{self.kernel.title}: argument {index} in steps of {step}: {error}"
            ) from None
        return self.prediction(*result, (index, tuple(values)))

    def compare_small_grid(self) -> None:
        """Run all blocks of a small grid with one axis. Such blocks choose their tiles themselves,
        so that neighbours do not say what all of them read."""
        one_axis = sum(size > 1 for size in self.units) == 1
        if self.by_instruction and one_axis and math.prod(self.grid) <= FEW and self._lengths:
            with contextlib.suppress(TooCostlyError):
                _ = self._alike

    def shortened(self) -> Prediction | None:
        """Predict from smaller values of an argument that counts trips of loops; None where there
        is none, or counts do not lie on a line.
        """
        for index, values in self._lengths:
            with contextlib.suppress(NotLinearError):
                try:
                    result = self._from_smaller(index, values, 1, self.classes)
                except BlocksDifferError as error:
                    if math.prod(self.grid) > FEW:
                        raise
                    try:
                        self.classes = self._alike
                    except TooCostlyError:
                        raise error from None
                    result = self._from_smaller(index, values, 1, self.classes)
                return self.prediction(*result, (index, tuple(values)))
        return None

    def prediction(
        self, added: Sums, sampled: int, over: tuple[int, tuple[int, ...]] | None = None
    ) -> Prediction:
        """Return the prediction with these sums of the grid."""
        lower = at_least(self.kernel.program)
        prediction = Prediction({}, math.prod(self.grid), sampled, lower, over)
        if not self.by_instruction:
            return replace(prediction, totals=named(added))
        added["sectors"] = self.seen.all_sectors(added)
        counters = self.seen.counters(self.kernel, self.grid, self.block, added)
        totals = counters.totals()
        work = _work(self.grid, self.block, totals, added)
        return replace(prediction, totals=totals, counters=counters, work=work)


@dataclass(frozen=True)
class Sample:
    """A whole launch, and what it does.

    `arguments`: of `Kernel.launch`. `work`: amounts, each of which costs the same in every launch
    (blocks, tiles, and steps of all tiles, for example). `area`: amounts that the sectors read from
    DRAM are a sum of. `varies`: how often it executes single instructions (copies of an unrolled
    loop) may differ from what follows from other launches.
    """

    arguments: Mapping[str, Any]
    work: Sequence[float]
    area: Sequence[float]
    varies: bool = False


def predict_from(kernel: Kernel, launch: Sample, samples: Sequence[Sample]) -> Prediction:
    """Return counters of `launch` from smaller launches: for kernels whose blocks wait for others
    (stream-K).

    The amounts of the launch are a combination of those of the samples, and its counts the same
    combination of their counts. Samples that the combination does not need test it: their counts
    must follow exactly from those of others.

    Raises `PtxsimError`, one line: a sample fails, its counters do not follow from the others
    (`NotLinearError`), or no combination of the samples has the amounts of the launch.
    """
    seen = _Seen()
    # `ran` holds all counts by sample, `sums` those that must be exact.
    ran, sums = [], []
    for sample in samples:
        counters, traffic = Counters(), Traffic()
        kernel.launch(
            **{**sample.arguments, "checks": False, "values": False}, observers=[counters, traffic]
        )
        seen.stats |= {s.instruction.pc: s for s in counters.by_instruction()}
        of_instruction = {
            _named(pc, name): getattr(s, name)
            for pc, s in ((s.instruction.pc, s) for s in counters.by_instruction())
            for name in OF_INSTRUCTION
        }
        sums.append(counters.sums())
        ran.append(Work.observed(counters, traffic).counts | counters.sums() | of_instruction)
    work = Amounts(kernel, [sample.work for sample in samples])
    for number in sorted(set(range(len(samples))) - set(work.needed)):
        follow = work.combined(samples[number].work, ran)
        for name, counted in (sums if samples[number].varies else ran)[number].items():
            expected = follow.get(name, 0.0)
            if abs(expected - counted) > EXACT * max(1.0, abs(counted)):
                numbers = (
                    f"{counted:,.0f} in a small launch, but {expected:,.0f} follows from the others"
                )
                raise NotLinearError(f"{kernel.title}: {name} is {numbers}")
    # Where executions of instructions vary, the least of what follows with and without the last
    # sample is a bound.
    last = Amounts(kernel, [samples[-1].work, *(sample.work for sample in samples[:-1])])
    first, other = work.combined(launch.work, ran), last.combined(launch.work, [ran[-1], *ran[:-1]])
    added = {
        name: float(max(0, round(min(value, other.get(name, 0.0)))))
        for name, value in first.items()
    }
    area = Amounts(kernel, [sample.area for sample in samples])
    added["sectors"] = area.combined(launch.area, ran)["sectors"]
    grid, block = dimensions(launch.arguments["grid"]), dimensions(launch.arguments["block"])
    totals = named(
        {name: added[name] for name in dict.fromkeys(name for counts in sums for name in counts)}
    )
    return Prediction(
        totals,
        math.prod(grid),
        sum(math.prod(dimensions(sample.arguments["grid"])) for sample in samples),
        at_least(kernel.program),
        counters=seen.counters(kernel, grid, block, added),
        work=_work(grid, block, totals, added),
    )


class Amounts:
    """Amounts of several launches; `needed`: places of those whose amounts are independent, the
    first ones.
    """

    def __init__(self, kernel: Kernel, amounts: Sequence[Sequence[float]]) -> None:
        self.kernel = kernel
        rows = np.array(amounts, float)
        self.scale = np.abs(rows).max(axis=0).clip(1.0)
        rows /= self.scale
        self.needed: list[int] = []
        for number in range(len(rows)):
            if np.linalg.matrix_rank(rows[[*self.needed, number]]) > len(self.needed):
                self.needed.append(number)
        self.rows = rows[self.needed]

    def combined(self, amounts: Sequence[float], counts: Sequence[Mapping[str, float]]) -> Sums:
        """Return the counts of a launch with these amounts; `counts` of all launches.

        Raises `PtxsimError`: there are none.
        """
        wanted = np.array(amounts, float) / self.scale
        parts = np.linalg.lstsq(self.rows.T, wanted)[0]
        if not np.allclose(parts @ self.rows, wanted):
            raise PtxsimError(
                f"{self.kernel.title}: no combination of the samples has the amounts {list(amounts)}"
            )
        names = dict.fromkeys(name for number in self.needed for name in counts[number])
        columns = [
            np.array([counts[number].get(name, 0.0) for name in names]) for number in self.needed
        ]
        total = sum(part * column for part, column in zip(parts.tolist(), columns, strict=True))
        return dict(zip(names, np.asarray(total).tolist(), strict=True))


def _work(
    grid: Sequence[int], block: Sequence[int], totals: Mapping[str, float], added: Sums
) -> Work:
    """Return what bounds need, from the counts of a whole grid."""
    of_traffic = {
        name: value
        for name, value in added.items()
        if name.startswith("executed:") or name in OF_TRAFFIC
    }
    return Work(math.prod(grid), math.prod(block), Work.counts_of(totals) | of_traffic)


def edges(kernel: Kernel, grid: Sequence[int], cluster: int | Sequence[int] | None) -> list[int]:
    """Return blocks at the edges of a grid and between, with their clusters: the first of each, by
    its number."""
    sizes = dimensions(grid)
    together = kernel.cluster_of(sizes, cluster)
    units = [g // c for g, c in zip(sizes, together, strict=True)]
    return sorted(_first_block(number, sizes, together) for number in sample(units).of)


def _shorter(program: Program, args: Sequence[Any]) -> Iterator[tuple[int, list[int]]]:
    """Yield an argument that counts trips of loops and is large, with smaller values for it, of the
    same remainder."""
    for index in trip_counts(program):
        value = args[index]
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            for start, step in SHORTER:
                values = [int(value) % step + start + n * step for n in range(3)]
                if 2 * sum(values) <= value:
                    yield index, values
            return


def _steps(
    kernel: Kernel, args: Sequence[Any], over: tuple[int, Sequence[int]]
) -> tuple[int, list[int], int]:
    """Return the argument that takes several values, these in order, and the step that they and its
    own are multiples of.
    """
    index, values = over[0], sorted({int(value) for value in over[1]})
    arg = args[index] if 0 <= index < len(args) else None
    if not isinstance(arg, int | np.integer) or isinstance(arg, bool):
        raise PtxsimError(f"{kernel.title}: over={over}: argument {index} is no whole number")
    step = math.gcd(*(b - a for a, b in itertools.pairwise(values))) if len(values) > 2 else 0
    if (
        not step
        or values[0] < 1
        or any((int(arg) - value) % step for value in values)
        or values[-1] >= arg
    ):
        raise PtxsimError(
            f"{kernel.title}: over={over}: expected three or more values from 1 to {arg} - 1, from which steps of one "
            f"size lead to {arg}"
        )
    if values[0] % step:
        raise PtxsimError(
            f"{kernel.title}: over={over}: expected multiples of {step}, the step between them"
        )
    return index, values, step
