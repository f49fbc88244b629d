"""The grid of tiles: what just meets its restrictions builds and is right; other tiles are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ARCH, json_dict, refused

from contracts.rows import Resources
from experiments.emulation.device import EmulatedDevice
from experiments.stages import build, check
from experiments.tuning import space
from experiments.tuning.space import RESTRICTIONS, Configuration
from experiments.tuning.sweep import sweep_case
from kernels import catalogue

PLAIN, WARP = "sgemm_autotuned", "sgemm_warptile"
NAMES = {PLAIN: "BM BN BK TM TN size", WARP: "BM BN BK WM WN WNITER TM TN THREADS size"}
# Each restriction has values that just meet it, and values that break it and none before it. The
# last value is the size.
BORDERS = {
    (PLAIN, "whole_float4"): ("64 64 4 4 4 4096", "64 64 6 4 4 4096"),
    (PLAIN, "whole_tiles"): ("96 64 8 8 4 768", "96 64 8 8 4 4096"),
    (PLAIN, "patches_cover_tile"): ("48 64 8 12 4 768", "64 64 8 12 4 768"),
    (PLAIN, "whole_warps"): ("256 64 8 4 4 4096", "256 128 8 4 4 4096"),
    (PLAIN, "shared_memory"): ("256 128 32 8 8 4096", "256 256 32 16 8 4096"),
    (PLAIN, "thread_registers"): ("128 128 8 16 8 4096", "128 128 8 16 16 4096"),
    (PLAIN, "register_file"): ("256 192 8 4 12 768", "256 256 8 8 8 4096"),
    (WARP, "whole_float4"): ("128 128 16 64 64 4 8 4 128 4096", "128 128 16 64 64 8 8 2 128 4096"),
    (WARP, "whole_tiles"): ("128 128 16 64 64 4 8 4 128 4096", "128 128 16 64 64 4 8 4 128 4160"),
    (WARP, "warp_tiles_divide_block"): (
        "128 64 16 64 32 1 8 4 128 4096",
        "64 128 16 128 32 1 8 4 128 4096",
    ),
    (WARP, "warps_cover_tile"): (
        "256 128 16 64 64 4 8 4 256 4096",
        "256 128 16 64 64 4 8 4 128 4096",
    ),
    (WARP, "lanes_cover_subtile"): (
        "64 64 16 32 32 1 8 4 128 4096",
        "64 64 16 32 32 2 8 4 128 4096",
    ),
    (WARP, "full_passes"): ("64 64 8 32 32 1 8 4 128 4096", "64 128 8 32 32 1 8 4 256 4096"),
    (WARP, "shared_memory"): (
        "128 256 32 64 64 2 8 8 256 4096",
        "256 256 32 128 64 1 8 8 256 4096",
    ),
    (WARP, "thread_registers"): (
        "128 256 16 64 64 4 8 4 256 4096",
        "256 256 16 128 64 2 8 8 256 4096",
    ),
    (WARP, "register_file"): ("256 128 16 64 32 2 8 4 512 4096", "256 256 8 64 64 4 8 4 512 4096"),
}


def named(kernel: str, values: str) -> dict[str, int]:
    return dict(zip(NAMES[kernel].split(), map(int, values.split()), strict=True))


def variant_of(kernel: str, values: str) -> catalogue.Variant:
    template = {name: value for name, value in named(kernel, values).items() if name != "size"}
    return Configuration(kernel, template, None).variant()


def test_a_further_size_is_a_sweep_of_its_kernels_alone() -> None:
    main, other = space.load().by_size()
    assert (main.size, [*main.kernels]) == (4096, [PLAIN, WARP])
    assert (other.size, [*other.kernels]) == (2048, [PLAIN])
    tiles = {c.name for c in main.configurations() if c.kernel == PLAIN and c.broken is None}
    assert {c.name for c in other.configurations() if c.broken is None} == tiles


def test_the_grid_is_large_and_has_every_kernel_s_own_values() -> None:
    """What the rungs used before a sweep is measured, too."""
    configurations = list(space.load().configurations())
    valid = [(c.kernel, dict(c.values)) for c in configurations if c.broken is None]
    counts = Counter(kernel for kernel, _ in valid)
    assert set(counts) == {PLAIN, WARP} and min(counts.values()) >= 200
    assert len({configuration.name for configuration in configurations}) == len(configurations)
    start, kernels = ("BM", "BN", "BK", "TM", "TN"), catalogue.load().kernels
    assert (PLAIN, {name: kernels["sgemm_vectorized"].template[name] for name in start}) in valid
    assert (WARP, dict(kernels[WARP].template)) in valid


def test_each_restriction_has_its_borders() -> None:
    assert set(BORDERS) == {(kernel, r.__name__) for kernel, rs in RESTRICTIONS.items() for r in rs}
    assert all((r.__doc__ or "").strip().endswith(".") for rs in RESTRICTIONS.values() for r in rs)


@pytest.mark.parametrize(("kernel", "name"), BORDERS)
def test_a_restriction_breaks_one_step_beyond_its_border(kernel: str, name: str) -> None:
    met, broken = (
        next((r.__name__ for r in RESTRICTIONS[kernel] if not r(named(kernel, values))), None)
        for values in BORDERS[kernel, name]
    )
    assert (met, broken) == (None, name)


@pytest.mark.parametrize(
    ("kernel", "name", "message"),
    [
        (PLAIN, "patches_cover_tile", "the patches cover the block's tile"),
        (PLAIN, "whole_warps", "a block of whole warps"),
        (PLAIN, "shared_memory", "too much shared data"),
        (WARP, "warps_cover_tile", "the warps cover the block's tile"),
        (WARP, "full_passes", "the last pass is a full one"),
    ],
)
def test_the_compiler_refuses_what_lies_beyond(
    kernel: str, name: str, message: str, tmp_path: Path
) -> None:
    """The restrictions hold for the source, too. ptxas does not look at 48 KiB for sm_90a."""
    with refused(f"failed on .*{message}"):
        build.build_kernel(variant_of(kernel, BORDERS[kernel, name][1]), "sm_90", tmp_path)
    assert not list(tmp_path.glob("*.cubin")) and not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        (PLAIN, BORDERS[PLAIN, "whole_float4"][0]),
        (PLAIN, "256 128 8 8 4 4096"),  # the most threads
        (PLAIN, "96 64 12 8 8 768"),  # three full passes for A, two for B: rows of no power of two
        (PLAIN, "64 96 20 8 8 960"),  # The last pass is a part of one, for both.
        (PLAIN, "32 256 8 16 8 4096"),  # One row of B is longer than a pass.
        (WARP, BORDERS[WARP, "lanes_cover_subtile"][0]),
        (WARP, BORDERS[WARP, "full_passes"][0]),
        (WARP, BORDERS[WARP, "register_file"][0]),
    ],
)
def test_what_meets_the_restrictions_builds_without_spills_and_is_right(
    kernel: str, values: str, tmp_path: Path
) -> None:
    """On the emulator, the sweep's own case has several tiles, wide rows, alpha and beta."""
    variant = variant_of(kernel, values)
    row = json_dict(build.build_kernel(variant, ARCH, tmp_path).with_suffix(".json"), Resources)
    assert row["spill_bytes"] == 0 and row["blocks_per_sm"] >= 1
    result = check.run_case(EmulatedDevice(tmp_path), variant, sweep_case(variant), seed=11)
    assert result.passed, result.detail


@pytest.mark.parametrize("kernel", RESTRICTIONS)
def test_a_configuration_hashes_like_the_catalogue_s_entry_with_its_values(kernel: str) -> None:
    """So a winner's figures and the rung's are known to be of the same code."""
    known, entry = catalogue.load(), catalogue.load().kernels[kernel]
    same = known.retiled(kernel, "other_name", entry.template, entry.threads)
    other = known.retiled(kernel, "other_name", {**entry.template, "BK": 32}, entry.threads)
    assert same.source_hash == entry.source_hash != other.source_hash


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [1]}, "unknown key 'sizes'; nearest: size"),
        ({"kernels": {"sgemm_naive": {"BM": [1]}}}, "one of sgemm_autotuned, sgemm_warptile"),
        ({"kernels": {PLAIN: {"BM": [64]}}}, "has BM; expected: BM, BN, BK, TM, TN"),
    ],
)
def test_a_wrong_sweep_is_one_clear_line(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "tile_autotune.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(space.SWEEP.read_text()) | change))
    with refused(f"tile_autotune.yaml.*{message}"):
        space.load(path)
