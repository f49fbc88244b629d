"""Figures of the archive: what failed is left out and named, what is stale is marked."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest
from helpers import assert_one_line
from machine_folder import Folder, Still, drawn, warptile_fails, words_of

from analysis import draw
from analysis.figures import (
    correctness,
    counters,
    ladder,
    roofline,
    sizes,
    stalls,
    style,
)
from analysis.inputs import Inputs
from analysis.statistics import TIME
from contracts import UserError, read_json, write_json, write_rows


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Folder:
    """The same, for tests that change nothing."""
    return Still(tmp_path_factory.mktemp("still"), archive)


FIGURES = {
    "ladder": lambda measured: ladder.draw(measured, "sgemm_ladder"),
    "sizes": lambda measured: sizes.draw(measured, "sgemm_sizes"),
    "counters": counters.draw,
    "stalls": stalls.draw,
    "roofline": roofline.draw,
    "correctness": correctness.draw,
}


def a_rung_of(figure: str) -> str:
    """The label of a kernel that is in the figure, in addition to warptile."""
    return "t128x128x8_texld" if figure == "sizes" else "vectorized"


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_says_what_it_shows_and_where_from(name: str, still: Folder, tmp_path: Path) -> None:
    """In SVG and PDF: rungs, machine, date, and that the numbers are archived."""
    measured = still.read()
    for words in drawn(FIGURES[name](measured), tmp_path):
        assert measured.origin in words, words
        for rung in (a_rung_of(name), "warptile", "at_swizzle_dbf_rw"):
            assert rung in words, rung
        assert "†" not in words


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Folder:
    """A machine of which two rungs are stale, and one failed a check."""
    folder = Still(tmp_path_factory.mktemp("marked"), archive)
    stale = {f"sgemm_{a_rung_of(name)}" for name in FIGURES}
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] in stale else None)
    folder.edit("checks", warptile_fails)
    return folder


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_marks_what_is_stale_and_withholds_what_failed(name: str, marked: Folder) -> None:
    rung = a_rung_of(name)
    words = words_of(FIGURES[name](marked.read()))
    assert f"{rung}†" in words and "† source changed since measured" in words
    if name == "correctness":
        assert re.search(r"\b1 of \d+ failed", words)
    else:
        assert "not shown, failed a check: warptile" in words and words.count("warptile") == 1


def test_the_ladder_s_numbers_are_the_table_s(still: Folder) -> None:
    words = words_of(ladder.draw(still.read(), "sgemm_ladder"))
    rows = [row for row in still.rows("bench") if row["experiment"] == "sgemm_ladder" and row["dtype"] == "fp32"]
    assert len(rows) >= 10
    for row in rows:
        assert style.significant(row["tflops"]) in words, row["variant"]
        if row["variant"] != row["baseline"]:
            assert f"({100 * row['share_of_baseline']:.1f}%)" in words, row["variant"]


def lock(folder: Folder) -> None:
    """Beside each row of bench.csv one with locked clocks, at 1500 MHz."""
    path = folder.measured / "bench.csv"
    rows = folder.rows("bench")
    locked = [
        row
        | {name: row[name] * row["sm_clock_mhz"] / 1500 for name in TIME}
        | {"regime": "locked", "sm_clock_mhz": 1500.0, "tflops": row["tflops"] * 1500 / row["sm_clock_mhz"]}
        for row in rows
    ]
    write_rows(path, "bench", rows + locked)


def test_flop_per_clock_stands_in_where_no_clock_was_locked(folder: Folder, tmp_path: Path) -> None:
    words = words_of(ladder.draw(folder.read(), "sgemm_ladder"))
    row = next(r for r in folder.rows("bench") if (r["experiment"], r["variant"]) == ("sgemm_ladder", "sgemm_warptile"))
    assert "n = 4096, per clock" in words and "FLOP/clock/SM (derived)" in words
    assert style.significant(row["flop_per_clock_sm"]) in words and "locked clocks" not in words.replace("unlocked", "")
    lock(folder)
    words = words_of(ladder.draw(folder.read(), "sgemm_ladder"))
    assert "n = 4096, unlocked clocks" in words and "n = 4096, locked clocks" in words and "derived" not in words
    assert style.significant(row["tflops"] * 1500 / row["sm_clock_mhz"]) in words
    words = words_of(sizes.draw(folder.read(), "sgemm_sizes"))
    assert "TFLOP/s, unlocked clocks" in words and "TFLOP/s, locked clocks" in words


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("ladder", "bench"),
        ("sizes", "bench"),
        ("counters", "counters"),
        ("stalls", "counters"),
        ("correctness", "checks"),
    ],
)
def test_a_figure_with_nothing_to_draw_says_so(name: str, table: str, folder: Folder, tmp_path: Path) -> None:
    folder.edit(table, lambda row: None, keep=lambda row: False)
    provenance = read_json(folder.measured / "provenance.json", "provenance")
    stage = {"bench": "bench", "counters": "profile", "checks": "check"}[table]
    provenance["left_out"] = {stage: "the dog ate it"}
    write_json(folder.measured / "provenance.json", "provenance", provenance)
    words = words_of(FIGURES[name](folder.read()))
    assert "left out" in words and "the dog ate it" in words


def test_points_that_are_spread_by_chance_are_spread_alike_each_time(
    still: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("freeze", "disable"):  # they are for a process that only draws
        monkeypatch.setattr(gc, name, lambda: None)
    for name in "ab":
        draw.draw(still.inputs(), ["dispatch"], tmp_path / name)
    assert (tmp_path / "a/dispatch.svg").read_bytes() == (tmp_path / "b/dispatch.svg").read_bytes()


def test_a_figure_that_is_none_is_one_line_and_nothing_is_drawn(still: Folder, tmp_path: Path) -> None:
    done = still.drawn(tmp_path / "out", "stalls", "counters_sgemm_lader")
    assert_one_line(done, "unknown figure 'counters_sgemm_lader'", "nearest: counters_sgemm_ladder")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_there_is_one_line(still: Folder) -> None:
    with pytest.raises(UserError, match="no such folder: /no/such"):
        Inputs.of_folder(Path("/no/such"), still.variants, archived=True)


def test_counters_of_a_variant_that_is_none_are_one_line(still: Folder) -> None:
    with pytest.raises(UserError, match=r"unknown variant 'sgemm_warptle'.*nearest: sgemm_warptile"):
        counters.only(still.read(), ["sgemm_warptle"])


def test_an_experiment_that_was_not_measured_says_how_it_is(folder: Folder, tmp_path: Path) -> None:
    folder.edit("bench", lambda row: None, keep=lambda row: row["experiment"] != "sgemm_sweep")
    words = words_of(sizes.draw(folder.read(), "sgemm_sweep"))
    assert "Timings of sgemm_sweep: left out" in words and "snakemake --cores 1 sgemm_sweep measures it" in words
