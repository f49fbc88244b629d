"""Kernels of hgemm/wgmma_tile.cu: tiles of any width, made of their names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers import ARCH, refused

import ptxsim
from experiments.emulation import launching
from experiments.emulation.device import EmulatedDevice
from experiments.stages.cases import Case
from experiments.stages.check import run_case
from experiments.stages.tile_builds import COMPILED
from kernels import catalogue, tile_choice, tiles
from kernels.arguments import TensorMap
from kernels.catalogue import Problem, Variant
from kernels.tiles import Tile
from ptxsim.ptx.compiler import compile_ptx

CATALOGUE = catalogue.load()
BANK_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
SAMPLE = [  # each first operand, order, layout, cluster and way of sharing; widths of every kind
    Tile(160, 128, down=2, stages=3),
    Tile(136, 64, down=2, across=4, stages=3),
    Tile(24, 256, across=2, stages=4, b_layout="column"),
    Tile(72, 192, pingpong=True, down=2, across=2, stages=2, dtype="fp16"),
    Tile(128, 136, b_first=False, stages=3),
    Tile(64, 232, b_first=False, down=4, across=2, stages=2, b_layout="column"),
    Tile(192, 96, b_first=False, pingpong=True, down=2, stages=2),
    Tile(256, 40, b_first=False, across=2, stages=2, b_layout="column"),
    Tile(64, 128, down=2, slices=4, stages=2),
    Tile(192, 64, across=2, slices=2, stages=3, b_layout="column"),
    Tile(64, 64, slices=8, stages=3),
    Tile(128, 176, b_first=False, slices=2, stages=2),
]


def compiled(tile: Tile, folder: Path) -> Variant:
    """Return the tile's kernel, its PTX in `folder`."""
    variant = CATALOGUE.find(tile.name)
    assert isinstance(variant, Variant)
    unit = folder / f"{variant.name}.cu"
    unit.write_text(variant.translation_unit())
    unit.with_suffix(".ptx").write_text(compile_ptx(unit, ARCH, [f"-I{catalogue.ROOT}"]))
    return variant


