"""Bulk stores under way: groups of each thread, until whose end their source must not change, and
what they store is not there for others (PTX ISA 9.7.9.25.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..ptx.syntax import Instruction
from .batch import Batch
from .memory import Access

# A store that is not committed yet has this group.
NEVER = 1 << 30


@dataclass
class Store:
    """One bulk store of one thread, whose source in shared memory is being read."""

    instruction: Instruction
    lane: int
    # `source` is an access of 16-byte pieces.
    source: Access
    group: int = NEVER
    # The watch over shared memory has the time when it began, that over global memory its writes.
    time: int = 0
    event: int = 0


class BulkGroups:
    """The bulk stores of a batch."""

    def __init__(self, machine: Batch) -> None:
        self.machine = machine
        # Of each lane, `stores` may still read their source, and `unwritten` have not written all.
        self.stores: dict[int, list[Store]] = {}
        self.unwritten: dict[int, list[Store]] = {}
        self.committed: dict[int, int] = {}

    def add(self, store: Store) -> None:
        """Add a store that has been issued."""
        self.stores.setdefault(store.lane, []).append(store)
        self.machine.events.shared.store_begins(store)
        store.event = self.machine.events.global_memory.store_begins()
        if store.event:
            self.unwritten.setdefault(store.lane, []).append(store)

    def commit(self) -> None:
        """cp.async.bulk.commit_group: the stores of each active thread since its last commit become
        a group.
        """
        m = self.machine
        for lane in np.flatnonzero(m.state.living()).tolist():
            number = self.committed.get(lane, 0)
            self.committed[lane] = number + 1
            for store in (*self.stores.get(lane, ()), *self.unwritten.get(lane, ())):
                if store.group == NEVER:
                    store.group = number

    def wait(self, pending: int, read: bool) -> None:
        """cp.async.bulk.wait_group N: all but the last N groups have read their source, and,
        without `.read`, have written what others can see.
        """
        events = self.machine.events
        for store in self._over(self.stores, pending):
            events.shared.store_ends(store)
        for store in () if read else self._over(self.unwritten, pending):
            events.global_memory.store_ends(store.event)

    def _over(self, of: dict[int, list[Store]], pending: int) -> Iterator[Store]:
        """Take out the stores of the active threads but for those of their last groups."""
        active = self.machine.state.active
        for lane in [lane for lane in of if active is None or active[lane]]:
            bound = self.committed.get(lane, 0) - pending
            stores = of.pop(lane)
            yield from (store for store in stores if store.group < bound)
            if left := [store for store in stores if store.group >= bound]:
                of[lane] = left

    def after_exit(self, threads: np.ndarray) -> None:
        """Add a note where threads end while a bulk store of theirs still reads the block's shared
        memory.
        """
        for lane in [lane for lane in self.stores if threads[lane]]:
            store = self.stores.pop(lane)[0]
            self.machine.diag.note(
                f"{store.instruction.where}: a thread ends without a wait_group for this bulk store: shared memory "
                "must stay until it has been read"
            )
