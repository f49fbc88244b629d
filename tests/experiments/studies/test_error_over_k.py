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
    data = {kind: random_rows(kind, np.random.default_rng(1), 64, 512) for kind in DATA}
    assert all(x.dtype == np.float32 and x.shape == (64, 512) for x in data.values())
    uniform, exponents = data["uniform"], np.frexp(data["wide"])[1] - 1
    assert abs(uniform.mean()) < 0.02 and np.abs(uniform).max() <= 1
    assert data["positive"].min() >= 0 and 0.98 < data["normal"].std() < 1.02
    assert (exponents.min(), exponents.max()) == (-30, 30)
    assert abs(np.sign(data["wide"]).mean()) < 0.02


def test_an_error_is_reported_in_units_of_the_last_place_of_the_magnitudes() -> None:
    a, b = np.array([[1, -2]], np.float32), np.array([[3], [4]], np.float32)
    assert errors(a, b, np.array([[-5 + 11 * 3 * 2.0**-24]])).item() == pytest.approx(3)


def measured(name: str, builds) -> dict[str, dict]:
    """The emulator's rows of a kernel at the smallest k, by kind of data."""
    kernel, device = catalogue.load().find(name), EmulatedDevice(builds(name))
    return {row["data"]: row for row in measure(device, kernel, KS[0])}


def test_the_emulator_gives_a_row_for_each_kind_of_data(builds) -> None:
    rows = measured("tf32gemm_bcf_dbf", builds)
    assert list(rows) == list(DATA) and {row["elements"] for row in rows.values()} == {32**2}
    # Where its factors are cut off, a product of positive numbers loses at most 2^-10 of itself,
    # and two thirds of that on average.
    assert 0.5 * 2**14 < rows["positive"]["rms"] < rows["positive"]["worst"] < 2**14


@pytest.mark.parametrize("name", ["sgemm_naive", "sgemm_3xtf32_wgmma_outside", "tf32gemm_bcf_dbf"])
def test_the_emulator_gives_the_archived_rows(name: str, builds) -> None:
    archived = [row for row in dict_rows(TABLE, ErrorOverK) if row["device"] == "ptxsim"]
    if not archived:
        pytest.skip("a GPU's table")
    before = {row["data"]: row for row in archived if (row["variant"], row["k"]) == (name, KS[0])}
    for data, row in measured(name, builds).items():
        for key in ("code_hash", "elements"):
            assert row[key] == before[data][key]
        for key in ("rms", "worst"):
            assert row[key] == pytest.approx(before[data][key], rel=1e-6)


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
