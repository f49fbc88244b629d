"""Predicts how long a kernel takes on a problem, so that a dispatcher need time only the likeliest
ones.

The time is that of the busiest block over k, or of the bytes from DRAM where that is longer, and
what launching, storing and adding up take besides. A step lasts as long as its multiply-adds or its
bytes from L2. The constants were fitted to the times of about 60 kernels on 330 problems on an H100
(docs/measuring.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kernels.entries import Variant
from kernels.problem import Problem

SMS = 132  # multiprocessors of an H100
GRAINS = 1024  # Division::MOST of include/split_k.cuh
# of the multiprocessors: an H100 with 132 runs 30 clusters of four, or 15 of eight
OF_LARGE_CLUSTERS = 0.91


@dataclass(frozen=True)
class Rates:
    """What an H100 does in a microsecond, as these kernels reach it."""

    multiply_adds: float  # of a multiprocessor
    l2_bytes: float
    dram_bytes: float
    step_us: float  # of a step over k of 64 bytes or 32 elements, beyond its multiply-adds or bytes
    loads: float  # fp32: what a fragment's load costs, in multiply-adds
    # fp32: what a step takes longer where rows are no multiples of 16 bytes, as a fraction
    unaligned: float
    exchange_us: float  # of 128 x 128 sums that blocks add up
    part_us: float  # of each block that shares a tile


@dataclass(frozen=True)
class Scheme:
    """What a source's kernels take besides their steps, in microseconds."""

    start_us: float
    store_us: float  # of a tile of 128 x 128 elements, as far as no multiply-adds hide it


TENSOR_CORES = Rates(3.96e6, 11.3e6, 2.28e6, 0.134, 0.0, 0.0, 3.15, 0.0)
# three products for each of fp32
SPLIT_TF32 = Rates(0.586e6, 11.3e6, 2.28e6, 0.134, 0.0, 0.0, 2.75, 0.0)
FMA_PIPE = Rates(0.27e6, 33.5e6, 1.71e6, 0.39, 0.97, 0.23, 3.1, 0.09)
SCHEMES = {
    "wgmma_transposed": Scheme(4.9, 2.9),
    "wgmma_coop": Scheme(5.7, 0.7),
    "wgmma_pingpong_wide": Scheme(6.1, 0.2),
    "splitk": Scheme(6.7, 2.8),
    "t128x256x8_cpasync": Scheme(2.9, 2.7),
    "tma_streamk": Scheme(12.8, 0.4),
    "3xtf32_wgmma": Scheme(5.0, 1.35),
}
OTHERS = Scheme(6.0, 1.0)
# changes with what predictions follow from
CONSTANTS = repr((TENSOR_CORES, SPLIT_TF32, FMA_PIPE, SCHEMES, OTHERS))


@dataclass(frozen=True)
class Schedule:
    """How a launch divides a problem among its blocks, or clusters."""

    tiles: int
    steps: int  # over k, of a tile, or of a slice of it
    blocks: int  # that run at a time
    busiest: int  # steps of the block that has most
    parts: float  # blocks that share a divided tile; 0: none is divided
    crowd: float  # blocks of a multiprocessor that has some, at least 1


def stream_k(variant: Variant, tiles: int, steps: int, units: int) -> tuple[int, int]:
    """How `units` blocks, or clusters, share the tiles that whole rounds leave, of `steps` over k
    each (`Share` of include/stream_k.cuh): the number of these tiles, and of the units that share
    them; 0 and 0 where none is shared."""
    if not {"FIXUP", "WAYS"} <= variant.template.keys():
        return 0, 0
    fixup, ways, left = int(variant.template["FIXUP"]), int(variant.template["WAYS"]), tiles % units
    sharing = min(units, (min(ways, steps) if fixup < ways else ways) * left)
    return (left, sharing) if left and steps - left * steps // sharing > fixup else (0, 0)


