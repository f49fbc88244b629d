"""Times tiles on this GPU, and prints its constants for kernels/tile_times.yaml.

    python -m experiments.tuning.tile_times --build-dir results/build/sm_90a --out tile_times.csv

The problems are drawn from `--seed`: m, n and k are log-uniform multiples of 8 from 64 to 8192. Of
each, tiles that the present constants rank high are timed, and as many that they do not. They are
compiled where they lack. The constants are those with the smallest relative error (least squares on
logarithms).
"""

from __future__ import annotations

import argparse
import csv
import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contracts import UserError, atomic_write, run_command
from contracts.declared import TileTimes
from experiments.gpu import discovery
from experiments.stages.tile_builds import TileBuilds
from kernels import catalogue, tile_choice
from kernels.catalogue import Problem, Variant
from kernels.tiles import Tile

if TYPE_CHECKING:
    from experiments.gpu.device import Gpu

logger = logging.getLogger(__name__)

FITTED = ("start_us", "store_us", "multiply_adds", "l2_bytes", "dram_bytes", "step_us")
LIKELIEST, OTHERS = 4, 4  # tiles of each problem
SAMPLES = 15
MIN_ROWS = 3 * len(FITTED)


@dataclass(frozen=True)
class Row:
    """How long a launch of a tile took on a problem, in microseconds."""

    problem: Problem
    tile: Tile
    time_us: float


def drawn(count: int, seed: int) -> Iterator[tuple[Problem, list[Tile]]]:
    """Yield so many problems, each with the tiles to be timed."""
    rng = random.Random(seed)
    for _ in range(count):
        m, n, k = (8 * round(2 ** rng.uniform(3, 10)) for _ in range(3))
        problem = Problem.packed(m, n, k)
        order = tile_choice.ranked(problem)
        rest = order[LIKELIEST:]
        yield problem, order[:LIKELIEST] + rng.sample(rest, min(OTHERS, len(rest)))


def measured(
    asked: Sequence[tuple[Problem, list[Tile]]], build_dir: Path, nvcc: str | None
) -> tuple[list[Row], int]:
    """Return a row for each tile that compiles, and the number of multiprocessors. The GPU is held
    while it times.
    """
    from experiments.gpu.device import Gpu
    from experiments.gpu.session import session

    known, here = catalogue.load(), discovery.gpu()
    if here is None:
        raise UserError("no GPU is visible here, and times are measured on one")
    builds = TileBuilds(known, build_dir, nvcc)
    names = dict.fromkeys(tile.name for _, listed in asked for tile in listed)
    kernels = [kernel for kernel in map(known.find, names) if isinstance(kernel, Variant)]
    built = {kernel.name: kernel for kernel in builds.built(kernels, here.arch)}
    if not built:
        raise UserError("no tile could be compiled")
    rows = []
    with session():
        gpu = Gpu(build_dir)
        for problem, listed in asked:
            there = [built[tile.name] for tile in listed if tile.name in built]
            times = _times(gpu, problem, there, builds.folder(here.arch)) if there else {}
            rows += [Row(problem, tile, times[tile.name]) for tile in listed if tile.name in times]
        return rows, gpu.sm_count


def _times(
    gpu: Gpu, problem: Problem, kernels: Sequence[Variant], folder: Path
) -> dict[str, float]:
    """Return the median of each right kernel's interleaved times, in microseconds."""
    from experiments.gpu.device import CatalogueKernel
    from experiments.gpu.timing import Stopwatch, warm_up
    from experiments.stages.interleave import Matrices, check_output, interleave

    matrices = Matrices.fill(gpu, problem, kernels[0].types, "uniform", ("c",))
    addresses = matrices.a.address, matrices.b.address, matrices.c["c"].address
    works = {
        kernel.name: CatalogueKernel(gpu, kernel, folder).bind(problem, *addresses)
        for kernel in kernels
    }
    for name, work in list(works.items()):
        matrices.poison(gpu, "c")
        work()
        checked = check_output(gpu, matrices, "c", work)
        if not checked.passed:
            logger.warning(f"{name} is not timed: wrong on {problem}: {checked.detail}")
            del works[name]

    def each() -> None:
        for work in works.values():
            work()

    if not works:
        return {}
    warm_up(gpu, each, 0.03)
    runs = interleave(Stopwatch(gpu, len(works) * SAMPLES), works, SAMPLES, matrices.seed)
    return {name: float(np.median(runs.of(name).time_us)) for name in works}


def fit(rows: Sequence[Row], sms: int, start: TileTimes) -> tuple[TileTimes, float]:
    """Return the constants that fit the rows best, and the root mean square of what is left, as a
    part of the time.

    start: constants from which the fit begins. Raises `UserError` for too few rows.
    """
    from scipy.optimize import least_squares

    if len(rows) < MIN_ROWS:
        raise UserError(f"{len(rows)} times, but a fit needs {MIN_ROWS} or more")

    def of(logarithms: np.ndarray) -> TileTimes:
        return start.model_copy(update=dict(zip(FITTED, np.exp(logarithms).tolist(), strict=True)))

    def errors(logarithms: np.ndarray) -> list[float]:
        times = of(logarithms)
        expected = (tile_choice.time_us(row.tile, row.problem, times, sms) for row in rows)
        return [np.log(e / row.time_us) for e, row in zip(expected, rows, strict=True)]

    # Robust: a tile that spills, or a problem that power holds back, shall not bend the rest.
    begin = np.log([max(getattr(start, key), 1e-3) for key in FITTED])
    found = least_squares(errors, begin, loss="soft_l1", f_scale=0.1)
    return of(found.x), float(np.sqrt(np.mean(np.square(errors(found.x)))))


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the constants of tiles to this GPU.")
    parser.add_argument("--build-dir", required=True, type=Path, help="folder with harness.cubin")
    parser.add_argument("--problems", type=int, default=40, metavar="N", help="40 when left out")
    parser.add_argument("--seed", type=int, default=53, help="of the problems")
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--out", required=True, type=Path, help="table of the times (CSV)")
    options = parser.parse_args()
    asked = list(drawn(options.problems, options.seed))
    rows, sms = measured(asked, options.build_dir, options.nvcc)
    times, error = fit(rows, sms, tile_choice.times_of())
    with atomic_write(options.out) as path, path.open("w") as file:
        table = csv.writer(file)
        table.writerow(["m", "n", "k", "tile", "time_us", "expected_us"])
        for row in rows:
            p, expected = row.problem, tile_choice.time_us(row.tile, row.problem, times, sms)
            table.writerow([p.m, p.n, p.k, row.tile.name, f"{row.time_us:.2f}", f"{expected:.2f}"])
    print(
        f"# {len(rows)} times on {len(asked)} problems of seed {options.seed}, off by {error:.1%}"
    )
    here = discovery.gpu()
    print(f'"{here.name if here else ""}":')
    for key, value in times.model_dump().items():
        print(f"  {key}: {value:.3f}" if value < 1000 else f"  {key}: {value / 1e6:.3f}e+6")


if __name__ == "__main__":
    run_command(main)
