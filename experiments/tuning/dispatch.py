"""Times the kernels of a dispatcher on many problems, in turns with each other and with their baseline.

    python -m experiments.tuning.dispatch sgemm_best --build-dir results/build/sm_90a --out dispatch.csv

The table is the dispatcher's own: from the next run on it picks the kernel that was fastest on the most similar problem
(kernels/catalogue.py). A kernel whose output is wrong has no row.

Problems: square ones over worklog C's range, and rectangular ones, drawn once: tall, wide and deep ones in steps of
128, and some whose sizes are multiples of nothing.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, write_rows
from experiments.command_line import add_build_dir
from experiments.gpu.lease import lease
from kernels.catalogue import Dispatcher, Entry, Problem

logger = logging.getLogger(__name__)

FIRST, LAST, STEP = 1024, 12800, 128
DRAWN, SEED = 13, 15  # of each shape
# Of m, n and k: the range that each is drawn from, log-uniform, and what it is a multiple of
SHAPES = {
    "tall": ((4096, 32768), (256, 1024), (512, 4096), 128),
    "wide": ((256, 1024), (4096, 32768), (512, 4096), 128),
    "deep": ((256, 1024), (256, 1024), (8192, 65536), 128),
    "odd": ((300, 6000), (300, 6000), (300, 6000), 1),
}
WARM_UP_S, WARM_MOST_S = 0.03, 0.4  # all take turns, so that a clock that still falls meets each of them
ROUNDS = (6, 30)
ENOUGH_S = 0.05  # of samples, between these numbers of rounds


def problems(first: int = FIRST, last: int = LAST, step: int = STEP, drawn: int = DRAWN) -> list[tuple[int, int, int]]:
    """m, n, k of each, without repetition."""
    rng = np.random.default_rng(SEED)
    rectangular = [
        tuple(int(np.exp(rng.uniform(np.log(low), np.log(high)))) // of * of for low, high in ranges)
        for *ranges, of in SHAPES.values()
        for _ in range(drawn)
    ]
    squares = [(n, n, n) for n in range(first, last + 1, step)]
    return list(dict.fromkeys([*squares, *((m, n, k) for m, n, k in rectangular)]))


def measure(
    dispatcher: Dispatcher, against: Entry, sizes: list[tuple[int, int, int]], build_dir: Path
) -> Iterator[dict[str, Any]]:
    """Rows of dispatch.csv; use inside `lease()`."""
    from experiments.gpu.device import Gpu
    from experiments.gpu.libraries import load_gemm
    from experiments.gpu.timing import Stopwatch, warm_up
    from experiments.stages.turns import LEAST_KEPT, Matrices, check_output, take_turns

    gpu = Gpu(build_dir)
    kernels = {variant.name: variant for variant in dispatcher.variants}
    loaded = {name: load_gemm(gpu, variant) for name, variant in kernels.items()}
    baseline = load_gemm(gpu, against)
    stopwatch = Stopwatch(gpu, (len(kernels) + 1) * max(ROUNDS))
    for m, n, k in sizes:
        problem = Problem.packed(m, n, k, dispatcher.b_layout)
        names = [name for name, variant in kernels.items() if variant.refusal(problem) is None]
        matrices = Matrices.fill(gpu, problem, dispatcher.dtype, "uniform", [*names, "baseline"])
        works = {name: matrices.bind(loaded[name], name) for name in names}
        works["baseline"] = matrices.bind(baseline, "baseline")

        def each(works: Any = works) -> None:
            for work in works.values():
                work()

        round_us = warm_up(gpu, each, WARM_UP_S, WARM_MOST_S, chunk_s=WARM_UP_S)
        for name in names:
            matrices.poison(gpu, name)
        rounds = int(np.clip(ENOUGH_S * 1e6 / round_us, *ROUNDS))
        turns = take_turns(stopwatch, works, rounds, matrices.seed)
        times = {role: turns.of(role).time_us for role in works}
        if min(map(len, times.values())) < LEAST_KEPT:
            logger.warning(f"{m} x {n} x {k} is left out: launch gaps spoilt its samples")
            continue
        told = []
        for name in names:
            result = check_output(gpu, matrices, name, works[name])
            if not result.passed:
                logger.warning(f"FAILED {name} at {m} x {n} x {k}: {result.detail or 'out of its bound'}")
                continue
            time_us = float(np.median(times[name]))
            share = float(np.median(times["baseline"])) / time_us
            told.append(f"{name} {share:.3f}")
            yield {
                "dispatcher": dispatcher.name,
                "m": m,
                "n": n,
                "k": k,
                "variant": name,
                "time_us": time_us,
                "share": share,
                "source_hash": kernels[name].source_hash,
            }
        logger.info(f"{m} x {n} x {k}, shares of {dispatcher.baseline}: {', '.join(told)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the kernels of a dispatcher on many problems.")
    parser.add_argument("dispatcher", nargs="+", help="entries of kernels/catalogue.yaml's dispatchers")
    add_build_dir(parser)
    parser.add_argument("--step", type=int, default=STEP, help="of the square problems' sizes")
    parser.add_argument("--out", required=True, type=Path, metavar="dispatch.csv")
    options = parser.parse_args()
    if options.step < 1:
        raise UserError(f"--step = {options.step} is not allowed; allowed: at least 1")
    entries = [options.catalogue.find(name) for name in options.dispatcher]
    for entry in entries:
        if not isinstance(entry, Dispatcher):
            raise UserError(f"{entry.name} is no dispatcher; kernels/catalogue.yaml lists them")
    with lease():
        sizes = problems(step=options.step)
        rows = [
            row
            for entry in entries
            if isinstance(entry, Dispatcher)
            for row in measure(entry, options.catalogue[entry.baseline], sizes, options.build_dir)
        ]
    write_rows(options.out, "dispatch", rows)


if __name__ == "__main__":
    run_command(main)
