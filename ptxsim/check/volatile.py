"""Volatile accesses of global memory that meet, and that nothing orders. Volatile is relaxed to
PTX's memory model, so they are no race, but which value is read, or stays, is not determined.

Of no harm are flags: addresses that a loop polls or that are read for a branch alone, which is known
at the end of the launch; stores of the value that is there already; compare-and-swaps. A thread that
has read a value, and stores another, is in order by coherence. A relaxed read without a fence after
it orders the volatile reads that follow, as a GPU performs them in order, but no stores.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ..machine.memory import Access, zeros
from ..machine.values import distinct
from ..ptx.definite_assignment import results, sources
from ..ptx.program import Program
from ..ptx.syntax import Address, Instruction, Register
from .order import RELAXED, WARP
from .races import HALF, LOW, SWAP, Shadow, same_values

# Of a pair of instructions this many granules are remembered.
MAX_GRANULES = 4096
CONSEQUENCE = {
    "reads": "the value that is read",
    "overwrites": "the value that is read",
    "writes": "the value that stays",
}


def flag_reads(program: Program, polling: Collection[int]) -> frozenset[int] | None:
    """Return the pcs of volatile loads whose value decides branches alone, and of what loops that
    poll read; None where the program has no volatile accesses that may be global. `polling`: the pcs
    in such loops."""
    volatile = [
        i for i in program.code if "volatile" in i.modifiers and "shared" not in i.modifiers
    ]
    if not volatile:
        return None
    readers: dict[Register, list[Instruction]] = {}
    for i in program.code:
        for register in sources(i):
            readers.setdefault(register, []).append(i)
    polled = {pc for pc in polling if program.code[pc].opcode in ("ld", "atom")}
    loads = (i for i in volatile if i.opcode == "ld")
    return frozenset(polled | {i.pc for i in loads if not _is_data(i, readers)})


def _is_data(load: Instruction, readers: dict[Register, list[Instruction]]) -> bool:
    """Return whether what a load reads gets further than to comparisons."""
    pending = list(results(load))
    seen = set(pending)
    while pending:
        register = pending.pop()
        for i in readers.get(register, ()):
            if i.opcode == "setp":
                continue
            addresses = [o for o in i.operands if isinstance(o, Address)]
            if not results(i) or addresses or i.opcode == "atom":
                return True
            fresh = [r for r in results(i) if r not in seen]
            seen.update(fresh)
            pending += fresh
    return False


@dataclass
class Meeting:
    """Accesses of two instructions that meet: the note, and where they do."""

    note: str
    granules: np.ndarray


class VolatileAccesses:
    """The volatile accesses of a launch that meet others of other threads, until its end."""

    def __init__(self, shadow: Shadow, flag_reads: frozenset[int]) -> None:
        self.shadow, self.flag_reads = shadow, flag_reads
        # `readers` holds the last volatile read since the last write, as `Shadow.writes` does.
        self.readers = zeros(len(shadow.writes), np.int64)
        self.flags = zeros(len(shadow.writes), bool)
        self.meetings: dict[tuple[int, int, str], Meeting] = {}

    def read(
        self, g: np.ndarray, lanes: np.ndarray, old: np.ndarray, instruction: Instruction
    ) -> None:
        """Observe a strong load; `old`: the last writes of its granules."""
        if instruction.pc in self.flag_reads:
            self.flags[g] = True
        if "volatile" in instruction.modifiers:
            self._meet("reads", g, lanes, old, instruction)
            threads = self.shadow.machine.state.thread_numbers.take(lanes)
            self.readers[g] = (threads + 1 << HALF) | self.shadow.event(instruction, 1)

    def write(
        self,
        g: np.ndarray,
        lanes: np.ndarray,
        old: np.ndarray,
        access: Access,
        instruction: Instruction,
    ) -> None:
        """Observe a strong store or atomic that is about to happen."""
        if instruction.pc in self.flag_reads:
            self.flags[g] = True
        readers = self.readers.take(g)
        if "cas" not in instruction.modifiers:
            changing = _changes(access, len(g))
            threads = self.shadow.machine.state.thread_numbers.take(lanes)
            unseen = changing & ((readers >> HALF) - 1 != threads)
            self._meet("writes", g[unseen], lanes[unseen], old[unseen], instruction)
            if "volatile" in instruction.modifiers:
                self._meet(
                    "overwrites", g[changing], lanes[changing], readers[changing], instruction
                )
                self._meet_at_once(g, lanes, access, instruction)
        self.readers[g] = 0

    def _meet(
        self,
        how: str,
        g: np.ndarray,
        lanes: np.ndarray,
        old: np.ndarray,
        instruction: Instruction,
    ) -> None:
        """Look at accesses whose granules other threads wrote or read last, as `old` says."""
        shadow, order, padded = self.shadow, self.shadow.order, self.shadow.machine.state.padded
        threads = shadow.machine.state.thread_numbers.take(lanes)
        who, events = (old >> HALF) - 1, old & LOW
        meeting = (old != 0) & (who != threads)
        if instruction.pc in self.flag_reads:
            # Its address is a flag, whose use within a warp is noted all the same.
            meeting &= who // WARP == threads // WARP
        others = meeting.nonzero()[0]
        if not len(others):
            return
        others = others[self._counts(how, events[others], instruction)]
        apart = order.apart(threads[others] // padded, who[others] // padded)
        others = others[shadow.atomic(events[others], apart, instruction)]
        near = who[others] // WARP == threads[others] // WARP
        times = shadow.times[events[others]]
        late = ~order.across(lanes[others], who[others], times)
        seen = order.across(lanes[others], who[others], times, RELAXED)
        if (late & ~seen & near).any() and how != "overwrites":
            shadow.note_volatile(instruction, "global")
        late &= ~near
        if how == "writes" and (late & seen).any():
            here = others[late & seen]
            read = order.relaxed_read(int(threads[here[0]]) // padded)
            self._add((read.pc, read.pc, how), shadow.relaxed_note(read), g[here])
        others = others[late & ~seen]
        for event in distinct(events[others]).tolist():
            here = others[events[others] == event]
            other = shadow.events[event][0]
            same_block = who[here[0]] // padded == threads[here[0]] // padded
            self._add_pair(how, instruction, other, bool(same_block), g[here])

    def _counts(self, how: str, events: np.ndarray, instruction: Instruction) -> np.ndarray:
        """Return which events matter to an instruction: volatile ones and, to a volatile write, all
        strong writes, but no compare-and-swap."""
        either = how == "writes" and "volatile" in instruction.modifiers
        matter = [
            event
            for event in distinct(events).tolist()
            for other, _, strong in (self.shadow.events[event],)
            if strong != SWAP and (either or "volatile" in other.modifiers)
        ]
        return np.isin(events, matter)

    def _meet_at_once(
        self, g: np.ndarray, lanes: np.ndarray, access: Access, instruction: Instruction
    ) -> None:
        """Look at threads that store to one address with one instruction."""
        if access.values is None or same_values(access, g):
            return
        order = np.argsort(g, kind="stable")
        same = (g[order][1:] == g[order][:-1]).nonzero()[0]
        differ = np.zeros(len(same), bool)
        for v in access.values:
            differ |= v[order][same] != v[order][same + 1]
        here = order[same[differ]]
        blocks = self.shadow.machine.state.block_of.take(lanes)
        same_block = blocks[here[0]] == blocks[order[same[differ] + 1][0]]
        self._add_pair("writes", instruction, instruction, bool(same_block), g[here])

    def _add_pair(
        self,
        how: str,
        instruction: Instruction,
        other: Instruction,
        same_block: bool,
        g: np.ndarray,
    ) -> None:
        key = (instruction.pc, other.pc, how)
        note = "" if key in self.meetings else self._note(how, instruction, other, same_block)
        self._add(key, note, g)

    def _note(
        self, how: str, instruction: Instruction, other: Instruction, same_block: bool
    ) -> str:
        where = self.shadow.machine.diag.where
        fence = "__threadfence_block()" if same_block else "__threadfence()"
        remedy = f"a flag with {fence} before it is set and after it is seen"
        return (
            f"{where(instruction)}: this {_access(instruction)} and the {_access(other)} at {where(other)}, by another "
            "thread, are to one address, and no barrier, fence or acquire orders the two: no race by PTX's memory "
            f"model, to which volatile is relaxed, but {CONSEQUENCE[how]} is not determined: add "
            f"{'__syncthreads(), or ' if same_block else ''}{remedy}"
        )

    def _add(self, key: tuple[int, int, str], note: str, g: np.ndarray) -> None:
        meeting = self.meetings.setdefault(key, Meeting(note, g[:0]))
        if len(meeting.granules) < MAX_GRANULES:
            meeting.granules = np.union1d(meeting.granules, g)[:MAX_GRANULES]

    def finish(self) -> None:
        """Note the meetings at addresses that are no flags, as the launch has ended."""
        for meeting in self.meetings.values():
            if not self.flags.take(meeting.granules).all():
                self.shadow.machine.diag.note(meeting.note)


def _access(i: Instruction) -> str:
    """Return the name of an access."""
    if i.opcode in ("ld", "st"):
        order = "volatile" if "volatile" in i.modifiers else "relaxed"
        return f"{order} {'read' if i.opcode == 'ld' else 'write'}"
    return "atomic operation"


def _changes(access: Access, count: int) -> np.ndarray:
    """Return which threads store another value than there is; an atomic's is not known before."""
    if access.values is None:
        return np.ones(count, bool)
    changes = np.zeros(count, bool)
    for n, v in enumerate(access.values):
        changes |= access.load(v.itemsize, n) != v
    return changes
