"""Watches shared memory: races, reads of what nobody wrote, and of copies that are still under way.

Besides the last write of a granule (races.py) the last read of each warp is kept, with its lanes,
and of each warp's wgmma and bulk stores. Where nothing but order matters, accesses are noted as
they happen, and examined when the next edge changes the clocks: one by one, or, between two
barriers of whole blocks, all together (intervals.py).

What stores and atomics wrote (the generic proxy) and bulk copies or wgmma read or overwrite (the
asynchronous proxy) needs a fence.proxy.async between, by the writer or by a thread that comes after
it. Of one cause there is one line: of a copy that was not waited for, what else follows from that
is not reported, too.
"""

from __future__ import annotations

import numpy as np

from ..errors import Kind
from ..machine.async_copies import Copy
from ..machine.batch import Batch
from ..machine.bulk_groups import Store
from ..machine.memory import Access
from ..machine.values import distinct
from ..ptx.syntax import Instruction, is_store_async
from .boxes import Boxes
from .defined import gives_only, of_granules
from .flags import Flags
from .intervals import Interval, Noted
from .order import ASYNC, BLOCK, CLUSTER, GENERIC, WARP, Order
from .races import HALF, LOW, PLAIN, SWAP, VERBS, WRITES, Reads, Shadow, same_values

# These instructions change mbarriers, whose phases say what they order.
OBJECTS = ("mbarrier", "cp")
MATRICES = ("ldmatrix", "stmatrix")
READS = ("ld", "ldmatrix", "async_ld")
# This is the remedy of a race within a warp.
SYNCWARP = ": add __syncwarp()"


