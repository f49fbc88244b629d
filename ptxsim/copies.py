"""Copies to shared memory that are under way until waited for: their groups, and how they land."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .machine import Machine
    from .memory import Access
    from .syntax import Instruction

NEVER = 1 << 30  # the group of a copy that is not committed yet


@dataclass
class Copy:
    """One executed cp.async."""

    instruction: Instruction
    lanes: np.ndarray | None
    access: Access  # of the destination
    data: list[np.ndarray]  # by element
    size: int  # of an element
    width: int
    group: np.ndarray  # per lane of the batch; -1 once landed
    mbarrier: int | None = None  # the place of the one that a bulk copy signals
    source_time: int | None = None  # of a bulk copy out of shared memory: when it read its source, for the watch
    pattern: int = 0  # of a tensor copy: bytes of the rows of its swizzle, 16 for none


def commit(m: Machine) -> None:
    """cp.async.commit_group: the copies since the last commit become a group, of each thread by itself."""
    acting = slice(None) if m.active is None else m.active
    for copy in m.copies:
        open_ = copy.group == NEVER
        if m.active is not None:
            open_ &= m.active
        copy.group = np.where(open_, m.committed, copy.group)
    m.committed = m.committed.copy()
    m.committed[acting] += 1


def wait(m: Machine, pending: int, everything: bool) -> None:
    """cp.async.wait_group N: all but the last N groups of the thread land; wait_all: every copy of it."""
    bound = np.full(m.lanes, NEVER + 1) if everything else m.committed - pending
    if m.active is not None:
        bound = np.where(m.active, bound, -1)
    left = []
    for copy in m.copies:
        landing = (copy.group >= 0) & (copy.group < bound)
        if np.count_nonzero(landing):
            _land(m, copy, landing)
            copy.group = np.where(landing, -1, copy.group)
        if (copy.group >= 0).any():
            left.append(copy)
    m.copies = left


def land_copies_of(m: Machine, copies: Sequence[Copy], lanes: np.ndarray) -> None:
    """Copies of some lanes land."""
    for copy in copies:
        landing = np.zeros(m.lanes, bool)
        landing[lanes] = copy.group[lanes] >= 0
        if landing.any():
            _land(m, copy, landing)
            copy.group = np.where(landing, -1, copy.group)


def _land(m: Machine, copy: Copy, landing: np.ndarray) -> None:
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
    if m.monitor is not None:
        m.monitor.copy_lands(copy, lanes)
