"""The worklogs' claims: this project's files, their verdicts on the archives, and what a wrong file says."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from helpers import ROOT, run_module

from analysis import claims
from analysis.results import Results
from analysis.tables.published import published_table
from contracts import UserError, load_yaml, read_rows, worklogs, write_rows
from experiments.stages import analytic

PAPER = ROOT / worklogs.FOLDER
LONGEST_SENTENCE = 22  # words


@pytest.fixture(scope="module")
def analytic_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("analytic") / "analytic.csv"
    cases = {
        f"{name}/{key}": case
        for name, file in worklogs.files("analytic.yaml", PAPER).items()
        for key, case in load_yaml(file).items()
    }
    write_rows(path, "analytic", analytic.rows(cases, "analytic.yaml"))
    return path


@pytest.fixture(scope="module")
def archives(variants_csv: Path) -> dict[str, Results]:
    return {name: Results(ROOT / "data" / name, variants_csv) for name in ("h100", "h200")}


@pytest.fixture(scope="module")
def table(archives: dict[str, Results], analytic_csv: Path) -> pd.DataFrame:
    return claims.claims_table(archives, analytic_csv, PAPER)


# ---- this project's claims -----------------------------------------------------------------------------------------


def test_there_are_few_claims_and_each_reads_as_one_short_sentence() -> None:
    entries = [entry for path in worklogs.claims(PAPER).values() for entry in load_yaml(path)]
    assert len(entries) <= 150 and len(load_yaml(PAPER.parent / "claims.yaml")) <= 10
    texts = [
        text for entry in entries for text in (entry["claim"], entry.get("remark"), entry.get("untestable")) if text
    ]
    sentences = [part for text in texts for part in re.split(r"[.;:] +", re.sub(r"\{[^}]*\}", "N", text))]
    assert [one for one in sentences if len(one.split()) > LONGEST_SENTENCE] == []


def test_the_recorded_verdicts_are_those_of_this_tree(table: pd.DataFrame) -> None:
    for gpu in ("h100", "h200"):
        assert claims.changes(claims.records(table, gpu), ROOT / "data" / gpu / "verdicts.csv") == []


def test_a_claim_has_one_verdict_where_no_gpu_takes_part_and_else_one_for_each(table: pd.DataFrame) -> None:
    gpus = table.groupby(["worklog", "id"])["gpu"].agg(list)
    kinds = table.groupby(["worklog", "id"])["kind"].first()
    assert all(gpus[key] == (["h100", "h200"] if kind == "mechanism" else ["any"]) for key, kind in kinds.items())
    known = kinds.to_dict()
    assert known["boehm_sgemm", "least-traffic"] == known["boehm_sgemm", "smem-tile-mix"] == "anywhere"
    assert known["boehm_sgemm", "vectorized-gain"] == known["sgemm_cu", "texld-alignment"] == "mechanism"
    assert (table.loc[table["slip"], "kind"] == "anywhere").all()
    assert (table.loc[table["slip"], "verdict"] == "does not hold").all()


def test_no_remark_lacks_a_number_on_the_first_gpu(table: pd.DataFrame) -> None:
    measured = table[(table["gpu"] != "h200") & (table["verdict"] != "not measured")]
    assert [row.id for row in measured.itertuples() if "not measured" in str(row.remark)] == []


def test_quotations_stand_on_their_lines() -> None:
    folder = os.environ.get("GEMM_LADDER_SOURCES")
    if not folder:
        pytest.skip("the texts are not part of the repository: GEMM_LADDER_SOURCES=FOLDER names where they are")
    texts = {hashlib.sha256(path.read_bytes()).hexdigest(): path.read_text() for path in Path(folder).iterdir()}
    for name, source in worklogs.sources(PAPER).items():
        lines = texts[source["sha256"]].split("\n")
        entries = load_yaml(PAPER / name / "claims.yaml")
        assert [entry["id"] for entry in entries if entry["quote"] not in lines[entry["line"] - 1]] == []


def test_published_numbers_stand_beside_ours_in_their_unit(archives: dict[str, Results]) -> None:
    rows = published_table(archives).set_index(["worklog", "id", "here"])
    sectors = rows.loc["wingedge_sgemm", "ncu-sectors", "h100"]
    assert sectors["value"] == sectors["ours"] == 138412032
    naive = rows.loc["boehm_sgemm", "naive-gflops", "h100"]
    assert naive["unit"] == "GFLOP/s" and 400 < naive["ours"] < 600
    fraction = rows.loc["wingedge_sgemm", "dbf-time-fraction", "h100"]
    assert fraction["value"] == pytest.approx(100 * 14.523163 / 14.193397) and 93 < fraction["ours"] < 96
    assert rows.loc["sgemm_cu", "lead-low", "h100"]["ours"] == pytest.approx(fraction["ours"] - 100, abs=2)


# ---- files that are wrong ------------------------------------------------------------------------------------------

GOOD = {
    "id": "one",
    "line": 30,
    "quote": "a b",
    "claim": "C.",
    "test": 'published("naive-gflops") > 0',
    "about": "speed",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one worklog, boehm_sgemm's without its claims."""
    folder = tmp_path / "worklogs" / "boehm_sgemm"
    shutil.copytree(PAPER / "boehm_sgemm", folder)
    (folder / "claims.yaml").write_text(yaml.safe_dump([GOOD]))
    return folder.parent


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test": "fraction(sgemm_nave) > 1"}, "unknown variant 'sgemm_nave'"),
        ({"test": "fractions(sgemm_naive) > 1"}, "unknown function 'fractions'"),
        ({"test": 'published("naive-gflop") > 1'}, "unknown id 'boehm_sgemm/naive-gflop'"),
        ({"test": "1 >"}, "is not an expression"),
        ({"test": "fraction(sgemm_naive)"}, "allowed: a comparison"),
        ({"quote": "word " * 26}, "quote has 26 words"),
        ({"line": 500}, "line = 500 is in no section"),
        ({"untestable": "because"}, "test and untestable"),
        ({"test": None}, "test and untestable"),
        ({"quote": None}, "line or quote is missing"),
        ({"claims": "C."}, "unknown key 'claims'"),
        ({"about": "weather"}, "about"),
        ({"remark": "It is {fraction(sgemm_nave)}."}, "sgemm_nave"),
    ],
)
def test_a_wrong_entry_is_one_line(
    change: dict[str, object], said: str, root: Path, archives: dict[str, Results], analytic_csv: Path
) -> None:
    entry = {key: value for key, value in (GOOD | change).items() if value is not None}
    (root / "boehm_sgemm" / "claims.yaml").write_text(yaml.safe_dump([entry]))
    with pytest.raises(UserError, match=said) as error:
        claims.claims_table(archives, analytic_csv, root)
    assert "\n" not in str(error.value) and "one" in str(error.value)


