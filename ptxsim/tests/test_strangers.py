"""Kernels as other people have them: headers elsewhere, templates, cubins; and the interface for
them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from running import fails

import ptxsim
from ptxsim.cli import main
from ptxsim.ptx.compiler import compile_ptx
from ptxsim.ptx.sass import assemble
from ptxsim.ptx.templates import kernel_templates, split_list

HEADER = """#pragma once
__device__ __forceinline__ void put(float* to, float value) { *to = value; }
__device__ __forceinline__ void put_row(float* to, float value) {
    put(to, value * SCALE);
}
// template <int X> __global__ void hidden(int*);
template <int BM, int BN = 8>
__global__ void __launch_bounds__(64, 2)
tiled(float* out, const float* in, int n, int skew) {
    __shared__ float first[BM], rows[BM][BN];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    first[threadIdx.x % BM] = 0;
    rows[threadIdx.x % BM][0] = i < n ? in[i] : 0.0f;
    __syncthreads();
    put_row(out + i, rows[(threadIdx.x + skew) % BM][skew > 9] + first[0]);
}
"""
USER = """#include <tiled.cuh>
template __global__ void tiled<64, 8>(float*, const float*, int, int);
template __global__ void tiled<64, 16>(float*, const float*, int, int);
"""
LAUNCH = [
    "--grid=6",
    "--block=64",
    "--arg=zeros:f32:384",
    "--arg=ones:f32:380",
    "--arg=380",
    "--arg",
]
FLAGS = ["-I", "include", "-DSCALE=2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, compiled) -> Path:
    """A folder with a header elsewhere and its user, as CUDA and compiled."""
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    made = tmp_path_factory.mktemp("strangers")
    (made / "include").mkdir()
    (made / "include" / "tiled.cuh").write_text(HEADER)
    (made / "user.cu").write_text(USER)
    (made / "none.cuh").write_text("#include <tiled.cuh>\n")
    (made / "user.ptx").write_text(
        compile_ptx(made / "user.cu", flags=[f"-I{made / 'include'}", "-DSCALE=2"])
    )
    assemble(made / "user.ptx", made / "user.cubin")
    return made


@pytest.fixture
def command_line(folder, monkeypatch, capsys):
    """A function: command line to exit code, standard output and standard error."""
    monkeypatch.chdir(folder)

    def run(*options: str) -> tuple[int, str, str]:
        status = main(list(options))
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


@pytest.mark.parametrize(
    "entry", ["tiled<64,8>", "tiled< 64, 8 >", "64, 8>", "_Z5tiledILi64ELi8EEvPfPKfii"]
)
def test_an_entry_by_its_name_in_the_source(command_line, entry):
    status, out, err = command_line("run", "user.cu", *FLAGS, "--entry", entry, *LAUNCH, "1")
    assert status == 0 and out.startswith("tiled<64, 8>: grid (6, 1, 1)"), err


@pytest.mark.parametrize("command", ["run", "bounds", "predict", "annotate"])
@pytest.mark.parametrize(
    "source", ["user.cu", "user.ptx", "user.cubin", "user.ptx with cubin", "user.cubin with ptx"]
)
def test_each_command_reads_each_kind_of_file(command_line, command, source):
    path, _, other = source.partition(" with ")
    more = [f"--{other}", f"user.{other}"] if other else FLAGS if path == "user.cu" else []
    status, out, err = command_line(command, path, *more, "--entry", "tiled<64, 16>", *LAUNCH, "1")
    if (command, source) == ("annotate", "user.cubin"):
        assert status == 2
        assert "(that in a .cubin has none: name what it was made from with --ptx)" in err
        return
    assert status == 0 and out.startswith(("tiled<64, 16>: ", "_Z5tiledILi64ELi16EEvPfPKfii: ")), (
        err
    )
    assert command != "annotate" or "first[threadIdx.x % BM] = 0;" in out


@pytest.mark.parametrize(("source", "other"), [("user.ptx", "cubin"), ("user.cubin", "ptx")])
def test_banks_too(command_line, source, other):
    more = [f"--{other}", f"user.{other}"]
    line = str(HEADER[: HEADER.index("rows[threadIdx")].count("\n") + 1)
    options = ["--line", line, "--out", "a.svg", "--entry", "16>", *LAUNCH, "1"]
    status, out, err = command_line("banks", source, *more, *options)
    assert status == 0 and "16-way conflict" in out, err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["user.cu", "-Iinclude", "-DSCALE=2", "--entry", "tiled"],
            "2 entries match 'tiled': tiled<64, 8>(float*, ",
        ),
        (["user.ptx", *FLAGS], "-Iinclude: only goes with a .cu or .cuh file, not with user.ptx"),
        (["user.cubin", "--cubin", "user.cubin"], "user.cubin is a cubin already"),
        (["user.ptx", "--cubin", "gone.cubin"], "gone.cubin: no such file"),
        (["user.cu", "-DSCALE=2"], "tiled.cuh: No such file"),
        (["user.cu", "-Iinclude", "-DSCALE=", "--entry", "16>"], "nvcc failed on user.cu: "),
        (
            ["user.ptx", "--entry", "tiled<64, 9>"],
            "no entry 'tiled<64, 9>' in the PTX; it has: tiled<64, 8>(float*, ",
        ),
    ],
)
def test_what_does_not_go_together(command_line, options, words):
    status, _, err = command_line("run", *options, *LAUNCH, "1")
    assert status == 2 and words in err and err.count("\n") == 1, err


def test_a_template_that_nothing_instantiates(command_line, folder):
    """The line that is command_line makes the kernel."""
    status, _, err = command_line("run", "none.cuh", *FLAGS, *LAUNCH, "1")
    start = "ptxsim: tiled.cuh:7: nothing instantiates the template tiled<BM, BN>, so there is no code of it; add to "
    assert status == 2 and err.startswith(start) and "(with values for BM, BN)" in err
    assert err.count("\n") == 1
    status, _, err = command_line(
        "run", "none.cuh", *FLAGS, "--entry", "tiled<64,32>", *LAUNCH, "1"
    )
    assert status == 2 and "tiled<BM, BN> as tiled<64,32>, so" in err
    added = folder / "added.cuh"
    added.write_text("#include <tiled.cuh>\n" + err.partition(" the line: ")[2])
    status, out, err = command_line(
        "run", "added.cuh", *FLAGS, "--entry", "tiled<64,32>", *LAUNCH, "1"
    )
    assert status == 0 and out.startswith("tiled<64, 32>: "), err


def test_templates_are_found_in_any_shape():
    found = kernel_templates("""
        template <typename T, int (*F)(int), class... R> static __global__ void
        odd (const T* __restrict__ x, T (*rows)[8], float y = f(1)) { x; }
        template <> __global__ void whole<3>(int) {}
        template <int N> __device__ void other(int);
        template <int N> struct S { __device__ void f(int); };
        /* template <int A> __global__ void no(int); */ "template <int A> __global__ void no(int);"
        template <int A>
            requires_nothing __global__ void __maxnreg__(32) last();
    """)
    assert [(t.name, t.line, t.parameters) for t in found] == [
        ("odd", 2, ("T", "F", "R")),
        ("last", 8, ("A",)),
    ]
    assert split_list("a<b, c>, (d, e), f") == ["a<b, c>", "(d, e)", "f"]
    assert kernel_templates("template <int N") == []
    assert kernel_templates("template < < ( __global__") == []


def test_a_fault_in_inlined_code_names_its_callers(command_line):
    launch = [*LAUNCH[:2], "--arg=zeros:f32:380", *LAUNCH[3:], "1"]
    status, _, err = command_line("run", "user.ptx", "--entry", "64, 8>", "--no-checks", *launch)
    line = HEADER[: HEADER.index("put_row(out")].count("\n") + 1
    place = f"tiled.cuh:2, called from tiled.cuh:4, from tiled.cuh:{line}: "
    assert status == 1 and err.startswith(f"ptxsim: tiled<64, 8>: {place}")


def test_a_fault_names_the_variable_of_a_shared_address(command_line):
    status, _, err = command_line("run", "user.ptx", "--entry", "64, 8>", *LAUNCH, "10")
    place = "read of shared memory that nobody wrote (shared address 0x"
    assert (
        status == 1
        and place in err
        and " bytes into rows) at tiled.cuh:15: the undefined value" in err
    ), err


def test_the_python_interface(folder):
    kernel = ptxsim.load(
        folder / "user.cu", "tiled<64, 8>", flags=[f"-I{folder / 'include'}", "-DSCALE=2"]
    )
    assert kernel.title == "tiled<64, 8>" and kernel.name == "_Z5tiledILi64ELi8EEvPfPKfii"
    out, ones = ptxsim.Array(np.zeros(128, np.float32)), ptxsim.Array(np.ones(128, np.float32))
    launch = {"grid": 2, "block": 64, "args": [out, ones, 128, 1]}
    counted = kernel.count(**launch)
    assert (out.numpy() == 0).all()  # a count computes nothing else
    counters = ptxsim.Counters()
    done = kernel.launch(**launch, observers=[counters])
    assert (out.numpy() == 2).all() and done.grid == (2, 1, 1)
    assert counted.totals() == counters.totals()
    assert "first[threadIdx.x % BM] = 0;" in kernel.annotate(counted, near=[folder])
    with fails("bounds are of machine code"):
        kernel.bounds(**launch)
    found = ptxsim.load(folder / "user.cubin", "tiled<64, 8>").bounds(**launch)
    assert found.limiter.cycles_per_sm > 0 and found.gpu.name.startswith("NVIDIA H100")
