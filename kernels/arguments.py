"""A kernel's arguments in the order of the signature that all share (kernels/catalogue.yaml): once, for the GPU and for
the emulator, which differ in what a matrix and a texture are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from kernels.catalogue import TEXEL_BYTES, Problem, Variant

Matrix = TypeVar("Matrix")


def pack(
    variant: Variant, problem: Problem, a: Matrix, b: Matrix, c: Matrix, texture: Callable[[Matrix, int], Any]
) -> tuple[Any, ...]:
    """The arguments of a launch; `texture` makes a texture object of a matrix and of the bytes that its texels span."""
    p, i32, f32 = problem, np.int32, np.float32
    common = (
        i32(p.m),
        i32(p.n),
        i32(p.k),
        f32(p.alpha),
        a,
        i32(p.lda),
        b,
        i32(p.ldb),
        f32(p.beta),
        c,
        i32(p.ldc),
    )
    if not variant.textures:
        return common
    spans = ((p.m - 1) * p.lda + p.k, (p.k - 1) * p.ldb + p.n)  # in elements; the rest of the last row may not be there
    return *common, *(texture(x, -(-4 * s // TEXEL_BYTES) * TEXEL_BYTES) for x, s in zip((a, b), spans, strict=True))
