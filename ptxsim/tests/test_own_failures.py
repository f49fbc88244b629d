"""Programming errors of the emulator end with their traceback, exit code 3, and a line that says
where to report it.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ptxsim.cli import main
from ptxsim.engine.kernel import Kernel

KERNEL = (
    """.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }"""
)
PATCHED = """
import sys
from ptxsim.engine.kernel import Kernel
from ptxsim.cli import main

def fails(self, request):
    raise KeyError("planted")

Kernel._run = fails
sys.exit(main(["exec", "--error-exitcode", "9", sys.argv[1]]))
"""


@pytest.mark.parametrize(
    "error", [KeyError("planted"), np.exceptions.AxisError("planted"), RecursionError("planted")]
)
def test_of_a_single_kernel(error, tmp_path, monkeypatch, capsys) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(KERNEL)

    def fails(self, request):
        raise error

    monkeypatch.setattr(Kernel, "_run", fails)
    assert main(["run", str(path), "--grid", "1", "--block", "32", "--arg", "zeros:f32:8"]) == 3
    shown = capsys.readouterr()
    *traceback, last = shown.err.splitlines()
    assert shown.out == "" and traceback[0].startswith("Traceback") and "planted" in traceback[-1]
    assert last.startswith("ptxsim: the emulator itself failed; please report this traceback")


def test_of_a_whole_program(programs) -> None:
    command = [sys.executable, "-c", PATCHED, str(programs.path("gemm"))]
    done = subprocess.run(
        command, env=programs.environment, cwd=programs.folder, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert "KeyError: 'planted'" in done.stderr and "Traceback" in done.stderr
    assert "the emulator itself failed; please report this traceback" in done.stderr
