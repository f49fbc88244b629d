"""Instructions by which the threads of a warp exchange data (PTX ISA 9.7.9.6, 9.7.13.9 to
9.7.13.14).
"""

from __future__ import annotations

import numpy as np

from ..errors import Kind
from ..ptx.syntax import Instruction, pair_of
from ..ptx.types import TYPES
from .compare import COMBINE
from .needs import Machine
from .registry import PAIR, RESULT, VALUE, Modifiers, Step, effect, takes

WARP = 32
U32, B32, PRED = TYPES["u32"], TYPES["b32"], TYPES["pred"]
LANE = np.arange(WARP)
REDUCTIONS = {"add": np.add, "min": np.minimum, "max": np.maximum, **COMBINE}
BIT = np.uint64(1) << LANE.astype(np.uint64)


def active_masks(m: Machine) -> np.ndarray:
    """For each warp, a bit for each active lane (uint64)."""
    if m.state.active is None:
        return np.full(m.state.warps, 0xFFFFFFFF, np.uint64)
    return ballots(m.state.active)


def ballots(flags: np.ndarray) -> np.ndarray:
    """For each warp, a bit for each lane whose flag is set."""
    return np.where(flags.reshape(-1, WARP), BIT, np.uint64(0)).sum(axis=1, dtype=np.uint64)


def spread(per_warp: np.ndarray, dtype: type[np.generic] = np.uint32) -> np.ndarray:
    """Spread a value of each warp to its lanes."""
    return np.repeat(per_warp.astype(dtype), WARP)


def require_members(m: Machine, instruction: Instruction, members: np.ndarray) -> np.ndarray:
    """Require that the threads that execute the instruction are named, and that the named ones that
    live are here (PTX ISA: otherwise undefined). Return the masks, per thread.
    """
    here = spread(active_masks(m), np.uint64)
    alive = spread(ballots(m.state.alive), np.uint64)
    own_bit = np.tile(BIT, m.state.warps)
    named = members.astype(np.uint64)
    bad = ((named & own_bit) == 0) | ((named & alive & ~here) != 0)
    if m.state.active is not None:
        bad &= m.state.active
    m.diag.refuse(
        Kind.MASK,
        instruction,
        bad,
        lambda lane: (
            f"{instruction.name}: member mask 0x{int(named[lane]):08x}, but the threads that are here are "
            f"0x{int(here[lane]):08x}"
        ),
    )
    return named


