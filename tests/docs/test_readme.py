"""README.md is short, and its pictures are there. What it says of measurements is
filled from findings.json, which tests/analysis/findings compares."""

from __future__ import annotations

import re

from helpers import ROOT

README = ROOT / "README.md"


def test_it_is_short() -> None:
    assert README.stat().st_size <= 8192


def test_its_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README.read_text())
    assert "docs/explorer.png" in pictures and "docs/ladder.svg" in pictures
    assert all((ROOT / path).stat().st_size < 200_000 for path in pictures)
