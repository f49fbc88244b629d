"""README.md says nothing of what was found that the archive's tables deny."""

from __future__ import annotations

import re
from pathlib import Path

from helpers import ROOT, run_module

README = ROOT / "README.md"


def test_what_was_found_holds_in_the_archive(archive: Path, variants_csv: Path, tmp_path: Path) -> None:
    doc = tmp_path / "README.md"
    doc.write_text(README.read_text())
    done = run_module("analysis.fill_docs", "--measured", archive, "--variants", variants_csv, "--doc", doc)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) hold on", done.stdout)[0]) > 10
    assert doc.read_text() == README.read_text()


def test_its_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README.read_text())
    assert "docs/explorer.png" in pictures and "docs/ladder.svg" in pictures
    assert all((ROOT / path).stat().st_size < 200_000 for path in pictures)
