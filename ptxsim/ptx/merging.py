"""Neighbouring shared accesses that ptxas merges into wider ones: predicted from the PTX, or read
from a cubin.

The PTX does not show it. Found by trying (CUDA 13.0, sm_80 and sm_90a;
`ptxsim/tests/test_merging.py` tries it again):
- Accesses of one basic block at constant distances from one address may merge. Loads merge where no
  store to shared memory, atomic, barrier, fence or cp.async stands between; stores, where no load
  of shared memory does either.
- A merged access lies in a window of 8 or 16 bytes that ptxas can tell to be aligned: from how the
  address is computed, or because a vector access at a constant distance from it needs to be.
- 32-bit loads: three or four of the words of a window of 16 bytes become one load of 128 bits; two
  that fill a window of 8 bytes one of 64 bits. Two 64-bit loads that fill a window become one of
  128 bits. Stores must fill the window.
- It carries the line of the first of them. What ptxas merges across the iterations of a loop that
  it unrolls, and what it merges over short branches that it turns into predicates, is not
  predicted; a cubin shows the first.

A cubin made with line information names for each of its accesses the line of the PTX, so that no
rule is needed where there is one: `from_cubin`. `compare` puts the two side by side.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import PtxError
from . import sass
from .definite_assignment import results
from .program import Program
from .reaching_definitions import access_bytes, element_bytes, named_spaces, variable_of
from .syntax import Address, Immediate, Instruction, Register, Symbol, Variable

# A root is what is not constant in an address: an expression over registers and symbols, or ().
Root = tuple[Any, ...]
# The offset from the root is in bytes.
RootOffset = tuple[Root, int]
Value = Callable[[object], RootOffset]

EMPTY_LOADS = 3
SASS_OPCODES = {"ld": "LDS", "st": "STS"}
LOCAL_OPCODES = {"ld": "LDL", "st": "STL"}
PARTING = ("bar", "barrier", "call", "membar", "fence", "nanosleep", "griddepcontrol", "mbarrier")


@dataclass(frozen=True)
class Unrolled:
    """An access that ptxas merges across the iterations of a loop that it unrolls.

    `step`: bytes a thread of one iteration. `tiers`: widths of accesses that do the work of several
    iterations, widest first, each with how many of them stand together, so that no fewer are
    executed. `alone`: whether there are accesses of one iteration too, for those that are left
    over.
    """

    step: int
    tiers: tuple[tuple[int, int], ...]
    alone: bool

    def split(self, iterations: int) -> Iterator[tuple[int, int | None]]:
        """Yield what a run of so many iterations executes: for each access the first of its
        iterations, and its width (None: that of one iteration).
        """
        done = 0
        for width, together in self.tiers:
            each = width // self.step
            for _ in range((iterations - done) // (each * together) * together):
                yield done, width
                done += each
        narrowest = self.tiers[-1][0]
        while done < iterations:
            yield done, None if self.alone else narrowest
            done += 1 if self.alone else narrowest // self.step


@dataclass(frozen=True)
class Cycle:
    """An access of a loop that ptxas unrolls, where it merges other words in each of the copies.

    `step`: bytes from an iteration's address to the next one's. `widths`: bytes a thread of the
    access in each copy; 0 where an access of another pc does its work. `alone`: whether an
    iteration that is left over has it.
    """

    step: int
    widths: tuple[int, ...]
    alone: bool

    @property
    def tiers(self) -> tuple[tuple[int, int], ...]:
        """Return the widths, widest first."""
        return tuple((width, 1) for width in sorted(set(self.widths) - {0}, reverse=True)) or (
            (0, 1),
        )

    def split(self, iterations: int) -> Iterator[tuple[int, int | None]]:
        """As `Unrolled.split`."""
        whole = iterations - iterations % len(self.widths)
        for done in range(iterations):
            width = self.widths[done % len(self.widths)]
            if done >= whole and self.alone:
                yield done, None
            elif done < whole and width:
                yield done, width


@dataclass
class Merges:
    """What ptxas makes of a program's shared accesses, by their pcs: of one that leads a merged
    one its bytes a thread, of one that is part of another the pc of that; `dropped` are those
    that the machine code lacks."""

    widths: dict[int, int] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    # These leaders merge across a loop's iterations, too.
    unrolled: dict[int, Unrolled | Cycle] = field(default_factory=dict)
    # Each cp.async, and each fence.proxy.async after some, has empty loads at every execution (see
    # `first_copies`). Those of fences are only known from a cubin.
    empty_loads: dict[int, float] = field(default_factory=dict)

    def is_gone(self, pc: int) -> bool:
        """Return whether another access does the work of this one, or none needs to."""
        return pc in self.parts or pc in self.dropped


# the rule


def first_copies(program: Program) -> set[int]:
    """Return the pcs of the first cp.async of each stretch of a block without a barrier.

    Before it ptxas puts three shared loads that no thread executes (`@!PT LDS RZ, [RZ]`, seen with
    CUDA 13.0); the hardware counts them among the executed shared loads.
    """
    pcs, stretch, seen = set(), 0, set()
    for instruction in program.code:
        if instruction.opcode in ("bar", "barrier"):
            stretch += 1
        copies = (
            instruction.opcode == "cp"
            and len(instruction.operands) > 2
            and "bulk" not in instruction.modifiers
        )
        if copies and (instruction.block, stretch) not in seen:
            seen.add((instruction.block, stretch))
            pcs.add(instruction.pc)
    return pcs


def _is_shared(instruction: Instruction, opcode: str) -> bool:
    return instruction.opcode == opcode and bool(
        {"shared", "shared::cta"} & set(instruction.modifiers)
    )


def _shared_accesses(program: Program) -> list[tuple[Instruction, str]]:
    """Return the loads and stores of shared memory, with their opcodes in machine code."""
    return [
        (i, name) for i in program.code for ptx, name in SASS_OPCODES.items() if _is_shared(i, ptx)
    ]


def _parts_loads(instruction: Instruction) -> bool:
    """Return whether loads before and after it stay apart."""
    if instruction.opcode in ("st", "red", "atom"):
        spaces = {m.split("::")[0] for m in instruction.modifiers}
        return not spaces & {"global", "local", "param"}
    if instruction.opcode == "cp":
        return "commit_group" not in instruction.modifiers
    return instruction.opcode in PARTING


def _parts_stores(instruction: Instruction) -> bool:
    """Return whether stores before and after it stay apart from other stores."""
    if instruction.opcode == "ld":
        return not {"global", "local", "param", "const"} & {
            m.split("::")[0] for m in instruction.modifiers
        }
    if instruction.opcode in ("st", "red"):
        return instruction.predicate is not None
    return instruction.opcode in ("cp", "ldmatrix", "atom", *PARTING)


def _may_merge(instruction: Instruction) -> bool:
    return instruction.predicate is None and not {"volatile", "acquire", "release", "mmio"} & set(
        instruction.modifiers
    )


# The rule, the cubin's reader and their comparison ask for it.
@lru_cache(maxsize=1)
def groups(program: Program) -> list[Group]:
    """Return accesses that may merge with each other where their addresses allow it."""
    loads: dict[tuple[object, ...], Group] = {}
    stores: dict[tuple[object, ...], Group] = {}
    stretch = store_stretch = 0
    last_root: object = None
    addresses = _addresses(program)
    for instruction in program.code:
        for opcode, by_key in (("ld", loads), ("st", stores)):
            if not _is_shared(instruction, opcode):
                continue
            root, offset = addresses.of(instruction)
            if opcode == "st" and root != last_root:
                store_stretch, last_root = store_stretch + 1, root
            element = element_bytes(instruction)
            if _may_merge(instruction) and element in (4, 8):
                now = stretch if opcode == "ld" else store_stretch
                key = (instruction.block, root, now, element)
                group = by_key.setdefault(key, Group(opcode, element, addresses.alignment(root)))
                group.accesses.append((offset, access_bytes(instruction), instruction.pc))
        stretch += _parts_loads(instruction)
        store_stretch += _parts_stores(instruction)
    return [group for group in (*loads.values(), *stores.values()) if len(group.accesses) > 1]


@dataclass
class Group:
    """Accesses at constant distances from one address, which is a multiple of `alignment`, within
    one stretch.
    """

    opcode: str
    element: int  # bytes
    alignment: int
    # An access has an offset, bytes a thread, and a pc.
    accesses: list[tuple[int, int, int]] = field(default_factory=list)

    def merged(self) -> Iterator[tuple[int, list[int]]]:
        """Yield bytes a thread and pcs, in the order of the program, of each merged access."""
        left = self.accesses
        for wide in (16, 8):
            if self.alignment % wide or wide == self.element:
                continue
            windows: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
            for access in left:
                offset, size, _ = access
                if size < wide and offset // wide == (offset + size - 1) // wide:
                    windows[offset // wide].append(access)
            for inside in windows.values():
                elements = {o + i for o, size, _ in inside for i in range(0, size, self.element)}
                enough = (
                    3 if self.opcode == "ld" and wide // self.element == 4 else wide // self.element
                )
                if len(inside) > 1 and len(elements) >= enough:
                    yield wide, sorted(pc for _, _, pc in inside)
                    left = [access for access in left if access not in inside]


def predicted(program: Program) -> Merges:
    """Return the merges that the rule predicts."""
    merges = Merges(empty_loads=dict.fromkeys(first_copies(program), float(EMPTY_LOADS)))
    for group in groups(program):
        for width, (leader, *others) in group.merged():
            merges.widths[leader] = width
            merges.parts.update(dict.fromkeys(others, leader))
    return merges


class Addresses:
    """What is known of addresses without running: which differ by a constant, and how they are
    aligned.

    An address is a root and an offset in bytes; the root stands for what is not constant. Registers
    that are written more than once (those of loops) have a root of their own in each block, until
    they are written there.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.definitions: dict[Register, list[Instruction]] = defaultdict(list)
        for i in program.code:
            for register in results(i):
                self.definitions[register].append(i)
        self._zeros = self._trailing_zeros()
        self._root_offsets: dict[int, RootOffset] = {}
        # Vector accesses need such an alignment of their root.
        self._needed: dict[object, int] = {}
        self._root_zeros: dict[object, int] = {}
        self._number()

    def of(self, access: Instruction) -> RootOffset:
        """Return the root and offset of a shared access."""
        return self._root_offsets[access.pc]

    def alignment(self, root: Root) -> int:
        """Return a power of two, up to 16, that the root is a multiple of."""
        return max(1 << min(4, self._zeros_of_root(root)), self._needed.get(root, 1))

    def step(self, access: Instruction) -> int:
        """Return the bytes from the address of an access to that of the next iteration of the loop
        that its block is; 0 where they are not known, or there is none.
        """
        added: dict[Register, int] = {}
        for register, definitions in self.definitions.items():
            for i in definitions:
                if i.block == access.block and i.opcode == "add" and i.operands[1] == register:
                    amount = i.operands[2]
                    added[register] = int(amount.value) if isinstance(amount, Immediate) else 0
        inside = {i.pc for i in self.program.code if i.block == access.block}
        return _growth(self.of(access)[0], added, inside) or 0

    def _zeros_of_root(self, root: Root) -> int:
        match root:
            case ():
                return MAX_ZEROS
            case ("symbol", name):
                return _zeros_of(self._symbol_offset(name))
            case ("register", register, _):
                return self._zeros.get(register, 0)
            case ("+", *terms):
                return min(map(self._zeros_of_root, terms))
            case ("*", term, factor):
                return min(MAX_ZEROS, self._zeros_of_root(term) + _zeros_of(factor))
        return self._root_zeros.get(root, 0)

    # trailing zeros of every value that a register may hold

    def _trailing_zeros(self) -> dict[Register, int]:
        zeros: dict[Register, int] = dict.fromkeys(self.definitions, MAX_ZEROS)
        changed = True
        while changed:
            changed = False
            for register, instructions in self.definitions.items():
                new = min(self._result_zeros(i, zeros) for i in instructions)
                if new < zeros[register]:
                    zeros[register], changed = new, True
        return zeros

    def _operand_zeros(self, operand: object, zeros: dict[Register, int]) -> int:
        match operand:
            case Register():
                return zeros.get(operand, 0)
            case Immediate() if isinstance(operand.value, int):
                return _zeros_of(operand.value)
            case Symbol():
                return _zeros_of(
                    self._symbol_offset(variable_of(self.program, operand)) + operand.offset
                )
        return 0

    def _symbol_offset(self, variable: Variable | None) -> int:
        """Return a number with as many trailing zeros as the address of a variable is known to
        have.
        """
        if variable is None:
            return 1
        return self.program.shared.get(variable, variable.align)

    def _result_zeros(self, i: Instruction, zeros: dict[Register, int]) -> int:
        known = [self._operand_zeros(o, zeros) for o in i.operands[1:]]
        match i.opcode:
            case "mov" | "cvt" | "cvta" | "add" | "sub" | "xor" | "or" | "min" | "max":
                return min(known) if all(_is_integer(m) for m in i.modifiers) else 0
            case "and":
                return max(known)
            case "selp":
                return min(known[:2])
            case "shl" if isinstance(i.operands[2], Immediate):
                return min(MAX_ZEROS, known[0] + int(i.operands[2].value))
            case "mul" if "hi" not in i.modifiers and _is_integer(i.modifiers[-1]):
                return min(MAX_ZEROS, known[0] + known[1])
            case "mad" if "hi" not in i.modifiers and _is_integer(i.modifiers[-1]):
                return min(MAX_ZEROS, known[0] + known[1], known[2])
            case "bfi" if isinstance(i.operands[3], Immediate):
                return min(known[0] + int(i.operands[3].value), known[1])
        return 0

    # roots and offsets

    def _number(self) -> None:
        block = -1
        # Registers are looked up first where the present block writes them, then where they are
        # written once.
        here: dict[Register, RootOffset] = {}
        once: dict[Register, RootOffset] = {}
        for i in self.program.code:
            if i.block != block:
                block, here = i.block, {}

            def value(
                operand: object, block: int = block, here: dict[Register, RootOffset] = here
            ) -> RootOffset:
                match operand:
                    case Register():
                        if operand in here:
                            return here[operand]
                        return once.get(operand) or ((("register", operand, block), 0))
                    case Immediate() if isinstance(operand.value, int):
                        return (), operand.value
                    case Symbol():
                        return ("symbol", variable_of(self.program, operand)), operand.offset
                return (("operand", operand), 0)

            for opcode in ("ld", "st"):
                if _is_shared(i, opcode):
                    self._record(i, value)
            written = results(i)
            for register in written:
                result = (
                    self._result(i, value) if len(written) == 1 else (("result", i.pc, register), 0)
                )
                here[register] = result
                if len(self.definitions[register]) == 1:
                    once[register] = result
                self._root_zeros.setdefault(result[0], self._result_zeros(i, self._zeros))

    def _record(self, i: Instruction, value: Value) -> None:
        address = next(o for o in i.operands if isinstance(o, Address))
        root, offset = value(address.base) if address.base is not None else ((), 0)
        self._root_offsets[i.pc] = root, offset + address.offset
        if i.predicate is None:
            size = access_bytes(i)
            if (offset + address.offset) % size == 0:
                self._needed[root] = max(self._needed.get(root, 1), size)

    def _result(self, i: Instruction, value: Value) -> RootOffset:
        """Return root and offset of what an instruction gives."""
        opaque: RootOffset = (("result", i.pc), 0)
        if i.predicate is not None or not all(_is_integer(m) for m in i.modifiers):
            return opaque
        x = [value(o) for o in i.operands[1:]]
        match i.opcode:
            case "mov" | "cvta" if len(x) == 1:
                return x[0]
            case "cvt" if int(i.modifiers[0][1:]) >= 32:
                return x[0]
            case "add":
                return _sum(x[0], x[1])
            case "sub" if x[1][0] == ():
                return x[0][0], x[0][1] - x[1][1]
            case "shl" if x[1][0] == ():
                return _product(x[0], 1 << x[1][1])
            case "mul" | "mad" if "hi" not in i.modifiers and () in (x[0][0], x[1][0]):
                factor, other = (x[1], x[0]) if x[1][0] == () else (x[0], x[1])
                product = _product(other, factor[1])
                return _sum(product, x[2]) if i.opcode == "mad" else product
            case "or" if x[1][0] == () and self._below(i.operands[1], x[1][1]):
                return _sum(x[0], x[1])
            case "and" | "or" | "xor" | "shr" | "shl" | "mul" | "mad" | "sub":
                return (i.name, *x), 0
        return opaque

    def _below(self, register: object, bits: int) -> bool:
        """Return whether all set bits lie where the register has zeros: then `or` adds."""
        return isinstance(register, Register) and 0 <= bits < 1 << self._zeros.get(register, 0)


