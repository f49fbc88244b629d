"""The study of errors over k: its data, its rows from the emulator, and its archived table."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import ARCHIVE, assert_one_line, dict_rows, run_module

from contracts.rows import ErrorOverK
from experiments.emulation.device import EmulatedDevice
from experiments.studies.error_over_k import DATA, KS, errors, measure, random_rows
from kernels import catalogue

TABLE = ARCHIVE / "error_over_k.csv"


def test_data_are_of_their_kind() -> None:
    found = {kind: random_rows(kind, np.random.default_rng(1), 64, 512) for kind in DATA}
    assert all(x.dtype == np.float32 and x.shape == (64, 512) for x in found.values())
    assert (
        found["positive"].min() >= 0
        and abs(found["uniform"].mean()) < 0.02
        and np.abs(found["uniform"]).max() <= 1
    )
    assert 0.98 < found["normal"].std() < 1.02
    exponents = np.frexp(found["wide"])[1] - 1
    assert (exponents.min(), exponents.max()) == (-30, 30) and abs(
        np.sign(found["wide"]).mean()
    ) < 0.02


def test_an_error_is_reported_in_units_of_the_last_place_of_the_magnitudes() -> None:
    a, b = np.array([[1, -2]], np.float32), np.array([[3], [4]], np.float32)
    assert errors(a, b, np.array([[-5 + 11 * 3 * 2.0**-24]])).item() == pytest.approx(3)


def test_the_emulator_gives_a_row_for_each_kind_of_data(builds) -> None:
    name = "tf32gemm_bcf_dbf"
    found = {
        row["data"]: row
        for row in measure(EmulatedDevice(builds(name)), catalogue.load().find(name), KS[0])
    }
    assert list(found) == list(DATA) and {row["elements"] for row in found.values()} == {32**2}
    # cut off, a product of positive numbers loses 2^-10 of itself at most, and on average near two
    # thirds of it
    assert 0.5 * 2**14 < found["positive"]["rms"] < found["positive"]["worst"] < 2**14


@pytest.mark.parametrize("name", ["sgemm_naive", "sgemm_3xtf32_wgmma_outside", "tf32gemm_bcf_dbf"])
def test_the_emulator_gives_the_archived_rows(name: str, builds) -> None:
    archived = {
        (r["variant"], r["data"], r["k"]): r
        for r in dict_rows(TABLE, ErrorOverK)
        if r["device"] == "ptxsim"
    }
    if not archived:
        pytest.skip("a GPU's table")
    for row in measure(EmulatedDevice(builds(name)), catalogue.load().find(name), KS[0]):
        before = archived[name, row["data"], row["k"]]
        assert row["code_hash"] == before["code_hash"] and row["elements"] == before["elements"]
        assert row["rms"] == pytest.approx(before["rms"], rel=1e-6)
        assert row["worst"] == pytest.approx(before["worst"], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hgemm_naive_bf16", "takes bf16; allowed: entries of fp32 data"),
        ("cublas_fp32", "there is no PTX to run"),
    ],
)
def test_what_it_cannot_measure_is_one_line(name: str, words: str, tmp_path) -> None:
    options = ("--emulated", "--build-dir", tmp_path, "--out", tmp_path / "out.csv")
    done = run_module("experiments.studies", "error_over_k", name, *options)
    assert_one_line(done, name, words)
