"""Tensor maps that threads change in global memory: the tensormap proxy sees that only after its
own fences (PTX ISA
9.7.13.4): a release by who changed it, or after that, and then an acquire by who uses it."""

from __future__ import annotations

from collections.abc import Callable
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
    # An ordinary store made it, not tensormap.replace or its copy.
    by_store: bool = False
    released: list[tuple[int, int]] = field(default_factory=list)
    acquired: list[tuple[int, int]] = field(default_factory=list)


# The last store of a launch to the bytes of a map: the instruction, thread and time, or None
Stored = Callable[[int], tuple[Instruction, int, int] | None]


class TensorMaps:
    """The tensor maps that a launch has changed, by their address."""

    def __init__(self, machine: Batch, order: Order, stored: Stored) -> None:
        self.machine, self.order, self.stored = machine, order, stored
        # Release fences, by thread and time
        self.releases: list[tuple[int, int]] = []
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
            self.releases.append((int(self.machine.state.thread_numbers[lane]), self.order.now))
            for change in self.changes.values():
                if self._knows(lane, change.thread, change.time):
                    change.released.append(
                        (int(self.machine.state.thread_numbers[lane]), self.order.now)
                    )
        self.order.examine()
        self.order.tick()

    def change(self, address: int) -> Change | None:
        """Return the last change of a map in this launch, if there is one."""
        known, stored = self.changes.get(address), self.stored(address)
        if stored is not None and (known is None or stored[2] > known.time):
            released = [release for release in self.releases if release[1] >= stored[2]]
            known = self.changes[address] = Change(*stored, by_store=True, released=released)
        return known

    def acquire(self, address: int, lane: int) -> None:
        """Note a fence of a lane by which its tensormap proxy sees a map as it is now."""
        self.acquired.add(address)
        change = self.change(address)
        if change is not None and any(self._knows(lane, *released) for released in change.released):
            change.acquired.append((int(self.machine.state.thread_numbers[lane]), self.order.now))

    def used(self, address: int, lane: int, instruction: Instruction) -> None:
        """Check that a lane may copy by the map at a global address."""
        diag, state = self.machine.diag, self.machine.state
        self.used_maps[address] = None
        change, arena = self.change(address), self.machine.launch.arena
        before = arena.changed_maps.get(address)
        if change is None and address not in self.acquired:
            lacks = "without a fence.proxy.tensormap::generic.acquire in this launch"
            if before is not None:
                what = f"uses the tensor map in global memory that {before} changes, {lacks}"
                diag.report(Kind.FENCE, instruction, what, lane)
            elif address not in arena.used_maps and not self._constant(address):
                diag.note(
                    f"{diag.where(instruction)}: uses a tensor map in global memory that the host wrote, {lacks}: each "
                    "block needs one; a const __grid_constant__ parameter, or __constant__ memory, does not"
                )
        if change is None or any(self._knows(lane, *acquired) for acquired in change.acquired):
            return
        lacks = "acquire" if change.released else "release and .acquire"
        by = f"thread {state.thread_index(change.thread % state.padded)}"
        if change.thread // state.padded != int(state.thread_numbers[lane]) // state.padded:
            by = f"block {state.grid_index(change.thread // state.padded)}, {by}"
        what = (
            f"uses the tensor map in global memory that {by} "
            + ("writes by an ordinary store" if change.by_store else "changes")
            + f" at {diag.where(change.instruction)}, without a fence.proxy.tensormap::generic.{lacks} between"
        )
        diag.report(Kind.FENCE, instruction, what, lane)

    def _constant(self, address: int) -> bool:
        """Return whether an address lies in constant memory."""
        symbols = self.machine.launch.symbols
        return any(
            v.space == "const" and 0 <= address - symbols.get(v.name, address + 1) < v.size
            for v in self.machine.program.module.variables.values()
        )

    def _knows(self, lane: int, thread: int, time: int) -> bool:
        """Return whether what a thread did at a time comes before what a lane, or its warp, does
        now."""
        state = self.machine.state
        if thread // 32 == int(state.thread_numbers[lane]) // 32:
            return True
        return bool(
            self.order.before_across(np.array([lane]), np.array([thread]), np.array([time]))[0]
        )
