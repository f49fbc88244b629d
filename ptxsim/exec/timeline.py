"""What of a program's work comes before what: launches and copies of streams, and what the host
does between them.

Work is done when it is asked for, but on a device it is ordered only by its stream, by events, by
the legacy default stream, which waits for the others and they for it, and by synchronisation with
the host. Each stream has a vector clock (as threads of a kernel in check/order.py): up to which of
its works each other stream is known. Two works race if they touch the same bytes, one of them
writes, and neither comes before the other; so do a work that writes memory of the host, or reads
it, and host code that comes to it before the host has waited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..engine.device_memory import DeviceMemory
from ..errors import PtxsimError
from ..machine.memory import GLOBAL_BASE, Access
from ..machine.observer import Launched, MemoryEvent, Observer
from ..machine.texture_arrays import TextureArray
from ..machine.values import runs
from ..ptx.sizes import Dim3
from ..ptx.syntax import Instruction

HOST = -1
# These are the handles of the default streams.
LEGACY, PER_THREAD = 0, 2
PAGE = 4096
# Host code may do this with a page.
NOTHING, READ, BOTH = 0, 1, 3
Clock = dict[int, int]
# `Spans` has shape [n, 2]: the start and end of each span, in order.
Spans = np.ndarray
# `Protection` is a range of pages, and what host code may do there.
Protection = tuple[int, int, int]
NO_SPANS = np.zeros((0, 2), np.int64)


@dataclass
class Work:
    """One launch or copy. `what`: in words, with its place in the program."""

    what: str
    stream: int
    number: int
    # The clock says what comes before the work.
    clock: Clock
    reads: Spans = field(default_factory=lambda: NO_SPANS)
    writes: Spans = field(default_factory=lambda: NO_SPANS)
    # Host code is kept from these pages.
    pages: list[tuple[int, int]] = field(default_factory=list)
    # `starts_next` is true for a launch that lets the next one begin before it has ended.
    starts_next: bool = False
    # The verb says what the work does to what it writes; memory that it allocates or frees counts
    # as written.
    does: str = "writes"

    def before(self, clock: Clock) -> bool:
        """Return whether it comes before whoever has this clock."""
        return self.number <= clock.get(self.stream, 0)


class Timeline:
    """The work of a program, as far as the host has not waited for it."""

    def __init__(self) -> None:
        self.clocks: dict[int, Clock] = {HOST: {}}
        self.events: dict[int, Clock] = {}
        # These streams do not wait for the legacy one.
        self.alone: set[int] = set()
        # `streams` is true once there are streams other than the default one.
        self.streams = False
        self.works: list[Work] = []
        self.reported: set[tuple[str, str]] = set()

    def issue(self, stream: int, what: str) -> Work:
        """Return a new work of a stream."""
        stream = LEGACY if stream == 1 else stream
        clock = self.clocks.setdefault(stream, {})
        join(clock, self.clocks[HOST])
        for other, known in self.clocks.items():
            with_default = other not in (HOST, stream) and LEGACY in (stream, other)
            if with_default and self.alone.isdisjoint((stream, other)):
                join(clock, known)
        number = clock.get(stream, 0) + 1
        work = Work(what, stream, number, dict(clock))
        clock[stream] = number
        return work

    def overlapping(self, work: Work) -> Work | None:
        """Return what a dependent launch does before it waits for the one before it; None where
        that lets no other begin.
        """
        before = next(
            (w for w in self.works if (w.stream, w.number) == (work.stream, work.number - 1)), None
        )
        if before is None or not before.starts_next:
            return None
        return replace(work, clock=work.clock | {work.stream: before.number - 1})

    def done(self, work: Work) -> list[tuple[str, int]]:
        """Take note of what a work touched. Return the races that it has with others: a description
        and an address.
        """
        races = self.races(work)
        self.works.append(work)
        return races

    def races(self, work: Work) -> list[tuple[str, int]]:
        """Return the races of a work with others that were not reported before: a description and an
        address. Of memory that is freed, only the last use is reported.
        """
        races: list[tuple[str, int]] = []
        freed = work.does == "frees"
        with_whom = "with the host" if work.stream == HOST else "between streams"
        for other in reversed(self.works) if freed else self.works:
            if other.before(work.clock):
                continue
            pairs = (
                (work.writes, other.writes, work.does, other.does),
                (work.reads, other.writes, "reads", other.does),
                (work.writes, other.reads, work.does, "reads"),
            )
            for mine, theirs, does, did in pairs:
                at = first_common(mine, theirs)
                if at is None:
                    continue
                if (work.what, other.what) not in self.reported:
                    self.reported.add((work.what, other.what))
                    text = f"race {with_whom}: {work.what} {does} what {other.what} {did}"
                    races.append((text, at))
                if freed:
                    return races
                break
        return races

    def forget(self, start: int, end: int) -> None:
        """Forget what was done with memory that was freed: whoever has it next is no concern of
        that."""
        for work in self.works:
            work.reads, work.writes = (
                spans[(spans[:, 0] < start) | (spans[:, 0] >= end)]
                for spans in (work.reads, work.writes)
            )

    # what orders

    def record(self, event: int, stream: int) -> None:
        """Record an event in a stream."""
        self.events[event] = dict(self.issue(stream, "").clock)
        stream = LEGACY if stream == 1 else stream
        self.events[event][stream] = self.clocks[stream][stream]

    def wait(self, stream: int, event: int) -> None:
        """Let a stream wait for an event."""
        join(
            self.clocks.setdefault(LEGACY if stream == 1 else stream, {}),
            self.events.get(event, {}),
        )

    def host_waits(self, stream: int | None = None, event: int | None = None) -> list[Protection]:
        """Let the host wait for a stream, an event, or everything. Return the pages that it may
        touch again.
        """
        host = self.clocks[HOST]
        if event is not None:
            join(host, self.events.get(event, {}))
        elif stream is not None:
            join(host, self.issue(stream, "").clock)
        else:
            for clock in list(self.clocks.values()):
                join(host, clock)
        over = [work for work in self.works if work.before(host)]
        self.works = [work for work in self.works if not work.before(host)]
        return [(start, end, BOTH) for work in over for start, end in work.pages]

    # host code

    def protect(self, work: Work, memory: list[tuple[int, int]]) -> list[Protection]:
        """Return pages of the host's memory, given as ranges, that a work wrote or read as a whole:
        host code is kept from them until it has waited."""
        pages = []
        for spans, may in ((work.reads, READ), (work.writes, NOTHING)):
            for start, end in spans.tolist():
                for first, last in memory:
                    low = -(-max(start, first) // PAGE) * PAGE
                    high = min(end, last) // PAGE * PAGE
                    if low < high:
                        work.pages.append((low, high))
                        pages.append((low, high, may))
        return pages

    def host_touches(self, address: int, writes: bool) -> tuple[Work | None, list[Protection]]:
        """Return the work that host code races with when it comes to memory that it is kept from,
        and pages that it may touch."""
        culprit = None
        for work in self.works:
            for spans in (work.writes, work.reads) if writes else (work.writes,):
                if first_common(spans, np.array([[address, address + 1]])) is not None:
                    culprit = culprit or work
        freed = [
            pages for work in self.works for pages in work.pages if pages[0] <= address < pages[1]
        ]
        for work in self.works:
            work.pages = [pages for pages in work.pages if pages not in freed]
        return culprit, [(start, end, BOTH) for start, end in freed]


class WaitsForHost(PtxsimError):
    """A launch waits for the host, and has done nothing else yet: it can be run again from its
    start.
    """


class Touched(Observer):
    """Which bytes of global memory a launch reads and writes, four at a time.

    `of_host`: start and end of memory that host code may write while the launch waits for it; None:
    it must not wait.
    """

    of_host: Mapping[int, int] | None = None

    def __init__(self, memory: DeviceMemory) -> None:
        self.held = memory
        self.read, self.written = (np.zeros(len(memory.data) // 4 + 1, bool) for _ in range(2))
        self.early: list[tuple[Instruction, np.ndarray, int, str]] | None = None

    def watch_early(self) -> None:
        """Note what blocks touch before one of their threads waits for the launches before."""
        self.early, self.waited = [], np.zeros(0, bool)

    def begins(self, kernel: Launched, grid: Dim3, block: Dim3) -> None:
        """See `Observer`."""
        self.state = kernel.state
        if self.early is not None:
            self.watch_early()
            self.waited = np.zeros(math.prod(grid), bool)

    def _blocks(self, lanes: np.ndarray) -> np.ndarray:
        """Return the linear numbers of lanes' blocks."""
        return np.asarray(self.state.blocks)[self.state.block_of[lanes]]

    def grid_waits(self) -> None:
        """See `Observer`."""
        if self.early is not None:
            self.waited[self._blocks(self.state.acting_lanes())] = True

    def memory(self, event: MemoryEvent) -> None:
        """See `Observer`."""
        if event.space == "global":
            self._mark(event.access, event.width, event.kind)
            if self.early is not None:
                lanes = event.access.where.lanes
                blocks = self._blocks(np.arange(self.state.lanes) if lanes is None else lanes)
                at = event.access.flat()[~self.waited[blocks]]
                self.early.append((event.instruction, at, event.width, event.kind))

    def waits(self) -> None:
        """See `Observer`. Raises `WaitsForHost` where nobody can tell that the launch has begun: it
        wrote nothing.
        """
        spans = [(a - GLOBAL_BASE, b - GLOBAL_BASE) for a, b in (self.of_host or {}).items()]
        reads = any(self.read[a >> 2 : (b + 3) >> 2].any() for a, b in spans)
        stored = any(isinstance(t, TextureArray) and t.stored for t in self.held.textures.values())
        if reads and not stored and not self.written.any():
            raise WaitsForHost("waits for memory that the host has not written yet")

    def bulk(self, instruction: Instruction, access: Access, width: int, kind: str) -> None:
        """See `Observer`."""
        self._mark(access, width, kind)
        active = self._blocks(self.state.acting_lanes())
        if self.early is not None and not self.waited[active].all():
            self.early.append((instruction, access.flat(), width, kind))

    def early_touch(self, address: int) -> Instruction:
        """Return the first instruction that touched an address before a wait."""
        assert self.early is not None
        offset = address - GLOBAL_BASE
        return next(
            i for i, at, width, _ in self.early if ((at <= offset) & (offset < at + width)).any()
        )

    def early_spans(self) -> tuple[Spans, Spans]:
        """Return the bytes that were read and written before a wait."""
        seen = Touched(self.held)
        for _, at, width, kind in self.early or ():
            seen._mark_at(at, width, kind)
        return seen.spans(seen.read), seen.spans(seen.written)

    def _mark(self, access: Access, width: int, kind: str) -> None:
        self._mark_at(access.flat(), width, kind)

    def _mark_at(self, offsets: np.ndarray, width: int, kind: str) -> None:
        at = offsets >> 2
        for word in range(max(1, width // 4)):
            if not kind.startswith("st"):
                self.read[at + word] = True
            if kind.startswith(("st", "atom")):
                self.written[at + word] = True

    def spans(self, marks: np.ndarray) -> Spans:
        """Return the marked bytes of allocations."""
        parts = [spans for spans in self._parts(marks) if len(spans)]
        return np.concatenate(parts) if parts else NO_SPANS

    def _parts(self, marks: np.ndarray) -> Iterator[Spans]:
        for start in sorted(self.held.live):
            first, end = start - GLOBAL_BASE, self.held.live[start].end - GLOBAL_BASE
            here = marks[first >> 2 : (end + 3) >> 2]
            if not here.any():
                continue
            yield runs(here) * 4 + start


def rows(start: int, pitch: int, width: int, height: int) -> Spans:
    """Return the bytes of a copy of `height` rows."""
    first = start + np.arange(height, dtype=np.int64) * pitch
    if pitch != width:
        return np.stack([first, first + width], axis=1)
    return np.array([[start, start + width * height]])


def merged(a: Spans, b: Spans) -> Spans:
    """Return the bytes of either, in order and without overlaps."""
    if not len(b):
        return a
    spans: list[list[int]] = []
    for start, end in sorted(np.concatenate([a, b]).tolist()):
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    return np.array(spans, np.int64).reshape(-1, 2)


def join(into: Clock, other: Clock) -> None:
    """Add what another clock knows."""
    for stream, number in other.items():
        if into.get(stream, 0) < number:
            into[stream] = number


def first_common(a: Spans, b: Spans) -> int | None:
    """Return the first address that is in both; None where there is none."""
    if not len(a) or not len(b):
        return None
    # For each start in a, this is the first of b that ends behind it.
    after = np.searchsorted(b[:, 1], a[:, 0], side="right")
    exists = after < len(b)
    start = np.maximum(a[exists, 0], b[after[exists], 0])
    common = np.flatnonzero(start < a[exists, 1])
    return int(start[common[0]]) if len(common) else None
