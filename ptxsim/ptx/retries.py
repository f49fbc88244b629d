"""Loops that repeat a compare-and-swap until no other thread comes between: an atomic addition,
product, minimum or maximum in other words, as programs write those that a device lacks.

    do { expected = old; old = atomicCAS(p, expected, expected + value); } while (old != expected);
    while (value > old) { expected = old; if ((old = atomicCAS(p, expected, value)) == expected) break; }
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .program import Program, targets
from .syntax import Immediate, Instruction, Register
from .types import TYPES, Type

MAX_BODY = 16
OPERATIONS = ("add", "sub", "mul", "min", "max")
# The loop ends where the old value compares so with the new one. For floats, "u" stands for
# "or unordered".
ENDS = {"ge": "max", "gt": "max", "le": "min", "lt": "min"}
SWAPPED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}
NEGATED = {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}
SAME_RESULT = {"rn", "lo"}


@dataclass(frozen=True)
class Retry:
    """What such a loop does to memory: `name` with `value`.

    `before`, `after`: registers that hold the old and the new value when the swap is done, besides
    its result.
    """

    name: str
    type: Type
    value: Register | Immediate
    before: tuple[Register, ...]
    after: tuple[Register, ...]


def retry(program: Program, swap: Instruction) -> Retry | None:
    """Return what the loop around a compare-and-swap does; None where it does something else."""
    body = _body(program, swap)
    if "cas" not in swap.modifiers or len(swap.operands) != 4:
        return None
    found, _, expected, new = swap.operands
    registers = (found, expected, new)
    if body is None or not all(isinstance(r, Register) for r in registers):
        return None
    moves = {i.operands[0]: i.operands[1] for i in body if i.opcode == "mov" and not i.predicate}
    tests = [i for i in body if i.opcode == "setp"]
    others = [i for i in body if i.opcode not in ("mov", "setp", "bra") and i is not swap]
    again = next((i for i in tests if {*i.operands[1:]} == {found, expected}), None)
    if again is None or moves.get(expected) is not found or not _goes_on(body[-1], again):
        return None
    copies = (expected, *(to for to, source in moves.items() if source is expected))
    written = {i.operands[0] for i in body if i.opcode != "bra"}
    if len(others) == len(tests) == 1:
        return _operation(others[0], new, moves, copies, written)
    if not others and len(tests) == 2:
        guard = next(i for i in tests if i is not again)
        return _extreme(body, guard, new, copies, written)
    return None


def _body(program: Program, swap: Instruction) -> list[Instruction] | None:
    """Return the instructions of the shortest loop around an instruction."""
    for branch in program.code[swap.pc : swap.pc + MAX_BODY]:
        for start in targets(branch):
            if branch.pc - MAX_BODY < start <= swap.pc:
                return program.code[start : branch.pc + 1]
    return None


def _goes_on(branch: Instruction, test: Instruction) -> bool:
    """Return whether the loop goes on where the swap did not find what it expected."""
    differs = "ne" in test.modifiers
    return branch.predicate is test.operands[0] and branch.negated != differs


def _operation(
    i: Instruction,
    new: Register,
    moves: dict[Any, Any],
    copies: tuple[Register, ...],
    written: set[Any],
) -> Retry | None:
    """Return the operation that computes the new value from the old one."""
    kind = next((TYPES[m] for m in i.modifiers if m in TYPES), None)
    if i.opcode not in OPERATIONS or kind is None or i.predicate or len(i.operands) != 3:
        return None
    after: list[Register] = [new]
    while after[-1] in moves and isinstance(moves[after[-1]], Register):
        after.append(moves[after[-1]])
    result, *operands = i.operands
    values = [o for o in operands if o not in copies]
    exact = {*i.modifiers} - SAME_RESULT == {kind.name} and kind.bits in (32, 64)
    if after[-1] is not result or len(values) != 1 or values[0] in written or not exact:
        return None
    if i.opcode == "sub" and operands[0] not in copies:
        return None
    return Retry(i.opcode, kind, values[0], copies, tuple(after))


def _extreme(
    body: list[Instruction],
    guard: Instruction,
    new: Register,
    copies: tuple[Register, ...],
    written: set[Any],
) -> Retry | None:
    """Return the minimum or maximum, where a guard leaves the loop for values that change nothing."""
    leave = next((i for i in body if i.opcode == "bra" and i is not body[-1]), None)
    kind = next((TYPES[m] for m in guard.modifiers if m in TYPES), None)
    compare = next((m[:2] for m in guard.modifiers if m[:2] in ENDS), None)
    _, left, right = guard.operands
    if leave is None or leave.predicate is not guard.operands[0] or not kind or not compare:
        return None
    if left not in copies:
        left, right, compare = right, left, SWAPPED[compare]
    if left not in copies or new in written or right in written:
        return None
    compare = NEGATED[compare] if leave.negated else compare
    return Retry(ENDS[compare], kind, right, copies, ())
