"""What compute-sanitizer found, by tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import assert_one_line, run_module
from machine_folder import Folder, with_rows

from analysis.tables import sanitizer as sanitizer_table
from contracts import schema


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    """The archive without this table."""
    return Folder(tmp_path, archive, without=("sanitizer",))


def made(folder: Folder, out: Path) -> list[dict[str, str]]:
    """The table, by the command."""
    return folder.made_rows(out, "sanitizer")


def test_the_sanitizer_s_matrix_has_errors_by_tool(folder: Folder, tmp_path: Path) -> None:
    def row(variant: str, tool: str, errors: int = 0, detail: str | None = None) -> dict[str, Any]:
        return {
            "variant": variant,
            "tool": tool,
            "launches": 5,
            "errors": errors,
            "detail": detail,
            "passed": not errors,
        }

    race = "Error: Race reported at x.cu:7"
    rows = [row("sgemm_naive", tool) for tool in sanitizer_table.TOOLS]
    with_rows(
        folder, "sanitizer", [*rows, row("sgemm_warptile", "memcheck"), row("sgemm_warptile", "racecheck", 3, race)]
    )
    clean, bad = made(folder, tmp_path / "t")
    assert [clean[tool] for tool in sanitizer_table.TOOLS] == ["0"] * 4 and (clean["passed"], clean["detail"]) == (
        "true",
        "",
    )
    assert [bad[tool] for tool in sanitizer_table.TOOLS] == ["0", "3", "", ""] and (bad["passed"], bad["detail"]) == (
        "false",
        race,
    )
    assert schema("sanitizer")["properties"]["tool"]["enum"] == list(sanitizer_table.TOOLS)


def test_what_the_sanitizer_found_is_not_archived(folder: Folder, tmp_path: Path) -> None:
    row = {"variant": "sgemm_naive", "tool": "racecheck", "launches": 5, "errors": 2, "passed": False}
    with_rows(folder, "sanitizer", [row])
    done = run_module("experiments.stages.archive", "--measured", folder.measured, "--data", tmp_path / "new")
    assert_one_line(done, "sgemm_naive failed its check 'racecheck'; not archived")
    assert not (tmp_path / "new").exists()


def test_where_it_was_not_measured_there_are_no_rows(folder: Folder, tmp_path: Path) -> None:
    assert made(folder, tmp_path / "t") == []
