"""Report tables: on the archive, and their rules on hand-made rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from helpers import ROOT, run_module

from analysis import compare, tabulate
from analysis.counters import COUNTERS
from analysis.ladders import LIBRARY, steps, worklog_of
from analysis.results import CHANGED, Results
from analysis.tables import emulator, gpus, kernels, shapes
from analysis.tables.steps import moved
from contracts import REHEARSAL, UserError
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
    gain = at.loc["sgemm_coalesced", "fraction"] / at.loc["sgemm_naive", "fraction"]
    assert at.loc["sgemm_coalesced", "gain"] == pytest.approx(gain, rel=1e-5)
    assert at.loc["sgemm_coalesced", "builds_on"] == "sgemm_naive" and pd.isna(
        at.loc["sgemm_naive", "gain"]
    )
    variants = pd.DataFrame(
        {"origin": ["boehm_sgemm: Kernel 1", None, None], "kind": ["kernel", "kernel", "baseline"]}
    )
    assert list(worklog_of(variants)) == ["boehm_sgemm", OURS, LIBRARY]


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
    assert len(rows) == 4 and len(pd.read_csv(tables / "llm_shapes.csv")) == len(
        shapes.llm_shapes_table(h100)
    )


def test_every_variant_of_the_catalogue_has_a_row_of_kernels_with_its_checks(
    tables: Path, h100: Results
) -> None:
    rows = pd.read_csv(tables / "kernels.csv").set_index("variant")
    assert list(rows.index) == list(h100.variants["variant"])
    own = rows.loc["sgemm_warptile"]
    assert own["registers"] > 0 and pd.isna(rows.loc["cublas_fp32", "registers"])
    assert own["cases"] == own["passed"] == (h100.checks["variant"] == "sgemm_warptile").sum()
    checks = {
        "variant": list("aab"),
        "case": "c",
        "passed": [True, False, True],
        "error_over_bound": [0.2, None, 0.9],
    }
    found = kernels.checked(SimpleNamespace(checks=pd.DataFrame(checks)))  # type: ignore[arg-type]
    assert found.loc["a"].tolist() == [2, 1, 0.2] and found.loc["b"].tolist() == [1, 1, 0.9]


def test_steps_compare_the_two_kernels_of_each(tables: Path, h100: Results) -> None:
    rows = pd.read_csv(tables / "steps.csv")
    row = rows[
        (rows["variant"] == "sgemm_coalesced") & (rows["counter"] == "global_load_sectors")
    ].iloc[0]
    counted = h100.counters[h100.counters["n"] == 4096].set_index("variant")["global_load_sectors"]
    before, after = counted["sgemm_naive"], counted["sgemm_coalesced"]
    assert (row["before"], row["after"]) == pytest.approx((before, after), rel=1e-6)
    assert (
        row["moved"] == "as meant" and row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    )
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
    own = pairs[pairs["counter"] == "global_load_sectors"]
    assert (
        rows.loc["global_load_sectors", "exact"]
        == (own["difference"].abs() <= emulator.EXACT).sum()
        < len(own)
    )
    assert rows.loc["shared_load_instructions", "worst_difference"] == 0
    # of the wavefronts that they are part of
    row = pairs[pairs["counter"] == "shared_load_conflicts"].iloc[0]
    whole = h100.counters.set_index(["variant", "n"])["shared_load_wavefronts"]
    assert (
        row["difference"] == (row["predicted"] - row["measured"]) / whole[row["variant"], row["n"]]
    )


def test_the_spread_is_over_gpus_of_one_model_and_models_stand_side_by_side(
    tables: Path, h100: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = pd.DataFrame(
        {
            "variant": "v",
            "dtype": "bf16",
            "n": 64,
            "session": list("abc"),
            "fraction": [0.8, 1, 0.9],
        }
    )
    monkeypatch.setattr(
        gpus, "medians", lambda _: pd.concat([planted, planted.iloc[:1].assign(n=128)])
    )
    (row,) = gpus.spreads(h100).to_dict("records")
    assert (
        row["gpus"],
        row["fraction_least"],
        row["fraction_median"],
        row["fraction_greatest"],
    ) == (3, 0.8, 0.9, 1.0)
    assert row["spread"] == pytest.approx(0.25)
    rows = pd.read_csv(tables / "gpus.csv")
    pair = rows[(rows["variant"] == "hgemm_wgmma_tma_bf16") & (rows["n"] == 4096)]
    change = pair["fraction"].iloc[1] / pair["fraction"].iloc[0] - 1
    assert list(pair["model"]) == ["h100", "h200"] and pair["change"].iloc[1] == pytest.approx(
        change, rel=1e-4
    )


def test_summary_and_coverage_say_what_was_measured_and_what_was_left_out(
    tables: Path, h100: Results
) -> None:
    summary = json.loads((tables / "summary.json").read_text())
    assert summary["machine"] == h100.machine.model_dump(exclude_unset=True) and summary["counts"][
        "timings"
    ] == len(h100.timings)
    ladder = next(one for one in summary["experiments"] if one["name"] == "sgemm_ladder")
    assert (
        ladder["sizes"] == [4096] and "sgemm_warptile" not in ladder["missing"] and ladder["title"]
    )
    rows = pd.read_csv(tables / "coverage.csv").set_index(["gpu", "part"])
    locked = rows.loc[(h100.name, "timings, locked clocks")]
    assert (
        locked["status"] == "left out"
        and "lock_clocks=true" in locked["reason"]
        and locked["rows"] == 0
    )
    assert rows.loc[(h100.name, "timings, boost clocks"), "rows"] == len(h100.raw("windows"))


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
    with pytest.raises(
        UserError, match=f"table counters has no row: .* kernels, {CHANGED}: naive, "
    ):
        tabulate.write(tabulate.Sources(none, {}), ["counters"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_two_variants_are_compared_metric_by_metric(h100: Results) -> None:
    table = compare.compare(
        compare.known(h100, "sgemm_blocktile_2d", "sgemm_vectorized"), ("old", "new")
    )
    rows = table.drop_duplicates("metric").set_index("metric")
    assert rows.loc["Time", "better"] == "new" and rows.loc["Time", "b_over_a"] < 1
    assert (
        rows.loc["Blocks per SM", "better"] == "same"
        and rows.loc["L1/TEX hit rate", "better"] == ""
    )
    text = compare.as_text(table, ("old", "new"), "title").splitlines()
    assert text[0] == "title" and any(
        line.split()[:2] == ["Time", "[µs]"] and line.endswith("new") for line in text
    )


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        (
            "tabulate",
            ["timing"],
            "unknown table 'timing' in analysis/tabulate.py; nearest: timings",
        ),
        ("compare", ["--a", "sgemm_naive", "--b", "sgemm_naive"], "named twice"),
        (
            "compare",
            ["--a", "sgemm_naive", "--b", "sgemm_splitk_32x32"],
            "no size has counters",
        ),
        ("draw", ["ladders"], "unknown figure 'ladders'"),
        ("draw", ["ladder:"], "'ladder:' names no experiment"),
        ("draw", ["ladder:none"], "unknown experiment 'none' in experiments"),
        ("draw", ["counters:sgemm_laddr"], "nearest: sgemm_ladder"),
    ],
)
def test_a_wrong_name_is_one_clear_line(
    command: str, arguments: list[str], said: str, archive: Path, variants_csv: Path, tmp_path: Path
) -> None:
    done = run_module(
        "analysis",
        command,
        "--results",
        archive,
        "--catalogue",
        variants_csv,
        "--out",
        tmp_path / "x",
        *arguments,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, (
        done.stderr
    )
    assert not list(tmp_path.iterdir())


def test_a_label_of_a_counter_stands_in_metrics_yaml_alone() -> None:
    labels = {counter.label for counter in COUNTERS.values() if " " in counter.label}
    labels |= {counter.short for counter in COUNTERS.values() if len(counter.short.split()) > 2}
    anywhere = re.compile(rf"""["'\[]({"|".join(map(re.escape, labels))})["'\]]""")
    files = [
        path
        for folder in ("analysis", "paper", "experiments", "workflow")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".js", ".typ", ".smk")
    ]
    assert (
        labels
        and {path.name: stands for path in files if (stands := anywhere.findall(path.read_text()))}
        == {}
    )
