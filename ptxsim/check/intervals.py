"""The stretch between two barriers that all threads of a batch pass: the cheap case of races in
shared memory.

Where nothing but such barriers orders accesses, a granule that one thread writes and another
touches in one stretch is a race, in whatever order the two come. So accesses are only noted as they
happen, and examined together when the barrier is reached. A stretch without writes costs nothing,
and reads of places where no write fell are passed over by extents.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

import numpy as np

from ..machine.memory import Access
from ..machine.state import WARP
from ..ptx.syntax import Instruction
from .races import PLAIN, SWAP, WRITES, granules, same_values, strength

# An owner is a thread, no thread or several threads.
NONE, MANY = -1, -2
Report = Callable[["Noted", np.ndarray, np.ndarray, int, Instruction | None, bool], None]


class Noted:
    """One executed access: which granules of which lanes. `selected`: of the access's lanes these, if
    not all.
    """

    __slots__ = (
        "access",
        "first",
        "instruction",
        "kind",
        "lands",
        "lanes",
        "number",
        "selected",
        "strength",
    )

    def __init__(
        self,
        access: Access,
        first: int,
        number: int,
        lanes: np.ndarray,
        instruction: Instruction,
        kind: str,
        selected: np.ndarray | None = None,
    ) -> None:
        self.access, self.first, self.number, self.lanes = access, first, number, lanes
        self.instruction, self.kind, self.selected = instruction, kind, selected
        # `lands` is true when the data of a copy arrive.
        self.lands = False
        self.strength = strength(instruction, kind)

    @property
    def writes(self) -> bool:
        return self.kind in WRITES or self.kind == "cp_async"

    def indices(self, shift: int) -> Iterator[np.ndarray]:
        """Yield the granules: an array for each of the access's width."""
        for g in granules(self.access.where.index(shift), self.first, self.number):
            yield g if self.selected is None else g[self.selected]

    def extent(self, shift: int) -> tuple[int, int]:
        """Return the bytes of the block's shared memory, from and to."""
        start, where = self.access.offset, self.access.where
        return where.lo + start, where.hi + start + (self.number << shift)


class Interval:
    """Who writes each granule in the present stretch, once it has ended."""

    def __init__(
        self, total: int, shift: int, report: Report, note_volatile: Callable[[Noted], None]
    ) -> None:
        """`report` is told of an access, its granules, which of them clash, with whom, at what
        instruction, and whether all clash with lanes of their own warp.
        """
        self.total = total
        self.shift = shift
        self.report = report
        self.note_volatile = note_volatile
        self.owner = np.full(total, NONE, np.int32)
        # `strong` holds the owner of writes by atomic operations and other strong accesses.
        self.strong: np.ndarray | None = None
        # `unswapped` marks what strong accesses other than compare-and-swap write.
        self.unswapped: np.ndarray | None = None

    def examine(self, noted: list[Noted]) -> None:
        """Examine the accesses of a stretch."""
        writes = [event for event in noted if event.writes]
        if not writes:
            return
        # Plain accesses come first: strong ones race with these, but not with each other.
        for event in writes:
            if event.strength == PLAIN:
                self._plain_write(event, writes)
        for event in writes:
            if event.strength != PLAIN:
                self._strong_write(event, writes)
        extents = merged([event.extent(self.shift) for event in writes])
        starts = [start for start, _ in extents]
        for event in noted:
            if not event.writes:
                low, high = event.extent(self.shift)
                last = bisect_left(starts, high) - 1
                if last >= 0 and extents[last][1] > low:
                    self._read(event, writes)
        for event in writes:
            for g in event.indices(self.shift):
                self.owner[g] = NONE
                if (
                    event.strength != PLAIN
                    and self.strong is not None
                    and self.unswapped is not None
                ):
                    self.strong[g], self.unswapped[g] = NONE, False

    def _plain_write(self, event: Noted, writes: list[Noted]) -> None:
        owner, lanes = self.owner, event.lanes
        for g in event.indices(self.shift):
            before = owner.take(g)
            clash = (before != lanes) & (before != NONE)
            if np.count_nonzero(clash):
                self._clash(event, g, clash, before, writes)
            owner[g] = lanes
            after = owner.take(g)
            clash = after != lanes
            if np.count_nonzero(clash) and not same_values(event.access, g, event.kind):
                self._clash(event, g, clash, after, [event])

    def _strong_write(self, event: Noted, writes: list[Noted]) -> None:
        if self.strong is None or self.unswapped is None:
            self.strong = np.full(self.total, NONE, np.int32)
            self.unswapped = np.zeros(self.total, bool)
        lanes = event.lanes
        for g in event.indices(self.shift):
            before = self.owner.take(g)
            clash = (before != lanes) & (before != NONE)
            if np.count_nonzero(clash):
                self._clash(event, g, clash, before, [e for e in writes if e.strength == PLAIN])
            before = self.strong.take(g)
            mixed = (before != NONE) & (before != lanes)
            self.strong[g] = np.where(mixed, MANY, lanes)
            several = self.strong.take(g) != np.where(mixed, MANY, lanes)
            if np.count_nonzero(several):
                self.strong[g[several]] = MANY
            if event.strength != SWAP:
                self.unswapped[g] = True
            if np.count_nonzero(mixed) or np.count_nonzero(several):
                self.note_volatile(event)

    def _read(self, event: Noted, writes: list[Noted]) -> None:
        lanes = event.lanes
        for g in event.indices(self.shift):
            writer = self.owner.take(g)
            clash = (writer != lanes) & (writer != NONE)
            if np.count_nonzero(clash):
                self._clash(event, g, clash, writer, [e for e in writes if e.strength == PLAIN])
            if self.strong is None or self.unswapped is None:
                continue
            writer = self.strong.take(g)
            clash = (writer != lanes) & (writer != NONE)
            if np.count_nonzero(clash):
                if event.strength != PLAIN:
                    self.note_volatile(event)
                elif np.count_nonzero(clash := clash & self.unswapped.take(g)):
                    strong = [e for e in writes if e.strength != PLAIN]
                    self._clash(event, g, clash, writer, strong)

    def _clash(
        self,
        event: Noted,
        g: np.ndarray,
        clash: np.ndarray,
        others: np.ndarray,
        writes: list[Noted],
    ) -> None:
        """Report a race with the thread noted in `others`; MANY: with whichever thread is found."""
        index = int(np.flatnonzero(clash)[0])
        granule, other = int(g[index]), int(others[index])
        near = bool((event.lanes[clash] // WARP == others[clash] // WARP).all())
        acting = int(event.lanes[index])
        for candidate in writes:
            if candidate is event and len(writes) > 1:
                continue
            lanes = candidate.lanes
            matches = [lanes[np.flatnonzero(h == granule)] for h in candidate.indices(self.shift)]
            culprits = [
                lane
                for part in matches
                for lane in part.tolist()
                if lane == other or (other < 0 and lane != acting)
            ]
            if culprits:
                self.report(event, g, clash, culprits[0], candidate.instruction, near)
                return
        self.report(event, g, clash, other, None, near)


def merged(extents: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return intervals of which those that overlap or touch are made one."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(extents):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
