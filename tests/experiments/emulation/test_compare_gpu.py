"""The comparison of the GPU's results with the emulator's."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_one_line, run_module

from experiments.emulation.compare_gpu import agree, chosen
from experiments.emulation.device import EmulatedDevice
from experiments.stages.check import GUARD
from kernels import catalogue
from kernels.catalogue import Problem, Variant

VECTORIZED = catalogue.kernels()["sgemm_vectorized"]
BF16 = catalogue.kernels()["hgemm_naive_bf16"]


class Altered(EmulatedDevice):
    """The emulator with one element of C changed: `change` gets it and gives its stead."""

    def __init__(self, build_dir: Path, change) -> None:
        super().__init__(build_dir)
        self.change = change

    def run(self, variant: Variant, problem: Problem, buffers: list[np.ndarray], offset: int) -> list[np.ndarray]:
        after = super().run(variant, problem, buffers, offset)
        first = GUARD + offset
        after[2][first] = self.change(after[2][first])
        return after


@pytest.mark.parametrize("variant", [VECTORIZED, BF16], ids=lambda variant: variant.name)
def test_a_device_agrees_with_itself_in_every_bit(variant: Variant, built: Path) -> None:
    rows = agree(variant, nullcontext(EmulatedDevice(built)), EmulatedDevice(built), seed=1)
    assert len(rows) == len(chosen(variant)) >= 4
    assert {(row["differing"], row["worst_difference_share"], row["passed"]) for row in rows} == {(0, 0.0, True)}


def test_the_last_bit_of_one_element_fails_in_fp32_but_not_on_tensor_cores(built: Path) -> None:
    def next_float(x):
        return np.nextafter(x, x.dtype.type(np.inf))

    for row in agree(VECTORIZED, nullcontext(Altered(built, next_float)), EmulatedDevice(built), seed=1):
        assert row["differing"] == 1 and 0 < row["worst_difference_share"] < 1 and not row["passed"]
    for row in agree(BF16, nullcontext(Altered(built, next_float)), EmulatedDevice(built), seed=1):
        assert row["differing"] == 1 and row["passed"]


@pytest.mark.parametrize("change", [lambda x: x + x.dtype.type(1.0), lambda x: x.dtype.type(np.nan)])
def test_a_wrong_element_fails_on_tensor_cores_too(change, built: Path) -> None:
    for row in agree(BF16, nullcontext(Altered(built, change)), EmulatedDevice(built), seed=1):
        assert row["differing"] == 1 and not row["passed"]


def test_only_kernels_run_on_both(tmp_path: Path) -> None:
    done = run_module(
        "experiments.emulation.compare_gpu", "cublas_fp32", "--build-dir", tmp_path, "--out", tmp_path / "a.csv"
    )
    assert_one_line(done, "cublas_fp32 is no kernel")
