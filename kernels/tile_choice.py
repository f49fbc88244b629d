"""Which tiles suit a problem: those that the rule leaves, the likeliest to be fastest first."""

from __future__ import annotations

import functools
import math

from contracts import read_yaml
from contracts.declared import TileTimes, TileTimesFile
from kernels.problem import Problem
from kernels.sources import ROOT
from kernels.tiles import BLOCK, ROW_BYTES, Tile, tiles

GPU = "NVIDIA H100 80GB HBM3"
MIN_STAGES = 3
# Tiles of one size and division of k differ in cluster and turns. Of each size so many are proposed where tiles take
# one round. Where they take several there is one, because sizes matter more.
OF_ONE_SIZE = 2
# Clusters of more blocks wait for each other too often where tiles take several rounds.
SEVERAL_ROUNDS_BLOCKS = 2
# Where less than this of what is loaded is multiplied, another order of A and B does better.
MIN_READ = 0.8


@functools.cache
def times_of(gpu: str = GPU) -> TileTimes:
    """Return the constants of a GPU, or those of `GPU` where none were fitted to it."""
    known = read_yaml(ROOT / "tile_times.yaml", TileTimesFile).root
    return known.get(gpu, known[GPU])


def constants() -> str:
    """Return all constants as text: what is measured with this choice rests on them."""
    return (ROOT / "tile_times.yaml").read_text()


def _count(size: int, unit: int) -> int:
    return -(-size // unit)


def rounds(tile: Tile, problem: Problem, sms: int, large_clusters: float) -> tuple[int, int]:
    """Return in how many rounds the clusters of a GPU compute all tiles, and how many blocks run at
    a time.
    """
    blocks = tile.down * tile.across * tile.slices
    clusters = max(int(sms * (large_clusters if blocks > 2 else 1.0)) // blocks, 1)
    of_problem = _count(problem.m, tile.rows * tile.down) * _count(
        problem.n, tile.columns * tile.across
    )
    return _count(of_problem, clusters), min(of_problem, clusters) * blocks


def pruned(tile: Tile, problem: Problem, sms: int) -> str | None:
    """Return why a tile is not proposed for a problem; None where it may be fastest."""
    size, other = (problem.m, problem.n) if tile.b_first else (problem.n, problem.m)
    # A narrower tile computes and loads less, where as many of them cover the matrix.
    if tile.width > 16 and _count(size, tile.width - 8) == _count(size, tile.width):
        return f"as many tiles as of a width of {tile.width - 8}"
    if tile.first > BLOCK and other <= tile.first - BLOCK:
        return f"{tile.first - BLOCK} along the first operand cover all {other}"
    # The rest of the cluster would load and multiply zeros.
    for blocks, side, unit in ((tile.down, problem.m, tile.rows), (tile.across, problem.n, tile.columns)):  # fmt: skip
        if blocks > _count(side, unit):
            return f"{blocks} blocks of a cluster for {_count(side, unit)} tiles"
    # Slices fill multiprocessors that tiles leave idle.
    if tile.slices > 1:
        if (turns := rounds(tile, problem, sms, 1.0)[0]) > 1:
            return f"{tile.slices} slices, but {turns} rounds"
        if (steps := _count(problem.k, BLOCK)) < 2 * tile.slices:
            return f"{tile.slices} slices of {steps} steps over k"
    blocks = tile.down * tile.across
    if blocks > SEVERAL_ROUNDS_BLOCKS and (turns := rounds(tile, problem, sms, 1.0)[0]) > 1:
        return f"{blocks} blocks of a cluster keep step for {turns} rounds"
    # Loads need a few steps' time to come.
    if tile.stages < MIN_STAGES:
        return f"{tile.stages} stages; a pipeline needs {MIN_STAGES}"
    # Boxes of row-major B are 64 columns wide.
    if (read := (tile.rows + tile.columns) / sum(tile.loaded)) < MIN_READ:
        return f"{1 - read:.0%} of what is loaded is not read"
    # In a single round there is nothing to multiply while the other one stores.
    if tile.pingpong and rounds(tile, problem, sms, 1.0)[0] == 1:
        return "one round, in which the second consumer has no tile"
    return None


def time_us(tile: Tile, problem: Problem, times: TileTimes, sms: int) -> float:
    """Return how long a launch is expected to take, in microseconds."""
    turns, blocks = rounds(tile, problem, sms, times.large_clusters)
    # wgmma reads 64 rows of the first operand again for each: below a width of 64 that takes longest.
    narrow = max(1.0, 0.5 + 32 / tile.width)
    multiply = tile.rows * tile.columns * 64 * narrow / times.multiply_adds
    rows, columns = tile.loaded
    from_l2 = (rows / tile.across + columns / tile.down) * ROW_BYTES * blocks / times.l2_bytes
    # Both overlap, but not quite, and least where they take equally long.
    step = math.hypot(multiply, from_l2) + times.step_us
    step += times.eight_us * (tile.down * tile.across == 8)
    steps = turns * _count(_count(problem.k, BLOCK), tile.slices) * step
    p = problem
    from_dram = 2 * (p.m * p.k + p.k * p.n + p.m * p.n) / times.dram_bytes
    # With ping-pong only the last tile's stores show, by half as many threads.
    size = tile.rows * tile.columns / 128**2
    stores = times.store_us * size / tile.slices * (2 if tile.pingpong else turns)
    if not tile.b_first and tile.width % BLOCK:  # the rest of a row is stored from the registers
        stores *= times.ragged
    sent = 1 - 1 / tile.slices
    sums = times.slice_us * (1 + size * sent) if sent else 0.0
    return times.start_us + math.hypot(steps, from_dram) + sums + stores


def ranked(problem: Problem, dtype: str = "bf16", sms: int = 132, gpu: str = GPU) -> list[Tile]:
    """Return the tiles that are left for a problem, the shortest expected time first; of each size
    and number of slices at most OF_ONE_SIZE.
    """
    times = times_of(gpu)
    left = [tile for tile in tiles(problem.b_layout, dtype) if pruned(tile, problem, sms) is None]
    order: list[Tile] = []
    sizes: dict[tuple[int, int, bool, int], int] = {}
    for tile in sorted(left, key=lambda tile: time_us(tile, problem, times, sms)):
        size = (tile.rows, tile.columns, tile.b_first, tile.slices)
        sizes[size] = sizes.get(size, 0) + 1
        several = rounds(tile, problem, sms, times.large_clusters)[0] > 1
        if sizes[size] <= (1 if several else OF_ONE_SIZE):
            order.append(tile)
    return order
