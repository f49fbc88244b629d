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
from contracts import UserError, worklogs, write_rows
from kernels import catalogue

PAPER = {"published": {f"{row['worklog']}/{row['id']}": row["value"] for row in worklogs.published()}}
HOLDS = {  # on the H100, and on the H200, whose archive has one process for each row
    "silently_wrong": (True, True),
    "hopper_level": (True, None),
    "conflicts_moved": (True, True),
    "fp32_simt": (True, True),
    "three_tf32": (True, True),
    "fp32_ladder_carries_over": (True, True),
    "steps_pay": (True, True),
    "merged_loads": (True, True),
    "power": (True, None),
    "emulator": (True, True),
}


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("catalogue") / "variants.csv"
    write_rows(path, "variants", catalogue.load().rows())
    return path


@pytest.fixture(scope="module")
def document(variants: Path) -> list[dict[str, Any]]:
    return findings.document([Results(ROOT / "data" / name, variants) for name in ("h100", "h200")])


@pytest.fixture
def h100(variants: Path) -> Results:
    """The archive of the H100, whose tables a test may replace."""
    return Results(ROOT / "data" / "h100", variants)


def found(results: Results, name: str) -> findings.Finding:
    return findings.on_gpu(Numbers(results, PAPER), name)


def test_each_finding_holds_or_not_as_the_archives_say(document: list[dict[str, Any]]) -> None:
    assert {one["name"]: tuple(gpu["holds"] for gpu in one["gpus"]) for one in document} == HOLDS
    assert all(one[key] == one["gpus"][0][key] for one in document for key in ("holds", "title", "sentence", "numbers"))
    assert [gpu["model"] for gpu in document[0]["gpus"]] == ["H100", "H200"]
    json.dumps(document, allow_nan=False)


def test_sentences_are_short_and_leave_the_gpu_to_those_who_print_them(document: list[dict[str, Any]]) -> None:
    for one in document:
        for gpu in one["gpus"]:
            assert max(len(part.split()) for part in gpu["sentence"].split(". ")) <= 30, gpu["sentence"]
            assert gpu["sentence"].endswith(".") and gpu["model"] not in gpu["sentence"], gpu["sentence"]
            assert "of cuBLAS" not in gpu["sentence"] or "(interleaved)" in gpu["sentence"], gpu["sentence"]
            assert gpu["title"] and not gpu["title"].endswith("."), gpu["title"]


# ---- recomputed from the recorded tables ----------------------------------------------------------------------------


def interleaved_fraction(results: Results, experiment: str, variant: str, n: int) -> float:
    """The median over processes of the ratio of median times, from samples.parquet."""
    rows = pd.read_parquet(results.path("samples"))
    rows = rows[(rows["experiment"] == experiment) & (rows["variant"] == variant) & (rows["n"] == n)]
    rows = rows[(rows["window"] == "interleaved") & rows["kept"] & (rows["data"] == "uniform") & (rows["m"] == n)]
    times = rows.groupby(["process", "role"], observed=True)["time_us"].median().unstack()
    return float(np.median(times["baseline"] / times["variant"]))


def test_conflicts_and_fractions_are_those_of_the_tables(document: list[dict[str, Any]], h100: Results) -> None:
    own = next(one for one in document if one["name"] == "conflicts_moved")["numbers"]
    counted = pd.read_csv(h100.path("counters"))
    counted = counted[
        (counted["n"] == 4096) & counted["metric"].str.contains("data_bank_conflicts_pipe_lsu_mem_shared")
    ]
    total = counted.groupby("variant")["value"].sum()
    assert (
        own["conflicts_before"] == total["sgemm_at_tiling"]
        and own["conflicts_after"] == total["sgemm_at_swizzle_stores"]
    )
    assert 4.7 < own["conflicts_after"] / own["conflicts_before"] < 4.9 and own["removed_fraction"] > 0.98
    for key, variant in (("fraction_before", "sgemm_at_tiling"), ("fraction_after", "sgemm_at_swizzle_stores")):
        assert own[key] == pytest.approx(interleaved_fraction(h100, "bank_conflicts", variant, 4096), rel=1e-3)
    assert (own["steps_fewer"], own["steps_fewer_faster"]) == (9, 9)


