"""One process measures on a GPU at a time: real processes want the cards of a stand-in for NVML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from helpers import ROOT, environment

from experiments.gpu import discovery
from experiments.gpu.session import HELD, LOCKS, lock_path

# It holds a GPU until it reads a line, prints which one CUDA sees and which one NVML names, and lives
# until its input ends.
LEASE = """
import contextlib, os, sys
import pynvml
from contracts import run_command
from experiments.gpu import discovery, session, worker
session.QUIET_S = 0.0  # tests read that it waits
def main():
    with session.session(float(sys.argv[1])), discovery.nvml() as handle:
        print(os.environ["CUDA_VISIBLE_DEVICES"], pynvml.nvmlDeviceGetUUID(handle), flush=True)
        if "forks" in sys.argv:  # a process that makes a context, and ends
            print(list(worker.work_through(["one"], lambda watch: contextlib.nullcontext(str.upper))), flush=True)
        sys.stdin.readline()
    print("free", flush=True)
    sys.stdin.read()
run_command(main)
"""
CARDS = ["GPU-stand-in-0", "GPU-stand-in-1", "GPU-stand-in-2"]
WAITING = "waiting for a GPU: another job holds it"
MAX_S = 60  # A lock that is never given back fails its test, and does not hang it.


def start(wait_s: float, visible: str | None, *words: str, **changes: str) -> subprocess.Popen[str]:
    """A process that holds one of the GPUs in CUDA_VISIBLE_DEVICES (None: not set)."""
    hidden = (HELD, discovery.KNOWN, "CUDA_VISIBLE_DEVICES")
    env = {key: value for key, value in environment().items() if key not in hidden} | changes
    if visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = visible
    command = [sys.executable, "-c", LEASE, str(wait_s), *words]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, cwd=ROOT, env=env, text=True, **streams)
    end = threading.Timer(MAX_S, process.kill)
    end.daemon = True
    end.start()
    return process


class Host:
    """A host with the stand-in's cards, and processes that want them."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.library = folder, library
        self.started: list[subprocess.Popen[str]] = []

    def cards(self, count: int, **changes: int) -> None:
        lines = [f"cards {count}", *(f"{key} {value}" for key, value in changes.items())]
        (self.folder / "cards").write_text("\n".join(lines) + "\n")

    def start(
        self, wait_s: float = 3600, visible: str | None = None, *words: str, **changes: str
    ) -> subprocess.Popen[str]:
        """A process that holds one of the cards."""
        env = {
            "LD_LIBRARY_PATH": str(self.library),
            "NVML_STAND_IN": str(self.folder / "cards"),
            "XDG_STATE_HOME": str(self.folder),
            LOCKS: str(self.folder),
        }
        self.started.append(start(wait_s, visible, *words, **env | changes))
        return self.started[-1]

    def holding(self) -> subprocess.Popen[str]:
        """A process that has taken the first card."""
        process = self.start()
        assert taken(process) == CARDS[0]
        return process

    def waiting(self, visible: str | None = None) -> subprocess.Popen[str]:
        """A process that waits for a card."""
        process = self.start(visible=visible)
        assert line(process.stderr) == WAITING
        return process

    def takes(self, **options: str) -> str:
        """Which card a process takes, as CUDA knows it, or its error; it does not keep it."""
        process = self.start(2, **options)
        words, errors = process.communicate()
        return words.split()[0] if words else errors.strip()


def line(stream: TextIO) -> str:
    """The next line that a process says."""
    return stream.readline().strip()


def taken(process: subprocess.Popen[str]) -> str:
    """The UUID of the card that a process holds."""
    words = line(process.stdout)
    assert words, process.communicate()[1]
    return words.split()[0]


def ends(*processes: subprocess.Popen[str]) -> None:
    """They receive the end of their input, and end well."""
    for process in processes:
        process.communicate()
        assert process.returncode == 0


@pytest.fixture
def host(tmp_path: Path, library: Path) -> Iterator[Host]:
    host = Host(tmp_path, library)
    host.cards(1)
    yield host
    for process in host.started:
        process.kill()
        process.communicate()


# ---- taking turns --------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_process_waits_until_the_first_is_done_or_killed(killed: bool, host: Host) -> None:
    first, second = host.holding(), host.waiting()
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(0.6)
    if killed:
        first.kill()
    else:
        ends(first)
    assert taken(second) == CARDS[0]
    ends(second)


def test_a_gpu_is_held_until_its_holder_gives_it_back_and_not_when_a_fork_ends(host: Host) -> None:
    """The fork has the context; who holds the GPU around it waits until it is gone."""
    first = host.start(3600, None, "forks")
    assert taken(first) == CARDS[0] and line(first.stdout) == "[('one', 'ONE')]"
    second = host.waiting()
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(0.6)
    ends(first)
    assert taken(second) == CARDS[0]
    ends(second)


