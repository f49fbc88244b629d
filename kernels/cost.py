"""Predicts how long a kernel takes on a problem: a sum of a few terms, whose factors are fitted to a sweep on one card.

The terms follow from how a launch divides the problem (`schedule`): the launch itself; the steps over k of the busiest
block, once as if it had a multiprocessor to itself and once in proportion to the blocks that share one; the tiles that
it stores; the bytes that come from memory; and the cost of adding up a tile that several blocks share. Where there is
no sweep, the factors come from the rates of a card (`typical`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from contracts.codes import Codes, digest
from kernels.problem import Problem

if TYPE_CHECKING:
    from kernels.entries import Variant

SMS = 132  # multiprocessors of the card that factors are for: the H100 and the H200 have as many
GRAINS, PARTS = 1024, 32  # Division::MOST and Division::PARTS of include/split_k.cuh

TERMS = {  # in microseconds a unit
    "launch": "1",
    "steps": "steps over k of the busiest block",
    "crowded": "the same times the blocks of a multiprocessor",
    "unaligned": "the same where a row of an fp32 matrix is no multiple of 16 bytes",
    "mean_steps": "steps of all tiles over blocks",
    "tiles": "tiles of the busiest block times the blocks of a multiprocessor",
    "megabytes": "of A, B and C",
    "divided": "1 where blocks share a tile",
    "parts": "blocks that share a tile",
    "exchanged": "10,000 elements of a shared tile times the blocks of a multiprocessor",
}


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
    """How `units` blocks, or clusters, share the tiles that whole rounds leave, of `steps` over k each (`Share` of
    include/stream_k.cuh): the number of these tiles, and of the units that share them; 0 and 0 where none is shared."""
    if not {"FIXUP", "WAYS"} <= variant.template.keys():
        return 0, 0
    fixup, ways, left = int(variant.template["FIXUP"]), int(variant.template["WAYS"]), tiles % units
    sharing = min(units, (min(ways, steps) if fixup < ways else ways) * left)
    return (left, sharing) if left and steps - left * steps // sharing > fixup else (0, 0)


OF_LARGE_CLUSTERS = 0.91  # of the multiprocessors: an H100 with 132 runs 30 clusters of four, or 15 of eight


def resident(variant: Variant, sms: int = SMS) -> int:
    """Blocks, or clusters, that run at a time, by the launch alone. How many clusters fit depends on where a card has
    its multiprocessors, so that a sweep asks the driver (`Model.resident`)."""
    cluster = variant.cluster_blocks
    blocks = variant.persistent or int(variant.template.get("BLOCKS", max(512 // variant.threads, 1)))
    return max(int(blocks * sms * (OF_LARGE_CLUSTERS if cluster > 2 else 1.0)) // cluster, 1)


def schedule(variant: Variant, problem: Problem, sms: int = SMS, units: int | None = None) -> Schedule:
    """How a launch of `variant` divides `problem` over `sms` multiprocessors.

    `units`: blocks, or clusters, that run at a time; as `resident` has it if left out.
    The names of its template parameters say whether it divides tiles as include/split_k.cuh (`LEAST`) or
    include/stream_k.cuh (`WAYS`) does; any other kernel computes whole tiles.
    """
    values, cluster = variant.template, variant.cluster_blocks
    tiles = math.prod(variant.tiles(problem)) // math.prod(variant.cluster)
    steps = -(-problem.k // (variant.tile["k"] * variant.slices))
    blocks = units or resident(variant, sms)
    left, sharing = tiles % blocks, 0
    longest = steps if left else 0
    if left and "LEAST" in values:
        grain = max(int(values["LEAST"]), -(-steps // GRAINS))
        grains = -(-steps // grain)
        most = min(blocks, left * min(grains, PARTS))
        even = most // left * left
        takers = even if even > left and 4 * even >= 3 * most else most
        stretch = -(-left * grains // takers) * grain
        if steps > int(values["FIXUP"]) and steps - stretch > int(values["FIXUP"]):
            sharing, longest = takers, stretch
    elif sharing := stream_k(variant, tiles, steps, blocks)[1]:
        longest = -(-left * steps // sharing)
    active = blocks if tiles >= blocks else sharing or tiles
    busiest = tiles // blocks * steps + longest
    return Schedule(tiles, steps, blocks, busiest, sharing / left if sharing else 0.0, max(active * cluster / sms, 1.0))


def terms(variant: Variant, problem: Problem, sms: int = SMS, units: int | None = None) -> np.ndarray:
    """The values of `TERMS` for one launch, in their order, as float64; `sms`, `units` as of `schedule`."""
    found, p, types = schedule(variant, problem, sms, units), problem, variant.types
    crowded, divided = found.busiest * found.crowd, float(found.parts > 0)
    unaligned = types.ab.bytes == 4 and any(ld % 4 for ld in (p.lda, p.ldb, p.ldc))
    return np.array(
        [
            1.0,
            found.busiest,
            crowded,
            crowded * unaligned,
            found.tiles * found.steps / found.blocks,
            -(-found.tiles // found.blocks) * found.crowd,
            ((p.m * p.k + p.k * p.n) * types.ab.bytes + p.m * p.n * types.c.bytes) / 1e6,
            divided,
            found.parts,
            divided * variant.tile["m"] * variant.tile["n"] / 1e4 * found.crowd,
        ]
    )


def typical(variant: Variant) -> np.ndarray:
    """Factors where nobody has swept a kernel on a card, in the order of `TERMS`: multiply-adds at 1.7 GHz, 128 a cycle
    and multiprocessor in fp32 and 2048 of 16-bit elements, and the rest rounded from what a sweep on an H100 found."""
    area = variant.tile["m"] * variant.tile["n"]
    if not variant.tensor_cores:
        step = area * variant.tile["k"] / (0.75 * 1.7e3 * 128)
        return np.array([8.0, 0.25, step, 0.2 * step, 0.0, 0.5, 0.2, 3.0, 0.05, 1.0])
    step = area * variant.tile["k"] / (1.7e3 * 2048)
    if variant.persistent:
        return np.array([7.4, 0.8 * step, 0.0, 0.0, 0.15, 0.3, 0.2, 0.0, 0.0, 3.0])
    blocks = int(variant.template.get("BLOCKS", 1))
    store = (1.2 + 0.8 * area / 1e4) / blocks
    return np.array([3.4 + 0.8 * blocks, 0.9 * step, 0.0, 0.0, 0.15 * blocks, store, 0.18, 0.0, 0.0, 0.0])


ROUNDS, TYPICAL_ERROR = 4, 0.03


def fit(rows: np.ndarray, time_us: np.ndarray) -> np.ndarray:
    """Non-negative factors by least squares of relative errors, reweighted ROUNDS times so that outliers count less.

    `rows`: terms, one row a measurement; `time_us`: microseconds.
    """
    weights = 1 / time_us
    for _ in range(ROUNDS):
        factors = _least_squares(rows * weights[:, None], time_us * weights)
        off = np.abs(rows @ factors / time_us - 1)
        weights = 1 / time_us / np.sqrt(np.maximum(off / TYPICAL_ERROR, 1))
    return factors


def _least_squares(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Non-negative least squares by active sets (Lawson and Hanson, "Solving Least Squares Problems", 1974, ch. 23)."""
    columns = matrix.shape[1]
    found, passive = np.zeros(columns), np.zeros(columns, bool)
    for _ in range(3 * columns):
        gradient = matrix.T @ (wanted - matrix @ found)
        if passive.all() or gradient[~passive].max() <= 1e-9 * np.abs(matrix.T @ wanted).max():
            break
        passive[np.flatnonzero(~passive)[gradient[~passive].argmax()]] = True
        while True:
            trial = np.zeros(columns)
            trial[passive] = np.linalg.lstsq(matrix[:, passive], wanted, rcond=None)[0]
            below = passive & (trial <= 0)
            if not below.any():
                break
            found += (found[below] / (found[below] - trial[below])).min() * (trial - found)
            passive &= found > 1e-12
            found[~passive] = 0
        found = trial
    return found