def test_the_sweep_over_shapes_is_counted_whole(document: list[dict[str, Any]], h100: Results) -> None:
    own = next(one for one in document if one["name"] == "fp32_simt")["numbers"]
    rows = pd.read_csv(h100.path("dispatch"))
    rows = rows[(rows["dispatcher"] == "sgemm_best") & rows["call"].isna()]
    best = rows.groupby(["m", "n", "k"])["fraction"].max().reset_index()
    square = (best["m"] == best["n"]) & (best["n"] == best["k"])
    assert own["behind_at"] == list(best.loc[square & (best["fraction"] < 1), "n"]) == [512, 704, 1024]
    assert own["others"] == int((~square).sum()) == 260
    assert own["others_behind"] == int((best.loc[~square, "fraction"] < 1).sum())


def test_errors_of_three_tf32_are_those_of_the_study(document: list[dict[str, Any]], h100: Results) -> None:
    own = next(one for one in document if one["name"] == "three_tf32")["numbers"]
    rows = pd.read_csv(h100.path("error_over_k")).set_index(["variant", "data", "k"])["rms"]
    ratio = rows["sgemm_3xtf32_wgmma_outside"] / rows["cublas_fp32"]
    ordinary = ratio[[data != "wide" and k >= 256 for data, k in ratio.index]]
    assert own["greatest_error_ratio"] == pytest.approx(ordinary.max()) and ordinary.max() < 1
    assert own["wide_behind_k"] == [k for (data, k), one in ratio.items() if data == "wide" and one > 1]


def test_which_rows_of_b_go_astray() -> None:
    assert findings.misplaced_fraction(0) == findings.misplaced_fraction(16384) == 0
    assert findings.misplaced_fraction(1024) == 0.25


# ---- with changed data ----------------------------------------------------------------------------------------------


def scaled(results: Results, factor: float, *variants: str, spread: float = 0.0) -> Results:
    """The speed of these variants multiplied, with a range of +- spread around it, all relative."""
    rows = results.timings.copy()
    chosen = rows["variant"].isin(list(variants))
    for end, sign in (("_low", -1), ("_high", 1), ("", 0)):
        rows.loc[chosen, f"fraction{end}"] = rows.loc[chosen, "fraction"] * factor * (1 + sign * spread)
    results.__dict__["timings"] = rows
    return results


