"""The rules of `ptxsim.count.wavefronts` against what Nsight Compute counted on each archived
GPU.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest
from helpers import ROOT

from contracts.rows import archives
from ptxsim.count import wavefronts

TABLES = [folder / "smem_microbench.csv" for folder in archives(ROOT)]
ROWS = [row for table in TABLES for row in csv.DictReader(table.open()) if row["threads"] == "32"]
MATRICES = {"ldmatrix_x1": 1, "ldmatrix_x2": 2, "ldmatrix_x4": 4, "ldmatrix_x4_trans": 4}
CP_ASYNC_OVERHEAD = 3  # wavefronts that each cp.async.ca has besides its writes, by this counter


def numbers(text: str) -> np.ndarray:
    """One warp's offsets."""
    return np.array(text.split(), np.int64)[None]


def rows_of(access: str) -> list[dict[str, str]]:
    """Its measured patterns; there are many, or the test would say little."""
    rows = [row for row in ROWS if row["access"] == access]
    assert len(rows) > 60
    return rows


def measured(row: dict[str, str]) -> int:
    """Wavefronts per access; a launch has one or two of its own, over 64 accesses."""
    value = float(row["wavefronts"])
    assert value - round(value) < 0.05
    return round(value)


@pytest.mark.parametrize("access", ["ld_32", "ld_64", "ld_128", "st_32", "st_64", "st_128"])
def test_loads_and_stores_are_exact_on_every_pattern(access: str) -> None:
    width = int(access.split("_")[1]) // 8
    for row in rows_of(access):
        waves, _ = wavefronts.shared(
            numbers(row["offsets"]), np.ones((1, 32), bool), width, access.startswith("st")
        )
        assert waves[0] == measured(row), row["pattern"]


@pytest.mark.parametrize("access", MATRICES)
def test_ldmatrix_is_exact_on_every_pattern(access: str) -> None:
    active = (np.arange(32) < 8 * MATRICES[access])[None]
    for row in rows_of(access):
        assert wavefronts.ldmatrix(numbers(row["offsets"]), active)[0][0] == measured(row), row[
            "pattern"
        ]


@pytest.mark.parametrize("access", ["cp_async_ca_4", "cp_async_ca_8", "cp_async_ca_16"])
def test_cp_async_is_exact_where_lanes_copy_different_words_to_different_places(
    access: str,
) -> None:
    width, tried = int(access.split("_")[-1]), 0
    for row in rows_of(access):
        to, source = numbers(row["offsets"]), numbers(row["source"])
        if len(set(to[0])) < 32 or len(set(source[0])) < 32:
            continue  # two lanes to one place is a race; two from one word cost a wavefront each
        tried += 1
        waves, _ = wavefronts.cp_async(
            to, np.ones((1, 32), bool), width, source, np.ones((1, 32), bool)
        )
        assert waves[0] + CP_ASYNC_OVERHEAD == measured(row), row["pattern"]
    assert tried > 30


def test_cp_async_past_l1_counts_the_same_for_every_pattern() -> None:
    """The pipe's counter does not see the writes of cp.async.cg."""
    assert {measured(row) for row in rows_of("cp_async_cg_16")} == {3}
