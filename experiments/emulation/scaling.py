"""What a large square problem asks of the GPU, from launches of 2 x 2 tiles.

They run with three, four and five stretches of k, in matrices as wide as the large problem's. Where the last comes out
as the others foretell, every block does the same and every stretch costs the same, and the sums of the large problem
follow (`ptxsim.extrapolate`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from kernels.catalogue import Problem, Variant
from ptxsim.bounds import Traffic, Work
from ptxsim.counters import Counters, named
from ptxsim.extrapolation import extrapolate

TILES = 2  # of C in each direction
STRETCH = 32  # of k, or the least multiple of the variant's k-step from there: unrolled loops must come round
STRETCHES = (3, 4, 5)


@dataclass(frozen=True)
class Scaled:
    """What m = n = k = `size` asks."""

    totals: dict[str, float]  # under Nsight Compute's names
    work: Work
    counters: Counters  # of the largest of the small launches, by line


def unit(variant: Variant) -> int:
    """What a size must be a multiple of: whole tiles twice, stretches of k, and what the kernel itself asks."""
    sides = (TILES * variant.tile["m"], TILES * variant.tile["n"])
    return math.lcm(*sides, math.lcm(variant.tile["k"], STRETCH), *variant.multiples.values())


def emulate(kernel: ptxsim.Kernel, variant: Variant, size: int) -> Scaled:
    """From small launches. Raises `UserError` where their counts do not add up to those of a larger one."""
    large = Problem.square(size)
    if reason := variant.refusal(large):
        raise UserError(reason)
    stretch = math.lcm(variant.tile["k"], STRETCH)
    m, n = (TILES * variant.tile[axis] for axis in "mn")
    if size % stretch or size % m or size % n:
        raise UserError(f"{variant.name}: size = {size} is not made of whole tiles and stretches of k = {stretch}")
    runs: dict[int, dict[str, float]] = {}
    counted: set[str] = set()  # names of the counters' sums, and of those that bounds are made of
    asked: set[str] = set()
    try:
        for stretches in STRETCHES:
            counters, traffic = Counters(), Traffic()
            problem = Problem(m, n, stretches * stretch, size, size, size)
            launching.count(kernel, variant, problem, [counters, traffic])
            sums, work = counters.sums(), Work.observed(counters, traffic)
            counted |= set(sums)
            asked |= set(work.counts)
            runs[stretches] = sums | work.counts
        blocks = math.prod(variant.grid(large))
        sums = extrapolate(runs, TILES * TILES, size // stretch, blocks)
    except ptxsim.PtxsimError as error:
        raise UserError(f"{variant.name}: the counts of n = {size} cannot be told: {error}") from error
    few, more, _ = STRETCHES
    # Blocks of a row share A, those of a column share B: sectors of the launch grow with its area, not with its blocks.
    # An element of A and one of B being read alike, those of a step of k grow with m + n, and the rest with m n.
    step = (runs[more]["sectors"] - runs[few]["sectors"]) / stretch
    rest = runs[few]["sectors"] - step * few * stretch
    sums["sectors"] = step * size * 2 * size / (m + n) + rest * size * size / (m * n)
    return Scaled(
        named({name: value for name, value in sums.items() if name in counted}),
        Work(blocks, variant.threads, {name: value for name, value in sums.items() if name in asked}),
        counters,
    )
