"""Reads the machine code (SASS) of a cubin through `nvdisasm`: instructions, registers, control
flow, source lines.

    from ptxsim import sass
    function = sass.read(Path("kernel.cubin"), "entry")
    for block in function.blocks: ...

A cubin that ptxas made with line information (nvcc -lineinfo) names, for each machine instruction,
the line of the source and the line of the PTX that it came from, and holds the PTX itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import struct
import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from ..errors import PtxError
from .compiler import run, show_warnings, tool
from .demangle import demangle, matching

PTX = ".nv_debug_ptx_txt"  # the section with the PTX; nvdisasm gives its name as that of a file
# A cubin with this section counts 1024 bytes to each kernel's shared memory.
RESERVED, RESERVE = ".nv.shared.reserved.0", 1024

_SECTION = re.compile(r"\t\.section\t(\S+?),")
_LABEL = re.compile(r"^([.$\w]+):$")
_LINE = re.compile(r'\t//## File "(.*)", line (\d+)')
_INSTRUCTION = re.compile(
    r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;\s*$"
)
_TARGET = re.compile(r"`\(([^)]+)\)")
_BRANCH_TARGETS = re.compile(r'\(\*"BRANCH_TARGETS ([^"]+)"\*\)')
_REGISTER = re.compile(r"[-!~|]?\|?(R\d+|RZ)(\.reuse)?\b")


@dataclass(frozen=True)
class Instruction:
    """A machine instruction."""

    # The address counts bytes from the start of the section.
    address: int
    # The opcode has its modifiers, as in "LDS.128".
    opcode: str
    # Operands are as nvdisasm writes them, "R12.reuse" or "[R3+0x10]".
    operands: tuple[str, ...]
    # `predicate` is "P0", "!P0" or "!PT", and None where there is none.
    predicate: str | None
    file: str
    # Lines of the source and of the PTX are 0 where they are not known.
    line: int
    ptx_line: int
    # Targets are the labels that it names.
    targets: tuple[str, ...] = ()

    @cached_property
    def name(self) -> str:
        """Return the opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @cached_property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    @property
    def never(self) -> bool:
        """Return whether no thread executes it, though a warp issues it."""
        return self.predicate in ("!PT", "!UPT")

    @property
    def always(self) -> bool:
        """Return whether every thread that comes to it executes it."""
        return self.predicate in (None, "PT", "UPT")

    @property
    def bits(self) -> int:
        """Return the bits a thread that a load or store moves."""
        if self.name in ("LDSM", "STSM"):
            return 32 * next((int(m) for m in self.modifiers if m in ("2", "4")), 1)
        for modifier in self.modifiers:
            if modifier in ("64", "128"):
                return int(modifier)
            if modifier in ("U8", "S8", "U16", "S16"):
                return int(modifier[1:])
        return 32

    def sources(self) -> list[tuple[int | None, bool]]:
        """Return the source operands of an instruction with one destination, in order: number of
        the register, or None for what is no register (RZ, constants, uniform registers), and
        whether it is kept in the operand's reuse cache.
        """
        registers = []
        for operand in self.operands[1:]:
            match = _REGISTER.match(operand)
            number = int(match[1][1:]) if match and match[1] != "RZ" else None
            registers.append((number, bool(match and match[2])))
        return registers


@dataclass
class Block:
    """A basic block: entered at its first instruction, left after its last."""

    number: int
    instructions: list[Instruction]
    successors: list[int] = field(default_factory=list)
    # `leaves` is true where threads may end or return.
    leaves: bool = False
    # A call at its end goes to the block `calls` before the (only) successor is reached.
    calls: int | None = None


