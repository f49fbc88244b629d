"""Running the project's commands as a person would, in subprocesses, and judging what they said."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCH = "sm_90a"
BIN = Path(sys.executable).parent  # snakemake, ruff and the others of this environment


def environment(**changes: str) -> dict[str, str]:
    """This environment, with this Python's tools first on PATH and no GPU to be seen; then `changes`."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    imports = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return {**os.environ, "PATH": path, "PYTHONPATH": imports, "CUDA_VISIBLE_DEVICES": "", **changes}


def run_module(module: str, *arguments: object, cwd: Path = ROOT, **changes: str) -> subprocess.CompletedProcess[str]:
    """`python -m module arguments`, with `changes` to the environment."""
    return run([sys.executable, "-m", module, *map(str, arguments)], cwd, **changes)


def snakemake(tree: Path, *arguments: str, cores: int = 2, **changes: str) -> subprocess.CompletedProcess[str]:
    """`snakemake --cores 2 arguments` in a copy of the project."""
    return run(["snakemake", "--cores", str(cores), *arguments], tree, **changes)


def run(command: list[str], cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run to the end, whatever the exit code, with the output as text."""
    return subprocess.run(command, cwd=cwd, env=environment(**changes), capture_output=True, text=True, timeout=240)


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The command failed with exactly one line on stderr, a clear one that holds all of `words`."""
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, f"exit code {done.returncode}: {done.stderr}"
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: "), lines[0]
    missing = [word for word in words if word not in lines[0]]
    assert not missing, f"{missing} not in {lines[0]!r}"


def copy_tree(to: Path) -> Path:
    """The project without its tests, results, caches and hidden files, in `to`."""

    def left_out(folder: str, names: list[str]) -> list[str]:
        top = {"tests", "results"} if Path(folder) == ROOT else set()
        return [n for n in names if n.startswith(".") or n in top | {"__pycache__"} or n.endswith(".egg-info")]

    return Path(shutil.copytree(ROOT, to, ignore=left_out))


def heed_ctrl_c() -> None:
    """For a process about to start: SIGINT and SIGHUP end it, also where these tests run in a job that ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
