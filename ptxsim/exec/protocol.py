"""Messages between the stand-ins and the emulator, as `standins/core.hpp` writes them.

A message is its number and the size of its payload (both u32, little-endian), then the payload; a
reply is its size and its bytes. Text is its size (u32) and its bytes.
"""

from __future__ import annotations

import enum
import socket
import struct
from dataclasses import dataclass

from ..ptx.sizes import Dim3


class Message(enum.IntEnum):
    """Messages of the stand-ins. All but those in UNANSWERED get a reply."""

    HELLO = 1
    ALLOCATED = 2
    FREED = 3
    WRITTEN = 4
    MODULE_LOAD = 5
    MODULE_PLACE = 6
    KERNEL = 7
    LAUNCH = 8
    NOTE = 9
    TEXTURE = 10
    TEXTURE_GONE = 11
    TENSOR_MAP = 12
    GEMM = 13
    HOST_FAULT = 14
    ORDER = 15
    COPIED = 16
    ARRAY_TEXTURE = 17


UNANSWERED = {Message.ALLOCATED, Message.FREED, Message.WRITTEN}
UNANSWERED |= {Message.TEXTURE, Message.TEXTURE_GONE, Message.TENSOR_MAP}


class Error(enum.IntEnum):
    """Errors of CUDA, as replies have them."""

    NONE = 0
    NO_BINARY = 209
    INVALID_PTX = 218
    NOT_FOUND = 500
    ILLEGAL_ADDRESS = 700
    TIMEOUT = 702
    ASSERT = 710
    ILLEGAL_INSTRUCTION = 715
    MISALIGNED = 716
    LAUNCH_FAILURE = 719
    NOT_SUPPORTED = 801
    CLUSTER_SIZE = 912
    # This is no error: the launch waits for the host.
    PARKED = 0xFFFFFFFF


class Ordering(enum.IntEnum):
    """Kinds of ORDER: what the host has waited for; an event recorded in a stream, or awaited by
    one; a new stream; a profiler's range that begins or ends."""

    ALL_DONE = 0
    STREAM_DONE = 1
    EVENT_DONE = 2
    RECORDED = 3
    WAITS = 4
    CREATED = 5
    PROFILES = 6


class Note(enum.IntEnum):
    """Kinds of NOTE. API errors and calls that are not there count as errors of the run."""

    REMARK = 0
    # The same text is printed once.
    ONCE = 1
    API_ERROR = 2
    UNSUPPORTED = 3


class MemoryKind(enum.IntEnum):
    """Kinds of ALLOCATED memory."""

    DEVICE = 0
    MANAGED = 1
    HOST = 2
    VARIABLE = 3
    MANAGED_VARIABLE = 4


@dataclass(frozen=True)
class Frame:
    """One frame of a call stack: the object file, and the offset in it as it is loaded."""

    file: str
    offset: int


class Payload:
    """Reads a message's payload in order."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def take(self, size: int) -> bytes:
        content = self._content[self._at : self._at + size]
        self._at += size
        return content

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def u64s(self, count: int) -> list[int]:
        return [self.u64() for _ in range(count)]

    def size(self) -> Dim3:
        return self.u32(), self.u32(), self.u32()

    def f64(self) -> float:
        return float(struct.unpack("<d", self.take(8))[0])

    def raw(self) -> bytes:
        return self.take(self.u32())

    def text(self) -> str:
        return self.raw().decode(errors="replace")

    def frame(self) -> Frame:
        return Frame(self.text(), self.u64())

    def frames(self) -> tuple[Frame, ...]:
        """Read the call stack, innermost frame first."""
        return tuple(self.frame() for _ in range(self.u32()))


class Reply:
    """Builds a reply."""

    def __init__(self) -> None:
        self.content = bytearray()

    def u32(self, value: int) -> Reply:
        self.content += value.to_bytes(4, "little")
        return self

    def u64(self, value: int) -> Reply:
        self.content += value.to_bytes(8, "little")
        return self

    def and_then(self, other: Reply) -> Reply:
        self.content += other.content
        return self

    def text(self, value: str | bytes) -> Reply:
        raw = value.encode() if isinstance(value, str) else value
        self.u32(len(raw)).content += raw
        return self


class Connection:
    """The emulator's end of the socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._held = b""

    def _read(self, size: int) -> bytes:
        while len(self._held) < size:
            part = self._link.recv(max(1 << 16, size - len(self._held)))
            if not part:
                raise EOFError
            self._held += part
        content, self._held = self._held[:size], self._held[size:]
        return content

    def receive(self) -> tuple[Message, Payload]:
        """Return the next message. Raises `EOFError` where the program has ended."""
        number, size = struct.unpack("<II", self._read(8))
        return Message(number), Payload(self._read(size))

    def receive_with_file(self) -> tuple[Message, Payload, int]:
        """Return the first message, which brings the descriptor of the device's memory."""
        self._held, files, _, _ = socket.recv_fds(self._link, 1 << 16, 1)
        if not self._held or not files:
            raise EOFError
        return *self.receive(), files[0]

    def send(self, reply: Reply) -> None:
        self._link.sendall(len(reply.content).to_bytes(4, "little") + reply.content)
