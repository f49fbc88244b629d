"""A kernel's arguments: those that the catalogue can name, how CUDA declares them, and their values
in a launch: once, for the GPU and for the emulator, which differ in what a matrix, a texture, a
tensor map and a workspace are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from contracts.dtypes import Types
from kernels.problem import Problem

SIGNATURE = ("m", "n", "k", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc")
TEXTURES = ("tex_a", "tex_b")
WORKSPACES = ("workspace", "flags")
# A texel has four floats.
TEXEL_BYTES = 16
_INTEGERS = ("m", "n", "k", "lda", "ldb", "ldc")
_FACTORS = ("alpha", "beta")


@dataclass(frozen=True)
class TensorMap:
    """A tensor map over a whole matrix, for the Tensor Memory Accelerator.

    Beyond the matrix it reads zeros. name: tma_a, tma_b or tma_c. box: rows and columns that one
    instruction moves. swizzle: bytes of a row of the box in shared memory within which 16-byte
    words are exchanged. l2_promotion: bytes that a miss in L2 fetches at least.
    """

    name: str
    box: tuple[int, int]
    swizzle: int = 0
    l2_promotion: int = 0

    @property
    def matrix(self) -> str:
        """A, B or C."""
        return self.name[-1].upper()


@dataclass(frozen=True)
class Workspace:
    """Memory of the kernel's own, 256-byte aligned. `zeroed`: never, once before the first launch
    (the kernel leaves it zero, too), or before each launch."""

    name: str
    bytes: int = 0
    bytes_per_block: int = 0
    zeroed: Literal["never", "once", "always"] = "never"

    def size(self, blocks: int) -> int:
        """Return its bytes for a launch of so many blocks."""
        return self.bytes + blocks * self.bytes_per_block


TILE_COUNTER = Workspace("tile_counter", bytes=4, zeroed="always")
Argument = str | TensorMap | Workspace
Matrix = TypeVar("Matrix", contravariant=True)


class Makers(Protocol[Matrix]):
    """What a device makes of the arguments that are no numbers."""

    def texture(self, matrix: Matrix, nbytes: int) -> Any:
        """Return a texture object of a matrix of fp32; its texels span `nbytes` bytes."""
        ...

    def tensor_map(self, matrix: Matrix, rows: int, columns: int, ld: int, spec: TensorMap) -> Any:
        """Return a tensor map of a matrix that lies row after row; `ld` in elements."""
        ...

    def workspace(self, nbytes: int, spec: Workspace) -> Any:
        """Return memory of so many bytes."""
        ...


def declaration(argument: Argument, types: Types) -> str:
    """Return the declaration of a parameter in CUDA C++; `types` are those of the matrices."""
    if isinstance(argument, TensorMap):
        return f"const __grid_constant__ CUtensorMap {argument.name}"
    if isinstance(argument, Workspace):
        return f"{'unsigned' if argument is TILE_COUNTER else 'void'}* {argument.name}"
    if argument in _INTEGERS:
        return f"int {argument}"
    if argument in _FACTORS:
        return f"float {argument}"
    if argument in TEXTURES:
        return f"cudaTextureObject_t {argument}"
    return f"{'' if argument == 'C' else 'const '}{types.of(argument).c_type}* {argument}"


def pack(
    order: tuple[Argument, ...],
    problem: Problem,
    matrices: Mapping[str, Matrix],
    blocks: int,
    makers: Makers[Matrix],
) -> tuple[Any, ...]:
    """Return the arguments of a launch of so many blocks on `matrices` A, B and C."""
    p = problem
    shapes = p.stored

    def value(argument: Argument) -> Any:
        if isinstance(argument, TensorMap):
            return makers.tensor_map(matrices[argument.matrix], *shapes[argument.matrix], argument)
        if isinstance(argument, Workspace):
            return makers.workspace(argument.size(blocks), argument)
        if argument in _INTEGERS:
            return np.int32(getattr(p, argument))
        if argument in _FACTORS:
            return np.float32(getattr(p, argument))
        if argument in TEXTURES:
            rows, columns, ld = shapes[argument[-1].upper()]
            # The span is in elements; the rest of the last row may not be there.
            span = (rows - 1) * ld + columns
            return makers.texture(
                matrices[argument[-1].upper()], -(-4 * span // TEXEL_BYTES) * TEXEL_BYTES
            )
        return matrices[argument]

    return tuple(value(argument) for argument in order)
