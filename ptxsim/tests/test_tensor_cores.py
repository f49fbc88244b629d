"""The tensor cores' arithmetic, compared with the same written out for one element in whole
numbers, and by hand.
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ptxsim.machine import native, tensor_cores

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
}
# exponents of normal numbers
LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "f32": -126}


@pytest.fixture(params=["C", "NumPy"], autouse=True)
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who multiplies: native.c, where it was built, and NumPy."""
    if request.param == "NumPy":
        monkeypatch.setattr(native, "library", None)
    elif native.library is None:
        pytest.skip("native.c was not built")
    return request.param


def rounded_to(x: np.ndarray, name: str) -> np.ndarray:
    """The values that a format has, as float64."""
    if name == "tf32":
        return (x.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float)
    with np.errstate(over="ignore"):
        return x.astype(DTYPES[name]).astype(float)


def exponent(x: float, name: str) -> int:
    return max(math.frexp(x)[1] - 1, LEAST[name])


def one(a, b, c: float, names, result: str, fraction: int, keeps: int) -> float:
    """One element of D from a row, a column and an element of C, all finite."""
    pairs = [(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True) if x and y]
    exponents = [exponent(x, names[0]) + exponent(y, names[1]) for x, y in pairs]
    top = max([*exponents, exponent(c, result) if c else -133, -133])
    unit = Fraction(2) ** (top - fraction)
    terms = [Fraction(x) * Fraction(y) for x, y in pairs] + [Fraction(c)]
    total = sum(math.trunc(term / unit) for term in terms) * unit
    if result == "f16":
        return float(rounded_to(np.float64(total), "f16"))
    if total == 0:
        return 0.0
    place = max(math.frexp(float(abs(total)))[1] - 1, -126)
    if abs(total) < Fraction(2) ** place and place > -126:  # float() rounded up
        place -= 1
    step = Fraction(2) ** (place - keeps)
    found = math.trunc(total / step) * step
    return math.copysign(math.inf, total) if abs(found) >= 2**128 else float(found)


SPREADS = {"narrow": 1, "wide": 12, "very wide": 40}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(
    ("names", "k", "result", "rule"),
    [
        (("f16", "f16"), 16, "f32", tensor_cores.USUAL),
        (("f16", "f16"), 16, "f16", tensor_cores.USUAL),
        (("bf16", "bf16"), 16, "f32", tensor_cores.USUAL),
        (("tf32", "tf32"), 8, "f32", tensor_cores.USUAL),
        (("e4m3", "e5m2"), 32, "f32", tensor_cores.WGMMA_FP8),
        (("e5m2", "e5m2"), 32, "f16", tensor_cores.WGMMA_FP8),
    ],
)
def test_a_step_compared_with_whole_numbers(names, k, result, rule, spread):
    rng = np.random.default_rng(k)

    def random(rows: int, columns: int, name: str, width: float) -> np.ndarray:
        x = rng.normal(size=(3, rows, columns)) * 2.0 ** rng.uniform(
            -width, width / 4, (3, rows, columns)
        )
        return rounded_to(np.where(rng.random(x.shape) < 0.1, 0, x), name)

    width = min(SPREADS[spread], 6 if names[0] in tensor_cores.FP8 else 100)
    a, b = random(4, k, names[0], width), random(5, k, names[1], width)
    c = random(4, 5, "f16" if result == "f16" else "f32", width)
    got = tensor_cores.multiply(a, b, c, names, result, rule)
    want = [
        [
            [
                one(a[g, i], b[g, j], c[g, i, j], names, result, rule.fraction, rule.keeps)
                for j in range(5)
            ]
            for i in range(4)
        ]
        for g in range(3)
    ]
    assert np.array_equal(got, np.array(want))


def single(
    a, b, c, names=("f16", "f16"), result="f32", step=tensor_cores.multiply, **options
) -> float:
    """One element, of a row and a column that zeros fill up."""
    k = {"e4m3": 32, "tf32": 8}.get(names[0], 16)
    row, column = np.zeros((2, 1, k))
    row[0, : len(a)], column[0, : len(b)] = a, b
    return float(step(row, column, np.array([[float(c)]]), names, result, **options)[0, 0])


