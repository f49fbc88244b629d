"""Tiles of hgemm/wgmma_tile.cu: which exist is a rule, not a list of names.

A tile's name has all that its kernel is made of, so that the catalogue makes it when it is asked
for: `hgemm_tile_160x128_bfirst_c2x1_s5_bf16` is 160 rows of C by 128 columns, B the first operand,
in clusters of two blocks, one below the other, with a pipeline of five stages. `_k4` before the
stages: four blocks compute a tile, each over its part of k.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kernels.problem import Layout

# Bytes of shared memory that a block of compute capability 9.0 may have.
SHARED_BYTES = 232_448
# A row of a tile in shared memory has 64 elements of 16 bits, and so has a block of the first
# operand; an atom of the swizzle has eight rows.
ROW_BYTES, BLOCK, ATOM = 128, 64, 8
# Sums that a thread has registers for, by the number of consumers (`setmaxnreg` of wgmma_tile.cu).
MAX_SUMS = {1: 192, 2: 192, 3: 96}
# Consumers that share a tile whose first operand has so many rows or columns.
CONSUMERS = {64: 1, 128: 2, 192: 3, 256: 2}
MAX_WIDTH, MAX_STAGES, USUAL_STAGES = 256, 16, 4
CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 2), (2, 4))
SLICES = (1, 2, 4, 8)
# Every GPU with clusters runs clusters of so many blocks (CUDA C++ Programming Guide).
MAX_CLUSTER_BLOCKS = 8
NUMBERS = ("rows", "columns", "down", "across", "slices", "stages")
NAME = re.compile(
    r"hgemm_tile_(?P<bcol>bcol_)?(?P<rows>\d+)x(?P<columns>\d+)(?P<b_first>_bfirst)?(?P<pingpong>_pingpong)?"
    r"_c(?P<down>\d+)x(?P<across>\d+)(_k(?P<slices>[2-9]))?_s(?P<stages>\d+)_(?P<dtype>bf16|fp16)"
)


def _padded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@dataclass(frozen=True)
class Tile:
    """A tile of C and how a block computes it.

    rows, columns: of C. b_first: B is the first operand of wgmma, a multiple of 64 wide, and A the
    second, a multiple of 8; else A is first. pingpong: each consumer has tiles of its own. down,
    across: blocks of a cluster along m and n. stages: of the pipeline. slices: of k, as many blocks
    of the cluster.
    """

    rows: int
    columns: int
    b_first: bool = True
    pingpong: bool = False
    down: int = 1
    across: int = 1
    stages: int = 0
    b_layout: Layout = "row"
    dtype: str = "bf16"
    slices: int = 1

    @property
    def name(self) -> str:
        """The name of its kernel in the catalogue."""
        words = [f"{self.rows}x{self.columns}", *["bfirst"] * self.b_first]
        words += ["pingpong"] * self.pingpong + [f"c{self.down}x{self.across}"]
        words += [f"k{self.slices}"] * (self.slices > 1) + [f"s{self.stages}"]
        layout = ["bcol"] if self.b_layout == "column" else []
        return "_".join(["hgemm_tile", *layout, *words, self.dtype])

    @property
    def first(self) -> int:
        """Columns of B or rows of A, a multiple of 64: the first operand's."""
        return self.columns if self.b_first else self.rows

    @property
    def width(self) -> int:
        """Rows of A or columns of B, a multiple of 8: the second operand's."""
        return self.rows if self.b_first else self.columns

    @property
    def consumers(self) -> int:
        """Warp groups that multiply."""
        return 2 if self.pingpong else CONSUMERS[self.first]

    @property
    def sums(self) -> int:
        """Sums of C that a thread has."""
        readers = 1 if self.pingpong else self.consumers
        return self.first // BLOCK // readers * self.width // 2

    @property
    def loaded(self) -> tuple[int, int]:
        """Rows of A and columns of B that a cluster's blocks load for a tile: whole boxes, equal
        parts (include/operand_tile.cuh).
        """
        unit = BLOCK if self.b_layout == "row" else ATOM * self.down
        return _padded(self.rows, ATOM * self.across), _padded(self.columns, unit)

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage in shared memory, its two mbarriers included."""
        return sum(self.loaded) * ROW_BYTES + 16

    def buffer_bytes(self, piece: int) -> int:
        """Return the bytes of C's buffers where `piece` of the width is stored at a time."""
        return 2 * (1 + self.pingpong) * piece * self.first

    @property
    def stored(self) -> int:
        """Of the width, what a slice stores."""
        return self.width // self.slices

    @property
    def pieces(self) -> list[int]:
        """How much of that may be stored at a time, ascending: equal parts, of at least 32 rows or
        64 columns where there are so many.
        """
        if not self.b_first:
            staged = self.stored // BLOCK * BLOCK
            return [p for p in range(BLOCK, staged + 1, BLOCK) if staged % p == 0] or [0]
        smallest = min(32, self.stored)
        whole = (p for p in range(ATOM, self.stored + 1, ATOM) if self.stored % p == 0)
        return [p for p in whole if p >= smallest] or [0]

    @property
    def _room(self) -> int:
        """Bytes for stages and buffers: all but alignment, the inbox (include/slice_sums.cuh) and
        the mbarriers besides the stages'.
        """
        return SHARED_BYTES - 1024 - 16 - (self.slices - 1) * self.stored * self.first * 4

    def stages_beside(self, piece: int) -> int:
        """Return how many stages fit beside C's buffers."""
        return min((self._room - self.buffer_bytes(piece)) // self.stage_bytes, MAX_STAGES)

    @property
    def max_stages(self) -> int:
        """Stages that fit beside the smallest buffers of C."""
        return self.stages_beside(self.pieces[0])

    @property
    def usual_stages(self) -> int:
        """As many stages as fit, but no fewer pieces than need be: a tile is stored as a whole, or
        in two pieces, where four stages fit beside. With `pingpong` multiplying hides the stores.
        """
        for piece in (
            [] if self.pingpong else [p for p in self.pieces[::-1] if 2 * p >= self.stored]
        ):
            if (stages := self.stages_beside(piece)) >= USUAL_STAGES:
                return stages
        return self.max_stages

    @property
    def piece(self) -> int:
        """The largest piece that fits beside the stages."""
        left = self._room - self.stages * self.stage_bytes
        return max(p for p in self.pieces if self.buffer_bytes(p) <= left)

    @property
    def template(self) -> dict[str, Any]:
        """The template arguments of wgmma_tile.cu, without T."""
        return {
            "COLUMN_MAJOR_B": self.b_layout == "column",
            "B_FIRST": self.b_first,
            "PINGPONG": self.pingpong,
            "BM": self.rows,
            "BN": self.columns,
            "CONSUMERS": self.consumers,
            "STAGES": self.stages,
            "PIECE": self.piece,
            "CM": self.down,
            "CN": self.across,
            "SLICES": self.slices,
        }

    def unsupported_reason(self) -> str | None:
        """Return why there is no such kernel; None where there is."""
        if self.first not in CONSUMERS:
            return (
                f"{self.first} along the first operand; allowed: {', '.join(map(str, CONSUMERS))}"
            )
        if self.width % ATOM or not 16 <= self.width <= MAX_WIDTH:
            return f"{self.width} along the second operand; allowed: multiples of 8 from 16 to 256"
        if self.sums > MAX_SUMS[self.consumers]:
            return f"{self.sums} sums a thread; allowed: {MAX_SUMS[self.consumers]}"
        if (self.down, self.across) not in CLUSTERS:
            return f"clusters of {self.down}x{self.across}; allowed: {', '.join(f'{d}x{a}' for d, a in CLUSTERS)}"
        if self.slices not in SLICES or self.width % (ATOM * self.slices):
            return f"{self.slices} slices of a width of {self.width}; allowed: 1, 2, 4 or 8 multiples of 8"
        if self.slices > 1 and self.pingpong:
            return f"{self.slices} slices and ping-pong; allowed: one of the two"
        if (blocks := self.down * self.across * self.slices) > MAX_CLUSTER_BLOCKS:
            return f"clusters of {blocks} blocks; allowed: {MAX_CLUSTER_BLOCKS}"
        if not 2 <= self.stages <= self.max_stages:
            return f"{self.stages} stages; allowed: 2 to {self.max_stages}"
        return None


def named(name: str) -> Tile | None:
    """Return the tile of a kernel's name; None where the name is not that of one."""
    if not (match := NAME.fullmatch(name)):
        return None
    values: dict[str, Any] = {key: int(match[key] or 1) for key in NUMBERS}
    values |= {key: match[key] is not None for key in ("b_first", "pingpong")}
    return Tile(**values, b_layout="column" if match["bcol"] else "row", dtype=match["dtype"])


@functools.cache
def tiles(b_layout: Layout = "row", dtype: str = "bf16", step: int = ATOM) -> tuple[Tile, ...]:
    """Return every tile that there is a kernel of, with its usual number of stages; widths in steps
    of `step`.
    """
    return tuple(_tiles(b_layout, dtype, step))


def _tiles(b_layout: Layout, dtype: str, step: int) -> Iterator[Tile]:
    for first in CONSUMERS:
        for width in range(16, MAX_WIDTH + 1, step):
            for b_first in (True, False):
                size = (width, first) if b_first else (first, width)
                for (down, across), slices in itertools.product(CLUSTERS, SLICES):
                    for pingpong in (False, True):
                        tile = Tile(
                            *size, b_first, pingpong, down, across, 0, b_layout, dtype, slices
                        )
                        tile = replace(tile, stages=tile.usual_stages)
                        if tile.unsupported_reason() is None:
                            yield tile
