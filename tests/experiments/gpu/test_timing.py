"""The stopwatch and the power window on a stand-in for a device's queue, and warming up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda.bindings.driver import CUresult

from experiments.gpu import power, timing
from experiments.gpu.fastest_call import by_stopwatch
from experiments.gpu.timing import AHEAD, Samples, Stopwatch

SMS = 2
FLUSH_US, FLUSH_MHZ = 50.0, 500.0
Command = Callable[[], None]


class Queue:
    """A device that runs commands in order, as late as it may: when the host waits, or at once
    while it is `eager`.

    A command takes so many microseconds at a clock in MHz. Each SM counts its cycles from another
    number.
    """

    def __init__(self) -> None:
        self.now_us, self.cycles = 1.0, 1000.0
        self.waiting: list[Command] = []
        self.done: dict[Any, float] = {}  # when each event passed
        self.ran: list[str] = []
        self.memory: dict[int, np.ndarray] = {}
        # `silent` says which SM does not write which stamp.
        self.stamps, self.silent = 0, dict[int, int]()
        self.eager = False

    def put(self, command: Command) -> None:
        self.waiting.append(command)
        if self.eager:
            self.drain()

    def drain(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def busy(self, name: str, time_us: float, mhz: float) -> Command:
        def command() -> None:
            self.ran.append(name)
            self.now_us += time_us
            self.cycles += time_us * mhz

        return command

    def stamp(self, cycles: int, nanoseconds: int) -> None:
        def command() -> None:
            here = np.arange(SMS) != self.silent.get(self.stamps)  # what is not written stays zero
            self.stamps += 1
            self.memory[cycles] = here * (self.cycles + 7.0 * np.arange(SMS))
            self.memory[nanoseconds] = here * 1e3 * self.now_us

        self.put(command)


class Gpu:
    """`experiments.gpu.device.Gpu` on a `Queue`, with the driver's functions that the stopwatch
    calls.
    """

    sm_count, l2_bytes = SMS, 1 << 20

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue, self.stream = Queue(), SimpleNamespace(handle=0)
        # events that were queued behind the kernel that holds
        self.released_after: int | None = None
        events = iter(range(10**6))
        ok = (CUresult.CUDA_SUCCESS,)

        def wait(event: int) -> tuple[Any, ...]:
            while event not in self.queue.done:
                self.queue.waiting.pop(0)()
            return ok

        def passed(event: int) -> tuple[Any, ...]:
            return ok if event in self.queue.done else (CUresult.CUDA_ERROR_NOT_READY,)

        def record(event: int, stream: object) -> tuple[Any, ...]:
            self.queue.done.pop(event, None)
            self.queue.put(lambda: self.queue.done.__setitem__(event, self.queue.now_us))
            return ok

        def flush(address: int, value: int, nbytes: int, stream: object) -> tuple[Any, ...]:
            if nbytes == self.l2_bytes:
                self.queue.put(self.queue.busy("flush", FLUSH_US, FLUSH_MHZ))
            return ok

        driver = SimpleNamespace(
            CUresult=CUresult,
            cuEventCreate=lambda flags: (*ok, next(events)),
            cuEventDestroy=lambda event: ok,
            cuEventRecord=record,
            cuEventQuery=passed,
            cuEventSynchronize=wait,
            cuEventElapsedTime=lambda a, b: (*ok, (self.queue.done[b] - self.queue.done[a]) / 1e3),
            cuMemsetD8Async=flush,
        )
        for module in (timing, power):
            monkeypatch.setattr(module, "driver", driver)
        memory = lambda nbytes: SimpleNamespace(address=1 << 20, nbytes=nbytes)
        monkeypatch.setattr(timing, "Memory", memory)
        flag = SimpleNamespace(address=0, clear=lambda: None, set=self._release)
        monkeypatch.setattr(timing, "PinnedFlag", lambda: flag)

    def _release(self) -> None:
        if self.released_after is None:
            self.released_after = len(self.queue.waiting)

    def harness_launcher(self, name: str, grid: int, block: int) -> Callable[..., None]:
        assert name == "stamp" and grid == SMS
        return self.queue.stamp

    def harness(self, name: str, grid: int, block: int, *arguments: Any) -> None:
        assert grid == block == 1
        self.queue.put(lambda: self.queue.ran.append(name))

    def sync(self) -> None:
        self.queue.drain()

    def download(self, memory: Any, dtype: Any, count: int) -> np.ndarray:
        places = range(memory.address, memory.address + 8 * count, 8 * SMS)
        return np.concatenate([self.queue.memory[place] for place in places]).astype(dtype)

    def work(self, name: str, time_us: float, mhz: float, *, eager: bool | None = None) -> Command:
        """Work of a kernel; with `eager`, the device runs out of commands from then on, or no
        longer.
        """

        def launch() -> None:
            if eager is not None and self.released_after is not None:
                self.queue.eager = eager
            self.queue.put(self.queue.busy(name, time_us, mhz))

        return launch


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return Gpu(monkeypatch)


def run(gpu: Gpu, works: Sequence[Command]) -> Samples:
    return Stopwatch(gpu, len(works)).run(works)  # type: ignore[arg-type]


def test_a_sample_has_the_time_and_the_clock_of_its_work_alone(gpu: Gpu) -> None:
    """Each work has its own clock, and flushes another: stamps around anything else would mix
    them.
    """
    slow, fast = gpu.work("slow", 300.0, 1000.0), gpu.work("fast", 20.0, 1980.0)
    samples = run(gpu, [slow, fast, fast, slow])
    assert samples.time_us == pytest.approx([300, 20, 20, 300])
    assert samples.sm_clock_mhz == pytest.approx([1000, 1980, 1980, 1000], rel=1e-3)
    assert samples.kept.all()
    first = ["slow", "fast", "flush", "hold"]
    timed = ["flush", "slow", "flush", "fast", "flush", "fast", "flush", "slow"]
    assert gpu.queue.ran == first + timed


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("silent", [{1: 1}, {2: 1}, {1: 0, 2: 0}, {1: 0, 2: 1}])
def test_an_sm_counts_that_is_stamped_before_and_after(silent: dict[int, int], gpu: Gpu) -> None:
    """A block of a stamp may run on another SM than its own.

    Number 1 is before the work, 2 after it.
    """
    gpu.queue.silent = silent
    samples = run(gpu, [gpu.work("work", 300.0, 1200.0)])
    mhz = np.nan if len({*silent.values()}) == SMS else 1200.0
    assert samples.sm_clock_mhz == pytest.approx([mhz], rel=1e-3, nan_ok=True)


def test_the_queue_is_filled_before_the_device_begins(gpu: Gpu) -> None:
    works = [gpu.work("work", 10.0, 1500.0)] * (2 * AHEAD)
    assert run(gpu, works).kept.all()
    # commands of a sample: six
    assert gpu.released_after is not None and gpu.released_after >= 6 * (AHEAD - 1)


def test_a_sample_that_may_hold_a_launch_gap_is_rejected(gpu: Gpu) -> None:
    """The device had reached the sample before all of it was queued."""
    good, dry = gpu.work("good", 10.0, 1500.0), gpu.work("dry", 10.0, 1500.0, eager=True)
    refilled = gpu.work("refilled", 10.0, 1500.0, eager=False)
    works = [good] * AHEAD + [dry, good, refilled, good]
    kept = run(gpu, works).kept
    assert kept[:AHEAD].all() and list(kept[AHEAD:]) == [False, False, False, True]
    times = by_stopwatch(gpu, [*[good] * AHEAD, dry, refilled, good])  # type: ignore[arg-type]
    assert np.isnan(times[AHEAD]) and not np.isnan(times[:AHEAD]).any()


# ---- power ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("swing_w", "lasts_s"), [(0.0, 1.0), (400.0, 2.5)])
def test_power_is_read_once_the_clock_has_settled_until_it_is_precise_and_while_work_is_queued(
    swing_w: float, lasts_s: float, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The meter's thread is replaced by one that notes when it began and ended; the counter moves
    every 100 ms.
    """
    noted: list[tuple[float, int]] = []

    class Meter:
        ident: int | None = None

        def __init__(self, handle: object) -> None:
            self.full = power.Polls(masks=[4, 4, 4, 0])

        @property
        def polls(self) -> power.Polls:
            now = gpu.queue.now_us / 1e6
            moved = [t / 10 for t in range(1, 100) if power.SETTLE_S <= t / 10 <= now]
            energy = [700_000 * s + 100 * swing_w * (round(10 * s) % 2) for s in moved]
            return power.Polls([*zip(moved, map(int, energy), strict=True)], self.full.masks)

        def start(self) -> None:
            self.ident = 1
            noted.append((gpu.queue.now_us / 1e6, len(gpu.queue.waiting)))

        def stop(self) -> None:
            noted.append((gpu.queue.now_us / 1e6, len(gpu.queue.waiting)))

    monkeypatch.setattr(power, "Meter", Meter)
    monkeypatch.setattr(power.time, "perf_counter", lambda: gpu.queue.now_us / 1e6)
    monkeypatch.setattr(power.pynvml, "nvmlDeviceGetTemperature", lambda handle, sensor: 61)
    reading = power.watch(gpu, None, gpu.work("work", 1000.0, 1500.0), 1000.0, 2.5)  # type: ignore[arg-type]
    (begun, _), (ended, queued) = noted
    assert power.SETTLE_S <= begun < power.SETTLE_S + 0.1 and queued > 0
    assert ended - begun == pytest.approx(lasts_s, abs=0.11)
    assert reading.power_w == pytest.approx(700, rel=0.02) and reading.error_w is not None
    assert (reading.error_w > 0.01 * 700) is (swing_w > 0)
    assert (reading.run_us, reading.temperature_c) == (pytest.approx(1000), 61)
    assert reading.throttle_fractions == "power_cap=0.750"
    assert reading.throttle_reasons == "power_cap"


