"""Second opinions, explained: other ways of timing, other tools, a recorded process, bits against the emulator."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import assert_one_line, run_module
from machine_folder import Folder, drawn, warptile_fails

from analysis import data
from analysis.tables import coverage, predicted
from analysis.tables import sanitizer as sanitizer_table
from contracts import schema, write_rows
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
    """The archive without the tables that need not be there."""
    made = Folder(tmp_path, archive)
    for name in ("timing_methods", "cross_checks", "timeline", "agreement", "sanitizer"):
        (made.measured / f"{name}.csv").unlink(missing_ok=True)
    return made


def write(folder: Folder, name: str, rows: list[dict[str, Any]]) -> None:
    """A table of `rows`, each with the hash that its variant has in the catalogue."""
    now = {row["variant"]: row["source_hash"] for row in folder.rows("variants")}
    write_rows(folder.measured / f"{name}.csv", name, [{"source_hash": now.get(r["variant"], "0")} | r for r in rows])


def made(folder: Folder, out: Path) -> dict[str, list[dict[str, str]]]:
    """The tables, by the command."""
    done = folder.made(out, "timing_methods", "cross_checks", "timeline", "agreement", "sanitizer")
    assert done.returncode == 0, done.stderr
    return {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}


def timed_as(variant: str, times: dict[str, float] = TIMES, **more: Any) -> list[dict[str, Any]]:
    """Rows of timing_methods.csv; the host's clock sees no SM clock."""
    row = {"variant": variant, **SIZE, "description": "what it does", "replays": 9} | more
    stamped = ("ours", "no_flush", "zeros")
    clocks = {name: 2000.0 if name == "zeros" else 1900.0 for name in stamped}
    return [row | {"protocol": p, "time_us": t, "sm_clock_mhz": clocks.get(p)} for p, t in times.items()]


# ---- ways of timing ---------------------------------------------------------------------------------------------


def test_a_protocol_is_compared_with_ours_and_with_what_differs_in_one_thing(folder: Folder, tmp_path: Path) -> None:
    write(folder, "timing_methods", timed_as("sgemm_vectorized"))
    rows = {row["protocol"]: row for row in made(folder, tmp_path / "t")["timing_methods"]}
    assert {name: float(row["difference_percent"]) for name, row in rows.items()} == pytest.approx(
        {"ours": 0, "no_flush": -20, "launch_gap": -18, "host_clock": -20.8, "after_idle": -16.84, "zeros": -5}
    )
    assert (rows["launch_gap"]["beside"], float(rows["launch_gap"]["alone_percent"])) == ("no_flush", 2.5)
    assert float(rows["host_clock"]["alone_percent"]) == pytest.approx(-1)
    assert (rows["after_idle"]["beside"], float(rows["after_idle"]["alone_percent"])) == ("host_clock", 5)
    assert rows["zeros"]["alone_percent"] == rows["zeros"]["difference_percent"]
    # 190 us x 2000 MHz are the cycles of 200 us x 1900 MHz: all that zeros change is the clock
    assert float(rows["zeros"]["cycles_difference_percent"]) == pytest.approx(0)
    assert rows["host_clock"]["cycles_difference_percent"] == "" and rows["ours"]["stale"] == "false"


def test_without_a_time_of_ours_there_is_no_difference(folder: Folder, tmp_path: Path) -> None:
    write(folder, "timing_methods", [row for row in timed_as("sgemm_vectorized") if row["protocol"] != "ours"])
    rows = made(folder, tmp_path / "t")["timing_methods"]
    assert len(rows) == 5 and {row["difference_percent"] for row in rows} == {""}
    words, _ = drawn(
        timing_methods.draw(folder.read(), pd.DataFrame(rows).assign(difference_percent=float("nan"))), tmp_path
    )
    assert "left out" in words


def test_the_figure_has_the_differences_of_every_kernel_and_size(folder: Folder, tmp_path: Path) -> None:
    other = timed_as("cublas_fp32", {"ours": 100.0, "no_flush": 100.0, "new_way": 103.24})
    larger = timed_as("sgemm_vectorized", {"ours": 100.0, "no_flush": 99.9}, m=2048, n=2048, k=2048)
    write(folder, "timing_methods", [*other, *larger, *timed_as("sgemm_vectorized")])
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
    write(folder, "timing_methods", [*timed_as("sgemm_warptile"), *timed_as("sgemm_vectorized", source_hash="0" * 16)])
    tables = made(folder, tmp_path / "t")
    assert {(row["variant"], row["stale"]) for row in tables["timing_methods"]} == {("sgemm_vectorized", "true")}
    assert "sgemm_warptile" not in {row["variant"] for row in tables["cross_checks"]}
    measured = folder.read()
    rows = folder.inputs().offered("timing_methods", timed=True)
    words, _ = drawn(timing_methods.draw(measured, report.timing_methods(rows)), tmp_path)
    assert "vectorized†" in words and "not shown, failed a check: warptile" in words and words.count("warptile") == 1


