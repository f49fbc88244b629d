"""The events of a launch: who watches memory, who knows what orders it (check/), and who counts, learn of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

import numpy as np

from ..ptx.syntax import Instruction
from .arrays import Texture
from .memory import GLOBAL_BASE, Access
from .observer import MemoryEvent, Observer
from .state import State


class Order(Protocol):
    """Who knows what comes before what; check/order.py says what each means."""

    def barrier(self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0) -> None: ...
    def warp_sync(self, threads: np.ndarray) -> None: ...
    def arrive(self, threads: np.ndarray, number: int) -> None: ...
    def release(self, key: Hashable, lanes: np.ndarray, relaxed: bool = False) -> None: ...
    def acquire(self, key: Hashable, lanes: np.ndarray) -> None: ...
    def phase_ends(self, key: Hashable) -> None: ...
    def fence(self, threads: np.ndarray, beyond_block: bool) -> None: ...
    def proxy_fence(self, threads: np.ndarray) -> None: ...


class SharedWatch(Protocol):
    """Who watches the shared memory of a batch."""

    boxes: Any

    def touch(self, access: Access, width: int, instruction: Instruction, kind: str) -> None: ...
    def async_read(
        self, access: Access, lanes: np.ndarray, width: int, instruction: Instruction, readers: np.ndarray | None = None
    ) -> int: ...
    def reading_ends(self, warps: np.ndarray, reader: int, time: int) -> None: ...
    def copy_begins(self, copy: Any) -> None: ...
    def copy_lands(self, copy: Any, places: np.ndarray | None) -> None: ...
    def store_begins(self, store: Any) -> None: ...
    def store_ends(self, store: Any) -> None: ...
    def object_made(self, at: int, lane: int, instruction: Instruction) -> None: ...
    def init_fence(self, threads: np.ndarray) -> None: ...
    def block_ends(self, block: int, lane: int) -> None: ...
    def finish(self) -> None: ...


class GlobalWatch(Protocol):
    """Who watches the global memory of a launch."""

    maps: Any

    def touch(self, access: Access, width: int, instruction: Instruction, kind: str, bulk: bool = False) -> None: ...
    def fetched(self, instruction: Instruction, lanes: np.ndarray, at: np.ndarray) -> None: ...


class DefinedWatch(Protocol):
    """Who knows what is undefined; check/defined.py says what each means."""

    local: Any
    shared: Any
    storing: Any

    def touch(self, access: Access, width: int, instruction: Instruction, kind: str) -> None: ...
    def stored(self, access: Access, instruction: Instruction) -> None: ...
    def overwritten(self, access: Access, width: int) -> None: ...
    def passed(self, source: np.ndarray | None, target: np.ndarray) -> None: ...
    def read(
        self, access: Access, i: Instruction, masks: list[np.ndarray], memory: str, place: Callable[[int], str]
    ) -> None: ...


class Events:
    """Passes events on to those who watch and those who count."""

    defined: DefinedWatch  # who knows what is undefined

    def __init__(self, state: State) -> None:
        self.state = state
        self.order: Order | None = None  # who knows what comes before what,
        self.flags: Any = None  # and what hands over,
        self.shared: SharedWatch | None = None  # who watches shared memory,
        self.global_memory: GlobalWatch | None = None  # and who global memory,
        self.watched: set[int] = set()  # of the instructions at these places
        self.observers: tuple[Observer, ...] = ()
        self.silent = False  # whether accesses are kept from the observers

    def subscribe(
        self,
        order: Order | None,
        flags: Any,
        shared: SharedWatch | None,
        global_memory: GlobalWatch | None,
        watched: set[int],
    ) -> None:
        """Set who watches a batch, and the global accesses to watch; None: nothing is watched any more."""
        self.order, self.shared, self.global_memory = order, shared, global_memory
        self.flags = None if order is None else flags
        self.watched = watched if global_memory else set()

    # to observers

    def memory(self, instruction: Instruction, space: str, kind: str, width: int, access: Access) -> None:
        """Threads access memory by the load/store unit."""
        if not self.silent:
            for observer in self.observers:
                observer.memory(MemoryEvent(self.state, instruction, space, kind, width, access))

    def bulk(
        self, access: Access, width: int, instruction: Instruction, kind: str, parts: Iterable[Access] = ()
    ) -> None:
        """Bulk copies read, write or reduce into global memory; `parts`: each of them, where there are several."""
        if self.global_memory is not None and instruction.pc in self.watched:
            self.global_memory.touch(access, width, instruction, kind, bulk=True)
        if self.observers:
            for part in parts or (access,):
                for observer in self.observers:
                    observer.bulk(instruction, part, width, kind)

    def fetched(self, instruction: Instruction, texture: Texture, lanes: np.ndarray, index: np.ndarray) -> None:
        """Threads fetch from a texture."""
        if self.global_memory is not None and isinstance(texture, Texture):
            inside = (index >= 0) & (index < texture.elements)
            at = texture.address - GLOBAL_BASE + index[inside].astype(np.int64) * texture.element_bytes
            self.global_memory.fetched(instruction, np.asarray(lanes)[inside], at)
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

    # accesses and copies of shared memory

    def async_read(
        self, access: Access, lanes: np.ndarray, width: int, instruction: Instruction, readers: np.ndarray | None = None
    ) -> int:
        """The asynchronous proxy (a wgmma, a bulk copy) reads shared memory for these lanes, or for the warps
        `readers` (their numbers in the batch). The time; 0 where it is not watched."""
        return 0 if self.shared is None else self.shared.async_read(access, lanes, width, instruction, readers)

    def read_by_pattern(self, access: Access, row: int, instruction: Instruction, base: int = 0) -> None:
        """A wgmma reads its operand with a swizzle, in bytes; 16: none. `base`: the row that it counts as the first."""
        if self.shared is not None:
            self.shared.boxes.read_by_pattern(access, row, instruction, base)

    def reading_ends(self, warps: np.ndarray, reader: int, time: int) -> None:
        """Warps know that what the wgmma of a warp, `reader`, began to read up to some time is over."""
        if self.shared is not None:
            self.shared.reading_ends(warps, reader, time)

    def copy_begins(self, copy: Any) -> None:
        """A copy to shared memory is issued (`copies.Copy`): it may be written from now on."""
        self.defined.overwritten(copy.access, copy.width)
        if self.shared is not None:
            self.shared.copy_begins(copy)

    def copy_lands(self, copy: Any, places: np.ndarray | None) -> None:
        """The data of a copy arrive: of all its lanes, or of those at these places."""
        if self.shared is not None:
            self.shared.copy_lands(copy, places)

    def store_begins(self, store: Any) -> None:
        """A bulk store is issued (`bulk_groups.Store`), which has just read its source."""
        if self.shared is not None:
            self.shared.store_begins(store)

    def store_ends(self, store: Any) -> None:
        """The thread of a bulk store waited until its source had been read."""
        if self.shared is not None:
            self.shared.store_ends(store)

    def box_stored(self, access: Access, instruction: Instruction, box: str) -> None:
        """A tensor store reads a box from shared memory: its elements, those outside of the tensor included."""
        if self.shared is not None:
            self.shared.boxes.box_stored(access, instruction, box)

    # what orders accesses

    def barrier(self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0) -> None:
        if self.order is not None:
            self.order.barrier(done, threads, number)

    def warp_sync(self, threads: np.ndarray) -> None:
        if self.order is not None:
            self.order.warp_sync(threads)

    def arrive(self, threads: np.ndarray, number: int) -> None:
        if self.order is not None:
            self.order.arrive(threads, number)

    def release(self, key: Hashable, lanes: np.ndarray, relaxed: bool = False) -> None:
        if self.order is not None:
            self.order.release(key, lanes, relaxed)

    def acquire(self, key: Hashable, lanes: np.ndarray) -> None:
        if self.order is not None:
            self.order.acquire(key, lanes)

    def phase_ends(self, key: Hashable) -> None:
        if self.order is not None:
            self.order.phase_ends(key)

    def fence(self, threads: np.ndarray, beyond_block: bool) -> None:
        if self.order is not None:
            self.order.fence(threads, beyond_block)

    def proxy_fence(self, threads: np.ndarray) -> None:
        if self.order is not None:
            self.order.proxy_fence(threads)

    def init_fence(self, threads: np.ndarray) -> None:
        """Threads execute a fence that makes the mbarriers they initialised visible to other proxies and blocks."""
        if self.order is not None:
            self.order.fence(threads, beyond_block=True)
        if self.shared is not None:
            self.shared.init_fence(threads)

    def object_made(self, at: int, lane: int, instruction: Instruction) -> None:
        """A lane initialises the mbarrier at a place."""
        if self.shared is not None:
            self.shared.object_made(at, lane, instruction)

    def found_there(self, access: Access, values: np.ndarray) -> None:
        """The values that the threads of an atomic operation found, each in its turn."""
        if self.flags is not None:
            self.flags.found_there(access, values)

    # tensor maps in global memory

    def map_changed(self, address: int, lane: int, instruction: Instruction, released: bool = False) -> None:
        """A lane changes a tensor map; `released`: by a copy that is a release fence itself."""
        if self.global_memory is not None:
            self.global_memory.maps.changed(address, lane, instruction, released)

    def map_fence(self, threads: np.ndarray, addresses: np.ndarray | None) -> None:
        """Threads execute a tensormap proxy fence: an acquire of the maps at `addresses`, by lane, or a release."""
        if self.global_memory is None:
            return
        if addresses is None:
            self.global_memory.maps.release(threads)
            return
        for lane in np.flatnonzero(threads).tolist():
            self.global_memory.maps.acquire(int(addresses[lane]), lane)

    def map_used(self, address: int, lane: int, instruction: Instruction) -> None:
        """A lane copies by the tensor map at a global address."""
        if self.global_memory is not None:
            self.global_memory.maps.used(address, lane, instruction)

    # ends

    def block_ends(self, block: int, lane: int) -> None:
        """The last thread of a block (the lane's) ends."""
        if self.shared is not None:
            self.shared.block_ends(block, lane)

    def finish(self) -> None:
        """The batch ends."""
        if self.shared is not None:
            self.shared.finish()
