"""Locks a GPU's SM and memory clocks through NVML while a block runs, and undoes it however that
ends.

    python -m experiments.stages.try_lock --lock --left-out left_out.txt

tries it for a moment; without `--lock` it only writes that locking was not asked for. Clocks belong
to everybody on the GPU, so nothing is set unless it was asked for, and nothing while another
process computes there.

The reset is registered before the lock is taken: it runs when the block ends, at an exception,
SIGINT, SIGTERM or SIGHUP, and at the exit of the interpreter. For what cannot be caught (SIGKILL, a
crash) a journal is written first, and the user's next run that holds the GPU, for whatever, undoes
what it records. The journal lies in the user's own state folder ($XDG_STATE_HOME, else
~/.local/state), one a GPU, named after a hash of its UUID. A driver that is loaded anew has no
clocks locked, so a journal from before the last boot is dropped. NVML does not tell which clocks
were locked before: what an administrator had locked is unlocked at the end, too.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import filelock
import numpy as np
import pynvml

from contracts import UserError, write_text

logger = logging.getLogger(__name__)

TOLERANCE = 0.01  # of the target: a sample whose clock is farther off is rejected
QUIET_S = 5.0  # how long a process that ended a moment ago may still be listed on the GPU
# the second: the library is too old for the query
UNANSWERED = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOT_ASKED = (
    "not asked for; remedy: --config lock_clocks=true (needs root, and sets the GPU's clocks for everybody on it while "
    "it measures)"
)
BY_HAND = "by hand, as root: nvidia-smi --reset-gpu-clocks; nvidia-smi --reset-memory-clocks"


@dataclass(frozen=True)
class Target:
    """The clocks that are locked, in MHz; None for a memory clock that NVML cannot lock on this
    GPU.
    """

    sm_mhz: int
    memory_mhz: int | None

    @property
    def clock_source(self) -> str:
        """How the clock policy was had, as in windows.csv."""
        memory = (
            f" and memory at {self.memory_mhz} MHz"
            if self.memory_mhz
            else ", memory clock as found"
        )
        return f"SM locked at {self.sm_mhz} MHz{memory}, through NVML"


def on_target(clock_mhz: np.ndarray | float, target_mhz: float) -> np.ndarray:
    """Which clocks lie within 1% of the target; one that is not known (NaN) does not."""
    return np.abs(np.asarray(clock_mhz, float) - target_mhz) <= TOLERANCE * target_mhz


def choose_target(
    handle: object, sm_mhz: int | None = None, memory_mhz: int | None = None
) -> Target:
    """The clocks that are named, else the base clock and the highest memory clock that goes with
    it.

    Raises `UserError` with the nearest ones for a clock that the GPU does not offer, and where NVML
    does not tell.
    """
    try:
        memories = pynvml.nvmlDeviceGetSupportedMemoryClocks(handle)
        if memory_mhz is not None:
            _check_offered("lock_memory_mhz", memory_mhz, memories)
        offered = {
            mhz: pynvml.nvmlDeviceGetSupportedGraphicsClocks(handle, mhz)
            for mhz in ([memory_mhz] if memory_mhz else memories)
        }
    except pynvml.NVMLError as error:
        raise UserError(
            f"NVML does not tell which clocks this GPU offers ({error}); none is locked"
        ) from error
    every = sorted({mhz for clocks in offered.values() for mhz in clocks})
    if not every:
        raise UserError("NVML offers no clock of this GPU to lock")
    if sm_mhz is None:
        base = base_clock(handle)
        sm_mhz = min(every, key=lambda mhz: abs(mhz - base))
        if not on_target(sm_mhz, base):
            raise UserError(
                f"the base clock, {base} MHz, is not offered by this GPU; {_nearest(base, every)}"
            )
    _check_offered("lock_sm_mhz", sm_mhz, every)
    return Target(sm_mhz, max(mhz for mhz, clocks in offered.items() if sm_mhz in clocks))


def _check_offered(key: str, mhz: int, offered: list[int]) -> None:
    if mhz not in offered:
        raise UserError(
            f"{key} = {mhz} is not a clock that this GPU offers; {_nearest(mhz, offered)}"
        )


def _nearest(mhz: int, offered: list[int]) -> str:
    near = sorted(sorted(offered, key=lambda other: abs(other - mhz))[:3])
    return f"nearest: {', '.join(map(str, near))} MHz"


def base_clock(handle: object) -> int:
    """The base SM clock in MHz, from `nvidia-smi base-clocks`: NVML itself has no query for it."""
    remedy = "remedy: name a clock, --config lock_sm_mhz=..."
    if not (tool := shutil.which("nvidia-smi")):
        raise UserError(f"the base clock is not known: no nvidia-smi on PATH; {remedy}")
    command = [tool, "base-clocks", "-i", str(pynvml.nvmlDeviceGetIndex(handle))]
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"Graphics\D*(\d+)\s*MHz", done.stdout) or re.search(
        r"(\d+)\s*MHz", done.stdout
    )
    if done.returncode or not found:
        said = " ".join((done.stdout + done.stderr).split())[:80] or "nothing"
        raise UserError(
            f"the base clock is not known: nvidia-smi base-clocks said {said!r}; {remedy}"
        )
    return int(found[1])


def refuse_if_shared(handle: object) -> None:
    """Raise `UserError` where another process computes on the GPU, and goes on for `QUIET_S`.

    One in another container is not listed; only the load on the GPU shows it.
    """
    deadline = time.monotonic() + QUIET_S
    while found := _others(handle):
        if time.monotonic() > deadline:
            raise UserError(
                f"clocks are not locked: {found} on this GPU; wait until it is free, or choose another with "
                "CUDA_VISIBLE_DEVICES"
            )
        time.sleep(0.2)


def _others(handle: object) -> str | None:
    try:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except UNANSWERED as error:
        raise UserError(
            f"NVML does not tell whether another process computes here ({error}); not locked"
        ) from error
    with contextlib.suppress(*UNANSWERED):  # no MPS
        processes = processes + pynvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)
    if pids := sorted({process.pid for process in processes} - {os.getpid()}):
        return f"another process computes (pid {', '.join(map(str, pids))})"
    with contextlib.suppress(pynvml.NVMLError):
        busy = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
        if busy and not processes:
            return f"something that is not listed computes ({busy}% busy)"
    return None


@contextlib.contextmanager
def locked(
    handle: object, sm_mhz: int | None = None, memory_mhz: int | None = None
) -> Iterator[Target]:
    """Lock the clocks of a GPU that is held until the block ends; the target is what samples are
    held against.

    Raises `UserError` where that is refused, with the remedy, and where the clocks cannot be reset
    afterwards.
    """
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    path = journal_path(uuid)
    with _sole(path):
        _repair(path, uuid)
        target = choose_target(handle, sm_mhz, memory_mhz)
        refuse_if_shared(handle)
        undo = _Undo(path, uuid)
        with _Signals() as signals:
            atexit.register(undo)
            try:
                try:
                    undo.write_journal()
                    yield _take(handle, target, undo, memory_named=memory_mhz is not None)
                finally:
                    signals.hold()
            except BaseException as error:
                if failed := undo():
                    if isinstance(error, UserError | pynvml.NVMLError):
                        raise UserError(f"{error}; and {failed}") from error
                    logger.error(f"error: {failed}")
                raise
            else:
                if failed := undo():
                    raise UserError(failed)
            finally:
                atexit.unregister(undo)


def _take(handle: object, target: Target, undo: _Undo, *, memory_named: bool) -> Target:
    def lock(setter: Callable[[object, int, int], None], mhz: int) -> None:
        before, undo.needed = undo.needed, True
        try:
            setter(handle, mhz, mhz)
        except pynvml.NVMLError:
            undo.needed = before
            raise

    try:
        if target.memory_mhz is not None:
            try:
                lock(pynvml.nvmlDeviceSetMemoryLockedClocks, target.memory_mhz)
            except pynvml.NVMLError_NotSupported:
                if memory_named:
                    raise
                target = Target(target.sm_mhz, None)
        lock(pynvml.nvmlDeviceSetGpuLockedClocks, target.sm_mhz)
    except pynvml.NVMLError_NoPermission as error:
        raise UserError(
            "no permission to lock the clocks of this GPU; remedy: run as root (a container needs SYS_ADMIN), or leave "
            "lock_clocks=false"
        ) from error
    except pynvml.NVMLError as error:
        raise UserError(f"the clocks of this GPU cannot be locked: NVML says {error}") from error
    return target


class _Undo:
    """Resets what was locked, once; returns why it could not."""

    def __init__(self, path: Path, uuid: str) -> None:
        self.path, self.uuid, self.needed = path, uuid, False

    def write_journal(self) -> None:
        write_text(self.path, json.dumps({"boot_id": _boot_id(), "pid": os.getpid()}) + "\n")

    def __call__(self) -> str | None:
        if self.needed:
            try:
                _reset(self.uuid)
            except pynvml.NVMLError as error:
                return f"the clocks of this GPU stay locked ({error}): the next run on it tries again; {BY_HAND}"
            self.needed = False
        self.path.unlink(missing_ok=True)
        return None


class _Signals:
    """Turns the first signal that would end the process into an exception, and holds back the
    others.

    After `hold`, and once one was raised, none cuts short what undoes the lock; one that came
    meanwhile is raised at the end of the block.
    """

    def __init__(self) -> None:
        self._held, self._pending = False, 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # what nohup ignores stays ignored
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._arrived)
        return self

    def hold(self) -> None:
        self._held = True

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._pending = number
            return
        self._held = True
        self._end(number)

    def _end(self, number: int) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        logger.warning(f"ended by {signal.Signals(number).name}")
        raise SystemExit(128 + number)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._pending and error is None:
            self._end(self._pending)


def journal_path(uuid: str) -> Path:
    """Where the journal of a GPU lies. The UUID itself is not shown."""
    named = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
    return folder / "gemm-ladder" / f"clocks-{hashlib.sha256(uuid.encode()).hexdigest()[:12]}.json"


def repair(uuid: str) -> None:
    """Undo what a run that was killed left locked on this GPU; without a journal of one, NVML is
    not even asked.
    """
    path = journal_path(uuid)
    if path.exists():
        with _sole(path):
            _repair(path, uuid)


@contextlib.contextmanager
def _sole(path: Path) -> Iterator[None]:
    """Hold the journal; its lock goes with the process, so that only a dead one's journal can be
    had.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise UserError(
            "another run holds the clocks of this GPU locked; wait for it to end"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _repair(path: Path, uuid: str) -> None:
    if not path.exists():
        return
    try:
        boot_id = json.loads(path.read_text())["boot_id"]
    except (ValueError, KeyError, TypeError):
        boot_id = _boot_id()  # damaged: as if it were of today
    if boot_id == _boot_id():
        try:
            _reset(uuid)
        except pynvml.NVMLError as error:
            raise UserError(
                "a run that was killed left the clocks of this GPU locked, and they cannot be reset "
                f"({error}); {BY_HAND}; then remove {path}"
            ) from error
        logger.warning("a run that was killed had left the clocks of this GPU locked: reset")
    path.unlink()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _reset(uuid: str) -> None:
    """Unlock both clocks; the first error is raised after both were tried.

    NVML need not be initialised.
    """
    first = None
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        for reset in (
            pynvml.nvmlDeviceResetGpuLockedClocks,
            pynvml.nvmlDeviceResetMemoryLockedClocks,
        ):
            try:
                reset(handle)
            except pynvml.NVMLError_NotSupported:  # then it was not locked either
                continue
            except pynvml.NVMLError as error:
                first = first or error
    finally:
        pynvml.nvmlShutdown()
    if first:
        raise first


def memory_off_target(handle: object, target: Target) -> str | None:
    """How the memory clock differs from what was locked, by NVML; None where it does not, or is not
    known.
    """
    if target.memory_mhz is None:
        return None
    try:
        mhz = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)
    except pynvml.NVMLError_NotSupported:
        return None
    return (
        None
        if on_target(mhz, target.memory_mhz)
        else f"the memory ran at {mhz} MHz, not {target.memory_mhz}"
    )


def lock_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that name clocks."""
    parser.add_argument("--sm-mhz", type=int, help="SM clock to lock; default: the base clock")
    parser.add_argument(
        "--memory-mhz",
        type=int,
        help="memory clock to lock; default: the highest that goes with it",
    )
