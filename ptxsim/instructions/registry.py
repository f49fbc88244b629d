"""Where the semantics of instructions are registered: one place each, by opcode and type.

Most instructions work on each thread by itself. Such a one is a function that reads the modifiers and returns an
`Elementwise`: the operation on whole arrays, one element a thread, with the types of its operands:

    @elementwise("and", BITS)
    def and_(m: Modifiers) -> Elementwise:
        return Elementwise(np.bitwise_and, m.type, (m.type, m.type))

The rest (memory, warps, barriers, control) are functions of the machine that return a step: see `effect`, `control`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import PtxError
from ..syntax import Instruction
from ..types import TYPES, Type


@dataclass(frozen=True)
class Elementwise:
    """What an instruction does to each thread by itself.

    `compute` takes an array for each source and returns one (a tuple for several destinations), in the NumPy types
    of `sources` and `result`. `carry` says that the carry flag is read (a last argument), written (a last result).
    """

    compute: Callable
    result: Type | tuple[Type, ...]
    sources: tuple[Type, ...]
    reads_carry: bool = False
    writes_carry: bool = False


class Modifiers:
    """The modifiers of an instruction. What is not taken by name is an error: nothing is skipped in silence."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)
        self.types = [TYPES[name] for name in instruction.modifiers if name in TYPES]
        self.left = [name for name in self.left if name not in TYPES]

    @property
    def type(self) -> Type:
        """Its last type: the instruction type of most."""
        if not self.types:
            raise PtxError(f"{self.instruction.where}: {self.instruction.name} has no type")
        return self.types[-1]

    def flag(self, name: str) -> bool:
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def one_of(self, names: Iterable[str], default: str | None = None) -> str | None:
        for name in names:
            if self.flag(name):
                return name
        return default

    def drop(self, prefixes: Iterable[str]) -> None:
        """Take modifiers that change nothing here, for instance cache hints."""
        self.left = [name for name in self.left if not any(name.startswith(prefix) for prefix in prefixes)]

    def done(self) -> None:
        if self.left:
            self.reject(f"modifier .{self.left[0]}")

    def reject(self, what: str) -> None:
        raise PtxError(f"{self.instruction.where}: {what} of {self.instruction.name} is not supported")


ELEMENTWISE: dict[tuple[str, str | None], Callable[[Modifiers], Elementwise]] = {}
EFFECTS: dict[str, Callable] = {}
CONTROLS: dict[str, Callable] = {}


def elementwise(opcode: str, types: Iterable[str] | None = None):
    """Register the builder of an `Elementwise` for an opcode, for these types of its last type modifier."""

    def register(build):
        for name in types or (None,):
            if (opcode, name) in ELEMENTWISE:
                raise ValueError(f"{opcode}.{name} is registered twice")
            ELEMENTWISE[opcode, name] = build
        return build

    return register


def effect(opcode: str):
    """Register the builder of a step that touches memory or other threads: `build(machine, instruction)`.

    The step is a function without arguments; `machine.active` says for which threads it runs.
    """

    def register(build):
        EFFECTS[opcode] = build
        return build

    return register


def control(opcode: str):
    """Register the builder of an instruction that decides what comes next: `build(machine, instruction)`.

    Its step takes the mask of active threads and returns the pc at which they all go on, or None after it has put
    them elsewhere: in the machine's groups, at a barrier, or out of the program.
    """

    def register(build):
        CONTROLS[opcode] = build
        return build

    return register


def find_elementwise(instruction: Instruction) -> Callable[[Modifiers], Elementwise] | None:
    types = [name for name in instruction.modifiers if name in TYPES]
    return ELEMENTWISE.get((instruction.opcode, types[-1] if types else None)) or ELEMENTWISE.get(
        (instruction.opcode, None)
    )


def is_control(instruction: Instruction) -> bool:
    """Whether an instruction ends a straight run. `bar.red` and the like are both barrier and data."""
    return instruction.opcode in CONTROLS
