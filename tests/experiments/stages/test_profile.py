"""Profiling where ncu is missing, refuses, or does not know a counter: left out with a remedy, or one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from helpers import ARCHIVE, assert_one_line, run_module

from contracts import UserError, read_rows, write_json
from experiments.stages import profile
from kernels import catalogue
from kernels.problem import ProblemSpec

SQUARE = ProblemSpec.square(1024)


def outputs(tmp_path: Path, *names: str) -> list[object]:
    """Options --NAME FILE, with files in a folder of their own."""
    return [word for name in names for word in (f"--{name}", tmp_path / "out" / name)]


def test_without_ncu_the_profile_is_left_out_with_a_remedy(tmp_path: Path) -> None:
    """Not a fault of the run: an empty table, exit code 0, and the reason in a file."""
    arguments = ["--problem", 1024, "--build-dir", tmp_path, *outputs(tmp_path, "out", "left-out")]
    done = run_module("experiments.stages.profile", "sgemm_naive", *arguments, PATH=str(tmp_path))
    assert done.returncode == 0
    reason = "no ncu on PATH; remedy: install NVIDIA Nsight Compute"
    assert done.stderr == f"profile left out: {reason}\n"
    assert (tmp_path / "out" / "left-out").read_text() == reason
    assert read_rows(tmp_path / "out" / "out", "counters") == []


def test_counters_with_beta_are_a_table_of_their_own(tmp_path: Path) -> None:
    arguments = ["--problem", "1024,beta=1", "--build-dir", tmp_path]
    arguments += outputs(tmp_path, "out", "with-beta", "left-out")
    done = run_module("experiments.stages.profile", "sgemm_naive", *arguments, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert read_rows(tmp_path / "out" / "with-beta", "counters_with_beta") == []
    entry, names = catalogue.load().find("sgemm_naive"), ["gpu__time_duration.sum"]
    write_json(tmp_path / "sgemm_naive.json", "resources", read_rows(ARCHIVE / "resources.csv", "resources")[0])
    kernels = [{"name": "k", "metrics": {"gpu__time_duration.sum": (5.0, "ns")}}]
    assert [
        row.get("beta")
        for row in profile.longest_kernel(kernels, entry, ProblemSpec(64, 32, 16, beta=1.5), names, tmp_path)
    ] == [1.5]
    assert "beta" not in profile.longest_kernel(kernels, entry, SQUARE, names, tmp_path)[0]


def fake_ncu(tmp_path: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in ncu's place, with the module next to it, that fails as asked."""
    program, module = tmp_path / "ncu", tmp_path / "extras" / "python" / "ncu_report.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("GEMM_LADDER_GPU_HELD", "1")  # there is no GPU to session
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_no_permission_for_counters_is_left_out_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path, "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters", monkeypatch)
    with pytest.raises(profile.LeftOut) as reason:
        profile.profile(catalogue.load().find("sgemm_naive"), SQUARE, tmp_path, catalogue.load())
    for words in ("ERR_NVGPUCTRPERM", "remedy: run as root", "NVreg_RestrictProfilingToAdminUsers=0"):
        assert words in str(reason.value)


def test_an_old_ncu_is_left_out_with_the_version_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ncu(tmp_path, "Version 2021.1.0.0 (build 29523617)", monkeypatch)
    with pytest.raises(profile.LeftOut, match=r"ncu 2021\.1 is too old; remedy: Nsight Compute 2022\.3 or newer"):
        profile.profile(catalogue.load().find("sgemm_naive"), SQUARE, tmp_path, catalogue.load())


def test_an_ncu_that_does_not_know_the_gpu_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ncu(tmp_path, "==ERROR== Profiling is not supported on this device", monkeypatch)
    with pytest.raises(profile.LeftOut, match="ncu: Profiling is not supported on this device; remedy"):
        profile.profile(catalogue.load().find("sgemm_naive"), SQUARE, tmp_path, catalogue.load())


REFUSES = """#!/bin/sh
case "$*" in
    *l1tex__t_sector_hit_rate.pct*) echo '==ERROR== Failed to find metric l1tex__t_sector_hit_rate.pct'; exit 1;;
esac
while [ "$1" != --export ]; do shift; done
echo '{content}' > "$2.ncu-rep"
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


def test_a_counter_that_ncu_does_not_know_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real reader on a stand-in of its module, in a process of its own."""
    fake_ncu(tmp_path, "", monkeypatch)
    (tmp_path / "ncu").write_text(REFUSES.replace("{content}", "a report"))
    (tmp_path / "extras" / "python" / "ncu_report.py").write_text(NCU_REPORT)
    rows, unknown = profile.profile(catalogue.load().find("sgemm_naive"), SQUARE, tmp_path, catalogue.load())
    assert unknown == ["l1tex__t_sector_hit_rate.pct"]
    assert {row["metric"] for row in rows} == {*profile.metric_names()} - {*unknown}


def test_a_foreign_report_is_left_out_or_where_asked_for_by_name_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path, "", monkeypatch)
    (tmp_path / "ncu").write_text(REFUSES.replace("*l1tex__t_sector_hit_rate.pct*", "never").replace("{content}", "?"))
    (tmp_path / "extras" / "python" / "ncu_report.py").write_text(
        "def load_report(path):\n    raise ValueError('foreign')"
    )
    arguments = ["sgemm_naive", "--problem", 1024, "--build-dir", tmp_path, *outputs(tmp_path, "out", "left-out")]
    path = {"PATH": os.environ["PATH"]}
    done = run_module("experiments.stages.profile", *arguments, **path)
    assert done.returncode == 0 and "not a report that this ncu's module can read" in done.stderr
    assert "remedy" in (tmp_path / "out" / "left-out").read_text()
    asked = run_module("experiments.stages.profile", *arguments, **path | {profile.REQUIRED: "1"})
    assert_one_line(asked, "no counters of sgemm_naive")
    done = run_module("experiments.stages.profile", *arguments, "--required", **path)
    assert_one_line(done, "no counters of sgemm_naive", "not a report", "foreign")


def test_another_fault_of_ncu_is_an_error_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ncu(tmp_path, "==ERROR== The application crashed", monkeypatch)
    with pytest.raises(UserError, match="ncu failed on sgemm_naive: ==ERROR== The application crashed"):
        profile.profile(catalogue.load().find("sgemm_naive"), SQUARE, tmp_path, catalogue.load())


def test_what_is_measured_by_name_is_one_line_where_nothing_can_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["-c", "pass"]
    fake_ncu(tmp_path, "==PROF== connected\n==ERROR== no such device", monkeypatch)
    with pytest.raises(UserError, match="ncu failed: ==ERROR== no such device"):
        profile.under_ncu(command, ["a__counter.sum"])
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(UserError, match="nothing can be counted: no ncu on PATH; remedy: "):
        profile.under_ncu(command, ["a__counter.sum"])
