"""Straight runs of instructions, from one pc to the next branch or meeting point, as lists of
steps.

Where values are asked for, neighbouring f32 FMAs that do not depend on each other, as of an outer
product, are computed together: one array operation for many instructions. Where only counts are,
what does not bear on them is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np

from ..check.defined import Defined
from ..instructions.matrix import mma_together
from ..instructions.memory import blind
from ..instructions.needs import Machine
from ..instructions.registry import Modifiers, Step
from ..machine import floats, native
from ..machine.values import viewed
from ..ptx.syntax import Instruction, Register, Variable, registers_of
from ..ptx.types import TYPES
from .lowering import Lowering
from .slicing import Slice, reads_memory, slice_of

F32 = TYPES["f32"]
FMA = ("rn", "f32")
# Fewer FMAs are not worth being computed together.
MIN_FMAS = 4
# This many elements are computed at once: they stay in a cache.
CHUNK = 1 << 15


class Runs:
    """The runs of a machine's program, made as they are met."""

    def __init__(self, machine: Machine, lowering: Lowering, defined: Defined) -> None:
        self.machine, self.lowering, self.defined = machine, lowering, defined
        self._made: dict[tuple[int, int], list[Step]] = {}
        self._counted: dict[tuple[int, int], list[Step]] = {}
        # `_counted` and `_sliced` are of the launch with these buffers.
        self._same: dict[Variable, Variable] | None = None

    def prepare(self, buffers: Mapping[Variable, int]) -> None:
        """Begin a launch; `buffers`: addresses of those that parameters hold."""
        first: dict[int, Variable] = {}
        same = {variable: first.setdefault(start, variable) for variable, start in buffers.items()}
        if same != self._same:
            self._same, self._counted = same, {}
            self.__dict__.pop("_sliced", None)
            self.__dict__.pop("_slice", None)

    def reads_contents(self, buffers: Mapping[Variable, int]) -> bool:
        """Return whether counts depend on what is in memory: an index that a kernel loads, say."""
        self.prepare(buffers)
        left_out = self._slice.skipped | self._slice.blind
        executed = [i for i in self.machine.program.code if i.pc not in left_out]
        return any(i.opcode in ("tex", "tensormap") or reads_memory(i) for i in executed)

    def steps(self, first: int, end: int, values: bool) -> list[Step]:
        """Return the steps of the instructions from `first` up to `end`."""
        if self.defined.masks and self.defined.concerns(first, end):
            return self.defined.steps(first, end, self.lowering.steps)
        made = self._made if values else self._counted
        steps = made.get((first, end))
        if steps is None:
            make = self._together if values else self._counting
            steps = made[first, end] = make(first, end)
        return steps

    def _counting(self, first: int, end: int) -> list[Step]:
        return [step for step in self._sliced[first:end] if step is not None]

    @cached_property
    def _slice(self) -> Slice:
        return slice_of(self.machine.program, self.machine.origins, self._same or {})

    @cached_property
    def _sliced(self) -> list[Step | None]:
        """Return the steps of a launch without values, by pc; None where nothing needs to be
        done.
        """
        m = self.machine
        sliced = self._slice
        steps = list(self.lowering.steps)
        for pc in sliced.skipped:
            steps[pc] = None
        for pc in sliced.blind:
            instruction = m.program.code[pc]
            step = blind(m, instruction)
            steps[pc] = (
                step if instruction.predicate is None else self.lowering.guarded(instruction, step)
            )
        return steps

    def _together(self, first: int, end: int) -> list[Step]:
        m, each = self.machine, self.lowering.steps
        steps: list[Step] = []
        group: list[Instruction] = []
        # All instructions of the group are of this kind.
        kind: tuple[str, ...] = ()
        written: set[Register] = set()

        def finish() -> None:
            # Too few to be worth it run one by one.
            alone = [step for i in group if (step := each[i.pc]) is not None]
            if kind == FMA and len(group) >= MIN_FMAS:
                steps.append(
                    _by_rows(m, group, alone) if native.library is None else _native(m, group)
                )
            elif kind != FMA and len(group) > 1:
                steps.append(_products(m, group, alone))
            else:
                steps.extend(alone)
            group.clear()
            written.clear()

        # A group ends where the kind changes, or where one reads or writes what another wrote.
        for pc in range(first, end):
            instruction = m.program.code[pc]
            new_kind = _kind(instruction)
            if new_kind is None or pc in m.watch.uses:
                finish()
                if (step := each[pc]) is not None:
                    steps.append(step)
                continue
            if new_kind != kind or not written.isdisjoint(registers_of(instruction.operands)):
                finish()
            kind = new_kind
            group.append(instruction)
            written.update(registers_of(instruction.operands[0]))
        finish()
        return steps


