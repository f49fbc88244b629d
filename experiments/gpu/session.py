"""One process measures on a GPU at a time.

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

HELD = "GEMM_LADDER_GPU_HELD"  # set for the children of a process that holds a session
LOCKS = "GEMM_LADDER_LOCKS"  # another folder for the locks
POLL_S = 0.005
SAID_AFTER_S = 30.0  # of waiting: jobs of one run take turns, process by process
WAIT_S = 12 * 3600.0  # at most: longer than any job of a run holds a GPU
UNKNOWN = "0" * 8  # of a session that somebody else took, or a system that does not tell its boot


@dataclass(frozen=True)
class Device:
    """A GPU or MIG instance that may be held: the UUID that CUDA knows it by, and that of the GPU
    it is on.
    """

    uuid: str
    gpu: str


class Session:
    """One GPU that a process holds: the first that is free.

    A context that is made or ends takes the GPU's time. So whoever gives a GPU back and goes on
    makes its contexts in a child that it waits for (`experiments.gpu.worker`), and holds the GPU
    around it; who waits has none.
    """

    def __init__(self) -> None:
        self._device: Device | None = None

    @contextlib.contextmanager
    def held(self, wait_s: float = WAIT_S) -> Iterator[None]:
        """Hold it; until the block ends, it is the only GPU that CUDA sees in this process and its
        children.

        Clocks that a killed run left locked there are reset first (`experiments.gpu.clocks`). It
        must come before CUDA is initialised. Raises `UserError` where no GPU is visible, where none
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
            # or who waits, and looks every POLL_S, would find it taken again
            time.sleep(2 * POLL_S)

    @property
    def name(self) -> str:
        """What measurements call the GPU that is held (see `name_of`)."""
        return name_of(self._device.gpu) if self._device else UNKNOWN


def session(wait_s: float = WAIT_S) -> AbstractContextManager[None]:
    """Hold one visible GPU once, as `Session.held` does."""
    return Session().held(wait_s)


def require_gpu() -> None:
    """Raises `UserError` where `Session.held` would find no GPU; it waits for none.

    For commands that read their builds before they hold a GPU: without one, a missing build is not
    what to mend first.
    """
    if not os.environ.get(HELD):
        _candidates()


def name_of(uuid: str) -> str:
    """A name for one card on one boot of its machine, which reveals neither: eight hexadecimal
    digits.
    """
    boot = clocks.boot_id()
    return hashlib.sha256(f"{boot} {uuid}".encode()).hexdigest()[:8] if boot else UNKNOWN


def lock_path(uuid: str) -> Path:
    """Where the lock of a GPU lies. The UUID itself is not shown."""
    folder = Path(os.environ.get(LOCKS) or "/tmp")
    return folder / f"gemm-ladder-gpu-{hashlib.sha256(uuid.encode()).hexdigest()[:12]}.lock"


def _candidates() -> list[Device]:
    """The visible devices of one model: Snakemake's, where it runs this process, else the first
    one's.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            found = [
                (
                    pynvml.nvmlDeviceGetName(handle),
                    Device(*map(pynvml.nvmlDeviceGetUUID, (handle, physical))),
                )
                for handle in discovery.visible_handles()
                for physical in [discovery.physical(handle)]
            ]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise UserError(
            f"no GPU: NVML says {error}; this stage needs an NVIDIA GPU and its driver"
        ) from error
    if not found:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise UserError(
            f"no GPU is visible (CUDA_VISIBLE_DEVICES = {visible!r}); this stage needs one"
        )
    model = json.loads(os.environ.get(discovery.KNOWN, "{}")).get("gpu") or found[0][0]
    chosen = [device for name, device in found if name == model]
    if not chosen:
        names = ", ".join(sorted({name for name, _ in found}))
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
        if not reported and time.monotonic() - start >= SAID_AFTER_S:
            logger.warning("waiting for a GPU: another job holds it")
            reported = True
        time.sleep(POLL_S)


def _locked(path: Path) -> filelock.BaseFileLock | None:
    """The lock of this file, taken; None where another process has it."""
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
