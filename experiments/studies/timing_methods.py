"""Times one catalogue entry by the stopwatch, as sgemm_cu does, and by events around one launch.

    python -m experiments.studies timing_methods sgemm_warptile --size 1024 --size 4096 \
        --build-dir results/build/sm_90a --out timing_methods.csv

All in one process; the stopwatch is the reference. sgemm_cu (line 108) launches a problem of size n
int(800000 / n) times, each between two events and after a flush of L2, and takes the mean of the
second half. Events around one launch at a time show what an idle GPU adds to it.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

import numpy as np

from contracts import write_rows
from contracts.rows import TimingMethods
from experiments.gpu.session import session
from experiments.stages.machine_code import code_of
from experiments.studies import squares
from kernels.catalogue import Entry, Problem

logger = logging.getLogger(__name__)

WARM_S, WINDOW_S = 0.5, 0.5
LAUNCHES = (20, 400)
METHODS = {
    "ours": "median of single launches: L2 flushed, queue filled ahead, uniform data, steady",
    "sgemm_cu": "mean of the second half of int(800000/n) launches, L2 flushed (sgemm_cu)",
    "launch_gap": "events around one launch at a time with a wait after each: the device is idle before it",
}


def worklog_replays(n: int) -> int:
    """Return how often sgemm_cu launches a problem of size n."""
    return int(800_000 / n)


def second_half_mean(times_us: np.ndarray) -> float:
    """Return the mean of the last launches: of 195, of 97."""
    return float(np.mean(times_us[-(len(times_us) // 2) :]))


def measure(entry: Entry, n: int, build_dir: Path) -> list[dict[str, Any]]:
    """Return rows of timing_methods.csv for m = n = k = `n`."""
    from experiments.gpu.device import Gpu
    from experiments.gpu.libraries import bind_for_timing, load_gemm
    from experiments.gpu.timing import Stopwatch, duration_us, warm_up

    gpu, types = Gpu(build_dir), entry.types
    matrices = [gpu.filled(types.of(x), n * n, seed, "uniform") for seed, x in enumerate("ABC")]
    a, b, c = (matrix.address for matrix in matrices)
    work = bind_for_timing(load_gemm(gpu, entry), Problem.square(n, entry.b_layout), a, b, c)
    warm_up(gpu, work, WARM_S)
    count = int(np.clip(WINDOW_S * 1e6 / duration_us(gpu, work, 5), *LAUNCHES))
    replays = worklog_replays(n)
    stopwatch = Stopwatch(gpu, max(count, replays))
    samples = stopwatch.run([work] * count)
    good = samples.of(samples.kept)
    text = stopwatch.run([work] * replays)
    warm_up(gpu, work, WARM_S)
    by_events = float(np.median([duration_us(gpu, work) for _ in range(count)]))
    clocks = [float(np.median(each.sm_clock_mhz)) for each in (good, text)]
    results = {
        "ours": (float(np.median(good.time_us)), clocks[0], count),
        "sgemm_cu": (second_half_mean(text.time_us), clocks[1], replays),
        "launch_gap": (by_events, None, count),
    }
    row = {"variant": entry.name, "m": n, "n": n, "k": n, "code_hash": code_of(entry, build_dir)}
    return [
        {**row, "protocol": protocol, "description": METHODS[protocol]}
        | {"time_us": time_us, "sm_clock_mhz": clock, "replays": launches}
        for protocol, (time_us, clock, launches) in results.items()
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    squares.add_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Write the table."""
    entry = options.catalogue.find(options.variant)
    squares.require_taken(entry, options.size)
    rows: list[dict[str, Any]] = []
    with session():
        for size in options.size:
            rows += measure(entry, size, options.build_dir)
            ours, text, events = (row["time_us"] for row in rows[-len(METHODS) :])
            others = f"as sgemm_cu {text / ours - 1:+.2%}, by events {events / ours - 1:+.1%}"
            logger.info(f"{entry.name}, n = {size}: {ours:.2f} us, {others}")
    write_rows(options.out, TimingMethods, rows)
