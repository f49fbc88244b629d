"""Building with the real nvcc: what the cubin holds, that it is repeatable, and how a failure
looks.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import ARCH, ROOT, assert_one_line, copy_tree, json_dict, refused, run_module

from contracts import write_json
from contracts.rows import Resources, Toolchain
from experiments.gpu.device import entry_name
from experiments.stages import build, toolchain
from kernels import catalogue

KERNELS = catalogue.load().kernels
BROKEN = "__global__ void f(float* x) {\n    x[0] = 1.0f\n}\n"
TOO_MUCH_SHARED = "__global__ void f(float* x) {\n    __shared__ float big[60000];\n    big[threadIdx.x] = x[0];\n"
TOO_MUCH_SHARED += "    __syncthreads();\n    x[1] = big[threadIdx.x ^ 1];\n}\n"


def row(folder: Path, name: str) -> dict:
    """A built variant's row of resources.csv, checked against the schema."""
    return json_dict(folder / f"{name}.json", Resources)


def test_a_row_counts_what_the_machine_code_has(built: Path) -> None:
    fp32, bf16 = row(built, "sgemm_vectorized"), row(built, "hgemm_naive_bf16")
    assert fp32["source_hash"] == catalogue.load().find("sgemm_vectorized").source_hash
    assert fp32["arch"] == ARCH and fp32["compiler"].startswith("nvcc 13.0.")
    assert fp32["threads"] == 256 and 64 <= fp32["registers"] <= 255
    assert fp32["shared_bytes"] == 2 * 128 * 8 * 4  # the tiles of A and B
    assert fp32["ffma"] >= 8 * 8  # at least one step of an 8 x 8 patch
    tensor = ("hmma", "ldsm", "ldgsts")
    assert not any(fp32[key] for key in tensor) and all(bf16[key] > 0 for key in tensor)
    assert all(fp32[key] > 0 for key in ("lds_128", "ldg_128", "stg_128"))
    assert fp32["bar"] >= 2 and fp32["stack_bytes"] == fp32["spill_bytes"] == 0
    assert bf16["shared_bytes"] == (128 * 32 + 32 * 128) * 2


def test_the_only_entry_of_the_ptx_is_the_kernel(built: Path, tmp_path: Path) -> None:
    ptx = built / "sgemm_vectorized.ptx"
    name = entry_name(ptx)
    assert "sgemm_vectorized" in name and f".visible .entry {name}(" in ptx.read_text()
    assert ".loc" in ptx.read_text() and "vectorized.cu" in ptx.read_text()  # -lineinfo
    (tmp_path / "two.ptx").write_text(ptx.read_text() + "\n.visible .entry other(\n")
    with refused("2 kernel entries, expected 1"):
        entry_name(tmp_path / "two.ptx")


