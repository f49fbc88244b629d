"""What a GEMM is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from contracts import UserError
from contracts.dtypes import Types

Layout = Literal["row", "column"]
# Kernels index with 32-bit integers.
MAX_ELEMENTS = 2**31 - 1
_NUMBER = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:e-?\d+)?"
_WRITTEN = re.compile(
    rf"(\d+)(?:x(\d+)x(\d+))?(?:,alpha=({_NUMBER}))?(?:,beta=({_NUMBER}))?(?:,b=(row|column))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Problem:
    """C = alpha*A*B + beta*C: A is m x k, B is k x n, C is m x n; leading dimensions in elements. A
    and C are row-major, and so is B but where `b_layout` says otherwise: then columns of B are
    `ldb` apart."""

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    alpha: float = 1.0
    beta: float = 0.0
    b_layout: Layout = "row"

    @classmethod
    def square(cls, n: int, b_layout: Layout = "row") -> Problem:
        """Return the problem m = n = k, packed, alpha = 1, beta = 0."""
        return cls.packed(n, n, n, b_layout)

    @classmethod
    def packed(cls, m: int, n: int, k: int, b_layout: Layout = "row") -> Problem:
        """Return a problem whose rows, or columns of B, lie end to end; alpha = 1, beta = 0."""
        return cls(m, n, k, k, n if b_layout == "row" else k, n, b_layout=b_layout)

    @property
    def stored(self) -> dict[str, tuple[int, int, int]]:
        """Rows, columns and leading dimension of A, B and C as they lie in memory, row after row: a
        column-major B is there as its transpose."""
        b = (self.k, self.n) if self.b_layout == "row" else (self.n, self.k)
        return {
            "A": (self.m, self.k, self.lda),
            "B": (*b, self.ldb),
            "C": (self.m, self.n, self.ldc),
        }

    @property
    def numbers(self) -> dict[str, Any]:
        """m to beta, as tables have them; the layout of B is the variant's."""
        return {name: value for name, value in vars(self).items() if name != "b_layout"}

    @property
    def flop(self) -> int:
        """Floating-point operations, 2mnk."""
        return 2 * self.m * self.n * self.k

    def unsupported_reason(self) -> str | None:
        """Return why no kernel takes this problem; None where it is well formed."""
        for name in ("m", "n", "k"):
            if getattr(self, name) < 1:
                return f"{name} = {getattr(self, name)}, but {name} must be at least 1"
        for matrix, (_, row, ld) in self.stored.items():
            if ld < row:
                line = "column" if matrix == "B" and self.b_layout == "column" else "row"
                return f"ld{matrix.lower()} = {ld}, but a {line} has {row} elements"
        for matrix, (rows, _, ld) in self.stored.items():
            if rows * ld > MAX_ELEMENTS:
                return f"{matrix} spans {rows * ld} elements, but at most {MAX_ELEMENTS} can be indexed"
        return None

    def overlap(self, types: Types, addresses: Mapping[str, int]) -> str | None:
        """Return why C cannot lie where it does: an element of A or B is there, too. None where no
        byte is shared.

        addresses: of A, B and C, in bytes.
        """
        a, b, c = (
            np.asarray(_Elements(addresses[matrix], (rows, row), ld, types.of(matrix).bytes))
            for matrix, (rows, row, ld) in self.stored.items()
        )
        shared = next(
            (name for name, matrix in (("A", a), ("B", b)) if np.shares_memory(matrix, c)), None
        )
        return (
            f"C at byte {addresses['C']} overlaps {shared} at byte {addresses[shared]}"
            if shared
            else None
        )


class _Elements:
    """A matrix as NumPy sees it, wherever its memory is; nothing is read."""

    def __init__(self, address: int, shape: tuple[int, int], ld: int, element_bytes: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": (ld * element_bytes, element_bytes),
            "typestr": f"|V{element_bytes}",
        }


@dataclass(frozen=True)
class ProblemSpec:
    """A problem as an experiment or a command names it: packed matrices, and B in the layout that
    the kernel takes, unless `b_layout` names one.

    Written as "4096" (m = n = k), "64x11008x4096" (m x n x k) or, in this order, with more after
    commas: "4096,alpha=0.5,beta=1,b=column".
    """

    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    b_layout: Layout | None = None

    @classmethod
    def square(cls, n: int) -> ProblemSpec:
        """Return the problem m = n = k, alpha = 1, beta = 0."""
        return cls(n, n, n)

    @classmethod
    def parse(cls, text: str) -> ProblemSpec:
        """Return the problem that is written as `text`. Raises `UserError` for other text."""
        match = _WRITTEN.fullmatch(text)
        if not match:
            allowed = "N or MxNxK, then ,alpha=NUMBER ,beta=NUMBER ,b=row or ,b=column: for instance 64x4096x512,beta=1"
            raise UserError(f"problem = {text!r} is not allowed; allowed: {allowed}")
        m, n, k, alpha, beta, b_layout = match.groups()
        layout: Layout | None = "row" if b_layout == "row" else "column" if b_layout else None
        return cls(
            int(m),
            int(n or m),
            int(k or m),
            float(alpha or cls.alpha),
            float(beta or cls.beta),
            layout,
        )

    def __str__(self) -> str:
        parts = [f"{self.m}x{self.n}x{self.k}"]
        parts += [f"{key}={value:g}" for key, value, usual in self._factors() if value != usual]
        return ",".join([*parts, *([f"b={self.b_layout}"] if self.b_layout else [])])

    def _factors(self) -> tuple[tuple[str, float, float], ...]:
        return ("alpha", self.alpha, ProblemSpec.alpha), ("beta", self.beta, ProblemSpec.beta)

    @property
    def shown(self) -> str:
        """For people: "n = 4096" for a plain square, else as it is written."""
        return f"n = {self.n}" if self == ProblemSpec.square(self.n) else str(self)

    def of(self, b_layout: Layout) -> Problem:
        """Return the problem for a kernel that takes B in this layout, where none is named."""
        problem = Problem.packed(self.m, self.n, self.k, self.b_layout or b_layout)
        return replace(problem, alpha=self.alpha, beta=self.beta)

    @property
    def flop(self) -> int:
        """Floating-point operations, 2mnk."""
        return 2 * self.m * self.n * self.k

    @property
    def row(self) -> dict[str, int]:
        """m, n and k, as tables have them."""
        return {"m": self.m, "n": self.n, "k": self.k}
