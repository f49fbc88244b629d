"""Launches that would do again what an earlier one did, as in a benchmark's loop: `exec --once` leaves
them out.

What a launch writes follows from its arguments and from the memory that it reads. So where an
earlier one with the same arguments read nothing that it wrote itself, and all that it read and
wrote still holds what it left there, running it again changes nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from ..engine.device_memory import DeviceMemory
from ..machine.memory import GLOBAL_BASE
from ..ptx import polling
from ..ptx.program import Program
from .emulation import Launch
from .timeline import Spans, Touched


@dataclass
class Done:
    """What a launch read and wrote, and a digest of both as it left them."""

    reads: Spans
    writes: Spans
    digest: bytes
    device_ns: int  # that it took on the device's clock


class Repeats:
    """The launches of a process that need not be run again, by their arguments."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        self.done: dict[tuple[object, ...], Done] = {}

    def find(self, launch: Launch) -> Done | None:
        """Return what such a launch did, where memory is as it left it; its results are there."""
        done = self.done.get(_key(launch))
        if done is None or self._digest(done.reads, done.writes) != done.digest:
            return None
        for start, end in done.writes.tolist():
            self.memory.written(start, end - start)
        return done

    def keep(self, launch: Launch, touched: Touched, device_ns: int) -> None:
        """Remember a launch that ran to its end, without faults and without output."""
        reads, writes = touched.spans(touched.read), touched.spans(touched.written)
        digest = self._digest(reads, writes)
        alike = follows_from_memory(launch.kernel.program) and not _meet(reads, writes)
        if alike and digest is not None:
            self.done[_key(launch)] = Done(reads, writes, digest, device_ns)

    def _digest(self, *parts: Spans) -> bytes | None:
        """A digest of bytes of device memory; None where some of it was freed."""
        found = hashlib.blake2b(digest_size=16)
        for start, end in np.concatenate(parts).tolist():
            holder = self.memory.holder(start)
            if holder is None or end > holder.end + 3:  # spans are of whole words
                return None
            found.update(self.memory.whole[start - GLOBAL_BASE : end - GLOBAL_BASE].data)
        return found.digest()


def _meet(some: Spans, others: Spans) -> bool:
    """Whether any bytes are in both."""
    begun = np.searchsorted(some[:, 0], others[:, 1], "left")
    return bool((begun > np.searchsorted(some[:, 1], others[:, 0], "right")).any())


def _key(launch: Launch) -> tuple[object, ...]:
    return *launch.shape, *launch.args


def follows_from_memory(program: Program) -> bool:
    """Whether arguments and global memory alone decide what a program writes."""
    others = {"tex", "tld4", "suld", "sust", "sured", "tensormap"} & {*program.opcodes}
    return not (program.allocates or others or any(map(polling.reads_clock, program.code)))
