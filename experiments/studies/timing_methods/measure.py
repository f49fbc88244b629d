"""Times one catalogue entry in the ways that people time kernels, in one process, to show what each gets wrong.

    python -m experiments.studies.timing_methods.measure sgemm_warptile --size 1024 --size 4096 \
        --build-dir results/build/sm_90a --out timing_methods.csv

Ours is the reference: median of single launches, L2 flushed before each, no launch latency, random data, steady clock.
Each other protocol departs from it in what its name says; DEPARTURES says how.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, write_rows
from experiments.command_line import add_build_dir, add_variant
from experiments.gpu.session import session
from experiments.stages.bench import worklog_replays
from experiments.stages.machine_code import code_of
from kernels.catalogue import Entry, Problem

logger = logging.getLogger(__name__)

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


def measure(entry: Entry, n: int, build_dir: Path) -> list[dict[str, Any]]:
    """Rows of timing_methods.csv for m = n = k = `n`."""
    from experiments.gpu.device import Gpu, Memory
    from experiments.gpu.libraries import bind_for_timing, load_gemm
    from experiments.gpu.timing import Stopwatch, duration_us, warm_up

    gpu = Gpu(build_dir)
    a, b, c = (Memory(n * n * entry.types.of(matrix).bytes) for matrix in "ABC")

    def fill(data: str) -> None:
        for seed, matrix in enumerate((a, b)):
            gpu.fill(matrix, entry.types.ab, n * n, seed, data)

    fill("uniform")
    work = bind_for_timing(load_gemm(gpu, entry), Problem.square(n, entry.b_layout), a.address, b.address, c.address)
    warm_up(gpu, work, 0.5)
    replays = int(np.clip(WINDOW_S * 1e6 / duration_us(gpu, work, 5), 20, MOST))
    stopwatches = {flush: Stopwatch(gpu, max(replays, worklog_replays(n)), flush) for flush in (True, False)}

    def second_half_mean(times_us: np.ndarray) -> float:
        return float(np.mean(times_us[len(times_us) // 2 :]))

    def stamped(count: int, flush: bool = True, middle: Any = np.median) -> tuple[float, float, int]:
        samples = stopwatches[flush].run([work] * count)
        return float(middle(samples.time_us[samples.kept])), float(np.median(samples.sm_clock_mhz)), count

    def host_clock(count: int) -> tuple[float, None, int]:
        gpu.sync()
        start = time.perf_counter()
        for _ in range(count):
            work()
        gpu.sync()
        return (time.perf_counter() - start) * 1e6 / count, None, count

    def launch_gap() -> tuple[float, None, int]:
        return float(np.median([duration_us(gpu, work) for _ in range(replays)])), None, replays

    def after_idle() -> tuple[float, None, int]:
        gpu.sync()
        time.sleep(IDLE_S)
        return host_clock(10)

    def with_data(data: str) -> tuple[float, float, int]:
        fill(data)
        warm_up(gpu, work, 0.5)
        taken = stamped(replays)
        fill("uniform")
        return taken

    methods: dict[str, Callable[[], tuple[float, float | None, int]]] = {
        "ours": lambda: stamped(replays),
        "sgemm_cu": lambda: stamped(worklog_replays(n), middle=second_half_mean),
        "host_clock": lambda: host_clock(HOST_REPLAYS),
        "no_flush": lambda: stamped(replays, flush=False),
        "launch_gap": launch_gap,
        "after_idle": after_idle,
        "zeros": lambda: with_data("zeros"),
        "normal": lambda: with_data("normal"),
    }
    assert methods.keys() == DEPARTURES.keys()
    rows = []
    for name, method in methods.items():
        warm_up(gpu, work, 0.3)
        time_us, clock, count = method()
        rows.append(
            {
                "variant": entry.name,
                "m": n,
                "n": n,
                "k": n,
                "protocol": name,
                "description": DEPARTURES[name],
                "time_us": time_us,
                "sm_clock_mhz": clock,
                "replays": count,
                "code_hash": code_of(entry, build_dir),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Time one catalogue entry in the ways that people time kernels.")
    add_variant(parser)
    parser.add_argument("--size", type=int, action="append", required=True, help="m = n = k; may be given again")
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
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
                f"{r['protocol']} {r['time_us'] / ours - 1:+.1%}" for r in rows[-len(DEPARTURES) + 1 :]
            )
            logger.info(f"{entry.name}, n = {size}: ours {ours:.2f} us; {differences}")
    write_rows(options.out, "timing_methods", rows)


if __name__ == "__main__":
    run_command(main)
