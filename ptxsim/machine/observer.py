"""The interface of observers of a running launch.

A launch without observers pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

import numpy as np

from ..ptx.merging import Merges
from ..ptx.program import Program
from ..ptx.sizes import Dim3
from ..ptx.syntax import Instruction
from .arrays import Texture
from .memory import Access
from .state import WARP, State


class Launched(Protocol):
    """The kernel of a launch, as observers see it."""

    @property
    def program(self) -> Program: ...
    @property
    def title(self) -> str: ...
    @property
    def merges(self) -> Merges: ...
    @property
    def state(self) -> State: ...


class MemoryEvent:
    """A memory access as observers see it. Arrays are computed when they are asked for."""

    __slots__ = ("access", "active", "instruction", "kind", "space", "state", "width")

    def __init__(
        self,
        state: State,
        instruction: Instruction,
        space: str,
        kind: str,
        width: int,
        access: Access,
    ) -> None:
        self.state, self.instruction = state, instruction
        self.space, self.kind, self.width, self.access = space, kind, width, access
        self.active = state.active

    def addresses(self) -> tuple[np.ndarray, np.ndarray]:
        """Byte addresses [warps, 32] within the space (for shared memory: within the block's), and
        the active mask.
        """
        where = self.access.where
        if where.lanes is None:
            return (where.raw + self.access.offset).reshape(-1, WARP), np.ones(
                (self.state.warps, WARP), bool
            )
        full = np.zeros(self.state.lanes, np.int64)
        full[where.lanes] = where.raw + self.access.offset
        return full.reshape(-1, WARP), np.asarray(self.active).reshape(-1, WARP)

    def blocks(self) -> np.ndarray:
        """Return the linear number of the block that each warp of `addresses` belongs to."""
        return np.asarray(self.state.blocks)[self.state.block_of[::WARP]]

    @property
    def cache(self) -> dict[Hashable, Any]:
        """Return a place to remember what follows from the base addresses alone, whatever the
        offset.
        """
        return self.access.where.cache

    @property
    def offset(self) -> int:
        return self.access.offset


class Observer:
    """Base class of observers, which does nothing."""

    # With `by_block`, numbers of warps and warpgroups are passed by block of the batch, as arrays.
    by_block = False

    def begins(self, kernel: Launched, grid: Dim3, block: Dim3) -> None:
        """A launch begins."""

    def batch(self, blocks: np.ndarray) -> None:
        """Blocks with these linear numbers begin, together."""

    def executed(self, instruction: Instruction, warps: int) -> None:
        """An instruction was executed by `warps` warps, including those whose predicate is false
        for all threads. Called once for each batch of blocks, after its end."""

    def polled(self, instruction: Instruction, warps: int) -> None:
        """As `executed`, of rounds after the first of a loop that waits for memory to change: how
        many depends on time, so that a device has others. Their accesses are not reported."""

    def memory(self, event: MemoryEvent) -> None:
        """Threads access memory: `event.addresses()` gives byte addresses and active threads by
        warp and lane.

        `event.kind` is ld, st, atom, ldmatrix, cp_async (the write to shared memory) or cp_async_ld
        (its read of global memory, just before). With _ordered for volatile accesses and the like.
        """

    def operands(self, instruction: Instruction, warpgroups: int, size: int) -> None:
        """Warpgroups execute a wgmma.mma_async whose operands in shared memory have `size` bytes,
        each.
        """

    def bulk(self, instruction: Instruction, access: Access, width: int, kind: str) -> None:
        """A thread's bulk copy reads (`kind` ld), writes (st) or reduces into (atom) global memory:
        `access.flat()` has the offset of each of its pieces of `width` bytes."""

    def grid_waits(self) -> None:
        """Active threads wait for the launches that this one depends on (griddepcontrol.wait)."""

    def waits(self) -> None:
        """All threads that can run have looked at memory several times, and found it as it was."""

    def texture(
        self, instruction: Instruction, texture: Texture, lanes: np.ndarray, index: np.ndarray
    ) -> None:
        """Threads fetch from a texture."""
