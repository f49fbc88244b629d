"""What README.md says: its examples run, and its commands are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import ptxsim
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
    Path("mine.ptx").write_text(ptxsim.ptx.compiler.compile_ptx(Path("mine.cu")))
    assemble(Path("mine.ptx"), Path("mine.cubin"))
    example, _ = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    exec(compile(example, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert (
        "128. 128." in shown and "tiled<128, 8>: grid (2, 2, 1)" in shown and "limiter: " in shown
    )


@pytest.mark.parametrize("command", ["run", "annotate", "banks", "bounds", "predict"])
def test_each_command_is_documented(command, capsys):
    from ptxsim.cli import main

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
