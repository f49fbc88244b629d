"""docs/kernels/ shows what was measured, has a section for each kernel of the worklogs, and says nothing that the
archive's tables contradict; nor does README.md."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest
from helpers import ARCHIVE, ROOT, assert_one_line, run_module

from analysis import fill_docs
from analysis.inputs import Inputs
from analysis.quantities.machine import Machine
from contracts import read_rows, registry, write_rows
from kernels import catalogue

FAMILIES = ["worklog_a", "padding", "worklog_b", "worklog_c", "fp32_fma", "hgemm", "hopper", "tf32", "3xtf32"]
DOCS = [ROOT / "docs" / "kernels" / f"{name}.md" for name in FAMILIES]
STATEMENTS = sorted((ROOT / "docs" / "statements").glob("*.txt"))
SECTION = re.compile(r"^## (.*)\n((?:(?!^##? ).*\n?)*)", re.MULTILINE)


def machine(measured: Path, variants: Path) -> Machine:
    return fill_docs.read_machine(argparse.Namespace(measured=measured, variants=variants, inputs=None))


@pytest.fixture(scope="module")
def current(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue by which nothing in the archive is stale."""
    hashes = {row["variant"]: row["source_hash"] for row in read_rows(archive / "bench.csv", "bench")}
    rows = [row | {"source_hash": hashes.get(row["variant"], row["source_hash"])} for row in catalogue.load().rows()]
    path = tmp_path_factory.mktemp("current") / "variants.csv"
    write_rows(path, "variants", rows)
    return path


@pytest.fixture(scope="module")
def known(archive: Path, current: Path) -> Machine:
    return machine(archive, current)


def filled(known: Machine, text: str) -> str:
    return fill_docs.fill(text, known, Path("doc.md"))


def judged(known: Machine, text: str) -> list[fill_docs.Statement]:
    return fill_docs.judged(text, known, Path("doc.txt"))


# ---- the documents ----------------------------------------------------------------------------------------------


def test_the_documents_are_what_the_command_makes_of_the_archive(archive: Path, variants_csv: Path) -> None:
    known = machine(archive, variants_csv)
    command = f"python -m analysis.fill_docs --measured data/{ARCHIVE.name} --variants results/variants.csv --doc"
    stale = [doc.name for doc in DOCS if fill_docs.fill(doc.read_text(), known, doc) != doc.read_text()]
    assert not stale, f"out of date: {stale}: {command} docs/kernels/*.md"
    assert {doc.name for doc in (ROOT / "docs" / "kernels").glob("*.md")} == {doc.name for doc in DOCS} | {"README.md"}


@pytest.mark.parametrize("statements", STATEMENTS, ids=lambda path: path.stem)
def test_what_a_document_says_holds_in_the_archive(statements: Path, archive: Path, variants_csv: Path) -> None:
    found = fill_docs.judged(statements.read_text(), machine(archive, variants_csv), statements)
    assert found and [statement for statement in found if statement.verdict is False] == []
    assert statements.stem in FAMILIES


def test_every_kernel_and_dispatcher_of_the_worklogs_has_a_section_with_its_source_and_a_table() -> None:
    runnable = catalogue.load().runnable
    shown = []
    for title, body in SECTION.findall("".join(doc.read_text() for doc in DOCS)):
        names = re.findall(r"`(\w+)`", title)
        assert set(names) <= set(runnable), title
        shown += names
        tables = " ".join(re.findall(r"^<!-- (?:table|sizes): (.*?)\|", body, re.MULTILINE)).split()
        links = re.findall(r"\]\(([^)]+)\)", body)
        for name in names:
            assert name in tables, name
            entry = runnable[name]
            source = entry.source if isinstance(entry, catalogue.Variant) else catalogue.CATALOGUE
            assert f"../../kernels/{source.relative_to(catalogue.ROOT)}" in links, name
    assert len(shown) == len(set(shown))
    assert {name for name, entry in runnable.items() if entry.origin} <= set(shown)
    kernels = catalogue.load().kernels
    assert [name for name in shown if name in kernels] == [name for name in kernels if name in shown]


def test_links_lead_somewhere() -> None:
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [(doc, link) for doc in documents for link in re.findall(r"\]\(((?!https?:)[^)#]+)", doc.read_text())]
    assert links and [link for doc, link in links if not (doc.parent / link).exists()] == []
    named = {name for doc in documents for name in re.findall(r"`(docs/[\w./-]*)`", doc.read_text())}
    assert [name for name in named if not (ROOT / name).exists()] == []


# ---- tables -----------------------------------------------------------------------------------------------------