def _kind(i: Instruction) -> tuple[str, ...] | None:
    """Return the kind of an instruction; those of one kind may be computed together.

    None: this one may not.
    """
    if i.predicate is None and i.opcode == "fma" and i.modifiers == FMA:
        return (
            FMA if all(isinstance(o, Register) and o.type.bits == 32 for o in i.operands) else None
        )
    return i.modifiers if i.predicate is None and i.opcode == "mma" else None


def _products(m: Machine, group: list[Instruction], alone: list[Step]) -> Step:
    """Return the step of mma.sync of one form; where not all threads act, they come one after the
    other, since each has faults of its own.
    """
    together = mma_together(m, group, Modifiers(group[0]))

    def step() -> None:
        for run in [together] if m.state.active is None else alone:
            run()

    return step


def _native(m: Machine, group: list[Instruction]) -> Step:
    """Return the step of FMAs in C, none of which reads or writes what another writes."""
    state, sums = m.state, m.operands.rows
    factors = list(dict.fromkeys(o.slot for i in group for o in i.operands[1:3]))
    left, right = (
        np.array([factors.index(i.operands[at].slot) for i in group], np.int32) for at in (1, 2)
    )
    addends = tuple(i.operands[3].slot for i in group)
    results = tuple(i.operands[0].slot for i in group)
    writers = [m.operands.writer(i.operands[0], F32) for i in group]
    registers, f4 = state.registers, F32.dtype

    def rows_of(slots: Iterable[int]) -> np.ndarray:
        values = [registers[slot] for slot in slots]
        return np.stack([x if x.dtype is f4 else viewed(x, f4) for x in values])

    def step() -> None:
        # Mostly, another such group left the sums, so that they need not be gathered.
        known = sums.get(addends)
        if known is None or any(
            registers[slot] is not row for slot, row in zip(addends, known[1], strict=True)
        ):
            known = rows_of(addends), []
        outputs, mask = native.fma_rows(rows_of(factors), left, right, known[0]), state.mask
        if mask is not None and all(registers[slot].dtype is f4 for slot in results):
            outputs, mask = np.where(mask, outputs, rows_of(results)), None
        rows = list(outputs)
        if mask is None:
            sums[results] = outputs, rows
            for slot, row in zip(results, rows, strict=True):
                registers[slot] = row
        else:
            for write, row in zip(writers, rows, strict=True):
                write(row)

    return step


def _by_rows(m: Machine, group: list[Instruction], alone: list[Step]) -> Step:
    """Return the step of such FMAs in NumPy, as many at the same time as stay in a cache; `alone`:
    the steps of each by itself.
    """
    slots = [tuple(o.slot for o in i.operands[1:]) for i in group]
    readers = {o.slot: m.operands.reader(o, F32) for i in group for o in i.operands[1:]}
    factors = {slot for a, b, _ in slots for slot in (a, b)}
    writers = [m.operands.writer(i.operands[0], F32) for i in group]

    def step() -> None:
        rows = CHUNK // m.state.lanes
        if rows < MIN_FMAS:
            for run in alone:
                run()
            return
        values = {slot: read() for slot, read in readers.items()}
        wide = {slot: values[slot].astype(np.float64) for slot in factors}
        for start in range(0, len(slots), rows):
            part = slots[start : start + rows]
            results = floats.fma32_rows(
                [(wide[a], wide[b]) for a, b, _ in part], [values[c] for _, _, c in part]
            )
            for write, value in zip(writers[start:], results, strict=False):
                write(value)

    return step
