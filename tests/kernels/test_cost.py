"""Predicted times: how a launch is divided, as the kernels' headers do it, and what a dispatcher
makes of the times.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import ARCH

import ptxsim
from kernels import catalogue, cost
from kernels.catalogue import Dispatcher, Problem
from ptxsim.ptx.compiler import compile_ptx

CATALOGUE = catalogue.load()
SMALL = CATALOGUE.kernels["sgemm_splitk_64x64"]
PLAIN, SLICED = (CATALOGUE.kernels[f"hgemm_transposed_64x64{k8}_bf16"] for k8 in ("", "_k8"))

# One thread for each case: how many tiles are shared, by how many blocks, and the steps of the
# block that has most.
DIVIDING = """
#include "include/{header}.cuh"

__global__ void divided(const int* cases, int* found) {{
    const int blocks = cases[3 * threadIdx.x], tiles = cases[3 * threadIdx.x + 1], steps = cases[3 * threadIdx.x + 2];
    int busiest = 0;
    for (int mine = 0; mine < blocks; ++mine) {{
        int own = 0;
        auto work = [&](int, int first, int last) {{ own += last - first; }};
        {each}
        busiest = max(busiest, own);
    }}
    {values}
    found[3 * threadIdx.x] = tiles - whole;
    found[3 * threadIdx.x + 1] = whole < tiles ? sharing : 0;
    found[3 * threadIdx.x + 2] = busiest;
}}
"""
SPLIT_K = {
    "header": "split_k",
    "each": "Division<5, 3, 32>(blocks, tiles, steps).for_each(mine, work);",
    "values": "const Division<5, 3, 32> of(blocks, tiles, steps);"
    " const int whole = of.whole, sharing = of.sharing;",
}
STREAM_K = {
    "header": "stream_k",
    "each": "StreamKScheduler<4, 16>(blocks, mine, tiles, steps).for_each(work);",
    "values": "const StreamKScheduler<4, 16> of(blocks, 0, tiles, steps);"
    " const int whole = of.whole_tiles, sharing = of.peer_clusters;",
}

AT_LIMITS = [  # blocks, tiles, steps
    (8, 16, 100),  # whole rounds
    (8, 5, 5000),  # grains of more than LEAST steps
    (8, 5, 4096),  # whole ones
    (48, 1, 400),  # more blocks than may share a tile
    (11, 4, 100),  # stretches that would end where tiles do leave too many blocks idle
    (8, 1, 5),  # dividing saves as much as adding up costs
]


def divided(code: dict[str, str], cases: np.ndarray, folder: Path) -> np.ndarray:
    """What the header makes of each row (blocks, tiles, steps): tiles that are shared, sharing
    blocks, most steps.
    """
    (folder / "dividing.cu").write_text(DIVIDING.format(**code))
    text = compile_ptx(folder / "dividing.cu", ARCH, [f"-I{catalogue.ROOT}"])
    (folder / "dividing.ptx").write_text(text)
    found = ptxsim.Array(np.zeros_like(cases), "found")
    arguments = [ptxsim.Array(cases, "cases"), found]
    ptxsim.load(folder / "dividing.ptx", cubin=False).launch((1, 1, 1), len(cases), arguments)
    return found.numpy().reshape(cases.shape)


@pytest.mark.parametrize(
    ("code", "template"),
    [(SPLIT_K, {"FIXUP": 5, "LEAST": 3, "PARTS": 32}), (STREAM_K, {"FIXUP": 4, "WAYS": 16})],
    ids=["split_k", "stream_k"],
)
def test_tiles_are_divided_as_the_header_divides_them(
    code: dict[str, str], template: dict[str, int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    cases = np.stack([rng.integers(1, most, 256) for most in (24, 60, 400)], axis=1).astype(
        np.int32
    )
    cases[: len(AT_LIMITS)] = AT_LIMITS
    variant: Any = SimpleNamespace(template=template)
    shares = 0
    for (blocks, tiles, steps), (left, sharing, busiest) in zip(
        cases.tolist(), divided(code, cases, tmp_path).tolist(), strict=True
    ):
        case = f"{tiles} tiles of {steps} steps over {blocks} blocks"
        if code is SPLIT_K:
            expected, longest = cost.split_k(variant, tiles, steps, blocks)
        else:
            of, expected = cost.stream_k(variant, tiles, steps, blocks)
            assert of == left, case
            longest = -(-of * steps // expected) if expected else 0
        longest = longest if expected else steps if tiles % blocks else 0
        assert sharing == expected and left == (tiles % blocks if expected else 0), case
        grain = max(3, -(-steps // cost.MAX_GRAINS)) if expected and code is SPLIT_K else 1
        # the last grain of a tile may be short
        assert 0 <= tiles // blocks * steps + longest - busiest < grain, case
        shares += expected > 0
    assert len(cases) // 4 < shares < len(cases)


def test_a_kernel_says_how_many_blocks_may_share_a_tile() -> None:
    many = replace(SMALL, template={**SMALL.template, "PARTS": 64})
    assert cost.schedule(many, Problem.packed(64, 128, 4096)).splits == 64


def test_the_busiest_block_has_its_whole_tiles_and_its_share_of_the_rest() -> None:
    """Of 288 tiles on 132 multiprocessors 24 are left, with 96 steps each."""
    plan = cost.schedule(CATALOGUE.kernels["sgemm_tma_streamk"], Problem.square(3072))
    assert (plan.tiles, plan.steps, plan.blocks, plan.splits) == (288, 96, 132, 132 / 24)
    assert plan.max_steps == 2 * 96 + -(-24 * 96 // 132)


def test_slices_of_a_cluster_divide_the_steps_of_a_tile() -> None:
    deep = Problem.packed(64, 64, 6400)
    assert (cost.schedule(PLAIN, deep).steps, cost.schedule(SLICED, deep).steps) == (100, 13)
    clusters = int(2 * cost.SMS * cost.LARGE_CLUSTER_SM_FRACTION) // 8
    assert cost.schedule(SLICED, deep).blocks == clusters and cost.resident(SLICED, sms=1) == 1
    # Clusters of two fit all.
    assert cost.resident(CATALOGUE.kernels["hgemm_wgmma_cluster_bf16"]) == cost.SMS // 2
    assert cost.stream_k(PLAIN, 5, 100, 2) == cost.split_k(PLAIN, 5, 100, 2) == (0, 0)


def test_a_time_is_what_one_computes_by_hand() -> None:
    """Of a single tile; the step waits for tensor cores, the FMA pipe's for unaligned rows, too."""
    deep = Problem.packed(64, 64, 6400)
    of_step = 64**3 / 3.96e6 + 0.134
    assert cost.time_us(PLAIN, deep) == pytest.approx(4.9 + 100 * of_step + 2.9 / 4)
    assert cost.time_us(SLICED, deep) == pytest.approx(4.9 + 13 * of_step + 2.9 / 4 + 3.15 / 4)
    shallow = Problem.packed(64, 64, 64)  # four steps of 16: not divided
    multiply = 64 * 64 * 16 / 0.27e6 * (1 + 0.97 * (1 / 8 + 1 / 4))
    assert cost.time_us(SMALL, shallow) == pytest.approx(6.7 + 4 * (multiply + 0.39) + 2.8 / 4)
    unaligned = 6.7 + 4 * (1.23 * multiply + 0.39) + 2.8 / 4
    assert cost.time_us(SMALL, replace(shallow, lda=65)) == pytest.approx(unaligned)
    flat = Problem.packed(16384, 16384, 64)  # bytes of C from and to DRAM take longest
    assert cost.time_us(PLAIN, flat) > 16384 * 16384 * 2 / 2.28e6


