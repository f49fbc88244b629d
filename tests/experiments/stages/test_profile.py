"""Profiling where ncu is missing, refuses, or does not know a counter: left out with a remedy, or one line."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_one_line, run_module

from contracts import UserError, read_rows
from experiments.stages import profile
from kernels import catalogue
from kernels.problem import ProblemSpec

SQUARE = ProblemSpec.square(1024)
NAIVE = catalogue.load().find("sgemm_naive")
# An ncu that writes a report, unless it is asked for one counter
REFUSES = """
case "$*" in
    *l1tex__t_sector_hit_rate.pct*) echo '==ERROR== Failed to find metric l1tex__t_sector_hit_rate.pct'; exit 1;;
esac
"""
WRITES = """
while [ "$1" != --export ]; do shift; done
[ "$(dirname "$2")" = "$TMPDIR" ] || exit 1  # else its lock is that of every ncu on this system
echo 'a report' > "$2.ncu-rep"
"""
NCU_REPORT = """
class Metric:
    def as_double(self): return 1.0
    def unit(self): return ""
class Action:
    def __init__(self, name): self.kernel = name
    def metric_by_name(self, name): return Metric()
    def name(self): return self.kernel
class Range:
    def num_actions(self): return 2
    def action_by_idx(self, i): return Action(["next_entry", "sgemm_naive"][i])
class Report:
    def range_by_idx(self, i): return Range()
