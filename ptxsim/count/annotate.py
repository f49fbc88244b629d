"""The CUDA source with, next to each line that touches memory, what the memory system does there.

    counters = ptxsim.Counters()
    kernel.launch(..., observers=[counters])
    print("\\n".join(annotate.listing(kernel, counters)))

`costs` gives the figures by source line; `listing` lays them out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from ..errors import PtxsimError
from ..machine.observer import Launched
from ..ptx.sources import choose_file, find_source, locations, read_source
from ..ptx.syntax import Location
from .counters import Counters, Stats
from .register_banks import MERGED

READS = ("ld", "ldmatrix", "atom", "cp_async_ld")
# A source line keeps at least this many characters where its note is long.
SHORTEST = 12
# An excerpt shows this many lines around an annotated one.
CONTEXT = 2
# A line with at least this share of all excess in the kernel has two marks.
HEAVY = 0.25
WIDTHS = (2, 8, 8, 4, 4, 7, 4)
COLOURS = {"": "", "!": "\033[33m", "!!": "\033[1;31m"}
DIM, RESET = "\033[2m", "\033[0m"


@dataclass
class Accesses:
    """Accesses of one memory, in one direction."""

    stats: list[Stats] = field(default_factory=list)

    def total(self, name: str) -> int:
        """Return the sum of a count of `Stats`."""
        return sum(getattr(stats, name) for stats in self.stats)


class Shared(Accesses):
    """Accesses of shared memory: wavefronts, how many more than would do, and the worst conflict."""

    @property
    def excess(self) -> int:
        return self.total("conflicts")

    @property
    def ways(self) -> int:
        return max((max(stats.ways, default=0) for stats in self.stats), default=0)

    @property
    def degree(self) -> float:
        ideal = self.total("ideal")
        return self.total("wavefronts") / ideal if ideal else 0.0


class Global(Accesses):
    """Accesses of global memory: sectors of 32 bytes, and how many more than would do."""

    @property
    def excess(self) -> int:
        return self.total("excess_sectors")

    @property
    def bytes_per_sector(self) -> float:
        return self.total("bytes") / self.total("sectors") if self.stats else 0.0

    @property
    def in_words(self) -> list[str]:
        """Return what each access costs, in order."""
        return list(filter(None, dict.fromkeys(stats.sectors_in_words() for stats in self.stats)))


class Local(Accesses):
    """Accesses of local memory."""

    def __str__(self) -> str:
        stores = sum(stats.requests for stats in self.stats if stats.kind == "st")
        loads, sectors = self.total("requests") - stores, self.total("local_sectors")
        return f"local memory: {loads:,} loads, {stores:,} stores, {sectors:,} sectors"


@dataclass
class Cost:
    """What one line does. `executed`: its memory instructions, each once for every warp that
    executes it.
    """

    loads: Shared = field(default_factory=Shared)
    stores: Shared = field(default_factory=Shared)
    reads: Global = field(default_factory=Global)
    writes: Global = field(default_factory=Global)
    executed: int = 0
    local: Local = field(default_factory=Local)
    # `merged_loads` counts merged loads by warp; each takes fewer wavefronts, and longer to issue.
    merged_loads: float = 0.0
    # The wide loads of these lines do this line's work.
    merged_into: set[Location] = field(default_factory=set)
    # These lines of inlined functions, as file:line, do the accesses.
    through: set[str] = field(default_factory=set)

    def add(self, stats: Stats) -> None:
        """Count an instruction that touches memory."""
        if stats.merged_into is not None:
            if stats.merged_into.location is not None:
                self.merged_into.add(stats.merged_into.location)
            return
        self.executed += stats.executed
        if stats.wavefronts:
            (self.loads if stats.kind in READS else self.stores).stats.append(stats)
        if stats.sectors:
            (self.reads if stats.kind in (*READS, "cp_async") else self.writes).stats.append(stats)
        if stats.local_sectors:
            self.local.stats.append(stats)
        self.merged_loads += stats.merged_loads

    @property
    def excess_wavefronts(self) -> int:
        return self.loads.excess + self.stores.excess

    @property
    def excess_sectors(self) -> int:
        return self.reads.excess + self.writes.excess


def costs(counters: Counters) -> dict[str, dict[int, Cost]]:
    """Return, by file and line, what the instructions of that line do, functions inlined into it
    included.

    An access of an inlined function counts at its own line, and, marked in `Cost.through`, also at
    the line that calls it where that is in another file. Sums over a file hold; sums over files do
    not.
    """
    by_file: dict[str, dict[int, Cost]] = defaultdict(lambda: defaultdict(Cost))
    known = locations(counters.program) if counters.program is not None else {}
    for stats in counters.by_instruction():
        touched = stats.wavefronts or stats.sectors or stats.local_sectors
        if not (touched or stats.merged_into is not None) or stats.space == "const":
            continue
        seen: set[str] = set()
        for location in known.get(stats.instruction.pc, ()):
            if location.file not in seen:
                cost = by_file[location.file][location.line]
                cost.add(stats)
                if seen:
                    cost.through.add(str(stats.instruction.location))
            seen.add(location.file)
    return {file: dict(sorted(lines.items())) for file, lines in by_file.items()}


def listing(
    kernel: Launched,
    counters: Counters,
    source: Path | None = None,
    near: Sequence[Path] = (),
    file: str | Path | None = None,
    colour: bool = False,
    width: int | None = None,
) -> list[str]:
    """Return the annotated source, as lines of text: the kernel's own file whole, excerpts of the
    others with accesses.

    Args: kernel, counters: what ran, and what watched it. source: where the file is, if not where
        the PTX says; `near`: folders in which to look for files. file: another file of the PTX to
        show instead of the kernel's own. colour: with escape sequences for a terminal. width: cut
        source lines there; None: leave them whole.

    Raises:
        PtxsimError: no line information, or the source is not there or is not that of this PTX.
    """
    main = choose_file(kernel, file)
    by_file = costs(counters)
    totals = [s for s in counters.by_instruction() if s.merged_into is None]
    whole = (sum(s.conflicts for s in totals), sum(s.excess_sectors for s in totals))
    page = _Page(whole, colour, width)
    of_main = by_file.pop(main, {})
    text = _checked(read_source(main, source, near), main, of_main)
    out = [*_heading(kernel, counters, totals), "", *_legend(), "", _named(main)]
    out += [*page.header(), *page.lines(text, of_main, range(1, len(text) + 1))]
    for name, lines in by_file.items():
        path = find_source(name, near)
        out += ["", f"{_named(name)}: lines with accesses"]
        if path is None:
            out[-1] += " (source not found)"
            out += [*page.header(), *page.lines({n: "" for n in lines}, lines, sorted(lines))]
            continue
        text = _checked(read_source(name, path), name, lines)
        out += [*page.header(), *page.lines(text, lines, _around(lines, len(text)))]
    return out


def _named(name: str) -> str:
    path = Path(name)
    return f"== {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else name}"


def _checked(text: list[str], name: str, lines: dict[int, Cost]) -> list[str]:
    if lines and max(lines) > len(text):
        raise PtxsimError(
            f"the source of {PurePath(name).name} has {len(text)} lines, but the PTX has code of line {max(lines)}: "
            "it is not what was compiled"
        )
    return text


def _around(lines: Iterable[int], last: int) -> list[int]:
    return sorted(
        {n + i for n in lines for i in range(-CONTEXT, CONTEXT + 1) if 1 <= n + i <= last}
    )


def _heading(kernel: Launched, counters: Counters, totals: list[Stats]) -> list[str]:
    waves, ideal = sum(s.wavefronts for s in totals), sum(s.ideal for s in totals)
    sectors, best = sum(s.sectors for s in totals), sum(s.ideal_sectors for s in totals)
    lines = [f"{kernel.title}: grid {counters.grid}, block {counters.block}"]
    if waves:
        lines.append(
            f"shared memory: {waves:,} wavefronts, {ideal:,} would do ({(waves - ideal) / waves:.1%} excess)"
        )
    if sectors:
        used = sum(s.bytes for s in totals) / sectors
        lines.append(
            f"global memory: {sectors:,} sectors, {best:,} would do ({(sectors - best) / sectors:.1%} excess), "
            f"{used:.3g} of 32 bytes used of each"
        )
    local = Local([stats for stats in totals if stats.local_sectors])
    if local.stats:
        arrays = f"the arrays take {kernel.program.array_bytes:,} bytes of each thread"
        lines.append(f"{local}; {arrays}")
    return lines


def _legend() -> list[str]:
    return [
        "shared ld, st   wavefronts for each that would do; where that is not 1, the worst n-way conflict of a request",
        "global ld, st   bytes used of each 32-byte sector; right of the line, for each access: sectors a request of",
        "                a warp, the fewest that its bytes fill (ideal), and whether that is coalesced, a broadcast",
        "                (threads want the same bytes), strided (bytes lie apart) or misaligned (one sector more)",
        "warps           memory instructions of the line, each once for every warp that executes it",
        f"!  costs more than it must    !!  with at least {HEAVY:.0%} of the kernel's excess wavefronts or sectors",
        "merged          loads whose neighbouring lanes want the same: fewer wavefronts, but longer to issue",
        "= N             scalar loads that ptxas makes part of a wide one at line N",
    ]


class _Page:
    """Rows of the listing: mark, four columns of figures, warps, line number, source."""

    def __init__(self, whole: tuple[int, int], colour: bool, width: int | None) -> None:
        self.whole, self.colour, self.width = whole, colour, width

    def header(self) -> list[str]:
        return [
            f"   {'shared memory':^17} {'global':^9}".rstrip(),
            self._row(("", "ld", "st", "ld", "st", "warps", "line"), "").rstrip() + " │ source",
        ]

    def lines(
        self,
        text: Sequence[str] | Mapping[int, str],
        costs: dict[int, Cost],
        numbers: Iterable[int],
    ) -> list[str]:
        """Return rows of the given line numbers; a row of dots where some are left out."""
        out, last = [], None
        for number in numbers:
            if last is not None and number != last + 1:
                out.append(self._row((*[""] * 6, "..."), ""))
            last = number
            line = text[number] if isinstance(text, dict) else text[number - 1]
            out.append(self._line(number, line.expandtabs(4), costs.get(number)))
        return out

    def mark(self, cost: Cost) -> str:
        line, whole = (cost.excess_wavefronts, cost.excess_sectors), self.whole
        if not any(line):
            return ""
        heavy = any(part and part >= HEAVY * total for part, total in zip(line, whole, strict=True))
        return "!!" if heavy else "!"

    def _line(self, number: int, text: str, cost: Cost | None) -> str:
        if cost is None:
            return self._row((*[""] * 6, str(number)), text)
        elsewhere = sorted(leader.line for leader in cost.merged_into if leader.line != number)
        loads = _degree(cost.loads) or (f"= {elsewhere[0]}" if elsewhere else "")
        cells = (
            self.mark(cost),
            loads,
            _degree(cost.stores),
            _bytes(cost.reads),
            _bytes(cost.writes),
            f"{cost.executed:,}" if cost.executed else "",
            str(number),
        )
        notes = [
            f"{name} {message}"
            for name, used in (("ld", cost.reads), ("st", cost.writes))
            for message in used.in_words
        ]
        if cost.through:
            notes.append("in " + ", ".join(sorted(cost.through)))
        if cost.local.stats:
            notes.append(str(cost.local))
        if cost.merged_loads:
            notes.append(f"{cost.merged_loads:,.0f} merged, {MERGED} issue cycles more each")
        return self._row(cells, text, "; ".join(notes))

    def _row(self, cells: Sequence[str], text: str, note: str = "") -> str:
        figures = [cell.rjust(w) for cell, w in zip(cells[1:], WIDTHS[1:], strict=True)]
        gutter = " ".join([cells[0].ljust(WIDTHS[0]), *figures])
        bar = " │ " if cells[-1].isdigit() else "  "
        note = f"  <- {note}" if note else ""
        if self.width is not None:
            space = self.width - len(gutter) - len(bar)
            if len(note) > space - SHORTEST:
                note = note[: max(0, space - SHORTEST - 1)] + "…"
            room = max(SHORTEST, space - len(note))
            text = text if len(text) <= room else text[: room - 1] + "…"
        if not self.colour:
            return f"{gutter}{bar}{text}{note}".rstrip()
        paint = COLOURS[cells[0]] or ("" if cells[-2] else DIM)
        gutter = f"{paint}{gutter}{RESET}" if paint else gutter
        return f"{gutter}{bar}{text}{f'{DIM}{note}{RESET}' if note else ''}".rstrip()


def _degree(shared: Shared) -> str:
    if not shared.stats:
        return ""
    return f"{shared.degree:.3g} {shared.ways}w" if shared.excess else "1"


def _bytes(used: Global) -> str:
    return f"{used.bytes_per_sector:.3g}" if used.stats else ""
