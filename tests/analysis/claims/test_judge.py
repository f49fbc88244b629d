"""The worklogs' claims: the table, the records, the report's pages, and the project's own files."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from helpers import ARCHIVE, ROOT, assert_one_line, copy_tree, run_module, snakemake
from machine_folder import words_of
from planted import Planted, planted_bench

from analysis import pages
from analysis.claims import files, tolerance
from analysis.claims.vocabulary import Vocabulary
from analysis.data import table
from analysis.figures import verdict_counts
from analysis.statistics import SHARE
from contracts import read_rows, worklogs, write_rows
from kernels import catalogue

PAPER = ROOT / "paper"


@pytest.fixture
def planted(tmp_path: Path, variants_csv: Path) -> Planted:
    return Planted(tmp_path, variants_csv)


# ---- the files, and the command ---------------------------------------------------------------------------------

SOURCE = {
    "key": "A", "name": "Worklog A", "title": "A worklog", "author": None, "link": None, "citation": "a",
    "file": "a.txt", "sha256": "0" * 64, "lines": 40, "gpus": ["RTX A6000"],
    "sections": [{"name": "First", "first": 1, "last": 20}, {"name": "Second", "first": 21, "last": 40}],
}  # fmt: skip
NUMBER = {
    "id": "a-speedup", "line": 7, "section": "First", "as_written": "8x",
    "subject": "warptile over naive",
    "rung": "sgemm_warptile", "n": 4096, "gpu": "RTX A6000", "quantity": "speedup", "value": 8, "unit": "x",
}  # fmt: skip


def claim(name: str, **more: Any) -> dict[str, Any]:
    base = {
        "id": name, "section": "First", "published": ["a-speedup"], "theirs": 8, "unit": "x",
        "claim": "Warp tiles make the naive kernel eight times as fast.", "gpu": "RTX A6000", "about": "speed",
        "measure": 'sgemm_warptile.speedup[over=sgemm_naive]', "rule": {"as": "written"}, "line": 7,
        "quote": "eight times as fast",
    }  # fmt: skip
    return {key: value for key, value in (base | more).items() if value != "gone"}


CLAIMS = [
    claim("a-holds", remark="Here {ours}."),
    claim("a-direction", measure="sgemm_vectorized.speedup[over=sgemm_naive]", rule={"as": "written", "neutral": 1}),
    claim("a-fails", measure="sgemm_naive.speedup[over=sgemm_warptile]", kind="differs on this GPU"),
    claim("a-missing", measure="sgemm_warptile.speedup[512, over=sgemm_naive]", published=[]),
    claim("a-true", measure="sgemm_naive.share < sgemm_warptile.share", rule={"true": {}}, theirs=None, unit=None),
    claim(
        "a-untestable",
        measure="gone",
        rule="gone",
        untestable="Nothing here measures it.",
        lacks="not built",
        section="Second",
        line=21,
    ),
]
EXPECTED = ["holds", "direction only", "does not hold", "not measured", "holds", "not testable here"]


def write_files(folder: Path, claims_: list[dict[str, Any]] = CLAIMS, **changes: Any) -> Path:
    """The folder of one small worklog, and analytic.csv in it; `changes` to the one published number."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.yaml").write_text(yaml.safe_dump(SOURCE))
    (folder / "claims.yaml").write_text(yaml.safe_dump(claims_))
    write_rows(folder / "published.csv", "published", [NUMBER | changes])
    write_rows(folder / "analytic.csv", "analytic", [])
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_files(tmp_path / "worklogs" / "a")


