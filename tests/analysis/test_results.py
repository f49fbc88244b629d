"""A results folder: which rows count, what comes from this tree, and clear lines for what is
wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from frames import Change, with_cells
from helpers import dict_rows, refused

from analysis.counters import DERIVED, SCALE, SECTIONS, top_stall, wide
from analysis.results import (
    CHANGED,
    FIRST,
    GONE,
    NO_BUILDS,
    LeftOut,
    Results,
    add_options,
    archives_of,
    several,
    tell_left_out,
    usual,
)
from analysis.timings import KEY
from contracts import write_rows
from contracts.model import Row
from contracts.rows import Resources, Variants


@pytest.fixture
def copied(archive: Path, tmp_path: Path) -> Path:
    """A folder of an archive that may be changed."""
    folder = tmp_path / "data" / archive.name
    return Path(shutil.copytree(archive, folder, ignore=shutil.ignore_patterns("archived.json")))


def row_of_naive(path: Path, model: type[Row]) -> dict[str, Any]:
    return next(row for row in dict_rows(path, model) if row["variant"] == "sgemm_naive")


@pytest.mark.parametrize(
    ("folder", "name"),
    [("results/h100", "h100"), ("results/h100/only/e", "h100"), ("only/data/h200", "h200")],
)
def test_a_folder_has_the_name_of_its_gpu_model(
    folder: str, name: str, tmp_path: Path, variants_csv: Path
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    assert Results(tmp_path / folder, variants_csv).name == name


def test_a_problem_has_one_row_and_the_usual_one_is_uniform_at_boost_clocks(h100: Results) -> None:
    rows, chosen = h100.timings, usual(h100.squares)
    assert not rows.duplicated(KEY).any() and (rows["fraction_low"] <= rows["fraction_high"]).all()
    assert h100.variants["label"].is_unique and rows["label"].notna().all()
    assert not chosen.duplicated(["variant", "n"]).any()
    assert set(chosen["data"]) == {"uniform"} and set(chosen["clock_policy"]) == {"boost"}


def test_the_usual_timing_is_of_the_most_processes_then_samples_then_the_first_name() -> None:
    measured = [("e", 1, 90), ("d", 5, 40), ("c", 5, 50), ("b", 5, 50), ("a", 1, 99)]
    rows = pd.DataFrame(measured, columns=["experiment", "processes", "samples"])
    rows = rows.assign(variant="v", n=64, order=0, clock_policy="boost", data="uniform")
    assert [usual(rows.drop(range(n)))["experiment"].item() for n in (0, 4)] == ["b", "a"]
    assert usual(rows.iloc[:3])["experiment"].item() == "c"


def test_a_kernel_that_failed_a_check_is_in_nothing_that_shows_its_speed(
    h100: Results, changed: Callable[..., Results]
) -> None:
    results = changed(h100, checks=with_cells("passed", False, variant="sgemm_warptile"))
    (left_out,) = (one for one in results.left_out if one not in h100.left_out)
    assert list(results.failed["variant"]) == ["sgemm_warptile"]
    assert left_out.label == "warptile" and left_out.reason.startswith("failed the ")
    for rows in (results.timings, results.counters, results.predictions):
        assert len(rows) and "sgemm_warptile" not in set(rows["variant"])


# One process of one row of the kernel is left out; its other rows still count.
ONE_WINDOW = {"variant": "sgemm_naive", "experiment": "sgemm_ladder", "process": 2, "n": 4096}
UNSTEADY = "no steady clock"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (with_cells("code_hash", "0" * 16, variant="sgemm_naive"), LeftOut("naive", CHANGED)),
        (with_cells("variant", "gone", variant="sgemm_naive"), LeftOut("gone", GONE)),
        (
            with_cells("left_out", UNSTEADY, **ONE_WINDOW),
            LeftOut("naive", UNSTEADY, "sgemm_ladder 4096 uniform"),
        ),
    ],
)
def test_what_does_not_count_is_named_with_the_reason(
    change: Change, expected: LeftOut, h100: Results, changed: Callable[..., Results]
) -> None:
    results = changed(h100, windows=change)
    assert [one for one in results.left_out if one not in h100.left_out] == [expected]
    assert expected not in h100.left_out
    rows = results.raw("windows").query("variant in ('sgemm_naive', 'gone')")
    assert results.described(rows[rows["experiment"] == "sgemm_ladder"]).empty


def test_without_builds_every_kernel_is_named_and_so_is_what_failed(
    copied: Path, variants_csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "resources.csv").unlink()
    results = Results(copied, variants_csv)
    assert {kernel.reason for kernel in results.left_out} == {NO_BUILDS}
    assert set(results.timings["kind"]) == {"baseline"}
    tell_left_out(results)
    (line,) = capsys.readouterr().err.splitlines()
    count = len({kernel.label for kernel in results.left_out})
    reason = "no code hash: resources.csv is missing"
    assert line.startswith(f"left out of {copied}: {count} kernels, {reason}: naive, ")
    assert line.endswith(f" and {count - FIRST} more")


def test_counters_have_plain_units_and_our_names() -> None:
    head = {"variant": "v", "label": "v", "kind": "kernel", "family": "f", "dtype": "fp32"}
    head |= {"tensor": False, "order": 0, "n": 64, "kernel": "k"}
    counted = {"dram__bytes_read.sum": (2.0, "Mbyte"), "dram__bytes_write.sum": (1.0, "Mbyte")}
    counted |= {"gpu__time_duration.sum": (3.0, "us"), "gpu__time_duration.sum.mine": (4.0, "")}
    cells = [{"metric": name, "value": v, "unit": unit} for name, (v, unit) in counted.items()]
    (row,) = wide(pd.DataFrame([head | cell for cell in cells])).to_dict("records")
    expected = {"dram_read": 2e6, "dram_bytes": 3e6, "duration": 3e3, "duration_us": 3.0}
    expected |= {"dram_gb_per_s": 1e3, "gpu__time_duration.sum.mine": 4}
    assert {name: row[name] for name in expected} == expected
    assert SCALE["usecond"] == SCALE["us"] == 1e3 and SCALE["msecond"] == SCALE["ms"] == 1e6


def test_the_top_stall_is_a_wait() -> None:
    stalls = {"stall_selected": 9.0, "stall_barrier": 1.0, "stall_long_scoreboard": 2.0}
    assert top_stall(stalls) == ("Long scoreboard", 2.0)


MORE = r"Compute \(SM|IPC|busy|utilization|bytes used|ligible|occupancy|Block limit"
LESS = "Duration|executed|xcessive|conflicts|bytes read|Warp cycles|Registers|Busiest"


def test_which_way_a_counter_is_better_follows_from_its_label() -> None:
    for counter in (counter for section in SECTIONS.values() for counter in section):
        more, less = (re.search(words, counter.label) is not None for words in (MORE, LESS))
        assert counter.better == more - less, counter


def test_derived_counters_are_ratios_of_what_they_name() -> None:
    counted = {"shared_load_conflicts": 30.0, "shared_load_wavefronts": 120.0}
    counted |= {"shared_store_conflicts": 10.0, "issue_active": 30.0}
    counted |= {"shared_wavefronts": 200.0, "shared_wavefronts_ideal": 150.0}
    counted |= {"sm_cycles_most": 110.0, "sm_cycles_mean": 100.0}
    expected = {"shared_conflicts": 40.0, "shared_load_conflicts_percent": 25.0}
    expected |= {"shared_excess_percent": 25, "no_eligible": 70, "imbalance_percent": 10}
    derived = {name: DERIVED[name](pd.DataFrame([counted])).item() for name in expected}
    assert derived == pytest.approx(expected)


LOADED, STORED = ({f"global_{op}_bytes_per_sector": 16.0} for op in ("load", "store"))


@pytest.mark.parametrize(
    ("name", "sectors", "counted", "matrices"),
    [
        ("load_bytes_per_sector", "global_load_sectors", LOADED, 2),
        ("store_bytes_per_sector", "global_store_sectors", STORED, 1),
        ("global_excess_percent", "global_sectors_l2", {"global_sectors_l2_ideal": 4.0}, 3),
    ],
)
def test_a_ratio_of_sectors_needs_half_of_the_matrices(
    name: str, sectors: str, counted: dict[str, float], matrices: int
) -> None:
    """Of n x n elements of two bytes, in sectors of 32."""
    half = matrices * 64 * 64 * 2 / 32 / 2
    rows = pd.DataFrame({sectors: [half, half - 1]}).assign(n=64, dtype="bf16", **counted)
    assert DERIVED[name](rows).notna().tolist() == [True, False]


def test_tables_of_this_tree_come_first_and_measurements_stay_those_of_the_folder(
    copied: Path, variants_csv: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in ("resources.csv", "checks.csv"):
        shutil.copy(copied / name, here)
    joined = Results(copied, variants_csv, here)
    assert joined.path("resources") == here / "resources.csv"
    assert joined.path("checks") == copied / "checks.csv"
    assert joined.path("bounds") == copied / "bounds.csv"  # it was not made here


def test_another_source_of_the_same_machine_code_counts(
    copied: Path, variants_csv: Path, tmp_path: Path
) -> None:
    """What this tree builds says which machine code a changed source stands for; without it, none
    is known.
    """
    source_hash = row_of_naive(variants_csv, Variants)["source_hash"]
    built = row_of_naive(copied / "resources.csv", Resources) | {"source_hash": "0" * 16}
    edited, here = tmp_path / "variants.csv", tmp_path / "here"
    edited.write_text(variants_csv.read_text().replace(source_hash, "0" * 16))
    here.mkdir()
    for change, counts in (
        ({}, True),
        ({"code_hash": "1" * 16}, False),
        ({"arch": "sm_80"}, False),
    ):
        write_rows(here / "resources.csv", Resources, [built | change])
        rows = Results(copied, edited, here).table("windows")
        assert ("sgemm_naive" in set(rows["variant"])) is counts, change


def test_what_is_wrong_with_a_folder_is_one_clear_line(
    copied: Path, variants_csv: Path, tmp_path: Path
) -> None:
    options = argparse.Namespace(archives=[copied], catalogue=variants_csv)
    assert archives_of(options)[0].archived
    with refused(r"no such folder; a folder with machine\.json"):
        Results(tmp_path / "none", variants_csv)
    windows = copied / "windows.csv"
    windows.write_text(windows.read_text().replace("throttle_reasons", "reasons", 1))
    with refused(r"windows\.csv.*throttle_reasons"):
        _ = Results(copied, variants_csv).timings
    windows.unlink()
    with refused(r"nothing was timed; windows\.csv and samples\.parquet are needed"):
        _ = Results(copied, variants_csv).timings
    with refused("table"):
        Results(copied, variants_csv).raw("timing")


def test_the_results_lead_in_place_of_the_archive_of_their_name(tmp_path: Path) -> None:
    parser, here = argparse.ArgumentParser(), tmp_path / "h200"
    here.mkdir()
    add_options(parser)
    archives, data = ["--archives", "data/h100", "data/h200"], Path("data")
    for given, folders in (
        ([], [data / "h100", data / "h200"]),
        (["--results", str(here)], [here, data / "h100"]),
    ):
        results = several(parser.parse_args([*archives, *given]))
        assert [folder.folder for folder in results.values()] == folders
    with refused("no archive is in data"):
        several(parser.parse_args(["--archives"]))
