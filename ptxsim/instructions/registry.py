"""Where the semantics of instructions are registered: one place each, by opcode and type.

Most instructions work on each thread by itself. Such a one is a function that reads the modifiers
and returns an `Elementwise`: the operation on whole arrays, one element a thread, with the types of
its operands:

    @elementwise("and", BITS)
    def and_(m: Modifiers) -> Elementwise:
        return Elementwise(np.bitwise_and, m.type, (m.type, m.type))

The rest (memory, warps, barriers, control) are functions of the machine that return a step: see
`effect`, `control`. They state the kinds of their operands where they are registered, and linking
checks them:

    @effect("ld", takes(RESULTS, ADDRESS, optional=(VALUE,)))
    def ld(m, instruction, modifiers): ...

Whatever a builder leaves of the modifiers is an error: nothing is skipped in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, overload

import numpy as np

from ..errors import PtxError
from ..ptx.syntax import (
    Address,
    Arguments,
    Immediate,
    Instruction,
    Label,
    Negated,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)
from ..ptx.types import TYPES, Type
from .needs import Machine


@dataclass(frozen=True)
class Kind:
    """A kind of operand: its description, the classes it may have, and a test of their objects."""

    label: str
    classes: tuple[type, ...]
    holds: Callable[[Any], bool] | None = None

    def allows(self, operand: object) -> bool:
        return isinstance(operand, self.classes) and (self.holds is None or self.holds(operand))


# `_` stands for no operand.
NOTHING = type(None)
VALUE = Kind("a register, constant or name", (Register, Immediate, Special, Symbol, Negated))
RESULT = Kind("a register or _", (Register, NOTHING))
PAIR = Kind("a register, _ or a pair p|q", (Register, NOTHING, Pair))
NUMBER = Kind(
    "a whole number from 0 on",
    (Immediate,),
    lambda o: isinstance(o.value, int) and 0 <= o.value < 1 << 32,
)
ADDRESS = Kind("an address [base+offset]", (Address,), lambda o: o.index is None)
TEXEL = Kind(
    "an address [texture, {x}]", (Address,), lambda o: o.index is not None and o.base is not None
)
BOX = Kind("an address [tensor map, {coordinates}]", (Address,), TEXEL.holds)
LABEL = Kind("a label", (Label,))
LABELS = Kind("a label of a table", (tuple,))
RESULT_VECTOR = Kind(
    "a vector of registers", (Vector,), lambda o: o.items and all(map(RESULT.allows, o.items))
)
VALUE_VECTOR = Kind(
    "a vector of registers", (Vector,), lambda o: o.items and all(map(VALUE.allows, o.items))
)
RESULTS = Kind(
    "a register, _ or a vector of them",
    (Register, NOTHING, Vector),
    lambda o: not isinstance(o, Vector) or RESULT_VECTOR.allows(o),
)
VALUES = Kind(
    "a register, constant or name, or a vector of them",
    (*VALUE.classes, Vector),
    lambda o: not isinstance(o, Vector) or VALUE_VECTOR.allows(o),
)
CALLEE = Kind("a function or a register", (Symbol, Register))
ARGUMENTS = Kind(
    "registers, constants or names in parentheses",
    (Arguments,),
    lambda o: all(isinstance(item, (Symbol, Immediate, Register)) for item in o.items),
)


@dataclass(frozen=True)
class Form:
    """The operands that an instruction takes where all the modifiers `when` are there. `kinds`
    None: any, since its builder refuses it."""

    kinds: tuple[Kind, ...] | None
    min_operands: int
    when: frozenset[str]


def takes(*kinds: Kind, optional: Iterable[Kind] = (), when: str | Iterable[str] = ()) -> Form:
    """Return the pattern of operands of these kinds, which optional ones may follow."""
    names = when.split() if isinstance(when, str) else when
    return Form((*kinds, *optional), len(kinds), frozenset(names))


def anything(when: str = "") -> Form:
    """Return the pattern that accepts any operands, for a form that is not emulated."""
    return Form(None, 0, frozenset(when.split()))


# `Compute` makes an array of arrays, or a tuple of them.
Compute = Callable[..., Any]


@dataclass(frozen=True)
class Elementwise:
    """An instruction that acts on each thread separately.

    `compute` takes an array for each source and returns one (a tuple for several destinations), in
    the NumPy types of `sources` and `result`. `carry` says that the carry flag is read (a last
    argument), written (a last result).
    """

    compute: Compute
    result: Type | tuple[Type, ...]
    sources: tuple[Type, ...]
    reads_carry: bool = False
    writes_carry: bool = False


class Modifiers:
    """The modifiers of an instruction.

    What is not taken by name is an error: nothing is skipped in silence.
    """

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.types = [TYPES[name] for name in instruction.modifiers if name in TYPES]
        self.left = [name for name in instruction.modifiers if name not in TYPES]

    @property
    def type(self) -> Type:
        """Return the last type modifier, which is the instruction type of most instructions."""
        if not self.types:
            raise PtxError(f"{self.instruction.where}: {self.instruction.name} has no type")
        return self.types[-1]

    def two_types(self) -> tuple[Type, Type]:
        """Return the first two types. Raises `PtxError` where there are fewer."""
        if len(self.types) < 2:
            raise PtxError(f"{self.instruction.where}: {self.instruction.name} needs two types")
        return self.types[0], self.types[1]

    def flag(self, name: str) -> bool:
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    @overload
    def one_of(self, names: Iterable[str], default: str) -> str: ...
    @overload
    def one_of(self, names: Iterable[str], default: None = None) -> str | None: ...
    def one_of(self, names: Iterable[str], default: str | None = None) -> str | None:
        """Take the modifier that is one of these."""
        for name in names:
            if self.flag(name):
                return name
        return default

    def drop(self, prefixes: Iterable[str]) -> None:
        """Take modifiers that change nothing here, for instance cache hints."""
        self.left = [
            name for name in self.left if not any(name.startswith(prefix) for prefix in prefixes)
        ]

    def done(self) -> None:
        if self.left:
            self.reject(f"modifier .{self.left[0]}")

    def reject(self, what: str) -> NoReturn:
        raise PtxError(
            f"{self.instruction.where}: {what} of {self.instruction.name} is not supported"
        )


Build = Callable[[Modifiers], Elementwise]
# A step acts for the active threads; its result is not used.
Step = Callable[[], object]
# A control takes the mask of active threads to the pc where they all go on.
Control = Callable[[np.ndarray], int | None]
Built = TypeVar("Built", Step, Control)
Builder = Callable[[Machine, Instruction, Modifiers], Built]

ELEMENTWISE: dict[tuple[str, str | None], Build] = {}
EFFECTS: dict[str, Callable[[Machine, Instruction], Step]] = {}
CONTROLS: dict[str, Callable[[Machine, Instruction], Control]] = {}
# Of an opcode, the first form whose modifiers are there counts.
OPERANDS: dict[str, tuple[Form, ...]] = {}


def elementwise(opcode: str, types: Iterable[str] | None = None) -> Callable[[Build], Build]:
    """Register the builder of an `Elementwise` for an opcode, for these types of its last type
    modifier.
    """

    def register(build: Build) -> Build:
        for name in types or (None,):
            if (opcode, name) in ELEMENTWISE:
                raise ValueError(f"{opcode}.{name} is registered twice")
            ELEMENTWISE[opcode, name] = build
        # The `Elementwise` says how many sources there are.
        OPERANDS[opcode] = (takes(PAIR, VALUE, optional=(VALUE,) * 4),)
        return build

    return register


def same_type(opcode: str, types: Iterable[str], compute: Compute, count: int) -> None:
    """Register an operation without modifiers, whose `count` sources and result have the
    instruction's type.
    """
    elementwise(opcode, types)(lambda m: Elementwise(compute, m.type, (m.type,) * count))


def _registers(
    table: dict[str, Callable[[Machine, Instruction], Built]], opcode: str, forms: tuple[Form, ...]
) -> Callable[[Builder[Built]], Builder[Built]]:
    def register(build: Builder[Built]) -> Builder[Built]:
        def built(m: Machine, instruction: Instruction) -> Built:
            modifiers = Modifiers(instruction)
            made = build(m, instruction, modifiers)
            modifiers.done()
            return made

        table[opcode], OPERANDS[opcode] = built, forms
        return build

    return register


def effect(opcode: str, *forms: Form) -> Callable[[Builder[Step]], Builder[Step]]:
    """Register the builder of a step that touches memory or other threads.

    The step is a function without arguments; `machine.state.active` says for which threads it runs.
    """
    return _registers(EFFECTS, opcode, forms)


def control(opcode: str, *forms: Form) -> Callable[[Builder[Control]], Builder[Control]]:
    """Register the builder of an instruction that decides what comes next.

    Its step takes the mask of active threads and returns the pc at which they all go on, or None
    after it has put them elsewhere: in the machine's groups, at a barrier, or out of the program.
    """
    return _registers(CONTROLS, opcode, forms)


def find_elementwise(instruction: Instruction) -> Build | None:
    types = [name for name in instruction.modifiers if name in TYPES]
    return ELEMENTWISE.get((instruction.opcode, types[-1] if types else None)) or ELEMENTWISE.get(
        (instruction.opcode, None)
    )


def is_elementwise(instruction: Instruction) -> bool:
    """Return whether an instruction works on each thread by itself, and on registers alone."""
    return instruction.opcode not in EFFECTS and instruction.opcode not in CONTROLS


def require_operands(instruction: Instruction) -> None:
    """Raise `PtxError` where an operand is not of the kind that the instruction takes there.

    An opcode that is not known is let through: only what an entry reaches must be."""
    operands, where = instruction.operands, f"PTX line {instruction.ptx_line}"
    fits = (
        f for f in OPERANDS.get(instruction.opcode, ()) if f.when.issubset(instruction.modifiers)
    )
    form = next(fits, None)
    if form is None or form.kinds is None:
        return
    if not form.min_operands <= len(operands) <= len(form.kinds):
        upper = "" if form.min_operands == len(form.kinds) else f" to {len(form.kinds)}"
        raise PtxError(
            f"{where}: {instruction.name} takes {form.min_operands}{upper} operands, found {len(operands)}"
        )
    for index, (operand, kind) in enumerate(zip(operands, form.kinds, strict=False), 1):
        if not kind.allows(operand):
            raise PtxError(f"{where}: operand {index} of {instruction.name} must be {kind.label}")