def test_a_broken_published_csv_is_one_line(root: Path, archives: dict[str, Results], analytic_csv: Path) -> None:
    path = root / "boehm_sgemm" / "published.csv"
    path.write_text(path.read_text().replace(",75,", ",seventy,"))
    with pytest.raises(UserError, match=r"published\.csv row 3"):
        claims.claims_table(archives, analytic_csv, root)


def test_undecided_is_within_noise_on_either_side(root: Path, archives: dict[str, Results], analytic_csv: Path) -> None:
    tests = {
        "above": "fraction(cublas_fp32) > 1",
        "below": "fraction(cublas_fp32) < 1",
        "away": "fraction(cublas_fp32, n=1) > 1",
    }
    entries = [GOOD | {"id": name, "test": test} for name, test in tests.items()]
    (root / "boehm_sgemm" / "claims.yaml").write_text(yaml.safe_dump(entries))
    found = claims.claims_table({"h100": archives["h100"]}, analytic_csv, root)
    assert found["verdict"].to_list() == ["within noise", "within noise", "not measured"]


def test_a_changed_verdict_or_test_is_told(root: Path, archives: dict[str, Results], analytic_csv: Path) -> None:
    file, record = root / "boehm_sgemm" / "claims.yaml", root / "verdicts.csv"
    now = claims.records(claims.claims_table(archives, analytic_csv, root), "h100")
    write_rows(record, "verdicts", now)
    assert claims.changes(now, record) == []
    write_rows(record, "verdicts", [now[0] | {"verdict": "does not hold"}, now[0] | {"id": "boehm_sgemm/gone"}])
    changed, gone = claims.changes(now, record)
    assert "boehm_sgemm/one: does not hold -> holds" in changed and "gone: recorded, and no longer a claim" in gone
    file.write_text(yaml.safe_dump([GOOD | {"test": 'published("naive-gflops") > 1'}]))
    now = claims.records(claims.claims_table(archives, analytic_csv, root), "h100")
    assert "the claim is new or its test changed" in claims.changes(now, record)[0]


def test_the_command_lists_writes_and_checks(variants_csv: Path, analytic_csv: Path, tmp_path: Path) -> None:
    given = ["--archives", ROOT / "data" / "h100", "--catalogue", variants_csv, "--analytic", analytic_csv]
    only = ["--only", "sgemm_cu/texld-faster", "boehm_sgemm/least-traffic"]
    done = run_module("analysis.claims", *given, *only, "--check", "--out", tmp_path / "claims.csv")
    assert done.returncode == 0, done.stderr
    assert re.search(r"holds +h100 +texld-faster: line 470: Loading A and B .*\[1\.\d+ \[.*\] > 1\]", done.stdout)
    rows = read_rows(tmp_path / "claims.csv", "claims_table")
    assert [(row["gpu"], row["id"], row["verdict"]) for row in rows] == [
        ("any", "least-traffic", "does not hold"),
        ("h100", "texld-faster", "holds"),
    ]
    done = run_module("analysis.claims", *given, "--only", "sgemm_cu/texld")
    assert done.returncode == 2 and "unknown claim 'sgemm_cu/texld'" in done.stderr
