"""Watches the shared memory of kernels in which warps go their own ways: mbarriers, bulk copies, wgmma, clusters.

As `SharedMonitor`, but what orders two accesses is followed exactly, by vector clocks. Each warp knows of each thread
of its cluster up to when its accesses come before the warp's own next ones. Time is the number of accesses so far.

- A barrier of a block, or a part of one, joins what its threads know, and what they did.
- An arrival at an mbarrier (or at the cluster's barrier) leaves there what the thread knows and did; who sees the phase
  end takes it.
- A store or atomic with release leaves what its thread knows and did at the flag that it writes; who reads the flag
  with acquire takes it.
- What one lane learns its warp knows; what a lane did its warp learns by a warp barrier.
- A bulk copy writes shared memory for its mbarrier: only who sees that phase end knows of it. A bulk store, or a wgmma,
  reads for its warp: whoever waits for its group knows that the reading is over.
- What is written by stores and atomics (the generic proxy) and then read or overwritten by bulk copies or wgmma (the
  asynchronous proxy) needs a fence.proxy.async between, by the writer or by a thread that comes after it.

For each granule the last write is kept, and of each warp the last read. Cost: a bounded number of array operations for
each access, and one of the size of what a warp knows for each arrival, wait and barrier.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from .batch import Batch
from .bulk_groups import Store
from .copies import Copy
from .events import Monitor
from .memory import SHIFT, Access
from .monitor import PLAIN, SWAP, granules, strength
from .syntax import Instruction

WARP = 32
NOBODY = -1
OBJECTS = 16  # mbarriers that a cluster's clocks have room for at first
GENERIC, FENCED = 0, 1  # what is known; and of it, what a fence.proxy.async came after
ACQUIRES, RELEASES = {"acquire", "acq_rel"}, {"release", "acq_rel"}
ORDERING = ACQUIRES | RELEASES
WRITES = ("st", "st_ordered", "atom")
ASYNC_READS = ("async_ld",)


class ClockMonitor(Monitor):
    """The shadow of the shared memory of a batch."""

    def __init__(self, machine: Batch) -> None:
        m = self.machine = machine
        space = m.memory.spaces["shared"]
        self.size, self.shift = machine.memory.granule, SHIFT[machine.memory.granule]
        total = self.granules = len(space.data) >> self.shift
        self.granules_per_block = total // len(m.state.blocks)
        self.watch_unwritten, self.watch_races = m.launch.checks.unwritten, m.launch.checks.races
        self.written = np.zeros(total, bool)
        own = m.memory.own_shared
        outside = self.written.reshape(len(m.state.blocks), -1)
        outside[:, : own[0] >> self.shift] = outside[:, own[1] >> self.shift :] = True  # the system has zeroed its part
        self.under_way = np.zeros(total, np.int32)  # when the copy that is to land there began
        self.copies = 0  # pieces under way
        self.beginners: dict[int, int] = {}  # lanes of these copies, by when
        # agents of a cluster: its threads, then for each warp one that reads for its wgmma and one that reads for its
        # bulk stores, then a writer for each mbarrier
        self.threads = m.state.cluster_lanes
        self.warps = self.threads // WARP
        self.objects: dict[int, int] = {}  # agents of mbarriers, by their place
        self.used: dict[int, int] = {}  # how many each cluster has
        self.copiers = self.threads + 2 * self.warps  # the first of these writers
        self.width = self.copiers + OBJECTS
        self.known = np.zeros((2, m.state.warps, self.width), np.int32)
        self.events: list[Any] = [None]  # instructions by time
        self.writer = np.full(total, NOBODY, np.int32)  # agent in its cluster
        self.write_time = np.zeros(total, np.int32)
        self.write_strength = np.zeros(total, np.int8)
        self.pattern = np.zeros(total, np.uint8)  # rows of the swizzle by which a tensor copy wrote; 0: something else
        self.patterned = False  # whether one did
        self.covered: np.ndarray | None = None  # what boxes that were stored have taken
        self.boxes: dict[int, tuple[Instruction, str]] = {}  # by block: the last tensor store, and its box in words
        columns = 3 * self.warps  # readers: warps, then their asynchronous ones
        self.read_time = np.zeros((total if self.watch_races else 0, columns), np.int32)
        self.read_lanes = np.zeros((total if self.watch_races else 0, self.warps), np.uint32)
        self.remote = np.zeros(
            (len(m.state.blocks), self.threads), np.int32
        )  # when a block was last accessed from others
        self.ended = np.zeros(len(m.state.blocks), bool)
        self.fenced = np.zeros(m.state.lanes, np.int32)  # when each thread last executed a fence
        self.made: dict[int, tuple[int, int, bool]] = {}  # mbarriers: who made it, when, and whether a fence came after
        self.left: dict[
            Hashable, np.ndarray
        ] = {}  # what arrivals left at a barrier, by which; and, by ("over", which), of phases that ended
        lane = self.all_lanes = np.arange(m.state.lanes)
        self.agent_of, self.warp_of = lane % self.threads, lane // WARP  # of each lane; warps of the batch
        self.column_of = self.agent_of // WARP  # its warp in its cluster
        self.bit_of = np.uint32(1) << (lane % WARP).astype(np.uint32)

    # who and when

    def _now(self, instruction: Instruction) -> int:
        self.events.append(instruction)
        return len(self.events) - 1

    @property
    def _stamp(self) -> int:
        """Advance the clock: accesses so far come before all later ones."""
        return len(self.events) - 1

    def _agent(self, at: int) -> int:
        """The agent that writes for the mbarrier at a place."""
        found = self.objects.get(at)
        if found is None:
            part = self.granules_per_block * self.machine.state.cluster_size << self.shift
            cluster = at // part
            number = self.used[cluster] = self.used.get(cluster, 0) + 1
            found = self.objects[at] = self.copiers + number - 1
            if found >= self.width:
                more = np.zeros((*self.known.shape[:2], OBJECTS), np.int32)
                self.known = np.concatenate([self.known, more], axis=2)
                self.width += OBJECTS
        return found

    def _row(self) -> np.ndarray:
        return np.zeros((2, self.width), np.int32)

    def _joined(self, row: np.ndarray | None, other: np.ndarray) -> np.ndarray:
        """Return the elementwise maximum of two rows, of which an older one may be shorter."""
        if row is None:
            return other.copy()
        if row.shape[1] < other.shape[1]:
            row, other = other.copy(), row
        row[:, : other.shape[1]] = np.maximum(row[:, : other.shape[1]], other)
        return row

    def _what(self, lanes: np.ndarray) -> np.ndarray:
        """Return the vector clock of some lanes of a cluster: what they know and what they did."""
        row = self.known[:, np.unique(lanes // WARP)].max(axis=1)
        row[GENERIC, lanes % self.threads] = self._stamp
        return row

    def _learn(self, warps: np.ndarray, row: np.ndarray) -> None:
        width = row.shape[1]
        self.known[:, warps, :width] = np.maximum(self.known[:, warps, :width], row[:, None])

    # what orders accesses

    def release(self, key: Hashable, lanes: np.ndarray, relaxed: bool = False) -> None:
        """Lanes of one cluster arrive at a barrier; relaxed, only what came before a fence of theirs is ordered."""
        if relaxed:
            lanes = lanes[self.fenced[lanes] > 0]
            if not len(lanes):
                return
        row = self._what(lanes)
        if relaxed:
            row[GENERIC, lanes % self.threads] = self.fenced[lanes]
        self.left[key] = self._joined(self.left.get(key), row)

    def fence(self, threads: np.ndarray, beyond_cluster: bool) -> None:
        self.fenced[threads] = self._stamp

    def phase_ends(self, key: Hashable) -> None:
        """End a barrier's phase: threads that see its end know what the arrivals published."""
        if key in self.left:
            self.left["over", key] = self._joined(self.left.get(("over", key)), self.left.pop(key))

    def acquire(self, key: Hashable, lanes: np.ndarray) -> None:
        """Lanes of one cluster observe the end of a barrier's phase."""
        row = self.left.get(("over", key))
        if row is not None:
            self._learn(np.unique(lanes // WARP), row)

    def barrier(self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0) -> None:
        """Blocks pass a barrier: all of them, or those marked; `threads`: those that took part."""
        m = self.machine
        threads = m.state.alive if threads is None else threads
        lanes = np.flatnonzero(threads if done is None else threads & done[m.state.block_of])
        starts = np.flatnonzero(np.diff(lanes // m.state.padded)) + 1
        for here in np.split(lanes, starts) if len(lanes) else ():
            row = self._joined(self.left.pop((int(here[0]) // m.state.padded, number), None), self._what(here))
            self._learn(np.unique(here // WARP), row)

    def arrive(self, threads: np.ndarray, number: int) -> None:
        """bar.arrive: threads that do not wait."""
        lanes = np.flatnonzero(threads)
        for block in np.unique(lanes // self.machine.state.padded).tolist():
            self.release((block, number), lanes[lanes // self.machine.state.padded == block])

    def warp_sync(self, threads: np.ndarray) -> None:
        """Warps pass a barrier of their own."""
        lanes = np.flatnonzero(threads)
        self.known[GENERIC, lanes // WARP, lanes % self.threads] = self._stamp

    def proxy_fence(self, threads: np.ndarray) -> None:
        lanes = np.flatnonzero(threads)
        warps = np.unique(lanes // WARP)
        self.known[FENCED, warps] = np.maximum(self.known[FENCED, warps], self.known[GENERIC, warps])
        self.known[FENCED, lanes // WARP, lanes % self.threads] = self._stamp

    def object_made(self, at: int, lane: int, instruction: Instruction) -> None:
        """A lane initialises the mbarrier at a place."""
        self.made[at] = lane, self._now(instruction), False

    def init_fence(self, threads: np.ndarray) -> None:
        self.fence(threads, beyond_cluster=False)
        self.made = {at: (lane, time, fenced or bool(threads[lane])) for at, (lane, time, fenced) in self.made.items()}

    def _require_fenced_init(self, at: int, lane: int, instruction: Instruction) -> None:
        """A bulk copy signals an mbarrier: a fence must have shown its initialisation to the asynchronous proxy."""
        if at not in self.made or not self.watch_races:
            return
        maker, time, fenced = self.made[at]
        if fenced or time <= self.known[FENCED, lane // WARP, maker % self.threads]:
            self.made[at] = maker, time, True
            return
        m = self.machine
        what = (
            f"signals an mbarrier that {self._agent_name(maker % self.threads, lane)} initialises at "
            f"{m.diag.where(self.events[time])}, without a fence.mbarrier_init or "
            "fence.proxy.async by that thread between"
        )
        if "tensor" in instruction.modifiers:
            m.diag.report(instruction, what, lane)
        else:
            m.diag.notes[f"{m.diag.where(instruction)}: {what}"] = None  # CUDA's own memcpy_async does without, too

    # boxes that are stored

    def box_stored(self, access: Access, instruction: Instruction, box: str) -> None:
        """A tensor store reads a box from shared memory: its elements, those outside of the tensor included."""
        if self.covered is None:
            self.covered = np.zeros(self.granules, bool)
        for g in self._granules(access, 16):
            self.covered[g] = True
            for block in np.unique(g // self.granules_per_block).tolist():
                self.boxes[block] = instruction, box

    def _note_left_out(self, block: int) -> None:
        """A block ends: what it wrote next to a box that it stored, and nobody reads, the box may have left out."""
        if block not in self.boxes or self.covered is None or not self.watch_races:
            return
        first = block * self.granules_per_block
        own = slice(first, first + self.granules_per_block)
        writer, covered = self.writer[own], self.covered[own]
        left = (writer >= 0) & (writer < self.threads) & (self.write_strength[own] == PLAIN) & ~covered
        left[left] = ~self.read_time[own][left].any(axis=1)
        edges = np.flatnonzero(np.diff((left | covered).astype(np.int8), prepend=0, append=0))
        for start, end in edges.reshape(-1, 2).tolist():
            here = np.flatnonzero(left[start:end]) + start
            if len(here) and covered[start:end].any():
                m, (instruction, box) = self.machine, self.boxes[block]
                at, place = (
                    m.diag.where(self.events[int(self.write_time[first + here[0]])]),
                    int(here[0]) << self.shift,
                )
                m.diag.notes[
                    f"{at}: {len(here) << self.shift} bytes of shared memory are written from 0x{place:x} on"
                    f"{m.diag.in_shared(place)}, which nothing reads, next to the box of {box} that "
                    f"{m.diag.where(instruction)} stores: is the box of its tensor map smaller than the tile?"
                ] = None
                return

    # accesses

    def touch(self, access: Access, width: int, instruction: Instruction, kind: str) -> None:
        """An access is about to happen: of `kind` async_ld by the asynchronous proxy, for the warp of each lane."""
        if kind == "cp_async":
            return
        lanes = self.all_lanes if access.lanes is None else access.lanes
        self._access(access, lanes, width, instruction, kind)

    def async_read(
        self,
        access: Access,
        lanes: np.ndarray,
        width: int,
        instruction: Instruction,
        readers: np.ndarray | None = None,
    ) -> int:
        return self._access(access, lanes, width, instruction, "async_ld", readers)

    def _access(
        self,
        access: Access,
        lanes: np.ndarray,
        width: int,
        instruction: Instruction,
        kind: str,
        readers: np.ndarray | None = None,
    ) -> int:
        """An access of a lane each; `readers`: the warps that read asynchronously, if not their own. The time."""
        time, strong = self._now(instruction), strength(instruction, kind)
        where = access.where
        first = (where.low_bits & (self.size - 1)) + access.offset >> self.shift
        writing = kind in WRITES
        parts = granules(where.index(self.shift), first, max(1, width >> self.shift))
        if not writing:  # all at once: fewer, longer arrays
            parts = iter([np.concatenate(list(parts))])
            lanes = np.tile(lanes, max(1, width >> self.shift)) if len(lanes) > 1 else lanes
        for g in parts:
            who = lanes if len(g) == len(lanes) else np.full(len(g), lanes[0])
            if self.copies:
                self._require_landed(g, who, instruction, kind)
            if self.machine.state.cluster_size > 1:
                self._reach(g, who, time, instruction)
            if self.watch_unwritten:
                if kind not in ("st", "st_ordered"):
                    good = self.written.take(g)
                    if np.count_nonzero(good) != len(good):
                        self._fault(instruction, g, who, ~good, "read of shared memory that nobody wrote")
                if writing:
                    self.written[g] = True
            if not self.watch_races:
                continue
            if kind in ASYNC_READS:
                self._after_write(g, who, instruction, kind, strong, fenced=True)
                reader = who // WARP if readers is None else readers
                first = self.warps if instruction.opcode == "wgmma" else 2 * self.warps
                self.read_time[g, first + reader % self.warps] = time
            elif writing:
                self._after_write(g, who, instruction, kind, strong)
                if strong != SWAP:
                    self._after_reads(g, who, instruction, kind)
                self._write(g, who, time, strong, access, instruction, kind)
            else:
                self._after_write(g, who, instruction, kind, strong)
                if strong == PLAIN:
                    self._read(g, who, time)
            if strong != PLAIN:
                self._flag(g, who, instruction, writing)
        return time

    def _flag(self, g: np.ndarray, who: np.ndarray, instruction: Instruction, writing: bool) -> None:
        """Ordered accesses by which threads synchronise: what a release leaves at a flag, an acquire takes.

        Atomics between, relaxed ones too, go on with what a release left there (PTX ISA 8.9.2)."""
        if not ORDERING.isdisjoint(instruction.modifiers):
            takes = not ACQUIRES.isdisjoint(instruction.modifiers) and instruction.opcode != "red"
            leaves = writing and not RELEASES.isdisjoint(instruction.modifiers)
            for flag in np.unique(g).tolist():
                here, key = who[g == flag], ("flag", flag)
                for lanes in here[:, None] if takes and leaves else here[None]:  # atomics: one after the other
                    if takes and key in self.left:
                        self._learn(np.unique(lanes // WARP), self.left[key])
                    if leaves:
                        self.left[key] = self._joined(self.left.get(key), self._what(lanes))

    def _ordered(self, plane: int, who: np.ndarray, agents: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return, for each lane, whether what an agent did at a time is ordered before what the lane does now."""
        known = self.known[plane].reshape(-1)
        return times <= known.take(self.warp_of.take(who) * self.width + agents)

    def _after_write(
        self, g: np.ndarray, who: np.ndarray, instruction: Instruction, kind: str, strong: int, fenced: bool = False
    ) -> None:
        """An access comes after the last write of its granules, or else is a fault."""
        agents = self.writer.take(g)
        if not np.count_nonzero(agents != NOBODY):
            return
        times = self.write_time.take(g)
        good = (agents == NOBODY) | (agents == self.agent_of.take(who)) | self._ordered(GENERIC, who, agents, times)
        if strong != PLAIN:
            good |= self.write_strength.take(g) != PLAIN
        elif kind in ("ld", "ldmatrix"):
            good |= self.write_strength.take(g) == SWAP
        if np.count_nonzero(good) != len(good):
            place = int(np.flatnonzero(~good)[0])
            at = self.machine.diag.where(self.events[int(times[place])])
            by = self._agent_name(int(agents[place]), int(who[place]))
            copied = agents[place] >= self.copiers
            lacks = "before this thread sees its mbarrier's phase end" if copied else "without a barrier between"
            what = f"race: {VERBS.get(kind, 'writes')} what {by} writes at {at}, {lacks}"
            self._fault(instruction, g, who, ~good, what)
            return
        if fenced:
            good = (agents == NOBODY) | (agents >= self.copiers) | self._ordered(FENCED, who, agents, times)
            if np.count_nonzero(good) != len(good):
                place = int(np.flatnonzero(~good)[0])
                at = self.machine.diag.where(self.events[int(times[place])])
                by = self._agent_name(int(agents[place]), int(who[place]))
                verb = "overwrites" if kind == "cp_async" else "reads"
                what = f"{verb} what {by} writes at {at} by an ordinary store, without a fence.proxy.async between"
                self._fault(instruction, g, who, ~good, what)

    def _after_reads(self, g: np.ndarray, who: np.ndarray, instruction: Instruction, kind: str) -> None:
        """A write comes after the last reads of its granules."""
        times = self.read_time[g]
        if not times.any():
            return
        columns = np.flatnonzero(times.any(axis=0))
        for column in columns.tolist():
            there = np.flatnonzero(times[:, column])
            lanes, when = who[there], times[there, column]
            if column >= self.warps:
                agents = np.full(len(there), self.threads + column - self.warps)
                bad = ~self._ordered(GENERIC, lanes, agents, when)
                if bad.any():
                    self._overwritten(g[there], lanes, bad, instruction, column, when)
                continue
            least = self._least(column, lanes)
            bad = when > least
            if bad.any():
                self._examine_readers(g[there], lanes, bad, instruction, column, when, kind)

    def _least(self, warp: int, lanes: np.ndarray) -> np.ndarray:
        """Return the time up to which each lane knows what all threads of a warp in its cluster did."""
        own = self.known[GENERIC, :, warp * WARP : (warp + 1) * WARP]
        if len(lanes) and (lanes // WARP == lanes[0] // WARP).all():
            return np.full(len(lanes), own[lanes[0] // WARP].min())
        return own.min(axis=1)[lanes // WARP]

    def _examine_readers(
        self,
        g: np.ndarray,
        lanes: np.ndarray,
        bad: np.ndarray,
        instruction: Instruction,
        warp: int,
        when: np.ndarray,
        kind: str,
    ) -> None:
        """Reads that not all threads of the warp are known to come before: look at those that read."""
        g, lanes, when = g[bad], lanes[bad], when[bad]
        mask, own = self.read_lanes[g, warp], lanes % self.threads
        for bit in range(WARP):
            reader = warp * WARP + bit
            wrong = (mask >> np.uint32(bit) & np.uint32(1)).astype(bool) & (own != reader)
            wrong &= when > self.known[GENERIC, lanes // WARP, reader]
            if wrong.any():
                place = int(np.flatnonzero(wrong)[0])
                at = self.machine.diag.where(self.events[int(when[place])])
                by = self._agent_name(reader, int(lanes[place]))
                what = f"race: {VERBS.get(kind, 'writes')} what {by} reads at {at}, without a barrier between"
                self._fault(instruction, g, lanes, wrong, what)
                return

    def _overwritten(
        self, g: np.ndarray, lanes: np.ndarray, bad: np.ndarray, instruction: Instruction, column: int, when: np.ndarray
    ) -> None:
        """The source of a bulk store or wgmma changes while it is read, or without order after that."""
        place = int(np.flatnonzero(bad)[0])
        reading = self.events[int(when[place])]
        first = int(lanes[place]) // self.threads * self.warps
        agent = self.threads + column - self.warps
        over = int(when[place]) <= int(self.known[GENERIC, first + column % self.warps, agent])
        at = self.machine.diag.where(reading)
        if over:
            what = f"race: writes what {reading.opcode} at {at} has read, without a barrier after its wait_group"
        else:
            wait = "wgmma.wait_group" if reading.opcode == "wgmma" else "cp.async.bulk.wait_group.read"
            what = f"writes what {reading.name.split('.global')[0]} at {at} may still read: no {wait} between"
        self._fault(instruction, g, lanes, bad, what)

    def _read(self, g: np.ndarray, who: np.ndarray, time: int) -> None:
        warp = self.column_of.take(who)
        self.read_time.reshape(-1)[g * self.read_time.shape[1] + warp] = time
        lanes, at = self.read_lanes.reshape(-1), g * self.warps + warp
        lanes[at] = 0
        np.bitwise_or.at(lanes, at, self.bit_of.take(who))

    def _write(
        self,
        g: np.ndarray,
        who: np.ndarray,
        time: int,
        strong: int,
        access: Access,
        instruction: Instruction,
        kind: str,
    ) -> None:
        agents = self.agent_of.take(who).astype(np.int32)
        self.writer[g], self.write_time[g], self.write_strength[g] = agents, time, strong
        self.read_time[g] = 0
        if self.patterned:
            self.pattern[g] = 0
        if strong == PLAIN:
            clash = self.writer.take(g) != agents
            if np.count_nonzero(clash) and not _same_values(access, g, kind):
                by = self._agent_name(int(self.writer[g[clash][0]]), int(who[clash][0]))
                at = self.machine.diag.where(instruction)
                self._fault(
                    instruction, g, who, clash, f"race: writes what {by} writes at {at}, without a barrier between"
                )

    # copies and stores

    def _require_landed(self, g: np.ndarray, who: np.ndarray, instruction: Instruction, kind: str) -> None:
        began = self.under_way.take(g)
        if np.count_nonzero(began):
            bad = began != 0
            time = int(began[np.flatnonzero(bad)[0]])
            copier = self.machine.state.coordinates(self.beginners[time]).split(", thread ")[1]
            bulk = "bulk" in self.events[time].modifiers
            what = "read before the wait" if kind in ("ld", "ldmatrix", *ASYNC_READS) else "write"
            name = f"a {'bulk copy' if bulk else 'cp.async'} of thread {copier}"
            at = f", at {self.machine.diag.where(self.events[time])}," if bulk else ""
            self._fault(instruction, g, who, bad, f"{what}: {name}{at} to there has not been waited for")

    def _granules(self, access: Access, width: int) -> Iterator[np.ndarray]:
        where = access.where
        first = (where.low_bits & (self.size - 1)) + access.offset >> self.shift
        return granules(where.index(self.shift), first, max(1, width >> self.shift))

    def copy_begins(self, copy: Copy) -> None:
        """A copy to shared memory is issued: it may be written from now on."""
        lanes = self.all_lanes if copy.lanes is None else copy.lanes
        time, bulk = self._now(copy.instruction), "bulk" in copy.instruction.modifiers
        if copy.mbarrier is not None:
            self._require_fenced_init(copy.mbarrier, int(lanes[0]), copy.instruction)
        for g in self._granules(copy.access, copy.width):
            who = lanes if len(g) == len(lanes) else np.full(len(g), lanes[0])
            if self.copies:
                self._require_landed(g, who, copy.instruction, "cp_async")
            if self.machine.state.cluster_size > 1:
                self._reach(g, who, None, copy.instruction)
            if self.watch_races:
                self._after_write(g, who, copy.instruction, "cp_async", PLAIN, fenced=bulk)
                self._after_reads(g, who, copy.instruction, "cp_async")
            self.under_way[g] = time
            self.pattern[g] = copy.pattern
            self.patterned |= copy.pattern > 0
        self.beginners[time] = int(lanes[0])
        self.copies += len(lanes)

    def copy_lands(self, copy: Copy, places: np.ndarray | None) -> None:
        """Data arrive: written by their threads, which waited, or for an mbarrier."""
        at = copy.mbarrier
        lanes = self.all_lanes if copy.lanes is None else copy.lanes
        lanes = lanes if places is None else lanes[places]
        time = self._now(copy.instruction)
        agents = lanes % self.threads if at is None else self._agent(at)
        for g in self._granules(copy.access, copy.width):
            here = g if places is None or len(g) == len(lanes) else g[places]
            self.under_way[here] = 0
            self.written[here] = True
            if self.watch_races:
                self.writer[here], self.write_time[here], self.write_strength[here] = agents, time, PLAIN
                self.read_time[here] = 0
        self.copies -= len(lanes)
        if at is not None:
            row = self._row()
            row[:, agents] = time
            if copy.source_time is not None:  # the copy has read its source, too
                row[GENERIC, self.threads + self.warps + int(lanes[0]) // WARP % self.warps] = copy.source_time
            self.left[at] = self._joined(self.left.get(at), row)

    def read_by_pattern(self, access: Access, row: int, instruction: Instruction) -> None:
        """A wgmma reads its operand with this swizzle (bytes): a note where a tensor copy wrote it with another."""
        if self.patterned:
            found = self.pattern.take(access.flat() >> self.shift)
            other = found[(found != 0) & (found != row)]
            if len(other):
                swizzles = {
                    size: f"a swizzle of {size} bytes" if size > 16 else "no swizzle" for size in (int(other[0]), row)
                }
                what = f"wgmma reads with {swizzles[row]} what a tensor copy wrote with {swizzles[int(other[0])]}"
                self.machine.diag.notes[f"{instruction.where}: {what}"] = None

    def reading_ends(self, warps: np.ndarray, reader: int, time: int) -> None:
        self._reading_ends(warps, self.threads + reader % self.warps, time)

    def _reading_ends(self, warps: np.ndarray | int, column: int, time: int) -> None:
        """Warps know that what an asynchronous reader began up to some time is over."""
        self.known[GENERIC, warps, column] = np.maximum(self.known[GENERIC, warps, column], time)

    def store_begins(self, store: Store) -> None:
        """A bulk store is issued, which has just read its source."""
        store.time = self._stamp

    def store_ends(self, store: Store) -> None:
        """The thread of a bulk store waited until its source had been read."""
        warp = store.lane // WARP
        self._reading_ends(warp, self.threads + self.warps + warp % self.warps, store.time)

    # blocks of a cluster end

    def _reach(self, g: np.ndarray, who: np.ndarray, time: int | None, instruction: Instruction) -> None:
        """Other blocks whose shared memory is accessed must not have ended; note the time, but not of a copy, which
        somebody there waits for."""
        blocks, own = g // self.granules_per_block, self.machine.state.block_of[who]
        other = blocks != own
        if other.any():
            over = other & self.ended[blocks]
            if over.any():
                self._fault(instruction, g, who, over, "accesses shared memory of a block that has ended")
            if time is not None:
                self.remote[blocks[other], who[other] % self.threads] = time

    def block_ends(self, block: int, lane: int) -> None:
        """The last thread of a block (the lane's) ends: nothing may still come to its shared memory."""
        m = self.machine
        self.ended[block] = True
        self._note_left_out(block)
        place = slice(block * self.granules_per_block, (block + 1) * self.granules_per_block)
        if self.copies and self.under_way[place].any():
            time = int(self.under_way[place].max())
            m.diag.report(
                self.events[time],
                "the block ends before anybody waits for this copy to its shared memory",
                self.beginners[time],
            )
        if m.state.cluster_size > 1 and self.watch_races and self.remote[block].any():
            own = self.known[GENERIC, lane // WARP - lane % m.state.padded // WARP :][: m.state.padded // WARP]
            late = np.flatnonzero(self.remote[block] > own.max(axis=0)[: self.threads])
            if len(late):
                agent = int(late[0])
                instruction = self.events[int(self.remote[block][agent])]
                m.diag.report(
                    instruction,
                    f"accesses shared memory of block {m.state.block_index(lane)}, which may have ended: nothing "
                    "orders its end after this, as a last barrier.cluster would",
                    lane // self.threads * self.threads + agent,
                )

    # words

    def _agent_name(self, agent: int, lane: int) -> str:
        """Describe an agent of the lane's cluster."""
        m = self.machine
        if agent >= self.copiers:
            return "a bulk copy"
        other = lane // self.threads * self.threads + agent
        thread = f"thread {m.state.thread_index(int(m.state.thread_of[other]))}"
        return (
            thread
            if m.state.block_of[other] == m.state.block_of[lane]
            else f"block {m.state.block_index(other)}, {thread}"
        )

    def _fault(self, instruction: Instruction, g: np.ndarray, who: np.ndarray, bad: np.ndarray, what: str) -> None:
        m = self.machine
        place = int(np.flatnonzero(bad)[0])
        lane = int(who[place])
        at = (int(g[place]) % self.granules_per_block) << self.shift
        of = int(g[place]) // self.granules_per_block
        block = "" if of == m.state.block_of[lane] else f", of block {m.state.block_place(int(m.state.blocks[of]))}"
        hint = self.machine.diag.hint(lane) if what.startswith("race") else ""
        what = f"{what} (shared address 0x{at:x}{m.diag.in_shared(at)}{block}){hint}"
        m.diag.report(instruction, what, lane, int(np.count_nonzero(bad)))


VERBS = {"ld": "reads", "ld_ordered": "reads", "ldmatrix": "reads", "async_ld": "reads", "atom": "changes"}


def _same_values(access: Access, g: np.ndarray, kind: str) -> bool:
    """Threads that store the same value to one address with one instruction are no race."""
    values = getattr(access, "values", None)
    if values is None or kind != "st":
        return False
    order = np.argsort(g, kind="stable")
    same = g[order][1:] == g[order][:-1]
    return all(not np.any(same & (v[order][1:] != v[order][:-1])) for v in values)