def test_a_table_is_filled_from_the_archive_and_filling_again_changes_nothing(known: Machine, archive: Path) -> None:
    names = "sgemm_naive sgemm_warptile cublas_fp32"
    text = f"Before\n<!-- table: {names} | global_load_requests lds_128 -->\nold\n<!-- end -->\n"
    made = filled(known, text)
    bench = [row for row in read_rows(archive / "bench.csv", "bench") if row["n"] == 4096]
    naive, warptile = (
        {f"{row['time_us_median']:,.0f}" for row in bench if row["variant"] == name}  # of some experiment
        for name in ("sgemm_naive", "sgemm_warptile")
    )
    found = re.search(r"^\| Time, µs \| (\S+) \| (\S+) \| ", made, re.MULTILINE)
    assert found and found[1] in naive and found[2] in warptile
    assert "|  | naive | warptile | cuBLAS fp32 |" in made
    assert "| Global load requests, billions | 4.29 | 0.008 | 0.025 |" in made  # 4096^3 * 2 / 32 for naive
    assert re.search(r"^\| LDS\.128 in the SASS \| 0 \| [1-9]\d* \| – \|$", made, re.MULTILINE)
    assert re.search(r"^\| Registers per thread \| 32 \| \d+ \| 2\d\d \|$", made, re.MULTILINE)  # the library's by ncu
    assert "old" not in made and filled(known, made) == made


def test_what_is_not_measured_stale_or_failed_is_reported(
    archive: Path, archived_gpu: str, current: Path, tmp_path: Path
) -> None:
    bench = read_rows(archive / "bench.csv", "bench")
    folder = tmp_path / "data"
    folder.mkdir()
    for path in archive.iterdir():
        if path.name != "archived.json":  # to be edited
            (folder / path.name).write_bytes(path.read_bytes())
    write_rows(folder / "bench.csv", "bench", [row for row in bench if row["variant"] != "sgemm_warptile"])
    checks = read_rows(archive / "checks.csv", "checks")
    bad = [row | {"passed": row["passed"] and row["variant"] != "sgemm_naive"} for row in checks]
    write_rows(folder / "checks.csv", "checks", bad)
    catalogue_rows = read_rows(current, "variants")
    changed = [
        row | ({"source_hash": "other"} if row["variant"] == "sgemm_coalesced" else {}) for row in catalogue_rows
    ]
    variants = tmp_path / "variants.csv"
    write_rows(variants, "variants", changed)
    names = "sgemm_naive sgemm_coalesced sgemm_vectorized sgemm_warptile"
    text = (
        "<!-- origin -->\n<!-- end -->\n"
        f"<!-- table: {names} | -->\n<!-- end -->\n<!-- sizes: {names} | 4096 -->\n<!-- end -->\n"
    )
    made = filled(machine(folder, variants), text)
    statements = judged(machine(folder, variants), "sgemm_coalesced.share < 1\nsgemm_naive.share < 1\n")
    assert "|  | coalesced† | vectorized |" in made and "| coalesced† | 12" in made
    assert made.count(f"*Not measured yet on {archived_gpu}: `sgemm_warptile`.*") == 2
    assert made.count("*Failed a check, so not shown: `sgemm_naive`.*") == 2
    assert "† source changed since measured" in made
    assert [(statement.verdict, statement.waits_for) for statement in statements] == [
        (None, ("sgemm_coalesced",)),
        (None, ("sgemm_naive",)),
    ]


# ---- statements -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("sgemm_coalesced.share > 10 * sgemm_naive.share", True),
        ("sgemm_coalesced.share > 100 * sgemm_naive.share", False),
        ("0.99 < sgemm_coalesced.global_load_requests / sgemm_naive.global_load_requests < 1.01", True),
        ("1 < sgemm_naive.load_bytes_per_sector < 4", False),
        ("sgemm_naive.registers + 2 * (sgemm_naive.spill_bytes + 1) <= 34", True),
        ("sgemm_warptile.share[1024] < sgemm_warptile.share", True),
        ("sgemm_warptile.share[1024] >= sgemm_warptile.share[4096]", False),
        ("sgemm_warptile.share[1000] > 0", None),
        ("cublas_fp32.share / sgemm_naive.shared_load_conflicts > 0", False),
    ],
)
def test_statements_are_judged(known: Machine, expression: str, verdict: bool | None) -> None:
    (statement,) = judged(known, f"# a sentence\n\n{expression}\n")
    assert statement.verdict is verdict and statement.line == 3
    counts = {True: "1 hold on", False: "1 do not", None: "1 wait for measurements of `sgemm_warptile`"}
    text = fill_docs.summary(known, [statement])
    assert "Of 1 statements" in text and counts[verdict] in text


