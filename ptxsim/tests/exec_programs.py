"""Builds the programs of `programs/` with `ptxsim nvcc`, and runs them under `ptxsim exec`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ptxsim

PROGRAMS = Path(__file__).parent / "programs"
ABOVE = Path(ptxsim.__file__).parent.parent
FLAGS = {
    "blas": ["-lcublas", "-lcublasLt"],
    "driver": ["-lcuda"],
    "epilogues": ["-lcublas", "-lcublasLt"],
    "missing": ["--no-compress"],
    "nvrtc": ["-lcuda", "-lnvrtc"],
    "optimised": ["-O3"],
    "streams": ["-lcuda"],
    "wgmma": ["-arch=sm_90a"],
}


def environment(folder: Path) -> dict[str, str]:
    """The stand-ins are kept, and private folders made, in a folder of the tests'."""
    found = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    (folder / "tmp").mkdir(exist_ok=True)
    found["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ABOVE), os.environ.get("PYTHONPATH", "")])
    )
    return found


class Programs:
    """Programs that are built once a session, also where pytest-xdist runs several processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.environment = folder, environment(folder)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ptxsim", *arguments]

    def call(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, with further variables of the environment."""
        env, folder = self.environment | variables, self.folder
        return subprocess.run(
            command, env=env, cwd=folder, capture_output=True, text=True, timeout=120
        )

    def nvcc(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.call(*self.command("nvcc", *arguments))

    def path(self, name: str, source: Path | None = None, flags: Sequence[str] = ()) -> Path:
        """A program, which is built if it is not there."""
        made = self.folder / name
        if not made.is_file():
            if not shutil.which("g++"):
                pytest.skip("nvcc needs g++")
            with tempfile.TemporaryDirectory(dir=self.folder) as place:
                out = Path(place) / name
                given = str(source or PROGRAMS / f"{name}.cu")
                done = self.nvcc("-o", str(out), given, *FLAGS.get(name, []), *flags)
                if done.returncode and "no nvcc" in done.stderr:
                    pytest.skip(done.stderr)
                assert done.returncode == 0, done.stderr
                out.replace(made)
        return made

    def start(
        self, name: str, *arguments: str, options: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """Start a program under `ptxsim exec`."""
        command = self.command("exec", *options, str(self.path(name)), *arguments)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=self.environment, cwd=self.folder, stdout=pipe, stderr=pipe, text=True
        )

    def run(
        self, name: str, *arguments: str, options: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, after which no private folder is left."""
        with self.start(name, *arguments, options=options) as running:
            out, err = running.communicate(timeout=120)
        assert left(self.folder) == []
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(running.args, running.returncode, out, err)

    def report(
        self, name: str, *arguments: str, options: Sequence[str] = ()
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """Run a program as `run` does. Return its report, too."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            path = Path(folder) / "report.json"
            done = self.run(name, *arguments, options=["--report", str(path), *options])
            return done, json.loads(path.read_text())


def left(folder: Path) -> list[Path]:
    """Private folders of runs that have ended."""
    return [
        path
        for path in (folder / "tmp").glob("ptxsim-exec-*")
        if not Path(f"/proc/{path.name.split('-')[2]}").exists()
    ]


def children(pid: int) -> list[int]:
    """Processes that one has started and that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = stat.read_text().split(" (", 1)
        except OSError:
            continue
        state, parent = rest.rpartition(")")[2].split()[:2]
        if int(parent) == pid and state != "Z":
            found.append(int(number))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, what: str) -> None:
    """Until it holds; a minute means that it never will."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(f"never: {what}")