def test_a_table_that_was_not_measured_has_no_rows(folder: Folder, tmp_path: Path) -> None:
    tables = made(folder, tmp_path / "t")
    for name in ("timing_methods", "timeline", "agreement", "sanitizer"):
        assert tables[name] == [], name
    assert {row["method"] for row in tables["cross_checks"]} == {"ncu"}
    _, words = drawn(timing_methods.draw(folder.read(), pd.DataFrame()), tmp_path)
    assert "Ways of timing: left out. snakemake --cores 1 cross_validation makes timing_methods.csv" in words


def test_a_truncated_table_is_one_line_and_nothing_written(folder: Folder, tmp_path: Path) -> None:
    write(folder, "timing_methods", timed_as("sgemm_vectorized"))
    path = folder.measured / "timing_methods.csv"
    path.write_text(path.read_text()[:-20])
    assert_one_line(folder.made(tmp_path / "t", "timing_methods"), "timing_methods.csv", "truncated")
    assert not (tmp_path / "t").exists()
    assert_one_line(folder.drawn(tmp_path / "f", "timing_methods"), "timing_methods.csv", "truncated")
    assert not (tmp_path / "f").exists()


# ---- other tools ------------------------------------------------------------------------------------------------


def test_medians_are_compared_in_time_and_in_cycles(folder: Folder, tmp_path: Path) -> None:
    row = {"variant": "sgemm_vectorized", **SIZE, "method": "nvbench", "samples": 9, "other_samples": 8}
    ours = {"time_us": 102.0, "sm_clock_mhz": 1900.0}
    write(
        folder,
        "cross_checks",
        [
            row | ours | {"other_time_us": 100.0, "other_sm_clock_mhz": 1938.0},
            row | ours | {"n": 2048, "other_time_us": 101.0, "other_sm_clock_mhz": None},
        ],
    )
    first, second = (row for row in made(folder, tmp_path / "t")["cross_checks"] if row["method"] == "nvbench")
    assert (float(first["time_difference_percent"]), first["time_within"]) == (pytest.approx(2), "false")
    assert (float(first["cycles_difference_percent"]), first["cycles_within"]) == (pytest.approx(0, abs=1e-9), "true")
    assert float(second["time_difference_percent"]) == pytest.approx(0.990099) and second["time_within"] == "true"
    assert second["cycles_difference_percent"] == second["cycles_within"] == ""


def test_ncu_s_duration_is_compared_without_its_clock(folder: Folder, tmp_path: Path) -> None:
    """Against numbers read off the archive; ncu's duration in another unit is the same duration."""
    bench = next(
        row for row in folder.rows("bench") if (row["experiment"], row["variant"]) == ("sgemm_ladder", "sgemm_warptile")
    )
    counted = {row["metric"]: row["value"] for row in folder.rows("counters") if row["variant"] == "sgemm_warptile"}
    ns, hertz = counted["gpu__time_duration.sum"], counted["gpc__cycles_elapsed.avg.per_second"]

    def in_us(row: dict[str, Any]) -> dict[str, Any] | None:
        return {"value": row["value"] / 1e3, "unit": "us"} if row["metric"] == "gpu__time_duration.sum" else None

    for number in range(2):
        rows = made(folder, tmp_path / str(number))["cross_checks"]
        (row,) = (row for row in rows if (row["method"], row["variant"]) == ("ncu", "sgemm_warptile"))
        assert float(row["other_time_us"]) == pytest.approx(ns / 1e3, rel=1e-5)
        cycles = bench["time_us_median"] * bench["sm_clock_mhz"] / (ns * 1e-9 * hertz)
        assert float(row["cycles_difference_percent"]) == pytest.approx(100 * (cycles - 1), abs=1e-4)
        folder.edit("counters", in_us)


def test_without_counters_or_timings_nothing_is_compared_with_ncu(folder: Folder, tmp_path: Path) -> None:
    folder.edit("counters", lambda row: None, keep=lambda row: row["metric"] != "gpu__time_duration.sum")
    assert made(folder, tmp_path / "t")["cross_checks"] == []
    folder.edit("bench", lambda row: None, keep=lambda row: False)
    folder.edit("counters", lambda row: None, keep=lambda row: False)
    assert made(folder, tmp_path / "u")["cross_checks"] == []


# ---- a recorded process -----------------------------------------------------------------------------------------


