"""mbarrier and the copies that signal it (PTX ISA 9.7.13.15, 9.7.9.25)."""

from __future__ import annotations

import numpy as np

from ..copies import NEVER, Copy, land_copies_of
from ..errors import PtxError
from ..memory import Access
from ..phases import MOST, State
from ..ptx_types import TYPES
from ..syntax import Immediate
from .registry import ADDRESS, NUMBER, RESULT, VALUE, Modifiers, control, effect, takes

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


def _objects(m, slot: int, offset: int, instruction, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the active threads' objects lie in the batch's shared memory, and their lanes."""
    access = m.access("shared", slot, offset, 8, instruction, kind, observed=False)  # no load or store on hardware
    lanes = np.arange(m.lanes) if access.lanes is None else access.lanes
    return access.flat(), lanes


def _shared_address(m, instruction, operand, modifiers: Modifiers) -> tuple[int, int]:
    space = modifiers.one_of(("shared::cta", "shared::cluster", "shared"))
    if space is None:
        modifiers.reject("a generic address")
    _, slot, offset = m.address(operand, "shared")
    return slot, offset


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
def mbarrier(m, instruction):
    """mbarrier: init, inval, expect_tx, complete_tx, arrive, arrive_drop, test_wait, try_wait, pending_count."""
    modifiers = Modifiers(instruction)
    action = next((name for name in ACTIONS if modifiers.flag(name)), None)
    if action is None:
        modifiers.reject("this operation")
    parity = modifiers.flag("parity")
    no_complete = modifiers.flag("noComplete")
    expects = action == "expect_tx" or (action.startswith("arrive") and modifiers.flag("expect_tx"))
    modifiers.one_of(ORDER)
    modifiers.one_of(("cta", "cluster"))
    operands = list(instruction.operands)
    after = instruction.pc + 1
    if action == "pending_count":
        write, read = m.writer(operands[0], U32), m.reader(operands[1], B64)

        def pending(active) -> int:
            write(np.array([State.unpack(int(word)).pending for word in read()], np.uint32))
            return after

        return pending
    result = operands.pop(0) if action in ("arrive", "arrive_drop", "test_wait", "try_wait") else None
    slot, offset = _shared_address(m, instruction, operands.pop(0), modifiers)
    modifiers.done()
    if action in ("test_wait", "try_wait"):
        return _wait(m, instruction, action, result, slot, offset, operands[0], parity)
    number = m.reader(operands[0] if operands else Immediate(1), U32) if action != "inval" else None
    write = m.lane_writer(result, B64) if result is not None else None

    def step(active) -> int:
        kind = "st" if action == "init" else "atom"
        objects, lanes = _objects(m, slot, offset, instruction, kind)
        values = number()[lanes].astype(np.int64) if number is not None else np.zeros(len(lanes), np.int64)
        if action == "init":
            wrong = (values < 1) | (values > MOST)
            if wrong.any():
                lane = int(lanes[np.flatnonzero(wrong)[0]])
                raise m.fault(instruction, f"mbarrier.init: count {int(values[wrong][0])} is not in 1 to {MOST}", lane)
            words = [State(0, int(n), int(n), 0).pack() for n in values]
            m.spaces["shared"].views[8][objects >> 3] = np.array(words, np.uint64)
            return after

        def act(state: State, index: int) -> None:
            value = int(values[index])
            if action == "inval":
                state.parity = state.expected = state.pending = state.bytes = 0
                state.bytes = 1  # so that no phase ends
                return
            if expects:
                state.bytes += value
            elif action == "complete_tx":
                state.bytes -= value
            if action in ("arrive", "arrive_drop"):
                state.pending -= 1 if expects else value
                if action == "arrive_drop":
                    state.expected -= 1 if expects else value
                if no_complete and state.pending == 0:
                    raise m.fault(instruction, "mbarrier: .noComplete, but this ends the phase", int(lanes[index]))

        before = m.phases.change(instruction, objects, lanes, act)
        if write is not None:
            write(before, None if len(lanes) == m.lanes else lanes)
        return after

    return step


def _wait(m, instruction, action: str, result, slot: int, offset: int, token, parity: bool):
    """test_wait tells whether a phase is over; try_wait comes back when it is."""
    write = m.writer(result, PRED)
    read = m.reader(token, U32 if parity else B64)
    after = instruction.pc + 1

    def step(active) -> int | None:
        objects, lanes = _objects(m, slot, offset, instruction, "ld_ordered")
        wanted = (read()[lanes] & read().dtype.type(1)).astype(np.uint64)
        all_objects, all_wanted = np.zeros(m.lanes, np.int64), np.zeros(m.lanes, np.uint64)
        all_objects[lanes], all_wanted[lanes] = objects, wanted
        if action == "try_wait":
            return m.phases.wait(instruction, active, all_objects, all_wanted, write)
        over = np.zeros(m.lanes, bool)
        over[lanes] = m.phases.over(objects, wanted)
        if over.any():
            m.phases.passed(over)
        write(over)
        return after

    return step


def signal_by_copies(m, instruction, modifiers: Modifiers):
    """cp.async.mbarrier.arrive: the thread's cp.async so far, once done, arrive at an object (PTX ISA 9.7.13.15.18)."""
    if not modifiers.flag("arrive"):
        modifiers.reject("this operation")
    counted = modifiers.flag("noinc")
    slot, offset = _shared_address(m, instruction, instruction.operands[0], modifiers)
    modifiers.drop(("b64",))
    modifiers.done()

    def step() -> None:
        objects, lanes = _objects(m, slot, offset, instruction, "atom")

        def expect(state: State, index: int) -> None:
            state.pending += 0 if counted else 1

        m.phases.change(instruction, objects, lanes, expect)
        for at in np.unique(objects).tolist():
            here = lanes[objects == at]

            def land(at=at, here=here, copies=tuple(m.copies)) -> None:
                land_copies_of(m, copies, here)
                m.phases.change(instruction, np.full(len(here), at), here, _arrive)

            m.phases.signal(at, land)

    return step


def _arrive(state: State, index: int) -> None:
    state.pending -= 1


def bulk(m, instruction, modifiers: Modifiers):
    """cp.async.bulk: many bytes at once, from global to shared memory, which signals an mbarrier, or back, in groups;
    of clusters only a block's own memory (PTX ISA 9.7.9.25.4)."""
    if "tensor" in modifiers.left:
        modifiers.reject("a tensor map")
    if modifiers.flag("prefetch"):
        return lambda: None
    if modifiers.one_of(("commit_group", "wait_group")):
        modifiers.drop(("read",))
        modifiers.done()
        return lambda: None  # copies to global memory are done at once
    spaces = [name for name in instruction.modifiers if name.split("::")[0] in ("shared", "global")]
    modifiers.drop(("shared", "global", "mbarrier::complete_tx::bytes", "bulk_group", "L2::"))
    modifiers.done()
    to_shared = spaces[0].startswith("shared")
    if spaces not in (["shared::cluster", "global"], ["shared::cta", "global"], ["global", "shared::cta"]):
        raise PtxError(f"{instruction.where}: {instruction.name}: a copy between these spaces is not supported")
    destination, source, amount, *more = instruction.operands
    _, to_slot, to_offset = m.address(destination, spaces[0].split("::")[0])
    _, from_slot, from_offset = m.address(source, spaces[1].split("::")[0])
    read_amount = m.reader(amount, U32)
    _, bar_slot, bar_offset = m.address(more[0], "shared") if to_shared else (None, 0, 0)

    def step() -> None:
        lanes = np.arange(m.lanes) if m.active is None else np.flatnonzero(m.active)
        amounts = read_amount()
        for lane in lanes.tolist():
            size = int(amounts[lane])
            if size % 16:
                raise m.fault(instruction, f"cp.async.bulk: {size} bytes are no multiple of 16", lane)
            saved = m.mask, m.active, m.whole, m.count
            threads = np.zeros(m.lanes, bool)
            threads[lane] = True
            m.mask = m.active = threads
            m.whole, m.count = False, 1
            try:
                if size:
                    one(lane, size)
            finally:
                m.mask, m.active, m.whole, m.count = saved

    def checked(space_name: str, slot: int, offset: int, size: int, kind: str) -> Access:
        """A range of any size; no observer is told, for the load/store unit has no part in it."""
        space = m.spaces[space_name]
        where = space.addresses(m.registers[slot], m.active)
        m.require_valid(space, where, offset, size, 16, instruction, kind)
        access = Access(space, where, offset)
        if space_name == "global" and instruction.pc in m.watched:
            m.global_monitor.touch(access, size, instruction, "st" if kind == "cp_async" else kind)
        return access

    def one(lane: int, size: int) -> None:
        taken = checked(spaces[1].split("::")[0], from_slot, from_offset, size, "cp_async_ld")
        to = checked(spaces[0].split("::")[0], to_slot, to_offset, size, "cp_async")
        data = [taken.load(8, i) for i in range(size // 8)]
        if not to_shared:
            if m.monitor is not None:
                m.monitor.touch(taken, size, instruction, "ld")
            for i, values in enumerate(data):
                to.store(8, values, i)
            return
        group = np.full(m.lanes, -1, np.int64)
        group[lane] = NEVER
        copy = Copy(instruction, np.array([lane]), to, data, 8, size, group)
        if m.monitor is not None:
            m.monitor.copy_begins(copy)
        objects, _ = _objects(m, bar_slot, bar_offset, instruction, "atom")

        def land(at=int(objects[0])) -> None:
            land_copies_of(m, [copy], np.array([lane]))

            def complete(state: State, index: int) -> None:
                state.bytes -= size

            m.phases.change(instruction, np.array([at]), np.array([lane]), complete)

        m.phases.signal(int(objects[0]), land)

    return step


@control("mapa", takes(RESULT, VALUE, VALUE))
def mapa(m, instruction):
    """mapa: a shared address as another block of the cluster has it; a cluster is one block here (PTX ISA 9.7.9.23)."""
    modifiers = Modifiers(instruction)
    modifiers.flag("shared::cluster")
    t = modifiers.type
    modifiers.done()
    destination, source, rank = instruction.operands
    read, read_rank, write = m.reader(source, t), m.reader(rank, U32), m.writer(destination, t)

    def step(active) -> int:
        other = active & (read_rank() != 0)
        if other.any():
            raise m.fault(instruction, "mapa: the cluster has one block", int(np.flatnonzero(other)[0]))
        write(read())
        return instruction.pc + 1

    return step


@effect("setmaxnreg", takes(NUMBER))
def setmaxnreg(m, instruction):
    """setmaxnreg: how many registers a warp may have; here as many as there are (PTX ISA 9.7.19.5)."""
    return lambda: None
