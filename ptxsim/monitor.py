"""Watches shared memory: reads of what nobody wrote, reads of copies still under way, and races.

Two accesses race when two threads of a block touch the same bytes, at least one writes, and no barrier of the block
(or of the warp, if they are of one warp) lies between. Whether a device would show it is a matter of luck; here it is
an error always, since what counts is the order that barriers give, not the order in which lanes happened to run.

Accesses are only noted as they happen, and examined together when a barrier lets threads go. In the stretch between
two barriers their order does not matter: a granule written by one thread and touched by another is a race. So a
stretch without writes costs nothing, and reads of places where no write fell are passed over by their extents.
A granule is as large as the smallest access of the program.

Atomic operations do not race with each other, nor do volatile, relaxed, release and acquire accesses with these or
with each other; with plain accesses all of them do. That nothing orders volatile accesses which meet is noted
(`Launch.notes`). Nor does a plain read race with a compare-and-swap: such loops begin with one, and the swap finds out
if it was late.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from .batch import Batch
from .copies import Copy
from .events import Monitor
from .memory import SHIFT, Access, Addresses
from .syntax import Instruction

WARP = 32
BULK = 16  # granules a thread: more have only bulk copies, of one thread
NONE, MANY = -1, -(1 << 30)  # no thread; threads of several warps. -2 - w: several threads of warp w
PLAIN, STRONG, SWAP = 0, 1, 2  # how an access behaves to others: strong ones do not race with each other


def strength(instruction: Instruction, kind: str) -> int:
    """The strength of an access of this kind."""
    if kind == "atom":
        return SWAP if "cas" in instruction.modifiers else STRONG
    return STRONG if kind.endswith("_ordered") else PLAIN


def granules(base: np.ndarray, first: int, number: int) -> Iterator[np.ndarray]:
    """The granules of an access, `number` a thread: an array for each of its width, or one for all of a bulk copy's."""
    if len(base) == 1 and number > BULK:
        yield base[0] + np.arange(first, first + number)
        return
    for j in range(number):
        yield base + (first + j)


class Event:
    """One executed access: which granules of which lanes."""

    __slots__ = ("access", "first", "instruction", "kind", "lanes", "number", "strength", "where")

    def __init__(
        self,
        access: Access,
        where: Addresses,
        first: int,
        number: int,
        lanes: np.ndarray | None,
        instruction: Instruction,
        kind: str,
    ) -> None:
        self.access, self.where, self.first, self.number, self.lanes = access, where, first, number, lanes
        self.instruction, self.kind = instruction, kind
        self.strength = strength(instruction, kind)


