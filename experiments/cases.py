"""The correctness cases of a variant, made from its tile and requirements: a new kernel has them by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernels.catalogue import Problem, Variant

OTHER_ALPHA, OTHER_BETA = 0.75, -1.5


@dataclass(frozen=True)
class Case:
    """A problem to run, or one that must be refused (then `offset` may misalign the matrices, in elements)."""

    name: str
    problem: Problem
    refused: bool = False
    offset: int = 0


def multiple(variant: Variant, key: str) -> int:
    """What a number of the problem must be a multiple of; 1 where it is free."""
    return variant.multiples.get(key, 1)


def packed(variant: Variant, m: int, n: int, k: int, **scalars: float) -> Problem:
    """m x n x k, rounded up to what the variant takes, with the least leading dimensions."""
    m, n, k = (_up(value, multiple(variant, key)) for key, value in (("m", m), ("n", n), ("k", k)))
    lda, ldb, ldc = (_up(row, multiple(variant, key)) for key, row in (("lda", k), ("ldb", n), ("ldc", n)))
    return Problem(m, n, k, lda, ldb, ldc, **scalars)


def cases(variant: Variant, large: int | None = None) -> Iterator[Case]:
    """Every case; with `large`, also m = n = k = large, checked by rows and Freivalds' test."""
    tm, tn, tk = (max(variant.tile[axis], multiple(variant, axis)) for axis in "mnk")
    tk = max(tk, 8)
    yield Case("one tile, one k-step", packed(variant, tm, tn, tk))
    yield Case("2 x 2 tiles, 3 k-steps", packed(variant, 2 * tm, 2 * tn, 3 * tk))
    yield Case("wide: m < n < k", packed(variant, tm, 3 * tn, max(7 * tk, 4 * tn)))
    yield Case("tall: m > n > k", packed(variant, 4 * tm, 2 * tn, tk))
    for alpha in (0.0, 1.0, OTHER_ALPHA):
        for beta in (0.0, 1.0, OTHER_BETA):
            if (alpha, beta) != (1.0, 0.0):
                problem = packed(variant, 2 * tm, tn, 2 * tk, alpha=alpha, beta=beta)
                yield Case(f"alpha = {alpha:g}, beta = {beta:g}", problem)
    rows = packed(variant, 2 * tm, 2 * tn, 3 * tk, alpha=OTHER_ALPHA, beta=OTHER_BETA)
    pads = {"lda": 3, "ldb": 4, "ldc": 5}  # no two alike, or one taken for another would go unseen
    wider = replace(rows, **{ld: getattr(rows, ld) + pad * _up(5, multiple(variant, ld)) for ld, pad in pads.items()})
    yield Case("leading dimensions beyond the row", wider)
    yield Case("leading dimensions beyond the row, beta = 0", replace(wider, beta=0.0))
    yield Case("nine grid columns", packed(variant, tm, 9 * tn, 2 * tk))
    if all(multiple(variant, key) == 1 for key in "mnk"):
        for m, n, k in ((1, 1, 1), (1, 127, 7), (127, 1, 129), (127, 129, 33), (tm + 1, tn - 1, 1)):
            yield Case(f"odd: {m} x {n} x {k}", packed(variant, m, n, k, alpha=OTHER_ALPHA, beta=OTHER_BETA))
    yield Case("800 x 640 x 1000, rounded up", packed(variant, 800, 640, 1000))
    if large:
        yield Case("large", packed(variant, large, large, large))
    yield from refusals(variant)


def refusals(variant: Variant) -> Iterator[Case]:
    """One problem for each requirement that breaks only that one."""
    base = packed(variant, 256, 256, 256)
    for key, needed in variant.multiples.items():
        if needed > 1:
            step = {"m": {"m": 1}, "n": {"n": 1, "ldb": needed, "ldc": needed}, "k": {"k": 1, "lda": needed}}
            change = step.get(key, {key: 1})
            yield Case(
                f"refuses {key} off by one",
                replace(base, **{f: getattr(base, f) + d for f, d in change.items()}),
                refused=True,
            )
    for ld in ("lda", "ldb", "ldc"):
        short = replace(base, **{ld: getattr(base, ld) - max(multiple(variant, ld), 1)})
        yield Case(f"refuses {ld} under a row", short, refused=True)
    if variant.align_bytes > 4:
        yield Case("refuses misaligned matrices", base, refused=True, offset=2)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
