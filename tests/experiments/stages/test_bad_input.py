"""Commands with bad input, as real processes: one clear line, exit code 2, nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, assert_one_line, environment, heed_ctrl_c, run_module, stuck_nvcc, wait_until

from contracts import UserError, read_rows, write_rows
from experiments.stages import profile

ARCHIVED = [
    "bench.csv",
    "checks.csv",
    "counters.csv",
    "resources.csv",
    "machine.json",
    "provenance.json",
    "samples.parquet",
    "windows.csv",
]


def outputs(tmp_path: Path, *names: str) -> list[object]:
    """Options --NAME FILE, with files in a folder of their own."""
    return [word for name in names for word in (f"--{name}", tmp_path / "out" / name)]


COMMANDS = {
    "build": ["--arch", "sm_90a", "--out-dir"],
    "check": ["--build-dir", "b", "--out"],
    "profile_target": ["--size", "1024", "--build-dir"],
    "profile": ["--size", "1024", "--build-dir", "b", "--left-out", "left_out", "--out"],
}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_an_unknown_variant_gives_the_nearest(command: str, tmp_path: Path) -> None:
    done = run_module(f"experiments.stages.{command}", "sgemm_warptle", *COMMANDS[command], "out", cwd=tmp_path)
    assert_one_line(done, "unknown variant 'sgemm_warptle' in kernels/catalogue.yaml", "nearest: sgemm_warptile")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("experiment", "variant", "words"),
    [
        ("sgemm_ladder", "sgemm_warptle", ["unknown variant 'sgemm_warptle'", "nearest: sgemm_warptile"]),
        (
            "sgemm_lader",
            "sgemm_warptile",
            ["unknown experiment 'sgemm_lader' in experiments/", "nearest: sgemm_ladder"],
        ),
        ("hgemm_ladder", "sgemm_warptile", ["sgemm_warptile takes no part in hgemm_ladder; it has hgemm_naive_bf16"]),
        ("sgemm_ladder", "sgemm_warptile", ["no GPU"]),
    ],
)
def test_what_cannot_be_timed_is_one_line(experiment: str, variant: str, words: list[str], tmp_path: Path) -> None:
    arguments = ["--build-dir", tmp_path, *outputs(tmp_path, "windows", "checks", "samples")]
    assert_one_line(run_module("experiments.stages.bench", experiment, variant, *arguments), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("check", ["sgemm_naive"]), ("profile_target", ["sgemm_naive", "--size", "128"]), ("machine", ["--machine", "m"])],
)
def test_no_gpu_is_one_line(command: str, arguments: list[str], tmp_path: Path) -> None:
    out = [] if command == "profile_target" else outputs(tmp_path, "out")
    assert_one_line(run_module(f"experiments.stages.{command}", *arguments, "--build-dir", tmp_path, *out), "no GPU")
    assert not (tmp_path / "out").exists()


def test_a_library_is_not_checked_by_itself(tmp_path: Path) -> None:
    done = run_module("experiments.stages.check", "cublas_fp32", "--build-dir", tmp_path, *outputs(tmp_path, "out"))
    assert_one_line(done, "cublas_fp32 is a library baseline")


def test_a_variant_that_failed_its_check_is_not_timed(tmp_path: Path, archive: Path) -> None:
    """Empty tables, with no GPU asked for; its name on the terminal."""
    rows = [row for row in read_rows(archive / "checks.csv", "checks") if row["variant"] == "sgemm_naive"]
    write_rows(tmp_path / "checked.csv", "checks", [rows[0] | {"passed": False, "detail": "planted"}, *rows[1:]])
    arguments = ["--checked", tmp_path / "checked.csv", "--build-dir", tmp_path]
    arguments += outputs(tmp_path, "windows", "checks", "samples")
    done = run_module("experiments.stages.bench", "sgemm_ladder", "sgemm_naive", *arguments)
    assert done.returncode == 0, done.stderr
    assert "sgemm_naive" in done.stderr and "fail" in done.stderr
    assert read_rows(tmp_path / "out" / "windows", "windows") == []


# ---- profile ----------------------------------------------------------------------------------------------------


def test_without_ncu_the_profile_is_left_out_with_a_remedy(tmp_path: Path) -> None:
    """Not a fault of the run: an empty table, exit code 0, and the reason in a file."""
    arguments = ["--size", 1024, "--build-dir", tmp_path, *outputs(tmp_path, "out", "left-out")]
    done = run_module("experiments.stages.profile", "sgemm_naive", *arguments, PATH=str(tmp_path))
    assert done.returncode == 0
    reason = "no ncu on PATH; remedy: install NVIDIA Nsight Compute"
    assert done.stderr == f"profile left out: {reason}\n"
    assert (tmp_path / "out" / "left-out").read_text() == reason
    assert read_rows(tmp_path / "out" / "out", "counters") == []


def fake_ncu(tmp_path: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in ncu's place, with the module beside it, that fails as told."""
    program, module = tmp_path / "ncu", tmp_path / "extras" / "python" / "ncu_report.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("GEMM_LADDER_LEASE_HELD", "1")  # there is no GPU to lease
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_no_permission_for_counters_is_left_out_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path, "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters", monkeypatch)
    with pytest.raises(profile.LeftOut) as reason:
        profile.profile(profile.catalogue.find("sgemm_naive"), 1024, tmp_path)
    for words in ("ERR_NVGPUCTRPERM", "remedy: run as root", "NVreg_RestrictProfilingToAdminUsers=0"):
        assert words in str(reason.value)


