"""Boxes of tensor copies in shared memory: with which swizzle they were written, and what a stored
box left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..machine.memory import Access
from ..machine.values import distinct
from ..ptx.syntax import Instruction
from .races import HALF, LOW, PLAIN, Reads, Shadow


class Boxes:
    """What tensor copies did to the shared memory of a batch."""

    def __init__(self, memory: Shadow, of_block: int) -> None:
        """`of_block`: granules of a block."""
        self.memory, self.of_block = memory, of_block
        # `pattern` holds the rows of the swizzle by which a tensor copy wrote; 0 for any other
        # write.
        self.pattern: np.ndarray | None = None
        # `phase` holds the number of rows of the swizzle's pattern that lie before the box.
        self.phase: np.ndarray | None = None
        # `covered` marks what stored boxes have taken.
        self.covered: np.ndarray | None = None
        # `stored` holds, by block, the last tensor store and a description of its box.
        self.stored: dict[int, tuple[Instruction, str]] = {}

    def copied(self, g: np.ndarray, pattern: int) -> None:
        """Note that a copy writes granules, with a swizzle of rows of so many bytes; 0: without a
        tensor map."""
        if pattern and self.pattern is None:
            self.pattern = np.zeros(len(self.memory.writes), np.uint8)
        if self.pattern is not None:
            self.pattern[g] = pattern
            self._note_phase(g, pattern)

    def _note_phase(self, g: np.ndarray, pattern: int) -> None:
        """Note where the swizzle's pattern begins. It follows the bits of the address: a box may
        begin within it, with another row than its first."""
        start = int(g.min()) % self.of_block << self.memory.shift
        phase = start >> 7 & _rows(pattern)
        if phase and self.phase is None:
            self.phase = np.zeros(len(self.memory.writes), np.uint8)
        if self.phase is not None:
            self.phase[g] = phase

    def read(self, access: Access, instruction: Instruction) -> None:
        """Check reads of rows of 16 bytes, eight at a time: a note where these are of one column
        only if the swizzle's pattern began at the box."""
        if self.phase is None or self.pattern is None or access.where.raw.size % 8:
            return
        at = access.where.raw + access.offset
        g = access.flat() >> self.memory.shift
        phase = self.phase.take(g).astype(np.int64)
        rows = _rows(self.pattern.take(g).astype(np.int64))
        line, piece = at >> 7 & rows, at >> 4 & rows
        by_address = (piece ^ line).reshape(-1, 8)
        by_box = (piece ^ (line - phase & rows)).reshape(-1, 8)
        wrong = (by_address.min(axis=1) != by_address.max(axis=1)) & (
            by_box.min(axis=1) == by_box.max(axis=1)
        )
        wrong &= (phase.reshape(-1, 8) != 0).all(axis=1)
        if wrong.any():
            self._contradicts(instruction, int(phase.reshape(-1, 8)[wrong][0, 0]))

    def _contradicts(self, instruction: Instruction, phase: int) -> None:
        what = f"reads a swizzled box as if the pattern began with it, but the box begins in row {phase} of the pattern"
        remedy = "align it to 1024 bytes (128-byte swizzle), 512 or 256, or take the row from the shared address"
        self.memory.machine.diag.note(f"{instruction.where}: {instruction.opcode} {what}: {remedy}")

    def overwritten(self, g: np.ndarray) -> None:
        """Forget the patterns of granules that threads write."""
        if self.pattern is not None:
            self.pattern[g] = 0

    def read_by_pattern(
        self, access: Access, row: int, instruction: Instruction, base: int = 0
    ) -> None:
        """Check that a wgmma reads its operand with this swizzle (bytes): a note where a tensor
        copy wrote it with another."""
        if self.pattern is None:
            return
        patterns = self.pattern.take(access.flat() >> self.memory.shift)
        other = patterns[(patterns != 0) & (patterns != row)]
        if len(other):
            swizzles = {
                n: f"a swizzle of {n} bytes" if n > 16 else "no swizzle"
                for n in (int(other[0]), row)
            }
            what = f"wgmma reads with {swizzles[row]} what a tensor copy wrote with {swizzles[int(other[0])]}"
            self.memory.machine.diag.note(f"{instruction.where}: {what}")
        elif base & _rows(row) and patterns.any():
            self._contradicts(instruction, base & _rows(row))

    def box_stored(self, access: Access, instruction: Instruction, box: str) -> None:
        """Note that a tensor store reads a box from shared memory: its elements, those outside of
        the tensor included."""
        memory = self.memory
        if self.covered is None:
            self.covered = np.zeros(len(memory.writes), bool)
        for g in memory.granules_of(access, 16):
            self.covered[g] = True
            for block in distinct(g // self.of_block).tolist():
                self.stored[block] = instruction, box

    def block_ends(self, block: int, reads: Sequence[Reads]) -> None:
        """Note what a block wrote next to a box that it stored, and nobody reads: the box may have
        left it out."""
        memory = self.memory
        if block not in self.stored or self.covered is None:
            return
        first = block * self.of_block
        part = slice(first, first + self.of_block)
        writes, covered = memory.writes[part], self.covered[part]
        plain = memory.strengths[writes & LOW] == PLAIN
        left = (writes != 0) & ((writes >> HALF) - 1 < memory.order.threads) & plain & ~covered
        for table in reads:
            for events in table.events.values():
                left &= events[part] == 0
        edges = np.diff((left | covered).astype(np.int8), prepend=0, append=0).nonzero()[0]
        for start, end in edges.reshape(-1, 2).tolist():
            here = left[start:end].nonzero()[0] + start
            if len(here) and covered[start:end].any():
                diag, (instruction, box) = memory.machine.diag, self.stored[block]
                at, address = memory.at(int(writes[here[0]] & LOW)), int(here[0]) << memory.shift
                diag.note(
                    f"{at}: {len(here) << memory.shift} bytes of shared memory are written from 0x{address:x} on"
                    f"{diag.in_shared(address)}, which nothing reads, next to the box of {box} that "
                    f"{diag.where(instruction)} stores: is the box of its tensor map smaller than the tile?"
                )
                return


def _rows(pattern: Any) -> Any:
    """Return the bits that number the rows of a swizzle's pattern, by the bytes of one: 7, 3 or 1;
    0 without a swizzle.
    """
    return np.maximum(pattern, 16) // 16 - 1
