"""Report tables: on the archive, and their rules on hand-made rows."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from helpers import ROOT, run_module

from analysis import compare
from analysis.ladders import LIBRARY, steps, worklog_of
from analysis.results import Results
from analysis.tables import emulator, gpus, kernels
from analysis.tables.steps import moved
from contracts.worklogs import OURS

ARCHIVES = sorted(path.parent for path in ROOT.glob("data/*/provenance.json"))


@pytest.fixture(scope="module")
def results(archive: Path, variants_csv: Path) -> Results:
    return Results(archive, variants_csv)


@pytest.fixture(scope="module")
def written(archive: Path, variants_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every report table of the archive."""
    out = tmp_path_factory.mktemp("tables")
    options = ("--results", archive, "--catalogue", variants_csv, "--archives", *ARCHIVES, "--out", out)
    done = run_module("analysis.tabulate", *options)
    assert done.returncode == 0, done.stderr
    return out


def test_timings_have_their_ladder_and_the_gain_of_each_step(written: Path, results: Results) -> None:
    rows = pd.read_csv(written / "timings.csv")
    assert len(rows) == len(results.timings)
    at = rows[(rows["experiment"] == "sgemm_ladder") & (rows["n"] == 4096)].set_index("variant")
    assert at.loc["sgemm_warptile", "worklog"] == "boehm_sgemm" and at.loc["sgemm_tma", "worklog"] == OURS
    assert at.loc["cublas_fp32", "worklog"] == LIBRARY
    gain = at.loc["sgemm_coalesced", "fraction"] / at.loc["sgemm_naive", "fraction"]
    assert at.loc["sgemm_coalesced", "gain"] == pytest.approx(gain, rel=1e-5)
    assert at.loc["sgemm_coalesced", "builds_on"] == "sgemm_naive" and pd.isna(at.loc["sgemm_naive", "gain"])


def test_every_variant_of_the_catalogue_has_a_row_of_kernels_with_its_checks(written: Path, results: Results) -> None:
    rows = pd.read_csv(written / "kernels.csv").set_index("variant")
    assert list(rows.index) == list(results.variants["variant"])
    checks = results.checks[results.checks["variant"] == "sgemm_warptile"]
    assert rows.loc["sgemm_warptile", ["cases", "passed"]].tolist() == [len(checks)] * 2
    worst = checks["error_over_bound"].astype(float).max()
    assert 0 < worst < 1 and rows.loc["sgemm_warptile", "error_over_bound"] == pytest.approx(worst, rel=1e-6)
    assert rows.loc["sgemm_warptile", "registers"] > 0 and pd.isna(rows.loc["cublas_fp32", "registers"])


def test_failed_cases_and_the_largest_error_are_counted_by_variant() -> None:
    checks = pd.DataFrame(
        {"variant": ["a", "a", "b"], "case": "c", "passed": [True, False, True], "error_over_bound": [0.2, None, 0.9]}
    )
    found = kernels.checked(SimpleNamespace(checks=checks))  # type: ignore[arg-type]
    assert found.loc["a"].tolist() == [2, 1, 0.2] and found.loc["b"].tolist() == [1, 1, 0.9]


def test_steps_compare_the_two_kernels_of_each(written: Path, results: Results) -> None:
    rows = pd.read_csv(written / "steps.csv")
    row = rows[(rows["variant"] == "sgemm_coalesced") & (rows["counter"] == "global_load_sectors")].iloc[0]
    counted = results.counters[results.counters["n"] == 4096].set_index("variant")["global_load_sectors"]
    assert (row["before"], row["after"]) == pytest.approx(
        (counted["sgemm_naive"], counted["sgemm_coalesced"]), rel=1e-6
    )
    assert row["moved"] == "as meant" and row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    assert row["limiter_before"] == "L1 lookups" and row["stall_before"] == "LG throttle"
    declared = {(step["variant"], step["over"]) for step in steps(results.variants)}
    assert set(zip(rows["variant"], rows["over"], strict=True)) <= declared


@pytest.mark.parametrize(
    ("before", "after", "meant", "expected"),
    [
        (100.0, 50.0, "fall", "as meant"),
        (100.0, 150.0, "fall", "the other way"),
        (100.0, 150.0, "rise", "as meant"),
        (100.0, 98.0, "fall", "hardly"),
        (0.0, 0.0, "rise", "hardly"),
        (0.0, 1.0, "rise", "as meant"),
        (None, 1.0, "rise", ""),
    ],
)
def test_a_counter_moves_as_meant_hardly_or_the_other_way(
    before: float | None, after: float, meant: str, expected: str
) -> None:
    assert moved(before, after, meant) == expected


