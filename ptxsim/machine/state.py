"""The threads of a batch of blocks: which there are, which of them act, where they stand, what
their registers hold.

A lane is an element of an array: one thread of the batch. Registers are slots of a list, each an
array of all lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from ..ptx.program import align_up
from ..ptx.sizes import Dim3

WARP = 32
Number = TypeVar("Number", int, np.ndarray)
# Between launches, a register holds nothing.
NOTHING = np.zeros(0, np.uint32)


def split(number: Number, sizes: Sequence[int]) -> tuple[Number, Number, Number]:
    """Return a linear number as x, y and z of a grid of these sizes."""
    return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])


def component(number: Number, sizes: Sequence[int], axis: int) -> Number:
    """Return x, y or z (0 to 2) of a linear number in a grid of these sizes."""
    below = math.prod(sizes[:axis])
    number = number // below if below > 1 else number
    return number % sizes[axis] if axis < 2 else number


class State:
    """The state of a running batch, which all parts of the machine share."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    # A block has `threads`; `padded` rounds up to whole warps.
    threads: int
    padded: int
    cluster_size: int
    cluster_lanes: int
    # `blocks` are linear numbers in the grid.
    blocks: np.ndarray
    # `by_block` is true where warps are counted by block.
    by_block: bool
    lanes: int
    warps: int
    # Each lane has its number in the block, the index of its block in `blocks`, the rank of that in
    # the cluster, and its number in the grid.
    thread_of: np.ndarray
    block_of: np.ndarray
    rank: np.ndarray
    thread_numbers: np.ndarray
    alive: np.ndarray
    exited: np.ndarray
    # `count` threads act; `whole` is true where these are all that live.
    count: int
    whole: bool
    # `wrapped` marks threads that have used an index that wrapped.
    wrapped: np.ndarray | None
    # Where threads meet at an atomic, `turns` says when each lane has its turn; None means in
    # order.
    turns: np.ndarray | None

    def __init__(self, slots: int) -> None:
        self.registers: list[np.ndarray] = [NOTHING] * slots
        # An instruction writes registers of the threads in `mask`, or of all.
        self.mask: np.ndarray | None = None
        # `active` marks the threads that act; None means every lane.
        self.active: np.ndarray | None = None
        # `groups` has threads that can go on, by the pc where they do.
        self.groups: dict[int, np.ndarray] = {}

        # Batches of one layout have the same threads.
        self._layout = (0, 0, 0)

    def new_slot(self) -> int:
        """Allocate a slot for another register."""
        self.registers.append(NOTHING)
        return len(self.registers) - 1

    def prepare(self, grid: Dim3, block: Dim3, cluster: Dim3) -> None:
        """Begin a launch."""
        self.grid, self.block, self.cluster = grid, block, cluster
        self.threads, self.cluster_size = math.prod(block), math.prod(cluster)
        self.padded = align_up(self.threads, WARP)
        self.cluster_lanes = self.cluster_size * self.padded

    def start(self, blocks: np.ndarray, by_block: bool, backwards: bool) -> None:
        """Begin a batch of these blocks; `backwards`: see `turns`."""
        self.blocks, self.by_block = blocks, by_block
        self.lanes = len(blocks) * self.padded
        self.warps = self.lanes // WARP
        if self._layout != (len(blocks), self.padded, self.cluster_size):
            self._layout = len(blocks), self.padded, self.cluster_size
            self.thread_of = np.tile(np.arange(self.padded), len(blocks))
            self.block_of = np.repeat(np.arange(len(blocks)), self.padded)
            # Blocks of a batch stand in the order of their ranks.
            self.rank = self.block_of % self.cluster_size
        self.thread_numbers = np.asarray(blocks)[self.block_of] * self.padded + self.thread_of
        self.alive = self.thread_of < self.threads
        self.exited, self.wrapped = np.zeros(self.lanes, bool), None
        self.turns = None
        if backwards:
            self.turns = self.block_of * self.padded + (self.padded - 1 - self.thread_of)
        self._counted: np.ndarray | None = None
        self._warps_of: np.ndarray | None = None

    def release(self) -> None:
        """Let go of the memory of a launch."""
        self.registers[:] = [NOTHING] * len(self.registers)

    def uniform(self, value: np.generic) -> np.ndarray:
        """Return an array with one value for every lane, which is stored once."""
        return np.broadcast_to(value, self.lanes)

    # which threads act

    def join(self, pc: int, threads: np.ndarray) -> None:
        """Put threads at a pc."""
        waiting = self.groups.get(pc)
        self.groups[pc] = threads if waiting is None else waiting | threads

    def enter(self, threads: np.ndarray) -> None:
        """Make these the active threads."""
        self.count = int(np.count_nonzero(threads))
        self.whole = self.count == self.alive_count()
        if self.whole:
            self.mask = None
            self.active = None if self.count == self.lanes else self.alive
        else:
            self.mask = self.active = threads

    @contextmanager
    def acting(self, threads: np.ndarray) -> Iterator[None]:
        """Make these the active threads within the context."""
        saved = self.mask, self.active, self.whole, self.count
        self.mask = self.active = threads
        self.whole, self.count = False, int(np.count_nonzero(threads))
        try:
            yield
        finally:
            self.mask, self.active, self.whole, self.count = saved

    def acting_lanes(self) -> np.ndarray:
        """Return the lanes of the active threads."""
        return np.arange(self.lanes) if self.active is None else self.active.nonzero()[0]

    def in_turns(self, lanes: np.ndarray) -> np.ndarray:
        """Return the indices of some lanes, in the order in which they meet at atomics."""
        return np.arange(len(lanes)) if self.turns is None else np.argsort(self.turns[lanes])

    def mask_of(self, lanes: np.ndarray | list[int]) -> np.ndarray:
        """These lanes as a mask."""
        mask = np.zeros(self.lanes, bool)
        mask[lanes] = True
        return mask

    def acting_mask(self) -> np.ndarray:
        """Return the active threads as a mask, of all lanes where all are."""
        return np.ones(self.lanes, bool) if self.active is None else self.active

    def living(self) -> np.ndarray:
        """Return the active threads that live, as a mask."""
        return self.alive if self.active is None else self.active

    def alive_count(self) -> int:
        """Return the number of live threads."""
        if self._counted is not self.alive:
            self._counted, self._alive_count = self.alive, int(np.count_nonzero(self.alive))
        return self._alive_count

    def end(self, threads: np.ndarray) -> None:
        """End these threads."""
        self.alive = self.alive & ~threads
        self.exited = self.exited | threads

    def active_warps(self) -> Any:
        """Return how many warps have an active thread; by block where an observer asks for that."""
        if self.active is None:
            return np.full(len(self.blocks), self.padded // WARP) if self.by_block else self.warps
        if self._warps_of is not self.active:
            self._warps_of, self._warp_count = self.active, self.warps_with(self.active)
        return self._warp_count

    def warps_with(self, threads: np.ndarray) -> Any:
        """Return how many warps have one of these threads; by block where an observer asks for
        that.
        """
        warps = threads.reshape(len(self.blocks), -1, WARP).any(axis=2)
        return warps.sum(axis=1) if self.by_block else int(np.count_nonzero(warps))

    def sum_of_warps(self, of_warps: np.ndarray) -> Any:
        """Return the sum of a number of each warp; by block where an observer asks for that."""
        by_block = of_warps.reshape(len(self.blocks), -1)
        return by_block.sum(axis=1) if self.by_block else int(of_warps.sum())

    # where a thread is

    def coordinates(self, lane: int) -> str:
        """Block and thread of a lane, in words."""
        return (
            f"block {self.block_index(lane)}, thread {self.thread_index(int(self.thread_of[lane]))}"
        )

    def thread_index(self, number: int) -> Dim3:
        """Return the index of a thread of the block by its number."""
        return split(number, self.block)

    def block_index(self, lane: int) -> Dim3:
        """Return the index of the block of a lane."""
        return self.grid_index(int(self.blocks[self.block_of[lane]]))

    def grid_index(self, number: int) -> Dim3:
        """Return the index of a block of the grid by its number."""
        return split(number, self.grid)

    def index_in_cluster(self, axis: int) -> np.ndarray:
        """Return for each lane its block's index in the cluster along an axis."""
        return split(self.rank, self.cluster)[axis]


class Calls:
    """Call stacks of a batch; of recursive programs, what the callers' registers hold."""

    # `depth` counts the calls that each lane is in, at most `limit`.
    depth: np.ndarray
    # What alloca gives each lane begins at `stack_top`, behind the frames in local memory.
    stack_top: np.ndarray
    stack_end: int
    limit: int

    def __init__(self) -> None:
        # `after_call` hands results over, by pc and function.
        self.after_call: dict[tuple[int, str], Callable[[], None]] = {}
        # For each depth, `return_to` says where the lanes return to.
        self.return_to: list[np.ndarray] = []
        # For each depth, `saved` has registers by function and slot.
        self.saved: list[dict[tuple[str, int], np.ndarray]] = []
        self.caller_at: list[np.ndarray] = []
        self.pending_return: np.ndarray | None = None

    def start(self, lanes: int, frames: int, stack: int, limit: int) -> None:
        """A batch begins. `frames`: bytes of local memory; `stack`: what alloca has beyond them."""
        self.depth = np.zeros(lanes, np.int64)
        self.stack_top = np.full(lanes, frames, np.int64)
        self.stack_end = frames + stack
        self.limit = limit
        self.release()

    def release(self) -> None:
        """Let go of the memory of a batch."""
        self.return_to, self.saved, self.caller_at, self.pending_return = [], [], [], None
