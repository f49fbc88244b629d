"""Tensor maps that threads change in global memory: the tensormap proxy sees that only after its
own fences (PTX ISA
9.7.13.4): a release by who changed it, or after that, and then an acquire by who uses it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import Kind
from ..machine.batch import Batch
from ..ptx.syntax import Instruction
from .order import Order


@dataclass
class Change:
    """The last change of a tensor map, and the fences since: by which thread, and when."""

    instruction: Instruction
    # The thread is given by its number in the grid.
    thread: int
    time: int
    released: list[tuple[int, int]] = field(default_factory=list)
    acquired: list[tuple[int, int]] = field(default_factory=list)


class TensorMaps:
    """The tensor maps that a launch has changed, by their address."""

    def __init__(self, machine: Batch, order: Order) -> None:
        self.machine, self.order = machine, order
        self.changes: dict[int, Change] = {}
        self.used_maps: dict[int, None] = {}
        self.acquired: set[int] = set()

    def changed(
        self, address: int, lane: int, instruction: Instruction, released: bool = False
    ) -> None:
        """Note that a lane changes the map at a global address; `released`: by a copy that is a
        release fence itself."""
        thread = int(self.machine.state.thread_numbers[lane])
        change = self.changes[address] = Change(instruction, thread, self.order.now)
        self.order.examine()
        self.order.tick()
        if released:
            change.released.append((thread, self.order.now))

    def release(self, threads: np.ndarray) -> None:
        """Note a fence of threads that shows the changes that they know of to the tensormap proxy."""
        for lane in np.flatnonzero(threads).tolist():
            for change in self.changes.values():
                if self._knows(lane, change.thread, change.time):
                    change.released.append(
                        (int(self.machine.state.thread_numbers[lane]), self.order.now)
                    )
        self.order.examine()
        self.order.tick()

    def acquire(self, address: int, lane: int) -> None:
        """Note a fence of a lane by which its tensormap proxy sees a map as it is now."""
        self.acquired.add(address)
        change = self.changes.get(address)
        if change is not None and any(self._knows(lane, *released) for released in change.released):
            change.acquired.append((int(self.machine.state.thread_numbers[lane]), self.order.now))

    def used(self, address: int, lane: int, instruction: Instruction) -> None:
        """Check that a lane may copy by the map at a global address."""
        diag, state = self.machine.diag, self.machine.state
        self.used_maps[address] = None
        change = self.changes.get(address)
        before = self.machine.launch.arena.changed_maps.get(address)
        if change is None and before is not None and address not in self.acquired:
            what = (
                f"uses the tensor map in global memory that {before} changes, without a "
                "fence.proxy.tensormap::generic.acquire in this launch"
            )
            diag.report(Kind.FENCE, instruction, what, lane)
        if change is None or any(self._knows(lane, *acquired) for acquired in change.acquired):
            return
        lacks = "acquire" if change.released else "release and .acquire"
        by = f"thread {state.thread_index(change.thread % state.padded)}"
        if change.thread // state.padded != int(state.thread_numbers[lane]) // state.padded:
            by = f"block {state.grid_index(change.thread // state.padded)}, {by}"
        what = (
            f"uses the tensor map in global memory that {by} changes at {diag.where(change.instruction)}, without a "
            f"fence.proxy.tensormap::generic.{lacks} between"
        )
        diag.report(Kind.FENCE, instruction, what, lane)

    def _knows(self, lane: int, thread: int, time: int) -> bool:
        """Return whether what a thread did at a time comes before what a lane, or its warp, does
        now."""
        state = self.machine.state
        if thread // 32 == int(state.thread_numbers[lane]) // 32:
            return True
        return bool(
            self.order.before_across(np.array([lane]), np.array([thread]), np.array([time]))[0]
        )
