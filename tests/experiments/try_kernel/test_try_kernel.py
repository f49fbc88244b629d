"""The kernel author's loop without a GPU: small kernels, right and wrong, built and emulated."""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import (
    ARCH,
    ROOT,
    assert_one_line,
    environment,
    heed_ctrl_c,
    refused,
    run_module,
    wait_until,
)

from experiments import command_line
from experiments.stages import build
from experiments.try_kernel import findings, screen
from experiments.try_kernel.on_gpu import Measured, Speed
from kernels import catalogue

GPU = command_line.find_gpu(["h100"])


@pytest.fixture(autouse=True, scope="module")
def narrow_terminal() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        yield


FAULTS = ROOT / "tests" / "faults" / "gemm.cu"
BLOCK = "m=64 n=64 k=16"
LIKE = f"--like sgemm_blocktile_2d --tile {BLOCK} --multiples {BLOCK}".split()
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


def line_of(text: str) -> int:
    """The number of the first line of tests/faults/gemm.cu that has this text."""
    lines = FAULTS.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


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
    assert len(naive) <= screen.ROWS and max(map(len, naive)) <= screen.MIN_COLUMNS
    text = "\n".join(naive)
    assert naive[0].startswith("sgemm_coalesced: fp32, m = n = k = 4096, sm_90a, nvcc ")
    assert "checked sgemm_coalesced on ptxsim: " in naive[1] and "FAILED" not in text
    labels = ("registers per thread", "theoretical occupancy", "limited by", "limiter")
    assert all(label in text for label in (*labels, "L1 lookups")), text
    # 32 columns of B are 4 sectors in place of 32.
    row = next(line for line in naive if "Global load sectors" in line)
    assert row.split()[3:] == ["10.7", "G", "70.9", "G", "-84.8%"]
    assert "no times of this run: no NVIDIA GPU is visible here" in text
    row = next(line for line in naive if "TFLOP/s of cuBLAS" in line)
    assert row.split()[3:] == ["6.42", "of", "51.6", "0.502", "of", "51.8"]
    # What limits is the largest of the minimum cycles, which stand above it; estimates stand below.
    cycles = naive[next(i for i, line in enumerate(naive) if "minimum cycles" in line) :]
    labels = [line[:36].strip() for line in cycles[1 : cycles.index("")]]
    limiter = labels.index("limiter: the largest of these")
    assert labels[0] in cycles[1 + limiter]
    estimates = ["estimate" in label for label in labels]
    assert not any(estimates[:limiter]) and all(estimates[limiter + 1 :])
    assert "minimum cycles per SM on an H100" in text