def test_the_energy_counter_is_read_where_it_moves_and_few_ticks_are_no_mean() -> None:
    """It stands still for 20 ms, and moves up to 8 ms late; the first answer says nothing of when
    it moved.
    """
    rng, polls = np.random.default_rng(1), power.Polls()
    late = rng.uniform(0, 0.008, 60)
    for ms in range(1000):
        passed = int(sum(ms / 1e3 >= 0.02 * (i + 1) + late[i] for i in range(60)))
        polls.add_energy(ms / 1e3, 5_000_000 + 14_000 * passed)
        if ms == 100:
            assert polls.power() == (None, None)  # of five ticks
    watts, error = polls.power()
    assert watts is not None and error is not None
    assert abs(watts - 700) <= 2 * error and error < 7
    assert power.Polls().throttled() is None and power.Reading().throttle_fractions is None


def test_the_fraction_of_polls_that_showed_a_reason() -> None:
    polls = power.Polls(masks=[0x4, 0x4 | 0x20, 0x1, 0x0])
    assert polls.throttled() == {"power_cap": 0.5, "sw_thermal": 0.25}
    assert power.Polls(masks=[0x1, 0x0]).throttled() == {}
    assert power.Reading(throttled={}).throttle_reasons == "none"


# ---- warming up ----------------------------------------------------------------------------------


