"""Pictures of bank conflicts: which lane's word each bank of shared memory serves in each wavefront of an access.

    from ptxsim import banks
    found = banks.accesses(kernel, grid=1, block=256, args=[...], line=57)   # data: one `Access` an instruction
    text = banks.draw(found)                                                # the picture, as SVG text

`accesses` launches the kernel; an `Access` holds the addresses of one warp's 32 lanes and how they are served, by the
rules of `wavefronts.py`, so that it has as many wavefronts as `Counters` counts for it. `draw` takes accesses of any
kernels and puts their pictures one below the other.
"""

from __future__ import annotations

import copy
import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..api import Argument, Constant, Kernel, dimensions
from ..errors import PtxsimError
from ..machine.launch import Checks, Limits
from ..machine.observer import MemoryEvent, Observer
from ..ptx.sources import choose_file, find_source, places
from ..ptx.syntax import (
    Address,
    Arguments,
    Immediate,
    Instruction,
    Label,
    Negated,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)
from . import wavefronts
from .counters import Counters, Stats
from .wavefronts import BANKS, WORD, Part, Word

Run = tuple[int, int, tuple[int, ...], int]  # first bank, how many, lanes, address of the first
VERBS = {"ld": "load", "st": "store", "atom": "atomic", "cp_async": "cp.async write"}


