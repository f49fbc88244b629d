"""Reads power, temperature and throttle reasons by NVML while one kernel runs back to back.

NVML's energy counter moves every 100 ms on an H100, and a GPU may draw more than its limit until
its clock has come down. At the limit power swings around it for about a second: there, means over
one second differ by up to 8%, and elsewhere by less than 1%. So the mean is taken after `SETTLE_S`,
over at least `MIN_POLL_S`, and until it is precise.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pynvml
from cuda.bindings import driver
from scipy.stats import linregress

from experiments.gpu.device import Gpu, cuda
from experiments.gpu.timing import Work

# nvml.h, nvmlClocksEventReasons
REASONS = {
    0x0001: "idle",
    0x0002: "applications_clocks",
    0x0004: "power_cap",
    0x0008: "hw_slowdown",
    0x0010: "sync_boost",
    0x0020: "sw_thermal",
    0x0040: "hw_thermal",
    0x0080: "hw_power_brake",
    0x0100: "display_clocks",
}
SETTLE_S = 0.5  # It runs for so long before anything is read.
MIN_POLL_S = 1.0
PRECISION = 0.01  # Two standard errors may be this part of the mean.
POLL_S = 0.001
BATCH_US = 50_000  # So much work is queued at a time.
MIN_TICKS = 8  # There is no mean of fewer changes of the energy counter.


@dataclass(frozen=True)
class Reading:
    """What NVML reported while a kernel ran; None where it was not asked or does not answer.

    power_w: energy over time, in W; error_w: two standard errors of that. run_us: time of one run,
    back to back. throttled: the fraction of polls that showed each throttle reason, without "idle".
    """

    power_w: float | None = None
    error_w: float | None = None
    temperature_c: float | None = None
    run_us: float | None = None
    throttled: dict[str, float] | None = None

    @property
    def throttle_reasons(self) -> str | None:
        """Return the reasons that any poll showed, joined by +; "none" without any."""
        return None if self.throttled is None else "+".join(sorted(self.throttled)) or "none"

    @property
    def throttle_fractions(self) -> str | None:
        """Return the fraction of polls that showed each reason: "power_cap=0.93+sw_thermal=0.02"."""
        if self.throttled is None:
            return None
        parts = [f"{reason}={part:.3f}" for reason, part in sorted(self.throttled.items())]
        return "+".join(parts) or "none"


@dataclass
class Polls:
    """Answers of NVML: when the energy counter moved, in s and mJ, and throttle reasons."""

    ticks: list[tuple[float, int]] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    _energy: int | None = None

    def add_energy(self, now: float, millijoules: int) -> None:
        """Note one answer; the first shows no change, for the counter may have moved long before."""
        if self._energy is not None and millijoules != self._energy:
            self.ticks.append((now, millijoules))
        self._energy = millijoules

    def power(self) -> tuple[float | None, float | None]:
        """Return the slope of energy over time through all ticks, and two standard errors, in W.

        Through all, since single ones come up to 16 ms early or late (H200). None for fewer than
        `MIN_TICKS`.
        """
        ticks = self.ticks.copy()  # The meter may add to them meanwhile.
        if len(ticks) < MIN_TICKS:
            return None, None
        fit = linregress(*np.array(ticks, np.float64).T)
        return float(fit.slope) / 1e3, 2 * float(fit.stderr) / 1e3

    @property
    def precise(self) -> bool:
        """Return whether the mean is known to `PRECISION`."""
        watts, error = self.power()
        return watts is not None and error is not None and error <= PRECISION * watts

    def throttled(self) -> dict[str, float] | None:
        """Return the fraction of polls that showed each reason but "idle"; None without an answer."""
        if not self.masks:
            return None
        seen = Counter(name for mask in self.masks for bit, name in REASONS.items() if mask & bit)
        return {name: count / len(self.masks) for name, count in seen.items() if name != "idle"}


class Meter(threading.Thread):
    """Polls NVML in a thread, for a call takes milliseconds in which the queue must not run dry."""

    def __init__(self, handle: object) -> None:
        super().__init__(daemon=True)
        self.handle, self.polls = handle, Polls()
        self._done = threading.Event()

    def run(self) -> None:
        """See `threading.Thread`; what NVML does not answer is left out."""
        while not self._done.is_set():
            with contextlib.suppress(pynvml.NVMLError):
                energy = pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)
                self.polls.add_energy(time.perf_counter(), energy)
            with contextlib.suppress(pynvml.NVMLError):
                self.polls.masks.append(pynvml.nvmlDeviceGetCurrentClocksEventReasons(self.handle))
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Poll no more."""
        self._done.set()
        if self.ident:
            self.join()


def watch(gpu: Gpu, handle: object, work: Work, work_us: float, seconds: float) -> Reading:
    """Run `work` back to back for `SETTLE_S`, and then while NVML is polled.

    Polling takes at least `MIN_POLL_S`, and ends once the mean is precise. The queue is never
    empty: a batch is queued while the one before runs.

    :param work_us: about how long one run takes.
    :param seconds: the longest time of polling.
    """
    batch = max(1, round(BATCH_US / work_us))
    stream = gpu.stream.handle
    begin, *ends = [cuda(driver.cuEventCreate(0)) for _ in range(3)]
    temperature, meter = None, Meter(handle)
    cuda(driver.cuEventRecord(begin, stream))
    # The clock settles first; then the meter polls until the mean is precise.
    start, count = time.perf_counter(), 0
    try:
        while (polled := time.perf_counter() - start - SETTLE_S) < seconds or count < 2:
            if polled >= 0 and not meter.ident:
                meter.start()
            if polled >= MIN_POLL_S and meter.polls.precise:
                break
            for _ in range(batch):
                work()
            cuda(driver.cuEventRecord(ends[count % 2], stream))
            count += 1
            if count >= 2:
                # This waits for the batch before; the latest stays queued.
                cuda(driver.cuEventSynchronize(ends[count % 2]))
        sensor = pynvml.NVML_TEMPERATURE_GPU
        with contextlib.suppress(pynvml.NVMLError):
            temperature = float(pynvml.nvmlDeviceGetTemperature(handle, sensor))
    finally:
        meter.stop()  # Work is still queued.
        gpu.sync()
    # Two events bound all batches.
    run_us = cuda(driver.cuEventElapsedTime(begin, ends[(count - 1) % 2])) * 1e3 / (count * batch)
    for event in (begin, *ends):
        cuda(driver.cuEventDestroy(event))
    power_w, error_w = meter.polls.power()
    return Reading(power_w, error_w, temperature, float(run_us), meter.polls.throttled())
