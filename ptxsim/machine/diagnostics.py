"""Faults and notes in words: the source line, the block and thread, and what else stands still."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ..errors import KernelFault, Kind
from ..ptx.program import Program
from ..ptx.sources import in_words, locations
from ..ptx.syntax import Instruction, Location, Register, plain_name
from .faults import Faults
from .state import State


class Parked(Protocol):
    """Threads that wait at an instruction."""

    @property
    def instruction(self) -> Instruction: ...
    @property
    def threads(self) -> np.ndarray: ...


class Parks(Protocol):
    """A place where threads wait for others."""

    @property
    def waiting(self) -> Sequence[Parked]: ...


class Diagnostics:
    """The faults and notes of a launch."""

    faults: Faults
    # Threads of the batch may wait at these, by name.
    parks: tuple[tuple[str, Parks], ...]
    # `held` has threads that wait for the rest of their warp or warpgroup, by pc.
    held: Mapping[int, np.ndarray]
    # `hint` says what may lie behind a race of a lane.
    hint: Callable[[int], str]

    def __init__(self, program: Program, state: State) -> None:
        self.program, self.state = program, state
        self.notes: dict[Hashable, str] = {}
        # A block's shared memory ends at `shared_size` bytes.
        self.shared_size = 0

    def prepare(self, faults: Faults) -> None:
        """Begin a launch."""
        self.faults, self.notes = faults, {}

    def fault(
        self, kind: Kind, instruction: Instruction, message: str, lane: int, count: int = 1
    ) -> KernelFault:
        """Return the error of one thread (and `count` - 1 others), its message as one line with
        the kernel, the source line and the thread.
        """
        where, pc = self.where(instruction), instruction.pc
        line = f"{self.program.title}: {where}: {self.state.coordinates(lane)}: {message}"
        return KernelFault(kind, line, where, self._locations.get(pc, ()), pc, count)

    def refuse(
        self, kind: Kind, instruction: Instruction, bad: np.ndarray, message: Callable[[int], str]
    ) -> None:
        """Raise the fault of the first thread in a mask, if there is one; `message`: by lane."""
        if bad.any():
            lane = int(np.flatnonzero(bad)[0])
            raise self.fault(kind, instruction, message(lane), lane)

    def report(
        self, kind: Kind, instruction: Instruction, message: str, lane: int, count: int = 1
    ) -> None:
        """Record a fault of a thread (and `count` - 1 others) that the program can go on from, or
        raise it where the launch ends with its first.
        """
        self.faults.take(self.fault(kind, instruction, message, lane, count))

    def note(self, what: str, key: Hashable = None) -> None:
        """Add a note, one for each key: a line about something that is suspicious, but no fault."""
        self.notes.setdefault(what if key is None else key, what)

    def where(self, instruction: Instruction) -> str:
        """Return the source line of an instruction and, where its function is inlined, the lines
        that call it.
        """
        chain = self._locations.get(instruction.pc, ())
        return in_words(chain) if chain else instruction.where

    @cached_property
    def _locations(self) -> dict[int, tuple[Location, ...]]:
        return locations(self.program)

    def definition(self, operand: Any) -> Instruction | None:
        """Return what gives a register its value, followed through moves; None where several do, or
        no register is given.
        """
        seen: set[Any] = set()
        while isinstance(operand, Register) and operand not in seen:
            seen.add(operand)
            writers = [
                i
                for i in self.program.code
                if i.operands and i.operands[0] is operand and i.opcode != "st"
            ]
            if len(writers) != 1:
                changes = [i for i in writers if i.opcode != "mov"]
                return changes[0] if len(changes) == 1 else None
            if writers[0].opcode != "mov" or not isinstance(writers[0].operands[1], Register):
                return writers[0]
            operand = writers[0].operands[1]
        return None

    def waits_at(self, lane: int) -> str:
        """Describe where a thread is that does not go on."""
        if self.state.exited[lane]:
            return ", which has ended"
        for name, park in self.parks:
            for w in park.waiting:
                if w.threads[lane]:
                    name = "setmaxnreg" if getattr(w, "registers", 0) else name
                    return f", which waits at the {name} at {self.where(w.instruction)}"
        for pc, threads in (*self.held.items(), *self.state.groups.items()):
            if threads[lane]:
                return f", which is at {self.where(self.program.code[pc])}"
        return ""

    def variable_in(self, register: Register, reader: Instruction) -> str:
        """Describe the variable that a register holds where an instruction reads it."""
        function = self.program.owner[reader.pc]
        name = function.debug and function.debug.name(function.name, register.name)
        if name:
            return f"variable {name}"
        if reader.location is None:
            return f"register {register.name}"
        return "a local variable" + (" (compile with -G for its name)" * (function.debug is None))

    def in_local(self, at: int) -> str:
        """Describe the variable to which a byte of the thread's local memory belongs."""
        for function in self.program.functions:
            for variable in function.variables:
                start = self.program.frames.get(variable, at + 1)
                if not start <= at < start + variable.size:
                    continue
                name, begins = plain_name(variable.name), 0
                if function.debug is not None:
                    named = function.debug.in_frame(function.name, variable.name, at - start)
                    name, begins = named or (name, begins)
                if not name.startswith("__local_depot"):
                    into = at - start - begins
                    return f"{into} bytes into {name}" if into else name
        # Without line information it is PTX that was given, and there is nothing to compile again.
        text = f"byte {at} of the thread's {self.program.local_bytes}"
        if self._locations and not any(f.debug for f in self.program.functions):
            text += "; compile with -G for the variable's name"
        return text

    def shared_address(self, at: int) -> str:
        """Describe a shared address."""
        return f"shared address 0x{at:x}{self.in_shared(at)}"

    def in_shared(self, at: int) -> str:
        """Describe the variable that a shared address belongs to; "" where there is none."""
        for variable, start in self.program.shared.items():
            end = start + variable.size if variable.size else self.shared_size
            if start <= at < end:
                name = plain_name(variable.name)
                return f", in {name}" if at == start else f", {at - start} bytes into {name}"
        return ""
