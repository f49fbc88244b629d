"""Parts of a table are joined: each row once, and only those of the variants that are named, in their order."""

from __future__ import annotations

from pathlib import Path

from helpers import run_module

from contracts import read_rows, write_rows


def test_parts_are_joined(tmp_path: Path, archive: Path) -> None:
    rows = read_rows(archive / "checks.csv", "checks")
    by_name = {name: [row for row in rows if row["variant"] == name] for name in ("sgemm_naive", "sgemm_tiling")}
    naive, tiling = by_name.values()
    for number, part in enumerate((naive, [*tiling, *naive[:2]])):
        write_rows(tmp_path / f"{number}.csv", "checks", part)
    join = ("experiments.stages.merge", "checks", tmp_path / "0.csv", tmp_path / "1.csv", "--out", tmp_path / "all.csv")
    for options, expected in (
        ((), [*naive, *tiling]),
        (("--variants", "sgemm_tiling", "sgemm_naive"), [*tiling, *naive]),
        (("--variants", "sgemm_tiling"), tiling),
    ):
        assert run_module(*join, *options).returncode == 0
        assert read_rows(tmp_path / "all.csv", "checks") == expected
