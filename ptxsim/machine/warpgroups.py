"""wgmma under way: which registers and bytes of shared memory a warpgroup's multiplications use
until waited for.

A wgmma's sums are there at once; their use before a wait_group is reported, as on a device they may
not be there yet. Watched are the registers that a wgmma names, and those that values pass through
on the way to it and from it by mov: compilers put copies between, which ptxas takes out again, so
that a copy is no use of a value under way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from ..errors import Kind
from ..ptx.program import Program
from ..ptx.syntax import Address, Immediate, Instruction, Register, Vector, registers_of
from .batch import Batch
from .values import distinct

WARP, WARPGROUP = 32, 128
# These opcodes read operand 0 rather than write it.
READS_FIRST = ("st", "red", "bar", "barrier", "setp")
REMEDY = 'asm volatile("" : "+r"(x) :: "memory") before the fence keeps the compiler from moving it there'


def is_mma(i: Instruction) -> bool:
    return i.opcode == "wgmma" and "mma_async" in i.modifiers


def fragments(i: Instruction) -> tuple[list[int], list[int]]:
    """Return the slots of the accumulators, and of A where it is in registers."""
    a = i.operands[1]
    return [r.slot for r in registers_of(i.operands[0])], [
        r.slot for r in registers_of(a)
    ] if isinstance(a, Vector) else []


@dataclass
class Use:
    """Watched registers that an instruction reads and writes, as rows of `Watch`; a copy has one of
    each, or only writes (a constant)."""

    reads: np.ndarray
    writes: np.ndarray
    copy: bool


@dataclass
class Watch:
    """The instructions of a program, by pc, that touch what a wgmma may have under way."""

    uses: dict[int, Use] = field(default_factory=dict)
    # Each register's slot has a row in the tables of registers.
    rows: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> Watch:
        watched: set[int] = set()
        for i in program.code:
            if is_mma(i):
                watched.update(*fragments(i))
        if not watched:
            return cls()
        copies = [
            i for i in program.code if i.opcode == "mov" and isinstance(i.operands[0], Register)
        ]
        pairs = [
            (i.operands[0].slot, i.operands[1].slot)
            for i in copies
            if isinstance(i.operands[1], Register)
        ]
        size = -1
        while size != len(watched):
            size = len(watched)
            for to, source in pairs:
                if to in watched or source in watched:
                    watched |= {to, source}
        watch = cls(rows={slot: row for row, slot in enumerate(sorted(watched))})
        for i in program.code:
            if i.opcode == "wgmma":
                continue
            writes = [] if i.opcode in READS_FIRST or not i.operands else i.operands[:1]
            reads = i.operands[len(writes) :]
            stores = bool(writes) and isinstance(writes[0], Address)
            use = Use(
                watch.rows_of(reads), watch.rows_of([] if stores else writes), i.opcode == "mov"
            )
            use.copy = (
                use.copy
                and isinstance(i.operands[0], Register)
                and isinstance(i.operands[1], (Register, Immediate))
            )
            if use.reads.size or use.writes.size:
                watch.uses[i.pc] = use
        return watch

    def rows_of(self, operands: Iterable[object]) -> np.ndarray:
        """Return the rows of the registers in operands that are watched."""
        slots = (register.slot for operand in operands for register in registers_of(operand))
        return np.array([self.rows[slot] for slot in slots if slot in self.rows], np.intp)


@dataclass
class Flight:
    """A wgmma of a warpgroup under way, and when it read shared memory by the watch over that; 0:
    it did not.
    """

    instruction: Instruction
    time: int = 0


class Warpgroups:
    """The warpgroups of a batch.

    Each wgmma has a number; those of a warpgroup end in their order.
    """

    def __init__(self, machine: Batch, watch: Watch) -> None:
        self.machine = machine
        per_block = -(-machine.state.padded // WARPGROUP)
        self.of_lane = machine.state.block_of * per_block + machine.state.thread_of // WARPGROUP
        self.count = len(machine.state.blocks) * per_block
        none = np.zeros(self.count, np.int64)
        self.fences = none.copy()
        # `over` is the last wgmma that has been waited for, `last` the last issued.
        self.over = none.copy()
        self.last = none.copy()
        self.issued = 0
        self.under_way = 0
        # Each group is known by its last wgmma.
        self.groups: defaultdict[int, list[int]] = defaultdict(list)
        self.flights: defaultdict[int, dict[int, Flight]] = defaultdict(dict)
        # Tables have a row for each watched register and a column for each warpgroup.
        size = len(watch.rows), self.count
        # A register holds the result of wgmma `pending`, 0 for none; `used` is the last that names
        # it.
        self.pending = np.zeros(size, np.int64)
        self.used = np.zeros(size, np.int64)
        # `written` counts the fences before the last write, `writer` names that write by row.
        self.written = np.full(size, -1)
        self.writer: dict[int, Instruction] = {}
        self._active: tuple[object, np.ndarray] | None = None
        # `sums` has what a wgmma left in slots.
        self.sums: dict[tuple[int, ...], tuple[np.ndarray, list[np.ndarray]]] = {}

    def active(self) -> np.ndarray:
        """Return the numbers of the warpgroups of the active threads."""
        m = self.machine
        if self._active is None or self._active[0] is not m.state.active or m.state.active is None:
            groups = distinct(
                self.of_lane if m.state.active is None else self.of_lane[m.state.active]
            )
            self._active = m.state.active, groups
        return self._active[1]

    def lanes(self, instruction: Instruction) -> np.ndarray:
        """Return the lanes [warpgroups, 128] that execute a wgmma together."""
        m = self.machine
        lanes = m.state.acting_lanes()
        counts = np.bincount(self.of_lane[lanes], minlength=self.count)
        broken = (counts > 0) & (counts < WARPGROUP)
        if broken.any():
            lane = int(lanes[self.of_lane[lanes] == broken.nonzero()[0][0]][0])
            have = int(counts[self.of_lane[lane]])
            message = f"{instruction.name}: {have} of a warpgroup's 128 threads execute it"
            raise m.diag.fault(Kind.WGMMA, instruction, message, lane)
        return lanes.reshape(-1, WARPGROUP)

    # order

    def fence(self) -> None:
        self.fences[self.active()] += 1

    def commit(self) -> None:
        for group in self.active().tolist():
            self.groups[group].append(int(self.last[group]))

    def wait(self, pending: int) -> None:
        """Complete all but the last `pending` groups."""
        for group in self.active().tolist():
            ends = self.groups[group]
            # None are over where more may be pending than there are.
            over = ends[: max(0, len(ends) - pending)]
            if over:
                self.over[group] = max(int(self.over[group]), over[-1])
                del ends[: len(over)]
                self._land(group)

    def _land(self, group: int) -> None:
        m, flights = self.machine, self.flights[group]
        for number in [n for n in flights if n <= self.over[group]]:
            flight = flights.pop(number)
            self.under_way -= 1
            if flight.time:
                first = int((self.of_lane == group).nonzero()[0][0]) // WARP
                m.events.shared.reading_ends(
                    np.arange(first, first + WARPGROUP // WARP), first, flight.time
                )

    # registers

    def before(self, instruction: Instruction, use: Use) -> None:
        """Check an instruction that is about to read and write watched registers."""
        if use.copy and not self.issued and not self.writer:
            return
        here = self.active()
        if use.copy:
            self._copy(instruction, use, here)
            return
        if self.under_way:
            self._require_over(
                self.pending, use.reads, here, instruction, "reads the result of the wgmma at {}"
            )
            message = "writes a register that the wgmma at {} uses"
            self._require_over(self.used, use.writes, here, instruction, message)
        cells = use.writes[:, None], here
        self.written[cells] = self.fences[here]
        self.pending[cells] = 0
        self.writer.update(dict.fromkeys(use.writes.tolist(), instruction))

    def _copy(self, instruction: Instruction, use: Use, here: np.ndarray) -> None:
        to = int(use.writes[0])
        if use.reads.size:
            source = int(use.reads[0])
            self.pending[to, here] = self.pending[source, here]
            self.written[to, here] = self.written[source, here]
            if source in self.writer:
                self.writer[to] = self.writer[source]
            return
        if self.under_way:
            message = "writes a register that the wgmma at {} uses"
            self._require_over(self.used, use.writes, here, instruction, message)
        self.pending[to, here], self.written[to, here] = 0, -1

    def _require_over(
        self,
        table: np.ndarray,
        rows: np.ndarray,
        here: np.ndarray,
        instruction: Instruction,
        what: str,
    ) -> None:
        numbers = table[rows[:, None], here]
        early = numbers > self.over[here]
        if early.any():
            row, column = (int(at[0]) for at in np.nonzero(early))
            group, number = int(here[column]), int(numbers[row, column])
            line = self.machine.diag.where(self.flights[group][number].instruction)
            committed = number <= max(self.groups[group], default=0)
            rest = "before a wait_group for it" + (
                "" if committed else "; it is in no group yet (commit_group)"
            )
            self._report(instruction, group, f"{what.format(line)} {rest}")

    def _report(self, instruction: Instruction, group: int, what: str) -> None:
        m = self.machine
        lanes = ((self.of_lane == group) & m.state.living()).nonzero()[0]
        m.diag.report(Kind.WGMMA, instruction, what, int(lanes[0]))

    # a wgmma

    def issue(
        self, instruction: Instruction, lanes: np.ndarray, d: np.ndarray, a: np.ndarray
    ) -> Callable[[int], None]:
        """Begin a wgmma of these lanes [warpgroups, 128]; check its registers (`d`, `a`: rows of
        `Watch`). Gives what takes the time at which it reads shared memory.
        """
        here = self.of_lane[lanes[:, 0]]
        unfenced = self.fences[here] == 0
        if unfenced.any():
            message = "wgmma.mma_async without a wgmma.fence before it"
            self._report(instruction, int(here[unfenced.argmax()]), message)
        for rows, name in ((d, "accumulator"), (a, "operand A")):
            late = self.written[rows[:, None], here] == self.fences[here]
            if late.any():
                row, column = (int(at[0]) for at in np.nonzero(late))
                at = self.machine.diag.where(self.writer[int(rows[row])])
                what = f"wgmma.mma_async: its {name} is written at {at}, after the last wgmma.fence; {REMEDY}"
                self._report(instruction, int(here[column]), what)
        self._require_over(
            self.pending, a, here, instruction, "takes as operand A the result of the wgmma at {}"
        )
        self.issued += 1
        self.last[here] = number = self.issued
        self.pending[d[:, None], here] = number
        for rows in (d, a):
            self.used[rows[:, None], here] = number
        for group in here.tolist():
            self.flights[group][number] = Flight(instruction)
        self.under_way += len(here)

        def reads(time: int) -> None:
            for group in here.tolist():
                self.flights[group][number].time = time

        return reads
