"""What compilers warn of is shown, and a trap is looked into with code that is not optimised."""

from __future__ import annotations

import pytest

from ptxsim import cli
from ptxsim.ptx.compiler import compile_ptx, warnings_in
from ptxsim.ptx.sass import assemble

SOURCE = """
__global__ void k(float* out, int n) {
    float sum[4] = {0};
    for (int i = 0; i < %d; ++i) sum[i] += n;
    for (int i = 0; i < 4; ++i) out[i] = sum[i];
    if (n == 3) __trap();
}
"""
WARNED = """
__global__ void k(float* out) {
    int unused;
    out[0] = 1;
}
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "k.cu"
        path.write_text(text)
        return path

    return write


def test_warnings_of_nvcc_are_shown(written, capsys):
    try:
        compile_ptx(written(WARNED))
    except Exception as error:  # without a compiler
        pytest.skip(str(error))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ptxsim: nvcc: ")
    assert '"unused" was declared but never referenced' in line
    compile_ptx(written(WARNED.replace("int unused;", "")))
    assert not capsys.readouterr().err


def test_warnings_of_ptxas_are_shown(tmp_path, capsys):
    source = tmp_path / "k.ptx"
    source.write_text(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .minnctapersm 2 { ret; }\n"
    )
    try:
        assemble(source, tmp_path / "k.cubin")
    except Exception as error:
        pytest.skip(str(error))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ptxsim: ptxas: ") and ".minnctapersm is ignored" in line


def test_each_warning_is_one_line_and_is_said_once():
    said = "k.cu(3): warning #177-D: x\n  int x;\n\nk.cu(3): warning #177-D: x\nptxas warning : y\nRemark: warnings\n"
    assert warnings_in(said) == ["k.cu(3): warning #177-D: x", "ptxas warning : y"]


@pytest.mark.parametrize(
    ("many", "n", "expected"),
    [
        (4, 2, []),
        (400, 2, ["out-of-bounds local"]),  # which the optimised code leaves out
        (4, 3, ["trap", "with -G:", "trap"]),
        (400, 3, ["trap", "with -G:", "out-of-bounds local", "trap"]),
    ],
)
def test_what_the_optimiser_hides_is_found_with_debug_code(written, capsys, many, n, expected):
    options = f"--grid 1 --block 1 --arg zeros:f32:4 --arg {n}".split()
    status = cli.main(["run", str(written(SOURCE % many)), *options])
    if "no nvcc" in (err := capsys.readouterr().err):
        pytest.skip(err)
    lines = [line for line in err.splitlines() if "nvcc:" not in line]
    assert status == (1 if expected else 0) and len(lines) == len(expected)
    assert all(words in line for words, line in zip(expected, lines, strict=True))
