"""Profiling where ncu is missing, refuses, or does not know a counter: left out with a remedy, or
one line.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import assert_one_line, run_module

from contracts import UserError, read_json
from contracts.rows import Manifest
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
    def num_actions(self): return 1
    def action_by_idx(self, i): return Action("sgemm_naive")
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
    files = ["--store", folder / "measured", "--out", folder / "out" / "manifest.json"]
    return [
        "experiments.stages.profile",
        "sgemm_naive",
        "--problem",
        problem,
        "--build-dir",
        folder,
        *files,
    ]


def manifest(folder: Path) -> Manifest:
    return read_json(folder / "out" / "manifest.json", Manifest)


def test_without_ncu_the_profile_is_left_out_with_a_remedy(tmp_path: Path) -> None:
    """Not a fault of the run: exit code 0, no measurement, and the reason in the manifest."""
    done = run_module(*command(tmp_path), PATH=str(tmp_path))
    reason = "no ncu on PATH; remedy: install NVIDIA Nsight Compute"
    assert (done.returncode, done.stderr) == (0, f"profile left out: {reason}\n")
    assert manifest(tmp_path).left_out == {"profile": [reason]}
    assert manifest(tmp_path).measurements == []


def test_the_counters_of_an_entry_are_of_its_longest_kernel(pretended: Path) -> None:
    """A library may launch several; a counter that the longest lacks has no row, though another
    kernel has it.
    """
    time = "gpu__time_duration.sum"
    times = {"fills": 1.0, "multiplies": 9.0, "adds": 2.0}
    kernels = [
        {"name": name, "metrics": {time: (us, "us"), name: (us, "")}} for name, us in times.items()
    ]
    rows = profile.longest_kernel(kernels, NAIVE, SQUARE, [time, *times], pretended)
    assert [(row.metric, row.value, row.kernel) for row in rows] == [
        (time, 9.0, "multiplies"),
        ("multiplies", 9.0, "multiplies"),
    ]


@pytest.mark.parametrize(
    ("output", "named"),
    [
        ("==ERROR== Failed to find metric a__b.sum", ["a__b.sum"]),
        # not a__b.sum, which is part of it
        ("==WARNING== no a__b.sum.per_second here", ["a__b.sum.per_second"]),
        ("==ERROR== Failed to find metric sm__a__b.sum", []),
        ("==ERROR== a__b.sum: unknown.", ["a__b.sum"]),  # a sentence ends
        (
            "==ERROR== not a__b.sum,\n==WARNING== nor a__b.sum.per_second.",
            ["a__b.sum", "a__b.sum.per_second"],
        ),
        ("==PROF== a__b.sum is read", []),
        ("==ERROR== a__bxsum", []),
    ],
)
def test_the_counters_that_ncu_complains_of_are_found_whole(output: str, named: list[str]) -> None:
    assert profile.named_in_errors(["a__b.sum", "a__b.sum.per_second"], output) == named


def test_counters_with_beta_say_so(pretended: Path) -> None:
    kernels = [{"name": "k", "metrics": {"gpu__time_duration.sum": (5.0, "ns")}}]
    for problem, beta in ((ProblemSpec(64, 32, 16, beta=1.5), 1.5), (SQUARE, None)):
        (row,) = profile.longest_kernel(
            kernels, NAIVE, problem, ["gpu__time_duration.sum"], pretended
        )
        assert getattr(row, "beta", None) == beta


@pytest.mark.parametrize(
    ("says", "error", "words"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - no permission",
            profile.LeftOut,
            ["NVreg_RestrictProfilingToAdminUsers=0"],
        ),
        ("Version 2021.1.0.0 (build 29523617)", profile.LeftOut, ["2021.1", "2022.3"]),
        (
            "==ERROR== Profiling is not supported on this device",
            profile.LeftOut,
            ["not supported", "remedy"],
        ),
        (
            "==ERROR== The application crashed",
            UserError,
            ["ncu failed on sgemm_naive: ==ERROR== The application"],
        ),
    ],
)
def test_where_counters_cannot_be_read_the_reason_is_said(
    says: str, error: type[Exception], words: list[str], ncu: Callable[..., None], tmp_path: Path
) -> None:
    ncu(f"echo '{says}'; exit 1")
    with pytest.raises(error) as reason:
        profile.profile(NAIVE, SQUARE, tmp_path)
    assert [word for word in words if not re.search(word, str(reason.value))] == []


def test_a_counter_that_ncu_does_not_know_is_named_and_the_others_are_read(
    ncu: Callable[..., None], pretended: Path
) -> None:
    """The real reader on a stand-in of its module, in a process of its own."""
    ncu(REFUSES + WRITES, NCU_REPORT)
    rows, unknown = profile.profile(NAIVE, SQUARE, pretended)
    assert unknown == ["l1tex__t_sector_hit_rate.pct"]
    assert {row.metric for row in rows} == {*profile.metric_names()} - {*unknown}


class Ncu:
    """Stands for ncu with `profile_target` under it: a report has one line a kernel, three for each
    library.

    `fails`: the entry whose process ends, its kernel `seen` before or not; `odd`: one that has so
    `many` lines.
    """

    def __init__(self, fails: str = "", seen: bool = False, odd: str = "", many: int = 0) -> None:
        self.fails, self.seen, self.odd, self.many = fails, seen, odd, many
        self.started: list[list[str]] = []

    def launched(
        self, ncu: Path, names: object, report: Path, command: list[str], *_: str
    ) -> tuple[bool, str]:
        then = command.index("--then") if "--then" in command else len(command)
        named = [
            command[2],
            *itertools.takewhile(lambda word: not word.startswith("--"), command[then + 1 :]),
        ]
        entries, lines, done = (
            [catalogue.load().find(name) for name in named],
            list[str](),
            list[str](),
        )
        self.started.append(named)
        for entry, mark in zip(entries, profile.marked(entries), strict=True):
            lines += [profile.MARK] if mark else []
            if entry.name != self.fails or self.seen:
                lines += [entry.name] * (
                    self.many if entry.name == self.odd else 3 if entry.name in LIBRARIES else 1
                )
            if entry.name == self.fails:
                break
            done.append(json.dumps({"variant": entry.name, "session": entry.name}))
        report.write_text("\n".join(lines))
        Path(command[command.index("--done") + 1]).write_text("\n".join(done))
        return self.fails not in named, "error: it ended"

    def read(self, folder: Path, report: Path, names: object) -> list[dict[str, object]]:
        duration = {"gpu__time_duration.sum": [1.0, "ns"]}
        return [{"name": name, "metrics": duration} for name in report.read_text().split()]


OURS, LIBRARIES = (
    ["sgemm_naive", "sgemm_coalesced", "sgemm_smem_tile"],
    ["cublas_fp32", "torch_matmul_fp32"],
)
MIXED = [LIBRARIES[0], *OURS, LIBRARIES[1]]


@pytest.mark.parametrize(
    ("asked", "faults", "without", "starts"),
    [
        (OURS, {}, [], 1),
        ([*OURS, *LIBRARIES], {}, [], 1),
        (MIXED, {}, [], 1),
        ([*OURS, *LIBRARIES, *OURS, *LIBRARIES, *OURS], {}, [], 1),
        *(
            (
                asked,
                {"fails": asked[place], "seen": seen},
                [asked[place]],
                1 if place == len(asked) - 1 else 2,
            )
            for asked in (OURS, MIXED, [*OURS, *LIBRARIES])
            for place in range(len(asked))
            for seen in (False, True)
        ),
        # two or four kernels of three entries: nobody knows whose, so that ncu starts for fewer
        *(([*OURS, *LIBRARIES], {"odd": name}, [name], None) for name in OURS),
        *(([*OURS, *LIBRARIES], {"odd": name, "many": 2}, [], None) for name in OURS),
        (MIXED, {"odd": LIBRARIES[0]}, [LIBRARIES[0]], 1),
    ],
)
def test_each_entry_has_its_own_counters_and_ncu_starts_once_for_many(
    asked: list[str],
    faults: dict,
    without: list[str],
    starts: int | None,
    pretended: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in = Ncu(**faults)
    monkeypatch.setattr(profile, "launched", stand_in.launched)
    monkeypatch.setattr(profile, "read_report", stand_in.read)
    monkeypatch.setattr(profile, "report_folder", lambda ncu: ncu)
    monkeypatch.setattr(profile, "check_version", lambda ncu: None)
    monkeypatch.setattr(profile, "code_of", lambda entry, build_dir: "0" * 16)
    known = catalogue.load()
    session = profile.Session(SQUARE, pretended, ncu=pretended, names=["gpu__time_duration.sum"])
    found = [
        (entry.name, result)
        for entry, result in session.count([known.find(name) for name in asked])
    ]
    assert [name for name, _ in found] == asked
    for name, result in found:
        if name in without:
            assert (
                result == f"ncu failed on {name}: error: it ended"
                if "fails" in faults
                else result.rows == []
            )
        else:
            assert [row.kernel for row in result.rows] == [name] and result.session == name
    assert starts in (None, len(stand_in.started))


def test_a_foreign_report_is_left_out_or_where_asked_for_by_name_an_error(
    ncu: Callable[..., None], pretended: Path
) -> None:
    ncu(WRITES, "def load_report(path):\n    raise ValueError('foreign')")
    path = {"PATH": os.environ["PATH"]}
    done = run_module(*command(pretended), **path)
    assert done.returncode == 0 and "not a report that this ncu's module can read" in done.stderr
    assert "remedy" in manifest(pretended).left_out["profile"][0]
    assert_one_line(
        run_module(*command(pretended), **path, **{profile.REQUIRED: "1"}),
        "no counters of sgemm_naive",
    )
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
