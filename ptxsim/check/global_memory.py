"""Watches global memory over a whole launch: races, reads of buffers that nobody has written, and
missing proxy fences.

Of the readers of a granule since its last write one is kept: a thread, or several of one block, or
of several blocks (MANY). A reader that all the ones before come before takes their place
(FastTrack's read epoch). Of MANY it is not known which blocks they are; whoever has learnt
something of another block since counts as ordered after them.

Threads of several blocks that all store one and the same value, as to set a flag, do no harm. Only
accesses that may meet a write are watched (see `watched`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import Kind
from ..instructions.wmma import ELEMENT
from ..machine.batch import Batch
from ..machine.memory import Access, zeros
from ..machine.values import distinct
from ..ptx.program import Program
from ..ptx.reaching_definitions import UNKNOWN, Origins, access_bytes, named_spaces
from ..ptx.syntax import Instruction, Variable
from .defined import gives_only, of_granules
from .flags import BLOCK, Flags, scope_of
from .maps import TensorMaps
from .order import ASYNC, WARP, Order
from .races import HALF, LOW, PLAIN, SWAP, Shadow, is_strong, same_values, strength

UNFINISHED = (1 << 31) - 1  # the time of a bulk store for which its thread has not waited
MANY = -1  # readers of several blocks; -2 - b: several threads of block b


def watched(
    program: Program,
    origins: dict[int, Origins],
    places: Mapping[Variable, int],
    unwritten: set[int],
) -> set[int]:
    """Instructions whose accesses of global memory may meet a write, or unwritten memory, by pc.
    `places`: addresses of the buffers that parameters hold; `unwritten`: those of buffers that
    nobody has written."""
    touching = [i for i in program.code if i.pc in origins and _may_be_global(i)]
    homes = {
        i.pc: {UNKNOWN if v is UNKNOWN else places.get(v, v) for v in origins[i.pc]}
        for i in touching
    }
    writers = {i.pc for i in touching if _writes(i)}
    written = set(unwritten).union(*(homes[pc] for pc in writers))
    return writers | {
        pc
        for pc, home in homes.items()
        if home & written or (written and UNKNOWN in home) or UNKNOWN in written
    }


def _may_be_global(i: Instruction) -> bool:
    if "prefetch" in i.modifiers:
        return False
    known = i.opcode in ("ld", "ldu", "st", "atom", "red", "cp", "wmma")
    return known and (not named_spaces(i) or "global" in named_spaces(i))


def _writes(i: Instruction) -> bool:
    if i.opcode == "cp":  # in bulk, the space of the destination comes first
        return next(m for m in i.modifiers if m.split("::")[0] in ("shared", "global")) == "global"
    return i.opcode in ("st", "atom", "red") or "store" in i.modifiers


def _smallest(code: list[Instruction], pcs: set[int]) -> int:
    """Bytes of the smallest access of these instructions."""
    sizes = [4]
    for i in (code[pc] for pc in pcs):
        if i.opcode == "wmma":
            sizes.append(next((ELEMENT[m] for m in reversed(i.modifiers) if m in ELEMENT), 1))
        elif i.opcode != "cp":
            sizes.append(min(access_bytes(i), 16))
    return min(sizes[1:], default=4)


class GlobalMemory(Shadow):
    """The shadow of global memory, from the first block of a launch to the last."""

    def __init__(
        self,
        machine: Batch,
        order: Order,
        flags: Flags,
        pcs: set[int],
        unwritten: list[tuple[int, int]],
    ) -> None:
        """`pcs`: the instructions that are watched; `unwritten`: buffers that nobody has written,
        as offsets into the arena, from and to."""
        self.races = machine.launch.checks.global_races
        code = machine.program.code
        size, total = _smallest(code, pcs), len(machine.launch.arena.data)
        if any(code[pc].opcode == "cp" for pc in pcs):
            size = min(size, 4)
        super().__init__(machine, order, flags, size, total if self.races else 0)
        nobody = zeros(total >> self.shift if unwritten else 0, bool)
        for start, end in unwritten:
            nobody[start >> self.shift : -(-end >> self.shift)] = True
        self.unwritten = nobody if unwritten else None
        self.reads = zeros(len(self.writes), np.int64)
        self.padded = machine.state.padded
        self.stored = 0  # the event of the bulk store that has just been issued
        # by event: when bulk stores under way were issued
        self.issued: dict[int, int] = {}
        self.maps = TensorMaps(machine, order)

    def touch(
        self, access: Access, width: int, instruction: Instruction, kind: str, bulk: bool = False
    ) -> None:
        """An access is about to happen; `bulk`: by the asynchronous proxy."""
        lanes = (
            np.arange(self.machine.state.lanes)
            if access.lanes is None
            else np.asarray(access.lanes)
        )
        reading, writing = kind not in ("st", "st_ordered"), kind in ("st", "st_ordered", "atom")
        strong = strength(instruction, kind)
        released = False
        if strong != PLAIN and self.races and not bulk:
            released = self.flags.access(access, width, instruction, kind, lanes)
        parts = list(self.granules_of(access, width))
        if not writing and len(parts) > 1:  # all at once: fewer, longer arrays
            parts, lanes = [np.concatenate(parts)], np.concatenate([lanes] * len(parts))
        for g in parts:
            if self.unwritten is not None:
                if gives_only(instruction) and np.count_nonzero(self.unwritten.take(g)):
                    bad = np.split(self.unwritten.take(g), max(1, width >> self.shift))
                    masks = of_granules(bad, self.size, width, instruction)
                    self.machine.events.defined.read(
                        access, instruction, masks, "global", self._words(access)
                    )
                elif reading and np.count_nonzero(self.unwritten.take(g)):
                    place = int(self.unwritten.take(g).nonzero()[0][0])
                    what = f"read of global memory that nobody wrote ({self._place(access, place)})"
                    self.machine.diag.report(Kind.UNWRITTEN, instruction, what, int(lanes[place]))
                if writing:
                    self.unwritten[g] = False
            if self.races:
                if writing:
                    self._write(g, lanes, strong, access, instruction, bulk)
                else:
                    self._read(g, lanes, strong, access, instruction, bulk)
        if released:  # what follows is not released with it
            self.order.examine()
            self.order.tick()

    # against the last write

    def _clash_with_writer(
        self, old: np.ndarray, lanes: np.ndarray, strong: int, instruction: Instruction
    ) -> np.ndarray:
        """Places where the last write is another thread's, and nothing orders the two."""
        who = (old >> HALF) - 1
        bad = (old != 0) & (who != self.machine.state.thread_numbers.take(lanes))
        if strong != PLAIN:
            atomic = self._atomic(old, lanes, instruction)
            if "volatile" in instruction.modifiers and bad.any():
                warps = self.machine.state.thread_numbers.take(lanes) // WARP
                meeting = (bad & atomic & (who // WARP == warps)).nonzero()[0]
                times = self.times[old[meeting] & LOW]
                if not self.order.before_across(lanes[meeting], who[meeting], times).all():
                    self.note_volatile(instruction, "global")
            bad &= ~atomic
        places = bad.nonzero()[0]
        if not len(places):
            return places
        times = self.times[old[places] & LOW]
        return places[~self.order.before_across(lanes[places], who[places], times)]

    def _atomic(self, old: np.ndarray, lanes: np.ndarray, instruction: Instruction) -> np.ndarray:
        """Whether a strong access does not race with these writes or reads, as they are strong."""
        blocks = self.machine.state.thread_numbers.take(lanes) // self.padded
        return self.atomic(old & LOW, self._block_of(old) != blocks, instruction)

    # bulk stores

    def _bulk_event(self, instruction: Instruction, strong: int) -> int:
        """The event of a bulk store of one thread, one for all that it stores."""
        if not self.stored:
            self.stored = self.event(instruction, strong, alone=True)
            self.issued[self.stored], self.times[self.stored] = self.order.now, UNFINISHED
        return self.stored

    def store_begins(self) -> int:
        """The event of the bulk store that has just been issued; 0 where it is not watched."""
        event, self.stored = self.stored, 0
        return event

    def store_ends(self, event: int) -> None:
        """Its thread has waited for what a bulk store stores."""
        self.times[event] = self.order.now
        del self.issued[event]
        self.order.tick()

    def _unfinished(
        self,
        old: np.ndarray,
        lanes: np.ndarray,
        access: Access,
        instruction: Instruction,
        bulk: bool,
    ) -> bool:
        """Report an access of what a bulk store has written whose thread has not waited for that,
        by that thread, or by one that comes after the store was issued.
        """
        if not self.issued or "reduce" in instruction.modifiers:
            return False
        places = (self.times[old & LOW] == UNFINISHED).nonzero()[0]
        who, own = (old[places] >> HALF) - 1, self.machine.state.thread_numbers.take(lanes[places])
        since = np.array([self.issued[event] for event in (old[places] & LOW).tolist()], np.int64)
        bad = (who == own) & (not bulk)
        others = (who != own).nonzero()[0]
        bad[others] = self.order.before_across(lanes[places][others], who[others], since[others])
        if not bad.any():
            return False
        place = int(places[bad][0])
        lane, event = int(lanes[place]), int(old[place])
        by = "the thread itself" if who[bad][0] == own[bad][0] else self._name(event >> HALF, lane)
        what = f"accesses global memory that {by} writes at {self.at(event & LOW)}, a bulk store for which no "
        what += "cp.async.bulk.wait_group waits: with .read it waits for the source only "
        what += f"({self._place(access, place)})"
        self.machine.diag.report(Kind.COPY, instruction, what, lane)
        return True

    def _require_proxy_fence(
        self, old: np.ndarray, lanes: np.ndarray, access: Access, instruction: Instruction
    ) -> None:
        """What a bulk copy reads must not come from ordinary stores without a proxy fence
        between.
        """
        generic = [
            event
            for event in distinct(old & LOW).tolist()
            if event and self.events[event][0].opcode != "cp"
        ]
        places = np.isin(old & LOW, generic).nonzero()[0]
        if not len(places):
            return
        who, times = (old[places] >> HALF) - 1, self.times[old[places] & LOW]
        bad = places[~self.order.before_across(lanes[places], who, times, ASYNC)]
        if len(bad):
            place, lane = int(bad[0]), int(lanes[bad[0]])
            by, at = self._name(int(old[place]) >> HALF, lane), self.at(int(old[place]) & LOW)
            what = f"reads from global memory what {by} writes at {at} by an ordinary store, without a "
            what += f"fence.proxy.async between ({self._place(access, place)})"
            self.machine.diag.report(Kind.FENCE, instruction, what, lane)

    def fetched(self, instruction: Instruction, lanes: np.ndarray, at: np.ndarray) -> None:
        """Lanes fetch from a texture over linear memory, at these places of the arena."""
        if self.races:
            self._read_only(self.writes.take(at >> self.shift), lanes, instruction, "a texture")

    def _read_only(
        self, old: np.ndarray, lanes: np.ndarray, instruction: Instruction, name: str
    ) -> None:
        """What is read as if nobody wrote it in this launch was written by somebody: no fence
        orders the two.
        """
        places = old.nonzero()[0]
        if len(places):
            place, lane = int(places[0]), int(lanes[places[0]])
            own = (int(old[place]) >> HALF) - 1 == int(self.machine.state.thread_numbers[lane])
            by = "the thread itself" if own else self._name(int(old[place]) >> HALF, lane)
            what = f"reads through the read-only cache ({name}) what {by} writes at {self.at(int(old[place]) & LOW)}"
            self.machine.diag.report(
                Kind.FENCE, instruction, f"{what} in the same launch", lane, len(places)
            )

    # against the readers

    def _after_readers(self, old: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Whether the readers that are kept come before what these lanes do."""
        who = old >> HALF
        own = self.machine.state.thread_numbers.take(lanes)
        good = (old == 0) | (who == own + 1)
        places = (~good).nonzero()[0]
        if not len(places):
            return good
        who, when = who[places], self.times[old[places] & LOW]
        last = self.machine.state.threads - 1  # of a block, when it stands for several
        reader = np.where(who < MANY, (-2 - who) * self.padded + last, np.maximum(who - 1, 0))
        before = self.order.before_across(lanes[places], reader, when)
        learnt = self.order.acquired[lanes[places] // WARP]
        good[places] = np.where(who == MANY, learnt > when, before)
        return good

    def _write(
        self,
        g: np.ndarray,
        lanes: np.ndarray,
        strong: int,
        access: Access,
        instruction: Instruction,
        bulk: bool,
    ) -> None:
        old = self.writes.take(g)
        if np.count_nonzero(old):
            places = self._clash_with_writer(old, lanes, strong, instruction)
            if self._unfinished(old, lanes, access, instruction, bulk):
                places = places[:0]
            if len(places) and not self._same_flag(access, places):
                self._race(access, instruction, places[0], lanes, int(old[places[0]]), "writes")
        readers = self.reads.take(g)
        if np.count_nonzero(readers):
            if strong != SWAP:
                places = (~self._after_readers(readers, lanes)).nonzero()[0]
                if strong != PLAIN and len(places):
                    places = places[~self._atomic(readers[places], lanes[places], instruction)]
                if len(places) and not self._same_flag(access, places):
                    self._race(
                        access, instruction, places[0], lanes, int(readers[places[0]]), "reads"
                    )
            self.reads[g] = 0
        event = self._bulk_event(instruction, strong) if bulk else self.event(instruction, strong)
        new = (self.machine.state.thread_numbers.take(lanes) + 1 << HALF) | event
        self.writes[g] = new
        if strong == PLAIN or scope_of(instruction) == BLOCK:
            after = self.writes.take(g)
            if np.count_nonzero(after != new):
                self._meet(
                    access, instruction, g, (after != new).nonzero()[0], lanes, strong, after
                )

    def _meet(
        self,
        access: Access,
        instruction: Instruction,
        g: np.ndarray,
        places: np.ndarray,
        lanes: np.ndarray,
        strong: int,
        after: np.ndarray,
    ) -> None:
        """Threads store to one place with one instruction: harmless in a block if they store the
        same.
        """
        threads = self.machine.state.thread_numbers.take(lanes)
        apart = places[(after[places] >> HALF) - 1 - threads[places] != 0]
        same_block = (((after[apart] >> HALF) - 1) // self.padded) == threads[apart] // self.padded
        if strong != PLAIN:
            apart, same_block = apart[~same_block], same_block[~same_block]
        if not len(apart):  # all of one bulk copy, or of one block
            return
        if not same_values(access, g):
            place = apart[0]
        elif same_block.all() or self._one_value(access):
            return
        else:
            place = apart[~same_block][0]
        self._race(access, instruction, place, lanes, int(after[place]), "writes")

    @staticmethod
    def _one_value(access: Access) -> bool:
        """Return whether all threads store the same value."""
        return access.values is not None and all((v == v[0]).all() for v in access.values)

    def _same_flag(self, access: Access, places: np.ndarray) -> bool:
        """Return whether all threads store the value that is there already."""
        if access.values is None or not self._one_value(access):
            return False
        return all(
            (access.load(v.itemsize, n)[places] == v[places]).all()
            for n, v in enumerate(access.values)
        )

    def _read(
        self,
        g: np.ndarray,
        lanes: np.ndarray,
        strong: int,
        access: Access,
        instruction: Instruction,
        bulk: bool,
    ) -> None:
        old = self.writes.take(g)
        if np.count_nonzero(old):
            places = self._clash_with_writer(old, lanes, strong, instruction)
            if self._unfinished(old, lanes, access, instruction, bulk):
                return
            if strong == PLAIN:
                places = places[self.strengths[old[places] & LOW] != SWAP]
            if len(places):
                self._race(access, instruction, places[0], lanes, int(old[places[0]]), "writes")
            elif bulk:
                self._require_proxy_fence(old, lanes, access, instruction)
            elif "nc" in instruction.modifiers:
                self._read_only(old, lanes, instruction, "ld.global.nc")
        if strong != PLAIN and scope_of(instruction) != BLOCK:
            return
        event = self.event(instruction, strong)
        threads = self.machine.state.thread_numbers.take(lanes)
        blocks = threads // self.padded
        new = (threads + 1 << HALF) | event
        before = self.reads.take(g)
        fresh = self._after_readers(before, lanes)
        if np.count_nonzero(fresh) != len(fresh):
            new = np.where(
                fresh,
                new,
                (np.where(self._block_of(before) == blocks, -2 - blocks, MANY) << HALF) | event,
            )
        self.reads[g] = new
        after = self.reads.take(g)
        apart = (after != new).nonzero()[0]
        if len(apart):  # threads read one place with one instruction
            near = self._block_of(after[apart]) == blocks[apart]
            self.reads[g[apart[near]]] = (-2 - blocks[apart[near]] << HALF) | event
            self.reads[g[apart[~near]]] = (MANY << HALF) | event

    def _block_of(self, readers: Any) -> Any:
        """The block of readers; of several blocks: -1."""
        who = readers >> HALF
        return np.where(who > 0, (who - 1) // self.padded, -2 - who)

    # words

    def _name(self, who: int, lane: int) -> str:
        """Describe threads that are noted, as seen from a lane."""
        state = self.machine.state
        block = int(self._block_of(who << HALF))
        if block == int(state.thread_numbers[lane]) // self.padded:
            if who < 0:
                return "another thread"
            return f"thread {state.thread_index((who - 1) % self.padded)}"
        name = "other blocks" if who == MANY else f"block {state.grid_index(block)}"
        return name + (f", thread {state.thread_index((who - 1) % self.padded)}" if who > 0 else "")

    def _race(
        self,
        access: Access,
        instruction: Instruction,
        place: int,
        lanes: np.ndarray,
        other: int,
        did: str,
    ) -> None:
        m, lane, who = self.machine, int(lanes[place]), other >> HALF
        same = self._block_of(other) == int(m.state.thread_numbers[lane]) // self.padded
        between = "and no fence and atomic operation order the two"
        if same:
            between = "without a barrier between"
        elif self.strengths[other & LOW] != PLAIN and is_strong(instruction):
            between = (
                "and one of the two is of block scope (.cta): it takes device scope to order blocks"
            )
        did = did.removesuffix("s") if who == MANY else did
        verb = (
            "reads"
            if instruction.opcode in ("ld", "ldu")
            else "changes"
            if instruction.opcode != "st"
            else "writes"
        )
        if instruction.opcode == "cp":
            verb = "writes" if _writes(instruction) else "reads"
        what = f"race in global memory: {verb} what {self._name(who, lane)} {did} at {self.at(other & LOW)}, {between}"
        message = f"{what} ({self._place(access, place)}){m.diag.hint(lane)}"
        m.diag.report(Kind.RACE, instruction, message, lane)

    @staticmethod
    def _words(access: Access) -> Callable[[int], str]:
        return lambda at: f"{access.space.address_text(at)}, {access.space.describe(at)}"

    def _place(self, access: Access, place: int) -> str:
        return self._words(access)(int(access.flat()[place % len(access.flat())]))
