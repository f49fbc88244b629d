"""What wrong elements of C have in common, in words: where they lie, who stored them, what they
lack. NumPy only.

Every word is checked: a pattern is reported only where it holds of all wrong elements and of no
other, but for the few that come out right by chance.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from contracts.dtypes import dtypes
from kernels.catalogue import Problem

_finfo: Any = ml_dtypes.finfo  # has no types
WARP = 32
LISTED = 4  # indices or remainders that are listed one by one
CHANCE = 1e-3  # of the elements that a fault reaches, how many may be right all the same
SAMPLED = 64  # wrong elements that causes are tried on
EXCHANGED = 64  # places of k next to each other that may be taken for each other
OFTEN = 0.05  # of the elements, that one exchange explains at least where several are needed
SCATTERED = 0.1  # of all elements, that are wrong at least where sums are rounded too coarsely


@dataclass(frozen=True)
class Told:
    """A set of indices in words; `exact`: the words stand for that set alone."""

    words: str
    exact: bool = True


def axis(name: str, at: np.ndarray, extent: int, tile: int = 0) -> Told:
    """The indices `at` of 0 to `extent` - 1, for instance "rows = 7 mod 64". `tile`: whole tiles
    are called so.
    """
    at = np.unique(at)
    if len(at) == extent:
        return Told(f"all {name}s" if extent > 1 else f"{name} 0")
    if len(at) == 1:
        return Told(f"{name} {at[0]}")
    first, last = int(at[0]), int(at[-1])
    if last - first + 1 == len(at):
        words = f"{name}s {first} to {last}"
        if tile and first % tile == 0 and (last == extent - 1 or (last + 1) % tile == 0):
            tiles = (first // tile, last // tile)
            called = (
                f"tile {name} {tiles[0]}"
                if tiles[0] == tiles[1]
                else f"tile {name}s {tiles[0]} to {tiles[1]}"
            )
            return Told(f"{called} ({words})")
        return Told(words + (", the last" if last == extent - 1 else ""))
    for period in sorted({*(2**i for i in range(1, 16)), *([tile] if tile > 1 else [])}):
        if period * 2 > extent:
            break
        kept = np.unique(at % period)
        words = _remainders(name, kept, period)
        if words and np.isin(np.arange(extent) % period, kept).sum() == len(at):
            return Told(words)
    if len(at) <= LISTED:
        return Told(f"{name}s {', '.join(map(str, at))}")
    return Told(f"{len(at)} of {extent} {name}s, from {first} to {last}", exact=False)


def _remainders(name: str, kept: np.ndarray, period: int) -> str:
    """The indices whose remainder by `period` is in `kept`; "" where that is no short word."""
    if len(kept) == 1:
        return f"{name}s = {kept[0]} mod {period}"
    if kept[-1] - kept[0] + 1 == len(kept):
        if kept[0] == 0:
            return f"{name}s < {kept[-1] + 1} of each {period}"
        if kept[-1] == period - 1:
            return f"{name}s >= {kept[0]} of each {period}"
        return f"{name}s {kept[0]} to {kept[-1]} of each {period}"
    return f"{name}s = {', '.join(map(str, kept))} mod {period}" if len(kept) <= LISTED else ""


def _fills(mask: np.ndarray, pattern: np.ndarray) -> bool:
    """Whether the wrong elements are those of the pattern, which none lies outside of."""
    return bool((pattern & ~mask).sum() <= CHANCE * mask.sum())


def _product(
    mask: np.ndarray, tile: tuple[int, int] = (0, 0), called: tuple[str, str] = ("row", "column")
) -> Told:
    """A mask in rows and columns; exact where it is all crossings of those rows and columns, and
    these have words.
    """
    rows: np.ndarray = np.any(mask, axis=1)
    cols: np.ndarray = np.any(mask, axis=0)
    found = [
        axis(name, np.flatnonzero(used), len(used), unit)
        for name, used, unit in zip(called, (rows, cols), tile, strict=True)
    ]
    exact = _fills(mask, np.outer(rows, cols)) and all(one.exact for one in found)
    if exact and rows.sum() == cols.sum() == 1 and mask.size > 1:
        return Told(f"element [{np.flatnonzero(rows)[0]}, {np.flatnonzero(cols)[0]}]")
    wholes = [bool(rows.all()), bool(cols.all())]
    if all(wholes):
        return Told("all of them", exact)
    if any(wholes):
        return Told(f"all {found[wholes.index(False)].words}", exact)
    return Told(" and ".join(one.words for one in found), exact)


def place(wrong: np.ndarray, tile: tuple[int, int]) -> str:
    """Where the wrong elements lie. `wrong`: truths, [m, n]; `tile`: rows and columns of a block's
    part of C.
    """
    whole = _product(wrong, tile)
    if whole.exact:
        return whole.words
    counts = [-(-size // unit) for size, unit in zip(wrong.shape, tile, strict=True)]
    padding = [
        (0, count * unit - size)
        for count, unit, size in zip(counts, tile, wrong.shape, strict=True)
    ]
    inside = np.pad(np.ones(wrong.shape, bool), padding)
    tiles = (
        np.pad(wrong, padding).reshape(counts[0], tile[0], counts[1], tile[1]).transpose(0, 2, 1, 3)
    )
    there = inside.reshape(counts[0], tile[0], counts[1], tile[1]).transpose(0, 2, 1, 3)
    hit: np.ndarray = np.any(tiles, axis=(2, 3))
    alike: np.ndarray = np.any(tiles[hit], axis=0)
    if hit.size > 1 and _fills(tiles, hit[:, :, None, None] & alike & there):
        of, within = _product(hit, called=("tile row", "tile column")), _product(alike)
        if of.exact:
            which = (
                "every tile"
                if hit.all()
                else of.words.replace("element", "tile").removeprefix("all ")
            )
            found = (
                within.words
                if within.exact
                else f"{int(alike.sum())} elements within {within.words}"
            )
            return f"in {which}: {found}"
    rows, cols = (np.flatnonzero(wrong.any(axis=other)) for other in (1, 0))
    return f"within rows {rows[0]} to {rows[-1]} and columns {cols[0]} to {cols[-1]}, in no regular pattern"


@dataclass(frozen=True)
class Stores:
    """The last store to each element of C.

    owner: [m, n], block x threads of a block + thread; -1 where no thread stored.
    line: [m, n], index into `lines`; -1 where no thread stored, or no line is known.
    lines: places of the source, as "file:line".
    """

    owner: np.ndarray
    line: np.ndarray
    lines: tuple[str, ...] = ()


def stored_by(wrong: np.ndarray, stores: Stores, threads: int, grid: tuple[int, int, int]) -> str:
    """Who stored the wrong elements, at which line, and one of them with its thread.

    `wrong`: truths, [m, n]; `threads`: of a block; `grid`: blocks in x, y and z.
    """
    at = [stores.lines[n] for n in np.unique(stores.line[wrong]) if n >= 0]
    more = f" and {len(at) - LISTED} lines more" if len(at) > LISTED else ""
    words = owners(
        wrong, stores.owner, threads, grid, f" at {', '.join(at[:LISTED])}{more}" if at else ""
    )
    by_someone = np.argwhere(wrong & (stores.owner >= 0))
    if len(by_someone) > 1:
        i, j = by_someone[0]
        block, thread = divmod(int(stores.owner[i, j]), threads)
        y, x = divmod(block, grid[0])
        words += f"; C[{i}, {j}] by thread {thread} of block ({x}, {y})"
    return words


def owners(
    wrong: np.ndarray, owner: np.ndarray, threads: int, grid: tuple[int, int, int], at: str = ""
) -> str:
    """Who stored the wrong elements, for instance "stored by lanes 0 to 3 of warp 7 in every
    block".

    `owner`: as in `Stores`; `at`: words that name the lines.
    """
    of = owner[wrong]
    nobody = int((of < 0).sum())
    if nobody == len(of):
        return "stored by no thread"
    of = of[of >= 0]
    blocks, used = np.unique(of // threads), np.unique(of % threads)
    warps = -(-threads // WARP)
    lanes, of_warps = np.unique(used % WARP), np.unique(used // WARP)
    if len(lanes) * len(of_warps) == len(used):
        words = axis("warp", of_warps, warps).words
        words = words if len(lanes) == WARP else f"{axis('lane', lanes, WARP).words} of {words}"
    else:
        words = axis("thread", used, threads).words
    if len(used) == 1:
        words = f"thread {used[0]} ({words})"
    elif len(used) == threads:
        words = "all threads"
    which = "every block" if len(blocks) == grid[0] * grid[1] > 1 else _blocks(blocks, grid)
    regular = len(np.unique(of)) == len(blocks) * len(used)
    if not regular:
        words = f"{len(np.unique(of))} of {threads * len(blocks)} threads"
    words = f"stored by {words} in {which}{at}"
    if np.isin(owner, of).sum() > (1 + CHANCE) * len(of):
        words += ", which store right ones, too"
    return words + (f"; {nobody} stored by no thread" if nobody else "")


def _blocks(blocks: np.ndarray, grid: tuple[int, int, int]) -> str:
    x, y = np.unique(blocks % grid[0]), np.unique(blocks // grid[0])
    if len(blocks) == 1:
        return f"block ({x[0]}, {y[0]})"
    if len(x) * len(y) == len(blocks):
        found = [
            Told(f"blockIdx.{name} = {at[0]}")
            if len(at) == 1
            else axis(f"blockIdx.{name}", at, size)
            for name, at, size in (("x", x, grid[0]), ("y", y, grid[1]))
            if len(at) < size
        ]
        if all(one.exact for one in found):
            return "blocks with " + " and ".join(one.words for one in found)
    return f"{len(blocks)} of {grid[0] * grid[1]} blocks"


@dataclass(frozen=True)
class Result:
    """A computed C and its reference. `a`, `b`, `c0` as the kernel saw them; all matrices without
    padding.
    """

    problem: Problem
    k_step: int
    a: np.ndarray
    b: np.ndarray
    c0: np.ndarray
    c: np.ndarray
    reference: np.ndarray  # float64
    allowed: np.ndarray  # the largest right error, float64
    wrong: np.ndarray  # truths
    # truths: elements that no thread stored, where that is known
    unstored: np.ndarray | None = None
    # A and B as they lay before the launch, C as it lay after it: flat, from the first element on
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)
    sums: str = "fp32"  # the dtype in which the kernel ought to add up


def cause(result: Result) -> str | None:
    """What the wrong elements lack or hold instead, where one explanation fits all that were tried;
    else None.
    """
    p, r = result.problem, result
    if words := leading_dimension(result):
        return words
    rows, cols = _sample(r.wrong)
    c, reference = r.c[rows, cols].astype(np.float64), r.reference[rows, cols]
    if np.isnan(c).all():
        untouched = p.beta == 0 and (r.unstored is None or r.unstored[rows, cols].all())
        return "they are NaN, as C was before" if untouched else "they are NaN"
    if not np.isfinite(c).all():
        return None
    tolerance = _tolerance(r, rows, cols)
    # [elements, k]
    products = p.alpha * r.a[rows].astype(np.float64) * r.b[:, cols].T.astype(np.float64)
    old = p.beta * r.c0[rows, cols].astype(np.float64) if p.beta else np.zeros(len(rows))

    def are(values: np.ndarray) -> bool:
        return bool((np.abs(c - values) <= tolerance).all())

    if not c.any():
        return "they are 0"
    if p.beta and are(reference - old):
        return f"as if beta were 0, not {p.beta:g}"
    if p.beta and are(reference - old + old / p.beta):
        return f"as if beta were 1, not {p.beta:g}"
    if p.alpha not in (0.0, 1.0) and are(old + (reference - old) / p.alpha):
        return f"as if alpha were 1, not {p.alpha:g}"
    if p.beta and are(old):
        return "they lack all products"
    return (
        _products(products, reference - c, tolerance, r.k_step)
        or _other_elements(result, rows, cols)
        or _exchanged(result, rows, cols)
        or _rounding(result)
    )


def _sample(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of up to `SAMPLED` elements of a mask, spread over it."""
    rows, cols = np.nonzero(mask)
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(SAMPLED, len(rows))).astype(int))
    return rows[chosen], cols[chosen]


