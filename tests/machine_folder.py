"""A machine's tables in a folder of their own, to be edited and read; and the words of a figure."""

from __future__ import annotations

import csv
import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import run_module
from made_inputs import write_inputs
from matplotlib.figure import Figure
from matplotlib.text import Text
from pypdf import PdfReader

from analysis import data
from analysis.data import Measured
from analysis.figures import style
from analysis.inputs import Inputs
from analysis.tables.wave_quantization import load_balance
from contracts import read_rows, write_rows
from kernels import catalogue

PAPER_TABLES = ("summary", "ladder", "sizes", "data_kinds", "resources", "checks", "counters", "comparison")
PAPER_TABLES += ("wave_quantization",)


@functools.cache
def _none_stale(source: Path) -> bytes:
    """The catalogue as variants.csv, with the hashes that a machine's kernels had."""
    recorded = source / "same_code.csv"
    same_code = read_rows(recorded, "same_code") if recorded.is_file() else []
    checks = data.with_hashes_of_today(read_rows(source / "checks.csv", "checks"), same_code)
    hashes = {row["variant"]: row["source_hash"] for row in checks}
    rows = [row | {"source_hash": hashes.get(row["variant"], row["source_hash"])} for row in catalogue.load().rows()]
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder, "variants.csv"), "variants", rows)
        return Path(folder, "variants.csv").read_bytes()


class Folder:
    """A machine's tables in a folder of its own, and a catalogue by which nothing of them is stale."""

    def __init__(self, folder: Path, source: Path, without: tuple[str, ...] = ()) -> None:
        """A copy of the folder `source`, `without` these tables."""
        self.measured, self.variants = folder / "data", folder / "variants.csv"
        shutil.copytree(source, self.measured, ignore=shutil.ignore_patterns("archived.json"))  # to be edited
        self.variants.write_bytes(_none_stale(source))
        for name in without:
            (self.measured / f"{name}.csv").unlink(missing_ok=True)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return read_rows(self.variants if name == "variants" else self.measured / f"{name}.csv", name)

    def edit(self, name: str, change: Any, keep: Any = lambda row: True) -> None:
        """Apply `change` to every row of a table, and drop those that are not to `keep`."""
        path = self.variants if name == "variants" else self.measured / f"{name}.csv"
        write_rows(path, name, [row | (change(row) or {}) for row in self.rows(name) if keep(row)])

    def read(self, archived: bool = True) -> Measured:
        return self.inputs(archived).measured()

    def inputs(self, archived: bool = True) -> Inputs:
        return Inputs.of_folder(self.measured, self.variants, archived=archived)

    def made(self, out: Path, *names: str, **changes: Any) -> subprocess.CompletedProcess[str]:
        """The command that writes report tables, run."""
        inputs = write_inputs(self.measured.parent / "inputs.json", self.measured, self.variants, **changes)
        return run_module("analysis.tabulate", "--inputs", inputs, "--out", out, *names)

    def made_rows(self, out: Path, name: str) -> list[dict[str, str]]:
        """The rows of one report table, made by the command."""
        done = self.made(out, name)
        assert done.returncode == 0, done.stderr
        with (out / f"{name}.csv").open() as file:
            return list(csv.DictReader(file))

    def drawn(self, out: Path, *names: str, **changes: Any) -> subprocess.CompletedProcess[str]:
        """The command that draws figures, run."""
        inputs = write_inputs(self.measured.parent / "inputs.json", self.measured, self.variants, **changes)
        return run_module("analysis.draw", "--inputs", inputs, "--out", out, *names)

    def tail(self) -> pd.DataFrame:
        return load_balance(self.read(), data.table(self.rows("resources"), "resources"))

    def tables(self, out: Path) -> dict[str, list[dict[str, str]]]:
        """The paper's tables, made by the command."""
        done = self.made(out, *PAPER_TABLES)
        assert done.returncode == 0, done.stderr
        return {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}


class Still(Folder):
    """The same, for tests that change nothing: each table is read once, as by a process that draws many figures."""

    @functools.cached_property
    def _inputs(self) -> Inputs:
        return super().inputs()

    def inputs(self, archived: bool = True) -> Inputs:
        assert archived
        return self._inputs


def warptile_fails(row: dict[str, Any]) -> dict[str, Any] | None:
    """The last of warptile's cases on the GPU, with a NaN in it."""
    bad = row["variant"] == "sgemm_warptile" and row["case"] == "large"
    return {"passed": False, "worst_error_share": None, "detail": "1 elements are not finite"} if bad else None


def texts_of(figure: Figure) -> list[Text]:
    """The texts that are drawn, once it is laid out: finely, so that hinting does not widen them."""
    found: list[Text] = []
    draw_text = Text.draw

    def noted(text: Text, renderer: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            found.append(text)
        draw_text(text, renderer)

    figure.set_dpi(300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", noted)
        figure.draw_without_rendering()  # as drawing does, but for the pixels
    return found


def words_of(figure: Figure) -> str:
    """The words that are drawn, white space made even."""
    words = " ".join(text.get_text() for text in texts_of(figure))
    style.plt.close(figure)
    return " ".join(words.split())


def drawn(figure: Any, folder: Path, name: str = "figure") -> tuple[str, str]:
    """Saved as SVG and PDF: the words of either, white space made even."""
    svg = folder / f"{name}.svg"
    style.save(figure, svg)
    words = " ".join(re.findall(r"<!-- (.*?) -->", svg.read_text(), re.S))  # matplotlib draws text as paths, noted so
    pdf = PdfReader(svg.with_suffix(".pdf")).pages[0].extract_text()
    return " ".join(words.split()), " ".join(pdf.split())


def with_rows(folder: Folder, name: str, rows: list[dict[str, Any]]) -> None:
    """Give the folder a table of `rows`, each with the hash that its variant has in the catalogue."""
    now = {row["variant"]: row["source_hash"] for row in folder.rows("variants")}
    write_rows(folder.measured / f"{name}.csv", name, [{"source_hash": now.get(r["variant"], "0")} | r for r in rows])
