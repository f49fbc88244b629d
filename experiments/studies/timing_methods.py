"""Times one catalogue entry in the ways that people time kernels, in one process, to show what each
gets wrong.

    python -m experiments.studies timing_methods sgemm_warptile --size 1024 --size 4096 \
        --build-dir results/build/sm_90a --out timing_methods.csv

Ours is the reference: median of single launches, L2 flushed before each, no launch latency, random
data, steady clock. Each other protocol departs from it in what its name says; DEPARTURES says how.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, write_rows
from contracts.rows import TimingMethods
from experiments.command_line import add_build_dir, add_variant
from experiments.gpu.session import session
from experiments.stages.machine_code import code_of
from kernels.catalogue import Entry, Problem

logger = logging.getLogger(__name__)

Taken = tuple[float, float | None, int]
HOST_REPLAYS = 100
IDLE_S = 2.0  # long enough for the card to lower its clock
WINDOW_S = 0.5
MOST = 400
DEPARTURES = {
    "ours": "median of single launches: L2 flushed, queue filled ahead, uniform data, steady",
    "sgemm_cu": "mean of the second half of int(800000/n) launches, L2 flushed (sgemm_cu)",
    "host_clock": "host clock around 100 launches and a wait: nothing flushed, the first launch's latency inside",
    "no_flush": "as ours, but L2 keeps what the launch before left there",
    "launch_gap": "events around one launch at a time with a wait after each: the device is idle before it",
    "after_idle": "host clock around 10 launches after 2 s of idling: the clock is not up",
    "zeros": "as ours, but all of A and B zero: less power, and a higher clock where power limits it",
    "normal": "as ours, but normally distributed data",
}


def worklog_replays(n: int) -> int:
    """How often sgemm_cu runs a problem of size n (section 2 of its text)."""
    return int(800000 / n)


class Methods:
    """One entry on one square problem, timed by each protocol: time in us, SM clock in MHz if
    known, and launches.
    """

    def __init__(self, entry: Entry, n: int, build_dir: Path) -> None:
        from experiments.gpu.device import Gpu, Memory
        from experiments.gpu.libraries import bind_for_timing, load_gemm
        from experiments.gpu.timing import Stopwatch, duration_us

        self.gpu, self.entry, self.n = Gpu(build_dir), entry, n
        self.a, self.b, self.c = (Memory(n * n * entry.types.of(matrix).bytes) for matrix in "ABC")
        self.fill("uniform")
        addresses = self.a.address, self.b.address, self.c.address
        self.work = bind_for_timing(
            load_gemm(self.gpu, entry), Problem.square(n, entry.b_layout), *addresses
        )
        self.warm_up(0.5)
        self.replays = int(np.clip(WINDOW_S * 1e6 / duration_us(self.gpu, self.work, 5), 20, MOST))
        most = max(self.replays, worklog_replays(n))
        self.stopwatches = {flush: Stopwatch(self.gpu, most, flush) for flush in (True, False)}

    def fill(self, data: str) -> None:
        """New A and B of this kind."""
        for seed, matrix in enumerate((self.a, self.b)):
            self.gpu.fill(matrix, self.entry.types.ab, self.n * self.n, seed, data)

    def warm_up(self, seconds: float) -> None:
        """See `experiments.gpu.timing.warm_up`."""
        from experiments.gpu.timing import warm_up

        warm_up(self.gpu, self.work, seconds)

    def stamped(self, count: int, flush: bool = True, middle: Any = np.median) -> Taken:
        """Single launches by the stopwatch."""
        taken = self.stopwatches[flush].run([self.work] * count)
        samples = taken.of(taken.kept)
        return float(middle(samples.time_us)), float(np.median(samples.sm_clock_mhz)), count

    def host_clock(self, count: int) -> Taken:
        """The host's clock around launches and a wait."""
        self.gpu.sync()
        start = time.perf_counter()
        for _ in range(count):
            self.work()
        self.gpu.sync()
        return (time.perf_counter() - start) * 1e6 / count, None, count

    def launch_gap(self) -> Taken:
        """Events around one launch at a time."""
        from experiments.gpu.timing import duration_us

        return (
            float(np.median([duration_us(self.gpu, self.work) for _ in range(self.replays)])),
            None,
            self.replays,
        )

    def after_idle(self) -> Taken:
        """The host's clock, after a pause."""
        self.gpu.sync()
        time.sleep(IDLE_S)
        return self.host_clock(10)

    def with_data(self, data: str) -> Taken:
        """Other inputs."""
        self.fill(data)
        self.warm_up(0.5)
        taken = self.stamped(self.replays)
        self.fill("uniform")
        return taken

    def by(self, protocol: str) -> Taken:
        """The result of one of `DEPARTURES`."""
        methods: dict[str, Callable[[], Taken]] = {
            "ours": lambda: self.stamped(self.replays),
            "sgemm_cu": lambda: self.stamped(worklog_replays(self.n), middle=second_half_mean),
            "host_clock": lambda: self.host_clock(HOST_REPLAYS),
            "no_flush": lambda: self.stamped(self.replays, flush=False),
            "launch_gap": self.launch_gap,
            "after_idle": self.after_idle,
            "zeros": lambda: self.with_data("zeros"),
            "normal": lambda: self.with_data("normal"),
        }
        self.warm_up(0.3)
        return methods[protocol]()


def second_half_mean(times_us: np.ndarray) -> float:
    """The mean of the second half, as sgemm_cu takes it."""
    return float(np.mean(times_us[len(times_us) // 2 :]))


def measure(entry: Entry, n: int, build_dir: Path) -> list[dict[str, Any]]:
    """Rows of timing_methods.csv for m = n = k = `n`."""
    methods, rows = Methods(entry, n, build_dir), []
    for protocol, description in DEPARTURES.items():
        time_us, clock, count = methods.by(protocol)
        row = {
            "variant": entry.name,
            "m": n,
            "n": n,
            "k": n,
            "protocol": protocol,
            "description": description,
        }
        row |= {
            "time_us": time_us,
            "sm_clock_mhz": clock,
            "replays": count,
            "code_hash": code_of(entry, build_dir),
        }
        rows.append(row)
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the study."""
    add_variant(parser)
    parser.add_argument(
        "--size", type=int, action="append", required=True, help="m = n = k; may be given again"
    )
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path)


def run(options: argparse.Namespace) -> None:
    """Writes the table."""
    entry = options.catalogue.find(options.variant)
    for size in options.size:
        if reason := entry.refusal(Problem.square(size, entry.b_layout)):
            raise UserError(reason)
    rows: list[dict[str, Any]] = []
    with session():
        for size in options.size:
            rows += measure(entry, size, options.build_dir)
            ours = rows[-len(DEPARTURES)]["time_us"]
            differences = ", ".join(
                f"{r['protocol']} {r['time_us'] / ours - 1:+.1%}"
                for r in rows[-len(DEPARTURES) + 1 :]
            )
            logger.info(f"{entry.name}, n = {size}: ours {ours:.2f} us; {differences}")
    write_rows(options.out, TimingMethods, rows)
