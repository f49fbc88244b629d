"""Flags: strong stores and atomics by which threads hand over what they did, and strong loads and
atomics that take it.

A release (or a relaxed operation after a fence) leaves at its address what its thread knows and
did; who reads there, and lies within the scope of both, takes it. Atomics between go on with what a
release left (PTX ISA 8.9.2); a store puts its own in the place of that. A compare-and-swap that
finds another value than it compares with only reads.

A wait that an older value satisfies is no order: a release that a reader cannot tell from what
stood there before, as it left the value as it was, or as the loop that waits would have ended with
that, too, orders nothing. It may have come later, whichever the emulator ran first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..instructions.memory import swaps
from ..machine.memory import Access
from ..ptx.syntax import Instruction
from .clocks import EMPTY, NOTHING, Clock
from .order import (
    CLUSTER,
    FENCED,
    FENCED_BLOCK,
    FENCED_CLUSTER,
    GENERIC,
    GRID,
    NOWHERE,
    SCOPES,
    WARP,
    Far,
    Order,
    joined,
    narrowed,
    wider,
)

RELEASES, ACQUIRES = {"release", "acq_rel", "sc"}, {"acquire", "acq_rel", "sc"}
# A flag keeps this many releases apart; older ones are folded into its base.
MAX_RELEASES = 256


@dataclass(frozen=True)
class Wait:
    """A loop that waits for the value of one access.

    `holds`: of values and lanes, whether the comparison in the loop holds; `again`: which result of
    it makes the loop go round once more, or None where more than that decides.
    """

    holds: Callable[[np.ndarray, np.ndarray], np.ndarray]
    again: bool | None


# A swap is given by what reads the values compared with and stored, by lane.
Swap = tuple[Callable[[], np.ndarray], Callable[[], np.ndarray]]


def scope_of(i: Instruction) -> int:
    """Return the scope of a strong access."""
    return next((SCOPES[m] for m in i.modifiers if m in SCOPES), GRID)


@dataclass
class Snapshot:
    """What a warp passes on at some time: rows of its cluster, to its own block; and the same for
    other blocks of its cluster, and for others.
    """

    cluster: int
    row: np.ndarray
    beside: Far
    far: Far


@dataclass
class Release:
    """What one thread left at a flag."""

    snapshot: Snapshot
    scope: int
    # The thread is given by its number in the grid.
    thread: int
    # The agent is numbered within the cluster.
    agent: int
    # The release passes on what the thread did until `time` to its block, until `beside_time` to
    # other blocks of its cluster, and until `far_time` to others.
    time: int
    beside_time: int
    far_time: int
    # The flag had this value before; None where it is not known.
    before: int | None = None
    # `of_all` is true where the release passes on all that earlier ones of the flag did.
    of_all: bool = False


@dataclass
class Flag:
    """What was left at an address: single releases, and before these `base`, of many."""

    releases: list[Release] = field(default_factory=list)
    base: Far = NOWHERE
    # The rows of the base are kept by block of the batch.
    near: dict[int, np.ndarray] = field(default_factory=dict)
    # The base holds this many releases.
    folded: int = 0
    # `merged` holds the number of releases and of folded ones, and what these say to other
    # clusters.
    merged: tuple[int, int, Far] = (0, 0, NOWHERE)
    # `taken` holds, by warp, the number of releases taken, and the scope of the access and whether
    # it acquired.
    taken: dict[int, tuple[int, tuple[int, bool]]] = field(default_factory=dict)


class Flags:
    """The flags of a launch, by their address in global memory, or in the batch's shared memory."""

    def __init__(
        self,
        order: Order,
        waits: dict[int, Wait],
        unseen: set[int],
        swaps: dict[int, Swap],
    ) -> None:
        """`waits`: of loads and atomics on whose value alone a loop waits, by their place;
        `unseen`: the places of atomics whose result nobody reads; `swaps`: see waits.py."""
        self.order, self.waits, self.unseen = order, waits, unseen
        self.swaps = swaps
        self.flags: dict[Hashable, Flag] = {}
        self.snapshots: dict[tuple[int, bool], Snapshot] = {}
        # `left` holds the last access, and the release of each of its lanes.
        self.left: tuple[Access | None, dict[int, Release | None]] = (None, {})
        # The snapshots are valid at this count of changes of the clocks.
        self.as_of = -1

    def start(self) -> None:
        """Begin a batch: rows are of its clusters, and its shared memory is new."""
        self.flags = {key: flag for key, flag in self.flags.items() if isinstance(key, int)}
        for flag in self.flags.values():
            flag.near, flag.taken = {}, {}
            for release in flag.releases:
                release.snapshot.cluster = -1
        self.snapshots = {}

    def access(
        self, access: Access, width: int, instruction: Instruction, kind: str, lanes: np.ndarray
    ) -> bool:
        """Observe a strong access that is about to happen. Return whether it is a release itself,
        which comes before what they do who acquire it."""
        modifiers, scope = set(instruction.modifiers), scope_of(instruction)
        leaves, takes = kind != "ld_ordered", kind != "st_ordered" and instruction.opcode != "red"
        takes = takes and instruction.pc not in self.unseen
        itself = leaves and not RELEASES.isdisjoint(modifiers)
        if not (itself or self.flags or self.order.fences):
            return False
        at = access.flat()
        values = access.load(width).astype(np.int64) if width in (1, 2, 4, 8) else None
        leaving = self._leaving(lanes, itself) if leaves else np.zeros(len(lanes), bool)
        taking = np.full(len(lanes), takes)
        swap, wait = self.swaps.get(instruction.pc), self.waits.get(instruction.pc)
        if values is not None and swap is not None:
            values, swapped = self._swapped(swap, at, values, lanes)
            leaving &= swapped
        if values is not None and wait is not None and (swap or kind == "ld_ordered"):
            # A thread that goes on waiting looks once more, and takes then what there is.
            taking &= wait.holds(values, lanes) != wait.again
        left: dict[int, Release | None] = {}
        if leaving.any():
            self.order.examine()
        acts = leaving | taking | (kind == "st_ordered")
        turns = self.order.state.in_turns(lanes)
        acquires = not ACQUIRES.isdisjoint(instruction.modifiers)
        for i in turns[acts[turns]].tolist():
            lane = int(lanes[i])
            key = ("shared", int(at[i])) if access.space.is_shared else int(at[i])
            flag = self.flags.get(key) if taking[i] else None
            if flag is not None:
                taken = flag.taken.get(lane // WARP)
                if taken != (flag.folded + len(flag.releases), (scope, acquires)):
                    value = None if values is None else values[i : i + 1]
                    self._take(flag, lane, scope, instruction, value)
            older = self.flags.pop(key, Flag()) if kind == "st_ordered" else Flag()
            if leaving[i]:
                left[i] = self._leave(key, lane, scope, itself, older)
        self.left = access, left
        if kind == "st_ordered" and values is not None:
            self.found_there(access, values)
        return itself

    def found_there(self, access: Access, values: np.ndarray) -> None:
        """Note the values that the threads of the last strong access found at their addresses, each
        in its turn."""
        last, left = self.left
        for i, release in left.items() if last is access else ():
            if release is not None:
                release.before = int(values[i])

    def _swapped(
        self, swap: Swap, at: np.ndarray, values: np.ndarray, lanes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what each lane of a compare-and-swap finds in its turn, and whether it is what the
        lane compares with: the others only read. `values`: what stands there before.
        """
        compared, new = (read()[lanes].astype(np.int64) for read in swap)
        values, good = values.copy(), values == compared
        turns = self.order.state.in_turns(lanes)
        if good.any() and (at == at[0]).all():
            values[turns] = swaps(values[:1], compared[turns], new[turns])[:-1]
            good = values == compared
        elif good.any():
            now: dict[int, int] = {}
            for i in turns.tolist():
                address = int(at[i])
                values[i] = now.get(address, values[i])
                good[i] = values[i] == compared[i]
                if good[i]:
                    now[address] = new[i]
        return values, good

    # what is left

    def _leaving(self, lanes: np.ndarray, itself: bool) -> np.ndarray:
        """Return which lanes leave something: with a release all, or else those whose warp knows of
        a fence.
        """
        order = self.order
        if itself or not order.fences:
            return np.full(len(lanes), itself)
        fenced = order.rows()[FENCED_BLOCK].any(axis=1)
        fenced[list(order.far)] = True
        return fenced[order.warp_of[lanes]]

    def _leave(
        self, key: Hashable, lane: int, scope: int, itself: bool, older: Flag
    ) -> Release | None:
        """A lane leaves at a flag what its warp knows and what it did: everything, or what a fence
        came after. A store takes the place of `older` releases. Those of which it knows are kept: a
        wait that an older one ends is ordered after that.
        """
        order, warp = self.order, lane // WARP
        snapshot, agent = self._snapshot(warp, itself), lane % order.threads
        time = beside = beyond = order.now
        if not itself:
            planes = [FENCED_BLOCK, order.cluster_plane, FENCED]
            time, beside, beyond = order.rows()[planes, warp, agent].tolist()
        if not (time or snapshot.row[GENERIC].any() or snapshot.far[GENERIC]):
            return None
        flag = self.flags.setdefault(key, Flag())
        thread = int(order.state.thread_numbers[lane])
        release = Release(snapshot, scope, thread, agent, time, beside, beyond)
        if older.releases:
            last = _last_of_all(older.releases)
            known = [r for r in older.releases[last:] if self._knows(release, r)]
            if known and known[0] is older.releases[last]:
                known = older.releases[:last] + known
            flag.releases, release.of_all = known, scope == GRID
        flag.releases.append(release)
        if len(flag.releases) > MAX_RELEASES:
            self._fold(flag)
        return release

    def _knows(self, release: Release, older: Release) -> bool:
        """Return whether who leaves a release knows of an older one."""
        if release.snapshot.cluster == older.snapshot.cluster:
            return int(self._row_of([release])[GENERIC, older.agent]) >= older.time
        clock, thread = self._far_of([release])[GENERIC], np.array([older.thread])
        return bool(clock.knows(thread, np.array([older.far_time]), self.order.state.padded)[0])

    def _snapshot(self, warp: int, itself: bool) -> Snapshot:
        """Return what a warp passes on, but for what the lane did itself: everything, or what a
        fence came after.
        """
        order = self.order
        if self.as_of != order.changes:
            self.as_of, self.snapshots = order.changes, {}
        snapshot = self.snapshots.get((warp, itself))
        if snapshot is None:
            rows = order.what_warps_know(np.array([warp]))[:, 0]
            far = order.far.get(warp, NOWHERE)
            if itself:
                beside = beyond = self._clocks(warp, rows, far)
            else:
                beyond = self._clocks(warp, shown(rows, FENCED), narrowed(far, FENCED))
                beside, plane = beyond, order.cluster_plane
                if plane != FENCED:
                    beside = self._clocks(warp, shown(rows, plane), narrowed(far, plane))
                rows = shown(rows, FENCED_BLOCK)
            cluster = warp * WARP // order.threads
            snapshot = self.snapshots[warp, itself] = Snapshot(cluster, rows, beside, beyond)
        return snapshot

    def _clocks(self, warp: int, rows: np.ndarray, far: Far) -> Far:
        """Return rows of a warp's cluster as clocks, and what is known of others."""
        order, state = self.order, self.order.state
        first = warp * WARP // order.threads * state.cluster_size
        blocks = np.asarray(state.blocks)[first : first + state.cluster_size]
        parts = rows[:, : order.threads].reshape(len(rows), state.cluster_size, state.padded)
        if state.threads < state.padded:
            # Lanes that are no threads have nothing to pass on.
            parts = parts.copy()
            parts[..., state.threads :] = parts.max(axis=-1, keepdims=True)
        clocks: list[Clock] = []
        for plane, part in enumerate(parts):
            same = next((n for n in range(plane) if np.array_equal(parts[n], part)), None)
            clocks.append(
                Clock.of_rows(blocks, part, state.padded) if same is None else clocks[same]
            )
        if len(clocks) == FENCED_CLUSTER:
            clocks.append(clocks[FENCED])
        return joined((*clocks, EMPTY), far, state.padded)

    def _far_of(self, releases: Sequence[Release], beside: bool = False) -> Far:
        """Return what releases say to other blocks, or to those of their cluster, together."""
        padded, far = self.order.state.padded, NOWHERE
        for snapshot in {id(r.snapshot): r.snapshot for r in releases}.values():
            far = joined(far, snapshot.beside if beside else snapshot.far, padded)
        until: dict[int, int] = {}
        for r in releases:
            time = r.beside_time if beside else r.far_time
            until[r.thread] = max(until.get(r.thread, 0), time)
        threads = np.array(sorted(until))
        alone = Clock(NOTHING, threads, np.array([until[t] for t in threads.tolist()]))
        return (far[GENERIC].joined(alone, padded), *far[1:])

    @staticmethod
    def _row_of(releases: Sequence[Release]) -> np.ndarray:
        """Return what releases of one cluster say within it, together."""
        rows = {id(r.snapshot): r.snapshot.row for r in releases}.values()
        row = functools.reduce(wider, rows).copy()
        np.maximum.at(row[GENERIC], [r.agent for r in releases], [r.time for r in releases])
        return row

    def _fold(self, flag: Flag) -> None:
        """Take the older half of many releases together."""
        padded, older = self.order.state.padded, flag.releases[: MAX_RELEASES // 2]
        older = older[_last_of_all(older) :]
        if across := [r for r in older if r.scope == GRID]:
            flag.base = joined(flag.base, self._far_of(across), padded)
        of_block: dict[int, list[Release]] = {}
        for release in older:
            if release.snapshot.cluster >= 0:
                of_block.setdefault(release.thread // padded, []).append(release)
        for block, releases in of_block.items():
            row = self._row_of(releases)
            flag.near[block] = wider(flag.near[block], row) if block in flag.near else row
        flag.folded += MAX_RELEASES // 2
        del flag.releases[: MAX_RELEASES // 2]

    # what is taken

    def _take(
        self,
        flag: Flag,
        lane: int,
        scope: int,
        instruction: Instruction,
        value: np.ndarray | None,
    ) -> None:
        """Let a lane's warp learn what the releases of a flag say that it has not taken before."""
        order, warp = self.order, lane // WARP
        count = self._told(flag, lane, instruction, value)
        relaxed = instruction if ACQUIRES.isdisjoint(instruction.modifiers) else None
        done, how = flag.taken.get(warp, (-1, None))
        done = done if how == (scope, relaxed is None) else -1
        if flag.folded + count <= done:
            return
        flag.taken[warp] = flag.folded + count, (scope, relaxed is None)
        order.examine()
        cluster, padded = lane // order.threads, order.state.padded
        block, here = int(order.state.thread_numbers[lane]) // padded, np.array([warp])
        if block in flag.near and done < flag.folded:
            order.learn(here, flag.near[block], relaxed=relaxed)
        first = max(done - flag.folded, _last_of_all(flag.releases[:count]))
        near = [r for r in flag.releases[first:count] if r.snapshot.cluster == cluster]
        if in_block := [r for r in near if r.thread // padded == block]:
            order.learn(here, self._row_of(in_block), relaxed=relaxed)
        beside = [r for r in near if r.thread // padded != block]
        # Else what is of the device's scope has more to say of the cluster's, too.
        scopes = (CLUSTER, GRID)[: 1 + (order.cluster_plane != FENCED)]
        if others := [r for r in beside if min(scope, r.scope) in scopes]:
            order.learn_far(here, self._far_of(others, beside=True), relaxed, beside=True)
        if scope == GRID:
            order.learn_far(here, self._merged(flag, count), relaxed)

    def _told(
        self, flag: Flag, lane: int, instruction: Instruction, value: np.ndarray | None
    ) -> int:
        """Return how many of a flag's releases the reader can tell from what stood there before:
        all up to the newest of which the value before would not have done."""
        count = len(flag.releases)
        if value is None or not count:
            return count
        before = np.array(
            [value[0] if r.before is None else r.before for r in flag.releases], np.int64
        )
        stale = before == value[0]
        wait = self.waits.get(instruction.pc)
        if wait is not None:
            here = np.full(count, lane)
            stale |= wait.holds(before, here) == wait.holds(np.repeat(value, count), here)
        told = np.flatnonzero(~stale | np.array([r.before is None for r in flag.releases]))
        return int(told[-1]) + 1 if len(told) else 0

    def _merged(self, flag: Flag, count: int) -> Far:
        """Return what the first releases of a flag say to other blocks, each taken in once."""
        folded, done, far = flag.merged
        if folded != flag.folded or done > count:
            folded, done, far = flag.folded, 0, flag.base
        done = max(done, _last_of_all(flag.releases[:count]))
        if fresh := [r for r in flag.releases[done:count] if r.scope == GRID]:
            far = joined(far, self._far_of(fresh), self.order.state.padded)
        flag.merged = folded, count, far
        return far


def shown(rows: np.ndarray, plane: int) -> np.ndarray:
    """Return of what a warp knows what fences of a plane came after."""
    return np.minimum(rows, np.minimum(rows[plane], rows[GENERIC]))


def _last_of_all(releases: Sequence[Release]) -> int:
    """Return the index of the last release that passes on what all before it do; 0: there is none."""
    return next((n for n in range(len(releases) - 1, 0, -1) if releases[n].of_all), 0)
