"""Bounds of real kernels at n = 4096, against the archived counters of an H200; their table and figure."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from helpers import assert_one_line, run_module
from made_inputs import write_inputs

from analysis.tables import bounds as figure
from contracts import read_rows
from experiments import bounds
from kernels import catalogue
from ptxsim import machines

NAMES = ["sgemm_vectorized", "hgemm_naive_bf16"]


@pytest.fixture(scope="module")
def tables(built: Path) -> dict[str, dict[str, dict]]:
    """By variant and resource, the rows of bounds.csv, from two small builds made here."""
    found = {}
    for name in NAMES:
        rows = bounds.rows(catalogue.kernels()[name], 4096, built, machines.find("h200"))
        found[name] = {row["resource"]: row for row in rows}
    return found


def counted(archive: Path, name: str) -> dict[str, float]:
    rows = read_rows(archive / "counters.csv", "counters")
    return {row["metric"]: row["value"] for row in rows if row["variant"] == name and row["n"] == 4096}


def tolerance(archive: Path, name: str, exact: float) -> float:
    """How near a count must come to the archived one: only near where the source was changed since."""
    rows = read_rows(archive / "counters.csv", "counters")
    fresh = {row["source_hash"] for row in rows if row["variant"] == name} == {catalogue.kernels()[name].source_hash}
    return exact if fresh else 0.03


@pytest.mark.parametrize("name", NAMES)
def test_instructions_and_pipes_are_ncu_s(name: str, tables: dict, archive: Path) -> None:
    ncu = counted(archive, name)
    assert tables[name]["issue"]["amount"] == pytest.approx(
        ncu["sm__inst_executed.sum"], rel=tolerance(archive, name, 1e-8)
    )
    assert tables[name]["issue"]["disagreement"] < 1e-6
    cycles = ncu["sm__cycles_active.avg"]
    if "tensor" in tables[name]:
        pipe = ncu["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"] / 100 * cycles
        assert tables[name]["tensor"]["cycles_per_sm"] == pytest.approx(pipe, rel=tolerance(archive, name, 1e-3))
    else:
        pipe = ncu["sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"] / 100 * cycles
        assert tables[name]["fma"]["cycles_per_sm"] == pytest.approx(pipe, rel=tolerance(archive, name, 1e-4))


@pytest.mark.parametrize("name", NAMES)
def test_no_kernel_is_faster_than_its_bounds(name: str, tables: dict, archive: Path) -> None:
    ncu = counted(archive, name)
    for resource, row in tables[name].items():
        if resource == "tail":
            assert row["cycles_per_sm"] <= ncu["sm__cycles_active.max"]
        elif resource != "register_rule":  # no bound: docs/bounds.md
            assert row["cycles_per_sm"] <= ncu["sm__cycles_active.avg"], resource
    largest = max(
        (r for n, r in tables[name].items() if n not in ("tail", "register_rule")), key=lambda r: r["cycles_per_sm"]
    )
    assert largest["resource"] == "shared"
    assert tables[name]["tail"]["amount"] == pytest.approx(ncu["launch__waves_per_multiprocessor"], rel=1e-6)


def test_a_size_that_is_not_whole_tiles_is_left_out_with_the_reason(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "b.csv"
    done = run_module("experiments.bounds", "sgemm_vectorized", "--size", 4224, "--build-dir", built, "--out", out)
    assert done.returncode == 0 and "bounds left out" in done.stderr and "4224" in done.stderr
    assert read_rows(out, "bounds") == []


def test_bad_input_is_one_line(built: Path, tmp_path: Path) -> None:
    to = ["--size", 4096, "--build-dir", built, "--out", tmp_path / "b"]
    assert_one_line(run_module("experiments.bounds", "cublas_fp32", *to), "cublas_fp32 is a library baseline")
    done = run_module("experiments.bounds", "sgemm_vectorized", *to, "--machine", "h300")
    assert_one_line(done, "machine 'h300' is not known", "h200")
    assert not (tmp_path / "b").exists()


def test_table_and_figure(built: Path, archive: Path, variants_csv: Path, tmp_path: Path) -> None:
    table = tmp_path / "bounds.csv"
    done = run_module("experiments.bounds", "sgemm_vectorized", "--size", 4096, "--build-dir", built, "--out", table)
    assert done.returncode == 0, done.stderr
    assert {row["resource"] for row in read_rows(table, "bounds")} >= {"fma", "issue", "shared", "dram", "tail"}
    out = tmp_path / "figures" / "bounds.svg"
    inputs = write_inputs(tmp_path / "inputs.json", archive, variants_csv, tables={"bounds": table})
    for command, name in (("draw", "bounds"), ("tabulate", "bounds_rules")):
        done = run_module(f"analysis.{command}", "--inputs", inputs, "--out", out.parent, name)
        assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 1000 and out.with_suffix(".pdf").is_file()
    assert (out.parent / "bounds_rules.md").read_text().startswith("| kernel |")


def counters(variant: str, stale: bool = False, **metrics: float) -> list[dict]:
    names = {"average": figure.AVERAGE, "slowest": figure.SLOWEST}
    return [
        {"variant": variant, "n": 4096, "label": variant, "order": 0, "stale": stale, "metric": names[k], "value": v}
        for k, v in metrics.items()
    ]


def bound(variant: str, **cycles: float) -> list[dict]:
    return [{"variant": variant, "n": 4096, "resource": name, "cycles_per_sm": c} for name, c in cycles.items()]


def test_shares_and_bottlenecks() -> None:
    measured = pd.DataFrame(
        [*counters("a", average=100.0, slowest=120.0), *counters("old", stale=True, average=1.0, slowest=1.0)]
    )
    given = pd.DataFrame(
        [
            *bound("a", fma=50.0, shared=75.0, tail=90.0, register_rule=130.0),
            *bound("old", fma=1.0),
            *bound("new", fma=2.0),
        ]
    )
    rows = figure.shares(measured, given)
    assert dict(zip(rows["resource"], rows["percent"], strict=True)) == {"fma": 50.0, "shared": 75.0, "tail": 75.0}
    assert list(figure.bottlenecks(rows)["resource"]) == ["shared"]
    assert figure.unmeasured(measured, given) == 2
