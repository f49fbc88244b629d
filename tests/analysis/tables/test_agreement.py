"""The GPU's results next to the emulator's, one line per kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from machine_folder import Folder, with_rows

SIZE = {"m": 1024, "n": 1024, "k": 1024}


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    """The archive without this table."""
    return Folder(tmp_path, archive, without=("agreement",))


def made(folder: Folder, out: Path) -> list[dict[str, str]]:
    """The table, by the command."""
    return folder.made_rows(out, "agreement")


def test_agreement_is_a_line_a_kernel(folder: Folder, tmp_path: Path) -> None:
    case = {**SIZE, "lda": 1024, "ldb": 1024, "ldc": 1024, "alpha": 1.0, "beta": 0.0, "seed": 1, "elements": 100}

    def row(variant: str, name: str, differing: int, worst: float | None, passed: bool) -> dict[str, Any]:
        result = {"differing": differing, "worst_difference_share": worst, "passed": passed}
        return {"variant": variant, "dtype": "fp32", "case": name} | case | result

    with_rows(
        folder,
        "agreement",
        [
            row("sgemm_vectorized", "a", 0, 0.0, True),
            row("sgemm_vectorized", "b", 3, 0.25, False),
            row("sgemm_naive", "a", 0, 0.0, True),
            row("sgemm_naive", "b", 1, None, False),
            row("sgemm_warptile", "a", 0, 0.0, True),
        ],
    )
    rows = {row["label"]: row for row in made(folder, tmp_path / "t")}
    naive, vectorized, warptile = (rows[label] for label in rows)  # the catalogue's order
    assert [vectorized[key] for key in ("cases", "elements", "differing", "worst_difference_share", "passed")] == [
        "2", "200", "3", "0.25", "false"
    ]  # fmt: skip
    assert (naive["worst_difference_share"], naive["passed"], warptile["passed"]) == ("", "false", "true")


def test_where_it_was_not_measured_there_are_no_rows(folder: Folder, tmp_path: Path) -> None:
    assert made(folder, tmp_path / "t") == []