@dataclass
class Function:
    """A kernel's entry with the functions that lie in its section."""

    name: str
    instructions: list[Instruction]
    # Labels lead to indices of `instructions`.
    labels: dict[str, int]
    # Registers are those of a thread, and shared memory is the static part.
    registers: int = 0
    shared_bytes: int = 0
    # The PTX that the cubin holds has no comments; its lines keep their numbers.
    ptx: str | None = None

    @cached_property
    def blocks(self) -> list[Block]:
        return _blocks(self)

    def loops(self) -> list[list[Block]]:
        """Return the innermost loops: of each backward branch the blocks from its target to it,
        where no smaller one is inside.
        """
        edges = []
        for block in self.blocks:
            for target in block.successors:
                if target <= block.number and block.instructions[-1].name != "BSYNC":
                    edges.append((target, block.number))
        spans = sorted(set(edges))
        loops = [
            self.blocks[first : last + 1]
            for first, last in spans
            if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in spans)
        ]
        # The branch to itself that stands behind each kernel's end is no loop.
        return [loop for loop in loops if len(loop) > 1 or len(loop[0].instructions) > 1]


def read(cubin: Path, entry: str | None = None) -> Function:
    """Return the machine code of an entry: its name, or a part that only it has; None where the
    cubin has but one.

    Raises `PtxError` where there is no nvdisasm, the file is no cubin, or has no such entry.
    """
    functions = read_all(cubin)
    fitting = list(functions) if entry is None else matching(functions, entry)
    if not functions:
        raise PtxError(f"{cubin}: no kernel entry in this cubin")
    if len(fitting) != 1:
        what = "entries, name one" if entry is None else f"entries match {entry!r}; there"
        raise PtxError(f"{cubin}: {len(fitting)} {what}: {'; '.join(map(demangle, functions))}")
    function = functions[fitting[0]]
    if not function.instructions:
        raise PtxError(f"{cubin}: {function.name} has no instructions")
    return function


def read_all(cubin: Path) -> dict[str, Function]:
    """Return the machine code of every entry, by its mangled name. Raises `PtxError` as `read`
    does.
    """
    if not cubin.is_file():
        raise PtxError(f"{cubin}: no such file")
    changed, ptx = cubin.stat().st_mtime_ns, embedded_ptx(cubin)
    sections, entries = _disassembled(cubin, changed)
    resources = _resources(cubin, changed)
    if missing := [name for name in entries if name not in resources]:
        raise PtxError(f"{cubin}: cuobjdump reports no resources of {missing[0]}")
    return {
        name: Function(name, *sections[f".text.{name}"], *resources[name], ptx) for name in entries
    }


def code_at(cubin: Path, entry: str) -> int:
    """Return where in the file an entry's machine code begins, bytes; `Instruction.address` counts
    from there.

    Raises `PtxError` where the file is no cubin or has no such entry.
    """
    section = _elf_sections(cubin).get(f".text.{entry}")
    if section is None:
        raise PtxError(f"{cubin}: no entry {entry} in this cubin")
    return section[0]


def assemble(ptx: Path, cubin: Path, arch: str = "sm_90a") -> None:
    """Make a cubin with line information of a .ptx file.

    Raises `PtxError` with the first thing that ptxas says.
    """
    command = [tool("ptxas"), "-O3", "--generate-line-info", f"-arch={arch}", ptx, "-o", cubin]
    done = run(command, f"ptxas failed on {ptx.name}")
    show_warnings("ptxas", done.stderr + done.stdout)


def held_ptx(cubin: Path) -> str:
    """Return the PTX that a cubin was made from.

    Raises `PtxError` where it holds none, or is not there.
    """
    if not cubin.is_file():
        raise PtxError(f"{cubin}: no such file")
    held = embedded_ptx(cubin)
    if held is None:
        raise PtxError(
            f"{cubin}: holds no PTX; remedy: name it with --ptx, or compile with -lineinfo"
        )
    return held


def listing(cubin: Path) -> str:
    """Return nvdisasm's listing of a cubin, below a line that names it by its hash.

    nvdisasm takes a third of a second to start. What this returned is read again where it is kept
    next to the cubin, as NAME.sass, and the cubin is still the same. Raises `PtxError` as `read`
    does.
    """
    # This error says better than nvdisasm's what is wrong.
    _elf_sections(cubin)
    mark = f"// of the cubin {hashlib.sha256(cubin.read_bytes()).hexdigest()}\n"
    stored = cubin.with_suffix(".sass")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if (text := stored.read_text()).startswith(mark):
            return text
    return mark + run([tool("nvdisasm"), "-c", "-g", "-gp", cubin], f"{cubin}: nvdisasm").stdout


