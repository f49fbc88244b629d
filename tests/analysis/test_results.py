"""A results folder: which rows count, what comes from this tree, and clear lines for what is
wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from helpers import dict_rows

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
from contracts import UserError, write_rows
from contracts.rows import Resources, Variants


@pytest.fixture
def copied(archive: Path, tmp_path: Path) -> Path:
    """A folder of an archive that may be changed."""
    folder = tmp_path / "data" / archive.name
    return Path(shutil.copytree(archive, folder, ignore=shutil.ignore_patterns("archived.json")))


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
    rows = h100.timings
    assert not rows.duplicated(KEY).any() and (rows["fraction_low"] <= rows["fraction_high"]).all()
    assert h100.variants["label"].is_unique and rows["label"].notna().all()
    chosen = usual(h100.squares)
    assert not chosen.duplicated(["variant", "n"]).any()
    assert set(chosen["data"]) == {"uniform"} and set(chosen["clock_policy"]) == {"boost"}
    most = (
        h100.squares[h100.squares["data"] == "uniform"].groupby(["variant", "n"])["processes"].max()
    )
    assert (
        chosen.set_index(["variant", "n"])["processes"]
        == most.reindex(chosen.set_index(["variant", "n"]).index)
    ).all()


def test_the_usual_timing_is_of_the_most_processes_then_samples_then_the_first_name() -> None:
    measured = [("e", 1, 90), ("d", 5, 40), ("c", 5, 50), ("b", 5, 50), ("a", 1, 99)]
    rows = pd.DataFrame(measured, columns=["experiment", "processes", "samples"])
    rows = rows.assign(variant="v", n=64, order=0, clock_policy="boost", data="uniform")
    assert [usual(rows.drop(range(n)))["experiment"].item() for n in (0, 4)] == ["b", "a"]
    assert usual(rows.iloc[:3])["experiment"].item() == "c"


def test_a_kernel_that_failed_a_check_is_in_nothing_that_shows_its_speed(
    h100: Results, changed: Callable[..., Results]
) -> None:
    def fail(rows: pd.DataFrame) -> pd.DataFrame:
        place = rows.index[rows["variant"] == "sgemm_warptile"][0]
        rows.loc[place, "passed"] = False
        return rows

    failed = changed(h100, checks=fail)
    assert list(failed.failed["variant"]) == ["sgemm_warptile"]
    assert [one.label for one in failed.left_out] == ["warptile"] and failed.left_out[
        0
    ].reason.startswith("failed the ")
    for rows in (failed.timings, failed.counters, failed.predictions):
        assert len(rows) and "sgemm_warptile" not in set(rows["variant"])


def other_code(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(code_hash=rows["code_hash"].mask(rows["variant"] == "sgemm_naive", "0" * 16))


def gone(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(variant=rows["variant"].replace("sgemm_naive", "gone"))


def not_steady(rows: pd.DataFrame) -> pd.DataFrame:
    """One process of one row of the kernel; its other rows still count."""
    own = (
        (rows["variant"] == "sgemm_naive")
        & (rows["experiment"] == "sgemm_ladder")
        & (rows["process"] == 2)
    )
    return rows.assign(
        left_out=rows["left_out"].astype(object).mask(own & (rows["n"] == 4096), "no steady clock")
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (other_code, LeftOut("naive", CHANGED)),
        (gone, LeftOut("gone", GONE)),
        (not_steady, LeftOut("naive", "no steady clock", "sgemm_ladder 4096 uniform")),
    ],
)
def test_what_does_not_count_is_named_with_the_reason(
    change: Callable[[pd.DataFrame], pd.DataFrame],
    expected: LeftOut,
    h100: Results,
    changed: Callable[..., Results],
) -> None:
    found = changed(h100, windows=change)
    assert h100.left_out == [] and found.left_out == [expected]
    own = found.raw("windows").query(
        "variant in ('sgemm_naive', 'gone') and experiment == 'sgemm_ladder'"
    )
    assert len(own) and found.described(own).empty


def test_without_builds_every_kernel_is_named_and_so_is_what_failed(
    copied: Path, variants_csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "resources.csv").unlink()
    results = Results(copied, variants_csv)
    kernels = {one.label for one in results.left_out}
    assert {one.reason for one in results.left_out} == {NO_BUILDS} and set(
        results.timings["kind"]
    ) == {"baseline"}
    tell_left_out(results)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"left out of {copied}: {len(kernels)} kernels, no code hash: resources.csv is missing: naive, "
    )
    assert line.endswith(f" and {len(kernels) - FIRST} more")


def test_counters_have_plain_units_and_our_names() -> None:
    head = {
        "variant": "v",
        "label": "v",
        "kind": "kernel",
        "family": "f",
        "dtype": "fp32",
        "tensor": False,
        "order": 0,
    }
    head |= {"n": 64, "kernel": "k"}
    counted = {"dram__bytes_read.sum": (2.0, "Mbyte"), "dram__bytes_write.sum": (1.0, "Mbyte")}
    counted |= {"gpu__time_duration.sum": (3.0, "us"), "gpu__time_duration.sum.mine": (4.0, "")}
    rows = pd.DataFrame(
        [head | {"metric": name, "value": v, "unit": unit} for name, (v, unit) in counted.items()]
    )
    (row,) = wide(rows).to_dict("records")
    assert (row["dram_read"], row["dram_bytes"], row["duration"], row["duration_us"]) == (
        2e6,
        3e6,
        3e3,
        3.0,
    )
    assert (
        row["dram_gb_per_s"] == 1e3
        and row["gpu__time_duration.sum.mine"] == 4
        and SCALE["usecond"] == SCALE["us"] == 1e3
        and SCALE["msecond"] == SCALE["ms"] == 1e6
    )
    assert top_stall(
        {"stall_selected": 9.0, "stall_barrier": 1.0, "stall_long_scoreboard": 2.0}
    ) == (
        "Long scoreboard",
        2.0,
    )


MORE = r"Compute \(SM|IPC|busy|utilization|bytes used|ligible|occupancy|Block limit"
LESS = "Duration|executed|xcessive|conflicts|bytes read|Warp cycles|Registers|Busiest"


def test_which_way_a_counter_is_better_follows_from_its_label() -> None:
    for counter in (one for section in SECTIONS.values() for one in section):
        more, less = (re.search(words, counter.label) is not None for words in (MORE, LESS))
        assert counter.better == more - less, counter


def test_derived_counters_are_ratios_of_what_they_name() -> None:
    conflicts = {
        "shared_load_conflicts": [30.0],
        "shared_load_wavefronts": [120.0],
        "shared_store_conflicts": [10.0],
    }
    rows = pd.DataFrame(
        conflicts | {"shared_wavefronts": [200.0], "shared_wavefronts_ideal": [150.0]}
    )
    rows = rows.assign(sm_cycles_most=110.0, sm_cycles_mean=100.0, issue_active=30.0)
    found = {
        name: DERIVED[name](rows).item()
        for name in ("shared_conflicts", "shared_load_conflicts_percent")
    }
    assert found == {"shared_conflicts": 40.0, "shared_load_conflicts_percent": 25.0}
    assert (
        DERIVED["shared_excess_percent"](rows).item() == 25
        and DERIVED["no_eligible"](rows).item() == 70
    )
    assert DERIVED["imbalance_percent"](rows).item() == pytest.approx(10)


@pytest.mark.parametrize(
    ("name", "sectors", "counted", "matrices"),
    [
        ("load_bytes_per_sector", "global_load_sectors", {"global_load_bytes_per_sector": 16.0}, 2),
        (
            "store_bytes_per_sector",
            "global_store_sectors",
            {"global_store_bytes_per_sector": 16.0},
            1,
        ),
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
    assert (
        joined.path("resources") == here / "resources.csv"
        and joined.path("checks") == copied / "checks.csv"
    )
    assert joined.path("bounds") == copied / "bounds.csv"  # it was not made here


def test_another_source_of_the_same_machine_code_counts(
    copied: Path, variants_csv: Path, tmp_path: Path
) -> None:
    """What this tree builds says which machine code a changed source stands for; without it, none
    is known.
    """
    own = next(row for row in dict_rows(variants_csv, Variants) if row["variant"] == "sgemm_naive")[
        "source_hash"
    ]
    changed, here = tmp_path / "variants.csv", tmp_path / "here"
    changed.write_text(variants_csv.read_text().replace(own, "0" * 16))
    here.mkdir()
    built = next(
        row
        for row in dict_rows(copied / "resources.csv", Resources)
        if row["variant"] == "sgemm_naive"
    )
    for code, arch, counts in (
        (built["code_hash"], "sm_90a", True),
        ("1" * 16, "sm_90a", False),
        (built["code_hash"], "sm_80", False),
    ):
        row = built | {"source_hash": "0" * 16, "code_hash": code, "arch": arch}
        write_rows(here / "resources.csv", Resources, [row])
        rows = Results(copied, changed, here).table("windows")
        assert ("sgemm_naive" in set(rows["variant"])) is counts


def test_what_is_wrong_with_a_folder_is_one_clear_line(
    copied: Path, variants_csv: Path, tmp_path: Path
) -> None:
    options = argparse.Namespace(archives=[copied], catalogue=variants_csv)
    assert archives_of(options)[0].archived
    with pytest.raises(UserError, match=r"no such folder; a folder with machine\.json"):
        Results(tmp_path / "none", variants_csv)
    windows = copied / "windows.csv"
    windows.write_text(windows.read_text().replace("throttle_reasons", "reasons", 1))
    with pytest.raises(UserError, match=r"windows\.csv.*throttle_reasons"):
        _ = Results(copied, variants_csv).timings
    windows.unlink()
    with pytest.raises(
        UserError, match=r"nothing was timed; windows\.csv and samples\.parquet are needed"
    ):
        _ = Results(copied, variants_csv).timings
    with pytest.raises(UserError, match="table"):
        Results(copied, variants_csv).raw("timing")


def test_the_results_lead_in_place_of_the_archive_of_their_name(tmp_path: Path) -> None:
    parser, here = argparse.ArgumentParser(), tmp_path / "h200"
    here.mkdir()
    add_options(parser)
    archives = ["--archives", "data/h100", "data/h200"]
    for given, folders in (
        ([], [Path("data/h100"), Path("data/h200")]),
        (["--results", str(here)], [here, Path("data/h100")]),
    ):
        found = several(parser.parse_args([*archives, *given]))
        assert [one.folder for one in found.values()] == folders
    with pytest.raises(UserError, match="no archive is in data"):
        several(parser.parse_args(["--archives"]))
