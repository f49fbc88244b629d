"""Hardware counters of a kernel as the emulator predicts them (ptxsim's `predict`): rows of
predictions.csv.

Counts follow the cubin where ptxas merged shared accesses; `widths` says where a rule would err. A
persistent kernel's blocks compute several tiles each, and may share the last ones of a large
problem: its counts follow from launches of few tiles (`predict_from`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from kernels import cost
from kernels.catalogue import Problem, Runnable, Variant
from kernels.problem import ProblemSpec
from ptxsim.count.prediction import Prediction, Sample, predict_from

UNITS = {"inst_executed": "inst", "bytes_per_sector": "byte/sector", "sectors": "sector"}
# Small launches have so many steps over k, tried in turn: rings of buffers first fill, and unrolled
# loops must come round.
STEPS = ((3, 4, 5), (9, 10, 11), (12, 16, 20))
MIN_STEP = 32  # A step over k is a multiple of it and of the tile's k.
DIVIDED = 3  # With so many times the last of these steps, tiles are worth dividing.


def predict(kernel: ptxsim.Kernel, variant: Variant, problem: ProblemSpec, sms: int) -> Prediction:
    """Return what a launch on a GPU with so many `sms` counts.

    Raises `UserError` where it cannot be predicted.
    """
    large = problem.of(variant.b_layout)
    if reason := variant.unsupported_reason(large):
        raise UserError(reason)
    with launching.refusals():
        if variant.blocks_per_sm:
            return _from_samples(kernel, variant, large, sms)
        arguments = launching.to_count(variant, large, sms)
        del arguments["checks"], arguments["values"]
        return ptxsim.predict(kernel, **arguments, by_instruction=True)


def unit(variant: Variant) -> int:
    """Return what sizes are best a multiple of: two tiles, k-steps, and the kernel's multiples."""
    return math.lcm(*_sides(variant), _step(variant), *variant.multiples.values())


def parts(variant: Variant, problem: Problem, sms: int) -> int:
    """Return how many parts of tiles the clusters of a stream-K kernel leave for others to add."""
    blocks = math.prod(variant.cluster)
    clusters, tiles = (
        math.prod(n) // blocks for n in (variant.grid(problem, sms), variant.tiles(problem))
    )
    steps = -(-problem.k // variant.tile["k"])
    left, sharing = cost.stream_k(variant, tiles, steps, clusters)
    begins = [left * steps * cluster // sharing for cluster in range(sharing)]
    return sum(begin % steps > 0 for begin in begins)


def _sample(variant: Variant, problem: Problem, sms: int) -> Sample:
    blocks, tiles = math.prod(variant.grid(problem, sms)), math.prod(variant.tiles(problem))
    work = blocks, blocks * problem.k, tiles, tiles * problem.k, parts(variant, problem, sms)
    # Blocks of a row of tiles share A, and those of a column share B.
    area = problem.k * (problem.m + problem.n), problem.m * problem.n
    return Sample(launching.to_count(variant, problem, sms), work, area, varies=work[-1] > 0)


def _from_samples(kernel: ptxsim.Kernel, variant: Variant, large: Problem, sms: int) -> Prediction:
    """Raises `PtxsimError` where the counts of launches with few tiles are not linear in their
    work.
    """
    step, (m, n) = _step(variant), _sides(variant)
    if large.k % step or large.m % m or large.n % n:
        size = f"{large.m}x{large.n}x{large.k}"
        raise UserError(
            f"{variant.name}: {size} is not made of whole tiles and stretches of k = {step}"
        )
    refused = None
    for steps in STEPS:
        if (large.k // step - steps[0]) % (steps[1] - steps[0]):
            continue  # These launches have another remainder.
        try:
            samples = [
                _sample(variant, *launch)
                for launch in _small(variant, large, sms, [n * step for n in steps])
            ]
            return predict_from(kernel, _sample(variant, large, sms), samples)
        except ptxsim.PtxsimError as error:
            refused = refused or error
    raise refused or ptxsim.PtxsimError(
        f"k = {large.k} has another remainder than the small launches"
    )


def _step(variant: Variant) -> int:
    """Return the smallest k that costs every block as much as any other."""
    return math.lcm(variant.tile["k"] * variant.splits, MIN_STEP)


def _sides(variant: Variant) -> tuple[int, int]:
    """Return m and n of 2 x 2 tiles, or of as many as a cluster has."""
    clusters = dict(zip(variant.raster, variant.cluster, strict=True))
    return max(2, clusters["m"]) * variant.tile["m"], max(2, clusters["n"]) * variant.tile["n"]


def _small(
    variant: Variant, large: Problem, sms: int, depths: list[int]
) -> Iterator[tuple[Problem, int]]:
    """Yield problems of 2 x 2 tiles, each with two grids, and the SMs that give these.

    Two more divide tiles if the large problem does.
    """
    m, n = _sides(variant)
    tiles = math.prod(variant.tiles(replace(large, m=m, n=n)))
    for few, k in itertools.product((1, tiles), depths):
        yield replace(large, m=m, n=n, k=k), few
    if not parts(variant, large, sms):
        return
    counts: set[int] = set()
    for tiles_n, few in itertools.product((3, 4, 5), range(2, 9)):
        problem = replace(large, m=m, n=tiles_n * variant.tile["n"], k=DIVIDED * depths[-1])
        divided = parts(variant, problem, few)
        if divided and divided not in counts and len(counts) < 2:
            counts.add(divided)
            yield problem, few
    if len(counts) < 2:
        raise ptxsim.PtxsimError(
            "no two small launches divide tiles among blocks, as the large one does"
        )


def rows(
    entry: Runnable, problem: ProblemSpec, kernel: str, predicted: Prediction, code: str
) -> list[dict[str, Any]]:
    """Return the rows of one problem.

    kernel: the name of the function that runs. code: the entry's code hash.
    """
    shape = {"variant": entry.name, **problem.row}
    return [
        {
            **shape,
            "metric": metric,
            "value": float(value),
            "unit": next((unit for part, unit in UNITS.items() if part in metric), ""),
            "kernel": kernel,
            "code_hash": code,
        }
        for metric, value in predicted.totals.items()
    ]
