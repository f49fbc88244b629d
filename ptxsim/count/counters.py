"""Counts what the memory system would do: per instruction, and per kernel under Nsight Compute's
names.

    counters = ptxsim.Counters()
    kernel.launch(..., observers=[counters])
    counters.totals()["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"]

ptxas merges neighbouring accesses of shared memory into wider ones (`merging.py`): the counts are
of the merged ones, as a cubin has them (`load(..., cubin=...)`), or else as the rule predicts them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..machine.memory import Access
from ..machine.observer import Launched, MemoryEvent, Observer
from ..machine.state import State
from ..machine.values import distinct
from ..ptx import polling
from ..ptx.merging import Cycle, Merges, Unrolled
from ..ptx.program import Program
from ..ptx.reaching_definitions import named_spaces
from ..ptx.sizes import Dim3
from ..ptx.syntax import Instruction, is_store_async
from . import wavefronts


@dataclass
class Stats:
    """Counts of one instruction.

    Wavefronts: of shared memory; requests, sectors and bytes: of global memory.
    """

    instruction: Instruction
    # `executed` counts executions by warps.
    executed: int = 0
    # `polled` counts executions in later rounds of a loop that polls: they depend on time, see
    # `polling`.
    polled: int = 0
    # `requests` counts warps with a thread that accessed memory.
    requests: int = 0
    wavefronts: int = 0
    ideal: int = 0
    # `ways` holds the number of requests by degree of conflict.
    ways: Counter[int] = field(default_factory=Counter)
    sectors: int = 0
    # `local_sectors` counts sectors of local memory.
    local_sectors: int = 0
    ideal_sectors: int = 0
    # `bytes` counts the distinct bytes of each request.
    bytes: int = 0
    # `wanted` counts the bytes that threads ask for: more than `bytes` where several ask for the
    # same.
    wanted: int = 0
    space: str = ""
    kind: str = ""
    # `width` is the number of bytes a thread accesses, merged as ptxas does.
    width: int = 0
    # This access does the work of the present one, too.
    merged_into: Instruction | None = None
    # `operand_bytes` counts bytes of a wgmma's operands in shared memory, read 128 at a time.
    operand_bytes: int = 0
    # ptxas puts these loads before it, see `merging.first_copies`.
    empty_loads: float = 0

    @property
    def merged_loads(self) -> float:
        """Return the wide loads of shared memory whose parts were served together; half of one
        where one half-warp's were."""
        if self.space != "shared" or self.kind != "ld" or self.width <= wavefronts.WORD:
            return 0.0
        return (self.requests * (self.width // wavefronts.WORD) - self.ideal) / (self.width // 8)

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.ideal

    @property
    def excess_sectors(self) -> int:
        return self.sectors - self.ideal_sectors

    @property
    def bytes_per_sector(self) -> float:
        return self.bytes / self.sectors if self.sectors else 0.0

    @property
    def pattern(self) -> str:
        """Return how the warps' global addresses lie, in one word: strided (they touch more sectors
        than their bytes fill), misaligned (one more, as the bytes begin within a sector), broadcast
        (threads ask for the same bytes), else coalesced."""
        if self.excess_sectors > self.requests:
            return "strided"
        if self.excess_sectors > 0:
            return "strided" if self.sectors >= 2 * self.ideal_sectors else "misaligned"
        return "broadcast" if self.wanted > self.bytes else "coalesced"

    def sectors_in_words(self) -> str:
        """Return sectors of a request beside the fewest that its bytes fill, bytes used of each,
        and the pattern.
        """
        if not self.requests or not self.sectors:
            return ""
        each, ideal = self.sectors / self.requests, self.ideal_sectors / self.requests
        unit = "sector" if each == 1 else "sectors"
        used = f"{self.bytes_per_sector:.3g} of 32 bytes used"
        return f"{each:.3g} {unit} a request (ideal {ideal:.3g}), {used}, {self.pattern}"


# A cache is emptied above this size; one pattern holds the addresses of a batch of warps.
MAX_PATTERNS = 1000
# The cost of an access is its requests, wavefronts, ideal wavefronts, and requests by degree.
Cost = tuple[int, int, int, dict[int, int]]


@dataclass
class _Run:
    """Iterations of a loop in which an access goes on where it ended in the one before."""

    stats: Stats
    unrolled: Unrolled | Cycle
    # `last` holds the addresses of the last iteration.
    last: np.ndarray
    # `costs` holds the cost of each iteration, by width.
    costs: list[dict[int | None, Cost]] = field(default_factory=list)


# `BULK` holds a bulk copy's kind by its access of global memory.
BULK = {"ld": "bulk_ld", "st": "bulk_st", "atom": "bulk_st"}


class Counters(Observer):
    """An observer that counts accesses and instructions."""

    _state: State

    def __init__(self, merge_loads: bool = True, by_block: bool = False) -> None:
        """`by_block`: count the blocks of a batch separately: all counts are arrays."""
        self.merge_loads, self.by_block = merge_loads, by_block
        self.stats: dict[int, Stats] = {}
        self.program: Program | None = None
        self.grid = self.block = (0, 0, 0)
        self._source: tuple[np.ndarray, np.ndarray] | None = None
        self.merges = Merges()
        # `_iterations` holds the run of a loop's iterations by pc, block and lanes.
        self._iterations: dict[tuple[int, int, bytes | None], _Run] = {}
        # `_patterns` holds the cost of shared accesses, by their addresses relative to the first.
        self._patterns: dict[tuple[object, ...], Cost] = {}
        # `_boxes` holds the sectors of bulk copies, by the addresses of their pieces relative to
        # the first.
        self._boxes: dict[tuple[int, bytes], int] = {}

    # observing

    def begins(self, kernel: Launched, grid: Dim3, block: Dim3) -> None:
        if self.program is not kernel.program:
            self.program, self.stats = kernel.program, {}
            self.merges = kernel.merges if self.merge_loads else Merges()
            self._empty_loads = kernel.merges.empty_loads
            self._iterations = {}
        self.grid, self.block = grid, block
        self._state = kernel.state

    def _of(self, instruction: Instruction) -> Stats:
        stats = self.stats.get(instruction.pc)
        if stats is None:
            leader = self.merges.parts.get(instruction.pc)
            stats = self.stats[instruction.pc] = Stats(
                instruction,
                empty_loads=self._empty_loads.get(instruction.pc, 0),
                merged_into=None
                if leader is None or self.program is None
                else self.program.code[leader],
            )
        return stats

    def executed(self, instruction: Instruction, warps: int) -> None:
        if not self.merges.is_gone(instruction.pc) and instruction.pc not in self.merges.unrolled:
            stats = self._of(instruction)
            stats.executed = stats.executed + warps

    def polled(self, instruction: Instruction, warps: int) -> None:
        self._of(instruction).polled += warps

    def operands(self, instruction: Instruction, warpgroups: int, size: int) -> None:
        self._of(instruction).operand_bytes += warpgroups * size

    def memory(self, event: MemoryEvent) -> None:
        stats = self._of(event.instruction)
        kind = event.kind.removesuffix("_ordered")
        if event.space != "shared" or kind == "cp_async":
            stats.width = max(stats.width, event.width)
        if event.space == "shared":
            stats.space, stats.kind = "shared", kind
            self._shared(event, stats, kind)
        elif event.space in ("global", "const"):
            if kind == "cp_async_ld":
                self._source = event.addresses()
            stats.space, stats.kind = stats.space or event.space, stats.kind or kind
            self._global(event, stats)
        else:
            stats.space, stats.kind = event.space, kind
            if event.space == "local" and not self.merges.is_gone(event.instruction.pc):
                self._local(event, stats)

    def bulk(self, instruction: Instruction, access: Access, width: int, kind: str) -> None:
        """Count sectors of what lies inside the tensor, as L2 moves them."""
        stats = self._of(instruction)
        stats.space, stats.kind = "global", BULK[kind]
        at = access.flat()
        # Boxes of one shape have the same pattern.
        moved = at - at[0] // wavefronts.SECTOR * wavefronts.SECTOR
        pattern = width, moved.tobytes()
        touched = self._boxes.get(pattern)
        if touched is None:
            if len(self._boxes) > MAX_PATTERNS:
                self._boxes.clear()
            touched = distinct(np.concatenate([moved, moved + width - 1]) // wavefronts.SECTOR).size
            self._boxes[pattern] = touched
        count: Any = 1
        if (state := self._state).by_block:
            count = np.zeros(len(state.blocks), np.int64)
            count[state.block_of[np.asarray(access.lanes)[0]]] = 1
        stats.requests += count
        stats.sectors += touched * count
        stats.ideal_sectors += -(-at.size * width // wavefronts.SECTOR) * count
        stats.bytes += at.size * width * count

    def _shared(self, event: MemoryEvent, stats: Stats, kind: str) -> None:
        if kind == "cp_async":
            addresses, active = event.addresses()
            source, reading = self._source or (addresses, active & False)
            self._source = None
            line, on = source // wavefronts.LINE, active & reading
            key = (
                kind,
                event.width * (1 + (event.width == 16 and _may_fill(event.instruction))),
                (addresses - addresses.flat[0] // wavefronts.WORD * wavefronts.WORD).tobytes(),
                active.tobytes(),
                np.where(on, line - line.flat[int(on.argmax())], -1).tobytes(),
                on.tobytes(),
            )
            cost = self._patterns.get(key)
            if cost is None:
                waves = wavefronts.cp_async(addresses, active, event.width, source, reading)
                if event.width == 16 and _may_fill(event.instruction):
                    waves = waves[0] * 2, waves[1] * 2
                cost = self._remember(key, self._summary(waves, active))
            self._add(stats, cost)
            return
        pc = event.instruction.pc
        width = self.merges.widths.get(pc, 16 if kind == "ldmatrix" else event.width)
        if self.merges.is_gone(pc):
            return
        if pc in self.merges.unrolled:
            self._iteration(event, stats, width, kind, self.merges.unrolled[pc])
            return
        stats.width = event.width if kind == "ldmatrix" else width
        self._add(stats, self._waves(event, width, kind))

    def _iteration(
        self, event: MemoryEvent, stats: Stats, width: int, kind: str, unrolled: Unrolled | Cycle
    ) -> None:
        """Store an access that ptxas merges with those of the iterations after it, until the run of
        them has ended."""
        where = event.access.where
        stats.width = max(stats.width, unrolled.tiers[0][0])
        at = where.raw + event.offset
        widths = (None, *(tier for tier, _ in unrolled.tiers))
        costs = {w: self._waves(event, w or width, kind) for w in widths}
        pc, state = event.instruction.pc, self._state
        if not state.by_block:
            key = pc, 0, None if where.lanes is None else where.lanes.tobytes()
            self._next(key, stats, unrolled, at, costs)
            return
        lanes = np.arange(state.lanes) if where.lanes is None else where.lanes
        starts = np.flatnonzero(np.diff(lanes // state.padded)) + 1
        for ids, here in zip(np.split(lanes, starts), np.split(at, starts), strict=True):
            # Each block goes through the loop as often as it does.
            block = int(ids[0]) // state.padded
            inside = np.arange(len(state.blocks)) == block
            of_block: dict[int | None, Cost] = {
                w: (cost[0] * inside, cost[1] * inside, cost[2] * inside, cost[3])
                for w, cost in costs.items()
            }
            self._next((pc, block, (ids % state.padded).tobytes()), stats, unrolled, here, of_block)

    def _next(
        self,
        key: tuple[int, int, bytes | None],
        stats: Stats,
        unrolled: Unrolled | Cycle,
        at: np.ndarray,
        costs: dict[int | None, Cost],
    ) -> None:
        """Count the next iteration, in which these addresses are accessed."""
        run = self._iterations.get(key)
        if run is not None and not np.array_equal(run.last + unrolled.step, at):
            self._end(run)
            run = None
        if run is None:
            run = self._iterations[key] = _Run(stats, unrolled, at)
        run.costs.append(costs)
        run.last = at

    def _end(self, run: _Run) -> None:
        """Count a run of iterations as the machine code goes through it."""
        for first, width in run.unrolled.split(len(run.costs)):
            self._add(run.stats, run.costs[first][width])
        run.stats.executed = run.stats.requests
        run.costs.clear()

    def _waves(self, event: MemoryEvent, width: int, kind: str) -> Cost:
        """Return the cost of an access of shared memory. Moving all addresses by one offset turns
        the banks around, and changes no count."""
        key = (kind, width, event.offset & 3 if width < 4 else 0)
        cost: Cost | None = event.cache.get(key)
        if cost is None:
            addresses, active = event.addresses()
            # Each stage of a ring has the same pattern.
            first = addresses.flat[active.argmax()] // wavefronts.WORD * wavefronts.WORD
            moved = np.where(active, addresses - first, 0)
            pattern = (kind, width, addresses.shape, moved.tobytes(), active.tobytes())
            cost = self._patterns.get(pattern)
            if cost is None:
                result = wavefronts.count(kind, addresses, active, width)
                cost = self._remember(pattern, self._summary(result, active))
            event.cache[key] = cost
        return cost

    def _remember(self, pattern: tuple[object, ...], cost: Cost) -> Cost:
        if len(self._patterns) > MAX_PATTERNS:
            self._patterns.clear()
        self._patterns[pattern] = cost
        return cost

    def _summary(self, result: tuple[np.ndarray, np.ndarray], active: np.ndarray) -> Cost:
        """Return sums over warps, in place of the arrays."""
        waves, ideal = result
        used = np.asarray(active.any(axis=1))
        ways = np.bincount(-(-waves[used] // np.maximum(ideal[used], 1)))
        histogram = {int(n): int(c) for n, c in enumerate(ways) if c}
        requests, all_waves, all_ideal = map(
            self._state.sum_of_warps, (used, waves * used, ideal * used)
        )
        return requests, all_waves, all_ideal, histogram

    def _add(self, stats: Stats, cost: Cost) -> None:
        requests, waves, ideal, histogram = cost
        stats.requests = stats.requests + requests
        stats.wavefronts = stats.wavefronts + waves
        stats.ideal = stats.ideal + ideal
        stats.ways.update(histogram)

    def _global(self, event: MemoryEvent, stats: Stats) -> None:
        key = ("sectors", event.width, event.offset % wavefronts.SECTOR)
        counts = event.cache.get(key)
        if counts is None:
            addresses, active = event.addresses()
            touched, bytes_ = wavefronts.sectors(addresses, active, event.width)
            ideal = -(-bytes_ // wavefronts.SECTOR)
            used, threads = np.asarray(active.any(axis=1)), active.sum(axis=1)
            of_warps = (used, touched, ideal, bytes_, threads * event.width)
            counts = event.cache[key] = tuple(map(self._state.sum_of_warps, of_warps))
        requests, sectors, best, distinct, wanted = counts
        if event.kind != "cp_async_ld":
            stats.requests = stats.requests + requests
        stats.sectors = stats.sectors + sectors
        stats.ideal_sectors = stats.ideal_sectors + best
        stats.bytes = stats.bytes + distinct
        stats.wanted = stats.wanted + wanted

    def _local(self, event: MemoryEvent, stats: Stats) -> None:
        if "param" in named_spaces(event.instruction):
            # What functions pass is in registers.
            return
        addresses, active = event.addresses()
        sum_of = self._state.sum_of_warps
        stats.requests = stats.requests + sum_of(np.asarray(active.any(axis=1)))
        touched = wavefronts.local_sectors(addresses, active, event.width)
        stats.local_sectors = stats.local_sectors + sum_of(touched)

    # results

    def by_instruction(self) -> list[Stats]:
        """Return counts per instruction, in program order, neighbouring shared accesses merged as
        ptxas does.
        """
        for run in self._iterations.values():
            self._end(run)
        self._iterations = {}
        return [stats for _, stats in sorted(self.stats.items())]

    def by_line(self) -> dict[tuple[str, int], list[Stats]]:
        """Return counts of the instructions of each line of the source."""
        lines: dict[tuple[str, int], list[Stats]] = defaultdict(list)
        for stats in self.by_instruction():
            location = stats.instruction.location
            if location is not None:
                lines[location.file, location.line].append(stats)
        return dict(lines)

    def totals(self) -> dict[str, float]:
        """Return counts of the kernel under Nsight Compute's names."""
        return totals(self.by_instruction())

    def at_least(self) -> dict[str, str]:
        """Return the counters of `totals` of which a device may count more, with the reason."""
        return at_least(self.program)

    def sums(self) -> dict[str, float]:
        """Return counts that add up over launches, for `extrapolate`; `named` computes totals from
        them.
        """
        return sums(self.by_instruction())


def _may_fill(i: Instruction) -> bool:
    """Return whether a cp.async says how much it reads, the rest being zeros: of 16 bytes, ncu
    counts each of its wavefronts twice, needed and ideal ones (`hgemm_wgmma_smem` on an H200; of 4
    bytes, once)."""
    return len(i.operands) - any("cache_hint" in m for m in i.modifiers) > 3


# Counters of what loops look at that poll global memory
POLLS = (
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
)
# Counters that are lower bounds, with the reason
LOWER_BOUNDS = dict.fromkeys(
    (
        f"l1tex__data_{what}_mem_shared_op_{kind}.sum"
        for what in ("pipe_lsu_wavefronts", "bank_conflicts_pipe_lsu")
        for kind in ("ld", "st")
    ),
    "the hardware also counts wavefronts in which accesses of several warps, operands of wgmma or bulk copies meet",
)
STORED = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "smsp__inst_executed_op_shared_st.sum",
)
STORED_ASYNC = (
    "st.async is left out: whether the hardware counts it among shared stores was not measured"
)
POLLED = "rounds of a loop that polls are left out: how many a device makes depends on time"
# Requests and sectors of local memory, which only kernels have that use some
LOCAL_REQUESTS, LOCAL_SECTORS = (
    f"l1tex__t_{what}_pipe_lsu_mem_local_op" for what in ("requests", "sectors")
)
# Accesses by their space and kind
LOADS = (("shared", "ld"), ("shared", "ldmatrix"), ("shared", "atom"))
STORES, COPIES = (("shared", "st"),), (("shared", "cp_async"),)
READ, WRITTEN = (("global", "ld"), ("global", "atom")), (("global", "st"),)
LOCAL_LOADS, LOCAL_STORES = (("local", "ld"), ("local", "atom")), (("local", "st"),)
# The two sums of a ratio have its name and one of these suffixes.
BYTES, SECTORS = ":bytes", ":sectors"


def at_least(program: Program | None) -> dict[str, str]:
    """Return the counters of a program that are lower bounds, with the reason: those of shared
    memory that the hardware counts itself, and those of global memory where loops poll it."""
    reasons = dict(LOWER_BOUNDS)
    if program is not None and any(is_store_async(i) for i in program.code):
        reasons |= dict.fromkeys(STORED, STORED_ASYNC)
    if program is not None and polling.across_blocks(polling.loops(program)) is not None:
        reasons |= dict.fromkeys(POLLS, POLLED)
    return reasons


def totals(stats: list[Stats]) -> dict[str, float]:
    """Return counts under Nsight Compute's names."""
    return named(sums(stats))


def named(added: Mapping[str, float]) -> dict[str, float]:
    """Return the sums in `added` that Nsight Compute has, and the ratios that follow from the
    others."""
    metrics = {}
    for name, value in added.items():
        if name.endswith(BYTES):
            ratio = name.removesuffix(BYTES)
            sectors = added[ratio + SECTORS]
            metrics[ratio] = value / sectors if sectors else 0.0
        elif not name.endswith(SECTORS):
            metrics[name] = value
    return metrics


def sums(stats: list[Stats]) -> dict[str, float]:
    """Return what adds up over instructions, blocks and launches, under Nsight Compute's names
    where it has one. An ldmatrix counts among the wavefronts of shared loads, as there; an stmatrix
    among those of stores, but not among the store instructions (measured on an H100). Bulk copies
    count by themselves, under names of our own."""
    by_access: dict[tuple[str, str], list[Stats]] = {}
    for s in stats:
        by_access.setdefault((s.space, s.kind), []).append(s)

    def total(name: str, *accesses: tuple[str, str]) -> int:
        return sum(getattr(s, name) for access in accesses for s in by_access.get(access, ()))

    empty = sum(s.empty_loads * s.executed for s in stats)
    stored = [
        s for s in stats if (s.space, s.kind) in STORES and s.instruction.opcode != "stmatrix"
    ]
    # ncu counts them so on an H200.
    operands = sum(s.operand_bytes for s in stats) // wavefronts.LINE
    moved = (*READ, *WRITTEN, *COPIES)
    local = {
        f"{name}_{kind}.sum": total(what, *accesses)
        for name, what in ((LOCAL_REQUESTS, "requests"), (LOCAL_SECTORS, "local_sectors"))
        for kind, accesses in (("ld", LOCAL_LOADS), ("st", LOCAL_STORES))
    }
    prefix = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"
    per_sector = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
    return (local if np.any([np.any(value) for value in local.values()]) else {}) | {
        f"{prefix}_ld.sum": total("wavefronts", *LOADS),
        f"{prefix}_st.sum": total("wavefronts", *STORES),
        f"{conflicts}_ld.sum": total("conflicts", *LOADS),
        f"{conflicts}_st.sum": total("conflicts", *STORES),
        "smsp__inst_executed_op_shared_ld.sum": total("executed", ("shared", "ld")) + empty,
        "smsp__inst_executed_op_shared_st.sum": sum(s.executed for s in stored),
        "smsp__inst_executed_op_ldsm.sum": total("executed", ("shared", "ldmatrix")),
        "smsp__inst_executed_op_ldgsts.sum": total("executed", *COPIES),
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum": total(
            "wavefronts", ("shared", "ldmatrix")
        ),
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum": total(
            "wavefronts", *COPIES
        ),
        "memory_l1_wavefronts_shared": total("wavefronts", *LOADS, *STORES, *COPIES) + operands,
        "memory_l1_wavefronts_shared_ideal": total("ideal", *LOADS, *STORES, *COPIES) + operands,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": total("requests", *READ, *COPIES),
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": total("requests", *WRITTEN),
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": total("sectors", *READ, *COPIES),
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": total("sectors", *WRITTEN),
        per_sector.format("ld") + BYTES: total("bytes", *READ),
        per_sector.format("ld") + SECTORS: total("sectors", *READ),
        per_sector.format("st") + BYTES: total("bytes", *WRITTEN),
        per_sector.format("st") + SECTORS: total("sectors", *WRITTEN),
        "memory_l2_theoretical_sectors_global": total("sectors", *moved),
        "memory_l2_theoretical_sectors_global_ideal": total("ideal_sectors", *moved),
        "shared_loads_merged.sum": sum(s.merged_loads for s in stats),
        "l2_sectors_bulk_ld.sum": total("sectors", ("global", "bulk_ld")),
        "l2_sectors_bulk_st.sum": total("sectors", ("global", "bulk_st")),
    }
