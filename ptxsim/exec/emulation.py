"""One launch of a program: run, and run again without a check whose fault ended blocks, so that its
results are those of a device.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..count import bounds
from ..count.counters import Counters
from ..engine.device_memory import DeviceMemory
from ..errors import KernelFault, Kind, PtxError, PtxsimError, report_own_failure
from ..interface import Kernel
from ..machine.faults import Faults, Found
from ..machine.launch import NO_CHECKS, Checks, Limits
from ..machine.memory import Heap
from ..machine.observer import Observer
from ..ptx.sizes import Dim3
from .options import OPPOSITE, WHY, Options
from .protocol import Error
from .records import FaultRecord
from .reporter import Reporter
from .timeline import Touched, WaitsForHost

# A device ends a kernel with this error, by the kind of its fault; it survives others.
FATAL = {
    Kind.BOUNDS: Error.ILLEGAL_ADDRESS,
    Kind.ALIGNMENT: Error.MISALIGNED,
    Kind.ASSERT: Error.ASSERT,
    Kind.DEADLOCK: Error.TIMEOUT,
    Kind.LIMIT: Error.TIMEOUT,
    Kind.TRAP: Error.LAUNCH_FAILURE,
    Kind.MASK: Error.ILLEGAL_INSTRUCTION,
    Kind.MEMORY: Error.LAUNCH_FAILURE,
}
# `Snapshot` holds contents of device memory by offset, and which blocks of malloc's heap are in
# use.
Snapshot = tuple[list[tuple[int, np.ndarray]], Heap | None]
# How far a launch is that takes this many seconds is said once.
LONG = 10.0
# At most this many bytes of device memory are stored to run a launch again.
MAX_SNAPSHOT = 256 << 20


class TooLongError(PtxsimError):
    """A launch took longer than --limit."""


@dataclass
class Launch:
    """A launch to be emulated; `cluster`: as the launch gives it."""

    kernel: Kernel
    grid: Dim3
    block: Dim3
    args: list[bytes]
    # `shared_bytes` counts dynamic shared memory alone.
    shared_bytes: int
    cluster: Dim3 | None
    cooperative: bool

    @property
    def shape(self) -> tuple[object, ...]:
        """Return what launches that cost the same have in common."""
        return self.kernel, self.grid, self.block, self.cluster, self.shared_bytes

    @property
    def blocks(self) -> int:
        return int(np.prod(self.grid))


@dataclass
class Run:
    """The result of emulating a launch."""

    faults: list[FaultRecord]
    # The program gets this error.
    fatal: Error
    notes: list[str]
    counters: Counters | None
    traffic: bounds.Traffic
    printed: str
    blocks: int
    # `sampled` is true where only some of the grid's blocks were run.
    sampled: bool

    @property
    def plain(self) -> bool:
        """Return whether it has neither faults nor output."""
        return not self.faults and self.fatal == Error.NONE and not self.printed

    @classmethod
    def left_out(cls) -> Run:
        """Return the result of a launch whose results are there already."""
        return cls([], Error.NONE, [], None, bounds.Traffic(), "", 0, False)


class Process(Protocol):
    """The process that a launch belongs to; `descriptor`: of its device memory's file."""

    memory: DeviceMemory
    descriptor: int
    options: Options
    reporter: Reporter


