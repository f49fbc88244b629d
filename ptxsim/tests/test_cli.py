"""The command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ptxsim.arguments import parse_argument
from ptxsim.cli import main

SCALE = """
extern "C" __global__ void scale(float* out, const float* in, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor;
}
"""


@pytest.fixture
def source(tmp_path, compiled):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    path = tmp_path / "scale.cu"
    path.write_text(SCALE)
    return path


def test_run_a_cuda_file(source, tmp_path, capsys):
    data = np.arange(100, dtype=np.float32)
    np.save(tmp_path / "in.npy", data)
    saved, report = tmp_path / "out.npy", tmp_path / "report.json"
    arguments = [f"out={saved}=zeros:f32:100", str(tmp_path / "in.npy"), "f32:2.5", "i32:100"]
    options = [part for text in arguments for part in ("--arg", text)]
    assert (
        main(["run", str(source), "--entry", "scale", "--grid", "2", "--block", "64", *options, "--out", str(report)])
        == 0
    )
    assert (np.load(saved) == data * np.float32(2.5)).all()
    shown = capsys.readouterr().out
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in shown
    written = json.loads(report.read_text())
    assert written["kernel"] == "scale" and written["totals"]["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 4
    assert {row["line"] for row in written["instructions"] if row["space"] == "global"} == {4}


def test_only_some_blocks(source, tmp_path, capsys):
    arguments = [f"out={tmp_path / 'out.npy'}=zeros:f32:8x2x32", "ones:f32:512", "f32:2", "i32:512"]
    options = [part for text in arguments for part in ("--arg", text)]
    run = ["run", str(source), "--grid", "2,8", "--block", "32", *options]
    with open(source, "a") as file:
        file.write("""extern "C" __global__ void tiles(float* out, const float* in, float factor, int n) {
    int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor;
}""")
    assert main([*run, "--entry", "tiles", "--blocks", "1,3", "0,7"]) == 0
    made = np.load(tmp_path / "out.npy")
    assert (made[3, 1] == 2).all() and (made[7, 0] == 2).all() and made.sum() == 2 * 2 * 32
    assert main([*run, "--entry", "tiles", "--blocks", "2,0"]) == 2
    assert "--blocks 2,0: the grid has 2x8x1 blocks, counted from 0" in capsys.readouterr().err


def test_flags_of_nvcc(source, capsys):
    options = [part for text in ("zeros:f32:64", "ones:f32:64", "2.0", "64") for part in ("--arg", text)]
    with open(source, "a") as file:
        file.write("#ifdef WANTED\n#if __cplusplus < 202002L\n#error no C++20\n#endif\n#endif\n")
    run = ["run", str(source), "--entry", "scale", "--grid", "1", "--block", "64", *options]
    assert main([*run, "--nvcc-flags=-DWANTED"]) == 2 and "no C++20" in capsys.readouterr().err
    assert main([*run, "--nvcc-flags=-DWANTED -std=c++20"]) == 0
    with pytest.raises(SystemExit):
        main([*run, "--nvcc-flags", "'open"])
    assert '--nvcc-flags "\'open": No closing quotation' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.ptx", "--grid", "1", "--block", "32"], "ptxsim: missing.ptx: No such file"),
        (["run", "missing.cu", "--grid", "1", "--block", "32"], "ptxsim: missing.cu: no such file"),
    ],
)
def test_errors_are_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(message) and error.count("\n") == 1


def test_faults_are_one_line(source, capsys):
    options = [part for text in ("zeros:f32:10", "ones:f32:64", "2.0", "64") for part in ("--arg", text)]
    assert main(["run", str(source), "--grid", "1", "--block", "64", *options]) == 1
    error = capsys.readouterr().err
    assert error.startswith("ptxsim: scale: scale.cu:4: block (0, 0, 0), thread (10, 0, 0): out-of-bounds global store")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "text", ["nonsense", "i32:x", "random:f32", "random:q7:3", "zeros:f32:axb", "none.npy", "out=5"]
)
def test_arguments_that_say_nothing(text):
    from ptxsim import PtxsimError

    with pytest.raises(PtxsimError) as caught:
        parse_argument(text, 0)
    assert "\n" not in str(caught.value) and text in str(caught.value)


def test_arguments():
    assert parse_argument("i32:-5", 0).value == np.int32(-5)
    assert parse_argument("0x10", 0).value == 16 and parse_argument("1.5", 0).value == 1.5
    value = parse_argument("random:bf16:3x4:7", 0).value.numpy()
    assert value.shape == (3, 4) and (value == parse_argument("random:bf16:3x4:7", 1).value.numpy()).all()
    assert np.isnan(parse_argument("nan:f32:2", 0).value.numpy()).all()


CONVOLVE = """
__constant__ float taps[2];
extern "C" __global__ void convolve(float* out, const float* in, float beta) {
    out[threadIdx.x] = taps[0] * in[threadIdx.x] + taps[1] * in[threadIdx.x + 1] + beta;
}
extern "C" __global__ void accumulate(float* out, const float* in, float beta) {
    out[threadIdx.x] = in[threadIdx.x] + beta * out[threadIdx.x];
}
"""


@pytest.fixture
def convolution(source):
    """A command line up to the arguments `out` and those of `more`."""
    source.write_text(CONVOLVE)

    def command(entry: str, out: str, *more: str) -> list[str]:
        launch = [
            "--entry",
            entry,
            "--grid",
            "1",
            "--block",
            "32",
            "--arg",
            out,
            "--arg",
            "ones:f32:33",
            "--arg",
            "0.0",
        ]
        return ["run", str(source), *launch, *more]

    return command


def test_constants_from_the_command_line(convolution, tmp_path, capsys):
    np.save(tmp_path / "taps.npy", np.array([2, 0.5], np.float32))
    out = f"out={tmp_path / 'out.npy'}=zeros:f32:32"
    assert main(convolution("convolve", out, "--constant", f"taps={tmp_path / 'taps.npy'}")) == 0
    assert (np.load(tmp_path / "out.npy") == 2.5).all() and "note" not in capsys.readouterr().err
    assert main(convolution("convolve", out)) == 4
    assert (np.load(tmp_path / "out.npy") == 0).all()
    assert capsys.readouterr().err.startswith("ptxsim: note: constant taps (8 bytes) is read, but has no initialiser")
    for wrong in ("taps", "taps=", "=ones:f32:2", "taps=1"):
        assert main(convolution("convolve", out, "--constant", wrong)) == 2
        assert capsys.readouterr().err.startswith(f"ptxsim: --constant {wrong!r}: expected NAME=ARG")


def test_an_array_that_nobody_wrote(convolution, capsys):
    assert main(convolution("accumulate", "uninit:f32:32")) == 1
    error = capsys.readouterr().err
    assert "scale.cu:7: block (0, 0, 0), thread (0, 0, 0): read of global memory that nobody wrote" in error
    assert main(convolution("accumulate", "zeros:f32:32")) == 0