def _tolerance(result: Result, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """How far elements may be from what they hold: a wrong one may be larger than the right one,
    and round further.
    """
    c = np.abs(np.nan_to_num(result.c[rows, cols].astype(np.float64)))
    allowed: np.ndarray = 2 * result.allowed[rows, cols] + c * float(_finfo(result.c.dtype).eps)
    return allowed


def _alike(found: np.ndarray, expected: np.ndarray, tolerance: np.ndarray) -> bool:
    """Whether all numbers agree; NaN agrees with NaN."""
    nan = np.isnan(found)
    return bool(
        (nan == np.isnan(expected)).all() and (np.abs(found - expected) <= tolerance)[~nan].all()
    )


def leading_dimension(result: Result) -> str | None:
    """Which leading dimension the kernel took for another number of the problem; None where that
    explains nothing.
    """
    p, r = result.problem, result
    finite = np.isfinite(r.c.astype(np.float64))
    samples = [
        _sample(mask) for mask in (r.wrong & finite, r.wrong & ~finite, ~r.wrong) if mask.any()
    ]
    padded = [ld > row for _, row, ld in p.stored.values()]
    if not r.memory or not ((r.wrong & finite).any() or padded.count(True) == 1):
        return None  # NaN alone would fit whichever padding it comes from
    rows, cols = (np.concatenate(parts) for parts in zip(*samples, strict=True))
    numbers = {key: int(getattr(p, key)) for key in ("n", "k", "m", "lda", "ldb", "ldc")}
    for (matrix, (_, row, _)), ld in zip(p.stored.items(), ("lda", "ldb", "ldc"), strict=True):
        for key, value in sorted(numbers.items(), key=lambda item: item[1] != row):
            if value != numbers[ld] and _stride_explains(result, matrix, value, rows, cols):
                return f"as if {ld} were {key} = {value}, not {numbers[ld]}"
    return None


def _stride_explains(
    result: Result, matrix: str, stride: int, rows: np.ndarray, cols: np.ndarray
) -> bool:
    """Whether elements of C are what a kernel computes that takes `stride` for the leading
    dimension of a matrix.
    """
    p, r = result.problem, result
    tolerance = _tolerance(r, rows, cols)
    flat = r.memory[matrix]
    steps = np.arange(p.k)
    if matrix == "C":
        at = rows * stride + cols
        inside = at < len(flat)
        found = flat[at[inside]].astype(np.float64)
        return bool(inside.any()) and _alike(
            found, r.reference[rows, cols][inside], tolerance[inside]
        )
    if not p.alpha:
        return False
    lines, other = (rows, r.b[:, cols].T) if matrix == "A" else (cols, r.a[rows])
    along = matrix == "A" or p.b_layout != "row"  # whether k runs along the lines of the matrix
    at = lines[:, None] * stride + steps if along else lines[:, None] + steps * stride
    padded = np.append(flat.astype(np.float64), np.nan)
    read = padded[np.minimum(at, len(flat))]
    values = p.alpha * (read * other.astype(np.float64)).sum(axis=1)
    if p.beta:
        values += p.beta * r.c0[rows, cols].astype(np.float64)
    return _alike(r.c[rows, cols].astype(np.float64), values, tolerance)


def _products(
    products: np.ndarray, lost: np.ndarray, tolerance: np.ndarray, step: int
) -> str | None:
    """Which of the products of an element, [elements, k], add up to what was lost (or came
    twice).
    """
    k = products.shape[1]
    sums = np.concatenate([np.zeros((len(products), 1)), products.cumsum(axis=1)], axis=1)
    bounds = [*range(0, k, step), k]
    steps = list(pairwise(bounds))
    tails = [(first, k) for first in bounds[1:-1]]
    heads = [(0, last) for last in bounds[1:-1]]
    for ranges in (steps, tails + heads, [(i, i + 1) for i in range(k)] if step > 1 else []):
        if not ranges:
            continue
        first, last = np.array(ranges).T
        parts = sums[:, last] - sums[:, first]
        for sign, verb in ((1, "they lack"), (-1, "they count twice")):
            fits = np.flatnonzero(
                (np.abs(sign * lost[:, None] - parts) <= tolerance[:, None]).all(axis=0)
            )
            if len(fits) == 1:
                start, end = ranges[int(fits[0])]
                return f"{verb} {_range(start, end, k, step)}"
    return None


def _range(first: int, last: int, k: int, step: int) -> str:
    if last - first == 1 < step:
        return f"the product k = {first}"
    shown = f"k = {first} to {last - 1}"
    if (first, last) == (0, k):
        return "all products"
    steps = -(-k // step)
    if first % step == 0 and last == min(first + step, k):
        at = first // step
        which = "last" if at == steps - 1 else "first" if at == 0 else f"{at + 1}."
        return f"the {which} k-step of {steps} ({shown})"
    return f"{shown} of {k}"


def _other_elements(result: Result, rows: np.ndarray, cols: np.ndarray) -> str | None:
    """Whether each of these elements of C has the right value of another one, and of which."""
    p = result.problem
    right, c = result.reference, result.c.astype(np.float64)
    kept = [np.zeros(right.shape)]  # what an element keeps of its own C
    if p.beta:
        kept.append(p.beta * result.c0.astype(np.float64))
    for old in kept:
        found: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for i, j in zip(rows.tolist(), cols.tolist(), strict=True):
            near = np.abs(right - old - (c[i, j] - old[i, j])) <= result.allowed
            found[i, j] = {(int(x), int(y)) for x, y in np.argwhere(near)}
        if all(found.values()):
            return _moved(found, right.shape)
    return None


def _moved(
    found: Mapping[tuple[int, int], set[tuple[int, int]]], shape: tuple[int, ...]
) -> str | None:
    """From where the values of elements come, by the elements that have each value; None where that
    may be chance.
    """

    def example(i: int, j: int, x: int, y: int) -> str:
        return f": C[{i}, {j}] that of C[{x}, {y}]"

    (i, j), firsts = min(found.items(), key=lambda item: len(item[1]))
    for x, y in sorted(firsts):
        down, right = x - i, y - j
        if all((a + down, b + right) in others for (a, b), others in found.items()):
            return (
                f"each has the value of the element {down:+d} rows and {right:+d} columns from it"
            )
        if len(found) > LISTED and all(
            (a ^ i ^ x, b ^ j ^ y) in others for (a, b), others in found.items()
        ):
            return f"each C[i, j] has the value of C[i ^ {i ^ x}, j ^ {j ^ y}]{example(i, j, x, y)}"
    if all((b, a) in others for (a, b), others in found.items()):
        i, j = next(iter(found))
        return f"each C[i, j] has the value of C[j, i]{example(i, j, j, i)}: C is transposed"
    for part in (2**n for n in range(1, max(shape).bit_length())):
        mirrored = {(a, b): (a - a % part + b % part, b - b % part + a % part) for a, b in found}
        if all(mirrored[at] in others for at, others in found.items()):
            i, j = next(iter(found))
            instance = example(i, j, *mirrored[i, j])
            return (
                f"each C[i, j] has the value of C[j, i] within its {part} x {part} part{instance}"
            )
    alone = [(*at, *next(iter(others))) for at, others in found.items() if len(others) == 1]
    if 2 * len(alone) < len(found):
        return None
    return f"they have values of other elements{example(*alone[0])}"


def _exchanged(result: Result, rows: np.ndarray, cols: np.ndarray) -> str | None:
    """Whether products of parts of A or B that were taken for each other add up to these
    elements.
    """
    p, r = result.problem, result
    c, tolerance = r.c[rows, cols].astype(np.float64), _tolerance(r, rows, cols)
    if p.beta:
        c = c - p.beta * r.c0[rows, cols].astype(np.float64)
    k = np.arange(p.k)
    # k ^ x is the same on both
    sides = (("A", r.a, rows, r.b[:, cols].T), ("B", r.b.T, cols, r.a[rows]))
    for name, matrix, lines, other in sides:
        x, y = matrix.astype(np.float64), p.alpha * other.astype(np.float64)

        def sums(
            lines_of: np.ndarray, steps: np.ndarray, x: np.ndarray = x, y: np.ndarray = y
        ) -> np.ndarray:
            inside = (lines_of < len(x)) & (steps < p.k)
            taken: np.ndarray = np.where(inside, x[lines_of * inside, steps * inside], 0.0)
            return np.asarray((taken * y).sum(axis=1))

        for part in (1, 2, 4, 8, 16):
            # on one side of the diagonal, and not on the other
            apart = ((lines[:, None] ^ k) & part) != 0
            if _alike(c, sums(lines[:, None] ^ (part * apart), k ^ (part * apart)), tolerance):
                size = f"{part} x {part}"
                return (
                    f"as if, in each {2 * part} x {2 * part} part of {name}, the {size} matrices above and below the "
                    "diagonal were exchanged"
                )
        steps = range(1, min(EXCHANGED, p.k))
        at = np.broadcast_to(lines[:, None], (len(lines), p.k))
        off = np.array(
            [np.abs(c - sums(at, np.broadcast_to(k ^ step, at.shape))) for step in steps]
        )
        fits = (off <= tolerance).reshape(len(steps), len(rows))
        often = [n for n in np.argsort(-fits.sum(axis=1), kind="stable") if fits[n].mean() >= OFTEN]
        if fits[often].any(axis=0).all():
            by = " or ".join(str(steps[n]) for n in sorted(often))
            return f"as if their products were A[i, k ^ x] * B[k, j], with x = {by}"
    return None


def _rounding(result: Result) -> str | None:
    """Whether all errors are those of sums in a coarser type than the kernel ought to have."""
    p, known = result.problem, dtypes()
    error = result.c.astype(np.float64) - result.reference
    usual = np.sqrt(np.mean(np.square(result.reference)))
    for name in ("fp16", "bf16"):
        unit = known[name].unit_roundoff
        if unit <= known[result.sums].unit_roundoff:
            continue
        most = unit * math.sqrt(p.k + 3) * usual
        size = np.sqrt(np.mean(np.square(error)))
        scattered = abs(np.mean(error)) <= size / 4 and result.wrong.mean() >= SCATTERED
        if most / 16 <= size <= most and scattered:
            also = " or of tf32" if name == "fp16" and result.c.dtype.itemsize != 2 else ""
            return f"they are within the rounding of {name}{also}, not within that of {result.sums} sums"
    return None


def _is_odd(problem: Problem, axis: str, unit: int) -> bool:
    return bool(getattr(problem, axis) % unit)


def of_cases(
    failed: Sequence[Problem], passed: Sequence[Problem], tile: Mapping[str, int]
) -> str | None:
    """What the problems that failed have in common, and none that passed; None where that is
    nothing, or all failed.
    """
    if not passed or not failed:
        return None
    features: dict[str, Callable[[Problem], bool]] = {
        "beta is not 0": lambda p: p.beta != 0,
        "beta is 0": lambda p: p.beta == 0,
        "alpha is not 1": lambda p: p.alpha != 1,
        "A * B is computed (alpha is not 0)": lambda p: p.alpha != 0,
        "lda is more than k": lambda p: p.lda > p.k,
        "ldb is more than n": lambda p: p.b_layout == "row" and p.ldb > p.n,
        "ldb is more than k": lambda p: p.b_layout == "column" and p.ldb > p.k,
        "ldc is more than n": lambda p: p.ldc > p.n,
        "ldb is not ldc": lambda p: p.ldb != p.ldc,
        **{
            f"{x} is no multiple of {tile[x]}": functools.partial(_is_odd, axis=x, unit=tile[x])
            for x in "mnk"
        },
        "there is more than one k-step": lambda p: p.k > tile["k"],
        "C is more than one tile": lambda p: p.m > tile["m"] or p.n > tile["n"],
        "C has several rows of tiles": lambda p: p.m > tile["m"],
        "C has several columns of tiles": lambda p: p.n > tile["n"],
    }
    fits = [
        name
        for name, has in features.items()
        if all(map(has, failed)) and not any(map(has, passed))
    ]
    return " and ".join(fits[:2]) or None
