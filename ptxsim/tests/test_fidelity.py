"""How exactly instructions are emulated, and whether what is not exact decides anything."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from running import launch_options

import ptxsim
from ptxsim.cli import main
from ptxsim.count import fidelity

SOURCE = """
extern "C" __global__ void numbers(float* out, const float* in) {  // sin changes numbers alone
    atomicAdd(out + 32, in[threadIdx.x]);
    out[threadIdx.x] = __sinf(in[threadIdx.x]);
}
extern "C" __global__ void places(float* out, const float* in) {  // the result of exp is an index
    out[int(__expf(in[threadIdx.x])) % 32] = 1;
}
extern "C" __global__ void times(long long* out, const float* in) {
    long long t = clock64();
    if (in[0] > 2) out[0] = __log2f(in[1]);  // never executed
    out[threadIdx.x] = t;
}
extern "C" __global__ void plain(float* out, const float* in) { out[threadIdx.x] = in[threadIdx.x] / 3; }
"""


@pytest.fixture(scope="module")
def path(built):
    return built(SOURCE)


@pytest.fixture
def found(path):
    """A function: entry to the rows of its report."""

    def of(entry):
        kernel, executed = ptxsim.load(path, entry), fidelity.Executed()
        args = [ptxsim.Array(np.zeros(64, np.float32)), ptxsim.Array(np.ones(32, np.float32))]
        kernel.launch(2, 32, args, observers=[executed], checks=False)
        return fidelity.rows(kernel.program, kernel.machine.origins, executed)

    return of


@pytest.mark.parametrize(
    ("entry", "instruction", "rows"),
    [
        ("numbers", "sin.approx.f32", [("approximate", 2, False)]),
        ("numbers", "(red|atom).*add.f32", [("modelled", 2, False)]),
        ("numbers", "ld.global", [("exact", 4, False)]),
        ("places", "ex2.approx", [("approximate", 2, True)]),
        ("times", "mov.u64", [("approximate", 2, False)]),
        ("times", "lg2", []),  # never executed
    ],
)
def test_how_exact_an_instruction_is(found, entry, instruction, rows):
    fits = [row for row in found(entry) if re.match(instruction, row.instruction)]
    assert [(row.level, row.executed, row.decides) for row in fits] == rows


def test_what_is_said_of_all(found):
    assert fidelity.ORDER in {row.why for row in found("numbers")}
    assert fidelity.TIME in {row.why for row in found("times")}
    assert "REACHES an address or a branch" in fidelity.table(found("places"))
    text = fidelity.table(found("plain"))
    assert "approximate" not in text and "nothing that is not exact reaches an address" in text


def test_the_command_and_the_report(path, tmp_path, capsys):
    options = [
        *launch_options(1, 32, "zeros:f32:64", "ones:f32:32"),
        "--out",
        str(tmp_path / "report.json"),
    ]
    assert main(["run", str(path), "--entry", "places", *options, "--fidelity"]) in (0, 1)
    assert "accesses and counts may differ on a device: ex2" in capsys.readouterr().out
    rows = json.loads((tmp_path / "report.json").read_text())["fidelity"]
    assert any(row["level"] == "approximate" and row["decides"] for row in rows)


def test_tensor_cores_are_modelled():
    text = """.version 8.6\n.target sm_90a\n.address_size 64
    .visible .entry k() { .reg .f32 %f<4>; .reg .b64 %d; wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d, %d, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret; }"""
    code = ptxsim.load(text).program.code
    assert [fidelity.level(i)[0] for i in code if i.opcode == "wgmma"] == [
        "exact",
        "modelled",
        "exact",
        "exact",
    ]