@dataclass(frozen=True, eq=False)
class Access:
    """One execution of one shared-memory instruction by one warp.

    Attributes:
        kernel: name of the entry.
        file, line: of the CUDA source, as `.loc` gives them; `file` is None without line information.
        text: that source line, stripped; empty where the source was not found.
        pc, ptx, ptx_line: place, text and line of the PTX instruction; of a merged load, of the one that leads it.
        merged: places of the other scalar loads that ptxas merges into it, in program order.
        kind: ld, st, atom, ldmatrix or cp_async.
        width: bytes a lane; of a merged load, all of them.
        block, warp: which warp, of which block (x, y, z).
        number, of: this is the `number`-th of `of` shared-memory accesses on its line, from 1.
        alike: the numbers of the others whose pictures differ from this one's in nothing, or by a shift of all banks.
        execution, executions: this is the `execution`-th of `executions` times that the warp does this, from 1.
        least, most: wavefronts of the cheapest and the costliest of these executions.
        addresses: [32] int64, bytes within the block's shared memory; undefined for lanes that are not active.
        active: [32] bool.
        parts: how it is served; see `wavefronts.serve`.
        wavefronts, ideal: how many it takes, and how many would do; see `wavefronts.py`.
    """

    kernel: str
    file: str | None
    line: int | None
    text: str
    pc: int
    ptx: str
    ptx_line: int
    merged: tuple[int, ...]
    kind: str
    width: int
    block: tuple[int, int, int]
    warp: int
    number: int
    of: int
    alike: tuple[int, ...]
    execution: int
    executions: int
    least: int
    most: int
    addresses: np.ndarray
    active: np.ndarray
    parts: tuple[Part, ...]
    wavefronts: int
    ideal: int

    def as_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, from which `from_dict` builds the access again."""
        plain = asdict(self)
        return plain | {"addresses": self.addresses.tolist(), "active": self.active.tolist()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Access:
        """Build an access from the dictionary that `as_dict` returned."""

        def part(kept: dict[str, Any]) -> Part:
            rows = tuple(tuple(Word(w["address"], tuple(w["lanes"])) for w in row) for row in kept["wavefronts"])
            return Part(tuple(kept["lanes"]), rows)

        made: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
        }
        made |= {"addresses": np.array(plain["addresses"], np.int64), "active": np.array(plain["active"], bool)}
        made["parts"] = tuple(map(part, plain["parts"]))
        return cls(**made)

    @property
    def ways(self) -> int:
        """The degree of the conflict as `Counters` has it: wavefronts for each that would do, rounded up."""
        return math.ceil(self.wavefronts / self.ideal)

    @property
    def summary(self) -> str:
        """In words: "store, 32-bit, 8-way conflict: 8 wavefronts where 1 would do"."""
        if self.kind == "ldmatrix":
            what = f"ldmatrix of {_some(len(self.parts), 'matrix', 'matrices')}"
        else:
            what = f"{VERBS[self.kind]}, {8 * self.width}-bit"
        waves = _some(self.wavefronts, "wavefront")
        alone = self.wavefronts == len(self.parts)  # no part meets a conflict
        if self.kind == "cp_async" and alone and self.wavefronts > self.ideal:
            return f"{what}, short rows: {waves} where {self.ideal} would do, one for each line of the source"
        if self.wavefronts > self.ideal:
            return f"{what}, {self.ways}-way conflict: {waves} where {self.ideal} would do"
        shares = {"ldmatrix": "one a matrix", "cp_async": "one a line of the source"}
        each = shares.get(self.kind) or {2: "one a half-warp", 4: "one a quarter-warp"}.get(len(self.parts))
        return f"{what}, no conflict: {waves}" + (f", {each}" if each and alone and self.wavefronts > 1 else "")

    @property
    def pattern(self) -> tuple[str, int, str]:
        """Equal for accesses whose pictures differ in nothing, or by a shift of all banks."""
        first = self.parts[0].wavefronts[0]
        origin = min(first, key=lambda word: (word.lanes, word.address)).bank
        rows = [
            [sorted(((word.bank - origin) % BANKS, word.lanes) for word in row) for row in part.wavefronts]
            for part in self.parts
        ]
        return (self.kind, self.width, repr(rows))


def _some(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


# recording


@dataclass(frozen=True)
class _Execution:
    addresses: np.ndarray  # [warps of the block, 32]
    active: np.ndarray
    source: np.ndarray | None
    reading: np.ndarray | None


class Recorder(Observer):
    """The observer that keeps the addresses of chosen instructions, of one block, at each execution."""

    def __init__(self, chosen: set[int], block: int) -> None:
        self.chosen, self.block = chosen, block
        self.kinds: dict[int, str] = {}
        self.executions: dict[int, list[_Execution]] = {}
        self._source: tuple[np.ndarray, np.ndarray] | None = None

    def memory(self, event: MemoryEvent) -> None:
        pc = event.instruction.pc
        if pc not in self.chosen:
            return
        if event.kind == "cp_async_ld":
            self._source = event.addresses()
            return
        if event.space != "shared":
            return
        source, self._source = self._source, None
        here = event.blocks() == self.block
        if not here.any():
            return
        addresses, active = event.addresses()
        self.kinds[pc] = event.kind.removesuffix("_ordered")
        reads = (source[0][here], source[1][here]) if source is not None else (None, None)
        self.executions.setdefault(pc, []).append(_Execution(addresses[here], active[here], *reads))

    def of_warp(self, pc: int, warp: int) -> list[_Execution]:
        """Executions in which that warp accessed memory."""
        return [
            _Execution(e.addresses[warp], e.active[warp], *(x if x is None else x[warp] for x in (e.source, e.reading)))
            for e in self.executions.get(pc, ())
            if e.active[warp].any()
        ]

    def warps(self, pc: int) -> list[int]:
        """The warps that ever accessed memory there."""
        seen = [e.active.any(axis=1) for e in self.executions.get(pc, ())]
        return np.flatnonzero(np.any(seen, axis=0)).tolist() if seen else []


def _count(execution: _Execution, width: int, kind: str) -> tuple[int, int]:
    """Wavefronts and ideal, by the functions that the counters use."""
    addresses, active = execution.addresses[None], execution.active[None]
    if kind == "ldmatrix":
        found = wavefronts.ldmatrix(addresses, active)
    elif kind == "cp_async":
        source, reading = execution.addresses, np.zeros(32, bool)
        if execution.source is not None and execution.reading is not None:
            source, reading = execution.source, execution.reading
        found = wavefronts.cp_async(addresses, active, width, source[None], reading[None])
    else:
        found = wavefronts.shared(addresses, active, width, store=kind == "st")
    return int(found[0][0]), int(found[1][0])


def accesses(
    kernel: Kernel,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Argument],
    line: int,
    file: str | Path | None = None,
    *,
    shared_bytes: int = 0,
    of_block: Sequence[int] = (0, 0, 0),
    warp: int | None = None,
    execution: int | None = None,
    source: Path | None = None,
    near: Sequence[Path] = (),
    checks: Checks | bool = False,
    limits: Limits | None = None,
    values: bool = True,
    constants: Mapping[str, Constant] | None = None,
    cluster: int | Sequence[int] | None = None,
) -> list[Access]:
    """Launch the kernel, and give each access to shared memory that stands at a line of its source, in program order.

    Loads that ptxas merges are one access, as in `Counters`. A line of another function that is inlined counts as its
    own; a line that only calls such functions has their accesses.

    Args:
        kernel, grid, block, args, shared_bytes, checks, limits, values, constants, cluster: as of `Kernel.launch`.
        line, file: the source line; `file` by its name or the end of its path, None for the kernel's own.
        of_block: x, y, z of the block to look at.
        warp: its number within the block; None: the first that does the access.
        execution: which of the warp's executions, from 1; None: the first of those that take the most wavefronts.
        source, near: where the source file is, or folders in which to look for it.

    Raises:
        PtxsimError: no such line, no access to shared memory there, none by that warp, or a fault of the kernel.
    """
    file = choose_file(kernel, file)
    grid, block = dimensions(grid), dimensions(block)
    place = tuple(int(i) for i in (*of_block, 0, 0)[:3])
    if any(not 0 <= i < n for i, n in zip(place, grid, strict=True)):
        raise PtxsimError(f"block {place} is not in the grid {grid}")
    warps = -(-math.prod(block) // 32)
    if warp is not None and not 0 <= warp < warps:
        raise PtxsimError(f"warp {warp} is not in a block of {warps} warps (0 to {warps - 1})")
    linear = place[0] + grid[0] * (place[1] + grid[1] * place[2])

    def launch(pcs: set[int]) -> tuple[Recorder, list[Stats]]:
        recorder, counters = Recorder(pcs, linear), Counters()
        again = copy.deepcopy(list(args)) if values else args
        seen = [counters, recorder]
        kernel.launch(grid, block, again, shared_bytes, seen, checks, limits, values, constants, cluster=cluster)
        return recorder, counters.by_instruction()

    here = _at_line(kernel, file, line)
    recorder, stats = launch({instruction.pc for instruction in here})
    by_pc = {s.instruction.pc: s for s in stats}
    leaders = list(dict.fromkeys(_leader(by_pc, i).pc for i in here if _touches_shared(by_pc, _leader(by_pc, i).pc)))
    if not leaders:
        raise PtxsimError(_no_access(kernel, file, line, stats, here, by_pc))
    if not set(leaders) <= recorder.chosen:  # a load that another line's load does the work of
        recorder, stats = launch(set(leaders))
        by_pc = {s.instruction.pc: s for s in stats}
    text = _source_text(file, line, source, near)
    found = []
    for number, pc in enumerate(leaders, start=1):
        merged = tuple(s.instruction.pc for s in stats if s.merged_into is not None and s.merged_into.pc == pc)
        made = _access(kernel, recorder, by_pc[pc], merged, place, warp, execution)
        if made is not None:
            made |= {"file": file, "line": line, "text": text, "number": number, "of": len(leaders), "alike": ()}
            found.append(Access(kernel=kernel.name, **made))
    if not found:
        doing = sorted({w for pc in leaders for w in recorder.warps(pc)})
        who = f"warp {warp}" if warp is not None else "no warp"
        raise PtxsimError(
            f"{PurePath(file).name}:{line}: {who} of block {place} accesses shared memory there"
            + (f" {execution} times" if execution is not None else "")
            + f"; warps that do: {ranges(doing) or 'none'}"
        )
    groups: dict[tuple[str, int, str], list[int]] = {}
    for access in found:
        groups.setdefault(access.pattern, []).append(access.number)
    return [replace(a, alike=tuple(n for n in groups[a.pattern] if n != a.number)) for a in found]


def _at_line(kernel: Kernel, file: str, line: int) -> list[Instruction]:
    """The instructions of a line, and those of functions that are inlined there."""
    known = places(kernel.program)
    return [i for i in kernel.program.code if any((p.file, p.line) == (file, line) for p in known.get(i.pc, ()))]


def _leader(by_pc: dict[int, Stats], instruction: Instruction) -> Instruction:
    stats = by_pc.get(instruction.pc)
    return stats.merged_into if stats is not None and stats.merged_into is not None else instruction


def _touches_shared(by_pc: dict[int, Stats], pc: int) -> bool:
    return pc in by_pc and by_pc[pc].wavefronts > 0


def _no_access(
    kernel: Kernel, file: str, line: int, stats: list[Stats], here: list[Instruction], by_pc: dict[int, Stats]
) -> str:
    """Why there is nothing to draw, and where there is."""
    touching = {s.merged_into or s.instruction for s in stats if s.wavefronts or s.merged_into}
    known = places(kernel.program)
    lines = {place.line for i in touching for place in known.get(i.pc, ()) if place.file == file}
    executed = [i for i in here if i.pc in by_pc and by_pc[i.pc].sectors]
    why = "accesses only global memory, which has no banks" if executed else "no access to shared memory"
    where = f"lines that have one: {ranges(sorted(lines))}" if lines else f"{kernel.title} has none in this file"
    return f"{PurePath(file).name}:{line}: {why}; {where}"


def _access(
    kernel: Kernel,
    recorder: Recorder,
    stats: Stats,
    merged: tuple[int, ...],
    place: tuple[int, ...],
    warp: int | None,
    wanted: int | None,
) -> dict[str, Any] | None:
    """Fields of an `Access`; None where the warp does not do it so many times."""
    pc = stats.instruction.pc
    warps = recorder.warps(pc)
    if not warps or (warp is not None and warp not in warps):
        return None
    warp = warps[0] if warp is None else warp
    executions = recorder.of_warp(pc, warp)
    kind = recorder.kinds[pc]
    width = stats.width
    counts = [_count(e, width, kind) for e in executions]
    if wanted is not None and not 1 <= wanted <= len(executions):
        return None
    waves = [w for w, _ in counts]
    index = wanted - 1 if wanted is not None else waves.index(max(waves))
    chosen = executions[index]
    parts = wavefronts.serve(chosen.addresses, chosen.active, width, kind, chosen.source, chosen.reading)
    return {
        "pc": pc,
        "ptx": ptx_text(stats.instruction),
        "ptx_line": stats.instruction.ptx_line,
        "merged": merged,
        "kind": kind,
        "width": width,
        "block": place,
        "warp": warp,
        "execution": index + 1,
        "executions": len(executions),
        "least": min(waves),
        "most": max(waves),
        "addresses": chosen.addresses,
        "active": chosen.active,
        "parts": tuple(parts),
        "wavefronts": counts[index][0],
        "ideal": counts[index][1],
    }


def _source_text(file: str, line: int, source: Path | None, near: Sequence[Path]) -> str:
    path = source or find_source(file, near)
    try:
        lines = path.read_text(errors="replace").splitlines() if path else []
    except OSError as error:
        raise PtxsimError(f"{path}: {error.strerror}") from None
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


# words


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers in short: "0–3, 8, 16–19"."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    parts = [str(r[0]) if len(r) == 1 else f"{r[0]}, {r[1]}" if len(r) == 2 else f"{r[0]}–{r[-1]}" for r in runs]
    return ", ".join(parts)


def ptx_text(instruction: Instruction) -> str:
    """The instruction as PTX writes it."""
    guard = ""
    if instruction.predicate is not None:
        guard = f"@{'!' if instruction.negated else ''}{instruction.predicate.name} "
    operands = ", ".join(_operand(o) for o in instruction.operands)
    return f"{guard}{instruction.name} {operands};".replace(" ;", ";")


def _operand(operand: object) -> str:
    match operand:
        case None:
            return "_"
        case Register() | Special() | Label():
            return operand.name
        case Symbol():
            return f"{operand.name}+{operand.offset}" if operand.offset else operand.name
        case Negated():
            return f"!{_operand(operand.register)}"
        case Immediate():
            return (
                f"0{'f' if operand.width == 32 else 'd'}{operand.bits:0{operand.width // 4}X}"
                if operand.width
                else str(operand.value)
            )
        case Vector():
            return "{" + ", ".join(_operand(item) for item in operand.items) + "}"
        case Arguments():
            return "(" + ", ".join(_operand(item) for item in operand.items) + ")"
        case Pair():
            return f"{_operand(operand.first)}|{_operand(operand.second)}"
        case Address():
            base = _operand(operand.base) if operand.base is not None else ""
            offset = f"+{operand.offset}" if operand.offset or not base else ""
            return f"[{base}{offset}]".replace("[+", "[")
    return str(operand)


# drawing; lengths in points, type of 7 points or more: it is printed at this size


WIDTH = 468.0  # 6.5 inches
LEFT = 58.0
CELL = (WIDTH - LEFT - 2) / BANKS
INK, GREY, GRID = "#1a1a1a", "#4d4d4d", "#c8c8c8"
ONE, FIRST, MORE, SHARED = "#cfe3f5", "#fbd9b5", "#ee9a4d", "#00664b"  # distinct to colour-blind readers, and in grey
WARNING = "#9c3d00"
SANS, MONO = "DejaVu Sans, Verdana, Arial, sans-serif", "DejaVu Sans Mono, Menlo, Consolas, monospace"


def distinct(found: Sequence[Access]) -> list[Access]:
    """The first of each group of accesses of one line that are alike."""
    return [access for access in found if not access.alike or access.number < min(access.alike)]


def draw(found: Sequence[Access], headings: Sequence[str] | None = None, title: str | None = None) -> str:
    """SVG text: a picture of each access, one below the other.

    `headings` stand above each; `title` is not drawn, but what a screen reader and a tooltip say. Widths are made for
    DejaVu Sans; where that is not installed, similar fonts take its place.
    """
    if not found:
        raise PtxsimError("no access to draw")
    return _Picture(title, found, headings or [""] * len(found)).text()


class _Picture:
    def __init__(self, title: str | None, found: Sequence[Access], headings: Sequence[str]) -> None:
        self.root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "font-family": SANS})
        names = ET.SubElement(self.root, "title")
        names.text = title or "Banks of shared memory: " + "; ".join(dict.fromkeys(_place(a) for a in found))
        ET.SubElement(self.root, "desc").text = " ".join(
            f"{heading + ': ' if heading else ''}{_place(a)}: {a.summary}."
            for a, heading in zip(found, headings, strict=True)
        )
        self.background = ET.SubElement(self.root, "rect", {"width": _n(WIDTH), "fill": "#ffffff"})
        self.y = 4.0
        self.used: set[str] = set()
        for index, (access, heading) in enumerate(zip(found, headings, strict=True)):
            if index:
                self.y += 10
            self.panel(access, heading)
        self.legend()
        height = self.y + 3
        self.background.set("height", _n(height))
        self.root.set("width", f"{_n(WIDTH)}pt")
        self.root.set("height", f"{_n(height)}pt")
        self.root.set("viewBox", f"0 0 {_n(WIDTH)} {_n(height)}")

    def text(self) -> str:
        ET.indent(self.root, " ")
        return ET.tostring(self.root, encoding="unicode") + "\n"

    # pieces

    def put(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        fill: str = INK,
        anchor: str = "start",
        parent: ET.Element | None = None,
        **more: object,
    ) -> None:
        given = {"x": _n(x), "y": _n(y), "font-size": _n(size), "fill": fill}
        if anchor != "start":
            given["text-anchor"] = anchor
        given |= {key.replace("_", "-"): str(value) for key, value in more.items()}
        made = ET.SubElement(self.root if parent is None else parent, "text", given)
        made.text = text

    def line(self, text: str, size: float, fill: str = INK, mono: bool = False, weight: str = "") -> None:
        """A line of text, cut where it would leave the picture."""
        self.y += size * 1.25
        more: dict[str, Any] = {"font_family": MONO} if mono else {}
        more |= {"font_weight": weight} if weight else {}
        per_character = 0.603 if mono else 0.64 if weight else 0.54
        self.put(0.5, self.y, _cut(text, int((WIDTH - 1) / (per_character * size))), size, fill, **more)
        self.y += size * 0.15

    def panel(self, access: Access, heading: str) -> None:
        if heading:
            self.line(heading, 9, weight="bold")
        conflict = access.wavefronts > access.ideal
        self.line(access.summary, 8.5, fill=WARNING if conflict else INK, weight="bold")
        if access.text:
            self.line(access.text, 7.5, mono=True)
        for words in _about(access):
            self.line(words, 7, fill=GREY)
        self.grid(access)

    def grid(self, access: Access) -> None:
        self.y += 10
        self.put(LEFT, self.y - 1, "bank, and below it the lanes that it serves", 7, GREY)
        self.y += 9
        self.put(LEFT - 4, self.y - 1.5, "wavefront", 7, GREY, "end")
        for bank in range(BANKS):
            self.put(LEFT + (bank + 0.5) * CELL, self.y - 1.5, str(bank), 7, GREY, "middle")
        self.y += 1
        blocks = [[_blocks(row, access.width) for row in part.wavefronts] for part in access.parts]
        two_lines = any(len(b[2]) > 1 and _one_line(b) is None for part in blocks for row in part for b in row)
        height = 19.5 if two_lines else 13.0
        number = 0
        for index, (part, rows) in enumerate(zip(access.parts, blocks, strict=True)):
            top = self.y
            crowded = {bank for row in part.wavefronts[1:] for bank in (word.bank for word in row)}
            for turn, row in enumerate(rows):
                number += 1
                self.row(row, turn, crowded, height)
                heavy: dict[str, Any] = {"font_weight": "bold"} if turn else {}
                self.put(LEFT - 4, self.y + height / 2 + 2.5, str(number), 7, WARNING if turn else INK, "end", **heavy)
                self.y += height
            if len(access.parts) > 1:
                self.put(0.5, top + height / 2 + 2.5, _part_name(access, index), 7, INK)
                if index:
                    self.stroke(0, top, WIDTH - 2, top, INK, 0.9)

    def stroke(self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> None:
        places = {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "stroke-width": width}
        ET.SubElement(self.root, "line", {k: _n(v) for k, v in places.items()} | {"stroke": colour})

    def row(self, blocks: list[Run], turn: int, crowded: set[int], height: float) -> None:
        right = LEFT + BANKS * CELL
        frame = "".join(f"M{_n(LEFT + i * CELL)} {_n(self.y)}v{_n(height)}" for i in range(BANKS + 1))
        frame += f"M{_n(LEFT)} {_n(self.y)}H{_n(right)}M{_n(LEFT)} {_n(self.y + height)}H{_n(right)}"
        ET.SubElement(self.root, "path", {"d": frame, "stroke": GRID, "stroke-width": "0.5", "fill": "none"})
        for block in blocks:
            bank, count, lanes, address = block
            fill = MORE if turn else FIRST if bank in crowded else ONE
            self.used.add(fill)
            group = ET.SubElement(self.root, "g")
            who = f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {ranges(lanes)}"
            where = f"bank {bank}" if count == 1 else f"banks {bank}–{bank + count - 1}"
            ET.SubElement(group, "title").text = f"{who}: {where}, address {address}"
            box = {
                "x": LEFT + bank * CELL + (0.65 if len(lanes) > 1 else 0),
                "y": self.y + (0.65 if len(lanes) > 1 else 0),
                "width": count * CELL - (1.3 if len(lanes) > 1 else 0),
                "height": height - (1.3 if len(lanes) > 1 else 0),
                "stroke-width": 0.4,
            }
            shape = ET.SubElement(group, "rect", {k: _n(v) for k, v in box.items()} | {"fill": fill, "stroke": GREY})
            if len(lanes) > 1:
                self.used.add(SHARED)
                shape.set("stroke", SHARED)
                shape.set("stroke-width", "1.3")
            self.label(group, block, height)

    def label(self, group: ET.Element, block: Run, height: float) -> None:
        bank, count, lanes, _ = block
        x, y = LEFT + (bank + count / 2) * CELL, self.y + height / 2
        weight: dict[str, Any] = {"font_weight": "bold"} if len(lanes) > 1 else {}
        one = _one_line(block)
        if one is not None:
            text, size = one
            self.put(x, y + size * 0.36, text, size, INK, "middle", group, **weight)
            return
        whole = lanes[-1] - lanes[0] == len(lanes) - 1
        first, second = str(lanes[0]), str(lanes[1])
        if len(lanes) == 2:
            first += ","
        elif whole:
            first, second = f"{lanes[0]}-", str(lanes[-1])  # a hyphen: a dash leaves the cell
        else:
            second = f"+{len(lanes) - 1}"
        self.put(x, y - 1, first, 7, INK, "middle", group)
        self.put(x, y + 6.5, second, 7, INK, "middle", group)

    def legend(self) -> None:
        texts = {
            ONE: "lane that is served",
            FIRST: "first of a bank's several words",
            MORE: "each further one: a wavefront more",
            SHARED: "one word for several lanes",
        }
        self.y += 6
        x, size = 0.5, 7
        for colour, text in texts.items():
            if colour not in self.used:
                continue
            width = 13 + _width(text, size) + 12
            if x + width > WIDTH:
                x, self.y = 0.5, self.y + 11
            box = {
                "x": _n(x + 0.7),
                "y": _n(self.y + 0.7),
                "width": "8",
                "height": "8",
                "stroke": GREY,
                "stroke-width": "0.4",
            }
            if colour == SHARED:
                box |= {"fill": "#ffffff", "stroke": SHARED, "stroke-width": "1.3"}
            else:
                box["fill"] = colour
            ET.SubElement(self.root, "rect", box)
            self.put(x + 13, self.y + 7.3, text, size, INK)
            x += width
        self.y += 10


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _width(text: str, size: float) -> float:
    """Width of text in DejaVu Sans, about."""
    narrow = {
        ",": 0.32,
        " ": 0.32,
        "–": 0.5,
        "+": 0.84,
        "i": 0.28,
        "l": 0.28,
        "t": 0.4,
        "f": 0.36,
        ".": 0.32,
        ":": 0.34,
    }
    return size * sum(narrow.get(c, 0.64 if c.isdigit() else 0.6) for c in text)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _one_line(block: Run) -> tuple[str, float] | None:
    """Its lanes in one line and the size of the type; None where they do not fit its width."""
    _, count, lanes, _ = block
    room = count * CELL - 2
    text = ranges(lanes)
    for size in (7.5, 7):
        for form in (text, text.replace(", ", ",")):
            if _width(form, size) * (1.1 if len(lanes) > 1 else 1) <= room:
                return form, size
    return None


def _blocks(row: Sequence[wavefronts.Word], width: int) -> list[Run]:
    """A wavefront's words as (first bank, banks, lanes, address): words of one access side by side are one block."""
    made: list[tuple[int, int, tuple[int, ...], int]] = []
    for word in row:
        if made:
            bank, count, lanes, address = made[-1]
            if lanes == word.lanes and word.address == address + count * WORD and count < width // WORD:
                made[-1] = (bank, count + 1, lanes, address)
                continue
        made.append((word.bank, 1, word.lanes, word.address))
    return made


