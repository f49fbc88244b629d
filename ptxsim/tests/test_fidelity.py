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
from ptxsim.ptx.syntax import Instruction, Special

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


@pytest.mark.parametrize(
    ("name", "special", "exactness"),
    [
        ("add.rn.f32", None, "exact"),
        ("div.full.f32", None, "approximate"),
        ("rcp.approx.ftz.f64", None, "approximate"),
        ("tanh.approx.bf16x2", None, "approximate"),
        ("ex2.f16", None, "approximate"),
        ("mov.u64", "%clock64", "approximate"),
        ("mov.u32", "%globaltimer_lo", "approximate"),
        ("mov.u32", "%tid.x", "exact"),
        ("mov.u32", "%smid", "modelled"),
        ("mov.u32", "%nsmid", "modelled"),
        ("mov.u32", "%warpid", "modelled"),
        ("activemask.b32", None, "modelled"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", None, "modelled"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", None, "exact"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", None, "modelled"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16", None, "exact"),
        ("wmma.store.d.sync.aligned.row.m16n16k16.f32", None, "exact"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", None, "modelled"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e5m2", None, "modelled"),
        ("wgmma.fence.sync.aligned", None, "exact"),
        ("red.global.add.f32", None, "modelled"),
        ("atom.global.add.noftz.f16x2", None, "modelled"),
        ("atom.global.add.u32", None, "exact"),
        ("atom.global.exch.f32", None, "exact"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", None, "modelled"),
        ("cp.async.bulk.global.shared::cta.bulk_group", None, "exact"),
        ("tex.2d.v4.f32.f32", None, "modelled"),
        ("tex.1d.v4.s32.s32", None, "exact"),
    ],
)
def test_levels_of_instructions(name, special, exactness):
    opcode, *modifiers = name.split(".")
    operands = (Special(special),) if special else ()
    i = Instruction(opcode, tuple(modifiers), operands, None, False, None, 1)
    assert fidelity.level(i)[0] == exactness
    assert (fidelity.level(i)[1] == "") == (exactness == "exact")
