"""Watches global memory over a whole launch: races, and reads of buffers that nobody has written.

Two accesses of the same bytes by different threads, of which one writes, race unless something orders them:
- within a block, a barrier of the block between them (or of the warp, for threads of one warp);
- also between blocks, a fence, then an atomic operation (or a volatile, relaxed or release store), which an atomic
  operation (or such a load) of the other thread at the same address comes after. What the first block's threads wrote
  before a barrier counts as written before a fence that follows; what a thread wrote itself needs no barrier. The
  second block knows after its next barrier what one of its threads learnt; until then only that thread's warp does.

Atomic operations and volatile, relaxed, release and acquire accesses do not race with each other. A plain read does not
race with a compare-and-swap. Threads that all store one and the same value, as to set a flag, do no harm.
A fence that any thread of the block executes counts for the whole block, and reading needs none: so a missing fence can
go unseen, and what is reported is a race.

Shadow memory holds for each granule, as large as the smallest access watched, who last wrote it and who read it since:
in the upper half a thread's number plus one, in the lower half an event, that is an instruction and a time. Time goes
on at barriers and fences. Only accesses that may meet a write are watched (see `watched`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from .batch import Batch
from .events import Monitor
from .memory import SHIFT, Access
from .monitor import PLAIN, SWAP, granules, strength
from .origins import UNKNOWN, Origins, access_bytes, named_spaces
from .program import Program
from .syntax import Instruction, Variable

WARP = 32
HALF, LOW = 32, (1 << 32) - 1
MANY = -1  # readers of several blocks; -2 - b: several threads of block b
_OF_WARP = -(1 << 48)
Known = dict[int, int]  # until when others' writes are known: by block, by ~thread, and by _OF_WARP - warp


def watched(
    program: Program, origins: dict[int, Origins], places: Mapping[Variable, int], unwritten: set[int]
) -> set[int]:
    """Instructions whose accesses of global memory may meet a write, or unwritten memory, by pc. `places`: addresses of
    the buffers that parameters hold; `unwritten`: those of buffers that nobody has written."""
    touching = [i for i in program.code if i.pc in origins and _may_be_global(i)]
    homes = {i.pc: {UNKNOWN if v is UNKNOWN else places.get(v, v) for v in origins[i.pc]} for i in touching}
    writers = {i.pc for i in touching if _writes(i)}
    written = set(unwritten).union(*(homes[pc] for pc in writers))
    return writers | {
        pc for pc, home in homes.items() if home & written or (written and UNKNOWN in home) or UNKNOWN in written
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


class GlobalMonitor(Monitor):
    """The shadow of global memory, from the first block of a launch to the last."""

    def __init__(self, machine: Batch, pcs: set[int], unwritten: list[tuple[int, int]]) -> None:
        """`pcs`: the instructions that are watched; `unwritten`: buffers that nobody has written, as offsets into the
        arena, from and to."""
        self.machine, self.races = machine, machine.launch.checks.global_races
        code = machine.program.code
        self.size = min((min(access_bytes(code[pc]), 16) if code[pc].opcode != "cp" else 4 for pc in pcs), default=4)
        self.size = 1 if machine.program.code and any(code[pc].opcode == "wmma" for pc in pcs) else self.size
        self.shift = SHIFT[self.size]
        granules = len(machine.launch.arena.data) >> self.shift
        nobody = np.zeros(granules if unwritten else 0, bool)
        for start, end in unwritten:
            nobody[start >> self.shift : -(-end >> self.shift)] = True
        self.unwritten = nobody if unwritten else None
        blocks = machine.state.grid[0] * machine.state.grid[1] * machine.state.grid[2]
        self.writes, self.reads = (
            np.zeros(granules if self.races else 0, np.int64),
            np.zeros(granules if self.races else 0, np.int64),
        )
        self.events: list[tuple[Instruction, int] | None] = [None]
        self.times, self.strengths = np.zeros(64, np.int64), np.zeros(64, np.int8)
        self.now = 1
        self.passed = np.zeros(blocks, np.int64)  # when each block last passed a barrier
        self.warp_passed = np.zeros(blocks * machine.state.padded // WARP, np.int64)
        self.fenced = np.zeros(blocks, np.int64)
        self.acquired = np.zeros(blocks, np.int64)
        self.any_fence = False
        self.known: dict[int, Known] = {}  # by block
        self.fresh: dict[int, Known] = {}  # by warp, since the block's last barrier
        self.released: dict[int, Known] = {}  # by address
        self.seen: dict[tuple[int, int], int] = {}  # by warp and address: how much of what was released
        self.versions: dict[int, int] = {}  # by address
        self.covers: dict[int, np.ndarray] = {}  # `known` as arrays, by block

    # what orders accesses

    def barrier(self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0) -> None:
        blocks = self.machine.state.blocks if done is None else self.machine.state.blocks[done]
        self.passed[blocks] = self.now
        self.now += 1
        if self.fresh:
            here = set(blocks.tolist())
            for warp in [w for w in self.fresh if w * WARP // self.machine.state.padded in here]:
                block = warp * WARP // self.machine.state.padded
                _join(self.known.setdefault(block, {}), self.fresh.pop(warp))
                self.covers.pop(block, None)

    def acquire(self, key: Hashable, lanes: np.ndarray) -> None:
        state = self.machine.state
        self.barrier(np.bincount(state.block_of[lanes], minlength=len(state.blocks)) > 0)

    def warp_sync(self, threads: np.ndarray) -> None:
        warps = self.machine.state.thread_numbers[threads] // WARP
        self.warp_passed[warps] = self.now
        self.now += 1

    def fence(self, threads: np.ndarray, beyond_cluster: bool) -> None:
        if beyond_cluster:
            state = self.machine.state
            self._fence(state.blocks[np.unique(state.block_of[threads])])

    def _fence(self, blocks: np.ndarray) -> None:
        self.fenced[blocks] = self.now
        self.now += 1
        self.any_fence = True

    def _lane(self, thread: int) -> int:
        """The lane of the batch that a thread has."""
        return int(np.flatnonzero(self.machine.state.thread_numbers == thread)[0])

    def _synchronise(self, instruction: Instruction, kind: str, at: np.ndarray, threads: np.ndarray) -> bool:
        """A strong access: it may release what its block wrote, and acquire what others released there. Whether it is a
        release itself, which comes before what they do who acquire it."""
        words = set(instruction.modifiers)
        if "cta" in words:
            return False
        padded = self.machine.state.padded
        releases, acquires = kind != "ld_ordered", kind != "st_ordered"
        blocks = threads // padded
        itself = releases and bool(words & {"release", "acq_rel", "sc"})
        if itself:
            self._fence(np.unique(blocks))
        if not self.any_fence:
            return False
        matter = self.fenced[blocks] > 0 if releases else np.zeros(len(blocks), bool)
        if acquires and self.released:
            matter |= np.isin(at, np.fromiter(self.released, np.int64, len(self.released)))
        for i in np.flatnonzero(matter).tolist():
            address, thread, block = int(at[i]), int(threads[i]), int(blocks[i])
            warp = thread // WARP
            if acquires and address in self.released:
                version = self.versions[address]
                if self.seen.get((warp, address)) != version:
                    self.seen[warp, address] = version
                    _join(self.fresh.setdefault(warp, {}), self.released[address])
                    self.acquired[block] = self.now
            if releases and self.fenced[block]:
                until = int(self.fenced[block])
                clock = self.released.setdefault(address, {})
                before = min(int(self.warp_passed[warp]), until)
                own = self.now if itself else until
                _join(clock, {block: min(int(self.passed[block]), until), ~thread: own, _OF_WARP - warp: before})
                _join(clock, self.known.get(block, {}))
                _join(clock, self.fresh.get(warp, {}))
                self.versions[address] = self.versions.get(address, 0) + 1
        return itself

    def _ordered(self, who: np.ndarray, when: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """Return, for each thread, whether what another did at a time is ordered before what this one does now."""
        padded = self.machine.state.padded
        theirs, ours = who // padded, threads // padded
        same = theirs == ours
        good = same & (when <= self.passed[ours])
        warps = threads // WARP
        good |= (who // WARP == warps) & (when <= self.warp_passed[warps])
        if good.all() or not (self.known or self.fresh):
            return good
        for block in np.unique(ours[~good]).tolist():
            if block in self.known:
                mine = np.flatnonzero(~good & (ours == block))
                good[mine] = when[mine] <= self._cover(block)[theirs[mine]]
        for i in np.flatnonzero(~good).tolist():
            for known in (self.known.get(int(ours[i])), self.fresh.get(int(warps[i]))):
                thread = int(who[i])
                keys = (int(theirs[i]), ~thread, _OF_WARP - thread // WARP)
                if known and when[i] <= max(known.get(key, 0) for key in keys):
                    good[i] = True
        return good

    def _cover(self, block: int) -> np.ndarray:
        found = self.covers.get(block)
        if found is None:
            found = self.covers[block] = np.zeros(len(self.passed), np.int64)
            for other, until in self.known[block].items():
                if other >= 0:
                    found[other] = until
        return found

    # accesses

    def touch(self, access: Access, width: int, instruction: Instruction, kind: str) -> None:
        """An access is about to happen."""
        where, size = access.where, self.size
        first = (where.low_bits & (size - 1)) + access.offset >> self.shift
        lanes = np.arange(self.machine.state.lanes) if where.lanes is None else where.lanes
        base = where.index(self.shift)
        reading, writing = kind not in ("st", "st_ordered"), kind in ("st", "st_ordered", "atom")
        threads = self.machine.state.thread_numbers[lanes]
        strong = strength(instruction, kind)
        released = strong != PLAIN and self.races and self._synchronise(instruction, kind, access.flat(), threads)
        for g in granules(base, first, max(1, width >> self.shift)):
            if len(g) != len(lanes):  # many of one thread
                threads = np.full(len(g), self.machine.state.thread_numbers[lanes[0]])
            if self.unwritten is not None:
                if reading and np.count_nonzero(self.unwritten.take(g)):
                    self._report(access, instruction, int(np.flatnonzero(self.unwritten.take(g))[0]), threads)
                if writing:
                    self.unwritten[g] = False
            if self.races:
                if writing:
                    self._write(g, threads, strong, access, instruction)
                else:
                    self._read(g, threads, strong, access, instruction)
        self.now += released  # the release does not publish what follows it

    def _event(self, instruction: Instruction, strong: int) -> int:
        if self.events[-1] != (instruction, self.now):
            self.events.append((instruction, self.now))
            number = len(self.events) - 1
            if number == len(self.times):
                self.times = np.concatenate([self.times, np.zeros_like(self.times)])
                self.strengths = np.concatenate([self.strengths, np.zeros_like(self.strengths)])
            self.times[number], self.strengths[number] = self.now, strong
        return len(self.events) - 1

    def _clash_with_writer(self, old: np.ndarray, threads: np.ndarray, strong: int) -> np.ndarray:
        """Places where the last write is another thread's, and nothing orders the two."""
        who = (old >> HALF) - 1
        bad = (old != 0) & (who != threads)
        if strong != PLAIN:
            bad &= self.strengths[old & LOW] == PLAIN
        places = np.flatnonzero(bad)
        if not len(places):
            return places
        return places[~self._ordered(who[places], self.times[old[places] & LOW], threads[places])]

    def _clash_with_readers(self, old: np.ndarray, threads: np.ndarray) -> np.ndarray:
        who, blocks = old >> HALF, threads // self.machine.state.padded
        places = np.flatnonzero((old != 0) & (who != threads + 1))
        if not len(places):
            return places
        who, when = who[places], self.times[old[places] & LOW]
        several = who < MANY
        reader = np.where(several, (-2 - who) * self.machine.state.padded, np.maximum(who - 1, 0))
        good = self._ordered(reader, when, threads[places])
        good = np.where(who == MANY, self.acquired[blocks[places]] > when, good)
        return places[~good]

    def _write(self, g: np.ndarray, threads: np.ndarray, strong: int, access: Access, instruction: Instruction) -> None:
        old = self.writes.take(g)
        if np.count_nonzero(old):
            places = self._clash_with_writer(old, threads, strong)
            if len(places) and not self._same_flag(access, places):
                self._race(access, instruction, places[0], threads, int(old[places[0]]), "writes")
        readers = self.reads.take(g)
        if np.count_nonzero(readers):
            if strong != SWAP:
                places = self._clash_with_readers(readers, threads)
                if len(places) and not self._same_flag(access, places):
                    self._race(access, instruction, places[0], threads, int(readers[places[0]]), "reads")
            self.reads[g] = 0
        new = (threads + 1 << HALF) | self._event(instruction, strong)
        self.writes[g] = new
        if strong == PLAIN:
            after = self.writes.take(g)
            if np.count_nonzero(after != new):
                places = np.flatnonzero(after != new)
                self._meet(access, instruction, g, places, threads, after)

    def _meet(
        self,
        access: Access,
        instruction: Instruction,
        g: np.ndarray,
        places: np.ndarray,
        threads: np.ndarray,
        after: np.ndarray,
    ) -> None:
        """Threads store to one place with one instruction: harmless in a block if they store the same."""
        padded = self.machine.state.padded
        apart = places[(after[places] >> HALF) - 1 - threads[places] != 0]
        same_block = (((after[apart] >> HALF) - 1) // padded) == threads[apart] // padded
        if not self._same_values(access, g):
            place = apart[0]
        elif same_block.all() or self._one_value(access):
            return
        else:
            place = apart[~same_block][0]
        self._race(access, instruction, place, threads, int(after[place]), "writes")

    @staticmethod
    def _same_values(access: Access, g: np.ndarray) -> bool:
        if access.values is None:
            return False
        order = np.argsort(g, kind="stable")
        same = g[order][1:] == g[order][:-1]
        return all(not np.any(same & (v[order][1:] != v[order][:-1])) for v in access.values)

    @staticmethod
    def _one_value(access: Access) -> bool:
        """Return whether all threads store the same value."""
        return access.values is not None and all((v == v[0]).all() for v in access.values)

    def _same_flag(self, access: Access, places: np.ndarray) -> bool:
        """Return whether all threads store the value that is there already."""
        if access.values is None or not self._one_value(access):
            return False
        return all((access.load(v.itemsize, n)[places] == v[places]).all() for n, v in enumerate(access.values))

    def _read(self, g: np.ndarray, threads: np.ndarray, strong: int, access: Access, instruction: Instruction) -> None:
        old = self.writes.take(g)
        if np.count_nonzero(old):
            places = self._clash_with_writer(old, threads, strong)
            if strong == PLAIN:
                places = places[self.strengths[old[places] & LOW] != SWAP]
            if len(places):
                self._race(access, instruction, places[0], threads, int(old[places[0]]), "writes")
        if strong != PLAIN:
            return
        event = self._event(instruction, strong)
        new = (threads + 1 << HALF) | event
        before = self.reads.take(g)
        blocks = threads // self.machine.state.padded
        who = before >> HALF
        fresh = (before == 0) | (who == threads + 1)
        if np.count_nonzero(fresh) != len(fresh):
            their = np.where(who > 0, (who - 1) // self.machine.state.padded, -2 - who)  # of several blocks: -1
            fresh |= (their == blocks) & (self.times[before & LOW] <= self.passed[blocks])
            new = np.where(fresh, new, (np.where(their == blocks, -2 - blocks, MANY) << HALF) | event)
        self.reads[g] = new
        after = self.reads.take(g)
        apart = np.flatnonzero(after != new)
        if len(apart):  # threads read one place with one instruction
            who = after[apart] >> HALF
            their = np.where(who > 0, (who - 1) // self.machine.state.padded, -2 - who)
            mine = blocks[apart]
            near = their == mine
            self.reads[g[apart[near]]] = (-2 - mine[near] << HALF) | event
            self.reads[g[apart[~near]]] = (MANY << HALF) | event

    # words

    def _race(
        self, access: Access, instruction: Instruction, place: int, threads: np.ndarray, other: int, did: str
    ) -> None:
        m = self.machine
        who, event = other >> HALF, self.events[other & LOW]
        assert event is not None  # the first, which is nobody's, is never noted
        their = event[0]
        block, mine = (who - 1) // m.state.padded, int(threads[place]) // m.state.padded
        if who < 0:
            block = -2 - who if who < MANY else -1
        if block == mine:
            name = "another thread" if who < 0 else f"thread {m.state.thread_index((who - 1) % m.state.padded)}"
            between = "without a barrier between"
        else:
            name = "other blocks" if who == MANY else f"block {m.state.block_place(block)}"
            name += f", thread {m.state.thread_index((who - 1) % m.state.padded)}" if who > 0 else ""
            between = "and no fence and atomic operation order the two"
        did = did.removesuffix("s") if who == MANY else did
        verb = "reads" if instruction.opcode in ("ld", "ldu") else "changes" if instruction.opcode != "st" else "writes"
        what = f"race in global memory: {verb} what {name} {did} at {m.diag.where(their)}, {between}"
        lane = self._lane(int(threads[place]))
        m.diag.report(instruction, f"{what} ({self._place(access, place)}){self.machine.diag.hint(lane)}", lane)

    def _report(self, access: Access, instruction: Instruction, place: int, threads: np.ndarray) -> None:
        what = f"read of global memory that nobody wrote ({self._place(access, place)})"
        self.machine.diag.report(instruction, what, self._lane(int(threads[place])))

    def _place(self, access: Access, place: int) -> str:
        at = int(access.flat()[min(place, len(access.flat()) - 1)])
        return f"{access.space.shown(at)}, {access.space.describe(at)}"


def _join(into: Known, known: Known) -> None:
    for key, until in known.items():
        if into.get(key, 0) < until:
            into[key] = until
