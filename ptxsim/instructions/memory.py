"""Loads, stores, prefetches and atomic operations (PTX ISA 9.7.9.8 to 9.7.9.18, 9.7.13.5,
9.7.13.6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..errors import Kind
from ..machine import floats
from ..machine.memory import Access
from ..ptx.retries import Retry, retry
from ..ptx.syntax import Address, Instruction, Symbol, items_of
from ..ptx.types import TYPES, Type
from .needs import Machine
from .registry import (
    ADDRESS,
    NUMBER,
    RESULT,
    RESULTS,
    VALUE,
    VALUES,
    Compute,
    Modifiers,
    Step,
    anything,
    effect,
    takes,
)

SPACES = (
    "global",
    "shared::cta",
    "shared::cluster",
    "shared",
    "local",
    "param::entry",
    "param::func",
    "param",
    "const",
)
ORDER = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio")
SCOPES = ("cta", "cluster", "gpu", "sys")
# A fence has one of these.
ORDERS = ("sc", "acq_rel", "acquire", "release", *SCOPES)
OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
# alloca may take this many bytes a thread.
STACK = 4096
CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::", "L2::", "nc", "level::", "unified")


def parse_access(m: Modifiers) -> tuple[str, int, Type, bool]:
    """Return the modifiers common to loads and stores: space, vector length, type, and whether it
    is ordered with others.
    """
    space = space_of(m)
    order = m.one_of(ORDER, "weak")
    m.one_of(SCOPES)
    vector = int((m.one_of(("v2", "v4", "v8")) or "v1")[1])
    m.drop(CACHE)
    return space, vector, m.type, order != "weak"


def space_of(m: Modifiers) -> str:
    """Return the space that an access names: shared::cluster by itself, else without what comes
    after the colons.
    """
    space = m.one_of(SPACES, "generic")
    return space if space == "shared::cluster" else space.split("::")[0]


def elements(operand: Any, vector: int, instruction: Instruction) -> tuple[Any, ...]:
    items = items_of(operand)
    if len(items) != vector:
        raise instruction.error(f"with {len(items)} registers")
    return items


@effect("ld", takes(RESULTS, ADDRESS, optional=(VALUE,)))
def ld(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """ld: load from a space, a vector at once (PTX ISA 9.7.9.8); `.nc` and cache hints change
    nothing (9.7.9.9).
    """
    space, vector, t, ordered = parse_access(modifiers)
    destination, address = instruction.operands[:2]
    if (
        space == "param"
        and isinstance(address.base, Symbol)
        and m.operands.symbol_space(address.base) == "param"
    ):
        return _parameter(m, instruction, vector, t)
    constants = m.origins[instruction.pc] if space == "const" else ()
    operand = m.operands.address(address, space)
    size, width = t.bytes, t.bytes * vector
    writers = [
        (i, m.operands.lane_writer(item, t))
        for i, item in enumerate(elements(destination, vector, instruction))
        if item is not None
    ]
    kind = "ld_ordered" if ordered else "ld"

    def step() -> None:
        access = m.memory.access(operand, width, instruction, kind)
        # Values are read before a destination that is the address changes.
        values = [access.load(size, i) for i, _ in writers]
        for (_, write), value in zip(writers, values, strict=True):
            write(value, access.lanes)

    if not constants:
        return step

    def noted() -> None:
        m.launch.constants_read.update(constants)
        step()

    return noted


# ldu loads from a common address (PTX ISA 9.7.9.10).
effect("ldu", takes(RESULTS, ADDRESS))(ld)


def _parameter(m: Machine, instruction: Instruction, vector: int, t: Type) -> Step:
    """ld.param of the entry: one value for all threads."""
    destination, address = instruction.operands
    base = address.base

    def value(at: int) -> np.ndarray:
        at += m.operands.symbol_address(base)
        data = m.memory.param_space.data
        if at + t.bytes > len(data):
            what = f"parameter {base.name} is read beyond its end"
            raise m.diag.fault(Kind.BOUNDS, instruction, what, 0)
        return m.state.uniform(data[at : at + t.bytes].view(f"u{t.bytes}")[0])

    moves = []
    for number, item in enumerate(elements(destination, vector, instruction)):
        at = address.offset + number * t.bytes
        slot = m.operands.constant(("param", base.name, at, t.bytes), partial(value, at))
        if item is not None:
            moves.append((slot, m.operands.writer(item, t)))
    registers = m.state.registers

    def step() -> None:
        for slot, write in moves:
            write(registers[slot])

    return step


def st(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """st: store to a space, a vector at once (PTX ISA 9.7.9.11). `store_async` registers it, with
    st.async.
    """
    space, vector, t, ordered = parse_access(modifiers)
    address, source = instruction.operands[:2]
    if space == "const" or (space == "param" and m.operands.symbol_space(address.base) == "param"):
        raise instruction.error("stores to read-only memory")
    operand = m.operands.address(address, space)
    bits = TYPES[f"b{t.bits}"]
    readers = [m.operands.reader(item, bits) for item in elements(source, vector, instruction)]
    size, width = t.bytes, t.bytes * vector
    kind = "st_ordered" if ordered else "st"

    def step() -> None:
        m.memory.access(operand, width, instruction, kind, [read() for read in readers]).put(size)

    return step


def blind(m: Machine, instruction: Instruction) -> Step:
    """Return a step that checks a load, store, ldmatrix, stmatrix or wgmma and passes it on to the
    observers, without its values.
    """
    if instruction.opcode == "wgmma":
        from . import wgmma

        return wgmma.blind(m, instruction)
    if instruction.opcode in ("ldmatrix", "stmatrix"):
        from .matrix import matrix_access

        return matrix_access(m, instruction, Modifiers(instruction))[0]
    space, vector, t, ordered = parse_access(Modifiers(instruction))
    address = instruction.operands[0 if instruction.opcode == "st" else 1]
    kind = ("st" if instruction.opcode == "st" else "ld") + ("_ordered" if ordered else "")
    operand = m.operands.address(address, space)
    width = t.bytes * vector

    def step() -> None:
        m.memory.access(operand, width, instruction, kind)

    return step


def ignored(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """Build an instruction without an effect here, whatever its modifiers."""
    modifiers.left.clear()
    return lambda: None


# These are hints to caches (PTX ISA 9.7.9.15 and 9.7.9.16).
effect("prefetch", takes(ADDRESS))(ignored)
effect("prefetchu", takes(ADDRESS))(ignored)
effect("applypriority", takes(ADDRESS, NUMBER))(ignored)
# Data may be dropped from L2; here they stay (9.7.9.17).
effect("discard", takes(ADDRESS, NUMBER))(ignored)
# There is nothing to wait for here (9.7.19.2).
effect("nanosleep", takes(VALUE))(ignored)


@effect("griddepcontrol", takes())
def griddepcontrol(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """griddepcontrol: launches do not overlap here; observers learn who waits (PTX ISA 9.7.13.13)."""
    modifiers.left.clear()
    return m.events.grid_waits if "wait" in instruction.modifiers else lambda: None


@effect(
    "createpolicy",
    takes(RESULT, ADDRESS, VALUE, VALUE, when="range"),
    takes(RESULT, optional=(VALUE, VALUE)),
)
def createpolicy(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """createpolicy: a cache policy, here the number 0 (PTX ISA 9.7.9.18)."""
    modifiers.left.clear()
    write = m.operands.writer(instruction.operands[0], TYPES["b64"])
    return lambda: write(m.state.uniform(np.uint64(0)))


def combination(name: str, t: Type) -> Compute | None:
    """Return the new value of `atom.name`, from the old one and the operands (PTX ISA 9.7.13.5)."""

    def half_sum(old: np.ndarray, b: np.ndarray) -> np.ndarray:
        stem = t.name.removesuffix("x2")

        def total(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            exact = floats.unpack(x, stem).astype(np.float64) + floats.unpack(y, stem)
            return floats.pack(exact, stem)

        if not t.name.endswith("x2"):
            return total(old, b)
        return floats.joined(*map(total, floats.halves(old), floats.halves(b)))

    operations = {
        "add": half_sum if t.name.removesuffix("x2") in ("f16", "bf16") else np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "exch": lambda old, b: b,
        "cas": lambda old, b, c: np.where(old == b, c, old),
        "inc": lambda old, b: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1)),
        "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)),
    }
    return operations.get(name)


def _atomic(
    m: Machine, modifiers: Modifiers, destination: Any, address: Address, operands: tuple[Any, ...]
) -> Step:
    instruction = modifiers.instruction
    modifiers.one_of(ORDER)
    modifiers.one_of(SCOPES)
    space = space_of(modifiers)
    modifiers.flag("noftz")
    name = modifiers.one_of(OPERATIONS) or modifiers.reject("this operation")
    modifiers.drop(("L2::",))
    t = modifiers.type
    update = combination(name, t) or modifiers.reject("this operation")
    operands = operands[: 2 if name == "cas" else 1]
    memory_operand = m.operands.address(address, space)
    readers = [m.operands.reader(operand, t) for operand in operands]
    write, size = m.operands.lane_writer(destination, t), t.bytes
    loop = retry(m.program, instruction) if name == "cas" else None
    retried = None if loop is None else _Retried(m, loop, size)

    def step() -> None:
        """Threads that meet at one address take turns; the others go together."""
        access = m.memory.access(memory_operand, size, instruction, "atom")
        lanes = np.arange(m.state.lanes) if access.lanes is None else access.lanes
        values = [read()[lanes] for read in readers]
        before = np.zeros(len(lanes), f"u{size}")
        for indices, part in access.parts:
            turns = m.state.in_turns(lanes[indices])
            parts = [v[indices] for v in values]
            old = None if retried is None else retried.at_once(part, lanes[indices], parts, turns)
            if old is None:
                old = _in_turns(part, size, t, name, update, parts, turns)
            before[indices] = old
            m.events.flags.found_there(part, old)
        write(before, access.lanes)

    return step


class _Retried:
    """A compare-and-swap in a loop that stands for another atomic operation.

    Where several threads meet at a word, each swap would let one of them out of the loop. So they
    all do what the loop stands for, one after the other, as if each began when the one before it
    had ended.
    """

    UPDATES: Mapping[str, np.ufunc] = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }

    def __init__(self, m: Machine, loop: Retry, size: int) -> None:
        self.loop, self.size, self.update = loop, size, self.UPDATES[loop.name]
        self.read = m.operands.reader(loop.value, loop.type)
        bits = TYPES[f"b{8 * size}"]
        self.before, self.after = (
            [m.operands.lane_writer(register, bits) for register in registers]
            for registers in (loop.before, loop.after)
        )

    def at_once(
        self, access: Access, lanes: np.ndarray, values: list[np.ndarray], turns: np.ndarray
    ) -> np.ndarray | None:
        """Do all that these lanes still have to do, and set the registers of the loop. Return the
        bits that each found; None where that is not worth it, or would be something else.
        """
        counts = np.unique(access.flat(), return_counts=True)[1]
        if counts.max() <= SCAN:
            return None
        t, mine = self.loop.type, self.read()[lanes]
        old, new = (v.view(f"u{self.size}") for v in values)
        orders = self.loop.name in ("min", "max")
        expected = mine if orders and not self.after else self.update(old.view(t.dtype), mine)
        if not np.array_equal(_bits(expected), new):
            return None
        if orders and t.dtype.kind == "f":
            # The order of zeros and NaNs is not NumPy's.
            there = access.load(self.size, 0).view(t.dtype)
            if not (np.abs(np.r_[mine, there]) > 0).all():
                return None
        found = _in_turns(access, self.size, t, self.loop.name, self.update, [mine], turns)
        left = _bits(self.update(found.view(t.dtype), mine))
        for write in self.before:
            write(found, lanes)
        for write in self.after:
            write(left, lanes)
        return found


# No ufunc scans these operations: each is one thread's turn at a word.
TURNS: dict[str, Callable[..., int]] = {
    "exch": lambda old, b: b,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
}
# The first swaps of a word are looked for one by one.
FEW_SWAPS = 8
# The scan of a word takes as long as this many turns of all threads.
SCAN = 3


def _in_turns(
    access: Access,
    size: int,
    t: Type,
    name: str,
    update: Compute,
    values: list[np.ndarray],
    turns: np.ndarray,
) -> np.ndarray:
    """Update memory at the places of an access, one thread at a word after the other, in the order
    `turns`; return the bits that each found there.

    The few words at which most threads meet are scanned; at the others each turn is taken together.
    """
    index = access.flat() >> (size.bit_length() - 1)
    view = access.space.views[size]
    order = turns[np.argsort(index[turns], kind="stable")]
    words = index[order]
    first = np.flatnonzero(np.r_[True, words[1:] != words[:-1]])
    counts = np.diff(np.r_[first, len(order)])
    before = np.zeros(len(index), view.dtype)
    limit = int(counts.max())
    if limit > SCAN and (name in TURNS or name == "cas" or isinstance(update, np.ufunc)):
        ranked = np.r_[np.sort(counts)[::-1], 0]
        limit = int(ranked[np.argmin(ranked + SCAN * np.arange(len(ranked)))])
        for word in np.flatnonzero(counts > limit).tolist():
            lanes = order[first[word] : first[word] + counts[word]]
            at = int(words[first[word]])
            scanned = _scan(view[at : at + 1], t, name, update, [v[lanes] for v in values])
            before[lanes], view[at] = scanned[:-1], scanned[-1]
    first, counts = first[counts <= limit], counts[counts <= limit]
    for turn in range(limit):
        lanes = order[first[counts > turn] + turn]
        old = view[index[lanes]]
        before[lanes] = old
        view[index[lanes]] = _bits(update(old.view(t.dtype), *(v[lanes] for v in values)))
    return before


def _bits(x: np.ndarray) -> np.ndarray:
    return floats.canonical_bits(x) if x.dtype.kind == "f" else x.view(f"u{x.itemsize}")


def _scan(
    old: np.ndarray, t: Type, name: str, update: Compute, values: list[np.ndarray]
) -> np.ndarray:
    """Return the bits of a word before each of several updates, and after the last; `old`: an array
    of one.
    """
    if isinstance(update, np.ufunc):
        bits = _bits(update.accumulate(np.r_[old.view(t.dtype), values[0]], dtype=t.dtype))
        return np.r_[old, bits[1:]]
    if name == "cas":
        return swaps(old, *(v.view(old.dtype) for v in values))
    turn, now = TURNS[name], [int(old[0])]
    for given in zip(*(v.tolist() for v in values), strict=True):
        now.append(turn(now[-1], *given))
    return np.array(now, old.dtype)


def swaps(old: np.ndarray, compared: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return what each of several compare-and-swaps of a word finds, and what the last leaves;
    `old`: an array of one.
    """
    results, at = np.repeat(old, len(compared) + 1), 0
    for _ in range(FEW_SWAPS):
        good = compared[at:] == results[-1]
        if not good.any():
            return results
        at += int(good.argmax()) + 1
        results[at:] = new[at - 1]
    now = [results[-1].item()]
    for expected, value in zip(compared[at:].tolist(), new[at:].tolist(), strict=True):
        now.append(value if now[-1] == expected else now[-1])
    results[at:] = now
    return results


