"""What the explorer's page holds: the tables' numbers as they are, and none of a kernel that failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from explorer_page import data_of, held, make
from helpers import run_module
from machine_folder import Folder, warptile_fails
from made_inputs import write_inputs

from analysis.explorer.content import QUANTITIES, rests_on, shown_metrics
from analysis.statistics import SHARE
from contracts import read_rows


def timings(machine: dict[str, Any]) -> list[dict[str, Any]]:
    """A machine's timings, by column."""
    packed = machine["bench"]
    return [dict(zip(packed["columns"], row, strict=True)) for row in packed["rows"]]


def test_numbers_are_those_of_the_tables(page: Path, archive: Path) -> None:
    data = data_of(page)
    measured, predicted = data["machines"]
    known = {(r["experiment"], r["variant"], r["n"], r["data"]): r for r in read_rows(archive / "bench.csv", "bench")}
    rows = timings(measured)
    assert len(rows) == len(known)
    shown, (_, least, most) = {row["key"] for row in QUANTITIES}, SHARE
    for row in rows:
        source = known[row["experiment"], row["variant"], row["n"], row["data"]]
        assert all(row[key] == source[key] for key in shown if key in row), row
        assert row["tflops_low"] <= row["tflops"] <= row["tflops_high"]
        assert row[least] <= source[least] and source[most] <= row[most]
    one = measured["counters"]["sgemm_warptile"]["4096"]
    counters = read_rows(archive / "counters.csv", "counters")
    of = [
        r
        for r in counters
        if r["variant"] == "sgemm_warptile" and r["n"] == 4096 and r["metric"] == "sm__inst_executed.sum"
    ]
    assert measured["counters"]["sgemm_warptile"]["4096"]["ipc_active"] > 1 and of and one["registers"] > 0
    assert predicted["name"] == "ptxsim" and not predicted["bench"]["rows"] and predicted["counters"]["sgemm_warptile"]
    bounds = [
        r for r in read_rows(archive / "bounds.csv", "bounds") if r["variant"] == "sgemm_naive" and r["n"] == 4096
    ]
    assert data["bounds"]["sgemm_naive"]["4096"] == {r["resource"]: r["cycles_per_sm"] for r in bounds}


def test_of_equal_timings_the_one_with_the_most_samples_is_first(page: Path) -> None:
    rows = timings(data_of(page)["machines"][0])
    same = [
        r
        for r in rows
        if (r["variant"], r["n"], r["regime"], r["data"]) == ("sgemm_warptile", 4096, "unlocked", "uniform")
    ]
    assert len(same) > 1 and [r["samples"] for r in same if r["first"]] == [max(r["samples"] for r in same)]


def test_a_kernel_that_failed_is_named_and_has_no_number(archive: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path, archive)
    folder.edit("checks", warptile_fails)
    data = held(tmp_path, folder.measured, folder.variants)
    assert [(one["variant"], one["case"]) for one in data["failed"]] == [("sgemm_warptile", "large")]
    for machine in data["machines"]:
        assert "sgemm_warptile" not in {row["variant"] for row in timings(machine)} | set(machine["counters"])
    assert "sgemm_warptile" not in data["bounds"] and "sgemm_warptile" not in data["resources"]
    assert "sgemm_warptile" in {kernel["variant"] for kernel in data["kernels"]}


def test_another_machine_stands_next_to_this_one(archive: Path, tmp_path: Path) -> None:
    """Another day on the same GPU, on which a kernel failed: that has numbers of the first day only."""
    other = Folder(tmp_path / "other", archive)
    other.edit("checks", warptile_fails)
    provenance = other.measured / "provenance.json"
    provenance.write_text(json.dumps(json.loads(provenance.read_text()) | {"date": "2031-01-01"}))
    machines = held(tmp_path, archive, other.variants, other_runs=[str(other.measured)])["machines"]
    assert [one["name"].rpartition(", ")[2] for one in machines][1:] == ["2031-01-01", "ptxsim"]
    there = ["sgemm_warptile" in {row["variant"] for row in timings(one)} for one in machines]
    assert there == [True, False, False] and len(timings(machines[1])) > 100


def test_predictions_alone_make_a_page(archive: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path, archive)
    for name in ("bench", "counters"):
        folder.edit(name, lambda row: row, keep=lambda row: False)
    data = held(tmp_path, folder.measured, folder.variants)
    assert [machine["name"] for machine in data["machines"]] == ["ptxsim"]
    assert data["bounds"]["sgemm_warptile"]["4096"] and data["claims"] == []


def test_every_claim_is_there_with_what_it_rests_on(page: Path) -> None:
    rows = read_rows(page.parent / "tables" / "claims.csv", "claims_table")
    found = {claim["id"]: claim for claim in data_of(page)["claims"]}
    assert set(found) == {row["id"] for row in rows}
    assert all(found[row["id"]]["verdict"] == row["verdict"] for row in rows)
    tested = [row["id"] for row in rows if row["verdict"] == "holds"]
    assert sum("measure" in found[name] for name in tested) > 0.9 * len(tested)
    known = {kernel["variant"] for kernel in data_of(page)["kernels"]}
    assert all(name in known for claim in found.values() for rest in claim.get("rests", []) for name in rest["kernels"])


def test_a_measure_leads_to_its_kernels_and_metric() -> None:
    keys = {metric["id"] for metric in shown_metrics()}
    variants = ["sgemm_naive", "sgemm_coalesced", "cublas_fp32"]
    measure = 'cublas_fp32.speedup[over=sgemm_naive] + sgemm_coalesced.dram_read - published("a-b")'
    shown = [(rest["view"], rest["kernels"], rest.get("shows")) for rest in rests_on(measure, variants, keys)]
    assert shown == [("sizes", ["sgemm_naive", "cublas_fp32"], "tflops"), ("pair", ["sgemm_coalesced"], "dram_read")]
    assert rests_on("sgemm_naive.registers", variants, keys)[0]["shows"] == "resources.registers"
    assert rests_on("", variants, keys) == []


def test_metrics_have_a_name_each() -> None:
    names = [metric["id"] for metric in shown_metrics()]
    assert len(names) == len(set(names)) and {"registers", "resources.registers", "bounds.registers"} <= set(names)


def test_text_cannot_leave_the_data(archive: Path, tmp_path: Path, variants_csv: Path) -> None:
    """A title with a tag in it stays text: the page's script ends where the page says."""
    inputs = write_inputs(tmp_path / "planned.json", archive, variants_csv)
    experiments = json.loads(inputs.read_text())["experiments"]
    experiments["sgemm_ladder"]["title"] = "</script><b>bold</b>"
    page = make(tmp_path, archive, variants_csv, experiments=experiments)
    assert "</script><b>" not in page.read_text()
    assert "</script><b>bold</b>" in [one["title"] for one in data_of(page)["experiments"]]


def test_a_picture_that_is_not_there_is_reported(archive: Path, tmp_path: Path, variants_csv: Path) -> None:
    inputs = write_inputs(tmp_path / "inputs.json", archive, variants_csv)
    out = ("--out", tmp_path / "explorer.html")
    done = run_module("analysis.explorer", "--inputs", inputs, "--figures", tmp_path, *out, "swizzled")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "banks_swizzled.svg" in done.stderr and not out[1].exists()
