"""32-bit indices that wrap on their way to an address: a product, sum or shift whose exact value 32
bits do not hold.

Watched are only the instructions that come together in an index which is widened to 64 bits and
reaches an address, as found in the program (`Watched.of`). From the first wrap on, the exact value
goes along with the register, with leaves taken as signed and as unsigned. A fault is only an index
that neither gives: sums that wrap and come back are right. Shifts to the right, divisions, min and
max hide a wrap and are followed, but for what a large constant multiplies, as in a hash. What a mask
takes are the low bits, by intent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import Kind
from ..instructions import registry
from ..instructions.registry import Step
from ..machine.batch import Batch
from ..machine.operands import Operands
from ..machine.values import viewed
from ..ptx.program import Program
from ..ptx.syntax import Address, Immediate, Instruction, Register, registers_of
from ..ptx.types import TYPES

S32 = TYPES["s32"]
MIN_INT, MAX_INT = -(1 << 31), (1 << 31) - 1
MOVES = ("mov", "cvta")
OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "mad": lambda a, b, c: a * b + c,
    "shl": lambda a, b: a << b,
    "mov": lambda a: a,
}


# Of these instructions, only threads whose operands have wrapped before are followed.
HIDING: dict[str, Callable[..., np.ndarray]] = {
    "shr": lambda a, b: a >> np.clip(b, 0, 63),
    "div": lambda a, b: a // np.where(b == 0, 1, b),
    "min": np.minimum,
    "max": np.maximum,
    "hi": lambda a, b: (a >> 16) * b >> 16,
}
# Constants and numbers from here on are factors of hashes and random numbers.
HASH_CONSTANT, HASH = 1 << 16, 1 << 30


@dataclass(frozen=True)
class Watched:
    """Places of instructions that compute 32-bit indices, and of those that widen them."""

    parts: frozenset[int]
    widening: frozenset[int]

    @staticmethod
    def of(program: Program) -> Watched:
        wide = {
            o.base
            for i in program.code
            for o in i.operands
            if isinstance(o, Address) and isinstance(o.base, Register) and o.base.type.bits == 64
        }
        narrow: set[Register] = set()
        parts: set[int] = set()
        widening: set[int] = set()
        size = -1
        while size != len(wide) + len(narrow):
            size = len(wide) + len(narrow)
            for i in program.code:
                destination = i.operands[0] if i.operands else None
                if not isinstance(destination, Register) or not _computes(i) or _masks(i):
                    continue
                sources = [r for o in i.operands[1:] for r in registers_of(o)]
                if destination in wide:
                    wide.update(r for r in sources if r.type.bits == 64)
                    if _widens(i):
                        widening.add(i.pc)
                        narrow.update(r for r in sources if r.type.bits == 32)
                elif destination in narrow and _is_part(i):
                    parts.add(i.pc)
                    narrow.update(r for r in sources if r.type.bits == 32)
        return Watched(frozenset(parts), frozenset(widening))


def _computes(i: Instruction) -> bool:
    return i.opcode in MOVES or registry.is_elementwise(i)


def _masks(i: Instruction) -> bool:
    """Return whether an instruction keeps low bits alone, which a wrap leaves as they are."""
    return i.opcode == "and" and any(
        isinstance(o, Immediate) and 0 <= int(o.value) < 1 << 32 for o in i.operands[1:]
    )


def _widens(i: Instruction) -> bool:
    if i.opcode == "cvt":
        return i.modifiers in (("s64", "s32"), ("u64", "u32"))
    return (
        i.opcode in ("mul", "mad") and "wide" in i.modifiers and i.modifiers[-1] in ("s32", "u32")
    )


def _is_part(i: Instruction) -> bool:
    if i.opcode == "shl" and not isinstance(i.operands[2], Immediate):
        return False
    if i.opcode in ("mul", "mad") and "lo" not in i.modifiers and not _divides(i):
        return False
    plain = i.modifiers[-1] in ("s32", "u32", "b32") and not {"cc", "sat"} & set(i.modifiers)
    return (
        (i.opcode in OPERATIONS or i.opcode in HIDING)
        and plain
        and all(isinstance(o, Register | Immediate) for o in i.operands[1:])
    )


def _divides(i: Instruction) -> bool:
    """Return whether an instruction is the product by which compilers divide by a constant."""
    return i.opcode == "mul" and "hi" in i.modifiers and isinstance(i.operands[2], Immediate)


def _hashes(i: Instruction, values: list[np.ndarray]) -> bool:
    """Return whether an instruction multiplies by a number as of a hash, in which wraps are meant."""
    return i.opcode in ("mul", "mad") and any(
        np.abs(value.astype(np.int64)).max()
        >= (HASH_CONSTANT if isinstance(o, Immediate) else HASH)
        for o, value in zip(i.operands[1:3], values, strict=False)
    )


@dataclass(frozen=True)
class Exact:
    """The exact values of a register, while this array is in its slot; `pc`: the instruction that
    wrapped first.
    """

    array: np.ndarray
    signed: np.ndarray
    unsigned: np.ndarray
    pc: int


class Wraps:
    """Follows indices of a batch that have wrapped."""

    def __init__(self, machine: Batch, operands: Operands, program: Program) -> None:
        self.machine, self.operands = machine, operands
        self.watched = Watched.of(program)
        # `known` holds, by slot, the exact values of a register.
        self.known: dict[int, Exact] = {}
        # `ranges` holds, by slot, the array and the range in which its values lie.
        self.ranges: dict[int, tuple[np.ndarray, int, int]] = {}
        # Products at these pcs wrapped, as those of hashes do.
        self.hashes: set[int] = set()

    def part(self, i: Instruction, step: Step) -> Step:
        """Return the step of an instruction that computes a part of an index."""
        readers = [self.operands.reader(o, S32) for o in i.operands[1:]]
        machine, known, ranges, slot = self.machine, self.known, self.ranges, i.operands[0].slot
        registers = machine.state.registers
        hiding = HIDING.get("hi" if _divides(i) else i.opcode)

        def watched() -> None:
            if not machine.launch.checks.wraps or (hiding is not None and not known):
                step()
                return
            if hiding is not None:
                self._follow_hidden(i, hiding, [read() for read in readers], step)
                return
            if not known:
                low, high = _span(i.opcode, [self._range(o) for o in i.operands[1:]])
                if low >= MIN_INT and high <= MAX_INT:
                    step()
                    if machine.state.mask is None:
                        ranges[slot] = registers[slot], low, high
                    return
            self._follow(i, [read() for read in readers], step)

        return watched

    def _range(self, operand: Register | Immediate) -> tuple[int, int]:
        """Return the smallest and the largest value that an operand may have."""
        if not isinstance(operand, Register):
            value = _signed(int(operand.value))
            return value, value
        x = self.machine.state.registers[operand.slot]
        known = self.ranges.get(operand.slot)
        if known is None or known[0] is not x:
            values = viewed(x, S32.dtype)
            # A stride of 0 means one value for all lanes.
            uniform = not values.strides[0]
            low, high = (values[0], values[0]) if uniform else (values.min(), values.max())
            known = self.ranges[operand.slot] = x, int(low), int(high)
        return known[1:]

    def clear(self) -> None:
        """Forget everything: a batch begins, or a launch has ended."""
        self.known.clear()
        self.ranges.clear()

    def _follow(self, i: Instruction, values: list[np.ndarray], step: Step) -> None:
        """Execute a part, and keep its exact values where they are not the register's."""
        state, slot = self.machine.state, i.operands[0].slot
        exact = [self._exact(o, v) for o, v in zip(i.operands[1:], values, strict=True)]
        before = self._exact(i.operands[0], viewed(state.registers[slot], S32.dtype))
        operation = OPERATIONS[i.opcode]
        signed, unsigned = (operation(*(e[n] for e in exact)) for n in (0, 1))
        step()
        new = viewed(state.registers[slot], S32.dtype)
        if state.mask is not None:
            signed = np.where(state.mask, signed, before[0])
            unsigned = np.where(state.mask, unsigned, before[1])
        known = [e[2] for e in (*exact, before) if e[2] is not None]
        if _hashes(i, values):
            self.hashes.add(i.pc)
        if known or (signed != new).any():
            self.known[slot] = Exact(
                state.registers[slot], signed, unsigned, known[0] if known else i.pc
            )

    def _follow_hidden(
        self,
        i: Instruction,
        operation: Callable[..., np.ndarray],
        values: list[np.ndarray],
        step: Step,
    ) -> None:
        """Execute what may hide a wrap: of threads whose operands have wrapped, keep what exact ones
        give.
        """
        state, slot, signed = self.machine.state, i.operands[0].slot, i.modifiers[-1] == "s32"
        exact = [self._exact(o, v) for o, v in zip(i.operands[1:], values, strict=True)]
        wrapped = [pc for *_, pc in exact if pc is not None]
        step()
        new = viewed(state.registers[slot], S32.dtype if signed else np.dtype(np.uint32))

        def result(n: int) -> np.ndarray:
            lost = np.zeros(state.lanes, bool)
            for e, v in zip(exact, values, strict=True):
                lost |= (e[n] != v) & (signed | (e[n] != v.view(np.uint32)))
            return np.where(lost & state.living(), operation(*(e[n] for e in exact)), new)

        as_signed, as_unsigned = result(0), result(1)
        self.known.pop(slot, None)
        differ = (as_signed != new).any() and (as_unsigned != new).any()
        if wrapped and differ and self.hashes.isdisjoint(wrapped):
            self.known[slot] = Exact(state.registers[slot], as_signed, as_unsigned, wrapped[0])

    def _exact(
        self, operand: object, value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int | None]:
        """Return the exact values of an operand, as signed and as unsigned numbers, and what
        wrapped before.
        """
        if isinstance(operand, Register):
            known = self.known.get(operand.slot)
            if known is not None and known.array is self.machine.state.registers[operand.slot]:
                return known.signed, known.unsigned, known.pc
        signed = value.astype(np.int64)
        unsigned = (
            value.view(np.uint32).astype(np.int64) if isinstance(operand, Register) else signed
        )
        return signed, unsigned, None

    def widens(self, i: Instruction, step: Step) -> Step:
        """Return the step of an instruction that widens an index."""
        slots = [o.slot for o in i.operands[1:3] if isinstance(o, Register) and o.type.bits == 32]
        dtype = np.dtype(np.int32 if i.modifiers[-1] == "s32" else np.uint32)
        known = self.known

        def watched() -> None:
            step()
            if known:
                for slot in slots:
                    self._require_exact(i, slot, dtype)

        return watched

    def _require_exact(self, i: Instruction, slot: int, dtype: np.dtype) -> None:
        """Report the threads whose index is not what was computed."""
        state, known = self.machine.state, self.known.get(slot)
        if known is None or known.array is not state.registers[slot]:
            return
        value = viewed(known.array, dtype).astype(np.int64)
        wrong = (value != known.signed) & (value != known.unsigned) & state.living()
        new = wrong if state.wrapped is None else wrong & ~state.wrapped
        state.wrapped = wrong if state.wrapped is None else wrong | state.wrapped
        if new.any():
            diag, lane = self.machine.diag, int(np.flatnonzero(new)[0])
            by, at = self.machine.program.code[known.pc], diag.where(i)
            exact = int(known.signed[lane] if dtype.kind == "i" else known.unsigned[lane])
            what = f"a 32-bit index wraps: {exact:,} becomes {int(value[lane]):,}, of which an address is made"
            diag.report(
                Kind.WRAP,
                by,
                what + (f" at {at}" if at != diag.where(by) else ""),
                lane,
                int(np.count_nonzero(new)),
            )


def _span(opcode: str, of: list[tuple[int, int]]) -> tuple[int, int]:
    """Return between which numbers an exact result lies, going by those of its operands."""
    (a, b), (c, d) = of[0], of[1] if len(of) > 1 else (0, 0)
    if opcode == "mov":
        return a, b
    if opcode == "add":
        return a + c, b + d
    if opcode == "sub":
        return a - d, b - c
    if opcode == "shl":
        return (a << c, b << c) if 0 <= c < 32 else (0, 0)
    corners = (a * c, a * d, b * c, b * d)
    low, high = of[2] if opcode == "mad" else (0, 0)
    return min(corners) + low, max(corners) + high


def _signed(value: int) -> int:
    """Return a constant of 32 bits as a signed number."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