@effect("atom", takes(RESULTS, ADDRESS, VALUES, optional=(VALUE, VALUE)))
def atom(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """atom: read, change and write in one; gives the old value (PTX ISA 9.7.13.5)."""
    destination, address, *operands = instruction.operands
    return _atomic(m, modifiers, destination, address, tuple(operands))


@effect("red", anything("async"), takes(ADDRESS, VALUES, optional=(VALUE,)))
def red(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """red: as atom, without the old value (PTX ISA 9.7.13.6)."""
    address, *operands = instruction.operands
    return _atomic(m, modifiers, None, address, tuple(operands))


@effect("membar", takes())
def membar(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """membar: orders memory accesses (PTX ISA 9.7.13.4).

    Here they are in order; the watch over races learns of it.
    """
    modifiers.left.clear()
    return _fence(m, instruction)


def _fence(m: Machine, instruction: Instruction) -> Step:
    scope = next((s for s in ("cta", "cluster") if s in instruction.modifiers), "gpu")
    return lambda: m.events.order.fence(m.state.living(), scope)


@effect("fence", takes(ADDRESS, NUMBER, when="acquire proxy"), takes())
def fence(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """fence: as membar (PTX ISA 9.7.13.4).

    The watch over races learns of its scope and its proxies.
    """
    if modifiers.flag("proxy"):
        to_async = modifiers.one_of(("async", "async::shared::cta", "async::global"))
        of_maps = modifiers.flag("tensormap::generic")
        modifiers.drop(("alias", "async", "global", "shared::", "tensormap::", *ORDERS))
        if of_maps:
            return _map_fence(m, instruction)
        return (lambda: m.events.order.proxy_fence(m.state.living())) if to_async else lambda: None
    if modifiers.flag("mbarrier_init"):
        modifiers.drop(("release", "cluster"))
        return lambda: m.events.init_fence(m.state.living())
    modifiers.drop(ORDERS)
    return _fence(m, instruction)


def _map_fence(m: Machine, instruction: Instruction) -> Step:
    """fence.proxy.tensormap::generic: a release, or an acquire of the tensor map at an address."""
    if not instruction.operands:
        return lambda: m.events.map_fence(m.state.living(), None)
    _, slot, offset = m.operands.address(instruction.operands[0], "generic")

    def acquire() -> None:
        base = m.state.registers[slot].astype(np.uint64) + np.uint64(offset % 2**64)
        m.events.map_fence(m.state.living(), base)

    return acquire


@effect("alloca", takes(RESULT, VALUE, optional=(NUMBER,)))
def alloca(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """alloca: allocate bytes of the thread's local memory until it ends (PTX ISA 9.7.15.3)."""
    t = modifiers.type
    destination, size, *align = instruction.operands
    read, write = m.operands.reader(size, t), m.operands.writer(destination, t)
    boundary = int(align[0].value) if align else 8

    def step() -> None:
        here = m.state.acting_mask()
        start = -(-m.calls.stack_top // boundary) * boundary
        top = start + read().astype(np.int64)
        full = here & (top > m.calls.stack_end)
        if full.any():
            lane = int(np.flatnonzero(full)[0])
            what = f"alloca: more than {STACK} bytes in all"
            raise m.diag.fault(Kind.OTHER, instruction, what, lane)
        m.calls.stack_top = np.where(here, top, m.calls.stack_top)
        write(start.astype(t.dtype))

    return step


@effect("stacksave", takes(RESULT))
def stacksave(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """stacksave: where alloca would take the next bytes (PTX ISA 9.7.15.1)."""
    t = modifiers.type
    write = m.operands.writer(instruction.operands[0], t)
    return lambda: write(m.calls.stack_top.astype(t.dtype))


@effect("stackrestore", takes(VALUE))
def stackrestore(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """stackrestore: back to what stacksave said (PTX ISA 9.7.15.2)."""
    t = modifiers.type
    read = m.operands.reader(instruction.operands[0], t)

    def step() -> None:
        m.calls.stack_top = np.where(
            m.state.acting_mask(), read().astype(np.int64), m.calls.stack_top
        )

    return step
