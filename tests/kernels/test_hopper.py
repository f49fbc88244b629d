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
    variant = catalogue.load()[name]
    assert isinstance(variant, catalogue.Variant)
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


TILES, DEEP = Problem(256, 512, 512, 512, 512, 512), Problem(256, 256, 512, 512, 256, 256)
BY_COLUMNS, SHARED = replace(TILES, b_layout="column"), Problem(288, 256, 1280, 1280, 256, 256)
SMEM, TMA, WS = (f"hgemm_wgmma_{rung}_bf16" for rung in ("smem", "tma", "ws"))
PERSISTENT, STORE = (f"hgemm_wgmma_{rung}_bf16" for rung in ("persistent", "store"))
IN_STEP, BCOL = (f"hgemm_wgmma_pingpong_{rung}_bf16" for rung in ("in_step", "bcol"))
COOP, TF32 = "hgemm_wgmma_coop_256x192_bf16", "tf32gemm_wgmma"
SLICED, SHARING, SMALL = (
    f"hgemm_transposed_{tile}_bf16" for tile in ("128x128_c2x1_k4", "128x128_c1x2", "64x64_k2")
)
TILE_SLICED, TILE_ALONE = (
    f"hgemm_tile_64x128_bfirst_{cluster}_s2_bf16" for cluster in ("c2x1_k4", "c1x1_k2")
)
LAST_READ = "for (int i = 0; i < STAGES; ++i, state.advance()) mbarrier::wait(empty(state.stage), state.phase ^ 1);"
FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
BARRIER = "mbarrier::wait(pipeline.full(state.stage), state.phase);"
EMPTY = "mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);"
ARRIVED = "if (leader) mbarrier::arrive(pipeline.empty(stage));"
PREVIOUS = "wgmma::wait<1>();  // for the previous step"
FULL = "mbarrier::wait(this->full(stage), state.phase);"
HALF = "map_b, {}, k0, this->full(stage)"
PEERS = "(row_of(block) == row_of(rank) || column_of(block) == column_of(rank))"
MEETING = "barrier.cluster.arrive.{}.aligned;"
EXPECTED = "arrive_expect_tx(come, Sums::BYTES{})"
OTHER_SLICE, OTHER_SUMS = "store_async_4(to, rank(x, y, {})", "load_shared_4(place({}, four))"
FORGOTTEN = [  # kernel, what its source has, what is put there, problem, what is reported
    (SMEM, FENCE, "", TILES, "proxy"),
    (TMA, BARRIER, "", TILES, "not been waited for"),
    (TMA, "if (leader && next < steps) ", "if (leader && next < steps - 1) ", TILES, "deadlock"),
    (WS, ARRIVED, "", TILES, "deadlock"),
    (WS, PREVIOUS, "", TILES, "wgmma"),
    (PERSISTENT, EMPTY, "", TILES, "more arrivals"),
    (STORE, "tma::fence_proxy_async();", "", TILES, "proxy"),
    (BCOL, FULL, "", BY_COLUMNS, "not been waited for"),
    (BCOL, HALF.format("col + half"), HALF.format("col"), BY_COLUMNS, "off"),
    (STORE, "tma::store_wait_read<1>();", "tma::store_wait_read<2>();", TILES, "may still read"),
    (COOP, PEERS, "block == rank", TILES, "deadlock"),
    (
        IN_STEP,
        "if (ended + 1 < clusters) return;",
        "return;",
        TILES,
        "is not zero after the launch",
    ),
    (TF32, "const int half = r / 2 % 2;", "const int half = 0;", DEEP, "elements are not finite"),
    (TF32, PREVIOUS, "wgmma::wait<2>();", DEEP, "wgmma"),
    (SHARING, "(thread / CX == y || thread % CX == x)", "thread / CX == y", SHARED, "deadlock"),
    (SHARING, "warpgroup::sync(2 + group);", "", SHARED, "without a barrier between"),
    (SLICED, MEETING.format("release"), MEETING.format("relaxed"), SHARED, "may have ended"),
    (SLICED, "meet();  // as above", "", SHARED, "wgmma"),
    (SLICED, "mbarrier::wait(come, 0);", "", SHARED, "not been waited for"),
    (SLICED, EXPECTED.format(""), EXPECTED.format(" - 16"), SHARED, "deadlock"),
    (SLICED, OTHER_SLICE.format("s"), OTHER_SLICE.format("slice"), SHARED, "elements are off"),
    (SLICED, OTHER_SUMS.format("distance"), OTHER_SUMS.format("1"), SHARED, "elements are off"),
    (SMALL, "cluster::wait();  // all", ";  // all", SHARED, "signals an mbarrier"),
    (TILE_ALONE, "cluster::wait();  // all", ";  // all", SHARED, "signals an mbarrier"),
    (TILE_SLICED, "mbarrier::wait(come, 0);", "", SHARED, "not been waited for"),
    (TILE_SLICED, "HEIGHT * Sums::BYTES);", "HEIGHT * Sums::BYTES - 16);", SHARED, "deadlock"),
    (TILE_SLICED, "s * BLOCKS + rank", "slice * BLOCKS + rank", SHARED, "elements are off"),
    (TILE_SLICED, "slice * BLOCKS + thread", "thread", SHARED, "deadlock"),
    (TILE_SLICED, "k_begin + step * BK", "step * BK", SHARED, "elements are off"),
    (TILE_SLICED, LAST_READ, "", SHARED, "may have ended"),
]


@pytest.mark.parametrize(("name", "old", "new", "problem", "report"), FORGOTTEN)
def test_a_forgotten_step_is_found(
    name: str, old: str, new: str, problem: Problem, report: str, tmp_path: Path
) -> None:
    variant = forgetful(tmp_path, name, (old, new))
    compiled(variant, tmp_path)
    assert report in checked(variant, tmp_path, problem)
