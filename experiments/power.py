"""Power, energy, temperature and throttle reasons through NVML, in a window where one kernel runs alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pynvml
from cuda.bindings import driver

from contracts import UserError
from experiments import toolchain
from experiments.device import Gpu, cuda
from experiments.timing import Work

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


@contextlib.contextmanager
def nvml() -> Iterator[object]:
    """NVML's handle of the leased GPU, for a MIG instance of all of it; what NVML refuses here is a `UserError`."""
    pynvml.nvmlInit()
    try:
        yield toolchain.physical(toolchain.visible_handles()[0])
    except pynvml.NVMLError as error:
        raise UserError(f"NVML: {error}") from error
    finally:
        pynvml.nvmlShutdown()


def _energy_mj(handle: object) -> int | None:
    try:
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except pynvml.NVMLError:
        return None


def watch(gpu: Gpu, handle: object, work: Work, work_us: float, seconds: float) -> Window:
    """Run `work` back to back for `seconds` or a little more, from one tick of the energy counter to another.

    Power is energy over time between the ticks, so the counter's coarse period does not matter; it is read while work
    runs, too, lest a launch of some 100 ms hide when it ticked.
    """
    window = Window()
    batch = max(1, round(5000 / work_us))
    stream = gpu.stream.handle
    events = [cuda(driver.cuEventCreate(0)) for _ in range(3)]
    first = last = None  # (time, energy) at the first and the latest tick
    before = _energy_mj(handle)
    count, start = 0, time.perf_counter()

    def read() -> float:
        nonlocal first, last, before
        now, energy = time.perf_counter(), _energy_mj(handle)
        if energy is not None and energy != before:
            first, last, before = first or (now, energy), (now, energy), energy
        return now

    while True:
        for _ in range(batch):
            work()
        cuda(driver.cuEventRecord(events[count % 3], stream))
        count += 1
        if count >= 3:
            while driver.cuEventQuery(events[count % 3])[0] == driver.CUresult.CUDA_ERROR_NOT_READY:
                read()
                time.sleep(POLL_S)
            cuda(driver.cuEventSynchronize(events[count % 3]))  # two batches stay queued
        now = read()
        with contextlib.suppress(pynvml.NVMLError):
            mask = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            window.reasons |= {name for bit, name in REASONS.items() if mask & bit}
        if now - start >= seconds and count >= 3:
            break
    with contextlib.suppress(pynvml.NVMLError):
        window.temperature_c = float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    gpu.sync()
    window.run_us = (time.perf_counter() - start) * 1e6 / (count * batch)
    if first and last and last[0] > first[0]:
        window.power_w = (last[1] - first[1]) / 1e3 / (last[0] - first[0])
    for event in events:
        cuda(driver.cuEventDestroy(event))
    return window
