"""Arguments that do no more than say how often each block goes round its loops: k of a matrix
product, as a rule.

Counts of a launch with a large one follow from launches with small ones (`prediction.predict`). An
argument is such a one where, followed through registers, it reaches branches, the predicates and
sizes of accesses, but no address and nothing that is stored, and meets on its way no value that
differs between blocks, or that comes out of memory: so all blocks do the same with it. How the
counts grow must still be seen.
"""

from __future__ import annotations

from ..instructions import registry
from ..ptx.program import Program, targets
from ..ptx.syntax import Address, Instruction, Register, Special, Symbol, registers_of

# These copy what threads of a block hold.
COPIES = ("mov", "cvta", "shfl", "elect", "vote", "activemask", "redux", "match")
OF_BLOCK = ("%ctaid", "%clusterid", "%smid", "%gridid", "%clock", "%globaltimer", "%envreg")


def trip_counts(program: Program) -> list[int]:
    """Return the places of the parameters that only count trips of loops."""
    if len(program.functions) > 1:
        return []
    indices = {p.variable: n for n, p in enumerate(program.parameters)}
    loads: dict[int, set[Register]] = {}
    # `of_parameter` holds the pcs of the loads of parameters.
    of_parameter = set()
    for i in program.code:
        source = i.operands[1] if i.opcode == "ld" and "param" in i.modifiers else None
        if (
            isinstance(source, Address)
            and isinstance(source.base, Symbol)
            and source.base.variable in indices
        ):
            of_parameter.add(i.pc)
            whole = not source.offset and not i.modifiers[-1].startswith("f")
            if whole and isinstance(i.operands[0], Register):
                loads.setdefault(indices[source.base.variable], set()).add(i.operands[0])
    varying = _reached(
        program,
        {r for i in program.code if _differs(i, of_parameter) for r in registers_of(_first(i))},
    )
    return [
        index for index, registers in loads.items() if _counts_trips(program, registers, varying)
    ]


def _first(i: Instruction) -> object:
    """Return the operand that an instruction may write."""
    return i.operands[0] if i.operands and i.opcode not in ("st", "red", "bra", "brx") else ()


def _computes(i: Instruction) -> bool:
    """Return whether an instruction's result follows from its operands, in all threads of a block."""
    return i.opcode in COPIES or registry.is_elementwise(i)


def _differs(i: Instruction, of_parameter: set[int]) -> bool:
    """Return whether an instruction's result is another in other blocks, whatever its operands."""
    if any(isinstance(o, Special) and o.name.startswith(OF_BLOCK) for o in i.operands):
        return True
    return not _computes(i) and i.pc not in of_parameter


def _reached(program: Program, registers: set[Register]) -> set[Register]:
    """Return these registers and all that are computed from them."""
    reached, size = set(registers), -1
    while size != len(reached):
        size = len(reached)
        for i in program.code:
            if _computes(i) and (
                i.predicate in reached or not reached.isdisjoint(registers_of(i.operands[1:]))
            ):
                reached.update(registers_of(_first(i)))
    return reached


def _counts_trips(program: Program, registers: set[Register], varying: set[Register]) -> bool:
    taint = _reached(program, registers)
    if not taint.isdisjoint(varying):
        return False
    goes_back = False
    for i in program.code:
        if _computes(i):
            continue
        if i.opcode in ("bra", "brx"):
            goes_back |= i.predicate in taint and any(target <= i.pc for target in targets(i))
        elif i.opcode == "cp":
            # The size of the copy may depend on it.
            if any(
                not taint.isdisjoint(registers_of(o)) for o in i.operands if isinstance(o, Address)
            ):
                return False
        elif not taint.isdisjoint(
            registers_of(i.operands[i.opcode in ("ld", "ldu", "ldmatrix") :])
        ):
            return False
    return goes_back
