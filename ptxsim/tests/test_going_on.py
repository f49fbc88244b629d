"""After a fault: all faults of a launch, each line and kind once; what is accepted; exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ptxsim
from ptxsim.cli import main
from ptxsim.exec.records import FaultRecord, sarif
from ptxsim.machine.diagnostics import Diagnostics
from ptxsim.machine.faults import parse_accepted
from ptxsim.machine.launch import Checks

SOURCE = """
extern "C" __global__ void several(float* out, const float* in, int n) {
    __shared__ float s[64], t[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    s[threadIdx.x] = in[i];                       // line 5: beyond the end, in the last block
    float x = s[63 - threadIdx.x];                // line 6: a race
    __syncthreads();
    x += threadIdx.x < 32 ? t[threadIdx.x] : 0;   // line 8: nobody wrote
    out[i] = in[i % n] + 0 * x;
    if (blockIdx.x == 1 && threadIdx.x == 3) *(float2*)(out + 1) = make_float2(0, 0);  // line 10: not aligned
}
extern "C" __global__ void stops(float* out, int n) {
    if (blockIdx.x == 1 && threadIdx.x >= 32) asm volatile("bar.sync 1, 64;");
    if (n) out[blockIdx.x * 64 + threadIdx.x + 1] = 1;  // line 14
}
__constant__ float factor;
extern "C" __global__ void noted(float* out) { out[threadIdx.x] = factor; }
extern "C" __global__ void copies(float* out, const float* in, int bytes) {
    __shared__ alignas(128) float tile[64];
    __shared__ unsigned long long bar;
    auto at = [](void* p) { return (unsigned)__cvta_generic_to_shared(p); };
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(&bar)));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at(&bar)), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         at(tile)), "l"(in), "r"(bytes), "r"(at(&bar)) : "memory");
        asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }"
                     ::"r"(at(&bar)) : "memory");
    }
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
    atomicAdd(out + 64, 1.f);
}
"""


@pytest.fixture
def source(tmp_path, compiled, monkeypatch):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(SOURCE)
    return "k.cu"


def launch(source, **options):
    kernel = ptxsim.load(source, "several")
    x = np.arange(100, dtype=np.float32)
    out = ptxsim.Array(np.zeros(128, np.float32), "out")
    done = kernel.launch(2, 64, [out, ptxsim.Array(x, "in"), 100], **options)
    return done, out.numpy(), x


def lines(found):
    return {(f.kind, int(f.where.rpartition(":")[2])): f.count for f in found}


@pytest.mark.parametrize(
    ("out", "copied", "message"),
    [
        # the wait for what was not copied is no fault of its own
        (65, 128, "0 bytes into in (128 bytes), to 128 bytes beyond its end"),
        # in a header of CUDA's: the line that calls it comes first
        (64, 256, "copies: k.cu:33, in sm_20_atomic_functions.hpp:"),
    ],
)
def test_the_words_for_a_fault(source, out, copied, message):
    sizes = {"out": out, "in": copied // 4}
    arrays = [ptxsim.Array(np.ones(size, np.float32), name) for name, size in sizes.items()]
    done = ptxsim.load(source, "copies").launch(1, 64, [*arrays, 256], stop_at_first=False)
    (found,) = done.faults
    assert message in found.message
    assert FaultRecord(found.message, found.kind, found.where).location[0] == "k.cu"


@pytest.mark.parametrize("lanes", [64, 16384])
def test_each_line_and_kind_is_reported_once_with_its_count(source, lanes):
    done, out, x = launch(source, stop_at_first=False, limits=ptxsim.Limits(lanes=lanes))
    assert lines(done.faults) == {
        ("bounds", 5): 28,
        ("race", 6): 128,
        ("unwritten", 9): 64,
        ("alignment", 10): 1,
    }
    assert all("\n" not in str(f) and str(f).startswith("several: k.cu:") for f in done.faults)
    assert str(next(f for f in done.faults if f.kind == "bounds")).endswith("[28 times]")
    assert (out == x[np.arange(128) % 100]).all()  # what does not go wrong is computed


def test_the_first_ends_a_launch_unless_asked_not_to(source):
    with pytest.raises(ptxsim.KernelFault, match=r"k\.cu:5: block \(1, 0, 0\)"):
        launch(source)


def test_an_accepted_fault_does_not_hide_others(source):
    accept = [
        ptxsim.Accepted("race", "k.cu", 6, "a test"),
        ptxsim.Accepted("bounds", "k.cu", 5, "the last block"),
    ]
    with pytest.raises(ptxsim.KernelFault, match=r"k\.cu:9: .*nobody wrote"):
        launch(source, accept=accept)
    done, *_ = launch(source, accept=accept, stop_at_first=False)
    assert {f.where: f.accepted for f in done.faults if f.accepted} == {
        "k.cu:5": "the last block",
        "k.cu:6": "a test",
    }
    assert {f.kind for f in done.faults if f.accepted is None} == {"unwritten", "alignment"}


def test_after_a_deadlock_the_other_blocks_run(source):
    kernel, out = ptxsim.load(source, "stops"), ptxsim.Array(np.zeros(256, np.float32), "out")
    limits = ptxsim.Limits(lanes=64)
    done = kernel.launch(4, 64, [out, 1], stop_at_first=False, limits=limits)
    assert {(f.kind, f.where, f.count) for f in done.faults} == {
        ("deadlock", "k.cu:13", 1),
        ("bounds", "k.cu:14", 1),
    }
    assert out.numpy()[1:97].all() and not out.numpy()[97:129].any() and out.numpy()[129:].all()


def test_exit_codes(source, capsys):
    def run(entry, *more, arrays=("zeros:f32:128", "zeros:f32:100", "100")):
        arguments = [part for text in arrays for part in ("--arg", text)]
        status = main(
            ["run", source, "--entry", entry, "--grid", "2", "--block", "64", *arguments, *more]
        )
        return status, capsys.readouterr()

    status, shown = run("several", "--out", "report.json")
    assert status == 1 and shown.out == "" and len(shown.err.splitlines()) == 4
    assert {
        (f["kind"], f["count"]) for f in json.loads(Path("report.json").read_text())["faults"]
    } >= {("race", 128)}
    status, shown = run("several", "--stop-at-first")
    assert status == 1 and len(shown.err.splitlines()) == 1
    reasons = [
        f"{kind}@k.cu:{line}=known"
        for kind, line in (("race", 6), ("unwritten", 9), ("alignment", 10))
    ]
    options = [part for text in reasons for part in ("--accept", text)]
    status, shown = run("several", *options)
    assert status == 1 and "ptxsim: accepted: race at k.cu:6 [128 times]: known\n" in shown.err
    status, shown = run("several", *options, "--accept", "bounds@k.cu:5=known")
    assert status == 0 and "several: grid" in shown.out and len(shown.err.splitlines()) == 4
    status, shown = run("several", "--accept", "race@k.cu:6")
    assert status == 2 and "expected KIND@FILE:LINE=REASON" in shown.err
    status, shown = run("several", "--accept", "rice@k.cu:6=x")
    assert status == 2 and "kind 'rice' is not known; known: race, " in shown.err
    status, shown = run("noted", arrays=["zeros:f32:64"])
    assert status == 4 and shown.err.startswith("ptxsim: note: constant factor")
    status, shown = run("noted", "--constant", "factor=f32:2", arrays=["zeros:f32:64"])
    assert status == 0 and shown.err == ""


def test_a_reworded_message_changes_no_kind(source, monkeypatch, capsys):
    fault = Diagnostics.fault

    def reworded(self, kind, instruction, message, *more):
        return fault(self, kind, instruction, "something else", *more)

    monkeypatch.setattr(Diagnostics, "fault", reworded)
    done, *_ = launch(source, stop_at_first=False)
    kinds = {"bounds": 5, "race": 6, "unwritten": 9, "alignment": 10}
    assert {found.kind: int(found.where[5:]) for found in done.faults} == kinds
    assert all(found.message.endswith(": something else") for found in done.faults)
    records = [FaultRecord(str(found), found.kind, found.where) for found in done.faults]
    (run,) = json.loads(sarif([SimpleNamespace(faults=records)], []))["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    lines = [place["region"]["startLine"] for place in places]
    assert dict(zip([r["ruleId"] for r in run["results"]], lines, strict=True)) == kinds
    arrays = [f"--arg={text}" for text in ("zeros:f32:128", "zeros:f32:100", "100")]
    command = ["run", source, "--entry", "several", "--grid", "2", "--block", "64", *arrays]
    accept = [f"--accept={kind}=known" for kind in kinds]
    assert (main([*command, *accept[1:]]), main([*command, *accept])) == (1, 0)
    assert Checks().without(done.faults[0].kind) != Checks()


def test_an_accepted_fault_of_an_inlined_function_may_be_named_by_its_caller():
    accepted = parse_accepted("race@src/softmax.cu:12=all write one value")
    assert accepted == ptxsim.Accepted("race", "src/softmax.cu", 12, "all write one value")
    places = (
        ptxsim.ptx.syntax.Location("/a/reduce.cuh", 3),
        ptxsim.ptx.syntax.Location("/a/src/softmax.cu", 12),
    )
    fits = (
        accepted.fits("race", places),
        accepted.fits("bounds", places),
        accepted.fits("race", places[:1]),
    )
    assert fits == (True, False, False)
