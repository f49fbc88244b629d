"""Defined or not: registers, local, shared and global memory of which nobody has written the value.

What is undefined may be moved, computed with, shuffled and thrown away, as compilers do. It is a
fault where it matters: as an address, in a branch, a vote or a tensor core, and where it reaches
global memory. The message names what was never written. After that the value counts as defined, so
that one cause is one line. What a shuffle takes from a lane that takes no part is undefined, too;
a device mostly gives something, so that this is a note.

Each register with undefined bits has a mask for every lane. There are none in most kernels: nearly
all registers are written first (ptx/definite_assignment.py). Instructions run as ever until a load
finds something undefined. Then those that touch such registers run with their masks, until these
are overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import Kind
from ..instructions import registry
from ..instructions.needs import Machine
from ..instructions.registry import Control, Step
from ..machine.memory import Access, Space
from ..ptx.definite_assignment import results, sources, undefined_at_entry
from ..ptx.syntax import Address, Immediate, Instruction, Pair, Register, Vector, registers_of
from ..ptx.types import STORAGE, TYPES

LOADS = ("ld", "ldu")
# This atomic returns the old value, as a load does, and does not compute with it.
EXCHANGE = "exch"
# What an undefined operand reaches, by opcode
REACHES = {
    **dict.fromkeys(("mma", "wgmma", "wmma"), "reaches the tensor core"),
    **dict.fromkeys(
        ("vote", "match", "redux", "movmatrix"),
        "is exchanged between the threads of a warp",
    ),
    **dict.fromkeys(("bra", "brx"), "decides a branch"),
}
MOVES_BITS = ("mov", "shl", "shr", "shf", "prmt", "bfe", "bfi")
ALL = {dtype: dtype.type(1 if bits == 1 else 2**bits - 1) for bits, dtype in STORAGE.items()}


@dataclass
class UndefinedLoad:
    """What a load has just found undefined: a mask of bits for each element, of the lanes of the
    access.
    """

    instruction: Instruction
    lanes: np.ndarray | None
    masks: list[np.ndarray]
    origin: int


class Defined:
    """Which bits of the registers and of the local memory of a batch are undefined."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.state = machine, machine.state
        # The undefined bits of each lane are kept by slot.
        self.masks: dict[int, np.ndarray] = {}
        # `origin_of` holds, by slot, an index in `origins`, or below zero in `at_entry`.
        self.origin_of: dict[int, int] = {}
        # Each origin describes what was never written, and where it was first read.
        self.origins: list[tuple[str, str]] = []
        # `shuffles` holds, by pc, the origins that are shuffles.
        self.shuffles: dict[int, int] = {}
        self.latest: UndefinedLoad | None = None
        # These are the masks of the elements that a store is storing, for every lane.
        self.storing: list[np.ndarray] | None = None
        self.storing_origin = 0
        # The undefined bits of local memory are kept, and of shared memory once an undefined value
        # was stored there.
        self.local: Space | None = None
        self.shared: Space | None = None
        # `stored_origins` holds, by space, the origin of the undefined value that each word stores.
        self.stored_origins: dict[str, np.ndarray] = {}
        # These instructions, by pc, must not run on masks.
        self.whole: set[int] = set()
        # `changes` counts the changes of all masks.
        self.changes = 0
        # `_concerned` holds, by range of instructions, whether masks concern it, with the count of
        # changes and the active lanes for which that is valid.
        self._concerned: dict[tuple[int, int], tuple[int, np.ndarray | None, bool]] = {}
        self._touched: dict[tuple[int, int], frozenset[int]] = {}
        self._steps: dict[tuple[int, int], list[Step]] = {}

    @cached_property
    def at_entry(self) -> list[Register]:
        """Return the registers that may be read before they are written."""
        return undefined_at_entry(self.machine.program)

    def start(self) -> None:
        """Begin a batch: nothing is written yet."""
        self.changes += 1
        self.masks.clear()
        self.origin_of.clear()
        self.origins.clear()
        self.shuffles.clear()
        self.stored_origins.clear()
        self.latest = self.storing = self.local = self.shared = None
        self.watches = self.machine.launch.checks.unwritten and self.machine.launch.values
        if not self.watches:
            return
        local = self.machine.memory.spaces["local"]
        if self.machine.program.local_bytes:
            self.local = Space(
                "local", np.full(len(local.data), 0xFF, np.uint8), local.size, local.origin
            )
        full: dict[int, np.ndarray] = {}
        for number, register in enumerate(self.at_entry, -len(self.at_entry)):
            bits = register.type.bits
            if bits not in full:
                full[bits] = np.full(self.state.lanes, ALL[STORAGE[bits]])
            self.masks[register.slot] = full[bits]
            self.origin_of[register.slot] = number

    def _at_entry(self, origin: int) -> tuple[str, str]:
        """Return a description of the register that `origin` stands for, the last of `at_entry`
        being -1."""
        register = self.at_entry[origin]
        first = next(i for i in self.machine.program.code if register in sources(i))
        diag = self.machine.diag
        return f"{diag.variable_in(register, first)}, which nobody wrote, is read", diag.where(
            first
        )

    def _origin_at(self, text: str, i: Instruction) -> int:
        """Return the number of what was never written, and of the instruction that first read it."""
        origin = text, self.machine.diag.where(i)
        if origin not in self.origins:
            self.origins.append(origin)
        return self.origins.index(origin)

    # which instructions need their masks

    def concerns(self, first: int, end: int) -> bool:
        """Return whether the instructions from `first` up to `end` touch registers that are
        undefined in an active lane.
        """
        touched = self._touched.get((first, end))
        if touched is None:
            code = self.machine.program.code[first:end]
            touched = self._touched[first, end] = frozenset(
                r.slot for i in code for r in (*results(i), *sources(i))
            )
        active = self.state.active
        known = self._concerned.get((first, end))
        if known is not None and known[0] == self.changes and known[1] is active:
            return known[2]
        masks = {
            id(mask): mask for slot in touched & self.masks.keys() for mask in (self.masks[slot],)
        }
        concerned = any(
            np.count_nonzero(mask if active is None else mask[active]) for mask in masks.values()
        )
        self._concerned[first, end] = self.changes, active, concerned
        return concerned

    def steps(self, first: int, end: int, plain: Sequence[Step | None]) -> list[Step]:
        """Return the steps of a straight run with the masks of their registers; `plain`: the steps
        of the program.
        """
        if (first, end) not in self._steps:
            code = self.machine.program.code
            pairs = [
                (code[pc], step) for pc in range(first, end) if (step := plain[pc]) is not None
            ]
            self._steps[first, end] = [self._with_masks(i, step) for i, step in pairs]
        return self._steps[first, end]

    def _with_masks(self, i: Instruction, step: Step) -> Step:
        slots = frozenset(r.slot for r in (*results(i), *sources(i)))
        elementwise = i.opcode not in registry.EFFECTS or i.opcode in ("mov", "cvta")
        act = self._computed if elementwise else self._loaded if i.opcode in LOADS else self._used
        if i.opcode == "shfl":
            act = self._exchanged

        def tracked() -> None:
            if self.masks.keys().isdisjoint(slots):
                step()
                self.settle()
            else:
                act(i, step)

        return tracked

    # registers

    def _lanes(self, i: Instruction) -> np.ndarray:
        """Return the lanes that execute an instruction, its predicate taken into account."""
        lanes = self.state.living()
        if i.predicate is not None:
            chosen = self.state.registers[i.predicate.slot]
            lanes = lanes & (~chosen if i.negated else chosen)
        return lanes

    def _mask(self, register: Register) -> np.ndarray:
        """Return the undefined bits of a register, zero where it is defined."""
        mask = self.masks.get(register.slot)
        return np.zeros(self.state.lanes, STORAGE[register.type.bits]) if mask is None else mask

    def set_mask(self, slot: int, mask: np.ndarray, origin: int) -> None:
        """Set the undefined bits of a register from now on."""
        self.changes += 1
        if np.any(mask):
            self.masks[slot] = mask
            self.origin_of[slot] = origin
        else:
            self.masks.pop(slot, None)

    def _clear(self, registers: Sequence[Register], lanes: np.ndarray) -> None:
        """Mark registers as defined in some lanes. Those that shared a mask go on sharing it."""
        self.changes += 1
        cleared: dict[int, tuple[np.ndarray, bool]] = {}
        # The masks are held so that no other array gets the id of one.
        held = []
        for register in registers:
            mask = self.masks.get(register.slot)
            if mask is None:
                continue
            if id(mask) not in cleared:
                held.append(mask)
                left = np.where(lanes, mask.dtype.type(0), mask)
                cleared[id(mask)] = left, bool(np.any(left))
            left, some = cleared[id(mask)]
            if some:
                self.masks[register.slot] = left
            else:
                del self.masks[register.slot]

    def _origin(self, registers: Sequence[Register]) -> int:
        """Return where the first undefined one of these registers comes from."""
        return next(self.origin_of[r.slot] for r in registers if r.slot in self.masks)

    def _report(
        self, i: Instruction, registers: Sequence[Register], lanes: np.ndarray, reaches: str
    ) -> None:
        """Report a fault of those of the lanes in which one of the registers is undefined; then
        they count as defined."""
        undefined = [r for r in dict.fromkeys(registers) if r.slot in self.masks]
        bad = np.zeros(self.state.lanes, bool)
        seen = set()
        for register in undefined:
            mask = self.masks[register.slot]
            if id(mask) not in seen:
                seen.add(id(mask))
                bad |= mask != 0
        bad &= lanes
        if bad.any():
            first = next(r for r in undefined if np.any(self.masks[r.slot][bad]))
            self.fault(i, bad, reaches, self.origin_of[first.slot])
        self._clear(undefined, lanes)

    def fault(self, i: Instruction, bad: np.ndarray, reaches: str, origin: int) -> None:
        """Report that an undefined value matters for the lanes `bad`."""
        text, where = self._at_entry(origin) if origin < 0 else self.origins[origin]
        if where != self.machine.diag.where(i):
            text += f" at {where}"
        what = f"{text}: the undefined value {reaches}"
        if origin in self.shuffles.values():
            at = f"{self.machine.diag.where(i)}: "
            self.machine.diag.note(at + what, key=(i.pc, where))
            return
        self.machine.diag.report(
            Kind.UNWRITTEN, i, what, int(np.flatnonzero(bad)[0]), int(np.count_nonzero(bad))
        )

    # instructions

    def _computed(self, i: Instruction, step: Step) -> None:
        """Compute what an instruction that computes registers from registers makes of undefined
        bits."""
        read, written = sources(i), results(i)
        guard = self._mask(i.predicate) & self.state.living() if i.predicate is not None else None
        undefined = [r for r in read if r.slot in self.masks]
        origin = self._origin(undefined) if undefined else 0
        made = self._bits(i, step) if undefined else None
        lanes = self._lanes(i)
        whole = None
        if undefined and made is None:
            whole = np.zeros(self.state.lanes, bool)
            for register in undefined:
                whole |= self.masks[register.slot] != 0
        step()
        for register in dict.fromkeys(written):
            dtype = STORAGE[register.type.bits]
            new = (
                made
                if made is not None and made.dtype == dtype
                else np.zeros(self.state.lanes, dtype)
            )
            if whole is not None:
                new = np.where(whole, ALL[dtype], dtype.type(0))
            new = np.where(lanes, new, self._mask(register))
            if guard is not None and guard.any():
                new = np.where(guard, ALL[dtype], new)
            self.set_mask(
                register.slot, new, origin if undefined else self.origin_of.get(register.slot, 0)
            )

    def _bits(self, i: Instruction, step: Step) -> np.ndarray | None:
        """Return the undefined bits of what an instruction computes that moves bits or combines
        them one by one; None: of any other, all of them are undefined where a source is."""
        target = i.operands[0]
        if i.opcode == "selp":
            return self._selected(i)
        if isinstance(target, Register) and i.opcode in ("and", "or", "xor", "not"):
            return self._combined(i)
        if i.pc in self.whole or not _moves_bits(i) or not isinstance(target, Register):
            return None
        registers = self.state.registers
        slots = {r.slot: r for r in (*results(i), *sources(i)) if r is not i.predicate}
        saved = {slot: registers[slot] for slot in slots}
        for slot, register in slots.items():
            registers[slot] = self._mask(register)
        step()
        made = np.array(registers[target.slot])
        for slot, values in saved.items():
            registers[slot] = values
        dtype = STORAGE[target.type.bits]
        return made if made.dtype == dtype else made.view(dtype)

    def _combined(self, i: Instruction) -> np.ndarray:
        """Return the undefined bits of and, or, xor or not: a bit that the other operand decides is
        defined."""
        kind = TYPES[i.modifiers[-1]]
        known, masks = [], []
        for operand in i.operands[1:]:
            register = next(registers_of(operand), None)
            none = np.zeros(self.state.lanes, STORAGE[kind.bits])
            masks.append(none if register is None else self._mask(register))
            known.append(self.machine.operands.reader(operand, kind)())
        if len(masks) == 1 or i.opcode == "xor":
            return np.bitwise_or.reduce(masks)
        (a, b), (x, y) = known, masks
        if i.opcode == "or":
            a, b = ~a, ~b
        return (x & (y | b)) | (y & (x | a))

    def _selected(self, i: Instruction) -> np.ndarray | None:
        _, *choices, chooser = i.operands
        if chooser.slot in self.masks:
            return None
        bits = STORAGE[i.operands[0].type.bits]
        a, b = (
            self._mask(o) if isinstance(o, Register) else np.zeros(self.state.lanes, bits)
            for o in choices
        )
        return np.where(self.state.registers[chooser.slot], a, b)

    def _loaded(self, i: Instruction, step: Step) -> None:
        self._report_address(i)
        lanes = self._lanes(i)
        step()
        self._clear(results(i), lanes)
        self.settle()

    def _exchanged(self, i: Instruction, step: Step) -> None:
        """Execute a shuffle, of which only the value that it passes on may be undefined."""
        lanes = self._lanes(i)
        used = [r for o in i.operands[2:] for r in registers_of(o)]
        used += [i.predicate] if i.predicate is not None else []
        self._report(i, used, lanes, "decides a shuffle")
        step()
        self._clear(results(i), lanes)
        self.settle()

    def shuffled(self, i: Instruction, givers: np.ndarray, outside: np.ndarray, text: str) -> None:
        """Pass on the undefined bits of a shuffle: each lane takes the value of its giver, which is
        undefined where that lane takes no part; `text` says which one."""
        source = i.operands[1]
        slot = source.slot if isinstance(source, Register) else -1
        if not self.watches or not (slot in self.masks or outside.any()):
            return
        mask = self._mask(source)[givers] if slot >= 0 else np.zeros(len(givers), np.uint32)
        if not np.any(mask) and i.pc not in self.shuffles:
            self.shuffles[i.pc] = self._origin_at(text, i)
        origin = self.origin_of[slot] if np.any(mask) else self.shuffles[i.pc]
        mask = np.where(outside, ALL[mask.dtype], mask)
        lanes = self.state.acting_lanes()
        self.latest = UndefinedLoad(i, lanes, [mask[lanes]], origin)

    def _report_address(self, i: Instruction) -> None:
        """Require that the predicate and the address of an access are defined."""
        if i.predicate is not None:
            self._report(i, [i.predicate], self.state.living(), "decides a branch")
        used = [r for o in i.operands if isinstance(o, Address) for r in registers_of(o)]
        self._report(i, used, self._lanes(i), "is used as an address")

    def _used(self, i: Instruction, step: Step) -> None:
        """Execute an instruction whose operands must be defined, but for those that a store stores."""
        self._report_address(i)
        lanes = self._lanes(i)
        if i.opcode == "st" and any(r.slot in self.masks for r in sources(i)):
            self._store(i, step)
            return
        used = list(sources(i))
        if "mma_async" in i.modifiers:
            adds = i.operands[3]
            if isinstance(adds, Register):
                self._report(i, [adds], lanes, REACHES["wgmma"])
                adding = lanes & self.state.registers[adds.slot]
            else:
                adding = lanes & bool(adds.value)
            self._report(i, list(registers_of(i.operands[0])), adding, REACHES["wgmma"])
            used = [r for o in i.operands[1:3] for r in registers_of(o)]
        self._report(i, used, lanes, REACHES.get(i.opcode, f"is an operand of {i.opcode}"))
        step()
        self._clear(results(i), lanes)
        self.settle()

    def control(self, i: Instruction, control: Control) -> Control:
        """Return the control of an instruction that decides what comes next: what it depends on
        must be defined.
        """
        used, written = sources(i), results(i)

        def checked(active: np.ndarray) -> int | None:
            if self.masks and any(r.slot in self.masks for r in used):
                self._report(i, used, active, REACHES.get(i.opcode, "decides a branch"))
            following = control(active)
            if written:
                self._clear(written, active)
            return following

        return checked if used else control

    # memory

    def _store(self, i: Instruction, step: Step) -> None:
        """Execute a store of values that are undefined in part."""
        value = i.operands[1]
        items = value.items if isinstance(value, Vector) else (value,)
        size = next(TYPES[m] for m in reversed(i.modifiers) if m in TYPES).bytes
        masks = []
        for item in items:
            mask = (
                self._mask(item)
                if isinstance(item, Register)
                else np.zeros(self.state.lanes, f"u{size}")
            )
            masks.append(mask.astype(f"u{size}"))
        self.storing = masks
        self.storing_origin = self._origin([r for o in items for r in registers_of(o)])
        try:
            step()
        finally:
            self.storing = None

    def stored(self, access: Access, i: Instruction) -> None:
        """Check a store of undefined values: to global memory that is a fault, elsewhere it is
        remembered."""
        assert self.storing is not None
        lanes = access.lanes
        masks = self.storing if lanes is None else [mask[lanes] for mask in self.storing]
        if access.space.name == "global":
            bad = np.zeros(self.state.lanes, bool)
            undefined = np.logical_or.reduce([mask != 0 for mask in masks])
            bad[slice(None) if lanes is None else lanes] = undefined
            if bad.any():
                at = int(access.flat()[int(np.flatnonzero(undefined)[0])])
                location = f"{access.space.address_text(at)}, {access.space.describe(at)}"
                self.fault(i, bad, f"is stored to global memory ({location})", self.storing_origin)
            return
        size = masks[0].dtype.itemsize
        if access.space.name == "local":
            assert self.local is not None
            shadow = Access(self.local, access.where, access.offset)
        else:
            if self.shared is None:
                real = self.machine.memory.spaces["shared"]
                self.shared = Space(
                    "shared", np.zeros(len(real.data), np.uint8), real.size, real.origin
                )
            shadow = Access(self.shared, access.where, access.offset)
        for number, mask in enumerate(masks):
            shadow.store(size, mask, number)
        origins = self._origins_in(access.space)
        for number, mask in enumerate(masks):
            origins[(access.flat() + number * size)[mask != 0] >> 2] = self.storing_origin + (
                self.storing_origin >= 0
            )

    def _origins_in(self, space: Space) -> np.ndarray:
        name = "local" if space.name == "local" else "shared"
        if name not in self.stored_origins:
            self.stored_origins[name] = np.zeros((len(space.data) >> 2) + 1, np.int32)
        return self.stored_origins[name]

    def touch(self, access: Access, width: int, i: Instruction, kind: str) -> None:
        """Observe an access of local memory, or of shared memory where undefined values were
        stored."""
        space = self.local if access.space.name == "local" else self.shared
        if space is None:
            return
        shadow = Access(space, access.where, access.offset)
        size = min(width // elements(i) if i.opcode in LOADS else width, 8)
        masks = [shadow.load(size, number) for number in range(width // size)]
        if kind in ("st", "st_ordered", "cp_async") or EXCHANGE in i.modifiers:
            for number in range(width // size):
                shadow.store(size, np.zeros((), f"u{size}"), number)
        if kind in ("st", "st_ordered", "cp_async"):
            return
        if any(np.count_nonzero(mask) for mask in masks):
            memory = "local" if space is self.local else "shared"
            diag = self.machine.diag
            where = diag.in_local if space is self.local else diag.shared_address
            self.read(access, i, masks, memory, where)

    def overwritten(self, access: Access, width: int) -> None:
        """Note that a copy brings defined data to shared memory."""
        if self.shared is not None:
            for byte in range(width):
                self.shared.data[access.flat() + byte] = 0

    def passed(self, source: np.ndarray | None, target: np.ndarray) -> None:
        """A call passes bytes of local memory on, by their places in it; None: of registers, which
        are defined.
        """
        if self.local is not None:
            self.local.data[target] = 0 if source is None else self.local.data[source]
            if source is not None and (origins := self.stored_origins.get("local")) is not None:
                origins[target >> 2] = origins[source >> 2]

    def read(
        self,
        access: Access,
        i: Instruction,
        masks: list[np.ndarray],
        memory: str,
        location: Callable[[int], str],
    ) -> None:
        """An access finds memory undefined; `masks`: its bits, by element.

        Only a load's may do no harm.
        """
        element = next(n for n, mask in enumerate(masks) if np.count_nonzero(mask))
        first = int(np.flatnonzero(masks[element])[0])
        bits = int(masks[element][first])
        byte = element * masks[element].dtype.itemsize + ((bits & -bits).bit_length() - 1 >> 3)
        at = int(np.asarray(access.flat())[first]) + byte
        known = self.stored_origins.get(memory)
        number = int(known[at >> 2]) if known is not None else 0
        if number:
            origin = number - (number > 0)
        else:
            here = location(int(access.where.raw[first]) + access.offset + byte)
            origin = self._origin_at(f"read of {memory} memory that nobody wrote ({here})", i)
        if EXCHANGE in i.modifiers:
            # The other lanes find what the first lane has stored.
            firsts = np.unique(access.flat(), return_index=True)[1]
            masks = [
                np.where(np.isin(np.arange(len(m)), firsts), m, m.dtype.type(0)) for m in masks
            ]
        if gives_only(i):
            if self.latest is None:
                self.latest = UndefinedLoad(i, access.lanes, masks, origin)
            return
        bad = np.zeros(self.state.lanes, bool)
        bad[slice(None) if access.lanes is None else access.lanes] = np.logical_or.reduce(
            [m != 0 for m in masks]
        )
        self.fault(i, bad, f"is read by {i.opcode}", origin)

    def settle(self) -> int:
        """Mark the registers of a load undefined where it read undefined memory. Return the pc of
        the load, or -1 where there was none."""
        load, self.latest = self.latest, None
        if load is None:
            return -1
        target = load.instruction.operands[0]
        target = target.first if isinstance(target, Pair) else target
        signed = any(m in ("s8", "s16", "s32") for m in load.instruction.modifiers)
        for item, mask in zip(
            target.items if isinstance(target, Vector) else (target,), load.masks, strict=True
        ):
            if not isinstance(item, Register):
                continue
            dtype = STORAGE[item.type.bits]
            wide = (mask.view(f"i{mask.dtype.itemsize}") if signed else mask).astype(dtype)
            whole = np.array(self._mask(item))
            whole[slice(None) if load.lanes is None else load.lanes] = wide
            self.set_mask(item.slot, whole, load.origin)
        return load.instruction.pc


def gives_only(i: Instruction) -> bool:
    """Return whether an access gives what it reads to registers, so that it may be undefined."""
    return i.opcode in LOADS or EXCHANGE in i.modifiers


def elements(i: Instruction) -> int:
    """Return the number of elements that a load loads for each thread."""
    return len(i.operands[0].items) if isinstance(i.operands[0], Vector) else 1


def of_granules(
    bad: Sequence[np.ndarray], size: int, width: int, i: Instruction
) -> list[np.ndarray]:
    """Return the masks of a load's elements. `bad`: for each granule of `size` bytes, in which
    lanes nobody wrote it.
    """
    element = width // elements(i)
    unsigned = np.dtype(f"u{element}").type
    whole = 2 ** (8 * min(size, element)) - 1
    masks = []
    for start in range(0, width, element):
        parts = range(start // size, max(start // size + 1, (start + element) // size))
        shifts = [max(0, part * size - start) * 8 for part in parts]
        masks.append(
            sum(
                bad[part].astype(unsigned) * unsigned(whole << shift)
                for part, shift in zip(parts, shifts, strict=True)
            )
        )
    return masks


def _moves_bits(i: Instruction) -> bool:
    """Return whether each bit of the result is a bit of a source, or constant: which one, constants
    say.
    """
    if i.opcode == "mov":
        return True
    if i.opcode == "cvt":
        types = [TYPES[m] for m in i.modifiers if m in TYPES]
        return len(types) == 2 and all(t.kind in "sub" for t in types) and "sat" not in i.modifiers
    controls = {"shl": 2, "shr": 2, "shf": 3, "prmt": 3, "bfe": 2, "bfi": 3}
    return i.opcode in MOVES_BITS and all(
        isinstance(o, Immediate) for o in i.operands[controls[i.opcode] :]
    )
