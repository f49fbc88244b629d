"""Whether a computed C is right: a float64 reference and an elementwise rounding bound. NumPy only.

The bound. A sum of k products in precision u has, with high probability, an error below lambda *
sqrt(k) * u * (|A||B|) (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis",
SIAM J. Sci. Comput. 41(5), 2019, Thm 3.1); lambda = 1 is used, since random signs leave the true
error far below even that. Three more roundings come from alpha, beta and their sum, and one from
storing C in its own precision, which has no steps smaller than `least`:

    |C - C64| <= ((sqrt(k) + 3) * u + u_step) * (|alpha| |A||B| + |beta| |C0|) + u_out * |C64| + least / 2

u is the unit roundoff of the sums; u_out and `least` are those of C. u_step is 2^-13 for 8-bit
floats, else 0: Hopper's tensor cores keep 13 bits of fraction next to the largest product of a
step. On the emulator, whose tensor cores agree with an H200's in every bit, errors reach 0.8 u_step
|A||B| where 256 products are added up in the tensor core, and 2.5 where 4096 are: a kernel whose
sums the catalogue calls fp32 must move them to fp32 registers in between.

A TF32 kernel is evaluated by what it reads: fp32 data, narrowed as its catalogue entry says
(`as_read`). Products of such numbers are exact in fp32, and the bound is that of fp32.

The inputs of a check have magnitudes in [0.5, 1], so that any one dropped product changes C by at
least 0.25 |alpha|. In fp32 and TF32 the bound stays below that for every k that is tested; in 16
bits it does where the stored element is not so large (|C| < 64 in bf16) that its own last place
hides a product.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # registers bfloat16 and the like
import numpy as np

from contracts.dtypes import Dtype, Types
from kernels.catalogue import Problem

_finfo: Any = ml_dtypes.finfo  # has no types
BLOCK = 2**18


@dataclass(frozen=True)
class CheckResult:
    """What comparing an output with its reference gave.

    `worst` is the largest error as a share of its bound; None where the output is not finite.
    """

    worst: float | None
    detail: str = ""

    @property
    def passed(self) -> bool:
        """NaN never passes: it has no worst error."""
        return not self.detail and self.worst is not None and self.worst <= 1.0


def fresh_seed() -> int:
    """A seed that was never used before, of 31 bits."""
    return secrets.randbits(31)


def random_matrix(rng: np.random.Generator, rows: int, cols: int, dtype: Dtype) -> np.ndarray:
    """rows x cols of random sign and magnitude in [0.5, 1], rounded to `dtype`."""
    matrix = np.empty((rows, cols), dtype.numpy)
    blocks = row_blocks(matrix)  # the same numbers as all at once, in a cache's size
    for block in blocks:
        block[:] = rng.uniform(0.5, 1.0, block.shape)
    for block in blocks:
        np.negative(block, out=block, where=rng.integers(0, 2, block.shape) == 0)
    return matrix


def row_blocks(matrix: np.ndarray) -> list[np.ndarray]:
    """Views of some rows at a time, of about `BLOCK` elements: float64 copies of them stay in a
    cache.
    """
    rows = max(1, BLOCK // max(1, matrix.shape[1]))
    return [matrix[start : start + rows] for start in range(0, len(matrix), rows)]


def as_read(matrix: np.ndarray, dtype: Dtype, narrowing: str = "truncate") -> np.ndarray:
    """The inputs as a kernel computes with them: of tf32, fp32 numbers narrowed to 19 bits, else as
    they are.

    `narrowing` is "truncate" (what mma does by itself) or "nearest" (ties away from zero, as
    cvt.rna.tf32.f32).
    """
    dropped = dtype.narrowed_bits
    if not dropped:
        return matrix
    half = {"truncate": 0, "nearest": 1 << (dropped - 1)}[narrowing]
    bits = np.ascontiguousarray(matrix, np.float32).view(np.uint32)
    narrowed: np.ndarray = (
        (bits + np.uint32(half)) & np.uint32(-(1 << dropped) & 0xFFFFFFFF)
    ).view(np.float32)
    return narrowed


def magnitude(problem: Problem, a: np.ndarray, b: np.ndarray, c0: np.ndarray) -> np.ndarray:
    """|alpha| |A||B| + |beta| |C0| in float64; a and b count only where alpha != 0, c0 where beta
    != 0.
    """
    return combined(abs(problem.alpha), abs(problem.beta), *map(np.abs, (a, b, c0)))


def combined(alpha: float, beta: float, a: np.ndarray, b: np.ndarray, c0: np.ndarray) -> np.ndarray:
    """alpha*A*B + beta*C0 in float64 as BLAS means it: what has the factor 0 is not read, and may
    be NaN.
    """
    total: np.ndarray = np.zeros(c0.shape)
    if alpha:
        total += alpha * (a.astype(np.float64) @ b.astype(np.float64))
    if beta:
        total += beta * c0.astype(np.float64)
    return total


def least(dtype: Dtype) -> float:
    """The smallest positive number as it is stored."""
    return float(_finfo(dtype.numpy).smallest_subnormal)


def of_sums(problem: Problem, types: Types) -> float:
    """The largest error of a sum and its scaling, as a part of |alpha| |A||B| + |beta| |C0|."""
    return (math.sqrt(problem.k) + 3.0) * types.accumulate.unit_roundoff + types.ab.step_roundoff


def bound(
    problem: Problem,
    types: Types,
    reference: np.ndarray,
    magnitude: np.ndarray,
    product: np.ndarray | None = None,
) -> np.ndarray:
    """The largest error allowed; `magnitude` is |alpha| |A||B| + |beta| |C0| in float64.

    `product`: alpha A B in float64, of a library that may round it to C's type before it adds C0.
    cuBLAS 13.1 does so with 16-bit C where beta is 1, and with no other beta that was tried.
    """
    computed = of_sums(problem, types) * magnitude
    allowed: np.ndarray = computed + types.c.unit_roundoff * np.abs(reference) + least(types.c) / 2
    if product is not None and problem.beta == 1:
        allowed += types.c.unit_roundoff * np.abs(product)
    return allowed


def evaluate(c: np.ndarray, reference: np.ndarray, allowed: np.ndarray) -> CheckResult:
    """Compare elements with their reference; names the worst element of a failure."""
    finite = np.isfinite(c.astype(np.float64))
    if not finite.all():
        at = tuple(int(i) for i in np.argwhere(~finite)[0])
        return CheckResult(
            None, f"{int((~finite).sum())} elements are not finite, the first at {at}"
        )
    error = np.abs(c.astype(np.float64) - reference)
    share = np.divide(error, allowed, out=np.where(error > 0, np.inf, 0.0), where=allowed > 0)
    worst = float(share.max())
    if not worst <= 1.0:
        at = tuple(int(i) for i in np.unravel_index(int(share.argmax()), share.shape))
        return CheckResult(
            min(worst, 1e30),
            f"C{list(at)} = {float(c[at]):.9g}, expected {float(reference[at]):.9g} "
            f"+- {float(allowed[at]):.3g}; {int((share > 1).sum())} of {share.size} elements are off",
        )
    return CheckResult(worst)


def expected(
    problem: Problem,
    types: Types,
    a: np.ndarray,
    b: np.ndarray,
    c0: np.ndarray,
    of_library: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """C in float64, and the largest error allowed. `a`, `b`, `c0` as the kernel saw them (see
    `combined`); `of_library`: it may round twice (see `bound`)."""
    reference = combined(problem.alpha, problem.beta, a, b, c0)
    product = combined(problem.alpha, 0.0, a, b, c0) if of_library else None
    return reference, bound(problem, types, reference, magnitude(problem, a, b, c0), product)


def freivalds(
    problem: Problem,
    types: Types,
    cx: np.ndarray,
    abx: np.ndarray,
    magnitude_sums: np.ndarray,
    norms: np.ndarray,
) -> CheckResult:
    """Freivalds' check of whole C at the cost of three matrix-vector products, for x of random
    signs.

    All in float64, one number a row: `cx` = C x, `abx` = alpha A (B x) + beta C0 x,
    `magnitude_sums` = the sum over the row of |alpha||A||B| + |beta||C0|, `norms` = the 2-norm of
    the row of C. Errors of random sign add up as the root of their squares, so the bound of a row
    is the elementwise one over sqrt(n), plus four sigmas of output rounding.
    """
    n = problem.n
    stored = types.c.unit_roundoff * norms + math.sqrt(n) * least(types.c) / 2
    reference_bound = of_sums(problem, types) * magnitude_sums / math.sqrt(n)
    return evaluate(cx, abx, reference_bound + 4.0 * stored)


def combine(*results: CheckResult) -> CheckResult:
    """The first failure, else the worst share."""
    for result in results:
        if not result.passed:
            return result
    return CheckResult(max(result.worst for result in results if result.worst is not None))
