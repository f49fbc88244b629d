"""Power, energy, temperature and throttle reasons through NVML, in a window where one kernel runs alone."""

from __future__ import annotations

import contextlib
import threading
import time
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

POLL_S = 0.001
BATCH_US = 50_000  # of work that is queued at a time


@dataclass
class Window:
    """What NVML said while work ran; None where it does not say."""

    power_w: float | None = None
    temperature_c: float | None = None
    run_us: float | None = None
    reasons: set[str] = field(default_factory=set)

    @property
    def throttle_reasons(self) -> str:
        """Joined by +, without "idle"; "none" where nothing held the clock."""
        return "+".join(sorted(self.reasons - {"idle"})) or "none"


class Meter(threading.Thread):
    """Reads NVML in a thread of its own: a call takes milliseconds, in which the queue must not run dry."""

    def __init__(self, handle: object) -> None:
        super().__init__(daemon=True)
        self.handle, self.reasons = handle, set[str]()
        self.ticks: list[tuple[float, int]] = []  # time and millijoules, whenever the energy counter moved
        self._done = threading.Event()

    def run(self) -> None:
        """See `threading.Thread`; what NVML does not tell is left out."""
        before = None
        while not self._done.is_set():
            with contextlib.suppress(pynvml.NVMLError):
                energy, now = pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle), time.perf_counter()
                if before is not None and energy != before:
                    self.ticks.append((now, energy))
                before = energy
            with contextlib.suppress(pynvml.NVMLError):
                mask = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self.handle)
                self.reasons |= {name for bit, name in REASONS.items() if mask & bit}
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Read no more."""
        self._done.set()
        self.join()

    @property
    def error(self) -> float:
        """The standard error of the slope, as a part of it; infinite for few ticks."""
        ticks = self.ticks.copy()
        if len(ticks) < LEAST_TICKS:
            return float("inf")
        fit = linregress(*np.array(ticks, np.float64).T)
        return float(fit.stderr / fit.slope) if fit.slope > 0 else float("inf")

    @property
    def power_w(self) -> float | None:
        """The slope of energy over time through all ticks: single ones come up to 16 ms early or late (H200)."""
        if len(self.ticks) < 2:
            return None
        times, millijoules = np.array(self.ticks, np.float64).T
        return float(np.polynomial.Polynomial.fit(times, millijoules, 1).convert().coef[1] / 1e3)


LEAST_TICKS = 8  # of the energy counter, before its slope is believed


def watch(
    gpu: Gpu, handle: object, work: Work, work_us: float, seconds: float, precision: float | None = None
) -> Window:
    """Run `work` back to back for `seconds` or a little more; power, temperature and throttle reasons meanwhile.

    With `precision`, it ends earlier once two standard errors of the power are at most that part of it. The queue is
    never empty: the next batch is queued while the one before runs. `run_us` is of runs back to back.
    """
    batch = max(1, round(BATCH_US / work_us))
    stream = gpu.stream.handle
    begin, *ends = [cuda(driver.cuEventCreate(0)) for _ in range(3)]
    window, meter = Window(), Meter(handle)
    cuda(driver.cuEventRecord(begin, stream))
    start, count = time.perf_counter(), 0
    try:
        while count < 2 or time.perf_counter() - start < seconds:
            if precision and count >= 2 and 2 * meter.error <= precision:
                break
            for i in range(batch):
                work()
                if count == i == 0:
                    meter.start()  # not before there is work
            cuda(driver.cuEventRecord(ends[count % 2], stream))
            count += 1
            if count >= 2:
                cuda(driver.cuEventSynchronize(ends[count % 2]))  # the batch before; the latest stays queued
        with contextlib.suppress(pynvml.NVMLError):
            window.temperature_c = float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    finally:
        if meter.ident:
            meter.stop()  # while work is left
        gpu.sync()
    window.power_w, window.reasons = meter.power_w, meter.reasons
    window.run_us = cuda(driver.cuEventElapsedTime(begin, ends[(count - 1) % 2])) * 1e3 / (count * batch)
    for event in (begin, *ends):
        cuda(driver.cuEventDestroy(event))
    return window