def command(files: Path, planted: Planted, *more: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_module(
        "analysis.claims.judge",
        *("--worklogs", files.parent, "--analytic", files / "analytic.csv"),
        "--archives",
        planted.folder,
        "--variants",
        planted.variants,
        *more,
        **environment,
    )


def test_the_table_has_every_kind_of_verdict(small: Path, planted: Planted, tmp_path: Path) -> None:
    done = command(small, planted, "--out", tmp_path / "claims.csv")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    rows = read_rows(tmp_path / "claims.csv", "claims_table")
    assert [row["id"] for row in rows] == [entry["id"] for entry in CLAIMS]
    assert [row["verdict"] for row in rows] == EXPECTED
    first = rows[0]
    assert (first["machine"], first["lines"], first["theirs"], first["unit"]) == ("planted", "7", "8", "x")
    assert float(first["ours"]) == pytest.approx(8) and first["ours_low"] < 8 < first["ours_high"]
    assert first["remark"] == "Here 8." and first["why"] == "8 as written, 7.5 to 8.5"
    assert first["origin"].startswith("archived: Planted GPU, 20")
    assert (rows[4]["ours"], rows[4]["ours_low"]) == ("true", None)
    assert rows[4]["why"] == "0.100 [0.0980, 0.102] < 0.800 [0.784, 0.816]"
    assert (
        rows[3]["why"].endswith("; this measures it: snakemake --cores 1 size_dispatch")
        and rows[2]["kind"] == "differs on this GPU"
        and rows[3]["ours"] is None
        and rows[5]["why"] == "Nothing here measures it."
    )


def test_the_terminal_gets_a_table_of_its_width(small: Path, planted: Planted) -> None:
    for width in (70, 100):
        done = command(small, planted, COLUMNS=str(width))
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and max(map(len, lines)) <= width, done.stderr
        assert lines[0].startswith("planted (archived: Planted GPU")
        flat = " ".join(done.stdout.split())
        assert "holds a-holds (First, line 7)" in flat and "does not hold a-fails" in flat
        assert "Theirs: 8x (RTX A6000). Here: 8 [7.69, 8.33]x: 8 as written, 7.5 to 8.5 Here 8." in flat
        counts = "planted: 6 claims: 2 holds, 1 direction only, 1 does not hold, 1 not measured, 1 not testable here"
        assert flat.endswith(f"{counts} (2 differs on this GPU)")


def test_only_prints_those_named(small: Path, planted: Planted) -> None:
    done = command(small, planted, "--only", "a-fails")
    assert done.stdout.splitlines()[-1] == "planted: 1 claim: 1 does not hold (1 differs on this GPU)"
    assert_one_line(command(small, planted, "--only", "a-fail"), "unknown claim 'a-fail'", "nearest: a-fails")
    assert command(small, planted, "--only", "a-fails", "--record").returncode == 2
    assert not (planted.folder / "verdicts.csv").exists()


def test_recorded_verdicts_hold_until_one_flips(small: Path, planted: Planted) -> None:
    done = command(small, planted, "--check")
    assert done.returncode == 1 and "no verdicts are recorded; python -m analysis.claims.judge --record" in done.stderr
    assert command(small, planted, "--record").returncode == 0
    assert [row["verdict"] for row in read_rows(planted.folder / "verdicts.csv", "verdicts")] == EXPECTED
    done = command(small, planted, "--check")
    assert done.returncode == 0 and done.stderr == "" and "6 claims" in done.stdout
    for row in (rows := planted_bench()):
        if row["variant"] == "sgemm_warptile" and row["n"] == 4096:
            row.update(zip(SHARE, (0.6, 0.59, 0.61), strict=True))
    planted.write("bench", rows)
    done = command(small, planted, "--check")
    assert done.returncode == 1 and "6 claims" in done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert (
        line.startswith("differs: ")
        and ": a-holds: does not hold (6 [5.78, 6.22]: not 8 as written, 7.5 to 8.5)" in line
    )
    assert line.endswith("and recorded is: holds (8)")
    assert command(small, planted, "--record").returncode == 0 and command(small, planted, "--check").returncode == 0


def test_claims_and_records_belong_together(small: Path, planted: Planted) -> None:
    assert command(small, planted, "--record").returncode == 0
    changed = [claim("a-new"), *CLAIMS[1:-1], CLAIMS[-1] | {"untestable": "Another reason."}]
    changed[1] = changed[1] | {"rule": {"as": "about", "neutral": 1}}
    write_files(small, changed)
    done = command(small, planted, "--check")
    found = [line.partition("planted: ")[2] for line in done.stderr.strip().splitlines()]
    assert done.returncode == 1 and len(found) == 4
    assert found[0].startswith("a-new: holds (8 [7.69, 8.33]: 8 as written, 7.5 to 8.5), and no verdict is recorded")
    assert found[1].startswith("a-direction: direction only") and "changed since that verdict was recorded" in found[1]
    assert found[2].startswith(
        "a-untestable: not testable here (Another reason.), and its measure, rule or value changed"
    )
    assert found[3] == "a-holds: recorded as holds, and no such claim"


def test_this_run_stands_for_its_archive_which_is_still_checked(small: Path, planted: Planted, tmp_path: Path) -> None:
    assert command(small, planted, "--record").returncode == 0
    here = Path(shutil.copytree(planted.folder, tmp_path / "results"))
    done = command(small, planted, "--measured", here, "--check", "--out", tmp_path / "c.csv")
    assert done.returncode == 0, done.stderr
    rows = read_rows(tmp_path / "c.csv", "claims_table")
    assert len(rows) == len(CLAIMS) and all(row["origin"].startswith("measured: ") for row in rows)
    planted.document("provenance", {"machine": "other"})
    assert command(small, planted, "--measured", here, "--out", tmp_path / "c.csv").returncode == 0
    rows = read_rows(tmp_path / "c.csv", "claims_table")
    assert [row["machine"] for row in rows] == ["planted"] * len(CLAIMS) + ["other"] * len(CLAIMS)


def test_each_archive_has_verdicts_of_its_own(tmp_path: Path, variants_csv: Path) -> None:
    """A rung whose share collapses on a second card loses its claim there, and there alone."""
    small = write_files(tmp_path / "paper" / "worklogs" / "a")
    asked = {"class": "rung", "id": "own-warptile", "measure": "100 * sgemm_warptile.share", "rule": {"at_least": 70}}
    rung = claim("own", line="gone", quote="gone", published=[], evidence="bench.csv", theirs=70, unit="%") | asked
    (tmp_path / "paper" / "claims.yaml").write_text(yaml.safe_dump([rung]))
    first, second = Planted(tmp_path / "one", variants_csv), Planted(tmp_path / "two", variants_csv)
    second.document("provenance", {"machine": "second", "gpu": "Other GPU"})
    for row in (rows := planted_bench()):
        if row["variant"] == "sgemm_warptile" and row["n"] == 4096:
            row.update(zip(SHARE, (0.4, 0.39, 0.41), strict=True))
    second.write("bench", rows)
    given = ["--worklogs", small.parent, "--analytic", small / "analytic.csv", "--variants", first.variants]
    archives = ["--archives", first.folder, second.folder]
    done = run_module("analysis.claims.judge", *given, *archives, "--record")
    assert done.returncode == 0 and "Our own rungs and dispatchers" in done.stdout, done.stderr
    recorded = [
        {row["id"]: row["verdict"] for row in read_rows(one.folder / "verdicts.csv", "verdicts")}
        for one in (first, second)
    ]
    assert [of["own-warptile"] for of in recorded] == ["holds", "does not hold"]
    assert [of["a-holds"] for of in recorded] == ["holds", "does not hold"]
    assert run_module("analysis.claims.judge", *given, *archives, "--check").returncode == 0
    (tmp_path / "paper" / "claims.yaml").write_text(yaml.safe_dump([claim("own-x")]))
    done = run_module("analysis.claims.judge", *given, *archives)
    assert_one_line(done, "paper/claims.yaml: own-x: ", "class = rung is of paper/claims.yaml")


FAULTS = [
    ({"rule": {"near": 0.1, "at_least": 2}}, "a-bad: rule = {'at_least': 2, 'near': 0.1} is not allowed; allowed: "),
    ({"rule": {"nere": 0.1}}, "a-bad: unknown key 'nere' in rule; nearest: near"),
    ({"rule": {"near": -0.1}}, "a-bad: rule.near = -0.1 is not allowed; allowed: more than 0"),
    ({"rule": {"near": 0.1}}, "a-bad: reason is missing; allowed: why near = 0.1 and not as the text words it"),
    ({"rule": {"at_least": 2}}, "a-bad: reason is missing; allowed without: at_least theirs, 0, 1 or 100, not 2"),
    ({"rule": {"between": [9, 7]}}, "a-bad: between = [9, 7] is not allowed; allowed: the lower end first"),
    ({"derived": 'published("a-speedup") * 2'}, "a-bad: theirs = 8 is not what it is derived of, 16"),
    ({"line": 21}, "a-bad: line = 21 is not in section 'First'; allowed: 1 to 20"),
    ({"quote": "gone"}, "a-bad: quote is missing; allowed: where the text says it"),
    ({"quote": "word " * 26}, "a-bad: quote of 26 words is not allowed; allowed: at most 25"),
    ({"same_as": "a-hold"}, "a-bad: same_as = 'a-hold' is no claim; nearest: a-holds"),
    ({"class": "finding", "evidence": "checks.csv"}, "a-bad: line of a finding is not allowed; allowed: evidence"),
    ({"rule": {"as": "written", "neutral": 8}}, "a-bad: neutral = 8 is theirs; allowed: a number on one side of it"),
    ({"rule": {"equals": 1, "neutral": 8}}, "a-bad: neutral with equals is not allowed"),
    ({"theirs": "shared"}, "a-bad: theirs = 'shared' is not allowed; allowed with as: a number"),
    ({"rule": "gone"}, "a-bad: rule is missing; allowed: measure and rule, untestable, or same_as"),
    ({"untestable": "No.", "lacks": "not built"}, "a-bad: measure with untestable is not allowed"),
    ({"section": "Frist"}, "a-bad: section = 'Frist' is not one of worklog A's; nearest: First"),
    ({"worklog": "A"}, "a-bad: unknown key 'worklog' in the claim"),
    ({"published": ["a-sped"]}, "a-bad: published = 'a-sped' is not in published.csv; nearest: a-speedup"),
    ({"unit": "times"}, "a-bad: unit = 'times' is not listed"),
    ({"about": "colour"}, 'a-bad: about = "colour" is not allowed; allowed: one of speed, share'),
    ({"id": "bad"}, "bad: id = 'bad' is not allowed; allowed: a-..."),
    ({"id": "a-holds"}, "a-holds: the id stands 2 times; allowed: once"),
    ({"measure": "contain(1)"}, "a-bad: contain(1): unknown function 'contain'; nearest: contains"),
    ({"measure": 'sgemm_warptil.share'}, "unknown variant 'sgemm_warptil' in kernels/catalogue.yaml; nearest: "),
    ({"colour": 1}, "a-bad: unknown key 'colour' in the claim"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), FAULTS)
def test_a_bad_claim_is_reported(change: dict[str, Any], said: str, tmp_path: Path, planted: Planted) -> None:
    bad = claim(**{"name": "a-bad"} | change) if "id" not in change else claim("a-bad") | change
    bad = {key: value for key, value in bad.items() if value != "gone"}
    files = write_files(tmp_path / "worklogs" / "a", [CLAIMS[0], bad])
    done = command(files, planted, "--out", tmp_path / "claims.csv")
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2 and len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    assert said in lines[0]
    assert not (tmp_path / "claims.csv").exists()


def test_a_table_that_cannot_be_read_is_reported_once(planted: Planted, tmp_path: Path) -> None:
    measure = "sgemm_naive.registers"
    small = write_files(tmp_path / "worklogs" / "a", [claim("a-one", measure=measure), claim("a-two", measure=measure)])
    path = planted.folder / "resources.csv"
    path.write_text(path.read_text().replace("registers", "register", 1))
    assert_one_line(command(small, planted), "resources.csv: not a resources table (column 'register')")


def test_every_bad_claim_is_reported_at_once(tmp_path: Path, planted: Planted) -> None:
    bad = [claim("a-one", rule={"nere": 1}), claim("a-two", section="x"), claim("a-three", published=["x"])]
    done = command(write_files(tmp_path / "worklogs" / "a", bad), planted)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2 and [line.split(": ")[2] for line in lines] == ["a-one", "a-two", "a-three"], lines
    bad = [claim("a-one", measure="x()"), claim("a-two", measure="y()")]
    done = command(write_files(tmp_path / "worklogs" / "a", bad), planted)
    assert [line.split(": ")[1] for line in done.stderr.strip().splitlines()] == ["a-one", "a-two"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"line": 21}, "a-speedup: line = 21 is not in section 'First'; allowed: 1 to 20"),
        ({"section": "Third"}, "a-speedup: section = 'Third' is not one of worklog A's"),
        ({"unit": "furlongs"}, "a-speedup: unit = 'furlongs' is not listed"),
        ({"quantity": "sped_up"}, "a-speedup: quantity = 'sped_up' is not listed; nearest: speedup"),
        ({"id": "speedup"}, "speedup: id = 'speedup' is not allowed; allowed: a-..."),
    ],
)
def test_a_bad_number_is_reported(change: dict[str, Any], said: str, tmp_path: Path, planted: Planted) -> None:
    files = write_files(tmp_path / "worklogs" / "a", [claim("a-holds", published=[])], **change)
    assert_one_line(command(files, planted), "published.csv", said)


