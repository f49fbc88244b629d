"""What a large problem asks of the GPU, from launches of 2 x 2 tiles.

They run with three, four and five stretches of k, or with more (`STRETCHES`), in matrices as wide as the large
problem's. If the last agrees with the prediction from the others, every block does the same and every stretch costs the
same, and the sums of the large problem follow (`ptxsim.extrapolate`). Stream-K divides the last tiles of a large
problem among its blocks: what each part of a tile costs comes from small launches that divide one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from kernels import cost
from kernels.catalogue import Problem, Variant
from kernels.problem import ProblemSpec
from ptxsim.count.bounds import Traffic, Work
from ptxsim.count.counters import Counters, named
from ptxsim.count.extrapolation import extrapolate

TILES = 2  # of C in each direction
STRETCH = 32  # of k, or the least multiple of the variant's k-step from there: unrolled loops must come round
# Tried in turn: a deep ring of buffers first fills, and an unrolled loop comes round after two or four stretches only
STRETCHES = ((3, 4, 5), (9, 10, 11), (12, 16, 20))


DIVIDED = 3  # stretches of k, times the last of `STRETCHES`, in which tiles are worth dividing


@dataclass(frozen=True)
class Scaled:
    """What a launch asks."""

    totals: dict[str, float]  # under Nsight Compute's names
    work: Work
    counters: Counters  # of the largest of the small launches, by line


def unit(variant: Variant) -> int:
    """What a size must be a multiple of: whole tiles twice, stretches of k, and what the kernel itself asks."""
    return math.lcm(*_sides(variant), _stretch(variant), *variant.multiples.values())


def _stretch(variant: Variant) -> int:
    """The least k that costs every block as much as any other."""
    return math.lcm(variant.tile["k"] * variant.slices, STRETCH)


def _sides(variant: Variant, tiles_n: int = TILES) -> tuple[int, int]:
    """m and n of a small launch: `TILES` tiles of each, or as many as a cluster has."""
    clusters = dict(zip(variant.grid_axes, variant.cluster, strict=True))
    return max(TILES, clusters["m"]) * variant.tile["m"], max(tiles_n, clusters["n"]) * variant.tile["n"]


def emulate(kernel: ptxsim.Kernel, variant: Variant, problem: ProblemSpec, sms: int) -> Scaled:
    """From small launches. Raises `UserError` where their counts do not add up to those of a larger one.

    `sms`: of the GPU, which the grid of a persistent kernel follows.
    """
    large = problem.of(variant.b_layout)
    if reason := variant.refusal(large):
        raise UserError(reason)
    stretch, (m, n) = _stretch(variant), _sides(variant)
    if large.k % stretch or large.m % m or large.n % n:
        raise UserError(f"{variant.name}: {problem} is not made of whole tiles and stretches of k = {stretch}")
    refused = None
    for stretches in STRETCHES:
        if (large.k // stretch - stretches[0]) % (stretches[1] - stretches[0]):
            continue  # another remainder than these launches have
        try:
            return _scaled(kernel, variant, large, sms, stretches, stretch)
        except ptxsim.PtxsimError as error:
            refused = refused or error
    raise UserError(f"{variant.name}: the counts of {problem.shown} cannot be predicted: {refused}") from refused


def parts(variant: Variant, problem: Problem, sms: int) -> int:
    """Parts of tiles that one cluster of a stream-K kernel leaves for another to add; 0 for other kernels."""
    blocks = math.prod(variant.cluster)
    clusters, tiles = (math.prod(n) // blocks for n in (variant.grid(problem, sms), variant.tiles(problem)))
    steps = -(-problem.k // variant.tile["k"])
    left, sharing = cost.stream_k(variant, tiles, steps, clusters)
    begins = [left * steps * cluster // sharing for cluster in range(sharing)]
    return sum(begin % steps > 0 for begin in begins)


class _Small:
    """Launches of 2 x 2 tiles of a large problem, or of so many along n, over so many stretches of k each."""

    def __init__(
        self,
        kernel: ptxsim.Kernel,
        variant: Variant,
        large: Problem,
        stretches: tuple[int, ...],
        stretch: int,
        tiles_n: int = TILES,
    ) -> None:
        self.kernel, self.variant, self.stretches, self.stretch = kernel, variant, stretches, stretch
        self.m, self.n = _sides(variant, tiles_n)
        self.problem = replace(large, m=self.m, n=self.n, k=stretch)
        self.tiles = math.prod(variant.tiles(self.problem)) * variant.slices
        self.counted: set[str] = set()  # names of the counters' sums, and of those that bounds are made of
        self.asked: set[str] = set()
        self.counters = Counters()  # of the largest launch

    def run(self, sms: int) -> dict[int, dict[str, float]]:
        """Sums by number of stretches."""
        found = {}
        for number in self.stretches:
            self.counters, traffic = Counters(), Traffic()
            problem = replace(self.problem, k=number * self.stretch)
            launching.count(self.kernel, self.variant, problem, [self.counters, traffic], sms)
            sums, work = self.counters.sums(), Work.observed(self.counters, traffic)
            self.counted.update(sums)
            self.asked.update(work.counts)
            found[number] = sums | work.counts
        return found


def _scaled(
    kernel: ptxsim.Kernel, variant: Variant, large: Problem, sms: int, stretches: tuple[int, int, int], stretch: int
) -> Scaled:
    """`emulate` by launches of so many stretches of k. Raises `PtxsimError` where they do not grow linearly."""
    small = _Small(kernel, variant, large, stretches, stretch)
    blocks, steps = math.prod(variant.grid(large, sms)), large.k // stretch
    if variant.persistent:
        ran, sums = _of_persistent(small, large, sms, steps)
    else:
        ran = small.run(sms)
        sums = extrapolate(ran, small.tiles, steps, blocks)
    sums["sectors"] = _sectors(small, ran, large)
    return Scaled(
        named({name: value for name, value in sums.items() if name in small.counted}),
        Work(blocks, variant.threads, {name: value for name, value in sums.items() if name in small.asked}),
        small.counters,
    )


def _of_persistent(
    small: _Small, large: Problem, sms: int, steps: int
) -> tuple[dict[int, dict[str, float]], dict[str, float]]:
    """The launches with most blocks, and the sums of a large one: a block costs something, and each of its tiles. Two
    grids over the same tiles separate the two.
    """
    grids = {math.prod(small.variant.grid(small.problem, sms)): sms for sms in (1, small.tiles)}
    if len(grids) < 2:
        raise ptxsim.PtxsimError(
            f"{small.tiles} tiles make one grid of {next(iter(grids))} persistent blocks, and two are needed"
        )
    few_blocks, many_blocks = grids
    ran_few, ran = small.run(grids[few_blocks]), small.run(grids[many_blocks])

    def whole(blocks: int, tiles: int, steps: int) -> dict[str, float]:
        """Sums where no tile is divided."""
        few = extrapolate(ran_few, 1, steps, 1)
        found = {}
        for name, of_many in extrapolate(ran, 1, steps, 1).items():
            of_block = (of_many - few.get(name, 0.0)) / (many_blocks - few_blocks)
            found[name] = of_block * blocks + (of_many - of_block * many_blocks) / small.tiles * tiles
        return found

    sums = whole(math.prod(small.variant.grid(large, sms)), math.prod(small.variant.tiles(large)), steps)
    if divided := parts(small.variant, large, sms):
        for name, cost in _of_part(small, whole).items():
            sums[name] = sums.get(name, 0.0) + divided * cost
    return ran, sums


def _of_part(small: _Small, whole: Callable[[int, int, int], dict[str, float]]) -> dict[str, float]:
    """What leaving a part of a tile and adding it costs: from two launches that divide tiles, which must agree on
    every counter. `whole`: sums of so many blocks, tiles and stretches where no tile is divided."""
    costs: list[dict[str, float]] = []
    for tiles_n, sms in itertools.product(range(TILES + 1, TILES + 4), range(2, 9)):
        stretches = DIVIDED * small.stretches[-1]
        launch = _Small(small.kernel, small.variant, small.problem, (stretches,), small.stretch, tiles_n)
        blocks = math.prod(small.variant.grid(launch.problem, sms))
        divided = parts(small.variant, replace(launch.problem, k=stretches * small.stretch), sms)
        if divided and all(divided != before["parts"] for before in costs):
            undivided = whole(blocks, launch.tiles, stretches)
            (sums,) = launch.run(sms).values()
            cost = {name: (sums.get(name, 0.0) - undivided.get(name, 0.0)) / divided for name in {**sums, **undivided}}
            costs.append(cost | {"parts": divided})
        if len(costs) == 2:
            break
    else:
        raise ptxsim.PtxsimError("no two small launches divide tiles among blocks, as the large one does")
    one, other = costs
    for name in small.counted:
        if not math.isclose(one.get(name, 0.0), other.get(name, 0.0), rel_tol=1e-9, abs_tol=1e-9):
            values = " and ".join(f"{cost.get(name, 0.0):,.6g}" for cost in costs)
            raise ptxsim.PtxsimError(f"{name} of a part of a tile is {values} in two launches")
    # how often loops over parts go round differs by a few instructions: the lesser is a bound all the same
    return {name: min(one[name], other.get(name, 0.0)) for name in one if name != "parts"}


def _sectors(small: _Small, ran: dict[int, dict[str, float]], large: Problem) -> float:
    """Blocks of a row share A, those of a column share B: sectors of a launch grow with its area, not with its blocks.

    An element of A and one of B being read alike, those of a step of k grow with m + n, and the rest with m n.
    """
    first, second, _ = small.stretches
    step = (ran[second]["sectors"] - ran[first]["sectors"]) / small.stretch / (second - first)
    rest = ran[first]["sectors"] - step * first * small.stretch
    grown = step * large.k * (large.m + large.n) / (small.m + small.n)
    return grown + rest * large.m * large.n / (small.m * small.n)