SMALL, TINY, BIG, X = 2.0**-13, 2.0**-24, 2.0**127, 1.0 + 1023 / 1024
HALF = {"result": "f16"}
WGMMA = {"names": ("e4m3", "e4m3"), "rule": tensor_cores.WGMMA_FP8}
MMA = {"names": ("e4m3", "e4m3"), "step": tensor_cores.mma}
WIDE = {"names": ("bf16", "bf16")}
LARGEST = float(np.finfo(np.float32).max)
BY_HAND = [  # a row, a column, the element of C, and D
    # what lies below two more bits is cut off
    ([SMALL] * 16, [SMALL] * 16, 1.0, {}, 1.0),  # 16 times 2^-26 would be one in the last place
    ([SMALL] * 16, [2 * SMALL] * 16, 1.0, {}, 1.0 + 2.0**-21),  # 2^-25 is kept
    ([SMALL], [2 * SMALL], -1.0, {}, -(1.0 - 2.0**-24)),  # below 1 the last place is half as much
    ([-SMALL], [SMALL], 1.0, {}, 1.0),
    # the result is rounded towards zero, but to fp16 to nearest, ties to even
    ([1.0, 2.0**-12], [1.0, 2.0**-12], 0.0, {}, 1.0),
    ([1.0, 2.0**-12, 2.0**-12], [1.0, 2.0**-12, 2.0**-13], 0.0, {}, 1.0),
    ([-1.0, -(2.0**-12)], [1.0, 2.0**-11], 2.0**-25, {}, -1.0),
    ([1.0, 1.0], [1.0, 2.0**-11], 0.0, HALF, 1.0),
    ([1.0, 1.0], [1.0, 3 * 2.0**-11], 0.0, HALF, 1.0 + 2.0**-9),
    # products of up to 4 are aligned to the sum of their factors' exponents: a carry keeps bits
    ([X, 2.0**-12], [X, 2.0**-13], 0.0, {}, X * X),  # 22 bits, then cut to 24
    ([1.0, 2.0**-12], [1.0, 2.0**-13], -1.0, {}, 2.0**-25),
    # 8-bit inputs of wgmma keep 13 bits, in the sum, too
    ([2.0**-7] * 32, [2.0**-7] * 32, 1.0, WGMMA, 1.0),
    ([2.0**-6], [2.0**-7], 1.0, WGMMA, 1.0 + 2.0**-13),
    ([1.0] * 32, [1.0] * 32, 2.0**-9, WGMMA, 32.0),
    ([1.0], [1.0], 2.0**-13, WGMMA, 1.0 + 2.0**-13),
    # those of mma go through fp16: two bytes of each word, the other two, and C by an addition that
    # rounds to nearest
    ([2.0**-7], [2.0**-7], 1.0, MMA, 1.0 + 2.0**-14),
    ([2.0**-9] * 4, [2.0**-9] * 4, 1.0 + 2.0**-17, MMA, 1.0 + 2.0**-17 + 2.0**-16),
    ([1.0], [1.0], 2.0**-24 + 2.0**-40, MMA, 1.0 + 2.0**-23),
    # subnormal factors are aligned as the least normal ones of fp16, whose exponent is -14
    ([TINY, 2.0**-14], [2.0**-14, 2.0**-14], 0.0, {}, 2.0**-38 + 2.0**-28),
    ([TINY, TINY], [TINY, 1.0], 0.0, {}, TINY),  # 2^-48 lies 34 bits below 2^-14
    ([TINY], [TINY], 0.0, {}, 2.0**-48),
    # infinity and NaN
    *(
        case
        for to in ({}, HALF)
        for case in [
            ([math.inf], [1.0], 0.0, to, math.inf),
            ([1.0], [1.0], -math.inf, to, -math.inf),
            ([math.inf, math.inf], [1.0, -1.0], 0.0, to, math.nan),
            ([math.inf], [0.0], 1.0, to, math.nan),
            ([1.0], [1.0], math.nan, to, math.nan),
            ([60000.0] * 2, [60000.0] * 2, 0.0, to, math.inf if to else 7.2e9),
        ]
    ),
    # too large a sum is infinite though rounding is towards zero
    ([BIG], [2.0], 0.0, WIDE, math.inf),
    ([BIG, BIG], [2.0, -2.0], 1.0, WIDE, 0.0),  # aligned to 2^128, 1 is cut off
    ([1.0], [1.0], LARGEST, WIDE, LARGEST),
    # subnormal results, and the signs of zeros: what is cut off leaves its sign
    ([2.0**-75], [2.0**-74], 0.0, WIDE, 2.0**-149),
    ([-(2.0**-76)], [2.0**-75], 0.0, WIDE, -0.0),
    ([-0.0], [1.0], -0.0, WIDE, 0.0),
]


@pytest.mark.parametrize(("a", "b", "c", "options", "want"), BY_HAND)
def test_sums_by_hand(a, b, c, options, want):
    found = single(a, b, c, **options)
    assert np.array_equal(found, want, equal_nan=True)
    assert want != 0 or math.copysign(1, found) == math.copysign(1, want)


@pytest.mark.parametrize(
    "names", [("f16", "f16"), ("bf16", "bf16"), ("tf32", "tf32"), ("e5m2", "e4m3")], ids="-".join
)
@pytest.mark.parametrize("result", ["f32", "f16"])
@pytest.mark.parametrize("shape", [(1, 64, 128, 16), (9, 16, 8, 8)])
def test_both_loops_give_the_same_bits(loops, monkeypatch, names, result, shape) -> None:
    """Operands with zeros of both signs, subnormal, infinite and NaN values."""
    if loops == "NumPy":
        pytest.skip("compared with C")
    rng, (count, m, n, k) = np.random.default_rng(3), shape

    def values(size: tuple[int, ...], name: str) -> np.ndarray:
        x = rng.standard_normal(size) * 2.0 ** rng.integers(-20, 12, size)
        for odd in (0.0, -0.0, 2.0**-130, np.inf, np.nan):
            x[rng.random(size) < (0.05 if abs(odd) < 1 else 0.002)] = odd
        return rounded_to(x, name)

    a, b, c = (
        values((count, m, k), names[0]),
        values((count, n, k), names[1]),
        values((count, m, n), result),
    )
    in_c = tensor_cores.multiply(a, b, c, names, result)
    monkeypatch.setattr(native, "library", None)
    in_numpy = tensor_cores.multiply(a, b, c, names, result)
    nan = np.isnan(in_numpy)
    assert 0 < np.count_nonzero(nan) < nan.size and (nan == np.isnan(in_c)).all()
    assert in_c[~nan].tobytes() == in_numpy[~nan].tobytes()
