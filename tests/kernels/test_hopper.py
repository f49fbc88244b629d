"""The rungs with Hopper's own instructions: edges, persistent blocks, what the emulator says of a forgotten step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers import ARCH

from experiments.emulation.device import EmulatedDevice
from experiments.stages.cases import Case, cases
from experiments.stages.check import run_case
from kernels import catalogue
from kernels.catalogue import Problem
from ptxsim.ptx.compiler import compile_ptx

EDGES = Problem(m=300, n=270, k=70, lda=72, ldb=280, ldc=272, alpha=0.75, beta=-1.5)


def checked(variant: catalogue.Variant, folder: Path, problem: Problem, sms: int | None = None) -> str:
    """What the check of one problem says, of a kernel that is built in `folder`; "" where it passed."""
    return run_case(EmulatedDevice(folder, sms=sms), variant, Case("", problem), seed=1).detail


def forgetful(tmp_path: Path, name: str, *changes: tuple[str, str]) -> catalogue.Variant:
    """The variant, its source changed, or one of the headers that it includes."""
    variant = catalogue.load().kernels[name]
    text = variant.source.read_text()
    for old, new in changes:
        if old not in text:
            (header,) = (path for path in variant.sources() if old in path.read_text())
            line = f'#include "include/{header.name}"\n'
            assert text.count(line) == 1, header
            text = text.replace(line, header.read_text().replace("#pragma once", ""))
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    source = tmp_path / variant.source.name
    source.write_text(text)
    return replace(variant, source=source)


def compiled(variant: catalogue.Variant, folder: Path) -> None:
    """Its PTX, which is all that is executed."""
    unit = folder / "unit.cu"
    unit.write_text(variant.translation_unit())
    (folder / f"{variant.name}.ptx").write_text(compile_ptx(unit, ARCH, [f"-I{catalogue.ROOT}"]))


RUNGS = ["smem", "tma", "256", "persistent", "cluster", "store", "streamk", "pingpong"]
RUNGS += ["coop", "coop_whole", "coop_256x192", "pingpong_wide", "pingpong_in_step"]


@pytest.mark.parametrize("rung", RUNGS)
def test_a_rung_takes_any_problem_whose_rows_are_whole_16_bytes(rung: str, ptx) -> None:
    variant = catalogue.load().kernels[f"hgemm_wgmma_{rung}_fp16"]
    assert checked(variant, ptx(variant.name), EDGES) == ""


@pytest.mark.parametrize("sms", [1, 3, 16])
def test_tf32_takes_any_problem_whose_rows_are_whole_16_bytes(sms: int, ptx) -> None:
    variant = catalogue.load().kernels["tf32gemm_wgmma"]
    assert checked(variant, ptx(variant.name), replace(EDGES, ldb=272), sms) == ""


COLUMN_MAJOR = [name for name, variant in catalogue.load().kernels.items() if variant.b_layout == "column"]


@pytest.mark.parametrize("name", COLUMN_MAJOR)
def test_a_kernel_of_a_column_major_b_takes_it_and_no_other(name: str, ptx) -> None:
    variant, edges = catalogue.load().kernels[name], replace(EDGES, ldb=80, b_layout="column")
    assert checked(variant, ptx(name), edges, sms=8) == ""
    refused = checked(variant, ptx(name), EDGES)
    assert refused == f"{name} cannot take this problem: B is row-major, but it must be column-major"
    other = replace(variant, b_layout="row")  # the same code given a B row after row: the case is made as it lies
    assert "elements are off" in checked(other, ptx(name), EDGES)


@pytest.mark.parametrize("sms", [2, 3, 16])
def test_a_persistent_rung_takes_any_number_of_multiprocessors(sms: int, ptx) -> None:
    variant, wider = catalogue.load().kernels["hgemm_wgmma_store_fp16"], replace(EDGES, n=520, ldb=520, ldc=528)
    assert checked(variant, ptx(variant.name), wider, sms) == ""


@pytest.mark.parametrize("sms", [4, 6, 16])
def test_clusters_kept_in_step_wait_for_each_other_and_leave_their_counters_zero(sms: int, tmp_path: Path) -> None:
    """Two full waves of tiles, or one, or none; an interval is two steps, so that each tile has three."""
    variant = catalogue.load().kernels["hgemm_wgmma_pingpong_in_step_fp16"]
    variant = replace(variant, template={**variant.template, "INTERVAL": 2})
    compiled(variant, tmp_path)
    problem = Problem(m=512, n=384, k=320, lda=320, ldb=384, ldc=384)
    assert checked(variant, tmp_path, problem, sms) == ""
    stuck = forgetful(tmp_path, variant.name, ("red.relaxed.gpu.global.add.u32 [%0], 1;", "// "))
    stuck = replace(stuck, template=variant.template)
    compiled(stuck, tmp_path)
    waves = problem.m // 256 * (problem.n // 192) // (sms // 2)  # in which every cluster has a tile
    assert ("deadlock" in checked(stuck, tmp_path, problem, sms)) == (waves > 0)


def test_more_blocks_than_a_tile_has_steps_do_not_wait_for_one_without_a_step(ptx, tmp_path: Path) -> None:
    """Stream-K on many multiprocessors: two tiles of six steps, 32 blocks, of which 16 would share a tile of more."""
    name, problem = "sgemm_tma_streamk", Problem(m=128, n=512, k=192, lda=192, ldb=512, ldc=512)
    assert checked(catalogue.load().kernels[name], ptx(name), problem, sms=32) == ""
    wrong = forgetful(tmp_path, name, ("FIXUP < WAYS ? min(WAYS, steps) : WAYS", "WAYS"))
    compiled(wrong, tmp_path)
    least = next(case for case in cases(wrong) if case.name == "odd: 127 x 1 x 129")
    assert "deadlock" in checked(wrong, tmp_path, least.problem)  # an emulated check finds it, too


@pytest.mark.parametrize(
    ("rung", "change", "report"),
    [
        ("smem", ('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', ""), "proxy"),
        ("tma", ("mbarrier::wait(pipeline.full(state.stage), state.phase);", ""), "not been waited for"),
        (
            "tma",
            ("if (leader && next < steps) pipeline.load(", "if (leader && next < steps - 1) pipeline.load("),
            "deadlock",
        ),
        ("ws", ("if (leader) mbarrier::arrive(pipeline.empty(stage));", ""), "deadlock"),
        ("ws", ("wgmma::wait<1>();  // for the previous step\n", ""), "wgmma"),
        ("persistent", ("mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);", ""), "more arrivals"),
        ("store", ("tma::fence_proxy_async();", ""), "proxy"),
        ("pingpong_bcol", ("mbarrier::wait(this->full(stage), state.phase);", ""), "not been waited for"),
        (
            "pingpong_bcol",
            ("map_b, col + half, k0, this->full(stage), 0b11)", "map_b, col, k0, this->full(stage), 0b11)"),
            "off",
        ),
        (
            "store",
            ("if (leader) tma::store_wait_read<1>();", "if (leader) tma::store_wait_read<2>();"),
            "may still read",
        ),
        ("coop", ("tma::fence_proxy_async();", ""), "proxy"),
        (
            "coop_256x192",
            ("(row_of(block) == row_of(rank) || column_of(block) == column_of(rank))", "block == rank"),
            "deadlock",
        ),
        ("pingpong_in_step", ("if (ended + 1 < clusters) return;", "return;"), "is not zero after the launch"),
    ],
)
def test_a_forgotten_step_is_found(rung: str, change: tuple[str, str], report: str, tmp_path: Path) -> None:
    variant = forgetful(tmp_path, f"hgemm_wgmma_{rung}_bf16", change)
    compiled(variant, tmp_path)
    problem = Problem(256, 512, 512, 512, 512, 512, b_layout=variant.b_layout)
    assert report in checked(variant, tmp_path, problem)


@pytest.mark.parametrize(
    ("change", "report"),
    [
        (("const int half = r / 2 % 2;", "const int half = 0;"), "elements are not finite"),
        (("wgmma::wait<1>();  // for the previous step", "wgmma::wait<2>();"), "wgmma"),
        (("mbarrier::wait(pipeline.full(state.stage), state.phase);", ""), "not been waited for"),
        (("if (step > 0) release(previous);", ""), "deadlock"),
    ],
)
def test_a_forgotten_step_of_tf32_is_found(change: tuple[str, str], report: str, tmp_path: Path) -> None:
    variant = forgetful(tmp_path, "tf32gemm_wgmma", change)
    compiled(variant, tmp_path)
    assert report in checked(variant, tmp_path, Problem(256, 256, 512, 512, 256, 256))


SLICED, SHARING = "hgemm_transposed_144x64_c4x1_k2_bf16", "hgemm_transposed_112x128_c2x2_bf16"


@pytest.mark.parametrize(
    ("name", "change", "report"),
    [
        (SHARING, ("mbarrier::wait(full(state.stage), state.phase);", ""), "not been waited for"),
        (SHARING, ("if (step > first) release(previous);", ""), "deadlock"),
        (SHARING, ("(thread / CX == y || thread % CX == x)", "thread / CX == y"), "deadlock"),
        (SHARING, ("tma::fence_proxy_async();", ""), "proxy"),
        (SHARING, ("warpgroup::sync(2 + group);", ""), "without a barrier between"),
        (
            SLICED,
            ("barrier.cluster.arrive.release.aligned;", "barrier.cluster.arrive.relaxed.aligned;"),
            "without a barrier after its wait_group",
        ),
        (SLICED, ("meet();  // the sums have been read, and C may take their place", ""), "without a barrier between"),
        (SLICED, ("rank(x, y, s), make_float4", "rank(x, y, slice), make_float4"), "elements are off"),
        (SLICED, ("place((slice + s) % SLICES, four)", "place(slice, four)"), "elements are off"),
    ],
)
def test_a_forgotten_step_of_a_cluster_that_shares_tiles_and_sums_is_found(
    name: str, change: tuple[str, str], report: str, tmp_path: Path
) -> None:
    variant = forgetful(tmp_path, name, change)
    compiled(variant, tmp_path)
    assert report in checked(variant, tmp_path, Problem(288, 256, 1280, 1280, 256, 256))
