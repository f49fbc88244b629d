"""Predicted counters are compared with measured ones."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from machine_folder import Folder

from analysis import data
from analysis.tables import predicted
from contracts import write_rows


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


def test_the_table_of_predictions_has_the_relative_difference(folder: Folder, tmp_path: Path) -> None:
    """Conflicts are compared as wavefronts; a stale kernel is left out, and exact counts stay exact."""
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
    counted = [row for row in folder.rows("counters") if row["metric"] in (wavefronts, conflicts)]
    shift = {wavefronts: 0, conflicts: 1000}
    own = [row | {"value": row["value"] + shift[row["metric"]]} for row in counted]
    write_rows(tmp_path / "predictions.csv", "counters", own)
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_warptile" else None)
    done = folder.made(tmp_path, "predicted", tables={"predictions": tmp_path / "predictions.csv"})
    assert done.returncode == 0, done.stderr
    out = tmp_path / "predicted.csv"
    rows = {(row["variant"], row["metric"]): row for row in csv.DictReader(out.open())}
    assert "sgemm_warptile" not in {variant for variant, _ in rows}
    exact, off = rows["sgemm_vectorized", wavefronts], rows["sgemm_vectorized", conflicts]
    assert exact["predicted"] == exact["measured"] and float(exact["difference_percent"]) == 0
    assert exact["counter"] == "Shared load wavefronts" and exact["n"] == "4096"
    assert float(off["difference_percent"]) == pytest.approx(100 * 1000 / float(exact["measured"]), rel=1e-6)


def test_a_table_without_predictions_has_no_rows() -> None:
    none = data.table([], "counters").assign(stale=[], label=[])
    assert predicted.counter_table(predicted.differences(none, data.table([], "counters"))).empty