@lru_cache(maxsize=1)
def _addresses(program: Program) -> Addresses:
    """Return those of a program, worked out once."""
    return Addresses(program)


def _growth(root: Root, added: dict[Register, int], inside: set[int]) -> int | None:
    """Return by how much an expression grows where registers do; None where that is not constant,
    as for what instructions at the pcs `inside` give.
    """
    match root:
        case ("register", register, _):
            return added.get(register, 0)
        case ("+", *terms):
            parts = [_growth(term, added, inside) for term in terms]
            return None if None in parts else sum(part for part in parts if part is not None)
        case ("*", term, factor):
            part = _growth(term, added, inside)
            return None if part is None else part * int(factor)
        case () | ("symbol", _):
            return 0
        case ("result", pc, *_):
            return None if pc in inside else 0
    return None if any(register in _registers(root) for register in added) else 0


def _registers(root: object) -> set[Register]:
    """Return the registers in an expression."""
    if isinstance(root, Register):
        return {root}
    return set().union(*map(_registers, root)) if isinstance(root, tuple) else set()


# More trailing zeros do not matter.
MAX_ZEROS = 32


def _zeros_of(value: int) -> int:
    return min(MAX_ZEROS, (value & -value).bit_length() - 1) if value else MAX_ZEROS


def _is_integer(modifier: str) -> bool:
    return (modifier[0] in "sub" and modifier[1:].isdigit()) or modifier in (
        "lo",
        "wide",
        "to",
        "shared",
        "global",
    )