def test_the_rung_s_part_is_cached_until_something_changes(
    out: Path, naive: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rung = catalogue.load().kernels["sgemm_naive"]
    made: list[str] = []

    def find(variant: catalogue.Variant, size: int, *_: object, **__: object) -> findings.Findings:
        made.append(variant.source_hash)
        return replace(first, size=size)

    monkeypatch.setattr(findings, "find", find)
    first = findings.find_cached(rung, 4096, ARCH, GPU, out)
    assert first.name == "sgemm_naive" and first.cycles and first.counters and not made
    assert findings.find_cached(rung, 2048, ARCH, GPU, out).size == 2048
    changed = replace(rung, template={"BLOCK": 16}, threads=256)
    findings.find_cached(changed, 4096, ARCH, GPU, out)
    monkeypatch.setattr(findings, "code_hash", lambda: "other")
    findings.find_cached(rung, 4096, ARCH, GPU, out)
    assert made == [rung.source_hash, changed.source_hash, rung.source_hash]
    for path in (out / "cache").iterdir():
        path.write_text(path.read_text()[:40])  # A cut file is made again, not believed.
    findings.find_cached(rung, 4096, ARCH, GPU, out)
    assert len(made) == 4


def test_a_wrong_kernel_is_explained(out: Path, tmp_path: Path) -> None:
    late = tmp_path / "gemm.cu"
    late.write_text(FAULTS.read_text().replace("for (int k0 = 0;", "for (int k0 = 32;", 1))
    done = tried(out, late, *fault(0)[1:])
    text = " ".join(done.stdout.split())
    called = rf"epilogue.cuh:\d+ \(called from gemm.cu:{line_of('update_c(c')}\)"
    assert done.returncode == 1, done.stderr
    assert re.search(f"stored by all threads in every block at {called}", text)
    assert "; C[0, 0] by thread 0 of block (0, 0)" in text
    assert "they lack k = 0 to 31 of 112" in text
    assert text.count("FAILED") == 2
    assert "it fails where A * B is computed (alpha is not 0), and nowhere else" in text
    lines = done.stdout.splitlines()
    assert len(lines) <= screen.ROWS and any("FAILED" in line for line in lines[-12:])


def test_a_race_is_reported_with_line_and_thread_once_and_on_its_page(out: Path) -> None:
    page = out / "page.html"
    done = tried(out, *fault(3), "--html", page)
    text = " ".join(done.stdout.split())
    place = f"gemm.cu:{line_of('sum[i][j] += a_tile')}: block (0, 0, 0), thread (1, 0, 0): race"
    assert done.returncode == 1 and place in text and text.count("race") == 1
    assert done.stdout.splitlines()[-1] == f"page: {page}"
    packed = re.search('id="part-lens_gemm">([^<]+)<', page.read_text())
    assert packed
    lens = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert not lens["passed"] and place in lens["checks"][0]
    assert (
        lens["source"] == "tests/faults/gemm.cu"
        and "part-lens_sgemm_blocktile_2d" in page.read_text()
    )


@pytest.mark.parametrize("count", [4, 8])
def test_a_wrong_result_is_looked_into_with_debug_code(count: int, tmp_path: Path) -> None:
    """With fewer sums than are read the result is undefined: nvcc -G shows where."""
    (tmp_path / "sums.cu").write_text(SUMS)
    like = ["--like", "sgemm_naive", "--tile", "m=32", "n=8", "k=1", "--threads", "32"]
    like += ["--size", "64", "--template", f"COUNT={count}"]
    done = tried(tmp_path / "out", tmp_path / "sums.cu", *like)
    assert done.returncode == (count < 8), done.stdout + done.stderr
    assert ("with -G" in " ".join(done.stdout.split())) == (count < 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["sgemm_naiv"],
            "unknown variant 'sgemm_naiv' in kernels/catalogue.yaml; nearest: sgemm_n",
        ),
        (["cublas_fp32"], "library baseline"),
        (["sgemm_c_dispatch"], "dispatcher; try one of its kernels: sgemm_t128x256x8"),
        (["sgemm_naive", "--threads", 64], "--threads goes with a .cu file"),
        (["sgemm_naive", "--html", "nope/a.html"], "--html nope/a.html: no folder nope; make it"),
        (["sgemm_naive", "--html", "docs"], "--html docs: cannot be written"),
        (["sgemm_naive", "--size", 0], "--size 0 is not allowed; allowed: 1 to 32768"),
        ([FAULTS], "goes with --like VARIANT"),
        ([FAULTS, *LIKE], "template parameter 'FAULT', for which sgemm_blocktile_2d has no value"),
        ([*fault(0), "X=1"], "no template parameter 'X'; it has: FAULT"),
        ([*fault(0), "--threads", 0], "threads = 0 is not allowed"),
        ([*fault(0), "--entry", "gemm"], "no __global__ template 'gemm'; there: faulty_gemm"),
        (["no.cu", "--like", "sgemm_naive"], "no.cu: no such file"),
    ],
)
def test_bad_input_is_one_line(arguments: list[object], message: str, tmp_path: Path) -> None:
    assert_one_line(tried(tmp_path, *arguments), message)
    assert not (tmp_path / "build").exists()


def test_a_wrong_entry_hints_at_the_key(tmp_path: Path) -> None:
    wrong = replace(catalogue.load().kernels["sgemm_naive"], entry="sgemm_nave")
    with refused(r"no __global__ template 'sgemm_nave'.*there: sgemm_naive; .*`entry:`"):
        build.build_kernel(wrong, ARCH, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".cu"]


def test_a_kernel_outside_the_catalogue_is_named_to_another_process() -> None:
    parser = argparse.ArgumentParser()
    command_line.add_kernel(parser)
    parser.set_defaults(catalogue=catalogue.load())
    first = parser.parse_args([*map(str, fault(2)), "--threads", "256"])
    kernel = command_line.find_kernel(first)
    again = parser.parse_args(command_line.kernel_arguments(first))
    assert command_line.find_kernel(again) == kernel
    assert isinstance(kernel, catalogue.Variant) and kernel.name not in catalogue.load()
    assert (kernel.template, kernel.tile["k"]) == ({"FAULT": 2}, 16)
    assert kernel.builds_on == "sgemm_blocktile_2d"


