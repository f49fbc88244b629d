"""mbarrier and the copies that signal it (PTX ISA 9.7.13.15, 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..errors import Kind
from ..machine.async_copies import Copy
from ..machine.mbarriers import MAX_COUNT, State
from ..machine.memory import MixedAccess
from ..machine.operands import MemoryOperand
from ..ptx.syntax import Immediate, Instruction
from ..ptx.types import TYPES
from .needs import Machine
from .registry import ADDRESS, RESULT, VALUE, Control, Modifiers, Step, control, takes

U32, B64, PRED = TYPES["u32"], TYPES["b64"], TYPES["pred"]
Write = Callable[[np.ndarray], None]
ORDER = ("release", "acquire", "relaxed", "acq_rel")
ACTIONS = (
    "init",
    "inval",
    "arrive_drop",
    "arrive",
    "expect_tx",
    "complete_tx",
    "test_wait",
    "try_wait",
    "pending_count",
)


def objects_at(
    m: Machine, operand: MemoryOperand, instruction: Instruction, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the addresses of the active threads' mbarriers in the batch's shared memory, and the
    lanes.
    """
    # It is no load or store on hardware.
    access = m.memory.access(operand, 8, instruction, kind, observed=False)
    lanes = np.arange(m.state.lanes) if access.lanes is None else access.lanes
    if isinstance(access, MixedAccess) or not access.space.is_shared:
        message = f"{instruction.name}: an mbarrier that is not in shared memory"
        raise m.diag.fault(Kind.MBARRIER, instruction, message, int(lanes[0]))
    return access.flat(), lanes


def _shared_address(m: Machine, operand: Any, modifiers: Modifiers) -> MemoryOperand:
    """Return space, slot and offset of an object's address; one without a space is generic, and in
    shared memory, too.
    """
    space = modifiers.one_of(("shared::cta", "shared::cluster", "shared"), "generic")
    return m.operands.address(operand, space.removesuffix("::cta"))


