"""Shadow memory: who wrote each granule last, and when. Two accesses of a granule by different
agents, of which one writes, race unless one comes before the other (order.py).

A granule is as large as the smallest access of the program. Its last write is one number: in the
upper half the agent plus one, in the lower half an event, which is an instruction, a time and a
strength.

Atomic operations and volatile, relaxed, release and acquire accesses are strong: they do not race
with each other, but with plain accesses. A plain read does not race with a compare-and-swap: loops
begin with one, and the swap finds out if it was late. Threads that store one value to one place
with one instruction do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..machine.batch import Batch
from ..machine.memory import SHIFT, Access, zeros
from ..ptx.syntax import Instruction
from .flags import Flags, scope_of
from .order import Order

# The strength says how an access behaves to others: strong ones do not race with each other.
PLAIN, STRONG, SWAP = 0, 1, 2
STRONG_ORDERS = {"volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"}
HALF, LOW = 32, (1 << 32) - 1
WRITES = ("st", "st_ordered", "atom")
VERBS = {
    "ld": "reads",
    "ld_ordered": "reads",
    "ldmatrix": "reads",
    "async_ld": "reads",
    "atom": "changes",
}


def strength(instruction: Instruction, kind: str) -> int:
    """Return the strength of an access of this kind."""
    if kind == "atom":
        return SWAP if "cas" in instruction.modifiers else STRONG
    return STRONG if kind.endswith("_ordered") else PLAIN


def is_strong(i: Instruction) -> bool:
    """Return whether an instruction is an atomic, or a load or store with an order of its own."""
    return i.opcode in ("atom", "red") or not STRONG_ORDERS.isdisjoint(i.modifiers)


def granules(base: np.ndarray, first: int, number: int) -> Iterator[np.ndarray]:
    """Yield the granules of an access, `number` a thread: an array for each of its width."""
    for j in range(number):
        yield base + (first + j)


def same_values(access: Access, g: np.ndarray, kind: str = "st") -> bool:
    """Return whether all threads that store to one granule with this access store the same."""
    values = getattr(access, "values", None)
    if values is None or kind != "st":
        return False
    order = np.argsort(g, kind="stable")
    same = g[order][1:] == g[order][:-1]
    return all(not np.any(same & (v[order][1:] != v[order][:-1])) for v in values)


class Reads:
    """The last reads of a memory by each of some readers: events by reader and granule, for those
    who read at all; and, where a reader is a warp, the lanes that did."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.events: dict[int, np.ndarray] = {}
        self.lanes: dict[int, np.ndarray] = {}

    def note(
        self, readers: np.ndarray, g: np.ndarray, event: int, bits: np.ndarray | None = None
    ) -> None:
        """Note that readers, one for each granule, read; `bits`: their lanes."""
        readers = readers.astype(np.int16)
        first = int(readers[0])
        ends = [len(readers)]
        if (readers != first).any():
            # Each reader is recorded by itself.
            order = np.argsort(readers, kind="stable")
            readers, g = readers[order], g[order]
            bits = None if bits is None else bits[order]
            ends = [*(np.diff(readers).nonzero()[0] + 1).tolist(), len(readers)]
        start = 0
        for end in ends:
            self.note_one(
                int(readers[start]), g[start:end], event, None if bits is None else bits[start:end]
            )
            start = end

    def note_one(self, reader: int, g: np.ndarray, event: int, bits: np.ndarray | None) -> None:
        """Note that one reader reads."""
        if reader not in self.events:
            self.events[reader] = np.zeros(self.total, np.int32)
            self.lanes[reader] = np.zeros(self.total if bits is not None else 0, np.uint32)
        self.events[reader][g] = event
        if bits is not None:
            lanes = self.lanes[reader]
            lanes[g] = 0
            np.bitwise_or.at(lanes, g, bits)

    def clear(self, g: np.ndarray) -> None:
        """Forget the reads of granules that are written."""
        for events in self.events.values():
            events[g] = 0

    def readers(self, g: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield who read any of these granules, and the events of each; 0: none."""
        for reader in sorted(self.events):
            events = self.events[reader].take(g)
            if np.count_nonzero(events):
                yield reader, events


class Shadow:
    """The last writes of a memory, granule by granule."""

    def __init__(self, machine: Batch, order: Order, flags: Flags, size: int, total: int) -> None:
        """`size`: bytes of a granule; `total`: of the memory."""
        self.machine, self.order, self.flags = machine, order, flags
        order.note_relaxed = lambda read: machine.diag.note(self.relaxed_note(read))
        self.size, self.shift = size, SHIFT[size]
        self.writes = zeros(total >> self.shift, np.int64)
        # The first event belongs to no thread.
        self.events: list[tuple[Instruction, int, int]] = [(machine.program.code[0], 0, 0)]
        self.times, self.strengths = np.zeros(64, np.int32), np.zeros(64, np.int8)
        # `scopes` holds those of strong events.
        self.scopes = np.zeros(64, np.int8)

    def note_volatile(self, instruction: Instruction, memory: str) -> None:
        """Note volatile accesses of several threads that meet."""
        if "volatile" in instruction.modifiers:
            self.machine.diag.note(
                f"{self.machine.diag.where(instruction)}: volatile accesses of {memory} memory by several threads meet "
                "here without a barrier between: no race by PTX's memory model, but nothing orders them either, as the "
                "lanes of a warp do not run in lockstep: add __syncwarp(), or __syncthreads() between warps"
            )

    def relaxed_note(self, read: Instruction) -> str:
        """Return a note on a relaxed read that no fence follows."""
        where, block = self.machine.diag.where(read), "_block" * ("shared" in read.modifiers)
        return (
            f"{where}: this read is relaxed, as volatile reads and atomics are, and what another thread wrote is used "
            f"without a fence between: add __threadfence{block}() after it, or read by cuda::memory_order_acquire"
        )

    def event(self, instruction: Instruction, strong: int, alone: bool = False) -> int:
        """Return the number of an event of the present time; `alone`: a new one."""
        if alone or self.events[-1] != (instruction, self.order.now, strong):
            self.events.append((instruction, self.order.now, strong))
            number = len(self.events) - 1
            if number == len(self.times):
                self.times = np.concatenate([self.times, np.zeros_like(self.times)])
                self.strengths = np.concatenate([self.strengths, np.zeros_like(self.strengths)])
                self.scopes = np.concatenate([self.scopes, np.zeros_like(self.scopes)])
            self.times[number], self.strengths[number] = self.order.now, strong
            self.scopes[number] = scope_of(instruction)
        return len(self.events) - 1

    def atomic(self, events: np.ndarray, apart: np.ndarray, instruction: Instruction) -> np.ndarray:
        """Return whether a strong access does not race with others: strong ones, within whose
        scope, and that of the access, both lie. `apart`: the scope that it takes to hold both.
        """
        scopes = np.minimum(self.scopes[events], scope_of(instruction))
        return (self.strengths[events] != PLAIN) & (scopes >= apart)

    def at(self, event: int) -> str:
        """Return where the instruction of an event stands in the source."""
        return self.machine.diag.where(self.events[event][0])

    def first_granule(self, access: Access) -> int:
        """Return what is added to an address as a number of granules, so that it is the first of
        the access.
        """
        return (access.where.low_bits & (self.size - 1)) + access.offset >> self.shift

    def granules_of(self, access: Access, width: int) -> Iterator[np.ndarray]:
        """Yield the granules of an access of `width` bytes a lane."""
        return granules(
            access.where.index(self.shift), self.first_granule(access), max(1, width >> self.shift)
        )
