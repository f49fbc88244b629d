"""Bank conflicts in detail: which lane's word each bank of shared memory serves in each wavefront
of an access.

    from ptxsim import banks
    found = banks.accesses(kernel, grid=1, block=256, args=[...], line=57)   # one `Access` an instruction
    print(banks.table(found[0]))

`accesses` launches the kernel; an `Access` holds the addresses of one warp's 32 lanes and how they
are served, by the rules of `wavefronts.py`, so that it has as many wavefronts as `Counters` counts
for it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..engine.kernel import Argument, Kernel, dimensions
from ..errors import PtxsimError
from ..machine.observer import MemoryEvent, Observer
from ..ptx.sizes import Dim3
from ..ptx.sources import choose_file, find_source, locations
from ..ptx.syntax import Instruction
from . import wavefronts
from .counters import Counters, Stats
from .wavefronts import BANKS, WORD, Part

VERBS = {"ld": "load", "st": "store", "atom": "atomic", "cp_async": "cp.async write"}


@dataclass(frozen=True, eq=False)
class Access:
    """One execution of one shared-memory instruction by one warp.

    Attributes: kernel: name of the entry. file, line: of the CUDA source, as `.loc` gives them;
        `file` is None without line information. text: that source line, stripped; empty where the
        source was not found. pc, ptx, ptx_line: place, name and line of the PTX instruction; of a
        merged load, of the one that leads it. merged: places of the other scalar loads that ptxas
        merges into it, in program order. kind: ld, st, atom, ldmatrix or cp_async. width: bytes a
        lane; of a merged load, all of them. block, warp: which warp, of which block (x, y, z).
        number, of: this is the `number`-th of `of` shared-memory accesses on its line, from 1.
        alike: the numbers of the others that are served as this one, or with a shift of all banks.
        execution, executions: this is the `execution`-th of `executions` times that the warp does
        this, from 1. least, most: wavefronts of the cheapest and the costliest of these executions.
        addresses: [32] int64, bytes within the block's shared memory; undefined for lanes that are
        not active. active: [32] bool. parts: how it is served; see `wavefronts.serve`. wavefronts,
        ideal: how many it takes, and how many would do; see `wavefronts.py`.
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
    block: Dim3
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
        """Return what a picture shows, for JSON: each part has a name and wavefronts, each of these
        a list of words.
        """
        parts = []
        for index, part in enumerate(self.parts):
            words = [
                [{"bank": w.bank, "lanes": list(w.lanes)} for w in row] for row in part.wavefronts
            ]
            parts.append({"name": self.part_name(index), "wavefronts": words})
        return {
            "file": self.file,
            "line": self.line,
            "source": self.text,
            "instruction": self.ptx,
            "kind": self.kind,
            "bits": 8 * self.width,
            "wavefronts": self.wavefronts,
            "ideal": self.ideal,
            "summary": self.summary,
            "about": self.about,
            "parts": parts,
        }

    @property
    def ways(self) -> int:
        """Return the degree of the conflict as `Counters` has it: wavefronts for each that would
        do, rounded up.
        """
        return math.ceil(self.wavefronts / self.ideal)

    @property
    def summary(self) -> str:
        """Return a description: "store, 32-bit, 8-way conflict: 8 wavefronts where 1 would do"."""
        if self.kind == "ldmatrix":
            what = f"ldmatrix of {_some(len(self.parts), 'matrix', 'matrices')}"
        else:
            what = f"{VERBS[self.kind]}, {8 * self.width}-bit"
        waves = _some(self.wavefronts, "wavefront")
        # No part meets a conflict.
        alone = self.wavefronts == len(self.parts)
        if self.kind == "cp_async" and alone and self.wavefronts > self.ideal:
            return f"{what}, short rows: {waves} where {self.ideal} would do, one for each line of the source"
        if self.wavefronts > self.ideal:
            return f"{what}, {self.ways}-way conflict: {waves} where {self.ideal} would do"
        shares = {"ldmatrix": "one a matrix", "cp_async": "one a line of the source"}
        each = shares.get(self.kind) or {2: "one a half-warp", 4: "one a quarter-warp"}.get(
            len(self.parts)
        )
        return f"{what}, no conflict: {waves}" + (
            f", {each}" if each and alone and self.wavefronts > 1 else ""
        )

    @property
    def pattern(self) -> tuple[str, int, str]:
        """Return a key that is equal for accesses that are served alike, but for a shift of all
        banks."""
        first = self.parts[0].wavefronts[0]
        origin = min(first, key=lambda word: (word.lanes, word.address)).bank
        rows = [
            [
                sorted(((word.bank - origin) % BANKS, word.lanes) for word in row)
                for row in part.wavefronts
            ]
            for part in self.parts
        ]
        return (self.kind, self.width, repr(rows))

    @property
    def place(self) -> str:
        """Return the line of the source, or of the PTX."""
        if self.file is None:
            return f"PTX line {self.ptx_line}"
        return f"{PurePath(self.file).name}:{self.line}"

    def part_name(self, index: int) -> str:
        """Return what a part is of the access; empty where it is all of it."""
        if len(self.parts) == 1:
            return ""
        if self.kind == "ldmatrix":
            return f"matrix {index}"
        if self.kind == "cp_async":
            return f"from line {index + 1}"
        # A half- or quarter-warp has this many lanes.
        size = 32 * WORD // self.width
        lanes = self.parts[index].lanes
        return f"lanes {lanes[0] // size * size}–{lanes[-1] // size * size + size - 1}"

    @property
    def about(self) -> list[str]:
        """Return the access in two lines: its instruction, and which execution it is."""
        instruction = f"{self.place} · {self.ptx}"
        if self.merged:
            word, opcode = ("store", "STS") if self.kind == "st" else ("load", "LDS")
            more = _some(len(self.merged), word)
            instruction += f" and {more} more, made one {opcode}.{8 * self.width} by ptxas"
        which = f"block ({', '.join(map(str, self.block))}), warp {self.warp}"
        if self.executions > 1:
            others = f"{self.least} to {self.most} wavefronts"
            if self.least == self.most:
                others = "all cost the same"
            which += f", execution {self.execution} of {self.executions} ({others})"
        parts = [which]
        if self.of > 1:
            others = f" ({_some(len(self.alike), 'other')} the same or shifted)"
            alike = others if self.alike else ""
            parts.append(f"access {self.number} of {self.of} on this line{alike}")
        off = np.flatnonzero(~self.active).tolist()
        if self.kind == "ldmatrix":
            off = [lane for lane in off if lane < 8 * len(self.parts)]
        if off:
            parts.append(f"not active: {'lane' if len(off) == 1 else 'lanes'} {ranges(off)}")
        return [instruction, " · ".join(parts)]


