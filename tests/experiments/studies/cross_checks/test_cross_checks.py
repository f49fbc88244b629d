"""Medians next to those of other tools, and durations next to ncu's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from machine_folder import Folder, warptile_fails, with_rows

SIZE = {"m": 1024, "n": 1024, "k": 1024}


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    """The archive without this table."""
    return Folder(tmp_path, archive, without=("cross_checks",))


def made(folder: Folder, out: Path) -> list[dict[str, str]]:
    """The table, by the command."""
    return folder.made_rows(out, "cross_checks")


def test_medians_are_compared_in_time_and_in_cycles(folder: Folder, tmp_path: Path) -> None:
    row = {"variant": "sgemm_vectorized", **SIZE, "method": "nvbench", "samples": 9, "other_samples": 8}
    ours = {"time_us": 102.0, "sm_clock_mhz": 1900.0}
    with_rows(
        folder,
        "cross_checks",
        [
            row | ours | {"other_time_us": 100.0, "other_sm_clock_mhz": 1938.0},
            row | ours | {"n": 2048, "other_time_us": 101.0, "other_sm_clock_mhz": None},
        ],
    )
    first, second = (row for row in made(folder, tmp_path / "t") if row["method"] == "nvbench")
    assert (float(first["time_difference_percent"]), first["time_within"]) == (pytest.approx(2), "false")
    assert (float(first["cycles_difference_percent"]), first["cycles_within"]) == (pytest.approx(0, abs=1e-9), "true")
    assert float(second["time_difference_percent"]) == pytest.approx(0.990099) and second["time_within"] == "true"
    assert second["cycles_difference_percent"] == second["cycles_within"] == ""


def test_ncu_s_duration_is_compared_without_its_clock(folder: Folder, tmp_path: Path) -> None:
    """Against numbers read off the archive; ncu's duration in another unit is the same duration."""
    timed = [row for row in folder.rows("bench") if (row["variant"], row["n"]) == ("sgemm_warptile", 4096)]
    counted = {row["metric"]: row["value"] for row in folder.rows("counters") if row["variant"] == "sgemm_warptile"}
    ns, hertz = counted["gpu__time_duration.sum"], counted["gpc__cycles_elapsed.avg.per_second"]

    def in_us(row: dict[str, Any]) -> dict[str, Any] | None:
        return {"value": row["value"] / 1e3, "unit": "us"} if row["metric"] == "gpu__time_duration.sum" else None

    for number in range(2):
        rows = made(folder, tmp_path / str(number))
        (row,) = (row for row in rows if (row["method"], row["variant"]) == ("ncu", "sgemm_warptile"))
        assert float(row["other_time_us"]) == pytest.approx(ns / 1e3, rel=1e-5)
        cycles = [one["time_us_in_turns"] * one["sm_clock_mhz"] / (ns * 1e-9 * hertz) for one in timed]
        assert float(row["cycles_difference_percent"]) in [pytest.approx(100 * (one - 1), abs=1e-4) for one in cycles]
        folder.edit("counters", in_us)


def test_without_counters_or_timings_nothing_is_compared_with_ncu(folder: Folder, tmp_path: Path) -> None:
    folder.edit("counters", lambda row: None, keep=lambda row: row["metric"] != "gpu__time_duration.sum")
    assert made(folder, tmp_path / "t") == []
    folder.edit("bench", lambda row: None, keep=lambda row: False)
    folder.edit("counters", lambda row: None, keep=lambda row: False)
    assert made(folder, tmp_path / "u") == []


def test_what_failed_a_check_is_withheld(folder: Folder, tmp_path: Path) -> None:
    folder.edit("checks", warptile_fails)
    variants = {row["variant"] for row in made(folder, tmp_path / "t")}
    assert "sgemm_warptile" not in variants and "sgemm_vectorized" in variants


def test_where_it_was_not_measured_ncu_s_durations_remain(folder: Folder, tmp_path: Path) -> None:
    assert {row["method"] for row in made(folder, tmp_path / "t")} == {"ncu"}
