"""A command that makes a table runs once, and again where what it rests on has changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, assert_one_line, environment, run_module

from contracts import read_rows

MODULE = """
import sys
from pathlib import Path
from contracts import write_rows
count = Path(sys.argv[sys.argv.index("--count") + 1])
count.write_text(count.read_text() + "x" if count.exists() else "x")
row = {"dispatcher": "sgemm_best", "m": 64, "n": 64, "k": 64, "variant": "sgemm_naive", "time_us": 1.5, "fraction": 0.5}
write_rows(sys.argv[sys.argv.index("--out") + 1], "dispatch", [row | {"source_hash": "0"}])
"""


@pytest.fixture
def made(tmp_path: Path):
    """Runs a command of ours through `kept`; how often it ran by now."""
    (tmp_path / "makes_dispatch.py").write_text(MODULE)

    def make(out: str, *more: str) -> int:
        command = [sys.executable, "-m", "makes_dispatch", "--count", str(tmp_path / "count"), *more, "--out", out]
        prefix = [sys.executable, "-m", "experiments.stages.kept", "dispatch", "sgemm_best"]
        imports = f"{tmp_path}:{ROOT}"
        done = subprocess.run(
            [*prefix, "--store", str(tmp_path / "store"), "--", *command],
            cwd=ROOT,
            env=environment(PYTHONPATH=imports),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return len((tmp_path / "count").read_text())

    return make


def test_rows_are_made_once_and_again_where_the_command_or_its_module_changed(made, tmp_path: Path) -> None:
    out = tmp_path / "dispatch.csv"
    assert made(str(out)) == 1
    rows = read_rows(out, "dispatch")
    out.unlink()
    assert made(str(out)) == 1 and read_rows(out, "dispatch") == rows
    assert made(str(out), "--step", "128") == 2
    (tmp_path / "makes_dispatch.py").write_text(MODULE + "# changed\n")
    assert made(str(out)) == 3


def test_what_is_no_command_is_one_line() -> None:
    done = run_module("experiments.stages.kept", "dispatch", "--", "python", "x.py")
    assert_one_line(done, "python x.py after --: expected python -m MODULE ... --out FILE")
    assert_one_line(run_module("experiments.stages.kept", "dispatches", "--", "x"), "nearest: dispatch")
