"""The pytest plugin, by the example that the package comes with, and where its assertions fail."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running import fails

import ptxsim
from ptxsim.testing import launch

CI = Path(ptxsim.__file__).parent / "examples" / "ci"


def test_the_examples_pass(compiled, tmp_path):
    """That of the package, and next to its kernel the one of README.md."""
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    folder = shutil.copytree(CI, tmp_path / "ci", ignore=shutil.ignore_patterns("__pycache__"))
    _, example = re.findall(
        r"^```python\n(.*?)^```$", (CI.parents[1] / "README.md").read_text(), re.M | re.S
    )
    plugin, test = example.split("\n\n\n")
    assert plugin.partition("  #")[0] in (folder / "conftest.py").read_text()
    (folder / "test_readme.py").write_text(test)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        str(folder),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr


def faulty(compiled, entry, **options):
    return launch(
        compiled("faults.cu", entry),
        1,
        64,
        [ptxsim.Array(np.zeros(64, np.float32), "a"), 64],
        **options,
    )


def test_faults_are_listed(compiled):
    with pytest.raises(
        AssertionError, match=r"(?s)1 faults:\nglobal_bounds_bad.*faults.cu:7: .*out-of-bounds"
    ):
        faulty(compiled, "global_bounds_bad").assert_no_faults()
    faulty(compiled, "global_bounds_good").assert_no_faults()
    accepted = ptxsim.Accepted("bounds", "faults.cu", 7, "a test")
    faulty(compiled, "global_bounds_bad", accept=[accepted]).assert_no_faults()


def test_costs_are_blamed_on_lines(compiled):
    result = faulty(compiled, "global_bounds_good")
    result.assert_sectors(at_most=8)
    result.assert_sectors(at_most=8, line=8)
    result.assert_excess_sectors(at_most=0)
    result.assert_total("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", at_most=2)
    with pytest.raises(AssertionError, match=r"8 sectors, more than 7\n  faults.cu:8: 8"):
        result.assert_sectors(at_most=7)
    with pytest.raises(AssertionError, match=r"op_st\.sum is 2, more than 1"):
        result.assert_total("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", at_most=1)
    with pytest.raises(AssertionError, match="no counter 'sectors'; there are: l1tex"):
        result.assert_total("sectors", at_most=1)
    with fails("line 9 of its source accesses no memory"):
        result.assert_conflicts(at_most=0, line=9)


def test_notes_are_listed(compiled):
    result = launch(
        compiled("checks.cu", "both_volatile"),
        2,
        64,
        [ptxsim.Array(np.zeros(400, np.float32)) for _ in "ca"],
    )
    with pytest.raises(
        AssertionError, match="volatile accesses of shared memory by several threads meet here"
    ):
        result.assert_no_notes()
