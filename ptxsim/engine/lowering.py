"""From instructions to steps: functions without arguments that do what an instruction does for the
active threads.

While all threads are in one group, as in a GEMM almost always, an instruction is one NumPy
operation on whole arrays, without masks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..check.wraps import Wraps
from ..errors import PtxError
from ..instructions import registry
from ..instructions.needs import Machine
from ..instructions.registry import Control, Step
from ..machine.values import merged, viewed
from ..ptx.syntax import Instruction, Negated, Pair, pair_of


class Lowering:
    """The steps of a program, by pc; of what ends a straight run of them, the control."""

    def __init__(self, machine: Machine, wraps: Wraps) -> None:
        self.machine, self.wraps = machine, wraps
        self.state, self.operands = machine.state, machine.operands
        self.steps: list[Step | None] = []
        self.controls: list[Control | None] = []
        for instruction in machine.program.code:
            self._compile(instruction)

    def _compile(self, instruction: Instruction) -> None:
        try:
            step, control = self._built(instruction)
        except PtxError as error:
            text = str(error)
            raise PtxError(
                text if text.startswith(instruction.where) else f"{instruction.where}: {text}"
            ) from None
        self.steps.append(step)
        self.controls.append(control)

    def _built(self, instruction: Instruction) -> tuple[Step | None, Control | None]:
        """Return its step, or for one that ends a straight run, its control."""
        if instruction.opcode in registry.CONTROLS:
            control = registry.CONTROLS[instruction.opcode](self.machine, instruction)
            if instruction.predicate is not None and instruction.opcode != "bra":
                control = self._guarded_control(instruction, control)
            return None, control
        if instruction.opcode in registry.EFFECTS:
            step = registry.EFFECTS[instruction.opcode](self.machine, instruction)
        else:
            step = self._elementwise(instruction)
        if instruction.pc in self.wraps.watched.parts:
            step = self.wraps.part(instruction, step)
        elif instruction.pc in self.wraps.watched.widening:
            step = self.wraps.widens(instruction, step)
        if instruction.pc in self.machine.watch.uses:
            step = self._watched(instruction, step)
        if instruction.predicate is not None:
            step = self.guarded(instruction, step)
        return step, None

    def _watched(self, instruction: Instruction, step: Step) -> Step:
        """Return the step of an instruction that uses registers of a wgmma in flight."""
        use = self.machine.watch.uses[instruction.pc]

        def watched() -> None:
            if self.machine.launch.checks.races:
                self.machine.warpgroups.before(instruction, use)
            step()

        return watched

    def _elementwise(self, instruction: Instruction) -> Step:
        modifiers = registry.Modifiers(instruction)
        # The builder says what it computes, and of which operands.
        build = registry.find_elementwise(instruction)
        # The parser has made sure of it.
        assert build is not None
        operation = build(modifiers)
        modifiers.done()
        destination, *sources = instruction.operands
        if len(sources) != len(operation.sources):
            count = len(operation.sources) + 1
            raise instruction.error(f"takes {count} operands, found {len(instruction.operands)}")
        readers = [
            self.operands.reader(o, t) for o, t in zip(sources, operation.sources, strict=True)
        ]
        # The carry flag is one more source, or result.
        compute, registers = operation.compute, self.state.registers
        if operation.reads_carry:
            readers.append(lambda: registers[self.operands.carry])
        if isinstance(operation.result, tuple) or operation.writes_carry:
            return self._several(instruction, operation, readers)
        # Most have one result, as wide as its register, and plain sources.
        slot, widen = self.operands.target(destination, operation.result)
        negated = any(isinstance(o, Negated) for o in sources)
        if widen is None and not operation.reads_carry and not negated:
            pairs = zip(sources, operation.sources, strict=True)
            slots = [(self.operands.operand_slot(o, t), t.dtype) for o, t in pairs]
            return self._plain(compute, slot, slots)

        def step() -> None:
            value = compute(*[read() for read in readers])
            if widen is not None:
                value = widen(value)
            mask = self.state.mask
            registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        return step

    def _plain(
        self, compute: registry.Compute, slot: int, sources: list[tuple[int, np.dtype]]
    ) -> Step:
        """Return the step of one result, of sources that need only be looked at as their types."""
        state, registers = self.state, self.state.registers

        def step() -> None:
            value = compute(
                *[x if (x := registers[s]).dtype is t else viewed(x, t) for s, t in sources]
            )
            mask = state.mask
            registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        return step

    def _several(
        self,
        instruction: Instruction,
        operation: registry.Elementwise,
        readers: list[Callable[[], np.ndarray]],
    ) -> Step:
        """Return the step of an instruction with several destinations: `p|q`, or a result and the
        carry flag.
        """
        destination = instruction.operands[0]
        if not isinstance(operation.result, tuple):
            # The second destination is the carry flag.
            write_carry = self.operands.write_slot(self.operands.carry)
            writers = [self.operands.writer(destination, operation.result), write_carry]
        else:
            if not isinstance(destination, Pair):
                raise instruction.error("needs two destinations, p|q")
            pairs = zip(pair_of(destination), operation.result, strict=True)
            writers = [self.operands.writer(o, t) for o, t in pairs]
        compute = operation.compute

        def step() -> None:
            for write, value in zip(writers, compute(*[read() for read in readers]), strict=True):
                write(value)

        return step

    def guarded(self, instruction: Instruction, step: Step) -> Step:
        assert instruction.predicate is not None
        registers = self.state.registers
        slot = instruction.predicate.slot
        negated = instruction.negated

        def guarded() -> None:
            chosen = registers[slot]
            if negated:
                chosen = ~chosen
            active = self.state.active
            threads = chosen if active is None else chosen & active
            count = int(np.count_nonzero(threads))
            if count == self.state.count:
                step()
            elif count:
                with self.state.acting(threads):
                    step()

        return guarded

    def _guarded_control(self, instruction: Instruction, step: Control) -> Control:
        assert instruction.predicate is not None
        registers = self.state.registers
        slot = instruction.predicate.slot
        negated = instruction.negated
        after = instruction.pc + 1

        def guarded(active: np.ndarray) -> int | None:
            chosen = active & (~registers[slot] if negated else registers[slot])
            count = np.count_nonzero(chosen)
            if count == 0:
                return after
            if count == self.state.count:
                return step(active)
            self.state.join(after, active & ~chosen)
            self.state.enter(chosen)
            next_pc = step(chosen)
            if next_pc is not None:
                self.state.join(next_pc, chosen)
            return None

        return guarded
