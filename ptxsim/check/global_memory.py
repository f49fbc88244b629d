"""Watches global memory over a whole launch: races, reads of buffers that nobody has written, and
missing proxy fences.

Of the readers of a granule since its last write one is kept: a thread, or several of one warp, of
one block, or of several blocks (MANY). A reader that all the ones before come before takes their
place (FastTrack's read epoch). Of MANY it is not known which blocks they are; whoever has learnt
something of another block since counts as ordered after them. Strong reads, as of flags, race with
plain writes alone: of those since the last plain write each thread's last is kept.

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
from ..machine.memory import GLOBAL_BASE, Access, zeros
from ..machine.tensor_maps import BYTES as MAP_BYTES
from ..machine.values import distinct
from ..ptx.program import Program
from ..ptx.reaching_definitions import UNKNOWN, Origins, access_bytes, named_spaces
from ..ptx.syntax import Instruction, Variable
from .defined import gives_only, of_granules
from .flags import Flags, scope_of
from .maps import TensorMaps
from .order import ASYNC, BLOCK, GRID, WARP, Order
from .races import HALF, LOW, PLAIN, SWAP, Shadow, is_strong, same_values, strength
from .volatile import VolatileAccesses

# A bulk store has this time until its thread has waited for it.
UNFINISHED = (1 << 31) - 1
# The readers are of several blocks; -2 - 2w stands for several threads of warp w of the grid, and
# -3 - 2b for threads of several warps of block b.
MANY = -1
# Strong reads are kept of so many granules, and of so many threads of each.
MAX_GRANULES, MAX_READERS = 1 << 12, 1 << 8


def watched(
    program: Program,
    origins: dict[int, Origins],
    addresses: Mapping[Variable, int],
    unwritten: set[int],
) -> set[int]:
    """Return instructions whose accesses of global memory may meet a write, or unwritten memory, by
    pc. `addresses`: addresses of the buffers that parameters hold; `unwritten`: those of buffers
    that nobody has written."""
    touching = [i for i in program.code if i.pc in origins and _may_be_global(i)]
    homes = {
        i.pc: {UNKNOWN if v is UNKNOWN else addresses.get(v, v) for v in origins[i.pc]}
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
    if i.opcode == "cp":
        # The space of a bulk copy's destination comes first.
        return next(m for m in i.modifiers if m.split("::")[0] in ("shared", "global")) == "global"
    return i.opcode in ("st", "atom", "red") or "store" in i.modifiers


def _smallest(code: list[Instruction], pcs: set[int]) -> int:
    """Return the bytes of the smallest access of these instructions."""
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
        flag_reads: frozenset[int] | None,
    ) -> None:
        """`pcs`: the instructions that are watched; `unwritten`: buffers that nobody has written,
        as offsets into the arena, from and to; `flag_reads`: see volatile.py."""
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
        # `strong_reads` holds, by granule and thread, the event of its last strong read; `polled`
        # marks these granules.
        self.strong_reads: dict[int, dict[int, int]] = {}
        self.polled = zeros(len(self.writes), bool)
        self.padded = machine.state.padded
        # `stored` is the event of the bulk store issued last.
        self.stored = 0
        # `issued` holds, by event, the time at which a bulk store under way was issued.
        self.issued: dict[int, int] = {}
        self.maps = TensorMaps(machine, order, self._stored_map)
        self.volatile = None
        if flag_reads is not None and self.races:
            self.volatile = VolatileAccesses(self, flag_reads)

    def finish(self) -> None:
        """End the launch."""
        if self.volatile is not None:
            self.volatile.finish()

    def touch(
        self, access: Access, width: int, instruction: Instruction, kind: str, bulk: bool = False
    ) -> None:
        """Observe an access that is about to happen; `bulk`: by the asynchronous proxy."""
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
        if not writing and len(parts) > 1:
            # One longer array is faster than several short ones.
            parts, lanes = [np.concatenate(parts)], np.concatenate([lanes] * len(parts))
        for g in parts:
            if self.unwritten is not None:
                if gives_only(instruction) and np.count_nonzero(self.unwritten.take(g)):
                    bad = np.split(self.unwritten.take(g), max(1, width >> self.shift))
                    masks = of_granules(bad, self.size, width, instruction)
                    self.machine.events.defined.read(
                        access, instruction, masks, "global", self._locator(access)
                    )
                elif reading and np.count_nonzero(self.unwritten.take(g)):
                    index = int(self.unwritten.take(g).nonzero()[0][0])
                    what = f"read of global memory that nobody wrote ({self._where(access, index)})"
                    self.machine.diag.report(Kind.UNWRITTEN, instruction, what, int(lanes[index]))
                if writing:
                    self.unwritten[g] = False
            if self.races:
                if self.volatile is not None and strong != PLAIN and not bulk:
                    old = self.writes.take(g)
                    if writing:
                        self.volatile.write(g, lanes, old, access, instruction)
                    else:
                        self.volatile.read(g, lanes, old, instruction)
                if writing:
                    self._write(g, lanes, strong, access, instruction, bulk)
                else:
                    self._read(g, lanes, strong, access, instruction, bulk)
        if released:
            # Later accesses are not released with this one.
            self.order.examine()
            self.order.tick()

    def _stored_map(self, address: int) -> tuple[Instruction, int, int] | None:
        """Return the last store of this launch to the bytes of a tensor map: the instruction, the
        thread and the time."""
        at = address - GLOBAL_BASE >> self.shift
        old = self.writes[at : at + (MAP_BYTES >> self.shift)]
        if not np.count_nonzero(old):
            return None
        last = int(old[np.argmax(self.times[old & LOW])])
        return self.events[last & LOW][0], (last >> HALF) - 1, int(self.times[last & LOW])

    # against the last write

    def _unordered(
        self, old: np.ndarray, lanes: np.ndarray, strong: int, instruction: Instruction
    ) -> np.ndarray:
        """Return the indices at which an access, `old`, is another thread's, and races with one of
        these lanes if one of the two writes."""
        who = (old >> HALF) - 1
        bad = (old != 0) & (who != self.machine.state.thread_numbers.take(lanes))
        if strong != PLAIN:
            bad &= ~self._atomic(old, lanes, instruction)
        indices = bad.nonzero()[0]
        if not len(indices):
            return indices
        times = self.times[old[indices] & LOW]
        return indices[~self.order.before_across(lanes[indices], who[indices], times)]

    def _atomic(self, old: np.ndarray, lanes: np.ndarray, instruction: Instruction) -> np.ndarray:
        """Return whether a strong access does not race with these writes or reads, as they are
        strong."""
        blocks = self.machine.state.thread_numbers.take(lanes) // self.padded
        return self.atomic(old & LOW, self.order.apart(blocks, self._block_of(old)), instruction)

    # bulk stores

    def _bulk_event(self, instruction: Instruction, strong: int) -> int:
        """Return the event of a bulk store of one thread, one for all that it stores."""
        if not self.stored:
            self.stored = self.event(instruction, strong, alone=True)
            self.issued[self.stored], self.times[self.stored] = self.order.now, UNFINISHED
        return self.stored

    def store_begins(self) -> int:
        """Return the event of the bulk store that has just been issued; 0 where it is not watched."""
        event, self.stored = self.stored, 0
        return event

    def store_ends(self, event: int) -> None:
        """Note that its thread has waited for what a bulk store stores."""
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
        late = (self.times[old & LOW] == UNFINISHED).nonzero()[0]
        who, tid = (old[late] >> HALF) - 1, self.machine.state.thread_numbers.take(lanes[late])
        since = np.array([self.issued[event] for event in (old[late] & LOW).tolist()], np.int64)
        bad = (who == tid) & (not bulk)
        others = (who != tid).nonzero()[0]
        bad[others] = self.order.before_across(lanes[late][others], who[others], since[others])
        if not bad.any():
            return False
        index = int(late[bad][0])
        lane, event = int(lanes[index]), int(old[index])
        by = "the thread itself" if who[bad][0] == tid[bad][0] else self._name(event >> HALF, lane)
        what = f"accesses global memory that {by} writes at {self.at(event & LOW)}, a bulk store for which no "
        what += "cp.async.bulk.wait_group waits: with .read it waits for the source only "
        what += f"({self._where(access, index)})"
        self.machine.diag.report(Kind.COPY, instruction, what, lane)
        return True

    def _require_proxy_fence(
        self, old: np.ndarray, lanes: np.ndarray, access: Access, instruction: Instruction
    ) -> None:
        """Require a proxy fence between ordinary stores and a bulk copy that reads what they wrote."""
        generic = [
            event
            for event in distinct(old & LOW).tolist()
            if event and self.events[event][0].opcode != "cp"
        ]
        indices = np.isin(old & LOW, generic).nonzero()[0]
        if not len(indices):
            return
        who, times = (old[indices] >> HALF) - 1, self.times[old[indices] & LOW]
        bad = indices[~self.order.before_across(lanes[indices], who, times, ASYNC)]
        if len(bad):
            index, lane = int(bad[0]), int(lanes[bad[0]])
            by, at = self._name(int(old[index]) >> HALF, lane), self.at(int(old[index]) & LOW)
            what = f"reads from global memory what {by} writes at {at} by an ordinary store, without a "
            what += f"fence.proxy.async between ({self._where(access, index)})"
            self.machine.diag.report(Kind.FENCE, instruction, what, lane)

    def fetched(self, instruction: Instruction, lanes: np.ndarray, at: np.ndarray) -> None:
        """Observe lanes that fetch from a texture over linear memory, at these offsets in the
        arena."""
        if self.races:
            self._read_only(self.writes.take(at >> self.shift), lanes, instruction, "a texture")

    def _read_only(
        self, old: np.ndarray, lanes: np.ndarray, instruction: Instruction, name: str
    ) -> None:
        """Report reads through a read-only path of what was written in this launch: no fence orders
        the two."""
        indices = old.nonzero()[0]
        if len(indices):
            index, lane = int(indices[0]), int(lanes[indices[0]])
            same = (int(old[index]) >> HALF) - 1 == int(self.machine.state.thread_numbers[lane])
            by = "the thread itself" if same else self._name(int(old[index]) >> HALF, lane)
            what = f"reads through the read-only cache ({name}) what {by} writes at {self.at(int(old[index]) & LOW)}"
            self.machine.diag.report(
                Kind.FENCE, instruction, f"{what} in the same launch", lane, len(indices)
            )

    # against the readers

    def _after_readers(self, old: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Return whether the readers that are kept come before what these lanes do."""
        who = old >> HALF
        tid = self.machine.state.thread_numbers.take(lanes)
        good = (old == 0) | (who == tid + 1)
        indices = (~good).nonzero()[0]
        if not len(indices):
            return good
        who, when = who[indices], self.times[old[indices] & LOW]
        # The last thread stands for several readers of a warp or of a block.
        last = self._block_of(who << HALF) * self.padded + self.machine.state.threads - 1
        warp = self._warp_of(who)
        last = np.where(warp >= 0, np.minimum(warp * WARP + WARP - 1, last), last)
        reader = np.where(who < MANY, last, np.maximum(who - 1, 0))
        before = self.order.before_across(lanes[indices], reader, when)
        learnt = self.order.acquired[lanes[indices] // WARP]
        good[indices] = np.where(who == MANY, learnt > when, before)
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
            indices = self._unordered(old, lanes, strong, instruction)
            if self._unfinished(old, lanes, access, instruction, bulk):
                indices = indices[:0]
            if len(indices) and not self._same_flag(access, indices):
                self._race(access, instruction, indices[0], lanes, int(old[indices[0]]), "writes")
        readers = self.reads.take(g)
        if np.count_nonzero(readers):
            if strong != SWAP:
                indices = (~self._after_readers(readers, lanes)).nonzero()[0]
                if strong != PLAIN and len(indices):
                    indices = indices[~self._atomic(readers[indices], lanes[indices], instruction)]
                if len(indices) and not self._same_flag(access, indices):
                    self._race(
                        access, instruction, indices[0], lanes, int(readers[indices[0]]), "reads"
                    )
            self.reads[g] = 0
        if self.strong_reads and (strong == PLAIN or scope_of(instruction) != GRID):
            self._after_strong_reads(g, lanes, strong, access, instruction)
        elif self.strong_reads and instruction.opcode in ("atom", "red"):
            self._settle_strong_reads(g, self.machine.state.thread_numbers.take(lanes))
        event = self._bulk_event(instruction, strong) if bulk else self.event(instruction, strong)
        new = (self.machine.state.thread_numbers.take(lanes) + 1 << HALF) | event
        self.writes[g] = new
        if strong == PLAIN or scope_of(instruction) != GRID:
            after = self.writes.take(g)
            if np.count_nonzero(after != new):
                self._meet(
                    access, instruction, g, (after != new).nonzero()[0], lanes, strong, after
                )

    def _after_strong_reads(
        self,
        g: np.ndarray,
        lanes: np.ndarray,
        strong: int,
        access: Access,
        instruction: Instruction,
    ) -> None:
        """Require that a write comes after the strong reads of its granules, if it is plain or its
        scope does not reach them."""
        readers = [
            (index, (thread + 1 << HALF) | event)
            for index in self.polled.take(g).nonzero()[0].tolist()
            for thread, event in self.strong_reads[int(g[index])].items()
        ]
        if not readers:
            return
        indices, old = np.array(readers).T
        bad = self._unordered(old, lanes[indices], strong, instruction)
        if len(bad) and not self._same_flag(access, indices[bad]):
            first = bad[0]
            self._race(access, instruction, indices[first], lanes, int(old[first]), "reads")
        if strong == PLAIN:
            self.polled[g] = False
            for granule in g[indices].tolist():
                self.strong_reads.pop(granule, None)

    def _meet(
        self,
        access: Access,
        instruction: Instruction,
        g: np.ndarray,
        indices: np.ndarray,
        lanes: np.ndarray,
        strong: int,
        after: np.ndarray,
    ) -> None:
        """Check threads that store to one address with one instruction: harmless in a block if they
        store the same."""
        threads = self.machine.state.thread_numbers.take(lanes)
        apart = indices[(after[indices] >> HALF) - 1 - threads[indices] != 0]
        blocks = threads[apart] // self.padded
        scopes = self.order.apart(blocks, self._block_of(after[apart]))
        same_block = scopes == BLOCK
        if strong != PLAIN:
            outside = scopes > scope_of(instruction)
            apart, same_block = apart[outside], same_block[outside]
        if not len(apart):
            # All belong to one bulk copy, or to one block.
            return
        if not same_values(access, g):
            index = apart[0]
        elif same_block.all() or self._one_value(access):
            return
        else:
            index = apart[~same_block][0]
        self._race(access, instruction, index, lanes, int(after[index]), "writes")

    @staticmethod
    def _one_value(access: Access) -> bool:
        """Return whether all threads store the same value."""
        return access.values is not None and all((v == v[0]).all() for v in access.values)

    def _same_flag(self, access: Access, indices: np.ndarray) -> bool:
        """Return whether all threads store the value that is there already."""
        if access.values is None or not self._one_value(access):
            return False
        return all(
            (access.load(v.itemsize, n)[indices] == v[indices]).all()
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
            indices = self._unordered(old, lanes, strong, instruction)
            if self._unfinished(old, lanes, access, instruction, bulk):
                return
            if strong == PLAIN:
                indices = indices[self.strengths[old[indices] & LOW] != SWAP]
            if len(indices):
                self._race(access, instruction, indices[0], lanes, int(old[indices[0]]), "writes")
            elif bulk:
                self._require_proxy_fence(old, lanes, access, instruction)
            elif "nc" in instruction.modifiers:
                self._read_only(old, lanes, instruction, "ld.global.nc")
        event = self.event(instruction, strong)
        threads = self.machine.state.thread_numbers.take(lanes)
        if strong != PLAIN and scope_of(instruction) == GRID:
            self._note_strong_reads(g, threads, event)
            return
        new = (threads + 1 << HALF) | event
        before = self.reads.take(g)
        fresh = self._after_readers(before, lanes)
        if np.count_nonzero(fresh) != len(fresh):
            new = np.where(fresh, new, (self._several(before, threads) << HALF) | event)
        self.reads[g] = new
        after = self.reads.take(g)
        apart = (after != new).nonzero()[0]
        if len(apart):
            # Threads read one address with one instruction.
            several = self._several(after[apart], threads[apart])
            # Of all readers of a granule the widest group is kept.
            order = np.argsort(np.where(several == MANY, 2, several % 2), kind="stable")
            self.reads[g[apart[order]]] = (several[order] << HALF) | event

    def _note_strong_reads(self, g: np.ndarray, threads: np.ndarray, event: int) -> None:
        """Note that threads read granules by a strong load."""
        for granule, thread in zip(g.tolist(), threads.tolist(), strict=True):
            if granule not in self.strong_reads:
                if len(self.strong_reads) == MAX_GRANULES:
                    continue
                self.strong_reads[granule], self.polled[granule] = {}, True
            readers = self.strong_reads[granule]
            if thread in readers or len(readers) < MAX_READERS:
                readers[thread] = event

    def _settle_strong_reads(self, g: np.ndarray, threads: np.ndarray) -> None:
        """Forget strong reads of threads that change the same granules by an atomic operation.

        All strong accesses of a word have one order, and the read comes before the operation. Who
        has seen its result, as a counter's last arrival does, can write after the read.
        """
        for index in self.polled.take(g).nonzero()[0].tolist():
            self.strong_reads[int(g[index])].pop(int(threads[index]), None)

    def _several(self, readers: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """Return who stands for readers together with these threads."""
        blocks, warps = threads // self.padded, threads // WARP
        block = np.where(self._block_of(readers) == blocks, -3 - 2 * blocks, MANY)
        return np.where(self._warp_of(readers >> HALF) == warps, -2 - 2 * warps, block)

    def _block_of(self, readers: Any) -> Any:
        """Return the block of readers; -1 where they are of several."""
        who = readers >> HALF
        warp = self._warp_of(who)
        return np.where(warp >= 0, warp * WARP // self.padded, (-3 - who) // 2)

    @staticmethod
    def _warp_of(who: Any) -> Any:
        """Return the warp of one or several readers; -1 where they are of several."""
        return np.where(who > 0, (who - 1) // WARP, np.where(who % 2 == 0, (-2 - who) // 2, -1))

    # Descriptions follow, for messages.

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
        index: int,
        lanes: np.ndarray,
        other: int,
        did: str,
    ) -> None:
        m, lane, who = self.machine, int(lanes[index]), other >> HALF
        same = self._block_of(other) == int(m.state.thread_numbers[lane]) // self.padded
        between = "and no fence and atomic operation order the two"
        if same:
            between = "without a barrier between"
        elif self.strengths[other & LOW] != PLAIN and is_strong(instruction):
            scope = min(self.scopes[other & LOW], scope_of(instruction))
            name, others = ("block", "blocks") if scope == BLOCK else ("cluster", "clusters")
            between = (
                f"and one of the two is of {name} scope (.{'cta' if scope == BLOCK else name}): "
            )
            between += f"it takes device scope to order {others}"
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
        message = f"{what} ({self._where(access, index)}){m.diag.hint(lane)}"
        m.diag.report(Kind.RACE, instruction, message, lane)

    @staticmethod
    def _locator(access: Access) -> Callable[[int], str]:
        return lambda at: f"{access.space.address_text(at)}, {access.space.describe(at)}"

    def _where(self, access: Access, index: int) -> str:
        return self._locator(access)(int(access.flat()[index % len(access.flat())]))
