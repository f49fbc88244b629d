"""Predicts how long a kernel takes on a problem, so that a dispatcher times only the likeliest
ones.

The time is that of the block with most steps over k, or of the bytes from DRAM where that is
longer, plus launching, storing and adding up. A step lasts as long as its multiply-adds or its
bytes from L2. The constants were fitted to the times of about 60 kernels on 330 problems on an H100
(docs/measuring.md). The script of that fit is not kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kernels.entries import Variant
from kernels.problem import Problem

# An H100 has so many SMs.
SMS = 132
# `Division::MOST` of include/split_k.cuh is the same number.
MAX_GRAINS = 1024
# Clusters of four or eight blocks fill this fraction of an H100's SMs: it runs 30, or 15, of them.
LARGE_CLUSTER_SM_FRACTION = 0.91
# Where a cluster adds up its tile in shared memory (include/cluster_rows.cuh): the time of both
# barriers, and the bytes that an SM reads of other SMs in a microsecond. Estimated, not fitted.
CLUSTER_SUMS_US, CLUSTER_BYTES = 1.0, 20e3


@dataclass(frozen=True)
class Rates:
    """What an H100 does in a microsecond, as these kernels reach it.

    multiply_adds: multiply-adds of an SM in a microsecond. l2_bytes, dram_bytes: bytes of the GPU
    in a microsecond. step_us: time of a step over k of 64 bytes or 32 elements beyond its
    multiply-adds or bytes. loads: cost of a fragment's load in multiply-adds (fp32). unaligned: the
    fraction by which a step takes longer where rows are no multiples of 16 bytes (fp32).
    exchange_us: time in which blocks add up 128 x 128 sums. part_us: time that each block sharing a
    tile adds.
    """

    multiply_adds: float
    l2_bytes: float
    dram_bytes: float
    step_us: float
    loads: float
    unaligned: float
    exchange_us: float
    part_us: float


@dataclass(frozen=True)
class Scheme:
    """What a source's kernels take besides their steps, in microseconds.

    start_us: the launch. store_us: a tile of 128 x 128 elements, as far as no multiply-adds hide
    it. step_us, unaligned: in place of those of `Rates`, where they are given.
    """

    start_us: float
    store_us: float
    step_us: float | None = None
    unaligned: float | None = None


TENSOR_CORES = Rates(3.96e6, 11.3e6, 2.28e6, 0.134, 0.0, 0.0, 3.15, 0.0)
# 3xTF32 computes three products for each one of fp32.
SPLIT_TF32 = Rates(0.586e6, 11.3e6, 2.28e6, 0.134, 0.0, 0.0, 2.75, 0.0)
FMA_PIPE = Rates(0.27e6, 33.5e6, 1.71e6, 0.39, 0.97, 0.23, 3.1, 0.09)
SCHEMES = {
    "wgmma_transposed": Scheme(4.9, 2.9),
    "wgmma_coop": Scheme(5.7, 0.7),
    "wgmma_pingpong_wide": Scheme(6.1, 0.2),
    "splitk": Scheme(6.7, 2.8),
    # Fitted to 84 times on 14 problems of an H200 (4.7% root mean square).
    "plain": Scheme(6.0, 2.0, step_us=0.2, unaligned=0.1),
    "plain_slices": Scheme(6.0, 2.0, step_us=0.2, unaligned=0.1),  # as plain: not fitted
    "t128x256x8_cpasync": Scheme(2.9, 2.7),
    "tma_streamk": Scheme(12.8, 0.4),
    "3xtf32_wgmma": Scheme(5.0, 1.35),
}
OTHERS = Scheme(6.0, 1.0)


def rates_of(variant: Variant) -> Rates:
    """Return what its arithmetic reaches."""
    if not variant.tensor_cores:
        return FMA_PIPE
    return SPLIT_TF32 if variant.dtype == "fp32" else TENSOR_CORES


def scheme_of(variant: Variant) -> Scheme:
    """Return what its source takes besides the steps."""
    return SCHEMES.get(variant.source.stem, OTHERS)


def constants(variants: Iterable[Variant]) -> str:
    """Return the constants that predictions of these rest on, as text: a dispatcher's hash changes
    with them.
    """
    variants = list(variants)
    found = {f"{rates_of(v)} {scheme_of(v)}" for v in variants}
    if any(in_turn(v) and v.splits > 1 for v in variants):
        found.add(f"{CLUSTER_SUMS_US} {CLUSTER_BYTES}")
    return "\n".join(sorted(found))


@dataclass(frozen=True)
class Schedule:
    """How a launch divides a problem among its blocks, or clusters.

    tiles: number of tiles of C. steps: steps over k of a tile, or of a slice of it. blocks: how
    many run at a time. max_steps: steps of the block that has most. splits: blocks that share a
    divided tile; 0 where none is divided. blocks_per_sm: blocks of an SM that has some, at least 1.
    """

    tiles: int
    steps: int
    blocks: int
    max_steps: int
    splits: float
    blocks_per_sm: float


def stream_k(variant: Variant, tiles: int, steps: int, units: int) -> tuple[int, int]:
    """Return how many tiles whole rounds of `units` blocks, or clusters, leave, and how many units
    share them (`Share` of include/stream_k.cuh); 0 and 0 where none is shared.

    tiles: all tiles of C. steps: steps over k of each.
    """
    if not {"FIXUP", "WAYS"} <= variant.template.keys():
        return 0, 0
    fixup, ways, left = int(variant.template["FIXUP"]), int(variant.template["WAYS"]), tiles % units
    sharing = min(units, (min(ways, steps) if fixup < ways else ways) * left)
    return (left, sharing) if left and steps - left * steps // sharing > fixup else (0, 0)


def split_k(variant: Variant, tiles: int, steps: int, units: int) -> tuple[int, int]:
    """Return how many blocks share the tiles that whole rounds leave, and the steps of the one that
    has most (`Division` of include/split_k.cuh); 0 and 0 where none is shared.
    """
    left = tiles % units
    if not left or "LEAST" not in variant.template:
        return 0, 0
    fixup = int(variant.template["FIXUP"])
    grain = max(int(variant.template["LEAST"]), -(-steps // MAX_GRAINS))
    grains = -(-steps // grain)
    max_sharing = min(units, left * min(grains, int(variant.template["PARTS"])))
    # The same number of blocks for each tile is preferred, where that uses three quarters of them.
    even = max_sharing // left * left
    sharing = even if even > left and 4 * even >= 3 * max_sharing else max_sharing
    longest = -(-left * grains // sharing) * grain
    return (sharing, longest) if steps > fixup and steps - longest > fixup else (0, 0)


def resident(variant: Variant, sms: int = SMS) -> int:
    """Return how many blocks, or clusters, run at a time on `sms` SMs."""
    cluster = variant.cluster_blocks
    blocks = variant.blocks_per_sm or int(
        variant.template.get("BLOCKS", max(512 // variant.threads, 1))
    )
    fraction = LARGE_CLUSTER_SM_FRACTION if cluster > 2 else 1.0
    return max(int(blocks * sms * fraction) // cluster, 1)


def in_turn(variant: Variant) -> bool:
    """Return whether the GPU gives a kernel's tiles to SMs in turn, several blocks at a time."""
    persistent = variant.blocks_per_sm > 0
    return not persistent and not variant.tensor_cores and "BLOCKS" in variant.template


