"""Running the project's commands as a person would, in subprocesses, and evaluating what they said."""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from contracts import UserError, read_json, read_rows, read_yaml, write_json
from contracts.declared import Config
from contracts.model import Row
from contracts.rows import TABLES, Resources
from experiments.stages import toolchain

ROOT = Path(__file__).resolve().parent.parent
# stands in where nothing is measured
ARCHIVE = ROOT / "data" / read_yaml(ROOT / "config.yaml", Config).archive
ARCH = "sm_90a"
BIN = Path(sys.executable).parent  # snakemake, ruff and the others of this environment


def dict_rows(path: Path, model: type[Row] | str) -> list[dict[str, Any]]:
    """Return the rows of a table, by its model or name, as dictionaries that a test may change."""
    row = TABLES[model].model if isinstance(model, str) else model
    return [dict(vars(row)) for row in read_rows(path, row)]


def json_dict(path: Path, model: type[BaseModel]) -> Any:
    """Return a document as dictionaries and lists."""
    return read_json(path, model).model_dump(exclude_unset=True)


def few_sms(patch: pytest.MonkeyPatch) -> None:
    """Let a GPU of this process have four SMs: filling memory and taking stamps takes an emulator
    less time then.
    """
    from experiments.gpu.device import Gpu

    def begin(gpu: Gpu, build_dir: Path) -> None:
        whole(gpu, build_dir)
        gpu.sm_count = 4

    whole = Gpu.__init__
    patch.setattr(Gpu, "__init__", begin)


def environment(**changes: str) -> dict[str, str]:
    """This environment, with this Python's tools first on PATH and no GPU to be seen; then
    `changes`.

    Nothing in it shows that a `make` started the tests: one that they start names itself `make`,
    not `make[1]`.
    """
    of_make = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
    outside = {name: value for name, value in os.environ.items() if name not in of_make}
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    imports = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return {**outside, "PATH": path, "PYTHONPATH": imports, "CUDA_VISIBLE_DEVICES": "", **changes}


# Where commands start from: a process that has imported what they take half a second to import. Of
# ours, modules that commands share; a command itself is never among them, and a copy of the project
# starts with nothing of ours.
LIBRARIES = ["altair", "cuda.core", "matplotlib.pyplot", "ml_dtypes", "pandas", "pydantic"]
LIBRARIES += ["pyarrow.parquet", "pynvml", "scipy.stats", "seaborn", "simpleeval", "smart_open"]
LIBRARIES += ["snakemake.cli", "snakemake.profiles", "snakemake.report.html_reporter", "typst"]
OURS = ["analysis.results", "analysis.figures.style", "experiments.emulation.predictions"]
OURS += ["experiments.stages.check", "kernels.catalogue", "ptxsim.cli"]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*LIBRARIES, *OURS])


def run_module(
    module: str, *arguments: object, cwd: Path = ROOT, **changes: str
) -> subprocess.CompletedProcess[str]:
    """`python -m module arguments`, with `changes` to the environment.

    In a process of its own, forked from one that has the imports, or a new one where a change is
    for Python itself.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    if any(name.startswith(("PYTHON", "LD_")) for name in changes):  # read when a program starts
        return run(command, cwd, **changes)
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdout", "stderr")]
        arguments = (command[2:], cwd, environment(**changes), streams)
        process = FORKS.Process(target=_as_main, args=arguments)
        process.start()
        try:
            process.join()
        finally:
            process.kill()
        stdout, stderr = (path.read_text() for path in streams)
    return subprocess.CompletedProcess(command, process.exitcode, stdout, stderr)


def _as_main(command: list[str], cwd: Path, environ: dict[str, str], streams: list[Path]) -> None:
    """What Python does with `-m`, in a forked process."""
    gc.freeze()  # what was imported before stays as long as the process
    for path, standard in zip(streams, (1, 2), strict=True):
        with path.open("w") as file:
            os.dup2(file.fileno(), standard)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    ours = {"", *map(str, (ROOT, ROOT / "tests", ROOT / "ptxsim" / "tests"))}
    libraries = [path for path in sys.path if path not in ours]
    sys.path[:] = [str(cwd), *environ["PYTHONPATH"].split(os.pathsep), *libraries]
    sys.argv = command
    rooms = {name.partition(".")[0] for name in OURS}
    copied = cwd != ROOT and any((cwd / room).is_dir() for room in rooms)
    for name, imported in list(sys.modules.items()):
        # or Python warns of a module that runs twice
        again = name == command[0] and not hasattr(imported, "__path__")
        if again or (copied and name.partition(".")[0] in rooms):
            del sys.modules[name]
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # a forked process leaves them out


def snakemake(
    tree: Path, *arguments: str, cores: int = 2, **changes: str
) -> subprocess.CompletedProcess[str]:
    """`snakemake --cores 2 arguments` in a copy of the project."""
    return run_module("snakemake", "--cores", str(cores), *arguments, cwd=tree, **changes)


def run(command: list[str], cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run to the end, whatever the exit code, with the output as text."""
    return subprocess.run(
        command, cwd=cwd, env=environment(**changes), capture_output=True, text=True
    )


