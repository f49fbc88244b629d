"""A `Program`: one entry of a module with all it can reach, laid out (`linking.link`).

Functions lie one after the other, callees before callers and the entry last, so that of several
pcs where threads wait the smallest is the one to run (see scheduler.py). Registers have slots,
variables addresses.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import PtxError
from .demangle import split
from .syntax import Function, Immediate, Instruction, Module, Special, Variable
from .types import Type


def align_up(value: int, to: int) -> int:
    return -(-value // to) * to


@dataclass(eq=False)
class Parameter:
    """A parameter of the entry."""

    variable: Variable
    offset: int


@dataclass(eq=False)
class Program:
    """A linked program, which `Machine` runs."""

    module: Module
    entry: Function
    functions: list[Function] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    start: dict[str, int] = field(default_factory=dict)
    # The owner of each pc is the function that holds it.
    owner: list[Function] = field(default_factory=list)
    slots: int = 0
    parameters: list[Parameter] = field(default_factory=list)
    parameter_bytes: int = 0
    # Shared memory begins here in its window, and its variables have addresses in the window.
    shared_base: int = 0
    shared: dict[Variable, int] = field(default_factory=dict)
    static_shared_bytes: int = 0
    # `frames` holds offsets in the thread's local memory.
    frames: dict[Variable, int] = field(default_factory=dict)
    local_bytes: int = 0
    recursive: bool = False
    # `allocates` is true where the program calls malloc.
    allocates: bool = False
    # Each function saves these slots for recursion.
    saved_slots: dict[str, list[int]] = field(default_factory=dict)
    # Its instructions name these variables and functions.
    names: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.entry.name

    @cached_property
    def opcodes(self) -> frozenset[str]:
        """Return those that its code has."""
        return frozenset(i.opcode for i in self.code)

    @cached_property
    def specials(self) -> frozenset[str]:
        """Return the names of the special registers that its code reads."""
        return frozenset(o.name for i in self.code for o in i.operands if isinstance(o, Special))

    @property
    def array_bytes(self) -> int:
        """Return the bytes of a thread's own arrays in local memory, without what functions are
        given.
        """
        return sum(v.size for v in self.frames if v.space == "local")

    @property
    def title(self) -> str:
        """Return the entry's name as in the source, with its template arguments; of long ones only
        their beginning.
        """
        return shortened(split(self.entry.name)[0])


# A module's first function has this address.
FUNCTIONS = 0x1000
# A longer title is cut to this many characters.
MAX_TITLE = 120


def shortened(title: str) -> str:
    """Return a name in at most `MAX_TITLE` characters: those of CuTe's kernels have thousands."""
    if len(title) <= MAX_TITLE:
        return title
    name, bracket, arguments = title.partition("<")
    name = name if len(name) <= MAX_TITLE // 2 else "..." + name[3 - MAX_TITLE // 2 :]
    if bracket:
        return f"{name}{bracket}{arguments[: MAX_TITLE - len(name) - len(bracket) - 4]}...>"
    return name


def targets(instruction: Instruction) -> tuple[int, ...]:
    """Return the pcs where a branch may go."""
    if instruction.opcode not in ("bra", "brx"):
        return ()
    last = instruction.operands[-1]
    return tuple(label.index for label in (last if isinstance(last, tuple) else (last,)))


def function_address(program: Program, name: str) -> int | None:
    """Return the number that stands for a function's address: the same in all kernels of a module,
    and not null.
    """
    function = program.module.functions.get(name)
    if function is None or function.code is None:
        return None
    return FUNCTIONS + 16 * list(program.module.functions).index(name)


def immediate_bytes(item: Immediate, type_: Type) -> bytes:
    """Return the bytes of a constant in a type."""
    if item.bits is not None and item.width == type_.bits:
        return item.bits.to_bytes(type_.bytes, "little")
    try:
        if type_.kind == "f" and type_.name in ("f32", "f64"):
            return struct.pack("<f" if type_.bits == 32 else "<d", item.value)
        return (int(item.value) & ((1 << type_.bits) - 1)).to_bytes(type_.bytes, "little")
    except (OverflowError, ValueError):
        # The number is too large, infinite or NaN.
        raise PtxError(f"the constant {item.value} is no {type_}") from None
