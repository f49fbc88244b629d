"""Operands of instructions: functions that read and write them, made when a program is compiled.

Registers are slots of a list. An instruction does not change the array in a slot but puts a new one
there; arrays are never written after that, so a move costs nothing, and what follows from an
address register can be remembered for as long as the same array is in its slot. A float array in a
slot stands for the result of arithmetic, whose NaN has canonical bits; what was loaded or moved
keeps its bits, as unsigned integers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from ..errors import PtxError
from ..ptx import program as programs
from ..ptx.program import Program
from ..ptx.reaching_definitions import variable_of
from ..ptx.syntax import Address, Immediate, Negated, Register, Special, Symbol
from ..ptx.types import SIGNED, STORAGE, UNSIGNED, Type
from .memory import RANK_AT
from .state import State
from .values import merged, viewed

F4 = np.dtype("f4")
ADDRESS = np.dtype("u8")

# An operand is one of the classes of syntax.py, or None for `_`.
Operand = Any
# An access's space, the slot of its base register, and the offset.
MemoryOperand = tuple[str, int, int]
Widen = Callable[[np.ndarray], np.ndarray]


class Operands:
    """The registers, constants and names of a program."""

    # In a launch, variables of global memory have these addresses.
    symbols: Mapping[str, int]

    def __init__(
        self, program: Program, state: State, special: Callable[[str], np.ndarray]
    ) -> None:
        """`special`: the values of a special register for a batch."""
        self.program, self.state, self.special = program, state, special
        # `makers` fill constant slots at the start of a batch.
        self.makers: list[tuple[int, Callable[[], np.ndarray]]] = []
        self.constant_slots: dict[Hashable, int] = {}
        self.carry = state.new_slot()
        self.stack_slot = state.new_slot() if program.recursive else None
        # `stacked` has slots with addresses of local variables, and their offsets.
        self.stacked: list[tuple[int, int]] = []
        # Registers that were written together are stored as one array of rows, by their slots, and
        # read together.
        self.rows: dict[tuple[int, ...], tuple[np.ndarray, list[np.ndarray]]] = {}

    def start(self) -> None:
        """A batch begins: registers are zero, constants are what they are."""
        state, registers = self.state, self.state.registers
        self.rows.clear()
        zero = {t: state.uniform(t.type(0)) for t in STORAGE.values()}
        for function in self.program.functions:
            for register in function.registers:
                registers[register.slot] = zero[STORAGE[register.type.bits]]
        registers[self.carry] = zero[STORAGE[1]]
        if self.stack_slot is not None:
            registers[self.stack_slot] = np.zeros(state.lanes, np.int64)
            self.move_stack(np.zeros(state.lanes, np.int64))
        for slot, make in self.makers:
            registers[slot] = make()

    def reader(self, operand: Operand, t: Type) -> Callable[[], np.ndarray]:
        """Return a function that gives the operand's values in the NumPy type of `t`."""
        registers = self.state.registers
        if isinstance(operand, Negated):
            slot = self.operand_slot(operand.register, t)
            return lambda: ~registers[slot]
        slot = self.operand_slot(operand, t)
        dtype = t.dtype

        def read() -> np.ndarray:
            x = registers[slot]
            return x if x.dtype is dtype else viewed(x, dtype)

        return read

    def operand_slot(self, operand: Operand, t: Type) -> int:
        """Return the slot of a register, or of a constant made for an immediate, a special register
        or an address.
        """
        match operand:
            case Register():
                if (operand.type.kind == "p") != (t.kind == "p"):
                    raise PtxError(f"{operand.name} is {operand.type!r}, where a {t!r} is read")
                return operand.slot
            case Immediate():
                return self.immediate(operand, t)
            case Special():
                return self.constant(operand.name, lambda: self.special(operand.name))
            case Symbol():
                return self.symbol_slot(operand)
        raise PtxError("a vector or pair is not supported here")

    def immediate(self, operand: Immediate, t: Type) -> int:
        if t.kind == "p":
            return self.constant(
                ("pred", bool(operand.value)), lambda: self.state.uniform(np.bool_(operand.value))
            )
        value = np.frombuffer(programs.immediate_bytes(operand, t), t.dtype)[0]
        return self.constant((t.dtype, value.tobytes()), lambda: self.state.uniform(value))

    def symbol_slot(self, symbol: Symbol) -> int:
        """Return the slot with the address of a variable or function, in its own space."""
        key = ("symbol", symbol.variable or symbol.name, symbol.offset)
        space = self.symbol_space(symbol)

        def address() -> int:
            return self.symbol_address(symbol) + symbol.offset

        if space == "local" and self.stack_slot is not None:
            if key not in self.constant_slots:
                self.constant_slots[key] = self.state.new_slot()
                self.stacked.append((self.constant_slots[key], address()))
            return self.constant_slots[key]
        if space == "shared":
            return self.constant(key, lambda: self._in_own_shared(address()))
        return self.constant(key, lambda: self.state.uniform(ADDRESS.type(address())))

    def _in_own_shared(self, offset: int) -> np.ndarray:
        """Return an address in each thread's own shared memory."""
        if self.state.cluster_size == 1:
            return self.state.uniform(ADDRESS.type(offset))
        return (offset + (self.state.rank << RANK_AT)).astype(ADDRESS)

    def move_stack(self, by: np.ndarray) -> None:
        """Recursion: addresses of local variables move with each thread's depth of calls."""
        assert self.stack_slot is not None
        self.state.registers[self.stack_slot] = stack = self.state.registers[self.stack_slot] + by
        for slot, offset in self.stacked:
            self.state.registers[slot] = (stack + offset).view(ADDRESS)

    def symbol_space(self, symbol: Symbol) -> str:
        """Return the space a name lives in; parameters of device functions live in local memory."""
        variable = variable_of(self.program, symbol)
        if variable is None:
            if programs.function_address(self.program, symbol.name) is not None:
                return "function"
            raise PtxError(f"{symbol.name} is not defined")
        if variable in self.program.frames:
            return "local"
        return "global" if variable.space == "const" else variable.space

    def symbol_address(self, symbol: Symbol) -> int:
        variable, program = variable_of(self.program, symbol), self.program
        if variable is None:
            address = programs.function_address(program, symbol.name)
            # `symbol_space` made sure of it.
            assert address is not None
            return address
        if variable in program.shared:
            return program.shared[variable]
        if variable in program.frames:
            return program.frames[variable]
        for parameter in program.parameters:
            if parameter.variable is variable:
                return parameter.offset
        if variable.opaque:
            raise PtxError(
                f"{symbol.name}: texture and surface references are not supported, only texture objects"
            )
        if variable.name not in self.symbols:
            raise PtxError(f"{symbol.name} is declared but not defined here")
        return self.symbols[variable.name]

    def target(self, operand: Operand, t: Type) -> tuple[int, Widen | None]:
        """Return the slot of a destination, and how a value of type `t` is widened to the register,
        if at all.
        """
        if not isinstance(operand, Register):
            if operand is None:
                return self.constant("sink", lambda: self.state.uniform(np.uint32(0))), None
            raise PtxError("a single register must be the destination")
        if (operand.type.kind == "p") != (t.kind == "p"):
            raise PtxError(f"{operand.name} is {operand.type!r}, where a {t!r} is written")
        bits = operand.type.bits
        if bits <= t.bits or t.kind == "p":
            return operand.slot, (lambda x: x.astype(STORAGE[bits])) if bits < t.bits else None
        types = SIGNED if t.signed else UNSIGNED
        return operand.slot, lambda x: viewed(x, types[x.itemsize]).astype(types[bits // 8])

    def writer(self, operand: Operand, t: Type) -> Callable[[np.ndarray], None]:
        """Return a function that writes a value for every lane; only `mask` keeps it."""
        slot, widen = self.target(operand, t)
        write = self.write_slot(slot)
        return write if widen is None else lambda value: write(widen(value))

    def write_slot(self, slot: int) -> Callable[[np.ndarray], None]:
        registers = self.state.registers

        def write(value: np.ndarray) -> None:
            mask = self.state.mask
            registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        return write

    def lane_writer(
        self, operand: Operand, t: Type
    ) -> Callable[[np.ndarray, np.ndarray | None], None]:
        """Return a function that writes values of some lanes (None: of all), as loads give them."""
        slot, widen = self.target(operand, t)
        registers = self.state.registers
        is_float = t.dtype is F4

        def write(values: np.ndarray, lanes: np.ndarray | None) -> None:
            if widen is not None:
                values = widen(values if values.dtype is t.dtype else viewed(values, t.dtype))
            elif is_float and lanes is None:
                seen = values.view(F4)
                if not np.count_nonzero(seen != seen):
                    # Without a NaN, bits and value are the same.
                    values = seen
            if lanes is None:
                registers[slot] = values
                return
            old = registers[slot]
            new = viewed(old, values.dtype).copy()
            new[lanes] = values
            registers[slot] = new

        return write

    def address(self, operand: Address, space: str) -> MemoryOperand:
        """Return the memory operand of an address operand."""
        base = operand.base
        if isinstance(base, Register):
            return space, base.slot, operand.offset
        if base is None:
            null = self.constant("null", lambda: self.state.uniform(ADDRESS.type(0)))
            return space, null, operand.offset
        declared = self.symbol_space(base)
        if space == "generic" or (space == "param" and declared == "local") or space == "const":
            space = declared
        return space, self.symbol_slot(base), operand.offset

    def constant(self, key: Hashable, make: Callable[[], np.ndarray]) -> int:
        """Return a slot that is filled when a batch starts."""
        if key not in self.constant_slots:
            slot = self.constant_slots[key] = self.state.new_slot()
            self.makers.append((slot, make))
        return self.constant_slots[key]
