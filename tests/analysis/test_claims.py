"""The worklogs' claims: this project's files, their verdicts on the archives, and what a wrong file
says.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from helpers import ROOT, assert_one_line, dict_rows, refused, run_module

from analysis import claims
from analysis.results import Results
from analysis.tables.published import published_table
from contracts import load_yaml, worklogs, write_rows
from contracts.declared import RecordedVerdict, TableRow

PAPER = ROOT / worklogs.FOLDER
GOOD = {"id": "one", "line": 30, "quote": "a b", "claim": "C.", "kind": "anywhere"}
GOOD |= {"test": 'published("naive-gflops") > 0'}


def test_a_claim_has_one_verdict_where_no_gpu_takes_part_and_else_one_for_each(made: Path) -> None:
    # `--check` compared them with verdicts.csv
    rows = dict_rows(made / "tables" / "claims.csv", TableRow)
    kinds = {(row["worklog"], row["id"]): row["kind"] for row in rows}
    gpus: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        gpus.setdefault((row["worklog"], row["id"]), []).append(row["gpu"])
        wrong_text = (row["kind"], row["verdict"]) == ("anywhere", "does not hold")
        assert wrong_text or not row["slip"], row["id"]
        measured = row["gpu"] != "h200" and row["verdict"] != "not measured"
        assert not (measured and "not measured" in (row["remark"] or "")), row["id"]
    assert len(kinds) <= 190
    for key, kind in kinds.items():
        assert gpus[key] == (["h100", "h200"] if kind == "mechanism" else ["any"]), key
    assert kinds["boehm_sgemm", "smem-tile-mix"] == "anywhere"
    assert kinds["sgemm_cu", "texld-alignment"] == "mechanism"


def test_quotations_stand_on_their_lines() -> None:
    folder = os.environ.get("GEMM_LADDER_SOURCES")
    if not folder:
        pytest.skip("the texts are not in the repository: GEMM_LADDER_SOURCES=FOLDER says where")
    files = [path.read_bytes() for path in Path(folder).iterdir()]
    texts = {hashlib.sha256(file).hexdigest(): file.decode() for file in files}
    for name, source in worklogs.sources(PAPER).items():
        lines = texts[source.sha256].split("\n")
        for entry in load_yaml(PAPER / name / "claims.yaml"):
            assert entry["quote"] in lines[entry["line"] - 1], entry["id"]


def test_published_numbers_stand_beside_ours_in_their_unit(h100: Results) -> None:
    rows = published_table({"h100": h100}).set_index(["worklog", "id"])
    sectors = rows.loc["wingedge_sgemm", "ncu-sectors"]
    assert sectors["value"] == sectors["ours"] == 138412032
    naive = rows.loc["boehm_sgemm", "naive-gflops"]
    assert naive["unit"] == "GFLOP/s" and 400 < naive["ours"] < 600
    fraction = rows.loc["wingedge_sgemm", "dbf-time-fraction"]
    assert fraction["value"] == pytest.approx(100 * 14.523163 / 14.193397)
    assert 93 < fraction["ours"] < 96
    assert rows.loc["sgemm_cu", "lead-low"]["ours"] == pytest.approx(fraction["ours"] - 100, abs=2)


# ---- hand-made claims ----------------------------------------------------------------------------


@pytest.fixture
def evaluated(tmp_path: Path, analytic: Path, h100: Results) -> Callable[..., pd.DataFrame]:
    """A function: claims to their table on the H100, in a folder with one worklog."""
    folder = tmp_path / "worklogs" / "boehm_sgemm"
    shutil.copytree(PAPER / "boehm_sgemm", folder)

    def of(*entries: dict[str, Any]) -> pd.DataFrame:
        (folder / "claims.yaml").write_text(yaml.safe_dump(list(entries)))
        return claims.claims_table({"h100": h100}, analytic, folder.parent)

    return of


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test": "fraction(sgemm_nave) > 1"}, "unknown variant 'sgemm_nave'"),
        ({"test": 'published("naive-gflop") > 1'}, "unknown id 'boehm_sgemm/naive-gflop'"),
        ({"test": "1 >"}, "invalid syntax"),
        ({"test": "published('naive-gflops')"}, "allowed: a comparison"),
        ({"test": "limiter(sgemm_naive) > 1", "kind": "mechanism"}, "one: .*not supported between"),
        ({"quote": "word " * 26}, "quote has 26 words"),
        ({"line": 500}, "line = 500 is in no section"),
        ({"untestable": "because"}, "test and untestable"),
        ({"test": None}, "test and untestable"),
        ({"quote": None}, "line or quote is missing"),
        ({"claims": "C."}, "unknown key 'claims'"),
        ({"kind": "sometimes"}, "kind"),
        ({"test": "fraction(sgemm_naive) > 1"}, "reads a measurement"),
        ({"remark": "It is {fraction(sgemm_nave)}."}, "sgemm_nave"),
        ({"remark": "It is {fraction(sgemm_naive)}."}, "reads a measurement"),
    ],
)
def test_a_wrong_entry_is_one_line(
    change: dict[str, Any], said: str, evaluated: Callable[..., pd.DataFrame]
) -> None:
    entry = {key: value for key, value in (GOOD | change).items() if value is not None}
    with refused(said) as error:
        evaluated(entry)
    assert "one" in str(error.value)


def test_an_id_that_stands_twice_and_a_wrong_number_are_one_line(
    evaluated: Callable[..., pd.DataFrame], tmp_path: Path
) -> None:
    with refused("the id stands twice"):
        evaluated(GOOD, dict(GOOD))
    path = tmp_path / "worklogs" / "boehm_sgemm" / "published.csv"
    path.write_text(path.read_text().replace(",75,", ",seventy,"))
    with refused(r"published\.csv row 3"):
        evaluated(GOOD)


def test_a_remark_may_read_what_its_test_does(evaluated: Callable[..., pd.DataFrame]) -> None:
    """A measurement beside a test of one, and what is published beside any."""
    published = 'It is {published("naive-gflops")}.'
    mechanism = {"id": "two", "test": "fraction(sgemm_naive) > 0", "kind": "mechanism"}
    mechanism |= {"remark": published + " {registers(sgemm_naive)}"}
    table = evaluated(GOOD | {"remark": published}, GOOD | mechanism)
    assert table["remark"].str.match(r"It is 300\.( \d+)?$").all()
    assert list(table["gpu"]) == ["any", "h100"]


def test_undecided_is_within_noise_on_either_side(evaluated: Callable[..., pd.DataFrame]) -> None:
    verdicts = {"fraction(cublas_fp32) > 1": "within noise"}
    verdicts |= {"fraction(cublas_fp32) < 1": "within noise"}
    verdicts |= {"fraction(cublas_fp32, n=1) > 1": "not measured"}
    entries = ({"id": f"t{i}", "test": test} for i, test in enumerate(verdicts))
    table = evaluated(*(GOOD | {"kind": "mechanism"} | entry for entry in entries))
    assert table["verdict"].to_list() == [*verdicts.values()]


def test_a_changed_verdict_or_test_is_reported(
    evaluated: Callable[..., pd.DataFrame], tmp_path: Path
) -> None:
    record = tmp_path / "verdicts.csv"
    (now,) = claims.records(evaluated(GOOD), "h100")
    assert (now["verdict"], now["ours"]) == ("holds", "300")
    write_rows(record, RecordedVerdict, [now])
    assert claims.changes([now], record) == []
    others = [now | {"verdict": "does not hold"}, now | {"id": "boehm_sgemm/gone"}]
    write_rows(record, RecordedVerdict, others)
    verdict, gone = claims.changes([now], record)
    assert "boehm_sgemm/one: does not hold -> holds" in verdict
    assert "gone: recorded, and no longer a claim" in gone
    for change in ({"test": 'published("naive-gflops") > 1'}, {"quote": "b c"}):
        changed = claims.records(evaluated(GOOD | change), "h100")
        assert "the claim is new or its test changed" in claims.changes(changed, record)[0]


def test_the_command_lists_some_and_refuses_an_unknown_one(
    variants_csv: Path, analytic: Path
) -> None:
    given = ("--archives", "data/h100", "--catalogue", variants_csv, "--analytic", analytic)
    some = ("--only", "sgemm_cu/texld-faster", "boehm_sgemm/least-traffic")
    done = run_module("analysis", "claims", *given, *some)
    assert done.returncode == 0, done.stderr
    assert "holds         h100  texld-faster: line 470: " in done.stdout
    assert "does not hold any   least" in done.stdout and "h200" not in done.stdout
    done = run_module("analysis", "claims", *given, "--only", "sgemm_cu/texld")
    assert_one_line(done, "unknown claim 'sgemm_cu/texld'")
    done = run_module("analysis", "claims", "--analytic", "none.csv")
    assert_one_line(done, "none.csv: no such file; made by: snakemake --cores 1 claims")