def test_an_old_ncu_is_left_out_with_the_version_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ncu(tmp_path, "Version 2021.1.0.0 (build 29523617)", monkeypatch)
    with pytest.raises(profile.LeftOut, match=r"ncu 2021\.1 is too old; remedy: Nsight Compute 2022\.3 or newer"):
        profile.profile(profile.catalogue.find("sgemm_naive"), 1024, tmp_path)


def test_an_ncu_that_does_not_know_the_gpu_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ncu(tmp_path, "==ERROR== Profiling is not supported on this device", monkeypatch)
    with pytest.raises(profile.LeftOut, match="ncu: Profiling is not supported on this device; remedy"):
        profile.profile(profile.catalogue.find("sgemm_naive"), 1024, tmp_path)


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
    def metric_by_name(self, name): return Metric()
    def name(self): return "sgemm_naive"
class Range:
    def num_actions(self): return 1
    def action_by_idx(self, i): return Action()
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
    rows, unknown = profile.profile(profile.catalogue.find("sgemm_naive"), 1024, tmp_path)
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
    arguments = ["sgemm_naive", "--size", 1024, "--build-dir", tmp_path, *outputs(tmp_path, "out", "left-out")]
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
        profile.profile(profile.catalogue.find("sgemm_naive"), 1024, tmp_path)


# ---- archive and verdict ----------------------------------------------------------------------------------------


@pytest.fixture
def measured(tmp_path: Path, archive: Path) -> Path:
    """A folder that could be archived."""
    folder = tmp_path / "measured"
    folder.mkdir()
    for name in ARCHIVED:
        shutil.copyfile(archive / name, folder / name)
    return folder


def test_what_is_whole_is_archived(measured: Path, tmp_path: Path) -> None:
    done = run_module("experiments.stages.archive", "--measured", measured, "--data", tmp_path / "data" / "mine")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "data" / "mine").iterdir()} == {*ARCHIVED, "archived.json"}
    for name in ARCHIVED:
        archived = tmp_path / "data" / "mine" / name
        if name in ("machine.json", "provenance.json"):  # they say which folder it is
            before, after = (json.loads(path.read_text()) for path in (measured / name, archived))
            assert before | {"machine": "mine"} == after
        else:
            assert archived.read_bytes() == (measured / name).read_bytes()


