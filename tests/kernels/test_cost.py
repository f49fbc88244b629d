"""The model of a kernel's time: how a launch is divided, the fit, and what a dispatcher makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels import catalogue, cost
from kernels.catalogue import Dispatcher, Problem

CATALOGUE = catalogue.load()
BEST = CATALOGUE["sgemm_best"]
SMALL = CATALOGUE.kernels["sgemm_splitk_64x64"]


def test_a_deep_problem_is_divided_and_a_shallow_one_is_not() -> None:
    deep, shallow = (cost.schedule(SMALL, Problem.packed(64, 128, k)) for k in (4096, 64))
    assert shallow.parts == 0 and shallow.busiest == shallow.steps == 4
    assert deep.parts == cost.PARTS and deep.busiest == 9  # two tiles of 256 steps, in grains of three


def test_a_kernel_says_how_many_blocks_may_share_a_tile() -> None:
    many = replace(SMALL, template={**SMALL.template, "PARTS": 64})
    assert cost.schedule(many, Problem.packed(64, 128, 4096)).parts == 64


def test_whole_rounds_of_tiles_are_not_divided() -> None:
    blocks = SMALL.persistent * cost.SMS
    found = cost.schedule(SMALL, Problem.packed(64 * blocks, 64, 4096))
    assert (found.tiles, found.parts, found.busiest) == (blocks, 0, found.steps)


def test_slices_of_a_cluster_divide_the_steps_of_a_tile() -> None:
    variant = CATALOGUE.kernels["hgemm_transposed_144x64_c4x1_k2_bf16"]  # clusters of eight blocks, four tiles
    found = cost.schedule(variant, Problem.packed(144, 256, 64 * 10), units=15)
    assert (found.tiles, found.steps, found.blocks, found.busiest) == (1, 5, 15, 5)
    waves = cost.schedule(variant, Problem.packed(144 * 16, 256, 64 * 10), units=15)
    assert (waves.tiles, waves.busiest) == (16, 10)


def test_a_sweep_s_count_of_clusters_decides_in_how_many_waves_a_kernel_runs() -> None:
    variant = CATALOGUE.kernels["hgemm_transposed_112x128_c2x2_bf16"]
    problems = [Problem.packed(112 * 2 * i, 256, 64 * k) for i in range(1, 41) for k in (4, 8)]
    rows = []
    for p in problems:  # a launch and its steps: 20 clusters run at a time
        time_us = float(cost.typical(variant) @ cost.terms(variant, p, units=20))
        row = {"m": p.m, "n": p.n, "k": p.k, "variant": variant.name, "time_us": time_us, "resident": 20}
        rows.append(row | {"source_hash": variant.source_hash, "held_out": False})
    swept = cost.fitted(rows, [variant])
    assert swept.resident == {variant.name: 20}
    second_wave = Problem.packed(112 * 2 * 21, 256, 8192)
    expected = float(cost.typical(variant) @ cost.terms(variant, second_wave, units=20))
    assert np.isclose(swept.time_us(variant, second_wave), expected, rtol=1e-3)
    one_wave = float(cost.typical(variant) @ cost.terms(variant, second_wave, units=21))
    assert one_wave < 0.8 * expected
    without = cost.fitted([row | {"resident": None} for row in rows], [variant])
    assert without.resident == {}


def test_the_fit_finds_the_factors_behind_exact_times() -> None:
    rng = np.random.default_rng(1)
    rows = rng.uniform(0, 10, (200, len(cost.TERMS)))
    factors = np.array([5, 0, 1, 0.2, 0, 0.5, 0.3, 2, 0, 1])
    assert np.allclose(cost.fit(rows, rows @ factors), factors, atol=1e-6)


def test_a_dispatcher_takes_the_kernel_that_a_sweep_shows_to_be_fastest() -> None:
    assert isinstance(BEST, Dispatcher)
    rng = np.random.default_rng(2)
    rows = []
    for variant in BEST.variants:
        for m, n, k in rng.integers(64, 2000, (cost.LEAST_ROWS, 3)):
            problem = Problem.packed(int(m), int(n), int(k))
            time_us = float(cost.typical(variant) @ cost.terms(variant, problem)) * (0.1 if variant is SMALL else 1)
            row = {"m": int(m), "n": int(n), "k": int(k), "variant": variant.name, "time_us": time_us}
            rows.append(row | {"source_hash": variant.source_hash, "held_out": False})
    swept = replace(BEST, model=cost.fitted(rows, BEST.variants))
    assert swept.pick(Problem.square(1000)).name == SMALL.name
    assert swept.source_hash != BEST.source_hash
    rounded = {name: tuple(factor * (1 + 1e-15) for factor in of) for name, of in swept.model.factors.items()}
    assert replace(swept, model=replace(swept.model, factors=rounded)).source_hash == swept.source_hash
    rows[0]["time_us"] *= 1.01
    assert replace(BEST, model=cost.fitted(rows, BEST.variants)).source_hash != swept.source_hash
    stale = [row | {"source_hash": "of another source", "code_hash": f"code of {row['variant']}"} for row in rows]
    assert cost.fitted(stale, BEST.variants).factors == {}
    codes = {(variant.name, variant.source_hash): f"code of {variant.name}" for variant in BEST.variants}
    assert cost.fitted(stale, BEST.variants, codes=codes).factors == cost.fitted(rows, BEST.variants).factors