def changed(results: Results, table: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Results:
    """A recorded table replaced by a changed copy of it."""
    results._read[table] = change(results.raw(table).copy())
    return results


def test_level_is_undecided_with_a_wide_interval_and_lost_with_a_lower_fraction(variants: Path) -> None:
    names = [f"hgemm_wgmma_{kind}_{dtype}" for kind in ("store", "streamk") for dtype in ("bf16", "fp16")]
    for factor, spread, holds, words in ((1.0, 0.05, None, "within noise"), (0.9, 0.01, False, "fall short of cuBLAS")):
        own = found(scaled(Results(ROOT / "data/h100", variants), factor, *names, spread=spread), "hopper_level")
        assert own.holds is holds and words in own.title


def test_without_ping_pong_s_fall_the_title_does_not_speak_of_it(h100: Results) -> None:
    own = found(scaled(h100, 2.2, "hgemm_wgmma_pingpong_bf16"), "hopper_level")
    assert own.holds is True and "ping-pong" not in own.title and not own.numbers["behind"]


def test_conflicts_that_do_not_move_are_no_finding(h100: Results) -> None:
    def without(rows: pd.DataFrame) -> pd.DataFrame:
        loads = rows["metric"].str.contains("data_bank_conflicts_pipe_lsu_mem_shared_op_ld")
        return rows.assign(value=rows["value"].where(~(loads & (rows["variant"] == "sgemm_at_swizzle_stores")), 0.0))

    own = found(changed(h100, "counters", without), "conflicts_moved")
    assert own.holds is False and own.title == "Swizzling the stores alone does not slow the kernel"


def test_a_square_that_cublas_wins_ends_the_range(h100: Results) -> None:
    def lose(rows: pd.DataFrame) -> pd.DataFrame:
        at = (rows["m"] == 4096) & (rows["n"] == 4096) & (rows["k"] == 4096)
        return rows.assign(fraction=rows["fraction"].where(~at, 0.9))

    own = found(changed(h100, "dispatch", lose), "fp32_simt")
    assert own.holds is False and "does not pass" in own.title and 4096 in own.numbers["behind_at"]


def test_faster_but_less_exact_is_said_so(h100: Results) -> None:
    def worse(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(rms=rows["rms"].where(rows["variant"] != "sgemm_3xtf32_wgmma_outside", 4 * rows["rms"]))

    own = found(changed(h100, "error_over_k", worse), "three_tf32")
    assert own.holds is False and own.title.endswith("faster than cuBLAS fp32, but less exact")


def test_slow_fp32_rungs_or_a_fast_16_bit_one_do_not_part(variants: Path) -> None:
    for factor, name in ((0.8, "sgemm_warptile"), (2.0, "hgemm_bcf_dbf_rw_bf16")):
        own = found(scaled(Results(ROOT / "data/h100", variants), factor, name), "fp32_ladder_carries_over")
        assert own.holds is False and "do not differ" in own.title


def test_a_step_that_loses_is_counted(document: list[dict[str, Any]], h100: Results) -> None:
    before = next(one for one in document if one["name"] == "steps_pay")["numbers"]
    lost = found(scaled(h100, 0.5, "sgemm_warptile"), "steps_pay")
    controls = {(step["variant"], step["over"]) for step in worklogs.steps() if step.get("control")}
    assert controls and not controls & {(row["variant"], row["over"]) for row in lost.rows}  # slowed on purpose
    own = lost.numbers
    assert (own["faster"], own["slower"]) == (before["faster"] - 1, before["slower"] + 1)
    assert sum(own[key] for key in ("faster", "within", "slower", "undecided")) == own["as_meant"] == before["as_meant"]


def test_merged_loads_without_a_cost_or_without_a_table(variants: Path, h100: Results) -> None:
    free = changed(Results(ROOT / "data/h100", variants), "ffma_issue", lambda rows: rows.assign(extra=1.0))
    assert found(free, "merged_loads").holds is False
    own = found(changed(h100, "ffma_issue", lambda rows: rows.iloc[:0]), "merged_loads")
    assert own.holds is None and own.title.endswith("not measured")
    assert own.sentence.startswith("Not measured: ffma_issue.csv")


def test_one_kernel_whose_clock_does_not_rise_decides(h100: Results) -> None:
    rows = h100.timings.copy()
    at = (rows["variant"] == "cublas_bf16") & (rows["data"] == "zeros")
    for end in ("", "_low", "_high"):
        rows.loc[at, f"sm_clock_mhz{end}"] = 1000.0
    h100.__dict__["timings"] = rows
    own = found(h100, "power")
    assert own.holds is False and own.numbers["tensor_higher"] < own.numbers["tensor_rows"]


def test_predictions_that_are_off_change_the_title(h100: Results) -> None:
    own = found(changed(h100, "predictions", lambda rows: rows.assign(value=1.5 * rows["value"] + 1)), "emulator")
    assert own.holds is False and own.numbers["exact"] < 10 and "at most half" in own.title


def test_a_right_result_is_said_so_and_a_foreign_table_refused(
    h100: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.read_csv(ROOT / findings.WRONG, keep_default_na=False)
    monkeypatch.setattr(findings, "WRONG", tmp_path / "xor_double_buffer.csv")
    rows.assign(wrong=0).to_csv(findings.WRONG, index=False)
    own = found(h100, "silently_wrong")
    assert own.holds is False and own.title == "The double buffer of a published SGEMM is right on this GPU"
    told = rows.assign(
        faults=[1 if tool == "memcheck" else one for tool, one in zip(rows["tool"], rows["faults"], strict=True)]
    )
    told.to_csv(findings.WRONG, index=False)
    own = found(h100, "silently_wrong")
    assert own.holds is False and own.title.endswith("is wrong, but not silently")
    rows.drop(columns="wrong").to_csv(findings.WRONG, index=False)
    with pytest.raises(UserError, match=r"xor_double_buffer\.csv: no column wrong"):
        found(h100, "silently_wrong")
