"""mbarrier and the copies that signal it (PTX ISA 9.7.13.15, 9.7.9.25)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..machine.async_copies import Copy
from ..machine.mbarriers import MOST, State
from ..machine.memory import MixedAccess
from ..ptx.syntax import Immediate, Instruction
from ..ptx.types import TYPES
from .needs import Machine
from .registry import ADDRESS, RESULT, VALUE, Control, Modifiers, Step, control, takes

U32, B64, PRED = TYPES["u32"], TYPES["b64"], TYPES["pred"]
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
    m: Machine, space: str, slot: int, offset: int, instruction: Instruction, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the addresses of the active threads' mbarriers in the batch's shared memory, and the lanes."""
    access = m.memory.access(space, slot, offset, 8, instruction, kind, observed=False)  # no load or store on hardware
    lanes = np.arange(m.state.lanes) if access.lanes is None else access.lanes
    if isinstance(access, MixedAccess) or not access.space.is_shared:
        raise m.diag.fault(instruction, f"{instruction.name}: an mbarrier that is not in shared memory", int(lanes[0]))
    return access.flat(), lanes


def _shared_address(m: Machine, operand: Any, modifiers: Modifiers) -> tuple[str, int, int]:
    """Space, slot and offset of an object's address; one without a space is generic, and in shared memory, too."""
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
    """mbarrier: init, inval, expect_tx, complete_tx, arrive, arrive_drop, test_wait, try_wait, pending_count."""
    action = next((name for name in ACTIONS if modifiers.flag(name)), None)
    if action is None:
        modifiers.reject("this operation")
    parity = modifiers.flag("parity")
    no_complete = modifiers.flag("noComplete")
    expects = action == "expect_tx" or (action.startswith("arrive") and modifiers.flag("expect_tx"))
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
    result = operands.pop(0) if action in ("arrive", "arrive_drop", "test_wait", "try_wait") else None
    place = _shared_address(m, operands.pop(0), modifiers)
    if action in ("test_wait", "try_wait"):
        return _wait(m, instruction, action, result, place, operands[0], parity)
    number = m.operands.reader(operands[0] if operands else Immediate(1), U32) if action != "inval" else None
    write = m.operands.lane_writer(result, B64) if result is not None else None

    def step(active: np.ndarray) -> int:
        kind = "st" if action == "init" else "atom"
        objects, lanes = objects_at(m, *place, instruction, kind)
        values = number()[lanes].astype(np.int64) if number is not None else np.zeros(len(lanes), np.int64)
        if action == "init":
            wrong = (values < 1) | (values > MOST)
            if wrong.any():
                lane = int(lanes[np.flatnonzero(wrong)[0]])
                raise m.diag.fault(
                    instruction, f"mbarrier.init: count {int(values[wrong][0])} is not in 1 to {MOST}", lane
                )
            m.phases.init(instruction, objects, lanes, values)
            return after

        def act(state: State, index: int) -> None:
            value = int(values[index])
            if action == "inval":
                state.parity = state.expected = state.pending = state.bytes = 0
                state.bytes = 1  # so that no phase ends
                return
            if expects:
                state.bytes += value
                m.phases.count(int(objects[index]), instruction, value)
            elif action == "complete_tx":
                state.bytes -= value
                m.phases.count(int(objects[index]), instruction, -value)
            if action in ("arrive", "arrive_drop"):
                state.pending -= 1 if expects else value
                if action == "arrive_drop":
                    state.expected -= 1 if expects else value
                if no_complete and state.pending == 0:
                    raise m.diag.fault(instruction, "mbarrier: .noComplete, but this ends the phase", int(lanes[index]))

        if action in ("arrive", "arrive_drop"):
            m.phases.arrive(objects, lanes, relaxed)
            m.phases.note_arrivals(instruction, objects, np.ones_like(values) if expects else values)
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
    action: str,
    result: Any,
    place: tuple[str, int, int],
    token: Any,
    parity: bool,
) -> Control:
    """test_wait returns whether a phase is over; try_wait returns once it is."""
    write = m.operands.writer(result, PRED)
    read = m.operands.reader(token, U32 if parity else B64)
    after = instruction.pc + 1

    def step(active: np.ndarray) -> int | None:
        objects, lanes = objects_at(m, *place, instruction, "ld_ordered")
        wanted = (read()[lanes] & read().dtype.type(1)).astype(np.uint64)
        all_objects, all_wanted = np.zeros(m.state.lanes, np.int64), np.zeros(m.state.lanes, np.uint64)
        all_objects[lanes], all_wanted[lanes] = objects, wanted
        if action == "try_wait":
            return m.phases.wait(instruction, active, all_objects, all_wanted, write)
        over = np.zeros(m.state.lanes, bool)
        over[lanes] = m.phases.over(objects, wanted)
        if over.any():
            m.phases.passed(np.flatnonzero(over), all_objects[over])
        write(over)
        return after

    return step


def _land(m: Machine, instruction: Instruction, at: int, here: np.ndarray, copies: tuple[Copy, ...]) -> None:
    """Copies of some lanes are done, and arrive."""
    m.copies.land(copies, here)
    m.phases.arrive(np.full(len(here), at), here)
    m.phases.count_down(instruction, np.full(len(here), at), here, np.ones(len(here), np.int64))


def signal_by_copies(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """cp.async.mbarrier.arrive: the thread's cp.async so far, once done, arrive at an object (PTX ISA 9.7.13.15.18)."""
    if not modifiers.flag("arrive"):
        modifiers.reject("this operation")
    counted = modifiers.flag("noinc")
    place = _shared_address(m, instruction.operands[0], modifiers)
    modifiers.drop(("b64",))

    def step() -> None:
        objects, lanes = objects_at(m, *place, instruction, "atom")

        if not counted:
            m.phases.count_down(instruction, objects, lanes, np.full(len(lanes), -1))  # one more is to come
        for at in np.unique(objects).tolist():
            here = lanes[objects == at]

            m.phases.signal(at, partial(_land, m, instruction, at, here, tuple(m.copies.pending)))

    return step