def test_spills_and_dynamic_shared_memory_are_counted(tmp_path: Path) -> None:
    """A kernel held to 32 registers that needs more spills; a variant's dynamic shared memory adds
    to the static.
    """
    source = tmp_path / "spills.cu"
    source.write_text(
        'extern "C" __global__ void __launch_bounds__(1024, 2) spills(const float* x, float* y) {\n'
        "    __shared__ float tile[64];\n    tile[threadIdx.x % 64] = x[threadIdx.x];\n    __syncthreads();\n"
        "    float v[64];\n#pragma unroll\n    for (int i = 0; i < 64; ++i) v[i] = x[threadIdx.x * 64 + i];\n"
        "#pragma unroll\n    for (int i = 0; i < 64; ++i)\n#pragma unroll\n"
        "        for (int j = 0; j < 64; ++j) v[j] = fmaf(v[i], tile[j], v[(i + j) % 64]);\n"
        "#pragma unroll\n    for (int i = 0; i < 64; ++i) y[threadIdx.x * 64 + i] = v[i];\n}\n"
    )
    stem, compiler = tmp_path / "spills", toolchain.nvcc()
    report = build.compile_source(source, stem, ARCH, compiler)
    variant = replace(catalogue.load().kernels["sgemm_naive"], name="spills", shared_bytes=1000)
    resources = build.resources(variant, stem, ARCH, compiler, report)
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert spilled and resources.spill_bytes == int(spilled[1]) + int(spilled[2]) > 0
    assert resources.registers == 32 and resources.stack_bytes > 0
    assert resources.shared_bytes == 64 * 4 + 1000


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (BROKEN, ["nvcc failed on bad.cu", 'expected a ";"']),
        (TOO_MUCH_SHARED, ["ptxas failed on bad.cu", "shared"]),
    ],
)
def test_a_source_that_does_not_compile_is_one_line_and_leaves_nothing(
    code: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.cu").write_text(code)
    out = tmp_path / "out"
    arguments = ("--source", tmp_path / "bad.cu", "--arch", ARCH, "--out-dir", out)
    assert_one_line(run_module("experiments.stages.build", *arguments), *words)
    assert list(out.iterdir()) == []


def test_of_a_batch_what_is_current_is_left_as_it_is(tmp_path: Path) -> None:
    """Current is what is complete, of this source, and newer than the toolchain's file."""
    known, stamp = catalogue.load(), tmp_path / "toolchain.json"
    paths = {name: tmp_path / f"{name}.json" for name in ("sgemm_naive", "sgemm_coalesced")}

    def built_anew() -> list[str]:
        before = {path: path.stat().st_mtime_ns for path in paths.values() if path.exists()}
        rows = build.build_batch([*paths], ARCH, tmp_path, None, known, stamp)
        assert [row.variant for row in rows] == [*paths]
        return [name for name, path in paths.items() if before.get(path) != path.stat().st_mtime_ns]

    stamp.touch()
    assert built_anew() == [*paths] and built_anew() == []
    (tmp_path / "sgemm_naive.sass").unlink()
    assert built_anew() == ["sgemm_naive"]
    path = paths["sgemm_coalesced"]
    write_json(path, Resources, json_dict(path, Resources) | {"source_hash": "0" * 16})
    assert built_anew() == ["sgemm_coalesced"]
    stamp.touch()
    assert built_anew() == [*paths]


def test_no_nvcc_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_wheel_bin", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("no nvcc: not in the installed wheels and not on PATH; rem"):
        build.build_variant("sgemm_naive", ARCH, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hgemm_naive_bf16", "--arch", "sm_75"], "needs compute capability 8.0, but arch = sm_75"),
        (["sgemm_naive", "--arch", "pascal"], "arch = 'pascal' is not allowed"),
        (["sgemm_naive", "--arch", "sm_9999"], "Unsupported gpu architecture"),
        (
            ["cublas_fp32", "sgemm_c_dispatch", "--arch", ARCH],
            "nothing to build; sgemm_c_dispatch is a d",
        ),
        (["--arch", ARCH], "--source"),
    ],
)
def test_what_cannot_be_built_is_one_line(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = run_module("experiments.stages.build", *arguments, "--out-dir", tmp_path)
    assert_one_line(done, message)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".cu"}


def test_the_fingerprint_is_stable_and_free_of_paths(tmp_path: Path) -> None:
    out = tmp_path / "toolchain.json"
    run_module("experiments.stages.toolchain", "--out", out).check_returncode()
    first, date = out.read_text(), out.stat().st_mtime_ns
    run_module("experiments.stages.toolchain", "--out", out).check_returncode()
    assert out.read_text() == first and out.stat().st_mtime_ns == date
    found = json_dict(out, Toolchain)
    assert found["nvcc"].startswith("13.0.") and found["arch"] == ARCH and found["gpu"] is None
    assert "/" not in first


# ---- the same bytes anywhere ---------------------------------------------------------------------

# The first has its own sources alone, the second static functions of the toolkit's headers; the
# third is no variant.
ANYWHERE = ["sgemm_vectorized", "sgemm_t128x128x8_texld", "harness"]


