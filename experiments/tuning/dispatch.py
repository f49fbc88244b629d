"""Times the kernels of a dispatcher and every call of its library on many problems, in turns with each other.

    python -m experiments.tuning.dispatch sgemm_best --build-dir results/build/sm_90a --out dispatch.csv

The table is the dispatcher's own: from the next run on, it predicts from it how long each kernel takes
(kernels/cost.py) and runs the fastest. Part of the problems is held out: the fit does not see them, and `picked` marks
the kernel that the dispatcher takes there. A kernel whose output is wrong has no row. The library's row is that of its
fastest call whose output is right.

Problems are drawn with a seed: m, n and k log-uniform from 64 to 8192, half of them multiples of 8 and half of any size
where the kernels take that; squares; and tall, wide and deep ones.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, write_rows
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from experiments.stages.machine_code import code_of
from kernels import cost
from kernels.catalogue import Dispatcher, Entry, Problem

logger = logging.getLogger(__name__)

SMALLEST, LARGEST = 64, 8192
SHAPES = {  # of m, n and k: the range that each is drawn from, log-uniform
    "random": ((SMALLEST, LARGEST), (SMALLEST, LARGEST), (SMALLEST, LARGEST)),
    "tall": ((4096, 32768), (64, 1024), (512, 4096)),
    "wide": ((64, 1024), (4096, 32768), (512, 4096)),
    "deep": ((64, 1024), (64, 1024), (8192, 65536)),
}
DRAWN = {"random": 160, "tall": 8, "wide": 8, "deep": 8}  # to fit
HELD_OUT = {"random": 64, "tall": 4, "wide": 4, "deep": 4}  # to try the fit on
SQUARES = tuple(int(round(2 ** (e / 2) / 64) * 64) for e in range(14, 27))
SEED, HELD_OUT_SEED = 28, 2028
WARM_UP_S, WARM_MOST_S = 0.02, 0.2  # all take turns, so that a clock that still falls meets each of them
ROUNDS = (5, 15)
ENOUGH_S = 0.06  # of samples, between these numbers of rounds
SHORT_US = 10  # problems that the library takes less time for are reported apart


@dataclass(frozen=True)
class Drawn:
    """A problem's sizes, the shape that it was drawn as, and whether the fit may see it."""

    m: int
    n: int
    k: int
    shape: str
    held_out: bool