def test_the_emulator_is_exact_within_the_digits_of_the_hardware(written: Path, results: Results) -> None:
    pairs = emulator.pairs(results)
    rows = pd.read_csv(written / "emulator.csv").set_index("counter")
    assert rows["pairs"].sum() == len(pairs) and (rows["exact"] <= rows["within_1_percent"]).all()
    own = pairs[pairs["counter"] == "global_load_sectors"]
    assert rows.loc["global_load_sectors", "exact"] == (own["difference"].abs() <= emulator.EXACT).sum() < len(own)
    assert rows.loc["shared_load_instructions", "worst_difference"] == 0
    conflicts = pairs[pairs["counter"] == "shared_load_conflicts"]
    whole = results.counters.set_index(["variant", "n"])["shared_load_wavefronts"]
    row = conflicts.iloc[0]  # of the wavefronts that they are part of, not of themselves
    assert row["difference"] == (row["predicted"] - row["measured"]) / whole[row["variant"], row["n"]]


def test_the_spread_is_over_gpus_of_one_model_and_models_stand_side_by_side(
    written: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = pd.DataFrame(
        {"variant": "v", "dtype": "bf16", "n": 64, "session": list("abc"), "fraction": [0.8, 1.0, 0.9]}
    )
    alone = planted.iloc[:1].assign(n=128)
    monkeypatch.setattr(gpus, "medians", lambda _: pd.concat([planted, alone]))
    (row,) = gpus.spreads(results).to_dict("records")
    assert (row["gpus"], row["fraction_least"], row["fraction_median"], row["fraction_greatest"]) == (3, 0.8, 0.9, 1.0)
    assert row["spread"] == pytest.approx(0.25)
    rows = pd.read_csv(written / "gpus.csv")
    if len(ARCHIVES) > 1:
        pair = rows[(rows["variant"] == "hgemm_wgmma_tma_bf16") & (rows["n"] == 4096)].set_index("model")["fraction"]
        changed = rows[(rows["variant"] == "hgemm_wgmma_tma_bf16") & (rows["n"] == 4096)].dropna(subset="change")
        assert changed["change"].iloc[0] == pytest.approx(pair.iloc[1] / pair.iloc[0] - 1, rel=1e-4)


def test_summary_and_coverage_say_what_was_measured_and_what_was_left_out(written: Path, results: Results) -> None:
    summary = json.loads((written / "summary.json").read_text())
    assert summary["machine"] == results.machine and summary["counts"]["timings"] == len(results.timings)
    ladder = next(one for one in summary["experiments"] if one["name"] == "sgemm_ladder")
    assert ladder["sizes"] == [4096] and ladder["missing"] == [] and ladder["title"]
    rows = pd.read_csv(written / "coverage.csv").set_index(["gpu", "part"])
    locked = rows.loc[(results.name, "timings, locked clocks")]
    assert locked["status"] == "left out" and "lock_clocks=true" in locked["reason"] and locked["rows"] == 0
    assert rows.loc[(results.name, "timings, boost clocks"), "rows"] == len(results.raw("windows"))


def test_libraries_and_our_own_kernels_are_of_no_worklog() -> None:
    rows = pd.DataFrame({"origin": ["boehm_sgemm: Kernel 1", None, None], "kind": ["kernel", "kernel", "baseline"]})
    assert list(worklog_of(rows)) == ["boehm_sgemm", OURS, LIBRARY]


def test_a_wrong_table_name_is_one_clear_line(archive: Path, variants_csv: Path, tmp_path: Path) -> None:
    options = ("--results", archive, "--catalogue", variants_csv, "--out", tmp_path, "timing")
    done = run_module("analysis.tabulate", *options)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "'timing'" in done.stderr and "timings" in done.stderr and not list(tmp_path.iterdir())


def test_two_variants_are_compared_metric_by_metric(
    results: Results, archive: Path, variants_csv: Path, tmp_path: Path
) -> None:
    found = compare.known(results, "sgemm_blocktile_2d", "sgemm_vectorized")
    table = compare.compare(found, ("old", "new"))
    rows = table.drop_duplicates("metric").set_index("metric")
    assert rows.loc["Time", "better"] == "new" and rows.loc["Time", "b_over_a"] < 1
    assert rows.loc["Blocks per SM", "better"] == "same" and rows.loc["L1/TEX hit rate", "better"] == ""
    options = ("--results", archive, "--catalogue", variants_csv, "--out", tmp_path / "x.csv")
    done = run_module("analysis.compare", "--a", "sgemm_naive", "--b", "sgemm_naive", *options)
    assert done.returncode == 2 and "named twice" in done.stderr
    done = run_module("analysis.compare", "--a", "sgemm_naive", "--b", "sgemm_splitk_32x32", *options)
    assert done.returncode == 2 and "no size has counters" in done.stderr
