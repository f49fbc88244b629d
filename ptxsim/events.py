"""The events of a launch to which monitors, which check memory, and observers, which count, subscribe.

A monitor subscribes by being among `Events.monitors`, and takes the events that it knows what to do with.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from .arrays import Texture
from .memory import Access
from .observer import MemoryEvent, Observer
from .state import State
from .syntax import Instruction


class Monitor:
    """Base class of the monitors: it accepts every event and does nothing."""

    # accesses

    def touch(self, access: Access, width: int, instruction: Instruction, kind: str) -> None:
        """An access is about to happen."""

    def async_read(
        self,
        access: Access,
        lanes: np.ndarray,
        width: int,
        instruction: Instruction,
        readers: np.ndarray | None = None,
    ) -> int:
        """The asynchronous proxy (a wgmma, a bulk copy) reads shared memory for these lanes, or for the warps
        `readers` (their numbers in the batch). The time; 0 where it is not watched."""
        return 0

    def read_by_pattern(self, access: Access, row: int, instruction: Instruction) -> None:
        """A wgmma reads its operand with a swizzle, in bytes; 16: none."""

    def reading_ends(self, warps: np.ndarray, reader: int, time: int) -> None:
        """Warps know that what the wgmma of a warp, `reader`, began to read up to some time is over."""

    # copies and stores under way

    def copy_begins(self, copy: Any) -> None:
        """A copy to shared memory is issued (`copies.Copy`): it may be written from now on."""

    def copy_lands(self, copy: Any, places: np.ndarray | None) -> None:
        """The data of a copy arrive: of all its lanes, or of those at these places."""

    def store_begins(self, store: Any) -> None:
        """A bulk store is issued (`bulk_groups.Store`), which has just read its source."""

    def store_ends(self, store: Any) -> None:
        """The thread of a bulk store waited until its source had been read."""

    def box_stored(self, access: Access, instruction: Instruction, box: str) -> None:
        """A tensor store reads a box from shared memory: its elements, those outside of the tensor included."""

    # what orders accesses

    def barrier(self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0) -> None:
        """Blocks pass a barrier: all of the batch, or those marked; `threads`: those that take part, if not all."""

    def warp_sync(self, threads: np.ndarray) -> None:
        """The warps of these threads pass a barrier of their own."""

    def arrive(self, threads: np.ndarray, number: int) -> None:
        """Threads arrive at a barrier of their block for which they do not wait."""

    def release(self, key: Hashable, lanes: np.ndarray, relaxed: bool = False) -> None:
        """Lanes of one cluster arrive at an mbarrier, or the cluster's barrier: what they did comes before what those
        do who see its phase end; relaxed, only what came before a fence of theirs."""

    def acquire(self, key: Hashable, lanes: np.ndarray) -> None:
        """Lanes of one cluster have observed that the phase ended."""

    def phase_ends(self, key: Hashable) -> None:
        """The phase of a barrier ends, as all threads have arrived."""

    def fence(self, threads: np.ndarray, beyond_cluster: bool) -> None:
        """Threads execute a fence that reaches their cluster, or further."""

    def proxy_fence(self, threads: np.ndarray) -> None:
        """Threads execute a proxy fence: it orders loads and stores before what bulk copies and wgmma do."""

    def init_fence(self, threads: np.ndarray) -> None:
        """Threads execute a fence that makes the mbarriers they initialised visible to other proxies and blocks."""

    def object_made(self, at: int, lane: int, instruction: Instruction) -> None:
        """A lane initialises the mbarrier at a place."""

    # ends

    def block_ends(self, block: int, lane: int) -> None:
        """The last thread of a block (the lane's) ends."""

    def finish(self) -> None:
        """The batch ends."""


class Events(Monitor):
    """Passes events on to the monitors and observers that subscribed."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.shared: Monitor | None = None  # who watches shared memory,
        self.global_memory: Monitor | None = None  # and who global memory,
        self.watched: set[int] = set()  # of the instructions at these places
        self.monitors: tuple[Monitor, ...] = ()
        self.observers: tuple[Observer, ...] = ()
        self.silent = False  # whether accesses are kept from the observers

    def subscribe(self, shared: Monitor | None, global_memory: Monitor | None, watched: set[int]) -> None:
        """Set the monitors for a batch, and the global accesses to watch; None: nothing is watched any more."""
        self.shared, self.global_memory, self.watched = shared, global_memory, watched if global_memory else set()
        self.monitors = tuple(monitor for monitor in (shared, global_memory) if monitor is not None)

    # to observers

    def memory(self, instruction: Instruction, space: str, kind: str, width: int, access: Access) -> None:
        """Threads access memory by the load/store unit."""
        if not self.silent:
            for observer in self.observers:
                observer.memory(MemoryEvent(self.state, instruction, space, kind, width, access))

    def bulk(self, access: Access, width: int, instruction: Instruction, kind: str) -> None:
        """A bulk copy reads, writes or reduces into global memory."""
        if self.global_memory is not None and instruction.pc in self.watched:
            self.global_memory.touch(access, width, instruction, kind)
        for observer in self.observers:
            observer.bulk(instruction, access, width, kind)

    def fetched(self, instruction: Instruction, texture: Texture, lanes: np.ndarray, index: np.ndarray) -> None:
        """Threads fetch from a texture."""
        for observer in self.observers:
            observer.texture(instruction, texture, lanes, index)

    def operands(self, instruction: Instruction, lanes: np.ndarray, size: int) -> None:
        """A wgmma of these lanes [warpgroups, 128] has operands of `size` bytes each in shared memory."""
        state = self.state
        warpgroups: Any = len(lanes)
        if state.by_block:
            warpgroups = np.bincount(state.block_of[lanes[:, 0]], minlength=len(state.blocks))
        for observer in self.observers:
            observer.operands(instruction, warpgroups, size)

    # to monitors

    def async_read(
        self,
        access: Access,
        lanes: np.ndarray,
        width: int,
        instruction: Instruction,
        readers: np.ndarray | None = None,
    ) -> int:
        return 0 if self.shared is None else self.shared.async_read(access, lanes, width, instruction, readers)

    def read_by_pattern(self, access: Access, row: int, instruction: Instruction) -> None:
        for monitor in self.monitors:
            monitor.read_by_pattern(access, row, instruction)

    def reading_ends(self, warps: np.ndarray, reader: int, time: int) -> None:
        for monitor in self.monitors:
            monitor.reading_ends(warps, reader, time)

    def copy_begins(self, copy: Any) -> None:
        for monitor in self.monitors:
            monitor.copy_begins(copy)

    def copy_lands(self, copy: Any, places: np.ndarray | None) -> None:
        for monitor in self.monitors:
            monitor.copy_lands(copy, places)

    def store_begins(self, store: Any) -> None:
        for monitor in self.monitors:
            monitor.store_begins(store)

    def store_ends(self, store: Any) -> None:
        for monitor in self.monitors:
            monitor.store_ends(store)

    def box_stored(self, access: Access, instruction: Instruction, box: str) -> None:
        for monitor in self.monitors:
            monitor.box_stored(access, instruction, box)

    def barrier(self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0) -> None:
        for monitor in self.monitors:
            monitor.barrier(done, threads, number)

    def warp_sync(self, threads: np.ndarray) -> None:
        for monitor in self.monitors:
            monitor.warp_sync(threads)

    def arrive(self, threads: np.ndarray, number: int) -> None:
        for monitor in self.monitors:
            monitor.arrive(threads, number)

    def release(self, key: Hashable, lanes: np.ndarray, relaxed: bool = False) -> None:
        for monitor in self.monitors:
            monitor.release(key, lanes, relaxed)

    def acquire(self, key: Hashable, lanes: np.ndarray) -> None:
        for monitor in self.monitors:
            monitor.acquire(key, lanes)

    def phase_ends(self, key: Hashable) -> None:
        for monitor in self.monitors:
            monitor.phase_ends(key)

    def fence(self, threads: np.ndarray, beyond_cluster: bool) -> None:
        for monitor in self.monitors:
            monitor.fence(threads, beyond_cluster)

    def proxy_fence(self, threads: np.ndarray) -> None:
        for monitor in self.monitors:
            monitor.proxy_fence(threads)

    def init_fence(self, threads: np.ndarray) -> None:
        for monitor in self.monitors:
            monitor.init_fence(threads)

    def object_made(self, at: int, lane: int, instruction: Instruction) -> None:
        for monitor in self.monitors:
            monitor.object_made(at, lane, instruction)

    def block_ends(self, block: int, lane: int) -> None:
        for monitor in self.monitors:
            monitor.block_ends(block, lane)

    def finish(self) -> None:
        for monitor in self.monitors:
            monitor.finish()
