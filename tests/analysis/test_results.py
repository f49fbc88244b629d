"""A results folder: which rows count, what is stale, what comes from this tree, and clear lines for what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.results import Results, described, of_archives, usual
from analysis.timings import KEY
from contracts import UserError, read_rows, write_rows


@pytest.fixture(scope="module")
def results(archive: Path, variants_csv: Path) -> Results:
    return Results(archive, variants_csv)


@pytest.fixture
def copy(archive: Path, tmp_path: Path) -> Path:
    """A folder of an archive that may be changed."""
    folder = tmp_path / "data" / archive.name
    shutil.copytree(archive, folder, ignore=shutil.ignore_patterns("archived.json"))
    return folder


def edit(path: Path, old: str, new: str, count: int = 1) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def test_a_row_stands_for_a_problem_once_and_the_usual_ones_are_uniform_at_boost_clocks(results: Results) -> None:
    rows = results.timings
    assert not rows.duplicated(KEY).any() and (rows["fraction_low"] <= rows["fraction_high"]).all()
    chosen = usual(results.squares)
    assert not chosen.duplicated(["variant", "n"]).any()
    assert set(chosen["data"]) == {"uniform"} and set(chosen["clock_policy"]) == {"boost"}
    most = rows[(rows["data"] == "uniform")].groupby(["variant", "n"])["processes"].max()
    assert (
        chosen.set_index(["variant", "n"])["processes"]
        == most.reindex(pd.MultiIndex.from_frame(chosen[["variant", "n"]]))
    ).all()


def test_labels_are_unique_and_every_row_has_one(results: Results) -> None:
    assert results.variants["label"].is_unique
    assert results.timings["label"].notna().all() and results.counters["label"].notna().all()


def test_a_kernel_that_failed_a_check_is_in_nothing_that_shows_its_speed(copy: Path, variants_csv: Path) -> None:
    lines = (copy / "checks.csv").read_text().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if line.startswith("sgemm_warptile,") and ",true," in line)
    lines[place] = lines[place].replace(",true,", ",false,")
    (copy / "checks.csv").write_text("".join(lines))
    changed = Results(copy, variants_csv)
    assert list(changed.failed["variant"]) == ["sgemm_warptile"]
    for rows in (changed.timings, changed.counters, changed.predictions):
        assert len(rows) and "sgemm_warptile" not in set(rows["variant"])


def test_a_row_of_other_machine_code_is_stale(results: Results) -> None:
    rows = pd.DataFrame({"variant": ["sgemm_naive", "sgemm_tma"], "code_hash": ["other", "x"]})
    variants = results.variants.assign(
        code_hash=results.variants["code_hash"].where(results.variants["variant"] != "sgemm_tma", "x")
    )
    assert described(rows, variants).set_index("variant")["stale"].to_dict() == {
        "sgemm_naive": True,
        "sgemm_tma": False,
    }
    assert described(pd.DataFrame({"variant": ["gone"]}), variants).empty


def test_tables_of_this_tree_come_first_and_measurements_stay_those_of_the_folder(
    copy: Path, variants_csv: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in ("resources.csv", "checks.csv"):
        shutil.copy(copy / name, here)
    joined = Results(copy, variants_csv, here)
    assert joined.path("resources") == here / "resources.csv" and joined.path("checks") == copy / "checks.csv"
    assert joined.path("bounds") == copy / "bounds.csv"  # it was not made here


def test_another_source_of_the_same_machine_code_is_not_stale(copy: Path, variants_csv: Path, tmp_path: Path) -> None:
    """What this tree builds says which machine code a changed source stands for; without it, none is known."""
    own = next(row for row in read_rows(variants_csv, "variants") if row["variant"] == "sgemm_naive")["source_hash"]
    changed, here = tmp_path / "variants.csv", tmp_path / "here"
    changed.write_text(variants_csv.read_text().replace(own, "0" * 16))
    here.mkdir()
    built = next(row for row in read_rows(copy / "resources.csv", "resources") if row["variant"] == "sgemm_naive")
    for code, arch, stale in ((built["code_hash"], "sm_90a", False), ("1" * 16, "sm_90a", True), ("1", "sm_80", True)):
        row = built | {"source_hash": "0" * 16, "code_hash": code, "arch": arch}
        write_rows(here / "resources.csv", "resources", [row])
        rows = Results(copy, changed, here).table("windows")
        assert set(rows[rows["variant"] == "sgemm_naive"]["stale"]) == {stale}


def test_archives_are_found_by_name(variants_csv: Path, archive: Path) -> None:
    found = of_archives(variants_csv, archive.parent)
    assert archive.name in found and found[archive.name].archived and found[archive.name].model == archive.name.upper()


def test_what_is_wrong_with_a_folder_is_one_clear_line(copy: Path, variants_csv: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such folder; a folder with machine\.json"):
        Results(tmp_path / "none", variants_csv)
    edit(copy / "windows.csv", "throttle_reasons", "reasons")
    with pytest.raises(UserError, match=r"windows\.csv.*throttle_reasons"):
        _ = Results(copy, variants_csv).timings
    (copy / "windows.csv").unlink()
    with pytest.raises(UserError, match=r"nothing was timed; windows\.csv and samples\.parquet are needed"):
        _ = Results(copy, variants_csv).timings
    with pytest.raises(UserError, match="table"):
        Results(copy, variants_csv).raw("timing")