def _some(count: int, singular: str, plural: str | None = None) -> str:
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


# recording


@dataclass(frozen=True)
class _Execution:
    # The arrays have shape [warps of the block, 32].
    addresses: np.ndarray
    active: np.ndarray
    source: np.ndarray | None
    reading: np.ndarray | None


class Recorder(Observer):
    """The observer that keeps the addresses of chosen instructions, of one block, at each
    execution.
    """

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
        """Return executions in which that warp accessed memory."""
        return [
            _Execution(
                e.addresses[warp],
                e.active[warp],
                *(x if x is None else x[warp] for x in (e.source, e.reading)),
            )
            for e in self.executions.get(pc, ())
            if e.active[warp].any()
        ]

    def warps(self, pc: int) -> list[int]:
        """Return the warps that ever accessed memory there."""
        seen = [e.active.any(axis=1) for e in self.executions.get(pc, ())]
        return np.flatnonzero(np.any(seen, axis=0)).tolist() if seen else []


def _count(execution: _Execution, width: int, kind: str) -> tuple[int, int]:
    """Return wavefronts and ideal, by the functions that the counters use."""
    addresses, active = execution.addresses[None], execution.active[None]
    source, reading = addresses, np.zeros((1, 32), bool)
    if execution.source is not None and execution.reading is not None:
        source, reading = execution.source[None], execution.reading[None]
    waves, ideal = wavefronts.count(kind, addresses, active, width, source, reading)
    return int(waves[0]), int(ideal[0])


