"""Moves, packing, addresses, in other blocks of the cluster, too (PTX ISA 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Kind, PtxError
from ..machine.layout import RESERVED_SHARED, reserved
from ..machine.memory import BASES, RANK_AT
from ..machine.state import component
from ..ptx.syntax import Immediate, Instruction, Special, Symbol, Vector
from ..ptx.types import STORAGE, TYPES, Type
from .needs import Machine
from .registry import (
    RESULT,
    RESULTS,
    VALUE,
    VALUES,
    Control,
    Modifiers,
    Step,
    control,
    effect,
    takes,
)

U32, U64 = TYPES["u32"], np.uint64
# Generic addresses of these spaces lie in windows.
WINDOWS = ("global", "const", "shared", "local", "param", "shared::cta")
WARP = 32
RESERVED_OFFSET = "%reserved_smem_offset_"
CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


@effect("mov", takes(RESULTS, VALUES))
def mov(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """mov: copy a register, constant, special register or address; pack or unpack a vector (PTX ISA
    9.7.9.3, 9.7.9.4).

    The array moves as it is: a move keeps bits, and which array they are in does not matter.
    """
    t = modifiers.type
    destination, source = instruction.operands
    if isinstance(source, Vector):
        return _pack(m, instruction, t)
    if isinstance(destination, Vector):
        return _unpack(m, instruction, t)
    if isinstance(source, Special) and source.name in CLOCKS:
        write = m.operands.writer(destination, TYPES["b64" if t.bits == 64 else "b32"])
        return lambda: write(clock_value(m, source.name, instruction.pc))
    slot = m.operands.operand_slot(source, t)
    if isinstance(source, Symbol) or (
        isinstance(source, (Special, Immediate)) and t.bits != destination.type.bits
    ):
        read, write = m.operands.reader(source, t), m.operands.writer(destination, t)
        return lambda: write(read())
    write, registers = m.operands.writer(destination, t), m.state.registers
    return lambda: write(registers[slot])


def _part(instruction: Instruction, t: Type, vector: Vector) -> Type:
    """Return the type of one of a vector's elements."""
    count = len(vector.items)
    if count not in (2, 4, 8) or t.bits // count < 8:
        raise instruction.error(f"does not take a vector of {count} elements")
    return TYPES[f"b{t.bits // count}"]


def _pack(m: Machine, instruction: Instruction, t: Type) -> Step:
    """mov.b64 d, {a, b}: the first element is the least significant."""
    destination, source = instruction.operands
    part = _part(instruction, t, source)
    readers = [m.operands.reader(item, part) for item in source.items]
    write = m.operands.writer(destination, t)
    wide = STORAGE[t.bits]

    def step() -> None:
        value = readers[0]().astype(wide)
        for i, read in enumerate(readers[1:], 1):
            value = value | np.left_shift(read().astype(wide), wide.type(i * part.bits))
        write(value)

    return step


def _unpack(m: Machine, instruction: Instruction, t: Type) -> Step:
    """mov.b64 {a, b}, d; `_` leaves an element out."""
    destination, source = instruction.operands
    part = _part(instruction, t, destination)
    read = m.operands.reader(source, TYPES[f"b{t.bits}"])
    wide, narrow = STORAGE[t.bits], STORAGE[part.bits]
    writers = [
        (i, m.operands.writer(item, part))
        for i, item in enumerate(destination.items)
        if item is not None
    ]

    def step() -> None:
        value = read()
        for i, write in writers:
            write((value >> wide.type(i * part.bits)).astype(narrow))

    return step