def _part_name(access: Access, index: int) -> str:
    if access.kind == "ldmatrix":
        return f"matrix {index}"
    if access.kind == "cp_async":
        return f"from line {index + 1}"
    size = 32 * WORD // access.width  # lanes of a half- or quarter-warp
    lanes = access.parts[index].lanes
    first, last = lanes[0] // size * size, lanes[-1] // size * size + size - 1
    return f"lanes {first}–{last}"


def _place(access: Access) -> str:
    if access.file is None:
        return f"PTX line {access.ptx_line}"
    return f"{PurePath(access.file).name}:{access.line}"


def _about(access: Access) -> list[str]:
    """Describe the access in two or three lines."""
    lines = [f"{_place(access)} · {access.ptx}"]
    if access.merged:
        more = _some(len(access.merged), "load")
        lines[0] += f" and {more} more, made one LDS.{8 * access.width} by ptxas"
    which = f"block ({', '.join(map(str, access.block))}), warp {access.warp}"
    if access.executions > 1:
        others = "all cost the same" if access.least == access.most else f"{access.least} to {access.most} wavefronts"
        which += f", execution {access.execution} of {access.executions} ({others})"
    parts = [which]
    if access.of > 1:
        alike = f" ({_some(len(access.alike), 'other')} the same or shifted)" if access.alike else ""
        parts.append(f"access {access.number} of {access.of} on this line{alike}")
    off = np.flatnonzero(~access.active).tolist()
    if access.kind == "ldmatrix":
        off = [lane for lane in off if lane < 8 * len(access.parts)]
    if off:
        parts.append(f"not active: {'lane' if len(off) == 1 else 'lanes'} {ranges(off)}")
    together = " · ".join(parts)
    return [*lines, *([together] if len(together) <= 122 else parts)]
