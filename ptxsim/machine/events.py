"""The events of a launch: who watches memory, who knows what orders it (check/), and who counts,
learn of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..ptx.syntax import Instruction
from .arrays import Texture
from .memory import GLOBAL_BASE, Access
from .observer import MemoryEvent, Observer
from .state import State


class Nobody:
    """Stands where nobody watches, with whatever parts: takes every event and answers 0."""

    def __getattr__(self, name: str) -> Nobody:
        return self

    def __call__(self, *args: object, **named: object) -> int:
        return 0


NOBODY = Nobody()


class Events:
    """Those who watch and those who count.

    Attributes, each a class of check/ whose methods say what they take, or `NOBODY`: order: an
        `Order`, which knows what comes before what. flags: `Flags`, which knows what hands over.
        shared: a `SharedMemory`, which watches the batch's shared memory. global_memory: a
        `GlobalMemory`, which watches the accesses of the instructions at the pcs `watched`.
        defined: a `Defined`, which knows what is undefined.
    """

    defined: Any

    def __init__(self, state: State) -> None:
        self.state = state
        self.subscribe(NOBODY, NOBODY, NOBODY, NOBODY, set())
        self.observers: tuple[Observer, ...] = ()
        # While it holds, observers see no accesses.
        self.silent = False

    def subscribe(
        self, order: Any, flags: Any, shared: Any, global_memory: Any, watched: set[int]
    ) -> None:
        """Set who watches a batch, and the global accesses to watch."""
        self.order = order
        self.flags = flags
        self.shared = shared
        self.global_memory = global_memory
        self.watched = watched

    # to observers

    def memory(
        self, instruction: Instruction, space: str, kind: str, width: int, access: Access
    ) -> None:
        """Threads access memory by the load/store unit."""
        if not self.silent:
            for observer in self.observers:
                observer.memory(MemoryEvent(self.state, instruction, space, kind, width, access))

    def bulk(
        self,
        access: Access,
        width: int,
        instruction: Instruction,
        kind: str,
        parts: Iterable[Access] = (),
    ) -> None:
        """Bulk copies read, write or reduce into global memory; `parts`: each of them, where there
        are several.
        """
        if instruction.pc in self.watched:
            self.global_memory.touch(access, width, instruction, kind, bulk=True)
        if self.observers:
            for part in parts or (access,):
                for observer in self.observers:
                    observer.bulk(instruction, part, width, kind)

    def grid_waits(self) -> None:
        """Threads wait for the launches before this one."""
        for observer in self.observers:
            observer.grid_waits()

    def fetched(
        self, instruction: Instruction, texture: Texture, lanes: np.ndarray, index: np.ndarray
    ) -> None:
        """Threads fetch from a texture."""
        if self.global_memory is not NOBODY and isinstance(texture, Texture):
            inside = (index >= 0) & (index < texture.elements)
            at = (
                texture.address
                - GLOBAL_BASE
                + index[inside].astype(np.int64) * texture.element_bytes
            )
            self.global_memory.fetched(instruction, np.asarray(lanes)[inside], at)
        for observer in self.observers:
            observer.texture(instruction, texture, lanes, index)

    def operands(self, instruction: Instruction, lanes: np.ndarray, size: int) -> None:
        """A wgmma of these lanes [warpgroups, 128] has operands of `size` bytes each in shared
        memory.
        """
        state = self.state
        warpgroups: Any = len(lanes)
        if state.by_block:
            warpgroups = np.bincount(state.block_of[lanes[:, 0]], minlength=len(state.blocks))
        for observer in self.observers:
            observer.operands(instruction, warpgroups, size)

    # those that concern several

    def copy_begins(self, copy: Any) -> None:
        """A copy to shared memory is issued (`copies.Copy`): it may be written from now on."""
        self.defined.overwritten(copy.access, copy.width)
        self.shared.copy_begins(copy)

    def init_fence(self, threads: np.ndarray) -> None:
        """Threads execute a fence that makes the mbarriers they initialised visible to other
        proxies and blocks.
        """
        self.order.fence(threads, "gpu")
        self.shared.init_fence(threads)

    def map_fence(self, threads: np.ndarray, addresses: np.ndarray | None) -> None:
        """Threads execute a tensormap proxy fence: an acquire of the maps at `addresses`, by lane,
        or a release.
        """
        if addresses is None:
            self.global_memory.maps.release(threads)
            return
        for lane in np.flatnonzero(threads).tolist():
            self.global_memory.maps.acquire(int(addresses[lane]), lane)