class SharedMonitor(Monitor):
    """The shadow of the shared memory of a batch."""

    def __init__(self, machine: Batch) -> None:
        self.machine = machine
        space = machine.memory.spaces["shared"]
        self.shift = SHIFT[machine.memory.granule]
        self.size = machine.memory.granule
        total = len(space.data) >> self.shift
        self.granules = total
        self.granules_per_block = total // len(machine.state.blocks)
        self.watch_unwritten = machine.launch.checks.unwritten
        self.watch_races = machine.launch.checks.races
        self.written = np.zeros(total, bool)
        own = machine.memory.own_shared
        outside = self.written.reshape(len(machine.state.blocks), -1)
        outside[:, : own[0] >> self.shift] = outside[:, own[1] >> self.shift :] = True  # the system has zeroed its part
        self.all_written = not self.watch_unwritten
        self.under_way = np.zeros(total, np.int32)  # lane + 1 of the copy that is to land
        self.copies = 0  # of single lanes, under way
        self.owner = np.full(total, NONE, np.int32)  # who writes, in this stretch
        self.strong: np.ndarray | None = None  # who writes by atomic operations and the like; MANY: several
        self.unswapped: np.ndarray | None = None  # written by strong accesses other than compare-and-swap
        self.reads: list[Event] = []
        self.writes: list[Event] = []
        self.all_lanes = np.arange(machine.state.lanes, dtype=np.int32)
        self.epoch = np.zeros(len(machine.state.blocks), np.int64)
        self.clock = np.zeros(machine.state.warps, np.int64)
        self.past: _Past | None = None  # what happened before in the present epoch, after a partial barrier
        self.looks_back = False  # whether anything did

    # noting

    def touch(self, access: Access, width: int, instruction: Instruction, kind: str) -> None:
        """An access is about to happen."""
        if kind == "cp_async":
            return
        where = access.where
        first = (where.low_bits & (self.size - 1)) + access.offset >> self.shift
        number = max(1, width >> self.shift)
        event = Event(access, where, first, number, where.lanes, instruction, kind)
        reading = kind in ("ld", "ldmatrix", "ld_ordered", "atom")
        if self.copies:
            self._require_landed(event)
        if reading and not self.all_written:
            self._require_written(event)
        if kind in ("st", "st_ordered", "atom") and not self.all_written:
            self._mark_written(event)
        if self.watch_races:
            (self.writes if kind in ("st", "st_ordered", "atom") else self.reads).append(event)

    def indices(self, event: Event) -> Iterator[np.ndarray]:
        """Return the granules of an event."""
        return granules(event.where.index(self.shift), event.first, event.number)

    def _mark_written(self, event: Event) -> None:
        key = ("written", event.first, event.number)
        if key not in event.where.cache:
            for g in self.indices(event):
                self.written[g] = True
            event.where.cache[key] = True

    def _require_written(self, event: Event) -> None:
        """Skip addresses that were seen to be written before: they stay written."""
        key = ("written", event.first, event.number)
        if key in event.where.cache:
            return
        for g in self.indices(event):
            good = self.written.take(g)
            if np.count_nonzero(good) != len(good):
                self._raise_at(event, g, ~good, "read of shared memory that nobody wrote")
        event.where.cache[key] = True

    def _require_landed(self, event: Event) -> None:
        for g in self.indices(event):
            waiting = self.under_way.take(g)
            if np.count_nonzero(waiting):
                bad = waiting != 0
                lane = int(waiting[np.flatnonzero(bad)[0]]) - 1
                copier = self.machine.state.coordinates(lane).split(", thread ")[1]
                what = "read before the wait" if event.kind in ("ld", "ldmatrix") else "write"
                self._raise_at(event, g, bad, f"{what}: a cp.async of thread {copier} to there has not been waited for")

    def copy_begins(self, copy: Copy) -> None:
        event = self._copy_event(copy)
        lanes = self._lanes(event)
        for g in self.indices(event):
            self.under_way[g] = lanes + 1
        self.copies += len(lanes)
        if self.watch_races:
            self.writes.append(event)

    def copy_lands(self, copy: Copy, places: np.ndarray | None) -> None:
        event = self._copy_event(copy)
        lanes = self._lanes(event)
        for g in self.indices(event):
            here = g if places is None or len(lanes) == 1 else g[places]
            self.under_way[here] = 0
            if not self.all_written:
                self.written[here] = True
        self.copies -= len(lanes) if places is None else len(places)
        if self.watch_races and places is None:
            self.writes.append(event)

    def _copy_event(self, copy: Copy) -> Event:
        where = copy.access.where
        first = (where.low_bits & (self.size - 1)) + copy.access.offset >> self.shift
        return Event(copy.access, where, first, copy.width >> self.shift, copy.lanes, copy.instruction, "cp_async")

    # barriers

    def barrier(self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0) -> None:
        """Blocks pass a barrier: all of them, or those marked; it counts for all threads of a block."""
        partial = done is not None and not done.all()
        self._examine(keep=partial)
        if done is None:
            self.epoch += 1
            self.looks_back = False
        else:
            self.epoch = self.epoch + done
        if not self.all_written and not partial and self.written.all():
            self.all_written = True

    def warp_sync(self, threads: np.ndarray) -> None:
        """Warps pass a barrier of their own."""
        if self.reads or self.writes:
            self._examine(keep=True)
        self.clock = self.clock + threads.reshape(-1, WARP).any(axis=1)

    def finish(self) -> None:
        self._examine(keep=False)

    def _lanes(self, event: Event) -> np.ndarray:
        return self.all_lanes if event.lanes is None else event.lanes.astype(np.int32)

    def _examine(self, keep: bool) -> None:
        """Examine the accesses between two barriers, as the second is reached."""
        reads, writes = self.reads, self.writes
        self.reads, self.writes = [], []
        if not writes and not self.looks_back and not keep:
            return
        if writes:
            self._examine_writes(writes)
            extents = _merged([self._extent(event) for event in writes])
            starts = [start for start, _ in extents]
            for event in reads:
                low, high = self._extent(event)
                last = bisect_left(starts, high) - 1
                if last >= 0 and extents[last][1] > low:
                    self._examine_read(event, writes)
            for event in writes:
                for g in self.indices(event):
                    self.owner[g] = NONE
                    if event.strength != PLAIN and self.strong is not None and self.unswapped is not None:
                        self.strong[g], self.unswapped[g] = NONE, False
        if keep and self.past is None:
            self.past = _Past(self)
        if self.looks_back and self.past is not None:
            for event in writes:
                self.past.check(event, writing=True)
            for event in reads:
                self.past.check(event, writing=False)
        if keep and self.past is not None:
            self.looks_back = True
            for event in writes:
                self.past.note_write(event)
            for event in reads:
                if event.strength == PLAIN:
                    self.past.note_read(event)

    def _extent(self, event: Event) -> tuple[int, int]:
        """Bytes of the block's shared memory, from and to."""
        start = event.access.offset
        return event.where.lo + start, event.where.hi + start + (event.number << self.shift)

    def _examine_writes(self, writes: list[Event]) -> None:
        """Plain ones first: with these, strong ones race, but not with each other."""
        for event in writes:
            if event.strength == PLAIN:
                self._examine_plain_write(event, writes)
        for event in writes:
            if event.strength != PLAIN:
                self._examine_strong_write(event, writes)

    def _examine_plain_write(self, event: Event, writes: list[Event]) -> None:
        owner, lanes = self.owner, self._lanes(event)
        for g in self.indices(event):
            before = owner.take(g)
            clash = (before != lanes) & (before != NONE)
            if np.count_nonzero(clash):
                self._report(event, g, clash, before, writes)
            owner[g] = lanes
            after = owner.take(g)
            clash = after != lanes
            if np.count_nonzero(clash) and not self._same_values(event, g):
                self._report(event, g, clash, after, [event])

    def _examine_strong_write(self, event: Event, writes: list[Event]) -> None:
        if self.strong is None or self.unswapped is None:
            self.strong, self.unswapped = np.full(self.granules, NONE, np.int32), np.zeros(self.granules, bool)
        lanes = self._lanes(event)
        for g in self.indices(event):
            before = self.owner.take(g)
            clash = (before != lanes) & (before != NONE)
            if np.count_nonzero(clash):
                self._report(event, g, clash, before, [e for e in writes if e.strength == PLAIN])
            before = self.strong.take(g)
            mixed = (before != NONE) & (before != lanes)
            self.strong[g] = np.where(mixed, MANY, lanes)
            several = self.strong.take(g) != np.where(mixed, MANY, lanes)
            if np.count_nonzero(several):
                self.strong[g[several]] = MANY
            if event.strength != SWAP:
                self.unswapped[g] = True
            if np.count_nonzero(mixed) or np.count_nonzero(several):
                self._note_volatile(event)

    def _note_volatile(self, event: Event) -> None:
        """Volatile accesses of several threads meet."""
        if "volatile" in event.instruction.modifiers:
            self.machine.diag.notes[
                f"{event.instruction.where}: volatile accesses of shared memory by several threads meet here without a "
                "barrier between: no race by PTX's memory model, but nothing orders them either"
            ] = None

    def _same_values(self, event: Event, g: np.ndarray) -> bool:
        """Threads that store one value to one place with one instruction do no harm."""
        values = getattr(event.access, "values", None)
        if values is None or event.kind != "st":
            return False
        order = np.argsort(g, kind="stable")
        same = g[order][1:] == g[order][:-1]
        return all(not np.any(same & (v[order][1:] != v[order][:-1])) for v in values)

    def _examine_read(self, event: Event, writes: list[Event]) -> None:
        lanes = self._lanes(event)
        for g in self.indices(event):
            writer = self.owner.take(g)
            clash = (writer != lanes) & (writer != NONE)
            if np.count_nonzero(clash):
                self._report(event, g, clash, writer, writes)
            if self.strong is None or self.unswapped is None:
                continue
            writer = self.strong.take(g)
            clash = (writer != lanes) & (writer != NONE)
            if np.count_nonzero(clash):
                if event.strength != PLAIN:
                    self._note_volatile(event)
                elif np.count_nonzero(clash := clash & self.unswapped.take(g)):
                    self._report(event, g, clash, writer, writes)

    # words

    def _report(
        self, event: Event, g: np.ndarray, clash: np.ndarray, others: np.ndarray, candidates: list[Event]
    ) -> None:
        """A race with who is noted in `others`; MANY: with whichever thread is found."""
        place = int(np.flatnonzero(clash)[0])
        granule, other = int(g[place]), int(others[place])
        own = int(self._lanes(event)[min(place, len(self._lanes(event)) - 1)])
        where = "elsewhere"
        for candidate in candidates:
            if candidate is event and len(candidates) > 1:
                continue
            lanes = self._lanes(candidate)
            found = [lanes[np.flatnonzero(h == granule) % len(lanes)] for h in self.indices(candidate)]
            there = [lane for part in found for lane in part.tolist() if lane == other or (other < 0 and lane != own)]
            if there:
                where, other = f"at {self.machine.diag.where(candidate.instruction)}", there[0]
                break
        self._raise_race(event, g, clash, other, where)

    def _raise_race(self, event: Event, g: np.ndarray, clash: np.ndarray, other: int, where: str) -> None:
        thread = "another thread"
        if other >= 0:
            thread = f"thread {self.machine.state.thread_index(int(self.machine.state.thread_of[other]))}"
        verb = {"ld": "reads", "ld_ordered": "reads", "ldmatrix": "reads", "atom": "changes"}.get(event.kind, "writes")
        self._raise_at(event, g, clash, f"race: {verb} what {thread} writes {where}, without a barrier between")

    def _raise_at(self, event: Event, g: np.ndarray, bad: np.ndarray, what: str) -> None:
        place = int(np.flatnonzero(bad)[0])
        lanes = self._lanes(event)
        lane = int(lanes[min(place, len(lanes) - 1)])
        at = (int(g[place]) % self.granules_per_block) << self.shift
        hint = self.machine.diag.hint(lane) if what.startswith("race") else ""
        count = int(np.count_nonzero(bad))
        self.machine.diag.report(
            event.instruction,
            f"{what} (shared address 0x{at:x}{self.machine.diag.in_shared(at)}){hint}",
            lane,
            count,
        )


