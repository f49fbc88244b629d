"""What README.md, QUESTIONS.md and the docstrings say: examples run, commands are there, and outputs are
what stands under them.
"""

from __future__ import annotations

import doctest
import enum
import inspect
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exec_programs import Programs

import ptxsim
from ptxsim.cli import main
from ptxsim.ptx.compiler import compile_ptx
from ptxsim.ptx.sass import assemble

ROOT = Path(ptxsim.__file__).parent
README = (ROOT / "README.md").read_text()
SOURCE = """
template <int X, int Y> __global__ void tiled(float* c, const float* a, int n) {
    int i = blockIdx.y * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * n) c[i] = a[i] * X;
}
template __global__ void tiled<128, 8>(float*, const float*, int);
"""


def test_the_python_example_runs(tmp_path, ptx, monkeypatch, capsys):
    ptx("faults.cu")  # skips where there is no compiler
    monkeypatch.chdir(tmp_path)
    Path("mine.cu").write_text(SOURCE)
    Path("mine.ptx").write_text(compile_ptx(Path("mine.cu")))
    assemble(Path("mine.ptx"), Path("mine.cubin"))
    example, _ = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    exec(compile(example, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "128. 128." in shown and "tiled<128, 8>: grid (2, 2, 1)" in shown
    assert "limiter: " in shown


@pytest.mark.parametrize("command", ["run", "annotate", "banks", "bounds", "predict"])
def test_each_command_is_documented(command, capsys):
    assert f"| `{command}" in README
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0 and "--entry" in capsys.readouterr().out


def test_the_changes_begin_with_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (
        re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == project["version"]
    )
    assert (ROOT / "py.typed").is_file()


# QUESTIONS.md

TEXT = (ROOT / "QUESTIONS.md").read_text()
COMMANDS = re.findall(r"^    (ptxsim [^\n]*)\n\n```\n(.*?)^```$", TEXT, re.M | re.S)


def test_every_command_has_its_output_and_every_kernel_its_command():
    assert len(COMMANDS) == TEXT.count("\n    ptxsim ") >= 10
    for path in (ROOT / "examples" / "questions").iterdir():
        assert path.name in TEXT
        assert (
            len([line for line in path.read_text().splitlines() if not line.startswith("//")]) <= 20
        )


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[f"{n}" for n in range(len(COMMANDS))])
def test_the_outputs_are_real(command, shown, compiled, monkeypatch, capsys):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    monkeypatch.chdir(ROOT)
    main(shlex.split(command)[1:])
    printed = "".join(capsys.readouterr()).splitlines()
    at = 0
    for line in shown.splitlines():
        if line == "...":
            continue
        assert line in printed[at:], f"{line}\nis not in\n" + "\n".join(printed[at:])
        at += printed[at:].index(line) + 1


# docstrings, and examples/first

FIRST = ROOT / "examples" / "first"
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
    example = re.search(r"^```console\n(.*?)^```$", README, re.M | re.S)[1]
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


# help(): signatures are real, and say with their docstrings what is meant

EVIDENT = 3  # parameters that need no words beside the docstring


def public() -> Iterator[tuple[str, Any]]:
    """The public names, with the public methods of the classes among them."""
    for name in ptxsim.__all__:
        value = getattr(ptxsim, name)
        yield name, value
        for part, method in inspect.getmembers(value, inspect.isfunction):
            if inspect.isclass(value) and not part.startswith("_"):
                yield f"{name}.{part}", method


@pytest.mark.parametrize(("name", "value"), [*public()])
def test_help_of_each_public_name(name: str, value: Any) -> None:
    text = inspect.getdoc(value)
    assert text and not text.startswith(f"{name}("), f"{name} has no docstring"
    words = inspect.isclass(value) and issubclass(value, (enum.Enum, ptxsim.PtxsimError))
    if words or not callable(value):
        return
    parameters = inspect.signature(value).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}, name
    names = [n for n in parameters if n != "self"]
    if len(names) > EVIDENT and not name.startswith(("Counters.", "Observer.")):
        assert [n for n in names if not re.search(rf"\b{n}\b", text)] == []


def test_launch_takes_what_its_help_says() -> None:
    taken = inspect.signature(ptxsim.Kernel.launch).parameters
    assert [*taken][:5] == ["self", "grid", "block", "args", "shared_bytes"]
    rest = [*taken.values()][5:]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in rest)
