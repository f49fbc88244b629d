"""Control flow: branches, calls, barriers, the end (PTX ISA 9.7.12, 9.7.13.1, 9.7.13.2, 9.7.19).

A step takes the mask of active threads. It returns the pc where all of them go on, or None after
it has sent them on their ways itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import Kind, PtxError
from ..machine.barriers import Finish, require_barrier_number
from ..machine.memory import BASES, WINDOW
from ..machine.values import merged
from ..ptx.program import function_address
from ..ptx.syntax import Function, Immediate, Instruction, Register, Symbol, Variable
from ..ptx.types import TYPES
from .needs import Machine
from .registry import (
    ARGUMENTS,
    CALLEE,
    LABEL,
    LABELS,
    NUMBER,
    RESULT,
    VALUE,
    Control,
    Modifiers,
    control,
    takes,
)

U32, PRED = TYPES["u32"], TYPES["pred"]
BARRIER = (
    takes(when="cluster"),
    takes(VALUE, when="warp"),
    takes(RESULT, VALUE, VALUE, optional=(VALUE,), when="red"),
    takes(optional=(VALUE, VALUE)),
)


@control("bra", takes(LABEL))
def bra(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """bra: jump, where the predicate holds (PTX ISA 9.7.12.3); `.uni` says that all threads do the
    same.
    """
    modifiers.flag("uni")
    target, after = instruction.operands[0].index, instruction.pc + 1
    if instruction.predicate is None:
        return lambda active: target
    registers, slot, negated = m.state.registers, instruction.predicate.slot, instruction.negated

    def step(active: np.ndarray) -> int | None:
        taken = registers[slot]
        if negated:
            taken = ~taken
        if m.state.active is not None:
            taken = taken & active
        count = np.count_nonzero(taken)
        if count == m.state.count:
            return target
        if count == 0:
            return after
        m.state.join(target, taken & active)
        m.state.join(after, active & ~taken)
        return None

    return step


@control("brx", takes(VALUE, LABELS))
def brx(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """brx.idx: jump to an entry of a table (PTX ISA 9.7.12.4)."""
    modifiers.drop(("idx", "uni"))
    targets = np.array([label.index for label in instruction.operands[1]])
    read = m.operands.reader(instruction.operands[0], U32)

    def step(active: np.ndarray) -> int | None:
        index = read()
        m.diag.refuse(
            Kind.OTHER,
            instruction,
            active & (index >= len(targets)),
            lambda lane: f"brx.idx: index {int(index[lane])} is beyond the table",
        )
        for number in np.unique(index[active]).tolist():
            m.state.join(int(targets[number]), active & (index == number))
        return None

    return step


@control("exit", takes())
def exit_(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """exit: the thread ends (PTX ISA 9.7.12.7)."""

    def step(active: np.ndarray) -> None:
        m.scheduler.leave(active)

    return step


@control("trap", takes())
def trap(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """trap: an error (PTX ISA 9.7.19.4)."""

    def step(active: np.ndarray) -> None:
        what = "trap"
        if "%envreg1" in m.program.specials and not m.launch.grid_workspace:
            what += (
                ": grid.sync() in an ordinary launch, where cudaLaunchCooperativeKernel is needed"
            )
        raise m.diag.fault(Kind.TRAP, instruction, what, int(np.flatnonzero(active)[0]))

    return step


@control("brkpt", takes())
def brkpt(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """brkpt: a breakpoint; nothing stops here (PTX ISA 9.7.19.1)."""
    return lambda active: instruction.pc + 1


@control("bar", *BARRIER)
def bar(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """bar.sync, bar.red, bar.arrive, bar.warp.sync: as barrier, aligned (PTX ISA 9.7.13.1,
    9.7.13.2).
    """
    if modifiers.flag("warp"):
        modifiers.flag("sync")
        read = m.operands.reader(instruction.operands[0], U32)
        return lambda active: m.barriers.warp(instruction, active, read())
    return _barrier(m, instruction, modifiers)


@control("barrier", *BARRIER)
def barrier(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """barrier.sync, .red, .arrive: threads of a block wait for each other (PTX ISA 9.7.13.1)."""
    if modifiers.flag("cluster"):
        return _cluster_barrier(m, instruction, modifiers)
    return _barrier(m, instruction, modifiers)


def _cluster_barrier(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """barrier.cluster.arrive, .wait (PTX ISA 9.7.13.4)."""
    waits = modifiers.flag("wait")
    if not waits and not modifiers.flag("arrive"):
        modifiers.reject("neither .arrive nor .wait")
    orders = not modifiers.flag("relaxed")
    modifiers.drop(("arrive", "aligned", "release", "acquire"))
    if waits:
        return lambda active: m.clusters.wait(instruction, active)

    def step(active: np.ndarray) -> int:
        m.clusters.arrive(instruction, active, orders)
        return instruction.pc + 1

    return step


def _barrier(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("cta")
    modifiers.flag("aligned")
    action = modifiers.one_of(("sync", "red", "arrive"))
    reduction = ""
    if action == "red":
        reduction = modifiers.one_of(("popc", "and", "or")) or modifiers.reject("this reduction")
    operands = list(instruction.operands)
    destination = operands.pop(0) if action == "red" else None
    source = operands.pop() if action == "red" else None
    number = m.operands.reader(operands[0] if operands else Immediate(0), U32)
    constant = not operands or isinstance(operands[0], Immediate)
    count = m.operands.reader(operands[1], U32) if len(operands) > 1 else None
    if action == "arrive":

        def arrive(active: np.ndarray) -> int:
            which = number().astype(np.int64)
            require_barrier_number(m, instruction, which, active)
            m.barriers.arrive(instruction, active, which)
            return instruction.pc + 1

        return arrive
    finish = read = None
    if action == "red":
        read = m.operands.reader(source, PRED)
        finish = _reduction(
            m, reduction, m.operands.writer(destination, U32 if reduction == "popc" else PRED)
        )

    def step(active: np.ndarray) -> int | None:
        which = number().astype(np.int64)
        if not constant:
            require_barrier_number(m, instruction, which, active)
        expected = None if count is None else count().astype(np.int64)
        return m.barriers.block(
            instruction, active, which, expected, read() if read else None, finish
        )

    return step


def _reduction(m: Machine, name: str, write: Callable[[np.ndarray], None]) -> Finish:
    """bar.red: how many, whether all or any of the barrier's threads have the predicate set."""

    def finish(threads: np.ndarray, value: np.ndarray | None, of_barrier: np.ndarray) -> None:
        # A reduction has a predicate.
        assert value is not None
        taking = of_barrier & m.state.alive
        total = np.bincount(m.state.block_of[taking], minlength=len(m.state.blocks))
        yes = np.bincount(m.state.block_of[taking & value], minlength=len(m.state.blocks))
        result = {"popc": yes.astype(np.uint32), "and": yes == total, "or": yes > 0}[name]
        write(result[m.state.block_of])

    return finish


