"""What comes before what: one happens-before relation over the threads, warps and asynchronous
readers of a grid.

Each warp has a vector clock (FastTrack, Flanagan and Freund, 2009): until when what each thread did
comes before what the warp does next. There is one time for all, `now`, which goes on at every edge;
an access is an agent and a time, its epoch. An edge is something that CUDA itself calls order,
never the order in which the emulator happened to run:

- A barrier of a block, or of a part of one, joins what its threads know, and what they did; so does
  a warp's.
- An arrival at an mbarrier, or at a cluster's barrier, leaves there what the thread knows and did,
  and who sees the phase end takes it. A relaxed arrival leaves only what a fence came after.
- A strong store or atomic leaves something at the flag that it writes, and a strong load takes it:
  see flags.py.
- A bulk copy writes for its mbarrier, and a bulk store or wgmma reads for its warp: agents of their
  own, of which a warp knows once it has seen the phase end, or waited for the group.
- A proxy fence shows what is known to the asynchronous proxy. Launches are ordered as a whole.

What one lane learns its warp knows; what a lane did its warp knows after a barrier of the warp.

Of barriers of whole blocks and warps alone a clock is no more than two numbers, when the block and
the warp last passed one. Rows of clocks (`known`: a time for each agent of the cluster) are made
when something else orders accesses. What is known of other clusters is a `Clock`. There are these
planes: what comes before; of that, what a proxy fence came after; what a fence came after, of any
scope, of the cluster's or more and of the device's, which is all that a relaxed operation passes on
to its block, cluster and the others; and what relaxed reads saw, of all and of releases of the own
cluster, which comes before only after a fence. What relies on that alone is noted, once for each
such read. A program without fences of the cluster's scope has no rows of its own for these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..machine.state import State
from ..machine.values import distinct
from ..ptx.syntax import Instruction
from .clocks import EMPTY, Clock

WARP = 32
# A cluster's rows have room for this many mbarriers at first.
OBJECTS = 16
GENERIC, ASYNC, FENCED_BLOCK, FENCED, RELAXED, FENCED_CLUSTER, RELAXED_CLUSTER = range(7)
BLOCK, CLUSTER, GRID = range(3)
SCOPES = {"cta": BLOCK, "cluster": CLUSTER}
# A warp's knowledge of other clusters is one clock for each plane.
Far = tuple[Clock, ...]
NOWHERE: Far = (EMPTY,) * 7


class Pending(Protocol):
    """Accesses that are noted, to be examined before the clocks change."""

    def examine(self, everybody: bool) -> None:
        """`everybody`: all threads of the batch are about to pass a barrier of their block."""


@dataclass
class Left:
    """What arrivals left at a barrier: rows of the cluster, and what is known of others."""

    row: np.ndarray
    far: Far


class Order:
    """The clocks of a launch, and of the batch of blocks that runs."""

    def __init__(self, state: State, cluster_fences: bool) -> None:
        """`cluster_fences`: whether the program has fences of the cluster's scope."""
        self.state, self.now = state, 1
        # `planes` counts the planes of rows; `cluster_plane` is that of fences of the cluster's
        # scope or more.
        self.planes = FENCED_CLUSTER + cluster_fences
        self.cluster_plane = FENCED_CLUSTER if cluster_fences else FENCED
        # `changes` counts the changes of all clocks.
        self.changes = 0
        # `fences` is true once a thread has executed a fence.
        self.fences = False
        # `relaxed` holds, by block of the grid, the last relaxed read by which the block learnt
        # something.
        self.relaxed: dict[int, Instruction] = {}
        self.note_relaxed: Callable[[Instruction], None] = lambda read: None

    def start(self) -> None:
        """Begin a batch."""
        state = self.state
        self.pending: Pending | None = None
        # `passed` holds the time at which each block last passed a barrier.
        self.passed = np.zeros(len(state.blocks), np.int64)
        self.warp_passed = np.zeros(state.warps, np.int64)
        # `acquired` holds the time at which each warp last learnt something of other blocks.
        self.acquired = np.zeros(state.warps, np.int64)
        # The agents of a cluster are its threads, then for each warp one that reads for its wgmma
        # and one that reads for its bulk stores, then its mbarriers.
        self.threads = state.cluster_lanes
        self.warps = self.threads // WARP
        self.copiers = self.threads + 2 * self.warps
        self.width = self.copiers + OBJECTS
        # `row_of` holds the index at which the row of each lane's warp begins.
        self.row_of = np.repeat(np.arange(state.warps) * self.width, WARP)
        # `known` has shape [plane, warp, agent].
        self.known: np.ndarray | None = None
        # `objects` holds the agent of each mbarrier, by address.
        self.objects: dict[int, int] = {}
        # `used` counts the mbarriers of each cluster.
        self.used: dict[int, int] = {}
        # `far` holds, by warp, what it knows of other clusters and learnt at flags.
        self.far: dict[int, Far] = {}
        # These are the blocks of which a warp knows more than the others.
        self.news: set[int] = set()
        # `left` holds what was left by barrier and, under ("over", barrier), by phases that ended.
        self.left: dict[Hashable, Left] = {}
        lane = np.arange(state.lanes)
        self.agent_of, self.warp_of = lane % self.threads, lane // WARP
        # `column_of` holds the lane's warp within its cluster.
        self.block_of, self.column_of = lane // state.padded, self.agent_of // WARP
        blocks = np.asarray(state.blocks)
        self.sorted = np.argsort(blocks, kind="stable")
        self.sorted_blocks = blocks[self.sorted]
        self.tick()

    def tick(self) -> None:
        """Advance the time: what happened so far is over."""
        self.now += 1
        self.changes += 1

    # agents

    def lanes_of(self, threads: np.ndarray) -> np.ndarray:
        """Return the lanes of the batch that threads, by their number in the grid, have; -1 where
        they run no more.
        """
        padded = self.state.padded
        block = threads // padded
        index = np.minimum(np.searchsorted(self.sorted_blocks, block), len(self.sorted_blocks) - 1)
        lane = self.sorted[index] * padded + threads % padded
        return np.where(self.sorted_blocks[index] == block, lane, -1)

    def copier(self, at: int, part: int) -> int:
        """Return the agent that writes for the mbarrier at an address; `part`: bytes of a cluster's
        shared memory.
        """
        agent = self.objects.get(at)
        if agent is None:
            known = self.rows()
            number = self.used[at // part] = self.used.get(at // part, 0) + 1
            agent = self.objects[at] = self.copiers + number - 1
            if agent >= self.width:
                more = np.zeros((*known.shape[:2], OBJECTS), np.int32)
                self.known = np.concatenate([known, more], axis=2)
                self.width += OBJECTS
                self.row_of = self.warp_of * self.width
        return agent

    def rows(self) -> np.ndarray:
        """Return the rows of the batch's warps, made when they are first needed, of what barriers
        said until then.
        """
        if self.known is None:
            state = self.state
            self.known = np.zeros((self.planes, state.warps, self.width), np.int32)
            self._pass(np.arange(len(state.blocks)), self.passed)
            synced = self.warp_passed[self.warp_of].astype(np.int32)
            known = self.known[GENERIC]
            known[self.warp_of, self.agent_of] = np.maximum(
                known[self.warp_of, self.agent_of], synced
            )
        return self.known

    def _pass(self, blocks: np.ndarray, times: np.ndarray | int) -> None:
        """Let warps of whole blocks know of all threads of these up to a time."""
        if self.known is None:
            return
        state = self.state
        per_block, padded, size = state.padded // WARP, state.padded, state.cluster_size
        known = self.known[GENERIC].reshape(len(state.blocks), per_block, self.width)
        times = np.broadcast_to(times, len(blocks))
        for rank in range(size):
            here = blocks % size == rank
            known[blocks[here], :, rank * padded : (rank + 1) * padded] = times[here, None, None]

    def what_warps_know(self, warps: np.ndarray) -> np.ndarray:
        """Return the rows [plane, warp, agent] of some warps."""
        return self.rows()[:, warps]

    def what_lanes_know(self, lanes: np.ndarray) -> np.ndarray:
        """Return the vector clock of some lanes of a cluster: what they know and what they did."""
        row = self.what_warps_know(distinct(self.warp_of[lanes])).max(axis=1)
        row[GENERIC, self.agent_of[lanes]] = self.now
        return row

    def what_fences_show(self, lanes: np.ndarray, plane: int) -> np.ndarray:
        """Return what relaxed operations of some lanes of a cluster pass on: what a fence came
        after, by its plane. Of a fence of another lane these know as of what that did."""
        rows = self.what_warps_know(distinct(self.warp_of[lanes]))
        fenced = np.minimum(rows[plane], rows[GENERIC]).max(axis=0)
        agents = self.agent_of[lanes]
        fenced[agents] = self.rows()[plane, self.warp_of[lanes], agents]
        row = np.minimum(rows.max(axis=1), fenced)
        row[GENERIC] = fenced
        return row

    def learn(
        self,
        warps: np.ndarray,
        row: np.ndarray,
        far: Far = NOWHERE,
        relaxed: Instruction | None = None,
    ) -> None:
        """Let warps of a cluster take what was left for them, or see it by a relaxed read."""
        known, width = self.rows(), row.shape[1]
        if relaxed is not None:
            seen, taken = np.maximum(row[GENERIC], row[RELAXED]), row
            row = np.zeros_like(taken)
            row[ASYNC], row[RELAXED] = taken[ASYNC], seen
            self._saw(warps, relaxed)
        known[:, warps, :width] = np.maximum(known[:, warps, :width], row[:, None])
        self.learn_far(warps, far)
        self.news.update((warps * WARP // self.state.padded).tolist())
        self.changes += 1

    def _saw(self, warps: np.ndarray, read: Instruction) -> None:
        blocks = distinct(self.block_of[warps * WARP])
        self.relaxed.update(dict.fromkeys(np.asarray(self.state.blocks)[blocks].tolist(), read))

    def learn_far(
        self,
        warps: np.ndarray,
        far: Far,
        relaxed: Instruction | None = None,
        beside: bool = False,
    ) -> None:
        """Let warps learn of other clusters, or see that by a relaxed read; `beside`: from a block of
        their own cluster."""
        if far is NOWHERE:
            return
        padded = self.state.padded
        if relaxed is not None:
            seen = far[GENERIC].joined(far[RELAXED], padded)
            near = seen if beside else EMPTY
            far = (EMPTY, far[ASYNC], EMPTY, EMPTY, seen, EMPTY, near)
            self._saw(warps, relaxed)
        for warp in warps.tolist():
            self.far[warp] = joined(self.far.get(warp, NOWHERE), far, padded)
        self.acquired[warps] = self.now
        self.news.update((warps * WARP // padded).tolist())
        self.changes += 1

    def far_of(self, warps: np.ndarray) -> Far:
        """Return what some warps know of other clusters, together."""
        far = NOWHERE
        if self.far:
            for warp in warps.tolist():
                far = joined(far, self.far.get(warp, NOWHERE), self.state.padded)
        return far

    # edges

    def examine(self, everybody: bool = False) -> None:
        """Examine the accesses so far, as the clocks are about to change."""
        if self.pending is not None:
            self.pending.examine(everybody)

    def barrier(
        self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0
    ) -> None:
        """Let blocks pass a barrier: all of them, or those marked; `threads`: those that took part,
        if not all."""
        state = self.state
        whole = np.ones(len(state.blocks), bool) if done is None else done.copy()
        if done is not None and threads is not None:
            absent = state.alive & ~threads
            whole &= np.bincount(self.block_of[absent], minlength=len(whole)) == 0
        self.examine(everybody=bool(whole.all()))
        if done is not None and threads is not None:
            for block in (done & ~whole).nonzero()[0].tolist():
                self._partial(
                    threads[self._lanes(block)].nonzero()[0] + block * state.padded, block, number
                )
        self.passed[whole] = self.now
        self._pass(whole.nonzero()[0], self.now)
        if self.news:
            for block in [block for block in self.news if whole[block]]:
                self._share(block)
        self.tick()

    def _lanes(self, block: int) -> slice:
        return slice(block * self.state.padded, (block + 1) * self.state.padded)

    def _partial(self, lanes: np.ndarray, block: int, number: int) -> None:
        """Let a part of a block pass a barrier, with those that arrived there and did not wait."""
        warps = distinct(self.warp_of[lanes])
        row, far = self.what_lanes_know(lanes), self.far_of(warps)
        left = self.left.pop((block, number), None)
        if left is not None:
            row, far = wider(row, left.row), joined(far, left.far, self.state.padded)
        self.learn(warps, row, far)

    def _share(self, block: int) -> None:
        """Let all warps of a block know what one of them does."""
        self.news.discard(block)
        per_block = self.state.padded // WARP
        warps = slice(block * per_block, (block + 1) * per_block)
        if self.known is not None:
            self.known[:, warps] = self.known[:, warps].max(axis=1, keepdims=True)
        everyone = np.arange(warps.start, warps.stop)
        far = self.far_of(everyone)
        if far is not NOWHERE:
            self.far.update(dict.fromkeys(everyone.tolist(), far))
        self.acquired[warps] = self.acquired[warps].max()

    def warp_sync(self, threads: np.ndarray) -> None:
        """Let the warps of these threads pass a barrier of their own."""
        self.examine()
        here = threads.reshape(-1, WARP)
        whole = here.any(axis=1) & ~(self.state.alive.reshape(-1, WARP) & ~here).any(axis=1)
        if self.known is None and (whole == here.any(axis=1)).all():
            self.warp_passed[whole] = self.now
        else:
            lanes = threads.nonzero()[0]
            self.rows()[GENERIC, self.warp_of[lanes], self.agent_of[lanes]] = self.now
            self.news.update(distinct(self.block_of[lanes]).tolist())
        self.tick()

    def arrive(self, threads: np.ndarray, number: int) -> None:
        """Let threads arrive at a barrier of their block for which they do not wait."""
        lanes = threads.nonzero()[0]
        for block in distinct(self.block_of[lanes]).tolist():
            self.release((block, number), lanes[self.block_of[lanes] == block])

    def release(self, key: Hashable, lanes: np.ndarray, relaxed: bool = False) -> None:
        """Lanes of one cluster arrive at an mbarrier, or the cluster's barrier: what they did comes
        before what those do who see its phase end; relaxed, only what came before a fence of
        theirs."""
        self.examine()
        warps = distinct(self.warp_of[lanes])
        if relaxed:
            plane = FENCED_BLOCK if self.state.cluster_size == 1 else self.cluster_plane
            row, far = self.what_fences_show(lanes, plane), narrowed(self.far_of(warps), plane)
        else:
            row, far = self.what_lanes_know(lanes), self.far_of(warps)
        self.leave(key, row, far)
        self.tick()

    def leave(self, key: Hashable, row: np.ndarray, far: Far = NOWHERE) -> None:
        """Leave a row at a barrier."""
        left = self.left.get(key)
        if left is None:
            self.left[key] = Left(row, far)
        else:
            left.row, left.far = wider(left.row, row), joined(left.far, far, self.state.padded)

    def phase_ends(self, key: Hashable) -> None:
        """End the phase of a barrier: who sees that knows what the arrivals left."""
        left = self.left.pop(key, None)
        if left is not None:
            self.leave(("over", key), left.row, left.far)

    def acquire(self, key: Hashable, lanes: np.ndarray) -> None:
        """Note that lanes of one cluster have observed that a phase ended."""
        left = self.left.get(("over", key))
        if left is not None:
            self.examine()
            self.learn(distinct(self.warp_of[lanes]), left.row, left.far)

    def fence(self, threads: np.ndarray, scope_name: str) -> None:
        """Execute a fence of threads, of a scope by its name in PTX: relaxed operations now pass on
        what they know."""
        scope = SCOPES.get(scope_name, GRID)
        if self.relaxed:
            self._accept(threads, scope)
        planes = (FENCED_BLOCK, self.cluster_plane, FENCED)[: 1 + scope]
        for plane in dict.fromkeys(planes):
            self._raise_plane(threads, plane)
        self.fences = True
        self.tick()

    def proxy_fence(self, threads: np.ndarray) -> None:
        """Execute a proxy fence of threads: it orders loads and stores before what bulk copies and
        wgmma do."""
        self._raise_plane(threads, ASYNC)
        self.tick()

    def _raise_plane(self, threads: np.ndarray, plane: int) -> None:
        """Raise what the warps of these threads know, and what these did, to a plane."""
        self.examine()
        lanes = threads.nonzero()[0]
        warps, known = distinct(self.warp_of[lanes]), self.rows()
        known[plane, warps] = np.maximum(known[plane, warps], self.what_warps_know(warps)[GENERIC])
        known[plane, self.warp_of[lanes], self.agent_of[lanes]] = self.now
        if self.far:
            for warp in warps.tolist():
                if warp in self.far:
                    planes = list(self.far[warp])
                    planes[plane] = planes[GENERIC]
                    self.far[warp] = tuple(planes)
        self.news.update((warps * WARP // self.state.padded).tolist())

    def _accept(self, threads: np.ndarray, scope: int) -> None:
        """Accept what relaxed reads of the warps of these threads saw as coming before, from now
        on."""
        self.examine()
        warps, known = distinct(self.warp_of[threads]), self.rows()
        known[GENERIC, warps] = known[[GENERIC, RELAXED]][:, warps].max(axis=0)
        seen = RELAXED_CLUSTER if scope == CLUSTER else RELAXED
        for warp in warps.tolist() if scope > BLOCK else ():
            if warp in self.far:
                generic, *others = self.far[warp]
                self.far[warp] = (generic.joined(self.far[warp][seen], self.state.padded), *others)

    def reading_ends(self, warps: np.ndarray | int, agent: int, time: int) -> None:
        """Let warps know that what an asynchronous reader began to read up to some time is over."""
        known = self.rows()
        known[GENERIC, warps, agent] = np.maximum(known[GENERIC, warps, agent], time)
        self.news.update(distinct(np.atleast_1d(warps) * WARP // self.state.padded).tolist())
        self.changes += 1

    # questions

    def apart(self, blocks: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the scope that it takes to hold each two blocks of the grid; -1: several blocks,
        which may be of one cluster."""
        scopes = np.where(blocks == others, BLOCK, GRID)
        if self.state.cluster_size > 1:
            beside = self._cluster_of(blocks) == self._cluster_of(others)
            scopes = np.where((scopes == GRID) & (beside | (others < 0)), CLUSTER, scopes)
        return scopes

    def _cluster_of(self, blocks: np.ndarray) -> np.ndarray:
        """Return a number for the cluster of each block of the grid."""
        (width, height, _), (x, y, z) = self.state.grid, self.state.cluster
        rows, columns = blocks // width, blocks % width
        return (rows // height // z * height + rows % height // y) * width + columns // x

    def before(
        self, lanes: np.ndarray, agents: np.ndarray | int, times: np.ndarray, plane: int = GENERIC
    ) -> np.ndarray:
        """Return, for each lane, whether what an agent of its cluster did at a time comes before
        what it does now. `agents`: one for each lane, or one for all."""
        good = self.near(lanes, agents, times, plane)
        if self.far and not good.all():
            agents = np.broadcast_to(agents, lanes.shape)
            indices = (~good & (agents < self.threads)).nonzero()[0]
            others = lanes[indices] // self.threads * self.threads + agents[indices]
            good[indices] = self._far(
                lanes[indices], self.state.thread_numbers[others], times[indices], plane
            )
        if self.relaxed and plane == GENERIC and not good.all():
            self._rely(good, lanes, self.before(lanes, agents, times, RELAXED))
        return good

    def _rely(self, good: np.ndarray, lanes: np.ndarray, seen: np.ndarray) -> None:
        """Let lanes go by what relaxed reads saw where nothing else orders them."""
        for block in distinct(
            self.state.thread_numbers[lanes[seen & ~good]] // self.state.padded
        ).tolist():
            self.note_relaxed(self.relaxed_read(block))
        good |= seen

    def relaxed_read(self, block: int) -> Instruction:
        """Return the relaxed read by which a block of the grid learnt something last."""
        return self.relaxed.get(block) or next(iter(self.relaxed.values()))

    def before_warp(self, lanes: np.ndarray, warp: int, times: np.ndarray) -> np.ndarray:
        """Return whether what all threads of a warp of the cluster did up to a time is known to
        come before; fewer may.
        """
        warps = self.warp_of.take(lanes)
        if self.known is None:
            return self.near(lanes, np.full(len(lanes), warp * WARP), times, GENERIC)
        known = self.known[GENERIC, :, warp * WARP : (warp + 1) * WARP]
        if len(lanes) and (warps == warps[0]).all():
            return times <= known[warps[0]].min()
        return times <= known.min(axis=1)[warps]

    def before_across(
        self, lanes: np.ndarray, threads: np.ndarray, times: np.ndarray, plane: int = GENERIC
    ) -> np.ndarray:
        """Return the same as `before` for threads given by their numbers in the grid."""
        good = self.across(lanes, threads, times, plane)
        if self.relaxed and plane == GENERIC and not good.all():
            self._rely(good, lanes, self.across(lanes, threads, times, RELAXED))
        return good

    def across(
        self, lanes: np.ndarray, threads: np.ndarray, times: np.ndarray, plane: int = GENERIC
    ) -> np.ndarray:
        """Return the same as `before_across`, without regard to relaxed reads, and notes on them."""
        others = self.lanes_of(threads)
        near = (others >= 0) & (others // self.threads == lanes // self.threads)
        if near.all():
            good = self.near(lanes, self.agent_of[others], times, plane)
        else:
            good = near.copy()
            good[near] = self.near(lanes[near], self.agent_of[others[near]], times[near], plane)
        if self.far and not good.all():
            indices = (~good).nonzero()[0]
            good[indices] = self._far(lanes[indices], threads[indices], times[indices], plane)
        return good

    def near(
        self, lanes: np.ndarray, agents: np.ndarray | int, times: np.ndarray, plane: int = GENERIC
    ) -> np.ndarray:
        """Return the same as `before`, as far as the rows of the cluster, or barriers of the block
        and warp, say."""
        if self.known is not None:
            return times <= self.known[plane].reshape(-1).take(self.row_of.take(lanes) + agents)
        if plane != GENERIC:
            return np.zeros(len(lanes), bool)
        acting, padded = self.agent_of.take(lanes), self.state.padded
        good = (acting // padded == agents // padded) & (
            times <= self.passed.take(self.block_of.take(lanes))
        )
        return good | (acting // WARP == agents // WARP) & (
            times <= self.warp_passed.take(self.warp_of.take(lanes))
        )

    def _far(
        self, lanes: np.ndarray, threads: np.ndarray, times: np.ndarray, plane: int
    ) -> np.ndarray:
        good, warps = np.zeros(len(lanes), bool), self.warp_of[lanes]
        # Each clock is held with the warps that have it.
        held: dict[int, tuple[Clock, list[int]]] = {}
        for warp in distinct(warps).tolist():
            clock = self.far.get(warp, NOWHERE)[plane]
            if clock:
                held.setdefault(id(clock), (clock, []))[1].append(warp)
        for clock, those in held.values():
            here = np.isin(warps, those).nonzero()[0]
            good[here] = clock.knows(threads[here], times[here], self.state.padded)
        return good


def wider(row: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the elementwise maximum of two rows, of which an older one may be shorter."""
    long, short = (row, other) if row.shape[1] >= other.shape[1] else (other, row)
    result = long.copy()
    result[:, : short.shape[1]] = np.maximum(result[:, : short.shape[1]], short)
    return result


def joined(far: Far, other: Far, padded: int) -> Far:
    """Return what both know, plane by plane; one of them where that says it all."""
    if far is other or other is NOWHERE:
        return far
    if far is NOWHERE:
        return other
    # Planes are often the same clocks, which are joined once.
    made: dict[tuple[int, int], Clock] = {}
    planes = []
    for x, y in zip(far, other, strict=True):
        if (id(x), id(y)) not in made:
            made[id(x), id(y)] = x.joined(y, padded)
        planes.append(made[id(x), id(y)])
    for known in (far, other):
        if all(a is b for a, b in zip(planes, known, strict=True)):
            return known
    return tuple(planes)


def narrowed(far: Far, plane: int) -> Far:
    """Return what a relaxed operation passes on: what is in a plane of fences."""
    visible = far[plane]
    if not visible:
        return NOWHERE
    asynchronous = far[ASYNC] if far[ASYNC] is visible else EMPTY
    fenced = far[FENCED_BLOCK], far[FENCED]
    return (visible, asynchronous, *fenced, EMPTY, far[FENCED_CLUSTER], EMPTY)
