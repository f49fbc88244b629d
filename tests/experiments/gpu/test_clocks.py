"""Locked clocks, with the real pynvml on a stand-in library: set, refused, ignored and reset."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers import (
    ROOT,
    assert_one_line,
    environment,
    heed_ctrl_c,
    pretend_build,
    run_module,
    wait_until,
)

from analysis.timings import timings
from contracts import read_json
from contracts.rows import Manifest
from contracts.samples import GAP, NO_CLOCK, OFF_TARGET
from experiments.gpu import clocks
from experiments.gpu.clocks import Target, on_target
from experiments.gpu.session import HELD
from experiments.gpu.timing import Samples
from experiments.stages import bench
from experiments.stages.interleave import Interleaved
from experiments.stages.store import Store
from experiments.stages.tables import Run

# This runs in place of a measurement. `how` says how it goes on once the clocks are locked; then
# come the SM and memory clock, 0 for the default.
RUN = """
import sys, time
import pynvml
from contracts import run_command
from experiments.gpu import clocks, discovery
from experiments.gpu.session import session

clocks.QUIET_S = 0.4
how, *named = sys.argv[1:]

def main():
    with session(), discovery.nvml() as handle:
        if how == "boost":
            return
        context = clocks.locked(handle, *(int(mhz) or None for mhz in named))
        if how == "forget":
            sys.forgotten = context
            print("locked", context.__enter__().sm_mhz, flush=True)
            return
        with context as target:
            print("locked", target.sm_mhz, target.memory_mhz, flush=True)
            if how == "raise":
                raise ValueError("in the measurement")
            while how == "wait":
                pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
                time.sleep(0.02)
            stamps = [pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) for _ in range(10)]
            print("kept", int(clocks.on_target(stamps, target.sm_mhz).sum()), clocks.memory_off_target(handle, target))

run_command(main)
"""
# This is experiments.stages.bench on samples that take as long as NVML's clock says. DRIFT of the
# variant's samples ran 2% faster.
BENCH = """
import os
import time
import numpy as np
import pynvml
from contracts import run_command
from experiments.gpu import power
from experiments.gpu.timing import Samples
from experiments.stages import bench, verify
from experiments.stages.interleave import ROLES, Interleaved

class Bench:
    def __init__(self, build_dir, handle, calls, asked, target=None):
        self.handle = handle

    def measure(self, item, session):
        if "WAIT" in os.environ:
            open(os.environ["WAIT"], "w").close()
            time.sleep(600)
        mhz = np.full(40, float(pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM)))
        roles = np.array(ROLES * 20)
        mhz[np.flatnonzero(roles == "variant")[: int(os.environ.get("DRIFT", 0))]] *= 1.02
        samples = Samples(1e6 / mhz, mhz, np.arange(40) != 0)
        checked = {role: verify.CheckResult(0.1, "") for role in ROLES}
        reading = power.Reading(500.0, 4.0, 50.0, 600.0, {"power_cap": 0.75})
        return bench.Result(item.problem.of("row"), item.data, 1, Interleaved(samples, roles), checked, reading)

