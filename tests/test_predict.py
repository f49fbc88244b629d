"""What the emulator predicts, against the archived counters of an H200."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import assert_one_line, run_module

from contracts import read_rows
from experiments import predict
from kernels import catalogue

EXACT = [
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_ldsm.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l2_theoretical_sectors_global",
]


@pytest.mark.parametrize("name", ["sgemm_vectorized", "hgemm_naive_bf16"])
def test_instructions_sectors_and_wavefronts_are_exact(name: str, built: Path, archive: Path) -> None:
    """From two small builds made here, at n = 4096."""
    rows = predict.predict(catalogue.kernels()[name], 4096, built)
    predicted = {row["metric"]: row["value"] for row in rows}
    counted = {
        row["metric"]: row["value"] for row in read_rows(archive / "counters.csv", "counters") if row["variant"] == name
    }
    for metric in EXACT:
        assert predicted[metric] == pytest.approx(counted[metric], rel=1e-8), metric


def test_a_size_that_is_not_whole_tiles_is_left_out_with_the_reason(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    done = run_module("experiments.predict", "sgemm_vectorized", "--size", 4224, "--build-dir", built, "--out", out)
    assert done.returncode == 0 and "prediction left out" in done.stderr and "4224" in done.stderr
    assert read_rows(out, "counters") == []


def test_a_library_has_nothing_to_predict(tmp_path: Path) -> None:
    done = run_module(
        "experiments.predict", "cublas_fp32", "--size", 64, "--build-dir", tmp_path, "--out", tmp_path / "p"
    )
    assert_one_line(done, "cublas_fp32 is a library baseline")
