"""The parts of a parsed module: functions, instructions, variables and the kinds of operands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from ..errors import PtxError
from .debug_info import DebugInfo
from .types import Type


@dataclass(frozen=True)
class Location:
    """A line of the CUDA source (`.loc`); `inlined_at` is where the function it belongs to was
    inlined.
    """

    file: str
    line: int
    inlined_at: Location | None = None

    def __str__(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"


@dataclass(eq=False)
class Register:
    """A register; `slot` is its index in the machine's storage."""

    name: str
    type: Type
    slot: int


@dataclass(frozen=True)
class Negated:
    """`!%p`: the complement of a predicate."""

    register: Register


@dataclass(frozen=True)
class Special:
    """A special register such as `%tid.x` (PTX ISA 10)."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A constant: an int, or for 0f and 0d literals (and decimal ones) a float with its own
    bits.
    """

    value: int | float
    # The bits are those of a 0f or 0d literal.
    bits: int | None = None
    width: int = 0


@dataclass(frozen=True)
class Symbol:
    """The name of a variable, function or label, with an offset; `variable` where it is one of the
    function's own.
    """

    name: str
    offset: int = 0
    variable: object = None


@dataclass(frozen=True)
class Vector:
    """`{a, b, c, d}`."""

    items: tuple[Any, ...]


@dataclass(frozen=True)
class Pair:
    """`p|q`: two destinations."""

    first: object
    second: object


@dataclass(frozen=True)
class Address:
    """`[base+offset]`; texture coordinates stand in `index`."""

    # Without a base, the offset is the address.
    base: Register | Symbol | None
    offset: int = 0
    index: object = None


@dataclass(frozen=True)
class Arguments:
    """`(a, b)` of a call."""

    items: tuple[Any, ...]


def items_of(operand: object) -> tuple[Any, ...]:
    """Return the elements of a vector, or the operand itself as the only one."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def pair_of(operand: object) -> tuple[Any, Any]:
    """Return both destinations of a pair; of another operand itself and `_`."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


def is_store_async(instruction: Instruction) -> bool:
    """Return whether an instruction is st.async."""
    return instruction.opcode == "st" and "async" in instruction.modifiers


def registers_of(operand: object) -> Iterator[Register]:
    """Yield the registers that an operand names."""
    match operand:
        case Register():
            yield operand
        case Negated():
            yield operand.register
        case Vector() | Arguments():
            for item in operand.items:
                yield from registers_of(item)
        case Pair():
            yield from registers_of(operand.first)
            yield from registers_of(operand.second)
        case Address():
            yield from registers_of(operand.base)
            yield from registers_of(operand.index)
        case tuple():
            for item in operand:
                yield from registers_of(item)


@dataclass(eq=False)
class Instruction:
    """One instruction as written."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Any, ...]
    predicate: Register | None
    negated: bool
    location: Location | None
    ptx_line: int
    pc: int = -1
    # Basic blocks are numbered in the program.
    block: int = -1

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))

    @property
    def where(self) -> str:
        """Source line where the compiler gave one, else the line of the PTX."""
        return str(self.location) if self.location else f"PTX line {self.ptx_line}"

    def error(self, what: str) -> PtxError:
        """Return the error of this instruction, by place and name, that says `what` is wrong."""
        return PtxError(f"{self.where}: {self.name} {what}")

    def __repr__(self) -> str:
        return f"<{self.name} at {self.where}>"


@dataclass(eq=False)
class Variable:
    """A declared variable in a state space; `initial` holds numbers and `Symbol`s, `size` is in
    bytes.
    """

    name: str
    space: str
    type: Type
    align: int
    size: int
    initial: list[Any] | None = None
    extern: bool = False
    # `opaque` is texref, samplerref or surfref.
    opaque: str | None = None


def plain_name(name: str) -> str:
    """Return a variable's name as in the source: the last part of a mangled one."""
    for match in re.finditer(r"\d+", name if name.startswith("_Z") else ""):
        part = name[match.end() : match.end() + int(match[0])]
        if len(part) == int(match[0]) and re.fullmatch(
            r"(E?_\d+|E)?", name[match.end() + len(part) :]
        ):
            return part
    return name


@dataclass(eq=False)
class Label:
    """A place in a function; `pc` is relative to the function until the program is laid out."""

    name: str
    pc: int
    # A label of .branchtargets has targets.
    targets: list[str] | None = None
    # `pc` counts in the function, `index` in the program.
    index: int = -1


@dataclass(eq=False)
class Function:
    """An entry or a device function. Without a body: `code` is None."""

    name: str
    is_entry: bool
    params: list[Variable | Register] = field(default_factory=list)
    returns: list[Variable | Register] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    code: list[Instruction] | None = None
    attributes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    # `nvcc -G` names its variables.
    debug: DebugInfo | None = None

    @property
    def body(self) -> list[Instruction]:
        """Return the instructions of one that is defined."""
        assert self.code is not None, f"{self.name} is only declared"
        return self.code


@dataclass(eq=False)
class Module:
    """A parsed PTX file."""

    version: tuple[int, ...]
    target: str
    variables: dict[str, Variable]
    functions: dict[str, Function]
    # Linking checks operands once for all entries.
    operands_checked: bool = False

    @property
    def entries(self) -> list[str]:
        return [f.name for f in self.functions.values() if f.is_entry and f.code is not None]