bench.Bench = Bench
run_command(bench.main)
"""
SMI = """#!/bin/sh
[ "$1 $2" = "base-clocks -i" ] || exit 1
printf 'GPU 00000000:01:00.0\\n    Graphics: 1500MHz\\n'
"""
LOCKED, FREE = (1500, 3201), (0, 0)
LOCK = ["SetMemoryLockedClocks 0 3201", "SetGpuLockedClocks 0 1500"]
RESET = ["ResetMemoryLockedClocks 0 0", "ResetGpuLockedClocks 0 0"]
NAIVE_LOCKED = ("sgemm_ladder", "sgemm_naive", "--clock-policy", "locked")


class Card:
    """The stand-in's cards, and runs that see nothing else."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.library = folder, library
        self.state, self.states = folder / "card", folder / "state" / "gemm-ladder"
        self.started: list[subprocess.Popen[str]] = []
        (folder / "locks").mkdir()
        (folder / "bin").mkdir()
        self.state.write_text("cards 2\n")
        self.nvidia_smi(SMI)
        pretend_build(folder, "sgemm_naive", "sgemm_t128x128x8")

    def nvidia_smi(self, script: str) -> None:
        path = self.folder / "bin" / "nvidia-smi"
        path.write_text(script)
        path.chmod(0o755)

    def set(self, **changes: int) -> None:
        with self.state.open("a") as file:
            file.writelines(f"{key} {value}\n" for key, value in changes.items())

    @property
    def locked(self) -> tuple[int, int]:
        """SM and memory clock of card 0; 0 where it is not locked."""
        pairs = dict(line.split() for line in self.state.read_text().splitlines())
        return int(pairs.get("sm0", 0)), int(pairs.get("memory0", 0))

    @property
    def calls(self) -> list[str]:
        """What was asked of NVML that would change a card."""
        path = self.folder / "card.calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def lock_files(self) -> list[Path]:
        """What says that clocks are locked."""
        return sorted(self.states.iterdir()) if self.states.exists() else []

    def env(self, **changes: str) -> dict[str, str]:
        return {
            "LD_LIBRARY_PATH": str(self.library),
            "NVML_STAND_IN": str(self.state),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "GEMM_LADDER_LOCKS": str(self.folder / "locks"),
            "PATH": os.pathsep.join([str(self.folder / "bin"), environment()["PATH"]]),
            "CUDA_VISIBLE_DEVICES": "0",
            **changes,
        }

    def start(
        self, *arguments: object, program: str = RUN, **changes: str
    ) -> subprocess.Popen[str]:
        """A process that runs `program`; it heeds signals."""
        env = {
            key: value for key, value in environment(**self.env(**changes)).items() if key != HELD
        }
        command, pipe = [sys.executable, "-c", program, *map(str, arguments)], subprocess.PIPE
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed_ctrl_c
        )
        self.started.append(process)
        return process

    def run(
        self, *arguments: object, program: str = RUN, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        """The same, to its end."""
        return ended(self.start(*arguments, program=program, **changes))

    def waiting(self) -> subprocess.Popen[str]:
        """A run that has the clocks locked and measures on."""
        process = self.start("wait", 0, 0)
        line = process.stdout.readline()  # type: ignore[union-attr]
        assert line == "locked 1500 3201\n", line + process.communicate()[1]
        return process

    def killed(self) -> Path:
        """The lock file of a run that was killed within the very call that locks."""
        self.set(fatal=1)
        assert self.run("measure", 0, 0).returncode == -signal.SIGKILL
        self.set(fatal=0)
        (path,) = self.lock_files
        assert self.calls == LOCK[:1] and self.locked == (0, LOCKED[1])
        return path

    def assert_free(self) -> None:
        """Nothing is locked, and nothing says so."""
        assert self.locked == FREE and self.lock_files == []

    def bench(self, *arguments: object) -> list[object]:
        """Arguments for BENCH, whose store and manifest lie in the folder."""
        return [
            *arguments,
            "--build-dir",
            self.folder,
            f"--store={self.folder / 'measured'}",
            f"--out={self.folder / 'manifest.json'}",
        ]

    def measured(self) -> Run:
        """What the manifest names; nothing where there is none."""
        manifest = self.folder / "manifest.json"
        return Run(Store(self.folder / "measured"), [manifest] if manifest.exists() else [])


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def card(tmp_path: Path, library: Path) -> Iterator[Card]:
    card = Card(tmp_path, library)
    yield card
    for process in card.started:
        process.kill()
        process.communicate()


# ---- locked, and unlocked again ------------------------------------------------------------------


@pytest.mark.parametrize(("named", "mhz"), [((0, 0), LOCKED), ((1260, 1593), (1260, 1593))])
def test_clocks_are_locked_at_the_base_or_as_named_and_reset(
    named: tuple[int, int], mhz: tuple[int, int], card: Card
) -> None:
    sm, memory = mhz
    done = card.run("measure", *named)
    assert done.stdout == f"locked {sm} {memory}\nkept 10 None\n", done.stderr
    assert card.calls == [f"SetMemoryLockedClocks 0 {memory}", f"SetGpuLockedClocks 0 {sm}", *RESET]
    card.assert_free()


@pytest.mark.parametrize(("how", "code"), [("raise", 1), ("forget", 0)])
def test_the_lock_is_undone_after_an_error_and_at_the_exit_of_the_interpreter(
    how: str, code: int, card: Card
) -> None:
    done = card.run(how, 0, 0)
    assert done.stdout.startswith("locked 1500") and done.returncode == code, done.stderr
    assert card.calls == LOCK + RESET
    card.assert_free()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_lock_is_undone_at_a_signal(number: signal.Signals, card: Card) -> None:
    run = card.waiting()
    run.send_signal(number)
    errors = run.communicate()[1]
    assert run.returncode == 128 + number and "Traceback" not in errors, errors
    card.assert_free()


@pytest.mark.parametrize("following", [("boost",), ("measure", 1260, 0)])
def test_what_a_killed_run_left_locked_is_undone_once_by_the_next(
    following: tuple, card: Card
) -> None:
    """The next run may lock the clocks itself."""
    card.killed()
    done = card.run(*following)
    assert done.stderr == "a run that was killed had left the clocks of this GPU locked: reset\n"
    assert done.returncode == 0 and card.calls[1:3] == RESET
    card.assert_free()
    assert card.run("boost").stderr == ""


def test_a_lock_file_from_before_the_last_boot_counts_no_more(card: Card) -> None:
    card.killed().write_text("another")
    assert card.run("boost").returncode == 0
    assert card.calls == LOCK[:1] and card.lock_files == []


def test_a_card_lost_while_locked_is_one_line_and_undone_once_it_is_back(card: Card) -> None:
    run = card.waiting()
    card.set(lost=1)
    assert_one_line(ended(run), "GPU is lost", "stay locked", "as root", "--reset-gpu-clocks")
    assert card.locked == LOCKED and len(card.lock_files) == 1
    card.set(lost=0)
    assert card.run("boost").returncode == 0
    card.assert_free()


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "named", "message"),
    [
        ({"deny": 1}, (0, 0), "no permission to lock the clocks of this GPU; remedy: run as root"),
        ({"processes0": 4711}, (0, 0), "another process computes (pid 4711) on this GPU"),
        ({"busy0": 97}, (0, 0), "something that is not listed computes (97% busy)"),
        (
            {"unsupported_processes": 1},
            (0, 0),
            "does not tell whether another process computes here (Not Supported)",
        ),
        (
            {"unsupported_offers": 1},
            (0, 0),
            "does not tell which clocks this GPU offers (Not Supported)",
        ),
        ({}, (1501, 0), "lock_sm_mhz = 1501 is not a clock that this GPU offers; nearest: 1485,"),
        ({}, (1980, 1593), "lock_sm_mhz = 1980 is not a clock that this GPU offers; nearest: 1470"),
        ({}, (0, 3200), "lock_memory_mhz = 3200 is not a clock that this GPU offers; nearest: 159"),
    ],
)
def test_nothing_is_set_where_that_would_be_wrong(
    state: dict[str, int], named: tuple[int, int], message: str, card: Card
) -> None:
    card.set(**state)
    assert_one_line(card.run("measure", *named), message)
    assert card.calls == (LOCK[:1] if "deny" in state else []) and card.lock_files == []


