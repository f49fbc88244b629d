"""What a GEMM is asked for."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ELEMENTS = 2**31 - 1  # kernels index with 32-bit integers


@dataclass(frozen=True)
class Problem:
    """C = alpha*A*B + beta*C, row-major: A is m x k, B is k x n, C is m x n; leading dimensions in elements."""

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    alpha: float = 1.0
    beta: float = 0.0

    @classmethod
    def square(cls, n: int) -> Problem:
        """m = n = k, packed, alpha = 1, beta = 0."""
        return cls(n, n, n, n, n, n)

    @property
    def flop(self) -> int:
        """Floating-point operations, 2mnk."""
        return 2 * self.m * self.n * self.k

    def refusal(self) -> str | None:
        """Why no kernel takes this problem; None where it is well formed."""
        for name in ("m", "n", "k"):
            if getattr(self, name) < 1:
                return f"{name} = {getattr(self, name)}, but {name} must be at least 1"
        for name, row in (("lda", self.k), ("ldb", self.n), ("ldc", self.n)):
            if getattr(self, name) < row:
                return f"{name} = {getattr(self, name)}, but a row has {row} elements"
        for matrix, rows, ld in (("A", self.m, self.lda), ("B", self.k, self.ldb), ("C", self.m, self.ldc)):
            if rows * ld > MAX_ELEMENTS:
                return f"{matrix} spans {rows * ld} elements, but at most {MAX_ELEMENTS} can be indexed"
        return None