# A clock that falls in steps: two chunks are alike at each, and that is not steady.
STEPS = [1000.0, 1000.0, 1100.0, 1100.0, 1200.0, 1200.0, 1300.0, 1301.0, 1300.0]


@pytest.mark.parametrize(
    ("times", "min_s", "max_s", "ends_s"),
    [
        ([1000.0], 0.5, 3.0, (0.5, 0.65)),
        (STEPS, 0.1, 3.0, (0.8, 0.9)),
        ([1000.0, 1100.0] * 1000, 0.3, 1.5, (1.5, 1.75)),  # It is never steady.
    ],
)
def test_warming_up_ends_once_the_work_runs_steadily_or_the_time_is_over(
    times: list[float],
    min_s: float,
    max_s: float,
    ends_s: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One run takes the next of `times` in microseconds, then the last of them."""
    now, taken = 0.0, []

    def duration_us(_: Any, work: Any, count: int = 1) -> float:
        nonlocal now
        taken.append(times[min(len(taken), len(times) - 1)])
        now += count * taken[-1] / 1e6
        return taken[-1]

    monkeypatch.setattr(timing, "duration_us", duration_us)
    monkeypatch.setattr(timing.time, "monotonic", lambda: now)
    steady = timing.warm_up(None, lambda: None, min_s, max_s, chunk_s=0.1)  # type: ignore[arg-type]
    assert steady == taken[-1] and ends_s[0] <= now <= ends_s[1]
    assert len(taken) == len(STEPS) or times != STEPS