def split_k(variant: Variant, tiles: int, steps: int, units: int) -> tuple[int, int]:
    """The blocks that share what whole rounds leave of the tiles, and the steps of the one that has
    most (`Division` of include/split_k.cuh); 0 and 0 where none is shared."""
    left = tiles % units
    if not left or "LEAST" not in variant.template:
        return 0, 0
    fixup = int(variant.template["FIXUP"])
    grain = max(int(variant.template["LEAST"]), -(-steps // GRAINS))
    grains = -(-steps // grain)
    most = min(units, left * min(grains, int(variant.template["PARTS"])))
    even = most // left * left
    takers = even if even > left and 4 * even >= 3 * most else most
    stretch = -(-left * grains // takers) * grain
    return (takers, stretch) if steps > fixup and steps - stretch > fixup else (0, 0)


def resident(variant: Variant, sms: int = SMS) -> int:
    """Blocks, or clusters, that run at a time on `sms` multiprocessors."""
    cluster = variant.cluster_blocks
    blocks = variant.persistent or int(
        variant.template.get("BLOCKS", max(512 // variant.threads, 1))
    )
    return max(int(blocks * sms * (OF_LARGE_CLUSTERS if cluster > 2 else 1.0)) // cluster, 1)


def schedule(variant: Variant, problem: Problem, sms: int = SMS) -> Schedule:
    """How a launch of `variant` divides `problem` over `sms` multiprocessors.

    The names of its template parameters say whether it divides tiles as include/split_k.cuh
    (`LEAST`) or include/stream_k.cuh (`WAYS`) does; any other kernel computes whole tiles.
    """
    cluster = variant.cluster_blocks
    tiles = math.prod(variant.tiles(problem)) // math.prod(variant.cluster)
    steps = -(-problem.k // (variant.tile["k"] * variant.slices))
    blocks = resident(variant, sms)
    left = tiles % blocks
    sharing, longest = split_k(variant, tiles, steps, blocks)
    if not sharing:
        sharing = stream_k(variant, tiles, steps, blocks)[1]
        longest = -(-left * steps // sharing) if sharing else steps if left else 0
    active = blocks if tiles >= blocks else sharing or tiles
    busiest = tiles // blocks * steps + longest
    return Schedule(
        tiles,
        steps,
        blocks,
        busiest,
        sharing / left if sharing else 0.0,
        max(active * cluster / sms, 1.0),
    )


def time_us(variant: Variant, problem: Problem, sms: int = SMS) -> float:
    """How long a launch of `variant` takes on an H100, in microseconds."""
    found, values, types = schedule(variant, problem, sms), variant.template, variant.types
    rates = (
        FMA_PIPE
        if not variant.tensor_cores
        else SPLIT_TF32
        if variant.dtype == "fp32"
        else TENSOR_CORES
    )
    scheme = SCHEMES.get(variant.source.stem, OTHERS)
    rows, columns, depth = (variant.tile[axis] for axis in "mnk")
    area = rows * columns / 128**2

    multiply_us = rows * columns * depth / rates.multiply_adds * found.crowd
    if not variant.tensor_cores:
        multiply_us *= 1 + rates.loads * (
            1 / int(values.get("TM", 8)) + 1 / int(values.get("TN", 16))
        )
        if any(ld % 4 for ld in (problem.lda, problem.ldb, problem.ldc)):
            multiply_us *= 1 + rates.unaligned
    share_a, share_b = (
        int(values.get("CN", values.get("CX", 1))),
        int(values.get("CM", values.get("CY", 1))),
    )
    active = min(found.tiles * max(found.parts, 1.0), found.blocks) * variant.cluster_blocks
    l2_us = (rows / share_a + columns / share_b) * depth * types.ab.bytes * active / rates.l2_bytes
    per_step_us = rates.step_us * depth / (64 if variant.tensor_cores else 16)
    steps_us = found.busiest * (max(multiply_us, l2_us) + per_step_us)

    p = problem
    dram_us = (
        (p.m * p.k + p.k * p.n) * types.ab.bytes + p.m * p.n * types.c.bytes
    ) / rates.dram_bytes
    rounds = -(-found.tiles // found.blocks)
    total = scheme.start_us + max(steps_us, dram_us) + rounds * scheme.store_us * area * found.crowd
    if found.parts or variant.slices > 1:
        total += (
            rates.exchange_us * area * (found.crowd if found.parts else 1.0)
            + rates.part_us * found.parts
        )
    return total


def fastest_first(variants: Iterable[Variant], problem: Problem, sms: int = SMS) -> list[Variant]:
    """These variants by their predicted times on `problem`, the shortest first."""
    return sorted(variants, key=lambda variant: time_us(variant, problem, sms))
