"""Times tiles on this GPU, and prints its constants for kernels/tile_times.yaml.

    python -m experiments.tuning.tile_times --build-dir results/build/sm_90a --out tile_times.csv

The problems are drawn from `--seed`, all sizes log-uniform: in turn any m, n and k, multiples of 8
from 64 to 8192; a layer of a language model, of 1 to 4096 rows; and a square. Of each, the tiles
that the present constants rank first are timed, and some that they do not. They are compiled where
they lack. The constants are those with the smallest
relative error (least squares on logarithms), in which a slow tile counts less.

`--problem 512x2112x7168 --likeliest 130 --others 0` times as many tiles of one problem.

`--fit FILE ...` fits them to tables of earlier runs, such as one run on each of several GPUs. It
prints what the present ranking costs: the fastest of the tiles that a dispatcher compiles beside
the fastest of all that were timed.
"""

from __future__ import annotations

import argparse
import csv
import logging
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contracts import UserError, atomic_write, run_command
from contracts.declared import TileTimes
from experiments.command_line import add_problems
from experiments.gpu import discovery
from experiments.stages.tile_builds import COMPILED, TileBuilds
from kernels import catalogue, tile_choice, tiles
from kernels.catalogue import Problem, Variant
from kernels.tiles import Tile

if TYPE_CHECKING:
    from experiments.gpu.device import Gpu

logger = logging.getLogger(__name__)

FITTED = (
    *("start_us", "store_us", "multiply_adds", "l2_bytes", "dram_bytes", "step_us", "slice_us"),
    *("eight_us", "ragged"),
)
LIKELIEST, OTHERS = 6, 6  # tiles of each problem
SAMPLES = 15
MIN_ROWS = 3 * len(FITTED)
COLUMNS = ("gpu", "sms", "m", "n", "k", "tile", "time_us")


@dataclass(frozen=True)
class Row:
    """How long a launch of a tile took on a problem, in microseconds."""

    problem: Problem
    tile: Tile
    time_us: float


def drawn(count: int, seed: int) -> Iterator[Problem]:
    """Yield so many problems, of the three kinds in turn."""
    rng = random.Random(seed)

    def size(unit: int, least: int, most: int) -> int:
        return unit * round(math.exp(rng.uniform(math.log(least / unit), math.log(most / unit))))

    for number in range(count):
        if number % 3 == 0:
            m, n, k = (size(8, 64, 8192) for _ in range(3))
            yield Problem.packed(m, n, k)
        elif number % 3 == 1:
            n, k = (size(128, 512, 28672) for _ in range(2))
            yield Problem.packed(2 ** rng.randint(0, 12), n, k)
        else:
            yield Problem.square(size(8, 512, 8192))


def with_tiles(
    problems: Iterable[Problem],
    likeliest: int,
    others: int,
    seed: int,
    sms: int = 132,
    gpu: str = tile_choice.GPU,
) -> Iterator[tuple[Problem, list[Tile]]]:
    """Yield each problem with the tiles to be timed: those that are ranked first for this GPU, and
    others at random.
    """
    rng = random.Random(seed)
    for problem in problems:
        order = tile_choice.ranked(problem, sms=sms, gpu=gpu)
        rest = order[likeliest:]
        yield problem, order[:likeliest] + rng.sample(rest, min(others, len(rest)))


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

    fastest: dict[Problem, float] = {}
    for row in rows:
        fastest[row.problem] = min(row.time_us, fastest.get(row.problem, row.time_us))
    # The ranking among the fastest is what matters: one twice as slow counts an eighth.
    weights = np.array([(fastest[row.problem] / row.time_us) ** 3 for row in rows])

    def errors(logarithms: np.ndarray) -> np.ndarray:
        times = of(logarithms)
        expected = [tile_choice.time_us(row.tile, row.problem, times, sms) for row in rows]
        return np.log(np.array(expected) / [row.time_us for row in rows])

    # Robust: a tile that spills, or a problem that power holds back, shall not bend the rest.
    begin = np.log([max(getattr(start, key), 1e-3) for key in FITTED])
    found = least_squares(lambda x: weights * errors(x), begin, loss="soft_l1", f_scale=0.1)
    return of(found.x), float(np.sqrt(np.mean(np.square(errors(found.x)))))


