"""Which instructions a launch must execute when only its addresses and its control flow are asked
for.

Counts of memory accesses and of executed instructions do not depend on the values that a kernel
computes, but for those that reach an address, a predicate, a branch or a barrier. `slice_of` finds
the others, by the registers that they write, whatever the flow of control: what is skipped can have
no effect on what is counted.

Where a loaded value matters (an index out of memory), so do the stores that may go where it came
from, and they are executed. A program with functions that are called is executed whole: their
parameters go through memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..instructions import registry
from ..machine.warpgroups import is_mma
from ..ptx.program import Program
from ..ptx.reaching_definitions import ANYTHING, UNKNOWN, Origins
from ..ptx.syntax import Address, Instruction, Register, Variable, is_store_async, registers_of

# These effects do no more than write their destinations.
PURE = {"mov", "cvta", "isspacep", "mma", "movmatrix"}
# These effects access memory. Without their values, their addresses still count. The number is that
# of the operand that is the address.
ACCESSES = {"ld": 1, "ldu": 1, "ldmatrix": 1, "st": 0, "stmatrix": 0}
STORES = ("st", "stmatrix")
WITHOUT_VALUES = {
    "cp",
    "prefetch",
    "prefetchu",
    "applypriority",
    "discard",
    "createpolicy",
    "fence",
    "membar",
    "tex",
}
# mbarrier is not among them: nothing but its own instructions changes an object.
CONTROLS_THAT_READ = {"call"}


@dataclass(frozen=True)
class Slice:
    """Places of instructions that are left out, and of accesses that are checked and counted
    without their values.
    """

    skipped: frozenset[int]
    blind: frozenset[int]


class Memory:
    """The buffers that hold values on which counts depend."""

    def __init__(self, origins: Mapping[int, Origins], same: Mapping[Variable, Variable]) -> None:
        """`origins`: of each instruction's addresses, by pc; `same`: of parameters with one buffer,
        the first.
        """
        self.origins, self.same = origins, same
        self.read: set[Variable | str | None] = set()

    def _homes(self, i: Instruction) -> set[Variable | str | None]:
        """Return the buffers that an instruction accesses; all of shared memory is one."""
        homes: set[Variable | str | None] = set()
        for variable in self.origins.get(i.pc, ANYTHING):
            in_shared = variable is not UNKNOWN and variable.space == "shared"
            homes.add(
                "shared"
                if in_shared
                else UNKNOWN
                if variable is UNKNOWN
                else self.same.get(variable, variable)
            )
        return homes

    def matters(self, i: Instruction) -> bool:
        """Return whether what an instruction stores may be what is loaded."""
        homes = self._homes(i)
        return bool(self.read) and (
            UNKNOWN in self.read or UNKNOWN in homes or not homes.isdisjoint(self.read)
        )

    def load(self, i: Instruction) -> bool:
        """Record that counts depend on what an instruction loads or copies.

        Returns whether that is new.
        """
        homes = self._homes(i)
        new = not homes <= self.read
        self.read |= homes
        return new


def slice_of(
    program: Program, origins: Mapping[int, Origins], same: Mapping[Variable, Variable]
) -> Slice:
    """Return what can be left out when only counts are asked for; `origins` and `same` as of
    `Memory`.
    """
    if len(program.functions) > 1 or program.allocates:
        return Slice(frozenset(), frozenset())
    wanted: set[Register] = set()
    executed: set[int] = set()
    memory = Memory(origins, same)
    changed = True
    while changed:
        changed = False
        for i in reversed(program.code):
            needs, matters = _needs(i, wanted, memory)
            if matters:
                executed.add(i.pc)
                changed |= reads_memory(i) and memory.load(i)
            # A copy brings data to where it matters.
            if i.opcode == "cp" and i.pc in origins and memory.matters(i):
                changed |= memory.load(i)
            changed |= not needs <= wanted
            wanted |= needs
    left = [i for i in program.code if i.pc not in executed]
    blind = frozenset(
        i.pc for i in left if (i.opcode in ACCESSES and not _is_parameter(i)) or is_mma(i)
    )
    return Slice(frozenset(i.pc for i in left) - blind, blind)


def _needs(i: Instruction, wanted: set[Register], memory: Memory) -> tuple[set[Register], bool]:
    """Return the registers that an instruction must find right, and whether its own result is
    needed.
    """
    guard = set() if i.predicate is None else {i.predicate}
    if is_mma(i) and wanted.isdisjoint(registers_of(i.operands[0])):
        # A may be values in registers
        descriptors = [o for o in i.operands[1:3] if isinstance(o, Register)]
        return guard.union(descriptors), False
    if is_store_async(i):
        # st.async signals an mbarrier, whatever it stores.
        to, values, bar = i.operands
        return guard | set(registers_of([to, bar, *([values] if memory.matters(i) else [])])), True
    if i.opcode in ACCESSES and not _is_parameter(i):
        if (
            memory.matters(i)
            if i.opcode in STORES
            else not wanted.isdisjoint(registers_of(i.operands[0]))
        ):
            return guard | set(registers_of(i.operands)), True
        return guard | set(registers_of(i.operands[ACCESSES[i.opcode]])), False
    pure = i.opcode in PURE or i.opcode == "ld" or registry.is_elementwise(i)
    if pure and not _touches_carry(i) and wanted.isdisjoint(registers_of(i.operands[0])):
        return set(), False
    return guard | set(registers_of(i.operands)), True


def reads_memory(i: Instruction) -> bool:
    """Return whether what an instruction does depends on what was stored; it is one that is
    executed.
    """
    if i.opcode in ACCESSES:
        return i.opcode not in STORES and not _is_parameter(i)
    if i.opcode == "wgmma" and not is_mma(i):
        return False
    if i.opcode in WITHOUT_VALUES:
        # What a copy moves matters only where something loads it.
        return False
    effect = i.opcode in registry.EFFECTS and i.opcode not in PURE and i.opcode != "red"
    return i.opcode in CONTROLS_THAT_READ or (
        effect and any(isinstance(o, Address) for o in i.operands)
    )


def _is_parameter(i: Instruction) -> bool:
    """Return whether it is a load of a parameter of the entry: the host's value."""
    return i.opcode == "ld" and any(m.split("::")[0] == "param" for m in i.modifiers)


def _touches_carry(i: Instruction) -> bool:
    return "cc" in i.modifiers or i.opcode in ("addc", "subc", "madc")
