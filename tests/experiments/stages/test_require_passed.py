"""The verdict over all checks."""

from __future__ import annotations

from pathlib import Path

from helpers import assert_one_line, run_module

from contracts import read_rows, write_rows


def failing(folder: Path) -> None:
    """Let one of warptile's checks have failed."""
    rows = read_rows(folder / "checks.csv", "checks")
    row = next(row for row in rows if row["variant"] == "sgemm_warptile")
    row |= {"passed": False, "detail": "C[0, 0] = 1, expected 2"}
    write_rows(folder / "checks.csv", "checks", rows)


def test_the_verdict_names_what_failed_and_leaves_no_file(measured: Path, tmp_path: Path) -> None:
    count = len(read_rows(measured / "checks.csv", "checks"))
    arguments = ("--checks", measured / "checks.csv", "--out", tmp_path / "verdict.txt")
    assert run_module("experiments.stages.require_passed", *arguments).returncode == 0
    assert (tmp_path / "verdict.txt").read_text() == f"{count} checks passed\n"
    (tmp_path / "verdict.txt").unlink()
    failing(measured)
    done = run_module("experiments.stages.require_passed", *arguments)
    said = f"1 of {count} checks failed, of: sgemm_warptile; first: sgemm_warptile, one tile, one k-step: C[0, 0] = 1"
    assert_one_line(done, said)
    assert not (tmp_path / "verdict.txt").exists()