@effect("cvta", takes(RESULT, VALUE))
def cvta(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """cvta: an address in a space to a generic one; `.to` the other way (PTX ISA 9.7.9.20)."""
    to = modifiers.flag("to")
    space = modifiers.one_of(WINDOWS)
    modifiers.drop(("entry",))
    t = modifiers.type
    if space is None:
        raise instruction.error("does not name a space")
    base = BASES.get(space.removesuffix("::cta"), 0)
    read = m.operands.reader(instruction.operands[1], t)
    write = m.operands.writer(instruction.operands[0], t)
    if base == 0:
        return lambda: write(read())
    shift = t.dtype.type(base & (2**t.bits - 1))
    return lambda: write(read() - shift if to else read() + shift)


@effect("isspacep", takes(RESULT, VALUE))
def isspacep(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """isspacep: whether a generic address lies in a space's window (PTX ISA 9.7.9.19)."""
    space = modifiers.one_of((*WINDOWS, "shared::cluster")) or modifiers.reject("this space")
    modifiers.drop(("entry",))
    window = U64(BASES.get(space.split("::")[0], 0) >> 48)
    read = m.operands.reader(instruction.operands[1], TYPES["u64"])
    write = m.operands.writer(instruction.operands[0], TYPES["pred"])
    if space in ("shared", "shared::cta"):

        def in_own_block() -> None:
            address = read()
            rank = (address - U64(BASES["shared"])) >> U64(RANK_AT)
            write(((address >> U64(48)) == window) & (rank == m.state.rank.astype(U64)))

        return in_own_block
    if space == "const":
        return lambda: write(m.state.uniform(np.bool_(False)))
    return lambda: write((read() >> U64(48)) == window)


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

    def step() -> None:
        rank = read() - first >> t.dtype.type(RANK_AT)
        write(rank.astype(np.uint32) & np.uint32(0xFF))

    return step


# special registers (PTX ISA 10)


def special_value(m: Machine, name: str) -> np.ndarray:
    """Return the values of a special register for a batch, one a thread."""
    stem, _, axis = name.partition(".")
    index, state, launch = "xyzw".index(axis or "x"), m.state, m.launch
    if index == 3:
        return state.uniform(np.uint32(0))

    def of_blocks(values: np.ndarray) -> np.ndarray:
        """Return a value for each block as one for each of its threads."""
        return np.repeat(values.astype(np.uint32), state.padded)

    def of_threads(values: np.ndarray) -> np.ndarray:
        """Return a value for each thread of a block as one for each thread."""
        return np.tile(values.astype(np.uint32), len(state.blocks))

    def in_cluster() -> np.ndarray:
        return of_blocks(
            component(np.asarray(state.blocks), state.grid, index) // state.cluster[index]
        )

    thread = np.arange(state.padded)
    bit = np.uint64(1) << (thread % WARP).astype(np.uint64)
    # Whole numbers are of all threads, and of 32 bits.
    values: dict[str, Callable[[], Any]] = {
        "%tid": lambda: of_threads(component(thread, state.block, index)),
        "%ntid": lambda: state.block[index],
        "%ctaid": lambda: of_blocks(component(np.asarray(state.blocks), state.grid, index)),
        "%nctaid": lambda: state.grid[index],
        "%clusterid": in_cluster,
        "%nclusterid": lambda: state.grid[index] // state.cluster[index],
        "%cluster_nctaid": lambda: state.cluster[index],
        "%cluster_nctarank": lambda: state.cluster_size,
        "%cluster_ctaid": lambda: state.index_in_cluster(index),
        "%cluster_ctarank": lambda: state.rank,
        "%is_explicit_cluster": lambda: np.bool_(state.cluster_size > 1),
        "%laneid": lambda: of_threads(thread % WARP),
        "%warpid": lambda: of_threads(thread // WARP),
        "%nwarpid": lambda: 64,
        "%smid": lambda: of_blocks(np.asarray(state.blocks) % launch.device.sms),
        "%nsmid": lambda: launch.device.sms,
        "%gridid": lambda: np.uint64(1),
        "%lanemask_eq": lambda: of_threads(bit),
        "%lanemask_lt": lambda: of_threads(bit - np.uint64(1)),
        "%lanemask_le": lambda: of_threads(2 * bit - np.uint64(1)),
        "%lanemask_gt": lambda: of_threads(~(2 * bit - np.uint64(1))),
        "%lanemask_ge": lambda: of_threads(~(bit - np.uint64(1))),
        # cooperative_groups::grid_group::sync takes these for its workspace's address.
        "%envreg1": lambda: launch.grid_workspace >> 32,
        "%envreg2": lambda: launch.grid_workspace & 0xFFFFFFFF,
        "%total_smem_size": lambda: launch.shared_bytes,
        "%aggr_smem_size": lambda: launch.shared_bytes + RESERVED_SHARED,
        "%dynamic_smem_size": lambda: launch.dynamic_shared_bytes,
    }
    if stem.startswith(RESERVED_OFFSET):
        target = m.program.module.target
        value: Any = reserved(target, launch.shared_bytes, stem.removeprefix(RESERVED_OFFSET))
    elif stem in values:
        value = values[stem]()
    else:
        raise PtxError(f"special register {name} is not supported")
    if isinstance(value, np.ndarray):
        return value.astype(np.uint32)
    return state.uniform(value if isinstance(value, np.generic) else np.uint32(value))


def clock_value(m: Machine, name: str, pc: int) -> np.ndarray:
    """Return the device's clock, made up (see `Device`), as read at a place: in cycles for %clock
    and %clock64, in ns for %globaltimer.
    """
    device = m.launch.device
    now = device.after(m.scheduler.clock(pc))
    value = now if name.startswith("%globaltimer") else device.cycles(now)
    if name.endswith("_hi"):
        return m.state.uniform(np.uint32(value >> 32))
    if name in ("%clock64", "%globaltimer"):
        return m.state.uniform(np.uint64(value))
    return m.state.uniform(np.uint32(value & 0xFFFFFFFF))
