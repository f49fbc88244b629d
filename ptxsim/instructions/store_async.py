"""st.async: a store to a block of the cluster that completes bytes on an mbarrier there (PTX ISA,
`st.async`).

What is written comes before what those do who see the mbarrier's phase end, and nothing else orders
it. So it is a copy that lands when somebody waits for the mbarrier. Unlike a bulk copy it needs no
proxy fence.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import Kind
from ..machine.async_copies import Copy
from ..machine.memory import Access
from ..machine.values import distinct
from ..ptx.syntax import Instruction
from ..ptx.types import TYPES
from .bulk import NO_GROUP, Pieces, begin
from .memory import elements, parse_access, st
from .needs import Machine
from .registry import ADDRESS, VALUE, VALUES, Modifiers, Step, effect, takes

# A thread stores at most 16 bytes.
MAX_BYTES = 16


@effect(
    "st", takes(ADDRESS, VALUES, ADDRESS, when="async"), takes(ADDRESS, VALUES, optional=(VALUE,))
)
def store(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """st and st.async."""
    return (store_async if modifiers.flag("async") else st)(m, instruction, modifiers)


def store_async(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """[to], a value or a vector of them, [mbarrier]: both in one block of the cluster."""
    space, vector, t, ordered = parse_access(modifiers)
    size, width = t.bytes, t.bytes * vector
    if not modifiers.flag("mbarrier::complete_tx::bytes") or space != "shared::cluster" or ordered:
        modifiers.reject("a form other than .weak.shared::cluster.mbarrier::complete_tx::bytes")
    if size not in (4, 8) or width > MAX_BYTES:
        modifiers.reject(f"a store of {vector} times {size} bytes")
    destination, source, bar = instruction.operands
    memory_operand, (_, bar_slot, bar_offset) = (
        m.operands.address(operand, space) for operand in (destination, bar)
    )
    bits = TYPES[f"b{t.bits}"]
    readers = [m.operands.reader(item, bits) for item in elements(source, vector, instruction)]

    def step() -> None:
        access = m.memory.access(memory_operand, width, instruction, "cp_async", observed=False)
        # A named space has one kind of access.
        assert isinstance(access, Access)
        signalled = Access(access.space, m.memory.addresses(access.space, bar_slot), bar_offset)
        m.memory.require_valid(signalled, 8, 8, instruction, "atom")
        objects = signalled.flat()
        lanes = np.arange(m.state.lanes) if access.lanes is None else access.lanes
        flat, raw = access.flat(), access.where.raw + access.offset
        part = len(access.space.data) // len(m.state.blocks)
        apart = np.flatnonzero(flat // part != objects // part)
        if len(apart):
            what = "st.async: the data and the mbarrier are in different blocks of the cluster"
            raise m.diag.fault(Kind.OTHER, instruction, what, int(lanes[apart[0]]))
        values = [read()[lanes] for read in readers]
        for which in _together(flat, objects):
            to = Pieces(access.space, flat[which], raw[which], lanes[which])
            data, at = [value[which] for value in values], int(objects[which[0]])
            copy = Copy(instruction, to, data, size, width, NO_GROUP, at)
            begin(m, copy, at, int(lanes[which[0]]), width * len(which))
        if m.events.defined.storing is not None:
            m.events.defined.stored(access, instruction)

    return step


def _together(flat: np.ndarray, objects: np.ndarray) -> Iterator[np.ndarray]:
    """Which stores are one copy: those that signal one mbarrier; each by itself where some have the
    same place.
    """
    if distinct(flat).size < len(flat):
        yield from np.arange(len(flat))[:, None]
        return
    for at in distinct(objects):
        yield np.flatnonzero(objects == at)
