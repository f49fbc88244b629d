"""The calls that each thread is in, and its stack."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


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
