"""Commands with bad input, as real processes: one clear line, exit code 2, nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import (
    ROOT,
    assert_one_line,
    environment,
    heed_ctrl_c,
    run_module,
    stuck_nvcc,
    wait_until,
)

from contracts import read_json, read_rows
from contracts.rows import Checks, Manifest, MeasuredRows
from experiments.stages.store import Key, Measurement, Store, write_manifest


def outputs(tmp_path: Path, *names: str) -> list[object]:
    """Options --NAME FILE, with files in a folder of their own."""
    return [word for name in names for word in (f"--{name}", tmp_path / "out" / name)]


@pytest.mark.parametrize(
    "command", ["build --arch sm_90a --out-dir", "check --build-dir b --store s --out"]
)
def test_an_unknown_variant_gives_the_nearest(command: str, tmp_path: Path) -> None:
    name, *options = command.split()
    done = run_module(f"experiments.stages.{name}", "sgemm_warptle", *options, "out", cwd=tmp_path)
    message = "unknown variant 'sgemm_warptle' in kernels/catalogue.yaml; nearest: sgemm_warptile"
    assert_one_line(done, message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("experiment", "variant", "words"),
    [
        ("sgemm_lader", "sgemm_warptile", ["'sgemm_lader'", "nearest: sgemm_ladder"]),
        ("hgemm_ladder", "sgemm_warptile", ["sgemm_warptile", "hgemm_ladder", "hgemm_naive_bf16"]),
        ("sgemm_ladder", "sgemm_warptile", ["no GPU"]),
    ],
)
def test_what_cannot_be_timed_is_one_line(
    experiment: str, variant: str, words: list[str], tmp_path: Path
) -> None:
    arguments = ["--build-dir", tmp_path, *outputs(tmp_path, "store", "out")]
    assert_one_line(run_module("experiments.stages.bench", experiment, variant, *arguments), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("check sgemm_naive", "no GPU"),
        ("profile_target sgemm_naive --problem 128", "no GPU"),
        ("machine --machine m", "no GPU"),
        ("check cublas_fp32", "cublas_fp32 is a library baseline"),
    ],
)
def test_without_a_gpu_or_a_kernel_it_is_one_line(
    command: str, message: str, tmp_path: Path
) -> None:
    name, *arguments = command.split()
    out = [] if name == "profile_target" else outputs(tmp_path, "store", "out")
    stage = f"experiments.stages.{name}"
    assert_one_line(run_module(stage, *arguments, "--build-dir", tmp_path, *out), message)
    assert not (tmp_path / "out").exists()


def test_a_variant_that_failed_its_check_is_not_timed(tmp_path: Path, archive: Path) -> None:
    """Nothing is measured, with no GPU asked for; its name on the terminal."""
    row = next(row for row in read_rows(archive / "checks.csv", Checks) if row.m == 1)
    row.variant, row.passed, row.detail = "sgemm_naive", False, "planted"
    store = Store(tmp_path / "measured")
    checked = Measurement({}, "0" * 8, MeasuredRows(checks=[row]))
    write_manifest(tmp_path / "checked.json", [store.keep(Key("check", "v", "cases"), checked)])
    arguments = ["--checked", tmp_path / "checked.json", "--build-dir", tmp_path]
    arguments += ["--store", store.folder, "--out", tmp_path / "manifest.json"]
    done = run_module("experiments.stages.bench", "sgemm_ladder", "sgemm_naive", *arguments)
    assert done.returncode == 0, done.stderr
    assert "sgemm_naive" in done.stderr and "fail" in done.stderr
    assert read_json(tmp_path / "manifest.json", Manifest).measurements == []


def test_a_build_that_is_interrupted_leaves_no_cubin(tmp_path: Path) -> None:
    nvcc, out = str(stuck_nvcc(tmp_path)), str(tmp_path / "out")
    command = [sys.executable, "-m", "experiments.stages.build", "sgemm_warptile"]
    command += ["--arch", "sm_90a", "--out-dir", out, "--nvcc", nvcc]
    streams = {"stderr": subprocess.PIPE, "text": True, "preexec_fn": heed_ctrl_c}
    started = subprocess.Popen(
        command, cwd=ROOT, env=environment(), start_new_session=True, **streams
    )
    wait_until((tmp_path / "waiting").exists, started)
    assert list((tmp_path / "out").glob(".sgemm_warptile-*.ptx"))
    os.killpg(started.pid, signal.SIGINT)
    words = started.communicate()[1]
    assert started.returncode == 130 and words == "interrupted: nothing was written\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["sgemm_warptile.cu"]
