"""The kernel author's loop without a GPU: real builds and emulation of small kernels, right and
wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import ARCH, ROOT, assert_one_line, environment, heed_ctrl_c, run_module, wait_until

from contracts import UserError
from experiments import command_line
from experiments.stages import build
from experiments.try_kernel import findings, screen
from experiments.try_kernel.on_gpu import Measured, Speed
from kernels import catalogue

GPU = command_line.find_gpu(["h100"])

FAULTS = ROOT / "tests" / "faults" / "gemm.cu"
LIKE = [
    "--like",
    "sgemm_blocktile_2d",
    "--tile",
    "m=64",
    "n=64",
    "k=16",
    "--multiples",
    "m=64",
    "n=64",
    "k=16",
]


SUMS = """
template <int COUNT>
__global__ void row_of_sums(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
                            float beta, float* C, int ldc) {
    const int row = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 8;
    if (row >= m) return;
    float sum[COUNT] = {};
    if (alpha != 0)
        for (int p = 0; p < k; ++p)
#pragma unroll
            for (int j = 0; j < 8; ++j) sum[j] += A[row * lda + p] * B[p * ldb + min(first + j, n - 1)];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        if (first + j >= n) continue;
        float* c = &C[row * ldc + first + j];
        *c = alpha * sum[j] + (beta != 0 ? beta * *c : 0);
    }
}
"""


def tried(out: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_module("experiments.try_kernel", *arguments, "--out-dir", out)


def fault(number: int) -> list[object]:
    """Options for the kernel with one of the faults of `Fault` in tests/faults/gemm.cu."""
    return [FAULTS, *LIKE, "--template", f"FAULT={number}"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("try")


@pytest.fixture(scope="module")
def naive(out: Path) -> list[str]:
    """The screen of sgemm_coalesced, next to sgemm_naive."""
    done = tried(out, "sgemm_coalesced")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_screen_shows_it_all(naive: list[str]) -> None:
    assert len(naive) <= screen.ROWS and max(map(len, naive)) <= screen.COLUMNS
    words = "\n".join(naive)
    assert naive[0].startswith("sgemm_coalesced: fp32, m = n = k = 4096, sm_90a, nvcc ")
    assert "checked sgemm_coalesced on ptxsim: " in naive[1] and "FAILED" not in words
    for label in (
        "registers per thread",
        "theoretical occupancy",
        "limited by",
        "limiter",
        "L1 lookups",
    ):
        assert label in words, label
    # 32 columns of B: 4 sectors, not 32
    row = next(line for line in naive if "Global load sectors" in line)
    own, base = (int(cell.replace(",", "")) for cell in row.split()[3:5])
    assert own < base and "-" in row.split()[5]
    assert "no times: no NVIDIA GPU is visible here" in words


def test_the_rung_s_part_is_kept_until_something_changes(
    out: Path, naive: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rung = catalogue.load().kernels["sgemm_naive"]
    monkeypatch.setattr(findings, "find", lambda *a, **k: pytest.fail("emulated again"))
    first = findings.find_kept(rung, 4096, ARCH, GPU, out)
    assert first.name == "sgemm_naive" and first.cycles and first.counters
    made: list[str] = []

    def find(variant: catalogue.Variant, size: int, *a: object, **k: object) -> findings.Findings:
        made.append(variant.source_hash)
        return replace(first, size=size)

    monkeypatch.setattr(findings, "find", find)
    changed = replace(rung, template={"BLOCK": 16}, threads=256)
    assert findings.find_kept(rung, 4096, ARCH, GPU, out) == first and not made
    assert findings.find_kept(rung, 2048, ARCH, GPU, out).size == 2048
    findings.find_kept(changed, 4096, ARCH, GPU, out)
    monkeypatch.setattr(findings, "code_hash", lambda: "other")
    findings.find_kept(rung, 4096, ARCH, GPU, out)
    assert made == [rung.source_hash, changed.source_hash, rung.source_hash]
    for path in (out / "kept").iterdir():
        path.write_text(path.read_text()[:40])  # cut: made again, not believed
    findings.find_kept(rung, 4096, ARCH, GPU, out)
    assert len(made) == 4


def test_a_wrong_kernel_is_explained(out: Path, tmp_path: Path) -> None:
    late = tmp_path / "gemm.cu"
    late.write_text(FAULTS.read_text().replace("for (int k0 = 0;", "for (int k0 = 32;", 1))
    done = tried(out, late, *fault(0)[1:])
    assert done.returncode == 1, done.stderr
    words = " ".join(done.stdout.split())
    line = next(
        n for n, text in enumerate(FAULTS.read_text().splitlines(), 1) if "update_c(c" in text
    )
    assert re.search(
        rf"stored by all threads in every block at epilogue.cuh:\d+ \(called from gemm.cu:{line}\)",
        words,
    )
    assert "; C[0, 0] by thread 0 of block (0, 0)" in words
    assert "they lack k = 0 to 31 of 112" in words
    assert words.count("FAILED") == 2 and "it fails where alpha is not 0, and nowhere else" in words
    assert len(done.stdout.splitlines()) <= screen.ROWS


def test_a_race_is_reported_with_line_and_thread_once(out: Path) -> None:
    done = tried(out, *fault(3))
    words = " ".join(done.stdout.split())
    line = next(
        n
        for n, text in enumerate(FAULTS.read_text().splitlines(), 1)
        if "sum[i][j] += a_tile" in text
    )
    assert (
        done.returncode == 1 and f"gemm.cu:{line}: block (0, 0, 0), thread (1, 0, 0): race" in words
    )
    assert words.count("race") == 1


@pytest.mark.parametrize("count", [4, 8])
def test_a_wrong_result_is_looked_into_with_debug_code(count: int, tmp_path: Path) -> None:
    """With fewer sums than are read the result is undefined: nvcc -G shows where."""
    (tmp_path / "sums.cu").write_text(SUMS)
    like = [
        "--like",
        "sgemm_naive",
        "--tile",
        "m=32",
        "n=8",
        "k=1",
        "--threads",
        "32",
        "--size",
        "64",
    ]
    done = tried(tmp_path / "out", tmp_path / "sums.cu", *like, "--template", f"COUNT={count}")
    assert done.returncode == (count < 8), done.stdout + done.stderr
    assert ("with -G" in " ".join(done.stdout.split())) == (count < 8)


def test_bad_input_is_one_line(out: Path, tmp_path: Path) -> None:
    assert_one_line(tried(out, "sgemm_naiv"), "unknown variant 'sgemm_naiv'", "sgemm_naive")
    assert_one_line(tried(out, "cublas_fp32"), "library baseline")
    assert_one_line(
        tried(out, "sgemm_c_dispatch"), "dispatcher; try one of its kernels", "sgemm_t128x128x8"
    )
    assert_one_line(tried(out, "sgemm_naive", "--threads", 64), "--threads goes with a .cu file")
    assert_one_line(tried(out, "sgemm_naive", "--size", 0), "--size 0 is not allowed", "1 to 32768")
    assert_one_line(tried(out, FAULTS), "goes with --like VARIANT")
    assert_one_line(tried(out, FAULTS, *LIKE), "template parameter 'FAULT'", "--template FAULT=")
    assert_one_line(tried(out, *fault(0), "X=1"), "no template parameter 'X'; it has: FAULT")
    assert_one_line(tried(out, *fault(0), "--threads", 33), "threads = 33 is not allowed")
    assert_one_line(
        tried(out, *fault(0), "--entry", "gemm"),
        "no __global__ template 'gemm'; there: faulty_gemm",
    )
    assert_one_line(tried(out, tmp_path / "no.cu", "--like", "sgemm_naive"), "no.cu: no such file")


def test_a_wrong_entry_hints_at_the_key(tmp_path: Path) -> None:
    wrong = replace(catalogue.load().kernels["sgemm_naive"], entry="sgemm_nave")
    with pytest.raises(
        UserError, match=r"no __global__ template 'sgemm_nave'.*there: sgemm_naive; .*`entry:`"
    ):
        build.build_kernel(wrong, ARCH, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".cu"]


def test_a_kernel_outside_the_catalogue_is_named_to_another_process() -> None:
    parser = argparse.ArgumentParser()
    command_line.add_kernel(parser)
    parser.set_defaults(catalogue=catalogue.load())
    first = parser.parse_args([*map(str, fault(2)), "--threads", "256"])
    again = parser.parse_args(command_line.kernel_arguments(first))
    assert command_line.find_kernel(again) == command_line.find_kernel(first)
    kernel = command_line.find_kernel(first)
    assert isinstance(kernel, catalogue.Variant) and kernel.name not in catalogue.load()
    assert (kernel.template, kernel.tile["k"], kernel.builds_on) == (
        {"FAULT": 2},
        16,
        "sgemm_blocktile_2d",
    )


def test_templates_are_read_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "many.cu"
    path.write_text(
        "// template <int NO> __global__ void commented(int m) {}\n"
        "template <int BM, typename T = float>\n__global__ void __launch_bounds__((BM * 2), 1)\nfirst(int m) {}\n"
        "template <bool B> __device__ int helper(int x) { return x; }\n"
        "template<int A,int C>__global__ __launch_bounds__(A) void second(int m);\n__global__ void plain(int m) {}\n"
    )
    found = {one.name: (one.parameters, one.defaulted) for one in command_line.templates(path)}
    assert found == {"first": (("BM", "T"), ("T",)), "second": (("A", "C"), ())}


def test_what_stands_next_to_the_file_is_part_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "mine.cuh").write_text("// one\n")
    source = tmp_path / "mine.cu"
    source.write_text(f'#include "mine.cuh"\n{FAULTS.read_text()}')
    mine = replace(catalogue.load().kernels["sgemm_blocktile_2d"], source=source)
    assert (tmp_path / "mine.cuh").resolve() in mine.sources()
    before = mine.source_hash
    (tmp_path / "mine.cuh").write_text("#define X\n")
    assert mine.source_hash != before


# ---- the screen with measurements of a GPU -------------------------------------------------------


def test_times_and_measured_counters_have_their_place(out: Path, naive: list[str]) -> None:
    kernels = catalogue.load().kernels
    own, rung = kernels["sgemm_coalesced"], kernels["sgemm_naive"]
    base = findings.find_kept(rung, 4096, ARCH, GPU, out)
    speeds = {
        own.name: Speed(100.0, 0.5, 120.0, 1900.0),
        rung.name: Speed(400.0, 0.125, 30.0, 1950.0),
    }
    hit, cycles = "l1tex__t_sector_hit_rate.pct", "sm__inst_executed.sum"
    counters = {own.name: {hit: 90.0, cycles: 100.0}, rung.name: {hit: 45.0, cycles: 101.0}}
    measured = Measured("NVIDIA H200", ["checked on gpu"], True, "cublas_fp32", speeds, counters)
    lines = screen.render(own, replace(base, name=own.name), base, measured, None)
    cells = {line[:44].strip(): line[44:].split() for line in lines}
    assert cells["share of cublas_fp32"] == ["50%", "12.5%", "+37.5", "(+300.0%)"]
    assert cells["time, µs"] == ["100", "400", "-300", "(-75.0%)"]
    assert cells["FLOP/clock/SM"][:2] == ["120", "30"]
    assert "counters that moved (ncu)" in cells and cells["L1/TEX hit rate"][:2] == ["90", "45"]
    assert "Instructions executed" not in cells  # by 1%: not moved
    lines = screen.render(
        own, base, base, replace(measured, counters={}, why_not="no ncu on PATH"), None
    )
    assert any("no counters of ncu: no ncu on PATH" in line for line in lines)


def test_a_long_story_stays_on_one_screen(out: Path, naive: list[str]) -> None:
    own = catalogue.load().kernels["sgemm_coalesced"]
    base = findings.find_kept(catalogue.load().kernels["sgemm_naive"], 4096, ARCH, GPU, out)
    long = replace(
        base,
        name="x" * 60,
        checks=["FAILED " + "word " * 300] * 3,
        lines=["mine.cu:1: " + "y" * 300] * 9,
    )
    far = {name: value * 3 + 1 for name, value in base.counters.items()}
    lines = screen.render(own, replace(long, counters=far), base, None, "no GPU")
    assert len(lines) <= screen.ROWS and max(map(len, lines)) <= screen.COLUMNS
    uncounted = replace(base, counters={}, cycles={}, lines=[], why_not="not made of whole tiles")
    assert any(
        "the emulator has no counts: not made" in line
        for line in screen.render(own, uncounted, base, None, "")
    )


# ---- again whenever it is saved ------------------------------------------------------------------


def test_watch_runs_again_when_the_file_is_saved_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    source, log = tmp_path / "gemm.cu", tmp_path / "log.txt"
    source.write_text("no kernel yet\n")
    command = [
        sys.executable,
        "-m",
        "experiments.try_kernel",
        str(source),
        *LIKE,
        "--template",
        "FAULT=0",
        "--watch",
    ]
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, "--out-dir", str(tmp_path / "out")],
            cwd=ROOT,
            env=environment(),
            stdout=file,
            stderr=file,
            preexec_fn=heed_ctrl_c,
        )
        try:
            wait_until(lambda: "no __global__ template" in log.read_text(), process)
            saved = tmp_path / "saved.cu"
            saved.write_text(FAULTS.read_text())
            os.replace(saved, source)  # as editors save
            wait_until(
                lambda: "checked gemm on ptxsim: 25 of 25 cases passed" in log.read_text(), process
            )
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        finally:
            process.kill()
    assert "Traceback" not in log.read_text()