def test_templates_are_read_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "many.cu"
    path.write_text(
        "// template <int NO> __global__ void commented(int m) {}\n"
        "template <int BM, typename T = float>\n__global__ void __launch_bounds__((BM * 2), 1)\nfirst(int m) {}\n"
        "template <bool B> __device__ int helper(int x) { return x; }\n"
        "template<int A,int C>__global__ __launch_bounds__(A) void second(int m);\n__global__ void plain(int m) {}\n"
    )
    found = command_line.templates(path)
    parameters = {template.name: (template.parameters, template.defaulted) for template in found}
    assert parameters == {"first": (("BM", "T"), ("T",)), "second": (("A", "C"), ())}


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


def test_times_and_measured_counters_are_rows_of_the_screen(out: Path, naive: list[str]) -> None:
    kernels = catalogue.load().kernels
    kernel, name = kernels["sgemm_coalesced"], "sgemm_coalesced"
    rung = findings.find_cached(kernels["sgemm_naive"], 4096, ARCH, GPU, out)
    slow, fast = Speed(400.0, 0.125, 30.0, 1950.0), Speed(100.0, 0.5, 120.0, 1900.0)
    hit, instructions = "l1tex__t_sector_hit_rate.pct", "sm__inst_executed.sum"
    counters = {name: {hit: 90.0, instructions: 100.0}, rung.name: {hit: 45.0, instructions: 101.0}}
    speeds = {name: fast, rung.name: slow}
    measured = Measured("NVIDIA H200", ["checked on gpu"], True, "cublas_fp32", speeds, counters)
    lines = screen.render(kernel, replace(rung, name=name), rung, measured, None)
    width = screen.MIN_COLUMNS - 2 * (screen.CELL + 2) - screen.DIFFERENCE - 2
    cells = {line[:width].strip(): line[width:].split() for line in lines}
    assert cells["share of cublas_fp32"] == ["50%", "12.5%", "+300.0%"]
    assert cells["time, µs"] == ["100", "400", "-75.0%"]
    assert cells["FLOP/clock/SM"][:2] == ["120", "30"]
    assert "counters that moved (ncu)" in cells and cells["L1/TEX hit rate"][:2] == ["90", "45"]
    assert "Instructions executed" not in cells  # They differ by 1% only.
    without = replace(measured, counters={}, why_not="no ncu on PATH")
    lines = screen.render(kernel, rung, rung, without, None)
    assert any("no counters of ncu: no ncu on PATH" in line for line in lines)


def test_a_long_story_stays_on_one_screen(out: Path, naive: list[str]) -> None:
    kernel = catalogue.load().kernels["sgemm_coalesced"]
    rung = findings.find_cached(catalogue.load().kernels["sgemm_naive"], 4096, ARCH, GPU, out)
    checks, costly = ["FAILED " + "word " * 300] * 3, ["mine.cu:1: " + "y" * 300] * 9
    far = {name: value * 3 + 1 for name, value in rung.counters.items()}
    long = replace(rung, name="x" * 60, checks=checks, lines=costly, counters=far)
    lines = screen.render(kernel, long, rung, None, "no GPU")
    assert len(lines) <= screen.ROWS and max(map(len, lines)) <= screen.MIN_COLUMNS
    uncounted = replace(rung, counters={}, cycles={}, lines=[], why_not="not made of whole tiles")
    lines = screen.render(kernel, uncounted, rung, None, "")
    assert any("the emulator has no counts: not made" in line for line in lines)


# ---- again whenever it is saved ------------------------------------------------------------------


def test_watch_runs_again_when_the_file_is_saved_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    source, log = tmp_path / "gemm.cu", tmp_path / "log.txt"
    source.write_text("no kernel yet\n")
    command = [sys.executable, "-m", "experiments.try_kernel", str(source), *LIKE, "--watch"]
    command += ["--template", "FAULT=0", "--out-dir", str(tmp_path / "out")]
    streams = {"stdout": log.open("w"), "stderr": subprocess.STDOUT, "preexec_fn": heed_ctrl_c}
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), **streams)
    try:
        wait_until(lambda: "no __global__ template" in log.read_text(), process)
        saved = tmp_path / "saved.cu"
        saved.write_text(FAULTS.read_text())
        os.replace(saved, source)  # Editors save like this.
        passed = "checked gemm on ptxsim: 25 of 25 cases passed"
        wait_until(lambda: passed in log.read_text(), process)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    finally:
        process.kill()
    assert "Traceback" not in log.read_text()
