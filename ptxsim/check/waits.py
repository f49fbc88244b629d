"""What ends a loop that waits for a flag: the comparison of the value that it reads, where that
decides alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..errors import PtxError
from ..instructions.compare import COMBINE, comparison
from ..instructions.registry import Modifiers
from ..machine.operands import Operands
from ..ptx.definite_assignment import sources
from ..ptx.program import Program, targets
from ..ptx.reaching_definitions import access_bytes
from ..ptx.syntax import Immediate, Instruction, Register, registers_of
from ..ptx.types import TYPES
from .flags import Swap, Wait


def unseen(program: Program) -> set[int]:
    """Return the pcs of atomics whose results nobody reads: these tell their threads nothing."""
    atoms = [i for i in program.code if i.opcode == "atom"]
    if not atoms:
        return set()
    read = {register for i in program.code for register in sources(i)}
    return {i.pc for i in atoms if read.isdisjoint(registers_of(i.operands[0]))}


def swaps(operands: Operands, program: Program) -> dict[int, Swap]:
    """Return, by the pc of a compare-and-swap, what it compares with and what it stores."""
    return {
        i.pc: (operands.reader(i.operands[2], t), operands.reader(i.operands[3], t))
        for i in program.code
        if i.opcode == "atom" and "cas" in i.modifiers and access_bytes(i) <= 8
        for t in (TYPES[f"b{8 * access_bytes(i)}"],)
    }


def waits(
    operands: Operands,
    program: Program,
    loops: Mapping[int, Instruction],
    rounds: Mapping[int, int],
) -> dict[int, Wait]:
    """Return, by pc, loads and atomics for whose value alone a loop waits. `loops` and `rounds`: as
    in polling.py."""
    by_pc: dict[int, Wait] = {}
    for last, start in rounds.items():
        looks, body = loops[start], program.code[start : last + 1]
        register = looks.operands[0] if looks.operands else None
        if looks.opcode not in ("ld", "atom") or not isinstance(register, Register):
            continue
        uses = [i for i in program.code if i is not looks and register in registers_of(i.operands)]
        if len(uses) == 1 and uses[0] in body and uses[0].opcode == "setp":
            holds = _comparison(operands, uses[0], register, body, access_bytes(looks))
            if holds is not None:
                by_pc[looks.pc] = Wait(holds, _again(looks, uses[0], body))
    return by_pc


def _again(looks: Instruction, setp: Instruction, body: list[Instruction]) -> bool | None:
    """Return which result of a loop's comparison makes it go round once more; None where more
    decides."""
    (*rest, branch), result = body, setp.operands[0]
    written = [i for i in rest if result in registers_of(i.operands[:1])]
    alone = written == [setp] and branch.predicate is result and not any(map(targets, rest))
    return not branch.negated if alone and looks.predicate is setp.predicate is None else None


def _comparison(
    operands: Operands, setp: Instruction, register: Register, body: list[Instruction], width: int
) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """Return the comparison of a register with what the loop leaves as it is."""
    modifiers = Modifiers(setp)
    t = modifiers.type
    if (
        t.bytes != width
        or t.kind == "f"
        or not COMBINE.keys().isdisjoint(setp.modifiers)
        or len(setp.operands) != 3
    ):
        return None
    _, left, right = setp.operands
    other, first = (right, True) if left is register else (left, False)
    changed = any(
        other in registers_of(i.operands[:1]) for i in body if isinstance(other, Register)
    )
    if not isinstance(other, Register | Immediate) or other is register or changed:
        return None
    try:
        test, read = comparison(modifiers, t), operands.reader(other, t)
    except PtxError:
        return None

    def holds(values: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        value, fixed = values.astype(f"i{t.bytes}").view(t.dtype), read()[lanes]
        return test(value, fixed) if first else test(fixed, value)

    return holds