def problems(tile: Tile) -> list[Problem]:
    """Return a problem of four tiles of the cluster, cut off in m, n and k, and one that ends
    within a row's last 16 bytes and reads C; rows are longer than they need be.
    """
    m, n, k = tile.rows * tile.down + 5, tile.columns * tile.across + 8, 2 * 64 + 24
    sizes = [(m, n, k, 1.0, 0.0), (tile.rows - 5, tile.columns - 3, 67, 0.75, -1.5)]
    of = []
    for m, n, k, alpha, beta in sizes:
        lda, ldc = (-(-size // 8) * 8 + 8 for size in (k, n))
        ldb = lda if tile.b_layout == "column" else ldc
        of.append(Problem(m, n, k, lda, ldb, ldc, alpha, beta, tile.b_layout))
    return of


@pytest.mark.parametrize("tile", SAMPLE, ids=lambda tile: tile.name)
def test_a_tile_of_any_width_is_right_and_stores_without_bank_conflicts(
    tile: Tile, tmp_path: Path
) -> None:
    variant = compiled(tile, tmp_path)
    # One cluster at a time computes all tiles, in turn.
    blocks = tile.down * tile.across * tile.slices
    device = EmulatedDevice(tmp_path, sms=blocks)
    for problem in problems(tile):
        assert run_case(device, variant, Case("", problem), seed=1).detail == ""
    counters = ptxsim.Counters()
    whole = Problem.packed(tile.rows, tile.columns, 64, tile.b_layout)
    launch = launching.to_count(variant, whole, blocks)
    launching.load(variant, tmp_path, cubin=False).launch(**launch, observers=[counters])
    assert counters.totals()[BANK_CONFLICTS] == 0


def test_every_tile_fits_and_has_a_kernel_by_its_name() -> None:
    every = {tile.name: tile for tile in tiles.tiles()}
    assert {tile.width for tile in every.values()} == set(range(16, 257, 8))
    for name, tile in list(every.items())[::97]:
        variant = CATALOGUE.find(name)
        assert isinstance(variant, Variant) and tiles.named(name) == tile
        parts = tile.stages * tile.stage_bytes + tile.buffer_bytes(tile.piece)
        parts += (tile.slices - 1) * tile.rows * tile.columns // tile.slices * 4
        # Alignment and the mbarriers besides the stages' take the rest.
        assert variant.shared_bytes == parts + 1040 <= tiles.SHARED_BYTES
        assert variant.b_layout == "row" and name in CATALOGUE and name not in list(CATALOGUE)


@pytest.mark.parametrize(
    ("tile", "reason"),
    [
        (Tile(160, 96, stages=4), "96 along the first operand; allowed: 64, 128, 192, 256"),
        (Tile(132, 128, stages=4), "132 along the second operand; allowed: multiples of 8 from 16 to 256"),
        (Tile(200, 256, stages=3), "200 sums a thread; allowed: 192"),
        (Tile(160, 128, down=3, stages=4), "clusters of 3x1; allowed: 1x1, 2x1, 1x2, 2x2, 4x2, 2x4"),
        (Tile(160, 128, stages=7), "7 stages; allowed: 2 to 6"),
        (Tile(72, 128, slices=2, stages=4), "2 slices of a width of 72; allowed: 1, 2, 4 or 8 multiples of 8"),
        (Tile(64, 128, pingpong=True, slices=2, stages=4), "2 slices and ping-pong; allowed: one of the two"),
        (Tile(64, 128, down=2, across=2, slices=4, stages=4), "clusters of 16 blocks; allowed: 8"),
    ],
)  # fmt: skip
def test_a_tile_without_a_kernel_is_refused_with_the_reason(tile: Tile, reason: str) -> None:
    with refused(f"^{tile.name} is no kernel: {reason}$"):
        CATALOGUE.find(tile.name)


def test_stages_leave_room_to_store_a_tile_in_few_pieces() -> None:
    large, small = Tile(160, 128), Tile(64, 128)
    assert (large.max_stages, large.usual_stages) == (6, 5)
    assert replace(large, stages=5).piece == 160 and replace(large, stages=6).piece == 32
    assert replace(small, stages=small.usual_stages).piece == 64


FASTEST = {  # of 48 tiles on an H200, 2026-11-28: rows, columns, slices
    (304, 1296, 64): (56, 64, 1),
    (904, 224, 1672): (64, 128, 4),
    (16, 26496, 640): (16, 256, 1),
    (128, 11392, 4352): (64, 192, 1),
    (256, 21120, 13440): (256, 160, 1),
    (1464, 1464, 1464): (152, 128, 1),
    (2776, 2776, 2776): (128, 232, 1),
    (4824, 4824, 4824): (144, 256, 1),
}


@pytest.mark.parametrize("size", FASTEST, ids=str)
def test_the_tile_that_was_measured_fastest_is_among_those_that_are_compiled(
    size: tuple[int, int, int],
) -> None:
    likeliest = tile_choice.ranked(Problem.packed(*size), gpu="NVIDIA H200")[:COMPILED]
    assert FASTEST[size] in [(tile.rows, tile.columns, tile.slices) for tile in likeliest]


def test_another_number_of_multiprocessors_takes_other_tiles() -> None:
    """2816 x 776 is one round of 128 x 136 on 132 multiprocessors, and two on 66."""
    problem = Problem.packed(2816, 776, 3008)
    tile = Tile(128, 136, b_first=False, stages=5)
    assert [tile_choice.rounds(tile, problem, sms, 1.0) for sms in (132, 66)] == [(1, 132), (2, 66)]
    first, *_ = tile_choice.ranked(problem, sms=66)
    assert tile_choice.rounds(first, problem, 66, 1.0)[0] == 1


@pytest.mark.parametrize(
    ("tile", "reason"),
    [
        (Tile(184, 128, stages=4), "as many tiles as of a width of 176"),
        (Tile(176, 128, down=2, across=4, stages=4), "4 blocks of a cluster for 2 tiles"),
        (Tile(176, 256, stages=3), "192 along the first operand cover all 136"),
        (Tile(176, 128, stages=2), "2 stages; a pipeline needs 3"),
        (Tile(64, 136, b_first=False, stages=6), "22% of what is loaded is not read"),
        (Tile(176, 128, pingpong=True, stages=4), "one round, in which the second consumer has no tile"),
    ],
)  # fmt: skip
def test_a_tile_that_is_not_proposed_has_the_reason(tile: Tile, reason: str) -> None:
    assert tile_choice.pruned(tile, Problem.packed(2816, 136, 640), sms=132) == reason


def test_large_clusters_are_for_one_round_alone() -> None:
    tile = Tile(128, 128, down=4, across=2, stages=4)
    one, several = Problem.square(1024), Problem.square(4096)
    assert tile_choice.pruned(tile, one, sms=132) is None
    reason = "8 blocks of a cluster keep step for 8 rounds"
    assert tile_choice.pruned(tile, several, sms=132) == reason
    order = tile_choice.ranked(several)
    assert {tile.down * tile.across for tile in order} <= {1, 2}
    sizes = [(tile.rows, tile.columns, tile.b_first, tile.slices) for tile in order]
    assert len(set(sizes)) == len(sizes)


def test_a_map_fetches_more_at_a_time_where_k_is_not_divided() -> None:
    for slices, nbytes in ((1, 256), (2, 128), (8, 128)):
        name = Tile(64, 64, stages=3, slices=slices).name
        maps = [spec for spec in CATALOGUE.find(name).arguments if isinstance(spec, TensorMap)]
        assert [spec.l2_promotion for spec in maps] == [nbytes, nbytes, 0]


def test_a_gpu_without_a_fit_has_the_usual_constants() -> None:
    assert tile_choice.times_of("NVIDIA T4") == tile_choice.times_of()
    assert tile_choice.times_of("NVIDIA H200") != tile_choice.times_of()
