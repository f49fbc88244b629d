"""Runs that are killed: their lock is removed, and that of a living run stays."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import BIN, copy_tree, environment, wait_until

# The project's own beginning, then one rule that comes to no end
PIPELINE = """
configfile: "config.yaml"


include: "workflow/rules/common.smk"


rule all:
    output:
        "results/never",
    shell:
        "touch started; exec sleep infinity"
"""


class Project:
    """A copy of the project whose target `all` comes to no end."""

    def __init__(self, tree: Path) -> None:
        self.tree = copy_tree(tree)
        (self.tree / "Snakefile").write_text(PIPELINE)
        (self.tree / ".venv").mkdir()
        (self.tree / ".venv" / "installed").touch()  # newer than pyproject.toml: nothing is set up
        self.started: list[subprocess.Popen[str]] = []

    @property
    def locks(self) -> list[Path]:
        return list((self.tree / ".snakemake" / "locks").glob("*"))

    def start(self, *command: str) -> subprocess.Popen[str]:
        """A run in a session of its own, once its job is under way; or that has ended."""
        (self.tree / "started").unlink(missing_ok=True)
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, cwd=self.tree, env=environment(), stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        self.started.append(process)
        wait_until(lambda: (self.tree / "started").exists() or process.poll() is not None)
        return process

    def make(self) -> subprocess.Popen[str]:
        return self.start("make", "all", f"BIN={BIN}")

    def snakemake(self) -> subprocess.Popen[str]:
        return self.start("snakemake", "--cores", "1", "all")

    def kill(self, process: subprocess.Popen[str]) -> None:
        """kill -9, of all its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "project")
    yield project
    for process in project.started:
        project.kill(process)


def refused(process: subprocess.Popen[str]) -> bool:
    """`make all` ended at once, with one line of ours."""
    assert process.poll() is not None, "it runs"
    out, err = process.communicate()
    ours = [line for line in (out + err).splitlines() if not line.startswith("make: ")]
    return process.returncode != 0 and ours == ["error: a run is under way in this folder; wait for its end"]


@pytest.mark.parametrize("first", ["make", "snakemake"])
def test_a_second_make_all_says_that_a_run_is_under_way_and_goes_on_once_that_is_killed(
    first: str, project: Project
) -> None:
    run = getattr(project, first)()
    assert run.poll() is None and project.locks
    before = sorted(path.read_bytes() for path in project.locks)
    assert refused(project.make())
    assert run.poll() is None and sorted(path.read_bytes() for path in project.locks) == before
    project.kill(run)
    assert project.locks  # which plain Snakemake does not remove
    said = project.snakemake().communicate()
    assert "LockException" in "".join(said) and "--unlock" in "".join(said)
    again = project.make()
    assert again.poll() is None, again.communicate()


def test_only_the_snakemake_that_was_killed_is_missed_not_its_jobs(project: Project) -> None:
    """A job that outlives Snakemake does not hold the folder."""
    run = project.make()
    (snakemake,) = map(int, Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())
    os.kill(snakemake, signal.SIGKILL)
    run.wait()
    assert project.locks and project.make().poll() is None
