"""The archives are whole as far as they go, and of the kernels that this tree has."""

from __future__ import annotations

import csv

import pytest
from helpers import ROOT

from contracts import archives, read_json
from contracts.files import read_bytes
from contracts.validation import LIMIT_BYTES
from experiments.stages import archive as stage

# Kernels whose sources changed since parts of data/h200 were measured
AWAITED = {"h200": {"emulator_next_to_gpu.csv", "cross_checks.csv", "dispatch.csv"}}


@pytest.mark.parametrize("folder", archives.folders(ROOT), ids=lambda folder: folder.name)
def test_each_archived_file_says_which_run_it_is_from_and_is_as_it_was(folder) -> None:  # type: ignore[no-untyped-def]
    origins = read_json(folder / archives.ORIGINS, "archived")
    measured = ("windows.csv", "checks.csv", "counters.csv", "resources.csv")  # of one run
    assert len({origins[name]["commit"] for name in measured}) == 1 and stage.misnamed(folder) == []
    for name in origins:
        archives.check(folder / name, read_bytes(folder / name, LIMIT_BYTES))


@pytest.mark.parametrize("folder", archives.folders(ROOT), ids=lambda folder: folder.name)
def test_no_archived_row_is_of_another_source(folder) -> None:  # type: ignore[no-untyped-def]
    """Measure what is listed again, or show that its machine code is the same: docs/use.md says how."""
    now = {(name, source) for name, source in stage.hashes_of(folder).items()}
    same = folder / "same_code.csv"
    if same.is_file():
        with same.open(newline="") as file:
            now |= {(row["variant"], row["measured_hash"]) for row in csv.DictReader(file)}
    stale = set()
    for table in folder.glob("*.csv"):
        with table.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if {"variant", "source_hash"} <= row.keys()]
        stale |= {(table.name, row["variant"]) for row in rows if (row["variant"], row["source_hash"]) not in now}
    assert {table for table, _ in stale} <= AWAITED.get(folder.name, set()), sorted(stale)
