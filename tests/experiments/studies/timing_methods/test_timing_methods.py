"""Other ways of timing: what each changes by itself, in tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import assert_one_line
from machine_folder import Folder, drawn, warptile_fails, with_rows, words_of

from experiments.studies.timing_methods import figure as timing_methods
from experiments.studies.timing_methods import report

SIZE = {"m": 1024, "n": 1024, "k": 1024}
TIMES = {
    "ours": 200.0,
    "no_flush": 160.0,
    "launch_gap": 164.0,
    "host_clock": 158.4,
    "after_idle": 166.32,
    "zeros": 190.0,
}


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    """The archive without this table."""
    return Folder(tmp_path, archive, without=("timing_methods",))


def made(folder: Folder, out: Path) -> list[dict[str, str]]:
    """The table, by the command."""
    return folder.made_rows(out, "timing_methods")


def timed_as(variant: str, times: dict[str, float] = TIMES, **more: Any) -> list[dict[str, Any]]:
    """Rows of timing_methods.csv; the host's clock sees no SM clock."""
    row = {"variant": variant, **SIZE, "description": "what it does", "replays": 9} | more
    stamped = ("ours", "no_flush", "zeros")
    clocks = {name: 2000.0 if name == "zeros" else 1900.0 for name in stamped}
    return [row | {"protocol": p, "time_us": t, "sm_clock_mhz": clocks.get(p)} for p, t in times.items()]


def test_a_protocol_is_compared_with_ours_and_with_what_differs_in_one_thing(folder: Folder, tmp_path: Path) -> None:
    with_rows(folder, "timing_methods", timed_as("sgemm_vectorized"))
    rows = {row["protocol"]: row for row in made(folder, tmp_path / "t")}
    assert {name: float(row["difference_percent"]) for name, row in rows.items()} == pytest.approx(
        {"ours": 0, "no_flush": -20, "launch_gap": -18, "host_clock": -20.8, "after_idle": -16.84, "zeros": -5}
    )
    assert (rows["launch_gap"]["compared_with"], float(rows["launch_gap"]["alone_percent"])) == ("no_flush", 2.5)
    assert float(rows["host_clock"]["alone_percent"]) == pytest.approx(-1)
    assert (rows["after_idle"]["compared_with"], float(rows["after_idle"]["alone_percent"])) == ("host_clock", 5)
    assert rows["zeros"]["alone_percent"] == rows["zeros"]["difference_percent"]
    # 190 us x 2000 MHz are the cycles of 200 us x 1900 MHz: all that zeros change is the clock
    assert float(rows["zeros"]["cycles_difference_percent"]) == pytest.approx(0)
    assert rows["host_clock"]["cycles_difference_percent"] == "" and rows["ours"]["stale"] == "false"


def test_without_a_time_of_ours_there_is_no_difference(folder: Folder, tmp_path: Path) -> None:
    with_rows(folder, "timing_methods", [row for row in timed_as("sgemm_vectorized") if row["protocol"] != "ours"])
    rows = made(folder, tmp_path / "t")
    assert len(rows) == 5 and {row["difference_percent"] for row in rows} == {""}
    words = words_of(timing_methods.draw(folder.read(), pd.DataFrame(rows).assign(difference_percent=float("nan"))))
    assert "left out" in words


def test_the_figure_has_the_differences_of_every_kernel_and_size(folder: Folder, tmp_path: Path) -> None:
    other = timed_as("cublas_fp32", {"ours": 100.0, "no_flush": 100.0, "new_way": 103.24})
    larger = timed_as("sgemm_vectorized", {"ours": 100.0, "no_flush": 99.9}, m=2048, n=2048, k=2048)
    with_rows(folder, "timing_methods", [*other, *larger, *timed_as("sgemm_vectorized")])
    measured = folder.read()
    table = report.timing_methods(folder.inputs().offered("timing_methods", timed=True))
    cells = timing_methods.cells(table)
    assert list(cells.columns) == [("vectorized", 1024), ("vectorized", 2048), ("cuBLAS fp32", 1024)]
    assert cells.loc["launch gaps alone", ("vectorized", 1024)] == pytest.approx(2.5)
    for words in drawn(timing_methods.draw(measured, table), tmp_path):
        for word in (
            "L2 not flushed",
            "−20",
            "−0.1",
            "0.0",
            "new_way",
            "+3.2",
            "idling alone",
            "+5.0",
            measured.origin,
        ):
            assert word in words, word
        assert "†" not in words


def test_what_is_stale_or_failed_is_marked_or_withheld(folder: Folder, tmp_path: Path) -> None:
    folder.edit("checks", warptile_fails)
    with_rows(
        folder, "timing_methods", [*timed_as("sgemm_warptile"), *timed_as("sgemm_vectorized", source_hash="0" * 16)]
    )
    rows = made(folder, tmp_path / "t")
    assert {(row["variant"], row["stale"]) for row in rows} == {("sgemm_vectorized", "true")}
    measured = folder.read()
    offered = folder.inputs().offered("timing_methods", timed=True)
    words = words_of(timing_methods.draw(measured, report.timing_methods(offered)))
    assert "vectorized†" in words and "not shown, failed a check: warptile" in words and words.count("warptile") == 1


def test_a_table_that_was_not_measured_has_no_rows(folder: Folder, tmp_path: Path) -> None:
    assert made(folder, tmp_path / "t") == []
    words = words_of(timing_methods.draw(folder.read(), pd.DataFrame()))
    assert "Ways of timing: left out. snakemake --cores 1 cross_validation makes timing_methods.csv" in words


def test_a_truncated_table_is_one_line_and_nothing_written(folder: Folder, tmp_path: Path) -> None:
    with_rows(folder, "timing_methods", timed_as("sgemm_vectorized"))
    path = folder.measured / "timing_methods.csv"
    path.write_text(path.read_text()[:-20])
    assert_one_line(folder.made(tmp_path / "t", "timing_methods"), "timing_methods.csv", "truncated")
    assert not (tmp_path / "t").exists()
    assert_one_line(folder.drawn(tmp_path / "f", "timing_methods"), "timing_methods.csv", "truncated")
    assert not (tmp_path / "f").exists()