def accesses(
    kernel: Kernel,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Argument],
    line: int,
    file: str | Path | None = None,
    *,
    of_block: Sequence[int] = (0, 0, 0),
    warp: int | None = None,
    execution: int | None = None,
    source: Path | None = None,
    near: Sequence[Path] = (),
    values: bool = True,
    **launched: Any,
) -> list[Access]:
    """Launch the kernel, and give each access to shared memory that stands at a line of its source,
    in program order.

    Loads that ptxas merges are one access, as in `Counters`. A line of another function that is
    inlined counts as its own; a line that only calls such functions has their accesses.

    Args: kernel, grid, block, args, values, and all that is `launched`: as of `Kernel.launch`, but
        `checks` is False unless it is given. line, file: the source line; `file` by its name or the end of its path,
        None for the kernel's own. of_block: x, y, z of the block to look at. warp: its number
        within the block; None: the first that does the access. execution: which of the warp's
        executions, from 1; None: the first of those that take the most wavefronts. source, near:
        where the source file is, or folders in which to look for it.

    Raises: PtxsimError: no such line, no access to shared memory there, none by that warp, or a
        fault of the kernel.
    """
    file = choose_file(kernel, file)
    grid, block = dimensions(grid), dimensions(block)
    index, linear = _block_index(grid, block, of_block, warp)

    def launch(pcs: set[int]) -> tuple[Recorder, list[Stats]]:
        recorder, counters = Recorder(pcs, linear), Counters()
        given = copy.deepcopy(list(args)) if values else args
        options = {"checks": False, **launched, "observers": [counters, recorder]}
        kernel.launch(grid, block, given, values=values, **options)
        return recorder, counters.by_instruction()

    here = _at_line(kernel, file, line)
    recorder, stats = launch({instruction.pc for instruction in here})
    leaders = _leaders(here, stats)
    if not leaders:
        raise PtxsimError(_no_access(kernel, file, line, stats, here))
    if not set(leaders) <= recorder.chosen:
        # A load on another line does the work of one on this line.
        recorder, stats = launch(set(leaders))
    fields: dict[str, Any] = {"file": file, "line": line, "of": len(leaders), "alike": ()}
    fields |= {"kernel": kernel.name, "text": _source_text(file, line, source, near)}
    by_pc = {s.instruction.pc: s for s in stats}
    rows = []
    for number, pc in enumerate(leaders, start=1):
        merged = tuple(
            s.instruction.pc for s in stats if s.merged_into is not None and s.merged_into.pc == pc
        )
        made = _access(recorder, by_pc[pc], merged, index, warp, execution)
        if made is not None:
            rows.append(Access(number=number, **made, **fields))
    if not rows:
        doing = sorted({w for pc in leaders for w in recorder.warps(pc)})
        who = f"warp {warp}" if warp is not None else "no warp"
        what = f"{PurePath(file).name}:{line}: {who} of block {index} accesses shared memory there"
        times = f" {execution} times" if execution is not None else ""
        raise PtxsimError(f"{what}{times}; warps that do: {ranges(doing) or 'none'}")
    return _grouped(rows)


def _block_index(
    grid: Dim3,
    block: Dim3,
    of_block: Sequence[int],
    warp: int | None,
) -> tuple[tuple[int, ...], int]:
    """Return the block to look at, and its linear number. Raises `PtxsimError` where there is no
    such block or warp.
    """
    index = tuple(int(i) for i in (*of_block, 0, 0)[:3])
    if any(not 0 <= i < n for i, n in zip(index, grid, strict=True)):
        raise PtxsimError(f"block {index} is not in the grid {grid}")
    warps = math.ceil(math.prod(block) / 32)
    if warp is not None and not 0 <= warp < warps:
        raise PtxsimError(f"warp {warp} is not in a block of {warps} warps (0 to {warps - 1})")
    return index, index[0] + grid[0] * (index[1] + grid[1] * index[2])


