"""What a large square problem asks of the GPU, from launches of 2 x 2 tiles.

They run with three, four and five stretches of k, or with more (`STRETCHES`), in matrices as wide as the large
problem's. Where the last comes out as the others foretell, every block does the same and every stretch costs the same,
and the sums of the large problem follow (`ptxsim.extrapolate`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from kernels.catalogue import Problem, Variant
from ptxsim.bounds import Traffic, Work
from ptxsim.counters import Counters, named
from ptxsim.extrapolation import extrapolate

TILES = 2  # of C in each direction
STRETCH = 32  # of k, or the least multiple of the variant's k-step from there: unrolled loops must come round
# Tried in turn: a deep ring of buffers first fills, and an unrolled loop comes round after two or four stretches only
STRETCHES = ((3, 4, 5), (9, 10, 11), (12, 16, 20))


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


def emulate(kernel: ptxsim.Kernel, variant: Variant, size: int, sms: int, beta: float = 0.0) -> Scaled:
    """From small launches. Raises `UserError` where their counts do not add up to those of a larger one.

    `sms`: of the GPU, which the grid of a persistent kernel follows. `beta`: other than 0, C is read, too.
    """
    large = replace(Problem.square(size, variant.b_layout), beta=beta)
    if reason := variant.refusal(large):
        raise UserError(reason)
    stretch = math.lcm(variant.tile["k"], STRETCH)
    m, n = (TILES * variant.tile[axis] for axis in "mn")
    if size % stretch or size % m or size % n:
        raise UserError(f"{variant.name}: size = {size} is not made of whole tiles and stretches of k = {stretch}")
    refused = None
    for stretches in STRETCHES:
        if (size // stretch - stretches[0]) % (stretches[1] - stretches[0]):
            continue  # another remainder than these launches have
        try:
            return _scaled(kernel, variant, large, sms, stretches, stretch)
        except ptxsim.PtxsimError as error:
            refused = refused or error
    raise UserError(f"{variant.name}: the counts of n = {size} cannot be told: {refused}") from refused


def _scaled(
    kernel: ptxsim.Kernel, variant: Variant, large: Problem, sms: int, stretches: tuple[int, int, int], stretch: int
) -> Scaled:
    """`emulate` by launches of so many stretches of k. Raises `PtxsimError` where they do not grow linearly."""
    size = large.n
    m, n = (TILES * variant.tile[axis] for axis in "mn")
    counted: set[str] = set()  # names of the counters' sums, and of those that bounds are made of
    asked: set[str] = set()
    counters = Counters()

    def runs(on_sms: int) -> dict[int, dict[str, float]]:
        nonlocal counters
        found = {}
        for number in stretches:
            counters, traffic = Counters(), Traffic()
            problem = replace(large, m=m, n=n, k=number * stretch)
            launching.count(kernel, variant, problem, [counters, traffic], on_sms)
            sums, work = counters.sums(), Work.observed(counters, traffic)
            counted.update(sums)
            asked.update(work.counts)
            found[number] = sums | work.counts
        return found

    tiles, blocks = math.prod(variant.tiles(large)), math.prod(variant.grid(large, sms))
    small = math.prod(variant.tiles(replace(large, m=m, n=n, k=stretch)))
    steps = size // stretch
    if variant.persistent:
        # A block costs something, and each of its tiles: two grids over the same tiles tell the two apart
        probe = replace(large, m=m, n=n, k=stretch)
        grids = {math.prod(variant.grid(probe, s)): s for s in (1, small)}
        if len(grids) < 2:
            raise ptxsim.PtxsimError(
                f"{small} tiles make one grid of {next(iter(grids))} persistent blocks, and two are needed"
            )
        few_blocks, many_blocks = grids
        few = extrapolate(runs(grids[few_blocks]), 1, steps, 1)
        ran = runs(grids[many_blocks])
        sums = {}
        for name, of_many in extrapolate(ran, 1, steps, 1).items():
            of_block = (of_many - few.get(name, 0.0)) / (many_blocks - few_blocks)
            sums[name] = of_block * blocks + (of_many - of_block * many_blocks) / small * tiles
    else:
        ran = runs(sms)
        sums = extrapolate(ran, small, steps, blocks)
    # Blocks of a row share A, those of a column share B: sectors of the launch grow with its area, not with its blocks.
    # An element of A and one of B being read alike, those of a step of k grow with m + n, and the rest with m n.
    first, second, _ = stretches
    step = (ran[second]["sectors"] - ran[first]["sectors"]) / stretch / (second - first)
    rest = ran[first]["sectors"] - step * first * stretch
    sums["sectors"] = step * size * 2 * size / (m + n) + rest * size * size / (m * n)
    return Scaled(
        named({name: value for name, value in sums.items() if name in counted}),
        Work(blocks, variant.threads, {name: value for name, value in sums.items() if name in asked}),
        counters,
    )
