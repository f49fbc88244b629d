"""Which call of its library a baseline was is counted by size; an older archive had one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from machine_folder import Folder

from contracts import write_rows


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


def in_ladder(row: dict[str, Any]) -> bool:
    return bool(row["experiment"] == "hgemm_ladder" and row["dtype"] == "bf16" and row["n"] == 4096)


def test_calls_are_counted_by_problem(folder: Folder, tmp_path: Path) -> None:
    rows = [row for row in folder.rows("windows") if in_ladder(row)]
    first = rows[0]["variant"]

    def call(row: dict[str, Any]) -> dict[str, Any]:
        return {"baseline_call": "cublasGemmEx" if row["variant"] == first else "cublasLtMatmul 2/8"}

    folder.edit("windows", call, in_ladder)
    made = folder.made_rows(tmp_path / "t", "library_calls")
    own = sum(row["variant"] == first for row in rows)
    few, most = str(own), str(len(rows) - own)
    assert [(row["call"], row["windows"], row["of_windows"]) for row in made] == [
        ("cublasLtMatmul 2/8", most, str(len(rows))),
        ("cublasGemmEx", few, str(len(rows))),
    ]
    assert {(row["baseline"], row["n"]) for row in made} == {("cublas_bf16", "4096")}


@pytest.mark.parametrize("called", [None, "cublasLtMatmul 1/8"])
def test_an_older_archive_had_one_call(called: str | None, folder: Folder, tmp_path: Path) -> None:
    folder.edit("windows", lambda row: {"baseline_call": called})
    made = folder.made_rows(tmp_path / "t", "library_calls")
    assert {row["call"] for row in made} == {called or "cublasGemmEx"}
    assert sum(int(row["windows"]) for row in made) == len(folder.rows("windows"))
    folder.made(tmp_path / "t", "summary")
    assert json.loads((tmp_path / "t" / "summary.json").read_text())["best_of_library"] is bool(called)


def test_how_the_contest_ended_stands_next_to_its_winner(folder: Folder, tmp_path: Path) -> None:
    """A second call that is as fast is said to be so: another contest may end otherwise."""
    folder.edit("windows", lambda row: {"baseline_call": "cublasLtMatmul 1/8"}, in_ladder)
    contest = {"baseline": "cublas_bf16", "dtype": "bf16", "m": 4096, "n": 4096, "k": 4096, "b_layout": "row"}
    contest |= {"call": "cublasLtMatmul 1/8", "calls": 9, "time_us": 200.0}
    contest |= {"next_call": "cublasGemmEx", "next_time_us": 200.1, "decided": False}
    write_rows(folder.measured / "contests.csv", "contests", [contest])
    (row,) = folder.made_rows(tmp_path / "t", "library_calls")
    assert (row["next_call"], row["decided"]) == ("cublasGemmEx", "false")
    assert float(row["behind"]) == pytest.approx(0.0005)
