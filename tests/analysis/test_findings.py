"""Findings on both archives, recomputed from the recorded tables, and with changed data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import ROOT

from analysis import findings
from analysis.numbers import Numbers
from analysis.results import Results
from contracts import UserError, worklogs

PAPER = {"published": {name: row.value for name, row in worklogs.published().items()}}
# Within noise: the H200's archive has one process for each row. All else holds on both.
UNDECIDED = {"H100": {"hopper_level"}, "H200": {"hopper_level", "power"}}
STOREK = [
    f"hgemm_wgmma_{kind}_{dtype}" for kind in ("store", "streamk") for dtype in ("bf16", "fp16")
]
PINGPONG = "hgemm_wgmma_pingpong_bf16"
Change = Callable[[pd.DataFrame], pd.DataFrame]
Changed = Callable[..., Results]


def of(results: Results, name: str) -> findings.Finding:
    return findings.on_gpu(Numbers(results, PAPER), name)


@pytest.fixture(scope="module")
def document(made: Path) -> dict[str, dict[str, Any]]:
    found = json.loads((made / "tables" / "findings.json").read_text())
    return {one["name"]: one for one in found}


def test_each_finding_holds_as_the_archives_say_in_short_sentences(
    document: dict[str, dict[str, Any]],
) -> None:
    assert list(document) == list(findings.FINDINGS) and len(document) <= 10
    for name, one in document.items():
        first, second = one["gpus"]
        assert (first["model"], second["model"]) == ("H100", "H200")
        assert all(first[key] == one[key] for key in ("holds", "title", "sentence", "numbers")), (
            name
        )
        assert all(
            gpu["holds"] is (None if name in UNDECIDED[gpu["model"]] else True)
            for gpu in (first, second)
        ), name
        for gpu in one["gpus"]:
            assert max(len(part.split()) for part in gpu["sentence"].split(". ")) <= 30, gpu[
                "sentence"
            ]
            assert gpu["sentence"].endswith(".") and gpu["model"] not in gpu["sentence"], gpu[
                "sentence"
            ]
            assert "of cuBLAS" not in gpu["sentence"] or "(interleaved)" in gpu["sentence"], gpu[
                "sentence"
            ]


def test_conflicts_and_fractions_are_those_of_the_tables(
    document: dict[str, dict[str, Any]], h100: Results
) -> None:
    own, sentence = (document["conflicts_moved"][key] for key in ("numbers", "sentence"))
    counted = pd.read_csv(h100.path("counters"))
    conflicts = counted["metric"].str.contains("data_bank_conflicts_pipe_lsu_mem_shared")
    total = counted[(counted["n"] == 4096) & conflicts].groupby("variant")["value"].sum()
    pair = ("sgemm_at_tiling", "sgemm_at_swizzle_stores")
    samples = pd.read_parquet(h100.path("samples"))
    samples = samples[
        (samples["experiment"] == "bank_conflicts") & (samples["window"] == "interleaved")
    ]
    samples = samples[samples["kept"] & (samples["m"] == 4096) & (samples["n"] == 4096)]
    for variant in pair:
        assert f"{total[variant] / 1e6:.3g} M" in sentence
        rows = samples[samples["variant"] == variant]
        times = rows.groupby(["process", "role"], observed=True)["time_us"].median().unstack()
        assert f"{100 * np.median(times['baseline'] / times['variant']):.0f}%" in sentence
    assert "removes 98%" in sentence or "removes 99%" in sentence
    assert (own["steps_fewer"], own["steps_fewer_faster"]) == (9, 9)


def test_errors_are_counted_whole(document: dict[str, dict[str, Any]], h100: Results) -> None:
    own = document["three_tf32"]["numbers"]
    rms = pd.read_csv(h100.path("error_over_k")).set_index(["variant", "data", "k"])["rms"]
    ratio = rms["sgemm_3xtf32_wgmma_outside"] / rms["cublas_fp32"]
    ordinary = ratio[[data != "wide" and k >= 256 for data, k in ratio.index]]
    assert own["greatest_error_ratio"] == pytest.approx(ordinary.max()) and ordinary.max() < 1
    assert own["wide_behind_k"] == [
        k for (data, k), one in ratio.items() if data == "wide" and one > 1
    ]
    assert [findings.misplaced_fraction(first) for first in (0, 1024, 16384)] == [0, 0.25, 0]


# ---- with changed data ---------------------------------------------------------------------------


def scaled(factor: float, *variants: str, spread: float = 0.0) -> Change:
    """The speed of these variants multiplied, with a range of +- spread around it, all relative."""

    def change(rows: pd.DataFrame) -> pd.DataFrame:
        chosen = rows["variant"].isin(variants)
        for end, sign in (("_low", -1), ("_high", 1), ("", 0)):
            rows.loc[chosen, f"fraction{end}"] = (
                rows.loc[chosen, "fraction"] * factor * (1 + sign * spread)
            )
        return rows

    return change


def with_cells(column: str, value: Any, **where: Any) -> Change:
    """Another value in one column, of the rows with these values in others.

    A function makes it of the column.
    """

    def change(rows: pd.DataFrame) -> pd.DataFrame:
        chosen = pd.Series(True, index=rows.index)
        for name, wanted in where.items():
            chosen &= rows[name].str.contains(wanted) if name == "metric" else rows[name] == wanted
        assert chosen.any()
        return rows.assign(
            **{column: rows[column].mask(chosen, value(rows[column]) if callable(value) else value)}
        )

    return change


def at_large_sizes(change: Change) -> Change:
    """The change, of rows with n from 8192 on alone."""
    return lambda rows: pd.concat(
        [rows[rows["n"] < 8192], change(rows[rows["n"] >= 8192].copy())], ignore_index=True
    )


LOADS = "data_bank_conflicts_pipe_lsu_mem_shared_op_ld"
CHANGED: list[tuple[str, str, Change, bool | None, str]] = [
    ("hopper_level", "timings", scaled(1.0, *STOREK, spread=0.05), None, "within noise"),
    ("hopper_level", "timings", scaled(0.9, *STOREK, spread=0.01), False, "fall short of cuBLAS"),
    (
        "hopper_level",
        "timings",
        lambda rows: scaled(2.2, PINGPONG)(scaled(1.02, *STOREK)(rows)),
        True,
        "Stream-K and TMA stores match",
    ),
    (
        "conflicts_moved",
        "counters",
        with_cells("value", 0.0, variant="sgemm_at_swizzle_stores", metric=LOADS),
        False,
        "Swizzling the stores alone does not slow",
    ),
    (
        "conflicts_moved",
        "timings",
        scaled(1.5, "sgemm_at_swizzle_stores"),
        False,
        "does not slow the kernel",
    ),
    (
        "fp32_simt",
        "timings",
        at_large_sizes(scaled(0.8, "sgemm_tma_streamk")),
        False,
        "does not pass",
    ),
    (
        "fp32_simt",
        "timings",
        with_cells("fraction_low", 0.9, variant="sgemm_tma_streamk"),
        None,
        "within noise",
    ),
    (
        "three_tf32",
        "error_over_k",
        with_cells("rms", lambda rms: 4 * rms, variant="sgemm_3xtf32_wgmma_outside"),
        False,
        "faster than cuBLAS fp32, but less exact",
    ),
    ("fp32_ladder_carries_over", "timings", scaled(0.8, "sgemm_warptile"), False, "do not differ"),
    (
        "fp32_ladder_carries_over",
        "timings",
        scaled(2.0, "hgemm_bcf_dbf_rw_bf16"),
        False,
        "do not differ",
    ),
    ("merged_loads", "ffma_issue", lambda rows: rows.assign(extra=1.0), False, "gains nothing"),
    ("merged_loads", "ffma_issue", lambda rows: rows.iloc[:0], None, "not measured"),
    (
        "power",
        "timings",
        with_cells("sm_clock_mhz", 1000.0, variant="cublas_bf16", data="zeros"),
        None,
        "noise",
    ),
    (
        "emulator",
        "predictions",
        lambda rows: rows.assign(value=1.5 * rows["value"] + 1),
        False,
        "at most half",
    ),
]


def test_two_processes_are_not_several_where_five_have_timed_zeros(
    h100: Results, changed: Changed
) -> None:
    few = changed(h100, timings=with_cells("processes", 2, variant="cublas_bf16", data="zeros"))
    named = [{name for name, _ in findings._timed_with_zeros(results)} for results in (h100, few)]
    assert named[0] - named[1] == {"cublas_bf16"} and named[1]


@pytest.mark.parametrize(("name", "table", "change", "holds", "words"), CHANGED)
def test_other_data_is_another_finding(
    name: str,
    table: str,
    change: Change,
    holds: bool | None,
    words: str,
    h100: Results,
    changed: Callable[..., Results],
) -> None:
    own = of(changed(h100, **{table: change}), name)
    assert own.holds is holds and words in own.title, (own.holds, own.title)
    assert "ping-pong" not in own.title  # which is named where it falls behind alone


def test_a_step_that_loses_is_counted(
    document: dict[str, dict[str, Any]], h100: Results, changed: Changed
) -> None:
    before, lost = (
        document["steps_pay"]["numbers"],
        of(changed(h100, timings=scaled(0.5, "sgemm_warptile")), "steps_pay"),
    )
    controls = {(step.variant, step.over) for _, step in worklogs.steps() if step.control}
    # slowed on purpose
    assert controls and not controls & {(row["variant"], row["over"]) for row in lost.rows}
    own = lost.numbers
    assert (own["faster"], own["slower"]) == (before["faster"] - 1, before["slower"] + 1)
    assert (
        sum(own[key] for key in ("faster", "within", "slower", "undecided"))
        == own["as_meant"]
        == before["as_meant"]
    )


def test_a_right_result_is_said_so_and_a_foreign_table_refused(
    h100: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.read_csv(ROOT / findings.WRONG, keep_default_na=False)
    monkeypatch.setattr(findings, "WRONG", tmp_path / "xor_double_buffer.csv")
    told = rows["faults"].mask(rows["tool"] == "memcheck", "1")
    for change, words in (
        ({"wrong": 0}, "is right on this GPU"),
        ({"faults": told}, "is wrong, but not silently"),
    ):
        rows.assign(**change).to_csv(findings.WRONG, index=False)
        own = of(h100, "silently_wrong")
        assert own.holds is False and own.title.endswith(words)
    rows.drop(columns="wrong").to_csv(findings.WRONG, index=False)
    with pytest.raises(UserError, match=r"xor_double_buffer\.csv: no column wrong"):
        of(h100, "silently_wrong")
