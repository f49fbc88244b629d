"""The kernels under compute-sanitizer."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest
from helpers import assert_one_line, dict_rows, refused, run_module

from contracts.rows import Sanitizer
from experiments.stages import sanitize
from kernels import catalogue

STAGE = "experiments.stages.sanitize"
BOTH = ["sgemm_naive", "sgemm_coalesced"]
RAN = 'for n in "$@"; do echo "sanitized: $n"; done\n'  # The child prints this of each kernel.


def rows(folder: Path, script: str, names: list[str]) -> list[dict]:
    """Rows of sanitizer.csv, of a program in the sanitizer's place that only prints."""
    path = folder / "compute-sanitizer"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return sanitize.sanitize(path, names, folder, catalogue.load())


@pytest.mark.parametrize("batch", (1, 12))
def test_errors_are_attributed_to_the_kernel_that_made_them(
    batch: int, pretended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Racecheck finds something, so each kernel of the batch runs alone."""
    monkeypatch.setattr(sanitize, "BATCH", batch)
    script = """
    case "$*" in *racecheck*) racecheck=1;; esac
    case "$*" in *sgemm_naive*) if [ "$racecheck" ]; then
      echo "========= Error: Race reported between Write access at x.cu:7"; echo "========="
      echo "========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)"; exit; fi;; esac
    if [ "$racecheck" ]; then echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    else echo "========= ERROR SUMMARY: 0 errors"; fi
    """
    found = rows(pretended, RAN + script, BOTH)
    assert [(row["tool"], row["variant"]) for row in found] == [*product(sanitize.TOOLS, BOTH)]
    (failed,) = [row for row in found if not row["passed"]]
    assert (failed["variant"], failed["tool"], failed["errors"]) == ("sgemm_naive", "racecheck", 3)
    assert failed["detail"] == "Error: Race reported between Write access at x.cu:7"


TOGETHER = """
case "$*" in *sgemm_naive*sgemm_coalesced*) echo "========= ERROR SUMMARY: 2 errors";;
*) echo "========= ERROR SUMMARY: 0 errors";; esac
"""


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (RAN + TOGETHER, "2 errors in sgemm_naive, sgemm_coalesced together, none in any alone"),
        ("echo no such device; exit 1", "compute-sanitizer --tool memcheck failed: no such device"),
        ('echo "========= ERROR SUMMARY: 0 errors"', "sgemm_naive did not run to its end"),
    ],
)
def test_what_does_not_show_whose_errors_there_are_is_not_called_clean(
    script: str, message: str, pretended: Path
) -> None:
    with refused(message):
        rows(pretended, script, BOTH)


def test_without_the_tool_the_leg_is_left_out_with_the_remedy(tmp_path: Path) -> None:
    out, reason = tmp_path / "s.csv", tmp_path / "why.txt"
    if sanitize.find_tool():
        pytest.skip("compute-sanitizer is installed here")
    done = run_module(STAGE, "--build-dir", tmp_path, "--out", out, "--left-out", reason)
    assert done.returncode == 0 and "remedy: install it" in reason.read_text()
    assert dict_rows(out, Sanitizer) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [("sgemm_naiv", "nearest: sgemm_naive"), ("cublas_fp32", "cublas_fp32 is no kernel")],
)
def test_names_are_kernels(name: str, message: str, tmp_path: Path) -> None:
    done = run_module(STAGE, name, "--build-dir", tmp_path, "--out", tmp_path / "s.csv")
    assert_one_line(done, message)
    assert not os.listdir(tmp_path)
