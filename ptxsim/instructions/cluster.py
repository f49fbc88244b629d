"""Clusters: addresses in other blocks' shared memory (PTX ISA 9.7.9.23, 9.7.9.24); registers of
warps (9.7.19.5).
"""

from __future__ import annotations

import numpy as np

from ..errors import Kind, PtxError
from ..machine.memory import BASES, RANK_AT
from ..ptx.syntax import Instruction
from ..ptx.types import TYPES
from .needs import Machine
from .registry import NUMBER, RESULT, VALUE, Control, Modifiers, Step, control, effect, takes

U32 = TYPES["u32"]


@control("mapa", takes(RESULT, VALUE, VALUE))
def mapa(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """mapa: a shared address as it is in another block of the cluster (PTX ISA 9.7.9.23)."""
    modifiers.flag("shared::cluster")
    t = modifiers.type
    destination, source, rank = instruction.operands
    read, read_rank = m.operands.reader(source, t), m.operands.reader(rank, U32)
    write = m.operands.writer(destination, t)

    def step(active: np.ndarray) -> int:
        ranks = read_rank()
        other = active & (ranks >= m.state.cluster_size)
        if other.any():
            lane = int(np.flatnonzero(other)[0])
            blocks = f"{m.state.cluster_size} block{'s' * (m.state.cluster_size > 1)}"
            message = f"mapa: rank {int(ranks[lane])}, but the cluster has {blocks}"
            raise m.diag.fault(Kind.OTHER, instruction, message, lane)
        address, own_rank = read(), m.state.rank.astype(t.dtype)
        write(address + ((ranks.astype(t.dtype) - own_rank) << t.dtype.type(RANK_AT)))
        return instruction.pc + 1

    return step


@effect("getctarank", takes(RESULT, VALUE))
def getctarank(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """getctarank: the rank of the block that a shared address lies in (PTX ISA 9.7.9.24)."""
    base = 0 if modifiers.flag("shared::cluster") else BASES["shared"]
    t = modifiers.type
    destination, source = instruction.operands
    read, write = m.operands.reader(source, t), m.operands.writer(destination, U32)
    first = t.dtype.type(base & (2**t.bits - 1))
    return lambda: write(
        (read() - first >> t.dtype.type(RANK_AT)).astype(np.uint32) & np.uint32(0xFF)
    )


@control("setmaxnreg", takes(NUMBER))
def setmaxnreg(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Control:
    """setmaxnreg: how many registers a thread of a warp has; .inc waits until the block has them
    (PTX ISA 9.7.19.5).
    """
    more = modifiers.one_of(("inc", "dec"))
    modifiers.drop(("sync", "aligned"))
    if more is None:
        modifiers.reject("neither .inc nor .dec")
    count = int(instruction.operands[0].value)
    if not 24 <= count <= 256 or count % 8:
        raise PtxError(
            f"{instruction.where}: setmaxnreg takes a multiple of 8 from 24 to 256, not {count}"
        )
    return lambda active: m.clusters.set_registers(instruction, active, count, more == "inc")
