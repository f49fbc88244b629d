"""How busy a command keeps the GPU: the real command, on the stand-in of NVML."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers import assert_one_line, run_module

from contracts import read_json


@pytest.fixture
def card(tmp_path: Path, library: Path) -> dict[str, str]:
    """An environment in which NVML knows one GPU, which says that it is 73% busy."""
    cards = tmp_path / "cards"
    cards.write_text("cards 1\nbusy0 73\n")
    return {"LD_LIBRARY_PATH": str(library), "NVML_STAND_IN": str(cards), "CUDA_VISIBLE_DEVICES": "0"}


def test_the_share_and_the_exit_code_are_the_command_s(card: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "gpu_utilization.json"
    nap = [sys.executable, "-c", "import time; time.sleep(1); raise SystemExit(3)"]
    done = run_module("experiments.gpu.gpu_utilization", "--out", out, *nap, **card)
    assert done.returncode == 3, done.stderr
    found = read_json(out, "gpu_utilization")
    assert found["busy_share"] == [0.73] and found["exit_code"] == 3 and found["readings"] >= 1
    assert found["wall_s"] >= 1.0
    assert "GPU busy 73%" in done.stderr


def test_bad_calls_are_one_line(card: dict[str, str]) -> None:
    assert_one_line(run_module("experiments.gpu.gpu_utilization", **card), "no command", "accepted")
    assert_one_line(run_module("experiments.gpu.gpu_utilization", "no-such-program", **card), "no-such-program")
    assert_one_line(
        run_module("experiments.gpu.gpu_utilization", "true", **card | {"CUDA_VISIBLE_DEVICES": ""}), "none is visible"
    )
