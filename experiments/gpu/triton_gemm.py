"""Triton's matrix product, as a user of it would write one: tiles by TMA, autotuned over a handful of configurations.

Needs the Triton that torch for CUDA brings; `discovery.missing_libraries` says whether it is there.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

from contracts import UserError
from contracts.dtypes import Dtype, dtypes
from experiments.gpu.device import Gpu
from experiments.gpu.fastest_call import Call, FastestCall
from experiments.gpu.torch_gemm import TorchGemm
from kernels.catalogue import Baseline, Problem


@triton.jit  # type: ignore[untyped-decorator]  # Triton's own types are its annotations
def gemm(  # type: ignore[no-untyped-def]
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    PERSISTENT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = A B by tensor descriptors, row-major; sums in fp32. A program has one tile of C, or every so many-th of them.

    Tiles go down GROUP_M rows of tiles before they go right, so that programs that run together share A and B in L2.
    """
    rows, columns = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0), flatten=PERSISTENT):
        group = tile // (GROUP_M * columns)
        height = min(rows - group * GROUP_M, GROUP_M)
        within = tile % (GROUP_M * columns)
        row, column = (group * GROUP_M + within % height) * BLOCK_M, within // height * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(k, BLOCK_K)):
            left, right = a.load([row, step * BLOCK_K]), b.load([step * BLOCK_K, column])
            sums = tl.dot(left, right, sums, input_precision=PRECISION)
        c.store([row, column], sums.to(c.dtype))


@dataclass(frozen=True)
class Config:
    """Tile, how many tiles of k are in flight, warps of a program, and whether a program an SM takes several tiles."""

    m: int
    n: int
    k: int
    stages: int
    warps: int
    persistent: bool = False

    @property
    def name(self) -> str:
        """For instance "128x256x64, 3 stages, 8 warps, persistent"."""
        told = f"{self.m}x{self.n}x{self.k}, {self.stages} stages, {self.warps} warps"
        return f"{told}, persistent" if self.persistent else told


GROUP_M = 8
# The first of each is what a plain bind runs. Tensor cores: tiles that fill a wgmma, with as many in flight as shared
# memory holds; small ones for problems of few tiles. Without them: tiles that registers hold.
OF_16_BITS = (
    Config(128, 256, 64, 3, 8),
    Config(256, 128, 64, 3, 8),
    Config(128, 128, 64, 4, 8),
    Config(128, 128, 64, 3, 4),
    Config(64, 128, 64, 4, 4),
    Config(64, 256, 64, 4, 4),
    Config(128, 256, 64, 3, 8, persistent=True),
    Config(128, 128, 64, 4, 8, persistent=True),
)
OF_TF32 = (
    Config(128, 128, 32, 4, 8),
    Config(128, 128, 32, 3, 4),
    Config(64, 128, 32, 4, 4),
    Config(64, 256, 32, 3, 4),
    Config(128, 128, 32, 4, 8, persistent=True),
)
OF_FMAS = (
    Config(128, 128, 16, 3, 8),
    Config(128, 64, 16, 3, 8),
    Config(64, 128, 16, 3, 4),
    Config(64, 64, 16, 3, 4),
    Config(64, 64, 32, 3, 8),
)


def configs(dtype: Dtype) -> tuple[Config, ...]:
    """What is tried for matrices of this dtype."""
    return OF_16_BITS if dtype.bits <= 16 else OF_TF32 if dtype.tensor else OF_FMAS


def precision(dtype: Dtype) -> str:
    """Of Triton's products: only matrices of fp32 elements have a choice."""
    return "tf32" if dtype.tensor else "ieee"


class TritonGemm(TorchGemm, FastestCall):
    """`gemm` with the configuration that is fastest on this card, on the harness's stream and memory.

    alpha = 1, beta = 0 and rows of whole 16 bytes only: TMA moves no others.
    """

    def __init__(self, gpu: Gpu, entry: Baseline) -> None:
        TorchGemm.__init__(self, gpu, entry)
        FastestCall.__init__(self, gpu)

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """See `TorchGemm.bind`; with the first configuration."""
        return self._compiled(problem, self.matrices(problem, a, b, c), configs(self._dtype)[0])

    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """See `FastestCall.calls`. Without the configurations that want more than this GPU has."""
        matrices, found = self.matrices(problem, a, b, c), {}
        for config in configs(self._dtype):
            with contextlib.suppress(OutOfResources):
                found[config.name] = self._compiled(problem, matrices, config)
        if not found:
            raise UserError(f"{self.entry.name}: this GPU has too little shared memory for each of its configurations")
        return found

    @property
    def _dtype(self) -> Dtype:
        return dtypes()[self.entry.dtype]

    def _compiled(self, p: Problem, matrices: tuple[Any, Any, Any], config: Config) -> Call:
        """A launch without the work that Triton's own launch repeats: its arguments do not change."""
        blocks = [config.m, config.k], [config.k, config.n], [config.m, config.n]
        described = [TensorDescriptor.from_tensor(*pair) for pair in zip(matrices, blocks, strict=True)]
        tiles = -(-p.m // config.m) * -(-p.n // config.n)
        grid = (min(tiles, self.gpu.sm_count) if config.persistent else tiles, 1, 1)
        tile = config.m, config.n, config.k, GROUP_M, config.persistent, precision(self._dtype)
        arguments = *described, p.m, p.n, p.k, *tile
        kernel = gemm[grid](*arguments, num_warps=config.warps, num_stages=config.stages)  # compiles, and runs once
        launch = functools.partial(kernel[grid], *arguments, stream=int(self.gpu.stream.handle))

        def call() -> None:
            launch()

        return call
