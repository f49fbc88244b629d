"""The archives are whole as far as they go, and of the kernels that this tree has."""

from __future__ import annotations

import csv

import pytest
from helpers import ROOT

from contracts import archives, read_json
from contracts.files import read_bytes
from contracts.validation import LIMIT_BYTES
from experiments.stages import archive as stage

# Entries that changed after parts of an archive were measured
AWAITED = {
    "h100": {"hgemm_best_bf16", *(f"hgemm_transposed_64x64{k8}_{t}" for k8 in ("", "_k8") for t in ("bf16", "fp16"))},
    "h200": {
        *("sgemm_autotuned", "sgemm_autotuned_a6000", "tf32gemm_naive", "tf32gemm_bcf", "tf32gemm_bcf_8rows"),
        *("hgemm_naive_bf16", "hgemm_naive_fp16", "hgemm_bcf_bf16", "hgemm_bcf_fp16"),
    },
}


@pytest.mark.parametrize("folder", archives.folders(ROOT), ids=lambda folder: folder.name)
def test_each_archived_file_says_which_run_it_is_from_and_is_as_it_was(folder) -> None:  # type: ignore[no-untyped-def]
    origins = read_json(folder / archives.ORIGINS, "archived")
    measured = ("windows.csv", "checks.csv", "counters.csv", "resources.csv")  # of one run
    assert len({origins[name]["commit"] for name in measured}) == 1 and stage.misnamed(folder) == []
    for name in origins:
        archives.check(folder / name, read_bytes(folder / name, LIMIT_BYTES))


@pytest.mark.parametrize("folder", archives.folders(ROOT), ids=lambda folder: folder.name)
def test_no_archived_row_is_of_other_machine_code(folder) -> None:  # type: ignore[no-untyped-def]
    """What fails is listed: archive resources.csv again where only a source changed, or measure it again."""
    now, stale = stage.hashes_of(folder), set()
    for table in folder.glob("*.csv"):
        with table.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if "code_hash" in row and row.get("variant") in now]
        stale |= {(row["variant"], table.name) for row in rows if row["code_hash"] != now[row["variant"]]}
    assert {variant for variant, _ in stale} <= AWAITED.get(folder.name, set()), sorted(stale)
