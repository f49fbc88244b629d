"""One run of the emulator for a kernel: what it predicts at n = 4096, against the archived counters
of an H100.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path

import pytest
from helpers import assert_one_line, dict_rows, json_dict, run_module

from contracts.rows import BankAccesses, Bounds, Checks, Counters, SharedWidths
from experiments.emulation import bounds, launching, predictions
from experiments.stages.machine_code import code_of
from kernels import catalogue
from kernels.problem import ProblemSpec
from ptxsim.count import bounds as rules
from ptxsim.count import machines
from ptxsim.ptx import polling

SIZE = 4096
AVERAGE, SLOWEST = "sm__cycles_active.avg", "sm__cycles_active.max"  # of the SMs
PROBLEM = ProblemSpec.square(SIZE)
EXACT = [
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_ldsm.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l2_theoretical_sectors_global",
]
EACH = [
    "sgemm_vectorized",
    "hgemm_naive_bf16",
    "sgemm_t128x128x8_cpasync",
    "sgemm_t128x128x8_texld",
]  # one of each kind


@pytest.fixture(scope="module")
def found(builds):
    """A function: name of a kernel to its predictions by metric, and its rows of bounds.csv by
    resource.
    """

    @functools.cache
    def of(name: str) -> tuple[dict[str, float], dict[str, dict]]:
        variant, folder = catalogue.load().kernels[name], builds(name)
        kernel = launching.load(variant, folder)
        launch = predictions.predict(kernel, variant, PROBLEM, 132)
        predicted = predictions.rows(
            variant, PROBLEM, kernel.name, launch, code_of(variant, folder)
        )
        least = bounds.rows(
            variant, PROBLEM, kernel, folder / f"{name}.cubin", launch, machines.find("h100")
        )
        return {row["metric"]: row["value"] for row in predicted}, {
            row["resource"]: row for row in least
        }

    return of


@pytest.fixture(scope="module")
def counted(archive: Path, builds):
    """A function: name of a kernel to its archived counters; skips where its machine code was
    changed since.
    """
    values, hashes = defaultdict(dict), defaultdict(set)
    for row in dict_rows(archive / "counters.csv", Counters):
        if row["n"] == SIZE:
            values[row["variant"]][row["metric"]] = row["value"]
            hashes[row["variant"]].add(row["code_hash"])

    def of(name: str) -> dict[str, float]:
        if hashes[name] != {code_of(catalogue.load().kernels[name], builds(name))}:
            pytest.skip(f"{name}: not measured since its code changed")
        return values[name]

    return of


@pytest.mark.parametrize("name", ["sgemm_vectorized", "hgemm_naive_bf16"])
def test_instructions_sectors_and_wavefronts_are_exact(name: str, found, counted) -> None:
    for metric in EXACT:
        assert found(name)[0][metric] == pytest.approx(counted(name)[metric], rel=1e-8), metric


@pytest.mark.parametrize("name", EACH)
def test_instructions_and_pipes_are_ncu_s(name: str, found, counted, builds) -> None:
    """VIADD, which bf16 kernels have, among the instructions of the FMA pipe. Kernels that wait for
    mbarriers poll them: of these the instructions are a lower bound, as are those of wgmma kernels
    whose branches the counts leave open."""
    ncu, least = counted(name), found(name)[1]
    program = launching.load(catalogue.load().kernels[name], builds(name), cubin=False).program
    if "issue" not in least:  # too many of its executions are an estimate
        assert name == "hgemm_naive_bf16"
        least = {resource: row for resource, row in least.items() if resource == "tensor"}
    exact = not polling.waits(program, polling.loops(program)) and all(
        i.opcode != "wgmma" for i in program.code
    )
    if "issue" not in least:
        pass
    elif exact:
        assert least["issue"]["amount"] == pytest.approx(ncu["sm__inst_executed.sum"], rel=1e-3)
    else:
        assert (
            0.8 * ncu["sm__inst_executed.sum"]
            < least["issue"]["amount"]
            <= ncu["sm__inst_executed.sum"]
        )
    assert all(row["disagreement"] < 1e-3 for row in least.values())
    for pipe in {"fma", "tensor"} & set(least):
        busy = (
            ncu[f"sm__pipe_{pipe}_cycles_active.avg.pct_of_peak_sustained_active"]
            / 100
            * ncu[AVERAGE]
        )
        near = 1e-3
        if exact or pipe == "tensor":
            assert least[pipe]["minimum_cycles"] == pytest.approx(busy, rel=near), pipe
        else:
            assert least[pipe]["minimum_cycles"] <= busy * (1 + near), pipe


@pytest.mark.parametrize("name", EACH)
def test_no_kernel_is_faster_than_its_bounds(name: str, found, counted) -> None:
    ncu, least = counted(name), found(name)[1]
    for resource in least.keys() - rules.ESTIMATES:
        measured = ncu[SLOWEST if resource == "tail" else AVERAGE]
        assert least[resource]["minimum_cycles"] <= measured, resource
    assert least["tail"]["amount"] == pytest.approx(
        ncu["launch__waves_per_multiprocessor"], rel=1e-6
    )


def test_the_model_of_issue_predicts_the_cycles_of_what_nothing_else_holds_up(
    found, counted
) -> None:
    name = "sgemm_at_swizzle_dbf_rw"
    ncu, least = counted(name), found(name)[1]
    assert least["issue_model"]["minimum_cycles"] == pytest.approx(ncu[AVERAGE], rel=0.03)
    assert least["issue"]["minimum_cycles"] < 0.9 * ncu[AVERAGE]


# ---- the command ---------------------------------------------------------------------------------


def test_one_run_writes_every_table(built: Path, tmp_path: Path) -> None:
    to = tmp_path / "out"
    names, each = ("sgemm_vectorized", "hgemm_naive_bf16"), ("--predict", "sgemm_vectorized", 4100)
    options = ("--problem", 4096, *each, "--build-dir", built, "--out-dir", to)
    done = run_module("experiments.emulation", *names, *options)
    assert done.returncode == 0, done.stderr
    assert "n = 4100, left out: sgemm_vectorized cannot take this problem" in done.stderr
    assert "checked sgemm_vectorized on ptxsim: 29 of 29 cases passed" in done.stderr
    checks = dict_rows(to / "checks.csv", Checks)
    assert [row["variant"] for row in checks].count("sgemm_vectorized") == 29
    assert all(row["passed"] and row["device"] == "ptxsim" for row in checks)
    for table, schema in (("predictions", "counters"), ("bounds", "bounds")):
        rows = dict_rows(to / f"{table}.csv", schema)
        assert {(row["variant"], row["n"]) for row in rows} == {(name, 4096) for name in names}
    least = {row["resource"] for row in dict_rows(to / "bounds.csv", Bounds)}
    assert least >= {"fma", "issue", "shared", "dram", "tail", "l2", "issue_model"}
    widths = dict_rows(to / "shared_widths.csv", SharedWidths)
    assert widths and all(row["agree"] for row in widths)
    pictured = json_dict(to / "bank_accesses.json", BankAccesses)
    assert {entry["picture"] for entry in pictured} == {"transposed_store", "ldmatrix"}


def test_bad_input_is_one_line(built: Path, tmp_path: Path) -> None:
    to = tmp_path / "out"

    def run(variant: str, build_dir: Path, *more: str):
        return run_module(
            "experiments.emulation", variant, "--build-dir", build_dir, "--out-dir", to, *more
        )

    assert_one_line(run("cublas_fp32", built), "cublas_fp32 is a library baseline")
    assert_one_line(
        run("sgemm_vectorized", built, "--gpu", "h300"), "GPU 'h300' is not known", "h200"
    )
    assert_one_line(run("sgemm_vectorized", tmp_path), "sgemm_vectorized.ptx: not built")
    assert not to.exists()
