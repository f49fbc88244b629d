"""Runs that are killed: what they leave is swept, their lock is removed, and those of the living stay."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import BIN, ROOT, copy_tree, environment, wait_until

from contracts import atomic_write, scratch, sweep
from contracts.leftovers import OLD_S, OWNED, owned_name

WRITER = """
import signal, sys
from pathlib import Path
from contracts import atomic_write, scratch
with atomic_write(Path(sys.argv[1], "table.csv")) as temporary, scratch() as folder:
    temporary.write_text("half")
    (folder / "file").write_text("half")
    print(temporary, folder, sep="\\n", flush=True)
    signal.pause()
"""
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


def name_of_the_dead() -> str:
    """The name of a temporary file of an earlier process that had this one's process id."""
    place, pid, start, suffix = OWNED.fullmatch(owned_name("table", ".csv")).groups()  # type: ignore[union-attr]
    return f".table-{place}-{pid}-{int(start) - 1}-00000000{suffix}"


# ---- leftovers ------------------------------------------------------------------------------------------------------

Writer = Callable[[], tuple[subprocess.Popen[str], Path, Path]]


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """A function that starts a process in the middle of writing: it, its temporary file, and its temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    started = []

    def start() -> tuple[subprocess.Popen[str], Path, Path]:
        command = [sys.executable, "-c", WRITER, str(tmp_path / "results")]
        env = environment(TMPDIR=str(tmp_path / "tmp"))
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
        started.append(process)
        file, folder = (Path(process.stdout.readline().strip()) for _ in range(2))  # type: ignore[union-attr]
        return process, file, folder

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_what_a_killed_process_was_writing_is_swept_and_what_a_living_one_writes_is_not(
    writer: Writer, tmp_path: Path
) -> None:
    killed, file, folder = writer()
    _, living_file, living_folder = writer()
    others = [tmp_path / "results" / name for name in (".table-1a2b3c4d.csv", ".hidden", "table-0-1-2-3.csv")]
    for other in others:
        other.touch()
    assert sweep(tmp_path) == []
    killed.kill()
    wait_until(lambda: "Z" in Path(f"/proc/{killed.pid}/stat").read_text().rpartition(")")[2])  # not waited for yet
    assert sorted(sweep(tmp_path / "results")) == sorted([file, folder])
    assert not file.exists() and not folder.exists()
    assert living_file.read_text() == (living_folder / "file").read_text() == "half"
    assert all(other.exists() for other in others)


def test_a_process_id_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    mine, earlier = tmp_path / owned_name("table", ".csv"), tmp_path / name_of_the_dead()
    for path in (mine, earlier):
        path.touch()
    assert sweep(tmp_path) == [earlier] and mine.exists()


def test_what_another_host_or_container_left_is_swept_once_it_is_old(tmp_path: Path) -> None:
    new, old = (tmp_path / f".table-0a0b0c0d-1-1-0000000{n}.csv" for n in range(2))
    for path in (new, old):
        path.touch()
    long_ago = time.time() - OLD_S - 60
    os.utime(old, (long_ago, long_ago))
    assert sweep(tmp_path) == [old] and new.exists()


def test_temporary_files_and_folders_go_by_themselves(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a.csv") as temporary, scratch() as folder:
        assert OWNED.fullmatch(temporary.name) and OWNED.fullmatch(folder.name) and list(folder.iterdir()) == []
        (folder / "file").touch()
    assert not temporary.exists() and not folder.exists() and (tmp_path / "a.csv").exists()


# ---- the lock -------------------------------------------------------------------------------------------------------


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

    left = project.tree / "results" / name_of_the_dead()
    left.parent.mkdir(exist_ok=True)
    left.touch()
    dry = subprocess.run(["snakemake", "-n", "all"], cwd=project.tree, env=environment(), capture_output=True)
    assert dry.returncode == 0 and left.exists()  # nothing is executed: nothing is removed
    again = project.make()
    assert again.poll() is None, again.communicate()
    assert not left.exists()


def test_only_the_snakemake_that_was_killed_is_missed_not_its_jobs(project: Project) -> None:
    """A job that outlives Snakemake does not hold the folder."""
    run = project.make()
    (snakemake,) = map(int, Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())
    os.kill(snakemake, signal.SIGKILL)
    run.wait()
    assert project.locks and project.make().poll() is None
