"""Loops in which threads wait for memory to change: flags that another warp or block sets.

What such a loop reads decides when it ends; one that counts its rounds, and has an atomic or a
volatile load, is none.

Who is in one is let to wait while others can run; and blocks of a grid with such a loop run side by
side, as many as a device holds, since a block may wait for one that comes later in the grid.

How often such a loop goes round depends on time, which is not emulated. So only its first round
counts as executed, as if what it waits for had come already: a lower bound of what a device
executes. Further rounds (polls) are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .program import Program, targets
from .syntax import Instruction, Register, Special, registers_of

# A longer loop does not count as one that polls.
MAX_INSTRUCTIONS = 64
ORDERED = {"volatile", "acquire", "relaxed"}
# These opcodes do more than look.
DOES = (
    "st",
    "red",
    "bar",
    "barrier",
    "cp",
    "wgmma",
    "mma",
    "wmma",
    "call",
    "ret",
    "exit",
    "stmatrix",
    "setmaxnreg",
)


def loops(program: Program) -> dict[int, Instruction]:
    """Return the loops that poll: where each begins, with the instruction that reads memory in
    it.
    """
    polls = {}
    for start, body in _idle_loops(program):
        looks = next((i for i in body if _looks(i) and _decides(i, body)), None)
        if looks is not None:
            polls[start] = looks
    return polls


def clocks(program: Program) -> frozenset[int]:
    """Return the pcs at which a clock is read in loops that wait for nothing else."""
    return frozenset(
        i.pc
        for _, body in _idle_loops(program)
        if not any(i.opcode in ("ld", "atom") for i in body)
        for i in body
        if reads_clock(i) and _decides(i, body)
    )


def _idle_loops(program: Program) -> Iterator[tuple[int, list[Instruction]]]:
    """Yield where each short loop begins that does no more than look, with its instructions."""
    for branch in program.code:
        for start in targets(branch):
            if start <= branch.pc < start + MAX_INSTRUCTIONS:
                body = program.code[start : branch.pc + 1]
                if not any(i.opcode in DOES for i in body):
                    yield start, body


def _decides(looks: Instruction, body: Sequence[Instruction]) -> bool:
    """Return whether what is read there decides that the loop ends: a loop that counts its rounds
    does not wait.
    """
    known: set[Register] = set(registers_of(looks.operands[:1]))
    before = 0
    while len(known) > before:
        before = len(known)
        for i in body:
            read = [i.predicate, *registers_of(i.operands[1:])]
            if not known.isdisjoint(read):
                known |= set(registers_of(i.operands[:1]))
    first, last = body[0].pc, body[-1].pc
    leaving = (i for i in body if i.pc == last or any(not first <= to <= last for to in targets(i)))
    return any(i.predicate in known for i in leaving)


def backward(program: Program, polls: dict[int, Instruction]) -> dict[int, int]:
    """Return the branches, by pc, at which a loop that polls goes round again, with where it
    begins.
    """
    return {
        branch.pc: start
        for branch in program.code
        for start in targets(branch)
        if start in polls and start <= branch.pc < start + MAX_INSTRUCTIONS
    }


def waits(program: Program, polls: dict[int, Instruction]) -> Instruction | None:
    """Return what makes the number of instructions depend on time: a loop that polls, or a
    try_wait, which a device may have to repeat.
    """
    return next((i for i in program.code if "try_wait" in i.modifiers), None) or next(
        iter(polls.values()), None
    )


def _looks(i: Instruction) -> bool:
    return (
        i.opcode == "atom"
        or (i.opcode == "ld" and not ORDERED.isdisjoint(i.modifiers))
        or "test_wait" in i.modifiers
    )


def reads_clock(i: Instruction) -> bool:
    """Return whether an instruction reads a clock."""
    source = i.operands[-1] if i.opcode == "mov" else None
    return isinstance(source, Special) and source.name.startswith(("%clock", "%globaltimer"))


def across_blocks(polls: dict[int, Instruction]) -> Instruction | None:
    """Return an instruction of these loops that may read what another block writes; None where
    there is none.
    """
    for i in polls.values():
        if i.opcode != "mbarrier" and not {m.split("::")[0] for m in i.modifiers} & {
            "shared",
            "local",
        }:
            return i
    return None