def _sum(a: RootOffset, b: RootOffset) -> RootOffset:
    roots = [
        r
        for root, _ in (a, b)
        for r in (root[1:] if root and root[0] == "+" else (root,))
        if r != ()
    ]
    root = () if not roots else roots[0] if len(roots) == 1 else ("+", *sorted(roots, key=repr))
    return root, a[1] + b[1]


def _product(a: RootOffset, factor: int) -> RootOffset:
    root, offset = a
    return (("*", root, factor) if root != () and factor != 1 else root), offset * factor


# the cubin


@dataclass(frozen=True)
class _Machine:
    """Shared accesses of an entry's machine code by line of the PTX: bytes a thread of each copy
    that stands there.
    """

    # `widths` counts accesses of each width, by opcode (LDS or STS) and line.
    widths: dict[tuple[str, int], Counter[int]]
    # `together` counts the fewest of an opcode, line and width that stand in one basic block.
    together: dict[tuple[str, int, int], int]
    # `copies` counts cp.async and fences between proxies, by line.
    copies: Counter[int]
    # `empty` counts loads that no thread executes, by line.
    empty: Counter[int]
    # `strangers` counts accesses at lines where the PTX has none.
    strangers: int
    local: set[tuple[str, int]]


def _machine(program: Program, cubin: Path) -> _Machine:
    function = sass.read(cubin, program.name)
    require_same(program.code, function.ptx, cubin)
    widths: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    copies: Counter[int] = Counter()
    empty: Counter[int] = Counter()
    known = {(opcode, i.ptx_line) for i, opcode in _shared_accesses(program)}
    strangers, local = 0, set()
    together: dict[tuple[str, int, int], int] = {}
    for block in function.blocks:
        here: Counter[tuple[str, int, int]] = Counter()
        for i in block.instructions:
            if i.never and i.name == "LDS":
                empty[i.ptx_line] += 1
            elif i.name in ("LDGSTS", "FENCE"):
                copies[i.ptx_line] += 1
            elif i.name in LOCAL_OPCODES.values():
                local.add((i.name, i.ptx_line))
            elif i.name in SASS_OPCODES.values():
                widths[i.name, i.ptx_line][i.bits // 8] += 1
                here[i.name, i.ptx_line, i.bits // 8] += 1
                strangers += (i.name, i.ptx_line) not in known
        together |= {key: min(count, together.get(key, count)) for key, count in here.items()}
    return _Machine(dict(widths), together, copies, empty, strangers, local)


def require_same(code: Sequence[Instruction], ptx: str | None, cubin: object) -> None:
    """Raise `PtxError` where the PTX that a cubin holds, whose lines it names, is not that of the
    code.
    """
    if ptx is None:
        raise PtxError(
            f"{cubin}: names no lines of its PTX; remedy: compile with line information (nvcc -lineinfo)"
        )
    lines = ptx.split("\n")
    for i in code:
        if i.ptx_line > len(lines) or i.name not in lines[i.ptx_line - 1]:
            raise PtxError(
                f"{cubin}: made from other PTX, which has no {i.name} on line {i.ptx_line}"
            )


def from_cubin(program: Program, cubin: Path) -> Merges:
    """Return the merges in a cubin that ptxas made from this PTX with line information.

    ptxas may unroll a loop and merge accesses of several iterations (`Unrolled`). Where machine
    accesses of several widths begin at one access of the PTX and that is not why, the rule must do
    for that one. Raises `PtxError` where the cubin cannot be read, names no lines, or was made from
    other PTX.
    """
    machine = _machine(program, cubin)
    rule, merges, addresses = predicted(program), Merges(), _addresses(program)
    accesses = _shared_accesses(program)
    # Where one line of the PTX has several accesses, it may have some of another line, too.
    repeated = {
        i.block
        for i, opcode in accesses
        if sum(machine.widths.get((opcode, i.ptx_line), {}).values()) > 1
    }
    # By opcode and root, leaders have a pc, an offset and a width.
    leaders: dict[tuple[str, Root], list[tuple[int, int, int]]] = defaultdict(list)
    for i, opcode in accesses:
        root, offset = addresses.of(i)
        widths = machine.widths.get((opcode, i.ptx_line), Counter())
        if widths and (len(widths) > 1 or set(widths) != {access_bytes(i)}):
            leaders[opcode, root].append((i.pc, offset, max(widths)))
        elif not widths:
            near = [pc for pc, at, width in leaders[opcode, root] if abs(at - offset) < width]
            if near:
                merges.parts[i.pc] = near[-1]
            elif i.block not in repeated and not machine.strangers:
                merges.dropped.add(i.pc)
    cycles = _cycles(program, machine, rule, addresses)
    merges.parts = {pc: leader for pc, leader in merges.parts.items() if pc not in cycles}
    merges.dropped -= set(cycles)
    merges.widths |= {pc: width for pc, width in rule.widths.items() if pc in cycles}
    merges.unrolled |= cycles
    # Arrays that ptxas keeps in registers are not in local memory.
    for i in program.code:
        opcode = LOCAL_OPCODES.get(i.opcode, "")
        if "local" in named_spaces(i) and (opcode, i.ptx_line) not in machine.local:
            merges.dropped.add(i.pc)
    for (opcode, _), entries in leaders.items():
        for pc, _, _ in entries:
            if pc in cycles:
                continue
            _lead(program.code[pc], opcode, machine, rule, merges, addresses)
    for i in program.code:
        if i.opcode in ("cp", "fence") and machine.copies[i.ptx_line] and machine.empty[i.ptx_line]:
            merges.empty_loads[i.pc] = machine.empty[i.ptx_line] / machine.copies[i.ptx_line]
    return merges


# These numbers of copies of a loop's body are tried.
COPIES = (2, 4, 8, 16)


def _cycles(
    program: Program, machine: _Machine, rule: Merges, addresses: Addresses
) -> dict[int, Cycle]:
    """Return accesses of unrolled loops that merge otherwise in each copy of the loop's body, by
    their pcs.

    The rule is tried on the words of several iterations. It holds where it gives the widths that
    the cubin has.
    """
    cycles: dict[int, Cycle] = {}
    for group in groups(program):
        members = [program.code[pc] for _, _, pc in group.accesses]
        opcode = SASS_OPCODES[group.opcode]
        widths = sum(
            (machine.widths.get((opcode, i.ptx_line), Counter()) for i in members), Counter[int]()
        )
        step = addresses.step(members[0])
        if not step or _multiple(widths, _copy(group, 1, step, group.alignment)):
            continue
        for copies, alignment in itertools.product(COPIES, (16, 8)):
            tried = _copy(group, copies, step, alignment)
            if not _multiple(widths, tried):
                continue
            for i in members:
                each = tuple(tried.get((copy, i.pc), 0) for copy in range(copies))
                cycles[i.pc] = Cycle(step, each, i.pc not in rule.parts)
            break
    return cycles


def _copy(group: Group, copies: int, step: int, alignment: int) -> dict[tuple[int, int], int]:
    """Return, by copy and pc, bytes a thread of the accesses that the rule makes of so many
    iterations.
    """
    accesses = sorted(group.accesses, key=lambda access: access[2])
    copied = list(itertools.product(range(copies), accesses))
    moved = [(offset + copy * step, size, n) for n, (copy, (offset, size, _)) in enumerate(copied)]
    sizes = {n: size for _, size, n in moved}
    for width, (leader, *others) in Group(group.opcode, group.element, alignment, moved).merged():
        sizes[leader] = width
        for other in others:
            del sizes[other]
    return {(copied[n][0], copied[n][1][2]): size for n, size in sizes.items()}


def _multiple(widths: Counter[int], accesses: dict[tuple[int, int], int]) -> bool:
    """Return whether machine code with so many accesses of each width consists of these, once or
    several times.
    """
    counts = Counter(accesses.values())
    times = sum(widths.values()) // max(1, sum(counts.values()))
    return times > 0 and widths == Counter(
        {width: times * count for width, count in counts.items()}
    )


def _lead(
    i: Instruction,
    opcode: str,
    machine: _Machine,
    rule: Merges,
    merges: Merges,
    addresses: Addresses,
) -> None:
    """Enter how wide the machine accesses are that begin at an access of the PTX."""
    widths = machine.widths[opcode, i.ptx_line]
    code = addresses.program.code
    members = [i, *(code[pc] for pc, leader in merges.parts.items() if leader == i.pc)]
    step = len({addresses.of(m)[1] + byte for m in members for byte in range(access_bytes(m))})
    tiers = [
        (w, machine.together[opcode, i.ptx_line, w])
        for w in sorted(widths, reverse=True)
        if w >= 2 * step
    ]
    alone = [w for w in widths if w < 2 * step]
    if len(alone) > 1 or (alone and alone[0] < step):
        merges.parts = {part: leader for part, leader in merges.parts.items() if leader != i.pc}
        merges.parts |= {part: leader for part, leader in rule.parts.items() if leader == i.pc}
        if i.pc in rule.widths:
            merges.widths[i.pc] = rule.widths[i.pc]
        return
    width = alone[0] if alone else rule.widths.get(i.pc, access_bytes(i))
    if width != access_bytes(i):
        merges.widths[i.pc] = width
    if tiers:
        merges.unrolled[i.pc] = Unrolled(step, tuple(tiers), bool(alone))


@dataclass(frozen=True)
class Line:
    """Shared accesses of one line of the source: how many of each width (bits a thread) the rule
    predicts in the machine code, and how many are there."""

    file: str
    line: int
    opcode: str  # LDS or STS
    predicted: dict[int, int]
    actual: dict[int, int]

    @property
    def agree(self) -> bool:
        """Return whether the widths are the same; ptxas may unroll a loop, which multiplies the
        counts alike.
        """
        if set(self.predicted) != set(self.actual):
            return False
        copies = {self.actual[width] / count for width, count in self.predicted.items()}
        return len(copies) == 1 and copies.pop() >= 1


def compare(program: Program, cubin: Path) -> list[Line]:
    """Compare, by source line, what the rule predicts with what a cubin has."""
    merges = predicted(program)
    predicted_widths: dict[tuple[str, int, str], Counter[int]] = defaultdict(Counter)
    for i, opcode in _shared_accesses(program):
        if i.pc not in merges.parts:
            where = (i.location.file, i.location.line) if i.location else ("", 0)
            bits = 8 * merges.widths.get(i.pc, max(4, access_bytes(i)))
            predicted_widths[*where, opcode][bits] += 1
    actual: dict[tuple[str, int, str], Counter[int]] = defaultdict(Counter)
    for read in sass.read(cubin, program.name).instructions:
        if read.name in SASS_OPCODES.values() and not read.never:
            actual[read.file, read.line, read.name][max(32, read.bits)] += 1
    keys = sorted({*predicted_widths, *actual})
    return [
        Line(*key, dict(sorted(predicted_widths[key].items())), dict(sorted(actual[key].items())))
        for key in keys
    ]
