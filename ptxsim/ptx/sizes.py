"""What a launch needs, against what there is: refused in one line before anything runs, or once its
cost is plain.
"""

from __future__ import annotations

import contextlib
import math
import time
from pathlib import Path

from ..errors import PtxsimError, TooCostlyError
from .program import Program

# A grid, block or cluster has x, y and z.
Dim3 = tuple[int, int, int]
# CUDA limits a grid's blocks and a block's threads along x, y and z on all GPUs.
MAX_BLOCKS = (2**31 - 1, 65535, 65535)
MAX_THREADS = (1024, 1024, 64)
# GPUs up to sm_103 give a block at most 227 KiB.
MAX_SHARED_BYTES = 227 * 1024
# An H100 or H200 has 132 multiprocessors.
SMS = 132
# A thread has at most 512 KiB of local memory.
MAX_LOCAL_BYTES = 512 * 1024
MAX_PARAMETER_BYTES = 32764
# This many bytes of intermediate results exist per lane while an instruction runs.
ARRAYS_A_LANE = 4 * 8
LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available_bytes() -> int:
    """Return the bytes that this process may still allocate, as far as the system reports it; a
    very large number otherwise.
    """
    limits = [1 << 60]
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        limits.append(int(lines["MemAvailable"].split()[0]) * 1024)
    for path in LIMIT_FILES:
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text()))
    return min(limits)


def require_memory(what: str, size: int) -> None:
    """Raise `PtxsimError` where `size` bytes are more than are available."""
    available = available_bytes()
    if size > available:
        raise PtxsimError(
            f"{what}: {shown_bytes(size)} of memory are needed, {shown_bytes(available)} are available"
        )


def shown_bytes(size: int) -> str:
    """Return a size in words."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.4g} {name}"
    return f"{size} bytes"


def require_launch(name: str, grid: Dim3, block: Dim3, shared_bytes: int) -> None:
    """Require grid, block and dynamic shared memory (bytes) to be within what CUDA takes."""
    for what, sizes, limits in (("grid", grid, MAX_BLOCKS), ("block", block, MAX_THREADS)):
        if any(size > bound for size, bound in zip(sizes, limits, strict=True)):
            raise PtxsimError(f"{name}: {what} {sizes} is more than CUDA takes: {limits}")
    if math.prod(block) > 1024:
        raise PtxsimError(f"{name}: a block has at most 1024 threads, not {math.prod(block)}")
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
        raise PtxsimError(
            f"{name}: {shared_bytes} bytes of dynamic shared memory; allowed: 0 to {MAX_SHARED_BYTES}"
        )


def require_batch(
    name: str, program: Program, shared_bytes: int, lanes: int, padded: int, global_bytes: int
) -> None:
    """Require the memory of a launch (bytes) to be there: global memory, and what the blocks that
    run together need.
    """
    if program.static_shared_bytes + shared_bytes > MAX_SHARED_BYTES:
        total = program.static_shared_bytes + shared_bytes
        raise PtxsimError(
            f"{name}: {total} bytes of shared memory a block; allowed: at most {MAX_SHARED_BYTES}"
        )
    if program.local_bytes > MAX_LOCAL_BYTES:
        raise PtxsimError(
            f"{name}: {program.local_bytes} bytes of local memory a thread; allowed: {MAX_LOCAL_BYTES}"
        )
    shared = (program.static_shared_bytes + shared_bytes) * max(1, lanes // padded)
    registers = 8 * min(program.slots, 255 * 4) + ARRAYS_A_LANE
    message = f"{name}: {lanes} threads together"
    require_memory(message, global_bytes + shared + lanes * (program.local_bytes + registers))


def resident_blocks(threads: int, shared_bytes: int) -> int:
    """Return how many blocks run side by side on a device of compute capability 9.0 with all its
    multiprocessors, by threads and shared memory a block (their registers may allow fewer).
    """
    return SMS * max(1, min(32, 2048 // threads, 228 * 1024 // (shared_bytes + 1024)))


class Cost:
    """What a grid costs, in thread-instructions: at least one for each thread, and once its first
    blocks have run, what they took for each block."""

    def __init__(self, name: str, blocks: int, threads: int, limit: float) -> None:
        self.name, self.blocks, self.limit = name, blocks, limit
        self.began = time.perf_counter()
        if blocks * threads > limit:
            self._refuse(
                f"{blocks * threads:.3g} threads are more than the limit of {limit:.3g} thread-instructions"
            )

    def after(self, done: int, spent: int) -> None:
        """`done` blocks have taken `spent` thread-instructions: refuse the rest if it will be too
        much.
        """
        total = spent * self.blocks / done
        if done < self.blocks and total > self.limit:
            seconds = (time.perf_counter() - self.began) * (self.blocks / done)
            self._refuse(
                f"about {total:.3g} thread-instructions ({shown_time(seconds)}), going by the first {done} of "
                f"{self.blocks} blocks; the limit is {self.limit:.3g}"
            )

    def _refuse(self, what: str) -> None:
        raise TooCostlyError(
            f"{self.name}: {what}; take a smaller grid, or allow more: --thread-instructions N"
        )


def shown_time(seconds: float) -> str:
    """Return a time in words."""
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.3g} {name}"
    return f"{seconds:.3g} seconds"