def test_waiting_has_an_end(host: Host) -> None:
    host.holding()
    second = host.start(0.3)
    *_, error = second.communicate()[1].splitlines()
    assert second.returncode == 2
    assert error == "error: every visible GPU stayed taken for 0 s; wait for the other run to end"


def test_of_three_on_two_cards_the_third_waits_for_the_one_that_comes_free(host: Host) -> None:
    host.cards(2)
    first, second = host.start(), host.start()
    has = {taken(first): first, taken(second): second}
    third = host.waiting()
    ends(has[CARDS[1]])
    assert taken(third) == CARDS[1]
    ends(has[CARDS[0]], third)


def test_a_process_that_goes_on_gives_the_gpu_back(host: Host) -> None:
    first = host.holding()
    assert first.stdin and first.stdout
    first.stdin.write("\n")
    first.stdin.flush()
    assert line(first.stdout) == "free"
    ends(host.holding(), first)


def test_runs_with_different_temporary_folders_meet_and_a_lock_does_not_show_the_uuid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where each user or Slurm job has a TMPDIR of its own."""
    monkeypatch.delenv(LOCKS, raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    path = lock_path("GPU-7c0ffee7")
    assert path.parent == Path("/tmp") and "7c0ffee7" not in path.name
    assert path != lock_path("GPU-7c0ffee8")


def test_a_folder_for_locks_that_is_none_is_one_line(host: Host, tmp_path: Path) -> None:
    errors = host.takes(**{LOCKS: str(tmp_path / "cards")})
    assert errors.startswith(f"error: cannot lock {tmp_path}/cards/gemm-ladder-gpu-")
    assert LOCKS in errors and "\n" not in errors


# ---- which cards may be taken --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("1", CARDS[1]),
        ("2,0", CARDS[2]),  # in this order
        (" 1 , 0", CARDS[1]),
        (CARDS[2], CARDS[2]),
        ("GPU-stand", "no GPU is visible (CUDA_VISIBLE_DEVICES = 'GPU-stand')"),  # ambiguous
        ("7,0", "no GPU is visible"),  # CUDA takes nothing after an unknown one.
        ("", "no GPU is visible"),
        ("²", "no GPU is visible"),
    ],
)
def test_cuda_visible_devices_says_which(visible: str, expected: str, host: Host) -> None:
    host.cards(3)
    assert expected in host.takes(visible=visible)


def test_a_card_of_another_model_does_not_stand_in(host: Host) -> None:
    """A run is about the model that Snakemake planned for, or the first visible one's."""
    host.cards(2, model1=1)
    host.holding()
    host.waiting()
    known = {discovery.KNOWN: json.dumps({"gpu": "NVIDIA Stand-in 1"})}
    assert host.takes(**known) == CARDS[1]
    visible = "visible here: NVIDIA Stand-in; choose"
    error = f"error: this run is about NVIDIA Stand-in 1, and {visible}"
    assert host.takes(visible="0", **known).startswith(error)


def test_a_card_that_slurm_gave_to_another_job_is_not_counted(host: Host) -> None:
    """A cgroup denies it; CUDA numbers what is left, and Slurm sets CUDA_VISIBLE_DEVICES=0."""
    host.cards(2, denied0=1)
    assert host.takes(visible="0") == CARDS[1]
    assert "no GPU is visible" in host.takes(visible="1")


def test_an_instance_of_a_gpu_takes_all_of_its_lock(host: Host) -> None:
    """MIG: CUDA sees the instance; lock, power and clocks are the GPU's.

    The GPU itself is its first instance.
    """
    host.cards(2, mig0=2)
    assert [host.takes(visible=visible) for visible in ("0", CARDS[0])] == ["MIG-stand-in-0-0"] * 2
    first = host.start(visible="MIG-stand-in-0-1")
    assert line(first.stdout) == f"MIG-stand-in-0-1 {CARDS[0]}"
    second = host.waiting("MIG-stand-in-0-0")
    ends(first)
    assert taken(second) == "MIG-stand-in-0-0"
    ends(second)


# ---- real GPUs -----------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_real_gpu_is_held_by_one_process() -> None:
    """The second may see only the one that the first holds, so it waits, and takes it over."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    first = start(600, visible)
    uuid = taken(first)
    assert uuid.startswith(("GPU-", "MIG-"))
    second = start(60, uuid)
    assert line(second.stderr) == WAITING
    ends(first)
    assert taken(second) == uuid
    ends(second)
