"""The comparison of the GPU's results with the emulator's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_one_line, refused, run_module

from experiments.emulation import compare_gpu, launching
from experiments.emulation.compare_gpu import agree, chosen
from experiments.emulation.device import EmulatedDevice
from experiments.stages.check import GUARD, check_cases
from kernels import catalogue
from kernels.catalogue import Problem, Variant

KERNELS = catalogue.load().kernels
VECTORIZED, BF16 = KERNELS["sgemm_vectorized"], KERNELS["hgemm_naive_bf16"]
Change = Callable[[np.generic], np.generic]


class Altered(EmulatedDevice):
    """The emulator with one element of C changed: `change` returns what stands there."""

    def __init__(self, build_dir: Path, change: Change) -> None:
        super().__init__(build_dir)
        self.change = change

    def run(
        self, variant: Variant, problem: Problem, buffers: list[np.ndarray], offset: int
    ) -> list[np.ndarray]:
        after = super().run(variant, problem, buffers, offset)
        first = GUARD + offset
        after[2][first] = self.change(after[2][first])
        return after


@functools.cache
def emulated(name: str, built: Path) -> dict[str, compare_gpu.Emulated]:
    """What the emulator makes of the compared cases: once for all tests of this file."""
    return compare_gpu.emulate(KERNELS[name], EmulatedDevice(built), seed=1)


def rows_of(variant: Variant, built: Path, change: Change) -> list[dict]:
    """The rows of a comparison in which one element of C is changed."""
    device = nullcontext(Altered(built, change))
    return agree(variant, device, emulated(variant.name, built))


def next_float(x):
    return np.nextafter(x, x.dtype.type(np.inf))


def test_the_last_bit_of_one_element_fails_in_fp32_but_not_on_tensor_cores(built: Path) -> None:
    for row in rows_of(VECTORIZED, built, next_float):
        assert row.differing == 1 and 0 < row.difference_over_bound < 1 and not row.passed
    for row in rows_of(BF16, built, next_float):
        assert row.differing == 1 and row.passed


@pytest.mark.parametrize(
    "change", [lambda x: x + x.dtype.type(1.0), lambda x: x.dtype.type(np.nan)]
)
def test_a_wrong_element_fails_on_tensor_cores_too(change: Change, built: Path) -> None:
    for row in rows_of(BF16, built, change):
        assert row.differing == 1 and not row.passed


def test_a_sum_that_blocks_divide_has_other_bits_on_another_number_of_sms(
    builds: Callable[..., Path],
) -> None:
    """Why the GPU is asked for as many blocks as the emulator launches."""
    variant = KERNELS["sgemm_splitk_32x32"]
    built = builds(variant.name)
    sizes = {case.name: (case.problem.m, case.problem.k) for case in chosen(variant)}
    known = emulated(variant.name, built)
    case = next({name: known[name]} for name, size in sizes.items() if size == (7, 1000))
    few, many = (
        agree(variant, nullcontext(EmulatedDevice(built, sms=sms)), case)[0].differing
        for sms in (launching.FEW_SMS, 132)
    )
    assert few == 0 < many


def test_only_kernels_run_on_both(tmp_path: Path) -> None:
    options = ("--build-dir", tmp_path, "--store", tmp_path, "--out", tmp_path / "a.csv")
    done = run_module("experiments.emulation.compare_gpu", "cublas_fp32", *options)
    assert_one_line(done, "cublas_fp32 is no kernel")


def test_what_checking_on_the_emulator_left_is_compared_without_emulating_again(
    built: Path, tmp_path: Path
) -> None:
    """The same bits and seeds, read back from a file; a file that is cut is one line."""
    path = tmp_path / f"{BF16.name}.npz"
    checked = check_cases(nullcontext(EmulatedDevice(built)), BF16, seed=5, large=None)
    compare_gpu.save(path, BF16, checked)
    saved = compare_gpu.load_saved([tmp_path / "other", tmp_path], BF16)
    assert set(saved) == {case.name for case in chosen(BF16)}
    assert all(
        row.passed and row.differing == 0
        for row in agree(BF16, nullcontext(EmulatedDevice(built)), saved)
    )
    path.write_bytes(path.read_bytes()[:1000])
    with refused(rf"{path.name}: not the results"):
        compare_gpu.load_saved([tmp_path], BF16)
