"""The data layer: what failed is left out and named, what is stale is marked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from machine_folder import Folder, warptile_fails

from analysis import data
from analysis.inputs import Inputs
from contracts import archives, read_json, write_rows
from kernels import catalogue


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


def test_what_was_measured_is_read_whole(folder: Folder, archived_gpu: str) -> None:
    measured = folder.read()
    for name in ("bench", "checks", "counters"):
        rows = getattr(measured, name)
        assert len(rows) == len(folder.rows(name)) and not rows["stale"].any()
        assert list(rows["order"]) == sorted(rows["order"])
    assert measured.failed.empty and measured.gone == []
    provenance = read_json(folder.measured / "provenance.json", "provenance")
    assert measured.origin == f"archived: {archived_gpu}, {provenance['date']}"
    assert folder.read(archived=False).origin.startswith(f"measured: {archived_gpu}")


def test_a_failed_variant_is_in_no_performance_table(folder: Folder) -> None:
    folder.edit("checks", warptile_fails)
    measured = folder.read()
    assert "sgemm_warptile" not in set(measured.bench["variant"]) | set(measured.counters["variant"])
    assert "sgemm_vectorized" in set(measured.bench["variant"])
    assert "sgemm_warptile" in set(measured.checks["variant"])
    (failed,) = measured.failed.to_dict(orient="records")
    cases = sum(row["variant"] == "sgemm_warptile" for row in folder.rows("checks"))
    assert failed == {
        "variant": "sgemm_warptile", "label": "warptile", "cases": cases, "failed": 1, "case": "large",
        "detail": "1 elements are not finite",
    }  # fmt: skip


def test_rows_of_a_changed_source_are_stale(folder: Folder) -> None:
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_naive" else None)
    measured = folder.read()
    for rows in (measured.bench, measured.checks, measured.counters):
        assert set(rows.loc[rows["stale"], "variant"]) == {"sgemm_naive"}
    assert set(data.marked(measured.bench)) >= {"naive†", "coalesced"}
    assert data.stale_variants(measured.bench, measured.checks) == ["sgemm_naive"]


def test_a_kernel_is_held_to_the_tile_that_won_on_the_archive_s_own_gpu(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    record = json.loads((archive / "tuned.json").read_text())
    record["kernels"]["sgemm_autotuned"]["template"]["BK"] += 8
    (other / "tuned.json").write_text(json.dumps(record))
    shutil.copy(archive / "dispatch.csv", other)
    monkeypatch.setattr(archives, "folders", lambda root: [archive, other])
    write_rows(tmp_path / "variants.csv", "variants", catalogue.load().rows())
    found = {}
    for folder in (archive, other):
        known = Inputs.of_folder(folder, tmp_path / "variants.csv", archived=True).variants
        found[folder] = dict(zip(known["variant"], known["source_hash"], strict=True))
    assert found[other] == {name: one.source_hash for name, one in catalogue.load(other / "tuned.json").items()}
    assert {name for name, one in found[archive].items() if found[other][name] != one} == {"sgemm_autotuned"}


def test_a_variant_that_is_no_more_is_named_and_left_out(folder: Folder) -> None:
    folder.edit("variants", lambda row: None, keep=lambda row: row["variant"] != "sgemm_coalesced")
    measured = folder.read()
    assert measured.gone == ["sgemm_coalesced"]
    assert "sgemm_coalesced" not in set(measured.bench["variant"]) | set(measured.checks["variant"])


def test_labels_are_made_unique() -> None:
    """Two of one label get their precision; two of one label and precision their whole names."""
    names = ["sgemm_naive", "hgemm_naive", "a_tiled", "b_tiled", "other"]
    frame = pd.DataFrame({"variant": names, "dtype": ["fp32", "bf16", "fp32", "fp32", "fp16"]})
    frame["label"] = ["naive", "naive", "tiled", "tiled", "other"]
    expected = ["naive fp32", "naive bf16", "a_tiled", "b_tiled", "other"]
    assert list(data.with_labels(frame)["label"]) == expected
