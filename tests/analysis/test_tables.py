"""Report tables: on the archive, and their rules on hand-made rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from helpers import ROOT, assert_one_line, refused, run_module

from analysis import compare, tabulate
from analysis.counters import COUNTERS
from analysis.ladders import steps
from analysis.results import CHANGED, LIBRARY, Results
from analysis.tables import emulator, gpus, kernels, shapes
from analysis.tables.steps import moved
from contracts import REHEARSAL
from contracts.worklogs import OURS


@pytest.fixture(scope="module")
def tables(made: Path) -> Path:
    return made / "tables"


def test_timings_have_their_ladder_and_the_gain_of_each_step(tables: Path, h100: Results) -> None:
    rows = pd.read_csv(tables / "timings.csv")
    assert len(rows) == len(h100.timings)
    keys = ["variant", "n"]
    plain = rows[rows.eval("m == n == k and alpha == 1 and beta == 0 and data == 'uniform'")]
    most = plain[plain["clock_policy"] == "boost"].groupby(keys)["samples"].max()
    assert rows[rows["usual"]].set_index(keys)["samples"].sort_index().equals(most)
    at = rows[(rows["experiment"] == "sgemm_ladder") & (rows["n"] == 4096)].set_index("variant")
    worklogs = {"sgemm_warptile": "boehm_sgemm", "sgemm_tma": OURS, "cublas_fp32": LIBRARY}
    assert at.loc[list(worklogs), "worklog"].to_dict() == worklogs
    naive, coalesced = at.loc["sgemm_naive"], at.loc["sgemm_coalesced"]
    assert coalesced["builds_on"] == "sgemm_naive" and pd.isna(naive["gain"])
    assert coalesced["gain"] == pytest.approx(coalesced["fraction"] / naive["fraction"], rel=1e-5)


def test_shapes_of_language_models_are_fractions_of_the_bound_that_binds(
    tables: Path, h100: Results, shaped: Results
) -> None:
    rows = shapes.llm_shapes_table(shaped).set_index(["variant", "n", "m"])
    few, many = rows.loc["hgemm_best_bf16", 8192, 1], rows.loc["hgemm_best_bf16", 8192, 4096]
    rates = vars(h100.machine.ceilings)
    copied = 2 * (8192**2 + 2 * 8192) / (rates["dram_copy_gb_per_s"] * 1e3)
    multiplied = 2 * 4096 * 8192**2 / (rates["bf16_wgmma_flop_per_clock_sm"] * 132 * 1500.0)
    assert (few["bound"], many["bound"]) == ("DRAM", "tensor cores")
    assert few["fraction_of_bound"] == pytest.approx(copied / 100)
    assert many["fraction_of_bound"] == pytest.approx(multiplied / 1000)
    assert len(rows) == 4
    assert len(pd.read_csv(tables / "llm_shapes.csv")) == len(shapes.llm_shapes_table(h100))


def test_every_variant_of_the_catalogue_has_a_row_of_kernels_with_its_checks(
    tables: Path, h100: Results
) -> None:
    rows = pd.read_csv(tables / "kernels.csv").set_index("variant")
    assert list(rows.index) == list(h100.variants["variant"])
    kernel = rows.loc["sgemm_warptile"]
    assert kernel["registers"] > 0 and pd.isna(rows.loc["cublas_fp32", "registers"])
    assert kernel["cases"] == kernel["passed"] == (h100.checks["variant"] == kernel.name).sum()
    checks = [("a", True, 0.2), ("a", False, None), ("b", True, 0.9)]
    made = pd.DataFrame(checks, columns=["variant", "passed", "error_over_bound"]).assign(case="c")
    assert "best_bf16" in rows.at["hgemm_transposed_64x64_k2_bf16", "dispatchers"]
    counted = kernels.checked(SimpleNamespace(checks=made))  # type: ignore[arg-type]
    assert counted.loc["a"].tolist() == [2, 1, 0.2] and counted.loc["b"].tolist() == [1, 1, 0.9]


def test_steps_compare_the_two_kernels_of_each(tables: Path, h100: Results) -> None:
    rows = pd.read_csv(tables / "steps.csv")
    coalesced = rows[rows["variant"] == "sgemm_coalesced"].set_index("counter")
    row = coalesced.loc["global_load_sectors"]
    counted = h100.counters[h100.counters["n"] == 4096].set_index("variant")["global_load_sectors"]
    pair = counted["sgemm_naive"], counted["sgemm_coalesced"]
    assert (row["before"], row["after"]) == pytest.approx(pair, rel=1e-6)
    assert row["moved"] == "as meant"
    assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    assert (row["limiter_before"], row["stall_before"]) == ("L1 lookups", "LG throttle")
    declared = {(step["variant"], step["over"]) for step in steps(h100.variants)}
    assert set(zip(rows["variant"], rows["over"], strict=True)) <= declared


def test_a_counter_moves_as_meant_hardly_or_the_other_way() -> None:
    for before, after, meant, expected in (
        (100.0, 50.0, "fall", "as meant"),
        (100.0, 150.0, "fall", "the other way"),
        (100.0, 150.0, "rise", "as meant"),
        (100.0, 98.0, "fall", "hardly"),
        (100.0, 97.0, "fall", "as meant"),
        (0.0, 0.0, "rise", "hardly"),
        (0.0, 1.0, "rise", "as meant"),
        (None, 1.0, "rise", ""),
    ):
        assert moved(before, after, meant) == expected, (before, after, meant)


def test_the_emulator_is_exact_within_the_digits_of_the_hardware(
    tables: Path, h100: Results
) -> None:
    pairs = emulator.pairs(h100)
    rows = pd.read_csv(tables / "emulator.csv").set_index("counter")
    assert rows["pairs"].sum() == len(pairs) and (rows["exact"] <= rows["within_1_percent"]).all()
    differences = pairs.loc[pairs["counter"] == "global_load_sectors", "difference"].abs()
    exact = (differences <= emulator.EXACT).sum()
    assert rows.loc["global_load_sectors", "exact"] == exact < len(differences)
    assert rows.loc["shared_load_instructions", "worst_difference"] == 0
    # Conflicts are told as a part of the wavefronts.
    row = pairs[pairs["counter"] == "shared_load_conflicts"].iloc[0]
    whole = h100.counters.set_index(["variant", "n"]).loc[(row["variant"], row["n"])]
    further = row["predicted"] - row["measured"]
    assert row["difference"] == further / whole["shared_load_wavefronts"]


def test_the_spread_is_over_gpus_of_one_model_and_models_stand_side_by_side(
    tables: Path, h100: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = pd.DataFrame({"session": list("abc"), "fraction": [0.8, 1, 0.9]})
    cards = cards.assign(variant="v", dtype="bf16", n=64)
    rows = pd.concat([cards, cards.iloc[:1].assign(n=128)])
    monkeypatch.setattr(gpus, "medians", lambda _: rows)
    (row,) = gpus.spreads(h100).to_dict("records")
    expected = {"gpus": 3, "fraction_least": 0.8, "fraction_median": 0.9, "fraction_greatest": 1.0}
    assert expected.items() <= row.items() and row["spread"] == pytest.approx(0.25)
    rows = pd.read_csv(tables / "gpus.csv").set_index(["variant", "n"])
    first, second = rows.loc[("hgemm_wgmma_tma_bf16", 4096)].to_dict("records")
    assert (first["model"], second["model"]) == ("h100", "h200")
    change = second["fraction"] / first["fraction"] - 1
    assert second["change"] == pytest.approx(change, rel=1e-4)


def test_summary_and_coverage_say_what_was_measured_and_what_was_left_out(
    tables: Path, h100: Results
) -> None:
    summary = json.loads((tables / "summary.json").read_text())
    assert summary["machine"] == h100.machine.model_dump(exclude_unset=True)
    assert summary["counts"]["timings"] == len(h100.timings)
    (ladder,) = (row for row in summary["experiments"] if row["name"] == "sgemm_ladder")
    assert ladder["sizes"] == [4096] and ladder["title"]
    assert "sgemm_warptile" not in ladder["missing"]
    rows = pd.read_csv(tables / "coverage.csv").set_index(["gpu", "part"]).loc[h100.name]
    locked = rows.loc["timings, locked clocks"]
    assert (locked["status"], locked["rows"]) == ("left out", 0)
    assert "lock_clocks=true" in locked["reason"]
    assert rows.loc["timings, boost clocks", "rows"] == len(h100.raw("windows"))


def test_rows_of_a_rehearsal_say_so_and_those_of_another_gpu_do_not(
    rehearsed: Results, h200: Results, tmp_path: Path
) -> None:
    sources = tabulate.Sources(rehearsed, {"h100": rehearsed, "h200": h200})
    tabulate.write(sources, ["timings", "gpus", "coverage", "summary"], tmp_path)
    found = {path.stem: pd.read_csv(path) for path in tmp_path.glob("*.csv")}
    assert set(found["timings"]["note"]) == {REHEARSAL}
    for name, gpu in (("gpus", "model"), ("coverage", "gpu")):
        notes = found[name].groupby(gpu)["note"].agg(lambda column: set(column.fillna("")))
        assert notes.to_dict() == {"h100": {REHEARSAL}, "h200": {""}}
    assert json.loads((tmp_path / "summary.json").read_text())["note"] == REHEARSAL


def test_a_table_that_is_asked_for_and_has_no_row_is_an_error(
    h100: Results, changed: Callable[..., Results], tmp_path: Path
) -> None:
    none = changed(h100, counters=lambda rows: rows.assign(code_hash="0" * 16))
    with refused(f"table counters has no row: .* kernels, {CHANGED}: naive, "):
        tabulate.write(tabulate.Sources(none, {}), ["counters"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_two_variants_are_compared_metric_by_metric(h100: Results) -> None:
    pair = compare.known(h100, "sgemm_blocktile_2d", "sgemm_vectorized")
    table = compare.compare(pair, ("old", "new"))
    rows = table.drop_duplicates("metric").set_index("metric")
    assert rows.loc["Time", "better"] == "new" and rows.loc["Time", "b_over_a"] < 1
    assert rows.loc["Blocks per SM", "better"] == "same"
    assert rows.loc["L1/TEX hit rate", "better"] == ""
    title, *lines = compare.as_text(table, ("old", "new"), "title").splitlines()
    (time,) = (line.split() for line in lines if line.startswith("  Time "))
    assert title == "title" and time[1] == "[µs]" and time[-1] == "new"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("tabulate timing", "unknown table 'timing' in analysis/tabulate.py; nearest: timings"),
        ("compare --a sgemm_naive --b sgemm_naive", "named twice"),
        ("compare --a sgemm_naive --b sgemm_splitk_32x32", "no size has counters"),
        ("draw ladders", "unknown figure 'ladders'"),
        ("draw ladder:", "'ladder:' names no experiment"),
        ("draw ladder:none", "unknown experiment 'none' in experiments"),
        ("draw counters:sgemm_laddr", "nearest: sgemm_ladder"),
    ],
)
def test_a_wrong_name_is_one_clear_line(
    command: str, said: str, archive: Path, variants_csv: Path, tmp_path: Path
) -> None:
    options = ("--results", archive, "--catalogue", variants_csv, "--out", tmp_path / "x")
    assert_one_line(run_module("analysis", *command.split(), *options), said)
    assert not list(tmp_path.iterdir())


def test_a_label_of_a_counter_stands_in_metrics_yaml_alone() -> None:
    labels = {counter.label for counter in COUNTERS.values() if " " in counter.label}
    labels |= {counter.short for counter in COUNTERS.values() if len(counter.short.split()) > 2}
    anywhere = re.compile(rf"""["'\[]({"|".join(map(re.escape, labels))})["'\]]""")
    folders = [ROOT / name for name in ("analysis", "paper", "experiments", "workflow")]
    files = [path for folder in folders for path in folder.rglob("*")]
    code = [path for path in files if path.suffix in (".py", ".js", ".typ", ".smk")]
    assert labels and code
    assert [path.name for path in code if anywhere.search(path.read_text())] == []
