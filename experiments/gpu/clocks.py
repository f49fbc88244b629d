"""Locks a GPU's SM and memory clocks through NVML while a block runs, and undoes it afterwards.

    python -m experiments.stages.try_lock --lock --left-out left_out.txt

tries it for a moment. Without `--lock` it only writes that locking was not asked for. Clocks belong
to everybody on the GPU, so nothing is set unless it was asked for, nor while another process
computes there.

Before the clocks are locked, a file with the boot id of the machine is written to the user's state
folder ($XDG_STATE_HOME, else ~/.local/state). `unlock` resets the clocks and removes the file: at
the end of the block, after an error or a signal, and when the interpreter exits. SIGKILL leaves the
file, and the user's next run that holds the GPU resets the clocks. After a reboot no clocks are
locked, so a file of another boot is only removed. NVML does not tell which clocks were locked
before, so those of an administrator are reset, too.
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

REL_TOL = 0.01  # A sample whose clock is farther from the target is rejected.
QUIET_S = 5.0  # A process that ended a moment ago may be listed on the GPU for so long.
# The second error says that NVML's library is too old for the query.
UNANSWERED = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
NOT_ASKED = (
    "not asked for; remedy: --config lock_clocks=true (needs root, and sets the GPU's clocks for everybody on it while "
    "it measures)"
)
BY_HAND = "by hand, as root: nvidia-smi --reset-gpu-clocks; nvidia-smi --reset-memory-clocks"


@dataclass(frozen=True)
class Target:
    """The locked clocks in MHz; None for a memory clock that NVML cannot lock on this GPU."""

    sm_mhz: int
    memory_mhz: int | None

    @property
    def clock_source(self) -> str:
        """Return the text of the column of this name in windows.csv."""
        mhz = self.memory_mhz
        memory = f" and memory at {mhz} MHz" if mhz else ", memory clock as found"
        return f"SM locked at {self.sm_mhz} MHz{memory}, through NVML"


def on_target(clock_mhz: np.ndarray | float, target_mhz: float) -> np.ndarray:
    """Return which clocks lie within 1% of the target; an unknown one (NaN) does not."""
    return np.abs(np.asarray(clock_mhz, float) - target_mhz) <= REL_TOL * target_mhz


def choose_target(
    handle: object, sm_mhz: int | None = None, memory_mhz: int | None = None
) -> Target:
    """Return the named clocks, else the base clock and the highest memory clock that goes with it.

    Raises `UserError` with the nearest clocks for one that the GPU does not offer, and where NVML
    does not list them.
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
    sm_clocks = sorted({mhz for clocks in offered.values() for mhz in clocks})
    if sm_mhz is None:
        base = base_clock(handle)
        near = [mhz for mhz in sm_clocks if on_target(mhz, base)]
        sm_mhz = min(near, key=lambda mhz: abs(mhz - base), default=base)
    _check_offered("lock_sm_mhz", sm_mhz, sm_clocks)
    return Target(sm_mhz, max(mhz for mhz, clocks in offered.items() if sm_mhz in clocks))


def _check_offered(key: str, mhz: int, offered: list[int]) -> None:
    if mhz not in offered:
        nearest = sorted(sorted(offered, key=lambda other: abs(other - mhz))[:3])
        raise UserError(
            f"{key} = {mhz} is not a clock that this GPU offers; nearest: "
            f"{', '.join(map(str, nearest)) or 'none'} MHz"
        )


def base_clock(handle: object) -> int:
    """Return the base SM clock in MHz by `nvidia-smi base-clocks`; NVML has no query for it."""
    tool, output = shutil.which("nvidia-smi"), "nothing: it is not on PATH"
    if tool:
        command = [tool, "base-clocks", "-i", str(pynvml.nvmlDeviceGetIndex(handle))]
        done = subprocess.run(command, capture_output=True, text=True)
        output = done.stdout + done.stderr
        if clock := re.search(r"Graphics\D*(\d+)\s*MHz", output):
            return int(clock[1])
    raise UserError(
        f"the base clock is not known: nvidia-smi base-clocks said {' '.join(output.split())[:80]!r}; "
        "remedy: name a clock, --config lock_sm_mhz=..."
    )


