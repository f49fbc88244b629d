"""The tests that need a GPU and no card, on the GPU that ptxsim exec emulates: their harness runs
without one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from helpers import ROOT, environment

from experiments.gpu.session import HELD, LOCKS

AT_LEAST = 10  # tests that run: a marker, a skip or a collection that loses them is a failure here


def test_the_tests_that_need_a_gpu_and_no_card_pass_on_an_emulated_one(
    tmp_path: Path, library: Path
) -> None:
    (tmp_path / "cards").write_text("cards 1\nname NVIDIA H100 rehearsal\n")
    env = {
        "NVML_STAND_IN": str(tmp_path / "cards"),
        "LD_LIBRARY_PATH": str(library),
        LOCKS: str(tmp_path),
    }
    env |= {"XDG_STATE_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0"}
    emulated = [sys.executable, "-m", "ptxsim", "exec", "-q", "--no-checks"]
    tests = ["-m", "pytest", "-m", "gpu and not card", "-p", "no:cacheprovider"]
    tests += ["--basetemp", str(tmp_path / "temporary")]
    outside = {
        name: value
        for name, value in environment(**env).items()
        if not name.startswith((HELD, "PYTEST_"))
    }
    command = [*emulated, sys.executable, *tests, "tests/experiments"]
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {
        word: int(number)
        for number, word in re.findall(r"(\d+) (passed|skipped|failed)", done.stdout)
    }
    assert counts.keys() == {"passed"} and counts["passed"] >= AT_LEAST, counts
