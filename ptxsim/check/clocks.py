"""Vector clocks over the threads of a grid, in a form that stays small: by block, and by thread
where needed.
"""

from __future__ import annotations

import numpy as np

NOTHING = np.zeros(0, np.int64)


class Clock:
    """Until when what others did comes before what its holder does next. It is never changed, so
    that many can hold it.

    `blocks`: of all threads of a block, by its number in the grid, as far as any is known;
    `threads` and `until`: of single threads of which more is known, by their number, in order.
    """

    __slots__ = ("blocks", "threads", "until")

    def __init__(
        self,
        blocks: np.ndarray = NOTHING,
        threads: np.ndarray = NOTHING,
        until: np.ndarray = NOTHING,
    ) -> None:
        self.blocks, self.threads, self.until = blocks, threads, until

    @classmethod
    def of_rows(cls, blocks: np.ndarray, rows: np.ndarray, padded: int) -> Clock:
        """Return the clock that says of block `blocks[i]` what `rows[i]`, a time for each thread,
        says."""
        earliest = rows.min(axis=1)
        known = NOTHING
        if earliest.any():
            known = np.zeros(int(blocks.max()) + 1, np.int64)
            known[blocks] = earliest
        which, thread = np.nonzero(rows > earliest[:, None])
        numbers = blocks[which] * padded + thread
        order = np.argsort(numbers)
        return cls(known, numbers[order], rows[which, thread][order])

    def __bool__(self) -> bool:
        return len(self.blocks) > 0 or len(self.threads) > 0

    def covers(self, other: Clock, padded: int) -> bool:
        """Return whether it knows all that another one does."""
        size = len(other.blocks)
        if size > len(self.blocks) or (other.blocks > self.blocks[:size]).any():
            return False
        return other.threads is self.threads or bool(
            self.knows(other.threads, other.until, padded).all()
        )

    def joined(self, other: Clock, padded: int) -> Clock:
        """Return what both know; one of the two where that says it all."""
        if self.covers(other, padded):
            return self
        if other.covers(self, padded):
            return other
        long, short = (self, other) if len(self.blocks) >= len(other.blocks) else (other, self)
        blocks = long.blocks.copy()
        blocks[: len(short.blocks)] = np.maximum(blocks[: len(short.blocks)], short.blocks)
        threads, which = np.unique(
            np.concatenate([self.threads, other.threads]), return_inverse=True
        )
        until = np.zeros(len(threads), np.int64)
        np.maximum.at(until, which, np.concatenate([self.until, other.until]))
        more = ~Clock(blocks).knows(threads, until, padded)
        return Clock(blocks, threads[more], until[more])

    def knows(self, threads: np.ndarray, times: np.ndarray, padded: int) -> np.ndarray:
        """Return whether each of these threads is known up to a time."""
        good = np.zeros(len(threads), bool)
        if len(self.blocks):
            blocks = threads // padded
            inside = blocks < len(self.blocks)
            good[inside] = times[inside] <= self.blocks[blocks[inside]]
        if len(self.threads) and not good.all():
            index = np.minimum(np.searchsorted(self.threads, threads), len(self.threads) - 1)
            good |= (self.threads[index] == threads) & (times <= self.until[index])
        return good


EMPTY = Clock()
