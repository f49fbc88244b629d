"""Rules that stood when a GPU was measured are known again, and a change of one is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers import ROOT

from contracts import rules


@pytest.mark.parametrize(
    ("file", "before", "after", "changed"),
    [
        ("paper/claims.yaml", ">= 1.05", ">= 1.04", ["ours/sgemm-tma-streamk"]),
        (
            "paper/claims.yaml",
            "- id: 3xtf32-wgmma\n",
            "- id: renamed\n",
            ["ours/3xtf32-wgmma", "ours/renamed"],
        ),
        # our words are no rule
        ("paper/claims.yaml", "The best kernel of FMAs", "The kernel of FMAs", []),
        ("analysis/findings.py", "REMOVED = 0.9 ", "REMOVED = 0.8 ", ["findings/REMOVED"]),
        (
            "analysis/findings.py",
            "removed = 1 - stores[1] / stores[0]",
            "removed = 1",
            ["findings/conflicts_moved"],
        ),
        ("analysis/findings.py", "    # ", "    # now ", []),
        (
            "analysis/findings.py",
            "which an XOR of a shared-memory address switches",
            "switched by an XOR",
            [],
        ),
        ("analysis/timings.py", "HELD = 0.01", "HELD = 0.02", ["analysis/timings.py"]),
        ("analysis/timings.py", "Timings of a results folder", "The timings of a folder", []),
    ],
)
def test_a_changed_rule_is_named_and_words_are_none(
    tmp_path: Path, file: str, before: str, after: str, changed: list[str]
) -> None:
    for folder in ("paper/worklogs", "analysis"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.csv", "__pycache__")
        )
    shutil.copyfile(ROOT / "paper" / "claims.yaml", tmp_path / "paper" / "claims.yaml")
    recorded = rules.hashes(tmp_path)
    path = tmp_path / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    assert rules.changed(recorded, rules.hashes(tmp_path)) == changed
