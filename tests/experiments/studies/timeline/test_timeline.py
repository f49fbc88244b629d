"""A recorded process: three tables of each kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from machine_folder import Folder, with_rows

from experiments.studies.timeline.measure import summarise
from kernels import catalogue


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    """The archive without this table."""
    return Folder(tmp_path, archive, without=("timeline",))


def made(folder: Folder, out: Path) -> list[dict[str, str]]:
    """The table, by the command."""
    return folder.made_rows(out, "timeline")


def test_a_timeline_is_three_tables_of_each_kernel(folder: Folder, tmp_path: Path) -> None:
    times = {f"{what}_us": 1.0 for what in ("mean", "median", "min", "max")}

    def row(variant: str, table: str, name: str, total: float, **more: Any) -> dict[str, Any]:
        return (
            {"variant": variant, "table": table, "name": name, "calls": 3, "share": 0.5, "total_us": total}
            | times
            | more
        )

    one, two = "sgemm_blocktile_2d", "sgemm_vectorized"
    with_rows(
        folder,
        "timeline",
        [
            row(two, "memory", "Memcpy HtoD (Pageable -> Device)", 7.0, bytes=201326592),
            row(two, "kernel", "void sgemm_vectorized<128, 8>(int, float const*)", 5.0),
            row(two, "kernel", "(anonymous namespace)::fill(float*)", 6.0),
            row(two, "api", "cudaMalloc", 1.0),
            row(one, "api", "cudaMalloc", 2.0),
            row(one, "api", "cudaEventSynchronize", 9.0, source_hash="0" * 16),
        ],
    )
    rows = made(folder, tmp_path / "t")
    assert [(r["table"], r["label"], r["name"]) for r in rows] == [
        ("api", "blocktile_2d", "cudaEventSynchronize"),
        ("api", "blocktile_2d", "cudaMalloc"),
        ("api", "vectorized", "cudaMalloc"),
        ("kernel", "vectorized", "(anonymous namespace)::fill"),
        ("kernel", "vectorized", "sgemm_vectorized<128, 8>"),
        ("memory", "vectorized", "Memcpy HtoD (Pageable -> Device)"),
    ]
    assert [r["stale"] for r in rows[:2]] == ["true", "false"] and rows[0]["share_percent"] == "50"
    assert [r["bytes"] for r in rows] == [""] * 5 + ["201326592"]


def test_where_it_was_not_measured_there_are_no_rows(folder: Folder, tmp_path: Path) -> None:
    assert made(folder, tmp_path / "t") == []


def test_timeline_rows_carry_the_hash_of_their_source() -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "dur": 2.0},
        {"ph": "X", "cat": "kernel", "name": "k", "dur": 4.0},
    ]
    variant = catalogue.load().kernels["sgemm_vectorized"]
    (row,) = summarise(events, variant)
    assert (row["variant"], row["source_hash"], row["mean_us"]) == (variant.name, variant.source_hash, 3.0)
