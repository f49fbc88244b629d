"""Lets one process measure on a GPU at a time.

The lock is a file in /tmp, named after a hash of the GPU's UUID, so that two checkouts and two
users of one machine meet at the same lock, whatever their TMPDIR is. A GPU taken by one run is
waited for; on a host with several, the first free one is taken, but never one of another model than
the run is about. CUDA_VISIBLE_DEVICES says which may be, be it a person's or Slurm's. The instances
of a GPU in MIG mode share its clocks and power, so each takes the lock of the GPU.

Containers that share a GPU meet if GEMM_LADDER_LOCKS names a folder that they share too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import filelock

from contracts import UserError
from experiments.gpu import clocks, discovery

logger = logging.getLogger(__name__)

HELD = "GEMM_LADDER_GPU_HELD"  # It is set for the children of a process that holds a session.
LOCKS = "GEMM_LADDER_LOCKS"  # It names another folder for the locks.
POLL_S = 0.005
QUIET_S = 30.0  # Waiting is not reported before: jobs of one run alternate, process by process.
MAX_WAIT_S = 12 * 3600.0  # No job of a run holds a GPU for so long.
UNKNOWN = "0" * 8  # A parent process took the session, or the system does not tell its boot.


@dataclass(frozen=True)
class Device:
    """A GPU or MIG instance that may be held: the UUID by which CUDA knows it, and its GPU's."""

    uuid: str
    gpu: str


class Session:
    """One GPU that a process holds: the first that is free.

    A context that is made or ends takes the GPU's time. So a process that gives a GPU back and goes
    on makes its contexts in a child that it waits for (`experiments.gpu.worker`), and holds the GPU
    around it. A process that waits has none.
    """

    def __init__(self) -> None:
        self._device: Device | None = None

    @contextlib.contextmanager
    def held(self, wait_s: float = MAX_WAIT_S) -> Iterator[None]:
        """Hold it; until the block ends, this process and its children see no other GPU.

        Clocks that a killed run left locked there are reset first (`experiments.gpu.clocks`). The
        block must begin before CUDA is initialised. Raises `UserError` where no GPU is visible, where none
        is of the model that Snakemake planned for, or none came free in `wait_s`.
        """
        if os.environ.get(HELD):
            yield
            return
        self._device, lock = _first_free(_candidates(), wait_s)
        before = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ |= {"CUDA_VISIBLE_DEVICES": self._device.uuid, HELD: "1"}
        try:
            clocks.repair(self._device.gpu)
            yield
        finally:
            del os.environ[HELD]
            if before is None:
                del os.environ["CUDA_VISIBLE_DEVICES"]
            else:
                os.environ["CUDA_VISIBLE_DEVICES"] = before
            lock.release()
            # Otherwise a process that waits, and looks every POLL_S, would find it taken again.
            time.sleep(2 * POLL_S)

    @property
    def name(self) -> str:
        """Return what measurements call the GPU that is held (see `name_of`)."""
        return name_of(self._device.gpu) if self._device else UNKNOWN


def session(wait_s: float = MAX_WAIT_S) -> AbstractContextManager[None]:
    """Hold one visible GPU once, as `Session.held` does."""
    return Session().held(wait_s)


def require_gpu() -> None:
    """Raise `UserError` where `Session.held` would find no GPU; wait for none.

    It is for commands that read their builds before they hold a GPU: without one, a missing build
    is not what to fix first.
    """
    if not os.environ.get(HELD):
        _candidates()


def name_of(uuid: str) -> str:
    """Return eight hexadecimal digits for one card on one boot, which reveal neither."""
    boot = clocks.boot_id()
    return hashlib.sha256(f"{boot} {uuid}".encode()).hexdigest()[:8] if boot else UNKNOWN


def lock_path(uuid: str) -> Path:
    """Return where the lock of a GPU lies; the path hides the UUID."""
    folder = Path(os.environ.get(LOCKS) or "/tmp")
    return folder / f"gemm-ladder-gpu-{hashlib.sha256(uuid.encode()).hexdigest()[:12]}.lock"


def _candidates() -> list[Device]:
    """Return the visible devices of one model: Snakemake's for its jobs, else the first one's."""
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            devices = [
                (
                    pynvml.nvmlDeviceGetName(handle),
                    Device(*map(pynvml.nvmlDeviceGetUUID, (handle, discovery.physical(handle)))),
                )
                for handle in discovery.visible_handles()
            ]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise UserError(
            f"no GPU: NVML says {error}; this stage needs an NVIDIA GPU and its driver"
        ) from error
    if not devices:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise UserError(
            f"no GPU is visible (CUDA_VISIBLE_DEVICES = {visible!r}); this stage needs one"
        )
    # Every device of another model is left out.
    model = json.loads(os.environ.get(discovery.KNOWN, "{}")).get("gpu") or devices[0][0]
    chosen = [device for name, device in devices if name == model]
    if not chosen:
        names = ", ".join(sorted({name for name, _ in devices}))
        raise UserError(
            f"this run is about {model}, and visible here: {names}; choose the GPU with CUDA_VISIBLE_DEVICES, in Slurm "
            "with a partition or constraint"
        )
    return chosen


def _first_free(devices: list[Device], wait_s: float) -> tuple[Device, filelock.BaseFileLock]:
    start = time.monotonic()
    reported = False
    while True:
        for device in devices:
            if lock := _locked(lock_path(device.gpu)):
                return device, lock
        if time.monotonic() - start > wait_s:
            raise UserError(
                f"every visible GPU stayed taken for {wait_s:.0f} s; wait for the other run to end"
            )
        if not reported and time.monotonic() - start >= QUIET_S:
            logger.warning("waiting for a GPU: another job holds it")
            reported = True
        time.sleep(POLL_S)


def _locked(path: Path) -> filelock.BaseFileLock | None:
    """Take the lock of this file; None where another process has it."""
    lock = filelock.FileLock(path, mode=0o666)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return None
    except OSError as error:
        raise UserError(
            f"cannot lock {path}: {error.strerror}; {LOCKS} names another folder"
        ) from error
    return lock
