"""What the explorer's page holds, without a browser."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT

from analysis.explorer import __main__ as command
from analysis.explorer.content import CHARTS, LADDERS, Sources, claims, core, measured, parts, significant
from analysis.findings import FINDINGS
from analysis.results import Results
from contracts import UserError

pytestmark = pytest.mark.usefixtures("in_root")
FAILED = "sgemm_warptile"


def archive(variants: Path, name: str = "h100") -> Results:
    return Results(ROOT / "data" / name, variants)


def rows_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_fractions_are_the_interleaved_ones_of_the_timings(variants_csv: Path) -> None:
    results = archive(variants_csv)
    keys = ["experiment", "variant", "n", "data", "clock_policy"]
    expected = results.squares.set_index(keys)
    found = rows_of(measured(results)["timings"])
    assert len(found) == len(expected) > 1000
    for row in found:
        timing = expected.loc[tuple(row[key] for key in keys)]
        for column in ("fraction", "fraction_low", "fraction_high", "tflops"):
            assert row[column] == significant(float(timing[column])), (row["variant"], row["n"], column)


def test_a_kernel_that_failed_a_check_is_named_and_has_no_number(tmp_path: Path, variants_csv: Path) -> None:
    folder = tmp_path / "h100"
    folder.mkdir()
    for path in (ROOT / "data" / "h100").iterdir():
        if path.name != "archived.json":  # its checksums are of the checks as they were
            (folder / path.name).symlink_to(path)
    with (folder / "checks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    next(row for row in rows if row["variant"] == FAILED)["passed"] = "false"
    (folder / "checks.csv").unlink()
    with (folder / "checks.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    sources = Sources([Results(folder, variants_csv)], tmp_path, tmp_path)
    assert [row["variant"] for row in core(sources)["gpus"][0]["failed"]] == [FAILED]
    numbers = parts(sources)["gpu0"]
    named = {row["variant"] for table in ("timings", "counters") for row in rows_of(numbers[table])}
    assert FAILED not in named | set(numbers["minimum_cycles"]) and "sgemm_vectorized" in named


def test_a_claim_has_one_entry_with_a_verdict_for_each_gpu() -> None:
    row = {"worklog": "w", "id": "a", "claim": "Faster.", "kind": "mechanism", "rule_hash": "0"}
    found = claims([row | {"gpu": "h100", "verdict": "holds"}, row | {"gpu": "h200", "verdict": "does not hold"}])
    (claim,) = found
    assert [(one["gpu"], one["verdict"]) for one in claim["gpus"]] == [("h100", "holds"), ("h200", "does not hold")]
    assert claims([row | {"gpu": "any"}, row | {"worklog": "other", "gpu": "any"}])[1]["worklog"] == "other"


def test_without_report_tables_the_page_has_no_claims_findings_and_pictures(tmp_path: Path, variants_csv: Path) -> None:
    sources = Sources([archive(variants_csv)], tmp_path / "none", tmp_path / "none")
    found = core(sources)
    assert found["findings"] == [] and found["claims"] == 0 and found["pictures"] == {}


def test_every_rung_of_a_ladder_names_its_worklog_and_has_its_source(tables: Path, variants_csv: Path) -> None:
    sources = Sources([archive(variants_csv)], tables, tables)
    found, texts = core(sources), parts(sources)["sources"]
    assert found["kernels"][FAILED]["worklog"] == "boehm_sgemm"
    assert found["kernels"]["sgemm_tma"]["worklog"] == "ours"
    assert found["kernels"]["cublas_fp32"]["worklog"] == "library"
    assert all(kernel["source"] in texts for kernel in found["kernels"].values() if kernel["kind"] == "kernel")
    assert found["pictures"] == {"padded_rows": ["sgemm_blocktile_2d_padded"]}


def test_the_gpu_of_one_process_says_so(tables: Path, variants_csv: Path) -> None:
    gpus = core(Sources([archive(variants_csv), archive(variants_csv, "h200")], tables, tables))["gpus"]
    assert [(gpu["model"], gpu["processes"]) for gpu in gpus] == [("H100", 5), ("H200", 1)]


def test_what_shows_a_finding_is_there(variants_csv: Path, tables: Path) -> None:
    found = core(Sources([archive(variants_csv)], tables, tables))
    ladders = {ladder["name"] for ladder in found["ladders"]}
    assert set(LADDERS) <= ladders
    for name, state in CHARTS.items():
        kernels = [state[key] for key in ("a", "b") if key in state] + [*filter(None, state.get("draw", "").split(","))]
        assert set(kernels) <= set(found["kernels"]), name
        assert state.get("ladder", "sgemm_ladder.").partition(".")[0] in ladders, name
        assert name in FINDINGS


def test_findings_that_are_no_list_are_one_clear_line(tmp_path: Path, variants_csv: Path) -> None:
    (tmp_path / "findings.json").write_text("{}")
    with pytest.raises(UserError, match=r"findings\.json: dict is not allowed; allowed: a list"):
        core(Sources([archive(variants_csv)], tmp_path, tmp_path))


def test_the_page_is_one_small_file_whose_parts_unpack(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text()
    assert 500_000 < len(text.encode()) < 5_000_000
    packed = dict(re.findall(r'<script type="application/gzip" id="part-(\w+)">(.*?)</script>', text))
    assert set(packed) == {"gpu0", "gpu1", "claims", "sources", "pictures", "vega"}
    unpacked = {name: gzip.decompress(base64.b64decode(part)).decode() for name, part in packed.items()}
    assert json.loads(unpacked["pictures"])["padded_rows"]["svg"].startswith("<svg")
    assert "vegaEmbed" in unpacked["vega"]
    arguments = [
        "explorer",
        "--results",
        "data/h100",
        "--catalogue",
        "x",
        "--tables",
        "x",
        "--figures",
        "x",
        "--out",
        "x",
    ]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(command, "page", lambda sources: "a" * 5_000_001)
    with pytest.raises(UserError, match="5,000,001 bytes is not allowed; allowed: at most 5,000,000"):
        command.main()