@control("setmaxnreg", takes(NUMBER))
def setmaxnreg(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """setmaxnreg: how many registers a thread of a warp has; .inc waits until the block has them
    (PTX ISA 9.7.19.5).
    """
    more = modifiers.one_of(("inc", "dec")) or modifiers.reject("neither .inc nor .dec")
    modifiers.drop(("sync", "aligned"))
    count = int(instruction.operands[0].value)
    if not 24 <= count <= 256 or count % 8:
        raise PtxError(
            f"{instruction.where}: setmaxnreg takes a multiple of 8 from 24 to 256, not {count}"
        )
    return lambda active: m.clusters.set_registers(instruction, active, count, more == "inc")


# calls


@control("ret", takes())
def ret(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """ret: back to where the thread came from; from the entry: the end (PTX ISA 9.7.12.6)."""
    modifiers.flag("uni")
    function = m.program.owner[instruction.pc].name

    def step(active: np.ndarray) -> int | None:
        depth = m.calls.depth
        outermost = active & (depth == 0)
        if m.state.count == np.count_nonzero(outermost):
            m.scheduler.leave(active)
            return None
        if outermost.any():
            m.scheduler.leave(outermost)
        return _return(m, active & ~outermost, function)

    return step


def _return(m: Machine, active: np.ndarray, function: str) -> int | None:
    level = m.calls.depth[active] - 1
    if m.calls.saved:
        _restore(m, active)
    stack = np.stack(m.calls.return_to)
    back = np.full(m.state.lanes, -1)
    back[active] = stack[level, np.flatnonzero(active)]
    m.calls.depth = m.calls.depth - active
    return_pcs = np.unique(back[active]).tolist()
    for pc in return_pcs:
        here = active & (back == pc)
        with m.state.acting(here):
            m.calls.after_call[pc, function]()
        if len(return_pcs) == 1 and m.state.count == np.count_nonzero(here):
            return pc
        m.state.join(pc, here)
    return None


def _restore(m: Machine, active: np.ndarray) -> None:
    """Recursion: give the caller its registers and its local memory back."""
    moved = np.zeros(m.state.lanes, np.int64)
    for level, frame in enumerate(m.calls.saved):
        here = active & (m.calls.depth == level + 1)
        if not here.any():
            continue
        callers = {caller for caller, _ in frame}
        for caller in callers:
            mine = here & (m.calls.caller_at[level] == caller)
            if not mine.any():
                continue
            for (owner, slot), array in frame.items():
                if owner == caller:
                    m.state.registers[slot] = merged(mine, array, m.state.registers[slot])
        moved[here] -= m.program.local_bytes
    if moved.any():
        m.calls.pending_return = moved
        # The results are still addressed by the callee's frame: the stack moves once they are
        # copied.


@control("call", takes(ARGUMENTS, CALLEE, ARGUMENTS))
def call(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """call: a device function, by name or by address (PTX ISA 9.7.12.5); vprintf and __assertfail
    are the system's.
    """
    modifiers.flag("uni")
    returns, target, arguments = instruction.operands
    if isinstance(target, Symbol) and target.name in SYSTEM:
        act, min_arguments = SYSTEM[target.name]
        sizes = {_size(m, item) for item in arguments.items}
        if len(arguments.items) < min_arguments or not sizes <= {4, 8}:
            raise PtxError(
                f"{instruction.where}: {target.name} takes {min_arguments} or more arguments of 4 or 8 bytes"
            )
        to_frames = [_variable(item) in m.program.frames for item in returns.items]
        if target.name == "malloc" and to_frames != [True]:
            raise PtxError(f"{instruction.where}: malloc gives one pointer, to a .param variable")
        return _of_system(m, instruction, act, arguments.items, returns.items)
    if isinstance(target, Register):
        return _indirect(m, instruction, target)
    function = m.program.module.functions.get(target.name)
    if function is None or function.name not in m.program.start:
        raise PtxError(f"{instruction.where}: {target.name} is called but has no body here")
    return _direct(m, instruction, function, returns.items, arguments.items)


def _direct(
    m: Machine,
    instruction: Instruction,
    function: Function,
    returns: tuple[Any, ...],
    arguments: tuple[Any, ...],
) -> Control:
    if len(arguments) != len(function.params) or len(returns) != len(function.returns):
        raise PtxError(
            f"{instruction.where}: {function.name} is called with {len(arguments)} arguments"
        )
    for item, formal in zip(
        (*arguments, *returns), (*function.params, *function.returns), strict=True
    ):
        if _size(m, item) not in (None, _size(m, formal)) or (
            isinstance(formal, Register) and formal.type.kind == "p"
        ):
            raise PtxError(
                f"{instruction.where}: {function.name} is called with an argument of another size"
            )
    if any(isinstance(item, Immediate) for item in returns):
        raise PtxError(f"{instruction.where}: a constant cannot take the result of {function.name}")
    entry, after = m.program.start[function.name], instruction.pc + 1
    copies_in = list(zip(arguments, function.params, strict=True))
    for given, formal in copies_in:
        if isinstance(given, Immediate):
            # A constant has a slot before a batch starts.
            m.operands.immediate(given, TYPES[f"b{formal.type.bits}"])
    copies_out = list(zip(returns, function.returns, strict=True))
    m.calls.after_call[after, function.name] = lambda: _finish_call(m, copies_out)
    caller = m.program.owner[instruction.pc].name

    def step(active: np.ndarray) -> int:
        level = m.calls.depth[active]
        if int(level.max()) >= m.calls.limit:
            lane = int(np.flatnonzero(active)[int(level.argmax())])
            message = f"calls nest deeper than {m.calls.limit}: raise the limit `depth`"
            raise m.diag.fault(Kind.LIMIT, instruction, message, lane)
        shift = m.program.local_bytes if m.program.recursive else 0
        for given, formal in copies_in:
            _pass(m, given, formal, to_shift=shift)
        while len(m.calls.return_to) <= int(level.max()):
            m.calls.return_to.append(np.full(m.state.lanes, -1))
        stack = np.stack(m.calls.return_to)
        stack[level, np.flatnonzero(active)] = after
        m.calls.return_to = list(stack)
        if m.program.recursive:
            _save(m, active, caller)
        m.calls.depth = m.calls.depth + active
        if shift:
            m.operands.move_stack(np.where(active, shift, 0))
        return entry

    return step


def _save(m: Machine, active: np.ndarray, caller: str) -> None:
    for level in np.unique(m.calls.depth[active]).tolist():
        while len(m.calls.saved) <= level:
            m.calls.saved.append({})
            m.calls.caller_at.append(np.full(m.state.lanes, "", dtype=object))
        here = active & (m.calls.depth == level)
        m.calls.caller_at[level][here] = caller
        frame = m.calls.saved[level]
        for slot in m.program.saved_slots[caller]:
            now = m.state.registers[slot]
            old = frame.get((caller, slot))
            frame[caller, slot] = now if old is None else merged(here, now, old)


def _finish_call(m: Machine, copies_out: Sequence[tuple[Any, Any]]) -> None:
    """The results to where the caller wants them."""
    moved = m.calls.pending_return
    if moved is not None:
        m.calls.pending_return = None
        m.operands.move_stack(moved)
    shift = m.program.local_bytes if m.program.recursive else 0
    for wanted, formal in copies_out:
        _pass(m, formal, wanted, from_shift=shift)


def _pass(
    m: Machine, source: Any, destination: Any, from_shift: int = 0, to_shift: int = 0
) -> None:
    """Copy a parameter: from a variable, register or constant to a variable or register."""
    lanes, space = m.state.acting_lanes(), m.memory.spaces["local"]
    to_variable, from_variable = _variable(destination), _variable(source)
    source_bytes = None
    if from_variable is not None:
        source_bytes = _in_frame(m, from_variable, lanes, from_shift)
        data = space.data[source_bytes]
    else:
        t = (to_variable or destination).type
        values = m.operands.reader(source, TYPES[f"b{t.bits}"])()[lanes]
        data = np.ascontiguousarray(values).view(np.uint8).reshape(len(lanes), -1)
    if to_variable is not None:
        size = min(to_variable.size, data.shape[1])
        target = _in_frame(m, to_variable, lanes, to_shift)[:, :size]
        space.data[target] = data[:, :size]
        m.events.defined.passed(None if source_bytes is None else source_bytes[:, :size], target)
    else:
        t = TYPES[f"b{destination.type.bits}"]
        m.operands.lane_writer(destination, t)(
            np.ascontiguousarray(data).view(t.dtype).reshape(-1), lanes
        )


def _in_frame(m: Machine, variable: Variable, lanes: np.ndarray, shift: int = 0) -> np.ndarray:
    """Return where the bytes of a variable of the threads' frames lie in local memory, [threads,
    bytes].
    """
    at = np.asarray(m.memory.spaces["local"].origin)[lanes] + m.program.frames[variable] + shift
    if m.operands.stack_slot is not None:
        at = at + m.state.registers[m.operands.stack_slot][lanes]
    return at[:, None] + np.arange(variable.size)


def _variable(operand: Any) -> Any:
    """Return the frame variable that an operand of a call names."""
    if isinstance(operand, (Register, Immediate)):
        return None
    return operand.variable if isinstance(operand, Symbol) else operand


def _size(m: Machine, operand: Any) -> int | None:
    """Return the bytes of an argument; a constant has as many as it must."""
    if isinstance(operand, Immediate):
        return None
    if isinstance(operand, Register):
        return operand.type.bytes
    variable = _variable(operand)
    if variable is None or variable not in m.program.frames:
        raise PtxError(f"{operand.name} is no parameter or local variable of the function")
    return variable.size


def _indirect(m: Machine, instruction: Instruction, target: Register) -> Control:
    """Call through a pointer: each thread to the function whose number it holds."""
    returns, _, arguments = instruction.operands
    read = m.operands.reader(target, TYPES["u64"])
    steps = {}
    for function in m.program.functions:
        given, formal = (*arguments.items, *returns.items), (*function.params, *function.returns)
        fits = len(function.params) == len(arguments.items) and len(given) == len(formal)
        fits = fits and function is not m.program.entry
        if fits and all(
            _size(m, a) in (None, _size(m, b)) for a, b in zip(given, formal, strict=True)
        ):
            number = function_address(m.program, function.name)
            # A function with a body has an address.
            assert number is not None
            steps[number] = _direct(m, instruction, function, returns.items, arguments.items)

    def step(active: np.ndarray) -> int | None:
        value = read()
        for number in np.unique(value[active]).tolist():
            here = active & (value == number)
            if number not in steps:
                message = f"call of 0x{number:x}: no function"
                raise m.diag.fault(Kind.OTHER, instruction, message, int(np.flatnonzero(here)[0]))
            m.state.enter(here)
            entry = steps[number](here)
            # A function has an entry.
            assert entry is not None
            m.state.join(entry, here)
        return None

    return step


# the system's functions


# It takes the calling instruction, the active lanes, arguments as uint64, and the variable of the
# result.
System = Callable[[Machine, Instruction, np.ndarray, list[np.ndarray], Any], None]


def _of_system(
    m: Machine,
    instruction: Instruction,
    act: System,
    arguments: tuple[Any, ...],
    returns: tuple[Any, ...],
) -> Control:
    """Return the control of a call of one of the system's functions, whose arguments are in .param
    variables of the caller.
    """

    def step(active: np.ndarray) -> int:
        lanes, local = m.state.acting_lanes(), m.memory.spaces["local"].data
        variables = [argument.variable for argument in arguments]
        raw = [(local[_in_frame(m, v, lanes)], v.size) for v in variables]
        values = [data.view(f"u{size}").reshape(-1).astype(np.uint64) for data, size in raw]
        act(m, instruction, lanes, values, _variable(returns[0]) if returns else None)
        return instruction.pc + 1

    return step


def _assertfail(
    m: Machine, instruction: Instruction, lanes: np.ndarray, values: list[np.ndarray], _: Any
) -> None:
    """__assertfail(message, file, line, function, char size): a failed device-side assert."""
    text = m.launch.arena.string
    (message, file, line, function) = (int(value[0]) for value in values[:4])
    what = f"assertion `{text(message)}` failed at {text(file)}:{line} in {text(function)}"
    raise m.diag.fault(Kind.ASSERT, instruction, what, int(lanes[0]))


def _vprintf(
    m: Machine, instruction: Instruction, lanes: np.ndarray, values: list[np.ndarray], _: Any
) -> None:
    """vprintf(format, arguments): printed on stdout, thread by thread."""
    for lane, address, arguments in zip(
        lanes.tolist(), values[0].tolist(), values[1].tolist(), strict=True
    ):
        sys.stdout.write(formatted(m, lane, m.launch.arena.string(address), arguments))


def _malloc(
    m: Machine,
    instruction: Instruction,
    lanes: np.ndarray,
    values: list[np.ndarray],
    returned: Variable,
) -> None:
    """malloc(bytes): memory of the device's heap, thread by thread; null where none is left."""
    given = [m.launch.arena.malloc(min(size, 1 << 62)) for size in values[0].tolist()]
    target = _in_frame(m, returned, lanes)[:, :8]
    m.memory.spaces["local"].data[target] = np.array(given, np.uint64).view(np.uint8).reshape(-1, 8)
    m.events.defined.passed(None, target)


def _free(
    m: Machine, instruction: Instruction, lanes: np.ndarray, values: list[np.ndarray], _: Any
) -> None:
    """free(address): return a block to the heap."""
    for lane, address in zip(lanes.tolist(), values[0].tolist(), strict=True):
        if address and (wrong := m.launch.arena.free(address)):
            raise m.diag.fault(Kind.MEMORY, instruction, wrong, lane)


# Each function has what acts, and its least number of arguments.
SYSTEM: dict[str, tuple[System, int]] = {
    "vprintf": (_vprintf, 2),
    "__assertfail": (_assertfail, 4),
    "malloc": (_malloc, 1),
    "free": (_free, 1),
}


def formatted(m: Machine, lane: int, text: str, arguments: int) -> str:
    """Return a printf format with its arguments, which lie in the thread's local memory one after
    the other.
    """
    offset = arguments - BASES["local"]
    local = m.memory.spaces["local"]
    start = int(np.asarray(local.origin)[lane])

    def take(size: int) -> bytes:
        nonlocal offset
        offset = -(-offset // size) * size
        raw = local.data[start + offset : start + offset + size].tobytes()
        offset += size
        return raw

    def field(match: re.Match[str]) -> str:
        flags, length, kind = match[1], match[2], match[3]
        if kind == "%":
            return "%"
        if arguments // WINDOW != BASES["local"] // WINDOW:
            return match[0]
        if kind in "eEfFgGaA":
            return ("%" + flags + kind) % np.frombuffer(take(8), "f8")[0]
        size = 8 if length in ("l", "ll", "z", "j", "t") or kind in "ps" else 4
        value = int.from_bytes(take(size), "little", signed=kind in "di")
        if kind == "s":
            return ("%" + flags + "s") % m.launch.arena.string(value)
        if kind == "p":
            return hex(value)
        return ("%" + flags + ("d" if kind in "diu" else kind)) % value

    return re.sub(r"%([-+ #0]*\d*(?:\.\d+)?)(hh|h|ll|l|z|j|t)?([diuoxXcsfFeEgGaAp%])", field, text)
