"""The emulator's end of a program: one process for each process that uses CUDA, until that ends."""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..count import bounds, machines, prediction
from ..count.annotate import listing
from ..count.counters import BYTES, SECTORS, Counters
from ..engine.device_memory import DeviceMemory
from ..errors import KernelFault, Kind, NoEntryError, PtxError, PtxsimError, report_own_failure
from ..interface import Kernel
from ..machine.arrays import Array, Texture
from ..machine.clusters import in_clusters
from ..machine.device import Device
from ..machine.faults import Faults, Found
from ..machine.launch import NO_CHECKS as NONE
from ..machine.launch import Checks, Limits
from ..machine.memory import GLOBAL_BASE, Heap
from ..machine.observer import Observer
from ..machine.tensor_maps import MAGIC, TensorMap
from ..ptx import polling, sass
from ..ptx.demangle import split
from ..ptx.parser import parse
from ..ptx.syntax import Module, Variable, plain_name
from . import blas, elf, fatbin, textures
from .options import Options, matches
from .protocol import (
    UNANSWERED,
    Connection,
    MemoryKind,
    Message,
    Note,
    Ordering,
    Payload,
    Place,
    Reply,
)
from .records import FaultRecord, LaunchRecord
from .timeline import Protection, Timeline, Touched, WaitsForHost, merged, rows
from .timeline import Work as Issued

# codes of CUDA's errors
PARKED = 0xFFFFFFFF  # no error: a launch that waits for the host
OK, INVALID_PTX, NO_BINARY, NOT_FOUND, NOT_SUPPORTED = 0, 218, 209, 500, 801
ILLEGAL_ADDRESS, TIMEOUT, ASSERT, MISALIGNED, FAILURE = 700, 702, 710, 716, 719
CLUSTER_SIZE = 912
FATAL = {  # the error with which a kernel ends on a device, by the kind of the fault
    Kind.BOUNDS: ILLEGAL_ADDRESS,
    Kind.ALIGNMENT: MISALIGNED,
    Kind.ASSERT: ASSERT,
    Kind.DEADLOCK: TIMEOUT,
    Kind.LIMIT: TIMEOUT,
    Kind.TRAP: FAILURE,
    Kind.MEMORY: FAILURE,
}
MOST_SNAPSHOT = 256 << 20  # bytes of device memory that are kept to run a launch again
MOST_LINES = 100  # launches that are listed while the program runs
MANAGED = re.compile(r"\.attribute\s*\(\s*\.managed\s*\)[^;={]*?([\w$]+)\s*(?:\[[^;=]*)?(?:;|=)")
MAP_TYPES = [
    "uint8",
    "uint16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float32",
    "float32",
    "float32",
]  # of CUtensorMapDataType; the last ones flush denormals or round to tf32


class TooLong(PtxsimError):
    """A launch took longer than --limit."""


@dataclass
class Loaded:
    """A module of the program."""

    ptx: Module
    cubin: Path | None
    variables: dict[str, Variable]
    kernels: dict[str, Kernel] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)  # of a thread, by kernel; 0: not known
    warned: bool = False


@dataclass
class Run:
    """The result of emulating a launch."""

    faults: list[FaultRecord]
    fatal: int  # the error that the program gets; 0: none
    notes: list[str]
    counters: Counters | None
    printed: str
    blocks: int
    sampled: bool = False  # whether these are only some of the grid's
    traffic: bounds.Traffic = field(default_factory=bounds.Traffic)


@dataclass(frozen=True)
class Snapshot:
    """Device memory before a launch: contents by their offset, and which blocks of malloc's heap
    are in use.
    """

    contents: list[tuple[int, np.ndarray]]
    heap: Heap | None