def build_anywhere(tree: Path, out_dir: Path, cwd: Path) -> dict[str, bytes]:
    """PTX and cubins, as the `experiments.stages.build` of the project in `tree` makes them."""
    harness = ["--source", tree / "experiments" / "gpu" / "harness.cu"]
    for name in ANYWHERE:
        options = (*(harness if name == "harness" else [name]), "--arch", ARCH)
        command = ("experiments.stages.build", *options, "--out-dir", out_dir)
        done = run_module(*command, cwd=cwd, PYTHONPATH=str(tree))
        assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in (cwd / out_dir).iterdir()}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which some are built."""
    tree = copy_tree(tmp_path_factory.mktemp("elsewhere") / "project")
    build_anywhere(tree, Path("results/build/sm_90a"), tree)
    return tree


def test_the_same_ptx_and_cubin_in_any_folder(elsewhere: Path, tmp_path: Path) -> None:
    """From this checkout and a copy with other dates, from and into other folders."""
    build_dir = elsewhere / "results/build/sm_90a"
    there = {path.name: path.read_bytes() for path in build_dir.iterdir()}
    for path in (elsewhere / "kernels").rglob("*.cu*"):
        os.utime(path, (0, 0))
    assert build_anywhere(elsewhere, tmp_path / "out", tmp_path) == there
    assert build_anywhere(ROOT, tmp_path / "here", ROOT) == there
    assert set(there) >= {f"{name}{suffix}" for name in ANYWHERE for suffix in (".ptx", ".cubin")}
    for name, data in there.items():
        for path in (elsewhere, ROOT, tmp_path, Path(sys.prefix), Path("/tmp")):
            assert str(path).encode() not in data, (name, path)
    files = sources_of(build_dir / "sgemm_t128x128x8_texld.ptx")
    assert "kernels/sgemm/t128x128x8_texld.cu" in files
    assert "cuda/include/texture_indirect_functions.h" in files
    assert all(name.startswith(("kernels/", "cuda/include/")) for name in files)


def sources_of(ptx: Path) -> list[str]:
    """The files of a PTX's line table."""
    return re.findall(r'^\s*\.file\s+\d+\s+"([^"]+)"', ptx.read_text(), re.M)


@pytest.mark.parametrize(
    ("folder", "named"), [(".", None), ("results/build", "sgemm/vectorized.cu"), ("/", None)]
)
def test_sources_are_found_from_any_working_folder(
    folder: str, named: str | None, elsewhere: Path
) -> None:
    """The line table's paths are from the repository's root, and the PTX lies below it."""
    ptx = elsewhere / "results/build/sm_90a/sgemm_vectorized.ptx"
    source = elsewhere / "kernels/sgemm/vectorized.cu"
    a = b = "zeros:f32:16384"
    values = [256, 256, 64, 1, a, 64, b, 256, 0, "zeros:f32:65536", 256]
    launch = ["--grid", "2,2", "--block", 256, *(f"--arg={value}" for value in values)]
    launch += ["--file", named] if named else []
    where = {"cwd": elsewhere / folder, "PYTHONPATH": str(elsewhere)}
    done = run_module("ptxsim", "annotate", ptx, *launch, **where)
    assert done.returncode == 0, done.stderr
    shared = next(text for text in source.read_text().splitlines() if "__shared__" in text)
    assert "== kernels/sgemm/vectorized.cu" in done.stdout and shared in done.stdout


def test_a_file_outside_is_named_from_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "own.cuh").write_text("__device__ inline float twice(float x) { return x + x; }\n")
    text = '#include "own.cuh"\n__global__ void f(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }\n'
    (tmp_path / "own.cu").write_text(text)
    build.compile_source(tmp_path / "own.cu", tmp_path / "out" / "own", ARCH, toolchain.nvcc())
    assert sorted(sources_of(tmp_path / "out" / "own.ptx")) == ["own.cu", "own.cuh"]
    assert str(tmp_path).encode() not in (tmp_path / "out" / "own.cubin").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_120"])
@pytest.mark.parametrize("name", {v.source: name for name, v in KERNELS.items()}.values())
def test_every_source_builds_for_other_architectures(name: str, arch: str, tmp_path: Path) -> None:
    if int(arch.removeprefix("sm_").rstrip("a")) < KERNELS[name].arch:
        pytest.skip(f"{name} needs a newer architecture")
    build.build_variant(name, arch, tmp_path)
    assert row(tmp_path, name)["blocks_per_sm"] >= 1
