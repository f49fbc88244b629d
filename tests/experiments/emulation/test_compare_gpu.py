"""The comparison of the GPU's results with the emulator's, and the kernels under compute-sanitizer."""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_one_line, run_module

from contracts import UserError, read_rows
from experiments.emulation.compare_gpu import agree, chosen
from experiments.emulation.device import EmulatedDevice
from experiments.stages import sanitize
from experiments.stages.check import GUARD
from kernels import catalogue
from kernels.catalogue import Problem, Variant

VECTORIZED = catalogue.kernels()["sgemm_vectorized"]
BF16 = catalogue.kernels()["hgemm_naive_bf16"]


class Altered(EmulatedDevice):
    """The emulator with one element of C changed: `change` gets it and gives its stead."""

    def __init__(self, build_dir: Path, change) -> None:
        super().__init__(build_dir)
        self.change = change

    def run(self, variant: Variant, problem: Problem, buffers: list[np.ndarray], offset: int) -> list[np.ndarray]:
        after = super().run(variant, problem, buffers, offset)
        first = GUARD + offset
        after[2][first] = self.change(after[2][first])
        return after


@pytest.mark.parametrize("variant", [VECTORIZED, BF16], ids=lambda variant: variant.name)
def test_a_device_agrees_with_itself_in_every_bit(variant: Variant, built: Path) -> None:
    rows = agree(variant, nullcontext(EmulatedDevice(built)), EmulatedDevice(built), seed=1)
    assert len(rows) == len(chosen(variant)) >= 4
    assert {(row["differing"], row["worst_difference_share"], row["passed"]) for row in rows} == {(0, 0.0, True)}


def test_the_last_bit_of_one_element_fails_in_fp32_but_not_on_tensor_cores(built: Path) -> None:
    def next_float(x):
        return np.nextafter(x, x.dtype.type(np.inf))

    for row in agree(VECTORIZED, nullcontext(Altered(built, next_float)), EmulatedDevice(built), seed=1):
        assert row["differing"] == 1 and 0 < row["worst_difference_share"] < 1 and not row["passed"]
    for row in agree(BF16, nullcontext(Altered(built, next_float)), EmulatedDevice(built), seed=1):
        assert row["differing"] == 1 and row["passed"]


@pytest.mark.parametrize("change", [lambda x: x + x.dtype.type(1.0), lambda x: x.dtype.type(np.nan)])
def test_a_wrong_element_fails_on_tensor_cores_too(change, built: Path) -> None:
    for row in agree(BF16, nullcontext(Altered(built, change)), EmulatedDevice(built), seed=1):
        assert row["differing"] == 1 and not row["passed"]


def test_only_kernels_run_on_both(tmp_path: Path) -> None:
    done = run_module(
        "experiments.emulation.compare_gpu", "cublas_fp32", "--build-dir", tmp_path, "--out", tmp_path / "a.csv"
    )
    assert_one_line(done, "cublas_fp32 is no kernel")


# ---- compute-sanitizer ------------------------------------------------------------------------------------------


def fake_sanitizer(folder: Path, script: str) -> Path:
    """A program in the sanitizer's place that only prints."""
    path = folder / "compute-sanitizer"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_errors_are_attributed_to_the_kernel_that_made_them(tmp_path: Path) -> None:
    """Racecheck finds something, so each kernel runs alone."""
    script = """
    case "$*" in *racecheck*) racecheck=1;; esac
    for n in "$@"; do echo "sanitized: $n"; done
    case "$*" in *sgemm_naive*) if [ "$racecheck" ]; then
      echo "========= Error: Race reported between Write access at x.cu:7"; echo "========="
      echo "========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)"; exit; fi;; esac
    if [ "$racecheck" ]; then echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    else echo "========= ERROR SUMMARY: 0 errors"; fi
    """
    rows = sanitize.sanitize(fake_sanitizer(tmp_path, script), ["sgemm_naive", "sgemm_coalesced"], tmp_path)
    assert len(rows) == 8
    assert [(row["variant"], row["tool"], row["errors"]) for row in rows if not row["passed"]] == [
        ("sgemm_naive", "racecheck", 3)
    ]
    (failed,) = [row for row in rows if not row["passed"]]
    assert failed["detail"] == "Error: Race reported between Write access at x.cu:7"


def test_what_shows_only_together_is_not_called_clean(tmp_path: Path) -> None:
    script = """
    for n in "$@"; do echo "sanitized: $n"; done
    case "$*" in *sgemm_naive*sgemm_coalesced*) echo "========= ERROR SUMMARY: 2 errors";;
    *) echo "========= ERROR SUMMARY: 0 errors";; esac
    """
    with pytest.raises(UserError, match="memcheck: 2 errors in all kernels together, none in any alone"):
        sanitize.sanitize(fake_sanitizer(tmp_path, script), ["sgemm_naive", "sgemm_coalesced"], tmp_path)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no such device; exit 1", "compute-sanitizer --tool memcheck failed: no such device"),
        ('echo oops; echo "========= ERROR SUMMARY: 0 errors"', "sgemm_naive did not run to its end"),
    ],
)
def test_a_sanitizer_that_saw_nothing_run_is_an_error(script: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        sanitize.run_tool(fake_sanitizer(tmp_path, script), "memcheck", ["sgemm_naive"], tmp_path)


def test_without_the_tool_the_leg_is_left_out_with_the_remedy(tmp_path: Path) -> None:
    out, reason = tmp_path / "s.csv", tmp_path / "why.txt"
    if sanitize.find_tool():
        pytest.skip("compute-sanitizer is installed here")
    done = run_module("experiments.stages.sanitize", "--build-dir", tmp_path, "--out", out, "--left-out", reason)
    assert done.returncode == 0 and "remedy: install it" in reason.read_text()
    assert read_rows(out, "sanitizer") == []


@pytest.mark.parametrize(
    ("name", "words"), [("sgemm_naiv", "nearest: sgemm_naive"), ("cublas_fp32", "cublas_fp32 is no kernel")]
)
def test_names_are_kernels(name: str, words: str, tmp_path: Path) -> None:
    done = run_module("experiments.stages.sanitize", name, "--build-dir", tmp_path, "--out", tmp_path / "s.csv")
    assert_one_line(done, words)
    assert not os.listdir(tmp_path)