def regrets(rows: Sequence[Row], sms: int, gpu: str) -> dict[Problem, float]:
    """Return for each problem how much longer than the fastest tile that was timed the fastest of
    those takes that a dispatcher compiles, as a part of the time.

    Problems of which not all of the latter were timed are left out.
    """
    by_problem: dict[Problem, dict[str, float]] = {}
    for row in rows:
        by_problem.setdefault(row.problem, {})[row.tile.name] = row.time_us
    of = {}
    for problem, times in by_problem.items():
        likely = tile_choice.ranked(problem, sms=sms, gpu=gpu)[:COMPILED]
        if all(tile.name in times for tile in likely):
            of[problem] = min(times[tile.name] for tile in likely) / min(times.values()) - 1
    return of


def write_times(path: Path, rows: Sequence[Row], gpu: str, sms: int) -> None:
    """Write the rows as a table that `read_times` reads."""
    with atomic_write(path) as out, out.open("w") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for row in rows:
            p = row.problem
            table.writerow([gpu, sms, p.m, p.n, p.k, row.tile.name, f"{row.time_us:.3f}"])


def read_times(paths: Sequence[Path]) -> tuple[list[Row], str, int]:
    """Return the rows of several tables, the name of their GPU and its number of multiprocessors.

    Raises `UserError` for a file that is no such table, and for tables of two GPU models.
    """
    rows, gpus = [], set()
    for path in paths:
        try:
            for line in csv.DictReader(path.read_text().splitlines(), strict=True):
                tile = tiles.named(line["tile"])
                if tile is None:
                    raise UserError(f"{path}: {line['tile']} is no tile")
                m, n, k = (int(line[axis]) for axis in "mnk")
                problem = Problem.packed(m, n, k, tile.b_layout)
                rows.append(Row(problem, tile, float(line["time_us"])))
                gpus.add((line["gpu"], int(line["sms"])))
        except (OSError, KeyError, ValueError, csv.Error) as error:
            raise UserError(f"{path} is no table of tile times: {error!r}") from None
    if len(gpus) != 1:
        named = ", ".join(sorted(gpu for gpu, _ in gpus)) or "none"
        raise UserError(f"times of one GPU model are fitted, but the tables have: {named}")
    [(gpu, sms)] = gpus
    return rows, gpu, sms


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the constants of tiles to a GPU.")
    parser.add_argument("--build-dir", type=Path, help="folder with harness.cubin")
    words = "that are drawn; 40 when left out"
    parser.add_argument("--problems", type=int, default=40, metavar="N", help=words)
    add_problems(parser, "that are timed in place of drawn ones")
    parser.add_argument(
        "--likeliest",
        type=int,
        default=LIKELIEST,
        metavar="N",
        help="tiles of each problem that are ranked first",
    )
    parser.add_argument(
        "--others", type=int, default=OTHERS, metavar="N", help="tiles of each problem at random"
    )
    parser.add_argument("--seed", type=int, default=53, help="of the problems")
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--out", type=Path, help="table of the times (CSV)")
    parser.add_argument(
        "--fit", type=Path, nargs="+", metavar="FILE", help="fit to tables of earlier runs"
    )
    options = parser.parse_args()
    if options.fit:
        rows, gpu, sms = read_times(options.fit)
    elif options.build_dir and options.out:
        if (here := discovery.gpu()) is None:
            raise UserError("no GPU is visible here, and times are measured on one")
        gpu = here.name
        problems = [spec.of("row") for spec in options.problem]
        asked = with_tiles(
            problems or drawn(options.problems, options.seed),
            *(options.likeliest, options.others, options.seed),
            gpu=gpu,
        )
        rows, sms = measured(list(asked), options.build_dir, options.nvcc)
        write_times(options.out, rows, gpu, sms)
    else:
        raise UserError("name --build-dir and --out, or tables with --fit")
    times, error = fit(rows, sms, tile_choice.times_of(gpu))
    print(
        f"# {len(rows)} times on {len({row.problem for row in rows})} problems, off by {error:.1%}"
    )
    if cost := list(regrets(rows, sms, gpu).values()):
        print(
            f"# the {COMPILED} likeliest of the present constants: {np.mean(cost):.1%} slower than the "
            f"fastest on average, {max(cost):.1%} at most, on {len(cost)} problems"
        )
    print(f'"{gpu}":')
    for key, value in times.model_dump().items():
        print(f"  {key}: {value:.3f}" if value < 1000 else f"  {key}: {value / 1e6:.3f}e+6")


if __name__ == "__main__":
    run_command(main)
