"""Patterns of wrong elements: planted ones are reported in the words that stand for them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from contracts.dtypes import Types, dtypes
from experiments.stages import patterns, verify
from kernels.catalogue import Problem

TILE = (64, 32)
SHAPE = (256, 128)
ROW, COLUMN = np.indices(SHAPE)
CORNERS = (ROW % 64 < 2) & (ROW % 64 == COLUMN % 32)
IN_EVERY_TILE = "in every tile: 2 elements within rows 0 to 1 and columns 0 to 1"
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
    IN_EVERY_TILE: CORNERS,
    "in tile row 2: rows = 3 mod 8 and columns < 2 of each 4": (
        (ROW // 64 == 2) & (ROW % 8 == 3) & (COLUMN % 4 < 2)
    ),
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
    assert place(CORNERS, (200, 100)) == IN_EVERY_TILE


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
    some = patterns.stored_by((ROW % 64 // 16 == 2) & (ROW % 2 == 1), stores, THREADS, GRID)
    also = "which store right ones, too"
    assert some == (
        f"stored by warp 2 in every block at a.cu:9, {also}; C[33, 0] by thread 64 of block (0, 0)"
    )
    one = patterns.stored_by((ROW == 70) & (COLUMN == 40), stores, THREADS, GRID)
    thread = "stored by thread 8 (lane 8 of warp 0) in block (1, 1)"
    assert one == f"{thread} at a.cu:7, {also}"


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
    shapes = ((96, 56), (56, 80), (96, 80))
    a, b, c0 = (verify.random_matrix(rng, *shape, dtypes()["fp32"]) for shape in shapes)
    reference, allowed = verify.expected(p, Types.named("fp32"), a, b, c0)
    c, wrong = reference.astype("f4"), np.zeros((96, 80), bool)
    return patterns.Result(p, 16, a, b, c0, c, reference, allowed, wrong)


def cause(right: patterns.Result, c: np.ndarray) -> str | None:
    wrong = ~(np.abs(c.astype("f8") - right.reference) <= right.allowed)
    assert wrong.any()
    return patterns.cause(replace(right, c=c.astype("f4"), wrong=wrong))


def products(right: patterns.Result, first: int, last: int) -> np.ndarray:
    a, b = right.a[:, first:last].astype("f8"), right.b[first:last].astype("f8")
    return right.problem.alpha * a @ b


@pytest.mark.parametrize(
    ("first", "last", "sign", "message"),
    [
        (48, 56, -1, "they lack the last k-step of 4 (k = 48 to 55)"),
        (16, 32, -1, "they lack the 2. k-step of 4 (k = 16 to 31)"),
        (0, 16, 1, "they count twice the first k-step of 4 (k = 0 to 15)"),
        (13, 14, -1, "they lack the product k = 13"),
        (32, 56, -1, "they lack k = 32 to 55 of 56"),
        (0, 56, -1, "they lack all products"),
    ],
)
def test_lost_products_are_reported(
    first: int, last: int, sign: int, message: str, right: patterns.Result
) -> None:
    assert cause(right, right.reference + sign * products(right, first, last)) == message


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
    message = "each has the value of the element +0 rows and +1 columns from it"
    assert cause(right, shifted) == message


SOURCES: dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "of C[j, i]: C[0, 1] that of C[1, 0]: C is transposed": lambda i, j: (j % 80, i),
    "of C[i ^ 4, j ^ 1]: C[0, 0] that of C[4, 1]": lambda i, j: (i ^ 4, j ^ 1),
    "of C[j, i] within its 8 x 8 part: C[0, 1] that of C[1, 0]": lambda i, j: (
        i - i % 8 + j % 8,
        j - j % 8 + i % 8,
    ),
}


@pytest.mark.parametrize("message", SOURCES)
@pytest.mark.parametrize("adds_own_c0", [False, True])
def test_the_element_whose_value_it_is_is_reported(
    right: patterns.Result, message: str, adds_own_c0: bool
) -> None:
    """Whether an element adds its own C0 or that of the other one."""
    i, j = np.indices((80, 80) if "transposed" in message else (96, 80))
    old = -1.5 * right.c0.astype("f8") if adds_own_c0 else np.zeros((96, 80))
    c = right.reference.copy()
    c[: len(i)] = old[: len(i)] + (right.reference - old)[SOURCES[message](i, j)]
    assert cause(right, c) == f"each C[i, j] has the value {message}"


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("ld", ["lda", "ldb", "ldc"])
def test_the_leading_dimension_is_reported(ld: str, layout: str) -> None:
    """Taken for the number of elements of a row."""
    rng, types = np.random.default_rng(5), Types.named("fp32")
    row = {"lda": 16, "ldb": 20 if layout == "row" else 16, "ldc": 20}
    p = Problem(24, 20, 16, **row | {ld: row[ld] + 3}, b_layout=layout)
    flat = {x: np.full(rows * wide + 24, np.nan, "f4") for x, (rows, _, wide) in p.stored.items()}

    def indices(name: str, stride: int) -> np.ndarray:
        rows, columns, _ = p.stored[name]
        return np.add.outer(np.arange(rows) * stride, np.arange(columns))

    def read(*strides: int) -> list[np.ndarray]:
        a, b, c = (flat[x][indices(x, n)] for x, n in zip("ABC", strides, strict=True))
        return [a, b if layout == "row" else b.T, c]

    for name, (rows, columns, wide) in p.stored.items():
        drawn = verify.random_matrix(rng, rows, columns, dtypes()["fp32"])
        flat[name][indices(name, wide)] = drawn
    # Each leading dimension is right in the reference, and that of a packed matrix in C.
    a, b, c0 = read(*(wide for _, _, wide in p.stored.values()))
    reference, allowed = verify.expected(p, types, a, b, c0)
    packed_a, packed_b, _ = read(*(columns for _, columns, _ in p.stored.values()))
    c = (packed_a @ packed_b).astype("f4")
    if ld == "ldc":
        flat["C"][indices("C", 20)] = c
        c = flat["C"][indices("C", 23)]
    wrong = ~(np.abs(c - reference) <= allowed)
    result = patterns.Result(p, 16, a, b, c0, c, reference, allowed, wrong, memory=flat)
    size = f"{'k' if row[ld] == 16 else 'n'} = {row[ld]}"
    message = f"as if {ld} were {size}, not {row[ld] + 3}"
    assert patterns.leading_dimension(result) == message
    noise = (reference + rng.normal(size=reference.shape)).astype("f4")
    memory = flat | {"C": flat["C"] * np.nan}
    noisy = replace(result, c=noise, wrong=np.ones(noise.shape, bool), memory=memory)
    assert patterns.leading_dimension(noisy) is None


def test_parts_of_an_operand_taken_for_others_are_reported(right: patterns.Result) -> None:
    i, k, j = np.arange(96), np.arange(56), np.arange(80)
    a, b = (x.astype("f8") for x in (right.a, right.b))
    old = right.reference - 0.75 * a @ b
    apart = ((i[:, None] ^ k) & 8) != 0
    exchanged = np.hstack([a, np.zeros((96, 8))])[i[:, None] ^ 8 * apart, k ^ 8 * apart]
    matrices = "the 8 x 8 matrices above and below the diagonal were exchanged"
    message = f"as if, in each 16 x 16 part of A, {matrices}"
    assert cause(right, old + 0.75 * exchanged @ b) == message
    b56 = np.vstack([b, np.zeros((8, 80))])  # k = 56 to 63 adds nothing.
    swizzled = b56[k[:, None] ^ 8 * (j % 4 // 2), j]
    message = "as if their products were A[i, k ^ x] * B[k, j], with x = 8"
    assert cause(right, old + 0.75 * a @ swizzled) == message


def test_rounding_of_sums_is_reported(right: patterns.Result) -> None:
    sums = np.zeros((96, 80), np.float16)
    for k in range(56):
        sums = (sums + np.outer(right.a[:, k], right.b[k])).astype(np.float16)
    old = -1.5 * right.c0.astype("f8")
    words = cause(right, 0.75 * sums.astype("f8") + old)
    assert words == "they are within the rounding of fp16 or of tf32, not within that of fp32 sums"
    assert cause(right, right.reference + 0.004) is None  # as small, but all of one sign
    # The error of a sum of 56 products is that of about sqrt(56) roundings, not of twice as many.
    size = np.sqrt(56 * np.mean(right.reference**2)) * dtypes()["bf16"].unit_roundoff
    rounded = np.random.default_rng(2).normal(size=right.reference.shape) * size
    words = cause(right, right.reference + 0.9 * rounded)
    assert words and words.startswith("they are within the rounding of bf16")
    assert cause(right, right.reference + 2 * rounded) is None


def test_nan_of_what_was_stored_is_not_what_was_before(right: patterns.Result) -> None:
    beta_0, stored = replace(right.problem, beta=0.0), np.zeros((96, 80), bool)
    zero = replace(right, problem=beta_0, unstored=stored)
    nan = np.full((96, 80), np.nan)
    assert cause(zero, nan) == "they are NaN"
    assert cause(replace(zero, unstored=~zero.unstored), nan) == "they are NaN, as C was before"


def test_nothing_is_reported_of_noise(right: patterns.Result) -> None:
    noise = np.random.default_rng(1).normal(size=right.reference.shape)
    assert cause(right, right.reference + noise) is None
    assert cause(right, np.full_like(right.reference, np.nan)) == "they are NaN"
    assert cause(right, np.zeros_like(right.reference)) == "they are 0"


# ---- which cases fail ----------------------------------------------------------------------------


PLAIN, PADDED = Problem.square(128), Problem(128, 128, 128, 131, 132, 133)
SCALED = replace(PLAIN, beta=-1.5)


@pytest.mark.parametrize(
    ("failing", "right", "message"),
    [
        ([SCALED], [PLAIN, PADDED], "beta is not 0"),
        ([PADDED], [PLAIN, SCALED], "lda is more than k and ldb is more than n"),
        (
            [PLAIN],
            [Problem.square(16)],
            "there is more than one k-step and C is more than one tile",
        ),
        ([PLAIN, SCALED, PADDED], [], None),
        ([PLAIN], [replace(PLAIN, alpha=1.0)], None),
    ],
)
def test_what_failing_problems_share_is_reported(
    failing: list[Problem], right: list[Problem], message: str | None
) -> None:
    assert patterns.of_cases(failing, right, {"m": 64, "n": 64, "k": 16}) == message
