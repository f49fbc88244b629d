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
AWAITED = {"h200": {"emulator_next_to_gpu.csv", "dispatch.csv"}}


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
            rows = [row for row in csv.DictReader(file) if {"variant", "code_hash"} <= row.keys()]
        stale |= {(table.name, row["variant"]) for row in rows if row["code_hash"] != now.get(row["variant"])}
    assert {table for table, _ in stale} <= AWAITED.get(folder.name, set()), sorted(stale)