LOADS = 1 + 0.97 * (1 / 8 + 1 / 16)  # of 8 x 16 tiles of a thread


@pytest.mark.parametrize(
    ("name", "rest_us", "step_us"),
    [
        ("hgemm_wgmma_coop_bf16", 5.7 + 2 * 0.7, 128 * 256 * 64 / 3.96e6 + 0.134),
        ("hgemm_wgmma_pingpong_wide_bf16", 6.1 + 1.5 * 0.2, 128 * 192 * 64 / 3.96e6 + 0.134),
        ("sgemm_t128x256x8_cpasync", 2.9 + 2 * 2.7, 128 * 256 * 8 / 0.27e6 * LOADS + 0.195),
        ("sgemm_tma_streamk", 12.8 + 2 * 0.4, 128 * 256 * 32 / 0.27e6 * LOADS + 0.78),
        ("sgemm_3xtf32_wgmma", 5 + 2 * 1.35, 128 * 256 * 32 / 0.586e6 + 0.067),
        ("sgemm_3xtf32_wgmma_outside_k8", 5 + 2 * (1.35 + 2.75), 128 * 256 * 32 / 0.586e6 + 0.067),
        ("hgemm_naive_bf16", 6 + 1.0, 128 * 128 * 32 / 3.96e6 + 0.067),
    ],
)
def test_a_tile_takes_its_steps_and_what_its_source_s_kernels_take_besides(
    name: str, rest_us: float, step_us: float
) -> None:
    variant = CATALOGUE.kernels[name]
    m, n, k = (variant.tile[axis] for axis in "mnk")
    once, twice = (Problem.packed(m, n, k * variant.splits * steps) for steps in (1, 2))
    one, two = cost.time_us(variant, once), cost.time_us(variant, twice)
    assert (two - one, 2 * one - two) == pytest.approx((step_us, rest_us))


