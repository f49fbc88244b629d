"""Findings on both archives, recomputed from the recorded tables, and with changed data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from frames import Change, with_cells
from helpers import ROOT, refused

from analysis import findings
from analysis.numbers import Numbers
from analysis.results import Results
from contracts import worklogs

PAPER = {"published": {name: row.value for name, row in worklogs.published().items()}}
# Within noise: the H200's archive has one process for each row. All else holds on both.
UNDECIDED = {"H100": {"hopper_level"}, "H200": {"hopper_level"}}
Changed = Callable[..., Results]
Document = dict[str, dict[str, Any]]


def of(results: Results, name: str) -> findings.Finding:
    return findings.on_gpu(Numbers(results, PAPER), name)


@pytest.fixture(scope="module")
def document(made: Path) -> Document:
    rows = json.loads((made / "tables" / "findings.json").read_text())
    return {row["name"]: row for row in rows}


def test_each_finding_holds_as_the_archives_say_in_short_sentences(document: Document) -> None:
    assert list(document) == list(findings.FINDINGS) and len(document) <= 10
    for name, finding in document.items():
        first, second = finding["gpus"]
        assert (first["model"], second["model"]) == ("H100", "H200")
        for key in ("holds", "title", "sentence", "numbers"):
            assert first[key] == finding[key], name
        for gpu in (first, second):
            model, sentence = gpu["model"], gpu["sentence"]
            assert gpu["holds"] is (None if name in UNDECIDED[model] else True), name
            assert max(len(part.split()) for part in sentence.split(". ")) <= 30, sentence
            assert sentence.endswith(".") and model not in sentence, sentence
            assert "of cuBLAS" not in sentence or "(interleaved)" in sentence, sentence


def test_conflicts_and_fractions_are_those_of_the_tables(document: Document, h100: Results) -> None:
    numbers, sentence = (document["conflicts_moved"][key] for key in ("numbers", "sentence"))
    counted = pd.read_csv(h100.path("counters"))
    conflicts = counted["metric"].str.contains("data_bank_conflicts_pipe_lsu_mem_shared")
    total = counted[(counted["n"] == 4096) & conflicts].groupby("variant")["value"].sum()
    samples = pd.read_parquet(h100.path("samples")).query(
        "experiment == 'bank_conflicts' and window == 'interleaved' and kept and m == n == 4096"
    )
    for variant in ("sgemm_at_tiling", "sgemm_at_swizzle_stores"):
        assert f"{total[variant] / 1e6:.3g} M" in sentence
        rows = samples[samples["variant"] == variant]
        times = rows.groupby(["process", "role"], observed=True)["time_us"].median().unstack()
        assert f"{100 * np.median(times['baseline'] / times['variant']):.0f}%" in sentence
    assert "removes 98%" in sentence or "removes 99%" in sentence
    assert (numbers["steps_fewer"], numbers["steps_fewer_faster"]) == (9, 9)


def test_errors_are_counted_whole(document: Document, h100: Results) -> None:
    numbers = document["three_tf32"]["numbers"]
    rms = pd.read_csv(h100.path("error_over_k")).set_index(["variant", "data", "k"])["rms"]
    ratio = (rms["sgemm_3xtf32_wgmma_outside"] / rms["cublas_fp32"]).rename("ratio").reset_index()
    ordinary = ratio.query("data != 'wide' and k >= 256")["ratio"].max()
    assert numbers["greatest_error_ratio"] == pytest.approx(ordinary) and ordinary < 1
    assert numbers["wide_behind_k"] == ratio.query("data == 'wide' and ratio > 1")["k"].tolist()
    assert [findings.misplaced_fraction(first) for first in (0, 1024, 16384)] == [0, 0.25, 0]


# ---- with changed data ---------------------------------------------------------------------------


def scaled(factor: float, *variants: str, spread: float = 0.0) -> Change:
    """The speed of these variants multiplied, with a range of +- spread around it, all relative."""

    def change(rows: pd.DataFrame) -> pd.DataFrame:
        chosen = rows["variant"].isin(variants)
        fraction = rows.loc[chosen, "fraction"] * factor
        for end, sign in (("_low", -1), ("_high", 1), ("", 0)):
            rows.loc[chosen, f"fraction{end}"] = fraction * (1 + sign * spread)
        return rows

    return change


def at_large_sizes(change: Change) -> Change:
    """The change, of rows with n from 8192 on alone."""
    return lambda rows: pd.concat(
        [rows[rows["n"] < 8192], change(rows[rows["n"] >= 8192].copy())], ignore_index=True
    )


STORES, SIMT = "sgemm_at_swizzle_stores", "sgemm_tma_streamk"
LOADS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
THREE = "sgemm_3xtf32_wgmma_outside"
STOREK = [f"hgemm_wgmma_{kind}_{t}" for kind in ("store", "streamk") for t in ("bf16", "fp16")]
NO_CONFLICTS = with_cells("value", 0.0, variant=STORES, metric=LOADS)
LOW = with_cells("fraction_low", 0.9, variant=SIMT)
INEXACT = with_cells("rms", lambda rms: 4 * rms, variant=THREE)
NO_HIGHER_CLOCK = with_cells("sm_clock_mhz", 1000.0, variant="cublas_bf16", data="zeros")
SLOW_FP32, FAST_16_BIT = scaled(0.8, "sgemm_warptile"), scaled(2.0, "hgemm_bcf_dbf_rw_bf16")


def level_pingpong(rows: pd.DataFrame) -> pd.DataFrame:
    return scaled(2.2, "hgemm_wgmma_pingpong_bf16")(scaled(1.02, *STOREK)(rows))


def wrong_predictions(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(value=1.5 * rows["value"] + 1)


@pytest.mark.parametrize(
    ("name", "table", "change", "holds", "words"),
    [
        ("hopper_level", "timings", scaled(1.0, *STOREK, spread=0.05), None, "% behind"),
        ("hopper_level", "timings", scaled(0.9, *STOREK, spread=0.01), False, "fall short"),
        (
            "hopper_level",
            "timings",
            level_pingpong,
            True,
            "the better of stream-K and TMA stores matches",
        ),
        ("conflicts_moved", "counters", NO_CONFLICTS, False, "the stores alone does not slow"),
        ("conflicts_moved", "timings", scaled(1.5, STORES), False, "does not slow the kernel"),
        ("fp32_simt", "timings", at_large_sizes(scaled(0.8, SIMT)), False, "does not pass"),
        ("fp32_simt", "timings", LOW, None, "within noise"),
        ("three_tf32", "error_over_k", INEXACT, False, "faster than cuBLAS fp32, but less exact"),
        (
            "fp32_ladder_carries_over",
            "timings",
            scaled(0.8, "sgemm_warptile"),
            False,
            "do not diff",
        ),
        ("fp32_ladder_carries_over", "timings", FAST_16_BIT, False, "do not differ"),
        ("merged_loads", "ffma_issue", lambda rows: rows.assign(extra=1.0), False, "gains nothing"),
        ("merged_loads", "ffma_issue", lambda rows: rows.iloc[:0], None, "not measured"),
        ("power", "by_process", NO_HIGHER_CLOCK, False, "do not always"),
        ("emulator", "predictions", wrong_predictions, False, "at most half"),
    ],
)
def test_other_data_is_another_finding(
    name: str,
    table: str,
    change: Change,
    holds: bool | None,
    words: str,
    h100: Results,
    changed: Changed,
) -> None:
    finding = of(changed(h100, **{table: change}), name)
    assert finding.holds is holds and words in finding.title, (finding.holds, finding.title)
    assert "ping-pong" not in finding.title  # which is named where it falls behind alone


def test_two_processes_are_not_several_where_five_have_timed_zeros(
    h100: Results, changed: Changed
) -> None:
    few = changed(h100, timings=with_cells("processes", 2, variant="cublas_bf16", data="zeros"))
    named = [{name for name, *_ in findings._timed_with_zeros(results)} for results in (h100, few)]
    assert named[0] - named[1] == {"cublas_bf16"} and named[1]


def test_a_step_that_loses_is_counted(document: Document, h100: Results, changed: Changed) -> None:
    before = document["steps_pay"]["numbers"]
    finding = of(changed(h100, timings=scaled(0.5, "sgemm_warptile")), "steps_pay")
    after, steps = finding.numbers, {(row["variant"], row["over"]) for row in finding.rows}
    slowed = {(step.variant, step.over) for _, step in worklogs.steps() if step.control}
    assert slowed and not slowed & steps  # They are slowed on purpose.
    assert (after["faster"], after["slower"]) == (before["faster"] - 1, before["slower"] + 1)
    outcomes = sum(after[key] for key in ("faster", "within", "slower", "undecided"))
    assert outcomes == after["as_meant"] == before["as_meant"]


def test_a_right_result_is_said_so_and_a_foreign_table_refused(
    h100: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.read_csv(ROOT / findings.WRONG, keep_default_na=False)
    monkeypatch.setattr(findings, "WRONG", tmp_path / "xor_double_buffer.csv")
    right, reported = rows.assign(wrong=0), with_cells("faults", "1", tool="memcheck")(rows)
    for table, words in ((right, "right on this GPU"), (reported, "wrong, but not silently")):
        table.to_csv(findings.WRONG, index=False)
        finding = of(h100, "silently_wrong")
        assert finding.holds is False and finding.title.endswith(f"is {words}")
    rows.drop(columns="wrong").to_csv(findings.WRONG, index=False)
    with refused(r"xor_double_buffer\.csv: no column wrong"):
        of(h100, "silently_wrong")
