"""How exactly instructions are emulated, and whether what is not exact decides anything."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

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


@pytest.fixture
def found(tmp_path, compiled, monkeypatch):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(SOURCE)

    def of(entry):
        kernel, executed = ptxsim.load("k.cu", entry), fidelity.Executed()
        args = [ptxsim.Array(np.zeros(64, np.float32)), ptxsim.Array(np.ones(32, np.float32))]
        kernel.launch(2, 32, args, observers=[executed], checks=False)
        return {row.instruction: row for row in fidelity.rows(kernel.program, kernel.machine.origins, executed)}

    return of


def test_what_is_approximate_and_what_is_modelled(found):
    rows = found("numbers")
    assert (rows["sin.approx.f32"].level, rows["sin.approx.f32"].executed) == ("approximate", 2)
    added = next(row for name, row in rows.items() if name.startswith(("red.", "atom.")))
    assert added.level == "modelled" and added.why == fidelity.ORDER
    assert (
        rows["ld.global.f32" if "ld.global.f32" in rows else next(n for n in rows if n.startswith("ld.global"))].level
        == "exact"
    )
    assert not any(row.decides for row in rows.values())


def test_what_reaches_an_address_is_reported(found):
    rows = found("places")
    assert rows["ex2.approx.ftz.f32" if "ex2.approx.ftz.f32" in rows else "ex2.approx.f32"].decides
    assert "REACHES an address or a branch" in fidelity.table(list(rows.values()))


def test_only_executed_instructions_count(found):
    rows = found("times")
    assert not any(name.startswith("lg2") for name in rows)
    clock = next(row for row in rows.values() if row.why == fidelity.TIME)
    assert clock.level == "approximate" and not clock.decides


def test_what_is_exact_is_one_line(found):
    text = fidelity.table(list(found("plain").values()))
    assert "approximate" not in text and "nothing that is not exact reaches an address" in text


def test_the_command_and_the_report(found, capsys):
    options = ["--grid", "1", "--block", "32", "--arg", "zeros:f32:64", "--arg", "ones:f32:32", "--out", "report.json"]
    assert main(["run", "k.cu", "--entry", "places", *options, "--fidelity"]) in (0, 1)
    assert "accesses and counts may differ on a device: ex2" in capsys.readouterr().out
    rows = json.loads(Path("report.json").read_text())["fidelity"]
    assert any(row["level"] == "approximate" and row["decides"] for row in rows)


@pytest.mark.parametrize(
    ("kernel", "level"),
    [("gemm<__half, 1, false, false, 0>", "modelled"), ("gemm<float, 1, false, false, 0>", "modelled")],
)
def test_tensor_cores_are_modelled(compiled, kernel, level):
    code = compiled("wgmma.cu", kernel).program.code
    assert {fidelity.level(i)[0] for i in code if i.opcode == "wgmma" and "mma_async" in i.modifiers} == {level}
    assert {fidelity.level(i)[0] for i in code if i.opcode == "wgmma" and "mma_async" not in i.modifiers} == {"exact"}