def test_a_tile_more_than_run_at_a_time_costs_another_wave() -> None:
    """Two blocks an SM, 264: they wait for their bytes from L2, 264 times those of one."""
    tiles = ((1, 1), (24, 11), (53, 5))
    problems = [Problem.packed(64 * m, 64 * n, 6400) for m, n in tiles]
    one, wave, more = (cost.time_us(PLAIN, problem) for problem in problems)
    another = 100 * (264 * 128 * 64 * 2 / 11.3e6 + 0.134) + 2 * 2.9 / 4
    assert one < wave and (wave, more) == pytest.approx((4.9 + another, 4.9 + 2 * another))


def test_tiles_in_turn_take_as_long_as_the_sm_that_has_most() -> None:
    """Three blocks of an SM run at a time: seven tiles are three rounds, whose multiply-adds add up."""
    plain = CATALOGUE.kernels["sgemm_plain_64x128"]
    of_step = 64 * 128 * 16 / 0.27e6 * (1 + 0.97 * (1 / 8 + 1 / 8))
    for tiles, busiest, rounds in (
        (1, 1, 1),
        (132, 1, 1),
        (133, 2, 1),
        (396, 3, 1),
        (6 * 132 + 1, 7, 3),
    ):
        problem = Problem.packed(64 * tiles, 128, 160)
        plan = cost.schedule(plain, problem)
        assert (plan.tiles, plan.max_steps, plan.splits) == (tiles, 10 * rounds, 0)
        assert plan.blocks_per_sm == pytest.approx(busiest / rounds)
        by_hand = 6 + 10 * (busiest * of_step + rounds * 0.2) + busiest * 2 / 2
        assert cost.time_us(plain, problem) == pytest.approx(by_hand)
    odd = Problem.packed(64, 127, 160)
    assert cost.time_us(plain, odd) == pytest.approx(6 + 10 * (1.1 * of_step + 0.2) + 1)


def test_slices_in_turn_take_as_long_as_the_sm_that_has_most() -> None:
    """44 tiles by three slices are a block for each SM; with 45, one has two."""
    sliced = CATALOGUE.kernels["sgemm_plain_slices_64x128_k3"]
    of_step = 64 * 128 * 16 / 0.27e6 * (1 + 0.97 * (1 / 8 + 1 / 8))
    read_us = 64 * 128 * 4 * 2 / 3 / cost.CLUSTER_BYTES
    for tiles, busiest, rounds in ((1, 1, 1), (44, 1, 1), (45, 2, 1), (3 * 44 + 1, 4, 2)):
        problem = Problem.packed(64 * tiles, 128, 480)
        plan = cost.schedule(sliced, problem)
        assert (plan.tiles, plan.steps, plan.max_steps) == (tiles, 10, 10 * rounds)
        by_hand = 6 + 10 * (busiest * of_step + rounds * 0.2) + busiest * 2 / 2 / 3
        by_hand += rounds * cost.CLUSTER_SUMS_US + busiest * read_us
        assert cost.time_us(sliced, problem) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    "name", ["sgemm_best", "hgemm_best_bf16", "hgemm_best_fp16", "hgemm_best_bcol_bf16"]
)
def test_a_dispatcher_takes_the_shortest_predicted_time_of_the_kernels_that_suit(name: str) -> None:
    entry = CATALOGUE.runnable[name]
    assert isinstance(entry, Dispatcher)
    sizes = [(16, 4096, 4096), (128, 7168, 2048), (1024, 1024, 1024), (64, 64, 65536)]
    picked = set()
    for size in [*sizes, (8192, 8192, 8192)]:
        problem = Problem.packed(*size, entry.b_layout)
        first, *_ = order = entry.candidates(problem)
        times = [cost.time_us(variant, problem) for variant in order]
        assert times == sorted(times) and entry.pick(problem) is first
        assert {variant.name for variant in order} == {variant.name for variant in entry.variants}
        assert first.tile["m"] <= 2 * problem.m
        picked.add(first.name)
    assert len(picked) >= 4


def test_fewer_tiles_than_multiprocessors_are_divided_by_more_blocks() -> None:
    """As an H100 has it; 32 tiles by four are two rounds, since it runs 30 clusters of four."""
    entry = CATALOGUE["sgemm_3xtf32_best"]
    assert isinstance(entry, Dispatcher)
    outside = "sgemm_3xtf32_wgmma_outside"
    picked = [entry.pick(Problem.square(n)).name for n in (512, 1024, 2048)]
    assert picked == [f"{outside}_k8", f"{outside}_k3", outside]


def test_a_dispatcher_s_hash_follows_the_constants_of_its_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("sgemm_best", "sgemm_3xtf32_best", "sgemm_c_dispatch")
    before = {name: CATALOGUE[name].source_hash for name in names}

    def changed() -> list[str]:
        return [name for name in names if CATALOGUE[name].source_hash != before[name]]

    monkeypatch.setitem(cost.SCHEMES, "plain", cost.Scheme(1.0, 1.0))
    assert changed() == ["sgemm_best"]
    monkeypatch.setattr(cost, "SPLIT_TF32", cost.TENSOR_CORES)
    assert changed() == ["sgemm_best", "sgemm_3xtf32_best"]
