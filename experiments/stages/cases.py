"""The correctness cases of a variant, made from its tile and requirements: a new kernel has them by
itself.

A dispatcher has those of its last choice, and others that show where it changes from one choice to
the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from contracts.dtypes import Types
from kernels.catalogue import Dispatcher, Problem, Runnable, Variant
from kernels.problem import ProblemSpec

OTHER_ALPHA, OTHER_BETA = 0.75, -1.5
ODD = (
    (1, 1, 1),
    (1, 127, 7),
    (127, 1, 129),
    (7, 129, 1000),
    (127, 129, 33),
    (1000, 7, 127),
    (129, 1000, 1),
)


@dataclass(frozen=True)
class Case:
    """A problem to run, or one that must be refused.

    The matrices begin `offset` elements after an aligned address.
    """

    name: str
    problem: Problem
    refused: bool = False
    offset: int = 0

    def starts(self, types: Types) -> dict[str, int]:
        """Where A, B and C begin, in bytes after an aligned address."""
        return {matrix: self.offset * types.of(matrix).bytes for matrix in "ABC"}


def multiple(variant: Variant, key: str) -> int:
    """What a number of the problem must be a multiple of; 1 where it is free."""
    return variant.multiples.get(key, 1)


def packed(variant: Variant, m: int, n: int, k: int, **scalars: float) -> Problem:
    """m x n x k, rounded up to what the variant takes, with the least leading dimensions."""
    m, n, k = (_up(value, multiple(variant, key)) for key, value in (("m", m), ("n", n), ("k", k)))
    least = Problem(
        m, n, k, k, n if variant.b_layout == "row" else k, n, b_layout=variant.b_layout, **scalars
    )
    lda, ldb, ldc = (_up(getattr(least, ld), multiple(variant, ld)) for ld in ("lda", "ldb", "ldc"))
    return replace(least, lda=lda, ldb=ldb, ldc=ldc)


def cases(entry: Runnable, large: int | None = None) -> Iterator[Case]:
    """Every case; with `large`, also m = n = k = large (and one less), checked by rows and
    Freivalds' test.

    Without, for an emulator, there is nothing larger than what shows a fault.
    """
    return (
        _of_dispatcher(entry, large) if isinstance(entry, Dispatcher) else _of_variant(entry, large)
    )


def of_problems(entry: Runnable, problems: Iterable[ProblemSpec]) -> Iterator[Case]:
    """A case for each problem that somebody names; one that the entry does not take must be
    refused.
    """
    for problem in problems:
        named = problem.of(entry.b_layout)
        yield Case(f"problem {problem}", named, refused=entry.unsupported_reason(named) is not None)


def _of_variant(variant: Variant, large: int | None) -> Iterator[Case]:
    tm, tn, tk = (max(variant.tile[axis], multiple(variant, axis)) for axis in "mnk")
    tk = max(tk, 8)
    yield Case("one tile, one k-step", packed(variant, tm, tn, tk))
    yield Case("2 x 2 tiles, 3 k-steps", packed(variant, 2 * tm, 2 * tn, 3 * tk))
    wide = max(2, tm // tn + 1) * tn
    yield Case("wide: m < n < k", packed(variant, tm, wide, max(7 * tk, wide + tn)))
    tall = max(4, 2 * tn // tm + 1) * tm
    yield Case("tall: m > n > k", packed(variant, tall, 2 * tn, tk))
    for alpha in (0.0, 1.0, OTHER_ALPHA):
        for beta in (0.0, 1.0, OTHER_BETA):
            if (alpha, beta) != (1.0, 0.0):
                problem = packed(variant, 2 * tm, tn, 2 * tk, alpha=alpha, beta=beta)
                yield Case(f"alpha = {alpha:g}, beta = {beta:g}", problem)
    rows = packed(variant, 2 * tm, 2 * tn, 3 * tk, alpha=OTHER_ALPHA, beta=OTHER_BETA)
    pads = {"lda": 3, "ldb": 4, "ldc": 5}  # no two alike, or one taken for another would go unseen
    wider = replace(
        rows,
        **{ld: getattr(rows, ld) + pad * _up(5, multiple(variant, ld)) for ld, pad in pads.items()},
    )
    yield Case("leading dimensions beyond the row", wider)
    for ld in pads:
        yield Case(
            f"{ld} beyond the row, beta = 0", replace(rows, beta=0.0, **{ld: getattr(wider, ld)})
        )
    yield Case("nine grid columns", packed(variant, tm, 9 * tn, 2 * tk))
    align, smallest = variant.align_bytes, min(variant.types.ab.bytes, variant.types.c.bytes)
    least = packed(variant, tm, tn, 2 * tk)
    yield Case(f"matrices aligned to {align} bytes and no more", least, offset=align // smallest)
    # a ring of buffers goes round several times, within a tile and from tile to tile
    if variant.blocks_per_sm:
        yield Case("2 x 4 tiles, 14 k-steps", packed(variant, 2 * tm, 4 * tn, 14 * tk))
    general = all(multiple(variant, key) == 1 for key in "mnk")
    if general:
        for m, n, k in (*ODD, (tm + 1, tn - 1, 1)):
            yield Case(
                f"odd: {m} x {n} x {k}",
                packed(variant, m, n, k, alpha=OTHER_ALPHA, beta=OTHER_BETA),
            )
    # no power of two, many tiles; an emulator's time goes with the volume
    m, n, k = (800, 640, 1000) if large else (400, 320, 100)
    yield Case(f"{m} x {n} x {k}, rounded up", packed(variant, m, n, k))
    if large:
        yield Case("large", packed(variant, large, large, large))
        if general:
            yield Case("large and odd", packed(variant, large - 1, large - 1, large - 1))
    yield from refusals(variant)


def refusals(variant: Variant) -> Iterator[Case]:
    """One problem for each requirement that breaks only that one."""
    base = packed(variant, 256, 256, 256)
    for key, needed in variant.multiples.items():
        if needed > 1:
            step = {"m": {"m": 1}, "n": {"n": 1, "ldc": needed}, "k": {"k": 1, "lda": needed}}
            step["n" if variant.b_layout == "row" else "k"]["ldb"] = needed  # rows have room for it
            change = step.get(key, {key: 1})
            yield Case(
                f"refuses {key} off by one",
                replace(base, **{f: getattr(base, f) + d for f, d in change.items()}),
                refused=True,
            )
    for ld in ("lda", "ldb", "ldc"):
        short = replace(base, **{ld: getattr(base, ld) - max(multiple(variant, ld), 1)})
        yield Case(f"refuses {ld} under a row", short, refused=True)
    if variant.b_layout != "row":
        yield Case("refuses row-major B", replace(base, b_layout="row"), refused=True)
    if variant.align_bytes > 4:
        yield Case("refuses misaligned matrices", base, refused=True, offset=2)


def _of_dispatcher(entry: Dispatcher, large: int | None) -> Iterator[Case]:
    last = entry.choices[-1].variant
    found = [*_of_variant(last, large)]
    for choice in entry.choices:
        if least := choice.at_least:
            sizes = {"m": 129, "n": 127, "k": 9, **least}
            found.append(
                Case(" x ".join(map(str, sizes.values())), packed(choice.variant, **sizes))
            )
            # an emulator has the choice from `pick`; its time goes with the area
            for axis in least if large else ():
                below = sizes | {axis: least[axis] - 1}
                found.append(
                    Case(" x ".join(map(str, below.values())), packed(choice.variant, **below))
                )
        for case in refusals(choice.variant):
            if not entry.unsupported_reason(
                case.problem, case.starts(last.types)
            ):  # another choice takes it
                found.append(case)
    seen = set()
    for case in found:
        addresses = case.starts(last.types)
        if entry.unsupported_reason(case.problem, addresses):
            yield case  # for what every choice refuses
        else:
            name = f"{case.name.removeprefix('refuses ')}, by {entry.pick(case.problem, addresses).name}"
            known = (name, case.problem.m, case.problem.n, case.problem.k)
            if known not in seen:  # two choices may be made for the same sizes
                seen.add(known)
                yield replace(case, name=name, refused=False)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
