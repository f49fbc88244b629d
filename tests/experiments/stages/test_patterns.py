"""Patterns of wrong elements: planted ones are reported in the words that stand for them alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from contracts.dtypes import Types, dtypes
from experiments.stages import patterns, verify
from kernels.catalogue import Problem

TILE = (64, 32)
SHAPE = (256, 128)
ROW, COLUMN = np.indices(SHAPE)
PLANTED = {
    "all of them": ROW >= 0,
    "element [17, 5]": (ROW == 17) & (COLUMN == 5),
    "all rows = 7 mod 64": ROW % 64 == 7,
    "all rows = 1, 6 mod 8": np.isin(ROW % 8, [1, 6]),
    "all row 3": ROW == 3,
    "all columns >= 4 of each 8": COLUMN % 8 >= 4,
    "all columns < 3 of each 16": COLUMN % 16 < 3,
    "all columns 2 to 5 of each 8": (COLUMN % 8 >= 2) & (COLUMN % 8 <= 5),
    "all tile row 1 (rows 64 to 127)": ROW // 64 == 1,
    "all tile columns 2 to 3 (columns 64 to 127)": COLUMN >= 64,
    "all rows 250 to 255, the last": ROW >= 250,
    "rows = 7 mod 64 and columns >= 4 of each 8": (ROW % 64 == 7) & (COLUMN % 8 >= 4),
    "in every tile: 2 elements within rows 0 to 1 and columns 0 to 1": (ROW % 64 < 2)
    & (ROW % 64 == COLUMN % 32),
    "in tile row 2: rows = 3 mod 8 and columns < 2 of each 4": (ROW // 64 == 2)
    & (ROW % 8 == 3)
    & (COLUMN % 4 < 2),
    "in tile rows 0, 3: all rows = 5 mod 16": np.isin(ROW // 64, [0, 3]) & (ROW % 16 == 5),
    "tile row 1 (rows 64 to 127) and column 73": (ROW // 64 == 1) & (COLUMN == 73),
    "in tile [1, 2]: 2 elements within rows 3, 7 and columns 4, 9": np.isin(
        ROW * 128 + COLUMN, [67 * 128 + 68, 71 * 128 + 73]
    ),
}


def place(wrong: np.ndarray, shape: tuple[int, int] = SHAPE) -> str:
    return patterns.place(wrong[: shape[0], : shape[1]], TILE)


@pytest.mark.parametrize("words", PLANTED)
def test_a_planted_pattern_has_its_words(words: str) -> None:
    assert place(PLANTED[words]) == words


def test_cut_tiles_show_the_same_pattern() -> None:
    assert place(ROW % 64 == 7, (200, 100)) == "all rows = 7 mod 64"
    within = (ROW % 64 < 2) & (ROW % 64 == COLUMN % 32)
    assert (
        place(within, (200, 100))
        == "in every tile: 2 elements within rows 0 to 1 and columns 0 to 1"
    )


def test_one_that_is_right_by_chance_does_not_hide_the_pattern() -> None:
    wrong = ROW % 4 != 0
    few = wrong.copy()
    few[1, 1] = False
    assert place(few) == place(wrong) == "all rows >= 1 of each 4"
    few[1, :] = False
    assert place(few) != place(wrong)


def test_what_has_no_pattern_gets_none() -> None:
    wrong = np.random.default_rng(1).random(SHAPE) < 0.3
    assert place(wrong).endswith("in no regular pattern")


# ---- who stored them -----------------------------------------------------------------------------

# a block has 64 x 32 elements: each warp 16 rows, each lane a column
THREADS, GRID = 128, (4, 4, 1)
OWNER = (ROW // 64 * 4 + COLUMN // 32) * THREADS + ROW % 64 // 16 * 32 + COLUMN % 32


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (ROW >= 0, "stored by all threads in every block"),
        (ROW % 64 // 16 == 2, "stored by warp 2 in every block"),
        (COLUMN % 32 < 4, "stored by lanes 0 to 3 of all warps in every block"),
        (OWNER == 5 * THREADS + 70, "stored by thread 70 (lane 6 of warp 2) in block (1, 1)"),
        (ROW // 64 == 3, "stored by all threads in blocks with blockIdx.y = 3"),
        (ROW == 0, "stored by warp 0 in blocks with blockIdx.y = 0, which store right ones, too"),
    ],
)
def test_owners_are_reported(wrong: np.ndarray, words: str) -> None:
    assert patterns.owners(wrong, OWNER, THREADS, GRID) == words


def test_what_no_thread_stored_is_reported() -> None:
    nobody = np.where(ROW < 10, -1, OWNER)
    assert patterns.owners(ROW < 10, nobody, THREADS, GRID) == "stored by no thread"
    assert patterns.owners(ROW < 16, nobody, THREADS, GRID).endswith("; 1280 stored by no thread")


def test_line_and_thread_are_reported() -> None:
    stores = patterns.Stores(OWNER, ROW % 2, ("a.cu:7", "a.cu:9"))
    words = patterns.stored_by((ROW % 64 // 16 == 2) & (ROW % 2 == 1), stores, THREADS, GRID)
    assert words == (
        "stored by warp 2 in every block at a.cu:9, which store right ones, too; C[33, 0] by thread 64 of block (0, 0)"
    )
    one = patterns.stored_by((ROW == 70) & (COLUMN == 40), stores, THREADS, GRID)
    assert (
        one
        == "stored by thread 8 (lane 8 of warp 0) in block (1, 1) at a.cu:7, which store right ones, too"
    )


def test_threads_that_differ_from_block_to_block_are_counted_in_all() -> None:
    # block (x, y): the first warp, or one lane
    wrong = (ROW % 64 == 0) & (COLUMN <= ROW // 64 * 32)
    words = patterns.owners(wrong, OWNER, THREADS, GRID)
    assert words == "stored by 196 of 1280 threads in 10 of 16 blocks, which store right ones, too"


# ---- what they lack ------------------------------------------------------------------------------


@pytest.fixture
def right() -> patterns.Result:
    """A right result; alpha and beta are neither 0 nor 1."""
    rng = np.random.default_rng(3)
    p = Problem(96, 80, 56, 56, 80, 80, 0.75, -1.5)
    a, b, c0 = (
        verify.random_matrix(rng, *shape, dtypes()["fp32"])
        for shape in ((96, 56), (56, 80), (96, 80))
    )
    reference, allowed = verify.expected(p, Types.named("fp32"), a, b, c0)
    return patterns.Result(
        p, 16, a, b, c0, reference.astype("f4"), reference, allowed, np.zeros((96, 80), bool)
    )


def cause(right: patterns.Result, c: np.ndarray) -> str | None:
    wrong = ~(np.abs(c.astype("f8") - right.reference) <= right.allowed)
    assert wrong.any()
    return patterns.cause(replace(right, c=c.astype("f4"), wrong=wrong))


def products(right: patterns.Result, first: int, last: int) -> np.ndarray:
    return (
        right.problem.alpha * right.a[:, first:last].astype("f8") @ right.b[first:last].astype("f8")
    )


def test_lost_products_are_reported(right: patterns.Result) -> None:
    whole = right.reference
    assert (
        cause(right, whole - products(right, 48, 56))
        == "they lack the last k-step of 4 (k = 48 to 55)"
    )
    assert (
        cause(right, whole - products(right, 16, 32))
        == "they lack the 2. k-step of 4 (k = 16 to 31)"
    )
    assert (
        cause(right, whole + products(right, 0, 16))
        == "they count twice the first k-step of 4 (k = 0 to 15)"
    )
    assert cause(right, whole - products(right, 13, 14)) == "they lack the product k = 13"
    assert cause(right, whole - products(right, 32, 56)) == "they lack k = 32 to 55 of 56"
    assert cause(right, whole - products(right, 0, 56)) == "they lack all products"


def test_ignored_factors_are_reported(right: patterns.Result) -> None:
    product, old = products(right, 0, 56), right.c0.astype("f8")
    assert cause(right, product) == "as if beta were 0, not -1.5"
    assert cause(right, product + old) == "as if beta were 1, not -1.5"
    assert cause(right, product / 0.75 - 1.5 * old) == "as if alpha were 1, not 0.75"


def test_values_of_other_elements_are_reported(right: patterns.Result) -> None:
    swapped = right.reference.copy()
    swapped[[3, 8], [5, 1]] = swapped[[8, 3], [1, 5]]
    assert cause(right, swapped) == "they have values of other elements: C[3, 5] that of C[8, 1]"
    shifted = right.reference.copy()
    shifted[:, :-1] = right.reference[:, 1:]
    assert (
        cause(right, shifted) == "each has the value of the element +0 rows and +1 columns from it"
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            lambda i, j: (j % 80, i),
            "each C[i, j] has the value of C[j, i]: C[0, 1] that of C[1, 0]: C is transposed",
        ),
        (
            lambda i, j: (i ^ 4, j ^ 1),
            "each C[i, j] has the value of C[i ^ 4, j ^ 1]: C[0, 0] that of C[4, 1]",
        ),
        (
            lambda i, j: (i - i % 8 + j % 8, j - j % 8 + i % 8),
            "each C[i, j] has the value of C[j, i] within its 8 x 8 part: C[0, 1] that of C[1, 0]",
        ),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_the_element_whose_value_it_is_is_reported(
    right: patterns.Result, source: Any, words: str, kept: bool
) -> None:
    """Whether an element adds its own C0 or that of the other one."""
    i, j = np.indices((80, 80) if "transposed" in words else (96, 80))
    old = -1.5 * right.c0.astype("f8") if kept else np.zeros((96, 80))
    c = right.reference.copy()
    c[: len(i)] = old[: len(i)] + (right.reference - old)[source(i, j)]
    assert cause(right, c) == words


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("ld", ["lda", "ldb", "ldc"])
def test_the_leading_dimension_is_reported(ld: str, layout: str) -> None:
    """Taken for the number of elements of a row."""
    rng = np.random.default_rng(5)
    least = {"lda": 16, "ldb": 20 if layout == "row" else 16, "ldc": 20}
    p = Problem(24, 20, 16, **least | {ld: least[ld] + 3}, b_layout=layout)
    flat = {
        name: np.full(rows * wide + 24, np.nan, "f4") for name, (rows, _, wide) in p.stored.items()
    }

    def read(name: str, stride: int) -> tuple[np.ndarray, np.ndarray]:
        rows, row, _ = p.stored[name]
        return flat[name], np.add.outer(np.arange(rows) * stride, np.arange(row))

    for name, (rows, row, wide) in p.stored.items():
        memory, at = read(name, wide)
        memory[at] = verify.random_matrix(rng, rows, row, dtypes()["fp32"])
    a, b, c0 = (memory[at] for memory, at in (read(name, p.stored[name][2]) for name in "ABC"))
    b = b if layout == "row" else b.T
    reference, allowed = verify.expected(p, Types.named("fp32"), a, b, c0)
    taken_a, taken_b, _ = (
        memory[at] for memory, at in (read(name, p.stored[name][1]) for name in "ABC")
    )
    c = (taken_a @ (taken_b if layout == "row" else taken_b.T)).astype("f4")
    if ld == "ldc":
        memory, at = read("C", 20)
        memory[at] = c
        c = memory[read("C", 23)[1]]
    result = patterns.Result(
        p, 16, a, b, c0, c, reference, allowed, ~(np.abs(c - reference) <= allowed), memory=flat
    )
    key = next(key for key in ("n", "k") if getattr(p, key) == least[ld])
    assert (
        patterns.leading_dimension(result)
        == f"as if {ld} were {key} = {least[ld]}, not {least[ld] + 3}"
    )
    noise = (reference + rng.normal(size=reference.shape)).astype("f4")
    noisy = replace(
        result, c=noise, wrong=np.ones(noise.shape, bool), memory=flat | {"C": flat["C"] * np.nan}
    )
    assert patterns.leading_dimension(noisy) is None


def test_parts_of_an_operand_taken_for_others_are_reported(right: patterns.Result) -> None:
    i, k, j = np.arange(96), np.arange(56), np.arange(80)
    a, b = (x.astype("f8") for x in (right.a, right.b))
    old = right.reference - 0.75 * a @ b
    apart = ((i[:, None] ^ k) & 8) != 0
    exchanged = np.hstack([a, np.zeros((96, 8))])[i[:, None] ^ 8 * apart, k ^ 8 * apart]
    words = "as if, in each 16 x 16 part of A, the 8 x 8 matrices above and below the diagonal were exchanged"
    assert cause(right, old + 0.75 * exchanged @ b) == words
    b56 = np.vstack([b, np.zeros((8, 80))])  # k = 56 to 63 adds nothing
    swizzled = b56[k[:, None] ^ 8 * (j % 4 // 2), j]
    assert (
        cause(right, old + 0.75 * a @ swizzled)
        == "as if their products were A[i, k ^ x] * B[k, j], with x = 8"
    )


def test_rounding_of_sums_is_reported(right: patterns.Result) -> None:
    sums = np.zeros((96, 80), np.float16)
    for k in range(56):
        sums = (sums + np.outer(right.a[:, k], right.b[k])).astype(np.float16)
    old = -1.5 * right.c0.astype("f8")
    words = cause(right, 0.75 * sums.astype("f8") + old)
    assert words == "they are within the rounding of fp16 or of tf32, not within that of fp32 sums"
    assert cause(right, right.reference + 0.004) is None  # as small, but all of one sign
    # of a sum of 56 products the error is that of about sqrt(56) roundings, not of twice as many
    rounded = np.random.default_rng(2).normal(size=right.reference.shape) * np.sqrt(
        56 * np.mean(right.reference**2)
    )
    unit = dtypes()["bf16"].unit_roundoff
    words = cause(right, right.reference + 0.9 * unit * rounded)
    assert words and words.startswith("they are within the rounding of bf16")
    assert cause(right, right.reference + 2 * unit * rounded) is None


def test_nan_of_what_was_stored_is_not_what_was_before(right: patterns.Result) -> None:
    zero = replace(
        right, problem=replace(right.problem, beta=0.0), unstored=np.zeros((96, 80), bool)
    )
    nan = np.full((96, 80), np.nan)
    assert cause(zero, nan) == "they are NaN"
    assert cause(replace(zero, unstored=~zero.unstored), nan) == "they are NaN, as C was before"


def test_nothing_is_reported_of_noise(right: patterns.Result) -> None:
    noise = np.random.default_rng(1).normal(size=right.reference.shape)
    assert cause(right, right.reference + noise) is None
    assert cause(right, np.full_like(right.reference, np.nan)) == "they are NaN"
    assert cause(right, np.zeros_like(right.reference)) == "they are 0"


# ---- which cases fail ----------------------------------------------------------------------------


def test_what_failing_problems_share_is_reported() -> None:
    tile = {"m": 64, "n": 64, "k": 16}
    plain, padded = Problem.square(128), Problem(128, 128, 128, 131, 132, 133)
    scaled = replace(plain, beta=-1.5)
    assert patterns.of_cases([scaled], [plain, padded], tile) == "beta is not 0"
    assert (
        patterns.of_cases([padded], [plain, scaled], tile)
        == "lda is more than k and ldb is more than n"
    )
    assert patterns.of_cases([plain], [Problem.square(16)], tile).startswith(
        "there is more than one k-step"
    )
    assert patterns.of_cases([plain, scaled, padded], [], tile) is None
    assert patterns.of_cases([plain], [replace(plain, alpha=1.0)], tile) is None