def test_a_process_that_is_just_ending_is_waited_for(card: Card) -> None:
    card.set(processes0=4711)
    run = card.start("measure", 0, 0, program=RUN.replace("0.4", "1e9"))
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(2)
    assert card.calls == []
    card.set(processes0=0)
    assert run.communicate()[0].startswith("locked")


def test_where_the_base_clock_is_not_known_one_is_to_be_named(card: Card) -> None:
    card.nvidia_smi("#!/bin/sh\necho Graphics: N/A\n")
    assert_one_line(card.run("measure", 0, 0), "the base clock is not known", "lock_sm_mhz=")
    assert card.calls == []
    assert card.run("measure", 1500, 0).stdout.startswith("locked 1500 3201")


def test_a_memory_clock_that_cannot_be_locked_is_reported_where_it_was_named(card: Card) -> None:
    card.set(unsupported_lock_memory=1)
    assert card.run("measure", 0, 0).stdout == "locked 1500 None\nkept 10 None\n"
    assert_one_line(card.run("measure", 0, 3201), "cannot be locked: NVML says Not Supported")
    card.assert_free()


# ---- by default nothing is set -------------------------------------------------------------------


def test_by_default_no_stage_sets_anything(card: Card) -> None:
    assert card.run("boost").returncode == 0
    out = card.folder / "out"
    done = run_module("experiments.stages.try_lock", "--out", out, **card.env())
    assert done.returncode == 0
    assert read_json(out, Manifest).left_out == {"locked": [clocks.NOT_ASKED]}
    done = card.run(*card.bench("sgemm_ladder", "cublas_fp32"), program=BENCH)
    assert done.returncode == 0, done.stderr
    assert {row.clock_policy for row in card.measured().rows["windows"]} == {"boost"}
    assert card.calls == [] and not card.states.exists()


