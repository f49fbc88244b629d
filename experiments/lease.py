"""One process measures on a GPU at a time.

The lock is a file in the system's temporary folder, named after a hash of the GPU's UUID, so that two checkouts and two
users of one machine meet at the same lock. A GPU taken by one run is waited for; on a host with several, the first free
one is taken. CUDA_VISIBLE_DEVICES says which may be.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import filelock

from contracts import UserError
from experiments import clocks, toolchain

HELD = "GEMM_LADDER_LEASE_HELD"  # set for the children of a process that holds a lease


@contextlib.contextmanager
def lease(wait_s: float = 3600.0) -> Iterator[None]:
    """Hold one visible GPU; until the block ends, it is the only one that CUDA sees in this process and its children.

    Clocks that a killed run left locked there are reset first (`experiments.clocks`). Must come before CUDA is
    initialised. Raises `UserError` where no GPU is visible or none came free in `wait_s`.
    """
    if os.environ.get(HELD):
        yield
        return
    import pynvml

    try:
        pynvml.nvmlInit()
        uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in toolchain.visible_handles()]
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise UserError(f"no GPU: NVML says {error}; this stage needs an NVIDIA GPU and its driver") from error
    if not uuids:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise UserError(f"no GPU is visible (CUDA_VISIBLE_DEVICES = {visible!r}); this stage needs one")
    uuid, lock = _first_free(uuids, wait_s)
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ |= {"CUDA_VISIBLE_DEVICES": uuid, HELD: "1"}
    try:
        clocks.repair(uuid)
        yield
    finally:
        del os.environ[HELD]
        if before is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
        lock.release()


def lock_path(uuid: str) -> Path:
    """Where the lock of a GPU lies. The UUID itself is not shown."""
    return Path(tempfile.gettempdir()) / f"gemm-ladder-gpu-{hashlib.sha256(uuid.encode()).hexdigest()[:12]}.lock"


def _first_free(uuids: list[str], wait_s: float) -> tuple[str, filelock.BaseFileLock]:
    deadline = time.monotonic() + wait_s
    told = False
    while True:
        for uuid in uuids:
            lock = filelock.FileLock(lock_path(uuid), mode=0o666)
            with contextlib.suppress(filelock.Timeout):
                lock.acquire(timeout=0)
                return uuid, lock
        if time.monotonic() > deadline:
            raise UserError(f"every visible GPU stayed leased for {wait_s:.0f} s; wait for the other run to end")
        if not told:
            print("waiting for a GPU: another run holds it", file=sys.stderr, flush=True)
            told = True
        time.sleep(0.2)