def test_a_number_of_another_type_is_reported(small: Path, planted: Planted) -> None:
    path = small / "published.csv"
    path.write_text(path.read_text().replace(",8,x,", ",eight,x,"))
    assert_one_line(command(small, planted), "published.csv row 1", 'value = "eight" is not allowed; allowed: number')


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ([("First", 1, 20), ("Second", 20, 40)], "A: sections 'First' and 'Second' overlap"),
        ([("First", 1, 20), ("Other", 21, 30), ("Other", 31, 40)], "A: section 'Other' stands 2 times"),
        ([("First", 1, 20), ("Second", 21, 41)], "allowed: within lines 1 to 40"),
    ],
)
def test_bad_sections_are_reported(
    sections: list[tuple[str, int, int]], said: str, small: Path, planted: Planted
) -> None:
    named = [dict(zip(("name", "first", "last"), section, strict=True)) for section in sections]
    (small / "source.yaml").write_text(yaml.safe_dump(SOURCE | {"sections": named}))
    write_files_keep = (small / "claims.yaml").read_text()
    (small / "claims.yaml").write_text(
        write_files_keep.replace("line: 21", "line: 7").replace("section: Second", "section: First")
    )
    assert_one_line(command(small, planted), "source.yaml", said)


def test_no_list_and_no_yaml_are_one_line(small: Path, planted: Planted) -> None:
    (small / "claims.yaml").write_text("a: 1\n")
    assert_one_line(command(small, planted), "claims.yaml: a dict is not allowed; allowed: a list of claims")
    (small / "claims.yaml").write_text("- {id: a\n")
    assert_one_line(command(small, planted), "claims.yaml line 2: not YAML")
    shutil.rmtree(small)
    assert_one_line(command(small, planted), "no worklog is there")


