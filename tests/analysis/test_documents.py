"""The paper and its supplement, rendered from the archive: length, print size, findings, and what
is said of gaps.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import assert_one_line, run_module
from pypdf import PdfReader

from contracts import REHEARSAL

MOST_PAGES = {"paper": 10, "supplement": 40}


def render(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    places = ("--tables", folder / "tables", "--figures", folder / "figures", "--out", folder)
    return run_module("analysis", "render", *(f"paper/{name}.typ" for name in names), *places)


def text_of(path: Path) -> str:
    """The text of a PDF without white space and hyphens, which may be those of line ends."""
    return re.sub(
        r"[\s\u00ad-]", "", "".join(page.extract_text() for page in PdfReader(path).pages)
    )


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """A folder with tables and figures that may be changed."""
    for name in ("figures", "tables"):
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path


def test_each_finding_is_stated_once_and_has_text_for_each_case(made: Path, copied: Path) -> None:
    """No finding's text fails, or reads as if it held, where it does not hold, is within noise, or
    was not measured.
    """
    path = copied / "tables" / "findings.json"
    found, text = json.loads(path.read_text()), text_of(made / "paper.pdf")
    pay = next(finding["numbers"] for finding in found if finding["name"] == "steps_pay")
    counted = f"Of{pay['as_meant'] + pay['others']}steps{pay['as_meant']}moved"
    assert counted in text and f"{pay['faster']}ofthesebecamemorethan2%faster" in text
    for finding in found:
        assert text.count(re.sub(r"[\s`-]", "", finding["title"])) == 1, finding["title"]
    for change in ({"holds": False}, {"holds": None, "numbers": {}, "rows": []}):
        path.write_text(json.dumps([finding | change for finding in found]))
        done = render(copied, "paper")
        assert done.returncode == 0, (change, done.stderr)
        assert text_of(copied / "paper.pdf") != text


def test_each_page_of_a_rehearsal_says_so(copied: Path) -> None:
    path = copied / "tables" / "coverage.csv"
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{head},note", *(f"{row},{REHEARSAL}" for row in rows)]) + "\n")
    assert render(copied, "paper", "supplement").returncode == 0
    for name in ("paper", "supplement"):
        pages = [page.extract_text() for page in PdfReader(copied / f"{name}.pdf").pages]
        assert all(REHEARSAL in text for text in pages) and pages[0].count(REHEARSAL) == 2, name


def test_tables_without_rows_lead_to_sentences(copied: Path) -> None:
    """As on a GPU without Nsight Compute, or whose claims were not evaluated."""
    for name in ("counters", "steps", "emulator", "claims", "published", "gpus", "spread"):
        path = copied / "tables" / f"{name}.csv"
        path.write_text(path.read_text().splitlines()[0] + "\n")
    done = render(copied, "paper", "supplement")
    assert done.returncode == 0, done.stderr
    assert "Theclaimswerenotjudged" in text_of(copied / "paper.pdf")
    assert "Theseresultshavenocounters" in text_of(copied / "supplement.pdf")


def test_the_same_tables_and_figures_give_the_same_bytes_and_a_missing_one_is_named(
    made: Path, copied: Path
) -> None:
    assert render(copied, "paper").returncode == 0
    assert (copied / "paper.pdf").read_bytes() == (made / "paper.pdf").read_bytes()
    lacking: dict[str, Callable[[], object]] = {
        "analysis tabulate": (copied / "tables" / "timings.csv").unlink,
        "analysis draw sizes": (copied / "figures" / "sizes.pdf").unlink,
    }
    for command, remove in reversed(lacking.items()):
        remove()
        assert_one_line(render(copied, "paper"), "no such file", f"python -m {command}")


def test_documents_fit_their_pages(made: Path) -> None:
    for name, most in MOST_PAGES.items():
        assert len(PdfReader(made / f"{name}.pdf").pages) <= most, name
