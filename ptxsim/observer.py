"""What can be told of a launch while it runs. A launch without observers pays nothing for this."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from .api import Kernel, Texture
    from .machine import MemoryEvent
    from .memory import Access
    from .syntax import Instruction


class Observer:
    """Base class: does nothing."""

    by_block = False  # whether numbers of warps and warpgroups are passed by block of the batch, as arrays

    def begins(self, kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
        """A launch begins."""

    def batch(self, blocks: np.ndarray) -> None:
        """Blocks with these linear numbers begin, together."""

    def executed(self, instruction: Instruction, warps: int) -> None:
        """An instruction was executed by so many warps (those whose threads its predicate leaves out included), in all.
        Told once a batch of blocks, after its end."""

    def polled(self, instruction: Instruction, warps: int) -> None:
        """As `executed`, of rounds after the first of a loop that waits for memory to change: how many depends on time,
        so that a device has others. Their accesses are not reported."""

    def memory(self, event: MemoryEvent) -> None:
        """Threads access memory: `event.addresses()` gives byte addresses and active threads by warp and lane.

        `event.kind` is ld, st, atom, ldmatrix, cp_async (the write to shared memory) or cp_async_ld (its read of global
        memory, just before). With _ordered for volatile accesses and the like.
        """

    def operands(self, instruction: Instruction, warpgroups: int, size: int) -> None:
        """So many warpgroups execute a wgmma.mma_async whose operands in shared memory have so many bytes, each."""

    def bulk(self, instruction: Instruction, access: Access, width: int, kind: str) -> None:
        """A thread's bulk copy reads (`kind` ld), writes (st) or reduces into (atom) global memory: `access.flat()` has
        the offset of each of its pieces of `width` bytes."""

    def texture(self, instruction: Instruction, texture: Texture, lanes: np.ndarray, index: np.ndarray) -> None:
        """Threads fetch from a texture."""