def test_the_vocabulary_is_listed() -> None:
    done = run_module("analysis.claims.judge", "--functions")
    names = [line.partition("(")[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    quantities = {name for name in names if name.startswith("VARIANT.")}
    assert set(names) - quantities == set(Vocabulary.methods()) and {"min", "tile_share", "analytic"} <= set(names)
    assert "VARIANT.share[n, data, experiment, regime, machine]" in quantities
    assert all(line.strip().endswith((".", ".csv.")) for line in done.stdout.splitlines()[1::2])


# ---- in the report ----------------------------------------------------------------------------------------------


@pytest.fixture
def shown(small: Path, planted: Planted, tmp_path: Path) -> str:
    """The page of the claims, as the command makes it."""
    assert command(small, planted, "--out", tmp_path / "claims.csv").returncode == 0
    out = tmp_path / "claims.html"
    done = run_module("analysis.pages", "--tables", tmp_path, "--out", out, "claims")
    assert done.returncode == 0, done.stderr
    return out.read_text()


def test_the_page_has_every_row_and_loads_nothing(shown: str) -> None:
    assert "<h2>Claims and verdicts</h2>" in shown and all(entry["id"] in shown for entry in CLAIMS)
    for kind in ("script", "link", "img", "iframe"):
        assert not re.search(rf"<{kind}[^>]*(?:src|href)=.?(?!#)", shown), kind
    assert not re.search(r"(?:import|from)\s*\(?['\"]https?:|@import|fetch\(['\"]http", shown)


def test_a_page_escapes_cells_and_shows_three_digits(tmp_path: Path) -> None:
    rows = pd.DataFrame({"claim": ["1 < 2 & <b>bold</b>", "x"], "ours": [0.123456, None]})
    text = pages.page([("A & B", rows)], "All")
    assert "<h2>A &amp; B</h2>" in text and "<b>bold" not in text and "0.123" in text
    assert [pages.shown(value) for value in (4096.0, 0.123456, 1.5e-9, 3.14159, float("nan"))] == [
        "4096", "0.123", "1.5e-09", "3.14", ""
    ]  # fmt: skip


def test_a_table_that_is_none_has_no_page(tmp_path: Path) -> None:
    done = run_module("analysis.pages", "--tables", tmp_path, "--out", tmp_path / "p.html", "clams")
    assert_one_line(done, "unknown table 'clams'", "nearest: claims")
    done = run_module("analysis.pages", "--tables", tmp_path, "--out", tmp_path / "p.html", "claims")
    assert_one_line(done, "cannot read", "claims.csv")
    assert not (tmp_path / "p.html").exists()


BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
PRESS = """
<script>
const rows = () => [...document.querySelectorAll("table.dataTable tbody tr")];
const order = () => rows().map(row => row.cells[0].textContent).join("");
const said = [];
async function press() {
  while (!document.querySelector("thead [aria-label]")) await new Promise(done => setTimeout(done, 20));
  const heads = document.querySelectorAll("thead th");
  for (const column of [1, 1, 0]) {
    const before = order();
    heads[column].click();
    while (order() == before) await new Promise(done => setTimeout(done, 20));
    said.push(order());
  }
  document.title = said.join(" ");
}
press();
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_the_page_sorts_in_a_browser(tmp_path: Path) -> None:
    """Numbers as numbers."""
    rows = pd.DataFrame({"name": ["c", "a", "b"], "value": [9.0, 10.0, -1.0]})
    page = tmp_path / "pressed.html"
    page.write_text(pages.page([("One", rows)], "x").replace("</body>", PRESS + "</body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    options += ["--virtual-time-budget=120000", "--dump-dom"]
    done = subprocess.run([BROWSER, *options, page.as_uri()], capture_output=True, text=True)
    assert re.search("<title>(.*?)</title>", done.stdout)[1] == "bca acb abc", done.stdout[-500:] + done.stderr[-500:]


def test_the_figure_counts_verdicts(small: Path, planted: Planted, tmp_path: Path) -> None:
    assert command(small, planted, "--out", tmp_path / "claims.csv").returncode == 0
    rows = table(read_rows(tmp_path / "claims.csv", "claims_table"), "claims_table")
    figure = verdict_counts.draw(rows, ["A", "B"])
    left, right = figure.axes
    widths = {patch.get_width() for patch in left.patches}
    assert widths == {1.0, 2.0} and [label.get_text() for label in left.get_yticklabels()] == ["A"]
    assert [label.get_text() for label in right.get_yticklabels()] == ["speed"]
    words = words_of(figure)
    assert "archived: Planted GPU" in words and all(verdict in words for verdict in EXPECTED)


# ---- the project's own files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> files.Paper:
    out = tmp_path_factory.mktemp("paper") / "analytic.csv"
    assert run_module("experiments.stages.analytic", "--out", out).returncode == 0
    return files.read(ROOT / worklogs.FOLDER, [out])


def test_there_are_claims_of_every_worklog(paper: files.Paper) -> None:
    for key in paper.sources:
        of_worklog = [claim for claim in paper.claims if claim["worklog"] == key]
        assert any("untestable" not in claim for claim in of_worklog), key
    assert len(paper.claims) >= 300 and len(paper.published) >= 500


def test_there_is_a_claim_for_each_rung_with_wgmma_and_each_dispatcher_of_ours(paper: files.Paper) -> None:
    measures = " ".join(claim["measure"] + claim["claim"] for claim in paper.claims if claim["worklog"] == "own")
    names = {row["variant"] for row in catalogue.load().rows() if re.search("wgmma|_best|sgemm_tma", row["variant"])}
    stems = {re.sub("_(bf16|fp16)$", "", name) for name in names}
    assert (
        len(stems) >= 20 and {stem for stem in stems if not re.search(rf"\b{stem}(_bf16|_fp16)?\b", measures)} == set()
    )
    pages = {claim["section"] for claim in paper.claims if claim["worklog"] == "own"}
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_each_number_s_rung_is_in_the_catalogue(paper: files.Paper) -> None:
    known = {row["variant"] for row in catalogue.load().rows()}
    assert {row["rung"] for row in paper.published} - known <= {None}


def test_each_published_number_and_its_text_agree(paper: files.Paper) -> None:
    """Where what is written is a plain number, it is the value, or a multiple of it by a unit."""
    plain = re.compile(r"-?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?")
    odd = []
    for row in paper.published:
        if plain.fullmatch(row["as_written"]):
            written = float(row["as_written"].replace(",", ""))
            ratio = row["value"] / written if written else 1.0
            if not any(abs(ratio / factor - 1) < 1e-6 for factor in FACTORS) and not (written == row["value"] == 0):
                odd.append((row["id"], row["as_written"], row["value"]))
    assert odd == []


FACTORS = [1, 1e3, 1e-3, 100, 0.01, 1e6, 1e-6, 1e9, 1024, 1 / 1024]


def test_every_unit_and_quantity_listed_is_used(paper: files.Paper) -> None:
    units = {row["unit"] for row in paper.published} | {claim["unit"] for claim in paper.claims}
    assert set(files.listed("units")) == units - {None}
    assert set(files.listed("quantities")) == {row["quantity"] for row in paper.published}


def test_each_citation_is_in_the_bibliography(paper: files.Paper) -> None:
    keys = set(re.findall(r"^@\w+\{([^,]+),", (PAPER / "references.bib").read_text(), re.M))
    assert {source["citation"] for source in paper.sources.values()} <= keys


def test_the_texts_hold_what_was_transcribed(paper: files.Paper) -> None:
    folder = os.environ.get("GEMM_LADDER_SOURCES")
    if not folder:
        pytest.skip(
            "the worklogs' texts are not part of the repository: GEMM_LADDER_SOURCES=FOLDER names where they are"
        )
    odd = []
    for key, source in paper.sources.items():
        raw = (Path(folder) / source["file"]).read_bytes()
        assert hashlib.sha256(raw).hexdigest() == source["sha256"], key
        lines = raw.decode().splitlines()
        assert len(lines) == source["lines"], key
        for row in paper.published:
            if row["worklog"] == key and row["as_written"] not in lines[row["line"] - 1]:
                odd.append((row["id"], row["line"], row["as_written"]))
    assert odd == []


def test_the_texts_hold_what_is_quoted(paper: files.Paper) -> None:
    folder = os.environ.get("GEMM_LADDER_SOURCES")
    if not folder:
        pytest.skip(
            "the worklogs' texts are not part of the repository: GEMM_LADDER_SOURCES=FOLDER names where they are"
        )
    odd = []
    for key, source in paper.sources.items():
        lines = (Path(folder) / source["file"]).read_text().splitlines()
        for claim in paper.claims:
            if claim["worklog"] == key and "quote" in claim:
                said = " ".join(lines[claim["line"] - 1].split())
                if " ".join(claim["quote"].split()) not in said:
                    odd.append((claim["id"], claim["line"], claim["quote"]))
    assert odd == []


def test_a_number_is_about_only_where_its_quotation_says_so(paper: files.Paper) -> None:
    odd = [
        claim["id"]
        for claim in paper.claims
        if claim.get("rule", {}).get("as") == "about" and not tolerance.APPROXIMATE.search(claim["quote"])
    ]
    assert odd == []


IN_WORDS = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?!\w)")
ROUND = {
    *range(10),
    *(2**power for power in range(15)),
    *range(1024, 16385, 1024),
}  # sizes, tiles, warps, banks; few things


def typed(claim: dict[str, Any], paper: files.Paper) -> list[str]:
    """Numbers of a remark that are neither computed, nor the claim's own, nor what a computation there starts from."""
    remark = claim.get("remark", "")
    own = [str(claim.get(key, "")) for key in ("quote", "claim", "theirs", "measure", "rule", "gpu")]
    own += [str(paper.numbers[name]) for name in claim["published"]] + re.findall(r"\{[^{}]*\}", remark)
    known = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", " ".join(own))} | ROUND
    found = IN_WORDS.findall(re.sub(r"\{[^{}]*\}", " ", remark))
    return [number for number in found if float(number.replace(",", "")) not in known]


def test_every_number_in_a_remark_is_computed(paper: files.Paper) -> None:
    numbers = {claim["id"]: typed(claim, paper) for claim in paper.claims}
    numbers["c-clock-falls-before-limit-sgemm"].remove("3090")  # a name
    assert {name: of for name, of in numbers.items() if of} == {}


def test_what_was_found_is_borne_out(paper: files.Paper, tmp_path: Path, archive: Path) -> None:
    """A finding that the archive does not bear out is none; and what each rests on is there."""
    rows = [row for row in read_rows(judged_archive(tmp_path), "claims_table") if row["class"] == "finding"]
    undecided = {"h-found-fp16-clock"} if ARCHIVE.name == "h100" else set()  # six cards differ by more
    assert len(rows) >= 8 and {row["id"] for row in rows if row["verdict"] != "holds"} == undecided
    for row in rows:
        paths = [part.split(" ")[0] for part in row["evidence"].split(", ")]
        assert [path for path in paths if not (ROOT / path).exists() and not (archive / path).exists()] == [], row["id"]


def test_each_archive_s_record_says_what_failed(paper: files.Paper, tmp_path: Path, archive: Path) -> None:
    """Every verdict that is not "holds" has its kind: nobody is left to guess."""
    rows = read_rows(judged_archive(tmp_path), "claims_table")
    explained = ("holds", "within noise", "not measured")
    assert [row["id"] for row in rows if row["verdict"] not in explained and row["kind"] is None] == []


def judged_archive(folder: Path) -> Path:
    """claims.csv of the archives."""
    assert run_module("experiments.stages.analytic", "--out", folder / "analytic.csv").returncode == 0
    assert run_module("kernels.catalogue", "--out", folder / "variants.csv").returncode == 0
    out = folder / "claims.csv"
    given = ["--analytic", folder / "analytic.csv", "--variants", folder / "variants.csv", "--out", out]
    done = run_module("analysis.claims.judge", *given)
    assert done.returncode == 0, done.stderr
    return out


def test_the_archives_verdicts_are_those_recorded(tmp_path: Path, archive: Path) -> None:
    """This fails where a change of code or data flips a claim: `snakemake claims` shows it, --record accepts it."""
    done = run_module("experiments.stages.analytic", "--out", tmp_path / "analytic.csv")
    assert done.returncode == 0, done.stderr
    variants = tmp_path / "variants.csv"
    folder = run_module("kernels.catalogue", "--out", variants)
    assert folder.returncode == 0, folder.stderr
    done = run_module(
        "analysis.claims.judge", "--analytic", tmp_path / "analytic.csv", "--variants", variants, "--check"
    )
    assert done.returncode == 0, done.stderr


# ---- the target -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with three claims, whose verdicts are recorded."""
    tree = copy_tree(tmp_path_factory.mktemp("claims") / "project", experiments={"sgemm_ladder", "sgemm_sizes"})
    found = worklogs.files("claims.yaml", tree / worklogs.FOLDER).values()
    for number, path in enumerate(found):
        judged = [claim for claim in yaml.safe_load(path.read_text()) if "measure" in claim and "remark" not in claim]
        path.write_text(yaml.safe_dump([] if number else judged[:3]))
    done = snakemake(tree, "results/analytic.csv", "results/variants.csv")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run_module("analysis.claims.judge", "--record", cwd=tree, PYTHONPATH=str(tree)).returncode == 0
    return tree


def test_the_target_prints_each_time(tree: Path, archive: Path) -> None:
    for _ in range(2):
        done = snakemake(tree, "claims")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{ARCHIVE.name}: 3 claims: " in done.stdout + done.stderr
    assert (tree / "results/figures/claims.svg").is_file()


def test_the_target_fails_where_a_verdict_flips(tree: Path, archive: Path) -> None:
    path = tree / "data" / ARCHIVE.name / "verdicts.csv"
    before = path.read_text()
    rows = read_rows(path, "verdicts")
    flipped = "does not hold" if rows[1]["verdict"] == "holds" else "holds"
    try:
        write_rows(path, "verdicts", [rows[0], rows[1] | {"verdict": flipped}, rows[2]])
        done = snakemake(tree, "claims")
        words = done.stdout + done.stderr
        assert done.returncode != 0 and f"{ARCHIVE.name}: 3 claims: " in words
        assert f"differs: data/{ARCHIVE.name}: {rows[1]['id']}: {rows[1]['verdict']}" in words
        assert f"and recorded is: {flipped}" in words and rows[0]["id"] + ": " not in words.partition("differs: ")[2]
        done = snakemake(tree, "results/tables/claims.csv")  # what `all` needs does not fail
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        path.write_text(before)