class Emulation:
    """One launch under way. All faults of it are found: threads that a fault does not stop go on.

    `chosen`: whether it is checked and counted. `blocks`: those to run; None: all. `touched`: notes
    the memory that it touches.
    """

    def __init__(
        self,
        process: Process,
        launch: Launch,
        chosen: bool,
        blocks: np.ndarray | None,
        touched: Touched | None,
    ) -> None:
        self.memory, self.descriptor = process.memory, process.descriptor
        self.options, self.reporter = process.options, process.reporter
        self.launch, self.chosen, self.blocks, self.touched = launch, chosen, blocks, touched
        self.title = launch.kernel.title
        self.faults: dict[tuple[str, Kind], Found] = {}
        self.notes: tuple[str, ...] = ()

    def run(self) -> Run:
        """Run the launch. A fault that a device would survive, but that ends blocks here (a missed
        barrier, for example), makes it run again without the check that found it.

        Raises `WaitsForHost`: nothing is done yet, and it is to be run again later.
        """
        checks = Checks() if self.chosen and self.options.checks else NO_CHECKS
        before = self._snapshot() if checks != NO_CHECKS else None
        began = self.memory.device.ns
        while True:
            self.memory.device.ns = began
            try:
                code, failure = self._attempt(checks)
            except MemoryError:
                if checks.global_races:
                    checks = replace(checks, global_races=False)
                    self.reporter.once(
                        "races in global memory are not looked for where device memory is too large for that"
                    )
                    continue
                code = Error.LAUNCH_FAILURE
                failure = FaultRecord(f"{self.title}: out of memory while it was emulated")
            latest = self.launch.kernel.machine.diag.faults.recorded
            self.faults |= latest
            code = self._fatal(code)
            weaker = self._weaker(checks, latest) if code == Error.NONE else None
            if weaker is None or weaker == checks or before is None:
                break
            self._restore(before)
            checks = weaker
        if weaker is not None:
            # Blocks have ended, and the launch cannot be run again.
            code = Error.LAUNCH_FAILURE
            if weaker != checks:
                self.reporter.once(
                    f"{self.title}: its results are incomplete: a launch is not run again after such a fault "
                    f"where more than {MAX_SNAPSHOT >> 20} MiB of device memory are in use"
                )
        if code == Error.NOT_SUPPORTED:
            return self._result(code, failure)
        if code != Error.NONE or self.blocks is not None or checks == NO_CHECKS:
            self.memory.all_written()
        if (
            self.options.orders == 2
            and code == Error.NONE
            and checks == Checks()
            and not self.faults
        ):
            failure = self._run_backwards(checks, before)
        return self._result(code, failure)

    def _run_backwards(self, checks: Checks, before: Snapshot | None) -> FaultRecord | None:
        """Run a launch without faults once more in the opposite order: its faults count, and where
        other bytes come out, that is a note. All else stays as the first run left it.
        """
        after = self._snapshot()
        if before is None or after is None:
            self.reporter.once(
                f"{self.title}: is not run in the opposite order, as more than {MAX_SNAPSHOT >> 20} MiB of device "
                "memory are in use"
            )
            return None
        first, ns = dict(vars(self)), self.memory.device.ns
        self._restore(before)
        _, failure = self._attempt(checks, backwards=True)
        latest = self.launch.kernel.machine.diag.faults.recorded
        notes = {*self.notes} - {*first["notes"]}
        if not latest and failure is None and (difference := self._differs(after[0])) is not None:
            notes.add(f"{self.title}: {OPPOSITE}, memory is left otherwise: {difference}; {WHY}")
        vars(self).update(first)
        self.faults = {
            key: replace(f, message=f"{f.message} ({OPPOSITE})") for key, f in latest.items()
        }
        self.notes = (*self.notes, *sorted(notes))
        self._restore(after)
        self.memory.device.ns = ns
        return failure and replace(failure, text=f"{failure.text} ({OPPOSITE})")

    def _differs(self, contents: list[tuple[int, np.ndarray]]) -> str | None:
        """Return a description of the first byte of device memory that differs from `contents`."""
        for start, data in contents:
            current = self.memory.whole[start : start + len(data)]
            if not np.array_equal(current, data):
                at = start + int(np.argmax(current != data))
                return (
                    f"{self.memory.nearest(at)}, {np.count_nonzero(current != data):,} bytes in all"
                )
        return None

    def _attempt(self, checks: Checks, backwards: bool = False) -> tuple[Error, FaultRecord | None]:
        """Run the launch once. Return the error that it ends with, and why, where that is not among
        the faults that it goes on from. `backwards`: in the opposite order, and not observed.
        """
        kernel, launch, self.backwards = self.launch.kernel, self.launch, backwards
        self.counters = Counters() if self.chosen else None
        self.traffic, self.printed = bounds.Traffic(), io.StringIO()
        self.notes = ()
        watching: list[Observer | None] = [self.counters, self.touched]
        watching += [self.traffic] if self.chosen and self.options.bounds else []
        limits = Limits(thread_instructions=float("inf"))
        if self.options.limit is not None:
            limits = replace(limits, steps=float("inf"))
        # The faults found until the launch ends are there, whatever ends it.
        kernel.machine.diag.prepare(Faults())
        try:
            with self._limited(), contextlib.redirect_stdout(self.printed):
                self.notes = kernel.launch(
                    launch.grid,
                    launch.block,
                    launch.args,
                    launch.shared_bytes,
                    observers=[] if backwards else [w for w in watching if w is not None],
                    checks=checks,
                    limits=limits,
                    blocks=None if self.blocks is None else self.blocks.tolist(),
                    cluster=launch.cluster,
                    cooperative=launch.cooperative,
                    backwards=backwards,
                    stop_at_first=self.options.stop_at_first,
                    accept=self.options.accept,
                ).notes
        except (WaitsForHost, MemoryError):
            raise
        except PtxError as error:
            return Error.NOT_SUPPORTED, FaultRecord(f"{self.title}: {error}")
        except KernelFault as fault:
            # A fault is raised with --stop-at-first alone.
            code = FATAL.get(fault.kind, Error.LAUNCH_FAILURE)
            return code, FaultRecord(str(fault), fault.kind, fault.where)
        except TooLongError as error:
            return Error.TIMEOUT, FaultRecord(str(error))
        except PtxsimError as error:
            return Error.LAUNCH_FAILURE, FaultRecord(str(error))
        except Exception:
            self.reporter.record("internal", {"text": report_own_failure(f"{self.title}: ")})
            return Error.LAUNCH_FAILURE, None
        return Error.NONE, None

    def _fatal(self, code: Error) -> Error:
        """Return the error with which a device would end the kernel, by the faults found, or else
        the one given.
        """
        fatal = [f for f in self.faults.values() if f.kind in FATAL and f.accepted is None]
        return FATAL[fatal[0].kind] if fatal else code

    @staticmethod
    def _weaker(checks: Checks, latest: dict[tuple[str, Kind], Found]) -> Checks | None:
        """Return the checks without the one whose fault ended blocks; None where none did."""
        ended = [f for f in latest.values() if f.ended and f.kind not in FATAL]
        return checks.without(ended[0].kind) if ended else None

    def _result(self, code: Error, failure: FaultRecord | None) -> Run:
        records = self.faults.values()
        faults = [FaultRecord(str(f), f.kind, f.where) for f in records if f.accepted is None]
        total = self.launch.blocks if self.blocks is None else len(self.blocks)
        return Run(
            faults=[*faults, *([failure] if failure is not None else [])],
            fatal=code,
            notes=[*(f.acceptance for f in records if f.accepted is not None), *self.notes],
            counters=self.counters if code == Error.NONE else None,
            traffic=self.traffic,
            printed=self.printed.getvalue(),
            blocks=0 if code == Error.NOT_SUPPORTED else total,
            sampled=self.blocks is not None and failure is None,
        )

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """End a launch that takes longer than --limit; say how far one is that takes long."""
        limit = self.options.limit
        alarms = sorted({LONG, limit} if limit is not None else {LONG})

        def ring(number: int, frame: object) -> None:
            seconds = alarms.pop(0)
            if seconds == limit:
                what = f"the launch took longer than {limit:g} seconds (--limit) and was ended"
                raise TooLongError(f"{self.title}: {what}{self._progress()}")
            if not self.options.quiet:
                self.reporter.say(f"{self.title}: still runs after {seconds:g} s{self._progress()}")
            if alarms:
                signal.setitimer(signal.ITIMER_REAL, alarms[0] - seconds)

        old = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, alarms[0])
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)

    def _progress(self) -> str:
        """Return how many blocks have run, and what to do; "" where --sample would not help."""
        total = self.launch.blocks
        if self.blocks is not None or total == 1:
            return ""
        first = int(self.launch.kernel.machine.state.blocks[0])
        done = total - 1 - first if self.backwards else first
        return (
            f", with {done:,} of its {total:,} blocks done: --sample 4 runs a few blocks and predicts the counters; "
            "results are then incomplete"
        )

    # memory as it was before the launch

    def _resident(self) -> list[tuple[int, int]]:
        """Return parts of device memory that were ever touched, as offsets."""
        parts, at, size = [], 0, len(self.memory.whole)
        while at < size:
            try:
                start = os.lseek(self.descriptor, at, os.SEEK_DATA)
            except OSError:
                # There is no more data.
                break
            at = os.lseek(self.descriptor, start, os.SEEK_HOLE)
            parts.append((start, at))
        return parts

    def _snapshot(self) -> Snapshot | None:
        """Return a copy of device memory, contents by their offset, and which blocks of malloc's
        heap are in use; None where that is too much.
        """
        parts = self._resident()
        if sum(end - start for start, end in parts) > MAX_SNAPSHOT:
            return None
        contents = [(start, self.memory.whole[start:end].copy()) for start, end in parts]
        return contents, deepcopy(self.memory.heap)

    def _restore(self, before: Snapshot) -> None:
        contents, heap = before
        for start, end in self._resident():
            self.memory.whole[start:end] = 0
        for start, data in contents:
            self.memory.whole[start : start + len(data)] = data
        self.memory.heap = deepcopy(heap)
