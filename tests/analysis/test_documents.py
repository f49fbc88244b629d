"""The paper of a whole archive: its length, its findings with their numbers, and the same bytes each time."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers import ARCHIVE, ROOT, assert_one_line, run_module
from made_inputs import write_inputs
from pypdf import PdfReader

from analysis import registry

MOST = 12  # pages
ABSTRACT = 150  # words


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


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

    def rendered(self) -> bool:
        done = self.render(ROOT / "paper" / "paper.typ")
        assert done.returncode == 0, done.stderr
        return True

    def copied(self, folder: Path) -> Made:
        for name in ("figures", "tables"):
            shutil.copytree(self.folder / name, folder / name)
        return Made(folder)

    def write(self, found: list[dict[str, Any]]) -> None:
        (self.folder / "tables" / "findings.json").write_text(json.dumps(found))

    def text(self) -> str:
        return printed((self.folder / "paper.pdf").read_bytes())

    def unbroken(self) -> str:
        """The text without hyphens, which may be those of ends of lines."""
        return re.sub(r"- ?", "", self.text())

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
    assert made.rendered()
    return made


def test_the_paper_of_the_whole_archive_fits_its_pages(whole: Made) -> None:
    assert 6 <= len(PdfReader(whole.folder / "paper.pdf").pages) <= MOST


def test_the_paper_states_each_finding_with_its_numbers(whole: Made) -> None:
    text, found = whole.text(), whole.findings()
    of = [one["part"] for one in found]
    assert of.count("worklogs") in range(5, 8) and of.count("beyond") == 4
    not_here = {one["name"] for one in found if not one["holds"] and one["part"] != "smaller"}
    assert not_here == ({"hopper"} if ARCHIVE.name == "h100" else set())
    lead = [one["name"] for one in found[:3]]
    assert lead == ["alignment", "counters", "hopper"]
    for one in found:
        if one["part"] == "smaller":
            continue
        assert text.lower().count(one["title"].lower()) >= 2, one["title"]  # in the introduction, and as a heading
        if one["name"] in lead:
            (card,) = re.findall(r"NVIDIA ([^ ]+)", one["tried"][0]["gpu"])
            assert f"{one['title']} ({'' if one['holds'] else 'not '}{card}" in text  # the title names the cards
        for number in re.findall(r"\d+(?:\.\d+)?", one["summary"]):
            assert number in text, (one["name"], number)


def test_a_finding_that_does_not_hold_is_not_reported_as_one(whole: Made, tmp_path: Path) -> None:
    other = whole.copied(tmp_path)
    found = whole.findings()
    (kept,) = [one for one in found if one["name"] == "power"]
    kept["holds"] = False
    other.write(found)
    assert other.rendered()
    before, after = (one.text().count("this does not hold") for one in (whole, other))
    assert after == before + 1 and "not here: power" in other.text() and "not here: power" not in whole.text()


def test_the_abstract_is_short(whole: Made) -> None:
    (abstract,) = re.findall(r"Abstract\. (.*?) 1 Introduction", whole.text())
    assert 100 <= len(abstract.split()) <= ABSTRACT, abstract


def test_a_share_is_named_where_it_is_printed(whole: Made, archive: Path) -> None:
    """Captions of what shows shares say which they are."""
    text, bench = whole.unbroken(), read_csv(archive / "bench.csv")
    of_each = "alone" in {row["share_kind"] for row in bench}
    said = "each alone, or in turns where a run is short" if of_each else "in turns"
    assert f"every share printed in this copy is {said} unless" in text
    parts = re.findall(r"(?:Figure|Table) \d+\. .{0,300}", text)
    captions = [part for part in parts if re.search("[Ss]hares? of (cuBLAS|the fastest call)", part)]
    silent = [part for part in captions if "in turns" not in part and "each alone" not in part]
    assert len(captions) > 6 and not silent, silent


def test_what_was_measured_by_hand_is_said_to_be_and_is_in_the_documents(whole: Made) -> None:
    rows = read_csv(ROOT / "paper" / "by_hand.csv")
    document = (ROOT / "docs" / "kernels" / "hopper.md").read_text()
    for row in rows:
        value = str(float(row["value"]) / 100) if row["quantity"] == "share_in_step" else row["value"]
        assert re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.]*\d)", document), row
    assert "was measured by hand on one H100: no verdict rests on it" in whole.unbroken()


def test_halved_shares_of_another_machine_change_the_paper_s_sentence(whole: Made, tmp_path: Path) -> None:
    """As in findings/test_findings.py, which holds matrix, finding and README's line to such a copy of the archive."""
    found = whole.findings()
    (hopper,) = [one for one in found if one["name"] == "hopper"]
    (tried,) = hopper["tried"]

    def on(machine: str, gpu: str, at_the_largest: float) -> dict[str, Any]:
        sizes = [row | {"percent": {16384: at_the_largest}.get(row["n"], 99)} for row in tried["numbers"]["by_size"]]
        holds = {"holds": at_the_largest > 95, "numbers": tried["numbers"] | {"by_size": sizes}}
        return tried | {"machine": machine, "gpu": gpu} | holds

    hopper["tried"] = [on("here", "NVIDIA Level", 102), on("other", "Slow GPU", 50)]
    other = whole.copied(tmp_path)
    other.write(found)
    assert other.rendered()
    assert "Slow GPU" not in whole.text()
    (sentence,) = set(re.findall(r"Our pingpong rung is .*?\.(?= [A-Z])", other.unbroken()))
    assert "falls to 50% on the Slow GPU" in sentence and "Level (99 to 102%)" in sentence
    assert f"{hopper['title']} (Level; not Slow GPU" in other.text()


def test_the_paper_is_the_same_bytes_each_time(whole: Made) -> None:
    again = whole.folder / "paper.pdf"
    before = again.read_bytes()
    assert whole.render(ROOT / "paper" / "paper.typ", PYTHONHASHSEED="7").returncode == 0
    assert again.read_bytes() == before


def test_a_source_that_is_not_there_is_named(whole: Made, tmp_path: Path) -> None:
    lost = tmp_path / "lost.typ"
    lost.write_text('#include "nowhere.typ"\n')
    assert_one_line(whole.render(lost), "no such file", "nowhere.typ", "lost.typ")
