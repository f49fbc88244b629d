"""The rungs with Hopper's own instructions: edges, persistent blocks, what the emulator says of a
forgotten step.
"""

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


def checked(
    variant: catalogue.Variant, folder: Path, problem: Problem, sms: int | None = None
) -> str:
    """What the check of one problem says, of a kernel that is built in `folder`; "" where it
    passed.
    """
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


@pytest.mark.parametrize("sms", [4, 6, 16])
def test_clusters_kept_in_step_wait_for_each_other_and_leave_their_counters_zero(
    sms: int, tmp_path: Path
) -> None:
    """Two full waves of tiles, or one, or none; an interval is two steps, so that each tile has
    three.
    """
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


def test_more_blocks_than_a_tile_has_steps_do_not_wait_for_one_without_a_step(
    ptx, tmp_path: Path
) -> None:
    """Stream-K on many multiprocessors: two tiles of six steps, 32 blocks, of which 16 would share
    a tile of more.
    """
    name, problem = "sgemm_tma_streamk", Problem(m=128, n=512, k=192, lda=192, ldb=512, ldc=512)
    assert checked(catalogue.load().kernels[name], ptx(name), problem, sms=32) == ""
    wrong = forgetful(tmp_path, name, ("FIXUP < WAYS ? min(WAYS, steps) : WAYS", "WAYS"))
    compiled(wrong, tmp_path)
    least = next(case for case in cases(wrong) if case.name == "odd: 127 x 1 x 129")
    assert "deadlock" in checked(wrong, tmp_path, least.problem)  # an emulated check finds it, too


BARRIER = "mbarrier::wait(pipeline.full(state.stage), state.phase);"
PREVIOUS = "wgmma::wait<1>();  // for the previous step"
TILES, DEEP = Problem(256, 512, 512, 512, 512, 512), Problem(256, 256, 512, 512, 256, 256)
BY_COLUMNS, SHARED = replace(TILES, b_layout="column"), Problem(288, 256, 1280, 1280, 256, 256)
BCOL = "hgemm_wgmma_pingpong_bcol_bf16"
SLICED, SHARING = "hgemm_transposed_128x128_c2x1_k4_bf16", "hgemm_transposed_128x128_c1x2_bf16"
FORGOTTEN = [  # kernel, what its source has, what is put there, problem, what is reported
    (
        "hgemm_wgmma_smem_bf16",
        'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
        "",
        TILES,
        "proxy",
    ),
    ("hgemm_wgmma_tma_bf16", BARRIER, "", TILES, "not been waited for"),
    (
        "hgemm_wgmma_tma_bf16",
        "if (leader && next < steps) ",
        "if (leader && next < steps - 1) ",
        TILES,
        "deadlock",
    ),
    (
        "hgemm_wgmma_ws_bf16",
        "if (leader) mbarrier::arrive(pipeline.empty(stage));",
        "",
        TILES,
        "deadlock",
    ),
    ("hgemm_wgmma_ws_bf16", PREVIOUS, "", TILES, "wgmma"),
    (
        *(
            "hgemm_wgmma_persistent_bf16",
            "mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);",
            "",
        ),
        *(TILES, "more arrivals"),
    ),
    ("hgemm_wgmma_store_bf16", "tma::fence_proxy_async();", "", TILES, "proxy"),
    (
        BCOL,
        "mbarrier::wait(this->full(stage), state.phase);",
        "",
        BY_COLUMNS,
        "not been waited for",
    ),
    (
        BCOL,
        "map_b, col + half, k0, this->full(stage)",
        "map_b, col, k0, this->full(stage)",
        BY_COLUMNS,
        "off",
    ),
    (
        "hgemm_wgmma_store_bf16",
        "tma::store_wait_read<1>();",
        "tma::store_wait_read<2>();",
        TILES,
        "may still read",
    ),
    (
        *(
            "hgemm_wgmma_coop_256x192_bf16",
            "(row_of(block) == row_of(rank) || column_of(block) == column_of(rank))",
        ),
        *("block == rank", TILES, "deadlock"),
    ),
    (
        *("hgemm_wgmma_pingpong_in_step_bf16", "if (ended + 1 < clusters) return;", "return;"),
        *(TILES, "is not zero after the launch"),
    ),
    (
        "tf32gemm_wgmma",
        "const int half = r / 2 % 2;",
        "const int half = 0;",
        DEEP,
        "elements are not finite",
    ),
    ("tf32gemm_wgmma", PREVIOUS, "wgmma::wait<2>();", DEEP, "wgmma"),
    (SHARING, "(thread / CX == y || thread % CX == x)", "thread / CX == y", SHARED, "deadlock"),
    (SHARING, "warpgroup::sync(2 + group);", "", SHARED, "without a barrier between"),
    (
        *(
            SLICED,
            "barrier.cluster.arrive.release.aligned;",
            "barrier.cluster.arrive.relaxed.aligned;",
        ),
        *(SHARED, "may have ended"),
    ),
    (SLICED, "meet();  // as above", "", SHARED, "wgmma"),
    (SLICED, "mbarrier::wait(come, 0);", "", SHARED, "not been waited for"),
    (
        SLICED,
        "arrive_expect_tx(come, Sums::BYTES)",
        "arrive_expect_tx(come, Sums::BYTES - 16)",
        SHARED,
        "deadlock",
    ),
    (
        SLICED,
        "store_async_4(to, rank(x, y, s)",
        "store_async_4(to, rank(x, y, slice)",
        SHARED,
        "elements are off",
    ),
    (
        SLICED,
        "load_shared_4(place(distance, four))",
        "load_shared_4(place(1, four))",
        SHARED,
        "elements are off",
    ),
    (
        "hgemm_transposed_64x64_k2_bf16",
        "cluster::wait();  // all",
        ";  // all",
        SHARED,
        "signals an mbarrier",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "problem", "report"), FORGOTTEN)
def test_a_forgotten_step_is_found(
    name: str, old: str, new: str, problem: Problem, report: str, tmp_path: Path
) -> None:
    variant = forgetful(tmp_path, name, (old, new))
    compiled(variant, tmp_path)
    assert report in checked(variant, tmp_path, problem)