def problems(step: int = 1, share: float = 1.0) -> list[Drawn]:
    """The problems of the sweep, each once, with m, n and k multiples of `step`; `share` is the part of their number
    that is drawn."""
    found = [Drawn(n, n, n, "square", False) for n in SQUARES]
    for held_out, counts, seed in ((False, DRAWN, SEED), (True, HELD_OUT, HELD_OUT_SEED)):
        rng = np.random.default_rng(seed)
        for shape, ranges in SHAPES.items():
            for number in range(max(round(counts[shape] * share), 2)):
                sizes = (np.exp(rng.uniform(np.log(low), np.log(high))) for low, high in ranges)
                of = max(step, 8 if number % 2 == 0 else 1)
                m, n, k = (max(int(size) // of, 1) * of for size in sizes)
                found.append(Drawn(m, n, k, shape, held_out))
    return list({(one.m, one.n, one.k): one for one in reversed(found)}.values())[::-1]


def measure(dispatcher: Dispatcher, baseline: Entry, sizes: list[Drawn], build_dir: Path) -> Iterator[dict[str, Any]]:
    """Rows of dispatch.csv, without `picked`; use inside `session()`."""
    from experiments.gpu.device import CatalogueKernel, Gpu
    from experiments.gpu.libraries import CublasGemm, load_gemm
    from experiments.gpu.timing import Stopwatch, warm_up
    from experiments.stages.turns import Matrices, check_output, drawn_order

    gpu = Gpu(build_dir)
    kernels = {variant.name: variant for variant in dispatcher.variants}
    loaded = {name: CatalogueKernel(gpu, variant) for name, variant in kernels.items()}
    resident = {name: loaded[name].resident(variant) for name, variant in kernels.items()}
    library = load_gemm(gpu, baseline)
    assert isinstance(library, CublasGemm)
    stopwatch = Stopwatch(gpu, 512)
    for one in sizes:
        problem = Problem.packed(one.m, one.n, one.k, dispatcher.b_layout)
        names = [name for name, variant in kernels.items() if variant.refusal(problem) is None]
        matrices = Matrices.fill(gpu, problem, dispatcher.types, "uniform", [*names, "baseline"])
        works = {name: matrices.bind(loaded[name], name) for name in names}
        a, b, c = matrices.a.address, matrices.b.address, matrices.c["baseline"].address
        calls = library.calls(problem, a, b, c)
        works |= calls
        for name in names:
            matrices.poison(gpu, name)

        def each(works: Any = works) -> None:
            for work in works.values():
                work()

        round_us = warm_up(gpu, each, WARM_UP_S, WARM_MOST_S, chunk_s=WARM_UP_S)
        rounds = int(np.clip(ENOUGH_S * 1e6 / round_us, *ROUNDS))
        order = drawn_order(list(works), rounds, matrices.seed)
        times: dict[str, list[float]] = {name: [] for name in works}
        for at in range(0, len(order), len(works)):  # a round at a time: all of it is queued before the first begins
            turn = order[at : at + len(works)]
            # Each runs twice in a row, and the second run counts: its code is in the instruction caches, as it is where
            # two kernels alternate, while its matrices are not in L2.
            samples = stopwatch.run([works[name] for name in turn for _ in range(2)])
            for name, time_us, kept in zip(turn, samples.time_us[1::2], samples.kept[1::2], strict=True):
                if kept:
                    times[name].append(float(time_us))
        medians = {name: float(np.median(taken)) for name, taken in times.items() if taken}
        columns = {"dispatcher": dispatcher.name, "m": one.m, "n": one.n, "k": one.k}
        columns |= {"shape": one.shape, "held_out": one.held_out}
        best = None
        for call in sorted((call for call in calls if call in medians), key=medians.__getitem__):
            matrices.poison(gpu, "baseline")
            calls[call]()
            if (result := check_output(gpu, matrices, "baseline", calls[call])).passed:
                best = call
                break
            logger.warning(f"WRONG {call} at {one.m} x {one.n} x {one.k}: {result.detail or 'out of its bound'}")
        if best is None:
            logger.warning(f"{one.m} x {one.n} x {one.k} is left out: no call of the library is right")
            continue
        of_library = {"variant": baseline.name, "call": best, "source_hash": baseline.source_hash}
        of_library["code_hash"] = code_of(baseline, build_dir)
        yield columns | of_library | {"time_us": medians[best], "fraction": 1.0}
        fractions = []
        for name in names:
            if name not in medians:
                continue
            result = check_output(gpu, matrices, name, works[name])
            if not result.passed:
                logger.warning(f"FAILED {name} at {one.m} x {one.n} x {one.k}: {result.detail or 'out of its bound'}")
                continue
            fraction = medians[best] / medians[name]
            fractions.append((fraction, name))
            known = {"variant": name, "source_hash": kernels[name].source_hash, "resident": resident[name]}
            known["code_hash"] = code_of(kernels[name], build_dir)
            yield columns | known | {"time_us": medians[name], "fraction": fraction}
        best_three = ", ".join(f"{name} {fraction:.3f}" for fraction, name in sorted(fractions, reverse=True)[:3])
        logger.info(f"{one.m} x {one.n} x {one.k}: {best} {medians[best]:.1f} us; fractions of it: {best_three}")


def mark_picked(dispatcher: Dispatcher, rows: list[dict[str, Any]]) -> None:
    """Sets `picked` in rows of held-out problems, by a model that is fitted to the other rows."""
    fitted = replace(dispatcher, model=cost.fitted(rows, dispatcher.variants))
    for row in rows:
        if row["held_out"] and row["variant"] != dispatcher.baseline:
            problem = Problem.packed(row["m"], row["n"], row["k"], dispatcher.b_layout)
            row["picked"] = fitted.pick(problem).name == row["variant"]


def fractions_by_shape(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each shape: fractions of cuBLAS on held-out problems, those that take less than SHORT_US apart."""
    library_us = {(row["m"], row["n"], row["k"]): row["time_us"] for row in rows if row.get("call")}
    lines = []
    for shape in SHAPES:
        for short in (False, True):
            fractions = [
                row["fraction"]
                for row in rows
                if row.get("picked")
                and row["shape"] == shape
                and (library_us[row["m"], row["n"], row["k"]] < SHORT_US) == short
            ]
            if fractions:
                mean = float(np.exp(np.mean(np.log(fractions))))
                below = sum(fraction < 0.8 for fraction in fractions)
                label = f"{shape}, {'below' if short else 'from'} {SHORT_US} us"
                lines.append(
                    f"{label:22} {len(fractions):4} problems: geometric mean {mean:.3f}, least {min(fractions):.3f}, "
                    f"{below} below 0.8"
                )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the kernels of a dispatcher on many problems.")
    parser.add_argument("dispatcher", nargs="+", help="entries of kernels/catalogue.yaml's dispatchers")
    add_build_dir(parser)
    parser.add_argument("--share", type=float, default=1.0, help="of the problems that are drawn")
    parser.add_argument("--out", required=True, type=Path, metavar="dispatch.csv")
    options = parser.parse_args()
    if not 0 < options.share <= 1:
        raise UserError(f"--share = {options.share} is not allowed; allowed: above 0, at most 1")
    entries = [options.catalogue.find(name) for name in options.dispatcher]
    for entry in entries:
        if not isinstance(entry, Dispatcher):
            raise UserError(f"{entry.name} is no dispatcher; kernels/catalogue.yaml lists them")
    rows: list[dict[str, Any]] = []
    with session():
        for entry in entries:
            assert isinstance(entry, Dispatcher)
            step = 1 if entry.types.ab.bytes == 4 else 8
            own = list(
                measure(entry, options.catalogue[entry.baseline], problems(step, options.share), options.build_dir)
            )
            mark_picked(entry, own)
            logger.info("\n".join([f"{entry.name} on problems that the fit has not seen:", *fractions_by_shape(own)]))
            rows += own
    write_rows(options.out, "dispatch", rows)


if __name__ == "__main__":
    run_command(main)
