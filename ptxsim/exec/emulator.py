"""The emulator's end of a program: one process for each process that uses CUDA, until that ends."""

from __future__ import annotations

import mmap
import socket
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from ..engine.device_memory import DeviceMemory
from ..machine.device import Device
from ..machine.memory import GLOBAL_BASE
from .allocations import Allocations
from .blas import Library
from .host_order import HostOrder
from .launches import Launches
from .modules import Modules
from .options import Options
from .protocol import UNANSWERED, Connection, Error, Message, Payload, Reply
from .reporter import Reporter

Handlers = dict[Message, Callable[[Payload], Reply | None]]


class Emulator:
    """Answers one program. `records`: where what is known of each launch goes, a line of JSON
    each.
    """

    def __init__(
        self, link: socket.socket, options: Options, folder: Path, records: IO[str]
    ) -> None:
        self.connection, self.options, self.folder = Connection(link), options, folder
        self.reporter = Reporter(options, records)
        self.process = 0
        self.launches: Launches | None = None
        self.allocations: Allocations | None = None

    def serve(self) -> None:
        """Answer messages until the program ends, each by its handler."""
        try:
            message, payload, descriptor = self.connection.receive_with_file()
            if message != Message.HELLO:
                return
            handlers = self._begin(payload, descriptor)
            self.connection.send(self._describe_gpu())
            while True:
                message, payload = self.connection.receive()
                reply = handlers[message](payload)
                if self.launches is not None and message not in (Message.LAUNCH, Message.ORDER):
                    self.launches.repeats.changes += 1
                if message not in UNANSWERED:
                    self.connection.send(reply or Reply().u32(Error.NONE))
        except (EOFError, ConnectionError):
            pass
        finally:
            self._finish()

    def _begin(self, payload: Payload, descriptor: int) -> Handlers:
        """Take over the program's device memory. Return what answers each message."""
        self.process, (base, span), reporter = payload.u32(), payload.u64s(2), self.reporter
        reporter.executable = payload.text()
        assert base == GLOBAL_BASE, "core.hpp and memory.py disagree"
        shared = mmap.mmap(descriptor, span, flags=mmap.MAP_SHARED)
        gpu = self.options.gpu
        memory = DeviceMemory(np.frombuffer(shared, np.uint8), Device(gpu.sms, gpu.clock_mhz))
        memory.process = self.process
        order = HostOrder(memory, reporter)
        modules = Modules(memory, self.options, self.folder, reporter)
        self.allocations = allocations = Allocations(memory, order, reporter)
        self.launches = Launches(
            memory, descriptor, modules, order, self.options, reporter, self.process
        )
        return {
            Message.ALLOCATED: allocations.allocated,
            Message.FREED: allocations.freed,
            Message.WRITTEN: allocations.written,
            Message.TEXTURE: allocations.texture,
            Message.TEXTURE_GONE: allocations.texture_gone,
            Message.ARRAY_TEXTURE: allocations.array_texture,
            Message.TENSOR_MAP: allocations.tensor_map,
            Message.MODULE_LOAD: modules.load,
            Message.MODULE_PLACE: modules.place,
            Message.KERNEL: modules.kernel,
            Message.LAUNCH: self.launches.launch,
            Message.GEMM: Library(memory, self.options, reporter).gemm,
            Message.ORDER: order.order,
            Message.COPIED: order.copied,
            Message.HOST_FAULT: order.host_fault,
            Message.NOTE: reporter.note,
        }

    def _describe_gpu(self) -> Reply:
        """Return the reply to HELLO: what the program's device is."""
        gpu = self.options.gpu
        reply, limits = Reply().text(gpu.name), gpu.limits
        clocks = (round(gpu.clock_mhz * 1000), round(gpu.memory_clock_mhz * 1000))
        for value in (*divmod(gpu.architecture, 10), gpu.sms, *clocks, gpu.bus_bits, gpu.l2_bytes):
            reply.u32(value)
        of_sm = (limits.registers, 32 * limits.warps, limits.blocks)
        of_l2 = (gpu.persisting_l2_bytes, gpu.access_window_bytes)
        for value in (limits.shared_bytes, limits.shared_bytes_of_block, *of_sm, *of_l2):
            reply.u32(value)
        return reply.u64(gpu.memory_bytes)

    def _finish(self) -> None:
        """Write the records that come last, as the program has ended."""
        if self.allocations is not None and self.options.leak_check:
            self.allocations.note_leaks()
        if self.launches is not None:
            self.launches.finish()
        count = self.launches.count if self.launches is not None else 0
        self.reporter.record("end", {"process": self.process, "launches": count})