Sections = dict[str, tuple[list[Instruction], dict[str, int]]]


@lru_cache(maxsize=2)
def _disassembled(cubin: Path, changed: int) -> tuple[Sections, list[str]]:
    """Return the instructions and labels of each section of code of a cubin as it was last
    `changed`, and the names of the entries; cached, as answers about one kernel read it several
    times.
    """
    sections: Sections = {}
    entries: list[str] = []
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    file, line, ptx_line = "", 0, 0
    for text in listing(cubin).splitlines():
        if match := _INSTRUCTION.match(text):
            address, predicate, opcode, rest = match.groups()
            targets = tuple(_TARGET.findall(rest))
            if listed := _BRANCH_TARGETS.search(rest):
                targets, rest = tuple(listed[1].split(",")), rest[: listed.start()]
            operands = tuple(part.strip() for part in rest.split(", ")) if rest else ()
            instructions.append(
                Instruction(
                    int(address, 16), opcode, operands, predicate, file, line, ptx_line, targets
                )
            )
        elif match := _LINE.match(text):
            if match[1].startswith(PTX):
                ptx_line = int(match[2])
            else:
                file, line = match[1], int(match[2])
        elif match := _LABEL.match(text):
            labels[match[1]] = len(instructions)
        elif match := _SECTION.match(text):
            instructions, labels = [], {}
            file, line, ptx_line = "", 0, 0
            sections[match[1].strip('"')] = instructions, labels
        elif "STO_CUDA_ENTRY" in text:
            entries.append(text.split()[1].split(",")[0])
    return sections, [name for name in entries if f".text.{name}" in sections]


