"""The executor: all threads of a batch of blocks at once, one array element (a lane) a thread.

Threads of a batch are kept in groups, one for each place in the program where some wait; the group with the least
place runs until it reaches the place of another, which it joins. Since compilers lay code out so that paths meet
further on, that is reconvergence (min-PC scheduling); groups that jump back time and again let the others run now and
then, so that one thread may wait for another in a loop. While all threads are in one group, as in a GEMM almost always,
an instruction is one NumPy operation on whole arrays, without masks.

Registers are slots of a list. An instruction does not change the array in a slot but puts a new one there; arrays are
never written after that, so a move costs nothing, and what follows from an address register can be remembered for as
long as the same array is in its slot. A float array in a slot stands for the result of arithmetic, whose NaN has
canonical bits; what was loaded or moved keeps its bits, as unsigned integers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from . import origins, polling
from . import program as programs
from .barriers import Barriers
from .bulk_groups import BulkGroups
from .clock_monitor import ClockMonitor
from .clusters import Clusters
from .convergence import Convergence, width
from .copies import Copy
from .errors import KernelFault, PtxError, PtxsimError
from .faults import Faults
from .global_monitor import GlobalMonitor, watched
from .instructions import registry
from .instructions.memory import STACK
from .instructions.registry import Control, Step
from .instructions.special import special_value
from .layout import SCRATCH, reserved
from .memory import (
    BASES,
    GLOBAL_BASE,
    RANK_AT,
    Access,
    Addresses,
    Arena,
    ClusterSpace,
    Fault,
    GlobalSpace,
    MixedAccess,
    Space,
)
from .monitor import SharedMonitor
from .origins import UNKNOWN
from .phases import Phases
from .program import Program
from .ptx_types import SIGNED, STORAGE, TYPES, UNSIGNED, Type
from .runs import Runs
from .sources import places
from .syntax import (
    Address,
    Immediate,
    Instruction,
    Location,
    Negated,
    Pair,
    Register,
    Special,
    Symbol,
    Variable,
    plain_name,
)
from .tensor_maps import TensorMap
from .values import merged, viewed
from .warpgroups import Warpgroups, Watch

if TYPE_CHECKING:
    from .api import Texture
    from .observer import Observer
    from .texture_arrays import TextureArray

WARP = 32
FAR = 1 << 60
IDLE = 1 << 16  # turns of loops that look at memory, with nobody else running: then it cannot change any more
F4 = np.dtype("f4")
ADDRESS = np.dtype("u8")
NOTHING = np.zeros(0, np.uint32)  # what a register holds between launches

Operand = Any  # of an instruction, as in syntax.py; None for `_`
Widen = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Limits:
    """What bounds a launch; the fields are arguments of `launch`."""

    steps: int = 20_000_000  # instructions a batch may execute: an endless loop ends here
    lanes: int = 16_384  # threads that run together
    thread_instructions: float = 1e10  # that a grid may cost, as its first blocks tell: minutes
    depth: int = 32  # of recursive calls


@dataclass(frozen=True)
class Checks:
    """Which checks are made. Bounds and alignment always are."""

    races: bool = True  # in shared memory
    global_races: bool = True
    unwritten: bool = True  # reads of shared memory, and of buffers in global memory, that nobody wrote
    barriers: bool = True  # an exited thread counts as missing at a barrier, not as arrived


class Machine:
    """Compiles a program once, and runs batches of its blocks."""

    count: int  # threads that act
    whole: bool  # whether these are all that live
    monitor: ClockMonitor | SharedMonitor | None
    global_monitor: GlobalMonitor | None

    def __init__(self, program: Program) -> None:
        self.program = program
        self.registers: list[np.ndarray] = [NOTHING] * program.slots
        self.makers: list[tuple[int, Callable[[], np.ndarray]]] = []  # fill constant slots at the start of a batch
        self.constant_slots: dict[Hashable, int] = {}
        self.carry = self._new_slot()
        self.stack_slot = self._new_slot() if program.recursive else None
        self.stacked: list[tuple[int, int]] = []  # slots with addresses of local variables, and their offsets
        self.mask: np.ndarray | None = None  # threads whose registers an instruction writes; None: all
        self.active: np.ndarray | None = None  # threads that act; None: every lane
        self.observers: tuple[Observer, ...] = ()
        self.after_call: dict[tuple[int, str], Callable[[], None]] = {}  # hands results over: place, function
        self.granule = smallest_shared_access(program)
        self.uses_reserved = names_special(program, "reserved_smem")
        self.grid_sync = names_special(program, "envreg")  # where cooperative groups find what a grid's barrier needs
        self.grid_workspace = 0  # its address
        self.watch = Watch.of(program)
        self.origins = origins.find(program)
        self.within = {pc: part for pc, found in self.origins.items() if (part := self._part(found)) is not None}
        self.steps: list[Step | None] = []
        self.controls: list[Control | None] = []
        self.run_end: list[int] = []
        for instruction in program.code:
            self._compile(instruction)
        self.resolved: dict[Hashable, Addresses] = {}
        self.spaces: dict[str, Space] = {}
        self.copies: list[Copy] = []  # cp.async under way
        self.saved: list[dict[tuple[int, int], np.ndarray]] = []
        self.polls = polling.loops(program)
        self.rounds = polling.backward(program, self.polls)  # branches by which a loop polls again
        self.poll_places = frozenset(pc for last, start in self.rounds.items() for pc in range(start, last + 1))
        for pc in self.rounds:
            self.controls[pc] = self._noting_polls(pc)
        self.values = True  # of a launch: whether what does not bear on its counts is computed, too
        self.by_block = False  # whether warps are counted by block
        self.tally: dict[tuple[int, int], Any] = {}  # straight runs of instructions, by first and last: warps
        self.polled: dict[tuple[int, int], Any] = {}  # the same, of rounds of loops that poll, after their first
        self.polling: np.ndarray  # threads that go round such a loop again
        self.silent = False  # whether only those act: what they look at is not counted
        self.runs = Runs(self)
        end, together = len(program.code), FAR
        self.run_end = [0] * end
        self.together = [FAR] * (
            end + 1
        )  # from each place on, the next that a whole warp or warpgroup executes together
        for pc in range(end - 1, -1, -1):
            if self.controls[pc] is not None:
                end, together = pc, FAR
            if width(program.code[pc]) is not None:
                together = pc
            self.run_end[pc], self.together[pc] = end, together
        self.lane_masks = {
            i.pc: self.reader(i.operands[-1], TYPES["u32"]) for i in program.code if width(i) == 0 and i.operands
        }

    def _part(self, found: origins.Origins) -> tuple[int, int, str] | None:
        """The part of shared memory that an address stays in: the variables that it may come from."""
        shared = self.program.shared
        variables = [v for v in found if v in shared]
        if UNKNOWN in found or not variables:
            return None
        ends = [FAR if v.extern or not v.size else shared[v] + v.size for v in variables]
        names = " and ".join(sorted(plain_name(v.name) for v in variables))
        return min(shared[v] for v in variables), max(ends), names

    # compilation

    def _new_slot(self) -> int:
        self.registers.append(NOTHING)
        return len(self.registers) - 1

    def _constant(self, key: Hashable, make: Callable[[], np.ndarray]) -> int:
        """A slot that is filled when a batch starts."""
        if key not in self.constant_slots:
            slot = self.constant_slots[key] = self._new_slot()
            self.makers.append((slot, make))
        return self.constant_slots[key]

    def uniform(self, value: np.generic) -> np.ndarray:
        """One value for every lane, without storing it more than once."""
        return np.broadcast_to(value, self.lanes)

    def _compile(self, instruction: Instruction) -> None:
        try:
            step, control = self._built(instruction)
        except PtxError as error:
            told = str(error)
            raise PtxError(told if told.startswith(instruction.where) else f"{instruction.where}: {told}") from None
        self.steps.append(step)
        self.controls.append(control)

    def _built(self, instruction: Instruction) -> tuple[Step | None, Control | None]:
        """Its step, or for one that ends a straight run, its control."""
        step: Step | None = None
        control: Control | None = None
        if instruction.opcode in registry.CONTROLS:
            control = registry.CONTROLS[instruction.opcode](self, instruction)
            if instruction.predicate is not None and instruction.opcode != "bra":
                control = self._guarded_control(instruction, control)
        else:
            if instruction.opcode in registry.EFFECTS:
                step = registry.EFFECTS[instruction.opcode](self, instruction)
            else:
                step = self._elementwise(instruction)
            if instruction.pc in self.watch.uses:
                step = self._watched(instruction, step)
            if instruction.predicate is not None:
                step = self._guarded(instruction, step)
        return step, control

    def _noting_polls(self, pc: int) -> Control:
        """The control of a branch by which a loop polls again: notes which threads do."""
        instruction, start, control = self.program.code[pc], self.rounds[pc], self.controls[pc]
        assert control is not None  # of a branch
        predicate, negated = instruction.predicate, instruction.negated
        forward = instruction.operands[-1].place != start if instruction.opcode == "bra" else True

        def noting(active: np.ndarray) -> int | None:
            again = active
            if predicate is not None and not forward:
                chosen = self.registers[predicate.slot]
                again = active & (~chosen if negated else chosen)
            self.polling = self.polling | again
            return control(active)

        return noting

    def _watched(self, instruction: Instruction, step: Step) -> Step:
        """Of an instruction that uses registers which a wgmma may have under way."""
        use = self.watch.uses[instruction.pc]

        def watched() -> None:
            if self.checks.races:
                self.warpgroups.before(instruction, use)
            step()

        return watched

    def _elementwise(self, instruction: Instruction) -> Step:
        modifiers = registry.Modifiers(instruction)
        build = registry.find_elementwise(instruction)
        assert build is not None  # the parser asked
        operation = build(modifiers)
        modifiers.done()
        destination, *sources = instruction.operands
        if len(sources) != len(operation.sources):
            raise PtxError(
                f"{instruction.where}: {instruction.name} takes {len(operation.sources) + 1} operands, "
                f"found {len(instruction.operands)}"
            )
        readers = [self.reader(o, t) for o, t in zip(sources, operation.sources, strict=True)]
        compute, registers = operation.compute, self.registers
        if operation.reads_carry:
            readers.append(lambda: registers[self.carry])
        if isinstance(operation.result, tuple) or operation.writes_carry:
            return self._several(instruction, operation, readers)
        slot, widen = self.target(destination, operation.result)
        found = [self._plain(o, t) for o, t in zip(sources, operation.sources, strict=True)]
        plain = [p for p in found if p is not None]
        if widen is None and len(plain) == len(readers):
            return self._fast(compute, slot, plain)

        def step() -> None:
            value = compute(*[read() for read in readers])
            if widen is not None:
                value = widen(value)
            mask = self.mask
            registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        return step

    def _plain(self, operand: Operand, t: Type) -> tuple[int, np.dtype] | None:
        """Slot and type of an operand that only needs to be looked at as that type."""
        if isinstance(operand, Register) and operand.type.bits == t.bits:
            return operand.slot, t.dtype
        if isinstance(operand, Immediate):
            return self._immediate(operand, t), t.dtype
        return None

    def _fast(self, compute: registry.Compute, slot: int, plain: list[tuple[int, np.dtype]]) -> Step:
        """Steps of one result and one to three operands."""
        registers = self.registers
        if len(plain) == 1:
            ((a, ta),) = plain

            def step() -> None:
                x = registers[a]
                if x.dtype is not ta:
                    x = viewed(x, ta)
                value, mask = compute(x), self.mask
                registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        elif len(plain) == 2:
            (a, ta), (b, tb) = plain

            def step() -> None:
                x, y = registers[a], registers[b]
                if x.dtype is not ta:
                    x = viewed(x, ta)
                if y.dtype is not tb:
                    y = viewed(y, tb)
                value, mask = compute(x, y), self.mask
                registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        elif len(plain) == 3:
            (a, ta), (b, tb), (c, tc) = plain

            def step() -> None:
                x, y, z = registers[a], registers[b], registers[c]
                if x.dtype is not ta:
                    x = viewed(x, ta)
                if y.dtype is not tb:
                    y = viewed(y, tb)
                if z.dtype is not tc:
                    z = viewed(z, tc)
                value, mask = compute(x, y, z), self.mask
                registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        else:

            def step() -> None:
                value = compute(*[viewed(registers[s], t) for s, t in plain])
                mask = self.mask
                registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        return step

    def _several(
        self, instruction: Instruction, operation: registry.Elementwise, readers: list[Callable[[], np.ndarray]]
    ) -> Step:
        """Several destinations: `p|q`, or a result and the carry flag."""
        destination = instruction.operands[0]
        if not isinstance(operation.result, tuple):  # and the carry
            writers = [self.writer(destination, operation.result), self._write_slot(self.carry)]
        else:
            if not isinstance(destination, Pair):
                raise PtxError(f"{instruction.where}: {instruction.name} needs two destinations, p|q")
            pair = (destination.first, destination.second)
            writers = [self.writer(o, t) for o, t in zip(pair, operation.result, strict=True)]
        compute = operation.compute

        def step() -> None:
            for write, value in zip(writers, compute(*[read() for read in readers]), strict=True):
                write(value)

        return step

    def _guarded(self, instruction: Instruction, step: Step) -> Step:
        assert instruction.predicate is not None
        registers, slot, negated = self.registers, instruction.predicate.slot, instruction.negated

        def guarded() -> None:
            chosen = registers[slot]
            if negated:
                chosen = ~chosen
            mask, active = self.mask, self.active
            threads = chosen if active is None else chosen & active
            count = int(np.count_nonzero(threads))
            if count == self.count:
                step()
            elif count:
                whole, total = self.whole, self.count
                self.mask = self.active = threads
                self.whole, self.count = False, count
                try:
                    step()
                finally:
                    self.mask, self.active, self.whole, self.count = mask, active, whole, total

        return guarded

    def _guarded_control(self, instruction: Instruction, step: Control) -> Control:
        assert instruction.predicate is not None
        registers, slot, negated = self.registers, instruction.predicate.slot, instruction.negated
        after = instruction.pc + 1

        def guarded(active: np.ndarray) -> int | None:
            chosen = active & (~registers[slot] if negated else registers[slot])
            count = np.count_nonzero(chosen)
            if count == 0:
                return after
            if count == self.count:
                return step(active)
            self.join(after, active & ~chosen)
            self.enter(chosen)
            place = step(chosen)
            if place is not None:
                self.join(place, chosen)
            return None

        return guarded

    # operands

    def reader(self, operand: Operand, t: Type) -> Callable[[], np.ndarray]:
        """A function that gives the operand's values in the NumPy type of `t`."""
        registers = self.registers
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
        """The slot of a register, or of a constant made for an immediate, a special register or an address."""
        match operand:
            case Register():
                if (operand.type.kind == "p") != (t.kind == "p"):
                    raise PtxError(f"{operand.name} is {operand.type!r}, where a {t!r} is read")
                return operand.slot
            case Immediate():
                return self._immediate(operand, t)
            case Special():
                return self._constant(operand.name, lambda: special_value(self, operand.name))
            case Symbol():
                return self.symbol_slot(operand)
        raise PtxError("a vector or pair is not supported here")

    def _immediate(self, operand: Immediate, t: Type) -> int:
        if t.kind == "p":
            return self._constant(("pred", bool(operand.value)), lambda: self.uniform(np.bool_(operand.value)))
        value = np.frombuffer(programs.immediate_bytes(operand, t), t.dtype)[0]
        return self._constant((t.dtype, value.tobytes()), lambda: self.uniform(value))

    def symbol_slot(self, symbol: Symbol) -> int:
        """The slot with the address of a variable or function, in its own space."""
        key = ("symbol", symbol.variable or symbol.name, symbol.offset)
        space = self.symbol_space(symbol)
        if space == "local" and self.stack_slot is not None:
            if key not in self.constant_slots:
                self.constant_slots[key] = self._new_slot()
                self.stacked.append((self.constant_slots[key], self.symbol_address(symbol) + symbol.offset))
            return self.constant_slots[key]
        if space == "shared":
            return self._constant(key, lambda: self._own(self.symbol_address(symbol) + symbol.offset))
        return self._constant(key, lambda: self.uniform(ADDRESS.type(self.symbol_address(symbol) + symbol.offset)))

    def _own(self, offset: int) -> np.ndarray:
        """The address of a place in each thread's own shared memory."""
        if self.clusters.size == 1:
            return self.uniform(ADDRESS.type(offset))
        return (offset + (self.clusters.rank << RANK_AT)).astype(ADDRESS)

    def move_stack(self, by: np.ndarray) -> None:
        """Recursion: addresses of local variables move with each thread's depth of calls."""
        assert self.stack_slot is not None
        self.registers[self.stack_slot] = stack = self.registers[self.stack_slot] + by
        for slot, offset in self.stacked:
            self.registers[slot] = (stack + offset).view(ADDRESS)

    def variable(self, symbol: Symbol) -> Variable | None:
        found = symbol.variable or self.program.module.variables.get(symbol.name)
        return found if isinstance(found, Variable) else None

    def symbol_space(self, symbol: Symbol) -> str:
        """The space a name lives in; parameters of device functions live in local memory."""
        variable = self.variable(symbol)
        if variable is None:
            if programs.function_address(self.program, symbol.name) is not None:
                return "function"
            raise PtxError(f"{symbol.name} is not defined")
        if variable in self.program.frames:
            return "local"
        return "global" if variable.space == "const" else variable.space

    def symbol_address(self, symbol: Symbol) -> int:
        variable, program = self.variable(symbol), self.program
        if variable is None:
            address = programs.function_address(program, symbol.name)
            assert address is not None  # `symbol_space` asked
            return address
        if variable in program.shared:
            return program.shared[variable]
        if variable in program.frames:
            return program.frames[variable]
        for parameter in program.parameters:
            if parameter.variable is variable:
                return parameter.offset
        if variable.opaque:
            raise PtxError(f"{symbol.name}: texture and surface references are not supported, only texture objects")
        if variable.name not in self.symbols:
            raise PtxError(f"{symbol.name} is declared but not defined here")
        return self.symbols[variable.name]

    def target(self, operand: Operand, t: Type) -> tuple[int, Widen | None]:
        """The slot of a destination, and how a value of type `t` is widened to the register, if at all."""
        if not isinstance(operand, Register):
            if operand is None:
                return self._constant("sink", lambda: self.uniform(np.uint32(0))), None
            raise PtxError("a single register must be the destination")
        if (operand.type.kind == "p") != (t.kind == "p"):
            raise PtxError(f"{operand.name} is {operand.type!r}, where a {t!r} is written")
        bits = operand.type.bits
        if bits <= t.bits or t.kind == "p":
            return operand.slot, (lambda x: x.astype(STORAGE[bits])) if bits < t.bits else None
        dtype = (SIGNED if t.signed else UNSIGNED)[bits // 8]
        return operand.slot, lambda x: viewed(x, (SIGNED if t.signed else UNSIGNED)[x.itemsize]).astype(dtype)

    def writer(self, operand: Operand, t: Type) -> Callable[[np.ndarray], None]:
        """A function that writes a value for every lane; only `mask` keeps it."""
        slot, widen = self.target(operand, t)
        write = self._write_slot(slot)
        return write if widen is None else lambda value: write(widen(value))

    def _write_slot(self, slot: int) -> Callable[[np.ndarray], None]:
        registers = self.registers

        def write(value: np.ndarray) -> None:
            mask = self.mask
            registers[slot] = value if mask is None else merged(mask, value, registers[slot])

        return write

    def lane_writer(self, operand: Operand, t: Type) -> Callable[[np.ndarray, np.ndarray | None], None]:
        """A function that writes values of some lanes (None: of all), as loads give them."""
        slot, widen = self.target(operand, t)
        registers = self.registers
        is_float = t.dtype is F4

        def write(values: np.ndarray, lanes: np.ndarray | None) -> None:
            if widen is not None:
                values = widen(values if values.dtype is t.dtype else viewed(values, t.dtype))
            elif is_float and lanes is None:
                seen = values.view(F4)
                if not np.count_nonzero(seen != seen):  # without a NaN, bits and value are one
                    values = seen
            if lanes is None:
                registers[slot] = values
                return
            old = registers[slot]
            new = viewed(old, values.dtype).copy()
            new[lanes] = values
            registers[slot] = new

        return write

    # memory

    def address(self, operand: Address, space: str) -> tuple[str, int, int]:
        """Space, slot and offset of an address operand."""
        if not isinstance(operand, Address):
            raise PtxError("an address [base+offset] must stand where another operand does")
        base = operand.base
        if isinstance(base, Register):
            return space, base.slot, operand.offset
        if base is None:
            return space, self._constant("null", lambda: self.uniform(ADDRESS.type(0))), operand.offset
        if not isinstance(base, Symbol):
            raise PtxError(f"an address of this kind is not supported: {base}")
        own = self.symbol_space(base)
        if space == "generic" or (space == "param" and own == "local") or space == "const":
            space = own
        return space, self.symbol_slot(base), operand.offset

    def addresses(self, space: Space, slot: int) -> Addresses:
        """What a base register holds, resolved; remembered while neither register nor threads change."""
        base, active = self.registers[slot], self.active
        key = (space.name, slot)
        found = self.resolved.get(key)
        if found is None or found.base is not base or found.active is not active:
            found = self.resolved[key] = space.addresses(base, active)
        return found

    def access(
        self,
        space_name: str,
        slot: int,
        offset: int,
        width: int,
        instruction: Instruction,
        kind: str,
        values: list[np.ndarray] | None = None,
        observed: bool = True,
    ) -> Access | MixedAccess:
        """A checked access of `width` bytes a thread at `[slot + offset]`. `values`: of a store, its elements for every
        lane. `observed`: whether the load/store unit takes part, so that observers are told."""
        if space_name == "generic":
            return self._generic(slot, offset, width, instruction, kind, values)
        space = self.spaces[space_name]
        where = self.addresses(space, slot)
        return self.checked(space, where, offset, width, instruction, kind, values, observed)

    def checked(
        self,
        space: Space,
        where: Addresses,
        offset: int,
        width: int,
        instruction: Instruction,
        kind: str,
        values: list[np.ndarray] | None = None,
        observed: bool = True,
    ) -> Access:
        """Check bounds and alignment, tell the monitors and the observers."""
        self.require_valid(space, where, offset, width, width, instruction, kind)
        access = Access(space, where, offset)
        if values is not None:
            access.values = values if where.lanes is None else [value[where.lanes] for value in values]
        if space.is_shared:
            if self.monitor is not None:
                self.monitor.touch(access, width, instruction, kind)
        elif self.global_monitor is not None and instruction.pc in self.watched and space.name == "global":
            self.global_monitor.touch(access, width, instruction, kind)
        if observed and not self.silent:
            for observer in self.observers:
                observer.memory(MemoryEvent(self, instruction, space.name, kind, width, access))
        return access

    def require_valid(
        self, space: Space, where: Addresses, offset: int, size: int, align: int, instruction: Instruction, kind: str
    ) -> None:
        """`size` bytes a thread, aligned, within memory and within the variable that the address comes from."""
        good = space.inside(where, offset, size)
        if good is not None:
            self._outside(space, where, offset, size, align, instruction, kind, good)
        if align > 1 and (where.varying | (where.low_bits + offset)) & (align - 1):
            self._misaligned(space, where, offset, align, instruction, kind)
        if space.is_shared:
            part = self.within.get(instruction.pc)
            if part is not None and (where.lo + offset < part[0] or where.hi + offset + size > part[1]):
                self._beyond(space, where, offset, size, part, instruction, kind)

    def _outside(
        self,
        space: Space,
        where: Addresses,
        offset: int,
        size: int,
        align: int,
        instruction: Instruction,
        kind: str,
        good: np.ndarray,
    ) -> None:
        self._misaligned(space, where, offset, align, instruction, kind)  # a misaligned one may only end outside
        bad = int(np.flatnonzero(~good)[0])
        at = int(where.raw[bad]) + offset
        what = f"out-of-bounds {space.name} {VERBS[kind]} of {size} bytes at {space.shown(at)}: {space.describe(at)}"
        raise self._without(self.fault(instruction, what, self._lane(where, bad)), where, ~good)

    def _without(self, fault: KernelFault, where: Addresses, bad: np.ndarray) -> KernelFault:
        """A fault of some threads of an access, without which it can be made."""
        threads = np.zeros(self.lanes, bool)
        threads[np.flatnonzero(bad) if where.lanes is None else np.asarray(where.lanes)[bad]] = True
        fault.bad, fault.count = threads, int(np.count_nonzero(bad))
        return fault

    def _misaligned(
        self, space: Space, where: Addresses, offset: int, align: int, instruction: Instruction, kind: str
    ) -> None:
        for bad in np.flatnonzero((where.raw + offset) & (align - 1)).tolist():
            at = int(where.raw[bad]) + offset
            if space.begins_inside(at):
                what = f"misaligned {align}-byte {VERBS[kind]} at {space.shown(at)}"
                what += self.in_shared(at) if space.is_shared else ""
                wrong = (where.raw + offset) & (align - 1) != 0
                raise self._without(self.fault(instruction, what, self._lane(where, bad)), where, wrong)

    def _beyond(
        self,
        space: Space,
        where: Addresses,
        offset: int,
        size: int,
        part: tuple[int, int, str],
        instruction: Instruction,
        kind: str,
    ) -> None:
        start, end, name = part
        first = where.raw + offset
        bad = int(np.flatnonzero((first < start) | (first + size > end))[0])
        at = int(first[bad])
        owner = next(
            (plain_name(v.name) for v, a in self.program.shared.items() if a <= at < a + v.size and at >= end), None
        )
        far = f"{start - at} bytes before the start of" if at < start else f"{at - end} bytes past the end of"
        what = f"out-of-bounds shared {VERBS[kind]} of {size} bytes at {space.shown(at)}: {far} {name}"
        wrong = (first < start) | (first + size > end)
        fault = self.fault(instruction, what + (f", in {owner}" if owner else ""), self._lane(where, bad))
        raise self._without(fault, where, wrong)

    @staticmethod
    def _lane(where: Addresses, index: int) -> int:
        return int(index if where.lanes is None else where.lanes[index])

    def _generic(
        self,
        slot: int,
        offset: int,
        width: int,
        instruction: Instruction,
        kind: str,
        values: list[np.ndarray] | None = None,
    ) -> Access | MixedAccess:
        """A generic address: in which window it lies says which space is meant (PTX ISA 5.1)."""
        base = viewed(self.registers[slot], ADDRESS)
        active = self.active
        lanes = np.arange(self.lanes) if active is None else np.flatnonzero(active)
        windows = (base[lanes] + ADDRESS.type(offset & (2**64 - 1))) >> ADDRESS.type(48)
        if int(windows.min()) == int(windows.max()):
            name = WINDOWS.get(int(windows[0]))
            if name is None:
                at = f"generic address 0x{(int(base[lanes[0]]) + offset) & (2**64 - 1):x}"
                fault = self.fault(instruction, f"out-of-bounds {VERBS[kind]} at {at}: in no space", int(lanes[0]))
                fault.bad, fault.count = np.ones(self.lanes, bool), len(lanes)
                raise fault
            space = self.spaces["shared::cluster" if name == "shared" else name]
            key = (space.name, "generic", slot)
            found = self.resolved.get(key)
            if found is None or found.base is not base or found.active is not active:
                found = self.resolved[key] = self._windowed(space, base, active)
            return self.checked(space, found, offset, width, instruction, kind, values)
        parts = []
        saved = self.mask, self.active, self.whole, self.count
        for window in np.unique(windows).tolist():
            places = np.flatnonzero(windows == window)
            threads = np.zeros(self.lanes, bool)
            threads[lanes[places]] = True
            self.mask = self.active = threads
            self.whole, self.count = False, len(places)
            try:
                part = self._generic(slot, offset, width, instruction, kind, values)
                assert isinstance(part, Access)  # one window
                parts.append((places, part))
            finally:
                self.mask, self.active, self.whole, self.count = saved
        return MixedAccess(parts, lanes)

    def _windowed(self, space: Space, base: np.ndarray, active: np.ndarray | None) -> Addresses:
        own = base if space.name == "global" else base - ADDRESS.type(BASES[space.name.split("::")[0]])
        found = space.addresses(own, active)
        found.base = base
        return found

    # a launch

    def prepare(
        self,
        arena: Arena,
        symbols: dict[str, int],
        params: bytes,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        textures: dict[int, Texture | TextureArray],
        checks: Checks,
        places: dict[Variable, int],
        unwritten: list[tuple[int, int]],
        cluster: tuple[int, int, int] = (1, 1, 1),
        tensor_maps: Sequence[TensorMap] = (),
        registers: int | None = None,
        faults: Faults | None = None,
        homes: Mapping[int, int] | None = None,
    ) -> None:
        """Take what is common to all batches of a launch. `places`: addresses of the buffers that parameters hold, and
        `homes` those that stand for them (of several in a struct, one);
        `unwritten`: addresses, from and to, of buffers that nobody has written; `cluster`: blocks of one;
        `registers`: of a thread when it starts, where that is known; 0: setmaxnreg does nothing."""
        self.cluster, self.tensor_maps, self.registers_at_start = cluster, tensor_maps, registers
        self.textures, self.checks = textures, checks
        self.faults = faults or Faults()
        self.notes: dict[str, None] = {}
        self.constants_read: set[Variable | None] = set()
        self.arena, self.symbols = arena, symbols
        self.grid, self.block = grid, block
        self.threads = block[0] * block[1] * block[2]
        self.padded = programs.align_up(self.threads, WARP)
        size = programs.align_up(self.program.static_shared_bytes, 16) + shared_bytes
        self.shared_bytes, self.dynamic_shared_bytes = size, shared_bytes
        raw = np.zeros(programs.align_up(max(16, len(params)), 16), np.uint8)
        raw[: len(params)] = np.frombuffer(params, np.uint8)
        self.param_space = Space("param", raw, len(params), None)
        unwritten = unwritten if checks.unwritten else []
        self.runs.prepare(places)
        self.watched: set[int] = set()
        if checks.global_races or unwritten:
            self.watched = watched(
                self.program, self.origins, places, {(homes or {}).get(start, start) for start, _ in unwritten}
            )
        spans = [(start - GLOBAL_BASE, end - GLOBAL_BASE) for start, end in unwritten]
        self.global_monitor = GlobalMonitor(self, self.watched, spans, checks.global_races) if self.watched else None

    def run_batch(self, blocks: np.ndarray, limits: Limits, observers: Sequence[Observer]) -> None:
        """Run the blocks with these linear numbers to their end."""
        self.blocks, self.limits = blocks, limits
        self.observers = tuple(observers)
        self.by_block = any(observer.by_block for observer in observers)
        self.lanes = len(blocks) * self.padded
        self.warps = self.lanes // WARP
        self._start()
        entry = self.program.start[self.program.name]
        self.groups: dict[int, np.ndarray] = {entry: self.alive}
        with np.errstate(all="ignore"):
            try:
                self._loop()
            except Fault as fault:  # without its place, from outside an instruction
                raise PtxsimError(f"{self.program.title}: {fault.what}") from None
            if self.monitor is not None:
                self.monitor.finish()
        self._tell()

    def release(self) -> None:
        """Let go of the memory of a launch."""
        self.registers[:] = [NOTHING] * len(self.registers)
        for held in (self.resolved, self.spaces, self.copies, self.saved):
            held.clear()
        self.monitor = self.global_monitor = None

    def _start(self) -> None:
        thread = np.tile(np.arange(self.padded), len(self.blocks))
        self.thread_of = thread
        self.block_of = np.repeat(np.arange(len(self.blocks)), self.padded)
        self.thread_numbers = np.asarray(self.blocks)[self.block_of] * self.padded + thread  # in the grid
        self.alive = thread < self.threads
        self.exited = np.zeros(self.lanes, bool)
        self.resolved = {}
        self.clusters = Clusters(self)
        base = self.program.shared_base
        self.own_shared = first, end = base, base + self.shared_bytes
        if self.uses_reserved:
            scratch = reserved(self.program.module.target, self.shared_bytes, "1")
            first, end = min(first, scratch), max(end, scratch + SCRATCH)
        shared = programs.align_up(max(end, base + 16), 16)
        local = max(self.program.local_bytes * (self.limits.depth + 1 if self.program.recursive else 1), 16)
        self.stack_top = np.full(self.lanes, local, np.int64)  # what alloca gives lies behind the frames
        local += STACK if any(i.opcode == "alloca" for i in self.program.code) else 0
        self.stack_end = local
        lane = np.arange(self.lanes, dtype=np.int64)
        self.spaces = {
            "global": GlobalSpace(self.arena),
            "local": Space("local", np.zeros(self.lanes * local, np.uint8), local, lane * local),
            "param": self.param_space,
        }
        self.spaces["const"] = self.spaces["global"]
        part = (np.zeros(len(self.blocks) * shared, np.uint8), end, self.block_of * shared, first)
        if self.clusters.size > 1:
            for name in ("shared", "shared::cluster"):
                self.spaces[name] = ClusterSpace(name, *part, self.clusters.rank, self.clusters.size, shared)
        else:
            self.spaces["shared"] = self.spaces["shared::cluster"] = Space("shared", *part)
        watched = end > first and (self.checks.races or self.checks.unwritten)
        clocks = needs_clocks(self.program) or self.clusters.size > 1
        self.monitor = None
        if watched:
            self.monitor = ClockMonitor(self) if clocks else SharedMonitor(self)
        self.barriers = Barriers(self)
        self.phases = Phases(self)
        self.bulk_groups = BulkGroups(self)
        self.convergence = Convergence(self, self.lane_masks)
        self.warpgroups = Warpgroups(self)
        zero = {t: self.uniform(t.type(0)) for t in STORAGE.values()}
        for function in self.program.functions:
            for register in function.registers:
                self.registers[register.slot] = zero[STORAGE[register.type.bits]]
        self.registers[self.carry] = zero[STORAGE[1]]
        if self.stack_slot is not None:
            self.registers[self.stack_slot] = np.zeros(self.lanes, np.int64)
            self.move_stack(np.zeros(self.lanes, np.int64))
        for slot, make in self.makers:
            self.registers[slot] = make()
        self.depth = np.zeros(self.lanes, np.int64)
        self.return_to: list[np.ndarray] = []
        self.saved = []
        self.caller_at: list[np.ndarray] = []
        self.pending_return: np.ndarray | None = None
        self.copies = []
        self.committed = np.zeros(self.lanes, np.int64)  # groups of each thread
        self.givers: dict[tuple[int, int], tuple[np.ndarray | None, np.ndarray]] = {}
        self.executed = 0
        self.tally, self.polled = {}, {}
        self.polling = np.zeros(self.lanes, bool)
        self.silent = False
        self.turns = self.idle = 0
        self.clock_reads = 0
        self.enter(self.alive)

    # scheduling

    def join(self, pc: int, threads: np.ndarray) -> None:
        """Put threads at a place."""
        there = self.groups.get(pc)
        self.groups[pc] = threads if there is None else there | threads

    def enter(self, threads: np.ndarray) -> None:
        """Make these the active threads."""
        self.count = int(np.count_nonzero(threads))
        self.whole = self.count == self.alive_count()
        if self.whole:
            self.mask = None
            self.active = None if self.count == self.lanes else self.alive
        else:
            self.mask = self.active = threads

    def alive_count(self) -> int:
        if getattr(self, "_counted", None) is not self.alive:
            self._counted, self._alive_count = self.alive, int(np.count_nonzero(self.alive))
        return self._alive_count

    def _loop(self) -> None:
        groups = self.groups
        while True:
            if not groups:
                if any(w.registers for w in self.clusters.waiting):
                    self.clusters.stuck()
                if self.convergence.held:
                    self.convergence.release()
                    continue
                for waits in (self.phases, self.barriers, self.clusters):
                    if waits.waiting:
                        waits.stuck()
                return
            pc = self._choose()
            threads = groups.pop(pc)
            self.enter(threads)
            if self.whole:
                threads = self.alive
            self._advance(pc, threads, min((p for p in groups if p > pc), default=FAR))

    def _choose(self) -> int:
        """The least place; but now and then another, so that no group waits for ever."""
        if len(self.groups) == 1:
            return next(iter(self.groups))
        self.turns += 1
        ready: Collection[int] = self.groups.keys()
        if self.polls and self.turns % 32:
            ready = (self.groups.keys() - self.polls.keys()) or ready
        if self.turns % 512 >= 480:
            return sorted(ready)[self.turns % len(ready)]
        return min(ready)

    def _advance(self, pc: int, threads: np.ndarray, limit: int) -> None:
        """Run a group until it meets another, parts or ends."""
        controls, run_end, run, values = self.controls, self.run_end, self.runs.steps, self.values
        while True:
            end = run_end[pc]
            stop = end if end < limit else limit
            if not self.whole and (together := self.together[pc]) < stop:
                if together == pc:
                    ready = self._come_together(pc, threads)
                    if ready is None:
                        return
                    threads = ready
                    together = self.together[pc + 1]
                stop = min(stop, together)
            if self.observers:
                last = end + 1 if stop == end and stop != limit else stop
                self._count(pc, last, threads)
            for step in run(pc, stop, values):
                try:
                    step()
                except KernelFault as fault:
                    self._go_on(step, fault, threads)
            self.executed += stop - pc + 1
            if self.executed > self.limits.steps:
                raise self.fault(
                    self.program.code[min(stop, len(controls) - 1)],
                    f"more than {self.limits.steps} instructions executed: an endless loop, or raise the limit `steps`",
                    int(np.flatnonzero(threads)[0]),
                )
            if stop == limit:
                self.join(limit, threads)
                return
            if stop < end:
                pc = stop
                continue
            if not self.whole and self.together[end] == end:
                ready = self._come_together(end, threads)
                if ready is None:
                    return
                threads = ready
            control = controls[end]
            assert control is not None  # a run ends with one
            place = control(threads)
            if place in self.polls and place <= end:
                self.idle += 1
                if self.idle > IDLE:
                    raise self._polls_in_vain(place, threads)
            else:
                self.idle = 0
            if place is None:
                return
            if place >= limit or (place <= end and limit != FAR) or (place <= end and len(self.groups)):
                self.join(place, threads)
                return
            pc = place

    def _go_on(self, step: Step, fault: KernelFault, threads: np.ndarray) -> None:
        """After a fault of some threads: the others execute the instruction."""
        while True:
            if fault.bad is None:
                raise fault
            self.faults.take(fault)
            threads = threads & ~fault.bad
            if not threads.any():
                return
            try:
                with self.acting(threads):
                    step()
                return
            except KernelFault as another:
                fault = another

    def _count(self, pc: int, last: int, threads: np.ndarray) -> None:
        """A straight run of instructions is executed: by warps for the first time, or by those that poll again."""
        self.silent = False
        warps = self.active_warps()
        if self.rounds:
            if pc not in self.poll_places:
                self.polling = self.polling & ~threads
            elif (threads & self.polling).any():
                first = self._warps_with(threads & ~self.polling)
                polls = warps - first
                self.silent = not np.any(first)
                if np.any(polls):
                    self.polled[pc, last] = self.polled.get((pc, last), 0) + polls
                warps = first
        if self.by_block or warps:
            self.tally[pc, last] = self.tally.get((pc, last), 0) + warps

    def _warps_with(self, threads: np.ndarray) -> Any:
        """How many warps have one of these threads; by block where an observer asks for that."""
        warps = threads.reshape(len(self.blocks), -1, WARP).any(axis=2)
        return warps.sum(axis=1) if self.by_block else int(np.count_nonzero(warps))

    def _polls_in_vain(self, place: int, threads: np.ndarray) -> PtxsimError:
        """All that can run look at memory time and again, so that it cannot change any more."""
        what = "deadlock: waits in a loop for memory that nobody changes any more"
        stuck = np.flatnonzero(self.alive & ~np.logical_or.reduce([threads, *self.groups.values()]))
        if len(stuck):
            what += f"; of those that cannot run, {self.coordinates(int(stuck[0]))}{self.waits_at(int(stuck[0]))}"
        total = self.grid[0] * self.grid[1] * self.grid[2]
        if len(self.blocks) < total:
            what += (
                f"; {len(self.blocks)} of the grid's {total} blocks run side by side here, and a block may wait for "
                "one that has not begun: on a device, too, only as many as it holds"
            )
        return self.fault(self.polls[place], what, int(np.flatnonzero(threads)[0]))

    def _come_together(self, pc: int, threads: np.ndarray) -> np.ndarray | None:
        """Threads at what a whole warp or warpgroup executes together: those that do so now are entered."""
        ready = self.convergence.arrive(pc, threads)
        if ready is not None and ready is not threads:
            self.enter(ready)
        return ready

    def _tell(self) -> None:
        """Tell the observers how often each instruction was executed."""
        code = self.program.code
        for tally, name in ((self.tally, "executed"), (self.polled, "polled")):
            total: dict[int, Any] = {}
            for (first, last), warps in tally.items():
                for pc in range(first, last):
                    total[pc] = total.get(pc, 0) + warps
            tally.clear()
            for pc, warps in total.items():
                for observer in self.observers:
                    getattr(observer, name)(code[pc], warps)

    def active_warps(self) -> Any:
        """How many warps have an active thread; by block where an observer asks for that."""
        if self.active is None:
            return np.full(len(self.blocks), self.padded // WARP) if self.by_block else self.warps
        if getattr(self, "_warps_of", None) is not self.active:
            self._warps_of = self.active
            self._warp_count = self._warps_with(self.active)
        return self._warp_count

    def leave(self, threads: np.ndarray) -> None:
        """Threads that end."""
        self.alive = self.alive & ~threads
        self.exited = self.exited | threads
        self.barriers.after_exit()
        self.clusters.after_exit()
        self.bulk_groups.after_exit(threads)
        if self.monitor is not None:
            lanes = np.flatnonzero(threads)
            living = np.asarray(self.alive.reshape(len(self.blocks), -1).any(axis=1))
            for block in np.unique(self.block_of[lanes]).tolist():
                if not living[block]:
                    self.monitor.block_ends(block, int(lanes[self.block_of[lanes] == block][0]))
        self.convergence.after_exit()

    def row_givers(self, count: int, lanes: np.ndarray) -> np.ndarray:
        """The threads that give addresses to an ldmatrix of `count` matrices; the same array while threads are."""
        key = (count, id(self.active))
        if key not in self.givers:
            mask = np.tile(lanes, self.warps)
            self.givers[key] = (self.active, mask if self.active is None else mask & self.active)
        return self.givers[key][1]

    def fetched(self, instruction: Instruction, texture: Texture, lanes: np.ndarray, index: np.ndarray) -> None:
        """Tell the observers of a texture fetch."""
        for observer in self.observers:
            observer.texture(instruction, texture, lanes, index)

    def tensor_operands(self, instruction: Instruction, lanes: np.ndarray, size: int) -> None:
        """Tell the observers of operands that a wgmma of these lanes [warpgroups, 128] has in shared memory."""
        warpgroups: Any = len(lanes)
        if self.by_block:
            warpgroups = np.bincount(self.block_of[lanes[:, 0]], minlength=len(self.blocks))
        for observer in self.observers:
            observer.operands(instruction, warpgroups, size)

    # what orders accesses

    def pass_barrier(self, done: np.ndarray | None = None, threads: np.ndarray | None = None, number: int = 0) -> None:
        """Blocks pass a barrier: all of the batch, or those marked; `threads`: those that take part, if not all."""
        if self.monitor is not None:
            self.monitor.barrier(done, threads, number)
        if self.global_monitor is not None:
            self.global_monitor.barrier(done)

    def pass_warp_barrier(self, threads: np.ndarray) -> None:
        """The warps of these threads pass a barrier of their own."""
        if self.monitor is not None:
            self.monitor.warp_sync(threads)
        if self.global_monitor is not None:
            self.global_monitor.warp_sync(threads)

    def pass_arrival(self, threads: np.ndarray, number: int) -> None:
        """Threads arrive at a barrier of their block for which they do not wait."""
        if self.monitor is not None:
            self.monitor.arrive(threads, number)

    def release_at(self, key: Hashable, lanes: np.ndarray, relaxed: bool = False) -> None:
        """Lanes of one cluster arrive at an mbarrier, or the cluster's barrier: what they did comes before what those
        do who see its phase end."""
        if isinstance(self.monitor, ClockMonitor):
            self.monitor.release(key, lanes, relaxed)

    def acquire_at(self, key: Hashable, lanes: np.ndarray) -> None:
        """Lanes of one cluster have seen the phase end."""
        if isinstance(self.monitor, ClockMonitor):
            self.monitor.acquire(key, lanes)
        if self.global_monitor is not None:
            self.global_monitor.barrier(np.bincount(self.block_of[lanes], minlength=len(self.blocks)) > 0)

    def phase_ends(self, key: Hashable) -> None:
        """All arrived."""
        if isinstance(self.monitor, ClockMonitor):
            self.monitor.phase_ends(key)

    def pass_fence(self) -> None:
        """The active threads execute a fence that reaches beyond their block."""
        if self.global_monitor is not None:
            self.global_monitor.fence()
        self.pass_cluster_fence()

    def pass_cluster_fence(self) -> None:
        """The active threads execute a fence that reaches at least their cluster."""
        if self.monitor is not None:
            self.monitor.fence(self.active)

    def object_made(self, at: int, lane: int, instruction: Instruction) -> None:
        """A thread initialises an mbarrier."""
        if isinstance(self.monitor, ClockMonitor):
            self.monitor.object_made(at, lane, instruction)

    def pass_init_fence(self) -> None:
        """The active threads let other proxies and blocks see the mbarriers that they have initialised."""
        if isinstance(self.monitor, ClockMonitor):
            self.monitor.init_fence(self.active)
        self.pass_cluster_fence()

    def pass_proxy_fence(self) -> None:
        """The active threads order what was done by loads and stores before what bulk copies and wgmma do."""
        if isinstance(self.monitor, ClockMonitor):
            self.monitor.proxy_fence(self.active)

    @contextmanager
    def acting(self, threads: np.ndarray) -> Iterator[None]:
        """Only these threads act meanwhile."""
        saved = self.mask, self.active, self.whole, self.count
        self.mask = self.active = threads
        self.whole, self.count = False, int(np.count_nonzero(threads))
        try:
            yield
        finally:
            self.mask, self.active, self.whole, self.count = saved

    # words

    def coordinates(self, lane: int) -> str:
        """Block and thread of a lane, in words."""
        return f"block {self.block_index(lane)}, thread {self.thread_index(int(self.thread_of[lane]))}"

    def thread_index(self, number: int) -> tuple[int, int, int]:
        """A thread of the block by its number."""
        x, y, _ = self.block
        return (number % x, number // x % y, number // (x * y))

    def block_index(self, lane: int) -> tuple[int, int, int]:
        return self.block_place(int(self.blocks[self.block_of[lane]]))

    def block_place(self, number: int) -> tuple[int, int, int]:
        """A block of the grid by its number."""
        gx, gy, _ = self.grid
        return (number % gx, number // gx % gy, number // (gx * gy))

    def fault(self, instruction: Instruction, what: str, lane: int, count: int = 1) -> KernelFault:
        """The error of one thread (and `count` - 1 others), as one line."""
        where = self.where(instruction)
        message = f"{self.program.title}: {where}: {self.coordinates(lane)}: {what}"
        places = self._places.get(instruction.pc, ())
        return KernelFault(message, what, where, places, count)

    def report(self, instruction: Instruction, what: str, lane: int, count: int = 1) -> None:
        """A fault of a thread (and `count` - 1 others) that does not keep the program from going on: it is noted, or
        raised where the launch ends with its first."""
        self.faults.take(self.fault(instruction, what, lane, count))

    def where(self, instruction: Instruction) -> str:
        """The source line of an instruction and, where its function is inlined, the lines that call it."""
        chain = list(map(str, self._places.get(instruction.pc, ())))
        return f"{chain[0]}, called from {', from '.join(chain[1:])}" if len(chain) > 1 else instruction.where

    @cached_property
    def _places(self) -> dict[int, tuple[Location, ...]]:
        return places(self.program)

    def definition(self, operand: Operand) -> Instruction | None:
        """What gives a register its value, followed through moves; None where several do, or no register is given."""
        seen: set[Operand] = set()
        while isinstance(operand, Register) and operand not in seen:
            seen.add(operand)
            found = [i for i in self.program.code if i.operands and i.operands[0] is operand and i.opcode != "st"]
            if len(found) != 1:
                changes = [i for i in found if i.opcode != "mov"]
                return changes[0] if len(changes) == 1 else None
            if found[0].opcode != "mov" or not isinstance(found[0].operands[1], Register):
                return found[0]
            operand = found[0].operands[1]
        return None

    def waits_at(self, lane: int) -> str:
        """In words, where a thread is that does not go on."""
        if self.exited[lane]:
            return ", which has ended"
        for name, parked in (
            ("barrier", self.barriers.waiting),
            ("mbarrier", self.phases.waiting),
            ("barrier of the cluster", self.clusters.waiting),
        ):
            for w in parked:
                if w.threads[lane]:
                    name = "setmaxnreg" if getattr(w, "registers", 0) else name
                    return f", which waits at the {name} at {self.where(w.instruction)}"
        for pc, threads in (*self.convergence.held.items(), *self.groups.items()):
            if threads[lane]:
                return f", which is at {self.where(self.program.code[pc])}"
        return ""

    def in_shared(self, at: int) -> str:
        """In words, the variable that an address of shared memory belongs to; "" for none."""
        for variable, start in self.program.shared.items():
            end = start + variable.size if variable.size else self.spaces["shared"].size
            if start <= at < end:
                name = plain_name(variable.name)
                return f", in {name}" if at == start else f", {at - start} bytes into {name}"
        return ""


VERBS = {
    "ld": "load",
    "ld_ordered": "load",
    "st": "store",
    "st_ordered": "store",
    "atom": "atomic",
    "cp_async": "cp.async store",
    "cp_async_ld": "cp.async load",
    "ldmatrix": "ldmatrix",
    "async_ld": "bulk load",
}
FLAGS = ("ld", "st", "atom", "red")  # by which threads of a block synchronise, where they order at its scope
WINDOWS = {0: "global", **{base >> 48: name for name, base in BASES.items()}}


class MemoryEvent:
    """What an observer sees of a memory access. Arrays are made when asked for."""

    __slots__ = ("_machine", "access", "active", "instruction", "kind", "space", "width")

    def __init__(
        self, machine: Machine, instruction: Instruction, space: str, kind: str, width: int, access: Access
    ) -> None:
        self._machine, self.instruction = machine, instruction
        self.space, self.kind, self.width, self.access = space, kind, width, access
        self.active = machine.active

    def addresses(self) -> tuple[np.ndarray, np.ndarray]:
        """Byte addresses [warps, 32] within the space (for shared memory: within the block's), and the active mask."""
        where = self.access.where
        if where.lanes is None:
            return (where.raw + self.access.offset).reshape(-1, WARP), np.ones((self._machine.warps, WARP), bool)
        full = np.zeros(self._machine.lanes, np.int64)
        full[where.lanes] = where.raw + self.access.offset
        return full.reshape(-1, WARP), np.asarray(self.active).reshape(-1, WARP)

    def blocks(self) -> np.ndarray:
        """The linear number of the block that each warp of `addresses` belongs to."""
        machine = self._machine
        return np.asarray(machine.blocks)[machine.block_of[::WARP]]

    @property
    def cache(self) -> dict[Hashable, Any]:
        """A place to remember what follows from the base addresses alone, whatever the offset."""
        return self.access.where.cache

    @property
    def offset(self) -> int:
        return self.access.offset


def names_special(program: Program, part: str) -> bool:
    """Whether a program reads a special register with this in its name."""
    return any(isinstance(o, Special) and part in o.name for i in program.code for o in i.operands)


def needs_clocks(program: Program) -> bool:
    """Whether warps of a program order their accesses by more than barriers of the block."""
    words = {"bulk", "cluster", "shared::cluster", "mbarrier", "proxy"}
    orders = {"acquire", "release", "acq_rel"}
    return any(
        i.opcode in ("mbarrier", "wgmma")
        or not words.isdisjoint(i.modifiers)
        or ("cta" in i.modifiers and i.opcode in FLAGS and not orders.isdisjoint(i.modifiers))
        for i in program.code
    )


def smallest_shared_access(program: Program) -> int:
    """Bytes of the smallest access that may go to shared memory."""
    smallest = 16
    for instruction in program.code:
        opcode, modifiers = instruction.opcode, instruction.modifiers
        if opcode == "mbarrier":
            smallest = min(smallest, 8)
        if opcode not in ("ld", "st", "atom", "red", "cp"):
            continue
        if opcode == "cp":
            amount = instruction.operands[2] if len(instruction.operands) > 2 else None
            size = int(amount.value) if isinstance(amount, Immediate) else 16
        elif {"global", "local", "const", "param"} & {m.split("::")[0] for m in modifiers}:
            continue
        else:
            size = registry.Modifiers(instruction).type.bytes
            size *= int(next((m[1] for m in modifiers if m in ("v2", "v4")), 1))
        smallest = min(smallest, size)
    return smallest
