"""How many cycles a scheduler needs to issue machine code: a model of its register file and of
merged loads.

    reads, cycles = of_function(function, executed, merged)

A scheduler issues one instruction a cycle, unless:
- A register bank is behind. There are two (a register's number modulo 2), each gives one operand a
  cycle, and an FFMA waits while a bank is more than `BACKLOG` operands behind.
- A load of shared memory is merged: where lanes that are neighbours want the same
  (`wavefronts.shared`), a load of 64 or 128 bits takes fewer wavefronts, and `MERGED` cycles of
  issue more.

What an operand's reuse cache holds is not read from a bank. For each operand slot it has one
register of each bank: the last that was read there, if that was said with `.reuse`. A register that
one instruction reads twice is read once.

Loops of FFMAs with registers of our choosing, timed on an H200, showed all of this:
docs/hardware.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ptx import sass
from .block_counts import Executions

# A scheduler's register file has this many banks.
BANKS = 2
# A bank may be this many operands behind.
BACKLOG = 1
# A merged load takes this many cycles more.
MERGED = 2

# `Reads` counts the operands read from each bank.
Reads = tuple[int, ...]


class ReuseCache:
    """What `.reuse` keeps: for each operand slot, a register of each bank."""

    def __init__(self) -> None:
        # `_cached` holds the register kept for each operand slot and bank.
        self._cached: dict[tuple[int, int], int] = {}

    def reads(self, instruction: sass.Instruction) -> Reads:
        """Return the operands that an instruction with one destination reads from each bank; then
        the cache is as it leaves it."""
        read: set[int] = set()
        for slot, (register, keep) in enumerate(instruction.sources()):
            if register is None:
                continue
            entry = slot, register % BANKS
            if self._cached.get(entry) != register:
                read.add(register)
            if keep:
                self._cached[entry] = register
            else:
                self._cached.pop(entry, None)
        return tuple(sum(register % BANKS == bank for register in read) for bank in range(BANKS))


def bank_reads(instructions: Iterable[sass.Instruction]) -> list[Reads]:
    """Return, for instructions that follow each other, the operands that each FFMA reads from each
    bank; others read none."""
    cache = ReuseCache()
    return [cache.reads(i) if i.name == "FFMA" else (0,) * BANKS for i in instructions]


def issue_cycles(reads: Iterable[Reads], backlog: int = BACKLOG) -> int:
    """Return the cycles in which instructions with these reads are issued: the sum of
    `cycles_of_each`."""
    return sum(cycles_of_each(reads, backlog))


def cycles_of_each(reads: Iterable[Reads], backlog: int = BACKLOG) -> list[int]:
    """Return, for instructions with these reads, the cycles in which each is issued: one, and more
    where a bank, which gives one operand a cycle, would come to be more than `backlog` operands
    behind."""
    behind, cycles = [0] * BANKS, []
    for row in reads:
        waits = max(0, *(late - backlog for late in behind))
        # Each bank gives one operand while the instruction is issued.
        behind = [max(0, late - waits) + more - 1 for late, more in zip(behind, row, strict=True)]
        cycles.append(waits + 1)
    return cycles


def of_function(
    function: sass.Function, executed: Executions, merged: float
) -> tuple[list[float], float]:
    """For all warps that execute a function: the FFMAs' reads from each bank, and cycles of issue
    of one scheduler.

    `merged`: how many loads of shared memory are merged, by warp.
    """
    reads, cycles = [0.0] * BANKS, MERGED * merged
    for block, times in zip(function.blocks, executed.blocks, strict=True):
        if times:
            rows = bank_reads(block.instructions)
            reads = [
                total + times * sum(column)
                for total, column in zip(reads, zip(*rows, strict=True), strict=True)
            ]
            cycles += times * issue_cycles(rows)
    return reads, cycles