def _grouped(accesses: list[Access]) -> list[Access]:
    """Note of each access which others have the same pattern."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    for access in accesses:
        groups.setdefault(access.pattern, []).append(access.number)
    return [
        replace(a, alike=tuple(n for n in groups[a.pattern] if n != a.number)) for a in accesses
    ]


def _at_line(kernel: Kernel, file: str, line: int) -> list[Instruction]:
    """Return the instructions of a line, and those of functions that are inlined there."""
    known = locations(kernel.program)
    return [
        i
        for i in kernel.program.code
        if any((p.file, p.line) == (file, line) for p in known.get(i.pc, ()))
    ]


def _leaders(here: list[Instruction], stats: list[Stats]) -> list[int]:
    """Return the places of the instructions that access shared memory for these, in order."""
    by_pc = {s.instruction.pc: s for s in stats}
    merged = {pc: s.merged_into.pc for pc, s in by_pc.items() if s.merged_into is not None}
    leaders = dict.fromkeys(merged.get(i.pc, i.pc) for i in here)
    return [pc for pc in leaders if pc in by_pc and by_pc[pc].wavefronts > 0]


def _no_access(
    kernel: Kernel,
    file: str,
    line: int,
    stats: list[Stats],
    here: list[Instruction],
) -> str:
    """Return why there is no access, and where there is one."""
    touching = {s.merged_into or s.instruction for s in stats if s.wavefronts or s.merged_into}
    known = locations(kernel.program)
    lines = {p.line for i in touching for p in known.get(i.pc, ()) if p.file == file}
    executed = [s for s in stats if s.sectors and s.instruction in here]
    why = "no access to shared memory"
    if executed:
        why = "accesses only global memory, which has no banks"
    where = f"{kernel.title} has none in this file"
    if lines:
        where = f"lines that have one: {ranges(sorted(lines))}"
    return f"{PurePath(file).name}:{line}: {why}; {where}"


def _access(
    recorder: Recorder,
    stats: Stats,
    merged: tuple[int, ...],
    block: tuple[int, ...],
    warp: int | None,
    wanted: int | None,
) -> dict[str, Any] | None:
    """Return fields of an `Access`; None where the warp does not do it so many times."""
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
    parts = wavefronts.serve(
        chosen.addresses, chosen.active, width, kind, chosen.source, chosen.reading
    )
    return {
        "pc": pc,
        "ptx": stats.instruction.name,
        "ptx_line": stats.instruction.ptx_line,
        "merged": merged,
        "kind": kind,
        "width": width,
        "block": block,
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
    """Return sorted numbers in short: "0–3, 8, 16–19"."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


def distinct(found: Sequence[Access]) -> list[Access]:
    """Return the first of each group of accesses of one line that are alike."""
    return [access for access in found if not access.alike or access.number < min(access.alike)]


def table(access: Access) -> str:
    """Return an access as a table: a row a wavefront, a column a bank, with the lane that the bank
    serves (the first of several is marked +)."""
    names = [access.part_name(index) for index in range(len(access.parts))]
    width = max(9, *map(len, names))
    lines = [access.summary, *access.about, *filter(None, [access.text]), f"{'':{width}} bank"]
    head = "".join(f"{bank:3d} " for bank in range(BANKS))
    lines.append(f"{'wavefront':<{width}}      {head.rstrip()}")
    rows = [
        (name if not turn else "", row)
        for name, part in zip(names, access.parts, strict=True)
        for turn, row in enumerate(part.wavefronts)
    ]
    for number, (name, row) in enumerate(rows, start=1):
        cells = ["  . "] * BANKS
        for word in row:
            cells[word.bank] = f"{word.lanes[0]:3d}{'+' if len(word.lanes) > 1 else ' '}"
        lines.append(f"{name:<{width}} {number:3d}  {''.join(cells)}".rstrip())
    return "\n".join(lines)