def wait_until(ready: Callable[[], object], process: subprocess.Popen | None = None) -> None:
    """Wait as long as it takes, while `process` runs: what hangs, pytest-timeout ends."""
    ended = False
    while not ready():
        assert not ended, f"it ended too early, with exit code {process.returncode}"  # type: ignore[union-attr]
        ended = process is not None and process.poll() is not None
        time.sleep(0.01)


def pretend_build(folder: Path, *names: str) -> None:
    """Leave in `folder` what a build of these kernels records, and a harness without code, where
    nothing will run.
    """
    (folder / "harness.cubin").write_bytes(bytes(64))
    texts = {"arch": ARCH, "compiler": "nvcc 0, ptxas 0", "limiter": "threads"}
    texts |= {"source_hash": "5" * 16, "code_hash": "c" * 16}
    for name in names:
        row = dict.fromkeys(Resources.model_fields, 1) | texts | {"variant": name}
        write_json(folder / f"{name}.json", Resources, row)


def stuck_nvcc(folder: Path, after: int = 0) -> Path:
    """An nvcc that compiles `after` files and then comes to no end, as long as the file `stuck`
    lies in `folder`.

    Once it is stuck, there is a file `waiting`, too.
    """
    script = folder / "nvcc"
    stuck = f"[ $(wc -l < count) -gt {after} ] && [ -e stuck ] && touch waiting"
    counts = f"cd {folder} && echo >> count && {stuck} && exec sleep infinity"
    waits = f'case "$*" in *-ptx*) ({counts}) ;; esac'
    script.write_text(f'#!/bin/sh\n{waits}\nexec {toolchain.nvcc()} "$@"\n')
    script.chmod(0o755)
    (folder / "stuck").touch()
    return script


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The command failed with exactly one line on stderr, a clear one that holds all of `words`."""
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, f"exit code {done.returncode}: {done.stderr}"
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: "), lines[0]
    missing = [word for word in words if word not in lines[0]]
    assert not missing, f"{missing} not in {lines[0]!r}"


@contextlib.contextmanager
def refused(said: str) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """The block raises a `UserError` of one line, in which the pattern `said` is found."""
    with pytest.raises(UserError, match=said) as error:
        yield error
    assert "\n" not in str(error.value)


def copy_tree(to: Path, experiments: Collection[str] | None = None) -> Path:
    """The project without its tests, results, caches and hidden files, in `to`.

    With `experiments`, those alone.
    """

    def left_out(folder: str, names: list[str]) -> list[str]:
        dropped = {"tests", "results"} if Path(folder) == ROOT else {"__pycache__"}
        return [n for n in names if n in dropped or n[0] == "." or n.endswith(".egg-info")]

    tree = Path(shutil.copytree(ROOT, to, ignore=left_out))
    for path in (tree / "experiments").glob("*.yaml"):
        if experiments is not None and path.stem not in experiments:
            path.unlink()
    return tree


def heed_ctrl_c() -> None:
    """For a process about to start: SIGINT and SIGHUP end it, also where these tests run in a job
    that ignores them.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
