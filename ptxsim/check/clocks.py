"""Vector clocks over the threads of a grid, in a form that stays small: by block, and by thread where that says more."""

from __future__ import annotations

import numpy as np

NOTHING = np.zeros(0, np.int32)


class Clock:
    """Until when what others did comes before what its holder does next. It is never changed, so that many can hold it.

    `blocks`: of all threads of a block, by its number in the grid, as far as any is known; `some`: of a single thread
    of which more is known, by its number.
    """

    __slots__ = ("blocks", "some")

    def __init__(self, blocks: np.ndarray = NOTHING, some: dict[int, int] | None = None) -> None:
        self.blocks, self.some = blocks, some or {}

    @classmethod
    def of_rows(cls, blocks: list[int], rows: np.ndarray, padded: int) -> Clock:
        """The clock that says of block `blocks[i]` what `rows[i]`, a time for each thread, says."""
        least = rows.min(axis=1)
        known = np.zeros(max(blocks) + 1, np.int32)
        known[blocks] = least
        some = {}
        for i, thread in zip(*np.nonzero(rows > least[:, None]), strict=True):
            some[blocks[i] * padded + int(thread)] = int(rows[i, thread])
        return cls(known if least.any() else NOTHING, some)

    def __bool__(self) -> bool:
        return len(self.blocks) > 0 or bool(self.some)

    def with_thread(self, thread: int, until: int) -> Clock:
        """This clock, knowing one thread up to a time."""
        if self.some.get(thread, 0) >= until:
            return self
        return Clock(self.blocks, {**self.some, thread: until})

    def covers(self, other: Clock, padded: int) -> bool:
        """Whether it knows all that another one does."""
        size = len(other.blocks)
        if size > len(self.blocks) or (other.blocks > self.blocks[:size]).any():
            return False
        if other.some is self.some:
            return True
        return all(self.some.get(t, 0) >= until or self._block(t // padded) >= until for t, until in other.some.items())

    def _block(self, block: int) -> int:
        return int(self.blocks[block]) if block < len(self.blocks) else 0

    def joined(self, other: Clock, padded: int) -> Clock:
        """What both know; one of the two where that says it all."""
        if other is self or not other or self.covers(other, padded):
            return self
        if not self or other.covers(self, padded):
            return other
        long, short = (self, other) if len(self.blocks) >= len(other.blocks) else (other, self)
        blocks = long.blocks.copy()
        blocks[: len(short.blocks)] = np.maximum(blocks[: len(short.blocks)], short.blocks)
        found = Clock(blocks)
        for thread, until in (*self.some.items(), *other.some.items()):
            if until > max(found.some.get(thread, 0), found._block(thread // padded)):
                found.some[thread] = until
        return found

    def knows(self, threads: np.ndarray, times: np.ndarray, padded: int) -> np.ndarray:
        """Whether each of these threads is known up to a time."""
        blocks = threads // padded
        good = np.zeros(len(threads), bool)
        inside = blocks < len(self.blocks)
        good[inside] = times[inside] <= self.blocks[blocks[inside]]
        if self.some and not good.all():
            places = np.flatnonzero(~good)
            named, which = np.unique(threads[places], return_inverse=True)
            until = np.array([self.some.get(thread, 0) for thread in named.tolist()])
            good[places] = times[places] <= until[which]
        return good


EMPTY = Clock()
