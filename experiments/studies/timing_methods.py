"""Times one catalogue entry by the stopwatch and by two events around one launch, in one process.

    python -m experiments.studies timing_methods sgemm_warptile --size 1024 --size 4096 \
        --build-dir results/build/sm_90a --out timing_methods.csv

The stopwatch is the reference. The events show what the launch of an idle GPU adds to a kernel.
"""

from __future__ import annotations

import argparse
import logging
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

WARM_S, WINDOW_S = 0.5, 0.5
LAUNCHES = (20, 400)
METHODS = {
    "ours": "median of single launches: L2 flushed, queue filled ahead, uniform data, steady",
    "launch_gap": "events around one launch at a time with a wait after each: the device is idle before it",
}


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
    samples = Stopwatch(gpu, count).run([work] * count)
    good = samples.of(samples.kept)
    warm_up(gpu, work, WARM_S)
    by_events = float(np.median([duration_us(gpu, work) for _ in range(count)]))
    results = {
        "ours": (float(np.median(good.time_us)), float(np.median(good.sm_clock_mhz))),
        "launch_gap": (by_events, None),
    }
    row = {"variant": entry.name, "m": n, "n": n, "k": n, "replays": count}
    row["code_hash"] = code_of(entry, build_dir)
    return [
        {**row, "protocol": protocol, "description": METHODS[protocol]}
        | {"time_us": time_us, "sm_clock_mhz": clock}
        for protocol, (time_us, clock) in results.items()
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    add_variant(parser)
    size = "m = n = k; may be given again"
    parser.add_argument("--size", type=int, action="append", required=True, help=size)
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path)


def run(options: argparse.Namespace) -> None:
    """Write the table."""
    entry = options.catalogue.find(options.variant)
    for size in options.size:
        if reason := entry.unsupported_reason(Problem.square(size, entry.b_layout)):
            raise UserError(reason)
    rows: list[dict[str, Any]] = []
    with session():
        for size in options.size:
            rows += measure(entry, size, options.build_dir)
            ours, events = (row["time_us"] for row in rows[-2:])
            gap = f"by events {events / ours - 1:+.1%}"
            logger.info(f"{entry.name}, n = {size}: {ours:.2f} us, {gap}")
    write_rows(options.out, TimingMethods, rows)
