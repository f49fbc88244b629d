"""The check, checked: a right GEMM in NumPy passes every case, and each planted fault fails.

`NumpyDevice` stands where the GPU does. Faults are subclasses that get one thing wrong.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from contracts import UserError, write_rows
from contracts.dtypes import Types, dtypes
from contracts.rows import Checks
from experiments.gpu.worker import DeviceFault, Watch
from experiments.stages import check, verify
from experiments.stages.cases import Case, cases, packed
from experiments.stages.check import (
    GUARD,
    DeviceName,
    HeldGpu,
    check_variant,
    inside,
    run_case,
    summary,
)
from experiments.stages.store import Store
from kernels import catalogue
from kernels.catalogue import Problem, Variant
from kernels.problem import ProblemSpec

KERNELS = catalogue.load().kernels
NAIVE, VECTORIZED = KERNELS["sgemm_naive"], KERNELS["sgemm_vectorized"]
ALL_KINDS = ["sgemm_naive", "sgemm_vectorized", "hgemm_naive_bf16", "hgemm_naive_fp16"]
ALL_KINDS += ["tf32gemm_naive", "tf32gemm_bcf_dbf_rna"]


class NumpyDevice:
    """A right GEMM: inputs of the kernel's precision, fp32 sums, C rounded once."""

    name: DeviceName = "gpu"

    def code_hash(self, entry: object) -> str:
        return "0" * 16

    def run(
        self, variant: Variant, p: Problem, buffers: list[np.ndarray], offset: int
    ) -> list[np.ndarray]:
        """See `experiments.stages.check.Device`."""
        byte = 2**20 + (GUARD + offset) * buffers[0].itemsize
        if reason := self.unsupported_reason(variant, p, byte):
            raise UserError(reason)
        self.narrowing = variant.narrowing if variant.dtype == "tf32" else None
        after = [buffer.copy() for buffer in buffers]
        shapes = ((p.m, p.k, p.lda), (p.k, p.n, p.ldb), (p.m, p.n, p.ldc))
        a, b, c = (
            inside(buffer, rows, cols, max(ld, cols), offset)
            for buffer, (rows, cols, ld) in zip(after, shapes, strict=True)
        )
        self.gemm(p, a, b, c)
        self.after(p, after, offset)
        return after

    def stores(self, variant: Variant, p: Problem, buffers: list[np.ndarray], offset: int) -> None:
        """It cannot tell."""

    def unsupported_reason(self, variant: Variant, p: Problem, byte: int) -> str | None:
        return variant.unsupported_reason(p, dict.fromkeys("ABC", byte))

    def gemm(self, p: Problem, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        a, b = (self.read(x.astype(np.float32)) for x in (a, b))
        c[:] = self.update(p, self.product(a, b), c).astype(c.dtype)

    def read(self, x: np.ndarray) -> np.ndarray:
        """To eleven significant bits for a tf32 variant: by arithmetic, where the check uses bits."""
        if not self.narrowing:
            return x
        mantissa, exponent = np.frexp(x)
        half = np.float32({"truncate": 0.0, "nearest": 0.5}[self.narrowing])
        return np.ldexp(np.trunc(mantissa * 2**11 + np.copysign(half, x)), exponent - 11)

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a @ b

    def update(self, p: Problem, product: np.ndarray, c: np.ndarray) -> np.ndarray:
        result = np.float32(p.alpha) * product if p.alpha else np.zeros_like(product)
        return result + np.float32(p.beta) * c.astype(np.float32) if p.beta else result

    def after(self, p: Problem, buffers: list[np.ndarray], offset: int) -> None:
        pass


# ---- what is right passes ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_KINDS)
def test_a_right_gemm_passes_every_case(name: str, tmp_path: Any) -> None:
    """All cases, with the large one that is checked by rows and Freivalds' test."""
    rows = check_variant(nullcontext(NumpyDevice()), KERNELS[name], seed=7, large=1024)
    assert [row.case for row in rows if not row.passed] == []
    shares = [row.error_over_bound for row in rows if not row.case.startswith("refuses")]
    assert len(shares) >= 17 and all(0 <= share <= 1 for share in shares)
    write_rows(tmp_path / "checks.csv", Checks, rows)


@pytest.mark.parametrize("name", ALL_KINDS)
def test_the_cases_try_everything_that_a_kernel_can_get_wrong(name: str) -> None:
    variant = KERNELS[name]
    every = list(cases(variant, large=4096))
    run = [case.problem for case in every if not case.refused]
    assert all(variant.unsupported_reason(problem) is None for problem in run)
    assert {0.0, 1.0} < {p.alpha for p in run} and {0.0, 1.0} < {p.beta for p in run}
    wide = [p for p in run if p.ldc > p.n]
    assert any(p.beta == 0 for p in wide) and any(p.beta != 0 for p in wide)
    assert any(p.lda > p.k and p.ldb > p.n and len({p.lda, p.ldb, p.ldc}) == 3 for p in run)
    assert any(p.m < p.n < p.k for p in run) and any(p.m > p.n > p.k for p in run)
    assert max(p.m * p.n * p.k for p in run) == 4096**3
    broken = [case for case in every if case.refused]
    assert all(
        variant.unsupported_reason(case.problem, case.starts(variant.types)) for case in broken
    )
    required = {key for key, value in variant.multiples.items() if value > 1}
    assert {case.name.split()[1] for case in broken} >= required


def test_each_case_is_what_its_name_says_and_there_once() -> None:
    """Rows of checks.csv would be alike, which its schema refuses."""
    for name, entry in catalogue.load().runnable.items():
        keys = [(c.name, c.problem.m, c.problem.n, c.problem.k) for c in cases(entry, 4096)]
        assert len(keys) == len(set(keys)), name
        for case, m, n, k in keys:
            assert not case.startswith("tall") or m > n > k, (name, m, n, k)
            assert not case.startswith("wide") or m < n < k, (name, m, n, k)


def test_the_checks_of_named_problems_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(check.store, "fingerprint_of", lambda variant, folder: {"code": "c"})
    named, other = [ProblemSpec.square(64), ProblemSpec(64, 32, 16)], [ProblemSpec.square(65)]
    assert (
        check.fingerprint_of(NAIVE, [], tmp_path) == {"code": "c"}
        and check._key(NAIVE).item == "cases"
    )
    assert check.fingerprint_of(NAIVE, named, tmp_path) == {
        "code": "c",
        "problems": [*map(str, named)],
    }
    assert len({check._key(NAIVE, problems) for problems in ([], named, other)}) == 3


def test_odd_sizes_are_tried_where_a_kernel_takes_them() -> None:
    problems = [case.problem for case in cases(NAIVE)]
    assert any(p.m % 2 and p.n % 2 and p.k % 2 for p in problems)
    assert not any(case.name.startswith("odd") for case in cases(VECTORIZED))


def test_a_right_gemm_of_any_shape_passes() -> None:
    rng = np.random.default_rng(0)
    for seed in range(60):
        (m, n, k), wider = rng.integers(1, 71, 3).tolist(), rng.integers(0, 10, 3)
        alpha, beta = rng.integers(-16, 17, 2) / 8
        problem = Problem(m, n, k, *np.add((k, n, n), wider).tolist(), float(alpha), float(beta))
        result = run_case(NumpyDevice(), NAIVE, Case("any", problem), seed)
        assert result.passed, (problem, result.detail)


@pytest.mark.parametrize("k", [8, 1000, 4096])
def test_the_bound_leaves_room_for_sums_in_any_order(k: int) -> None:

    def product(right: NumpyDevice, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """As a thread does: one product after the other, in fp32."""
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for i in range(a.shape[1]):
            total += a[:, i : i + 1] * b[i]
        return total

    result = run_case(Faulty(product=product), NAIVE, Case("", packed(NAIVE, 64, 64, k)), seed=1)
    assert result.passed and result.worst is not None and result.worst < 0.5


# ---- planted faults ------------------------------------------------------------------------------


class Faulty(NumpyDevice):
    """With other functions in place of methods, which get the right methods first."""

    def __init__(self, **methods: Any) -> None:
        for name, method in methods.items():
            setattr(self, name, partial(method, super()))


def multiplies(product: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Faulty:
    """A device whose product of A and B is another."""
    return Faulty(product=lambda right, a, b: product(a, b))


def updates(update: Callable[[NumpyDevice, Problem, np.ndarray, np.ndarray], Any]) -> Faulty:
    """A device that makes something else of the product and C."""
    return Faulty(update=update)


def swap(right: NumpyDevice, p: Problem, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """Two outputs in each other's place: the largest and the smallest of C."""
    right.gemm(p, a, b, c)
    values = c.astype(np.float32)
    high, low = (np.unravel_index(index, c.shape) for index in (values.argmax(), values.argmin()))
    c[high], c[low] = c[low].copy(), c[high].copy()


def rows_apart(matrix: np.ndarray, ld: int) -> np.ndarray:
    """The same memory, read as if its leading dimension were `ld`."""
    return np.lib.stride_tricks.as_strided(matrix, strides=(ld * matrix.itemsize, matrix.itemsize))


def one_element(value: float, at: tuple[int, int] = (-1, 0)) -> Faulty:
    def gemm(right: NumpyDevice, p: Problem, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        right.gemm(p, a, b, c)
        c[at] = value

    return Faulty(gemm=gemm)


def writes_elsewhere(which: int, at: int) -> Faulty:
    """Writes C, and one element more: in matrix `which`, `at` elements from its end (its start for
    negative ones).
    """

    def after(right: NumpyDevice, p: Problem, buffers: list[np.ndarray], offset: int) -> None:
        buffer = buffers[which]
        buffer[GUARD + at if at < 0 else len(buffer) - GUARD + at] = 0

    return Faulty(after=after)


def write_padding(right: NumpyDevice, p: Problem, buffers: list[np.ndarray], offset: int) -> None:
    """Writes behind the end of a row, before the next one begins."""
    if p.ldc > p.n:
        buffers[2][GUARD + offset + p.n] = 0


def write_input(
    right: NumpyDevice, p: Problem, a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> None:
    right.gemm(p, a, b, c)
    a[0, 0] = -a[0, 0]


class NarrowsOtherwise(NumpyDevice):
    """Cuts off what it should round to nearest, and the other way round."""

    def run(
        self, variant: Variant, p: Problem, buffers: list[np.ndarray], offset: int
    ) -> list[np.ndarray]:
        other = {"truncate": "nearest", "nearest": "truncate"}[variant.narrowing]
        return super().run(replace(variant, narrowing=other), p, buffers, offset)


NOT_FINITE = one_element(np.nan)
READS_ALL_BITS = Faulty(read=lambda right, x: x)  # plain fp32 where tf32 is announced
PACKED_A = Faulty(gemm=lambda right, p, a, b, c: right.gemm(p, rows_apart(a, p.k), b, c))
PACKED_B = Faulty(gemm=lambda right, p, a, b, c: right.gemm(p, a, rows_apart(b, p.n), c))
LDC_FOR_B = Faulty(gemm=lambda right, p, a, b, c: right.gemm(p, a, rows_apart(b, p.ldc), c))
NOTHING_WRITTEN = Faulty(gemm=lambda *_: None)
REFUSES_NOTHING = Faulty(gemm=lambda *_: None, unsupported_reason=lambda *_: None)


def always(p: Problem) -> bool:
    return True


def summed(p: Problem) -> bool:
    """C depends on A and B."""
    return p.alpha != 0


def scaled(p: Problem) -> bool:
    """C depends on something."""
    return (p.alpha, p.beta) != (0, 1)


def without_beta(right: NumpyDevice, p: Problem, product: np.ndarray, c: np.ndarray) -> Any:
    return right.update(replace(p, beta=0.0), product, c)


def without_alpha(right: NumpyDevice, p: Problem, product: np.ndarray, c: np.ndarray) -> Any:
    return right.update(replace(p, alpha=1.0), product, c)


def with_c_always(right: NumpyDevice, p: Problem, product: np.ndarray, c: np.ndarray) -> Any:
    """0 * C is not 0 where C is NaN."""
    return np.float32(p.alpha) * product + np.float32(p.beta) * c.astype(np.float32)


def with_a_always(right: NumpyDevice, p: Problem, product: np.ndarray, c: np.ndarray) -> Any:
    """0 * (A B) is not 0 where A is NaN."""
    return right.update(replace(p, alpha=1.0), np.float32(p.alpha) * product, c)


OUTSIDE = "wrote outside C: in"
# Each has the device, the problems that must show its fault, and words of the report.
FAULTS: dict[str, tuple[NumpyDevice, Callable[[Problem], Any], str]] = {
    "last product dropped": (multiplies(lambda a, b: a[:, :-1] @ b[:-1]), summed, "expected"),
    "last step dropped": (multiplies(lambda a, b: a[:, :-8] @ b[:-8]), summed, "expected"),
    "first step twice": (multiplies(lambda a, b: a @ b + a[:, :8] @ b[:8]), summed, "expected"),
    "swapped": (Faulty(gemm=swap), lambda p: p.alpha or p.beta, "expected"),
    "packed A": (PACKED_A, lambda p: p.lda > p.k, ""),
    "packed B": (PACKED_B, lambda p: p.ldb > p.n, ""),
    "ldc for B": (LDC_FOR_B, lambda p: p.ldc > p.n, ""),
    "beta ignored": (updates(without_beta), lambda p: p.beta != 0, "expected"),
    "alpha ignored": (updates(without_alpha), lambda p: p.alpha not in (0, 1), "expected"),
    "reads C always": (updates(with_c_always), lambda p: p.beta == 0, "not finite"),
    "reads A always": (updates(with_a_always), lambda p: p.alpha == 0, "not finite"),
    "nothing written, beta 0": (NOTHING_WRITTEN, lambda p: p.beta == 0, "not finite"),
    "nothing written": (NOTHING_WRITTEN, scaled, ""),
    "one NaN": (NOT_FINITE, always, "1 elements are not finite"),
    "one infinity": (one_element(np.inf), always, "1 elements are not finite"),
    "writes after C": (writes_elsewhere(2, 0), always, f"{OUTSIDE} C"),
    "writes far after C": (writes_elsewhere(2, GUARD - 1), always, f"{OUTSIDE} C"),
    "writes before C": (writes_elsewhere(2, -1), always, f"{OUTSIDE} C"),
    "writes far before C": (writes_elsewhere(2, -GUARD), always, f"{OUTSIDE} C"),
    "writes after A": (writes_elsewhere(0, 3), always, f"{OUTSIDE} A"),
    "writes before B": (writes_elsewhere(1, -2), always, f"{OUTSIDE} B"),
    "writes padding": (Faulty(after=write_padding), lambda p: p.ldc > p.n, f"{OUTSIDE} C"),
    "writes its input": (Faulty(gemm=write_input), always, f"{OUTSIDE} A"),
    "refuses all": (Faulty(unsupported_reason=lambda *_: "no"), always, "no"),
}


@pytest.mark.parametrize(("device", "caught", "said"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("name", ["sgemm_vectorized", "hgemm_naive_bf16", "tf32gemm_bcf_dbf"])
def test_a_planted_fault_fails_in_every_case_that_can_show_it(
    name: str, device: NumpyDevice, caught: Any, said: str
) -> None:
    variant = KERNELS[name]
    tried = [case for case in cases(variant) if not case.refused and caught(case.problem)]
    assert tried
    for seed, case in enumerate(tried):
        result = run_case(device, variant, case, seed)
        assert not result.passed, case.name
        assert said in result.detail, (case.name, result.detail)


def test_a_fault_is_a_row_that_says_what_and_where(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        rows = check_variant(nullcontext(NOT_FINITE), VECTORIZED, seed=1, large=None)
    failed = [row for row in rows if not row.passed]
    assert failed and all(row.error_over_bound is None for row in failed)
    (explained,) = [row for row in failed if "element [" in row.detail]
    assert "they are NaN" in explained.detail
    name = "sgemm_vectorized"
    first, more, last = caplog.messages[:3]
    assert first.startswith(f"FAILED {name}, {explained.case}, on gpu: 1 elements are not fini")
    others = f"{len(failed) - 1} more cases: one tile, one k-step; "
    assert more.startswith(f"FAILED {name} on gpu in {others}")
    right = f"{len(rows) - len(failed)} of {len(rows)} cases passed"
    assert last == f"checked {name} on gpu: {right}"


@pytest.mark.parametrize(
    ("device", "ld"),
    [(PACKED_A, "lda is more than k"), (PACKED_B, "ldb is more than n"), (LDC_FOR_B, "ld")],
)
def test_the_leading_dimension_that_it_is_is_reported(device: NumpyDevice, ld: str) -> None:
    table = check_variant(nullcontext(device), VECTORIZED, seed=1, large=None, tell=False)
    assert summary(VECTORIZED, table)[-1].startswith(f"it fails where {ld}")
    assert any("as if ld" in row.detail for row in table)


def test_running_what_must_be_refused_fails() -> None:
    rows = check_variant(nullcontext(REFUSES_NOTHING), VECTORIZED, seed=1, large=None)
    refusals = [row for row in rows if row.case.startswith("refuses")]
    assert len(refusals) == 6 + 3 + 1 and not any(row.passed for row in refusals)
    assert {row.detail for row in refusals} == {"ran a problem that it must refuse"}


@pytest.mark.parametrize("variant", KERNELS.values(), ids=KERNELS)
def test_each_refusal_breaks_one_requirement_alone(variant: Variant) -> None:
    for case in cases(variant):
        if case.refused and case.name.endswith("off by one"):
            rest = {**variant.multiples}
            del rest[case.name.split()[1]]
            assert replace(variant, multiples=rest).unsupported_reason(case.problem) is None, (
                case.name
            )


# ---- a dropped product at every k ----------------------------------------------------------------


OF_8_BITS = ["fp8_e4m3_bf16", "fp8_e4m3_fp32", "fp8_e5m2_bf16", "fp8_e5m2_fp32"]


@pytest.mark.parametrize(
    ("name", "k"),
    [
        *product(["fp32", "tf32", "fp16", "bf16"], [8, 64, 1000, 4096]),
        *product(OF_8_BITS, [8, 64, 320]),  # 2^-13 |A||B| reaches a product of 0.25 by k = 3600
    ],
)
def test_one_dropped_product_of_one_element_fails(name: str, k: int) -> None:
    """The smallest product of the element with the largest |C|, where the bound is widest.

    With C in bf16 of the median one: rounding C to 8 bits hides a product from 64 on.
    """
    types, rng = Types.named(name), np.random.default_rng(k)
    problem = Problem(32, 48, k, k, 48, 48)
    a, b = (verify.random_matrix(rng, *shape, types.ab) for shape in ((32, k), (k, 48)))
    a, b = verify.as_read(a, types.ab), verify.as_read(b, types.ab)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    order = np.argsort(np.abs(exact), axis=None)
    i, j = np.unravel_index(order[len(order) // 2 if types.c.name == "bf16" else -1], exact.shape)
    reference, allowed = verify.expected(problem, types, a, b, exact)
    assert verify.evaluate(exact.astype(types.c.numpy), reference, allowed).passed
    products = a[i].astype(np.float64) * b[:, j].astype(np.float64)
    exact[i, j] -= products[np.argmin(np.abs(products))]
    result = verify.evaluate(exact.astype(types.c.numpy), reference, allowed)
    assert not result.passed and result.detail.startswith(f"C[{i}, {j}] = "), result
    assert result.detail.endswith(f"1 of {32 * 48} elements are off")


# ---- what a tf32 kernel reads --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "cut", "nearest"),
    [
        (1.0, 1.0, 1.0),
        (1.0 + 2.0**-10, 1.0 + 2.0**-10, 1.0 + 2.0**-10),  # the last bit that tf32 has
        (1.0 + 2.0**-11, 1.0, 1.0 + 2.0**-10),  # a tie: away from zero
        (1.0 + 2.0**-11 - 2.0**-23, 1.0, 1.0),
        (1.0 + 2.0**-11 + 2.0**-23, 1.0, 1.0 + 2.0**-10),
        (2.0 - 2.0**-23, 2.0 - 2.0**-10, 2.0),  # carries into the exponent
    ],
)
def test_the_bits_that_a_tf32_kernel_reads(x: float, cut: float, nearest: float) -> None:
    both = np.array([[x, -x]], np.float32)
    tf32 = dtypes()["tf32"]
    assert verify.as_read(both, tf32).tolist() == [[cut, -cut]]
    assert verify.as_read(both, tf32, "truncate").tolist() == [[cut, -cut]]
    assert verify.as_read(both, tf32, "nearest").tolist() == [[nearest, -nearest]]
    assert verify.as_read(both, dtypes()["fp32"]).tolist() == both.tolist()


@pytest.mark.parametrize(
    "device", [NarrowsOtherwise(), READS_ALL_BITS], ids=["otherwise", "all bits"]
)
@pytest.mark.parametrize("name", ["tf32gemm_bcf_dbf", "tf32gemm_bcf_dbf_rna"])
def test_inputs_narrowed_in_another_way_fail(name: str, device: NumpyDevice) -> None:
    variant = KERNELS[name]
    tried = [case for case in cases(variant) if not case.refused and summed(case.problem)]
    for seed, case in enumerate(tried):
        result = run_case(device, variant, case, seed)
        assert not result.passed and "expected" in result.detail, case.name


@pytest.mark.parametrize("dtype", dtypes().values(), ids=dtypes())
@pytest.mark.parametrize("shape", [(1, 1), (7, 129), (700, 1000)])
def test_a_seed_gives_the_inputs_that_it_always_gave(shape: tuple[int, int], dtype: Any) -> None:
    """Rows of checks.csv record it; what is drawn next is the same, too."""
    rng, other = np.random.default_rng(5), np.random.default_rng(5)
    expected = other.uniform(0.5, 1.0, shape) * other.choice([-1.0, 1.0], shape)
    drawn = verify.random_matrix(rng, *shape, dtype)
    assert drawn.tobytes() == expected.astype(dtype.numpy).tobytes()
    assert rng.random() == other.random()


def test_inputs_are_kept_away_from_zero() -> None:
    for dtype in dtypes().values():
        values = verify.random_matrix(np.random.default_rng(3), 64, 64, dtype).astype(np.float64)
        assert np.abs(values).min() >= 0.5 and np.abs(values).max() <= 1.0
        assert 0.4 < (values > 0).mean() < 0.6


# ---- the bound and the verdict --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "name", "factor"),
    [
        (1, "fp32", 4 + 1),
        (4096, "fp32", 67 + 1),
        (1, "fp16", 4 + 2**13 + 0.5),
        (4096, "bf16_fp32", 67 + 1),
        (4, "fp8_e4m3_bf16", 5 + 2**11 + 2**16),
        (4, "fp8_e5m2_fp32", 5 + 2**11 + 1),
        (1, "fp16_fp16_fp16", 4 * 2**13 + 2**13 + 0.5),
    ],
)
def test_the_bound_at_some_points(k: int, name: str, factor: float) -> None:
    """((sqrt(k) + 3) u + u_step) |A||B| + u_out |C| + half of the least step, in units of 2^-24."""
    problem, one = Problem(1, 1, k, k, 1, 1), np.array([1.0])
    allowed = verify.bound(problem, Types.named(name), -one, one)
    assert allowed[0] * 2**24 == pytest.approx(factor)


@pytest.mark.parametrize(
    ("beta", "library", "passes"), [(1.0, True, True), (1.0, False, False), (0.5, True, False)]
)
def test_a_library_alone_may_round_the_product_before_it_adds_c(
    beta: float, library: bool, passes: bool
) -> None:
    """As cuBLAS does where beta is 1. 258 + 1.5 is 260 in bf16, 258 is within two roundings."""
    one, types = np.ones((1, 1)), Types.named("bf16")
    a, b, c0 = 255.0 * one, one + 3 / 255, np.float64(1.5) / beta * one
    twice = 258.0 * one
    problem = Problem(1, 1, 1, 1, 1, 1, beta=beta)
    result = verify.evaluate(twice, *verify.expected(problem, types, a, b, c0, of_library=library))
    assert result.passed == passes


@pytest.mark.parametrize("name", ["hgemm_naive_fp16", "hgemm_naive_bf16"])
def test_a_right_gemm_with_results_below_what_is_stored_in_full_passes(name: str) -> None:
    """At alpha = 1e-6 some elements are subnormal in fp16: stored in steps of 2^-24. 1.5 times as
    much is wrong.
    """
    variant = KERNELS[name]
    case = Case("tiny", packed(variant, 128, 128, 64, alpha=1e-6))
    result = run_case(NumpyDevice(), variant, case, seed=1)
    assert result.passed and result.worst is not None and result.worst > 0.5, result.detail

    too_large = Faulty(product=lambda right, a, b: a @ b * 1.5)
    assert not run_case(too_large, variant, case, seed=1).passed


def test_unit_roundoffs_are_those_of_the_formats() -> None:
    for dtype in dtypes().values():
        assert dtype.unit_roundoff == float(ml_dtypes.finfo(dtype.numpy).eps) / 2, dtype.name
        assert dtype.bits == 8 * np.dtype(dtype.numpy).itemsize, dtype.name


def test_the_judge_names_the_worst_element() -> None:
    reference = np.array([[1.0, 2.0], [3.0, 4.0]])
    allowed = np.full((2, 2), 0.2)
    result = verify.evaluate(np.array([[1.0, 2.5], [3.1, 4.0]], np.float32), reference, allowed)
    assert result.worst == pytest.approx(2.5) and not result.passed
    assert result.detail == "C[0, 1] = 2.5, expected 2 +- 0.2; 1 of 4 elements are off"
    exact = verify.evaluate(reference.astype(np.float32), reference, allowed)
    assert exact == verify.CheckResult(0.0)


def test_an_error_where_none_is_allowed_fails() -> None:
    """alpha = beta = 0: the bound is zero, and so must C be."""
    zero = np.zeros((2, 2))
    assert verify.evaluate(zero.astype(np.float32), zero, zero).passed
    result = verify.evaluate(np.array([[0, 1e-30], [0, 0]], np.float32), zero, zero)
    assert not result.passed and result.worst is not None and math.isfinite(result.worst)


def test_nothing_that_is_not_finite_passes() -> None:
    assert not verify.CheckResult(None).passed and not verify.CheckResult(float("nan")).passed
    assert not verify.CheckResult(0.0, "a reason").passed and not verify.CheckResult(1.0001).passed
    assert verify.CheckResult(1.0).passed
    one = np.ones((2, 2))
    for value in (np.nan, np.inf, -np.inf):
        c = np.ones((2, 2), np.float32)
        c[1, 0] = value
        result = verify.evaluate(c, one, np.full((2, 2), np.inf))
        assert not result.passed and "(1, 0)" in result.detail


# ---- Freivalds -----------------------------------------------------------------------------------


def freivalds(c: np.ndarray, a: np.ndarray, b: np.ndarray, seed: int) -> verify.CheckResult:
    """Freivalds' test of C = AB in float64, as `experiments.stages.check` sets it up."""
    (m, k), n = a.shape, b.shape[1]
    a64, b64, c64 = (x.astype(np.float64) for x in (a, b, c))
    x = np.random.default_rng(seed).choice([-1.0, 1.0], n)
    problem, types = Problem(m, n, k, k, n, n), Types.named("fp32")
    products = c64 @ x, a64 @ (b64 @ x), np.abs(a64) @ np.abs(b64).sum(axis=1)
    return verify.freivalds(problem, types, *products, np.linalg.norm(c64, axis=1))


Matrices = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def big() -> Matrices:
    """A, B and their product in fp32, 2048 x 2048."""
    rng = np.random.default_rng(11)
    a, b = (verify.random_matrix(rng, 2048, 2048, dtypes()["fp32"]) for _ in range(2))
    return a, b, a @ b


def test_freivalds_passes_what_is_right(big: Matrices) -> None:
    a, b, c = big
    for seed in range(8):
        result = freivalds(c, a, b, seed)
        assert result.passed and result.worst is not None and result.worst < 0.5


def test_freivalds_finds_one_wrong_element_of_four_million(
    big: Matrices,
) -> None:
    """One product dropped in one element, whichever it is; the row is named."""
    a, b, c = big
    for i, j in ((0, 0), (1234, 567), (2047, 2047)):
        wrong = c.copy()
        wrong[i, j] -= a[i, 5] * b[5, j]
        result = freivalds(wrong, a, b, seed=i)
        assert not result.passed and result.detail.startswith(f"C[{i}] = ")
        assert "1 of 2048 elements are off" in result.detail


def test_freivalds_finds_swapped_elements_and_nan(
    big: Matrices,
) -> None:
    a, b, c = big
    wrong = c.copy()
    wrong[7, [3, 4]] = wrong[7, [4, 3]]
    passed = [freivalds(wrong, a, b, seed).passed for seed in range(12)]
    # signs that are equal there hide a swap within a row, for half of the draws
    assert not all(passed)
    wrong[9, 9] = np.nan
    assert not freivalds(wrong, a, b, 0).passed


def test_the_large_case_looks_at_all_of_c() -> None:
    """Above WHOLE_FLOP only eight rows are compared: the rest is Freivalds' to find."""
    case = Case("large", Problem.square(1024))
    assert run_case(NumpyDevice(), VECTORIZED, case, seed=5).passed
    result = run_case(one_element(np.float32(0.3), at=(701, 33)), VECTORIZED, case, seed=5)
    assert not result.passed and result.detail.startswith("C[701] = ")


def test_a_case_can_be_run_again_by_its_seed() -> None:
    """Fresh inputs for each case, from the seed that its row records."""
    rows = check_variant(nullcontext(NumpyDevice()), NAIVE, seed=100, large=None)
    assert all(later.seed == sooner.seed + 1 for sooner, later in pairwise(rows))
    for row, case in zip(rows, cases(NAIVE), strict=True):
        again = run_case(NumpyDevice(), NAIVE, case, row.seed).worst
        assert case.refused or again == row.error_over_bound


# ---- many variants in one process ----------------------------------------------------------------


class OfOneProcess(NumpyDevice):
    """A GPU whose context one kernel spoils, and where another one's C is wrong.

    It notes which processes run.
    """

    def __init__(self, notes: Path, spoilt_by: str = "", wrong: str = "") -> None:
        self.notes, self.spoilt_by, self.wrong = notes, spoilt_by, wrong
        self.spoilt, self.gpu = False, self

    def sync(self) -> None:
        if self.spoilt:
            raise DeviceFault("CUDA: an illegal memory access was encountered")

    def run(self, variant, problem, buffers, offset):
        with self.notes.open("a") as file:
            print(os.getpid(), file=file)
        self.spoilt |= variant.name == self.spoilt_by and problem.k > 16
        self.sync()
        after = super().run(variant, problem, buffers, offset)
        if variant.name == self.wrong:
            inside(after[2], problem.m, problem.n, problem.ldc, offset)[-1, 0] = 9e9
        return after


class Lease:
    """A GPU that can be held, and what is done whether it is."""

    name = "1" * 8

    def __init__(self) -> None:
        self.holding, self.done = False, list[tuple[str, bool]]()

    @contextmanager
    def held(self) -> Iterator[None]:
        self.holding = True
        yield
        self.holding = False
        self.done.append(("processes", bool(active_children())))


@pytest.fixture
def lease(monkeypatch: pytest.MonkeyPatch) -> Lease:
    """What `check.measured` holds; it knows no builds, and its largest problem is small."""
    found = Lease()

    def noted(name: str) -> None:
        plain = getattr(check, name)
        monkeypatch.setattr(
            check, name, lambda *given: (found.done.append((name, found.holding)), plain(*given))[1]
        )

    for name in ("prepare", "evaluate"):
        noted(name)
    monkeypatch.setattr(check, "Session", lambda: found)
    monkeypatch.setattr(check, "code_of", lambda entry, build_dir: "0" * 16)
    monkeypatch.setattr(
        check.store, "fingerprint_of", lambda entry, build_dir: {"code": entry.name}
    )
    monkeypatch.setattr(check, "LARGE", 512)
    return found


@pytest.mark.parametrize("limit", [check.LIMIT_BYTES, 1])  # all in one batch, or each in its own
def test_a_kernel_that_spoils_the_context_fails_its_own_rows_and_no_neighbour_s(
    limit: int, lease: Lease, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ("sgemm_coalesced", "sgemm_naive", "sgemm_smem_tile")
    variants, kept = (
        [KERNELS[name] for name in names],
        Store(tmp_path / "measured"),
    )
    device = OfOneProcess(tmp_path / "notes", spoilt_by="sgemm_naive", wrong="sgemm_smem_tile")
    monkeypatch.setattr(check.GpuDevice, "__new__", lambda *_: device)
    monkeypatch.setattr(check, "LIMIT_BYTES", limit)
    found = check.measured(variants, tmp_path, kept, seed=1)
    rows = {name: stored.rows.checks for name, stored in found.items()}
    assert len(rows["sgemm_coalesced"]) > 17 and all(row.passed for row in rows["sgemm_coalesced"])
    (row,) = rows["sgemm_naive"]
    assert not row.passed and row.detail.startswith(
        "2 x 2 tiles, 3 k-steps: CUDA: an illegal memory access"
    )
    wrong = [row for row in rows["sgemm_smem_tile"] if not row.case.startswith("refuses")]
    assert not any(row.passed for row in wrong) and any(
        check.EXPLAINED in row.detail for row in wrong
    )
    assert [one.session for one in found.values()] == [Lease.name, "0" * 8, Lease.name]
    # only while kernels run is the GPU held, by a child that is gone when it is given back
    assert {name for name, _ in lease.done} == {"prepare", "evaluate", "processes"}
    assert not any(while_held for _, while_held in lease.done)
    processes = {*device.notes.read_text().split()}
    assert str(os.getpid()) not in processes and len(processes) == (2 if limit > 1 else 3)

    again = check.measured(variants, tmp_path, kept, seed=2)  # what is kept is not checked again
    assert {name: stored.rows.checks for name, stored in again.items()} == rows


def test_what_another_job_checks_while_this_one_waits_is_not_checked_again(
    lease: Lease, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    naive, device = KERNELS["sgemm_naive"], OfOneProcess(tmp_path / "notes")
    monkeypatch.setattr(check.GpuDevice, "__new__", lambda *_: device)
    first = check.measured([naive], tmp_path, Store(tmp_path / "measured"))
    late, held = Store(tmp_path / "other"), lease.held

    def waits() -> Any:
        late.folder = tmp_path / "measured"
        return held()

    monkeypatch.setattr(lease, "held", waits)
    device.notes.unlink()
    assert check.measured([naive], tmp_path, late) == first and not device.notes.exists()


def test_a_context_is_made_while_its_gpu_is_held_which_it_is_for_the_whole_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a context is made, the GPU's time is shared: nobody else may be measuring."""
    leases: list[Lease] = []

    def made(*_: object) -> str:
        if not leases[-1].holding:
            raise UserError("not held")
        if not outcome:
            raise DeviceFault("no context")
        return outcome

    monkeypatch.setattr(check, "Session", lambda: leases.append(Lease()) or leases[-1])
    monkeypatch.setattr(check, "GpuDevice", made)
    gpu, outcome = HeldGpu(Path(), Watch()), ""
    with pytest.raises(DeviceFault, match="no context"), gpu:
        pass
    gpu, outcome = HeldGpu(Path(), Watch()), "the device"
    for _ in range(2):
        with gpu as device:
            assert device == outcome
        assert leases[-1].holding
