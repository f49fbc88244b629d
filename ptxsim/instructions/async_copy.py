"""cp.async: copies from global to shared memory that are under way until waited for (PTX ISA
9.7.9.25).

The source is read when the copy is issued; the data land in shared memory when the thread waits for
the group. What reads the destination before that is found (see check/shared_memory.py), and gets
the old bytes.
"""

from __future__ import annotations

import numpy as np

from ..errors import Kind, PtxError
from ..machine.async_copies import NEVER, Copy
from ..machine.memory import Access
from ..machine.operands import MemoryOperand
from ..ptx.syntax import Immediate, Instruction, Register
from ..ptx.types import TYPES
from .bulk import bulk
from .mbarrier import signal_by_copies
from .needs import Machine
from .registry import ADDRESS, BOX, NUMBER, VALUE, Modifiers, Step, effect, takes

U32 = TYPES["u32"]


@effect(
    "cp",
    takes(when="commit_group"),
    takes(NUMBER, when="wait_group"),
    takes(when="wait_all"),
    takes(ADDRESS, when="mbarrier"),
    takes(BOX, optional=(VALUE,), when="tensor prefetch"),
    takes(BOX, ADDRESS, optional=(VALUE,), when="tensor bulk_group"),
    takes(ADDRESS, BOX, ADDRESS, VALUE, optional=(VALUE,), when="tensor multicast::cluster"),
    takes(ADDRESS, BOX, ADDRESS, optional=(VALUE,), when="tensor"),
    takes(ADDRESS, VALUE, optional=(VALUE,), when="prefetch"),
    takes(ADDRESS, ADDRESS, VALUE, optional=(VALUE, VALUE), when="bulk_group"),
    takes(
        ADDRESS, ADDRESS, VALUE, ADDRESS, VALUE, optional=(VALUE,), when="bulk multicast::cluster"
    ),
    takes(ADDRESS, ADDRESS, VALUE, ADDRESS, optional=(VALUE,), when="bulk"),
    takes(ADDRESS, ADDRESS, VALUE, optional=(VALUE, VALUE)),
)
def cp(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """cp.async and its commit_group, wait_group and wait_all (PTX ISA 9.7.9.25.3)."""
    if not modifiers.flag("async"):
        modifiers.reject("a cp other than cp.async")
    if modifiers.flag("bulk"):
        return bulk(m, instruction, modifiers)
    if modifiers.flag("mbarrier"):
        return signal_by_copies(m, instruction, modifiers)
    action = modifiers.one_of(("commit_group", "wait_group", "wait_all"))
    if action == "commit_group":
        return lambda: m.copies.commit()
    if action:
        pending = int(instruction.operands[0].value) if action == "wait_group" else 0
        everything = action == "wait_all"
        return lambda: m.copies.wait(pending, everything)
    return _copy(m, instruction, modifiers)


def _copy(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """cp.async.{ca,cg}.shared.global [dst], [src], size{, src-size | ignore-src}{, policy}."""
    level = modifiers.one_of(("ca", "cg"))
    if not modifiers.one_of(("shared", "shared::cta")) or not modifiers.flag("global"):
        modifiers.reject("a copy that is not from global to shared memory")
    modifiers.drop(("L2::",))
    destination, source, amount, *more = instruction.operands
    width = int(amount.value) if isinstance(amount, Immediate) else 0
    if width not in ((4, 8, 16) if level == "ca" else (16,)):
        raise PtxError(f"{instruction.where}: cp.async.{level} cannot copy {width or amount} bytes")
    to_operand = m.operands.address(destination, "shared")
    from_operand = m.operands.address(source, "global")
    read_size = read_ignored = None
    if more:
        operand = more[0]
        if isinstance(operand, Register) and operand.type.name == "pred":
            read_ignored = m.operands.reader(operand, TYPES["pred"])
        elif not (isinstance(operand, Register) and operand.type.bits == 64):
            # A 64-bit register is a cache policy.
            read_size = m.operands.reader(operand, U32)
    size = min(width, 8)
    count = width // size

    def step() -> None:
        if read_size is None and read_ignored is None:
            taken = m.memory.access(from_operand, width, instruction, "cp_async_ld")
            data = [taken.load(size, i) for i in range(count)]
        else:
            wanted = np.full(m.state.lanes, width, np.int64)
            if read_size is not None:
                wanted = read_size().astype(np.int64)
            if read_ignored is not None:
                wanted = np.where(read_ignored(), 0, wanted)
            elements = _partial(m, instruction, from_operand, width, wanted).view(f"u{size}")
            data = [np.ascontiguousarray(elements[:, i]) for i in range(count)]
        to = m.memory.access(to_operand, width, instruction, "cp_async")
        # The access is to one space.
        assert isinstance(to, Access)
        group = np.where(m.state.living(), NEVER, -1)
        m.copies.add(Copy(instruction, to, data, size, width, group))

    return step


def _partial(
    m: Machine, instruction: Instruction, operand: MemoryOperand, width: int, wanted: np.ndarray
) -> np.ndarray:
    """Return the bytes of a copy with a source size: this many are read, the others become zero.
    Size 0 reads nothing.
    """
    lanes, (_, slot, offset) = m.state.acting_lanes(), operand
    too_long = m.state.mask_of(lanes) & (wanted > width)
    m.diag.refuse(
        Kind.COPY,
        instruction,
        too_long,
        lambda n: f"cp.async: source size {int(wanted[n])} is more than {width}",
    )
    raw = np.zeros((len(lanes), width), np.uint8)
    space = m.memory.spaces["global"]
    for amount in filter(None, np.unique(wanted[lanes]).tolist()):
        indices = np.flatnonzero(wanted[lanes] == amount)
        with m.state.acting(m.state.mask_of(lanes[indices])):
            aligned = amount if amount & (amount - 1) == 0 else 1
            source = Access(space, m.memory.addresses(space, slot), offset)
            taken = m.memory.checked(source, aligned, instruction, "cp_async_ld")
            for byte in range(amount):
                raw[indices, byte] = taken.load(1, byte)
    return raw
