"""`ptxsim exec` of programs as they are: graphs, repeats, function pointers, libraries, and what CI
reads.
"""

from __future__ import annotations

import json
import re
import sys
from xml.etree import ElementTree

import pytest

from ptxsim.exec import build

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="stand-ins are shared libraries of Linux"
)


def test_graphs_by_capture_and_by_nodes(programs):
    done = programs.run("graphs")
    assert done.stdout.splitlines() == [
        "0 calls while captured",
        "5 nodes, 2 calls, 93",  # y = 0 + 3 * 31, whichever launch of the two
        "155",
        "217, no error",
        "clone: 155",
        "cudaErrorStreamCaptureUnsupported",
    ], done.stderr
    assert "7 launches of 2 kernels" in done.stderr and "no faults, 1 other error" in done.stderr


def test_each_kernel_and_shape_is_checked_once(programs, tmp_path):
    report = tmp_path / "report.json"
    done = programs.run("repeats", options=["--once", "--leak-check", "--report", str(report)])
    assert done.returncode == 0, done.stderr
    # 6 * 2 / 2 / 3 by function pointers; 5 + 2 steps of the first 32, 2 of the others
    assert done.stdout.splitlines() == ["2", "9 8", "ended", "1 0"]
    found = json.loads(report.read_text())
    checked = [
        (launch["title"], launch["block"][0]) for launch in found["launches"] if launch["checked"]
    ]
    assert checked[:-2] == [
        ("apply", 32),
        ("apply_at", 32),
        ("step", 32),
        ("step", 64),
        ("copy", 32),
    ]
    # a copy of what has not changed is not made again
    again = [launch["left_out"] for launch in found["launches"] if launch["title"] == "copy"]
    assert again == [False, True, True, False, True]
    assert "--once left out 3 of copy: an earlier launch had the same arguments" in done.stderr
    assert all(
        (launch["counters"] is None) == (not launch["checked"]) for launch in found["launches"]
    )
    assert sum("emulation measures no time" in note for note in found["notes"]) == 1
    assert [note for note in found["notes"] if "not freed" in note] == [
        "not freed when the program ended: 1,000 bytes of cudaMalloc at repeats.cu:26, allocated 1 times"
    ]


def test_a_race_on_a_lock_shows_in_one_of_two_orders(programs):
    first, both = (programs.run("repeats", options=["--orders", n]) for n in "12")
    assert first.returncode == 0 and both.returncode == 1, both.stderr
    assert first.stdout == both.stdout
    assert "note: first: with blocks and threads in the opposite order" in both.stderr
    race = r"race in global memory: .* block \(1, 0, 0\), .* in the opposite order\)"
    assert len(re.findall(race, both.stderr)) == 1


def test_once_with_a_sample_runs_later_launches_in_part(programs, tmp_path):
    report = tmp_path / "report.json"
    programs.run("gemm", "64", options=["--once", "--sample", "4", "--report", str(report)])
    (only,) = json.loads(report.read_text())["launches"]
    assert (only["checked"], only["sampled"], only["blocks_run"]) == (True, False, 16)


def test_libraries_do_what_those_of_cuda_do(programs):
    done = programs.run("epilogues")
    assert done.stdout.splitlines() == ["0 wrong", "0 differ"], done.stderr


def test_a_kernel_that_nvrtc_compiles_to_machine_code(programs):
    if not any(path for folder in build.library_folders() for path in folder.glob("libnvrtc.so.*")):
        pytest.skip("NVRTC is not installed next to nvcc")
    done = programs.run("nvrtc")
    assert done.stdout == "NVRTC_ERROR_COMPILATION: 93\n", done.stderr
    assert "1 launch of 1 kernel" in done.stderr and "no faults" in done.stderr


def test_places_in_optimised_host_code(programs):
    done = programs.run("optimised")
    assert "allocation 1 (cudaMalloc at optimised.cu:6)" in done.stderr, done.stderr


def test_reports_for_ci(programs, tmp_path):
    xml, sarif = tmp_path / "tests.xml", tmp_path / "faults.sarif"
    done = programs.run(
        "faults", options=["--junit", str(xml), "--sarif", str(sarif), "--accept", "race=planted"]
    )
    assert done.returncode == 1
    suite = ElementTree.parse(xml).getroot()
    cases = {case.get("name"): case.find("failure") is not None for case in suite}
    # the races are accepted, not what is out of bounds
    assert list(cases.values()) == [False, False, True, False]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    (run,) = json.loads(sarif.read_text())["runs"]
    bounds = run["results"][0]
    place = bounds["locations"][0]["physicalLocation"]
    assert bounds["ruleId"] == "bounds"
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("faults.cu", 28)