def test_the_trial_is_over_in_a_moment(card: Card) -> None:
    out = card.folder / "out"
    trial = ("experiments.stages.try_lock", "--lock", "--out", out)
    done = run_module(*trial, **card.env())
    assert done.stderr.startswith("clocks can be locked: SM locked at 1500 MHz and memory at 3201")
    assert read_json(out, Manifest).left_out == {} and card.calls == LOCK + RESET


# ---- the samples ---------------------------------------------------------------------------------

ROLES = np.array(["variant", "baseline"] * 6)


def test_a_sample_is_on_target_within_a_percent() -> None:
    mhz = np.array([1500, 1485, 1515, 1484.9, 1515.1, np.nan])
    assert on_target(mhz, 1500).tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    ("off", "gaps", "message"),
    [
        ([0, 2, 4], [], None),  # 3 of 6 are left.
        ([0, 2, 4, 6], [], "4 of 12 samples were more than 1% off the locked 1500 MHz (their med"),
        (range(1, 12, 2), [], "6 of 12 samples"),
        ([0, 2], [4, 6, 8, 10], None),  # Launch gaps are reported in another way.
    ],
)
def test_a_size_with_too_few_samples_on_target_is_left_out(
    off: list[int], gaps: list[int], message: str | None
) -> None:
    clock, kept, target = np.full(12, 1500.0), np.ones(12, bool), Target(1500, None)
    clock[list(off)], kept[list(gaps)] = 1980.0, False
    samples = Samples(np.ones(12), clock, kept)
    rejected = bench.why_rejected(samples, target)
    reason = bench.off_target(Interleaved(samples, ROLES), rejected, target, "power_cap")
    assert (reason is None) if message is None else reason.startswith(message), reason


def test_why_a_sample_is_rejected() -> None:
    clock, kept = np.array([1500.0, 1980.0, np.nan, 1980.0]), np.array([True, True, True, False])
    samples = Samples(np.ones(4), clock, kept)
    assert bench.why_rejected(samples, None).tolist() == ["", "", NO_CLOCK, GAP]
    locked = bench.why_rejected(samples, Target(1500, None))
    assert locked.tolist() == ["", OFF_TARGET, NO_CLOCK, GAP]


def measured(
    card: Card, *more: object, what: tuple[str, ...] = NAIVE_LOCKED, **changes: str
) -> tuple[subprocess.CompletedProcess[str], list[dict], str]:
    """A leg, by default the SGEMM ladder's naive kernel locked: its rows of analysis.timings and
    what was left out.
    """
    done = card.run(*card.bench(*what, *more), program=BENCH, **changes)
    run, rows = card.measured(), []
    if run.samples:
        samples, windows = pa.concat_tables(run.samples).to_pandas(), map(vars, run.rows["windows"])
        rows = timings(pd.DataFrame(windows), samples, 132).to_dict("records")
    return done, rows, "; ".join(run.left_out["locked"])


