"""Seconds by part: every part that a job records is one that gpu_seconds.csv and its figure know."""

from __future__ import annotations

import re

from helpers import ROOT

from analysis.figures.gpu_seconds import PARTS
from contracts.schema_files import schema


def test_every_part_that_is_recorded_has_a_place_in_the_table_and_in_the_figure() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "experiments").rglob("*.py"))
    recorded = set(re.findall(r"(?:\.of\(|\.parts\[|seconds=\{)\"([a-z-]+)\"", sources))
    allowed = schema("gpu_seconds")["properties"]["part"]["enum"]
    assert {"alone", "window", "start"} <= recorded <= set(allowed)
    assert set(PARTS) == set(allowed)
