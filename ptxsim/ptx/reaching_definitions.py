"""Which variables and parameters an address may come from: found in the program, whatever it is
launched with.

Followed through registers without regard to the order of instructions, and through memory as if it
were one place; so an answer may name too many, but none is left out. An answer that holds UNKNOWN
says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from .definite_assignment import results
from .program import Program
from .syntax import Address, Instruction, Register, Symbol, Variable, registers_of
from .types import TYPES

UNKNOWN = None
Origins = frozenset[Variable | None]
NOTHING: Origins = frozenset()
ANYTHING: Origins = frozenset((UNKNOWN,))


def find(program: Program) -> dict[int, Origins]:
    """Return, for each instruction with an address, by its pc, what its addresses may come from."""
    bases = {i.pc: [o.base for o in i.operands if isinstance(o, Address)] for i in program.code}
    # Addresses that are passed to functions are not followed.
    if len(program.functions) > 1:
        return {pc: ANYTHING for pc, of in bases.items() if of}
    search = _Search(program)
    while any([search.follow(i) for i in program.code]):
        pass
    return {
        pc: NOTHING.union(*(search.of(base) or ANYTHING for base in of))
        for pc, of in bases.items()
        if of
    }


def element_bytes(instruction: Instruction) -> int:
    """Return the bytes of an element of a load, store or atomic operation."""
    return next((TYPES[name].bytes for name in reversed(instruction.modifiers) if name in TYPES), 1)


def access_bytes(instruction: Instruction) -> int:
    """Return the bytes a thread of a load, store or atomic operation."""
    return element_bytes(instruction) * next(
        (int(m[1]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1
    )


def named_spaces(instruction: Instruction) -> set[str]:
    """Return the spaces that an access names; none: generic."""
    return {m.split("::")[0] for m in instruction.modifiers} & {
        "global",
        "shared",
        "local",
        "const",
        "param",
    }


def variable_of(program: Program, symbol: Symbol) -> Variable | None:
    """Return the variable that a symbol names, or None."""
    variable = symbol.variable or program.module.variables.get(symbol.name)
    return variable if isinstance(variable, Variable) else None


class _Search:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.held: dict[Register, Origins] = {}
        # Any value that is loaded may come from any that is stored.
        self.memory: Origins = NOTHING
        self.parameters = {p.variable for p in program.parameters}

    def follow(self, i: Instruction) -> bool:
        """Follow values through one instruction; whether anything new was found."""
        changed = False
        if i.opcode in ("st", "atom", "red"):
            stored = self._of_all(o for o in i.operands if not isinstance(o, Address))
            changed = not stored <= self.memory
            self.memory |= stored
        if written := results(i):
            given = (
                self._loaded(i)
                if i.opcode in ("ld", "ldu", "atom")
                else self._of_all(i.operands[1:])
            )
            for register in written:
                before = self.held.get(register, NOTHING)
                changed |= not given <= before
                self.held[register] = before | given
        return changed

    def _loaded(self, i: Instruction) -> Origins:
        """Return the origins of a loaded value: a parameter, a pointer from the host, or a stored
        value.
        """
        address = next(o for o in i.operands if isinstance(o, Address))
        if isinstance(address.base, Symbol):
            variable = variable_of(self.program, address.base)
            if variable in self.parameters:
                return frozenset((variable,))
        kind = TYPES[next(m for m in reversed(i.modifiers) if m in TYPES)]
        if (
            kind.bits == 64
            and kind.kind != "f"
            and not named_spaces(i) & {"shared", "local", "param"}
        ):
            return self.memory | ANYTHING
        return self.memory

    def of(self, operand: object) -> Origins:
        """Return the origins of an operand's value."""
        if isinstance(operand, Symbol):
            variable = variable_of(self.program, operand)
            return ANYTHING if variable is None else frozenset((variable,))
        if isinstance(operand, Address):
            return self.of(operand.base)
        return NOTHING.union(
            *(self.held.get(register, NOTHING) for register in registers_of(operand))
        )

    def _of_all(self, operands: Iterable[object]) -> Origins:
        return NOTHING.union(*map(self.of, operands))
