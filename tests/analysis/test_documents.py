"""The paper of a whole archive: its length, its findings with their numbers, and the same bytes each time."""

from __future__ import annotations

import functools
import io
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, assert_one_line, run_module
from made_inputs import write_inputs
from pypdf import PdfReader

from analysis import registry

MOST = 14  # pages


@functools.cache
def printed(pdf: bytes) -> str:
    """The text of a PDF, white space made even."""
    pages = PdfReader(io.BytesIO(pdf)).pages
    return " ".join(" ".join(page.extract_text() for page in pages).replace("’", "'").split())


@dataclass(frozen=True)
class Made:
    """Tables, figures and documents, made by the commands as the pipeline calls them."""

    folder: Path

    def render(self, *documents: Path, **environment: str) -> Any:
        places = ("--tables", self.folder / "tables", "--figures", self.folder / "figures", "--out", self.folder)
        return run_module("analysis.render", *documents, *places, **environment)

    def text(self) -> str:
        return printed((self.folder / "paper.pdf").read_bytes())

    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "tables" / "findings.json").read_text())
        return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, archive: Path, variants_csv: Path) -> Made:
    """All tables and the paper's figures, of the archive as it is."""
    folder = tmp_path_factory.mktemp("documents")
    done = run_module("experiments.stages.analytic", "--out", folder / "analytic.csv")
    assert done.returncode == 0, done.stderr
    more = {"tables": {"analytic": folder / "analytic.csv"}, "archives": [str(archive)]}
    inputs = write_inputs(folder / "inputs.json", archive, variants_csv, **more)
    done = run_module("analysis.tabulate", "--inputs", inputs, "--out", folder / "tables")
    assert done.returncode == 0, done.stderr
    drawn = [name for name, one in registry.figures().items() if one.category == "1 Paper"]
    done = run_module("analysis.draw", "--inputs", inputs, "--out", folder / "figures", "sizes_sgemm_sizes", *drawn)
    assert done.returncode == 0, done.stderr
    made = Made(folder)
    done = made.render(ROOT / "paper" / "paper.typ")
    assert done.returncode == 0, done.stderr
    return made


def test_the_paper_of_the_whole_archive_fits_its_pages(whole: Made) -> None:
    assert 6 <= len(PdfReader(whole.folder / "paper.pdf").pages) <= MOST


def test_the_paper_tells_each_finding_with_its_numbers(whole: Made) -> None:
    text, found = whole.text(), whole.findings()
    of = [one["part"] for one in found]
    assert of.count("worklogs") in range(5, 8) and of.count("beyond") == 4 and all(one["holds"] for one in found)
    for one in found:
        if one["part"] == "smaller":
            continue
        assert text.count(one["title"]) >= 2, one["title"]  # in the introduction, and as a heading
        for number in re.findall(r"\d+(?:\.\d+)?", one["summary"]):
            assert number in text, (one["name"], number)


def test_a_finding_that_does_not_hold_is_not_told_as_one(whole: Made, tmp_path: Path) -> None:
    other = Made(tmp_path)
    shutil.copytree(whole.folder / "figures", tmp_path / "figures")
    shutil.copytree(whole.folder / "tables", tmp_path / "tables")
    found = whole.findings()
    (kept,) = [one for one in found if one["name"] == "power"]
    kept["holds"] = False
    (tmp_path / "tables" / "findings.json").write_text(json.dumps(found))
    done = other.render(ROOT / "paper" / "paper.typ")
    assert done.returncode == 0, done.stderr
    assert other.text().count("this does not hold") == 1 and "Not here:" in other.text()
    assert "this does not hold" not in whole.text()


def test_the_paper_is_the_same_bytes_each_time(whole: Made) -> None:
    again = whole.folder / "paper.pdf"
    before = again.read_bytes()
    assert whole.render(ROOT / "paper" / "paper.typ", PYTHONHASHSEED="7").returncode == 0
    assert again.read_bytes() == before


def test_a_source_that_is_not_there_is_named(whole: Made, tmp_path: Path) -> None:
    lost = tmp_path / "lost.typ"
    lost.write_text('#include "nowhere.typ"\n')
    assert_one_line(whole.render(lost), "no such file", "nowhere.typ", "lost.typ")