@effect("activemask", takes(RESULT))
def activemask(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """activemask: which threads of the warp execute this now (PTX ISA 9.7.13.11)."""
    write = m.operands.writer(instruction.operands[0], U32)
    return lambda: write(spread(active_masks(m)))


@effect("elect", takes(PAIR, VALUE))
def elect(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """elect.sync: one leader, here the lowest named lane (PTX ISA 9.7.13.14)."""
    modifiers.flag("sync")
    destination, mask = instruction.operands
    first, second = pair_of(destination)
    read = m.operands.reader(mask, U32)
    write_lane, write = m.operands.writer(first, U32), m.operands.writer(second, PRED)

    def step() -> None:
        members = require_members(m, instruction, read())
        low = members & (~members + np.uint64(1))
        leader = np.log2(low.astype(np.float64)).astype(np.uint32)
        write_lane(leader)
        write(np.tile(LANE, m.state.warps) == leader)

    return step


@effect("vote", takes(RESULT, VALUE, VALUE, when="sync"), takes(RESULT, VALUE))
def vote(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """vote.sync: all, any, uni or ballot of a predicate over the named threads (PTX ISA
    9.7.13.9).
    """
    sync = modifiers.flag("sync")
    mode = modifiers.one_of(("all", "any", "uni"), "ballot")
    modifiers.flag("ballot")
    destination, source, *mask = instruction.operands
    read = m.operands.reader(source, PRED)
    read_mask = m.operands.reader(mask[0], U32) if sync else (lambda: spread(active_masks(m)))
    write = m.operands.writer(destination, B32 if mode == "ballot" else PRED)

    def step() -> None:
        members = require_members(m, instruction, read_mask())
        flags = read() if m.state.active is None else read() & m.state.active
        votes = spread(ballots(flags), np.uint64) & members
        ways = {
            "all": votes == members,
            "any": votes != 0,
            "uni": (votes == members) | (votes == 0),
        }
        write(ways.get(mode, votes.astype(np.uint32)))

    return step


@effect(
    "shfl", takes(PAIR, VALUE, VALUE, VALUE, VALUE, when="sync"), takes(PAIR, VALUE, VALUE, VALUE)
)
def shfl(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """shfl.sync: the value of another lane, by index, up, down or butterfly, within segments (PTX
    ISA 9.7.9.6).

    The predicate destination says whether the source lane lay in range; if not, a thread gets its
    own value. The value of a lane outside the mask, or that has exited, is undefined.
    """
    sync = modifiers.flag("sync")
    mode = modifiers.one_of(("up", "down", "bfly"), "idx")
    modifiers.flag("idx")
    destination, source, by, clamp, *mask = instruction.operands
    first, second = pair_of(destination)
    read = m.operands.reader(source, B32)
    read_by, read_clamp = m.operands.reader(by, U32), m.operands.reader(clamp, U32)
    read_mask = m.operands.reader(mask[0], U32) if sync else None
    write, write_in_range = m.operands.writer(first, B32), m.operands.writer(second, PRED)

    def step() -> None:
        members = None if read_mask is None else require_members(m, instruction, read_mask())
        lane = np.tile(LANE, m.state.warps)
        b = read_by().astype(np.int64) & 31
        c = read_clamp().astype(np.int64)
        segment = (c >> 8) & 31
        low, limit = lane & segment, (lane & segment) | (c & 31 & ~segment)
        ways = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | (b & ~segment)}
        chosen = ways[mode]
        inside = chosen >= limit if mode == "up" else chosen <= limit
        chosen = np.where(inside, chosen, lane)
        givers = np.arange(m.state.lanes) // WARP * WARP + chosen
        if members is not None:
            _shuffled(m, instruction, members, givers)
        write(read()[givers])
        write_in_range(inside)

    return step


def _shuffled(
    m: Machine, instruction: Instruction, members: np.ndarray, givers: np.ndarray
) -> None:
    """Tell the watch over undefined values whose values the threads take."""
    lane = givers % WARP
    outside = (members >> lane.astype(np.uint64) & np.uint64(1)) == 0
    outside |= m.state.exited[givers]
    if m.state.active is not None:
        outside &= m.state.active
    message = ""
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        why = f"is outside of its mask 0x{int(members[first]):08x}"
        if m.state.exited[givers[first]]:
            why = "has exited"
        message = f"{m.state.coordinates(first)}: a shuffle takes the value of lane {int(lane[first])}, which {why}"
    m.events.defined.shuffled(instruction, givers, outside, message)


@effect("match", takes(PAIR, VALUE, VALUE))
def match_(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """match.sync: which named threads hold the same value; `.all` whether all do (PTX ISA
    9.7.13.10).
    """
    modifiers.flag("sync")
    mode = modifiers.one_of(("any", "all"))
    t = modifiers.type
    destination, source, mask = instruction.operands
    first, second = pair_of(destination)
    read, read_mask = m.operands.reader(source, t), m.operands.reader(mask, U32)
    write, write_same = m.operands.writer(first, B32), m.operands.writer(second, PRED)

    def step() -> None:
        members = require_members(m, instruction, read_mask())
        value = read().reshape(-1, WARP)
        equal = value[:, :, None] == value[:, None, :]
        same = np.where(equal, BIT, np.uint64(0)).sum(axis=2, dtype=np.uint64).reshape(-1) & members
        if mode == "any":
            write(same.astype(np.uint32))
            return
        all_same = same == members
        write(np.where(all_same, members, np.uint64(0)).astype(np.uint32))
        write_same(all_same)

    return step


@effect("redux", takes(RESULT, VALUE, VALUE))
def redux(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """redux.sync: a sum, extreme or bitwise operation over the named threads (PTX ISA
    9.7.13.12).
    """
    modifiers.flag("sync")
    name = modifiers.one_of(REDUCTIONS) or modifiers.reject("this operation")
    t = modifiers.type
    if t.kind == "f":
        modifiers.reject("a floating-point type")
    destination, source, mask = instruction.operands
    read, read_mask = m.operands.reader(source, t), m.operands.reader(mask, U32)
    write, operation = m.operands.writer(destination, t), REDUCTIONS[name]

    def step() -> None:
        members = require_members(m, instruction, read_mask())
        value = read()
        result = value.copy()
        acting = m.state.acting_mask()
        keys = np.arange(m.state.lanes) // WARP * (1 << 32) + members.astype(np.int64)
        # In a warp, threads with one mask reduce together.
        for key in np.unique(keys[acting]):
            group = np.flatnonzero(acting & (keys == key))
            result[group] = operation.reduce(value[group], dtype=t.dtype)
        write(result)

    return step