class Emulator:
    """Answers one program. `records`: where what is known of each launch goes, a line of JSON
    each.
    """

    def __init__(
        self, link: socket.socket, options: Options, folder: Path, records: IO[str]
    ) -> None:
        self.connection, self.options, self.folder, self.records = (
            Connection(link),
            options,
            folder,
            records,
        )
        self.modules: dict[int, Loaded] = {}
        self.launches = 0
        self.said: set[str] = set()
        # of launches, where `--once` asks for the first of each
        self.shapes: set[tuple[object, ...]] = set()
        # by the name that messages use: call and place
        self.allocations: dict[str, tuple[str, tuple[Place, ...]]] = {}
        self.timeline = Timeline()
        self.of_host: dict[int, int] = {}  # start and end of memory that host code may touch, too
        self.profiled = False  # whether a profiler's range is open
        self.process = 0
        self.executable = ""
        self.annotated: tuple[Kernel, Counters] | None = None
        self.bounded: tuple[Work, Counters, bounds.Traffic] | None = None

    # the conversation

    def serve(self) -> None:
        """Answer messages until the program ends, each by the method of its name."""
        try:
            message, payload, descriptor = self.connection.receive_with_file()
            if message != Message.HELLO:
                return
            self.connection.send(self.hello(payload, descriptor))
            while True:
                message, payload = self.connection.receive()
                answer: Callable[[Payload], Reply | None] = getattr(self, message.name.lower())
                reply = answer(payload)
                if message not in UNANSWERED:
                    self.connection.send(reply or Reply().u32(OK))
        except (EOFError, ConnectionError):
            pass
        finally:
            self.finish()

    def say(self, text: str) -> None:
        """Print a line for the user."""
        with contextlib.suppress(OSError):
            sys.stderr.write(f"ptxsim: {self.with_places(text)}\n")
            sys.stderr.flush()

    def once(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            if not self.options.quiet:
                self.say(f"note: {text}")
            self.record("note", {"text": self.with_places(text)})

    def record(self, kind: str, content: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.records.write(json.dumps({"kind": kind, **content}) + "\n")
            self.records.flush()

    def report(self, kind: str, text: str) -> None:
        """Print a line, and record it."""
        self.say(text)
        self.record(kind, {"text": self.with_places(text)})

    def line(self, places: Iterable[Place]) -> str | None:
        """The line of the program's source from which a call comes, if it is known; not of Python's
        interpreter.
        """
        return None if Path(self.executable).name.startswith("python") else elf.first_line(places)

    def with_places(self, text: str) -> str:
        """Add to a message the lines at which allocations that it names were made."""

        def with_call(match: re.Match[str]) -> str:
            call, places = self.allocations[match[0]]
            line = self.line(places)
            return f"{match[0]} ({call}{f' at {line}' if line else ''})"

        known = "|".join(map(re.escape, sorted(self.allocations, key=len, reverse=True)))
        return (
            re.sub(rf"(?:{known})\b", with_call, text) if known and "allocation " in text else text
        )

    def hello(self, payload: Payload, descriptor: int) -> Reply:
        self.process, base, span, self.executable = (
            payload.u32(),
            payload.u64(),
            payload.u64(),
            payload.text(),
        )
        assert base == GLOBAL_BASE, "core.hpp and memory.py disagree"
        self.descriptor = descriptor
        shared = mmap.mmap(descriptor, span, flags=mmap.MAP_SHARED)
        gpu = self.options.gpu
        self.memory = DeviceMemory(np.frombuffer(shared, np.uint8), Device(gpu.sms, gpu.clock_mhz))
        reply = Reply().text(gpu.name)
        clocks = (round(gpu.clock_mhz * 1000), round(gpu.memory_clock_mhz * 1000))
        for value in (*divmod(gpu.architecture, 10), gpu.sms, *clocks, gpu.bus_bits, gpu.l2_bytes):
            reply.u32(value)
        held = gpu.limits
        of_sm = (held.registers, 32 * held.warps, held.blocks)
        for value in (held.shared_bytes, held.shared_bytes_of_block, *of_sm):
            reply.u32(value)
        return reply.u64(gpu.memory_bytes)

    def note(self, payload: Payload) -> None:
        kind, call = Note(payload.u32()), payload.text()
        text = re.sub(r"\b_Z\w+", lambda name: split(name[0])[0], payload.text())
        line = self.line(payload.places())
        colon = "" if kind == Note.UNSUPPORTED else ":"
        message = f"{call}{f' at {line}' if line else ''}{colon} {text}" if call else text
        if kind == Note.ONCE:
            self.once(message)
            return
        self.report(
            {Note.REMARK: "note", Note.API_ERROR: "api_error"}.get(kind, "unsupported"), message
        )

    def host_fault(self, payload: Payload) -> Reply:
        """Report that host code touched device memory, or memory of the host that work under way
        uses.
        """
        address, writes = payload.u64(), payload.u32()
        line = self.line(place for place in payload.places() if place.file == self.executable)
        held = self.memory.holder(address)
        if held is not None and held.start in self.of_host:
            culprit, free = self.timeline.host_touches(address, bool(writes))
            if free:
                at = f"host code{f' at {line}' if line else ''} {'writes' if writes else 'reads'}"
                if culprit is not None:
                    where = self.within(address)
                    text = f"race with the host: {at} what {culprit.what} may still use, at {where}: no synchronisation"
                    self.report("host_fault", text)
                return protections(Reply().u32(1), free)
        if held is not None:
            where = f"{address - held.start} bytes into {held.name}"
            remedy = "; copy it by cudaMemcpy, or allocate it by cudaMallocManaged"
        else:
            self.memory.finish()
            where, remedy = self.memory.nearest(address - GLOBAL_BASE), ""
        at = f"host code{f' at {line}' if line else ''}"
        verb = "writes" if writes else "reads"
        self.report("host_fault", f"{at} {verb} device memory at 0x{address:x}, {where}{remedy}")
        return Reply().u32(OK)

    # what orders the program's work

    def within(self, address: int) -> str:
        """An address, and where that is in its allocation."""
        held = self.memory.holder(address)
        return f"0x{address:x}" + (
            f", {address - held.start} bytes into {held.name}" if held is not None else ""
        )

    def order(self, payload: Payload) -> Reply:
        """The host waits for work, or a stream for an event; of one that is recorded, the reply has
        the time in ns.
        """
        what, stream, event = Ordering(payload.u32()), payload.u64(), payload.u64()
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
                self.memory.device.copied(0)  # so that each has a time of its own
                return protections(Reply(), free).u64(self.memory.device.ns)
            case Ordering.WAITS:
                self.timeline.wait(stream, event)
            case Ordering.CREATED:
                self.timeline.streams = True
                if event:  # it does not wait for the default stream
                    self.timeline.alone.add(stream)
            case Ordering.PROFILES:
                self.profiled = bool(event)
        return protections(Reply(), free)

    def copied(self, payload: Payload) -> Reply:
        """A copy, or a fill, was made in a stream."""
        to, to_pitch, source, from_pitch, width, height = (payload.u64() for _ in range(6))
        stream, of_stream, call = payload.u64(), payload.u32(), payload.text()
        line = self.line(payload.places())
        self.memory.device.copied(width * height)
        work = self.timeline.issue(stream, f"{call}{f' at {line}' if line else ''}")
        inside = [self.memory.holder(address) is not None for address in (to, source)]
        if inside[0]:
            work.writes = rows(to, to_pitch, width, height)
        if source and inside[1]:
            work.reads = rows(source, from_pitch, width, height)
        reply = self.issued(work)
        on_device = inside[0] and (not source or inside[1]) and not self.touches_host(work)
        # in a stream the host goes on, of pageable memory with a copy of it
        goes_on = inside[0] or not source if of_stream else on_device
        if goes_on:
            return reply
        return protections(Reply(), self.timeline.host_waits(stream=stream))

    def touches_host(self, work: Issued) -> bool:
        """Whether a work uses memory of the host."""
        spans = np.concatenate([work.reads, work.writes])
        return any(
            ((spans[:, 0] < end) & (spans[:, 1] > start)).any()
            for start, end in self.of_host.items()
        )

    def issued(self, work: Issued) -> Reply:
        """What a work touches is known: report its races, and keep the host from its memory."""
        for text, address in self.timeline.done(work):
            where = self.within(address)
            self.report(
                "host_fault", f"{text}, at {where}: no event or synchronisation orders the two"
            )
        return protections(Reply(), self.timeline.protect(work, list(self.of_host.items())))

    # memory

    def allocated(self, payload: Payload) -> None:
        address, size, kind = payload.u64(), payload.u64(), MemoryKind(payload.u32())
        name = f"allocation {len(self.allocations) + 1}"
        self.allocations[name] = payload.text(), payload.places()
        self.memory.allocated(
            address, size, name, written=kind in (MemoryKind.MANAGED, MemoryKind.HOST)
        )
        if kind in (MemoryKind.MANAGED, MemoryKind.HOST):
            self.of_host[address] = address + size

    def freed(self, payload: Payload) -> None:
        address = payload.u64()
        self.of_host.pop(address, None)
        textures.release(self.memory, address)
        self.memory.release(address)

    def written(self, payload: Payload) -> None:
        self.memory.written(payload.u64(), payload.u64(), payload.u64(), payload.u64())

    def texture(self, payload: Payload) -> None:
        handle, address, size, form, channels = (
            payload.u64(),
            payload.u64(),
            payload.u64(),
            payload.u32(),
            payload.u32(),
        )
        data = self.memory.whole[:0].view(textures.DTYPES[form])
        made = Texture(Array(data, "texture"), channels, nbytes=size)
        made.address = address
        made.elements = size // made.element_bytes
        self.memory.textures[handle] = made

    def array_texture(self, payload: Payload) -> Reply:
        """Add a texture or surface of a CUDA array; the reply says why there can be none, or
        nothing.
        """
        try:
            textures.add(payload, self.memory)
        except PtxsimError as error:
            return Reply().text(str(error))
        return Reply().text("")

    def texture_gone(self, payload: Payload) -> None:
        self.memory.textures.pop(payload.u64(), None)

    def tensor_map(self, payload: Payload) -> None:
        """Add a tensor map, encoded in 128 bytes by `standins/driver.cpp`.

        It must refer to allocated memory.
        """
        raw = payload.take(128)
        assert raw[:16] == MAGIC
        number, address = (int.from_bytes(raw[at : at + 8], "little") for at in (16, 24))
        kind, rank, swizzle, _ = raw[32:36]
        box = [n + 1 for n in raw[36 : 36 + rank]]
        shape = [int(n) + 1 for n in np.frombuffer(raw, "u4", rank, 44)]
        strides = [int(n) for n in np.frombuffer(raw, "u8", rank - 1, 64)]
        held = self.memory.holder(address)
        name = held.name if held is not None else f"0x{address:x}"
        view = Array(np.zeros(0, np.uint8), name)
        at = address - GLOBAL_BASE
        end = held.end - GLOBAL_BASE if held is not None else at
        view._data = self.memory.whole[at:end] if held is not None else self.memory.whole[:0]
        try:
            if held is None:
                raise PtxsimError(
                    f"cuTensorMapEncodeTiled: the address 0x{address:x} is in no allocation"
                )
            made = TensorMap(
                view, box[::-1], shape[::-1], strides[::-1], MAP_TYPES[kind], swizzle * 16
            )
        except PtxsimError as error:
            self.report("api_error", str(error))
            whole = Array(np.zeros(16, np.uint8), name)
            made = TensorMap(whole, (16,))
        made.address = address
        assert number == len(self.memory.tensor_maps)
        self.memory.tensor_maps.append(made)

    def gemm(self, payload: Payload) -> Reply:
        began = time.perf_counter()
        work = blas.Gemm.read(payload)
        try:
            self.memory.finish()
            blas.compute(work, self.memory)
            self.memory.device.launched()
            self.memory.device.executed(work.instructions)
        except PtxsimError as error:
            self.report("api_error", f"{work.call}: {error}")
            return Reply().u32(OK).u32(1)
        if not self.options.quiet:
            seconds = time.perf_counter() - began
            self.say(
                f"{work.call}: {work.m} x {work.n} x {work.k}: {seconds:.2f} s, by NumPy, not emulated"
            )
        self.record(
            "library",
            {"call": work.call, "m": work.m, "n": work.n, "k": work.k, "batch": work.batch},
        )
        return Reply().u32(OK).u32(0)

    # modules

    def module_load(self, payload: Payload) -> Reply:
        number, contents = payload.u32(), [payload.raw() for _ in range(payload.u32())]
        place = payload.place()
        try:
            loaded = self.load(contents, number)
        except (PtxsimError, OSError) as error:
            reason = (
                f"cannot write {self.folder}: {error.strerror}"
                if isinstance(error, OSError)
                else str(error)
            )
            self.report("unsupported", f"{Path(place.file or self.executable).name}: {reason}")
            return Reply().u32(
                NO_BINARY
                if "compute capability" in str(error) or "machine code" in str(error)
                else INVALID_PTX
            )
        self.modules[number] = loaded
        reply = Reply().u32(OK).u32(len(loaded.variables))
        managed = self.managed
        for name, variable in loaded.variables.items():
            reply.text(name).u64(variable.size).u32(
                (variable.space == "const") | (name in managed) << 1
            )
        reply.u32(len(loaded.ptx.entries))
        for name in loaded.ptx.entries:
            reply.text(name)
        return reply

    def load(self, contents: list[bytes], number: int) -> Loaded:
        """A module; of relocatable device code the linked machine code, and the parts that it was
        made of.
        """
        chosen = fatbin.choose_all(
            [fatbin.unpacked(content, self.folder) for content in contents],
            self.options.gpu.architecture,
        )
        texts = [
            (text.content or b"").decode(errors="replace") for text, _ in chosen if text is not None
        ]
        cubin, machine_code = None, chosen[0][1]
        if machine_code is not None:
            cubin = self.folder / f"{os.getpid()}-{number}.cubin"
            cubin.write_bytes(machine_code.content or b"")
        if not texts and cubin is not None:
            with contextlib.suppress(PtxError):
                texts = [held for held in [sass.embedded_ptx(cubin)] if held is not None]
        if not texts:
            raise PtxsimError(
                "its kernels are machine code only; add PTX: nvcc -gencode "
                "arch=compute_90a,code=[sm_90a,compute_90a] (ptxsim nvcc does so)"
            )
        self.managed = {name for text in texts for name in MANAGED.findall(text)}
        module = linked([parse(text) for text in texts])
        inner = [v for f in module.functions.values() for v in f.variables]
        variables = {v.name: v for v in (*module.variables.values(), *inner)}
        kept = {
            n: v
            for n, v in variables.items()
            if v.space in ("global", "const") and not v.extern and not v.opaque
        }
        return Loaded(module, cubin, kept)

    def module_place(self, payload: Payload) -> Reply:
        loaded = self.modules[payload.u32()]
        addresses = {}
        for _ in loaded.variables:
            name = payload.text()
            addresses[name] = payload.u64()
        for name, address in addresses.items():
            held = self.memory.live[address]
            self.memory.live[address] = replace(held, name=demangled(name))
            self.allocations.pop(held.name, None)
        try:
            if loaded.ptx.functions:
                self.memory.place(loaded.ptx, loaded.variables.values(), addresses)
        except PtxsimError as error:
            self.say(str(error))
            return Reply().u32(INVALID_PTX)
        return Reply().u32(OK)

    def kernel(self, payload: Payload) -> Reply:
        loaded, name = self.modules[payload.u32()], payload.text()
        if name not in loaded.ptx.entries:
            return Reply().u32(NOT_FOUND)
        try:
            kernel = self.kernel_of(loaded, name)
        except PtxsimError as error:
            self.report("unsupported", f"{split(name)[0]}: {error}")
            return Reply().u32(NOT_SUPPORTED)
        program = kernel.program
        reply = Reply().u32(OK).u32(len(program.parameters))
        for parameter in program.parameters:
            reply.u32(parameter.offset).u32(parameter.variable.size)
        registers = self.registers(loaded, name)
        attributes = program.entry.attributes
        threads = 1024
        for bound in ("reqntid", "maxntid"):
            if bound in attributes:
                threads = min(threads, int(np.prod(attributes[bound])))
        if registers:
            threads = min(threads, max(32, 65536 // (-(-registers // 8) * 8) // 32 * 32))
        constants = sum(v.size for v in loaded.variables.values() if v.space == "const")
        for value in (
            program.static_shared_bytes,
            program.local_bytes,
            registers,
            threads,
            constants,
        ):
            reply.u32(value)
        for size in (*attributes.get("reqnctapercluster", (0, 0, 0)), 1, 1)[:3]:
            reply.u32(size)
        return reply

    def registers(self, loaded: Loaded, name: str) -> int:
        """The registers of a thread, by the machine code; 0 where there is none."""
        if name not in loaded.registers:
            loaded.registers[name] = 0
            with contextlib.suppress(PtxError):
                loaded.registers[name] = (
                    sass.read(loaded.cubin, name).registers if loaded.cubin is not None else 0
                )
        return loaded.registers[name]

    def kernel_of(self, loaded: Loaded, name: str) -> Kernel:
        if name not in loaded.kernels:
            made = Kernel(loaded.ptx, name, memory=self.memory)
            if loaded.cubin is not None:
                # without line information, or of other PTX: the rule must do
                with contextlib.suppress(PtxError):
                    made.use_cubin(loaded.cubin)
            loaded.kernels[name] = made
            if not loaded.warned and not any(i.location for i in made.program.code):
                loaded.warned = True
                self.once(
                    "the program's kernels have no line information: compile with nvcc -lineinfo to see source lines"
                )
        return loaded.kernels[name]

    # launches

    def launch(self, payload: Payload) -> Reply:
        loaded = self.modules[payload.u32()]
        kernel = self.kernel_of(loaded, payload.text())
        grid, block, cluster = (_three(payload) for _ in range(3))
        shared, _, may_park, raw = payload.u64(), payload.u32(), payload.u32(), payload.raw()
        stream, line = payload.u64(), self.line(payload.places())
        self.launches += 1
        program = kernel.program
        args = [raw[p.offset : p.offset + p.variable.size] for p in program.parameters]
        chosen = self.launches > self.options.skip_launches and self.options.chosen(
            kernel.name, kernel.title
        )
        shape = (kernel, grid, block, cluster, shared)
        again = self.options.once and chosen and shape in self.shapes
        new_shape = chosen and shape not in self.shapes
        self.shapes |= {shape} if chosen else set()
        began, device = time.perf_counter(), self.memory.device
        work = Work(kernel, grid, block, args, shared, cluster if any(cluster) else None)
        try:
            of_cluster = kernel.cluster_of(grid, work.cluster)
        except PtxsimError as error:
            self.report("api_error", str(error))
            return Reply().u32(CLUSTER_SIZE).u32(OK).u32(OK).text("")
        self.memory.finish()
        touched = Touched(self.memory) if self.timeline.streams or self.of_host else None
        if may_park and touched is not None and not program.allocates:
            touched.of_host = self.of_host
        issued = self.timeline.issue(
            stream, f"kernel {kernel.title}{f', launched at {line},' if line else ''}"
        )
        blocks = self.sampled(work) if again or (chosen and not self.options.once) else None
        chosen = chosen and not again
        textures.prepare(self.memory)
        before = device.ns
        try:
            run = self.emulate(work, chosen, blocks, touched)
        except WaitsForHost:
            device.ns, self.launches = before, self.launches - 1
            self.shapes -= {shape} if new_shape else set()
            return Reply().u32(PARKED)
        fetched, stored = textures.used(self.memory)
        record = LaunchRecord(
            self.process,
            self.launches,
            kernel.name,
            kernel.title,
            grid,
            block,
            of_cluster,
            shared,
            time.perf_counter() - began,
            device.ns - before,
            self.registers(loaded, kernel.name) or None,
            self.profiled,
            chosen,
            run.blocks,
            run.sampled,
            [replace(fault, text=self.with_places(fault.text)) for fault in run.faults],
            run.notes,
        )
        if run.counters is not None and not record.sampled:
            record.sums = run.counters.sums()
            record.lines = costs(run.counters)
        elif record.sampled and chosen:
            record.sums = self.predicted(work, record)
        wanted = self.options.annotate
        if wanted and run.counters is not None and matches(wanted, kernel.name, kernel.title):
            self.annotated = kernel, run.counters
        wanted = self.options.bounds
        if (
            wanted
            and run.counters is not None
            and not record.sampled
            and matches(wanted, kernel.name, kernel.title)
        ):
            self.bounded = work, run.counters, run.traffic
        for fault in run.faults:
            self.say(fault.text)
        for text in run.notes:
            self.once(text)
        if not self.options.quiet:
            if self.launches <= MOST_LINES:
                self.say(record.line())
            if self.launches == MOST_LINES:
                self.say(
                    f"note: launches after the first {MOST_LINES} are not listed one by one; --report has them all"
                )
        self.record("launch", asdict(record))
        if touched is not None:
            issued.reads = merged(touched.spans(touched.read), fetched)
            issued.writes = merged(touched.spans(touched.written), stored)
        pages = self.issued(issued)
        later = run.fatal if self.options.destroy_context else OK
        once = OK if self.options.destroy_context else run.fatal
        if run.fatal == NOT_SUPPORTED:  # nothing of it was done
            return Reply().u32(NOT_SUPPORTED).u32(OK).u32(OK).text(run.printed)
        return Reply().u32(OK).u32(later).u32(once).text(run.printed).and_then(pages)

    def emulate(
        self, work: Work, chosen: bool, blocks: np.ndarray | None, touched: Touched | None = None
    ) -> Run:
        """Run the blocks (None: all). All faults of a launch are found: threads that a fault does
        not stop go on. A fault that a device would survive, but that ends blocks here (a missed
        barrier, for example), makes the launch run again without the check that found it, so that
        its results are complete."""
        options, kernel = self.options, work.kernel
        checks = Checks() if chosen and options.checks else NONE
        total = int(np.prod(work.grid)) if blocks is None else len(blocks)
        before = self.snapshot() if checks != NONE else None
        found: dict[tuple[str, Kind], Found] = {}
        began = self.memory.device.ns

        def run(code: int, failure: FaultRecord | None = None, nothing_done: bool = False) -> Run:
            """Return the result. `failure`: why the launch ended, where that is not among the
            faults found.
            """
            faults = [
                *(
                    FaultRecord(str(f), f.kind, f.where)
                    for f in found.values()
                    if f.accepted is None
                ),
                *([failure] if failure else []),
            ]
            accepted = [f.acceptance for f in found.values() if f.accepted is not None]
            if nothing_done:
                return Run(faults, NOT_SUPPORTED, [], None, "", 0)
            counted = counters if code == OK else None
            sampled = blocks is not None and failure is None
            return Run(
                faults,
                code,
                [*accepted, *notes],
                counted,
                printed.getvalue(),
                total,
                sampled,
                traffic,
            )

        while True:
            counters, traffic = Counters() if chosen else None, bounds.Traffic()
            watching: list[Observer] = [] if counters is None else [counters]
            watching += [traffic] if chosen and options.bounds else []
            watching += [touched] if touched is not None else []
            printed = io.StringIO()
            self.memory.device.ns = began
            notes: tuple[str, ...] = ()
            # whatever ends the launch, what it found until then is there
            kernel.machine.diag.prepare(Faults())
            failure: FaultRecord | None = None
            code = OK
            try:
                with self.limited(kernel.title), contextlib.redirect_stdout(printed):
                    notes = kernel.launch(
                        work.grid,
                        work.block,
                        work.args,
                        work.shared,
                        observers=watching,
                        checks=checks,
                        limits=Limits(thread_instructions=float("inf")),
                        blocks=None if blocks is None else blocks.tolist(),
                        cluster=work.cluster,
                        stop_at_first=options.stop_at_first,
                        accept=options.accept,
                    ).notes
            except WaitsForHost:  # and is run again: what it printed, it prints then
                raise
            except (PtxError, NoEntryError) as error:
                return run(
                    NOT_SUPPORTED, FaultRecord(f"{kernel.title}: {error}"), nothing_done=True
                )
            except MemoryError:
                if checks.global_races:
                    checks = replace(checks, global_races=False)
                    self.once(
                        "races in global memory are not looked for where device memory is too large for that"
                    )
                    continue
                return run(
                    FAILURE, FaultRecord(f"{kernel.title}: out of memory while it was emulated")
                )
            except KernelFault as fault:  # with --stop-at-first
                failure = FaultRecord(str(fault), fault.kind, fault.where)
                code = FATAL.get(fault.kind, FAILURE)
            except PtxsimError as error:
                failure = FaultRecord(str(error))
                code = TIMEOUT if isinstance(error, TooLong) else FAILURE
            except Exception:
                self.record("internal", {"text": report_own_failure(f"{kernel.title}: ")})
                return run(FAILURE)
            latest = kernel.machine.diag.faults.found
            found |= latest
            fatal = next(
                (FATAL[f.kind] for f in found.values() if f.kind in FATAL and f.accepted is None),
                OK,
            )
            code = fatal or code
            ended = next((f for f in latest.values() if f.ended and f.kind not in FATAL), None)
            if code == OK and ended is not None:
                weaker = checks.without(ended.kind)
                if weaker != checks and before is not None:
                    self.restore(before)
                    checks = weaker
                    continue
                if weaker != checks:
                    self.once(
                        f"{kernel.title}: its results are incomplete: a launch is not run again after such a fault "
                        f"where more than {MOST_SNAPSHOT >> 20} MiB of device memory are in use"
                    )
                code = FAILURE
            if code != OK or blocks is not None or checks == NONE:
                self.memory.all_written()
            return run(code, failure)

    def sampled(self, work: Work) -> np.ndarray | None:
        """The blocks of a large grid that are run; None: all."""
        total, wanted = int(np.prod(work.grid)), self.options.sample
        if wanted is None or total <= wanted:
            return None
        if polling.across_blocks(work.kernel.machine.scheduler.polls) is not None:
            self.once(
                f"{work.kernel.title}: its blocks wait for each other: all of them are run, despite --sample"
            )
            return None
        cluster = work.kernel.cluster_of(work.grid, work.cluster)
        units = max(1, wanted // int(np.prod(cluster)))
        chosen = np.unique(np.linspace(0, total - 1, units).astype(np.int64))
        first = in_clusters(work.grid, cluster, chosen)
        return np.asarray(first)

    def predicted(self, work: Work, record: LaunchRecord) -> dict[str, float] | None:
        """Counters of the whole grid, from a few blocks; computed in a private copy of the
        memory.
        """
        kernel = work.kernel
        try:
            private = mmap.mmap(self.descriptor, len(self.memory.data), flags=mmap.MAP_PRIVATE)
            kernel.memory = self.memory.onto(np.frombuffer(private, np.uint8))
            found = prediction.predict(
                kernel,
                work.grid,
                work.block,
                work.args,
                work.shared,
                None,
                Limits(thread_instructions=float("inf")),
                work.cluster,
            )
            return as_sums(found.totals)
        except (PtxsimError, OSError) as error:
            record.notes.append(f"no counters are predicted: {error}")
            self.once(record.notes[-1])
            return None
        finally:
            kernel.memory = self.memory

    @contextlib.contextmanager
    def limited(self, name: str) -> Iterator[None]:
        """End a launch that takes longer than --limit."""
        seconds = self.options.limit
        if seconds is None:
            yield
            return

        def too_long(number: int, frame: object) -> None:
            raise TooLong(
                f"{name}: the launch took longer than {seconds:g} seconds (--limit) and was ended"
            )

        old = signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)

    # memory as it was before a launch

    def resident(self) -> list[tuple[int, int]]:
        """Parts of device memory that were ever touched, as offsets."""
        found, at, size = [], 0, len(self.memory.whole)
        while at < size:
            try:
                start = os.lseek(self.descriptor, at, os.SEEK_DATA)
            except OSError:  # no more
                break
            at = os.lseek(self.descriptor, start, os.SEEK_HOLE)
            found.append((start, at))
        return found

    def snapshot(self) -> Snapshot | None:
        """Return a copy of device memory; None where that is too much."""
        parts = self.resident()
        if sum(end - start for start, end in parts) > MOST_SNAPSHOT:
            return None
        contents = [(start, self.memory.whole[start:end].copy()) for start, end in parts]
        return Snapshot(contents, deepcopy(self.memory.heap))

    def restore(self, before: Snapshot) -> None:
        for start, end in self.resident():
            self.memory.whole[start:end] = 0
        for start, data in before.contents:
            self.memory.whole[start : start + len(data)] = data
        self.memory.heap = deepcopy(before.heap)

    # the end

    def finish(self) -> None:
        """Write the records that come last, as the program has ended."""
        if self.options.leaks:
            self.note_leaks()
        if self.annotated is not None:
            kernel, counters = self.annotated
            try:
                near = [Path.cwd(), Path(self.executable).parent]
                text = "\n".join(listing(kernel, counters, near=near)) + "\n"
            except PtxsimError as error:
                text = f"ptxsim: --annotate: {error}\n"
            self.record("annotation", {"text": text})
        if self.bounded is not None:
            try:
                text = self.bounds_of(*self.bounded)
            except PtxsimError as error:
                text = f"ptxsim: --bounds: {error}"
            self.record("bounds", {"text": f"{text}\n"})
        self.record("end", {"process": self.process, "launches": self.launches})

    def note_leaks(self) -> None:
        """Note what was allocated and not freed, by the call and its place."""
        left: dict[str, list[int]] = {}
        for held in self.memory.live.values():
            if held.name in self.allocations:
                call, places = self.allocations[held.name]
                line = self.line(places)
                left.setdefault(f"{call}{f' at {line}' if line else ''}", []).append(
                    held.end - held.start
                )
        for what, sizes in left.items():
            self.once(
                f"not freed when the program ended: {sum(sizes):,} bytes of {what}, allocated {len(sizes)} times"
            )

    def bounds_of(self, work: Work, counters: Counters, traffic: bounds.Traffic) -> str:
        """The minimum cycles that each resource of the device needs for a launch."""
        kernel, gpu = work.kernel, self.options.gpu
        if kernel.cubin is None:
            raise PtxsimError(
                f"{kernel.title}: the program has no machine code for it with line information"
            )
        function = sass.read(kernel.cubin, kernel.name)
        seen = bounds.Work.observed(counters, traffic)
        return bounds.compute(
            function, kernel.program, seen, machines.of_gpu(gpu), work.shared
        ).table()


@dataclass
class Work:
    """A launch to be emulated."""

    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: list[bytes]
    shared: int
    cluster: tuple[int, int, int] | None


def protections(reply: Reply, found: list[Protection]) -> Reply:
    """Add to a reply which pages host code may touch from now on."""
    reply.u32(len(found))
    for start, end, may in found:
        reply.u64(start).u64(end).u32(may)
    return reply


def _three(payload: Payload) -> tuple[int, int, int]:
    return payload.u32(), payload.u32(), payload.u32()


def demangled(name: str) -> str:
    return f"variable {plain_name(name)}"


def linked(parts: list[Module]) -> Module:
    """Link modules that name each other's functions and variables into one."""
    first = parts[0]
    for part in parts[1:]:
        for name, variable in part.variables.items():
            if name not in first.variables or first.variables[name].extern:
                first.variables[name] = variable
        for name, function in part.functions.items():
            if name not in first.functions or first.functions[name].code is None:
                first.functions[name] = function
    return first


def as_sums(totals: Mapping[str, float]) -> dict[str, float]:
    """Totals as they add up over launches: ratios as what they are made of."""
    found = {name: value for name, value in totals.items() if not name.endswith(".ratio")}
    for kind in ("ld", "st"):
        ratio = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}.ratio"
        sectors = totals.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum", 0)
        found |= {ratio + BYTES: totals.get(ratio, 0) * sectors, ratio + SECTORS: sectors}
    return found


def costs(counters: Counters) -> list[dict[str, Any]]:
    """Return the costs of the accesses of each line of the source."""
    found = []
    for (file, line), stats in counters.by_line().items():
        row = {
            "file": file,
            "line": line,
            "wavefronts": sum(s.wavefronts for s in stats),
            "wavefronts_ideal": sum(s.ideal for s in stats),
            "sectors": sum(s.sectors for s in stats),
            "sectors_ideal": sum(s.ideal_sectors for s in stats),
            "global_bytes": sum(s.bytes for s in stats),
        }
        if row["wavefronts"] or row["sectors"]:
            found.append(row)
    return found
