"""What a GEMM is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Layout = Literal["row", "column"]
MAX_ELEMENTS = 2**31 - 1  # kernels index with 32-bit integers


@dataclass(frozen=True)
class Problem:
    """C = alpha*A*B + beta*C: A is m x k, B is k x n, C is m x n; leading dimensions in elements. A and C are
    row-major, and so is B but where `b_layout` says otherwise: then columns of B are `ldb` apart."""

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
        """m = n = k, packed, alpha = 1, beta = 0."""
        return cls.packed(n, n, n, b_layout)

    @classmethod
    def packed(cls, m: int, n: int, k: int, b_layout: Layout = "row") -> Problem:
        """Rows, or columns of B, end to end; alpha = 1, beta = 0."""
        return cls(m, n, k, k, n if b_layout == "row" else k, n, b_layout=b_layout)

    @property
    def stored(self) -> dict[str, tuple[int, int, int]]:
        """Rows, columns and leading dimension of A, B and C as they lie in memory, row after row: a column-major B is
        there as its transpose."""
        b = (self.k, self.n) if self.b_layout == "row" else (self.n, self.k)
        return {"A": (self.m, self.k, self.lda), "B": (*b, self.ldb), "C": (self.m, self.n, self.ldc)}

    @property
    def numbers(self) -> dict[str, Any]:
        """m to beta, as tables have them; the layout of B is the variant's."""
        return {name: value for name, value in vars(self).items() if name != "b_layout"}

    @property
    def flop(self) -> int:
        """Floating-point operations, 2mnk."""
        return 2 * self.m * self.n * self.k

    def refusal(self) -> str | None:
        """Why no kernel takes this problem; None where it is well formed."""
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
