"""Parts of a table are joined, each row once; and the verdict over all checks."""

from __future__ import annotations

from pathlib import Path

from helpers import assert_one_line, dict_rows, run_module

from contracts import write_rows
from contracts.rows import Checks


def test_parts_are_joined(tmp_path: Path, archive: Path) -> None:
    rows = dict_rows(archive / "checks.csv", Checks)
    by_name = {
        name: [row for row in rows if row["variant"] == name]
        for name in ("sgemm_naive", "sgemm_tiling")
    }
    naive, tiling = by_name.values()
    for number, part in enumerate((naive, [*tiling, *naive[:2]])):
        write_rows(tmp_path / f"{number}.csv", Checks, part)
    join = (
        "experiments.stages.merge",
        "checks",
        tmp_path / "0.csv",
        tmp_path / "1.csv",
        "--out",
        tmp_path / "all.csv",
    )
    for options, expected in (
        ((), [*naive, *tiling]),
        (("--variants", "sgemm_tiling", "sgemm_naive"), [*tiling, *naive]),
        (("--variants", "sgemm_tiling"), tiling),
    ):
        assert run_module(*join, *options).returncode == 0
        assert dict_rows(tmp_path / "all.csv", Checks) == expected
    assert "--out" in run_module(*join[:-2]).stderr


def test_the_verdict_names_what_failed_and_leaves_no_file(archive: Path, tmp_path: Path) -> None:
    rows = dict_rows(archive / "checks.csv", Checks)
    write_rows(tmp_path / "checks.csv", Checks, rows)
    arguments = ("--checks", tmp_path / "checks.csv", "--out", tmp_path / "verdict.txt")
    assert run_module("experiments.stages.require_passed", *arguments).returncode == 0
    assert (tmp_path / "verdict.txt").read_text() == f"{len(rows)} checks passed\n"
    (tmp_path / "verdict.txt").unlink()
    failed = next(row for row in rows if row["variant"] == "sgemm_warptile")
    failed |= {"passed": False, "detail": "C[0, 0] = 1, expected 2"}
    write_rows(tmp_path / "checks.csv", Checks, rows)
    done = run_module("experiments.stages.require_passed", *arguments)
    said = f"1 of {len(rows)} checks failed, of: sgemm_warptile; first: "
    said += "sgemm_warptile, one tile, one k-step: C[0, 0] = 1"
    assert_one_line(done, said)
    assert not (tmp_path / "verdict.txt").exists()
