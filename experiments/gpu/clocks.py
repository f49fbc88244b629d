"""Locks a GPU's SM and memory clocks through NVML while a block runs, and undoes it however that
ends.

    python -m experiments.stages.try_lock --lock --left-out left_out.txt

tries it for a moment; without `--lock` it only writes that locking was not asked for. Clocks belong
to everybody on the GPU, so nothing is set unless it was asked for, and nothing while another
process computes there.

A file is written before the lock is taken: one line, the boot of the machine, in the user's own
state folder ($XDG_STATE_HOME, else ~/.local/state). `unlock` resets the clocks and removes it, at
the end of the block, after an error or a signal, and at the exit of the interpreter. What cannot be
caught (SIGKILL, a crash) leaves the file, and the user's next run that holds the GPU, for whatever,
unlocks it. After a reboot no clocks are locked, and the file counts no more. NVML does not tell
which clocks were locked before: what an administrator had locked is unlocked at the end, too.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import logging
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

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
    if sm_mhz is None:
        base = base_clock(handle)
        near = [mhz for mhz in every if on_target(mhz, base)]
        sm_mhz = min(near, key=lambda mhz: abs(mhz - base), default=base)
    _check_offered("lock_sm_mhz", sm_mhz, every)
    return Target(sm_mhz, max(mhz for mhz, clocks in offered.items() if sm_mhz in clocks))


def _check_offered(key: str, mhz: int, offered: list[int]) -> None:
    if mhz not in offered:
        near = sorted(sorted(offered, key=lambda other: abs(other - mhz))[:3])
        nearest = f"{', '.join(map(str, near)) or 'none'} MHz"
        raise UserError(f"{key} = {mhz} is not a clock that this GPU offers; nearest: {nearest}")


def base_clock(handle: object) -> int:
    """The base SM clock in MHz, from `nvidia-smi base-clocks`: NVML itself has no query for it."""
    tool, output = shutil.which("nvidia-smi"), "nothing: it is not on PATH"
    if tool:
        command = [tool, "base-clocks", "-i", str(pynvml.nvmlDeviceGetIndex(handle))]
        done = subprocess.run(command, capture_output=True, text=True)
        output = done.stdout + done.stderr
        if not done.returncode and (clock := re.search(r"Graphics\D*(\d+)\s*MHz", output)):
            return int(clock[1])
    raise UserError(
        f"the base clock is not known: nvidia-smi base-clocks said {' '.join(output.split())[:80]!r}; "
        "remedy: name a clock, --config lock_sm_mhz=..."
    )


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
    repair(uuid)
    target = choose_target(handle, sm_mhz, memory_mhz)
    refuse_if_shared(handle)
    # what nohup ignores stays ignored
    handlers = {one: signal.getsignal(one) for one in SIGNALS}
    handlers = {one: handler for one, handler in handlers.items() if handler != signal.SIG_IGN}
    for one in handlers:
        signal.signal(one, _end)
    atexit.register(unlock, uuid)
    try:
        yield _lock(handle, target, lock_file(uuid), memory_named=memory_mhz is not None)
    finally:
        atexit.unregister(unlock)
        try:
            unlock(uuid)
        finally:
            for one, handler in handlers.items():
                signal.signal(one, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """End this process by an exception; a second signal does not cut short what that undoes."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    logger.warning(f"ended by {signal.Signals(number).name}")
    raise SystemExit(128 + number)


def _lock(handle: object, target: Target, file: Path, *, memory_named: bool) -> Target:
    """Write `file`, and lock both clocks; the target with what could be locked."""
    write_text(file, _boot() + "\n")
    try:
        try:
            if target.memory_mhz is not None:
                mhz = target.memory_mhz
                pynvml.nvmlDeviceSetMemoryLockedClocks(handle, mhz, mhz)
        except pynvml.NVMLError_NotSupported:
            if memory_named:
                raise
            target = Target(target.sm_mhz, None)
        pynvml.nvmlDeviceSetGpuLockedClocks(handle, target.sm_mhz, target.sm_mhz)
    except pynvml.NVMLError_NoPermission as error:
        file.unlink()  # nothing was locked
        raise UserError(
            "no permission to lock the clocks of this GPU; remedy: run as root (a container needs SYS_ADMIN), or leave "
            "lock_clocks=false"
        ) from error
    except pynvml.NVMLError as error:
        raise UserError(f"the clocks of this GPU cannot be locked: NVML says {error}") from error
    return target


def lock_file(uuid: str) -> Path:
    """The file that is there while a GPU's clocks are locked. The UUID itself is not shown."""
    named = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
    return folder / "gemm-ladder" / f"clocks-{hashlib.sha256(uuid.encode()).hexdigest()[:12]}.boot"


def repair(uuid: str) -> None:
    """Undo what a run that was killed left locked on this GPU; where it left nothing, NVML is not
    even asked.
    """
    if unlock(uuid):
        logger.warning("a run that was killed had left the clocks of this GPU locked: reset")


def unlock(uuid: str) -> bool:
    """Reset the clocks that the GPU's file says are locked, and remove it; whether there were any.

    Raises `UserError` where they cannot be reset; the file stays then.
    """
    path = lock_file(uuid)
    if not path.exists():
        return False
    this_boot = path.read_text().strip() == _boot()
    if this_boot:
        try:
            _reset(uuid)
        except pynvml.NVMLError as error:
            raise UserError(
                f"the clocks of this GPU stay locked, for NVML cannot reset them ({error}): the next run on it tries "
                f"again; {BY_HAND}; then remove {path}"
            ) from error
    path.unlink()
    return this_boot


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _reset(uuid: str) -> None:
    """Unlock both clocks. NVML need not be initialised."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        with contextlib.suppress(pynvml.NVMLError_NotSupported):  # then it was not locked either
            pynvml.nvmlDeviceResetMemoryLockedClocks(handle)
        pynvml.nvmlDeviceResetGpuLockedClocks(handle)
    finally:
        pynvml.nvmlShutdown()


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