def test_a_timeline_is_three_tables_of_each_kernel(folder: Folder, tmp_path: Path) -> None:
    times = {f"{what}_us": 1.0 for what in ("mean", "median", "min", "max")}

    def row(variant: str, table: str, name: str, total: float, **more: Any) -> dict[str, Any]:
        return (
            {"variant": variant, "table": table, "name": name, "calls": 3, "share": 0.5, "total_us": total}
            | times
            | more
        )

    one, two = "sgemm_blocktile_2d", "sgemm_vectorized"
    write(
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
    rows = made(folder, tmp_path / "t")["timeline"]
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


# ---- bits and sanitizers ----------------------------------------------------------------------------------------


def test_agreement_is_a_line_a_kernel(folder: Folder, tmp_path: Path) -> None:
    case = {**SIZE, "lda": 1024, "ldb": 1024, "ldc": 1024, "alpha": 1.0, "beta": 0.0, "seed": 1, "elements": 100}

    def row(variant: str, name: str, differing: int, worst: float | None, passed: bool) -> dict[str, Any]:
        told = {"differing": differing, "worst_difference_share": worst, "passed": passed}
        return {"variant": variant, "dtype": "fp32", "case": name} | case | told

    write(
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
    rows = {row["label"]: row for row in made(folder, tmp_path / "t")["agreement"]}
    naive, vectorized, warptile = (rows[label] for label in rows)  # the catalogue's order
    assert [vectorized[key] for key in ("cases", "elements", "differing", "worst_difference_share", "passed")] == [
        "2", "200", "3", "0.25", "false"
    ]  # fmt: skip
    assert (naive["worst_difference_share"], naive["passed"], warptile["passed"]) == ("", "false", "true")


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
    write(folder, "sanitizer", [*rows, row("sgemm_warptile", "memcheck"), row("sgemm_warptile", "racecheck", 3, race)])
    clean, bad = made(folder, tmp_path / "t")["sanitizer"]
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
    write(folder, "sanitizer", [row])
    done = run_module("experiments.stages.archive", "--measured", folder.measured, "--data", tmp_path / "new")
    assert_one_line(done, "sgemm_naive failed its check 'racecheck'; not archived")
    assert not (tmp_path / "new").exists()


# ---- predicted beside measured ----------------------------------------------------------------------------------


def test_the_table_of_predictions_has_the_relative_difference(folder: Folder, tmp_path: Path) -> None:
    """Of wavefronts for conflicts; a stale kernel is left out, and exact counts stay exact."""
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
    counted = [row for row in folder.rows("counters") if row["metric"] in (wavefronts, conflicts)]
    shift = {wavefronts: 0, conflicts: 1000}
    own = [row | {"value": row["value"] + shift[row["metric"]]} for row in counted]
    write_rows(tmp_path / "predictions.csv", "counters", own)
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_warptile" else None)
    done = folder.made(tmp_path, "predicted", tables={"predictions": tmp_path / "predictions.csv"})
    assert done.returncode == 0, done.stderr
    out = tmp_path / "predicted.csv"
    rows = {(row["variant"], row["metric"]): row for row in csv.DictReader(out.open())}
    assert "sgemm_warptile" not in {variant for variant, _ in rows}
    exact, off = rows["sgemm_vectorized", wavefronts], rows["sgemm_vectorized", conflicts]
    assert exact["predicted"] == exact["measured"] and float(exact["difference_percent"]) == 0
    assert exact["counter"] == "Shared load wavefronts" and exact["n"] == "4096"
    assert float(off["difference_percent"]) == pytest.approx(100 * 1000 / float(exact["measured"]), rel=1e-6)


def test_a_table_without_predictions_has_no_rows() -> None:
    none = data.table([], "counters").assign(stale=[], label=[])
    assert predicted.counter_table(predicted.differences(none, data.table([], "counters"))).empty


# ---- coverage ---------------------------------------------------------------------------------------------------


def test_each_optional_table_is_a_leg_with_a_reason(folder: Folder, tmp_path: Path) -> None:
    write(folder, "timing_methods", timed_as("sgemm_vectorized"))
    found = {row["leg"]: row for row in coverage.own_rows("h200", coverage.Folder(folder.inputs()), {}, None)}
    assert (found["timing methods"]["status"], found["timing methods"]["rows"]) == ("ran", len(TIMES))
    for leg in ("cross-checks", "agreement", "timeline", "sanitizer"):
        assert found[leg]["status"] == "left out" and "was not made" in found[leg]["reason"], leg
    assert "snakemake --cores 1 cross_validation makes it" in found["cross-checks"]["reason"]


@pytest.mark.parametrize("stage", ["cross_checks", "check", "timing_methods"])
def test_a_reason_is_that_of_its_own_stage(stage: str) -> None:
    assert data.left_out({"left_out": {stage: "why"}}) == {stage: "why"}


def test_timeline_rows_carry_the_hash_of_their_source() -> None:
    from experiments.studies.timeline.measure import summarise
    from kernels import catalogue

    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "dur": 2.0},
        {"ph": "X", "cat": "kernel", "name": "k", "dur": 4.0},
    ]
    variant = catalogue.kernels()["sgemm_vectorized"]
    (row,) = summarise(events, variant)
    assert (row["variant"], row["source_hash"], row["mean_us"]) == (variant.name, variant.source_hash, 3.0)
