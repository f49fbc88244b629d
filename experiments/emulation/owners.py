"""Which thread stored each element of C, and at which line, by the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxsim import Array, Observer
from ptxsim.ptx.sources import locations


class Owners(Observer):
    """Remembers the last thread that stored to each element of an array, of `element_bytes` each.

    After a launch, `thread` has block x threads of a block + thread for each element, and `line`
    the index in `lines` of the store's source location. They are -1 where no thread stored, or no
    line is known.
    """

    def __init__(self, array: Array, element_bytes: int) -> None:
        self.array, self.element_bytes = array, element_bytes
        self.thread = np.full(array.nbytes // element_bytes, -1, np.int64)
        self.line = self.thread.copy()
        self.lines: list[str] = []

    def begins(self, kernel: Any, grid: Any, block: Any) -> None:
        self._state, self._locations = kernel.state, locations(kernel.program)
        arena = kernel.machine.launch.arena
        names = [allocation.name for allocation in arena.allocations]
        self._start = arena.starts[names.index(self.array.name)] + self.array.offset

    def memory(self, event: Any) -> None:
        if event.space != "global" or not event.kind.startswith(("st", "atom")):
            return
        state = self._state
        addresses, active = event.addresses()
        lanes = np.arange(addresses.size)
        blocks = np.asarray(state.blocks)[state.block_of]
        who = blocks * state.threads + lanes % state.padded
        chosen = active.ravel()
        at, who = addresses.ravel()[chosen] - self._start, who[chosen]
        for part in range(0, event.width, self.element_bytes):
            index = (at + part) // self.element_bytes
            inside = (index >= 0) & (index < len(self.thread))
            self.thread[index[inside]] = who[inside]
            self.line[index[inside]] = self._location(event.instruction)

    def _location(self, instruction: Any) -> int:
        """Return the index of an instruction's location in `lines`; -1 where it has none."""
        chain = self._locations.get(instruction.pc, ())
        if not chain:
            return -1
        location = str(chain[0]) + (f" (called from {chain[-1]})" if len(chain) > 1 else "")
        if location not in self.lines:
            self.lines.append(location)
        return self.lines.index(location)
