"""The archives are whole as far as they go, and of the kernels that this tree has."""

from __future__ import annotations

import csv

import pytest
from helpers import ROOT, json_dict

from contracts import is_rehearsal, read_json
from contracts.files import LIMIT_BYTES, checksum, read_bytes
from contracts.rows import ORIGINS, Archived, Machine, Provenance, archives
from experiments.stages import archive as stage

# Dispatchers that choose among other kernels since an archive was measured, by the archive. Their rows do not count in
# it, and are named. Measured again it has none, and must leave this list.
CHOOSE_OTHERS = {
    "h100": {"sgemm_3xtf32_best", "sgemm_best", "hgemm_best_bf16", "hgemm_best_bcol_bf16"}
}
# An archive without sessions is older, and has rows of kernels that have changed since.
WHOLE = [one for one in archives(ROOT) if read_json(one / "provenance.json", Provenance).sessions]


@pytest.mark.parametrize("folder", archives(ROOT), ids=lambda folder: folder.name)
def test_each_archived_file_says_which_run_it_is_from_and_is_as_it_was(folder) -> None:  # type: ignore[no-untyped-def]
    origins = json_dict(folder / ORIGINS, Archived)
    measured = ("windows.csv", "checks.csv", "counters.csv", "resources.csv")  # of one run
    assert len({origins[name]["commit"] for name in measured}) == 1 and stage.misnamed(folder) == []
    assert not is_rehearsal(json_dict(folder / "machine.json", Machine)["gpu"])
    for name in origins:
        assert checksum(read_bytes(folder / name, LIMIT_BYTES)) == origins[name]["sha256"], name


@pytest.mark.parametrize("folder", WHOLE, ids=lambda folder: folder.name)
def test_no_archived_row_is_of_other_machine_code(folder) -> None:  # type: ignore[no-untyped-def]
    """What fails is listed: archive resources.csv again where only a source changed, or measure it
    again.
    """
    now, origins = stage.hashes_of(folder), json_dict(folder / ORIGINS, Archived)
    stale = set()
    for table in folder.glob("*.csv"):
        if origins.get(table.name, {}).get("commit") != origins["windows.csv"]["commit"]:
            continue  # `archive check` names a table of another commit
        for row in csv.DictReader(table.read_text().splitlines()):
            code, name = row.get("code_hash"), row.get("variant")
            if code and name in now and code != now[name]:
                stale.add((name, table.name))
    assert {name for name, _ in stale} == CHOOSE_OTHERS.get(folder.name, set()), sorted(stale)
