"""The rules of `ptxsim.count.wavefronts` against what ncu counted on each archived GPU."""

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
CP_ASYNC_OVERHEAD = (
    3  # This counter has so many wavefronts for each cp.async.ca besides its writes.
)


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


def modelled(access: str, row: dict[str, str]) -> int | None:
    """Wavefronts by the rules; None where lanes of a copy share a destination or a source.

    Two lanes to one destination are a race; two from one word cost a wavefront each.
    """
    to, lanes = np.array(row["offsets"].split(), np.int64)[None], np.ones((1, 32), bool)
    if access in MATRICES:
        lanes = (np.arange(32) < 8 * MATRICES[access])[None]
        return int(wavefronts.ldmatrix(to, lanes)[0][0])
    kind, width = access.split("_")[0], int(access.split("_")[-1])
    if kind != "cp":
        return int(wavefronts.shared(to, lanes, width // 8, kind == "st")[0][0])
    source = np.array(row["source"].split(), np.int64)[None]
    if len(set(to[0])) < 32 or len(set(source[0])) < 32:
        return None
    return int(wavefronts.cp_async(to, lanes, width, source, lanes)[0][0]) + CP_ASYNC_OVERHEAD


@pytest.mark.parametrize(
    "access",
    [
        *("ld_32", "ld_64", "ld_128", "st_32", "st_64", "st_128", *MATRICES),
        *("cp_async_ca_4", "cp_async_ca_8", "cp_async_ca_16"),
    ],
)
def test_wavefronts_are_exact_on_every_pattern(access: str) -> None:
    counts = [(row["pattern"], modelled(access, row), measured(row)) for row in rows_of(access)]
    known = [count for count in counts if count[1] is not None]
    assert len(known) > 30
    assert [count for count in known if count[1] != count[2]] == []


def test_cp_async_past_l1_counts_the_same_for_every_pattern() -> None:
    """The pipe's counter does not see the writes of cp.async.cg."""
    assert {measured(row) for row in rows_of("cp_async_cg_16")} == {3}
