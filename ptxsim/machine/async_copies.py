"""Copies to shared memory that are under way until waited for: their groups, and how they land."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ptx.syntax import Instruction
from .batch import Batch
from .memory import Access

# A copy that is not committed yet has this group.
NEVER = 1 << 30


@dataclass
class Copy:
    """A cp.async that has been executed."""

    instruction: Instruction
    # `access` goes to the destination.
    access: Access
    # `data` has an array for each element of `size` bytes.
    data: list[np.ndarray]
    size: int
    width: int
    # Each lane of the batch has a group, -1 once its copy has landed.
    group: np.ndarray
    # A bulk copy signals the mbarrier at this place.
    mbarrier: int | None = None
    # The watch asks when a bulk copy out of shared memory read its source.
    source_time: int | None = None
    # A tensor copy's swizzle has rows of `pattern` bytes, 16 without a swizzle.
    pattern: int = 0

    @property
    def lanes(self) -> np.ndarray | None:
        return self.access.lanes


class Copies:
    """The cp.async of a batch that are under way."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.pending: list[Copy] = []
        self.committed = np.zeros(batch.state.lanes, np.int64)

    def add(self, copy: Copy) -> None:
        """Add a copy that has been issued."""
        self.pending.append(copy)
        self.batch.events.copy_begins(copy)

    def commit(self) -> None:
        """cp.async.commit_group: the copies since the last commit become a group, of each thread by
        itself.
        """
        active = self.batch.state.active
        for copy in self.pending:
            open_ = copy.group == NEVER
            if active is not None:
                open_ &= active
            copy.group = np.where(open_, self.committed, copy.group)
        self.committed = self.committed.copy()
        self.committed[slice(None) if active is None else active] += 1

    def wait(self, groups: int, everything: bool) -> None:
        """cp.async.wait_group N: all but the last N groups of the thread land; wait_all: every copy
        of it.
        """
        state = self.batch.state
        bound = np.full(state.lanes, NEVER + 1) if everything else self.committed - groups
        if state.active is not None:
            bound = np.where(state.active, bound, -1)
        for copy in self.pending:
            self._land(copy, (copy.group >= 0) & (copy.group < bound))
        self.pending = [copy for copy in self.pending if (copy.group >= 0).any()]

    def land(self, copies: Sequence[Copy], lanes: np.ndarray) -> None:
        """Complete the copies of some lanes."""
        for copy in copies:
            landing = np.zeros(self.batch.state.lanes, bool)
            landing[lanes] = copy.group[lanes] >= 0
            self._land(copy, landing)

    def release(self) -> None:
        """Drop the copies that are in flight."""
        self.pending = []

    def _land(self, copy: Copy, landing: np.ndarray) -> None:
        """Complete the copies of these lanes."""
        if not np.count_nonzero(landing):
            return
        if copy.lanes is None and landing.all():
            for number, values in enumerate(copy.data):
                copy.access.store(copy.size, values, number)
            lanes = None
        else:
            lanes = np.flatnonzero(landing if copy.lanes is None else landing[copy.lanes])
            view = copy.access.space.views[copy.size]
            first = copy.access.flat()[lanes] // copy.size
            for number, values in enumerate(copy.data):
                view[first + number] = values[lanes]
        self.batch.events.shared.copy_lands(copy, lanes)
        copy.group = np.where(landing, -1, copy.group)