@control(
    "mbarrier",
    takes(RESULT, VALUE, when="pending_count"),
    takes(RESULT, ADDRESS, optional=(VALUE,), when="arrive"),
    takes(RESULT, ADDRESS, optional=(VALUE,), when="arrive_drop"),
    takes(RESULT, ADDRESS, VALUE, optional=(VALUE,), when="test_wait"),
    takes(RESULT, ADDRESS, VALUE, optional=(VALUE,), when="try_wait"),
    takes(ADDRESS, when="inval"),
    takes(ADDRESS, VALUE),
)
def mbarrier(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """mbarrier: init, inval, expect_tx, complete_tx, arrive, arrive_drop, test_wait, try_wait,
    pending_count.
    """
    action = modifiers.one_of(ACTIONS) or modifiers.reject("this operation")
    arrives = action in ("arrive", "arrive_drop")
    parity = modifiers.flag("parity")
    no_complete = modifiers.flag("noComplete")
    expects = action == "expect_tx" or (arrives and modifiers.flag("expect_tx"))
    relaxed = modifiers.one_of(ORDER) == "relaxed"
    modifiers.one_of(("cta", "cluster"))
    operands = list(instruction.operands)
    after = instruction.pc + 1
    if action == "pending_count":
        tell, read = m.operands.writer(operands[0], U32), m.operands.reader(operands[1], B64)

        def pending(active: np.ndarray) -> int:
            tell(np.array([State.unpack(int(word)).pending for word in read()], np.uint32))
            return after

        return pending
    result = (
        operands.pop(0) if action in ("arrive", "arrive_drop", "test_wait", "try_wait") else None
    )
    operand = _shared_address(m, operands.pop(0), modifiers)
    if action in ("test_wait", "try_wait"):
        token = m.operands.reader(operands[0], U32 if parity else B64)
        return _wait(
            m, instruction, action == "try_wait", m.operands.writer(result, PRED), operand, token
        )
    number = m.operands.reader(operands[0] if operands else Immediate(1), U32)
    # expect_tx adds to the bytes that are to come, complete_tx takes away.
    sign = 1 if expects else -1 if action == "complete_tx" else 0
    write = m.operands.lane_writer(result, B64) if result is not None else None

    def step(active: np.ndarray) -> int:
        kind = "st" if action == "init" else "atom"
        objects, lanes = objects_at(m, operand, instruction, kind)
        counts = number()
        values = counts[lanes].astype(np.int64)
        if action == "init":
            wrong = m.state.mask_of(lanes) & ((counts < 1) | (counts > MAX_COUNT))
            what = "mbarrier.init: count {} is not in 1 to " + str(MAX_COUNT)
            m.diag.refuse(
                Kind.MBARRIER, instruction, wrong, lambda lane: what.format(int(counts[lane]))
            )
            m.phases.init(instruction, objects, lanes, values)
            return after

        def act(state: State, index: int) -> None:
            value = int(values[index])
            if action == "inval":
                state.parity = state.expected = state.pending = 0
                # With a byte to come, no phase ends.
                state.bytes = 1
                return
            if sign:
                state.bytes += sign * value
                m.phases.count(int(objects[index]), instruction, sign * value)
            if arrives:
                arrivals = 1 if expects else value
                state.pending -= arrivals
                state.expected -= arrivals if action == "arrive_drop" else 0
                if no_complete and state.pending == 0:
                    message = "mbarrier: .noComplete, but this ends the phase"
                    raise m.diag.fault(Kind.MBARRIER, instruction, message, int(lanes[index]))

        if arrives:
            m.phases.arrive(objects, lanes, relaxed)
            m.phases.note_arrivals(
                instruction, objects, np.ones_like(values) if expects else values
            )
        if action == "arrive" and not expects and not no_complete:
            before = m.phases.count_down(instruction, objects, lanes, values)
        else:
            before = m.phases.change(instruction, objects, lanes, act)
        if write is not None:
            write(before, None if len(lanes) == m.state.lanes else lanes)
        return after

    return step


def _wait(
    m: Machine,
    instruction: Instruction,
    parks: bool,
    write: Write,
    operand: MemoryOperand,
    read: Callable[[], np.ndarray],
) -> Control:
    """test_wait returns whether a phase is over; try_wait (`parks`) returns once it is."""
    after = instruction.pc + 1

    def step(active: np.ndarray) -> int | None:
        objects, lanes = objects_at(m, operand, instruction, "ld_ordered")
        wanted = (read()[lanes] & read().dtype.type(1)).astype(np.uint64)
        all_objects = np.zeros(m.state.lanes, np.int64)
        all_wanted = np.zeros(m.state.lanes, np.uint64)
        all_objects[lanes], all_wanted[lanes] = objects, wanted
        if parks:
            return m.phases.wait(instruction, active, all_objects, all_wanted, write)
        over = np.zeros(m.state.lanes, bool)
        over[lanes] = m.phases.over(objects, wanted)
        if over.any():
            m.phases.passed(np.flatnonzero(over), all_objects[over])
        write(over)
        return after

    return step


def _land(
    m: Machine, instruction: Instruction, at: int, here: np.ndarray, copies: tuple[Copy, ...]
) -> None:
    """Copies of some lanes are done, and arrive."""
    m.copies.land(copies, here)
    m.phases.arrive(np.full(len(here), at), here)
    m.phases.count_down(instruction, np.full(len(here), at), here, np.ones(len(here), np.int64))


def signal_by_copies(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """cp.async.mbarrier.arrive: the thread's cp.async so far, once done, arrive at an object (PTX
    ISA 9.7.13.15.18).
    """
    if not modifiers.flag("arrive"):
        modifiers.reject("this operation")
    counted = modifiers.flag("noinc")
    operand = _shared_address(m, instruction.operands[0], modifiers)
    modifiers.drop(("b64",))

    def step() -> None:
        objects, lanes = objects_at(m, operand, instruction, "atom")

        if not counted:
            # One more arrival is to come.
            m.phases.count_down(instruction, objects, lanes, np.full(len(lanes), -1))
        for at in np.unique(objects).tolist():
            here = lanes[objects == at]

            m.phases.signal(at, partial(_land, m, instruction, at, here, tuple(m.copies.pending)))

    return step