def load_report(path): return Report()
"""


@pytest.fixture
def ncu(pretended: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function: a script in ncu's place, first on PATH, and the module next to it."""
    monkeypatch.setenv("PATH", str(pretended) + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("GEMM_LADDER_GPU_HELD", "1")  # there is no GPU to hold

    def install(script: str, module: str = "") -> None:
        (pretended / "extras" / "python").mkdir(parents=True)
        (pretended / "extras" / "python" / "ncu_report.py").write_text(module)
        (pretended / "ncu").write_text(f"#!/bin/sh\n{script}\n")
        (pretended / "ncu").chmod(0o755)

    return install


def command(folder: Path, problem: object = 1024) -> list[object]:
    files = [word for name in ("out", "with-beta", "left-out") for word in (f"--{name}", folder / "out" / name)]
    return ["experiments.stages.profile", "sgemm_naive", "--problem", problem, "--build-dir", folder, *files]


@pytest.mark.parametrize("problem", ["1024", "1024,beta=1"])
def test_without_ncu_the_profile_is_left_out_with_a_remedy(problem: str, tmp_path: Path) -> None:
    """Not a fault of the run: an empty table, exit code 0, and the reason in a file."""
    done = run_module(*command(tmp_path, problem), PATH=str(tmp_path))
    reason = "no ncu on PATH; remedy: install NVIDIA Nsight Compute"
    assert (done.returncode, done.stderr) == (0, f"profile left out: {reason}\n")
    assert (tmp_path / "out" / "left-out").read_text() == reason
    table, path = ("counters_with_beta", "with-beta") if "beta" in problem else ("counters", "out")
    assert read_rows(tmp_path / "out" / path, table) == []


def test_the_counters_of_an_entry_are_of_its_longest_kernel(pretended: Path) -> None:
    """A library may launch several; a counter that the longest lacks has no row, though another kernel has it."""
    time = "gpu__time_duration.sum"
    times = {"fills": 1.0, "multiplies": 9.0, "adds": 2.0}
    kernels = [{"name": name, "metrics": {time: (us, "us"), name: (us, "")}} for name, us in times.items()]
    rows = profile.longest_kernel(kernels, NAIVE, SQUARE, [time, *times], pretended)
    assert [(row["metric"], row["value"], row["kernel"]) for row in rows] == [
        (time, 9.0, "multiplies"),
        ("multiplies", 9.0, "multiplies"),
    ]
    marked = [{"name": name} for name in ("before", profile.MARK, "a", "b", profile.MARK, profile.MARK, "c")]
    groups = [[kernel["name"] for kernel in group] for group in profile.of_entries(marked)]
    assert groups == [["a", "b"], [], ["c"]]


@pytest.mark.parametrize(
    ("output", "named"),
    [
        ("==ERROR== Failed to find metric a__b.sum", ["a__b.sum"]),
        ("==WARNING== no a__b.sum.per_second here", ["a__b.sum.per_second"]),  # not a__b.sum, which is part of it
        ("==ERROR== Failed to find metric sm__a__b.sum", []),
        ("==ERROR== a__b.sum: unknown.", ["a__b.sum"]),  # a sentence ends
        ("==ERROR== not a__b.sum,\n==WARNING== nor a__b.sum.per_second.", ["a__b.sum", "a__b.sum.per_second"]),
        ("==PROF== a__b.sum is read", []),
        ("==ERROR== a__bxsum", []),
    ],
)
def test_the_counters_that_ncu_complains_of_are_found_whole(output: str, named: list[str]) -> None:
    assert profile.named_in_errors(["a__b.sum", "a__b.sum.per_second"], output) == named


def test_counters_with_beta_say_so(pretended: Path) -> None:
    kernels = [{"name": "k", "metrics": {"gpu__time_duration.sum": (5.0, "ns")}}]
    for problem, beta in ((ProblemSpec(64, 32, 16, beta=1.5), 1.5), (SQUARE, None)):
        (row,) = profile.longest_kernel(kernels, NAIVE, problem, ["gpu__time_duration.sum"], pretended)
        assert row.get("beta") == beta


@pytest.mark.parametrize(
    ("says", "error", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission", profile.LeftOut, ["NVreg_RestrictProfilingToAdminUsers=0"]),
        ("Version 2021.1.0.0 (build 29523617)", profile.LeftOut, ["2021.1", "2022.3"]),
        ("==ERROR== Profiling is not supported on this device", profile.LeftOut, ["not supported", "remedy"]),
        ("==ERROR== The application crashed", UserError, ["ncu failed on sgemm_naive: ==ERROR== The application"]),
    ],
)
def test_where_counters_cannot_be_read_the_reason_is_said(
    says: str, error: type[Exception], words: list[str], ncu: Callable[..., None], tmp_path: Path
) -> None:
    ncu(f"echo '{says}'; exit 1")
    with pytest.raises(error) as reason:
        profile.profile(NAIVE, SQUARE, tmp_path, catalogue.load())
    assert [word for word in words if not re.search(word, str(reason.value))] == []


def test_a_counter_that_ncu_does_not_know_is_named_and_the_others_are_read(
    ncu: Callable[..., None], pretended: Path
) -> None:
    """The real reader on a stand-in of its module, in a process of its own."""
    ncu(REFUSES + WRITES, NCU_REPORT)
    rows, unknown = profile.profile(NAIVE, SQUARE, pretended, catalogue.load())
    assert unknown == ["l1tex__t_sector_hit_rate.pct"]
    assert {row["metric"] for row in rows} == {*profile.metric_names()} - {*unknown}


def test_ncu_starts_once_for_many_entries_and_again_behind_one_that_failed(
    ncu: Callable[..., None], pretended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is profiled is named first, and the others after --then; `bad` ends the process that profiles it."""
    ncu("")
    names, started = [f"entry{number}" for number in range(profile.ENTRIES + 2)], list[list[str]]()
    report = {"name": "k", "metrics": {"gpu__time_duration.sum": (1.0, "us")}}

    def launched(_: Path, metrics: object, path: Path, command: list[str], *options: str) -> tuple[bool, str]:
        several = command.index("--then") + 1 if "--then" in command else 0
        chosen = [command[2], *(itertools.takewhile(lambda word: word[0] != "-", command[several:]) if several else ())]
        started.append(chosen)
        ran = list(itertools.takewhile(lambda name: name != bad, chosen))
        if ran:
            (path.parent / "done").write_text("".join(json.dumps({"session": name}) + "\n" for name in ran))
            path.write_text(json.dumps(ran))
        return ran == chosen, "" if ran == chosen else "error: it hangs"

    def read(_: object, path: Path, metrics: object) -> list[dict[str, Any]]:
        return [kernel for _ in json.loads(path.read_text()) for kernel in ({"name": profile.MARK}, report)]

    monkeypatch.setattr(profile, "launched", launched)
    monkeypatch.setattr(profile, "read_report", read)
    session, bad = profile.Session(SQUARE, pretended, catalogue.load()), names[3]
    monkeypatch.setattr(profile, "code_of", lambda entry, folder: "c")
    found = list(session.count([replace(NAIVE, name=name) for name in names]))
    assert [entry.name for entry, _ in found] == names
    words = {entry.name: one for entry, one in found if isinstance(one, str)}
    assert words == {bad: f"ncu failed on {bad}: error: it hangs"}
    assert all(one.session == entry.name and len(one.rows) == 1 for entry, one in found if not isinstance(one, str))
    assert started == [names[: profile.ENTRIES], names[4:]]


def test_a_foreign_report_is_left_out_or_where_asked_for_by_name_an_error(
    ncu: Callable[..., None], pretended: Path
) -> None:
    ncu(WRITES, "def load_report(path):\n    raise ValueError('foreign')")
    path = {"PATH": os.environ["PATH"]}
    done = run_module(*command(pretended), **path)
    assert done.returncode == 0 and "not a report that this ncu's module can read" in done.stderr
    assert "remedy" in (pretended / "out" / "left-out").read_text()
    assert_one_line(run_module(*command(pretended), **path, **{profile.REQUIRED: "1"}), "no counters of sgemm_naive")
    done = run_module(*command(pretended), "--required", **path)
    assert_one_line(done, "no counters of sgemm_naive", "not a report", "foreign")


def test_what_is_measured_by_name_is_one_line_where_nothing_can_be_counted(
    ncu: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ncu("echo '==PROF== connected\n==ERROR== no such device'; exit 1")
    with pytest.raises(UserError, match="ncu failed: ==ERROR== no such device"):
        profile.under_ncu(["-c", "pass"], ["a__counter.sum"])
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(UserError, match="nothing can be counted: no ncu on PATH; remedy: "):
        profile.under_ncu(["-c", "pass"], ["a__counter.sum"])