@dataclass(frozen=True)
class Model:
    """Factors of kernels by name, and the blocks or clusters that run at a time; `fitted`: those of a sweep.

    `source`: a hash of what they were fitted to, for the factors differ in their last bits from host to host.
    """

    factors: dict[str, tuple[float, ...]]
    resident: dict[str, int] = field(default_factory=dict)
    sms: int = SMS
    source: str = ""

    def time_us(self, variant: Variant, problem: Problem) -> float:
        """How long the kernel takes."""
        known = self.factors.get(variant.name)
        factors = typical(variant) if known is None else np.array(known)
        return float(terms(variant, problem, self.sms, self.resident.get(variant.name)) @ factors)


LEAST_ROWS = 3 * len(TERMS)  # of a kernel, below which its factors are those of `typical`


def fitted(
    rows: Sequence[dict[str, Any]], variants: Sequence[Variant], sms: int = SMS, codes: Codes | None = None
) -> Model:
    """The model behind rows of dispatch.csv: of each kernel those of its code as it is now, and not held out.

    `codes`: the machine code of sources; a row of another source counts where it is of the same code.
    """
    factors, units, used = {}, {}, []
    for variant in variants:
        now = variant.source_hash  # reads all sources: once, not for each row
        same = {now, (codes or {}).get((variant.name, now), now)}
        of_kernel = [row for row in rows if row["variant"] == variant.name and not row["held_out"]]
        own = [row for row in of_kernel if same & {row["source_hash"], row.get("code_hash")}]
        if len(own) >= LEAST_ROWS:
            if resident := own[0].get("resident"):
                units[variant.name] = int(resident)
            problems = (Problem.packed(row["m"], row["n"], row["k"], variant.b_layout) for row in own)
            found = fit(
                np.array([terms(variant, problem, sms, units.get(variant.name)) for problem in problems]),
                np.array([row["time_us"] for row in own]),
            )
            factors[variant.name] = tuple(float(factor) for factor in found)
            used += [[row.get(key) for key in ("variant", "m", "n", "k", "time_us", "resident")] for row in own]
    return Model(factors, units, sms, digest(repr(used)))