def refuse_if_shared(handle: object) -> None:
    """Raise `UserError` where another process computes on the GPU for longer than `QUIET_S`.

    A process in another container is not listed, and shows only by the load on the GPU.
    """
    deadline = time.monotonic() + QUIET_S
    while other := _other_load(handle):
        if time.monotonic() > deadline:
            raise UserError(
                f"clocks are not locked: {other} on this GPU; wait until it is free, or choose another with "
                "CUDA_VISIBLE_DEVICES"
            )
        time.sleep(0.2)


def _other_load(handle: object) -> str | None:
    try:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except UNANSWERED as error:
        raise UserError(
            f"NVML does not tell whether another process computes here ({error}); not locked"
        ) from error
    with contextlib.suppress(*UNANSWERED):  # There may be no MPS.
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
    """Lock the clocks of a held GPU until the block ends; yield what samples are compared with.

    Raises `UserError` with the remedy where locking is refused, and where the clocks cannot be
    reset afterwards.
    """
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    repair(uuid)
    target = choose_target(handle, sm_mhz, memory_mhz)
    refuse_if_shared(handle)
    # SIGINT raises KeyboardInterrupt by itself. What nohup ignores stays ignored.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    atexit.register(unlock, uuid)
    try:
        yield _lock(handle, target, lock_file(uuid), memory_named=memory_mhz is not None)
    finally:
        atexit.unregister(unlock)
        unlock(uuid)


def _end(number: int, frame: FrameType | None) -> None:
    logger.warning(f"ended by {signal.Signals(number).name}")
    raise SystemExit(128 + number)


def _lock(handle: object, target: Target, file: Path, *, memory_named: bool) -> Target:
    """Write `file` and lock both clocks; return the target with what could be locked."""
    write_text(file, boot_id() + "\n")
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
        file.unlink()  # Nothing was locked.
        raise UserError(
            "no permission to lock the clocks of this GPU; remedy: run as root (a container needs SYS_ADMIN), or leave "
            "lock_clocks=false"
        ) from error
    except pynvml.NVMLError as error:
        raise UserError(f"the clocks of this GPU cannot be locked: NVML says {error}") from error
    return target


def lock_file(uuid: str) -> Path:
    """Return the path of the file that exists while a GPU's clocks are locked; it hides the UUID."""
    named = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
    return folder / "gemm-ladder" / f"clocks-{hashlib.sha256(uuid.encode()).hexdigest()[:12]}.boot"


def repair(uuid: str) -> None:
    """Undo what a killed run left locked on this GPU; without its file, NVML is not even asked."""
    if unlock(uuid):
        logger.warning("a run that was killed had left the clocks of this GPU locked: reset")


def unlock(uuid: str) -> bool:
    """Reset the clocks that the GPU's file says are locked, and remove it; return whether any were.

    Raises `UserError` where they cannot be reset; the file stays then.
    """
    path = lock_file(uuid)
    if not path.exists():
        return False
    this_boot = path.read_text().strip() == boot_id()
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


def boot_id() -> str:
    """Return the kernel's name for the time since the machine was started; "" where it has none."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _reset(uuid: str) -> None:
    """Unlock both clocks. NVML need not be initialised."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        with contextlib.suppress(pynvml.NVMLError_NotSupported):  # Then it was not locked either.
            pynvml.nvmlDeviceResetMemoryLockedClocks(handle)
        pynvml.nvmlDeviceResetGpuLockedClocks(handle)
    finally:
        pynvml.nvmlShutdown()


def memory_off_target(handle: object, target: Target) -> str | None:
    """Return how NVML's memory clock differs from the target; None where it agrees or is unknown."""
    if target.memory_mhz is not None:
        with contextlib.suppress(pynvml.NVMLError_NotSupported):
            mhz = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)
            if not on_target(mhz, target.memory_mhz):
                return f"the memory ran at {mhz} MHz, not {target.memory_mhz}"
    return None


def lock_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name clocks."""
    parser.add_argument("--sm-mhz", type=int, help="SM clock to lock; default: the base clock")
    memory = "memory clock to lock; default: the highest that goes with it"
    parser.add_argument("--memory-mhz", type=int, help=memory)
