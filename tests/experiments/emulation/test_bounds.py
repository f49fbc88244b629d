"""What the emulator predicts at n = 4096, compared with the archived counters of an H100."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from helpers import assert_one_line, dict_rows, json_dict, run_module

from contracts import read_json
from contracts.rows import BankAccesses, Bounds, Checks, Counters, Lens, SharedWidths
from experiments.emulation import bounds, launching, predictions
from experiments.stages.machine_code import code_of
from kernels import catalogue
from kernels.problem import ProblemSpec
from ptxsim.count import bounds as rules
from ptxsim.count import machines
from ptxsim.ptx import polling

SIZE = 4096
AVERAGE, SLOWEST = "sm__cycles_active.avg", "sm__cycles_active.max"  # over the SMs
PROBLEM = ProblemSpec.square(SIZE)
# One of each kind.
EACH = ["sgemm_vectorized", "hgemm_naive_bf16", "sgemm_t128x128x8_cpasync"]
EACH += ["sgemm_t128x128x8_texld"]
KERNELS = catalogue.load().kernels
H100 = machines.find("h100")


@pytest.fixture(scope="module")
def bound(builds):
    """A function: name of a kernel to its bounds by resource."""

    @functools.cache
    def of(name: str) -> dict[str, dict]:
        variant, folder = KERNELS[name], builds(name)
        kernel = launching.load(variant, folder)
        launch = predictions.predict(kernel, variant, PROBLEM, 132)
        rows = bounds.rows(variant, PROBLEM, kernel, folder / f"{name}.cubin", launch, H100)
        return {row["resource"]: row for row in rows}

    return of


@pytest.fixture(scope="module")
def counted(archive: Path, builds):
    """A function: name of a kernel to its archived counters; skips where its machine code was
    changed since.
    """
    rows = dict_rows(archive / "counters.csv", Counters)

    def of(name: str) -> dict[str, float]:
        of_kernel = [row for row in rows if row["variant"] == name and row["n"] == SIZE]
        if {row["code_hash"] for row in of_kernel} != {code_of(KERNELS[name], builds(name))}:
            pytest.skip(f"{name}: not measured since its code changed")
        return {row["metric"]: row["value"] for row in of_kernel}

    return of


@pytest.mark.parametrize("name", EACH)
def test_instructions_and_pipes_are_ncu_s(name: str, bound, counted, builds) -> None:
    """VIADD, which bf16 kernels have, counts among the instructions of the FMA pipe.

    Kernels that wait for mbarriers poll them, so that their instructions are a lower bound.
    """
    ncu, minima = counted(name), bound(name)
    program = launching.load(KERNELS[name], builds(name), cubin=False).program
    if "issue" not in minima:  # Too many of its executions are an estimate.
        assert name == "hgemm_naive_bf16"
        minima = {"tensor": minima["tensor"]}
    exact = not polling.waits(program, polling.loops(program))
    if issue := minima.get("issue"):
        executed = ncu["sm__inst_executed.sum"]
        assert (1 - 1e-3 if exact else 0.8) * executed < issue["amount"] <= executed * (1 + 1e-3)
    assert all(row["disagreement"] < 1e-3 for row in minima.values())
    for pipe in minima.keys() & {"fma", "tensor"}:
        share = ncu[f"sm__pipe_{pipe}_cycles_active.avg.pct_of_peak_sustained_active"] / 100
        ratio = minima[pipe]["minimum_cycles"] / (share * ncu[AVERAGE])
        assert ratio <= 1 + 1e-3 and (ratio >= 1 - 1e-3 or not (exact or pipe == "tensor")), pipe


@pytest.mark.parametrize("name", EACH)
def test_no_kernel_is_faster_than_its_bounds(name: str, bound, counted) -> None:
    ncu, minima = counted(name), bound(name)
    for resource in minima.keys() - rules.ESTIMATES:
        measured = ncu[SLOWEST if resource == "tail" else AVERAGE]
        assert minima[resource]["minimum_cycles"] <= measured, resource
    waves = ncu["launch__waves_per_multiprocessor"]
    assert minima["tail"]["amount"] == pytest.approx(waves, rel=1e-6)


def test_the_model_of_issue_predicts_the_cycles_of_what_nothing_else_holds_up(
    bound, counted
) -> None:
    name = "sgemm_at_swizzle_dbf_rw"
    ncu, minima = counted(name), bound(name)
    assert minima["issue_model"]["minimum_cycles"] == pytest.approx(ncu[AVERAGE], rel=0.03)
    assert minima["issue"]["minimum_cycles"] < 0.9 * ncu[AVERAGE]


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
    resources = {row["resource"] for row in dict_rows(to / "bounds.csv", Bounds)}
    assert resources >= {"fma", "issue", "shared", "dram", "tail", "l2", "issue_model"}
    widths = dict_rows(to / "shared_widths.csv", SharedWidths)
    assert widths and all(row["agree"] for row in widths)
    pictured = json_dict(to / "bank_accesses.json", BankAccesses)
    assert {entry["picture"] for entry in pictured} == {"transposed_store", "ldmatrix"}
    for name in names:
        shown = read_json(to / "lens" / f"{name}.json", Lens)
        assert shown.passed and shown.launch == "n = 4096" and shown.cycles


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cublas_fp32"], "cublas_fp32 is a library baseline"),
        (["sgemm_vectorized", "--gpu", "h300"], "GPU 'h300' is not known"),
        (["sgemm_coalesced"], "sgemm_coalesced.ptx: not built"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, built: Path, tmp_path: Path
) -> None:
    to = tmp_path / "out"
    options = ("--build-dir", built, "--out-dir", to)
    assert_one_line(run_module("experiments.emulation", *arguments, *options), message)
    assert not to.exists()
