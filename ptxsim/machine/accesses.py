"""Accesses of memory: addresses are resolved, bounds and alignment checked, those who watch and
observers notified.
"""

from __future__ import annotations

import numpy as np

from ..errors import KernelFault, Kind
from ..ptx.program import Program
from ..ptx.reaching_definitions import UNKNOWN, Origins
from ..ptx.syntax import Instruction, plain_name
from .diagnostics import Diagnostics
from .events import NOBODY, Events
from .memory import BASES, GLOBAL_BASE, LOW, Access, Addresses, MixedAccess, Space
from .operands import ADDRESS, MemoryOperand
from .state import State
from .values import viewed

FAR = 1 << 60
WINDOWS = {0: "global", **{base >> 48: name for name, base in BASES.items()}}
VERBS = {
    "ld": "load",
    "ld_ordered": "load",
    "st": "store",
    "st_ordered": "store",
    "atom": "atomic",
    "cp_async": "cp.async store",
    "cp_async_ld": "cp.async load",
    "ldmatrix": "ldmatrix",
    "async_ld": "bulk load",
}


class Accesses:
    """The memory that the threads of a batch see."""

    # Each launch has its own parameters.
    param_space: Space
    # The program's part of a block's shared memory begins and ends here.
    own_shared: tuple[int, int]

    def __init__(
        self,
        program: Program,
        state: State,
        diagnostics: Diagnostics,
        events: Events,
        origins: dict[int, Origins],
        granule: int,
    ) -> None:
        """`granule`: bytes of the smallest access of the program to shared memory."""
        self.program, self.state, self.diag, self.events = program, state, diagnostics, events
        self.granule = granule
        self.within = {
            pc: part for pc, origin in origins.items() if (part := self._part(origin)) is not None
        }
        self.spaces: dict[str, Space] = {}
        self.resolved: dict[tuple[object, ...], Addresses] = {}
        self.givers: dict[tuple[int, int], tuple[np.ndarray | None, np.ndarray]] = {}

    def start(self, spaces: dict[str, Space], own_shared: tuple[int, int]) -> None:
        """A batch begins, with these spaces by name."""
        self.spaces, self.own_shared, self.resolved, self.givers = spaces, own_shared, {}, {}

    def release(self) -> None:
        """Let go of the memory of a launch."""
        self.spaces, self.resolved, self.givers = {}, {}, {}

    def _part(self, origins: Origins) -> tuple[int, int, str] | None:
        """Return the part of shared memory that an address stays in: the variables that it may come
        from.
        """
        shared = self.program.shared
        variables = [v for v in origins if v in shared]
        if UNKNOWN in origins or not variables:
            return None
        ends = [FAR if v.extern or not v.size else shared[v] + v.size for v in variables]
        names = " and ".join(sorted(plain_name(v.name) for v in variables))
        return min(shared[v] for v in variables), max(ends), names

    def addresses(self, space: Space, slot: int) -> Addresses:
        """Resolve the addresses in a base register; kept while neither the register nor the threads
        change.
        """
        base, active = self.state.registers[slot], self.state.active
        key = (space.name, slot)
        resolved = self.resolved.get(key)
        if resolved is None or resolved.base is not base or resolved.active is not active:
            resolved = self.resolved[key] = space.addresses(base, active)
        return resolved

    def access(
        self,
        operand: MemoryOperand,
        width: int,
        instruction: Instruction,
        kind: str,
        values: list[np.ndarray] | None = None,
        observed: bool = True,
    ) -> Access | MixedAccess:
        """Check and return an access of `width` bytes a thread. `values`: of a store, its elements
        for every lane. `observed`: whether the load/store unit takes part, so that observers see
        it.
        """
        space_name, slot, offset = operand
        if space_name == "generic":
            return self._generic(slot, offset, width, instruction, kind, values)
        space = self.spaces[space_name]
        access = Access(space, self.addresses(space, slot), offset)
        return self.checked(access, width, instruction, kind, values, observed)

    def checked(
        self,
        access: Access,
        width: int,
        instruction: Instruction,
        kind: str,
        values: list[np.ndarray] | None = None,
        observed: bool = True,
    ) -> Access:
        """Check bounds and alignment; pass the access to those who watch and the observers."""
        self.require_valid(access, width, width, instruction, kind)
        space, lanes = access.space, access.lanes
        if values is not None:
            access.values = values if lanes is None else [value[lanes] for value in values]
        events = self.events
        undefined = values is not None and events.defined.storing is not None
        if undefined and space.name == "global":
            events.defined.stored(access, instruction)
        if space.is_shared:
            if events.shared is not NOBODY:
                events.shared.touch(access, width, instruction, kind)
            if events.defined.shared is not None:
                events.defined.touch(access, width, instruction, kind)
        elif instruction.pc in events.watched and space.name == "global":
            events.global_memory.touch(access, width, instruction, kind)
        elif events.defined.local is not None and space.name == "local":
            events.defined.touch(access, width, instruction, kind)
        if undefined and space.name != "global":
            events.defined.stored(access, instruction)
        if observed and events.observers:
            events.memory(instruction, space.name, kind, width, access)
        return access

    def require_valid(
        self, access: Access, size: int, align: int, instruction: Instruction, kind: str
    ) -> None:
        """Require `size` bytes a thread to be aligned, within memory and within the variable that
        the address comes from.
        """
        space, where, offset = access.space, access.where, access.offset
        good = space.inside(where, offset, size)
        if good is not None or (
            align > 1 and (where.varying | (where.low_bits + offset)) & (align - 1)
        ):
            # A misaligned access may only end outside.
            self._require_aligned(access, align, instruction, kind)
        if good is not None:
            first = int(np.flatnonzero(~good)[0])
            at = int(where.raw[first]) + offset
            what = f"out-of-bounds {space.name} {VERBS[kind]} of {size} bytes at {space.address_text(at)}: "
            what += self._other_space(space, at) or space.describe(at) + space.beyond(at, size)
            raise self._fault(Kind.BOUNDS, access, ~good, first, instruction, what)
        if space.is_shared:
            part = self.within.get(instruction.pc)
            if part is not None and (
                where.lo + offset < part[0] or where.hi + offset + size > part[1]
            ):
                self._beyond(access, size, part, instruction, kind)

    def _other_space(self, space: Space, at: int) -> str:
        """Return whether an address outside of a space is one of another space, in words."""
        whole = at + GLOBAL_BASE if space.name == "global" else at
        window = WINDOWS.get(whole >> 48)
        if window in BASES and window != space.name:
            return f"a generic address of {window} memory"
        if space.name == "global":
            shared = self.spaces["shared"]
            inside = shared.first <= whole < shared.size
            return "an offset in shared memory, not a generic address" if inside else ""
        if window in BASES:
            return f"a generic address, where an offset in {space.name} memory must stand"
        remedy = ": __cvta_generic_to_shared gives its offset" if space.is_shared else ""
        for name, base in BASES.items():
            if 0 <= (at & LOW) - (base & LOW) < 1 << 27:
                return f"a generic address of {name} memory cut to 32 bits{remedy}"
        if self.spaces["global"].begins_inside((at & LOW) - (GLOBAL_BASE & LOW)):
            return "an address of global memory cut to 32 bits"
        return ""

    def _fault(
        self,
        kind: Kind,
        access: Access,
        bad: np.ndarray,
        first: int,
        instruction: Instruction,
        message: str,
    ) -> KernelFault:
        """Return a fault of some threads of an access (`bad` and the `first`, among these), without
        which it can be made.
        """
        lanes = np.arange(self.state.lanes) if access.lanes is None else np.asarray(access.lanes)
        fault = self.diag.fault(
            kind, instruction, message, int(lanes[first]), int(np.count_nonzero(bad))
        )
        fault.bad = self.state.mask_of(lanes[bad])
        return fault

    def _require_aligned(
        self, access: Access, align: int, instruction: Instruction, kind: str
    ) -> None:
        space, at = access.space, access.where.raw + access.offset
        wrong = at & (align - 1) != 0
        inside = [n for n in np.flatnonzero(wrong).tolist() if space.begins_inside(int(at[n]))]
        if inside:
            first = int(at[inside[0]])
            what = f"misaligned {align}-byte {VERBS[kind]} at {space.address_text(first)}"
            what += self.diag.in_shared(first) if space.is_shared else ""
            raise self._fault(Kind.ALIGNMENT, access, wrong, inside[0], instruction, what)

    def _beyond(
        self,
        access: Access,
        size: int,
        part: tuple[int, int, str],
        instruction: Instruction,
        kind: str,
    ) -> None:
        start, end, name = part
        starts = access.where.raw + access.offset
        wrong = (starts < start) | (starts + size > end)
        first = int(np.flatnonzero(wrong)[0])
        at = int(starts[first])
        owner = next(
            (
                plain_name(v.name)
                for v, a in self.program.shared.items()
                if a <= at < a + v.size and at >= end
            ),
            None,
        )
        far = f"{at - end} bytes past the end of"
        if at < start:
            far = f"{start - at} bytes before the start of"
        what = f"out-of-bounds shared {VERBS[kind]} of {size} bytes at {access.space.address_text(at)}: {far} {name}"
        raise self._fault(
            Kind.BOUNDS,
            access,
            wrong,
            first,
            instruction,
            what + (f", in {owner}" if owner else ""),
        )

    def _generic(
        self,
        slot: int,
        offset: int,
        width: int,
        instruction: Instruction,
        kind: str,
        values: list[np.ndarray] | None = None,
    ) -> Access | MixedAccess:
        """Return the access at a generic address: in which window it lies says which space is meant
        (PTX ISA 5.1).
        """
        base, active = viewed(self.state.registers[slot], ADDRESS), self.state.active
        lanes = self.state.acting_lanes()
        windows = (base[lanes] + ADDRESS.type(offset & (2**64 - 1))) >> ADDRESS.type(48)
        if int(windows.min()) == int(windows.max()):
            name = WINDOWS.get(int(windows[0]))
            if name is None:
                at = f"generic address 0x{(int(base[lanes[0]]) + offset) & (2**64 - 1):x}"
                what = f"out-of-bounds {VERBS[kind]} at {at}: in no space"
                fault = self.diag.fault(Kind.BOUNDS, instruction, what, int(lanes[0]), len(lanes))
                fault.bad = np.ones(self.state.lanes, bool)
                raise fault
            space = self.spaces["shared::cluster" if name == "shared" else name]
            key = (space.name, "generic", slot)
            resolved = self.resolved.get(key)
            if resolved is None or resolved.base is not base or resolved.active is not active:
                resolved = self.resolved[key] = self._windowed(space, base, active)
            return self.checked(Access(space, resolved, offset), width, instruction, kind, values)
        parts = []
        for window in np.unique(windows).tolist():
            indices = np.flatnonzero(windows == window)
            with self.state.acting(self.state.mask_of(lanes[indices])):
                part = self._generic(slot, offset, width, instruction, kind, values)
                # All lanes of one window access one space.
                assert isinstance(part, Access)
                parts.append((indices, part))
        return MixedAccess(parts, lanes)

    def _windowed(self, space: Space, base: np.ndarray, active: np.ndarray | None) -> Addresses:
        relative = (
            base
            if space.name == "global"
            else base - ADDRESS.type(BASES[space.name.split("::")[0]])
        )
        resolved = space.addresses(relative, active)
        resolved.base = base
        return resolved

    def row_givers(self, count: int, lanes: np.ndarray) -> np.ndarray:
        """Return the threads that give addresses to an ldmatrix of `count` matrices; the same array
        while threads are.
        """
        key = (count, id(self.state.active))
        if key not in self.givers:
            mask = np.tile(lanes, self.state.warps)
            self.givers[key] = (
                self.state.active,
                mask if self.state.active is None else mask & self.state.active,
            )
        return self.givers[key][1]