def schedule(variant: Variant, problem: Problem, sms: int = SMS) -> Schedule:
    """Return how a launch of `variant` divides `problem` over `sms` SMs.

    The names of its template parameters say whether it divides tiles as include/split_k.cuh
    (`LEAST`) or include/stream_k.cuh (`WAYS`) does; any other kernel computes whole tiles.
    """
    cluster = variant.cluster_blocks
    tiles = math.prod(variant.tiles(problem)) // math.prod(variant.cluster)
    steps = -(-problem.k // (variant.tile["k"] * variant.splits))
    blocks = resident(variant, sms)
    if in_turn(variant):
        # An SM that is free gets the next block: the busiest has at most one more than any other.
        busiest = -(-tiles * variant.splits // sms)
        rounds = -(-busiest // int(variant.template["BLOCKS"]))
        return Schedule(tiles, steps, blocks, rounds * steps, 0.0, busiest / rounds)
    left = tiles % blocks
    sharing, longest = split_k(variant, tiles, steps, blocks)
    if not sharing:
        sharing = stream_k(variant, tiles, steps, blocks)[1]
        longest = -(-left * steps // sharing) if sharing else steps if left else 0
    active = blocks if tiles >= blocks else sharing or tiles
    return Schedule(
        tiles,
        steps,
        blocks,
        max_steps=tiles // blocks * steps + longest,
        splits=sharing / left if sharing else 0.0,
        blocks_per_sm=max(active * cluster / sms, 1.0),
    )


def time_us(variant: Variant, problem: Problem, sms: int = SMS) -> float:
    """Return how long a launch of `variant` takes on an H100, in microseconds."""
    plan, values, types = schedule(variant, problem, sms), variant.template, variant.types
    rates, scheme = rates_of(variant), scheme_of(variant)
    rows, columns, depth = (variant.tile[axis] for axis in "mnk")
    area = rows * columns / 128**2

    # Multiply-adds of a step; blocks of one SM share its pipe.
    multiply_us = rows * columns * depth / rates.multiply_adds * plan.blocks_per_sm
    if not variant.tensor_cores:
        multiply_us *= 1 + rates.loads * (
            1 / int(values.get("TM", 8)) + 1 / int(values.get("TN", 16))
        )
        if any(ld % 4 for ld in (problem.lda, problem.ldb, problem.ldc)):
            multiply_us *= 1 + (rates.unaligned if scheme.unaligned is None else scheme.unaligned)
    # Bytes of a step from L2; blocks of a cluster share tiles of A and B.
    share_a, share_b = (
        int(values.get("CN", values.get("CX", 1))),
        int(values.get("CM", values.get("CY", 1))),
    )
    active = min(plan.tiles * max(plan.splits, 1.0), plan.blocks) * variant.cluster_blocks
    l2_us = (rows / share_a + columns / share_b) * depth * types.ab.bytes * active / rates.l2_bytes
    step_us = rates.step_us if scheme.step_us is None else scheme.step_us
    per_step_us = step_us * depth / (64 if variant.tensor_cores else 16)
    steps_us = plan.max_steps * (max(multiply_us, l2_us) + per_step_us)

    # Each matrix is read or written once.
    p = problem
    dram_us = (
        (p.m * p.k + p.k * p.n) * types.ab.bytes + p.m * p.n * types.c.bytes
    ) / rates.dram_bytes
    rounds = plan.max_steps // plan.steps if in_turn(variant) else -(-plan.tiles // plan.blocks)
    # A block of a cluster that adds up in shared memory stores its part of the tile.
    slices = variant.splits if in_turn(variant) else 1
    total = (
        scheme.start_us
        + max(steps_us, dram_us)
        + rounds * scheme.store_us * area / slices * plan.blocks_per_sm
    )
    if slices > 1:
        others = rows * columns * types.c.bytes * (slices - 1) / slices
        total += rounds * (CLUSTER_SUMS_US + others * plan.blocks_per_sm / CLUSTER_BYTES)
    elif plan.splits or variant.splits > 1:
        total += (
            rates.exchange_us * area * (plan.blocks_per_sm if plan.splits else 1.0)
            + rates.part_us * plan.splits
        )
    return total


def fastest_first(variants: Iterable[Variant], problem: Problem, sms: int = SMS) -> list[Variant]:
    """Return the variants by their predicted times on `problem`, the shortest first."""
    return sorted(variants, key=lambda variant: time_us(variant, problem, sms))