def test_a_file_of_an_earlier_run_keeps_that_run_s_origin(measured: Path, archive: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"

    def archived() -> dict[str, dict]:
        done = run_module("experiments.stages.archive", "--measured", measured, "--data", data)
        assert done.returncode == 0, done.stderr
        return json.loads((data / "archived.json").read_text())

    shutil.copyfile(archive / "smem_microbench.csv", measured / "smem_microbench.csv")
    first = archived()
    runs = [
        {key: value for key, value in first[name].items() if key != "sha256"}
        for name in ("smem_microbench.csv", "bench.csv")
    ]
    assert runs[0] == runs[1] and first["smem_microbench.csv"]["sha256"] != first["bench.csv"]["sha256"]
    (measured / "smem_microbench.csv").unlink()
    later = json.loads((measured / "provenance.json").read_text()) | {"commit": "later"}
    (measured / "provenance.json").write_text(json.dumps(later))
    second = archived()
    assert second["smem_microbench.csv"] == first["smem_microbench.csv"] and second["bench.csv"]["commit"] == "later"


def test_one_table_alone_leaves_the_others_as_they_are(measured: Path, archive: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(archive, data)
    for name in ARCHIVED:
        if name != "provenance.json":
            (measured / name).unlink()
    shutil.copyfile(archive / "smem_microbench.csv", measured / "smem_microbench.csv")
    (data / "smem_microbench.csv").unlink()
    before = {path.name: path.read_bytes() for path in data.iterdir() if path.name != "archived.json"}
    done = run_module(
        "experiments.stages.archive", "--measured", measured, "--data", data, "--only", "smem_microbench.csv"
    )
    assert done.returncode == 0, done.stderr
    assert (data / "smem_microbench.csv").is_file() and all(
        (data / name).read_bytes() == text for name, text in before.items()
    )
    assert "smem_microbench.csv" in json.loads((data / "archived.json").read_text())
    for name, words in {"bench.csv": ["unknown file", "nearest"], "tuning.csv": ["tuning.csv is missing"]}.items():
        done = run_module("experiments.stages.archive", "--measured", measured, "--data", data, "--only", name)
        assert_one_line(done, *words)


@pytest.mark.parametrize("name", ARCHIVED)
@pytest.mark.parametrize("fault", ["is missing", "truncated"])
def test_what_is_not_whole_is_not_archived(name: str, fault: str, measured: Path, tmp_path: Path) -> None:
    """One line that names the file, and the archive that is there stays as it is."""
    target = tmp_path / "data"
    target.mkdir()
    (target / "bench.csv").write_text("older")
    whole = (measured / name).read_bytes()
    if fault == "is missing":
        (measured / name).unlink()
    else:
        (measured / name).write_bytes(whole[: len(whole) // 2])
    done = run_module("experiments.stages.archive", "--measured", measured, "--data", target)
    assert_one_line(done, name, fault)
    assert [(path.name, path.read_text()) for path in target.iterdir()] == [("bench.csv", "older")]


def failing(folder: Path) -> None:
    """Let one of warptile's checks have failed."""
    rows = read_rows(folder / "checks.csv", "checks")
    row = next(row for row in rows if row["variant"] == "sgemm_warptile")
    row |= {"passed": False, "detail": "C[0, 0] = 1, expected 2"}
    write_rows(folder / "checks.csv", "checks", rows)


def test_what_failed_a_check_is_not_archived(measured: Path, tmp_path: Path) -> None:
    failing(measured)
    done = run_module("experiments.stages.archive", "--measured", measured, "--data", tmp_path / "data")
    assert_one_line(done, "sgemm_warptile failed its check 'one tile, one k-step'; not archived")
    assert not (tmp_path / "data").exists()


def test_the_verdict_names_what_failed_and_leaves_no_file(measured: Path, tmp_path: Path) -> None:
    count = len(read_rows(measured / "checks.csv", "checks"))
    arguments = ("--checks", measured / "checks.csv", "--out", tmp_path / "verdict.txt")
    assert run_module("experiments.stages.require_passed", *arguments).returncode == 0
    assert (tmp_path / "verdict.txt").read_text() == f"{count} checks passed\n"
    (tmp_path / "verdict.txt").unlink()
    failing(measured)
    done = run_module("experiments.stages.require_passed", *arguments)
    said = f"1 of {count} checks failed, of: sgemm_warptile; first: sgemm_warptile, one tile, one k-step: C[0, 0] = 1"
    assert_one_line(done, said)
    assert not (tmp_path / "verdict.txt").exists()


# ---- others -----------------------------------------------------------------------------------------------------


def test_a_part_that_is_not_whole_is_not_merged(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "part.csv").write_bytes((archive / "checks.csv").read_bytes()[:5000])
    done = run_module("experiments.stages.merge", "checks", tmp_path / "part.csv", "--out", tmp_path / "all.csv")
    assert_one_line(done, "part.csv", "truncated")
    assert not (tmp_path / "all.csv").exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    done = run_module("kernels.catalogue", "--out", tmp_path / "results" / "variants.csv")
    assert_one_line(done, "cannot write", "results/variants.csv")
    done = run_module(
        "experiments.stages.build", "sgemm_naive", "--arch", "sm_90a", "--out-dir", tmp_path / "results" / "b"
    )
    assert_one_line(done, "cannot write", "results/b/sgemm_naive.cu")


def test_a_build_that_is_interrupted_leaves_no_cubin(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "experiments.stages.build",
        "sgemm_warptile",
        "--arch",
        "sm_90a",
        "--out-dir",
        str(tmp_path / "out"),
        "--nvcc",
        str(stuck_nvcc(tmp_path)),
    ]
    started = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    )
    wait_until((tmp_path / "waiting").exists, started)
    assert list((tmp_path / "out").glob(".sgemm_warptile-*.ptx"))
    os.killpg(started.pid, signal.SIGINT)
    words = started.communicate()[1]
    assert started.returncode == 130 and words == "interrupted: nothing was written\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["sgemm_warptile.cu"]
