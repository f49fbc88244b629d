"""Which variables and parameters an address may come from: found in the program, whatever it is launched with.

Followed through registers without regard to the order of instructions, and through memory as if it were one place; so
an answer may name too many, but none is left out. An answer that holds UNKNOWN says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from .program import Program
from .syntax import Address, Instruction, Negated, Pair, Register, Symbol, Variable, Vector
from .types import TYPES

UNKNOWN = None
Origins = frozenset[Variable | None]
NOTHING: Origins = frozenset()
ANYTHING: Origins = frozenset((UNKNOWN,))
WITHOUT_RESULT = ("st", "red", "bra", "brx", "bar", "barrier", "call", "ret", "exit", "trap", "prefetch", "cp", "fence")


def find(program: Program) -> dict[int, Origins]:
    """For each instruction with an address, by its pc: what its addresses may come from."""
    found = _Search(program)
    if len(program.functions) > 1:  # addresses that are passed to functions are not followed
        return {i.pc: ANYTHING for i in program.code if _addresses(i)}
    while found.pass_over():
        pass
    return {
        i.pc: frozenset().union(*(found.of(a.base) or ANYTHING for a in addresses))
        for i in program.code
        if (addresses := _addresses(i))
    }


def access_bytes(instruction: Instruction) -> int:
    """Bytes a thread of a load, store or atomic operation."""
    types = [TYPES[name] for name in instruction.modifiers if name in TYPES]
    vector = next((int(m[1]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    return (types[-1].bytes if types else 1) * vector


def named_spaces(instruction: Instruction) -> set[str]:
    """The spaces that an access names; none: generic."""
    return {m.split("::")[0] for m in instruction.modifiers} & {"global", "shared", "local", "const", "param"}


def _addresses(instruction: Instruction) -> list[Address]:
    return [operand for operand in instruction.operands if isinstance(operand, Address)]


class _Search:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.held: dict[Register, Origins] = {}
        self.memory: Origins = NOTHING  # of any value that is stored
        self.parameters = {p.variable for p in program.parameters}

    def pass_over(self) -> bool:
        """Once over the program; whether anything new was found."""
        changed = False
        for instruction in self.program.code:
            changed |= self._one(instruction)
        return changed

    def _one(self, i: Instruction) -> bool:
        if i.opcode in ("st", "atom", "red"):
            stored = frozenset().union(*(self.of(o) for o in i.operands if not isinstance(o, Address)))
            changed = not stored <= self.memory
            self.memory |= stored
            return (self._give(i.operands[0], self._loaded(i)) or changed) if i.opcode == "atom" else changed
        if not i.operands or i.opcode in WITHOUT_RESULT:
            return False
        if i.opcode in ("ld", "ldu"):
            return self._give(i.operands[0], self._loaded(i))
        return self._give(i.operands[0], frozenset().union(*(self.of(o) for o in i.operands[1:])))

    def _loaded(self, i: Instruction) -> Origins:
        """Return the origins of a loaded value: a parameter, a pointer from the host, or a stored value."""
        address = next(o for o in i.operands if isinstance(o, Address))
        if isinstance(address.base, Symbol):
            variable = self._variable(address.base)
            if variable in self.parameters:
                return frozenset((variable,))
        kind = TYPES[next(m for m in reversed(i.modifiers) if m in TYPES)]
        if kind.bits == 64 and kind.kind != "f" and not named_spaces(i) & {"shared", "local", "param"}:
            return self.memory | ANYTHING
        return self.memory

    def _give(self, destination: object, origins: Origins) -> bool:
        changed = False
        if origins:
            for register in _registers(destination):
                before = self.held.get(register, NOTHING)
                if not origins <= before:
                    self.held[register] = before | origins
                    changed = True
        return changed

    def of(self, operand: object) -> Origins:
        """Return the origins of an operand's value."""
        if isinstance(operand, Register):
            return self.held.get(operand, NOTHING)
        if isinstance(operand, Symbol):
            variable = self._variable(operand)
            return ANYTHING if variable is None else frozenset((variable,))
        if isinstance(operand, Address):
            return self.of(operand.base)
        return frozenset().union(*(self.of(register) for register in _registers(operand)))

    def _variable(self, symbol: Symbol) -> Variable | None:
        found = symbol.variable or self.program.module.variables.get(symbol.name)
        return found if isinstance(found, Variable) else None


def _registers(operand: object) -> Iterator[Register]:
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from _registers(item)
    elif isinstance(operand, Pair):
        yield from _registers(operand.first)
        yield from _registers(operand.second)
    elif isinstance(operand, Negated):
        yield operand.register
