"""The paper and its supplement, rendered from the archive: length, print size, findings, and what is said of gaps."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import ARCHIVE, ROOT, assert_one_line, run_module
from pypdf import PdfReader
from pypdf.generic import ContentStream

PAPER, SUPPLEMENT = (ROOT / "paper" / f"{name}.typ" for name in ("paper", "supplement"))
MOST_PAGES = {PAPER: 10, SUPPLEMENT: 40}
SMALLEST = 6.0  # points
DRAWN = re.compile(r'\bdrawn\(\s*"(\w+)"')


def ran(module: str, *arguments: object) -> None:
    done = run_module(module, *arguments)
    assert done.returncode == 0, done.stderr


def render(folder: Path, *documents: Path) -> subprocess.CompletedProcess[str]:
    places = ("--tables", folder / "tables", "--figures", folder / "figures", "--out", folder)
    return run_module("analysis.render", *documents, *places)


def text_of(path: Path) -> str:
    """The text of a PDF without white space and hyphens, which may be those of line ends."""
    return re.sub(r"[\s\u00ad-]", "", "".join(page.extract_text() for page in PdfReader(path).pages))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, variants_csv: Path) -> Path:
    """A folder with tables, figures and both documents, made by the commands of the pipeline."""
    folder = tmp_path_factory.mktemp("documents")
    tables, common = folder / "tables", ("--catalogue", variants_csv)
    ran("analysis.tabulate", "--results", ARCHIVE, *common, "--archives", ARCHIVE, "--out", tables)
    ran("analysis.findings", "--archives", ARCHIVE, *common, "--out", tables / "findings.json")
    analytic = folder / "analytic.csv"
    ran("experiments.stages.analytic", "--out", analytic)
    ran("analysis.claims", "--archives", ARCHIVE, *common, "--analytic", analytic, "--out", tables / "claims.csv")
    sources = [*PAPER.parent.glob("sections/*.typ"), *PAPER.parent.glob("supplement/*.typ")]
    names = sorted({name for source in sources for name in DRAWN.findall(source.read_text())})
    ran("analysis.draw", "--results", ARCHIVE, *common, "--out", folder / "figures", *names)
    done = render(folder, PAPER, SUPPLEMENT)
    assert done.returncode == 0, done.stderr
    return folder


def copied(made: Path, folder: Path) -> Path:
    for name in ("figures", "tables"):
        shutil.copytree(made / name, folder / name)
    return folder


# ---- size of print --------------------------------------------------------------------------------------------------

Matrix = tuple[float, float, float, float]  # a, b, c, d of PDF's matrices: where text stands does not matter here


def times(first: Matrix, second: Matrix) -> Matrix:
    (a, b, c, d), (e, f, g, h) = first, second
    return (a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h)


def sizes_of_print(reader: PdfReader, content: Any, resources: Any, outer: Matrix) -> Iterator[tuple[float, bytes]]:
    """The size in points of each piece of text and its bytes, in a page's content or in a picture's on it."""
    current, stack, line, size = outer, [], (1.0, 0.0, 0.0, 1.0), 0.0
    for operands, operator in ContentStream(content, reader).operations:
        if operator == b"q":
            stack.append(current)
        elif operator == b"Q":
            current = stack.pop()
        elif operator == b"cm":
            current = times(tuple(map(float, operands[:4])), current)
        elif operator == b"BT":
            line = (1.0, 0.0, 0.0, 1.0)
        elif operator == b"Tm":
            line = tuple(map(float, operands[:4]))
        elif operator == b"Tf":
            size = float(operands[1])
        elif operator in (b"Tj", b"TJ"):
            a, b, c, d = times(line, current)
            yield size * math.sqrt(abs(a * d - b * c)), str(operands).encode()
        elif operator == b"Do":
            form = resources["/XObject"][operands[0]].get_object()
            if form["/Subtype"] == "/Form":
                inner = times(tuple(map(float, form.get("/Matrix", (1, 0, 0, 1))[:4])), current)
                yield from sizes_of_print(reader, form, form.get("/Resources", resources).get_object(), inner)


@pytest.mark.parametrize("document", [PAPER, SUPPLEMENT], ids=["paper", "supplement"])
def test_a_document_fits_its_pages_and_can_be_read_in_print(made: Path, document: Path) -> None:
    reader = PdfReader(made / f"{document.stem}.pdf")
    assert len(reader.pages) <= MOST_PAGES[document]
    found = 0
    for i, page in enumerate(reader.pages, 1):
        for size, text in sizes_of_print(reader, page.get_contents(), page["/Resources"], (1.0, 0.0, 0.0, 1.0)):
            found += 1
            assert size == 0 or size >= SMALLEST - 0.05, f"page {i}: {size:.1f} pt: {text[:80]!r}"
    assert found > 500


# ---- what the paper says --------------------------------------------------------------------------------------------


def test_each_finding_is_stated_once(made: Path) -> None:
    text = text_of(made / "paper.pdf")
    for finding in json.loads((made / "tables" / "findings.json").read_text()):
        title = re.sub(r"[\s`-]", "", finding["title"])
        assert text.count(title) == 1, finding["title"]


def test_each_finding_has_text_for_each_case(made: Path, tmp_path: Path) -> None:
    """No finding's text fails, or reads as if it held, where it does not hold, is within noise, or was not measured."""
    folder = copied(made, tmp_path)
    path = folder / "tables" / "findings.json"
    whole = json.loads(path.read_text())
    for change in ({"holds": False}, {"holds": None}, {"holds": None, "numbers": {}, "rows": []}):
        path.write_text(json.dumps([finding | change for finding in whole]))
        done = render(folder, PAPER)
        assert done.returncode == 0, (change, done.stderr)
        assert text_of(folder / "paper.pdf") != text_of(made / "paper.pdf")


def test_tables_without_rows_lead_to_sentences(made: Path, tmp_path: Path) -> None:
    """As on a GPU without Nsight Compute, or whose claims were not judged."""
    folder = copied(made, tmp_path)
    for name in ("counters", "steps", "emulator", "claims", "published", "gpus", "spread"):
        path = folder / "tables" / f"{name}.csv"
        if path.is_file():
            path.write_text(path.read_text().splitlines()[0] + "\n")
    done = render(folder, PAPER, SUPPLEMENT)
    assert done.returncode == 0, done.stderr
    assert "Theclaimswerenotjudged" in text_of(folder / "paper.pdf")
    assert "Theseresultshavenocounters" in text_of(folder / "supplement.pdf")


def test_the_same_tables_and_figures_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    folder = copied(made, tmp_path)
    assert render(folder, PAPER).returncode == 0
    assert (folder / "paper.pdf").read_bytes() == (made / "paper.pdf").read_bytes()


@pytest.mark.parametrize(
    "lost, words",
    [
        ("tables/timings.csv", ("no such file", "python -m analysis.tabulate")),
        ("figures/sizes.pdf", ("no such file", "python -m analysis.draw sizes")),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_makes_it(
    made: Path, tmp_path: Path, lost: str, words: tuple[str, ...]
) -> None:
    folder = copied(made, tmp_path)
    (folder / lost).unlink()
    assert_one_line(render(folder, PAPER), lost, *words)
