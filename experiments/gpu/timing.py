"""Times launches on the device, with the SM clock during each.

A sample is: flush the L2 cache, stamp, event, the work, event, stamp. The host fills the queue
ahead of the device (the first samples behind a kernel that holds it), so that no launch latency
enters a sample; one whose first event had passed before all of it was queued may hold a gap, and is
rejected. The clock comes from the stamps: for each SM, the difference of its cycle counter over
that of the global timer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from cuda.bindings import driver

from experiments.gpu.device import Gpu, Memory, PinnedFlag, cuda

AHEAD = 48  # Samples queued ahead are 300 commands; a queue holds more before the host blocks.
Work = Callable[[], None]


@dataclass(frozen=True)
class Samples:
    """One array entry for each timed launch, in the order they ran."""

    time_us: np.ndarray
    sm_clock_mhz: np.ndarray
    kept: np.ndarray

    def of(self, chosen: np.ndarray) -> Samples:
        """Return the chosen entries (mask or indices)."""
        return Samples(self.time_us[chosen], self.sm_clock_mhz[chosen], self.kept[chosen])


class Stopwatch:
    """Event and stamp storage for up to `capacity` samples."""

    def __init__(self, gpu: Gpu, capacity: int, flush_l2: bool = True) -> None:
        self.gpu, self.capacity = gpu, capacity
        self._events = [[cuda(driver.cuEventCreate(0)) for _ in range(2)] for _ in range(capacity)]
        self._stride = gpu.sm_count * 8
        self._stamps = Memory(capacity * 4 * self._stride)
        self._stamp = gpu.harness_launcher("stamp", gpu.sm_count, 1)
        self._flush = Memory(gpu.l2_bytes) if flush_l2 else None
        self._flag = PinnedFlag()

    def __del__(self) -> None:
        for pair in getattr(self, "_events", []):
            for event in pair:
                driver.cuEventDestroy(event)

    def flush(self) -> None:
        """Overwrite a buffer of the L2 cache's size."""
        if self._flush:
            buffer = (self._flush.address, 0, self._flush.nbytes)
            cuda(driver.cuMemsetD8Async(*buffer, self.gpu.stream.handle))

    def run(self, works: Sequence[Work]) -> Samples:
        """Time each of `works` once, in this order, back to back."""
        gpu, stream = self.gpu, self.gpu.stream.handle
        assert len(works) <= self.capacity
        cuda(driver.cuMemsetD8Async(self._stamps.address, 0, self._stamps.nbytes, stream))
        # Everything runs once before a kernel holds the queue (see `load_cubin`).
        for work in dict.fromkeys(works):
            work()
        self.flush()
        self._stamp(self._stamps.address, self._stamps.address)
        gpu.sync()
        # The device waits until the first samples are queued; then the host stays AHEAD of it.
        kept = np.ones(len(works), bool)
        self._flag.clear()
        gpu.harness("hold", 1, 1, self._flag.address)
        for i, work in enumerate(works):
            if i == min(AHEAD, len(works)) - 1:
                self._flag.set()
            if i >= AHEAD:
                cuda(driver.cuEventSynchronize(self._events[i - AHEAD][1]))
            start, end = self._events[i]
            base = self._stamps.address + 4 * i * self._stride
            # Flush, stamp, event, work, event, stamp. A sample whose first event had passed before all
            # was queued may hold a launch gap.
            self.flush()
            self._stamp(base, base + self._stride)
            cuda(driver.cuEventRecord(start, stream))
            work()
            cuda(driver.cuEventRecord(end, stream))
            kept[i] = driver.cuEventQuery(start)[0] == driver.CUresult.CUDA_ERROR_NOT_READY
            self._stamp(base + 2 * self._stride, base + 3 * self._stride)
        self._flag.set()
        gpu.sync()
        times = np.array(
            [cuda(driver.cuEventElapsedTime(*pair)) * 1e3 for pair in self._events[: len(works)]]
        )
        return Samples(times, self._clocks(len(works)), kept)

    def _clocks(self, count: int) -> np.ndarray:
        raw = self.gpu.download(self._stamps, np.uint64, count * 4 * self.gpu.sm_count)
        # The axes are sample, before/after, cycles/nanoseconds, SM.
        stamps = raw.reshape(count, 2, 2, self.gpu.sm_count)
        # A block of a stamp may run on another SM, so that some SMs have no time.
        cycles, nanoseconds = np.moveaxis((stamps[:, 1] - stamps[:, 0]).astype(np.float64), 1, 0)
        valid = (stamps[:, :, 1, :] > 0).all(axis=1) & (nanoseconds > 0)
        mhz = np.full(valid.shape, np.nan)
        np.divide(cycles * 1e3, nanoseconds, out=mhz, where=valid)
        medians: np.ndarray = np.nanmedian(mhz, axis=1)
        return medians


def duration_us(gpu: Gpu, work: Work, count: int = 1) -> float:
    """Return the mean time of `count` back-to-back runs by events: for planning, not reporting.

    It has a launch gap.
    """
    start, end = (cuda(driver.cuEventCreate(0)) for _ in range(2))
    cuda(driver.cuEventRecord(start, gpu.stream.handle))
    for _ in range(count):
        work()
    cuda(driver.cuEventRecord(end, gpu.stream.handle))
    cuda(driver.cuEventSynchronize(end))
    elapsed = float(cuda(driver.cuEventElapsedTime(start, end))) * 1e3 / count
    for event in (start, end):
        cuda(driver.cuEventDestroy(event))
    return elapsed


STEADY = 0.005  # The slowest of the last chunks may be so far from the fastest.
CHUNKS = 3


def warm_up(
    gpu: Gpu, work: Work, seconds: float, max_s: float = 3.0, chunk_s: float = 0.1
) -> float:
    """Run back to back until steady; return the time of one run then, in microseconds.

    That takes at least `seconds`, then until three chunks in a row agree within 0.5%, and `max_s`
    at the longest. Two chunks are not enough where power binds: the card lowers its clock in steps, between which
    it looks steady.
    """
    start = time.monotonic()
    work()
    last = [duration_us(gpu, work)]
    while (spent := time.monotonic() - start) < max_s:
        steady = len(last) == CHUNKS and max(last) - min(last) <= STEADY * min(last)
        if steady and spent >= seconds:
            break
        last = [*last, duration_us(gpu, work, max(1, round(chunk_s * 1e6 / last[-1])))][-CHUNKS:]
    return float(np.median(last))