def test_statements_speak_of_errors_at_k(archive: Path, current: Path, tmp_path: Path) -> None:
    study = "error_over_k"
    if study not in registry.tables():
        pytest.skip("that study is gone")
    hashes = {row["variant"]: row["source_hash"] for row in read_rows(current, "variants")}
    row = {"device": "ptxsim", "data": "wide", "elements": 1, "worst": 7, "rms": 2}
    names = {"sgemm_naive": hashes["sgemm_naive"], "sgemm_warptile": "older"}
    rows = [row | {"variant": name, "source_hash": source, "k": 64} for name, source in names.items()]
    table = tmp_path / "errors.csv"
    write_rows(table, study, rows)
    inputs = Inputs.of_folder(archive, current, archived=True)
    for tables, verdicts in (
        ({**inputs.tables, study: table}, [True, False, None, None]),
        ({name: path for name, path in inputs.tables.items() if name != study}, [None] * 4),
    ):
        changed = dataclasses.replace(inputs, tables=tables)
        expressions = (
            "sgemm_naive.error_rms_wide[64] + 5 <= sgemm_naive.error_worst_wide[64]",
            "sgemm_naive.error_rms_wide[64] > 2",
            "sgemm_naive.error_rms_wide[128] > 0",
            "sgemm_warptile.error_rms_wide[64] > 0",
        )
        assert [statement.verdict for statement in judged(Machine(changed), "\n".join(expressions))] == verdicts


def command(archive: Path, variants: Path, *docs: Path) -> tuple[object, ...]:
    return ("analysis.fill_docs", "--measured", archive, "--variants", variants, "--doc", *docs)


def test_the_command_writes_the_tables_and_fails_for_a_false_statement(
    archive: Path, archived_gpu: str, current: Path, tmp_path: Path
) -> None:
    doc, statements = tmp_path / "doc.md", tmp_path / "doc.txt"
    doc.write_text("<!-- table: sgemm_naive | -->\n<!-- end -->\n")
    statements.write_text("# Too good.\nsgemm_naive.share > 1\n")
    done = run_module(*command(archive, current, statements, doc))
    assert done.returncode == 1 and "| Share of cuBLAS, % | 0.9" in doc.read_text()
    assert f"{statements}:2: false on {archived_gpu}: sgemm_naive.share > 1 (values: 0.009" in done.stdout
    statements.write_text(statements.read_text().replace("share > 1", "share < 1"))
    assert run_module(*command(archive, current, statements, doc)).returncode == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("<!-- table: sgemm_niave | -->", ["unknown variant 'sgemm_niave'", "doc.md:2", "nearest: sgemm_naive"]),
        ("<!-- table: sgemm_naive | fma_pip -->", ["unknown quantity 'fma_pip'", "doc.md:2", "nearest: fma_pipe"]),
        ("<!-- tabel: sgemm_naive | -->", ["unknown comment 'tabel'", "nearest: table"]),
        ("<!-- table -->", ["doc.md:2", "allowed: <!-- table: VARIANT ... | KEY ... -->"]),
        ("<!-- sizes: sgemm_naive | big -->", ["'big' is not a size"]),
    ],
)
def test_a_wrong_comment_is_one_line_and_nothing_is_written(
    line: str, words: list[str], known: Machine, tmp_path: Path
) -> None:
    with pytest.raises(fill_docs.UserError) as error:
        filled(known, f"Text\n{line}\n<!-- end -->\n")
    assert all(word in str(error.value) for word in words) and "\n" not in str(error.value), error.value


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sgemm_naive.shares > 1", ["unknown quantity 'shares'", "share"]),
        ("sgemm_naive.template > 1", ["names are compared with == and != to names only"]),
        ("sgemm_naive.share", ["sgemm_naive.share is not allowed; allowed: a comparison"]),
        ("__import__('os').getpid() > 1", ["is not allowed; allowed: VARIANT.QUANTITY"]),
        ("sgemm_naive.share ** 99 > 1", ["allowed: an exact exponent up to 64"]),
        ("1 <", ["not an expression"]),
    ],
)
def test_a_wrong_statement_is_one_line(line: str, words: list[str], known: Machine) -> None:
    with pytest.raises(fill_docs.UserError) as error:
        judged(known, f"# Text\n{line}\n")
    assert all(word in str(error.value) for word in ["doc.txt:2", *words]) and "\n" not in str(error.value), error.value


@pytest.mark.parametrize(
    "text",
    [
        "<!-- table: sgemm_naive | -->\n",
        "<!-- table: sgemm_naive | -->\n<!-- origin -->\n<!-- end -->\n",
        "<!-- end -->\n",
        "<!-- table: sgemm_naive | -->\n<!-- end -->\n<!-- end -->\n",
    ],
)
def test_a_block_has_a_beginning_and_an_end(text: str, known: Machine) -> None:
    with pytest.raises(fill_docs.UserError, match="<!-- end -->"):
        filled(known, text)


def test_the_command_reports_a_fault_in_one_line_and_leaves_the_document(
    archive: Path, current: Path, tmp_path: Path
) -> None:
    doc = tmp_path / "doc.md"
    text = "<!-- table: sgemm_naive | -->\n<!-- end -->\n<!-- table: sgemm_niave | -->\n<!-- end -->\n"
    doc.write_text(text)
    assert_one_line(run_module(*command(archive, current, doc)), "sgemm_niave", "nearest: sgemm_naive", f"{doc}:3")
    assert doc.read_text() == text and [path.name for path in tmp_path.iterdir()] == ["doc.md"]
    assert_one_line(run_module(*command(archive, current, tmp_path / "none.md")), "cannot read", "none.md")
