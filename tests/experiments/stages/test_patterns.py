"""Patterns of wrong elements: planted ones are reported in the words that stand for them alone."""

from __future__ import annotations

from dataclasses import replace

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
    "in every tile: 2 elements within rows 0 to 1 and columns 0 to 1": (ROW % 64 < 2) & (ROW % 64 == COLUMN % 32),
    "in tile row 2: rows = 3 mod 8 and columns < 2 of each 4": (ROW // 64 == 2) & (ROW % 8 == 3) & (COLUMN % 4 < 2),
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
    assert place(within, (200, 100)) == "in every tile: 2 elements within rows 0 to 1 and columns 0 to 1"


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


# ---- who stored them ----------------------------------------------------------------------------------------------

THREADS, GRID = 128, (4, 4, 1)  # a block has 64 x 32 elements: each warp 16 rows, each lane a column
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


# ---- what they lack -----------------------------------------------------------------------------------------------


@pytest.fixture
def right() -> patterns.Result:
    """A right result; alpha and beta are neither 0 nor 1."""
    rng = np.random.default_rng(3)
    p = Problem(96, 80, 56, 56, 80, 80, 0.75, -1.5)
    a, b, c0 = (verify.random_matrix(rng, *shape, dtypes()["fp32"]) for shape in ((96, 56), (56, 80), (96, 80)))
    reference, allowed = verify.expected(p, Types.named("fp32"), a, b, c0)
    return patterns.Result(p, 16, a, b, c0, reference.astype("f4"), reference, allowed, np.zeros((96, 80), bool))


def cause(right: patterns.Result, c: np.ndarray) -> str | None:
    wrong = ~(np.abs(c.astype("f8") - right.reference) <= right.allowed)
    assert wrong.any()
    return patterns.cause(replace(right, c=c.astype("f4"), wrong=wrong))


def products(right: patterns.Result, first: int, last: int) -> np.ndarray:
    return right.problem.alpha * right.a[:, first:last].astype("f8") @ right.b[first:last].astype("f8")


def test_lost_products_are_reported(right: patterns.Result) -> None:
    whole = right.reference
    assert cause(right, whole - products(right, 48, 56)) == "they lack the last k-step of 4 (k = 48 to 55)"
    assert cause(right, whole - products(right, 16, 32)) == "they lack the 2. k-step of 4 (k = 16 to 31)"
    assert cause(right, whole + products(right, 0, 16)) == "they count twice the first k-step of 4 (k = 0 to 15)"
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
    assert cause(right, shifted) == "each has the value of the element +0 rows and +1 columns from it"


def test_nothing_is_reported_of_noise(right: patterns.Result) -> None:
    noise = np.random.default_rng(1).normal(size=right.reference.shape)
    assert cause(right, right.reference + noise) is None
    assert cause(right, np.full_like(right.reference, np.nan)) == "they are NaN"
    assert cause(right, np.zeros_like(right.reference)) == "they are 0"


# ---- which cases fail ---------------------------------------------------------------------------------------------


def test_what_failing_problems_share_is_reported() -> None:
    tile = {"m": 64, "n": 64, "k": 16}
    plain, padded = Problem.square(128), Problem(128, 128, 128, 131, 132, 133)
    scaled = replace(plain, beta=-1.5)
    assert patterns.of_cases([scaled], [plain, padded], tile) == "beta is not 0"
    assert patterns.of_cases([padded], [plain, scaled], tile) == "lda is more than k and ldb is more than n"
    assert patterns.of_cases([plain], [Problem.square(16)], tile).startswith("there is more than one k-step")
    assert patterns.of_cases([plain, scaled, padded], [], tile) is None
    assert patterns.of_cases([plain], [replace(plain, alpha=1.0)], tile) is None
