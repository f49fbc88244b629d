"""What wrong elements of C have in common, in words: where they lie, who stored them, what they lack. NumPy only.

Every word is checked: a pattern is reported only where it holds of all wrong elements and of no other, but for the few
that come out right by chance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kernels.catalogue import Problem

WARP = 32
LISTED = 4  # indices or remainders that are listed one by one
CHANCE = 1e-3  # of the elements that a fault reaches, how many may be right all the same
SAMPLED = 64  # wrong elements that causes are tried on


@dataclass(frozen=True)
class Told:
    """A set of indices in words; `exact`: the words stand for that set alone."""

    words: str
    exact: bool = True


def axis(name: str, at: np.ndarray, extent: int, tile: int = 0) -> Told:
    """The indices `at` of 0 to `extent` - 1, for instance "rows = 7 mod 64". `tile`: whole tiles are called so."""
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
            called = f"tile {name} {tiles[0]}" if tiles[0] == tiles[1] else f"tile {name}s {tiles[0]} to {tiles[1]}"
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


def _product(mask: np.ndarray, tile: tuple[int, int] = (0, 0), called: tuple[str, str] = ("row", "column")) -> Told:
    """A mask in rows and columns; exact where it is all crossings of those rows and columns, and these have words."""
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
    """Where the wrong elements lie. `wrong`: truths, [m, n]; `tile`: rows and columns of a block's part of C."""
    whole = _product(wrong, tile)
    if whole.exact:
        return whole.words
    counts = [-(-size // unit) for size, unit in zip(wrong.shape, tile, strict=True)]
    padding = [(0, count * unit - size) for count, unit, size in zip(counts, tile, wrong.shape, strict=True)]
    inside = np.pad(np.ones(wrong.shape, bool), padding)
    tiles = np.pad(wrong, padding).reshape(counts[0], tile[0], counts[1], tile[1]).transpose(0, 2, 1, 3)
    there = inside.reshape(counts[0], tile[0], counts[1], tile[1]).transpose(0, 2, 1, 3)
    hit: np.ndarray = np.any(tiles, axis=(2, 3))
    alike: np.ndarray = np.any(tiles[hit], axis=0)
    if hit.size > 1 and _fills(tiles, hit[:, :, None, None] & alike & there):
        of, within = _product(hit, called=("tile row", "tile column")), _product(alike)
        if of.exact:
            which = "every tile" if hit.all() else of.words.replace("element", "tile").removeprefix("all ")
            found = within.words if within.exact else f"{int(alike.sum())} elements within {within.words}"
            return f"in {which}: {found}"
    rows, cols = (np.flatnonzero(wrong.any(axis=other)) for other in (1, 0))
    return f"within rows {rows[0]} to {rows[-1]} and columns {cols[0]} to {cols[-1]}, in no regular pattern"


def owners(wrong: np.ndarray, owner: np.ndarray, threads: int, grid: tuple[int, int, int]) -> str:
    """Who stored the wrong elements, for instance "stored by lanes 0 to 3 of warp 7 in every block".

    `owner`: [m, n], for each element block x `threads` + thread of the last store to it, -1 where there was none.
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
    words = f"stored by {words} in {which}" if regular else f"stored by {len(np.unique(of))} threads of {which}"
    if np.isin(owner, of).sum() > (1 + CHANCE) * len(of):
        words += ", which store right ones, too"
    return words + (f"; {nobody} stored by no thread" if nobody else "")


def _blocks(blocks: np.ndarray, grid: tuple[int, int, int]) -> str:
    x, y = np.unique(blocks % grid[0]), np.unique(blocks // grid[0])
    if len(blocks) == 1:
        return f"block ({x[0]}, {y[0]})"
    if len(x) * len(y) == len(blocks):
        found = [
            Told(f"blockIdx.{name} = {at[0]}") if len(at) == 1 else axis(f"blockIdx.{name}", at, size)
            for name, at, size in (("x", x, grid[0]), ("y", y, grid[1]))
            if len(at) < size
        ]
        if all(one.exact for one in found):
            return "blocks with " + " and ".join(one.words for one in found)
    return f"{len(blocks)} of {grid[0] * grid[1]} blocks"


@dataclass(frozen=True)
class Result:
    """A computed C and its reference. `a`, `b`, `c0` as the kernel saw them; all matrices without padding."""

    problem: Problem
    k_step: int
    a: np.ndarray
    b: np.ndarray
    c0: np.ndarray
    c: np.ndarray
    reference: np.ndarray  # float64
    allowed: np.ndarray  # the largest right error, float64
    wrong: np.ndarray  # truths


def cause(result: Result) -> str | None:
    """What the wrong elements lack or hold instead, where one explanation fits all that were tried; else None."""
    p, r = result.problem, result
    rows, cols = np.nonzero(r.wrong)
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(SAMPLED, len(rows))).astype(int))
    rows, cols = rows[chosen], cols[chosen]
    c, reference = r.c[rows, cols].astype(np.float64), r.reference[rows, cols]
    if np.isnan(c).all():
        return "they are NaN, as C was before" if p.beta == 0 else "they are NaN"
    if not np.isfinite(c).all():
        return None
    tolerance = 2 * r.allowed[rows, cols]
    products = p.alpha * r.a[rows].astype(np.float64) * r.b[:, cols].T.astype(np.float64)  # [elements, k]
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
    return _products(products, reference - c, tolerance, r.k_step) or _other_elements(result, rows, cols)


def _products(products: np.ndarray, lost: np.ndarray, tolerance: np.ndarray, step: int) -> str | None:
    """Which of the products of an element, [elements, k], add up to what was lost (or came twice)."""
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
            fits = np.flatnonzero((np.abs(sign * lost[:, None] - parts) <= tolerance[:, None]).all(axis=0))
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
    """Whether each of these elements of C has the right value of another one."""
    moves = []
    for i, j in zip(rows.tolist(), cols.tolist(), strict=True):
        near = np.abs(result.reference - float(result.c[i, j])) <= result.allowed
        if near.sum() != 1:
            return None
        moves.append((i, j, *(int(at[0]) for at in np.nonzero(near))))
    i, j, x, y = moves[0]
    shifts = {(x - i, y - j) for i, j, x, y in moves}
    if len(shifts) == 1:
        down, right = next(iter(shifts))
        return f"each has the value of the element {down:+d} rows and {right:+d} columns from it"
    if all((x, y) == (j, i) for i, j, x, y in moves):
        return "each has the value of its mirror image: C is transposed"
    return f"they have values of other elements: C[{i}, {j}] that of C[{x}, {y}]"


def _is_odd(problem: Problem, axis: str, unit: int) -> bool:
    return bool(getattr(problem, axis) % unit)


def of_cases(failed: Sequence[Problem], passed: Sequence[Problem], tile: Mapping[str, int]) -> str | None:
    """What the problems that failed have in common, and none that passed; None where that is nothing, or all failed."""
    if not passed or not failed:
        return None
    features: dict[str, Callable[[Problem], bool]] = {
        "beta is not 0": lambda p: p.beta != 0,
        "beta is 0": lambda p: p.beta == 0,
        "alpha is not 1": lambda p: p.alpha != 1,
        "alpha is not 0": lambda p: p.alpha != 0,
        "lda is more than k": lambda p: p.lda > p.k,
        "ldb is more than n": lambda p: p.b_layout == "row" and p.ldb > p.n,
        "ldb is more than k": lambda p: p.b_layout == "column" and p.ldb > p.k,
        "ldc is more than n": lambda p: p.ldc > p.n,
        "ldb is not ldc": lambda p: p.ldb != p.ldc,
        **{f"{x} is no multiple of {tile[x]}": functools.partial(_is_odd, axis=x, unit=tile[x]) for x in "mnk"},
        "there is more than one k-step": lambda p: p.k > tile["k"],
        "C is more than one tile": lambda p: p.m > tile["m"] or p.n > tile["n"],
        "C has several rows of tiles": lambda p: p.m > tile["m"],
        "C has several columns of tiles": lambda p: p.n > tile["n"],
    }
    fits = [name for name, has in features.items() if all(map(has, failed)) and not any(map(has, passed))]
    return " and ".join(fits[:2]) or None