class SharedMemory(Shadow):
    """The shadow of the shared memory of a batch."""

    def __init__(self, machine: Batch, order: Order, flags: Flags, beyond_barriers: bool) -> None:
        """`beyond_barriers`: whether accesses that a barrier of the block orders may race all the
        same: with another block of the cluster, or for want of a proxy fence."""
        m, self.beyond_barriers = machine, beyond_barriers
        space = m.memory.spaces["shared"]
        super().__init__(m, order, flags, m.memory.granule, len(space.data))
        total = len(self.writes)
        # A block has this many granules.
        self.of_block = total // len(m.state.blocks)
        self.cluster_bytes = self.of_block * m.state.cluster_size << self.shift
        self.watch_unwritten, self.watch_races = m.launch.checks.unwritten, m.launch.checks.races
        self.written = np.zeros(total, bool)
        extent = m.memory.own_shared
        outside = self.written.reshape(len(m.state.blocks), -1)
        # The system has zeroed its part of shared memory.
        outside[:, : extent[0] >> self.shift] = outside[:, extent[1] >> self.shift :] = True
        self.all_written = not self.watch_unwritten
        # `under_way` holds the event of the copy that will land there; `copier` holds its lane.
        self.under_way = np.zeros(total, np.int32)
        self.copier = np.zeros(total, np.int32)
        # `copies` counts the pieces under way.
        self.copies = 0
        # A thread did not wait for these copies.
        self.early: set[Instruction] = set()
        # Reads are kept by warp of the cluster.
        self.reads = Reads(total)
        # Strong reads are kept in the same way: they race with plain writes alone.
        self.strong_reads = Reads(total)
        # Asynchronous reads are kept by each warp's wgmma, then by its bulk stores.
        self.async_reads = Reads(total)
        self.noted: list[Noted] = []
        # `history` is true when accesses before the last barrier of all are in the shadow.
        self.history = False
        self.interval = Interval(
            total,
            self.shift,
            self._clash,
            lambda noted: self.note_volatile(noted.instruction, "shared"),
        )
        self.boxes = Boxes(self, self.of_block)
        # `remote` holds the events of accesses of a block by threads of other blocks.
        self.remote = np.zeros((len(m.state.blocks), order.threads), np.int64)
        self.ended = np.zeros(len(m.state.blocks), bool)
        # A thread of these blocks has passed a barrier of the cluster, so that all of it runs.
        self.met = np.zeros(len(m.state.blocks), bool)
        # `made` holds, by mbarrier, the thread that made it, the event, and whether a fence came
        # after.
        self.made: dict[int, tuple[int, int, bool]] = {}
        self.all_lanes = np.arange(m.state.lanes)
        # Four lanes hold the row of a matrix whose address a lane gives; this is one of them.
        self.row_lanes = (
            self.all_lanes & -WARP | self.all_lanes % 8 * 4 | self.all_lanes % WARP // 8
        )
        self.bit_of = np.uint32(1) << (self.all_lanes % WARP).astype(np.uint32)

    # accesses

    def _noted(
        self, access: Access, width: int, lanes: np.ndarray, instruction: Instruction, kind: str
    ) -> Noted:
        number = max(1, width >> self.shift)
        return Noted(access, self.first_granule(access), number, lanes, instruction, kind)

    def touch(self, access: Access, width: int, instruction: Instruction, kind: str) -> None:
        """Observe an access that is about to happen."""
        if kind == "cp_async":
            return
        lanes = self.all_lanes if access.lanes is None else access.lanes
        if instruction.opcode in MATRICES:
            lanes = self.row_lanes[lanes]
        noted = self._noted(access, width, lanes, instruction, kind)
        if kind == "ldmatrix" or (kind == "ld" and width == 16):
            self.boxes.read(access, instruction)
        released = False
        if noted.strength != PLAIN and self.watch_races and instruction.opcode not in OBJECTS:
            released = self.flags.access(access, width, instruction, kind, lanes)
        early = self.copies > 0 and self._require_landed(noted)
        if not self.all_written and not (early and kind in READS):
            self._require_written(noted)
        if self.beyond_barriers:
            self._settle(noted)
        elif self.watch_races:
            self.noted.append(noted)
        if released:
            self.order.examine()
            self.order.tick()

    def async_read(
        self,
        access: Access,
        lanes: np.ndarray,
        width: int,
        instruction: Instruction,
        readers: np.ndarray | None = None,
    ) -> int:
        """Note what a wgmma or bulk copy reads for these lanes, or for the warps `readers`. Return
        the time."""
        noted = self._noted(access, width, lanes, instruction, "async_ld")
        if not (self.copies and self._require_landed(noted)) and not self.all_written:
            self._require_written(noted)
        g, who = self._at_once(noted)
        if self.watch_races:
            if not self._after_write(g, who, noted):
                self._fenced(g, who, noted)
            reader = (who // WARP if readers is None else readers) % self.order.warps
            of_bulk = 0 if instruction.opcode == "wgmma" else self.order.warps
            self.async_reads.note(of_bulk + reader, g, self.event(instruction, PLAIN))
        time = self.order.now
        self.order.tick()
        return time

    def _at_once(self, noted: Noted) -> tuple[np.ndarray, np.ndarray]:
        """Return all granules of an access in one array, and their lanes."""
        parts = list(noted.indices(self.shift))
        g = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return g, noted.lanes if len(parts) == 1 else np.concatenate([noted.lanes] * len(parts))

    def _require_written(self, noted: Noted) -> None:
        """Require that what is read was written; addresses that were seen to be written stay
        written."""
        key, cache = ("written", noted.first, noted.number), noted.access.where.cache
        if key in cache:
            return
        if gives_only(noted.instruction):
            if not self._defined(noted) and noted.kind not in WRITES:
                return
        elif noted.kind not in ("st", "st_ordered"):
            for g in noted.indices(self.shift):
                good = self.written.take(g)
                if np.count_nonzero(good) != len(good):
                    message = "read of shared memory that nobody wrote"
                    self.fault(Kind.UNWRITTEN, noted.instruction, g, noted.lanes, ~good, message)
        if noted.kind in WRITES:
            for g in noted.indices(self.shift):
                self.written[g] = True
        cache[key] = True

    def _defined(self, noted: Noted) -> bool:
        """Return whether all that a load reads was written; else its registers are undefined."""
        bad = [~self.written.take(g) for g in noted.indices(self.shift)]
        if not any(np.count_nonzero(part) for part in bad):
            return True
        masks = of_granules(bad, self.size, noted.number << self.shift, noted.instruction)
        self.machine.events.defined.read(
            noted.access, noted.instruction, masks, "shared", self.machine.diag.shared_address
        )
        return False

    def _require_landed(self, noted: Noted) -> bool:
        """Report an access of what a copy under way is to write; whether it is one."""
        if not any(np.count_nonzero(self.under_way.take(g)) for g in noted.indices(self.shift)):
            return False
        g, who = self._at_once(noted)
        began = self.under_way.take(g)
        index = int(began.nonzero()[0][0])
        copier, event = int(self.copier[g[index]]), int(began[index])
        instruction = self.events[event][0]
        signals = _signals(instruction)
        thread = self.machine.state.coordinates(copier).split(", thread ")[1]
        name = f"{_copy_name(instruction)} of thread {thread}"
        at = f", at {self.at(event)}," if signals else ""
        what = "read before the wait" if noted.kind in READS else "write"
        self.early.add(instruction)
        message = f"{what}: {name}{at} to there has not been waited for"
        self.fault(Kind.COPY, noted.instruction, g, who, began != 0, message)
        return True

    # races

    def examine(self, everybody: bool) -> None:
        """Examine the accesses that are noted, as the clocks are about to change."""
        noted, self.noted = self.noted, []
        if everybody and not self.history:
            self.interval.examine(noted)
        else:
            for event in noted:
                self._settle(event)
            self.history = not everybody and (self.history or bool(noted))
        if everybody and not self.all_written and self.written.all():
            self.all_written = True

    def finish(self) -> None:
        """End the batch."""
        self.examine(everybody=True)

    def _settle(self, noted: Noted) -> None:
        """Compare an access with the last write and the last reads of its granules, and put it in
        their place.
        """
        if noted.kind == "cp_async" and self.watch_races:
            g, who = self._at_once(noted)
            if noted.lands:
                self._put(g, who % self.order.threads, noted)
            elif not self._after_write(g, who, noted):
                self._after_reads(g, who, noted)
            return
        if noted.kind not in WRITES:
            g, who = self._at_once(noted)
            self._reach(g, who, noted)
            if self.watch_races:
                self._after_write(g, who, noted)
                if noted.instruction.opcode not in OBJECTS:
                    self._read(g, who, noted)
            return
        for g in noted.indices(self.shift):
            who = noted.lanes
            self._reach(g, who, noted)
            if self.watch_races:
                self._after_write(g, who, noted)
                if noted.strength != SWAP:
                    self._after_reads(g, who, noted)
                self._write(g, who, noted)

    def _after_write(self, g: np.ndarray, who: np.ndarray, noted: Noted) -> bool:
        """Report an access that does not come after the last write of its granules. Return whether
        there was a fault.
        """
        old = self.writes.take(g)
        if not np.count_nonzero(old):
            return self._before_begun(g, who, noted)
        # The agent -1 and the time 0 stand for no write.
        agents, events = (old >> HALF) - 1, old & LOW
        indices = (~self.order.near(who, agents, self.times.take(events))).nonzero()[0]
        if not len(indices):
            return self._before_begun(g, who, noted)
        bad = (old[indices] != 0) & (agents[indices] != self.order.agent_of.take(who[indices]))
        if noted.strength != PLAIN:
            padded, acting = self.machine.state.padded, self.order.agent_of.take(who[indices])
            # The threads of both are of one cluster.
            apart = np.where(agents[indices] // padded == acting // padded, BLOCK, CLUSTER)
            bad &= ~self.atomic(events[indices], apart, noted.instruction)
        elif noted.kind in ("ld", "ldmatrix"):
            bad &= self.strengths.take(events[indices]) != SWAP
        indices = indices[bad]
        if len(indices):
            times = self.times[events[indices]]
            indices = indices[~self.order.before(who[indices], agents[indices], times)]
        if len(indices) and self.early:
            waited = [p for p in indices if self.events[int(events[p])][0] not in self.early]
            indices = np.array(waited, np.intp)
        if not len(indices):
            return self._before_begun(g, who, noted)
        first = int(indices[0])
        copied = agents[first] >= self.order.copiers
        by = self._agent_name(int(agents[first]), int(who[first]))
        if copied:
            by = _copy_name(self.events[int(events[first])][0])
        lacks = f"without a barrier between{self._remedy(who[indices], agents[indices])}"
        if copied:
            lacks = "before this thread sees its mbarrier's phase end"
        verb = VERBS.get(noted.kind, "writes")
        what = f"race: {verb} what {by} writes at {self.at(int(events[first]))}, {lacks}"
        self.fault(Kind.RACE, noted.instruction, g, who, marked(indices, len(g)), what)
        return True

    def _fenced(self, g: np.ndarray, who: np.ndarray, noted: Noted) -> None:
        """Require that what the asynchronous proxy reads or overwrites is written by itself, or
        before a proxy fence."""
        old = self.writes.take(g)
        indices = ((old != 0) & ((old >> HALF) - 1 < self.order.copiers)).nonzero()[0]
        if not len(indices):
            return
        agents, events = (old[indices] >> HALF) - 1, old[indices] & LOW
        bad = (~self.order.before(who[indices], agents, self.times[events], ASYNC)).nonzero()[0]
        if len(bad):
            by = self._agent_name(int(agents[bad[0]]), int(who[indices[bad[0]]]))
            verb = "overwrites" if noted.kind == "cp_async" else "reads"
            at = self.at(int(events[bad[0]]))
            what = f"{verb} what {by} writes at {at} by an ordinary store, without a fence.proxy.async between"
            self.fault(Kind.FENCE, noted.instruction, g, who, marked(indices[bad], len(g)), what)

    def _after_reads(self, g: np.ndarray, who: np.ndarray, noted: Noted) -> None:
        """Require that a write comes after the last reads of its granules."""
        order, alone = self.order, self.machine.state.cluster_size == 1
        tables = [self.reads, self.strong_reads] if noted.strength == PLAIN else [self.reads]
        if alone and any(table.events for table in tables):
            # The readers are of the block, so that a barrier of it comes after most of them.
            passed = order.passed.take(order.block_of.take(who))
            synced = np.maximum(passed, order.warp_passed.take(order.warp_of.take(who)))
            warps = order.column_of.take(who)
        for table in tables:
            for warp, events in table.readers(g):
                late = events != 0
                if alone:
                    late = self.times.take(events) > np.where(warps == warp, synced, passed)
                here = late.nonzero()[0]
                if len(here):
                    mask = table.lanes[warp].take(g[here])
                    self._after_readers(g[here], who[here], events[here], warp, mask, noted)
        for reader, events in self.async_reads.readers(g):
            here = events.nonzero()[0]
            self._after_async(g[here], who[here], events[here], reader, noted)

    def _after_readers(
        self,
        g: np.ndarray,
        lanes: np.ndarray,
        events: np.ndarray,
        warp: int,
        mask: np.ndarray,
        noted: Noted,
    ) -> None:
        """Check a write against reads of a warp: where not all of its threads are known to come
        before, those that read, `mask`, are looked at."""
        when = self.times[events]
        late = (~self.order.before_warp(lanes, warp, when)).nonzero()[0]
        if not len(late):
            return
        g, lanes, events, when = g[late], lanes[late], events[late], when[late]
        mask, agents = mask[late], lanes % self.order.threads
        for bit in range(WARP):
            reader = warp * WARP + bit
            wrong = (mask >> np.uint32(bit) & np.uint32(1)).astype(bool) & (agents != reader)
            indices = wrong.nonzero()[0]
            if len(indices):
                indices = indices[
                    ~self.order.before(lanes[indices], np.full(len(indices), reader), when[indices])
                ]
            if len(indices):
                first = int(indices[0])
                by = self._agent_name(reader, int(lanes[first]))
                verb, at = VERBS.get(noted.kind, "writes"), self.at(int(events[first]))
                remedy = self._remedy(lanes[indices], reader)
                what = f"race: {verb} what {by} reads at {at}, without a barrier between{remedy}"
                self.fault(Kind.RACE, noted.instruction, g, lanes, marked(indices, len(g)), what)
                return

    def _remedy(self, lanes: np.ndarray, others: np.ndarray | int) -> str:
        """Return what to add where all pairs that race, lanes and other threads of their block, are
        within one warp.
        """
        near = lanes % self.order.threads // WARP == others // WARP
        return SYNCWARP if near.all() else ""

    def _after_async(
        self, g: np.ndarray, lanes: np.ndarray, events: np.ndarray, column: int, noted: Noted
    ) -> None:
        """Require that the source of a bulk store or wgmma does not change while it is read, or
        without order after that."""
        order, when = self.order, self.times[events]
        agent = order.threads + column
        bad = (~order.before(lanes, agent, when)).nonzero()[0]
        if not len(bad):
            return
        first = int(bad[0])
        reading = self.events[int(events[first])][0]
        warp = int(lanes[first]) // order.threads * order.warps + column % order.warps
        over = int(when[first]) <= int(order.rows()[0, warp, agent])
        at = self.machine.diag.where(reading)
        if over:
            what = f"race: writes what {reading.opcode} at {at} has read, without a barrier after its wait_group"
        else:
            wait = (
                "wgmma.wait_group" if reading.opcode == "wgmma" else "cp.async.bulk.wait_group.read"
            )
            what = f"writes what {reading.name.split('.global')[0]} at {at} may still read: no {wait} between"
        self.fault(
            Kind.RACE if over else Kind.COPY, noted.instruction, g, lanes, marked(bad, len(g)), what
        )

    def _read(self, g: np.ndarray, who: np.ndarray, noted: Noted) -> None:
        """Note that lanes read."""
        table = self.reads if noted.strength == PLAIN else self.strong_reads
        event = self.event(noted.instruction, noted.strength)
        if noted.lanes is not self.all_lanes:
            table.note(self.order.column_of.take(who), g, event, self.bit_of.take(who))
            return
        # All lanes of the batch read, in their order, once or more.
        by_warp = g.reshape(-1, self.order.warps, WARP)
        bits = np.tile(self.bit_of[:WARP], len(by_warp))
        for warp in range(self.order.warps):
            table.note_one(warp, by_warp[:, warp].reshape(-1), event, bits)

    def _put(self, g: np.ndarray, agents: np.ndarray | int, noted: Noted) -> int:
        """Make these agents the last writers. Return the event."""
        event = self.event(noted.instruction, noted.strength)
        self.writes[g] = (np.asarray(agents, np.int64) + 1 << HALF) | event
        self.reads.clear(g)
        if noted.strength == PLAIN:
            self.strong_reads.clear(g)
        self.async_reads.clear(g)
        return event

    def _write(self, g: np.ndarray, who: np.ndarray, noted: Noted) -> None:
        agents = self.order.agent_of.take(who)
        event = self._put(g, agents, noted)
        self.boxes.overwritten(g)
        if noted.strength == PLAIN:
            after = (self.writes.take(g) >> HALF) - 1
            clash = after != agents
            if np.count_nonzero(clash) and not same_values(noted.access, g, noted.kind):
                by = self._agent_name(int(after[clash][0]), int(who[clash][0]))
                what = (
                    f"race: writes what {by} writes at {self.at(event)}, without a barrier between"
                )
                self.fault(Kind.RACE, noted.instruction, g, who, clash, what)

    # copies and stores

    def _copy(self, copy: Copy) -> Noted:
        """Return the writes of a copy."""
        lanes = self.all_lanes if copy.lanes is None else np.asarray(copy.lanes)
        return self._noted(copy.access, copy.width, lanes, copy.instruction, "cp_async")

    def copy_begins(self, copy: Copy) -> None:
        """Note that a copy to shared memory is issued: it may be written from now on."""
        noted = self._copy(copy)
        lanes = noted.lanes
        if copy.mbarrier is not None:
            self._require_fenced_init(copy.mbarrier, int(lanes[0]), copy.instruction)
        if self.copies:
            self._require_landed(noted)
        if self.beyond_barriers:
            g, who = self._at_once(noted)
            self._reach(g, who, noted, lasts=False)
            if self.watch_races:
                if not self._after_write(g, who, noted) and "bulk" in copy.instruction.modifiers:
                    self._fenced(g, who, noted)
                self._after_reads(g, who, noted)
        elif self.watch_races:
            self.noted.append(noted)
        event = self.event(copy.instruction, PLAIN)
        for g in noted.indices(self.shift):
            self.under_way[g] = event
            self.copier[g] = lanes
            self.boxes.copied(g, copy.pattern)
        self.copies += len(lanes)

    def copy_lands(self, copy: Copy, selected: np.ndarray | None) -> None:
        """Note that data arrive: written by their threads, which waited, or for an mbarrier."""
        noted = self._copy(copy)
        lanes = noted.lanes
        if selected is not None and len(lanes) > 1:
            noted.selected, noted.lanes = selected, lanes[selected]
        noted.lands = True
        for g in noted.indices(self.shift):
            self.under_way[g] = 0
            if not self.all_written:
                self.written[g] = True
        self.copies -= len(noted.lanes)
        at, order = copy.mbarrier, self.order
        if at is None:
            if self.beyond_barriers:
                self._settle(noted)
            elif self.watch_races:
                self.noted.append(noted)
            return
        agent = order.copier(at, self.cluster_bytes)
        if self.watch_races:
            self._put(self._at_once(noted)[0], agent, noted)
        row = np.zeros((order.planes, order.width), np.int32)
        row[:, agent] = order.now
        if copy.source_time is not None:
            # The copy has read its source, too.
            row[0, order.threads + order.warps + distinct(lanes // WARP) % order.warps] = (
                copy.source_time
            )
        order.leave(at, row)
        order.tick()

    def store_begins(self, store: Store) -> None:
        """Note that a bulk store is issued, which has just read its source."""
        store.time = self.order.now - 1

    def store_ends(self, store: Store) -> None:
        """Note that the thread of a bulk store waited until its source had been read."""
        order, warp = self.order, store.lane // WARP
        order.reading_ends(
            np.array([warp]), order.threads + order.warps + warp % order.warps, store.time
        )

    def reading_ends(self, warps: np.ndarray, reader: int, time: int) -> None:
        """Let warps know that what the wgmma of a warp, `reader`, began to read up to some time is
        over."""
        self.order.reading_ends(warps, self.order.threads + reader % self.order.warps, time)

    # mbarriers

    def object_made(self, at: int, lane: int, instruction: Instruction) -> None:
        """Note that a lane initialises the mbarrier at an address."""
        self.made[at] = lane, self.event(instruction, PLAIN), False

    def init_fence(self, threads: np.ndarray) -> None:
        """Note a fence of threads that makes the mbarriers they initialised visible to other
        proxies and blocks."""
        self.made = {
            at: (lane, event, fenced or bool(threads[lane]))
            for at, (lane, event, fenced) in self.made.items()
        }

    def _require_fenced_init(self, at: int, lane: int, instruction: Instruction) -> None:
        """A copy signals an mbarrier, whose initialisation must come before: for st.async in the
        order of threads, for a bulk copy by a fence, too, which shows it to the asynchronous
        proxy."""
        if instruction.opcode == "st":
            self._require_init(at, lane, instruction)
            return
        maker, event, fenced = self.made.get(at, (0, 0, True))
        if fenced or not self.watch_races:
            return
        # The fault is reported once.
        self.made[at] = maker, event, True
        order, m = self.order, self.machine
        agent, time = np.array([maker % order.threads]), self.times[[event]]
        if order.before(np.array([lane]), agent, time, ASYNC)[0]:
            return
        what = (
            f"signals an mbarrier that {self._agent_name(maker % order.threads, lane)} initialises at "
            f"{self.at(event)}, without a fence.mbarrier_init or fence.proxy.async by that thread between"
        )
        if "tensor" in instruction.modifiers:
            m.diag.report(Kind.FENCE, instruction, what, lane)
        else:
            # CUDA's memcpy_async has no such fence, either.
            m.diag.note(f"{m.diag.where(instruction)}: {what}")

    def _require_init(self, at: int, lane: int, instruction: Instruction) -> None:
        """Require that the initialisation of an mbarrier comes before what a lane does."""
        if not self.watch_races:
            return
        what = "signals an mbarrier that nobody has initialised"
        if at in self.made:
            maker, event, _ = self.made[at]
            agent = maker % self.order.threads
            if (
                maker == lane
                or self.order.before(np.array([lane]), np.array([agent]), self.times[[event]])[0]
            ):
                return
            what = f"signals an mbarrier that {self._agent_name(agent, lane)} initialises at {self.at(event)}"
            what += ", without a barrier between"
        self.machine.diag.report(Kind.FENCE, instruction, what, lane)

    # blocks of a cluster end

    def _reach(self, g: np.ndarray, who: np.ndarray, noted: Noted, lasts: bool = True) -> None:
        """Require that other blocks whose shared memory is accessed have not ended; note when, but
        not of a copy, which somebody there waits for."""
        if self.machine.state.cluster_size == 1:
            return
        blocks, homes = g // self.of_block, self.machine.state.block_of[who]
        other = blocks != homes
        if other.any():
            over = other & self.ended[blocks]
            if over.any():
                message = "accesses shared memory of a block that has ended"
                self.fault(Kind.BOUNDS, noted.instruction, g, who, over, message)
            if lasts:
                event = self.event(noted.instruction, noted.strength)
                self.remote[blocks[other], who[other] % self.order.threads] = event

    def _before_begun(self, g: np.ndarray, who: np.ndarray, noted: Noted) -> bool:
        """Report an access of another block before a barrier of the cluster, or anything else that
        tells that it runs; whether it is one.
        """
        state = self.machine.state
        if state.cluster_size == 1 or self.met.all():
            return False
        blocks, homes = g // self.of_block, state.block_of[who]
        early = blocks != homes
        early[self.met[homes]] = False
        if not early.any():
            return False
        known = self.order.rows()[GENERIC, :, : self.order.threads]
        begun = np.asarray(known.reshape(state.warps, state.cluster_size, state.padded).any(axis=2))
        early &= ~begun[self.order.warp_of[who], blocks % state.cluster_size]
        if early.any():
            message = "race: accesses shared memory of a block that may not have begun: "
            message += "no cluster.sync() or other barrier of the cluster comes before"
            self.fault(Kind.RACE, noted.instruction, g, who, early, message)
        return bool(early.any())

    def cluster_met(self, lanes: np.ndarray) -> None:
        """Note that lanes pass a barrier of their cluster."""
        self.met[self.machine.state.block_of[lanes]] = True

    def block_ends(self, block: int, lane: int) -> None:
        """End a block with its last thread, the lane's: nothing may still come to its shared
        memory."""
        m, order = self.machine, self.order
        self.ended[block] = True
        if self.watch_races:
            self.boxes.block_ends(block, (self.reads, self.strong_reads, self.async_reads))
        part = slice(block * self.of_block, (block + 1) * self.of_block)
        left = distinct(self.under_way[part]).tolist() if self.copies else []
        for last in [n for n in left if n and _signals(self.events[n][0])][-1:]:
            what = "the block ends before anybody waits for this copy to its shared memory"
            first = int((self.under_way[part] == last).nonzero()[0][0])
            m.diag.report(Kind.COPY, self.events[last][0], what, int(self.copier[part][first]))
        if m.state.cluster_size == 1 or not self.watch_races or not self.remote[block].any():
            return
        agents = self.remote[block].nonzero()[0]
        times = self.times[self.remote[block][agents]]
        known = np.zeros(len(agents), bool)
        for warp in range(m.state.padded // WARP):
            lanes = np.full(len(agents), block * m.state.padded + warp * WARP)
            known |= order.before(lanes, agents, times)
        for agent in agents[~known][:1].tolist():
            what = (
                f"accesses shared memory of block {m.state.block_index(lane)}, which may have ended: nothing "
                "orders its end after this, as a last barrier.cluster would"
            )
            other = lane // order.threads * order.threads + agent
            m.diag.report(Kind.RACE, self.events[int(self.remote[block][agent])][0], what, other)

    # Descriptions follow, for messages.

    def _clash(
        self,
        noted: Noted,
        g: np.ndarray,
        clash: np.ndarray,
        other: int,
        instruction: Instruction | None,
        near: bool,
    ) -> None:
        """Report two accesses of one stretch between barriers that race; `near`: only within warps."""
        if instruction in self.early:
            return
        state = self.machine.state
        thread = "another thread"
        if other >= 0:
            thread = f"thread {state.thread_index(int(state.thread_of[other]))}"
        where = (
            f"at {self.machine.diag.where(instruction)}" if instruction is not None else "elsewhere"
        )
        verb = VERBS.get(noted.kind, "writes")
        what = f"race: {verb} what {thread} writes {where}, without a barrier between"
        what += SYNCWARP if near else ""
        self.fault(Kind.RACE, noted.instruction, g, noted.lanes, clash, what)

    def _agent_name(self, agent: int, lane: int) -> str:
        """Describe an agent of the lane's cluster."""
        m = self.machine
        if agent >= self.order.copiers:
            return "a bulk copy"
        other = lane // self.order.threads * self.order.threads + agent
        thread = f"thread {m.state.thread_index(int(m.state.thread_of[other]))}"
        same = m.state.block_of[other] == m.state.block_of[lane]
        return thread if same else f"block {m.state.block_index(other)}, {thread}"

    def fault(
        self,
        kind: Kind,
        instruction: Instruction,
        g: np.ndarray,
        who: np.ndarray,
        bad: np.ndarray,
        what: str,
    ) -> None:
        """Report an access of shared memory whose granules `bad` are wrong."""
        m = self.machine
        index = int(bad.nonzero()[0][0])
        lane = int(who[index])
        at = (int(g[index]) % self.of_block) << self.shift
        of = int(g[index]) // self.of_block
        block = (
            ""
            if of == m.state.block_of[lane]
            else f", of block {m.state.grid_index(int(m.state.blocks[of]))}"
        )
        hint = m.diag.hint(lane) if kind is Kind.RACE else ""
        what = f"{what} (shared address 0x{at:x}{m.diag.in_shared(at)}{block}){hint}"
        m.diag.report(kind, instruction, what, lane, int(np.count_nonzero(bad)))


def marked(indices: np.ndarray, size: int) -> np.ndarray:
    """Return a mask of `size` elements with these indices set."""
    mask = np.zeros(size, bool)
    mask[indices] = True
    return mask


def _signals(copy: Instruction) -> bool:
    """Return whether a copy to shared memory completes bytes on an mbarrier."""
    return "bulk" in copy.modifiers or is_store_async(copy)


def _copy_name(copy: Instruction) -> str:
    if is_store_async(copy):
        return "an st.async"
    return "a bulk copy" if "bulk" in copy.modifiers else "a cp.async"