def _merged(extents: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals, those that overlap or touch made one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(extents):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class _Past:
    """Who touched each granule earlier in the present epoch of its block: needed once some, but not all threads passed
    a barrier, or a warp one of its own."""

    def __init__(self, monitor: SharedMonitor) -> None:
        self.monitor = monitor
        n = monitor.granules
        self.writer, self.reader = np.full(n, NONE, np.int64), np.full(n, NONE, np.int64)
        self.write_epoch, self.read_epoch = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.write_clock, self.read_clock = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.strength = np.zeros(n, np.int8)  # of the write

    def _now(self, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        m = self.monitor
        return m.epoch[m.machine.state.block_of[lanes]], m.clock[lanes // WARP]

    def _clash(
        self,
        who: np.ndarray,
        epoch: np.ndarray,
        clock: np.ndarray,
        lanes: np.ndarray,
        now: np.ndarray,
        tick: np.ndarray,
    ) -> np.ndarray:
        warp = lanes // WARP
        who_warp = np.where(who >= 0, who // WARP, np.where(who > MANY, -2 - who, -1))
        ordered = (who_warp == warp) & (clock < tick)
        return (who != NONE) & (who != lanes) & (epoch == now) & ~ordered

    def check(self, event: Event, writing: bool) -> None:
        lanes = self.monitor._lanes(event)
        now, tick = self._now(lanes)
        for g in self.monitor.indices(event):
            clash = self._clash(self.writer[g], self.write_epoch[g], self.write_clock[g], lanes, now, tick)
            if event.strength != PLAIN:
                clash &= self.strength[g] == PLAIN
            elif not writing:
                clash &= self.strength[g] != SWAP
            if clash.any():
                self.monitor._raise_race(event, g, clash, int(self.writer[g][clash][0]), "before")
            if writing and event.strength != SWAP:
                clash = self._clash(self.reader[g], self.read_epoch[g], self.read_clock[g], lanes, now, tick)
                if clash.any():
                    who = int(self.reader[g][clash][0])
                    thread = (
                        "thread " + self.monitor.machine.state.coordinates(who).split(", thread ")[1]
                        if who >= 0
                        else "another thread"
                    )
                    what = f"race: writes what {thread} reads before, without a barrier between"
                    self.monitor._raise_at(event, g, clash, what)

    def note_write(self, event: Event) -> None:
        lanes = self.monitor._lanes(event)
        now, tick = self._now(lanes)
        for g in self.monitor.indices(event):
            self.writer[g], self.write_epoch[g], self.write_clock[g] = lanes, now, tick
            self.strength[g] = event.strength

    def note_read(self, event: Event) -> None:
        lanes = self.monitor._lanes(event).astype(np.int64)
        now, tick = self._now(lanes)
        warp = lanes // WARP
        for g in self.monitor.indices(event):
            old, fresh = self.reader[g], (self.read_epoch[g] != now) | (self.reader[g] == NONE)
            old_warp = np.where(old >= 0, old // WARP, np.where(old > MANY, -2 - old, -1))
            # readers of one warp that a warp barrier has since passed are forgotten for that warp's own new readers
            fresh |= (old_warp == warp) & (self.read_clock[g] < tick)
            joined = np.where(old == lanes, lanes, np.where(old_warp == warp, -2 - warp, MANY))
            self.reader[g] = np.where(fresh, lanes, joined)
            self.read_epoch[g], self.read_clock[g] = now, tick
            seen = self.reader[g]
            several = (seen != lanes) & (seen >= 0)  # lanes of this very access share the granule
            if several.any():
                other_warp = seen[several] // WARP
                self.reader[g[several]] = np.where(other_warp == warp[several], -2 - warp[several], MANY)