def _blocks(function: Function) -> list[Block]:
    code, labels = function.instructions, function.labels
    ends = {"BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "CALL", "BSYNC", "BREAK", "KILL", "BPT"}
    starts = {0, *(index for index in labels.values() if index < len(code))}
    starts |= {
        index + 1 for index, i in enumerate(code) if i.name in ends and index + 1 < len(code)
    }
    bounds = sorted(starts)
    number = {start: n for n, start in enumerate(bounds)}
    blocks = [
        Block(n, code[start:end])
        for n, (start, end) in enumerate(zip(bounds, [*bounds[1:], len(code)], strict=True))
    ]

    def at(label: str) -> int | None:
        index = labels.get(label)
        return number.get(index) if index is not None else None

    for block in blocks:
        last = block.instructions[-1]
        following = block.number + 1 if block.number + 1 < len(blocks) else None
        targets = [t for t in map(at, last.targets) if t is not None]
        if last.name == "BSYNC":
            # `_join` sets both.
            falls, targets = False, []
        elif last.name in ("BRA", "BRX", "JMP", "JMX"):
            # A branch may have a second condition, a predicate among its operands.
            falls = not last.always or any(
                re.match(r"!?U?P\d", operand) for operand in last.operands
            )
        elif last.name in ("EXIT", "RET", "KILL"):
            block.leaves, falls, targets = True, not last.always, []
        elif last.name == "CALL":
            block.calls, falls, targets = (targets[0] if targets else None), True, []
        else:
            falls, targets = True, []
        block.successors = list(
            dict.fromkeys([*([following] if falls and following is not None else []), *targets])
        )
    _join(blocks, at)
    return blocks


def _join(blocks: list[Block], at: Callable[[str], int | None]) -> None:
    """Let each block that ends with a BSYNC go on where a BSSY that reaches it, with its barrier,
    says.
    """
    # `joins` has a barrier's BSSYs, and where they join.
    joins: dict[str, list[tuple[Block, int]]] = defaultdict(list)
    # A register holds these barriers meanwhile: any BSSY of theirs may reach any BSYNC.
    held: set[str] = set()
    for block in blocks:
        for i in block.instructions:
            if i.name == "BSSY" and i.targets and (target := at(i.targets[0])) is not None:
                joins[i.operands[0]].append((block, target))
            elif i.name == "BMOV":
                held.update(i.operands)
    closing = [block for block in blocks if block.instructions[-1].name == "BSYNC"]
    for block in closing:
        barrier = block.instructions[-1].operands[0]
        block.successors = (
            list(dict.fromkeys(target for _, target in joins[barrier])) if barrier in held else []
        )
    grown = True
    # A way past a BSYNC is known once its own BSSY has reached it.
    while grown:
        grown = False
        for barrier in joins.keys() - held:
            for first, target in joins[barrier]:
                for block in _closed(blocks, first, barrier):
                    if target not in block.successors:
                        block.successors.append(target)
                        grown = True
    for block in closing:
        if not block.successors and block.number + 1 < len(blocks):
            block.successors = [block.number + 1]


def _closed(blocks: list[Block], first: Block, barrier: str) -> list[Block]:
    """Return blocks with a BSYNC of the barrier that are reached from `first`, which has its BSSY,
    before another BSSY.
    """
    reached, seen, waiting = [], {first.number}, [first]
    while waiting:
        block = waiting.pop()
        if block is not first and any(
            i.name == "BSSY" and i.operands[0] == barrier for i in block.instructions
        ):
            continue
        last = block.instructions[-1]
        if last.name == "BSYNC" and last.operands[0] == barrier:
            reached.append(block)
            continue
        waiting += [blocks[s] for s in block.successors if s not in seen]
        seen.update(block.successors)
    return reached


@lru_cache(maxsize=2)
def _resources(cubin: Path, changed: int) -> dict[str, tuple[int, int]]:
    """Return, for each function of a file as it was last `changed`, registers of a thread, and
    static shared memory without what the driver keeps of each block.
    """
    done = subprocess.run(
        [str(tool("cuobjdump")), "-res-usage", str(cubin)], capture_output=True, text=True
    )
    reserve = RESERVE if RESERVED in _elf_sections(cubin) else 0
    rows = re.findall(r"Function (\S+):\s+REG:(\d+) .*?SHARED:(\d+)", done.stdout)
    return {
        name: (int(registers), max(0, int(shared) - reserve)) for name, registers, shared in rows
    }


def _elf_sections(cubin: Path) -> dict[str, tuple[int, int]]:
    data = cubin.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        raise PtxError(f"{cubin}: not a cubin (an ELF file from ptxas or nvcc -cubin)")
    try:
        return elf_sections(data)
    except (struct.error, IndexError, ValueError):
        raise PtxError(
            f"{cubin}: truncated or damaged: its table of sections cannot be read"
        ) from None


def elf_sections(data: bytes) -> dict[str, tuple[int, int]]:
    """Offset and size of the sections of a 64-bit ELF file by name."""
    (start,) = struct.unpack_from("<Q", data, 40)
    entry_size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, start + n * entry_size) for n in range(count)]
    return {elf_text(data, headers[names][4] + h[0]): (h[4], h[5]) for h in headers}


def elf_text(data: bytes, at: int) -> str:
    """Return the text that begins at an offset of an ELF file."""
    return data[at : data.index(b"\0", at)].decode(errors="replace")


def embedded_ptx(cubin: Path) -> str | None:
    """Return the PTX that a cubin with line information was made from; None where it holds none.

    Comments are gone, lines keep their numbers.
    """
    sections = [
        section
        for name, section in _elf_sections(cubin).items()
        if name == PTX or name.startswith(f"{PTX}.")
    ]
    # nvlink numbers the sections of the parts that it links. With several, lines name no part.
    if len(sections) != 1:
        return None
    offset, size = sections[0]
    text = cubin.read_bytes()[offset : offset + size]
    return text.replace(b"\0", b"\n").decode(errors="replace")
