"""Jobs that are forked from one process: what they say, how they end, and that nothing of one is left to the next."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ROOT, environment, wait_until

from workflow import warm

LIBRARY = "import os\nIMPORTED_IN = os.getpid()\nseen = []\n"
JOB = """
import os, signal, sys
import library
if __name__ == "__main__":
    library.seen.append(1)
    print(*sys.argv[1:], os.getcwd(), os.environ.get("SETTING"), sys.stdin.read(), len(library.seen), __name__, sep="|")
    print(library.IMPORTED_IN == os.getpid(), os.getppid(), file=sys.stderr, flush=True)
    if sys.argv[1] == "fail":
        raise ValueError("no")
    if sys.argv[1] == "wait":
        open("waits", "w").write(str(os.getpid()))
        signal.pause()
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit({"three": 3, "words": "some words"}.get(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "library.py").write_text(LIBRARY)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        number = listener.fileno()
        command, env = [sys.executable, "-m", "workflow.warm", str(number)], environment()
        started = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, pass_fds=[number])
    yield started
    started.communicate()


def start(folder: Path, *arguments: str, served: bool = True, setting: str = "x") -> subprocess.Popen[str]:
    """A job: forked from the server, or started by itself."""
    place = {warm.PLACE: str(folder / "socket")} if served else {}
    env = environment(PYTHONPATH=str(folder), SETTING=setting, **place)
    command = [sys.executable, *(["-I", "-S", str(ROOT / "workflow/warm.py")] if served else []), "-m", "job"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, *arguments], cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


@pytest.fixture
def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the server, which starts where the project is: as in the pipeline, jobs are found from there."""
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.parametrize("kind", ["well", "three", "words", "fail", "killed"])
def test_a_job_is_as_if_it_were_started_by_itself(kind: str, folder: Path, on_path: None, server: object) -> None:
    arguments = (kind, "", "two words", "ä\n")
    ended = []
    for served in (False, True, True):  # nothing of the first is left to the second
        job = start(folder, *arguments, served=served, setting="a=b\nc")
        out, err = job.communicate("given")
        ended.append((job.returncode % 256, out, err.splitlines()[2:] if kind != "fail" else err.splitlines()[-1]))
        alone, parent = err.split()[:2]
        assert (int(parent) == os.getpid()) is not served
        assert alone == str(not served)  # imported by whom it was forked from
    code, out, _ = ended[0]
    assert kind == "killed" or out == f"{kind}||two words|ä\n|{folder}|a=b\nc|given|1|__main__\n"
    assert code == {"well": 0, "three": 3, "words": 1, "fail": 1, "killed": 256 - signal.SIGKILL}[kind]
    if kind == "killed":  # as a shell reports it
        assert [code for code, *_ in ended[1:]] == [128 + signal.SIGKILL] * 2
    else:
        assert ended[1:] == ended[:1] * 2


def test_a_job_ends_with_who_asked_for_it(folder: Path, on_path: None, server: object) -> None:
    job = start(folder, "wait")
    assert job.stdin
    job.stdin.close()
    wait_until(lambda: (folder / "waits").exists() and (folder / "waits").read_text(), job)
    number = int((folder / "waits").read_text())
    job.kill()
    job.wait()
    wait_until(lambda: not Path(f"/proc/{number}").exists())


def test_where_nobody_serves_a_job_starts_by_itself(folder: Path) -> None:
    job = start(folder, "three")
    out, _ = job.communicate("given")
    assert job.returncode == 3 and out.startswith("three|")


def test_the_server_ends_with_its_input(folder: Path, on_path: None, server: subprocess.Popen[bytes]) -> None:
    assert start(folder, "well").communicate("")[0].startswith("well|")
    server.communicate()
    assert server.returncode == 0
