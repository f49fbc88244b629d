"""The order of a program's work with the host: copies, events, synchronisation, and host code that
touches memory of the device.
"""

from __future__ import annotations

import numpy as np

from ..engine.device_memory import DeviceMemory
from ..machine.memory import GLOBAL_BASE
from ..machine.tensor_maps import BYTES as MAP_BYTES
from .protocol import Error, Frame, Ordering, Payload, Reply
from .reporter import Reporter
from .timeline import Protection, Timeline, Work, first_common, rows


class HostOrder:
    """Answers messages about the order of work.

    Attributes: of_host: start and end of memory that host code may touch, too. profiled: whether a
        profiler's range is open.
    """

    def __init__(self, memory: DeviceMemory, reporter: Reporter) -> None:
        self.memory, self.reporter = memory, reporter
        self.timeline = Timeline()
        self.of_host: dict[int, int] = {}
        self.profiled = False

    def order(self, payload: Payload) -> Reply:
        """Answer ORDER: the host waits for work, or a stream for an event; of an event that is
        recorded, the reply has the time in ns.
        """
        what, (stream, event) = Ordering(payload.u32()), payload.u64s(2)
        free: list[Protection] = []
        match what:
            case Ordering.ALL_DONE:
                free = self.timeline.host_waits()
            case Ordering.STREAM_DONE:
                free = self.timeline.host_waits(stream=stream)
            case Ordering.EVENT_DONE:
                free = self.timeline.host_waits(event=event)
            case Ordering.RECORDED:
                self.timeline.record(event, stream)
                # Each event gets a time of its own.
                self.memory.device.copied(0)
                return protections(Reply(), free).u64(self.memory.device.ns)
            case Ordering.WAITS:
                self.timeline.wait(stream, event)
            case Ordering.CREATED:
                self.timeline.streams = True
                if event:
                    # The stream does not wait for the default stream.
                    self.timeline.alone.add(stream)
            case Ordering.PROFILES:
                self.profiled = bool(event)
        return protections(Reply(), free)

    def copied(self, payload: Payload) -> Reply:
        """Answer COPIED: a copy, or a fill, was made in a stream."""
        to, to_pitch, source, from_pitch, width, height, stream = payload.u64s(7)
        of_stream, call = payload.u32(), payload.text()
        self.memory.device.copied(width * height)
        work = self.timeline.issue(stream, self.reporter.at_line(call, payload.frames()))
        inside = [self.memory.holder(address) is not None for address in (to, source)]
        if inside[0]:
            work.writes = rows(to, to_pitch, width, height)
            for at in self.memory.used_maps:
                if first_common(work.writes, np.array([[at, at + MAP_BYTES]])) is not None:
                    self.memory.changed_maps[at] = work.what
        if source and inside[1]:
            work.reads = rows(source, from_pitch, width, height)
        reply = self.issued(work)
        on_device = inside[0] and (not source or inside[1]) and not self._touches_host(work)
        # After a copy in a stream the host goes on; of pageable memory CUDA has made a copy.
        goes_on = inside[0] or not source if of_stream else on_device
        if goes_on:
            return reply
        return protections(Reply(), self.timeline.host_waits(stream=stream))

    def _touches_host(self, work: Work) -> bool:
        """Return whether a work uses memory of the host."""
        spans = np.concatenate([work.reads, work.writes])
        return any(
            ((spans[:, 0] < end) & (spans[:, 1] > start)).any()
            for start, end in self.of_host.items()
        )

    def lives(
        self, stream: int, address: int, call: tuple[str, tuple[Frame, ...]], does: str
    ) -> None:
        """Note that a stream, or the host, allocates or frees the memory at an address: a use that
        no event orders with that is a race.
        """
        held = self.memory.live[address]
        work = self.timeline.issue(stream, self.reporter.at_line(*call))
        work.writes, work.does = np.array([[held.start, held.end]]), does
        self._report_races(work)
        if does == "frees":
            self.timeline.forget(held.start, held.end)

    def issued(self, work: Work) -> Reply:
        """Report the races of a work, now that what it touches is known. Return what keeps the host
        from its memory."""
        self._report_races(work)
        return protections(Reply(), self.timeline.protect(work, list(self.of_host.items())))

    def _report_races(self, work: Work) -> None:
        for text, address in self.timeline.done(work):
            where = self.within(address)
            self.reporter.report(
                "host_fault", f"{text}, at {where}: no event or synchronisation orders the two"
            )

    def host_fault(self, payload: Payload) -> Reply:
        """Answer HOST_FAULT: host code touched device memory, or memory of the host that work under
        way uses.
        """
        address, writes = payload.u64(), bool(payload.u32())
        in_program = (p for p in payload.frames() if p.file == self.reporter.executable)
        at = f"{self.reporter.at_line('host code', in_program)} {'writes' if writes else 'reads'}"
        held = self.memory.holder(address)
        if held is not None and held.start in self.of_host:
            culprit, free = self.timeline.host_touches(address, writes)
            if free:
                if culprit is not None:
                    where = self.within(address)
                    text = f"race with the host: {at} what {culprit.what} may still use, at {where}: no synchronisation"
                    self.reporter.report("host_fault", text)
                return protections(Reply().u32(1), free)
        if held is not None:
            where = f"{address - held.start} bytes into {held.name}"
            where += "; copy it by cudaMemcpy, or allocate it by cudaMallocManaged"
        else:
            self.memory.finish()
            where = self.memory.nearest(address - GLOBAL_BASE)
        self.reporter.report("host_fault", f"{at} device memory at 0x{address:x}, {where}")
        return Reply().u32(Error.NONE)

    def within(self, address: int) -> str:
        """Return an address, and where that is in its allocation."""
        held = self.memory.holder(address)
        inside = "" if held is None else f", {address - held.start} bytes into {held.name}"
        return f"0x{address:x}{inside}"


def protections(reply: Reply, pages: list[Protection]) -> Reply:
    """Add to a reply which pages host code may touch from now on."""
    reply.u32(len(pages))
    for start, end, may in pages:
        reply.u64(start).u64(end).u32(may)
    return reply
