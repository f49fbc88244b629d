"""The examples of docstrings, and the programs in `examples/first`, do what is said of them."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from exec_programs import Programs

import ptxsim
from ptxsim.ptx.compiler import compile_ptx

FIRST = Path(ptxsim.__file__).parent / "examples" / "first"
WITH_EXAMPLES = {"Accepted", "Array", "Struct", "TensorMap", "load", "predict"}
WITH_EXAMPLES |= {f"Kernel.{method}" for method in ("annotate", "count", "launch")}


def test_the_examples_of_docstrings_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIRST)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    globs, names = {"np": np, "ptxsim": ptxsim}, set()
    for name in ptxsim.__all__:
        # doctest looks for no inherited methods, such as `Kernel.launch`.
        public = getattr(ptxsim, name)
        for value in getattr(public, "__mro__", [public]):
            if not getattr(value, "__module__", "ptxsim").startswith("ptxsim"):
                continue
            for test in doctest.DocTestFinder().find(value, name, module=False, globs=globs):
                if test.examples:
                    assert runner.run(test).failed == 0
                    names.add(test.name)
    assert names >= WITH_EXAMPLES


def test_the_first_example_of_the_readme_prints_what_stands_there(
    programs: Programs, tmp_path: Path
) -> None:
    programs.path("gemm")  # skips where there is no compiler
    text = (FIRST.parent.parent / "README.md").read_text()
    example = re.search(r"^```console\n(.*?)^```$", text, re.M | re.S)[1]
    shutil.copy(FIRST / "matmul.cu", tmp_path)
    printed = ""
    for command in re.findall(r"^\$ ptxsim (.*)$", example, re.M):
        done = subprocess.run(
            programs.command(*shlex.split(command)),
            cwd=tmp_path,
            env=programs.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        printed += f"$ ptxsim {command}\n{done.stdout}"
    seconds = r"\d+\.\d+ s\b"
    assert re.sub(seconds, "", printed) == re.sub(seconds, "", example)


def test_scale_ptx_is_scale_cu(ptx: Callable[[str], str]) -> None:
    ptx("faults.cu")  # skips where there is no compiler
    code = lambda text: re.findall(r"^\s+([a-z].*;)$", text, re.M)
    compiled = compile_ptx(FIRST / "scale.cu", "sm_75")
    assert code(compiled) == code((FIRST / "scale.ptx").read_text())
