"""One process measures on a GPU at a time: real processes that want the same one."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from helpers import ROOT, environment

from experiments.lease import HELD, lock_path

# Takes one of the GPUs that are named, says which, and holds it until its input ends
TAKE = """
import sys
from contracts import run_command
from experiments import lease
def main():
    taken, lock = lease._first_free(sys.argv[2:], float(sys.argv[1]))
    print(taken, flush=True)
    sys.stdin.read()
run_command(main)
"""
# The same through `lease` itself, on a real GPU
LEASE = """
import os, sys
from contracts import run_command
from experiments.lease import lease
def main():
    with lease(float(sys.argv[1])):
        print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
        sys.stdin.read()
run_command(main)
"""


def start(program: str, wait_s: float, *arguments: str, **changes: str) -> subprocess.Popen[str]:
    """A process that runs `program`, with its output piped."""
    env = {key: value for key, value in environment(**changes).items() if key != HELD}
    command = [sys.executable, "-c", program, str(wait_s), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def line(stream: object) -> str:
    """The next line that a process says."""
    return stream.readline().strip()  # type: ignore[attr-defined]


@pytest.fixture
def gpus() -> Iterator[list[str]]:
    """Two names that no GPU has."""
    names = [f"GPU-test-{uuid.uuid4()}" for _ in range(2)]
    yield names
    for name in names:
        lock_path(name).unlink(missing_ok=True)


def test_a_second_process_waits_until_the_first_is_done(gpus: list[str]) -> None:
    first = start(TAKE, 60, gpus[0])
    assert line(first.stdout) == gpus[0]
    second = start(TAKE, 60, gpus[0])
    assert line(second.stderr) == "waiting for a GPU: another run holds it"
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(0.6)
    first.communicate(timeout=30)
    assert line(second.stdout) == gpus[0]
    second.communicate(timeout=30)
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_process_that_was_killed_holds_nothing(gpus: list[str]) -> None:
    first = start(TAKE, 60, gpus[0])
    assert line(first.stdout) == gpus[0]
    first.kill()
    first.communicate(timeout=30)
    second = start(TAKE, 5, gpus[0])
    assert line(second.stdout) == gpus[0]
    second.communicate(timeout=30)


def test_of_two_gpus_the_free_one_is_taken(gpus: list[str]) -> None:
    first, second = start(TAKE, 60, *gpus), None
    assert line(first.stdout) == gpus[0]
    second = start(TAKE, 60, *gpus)
    assert line(second.stdout) == gpus[1]
    first.communicate(timeout=30), second.communicate(timeout=30)


def test_waiting_has_an_end(gpus: list[str]) -> None:
    first = start(TAKE, 60, gpus[0])
    assert line(first.stdout) == gpus[0]
    second = start(TAKE, 0.3, gpus[0])
    words = second.communicate(timeout=30)[1].splitlines()
    first.communicate(timeout=30)
    assert second.returncode == 2
    assert words[-1] == "error: every visible GPU stayed leased for 0 s; wait for the other run to end"


def test_a_lock_does_not_show_the_uuid(gpus: list[str]) -> None:
    path = lock_path(gpus[0])
    assert gpus[0].removeprefix("GPU-test-") not in str(path) and path != lock_path(gpus[1])


@pytest.mark.gpu
def test_a_real_gpu_is_held_by_one_process(gpus: list[str]) -> None:
    """The second may see only the one that the first holds, so it waits, and takes it over."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    first = start(LEASE, 600, CUDA_VISIBLE_DEVICES=visible)
    taken = line(first.stdout)
    assert taken.startswith("GPU-")
    second = start(LEASE, 60, CUDA_VISIBLE_DEVICES=taken)
    assert line(second.stderr) == "waiting for a GPU: another run holds it"
    first.communicate(timeout=30)
    assert line(second.stdout) == taken
    second.communicate(timeout=30)
    assert (first.returncode, second.returncode) == (0, 0)
