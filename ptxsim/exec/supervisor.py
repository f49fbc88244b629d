"""Starts the program, forks an emulator for each of its processes that uses CUDA, and leaves
nothing behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import json
import os
import re
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ..errors import PtxError, PtxsimError, report_own_failure
from . import build
from .emulator import Emulator
from .options import Options

PREFIX = "ptxsim-exec-"
# This variable of the environment says where the emulator listens.
SOCKET = "PTXSIM_EXEC_SOCKET"
# An emulator has this many seconds to end by itself once its program has ended.
GRACE = 1.0
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(number: int) -> None:
    """Make the kernel send this signal to the calling process when its parent ends, for whatever
    reason.
    """
    libc.prctl(PR_SET_PDEATHSIG, number)


def environment(standins: Path, address: str) -> dict[str, str]:
    """Return the environment of a program that is to find the stand-ins and the emulator."""
    variables = dict(os.environ)
    folders = [str(standins), variables.get("LD_LIBRARY_PATH", "")]
    with contextlib.suppress(PtxError):
        folders += map(str, build.library_folders())
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    variables[SOCKET] = address
    return variables


class PrivateFolder:
    """A folder of this process alone; removes those of earlier ones that were killed."""

    def __enter__(self) -> Path:
        base = Path(tempfile.gettempdir())
        for old in base.glob(f"{PREFIX}*"):
            number = re.match(rf"{PREFIX}(\d+)-", old.name)
            if number and not Path(f"/proc/{number[1]}").exists():
                with contextlib.suppress(OSError):
                    if old.stat().st_uid == os.getuid():
                        shutil.rmtree(old, ignore_errors=True)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        except OSError as error:
            raise PtxsimError(
                f"no private folder can be made in {base}: {error.strerror}"
            ) from None
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


@dataclass
class Worker:
    """An emulator process."""

    pid: int
    # The emulator answers this process.
    peer: int
    # The handle is a pidfd; None once the process has ended.
    peer_handle: int | None
    pipe: int
    ended: bool = False
    pending: bytes = b""
    # The emulator must end by this time, as its program has ended.
    deadline: float | None = None
    # `stopping` is true once the emulator was asked to end.
    stopping: bool = False


@dataclass
class Outcome:
    """The outcome of a run."""

    # The status of the program is as a shell gives it.
    status: int
    records: list[dict[str, Any]] = field(default_factory=list)


class Supervisor:
    """Listens for programs, and keeps one emulator for each."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.records: list[dict[str, Any]] = []
        self.workers: list[Worker] = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.address)
        self.listener.listen(64)
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    @property
    def address(self) -> str:
        return str(self.folder / "socket")

    def accept(self) -> None:
        try:
            link, _ = self.listener.accept()
        except OSError:
            return
        peer, user, _ = struct.unpack(
            "3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )
        if user != os.getuid():
            link.close()
            return
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            self.work(link, write)
        link.close()
        os.close(write)
        os.set_blocking(read, False)
        try:
            handle = os.pidfd_open(peer)
        except OSError:
            handle = None
        worker = Worker(pid, peer, handle, read)
        if handle is None:
            worker.deadline = time.monotonic() + GRACE
        self.workers.append(worker)
        self.selector.register(read, selectors.EVENT_READ, lambda: self.hear(worker))
        if handle is not None:
            self.selector.register(handle, selectors.EVENT_READ, lambda: self.orphan(worker))

    def work(self, link: socket.socket, write: int) -> NoReturn:
        """Run an emulator in the new process."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent(signal.SIGKILL)
            self.listener.close()
            with os.fdopen(write, "w") as records:
                Emulator(link, self.options, self.folder, records).serve()
            status = 0
        except SystemExit:
            status = 0
        except BaseException:
            with contextlib.suppress(OSError):
                report_own_failure()
        finally:
            os._exit(status)

    def hear(self, worker: Worker) -> None:
        """Take records of an emulator; at their end, its own."""
        part = b""
        with contextlib.suppress(BlockingIOError):
            part = os.read(worker.pipe, 1 << 20)
            worker.pending += part
            *lines, worker.pending = worker.pending.split(b"\n")
            self.records += [json.loads(line) for line in lines]
            if part:
                return
        if part == b"" and not worker.ended:
            self.selector.unregister(worker.pipe)
            os.close(worker.pipe)
            _, status = os.waitpid(worker.pid, 0)
            worker.ended = True
            if status and not worker.stopping:
                how = "with an error"
                if os.WIFSIGNALED(status):
                    how = f"by signal {os.WTERMSIG(status)}"
                text = f"the emulator of process {worker.peer} has ended {how}"
                print(f"ptxsim: {text}", file=sys.stderr)
                self.records.append(
                    {"kind": "lost" if os.WIFSIGNALED(status) else "internal", "text": text}
                )

    def orphan(self, worker: Worker) -> None:
        """Note that the process that an emulator answers has ended."""
        assert worker.peer_handle is not None
        self.selector.unregister(worker.peer_handle)
        os.close(worker.peer_handle)
        worker.peer_handle = None
        worker.deadline = time.monotonic() + GRACE

    def turn(self, timeout: float) -> None:
        """Wait for something to happen, and see to it."""
        for key, _ in self.selector.select(timeout):
            key.data()
        for worker in self.workers:
            if worker.ended or worker.deadline is None or time.monotonic() < worker.deadline:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL if worker.stopping else signal.SIGTERM)
            worker.stopping, worker.deadline = True, time.monotonic() + GRACE

    @property
    def busy(self) -> bool:
        return any(not worker.ended for worker in self.workers)

    def close(self) -> None:
        """End the processes that are left."""
        for worker in self.workers:
            if not worker.ended:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(worker.pid, 0)
        self.selector.close()
        self.listener.close()


def run(
    program: Path,
    command: Sequence[str],
    options: Options,
    standins: Path,
    stderr: int | None = None,
) -> Outcome:
    """Run a program, with its arguments as `command`, to its end. `stderr`: a descriptor that it
    has in place of this process's."""
    with PrivateFolder() as folder:
        supervisor = Supervisor(options, folder)
        reading, waking = os.pipe()
        os.set_blocking(waking, False)
        os.set_blocking(reading, False)
        signal.set_wakeup_fd(waking)
        interrupts: list[int] = []
        old = {
            number: signal.signal(number, lambda n, _: interrupts.append(n))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
        }
        supervisor.selector.register(
            reading, selectors.EVENT_READ, lambda: os.read(reading, 1 << 12)
        )
        gc.collect()
        gc.freeze()
        try:
            try:
                started = subprocess.Popen(
                    list(command),
                    executable=program.absolute(),
                    env=environment(standins, supervisor.address),
                    stderr=stderr,
                    preexec_fn=lambda: die_with_parent(signal.SIGTERM),
                )
            except OSError as error:
                why = error.strerror
                if error.errno == errno.ENOEXEC:
                    why = "neither a program nor a script that begins with #!"
                raise PtxsimError(f"{command[0]}: {why}") from None
            while started.poll() is None:
                supervisor.turn(0.5)
                signalled = [n for n in interrupts if n != signal.SIGCHLD]
                interrupts.clear()
                if signalled and started.poll() is None and signalled[0] != signal.SIGINT:
                    # The terminal sends SIGINT to the program itself; other signals are passed on.
                    started.send_signal(signalled[0])
            while supervisor.busy:
                supervisor.turn(0.1)
                if any(n != signal.SIGCHLD for n in interrupts):
                    break
            code = started.returncode
            return Outcome(128 - code if code < 0 else code, supervisor.records)
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in old.items():
                signal.signal(number, handler)
            supervisor.close()
            for end in (reading, waking):
                os.close(end)
