"""The paper's tables follow from the measured ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import ROOT
from machine_folder import Folder, warptile_fails

from analysis import data
from contracts import read_rows, schema
from experiments import declarations


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


@pytest.mark.xfail(strict=True, reason="measured by name, and not again since the kernels' sources changed")
def test_the_paper_s_tables_follow_from_the_measured_ones(folder: Folder, tmp_path: Path) -> None:
    made = folder.tables(tmp_path / "tables")
    assert set(made) >= {
        "ladder",
        "sizes",
        "data_kinds",
        "wave_quantization",
        "resources",
        "checks",
        "counters",
        "comparison",
    }
    keys = ("experiment", "variant", "n", "data")
    bench = {tuple(r[k] for k in keys): r for r in folder.rows("bench") if r["experiment"] != "clock_regimes"}
    timed = made["ladder"] + made["sizes"]
    assert len(timed) == len(bench)
    for row in timed:
        source = bench[row["experiment"], row["variant"], int(row["n"]), row["data"]]
        flop = 2e-6 * source["m"] * source["n"] * source["k"]
        assert float(row["tflops"]) == pytest.approx(flop / source["time_us_median"], rel=1e-4)
        assert float(row["tflops_ci_low"]) <= float(row["tflops"]) <= float(row["tflops_ci_high"])
        assert float(row["share_percent"]) == pytest.approx(100 * source["share_of_baseline"], rel=1e-4)
        assert row["stale"] == "false" and row["clock_held"] in ("true", "false")
    swept = {"sgemm_sizes", "size_dispatch", "sgemm_sweep", "hgemm_sweep"}
    assert {row["experiment"] for row in made["sizes"]} == swept


def test_a_gain_is_over_the_rung_that_it_builds_on(folder: Folder, tmp_path: Path) -> None:
    rows = {r["variant"]: r for r in folder.tables(tmp_path / "t")["ladder"] if r["experiment"] == "sgemm_ladder"}
    gain = float(rows["sgemm_coalesced"]["tflops"]) / float(rows["sgemm_naive"]["tflops"])
    assert float(rows["sgemm_coalesced"]["gain"]) == pytest.approx(gain, rel=1e-4)
    assert rows["sgemm_naive"]["gain"] == "" and rows["cublas_fp32"]["gain"] == ""


def test_counts_of_checks_and_resources(folder: Folder, tmp_path: Path) -> None:
    folder.edit("checks", warptile_fails)
    made = folder.tables(tmp_path / "t")
    for device, failed in (("gpu", 1), ("ptxsim", 0)):
        cases = [r for r in folder.rows("checks") if (r["variant"], r["device"]) == ("sgemm_warptile", device)]
        (checked,) = [r for r in made["checks"] if (r["variant"], r["device"]) == ("sgemm_warptile", device)]
        assert (int(checked["cases"]), int(checked["failed"])) == (len(cases), failed)
    assert not any(row["variant"] == "sgemm_warptile" for row in made["ladder"] + made["sizes"] + made["counters"])
    resources = {row["variant"]: row for row in made["resources"]}
    for source in folder.rows("resources"):
        row = resources[source["variant"]]
        assert int(row["registers"]) == source["registers"]
        assert float(row["occupancy_percent"]) == pytest.approx(100 * source["occupancy"])


def test_labels_are_marked_also_where_there_are_no_rows() -> None:
    """As when the only kernel that took part failed; a column of no rows may have any dtype."""
    rows = pd.DataFrame({"label": ["naive", "warptile"], "stale": [False, True]})
    assert list(data.marked(rows)) == ["naive", "warptile†"]
    none = pd.DataFrame({"label": pd.Series([], dtype="float64"), "stale": pd.Series([], dtype="object")})
    assert list(data.marked(none)) == []


def test_what_fails_on_the_emulator_alone_is_withheld_too(folder: Folder, tmp_path: Path) -> None:
    """Without a GPU an edited kernel is known to be wrong only from there."""

    def fails(row: dict[str, Any]) -> dict[str, Any] | None:
        bad = (row["variant"], row["device"], row["case"]) == ("sgemm_naive", "ptxsim", "one tile, one k-step")
        return {"passed": False, "detail": "ptxsim: a race"} if bad else None

    folder.edit("checks", fails)
    made = folder.tables(tmp_path / "t")
    assert not any(row["variant"] == "sgemm_naive" for row in made["ladder"] + made["counters"])
    assert any(row["variant"] == "sgemm_coalesced" for row in made["ladder"])


def test_the_comparison_names_the_better_value(folder: Folder, tmp_path: Path) -> None:
    rows = folder.tables(tmp_path / "t")["comparison"]
    duration = next(row for row in rows if "uration" in row["metric"])
    assert float(duration["vectorized"]) < float(duration["blocktile_2d"]) and duration["better"] == "vectorized"
    assert {row["better"] for row in rows} <= {"", "same", "vectorized", "blocktile_2d"}


def test_the_summary_says_what_is_archived_and_what_is_stale(folder: Folder, archived_gpu: str, tmp_path: Path) -> None:
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_naive" else None)
    folder.edit("checks", warptile_fails)
    folder.tables(tmp_path / "t")
    summary = json.loads((tmp_path / "t" / "summary.json").read_text())
    assert summary["archived"] and summary["origin"].startswith(f"archived: {archived_gpu}")
    assert summary["stale"] == ["naive"] and summary["failed"][0]["label"] == "warptile"
    ladder_entry = next(entry for entry in summary["experiments"] if entry["name"] == "sgemm_ladder")
    timed = {row["variant"] for row in folder.rows("bench") if row["experiment"] == "sgemm_ladder"}
    labels = {row["variant"]: row["label"] for row in folder.rows("variants")}
    added = [labels[v] for v in declarations.load("sgemm_ladder").variants if v not in timed]  # since it was archived
    assert ladder_entry["missing"] == added and ladder_entry["best"][0]["label"] != "warptile"


def test_every_counter_that_figures_read_is_collected(archive: Path) -> None:
    """Names in contracts/metrics.yaml are those that the archive has, and analysis asks for no other."""
    names = data.metric_names()
    archived = {row["metric"] for row in read_rows(archive / "counters.csv", "counters")}
    assert archived <= set(names)
    text = "".join(path.read_text() for path in (ROOT / "analysis").glob("*.py"))
    for match in re.findall(r'column\(\w+, "(\w+)"\)', text):
        assert match in names.values(), match


def test_tables_have_every_column_where_there_are_no_rows() -> None:
    assert list(data.table([], "bench").columns) == list(schema("bench")["properties"])