def test_a_locked_leg_has_its_regime_mechanism_and_rejected_samples(card: Card) -> None:
    done, (row,), left_out = measured(card, DRIFT="7")
    assert (row["clock_policy"], row["sm_clock_mhz"]) == ("locked", 1500), done.stderr
    assert row["clock_source"] == "SM locked at 1500 MHz and memory at 3201 MHz, through NVML"
    # with a gap each
    assert (row["processes"], row["samples"], row["rejected"], left_out) == (5, 5 * 13, 5 * 7, "")
    assert (row["power_w"], row["throttle_reasons"]) == (500, "power_cap")
    run = card.measured()
    windows = run.rows["windows"]
    assert [window.process for window in windows] == [0, 1, 2, 3, 4]
    assert {(window.locked_sm_mhz, window.passed, window.left_out) for window in windows} == {
        (1500, True, None)
    }
    samples = pa.concat_tables(run.samples).to_pandas()
    assert samples["reason"].value_counts().to_dict() == {OFF_TARGET: 5 * 6, GAP: 5}
    assert card.calls == (LOCK + RESET) * 5  # each process locks the clocks, and unlocks them


def test_each_kind_of_data_is_timed_and_checked_at_each_size(card: Card) -> None:
    done, rows, _ = measured(card, what=("clock_policies", "sgemm_t128x128x8"))
    expected = [(8192, data) for data in ("zeros", "uniform", "normal")]
    assert [(row["n"], row["data"]) for row in rows] == expected, done.stderr
    run = card.measured()
    cases = [(row.n, row.case) for row in run.timed_checks if row.variant != "cublas_fp32"]
    case = "after timing clock_policies"
    assert cases == [(n, case + (f", {data}" * (data != "uniform"))) for n, data in expected]
    samples = pa.concat_tables(run.samples).to_pylist()
    assert {(row["n"], row["data"]) for row in samples} == set(expected)
    assert "n = 8192, normal (15/15): " in done.stderr


def test_a_run_that_is_killed_while_it_measures_locked_unlocks_and_leaves_no_process(
    card: Card,
) -> None:
    """The process that measures is signalled when the one that waits for it dies, however that
    ends.
    """
    begun = card.folder / "begun"
    run = card.start(*card.bench(*NAIVE_LOCKED), program=BENCH, WAIT=str(begun))
    wait_until(begun.exists, run)
    assert card.locked == LOCKED
    (measuring,) = map(int, Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())
    run.kill()
    run.wait()
    wait_until(lambda: card.locked == FREE and not Path(f"/proc/{measuring}").exists())
    assert not (card.folder / "manifest.json").exists()


def test_a_card_that_ignores_the_lock_leaves_the_leg_out_and_the_run_goes_on(card: Card) -> None:
    card.set(ignore=1)
    kept = "kept 0 the memory ran at 1593 MHz, not 3201"
    assert card.run("measure", 0, 0).stdout == f"locked 1500 3201\n{kept}\n"
    done, rows, left_out = measured(card)
    assert done.returncode == 0 and rows == []
    assert left_out.startswith(
        "sgemm_naive, n = 4096, uniform: 39 of 40 samples were more than 1% off the locked 1500 MHz"
    )
    (window,) = card.measured().rows["windows"]
    assert window.passed and left_out.endswith(window.left_out)
    assert "throttle reasons: power_cap=0.750" in left_out and window.left_out in done.stderr
    assert card.locked == FREE


def test_a_refused_locked_leg_stops_with_one_line_and_writes_nothing(card: Card) -> None:
    done, rows, _ = measured(card, "--sm-mhz", 1501)
    assert_one_line(done, "lock_sm_mhz = 1501")
    assert rows == [] and not (card.folder / "manifest.json").exists()
