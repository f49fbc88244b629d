"""The command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from running import launch_options

from ptxsim import PtxsimError
from ptxsim.arguments import parse_argument
from ptxsim.cli import main
from ptxsim.engine.kernel import Kernel

SOURCE = """#if defined(WANTED) && __cplusplus < 202002L
#error no C++20
#endif
extern "C" __global__ void scale(float* out, const float* in, float factor, int n) {
    int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor;
}
__constant__ float taps[2];
extern "C" __global__ void convolve(float* out, const float* in, float beta) {
    out[threadIdx.x] = taps[0] * in[threadIdx.x] + taps[1] * in[threadIdx.x + 1] + beta;
}
extern "C" __global__ void accumulate(float* out, const float* in, float beta) {
    out[threadIdx.x] = in[threadIdx.x] + beta * out[threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def folder(built):
    """A folder with the source, k.cu, and its PTX, k.ptx."""
    return built(SOURCE).parent


@pytest.fixture
def command(folder, monkeypatch):
    """A function: entry, file, options to what the command returns. It runs in the folder."""
    monkeypatch.chdir(folder)
    return lambda entry, file, *options: main(["run", file, "--entry", entry, *options])


def test_run_a_cuda_file(command, capsys):
    data = np.arange(100, dtype=np.float32)
    np.save("in.npy", data)
    arguments = launch_options(2, 64, "out=out.npy=zeros:f32:100", "in.npy", "f32:2.5", "i32:100")
    assert command("scale", "k.cu", *arguments, "--out", "report.json") == 0
    assert (np.load("out.npy") == data * np.float32(2.5)).all()
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in capsys.readouterr().out
    with open("report.json") as file:
        written = json.load(file)
    assert written["kernel"] == "scale"
    assert written["totals"]["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 4
    assert {row["line"] for row in written["instructions"] if row["space"] == "global"} == {6}


def test_only_some_blocks(command, capsys):
    arguments = launch_options(
        "2,8", 32, "out=out.npy=zeros:f32:8x2x32", "ones:f32:512", "f32:2", "i32:512"
    )
    assert command("scale", "k.ptx", *arguments, "--blocks", "1,3", "0,7") == 0
    made = np.load("out.npy")
    assert (made[3, 1] == 2).all() and (made[7, 0] == 2).all() and made.sum() == 2 * 2 * 32
    assert command("scale", "k.ptx", *arguments, "--blocks", "2,0") == 2
    assert "--blocks 2,0: the grid has 2x8x1 blocks, counted from 0" in capsys.readouterr().err


# Block 0 writes only where block 1 was first, which a relaxed swap tells; or both swap alone.
SWAPS = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data) {
.reg .b64 %d; .reg .b32 %b, %v; .reg .pred %p; ld.param.u64 %d, [data]; mov.u32 %b, %ctaid.x; add.u32 %b, %b, 1;
setp.eq.u32 %p, %b, 2; @%p st.global.u32 [%d+4], 8;
atom.global.cas.b32 %v, [%d], 0, %b; setp.eq.u32 %p, %v, 2; @%p st.global.u32 [%d+4], 7; exit; }"""


@pytest.mark.parametrize(
    ("text", "orders", "code", "message"),
    [
        (SWAPS, "1", 0, ""),
        (SWAPS, "2", 1, "race in global memory: .* in the opposite order"),
        (SWAPS.replace("st.global.u32 [%d+4]", "mov.u32 %v"), "1", 0, ""),
        (SWAPS.replace("st.global.u32 [%d+4]", "mov.u32 %v"), "2", 4, "argument 0 is left other"),
    ],
)
def test_a_launch_in_the_opposite_order(text, orders, code, message, tmp_path, capsys):
    (tmp_path / "k.ptx").write_text(text)
    options = [*launch_options(2, 1, "zeros:i32:4"), "--orders", orders]
    assert main(["run", str(tmp_path / "k.ptx"), *options]) == code
    assert re.search(message, capsys.readouterr().err)


def test_flags_of_nvcc(command, capsys):
    arguments = launch_options(1, 64, "zeros:f32:64", "ones:f32:64", "2.0", "64")
    assert command("scale", "k.cu", *arguments, "--nvcc-flags=-DWANTED") == 2
    assert "no C++20" in capsys.readouterr().err
    assert command("scale", "k.cu", *arguments, "--nvcc-flags=-DWANTED -std=c++20") == 0
    with pytest.raises(SystemExit):
        command("scale", "k.cu", *arguments, "--nvcc-flags", "'open")
    assert '--nvcc-flags "\'open": No closing quotation' in capsys.readouterr().err


def test_the_options_of_a_program_are_its_own(capfd):
    assert main(["exec", "-q", "/bin/echo", "--n=3", "--once"]) == 0
    assert capfd.readouterr().out == "--n=3 --once\n"


def test_without_a_command_there_is_help(capsys):
    assert main([]) == 0 and "ptxsim exec ./matmul" in capsys.readouterr().out


@pytest.mark.parametrize("options", [launch_options(1, 32), []])
def test_a_missing_file_is_one_line_before_missing_options(options, capsys):
    assert main(["run", "m.cu", *options]) == 2
    assert capsys.readouterr().err == "ptxsim: m.cu: no such file\n"


@pytest.mark.parametrize(
    "text", ["nonsense", "i32:x", "random:f32", "random:q7:3", "zeros:f32:axb", "none.npy", "out=5"]
)
def test_arguments_that_say_nothing(text):
    with pytest.raises(PtxsimError) as caught:
        parse_argument(text, 0)
    assert "\n" not in str(caught.value) and text in str(caught.value)


def test_arguments():
    assert parse_argument("i32:-5", 0).value == np.int32(-5)
    assert parse_argument("0x10", 0).value == 16 and parse_argument("1.5", 0).value == 1.5
    value = parse_argument("random:bf16:3x4:7", 0).value.numpy()
    assert value.shape == (3, 4)
    assert (value == parse_argument("random:bf16:3x4:7", 1).value.numpy()).all()
    assert np.isnan(parse_argument("nan:f32:2", 0).value.numpy()).all()
    assert parse_argument("uninit:f32:2", 0).value.unwritten
    assert not parse_argument("nan:f32:2", 0).value.unwritten


def test_constants_from_the_command_line(command, capsys):
    np.save("taps.npy", np.array([2, 0.5], np.float32))
    arguments = launch_options(1, 32, "out=out.npy=zeros:f32:32", "ones:f32:33", "0.0")
    assert command("convolve", "k.ptx", *arguments, "--constant", "taps=taps.npy") == 0
    assert (np.load("out.npy") == 2.5).all()
    for wrong in ("taps", "taps=", "=ones:f32:2", "taps=1"):
        assert command("convolve", "k.ptx", *arguments, "--constant", wrong) == 2
        assert capsys.readouterr().err.startswith(
            f"ptxsim: --constant {wrong!r}: expected NAME=ARG"
        )


# programming errors of the emulator: traceback, exit code 3, and where to report it

EMPTY = (
    """.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }"""
)
PATCHED = """
import sys
from ptxsim.engine.kernel import Kernel
from ptxsim.cli import main

def fails(self, request):
    raise KeyError("planted")

Kernel._run = fails
sys.exit(main(["exec", "--error-exitcode", "9", sys.argv[1]]))
"""


@pytest.mark.parametrize(
    "error", [KeyError("planted"), np.exceptions.AxisError("planted"), RecursionError("planted")]
)
def test_a_programming_error_of_the_emulator(error, tmp_path, monkeypatch, capsys) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(EMPTY)

    def fails(self, request):
        raise error

    monkeypatch.setattr(Kernel, "_run", fails)
    assert main(["run", str(path), "--grid", "1", "--block", "32", "--arg", "zeros:f32:8"]) == 3
    shown = capsys.readouterr()
    *traceback, last = shown.err.splitlines()
    assert shown.out == "" and traceback[0].startswith("Traceback") and "planted" in traceback[-1]
    assert last.startswith("ptxsim: the emulator itself failed; please report this traceback")


def test_a_programming_error_while_a_program_runs(programs) -> None:
    command = [sys.executable, "-c", PATCHED, str(programs.path("gemm"))]
    done = subprocess.run(
        command, env=programs.environment, cwd=programs.folder, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert "KeyError: 'planted'" in done.stderr and "Traceback" in done.stderr
    assert "the emulator itself failed; please report this traceback" in done.stderr
