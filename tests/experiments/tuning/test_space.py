"""The grid of tiles and its restrictions: what just meets them builds and is right, what does not
is refused.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ARCH

from contracts import UserError
from experiments.emulation.device import EmulatedDevice
from experiments.stages import build, check, toolchain
from experiments.tuning import space
from experiments.tuning.space import RESTRICTIONS, Configuration
from experiments.tuning.sweep import build_all, sweep_case
from kernels import catalogue

ALL = list(space.load().configurations())
NVCC = toolchain.nvcc()
PLAIN, WARP = "sgemm_autotuned", "sgemm_warptile"
NAMES = {
    PLAIN: ("BM", "BN", "BK", "TM", "TN"),
    WARP: ("BM", "BN", "BK", "WM", "WN", "WNITER", "TM", "TN", "THREADS"),
}

# Each restriction: values that just meet it, and values one step beyond that break it and none
# before it.
BORDERS: dict[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]]] = {
    (PLAIN, "whole_float4"): ((64, 64, 4, 4, 4), (64, 64, 6, 4, 4)),
    (PLAIN, "whole_tiles"): ((96, 64, 8, 8, 4, 768), (96, 64, 8, 8, 4, 4096)),
    (PLAIN, "patches_cover_tile"): ((48, 64, 8, 12, 4, 768), (64, 64, 8, 12, 4, 768)),
    (PLAIN, "whole_warps"): ((256, 64, 8, 4, 4), (256, 128, 8, 4, 4)),
    (PLAIN, "shared_memory"): ((256, 128, 32, 8, 8), (256, 256, 32, 16, 8)),
    (PLAIN, "thread_registers"): ((128, 128, 8, 16, 8), (128, 128, 8, 16, 16)),
    (PLAIN, "register_file"): ((256, 192, 8, 4, 12, 768), (256, 256, 8, 8, 8)),
    (WARP, "whole_float4"): (
        (128, 128, 16, 64, 64, 4, 8, 4, 128),
        (128, 128, 16, 64, 64, 8, 8, 2, 128),
    ),
    (WARP, "whole_tiles"): (
        (128, 128, 16, 64, 64, 4, 8, 4, 128),
        (128, 128, 16, 64, 64, 4, 8, 4, 128, 4160),
    ),
    (WARP, "warp_tiles_divide_block"): (
        (128, 64, 16, 64, 32, 1, 8, 4, 128),
        (64, 128, 16, 128, 32, 1, 8, 4, 128),
    ),
    (WARP, "warps_cover_tile"): (
        (256, 128, 16, 64, 64, 4, 8, 4, 256),
        (256, 128, 16, 64, 64, 4, 8, 4, 128),
    ),
    (WARP, "lanes_cover_subtile"): (
        (64, 64, 16, 32, 32, 1, 8, 4, 128),
        (64, 64, 16, 32, 32, 2, 8, 4, 128),
    ),
    (WARP, "full_passes"): ((64, 64, 8, 32, 32, 1, 8, 4, 128), (64, 128, 8, 32, 32, 1, 8, 4, 256)),
    (WARP, "shared_memory"): (
        (128, 256, 32, 64, 64, 2, 8, 8, 256),
        (256, 256, 32, 128, 64, 1, 8, 8, 256),
    ),
    (WARP, "thread_registers"): (
        (128, 256, 16, 64, 64, 4, 8, 4, 256),
        (256, 256, 16, 128, 64, 2, 8, 8, 256),
    ),
    (WARP, "register_file"): (
        (256, 128, 16, 64, 32, 2, 8, 4, 512),
        (256, 256, 8, 64, 64, 4, 8, 4, 512),
    ),
}


def named(kernel: str, values: tuple[int, ...]) -> dict[str, int]:
    """Values by name, with the size, which is 4096 where it is left out."""
    return dict(zip((*NAMES[kernel], "size"), (*values, 4096), strict=False))


def variant_of(kernel: str, values: tuple[int, ...]) -> catalogue.Variant:
    template = {name: value for name, value in named(kernel, values).items() if name != "size"}
    return Configuration(kernel, template, None).variant()


def test_the_grid_is_large_and_has_every_kernel_s_own_values() -> None:
    """What the rungs used before a sweep is measured, too: boehm_sgemm's winner, its starting
    point, its warp tiles.
    """
    valid = [(one.kernel, dict(one.values)) for one in ALL if one.broken is None]
    counts = Counter(kernel for kernel, _ in valid)
    assert set(counts) == {PLAIN, WARP} and min(counts.values()) >= 200
    assert len({configuration.name for configuration in ALL}) == len(ALL)
    start = catalogue.load().kernels["sgemm_vectorized"].template
    assert (PLAIN, {name: start[name] for name in NAMES[PLAIN]}) in valid
    assert (WARP, dict(catalogue.load().kernels[WARP].template)) in valid


def test_a_restriction_breaks_one_step_beyond_its_border_and_says_why() -> None:
    assert set(BORDERS) == {(kernel, r.__name__) for kernel, rs in RESTRICTIONS.items() for r in rs}
    for (kernel, name), pair in BORDERS.items():
        values = [named(kernel, one) for one in pair]
        broken = [
            next((r.__name__ for r in RESTRICTIONS[kernel] if not r(one)), None) for one in values
        ]
        assert broken == [None, name], (kernel, name)
    assert all((r.__doc__ or "").strip().endswith(".") for rs in RESTRICTIONS.values() for r in rs)


@pytest.mark.parametrize(
    ("kernel", "name", "said"),
    [
        (PLAIN, "patches_cover_tile", "the patches cover the block's tile"),
        (PLAIN, "whole_warps", "a block of whole warps"),
        (PLAIN, "shared_memory", "too much shared data"),
        (WARP, "warps_cover_tile", "the warps cover the block's tile"),
        (WARP, "full_passes", "the last pass is a full one"),
    ],
)
def test_the_compiler_refuses_what_lies_beyond(
    kernel: str, name: str, said: str, tmp_path: Path
) -> None:
    """The restrictions hold for the source, not only for the sweep: without them the build would
    fail.
    """
    # ptxas does not look at the 48 KiB for sm_90a
    with pytest.raises(UserError, match=f"failed on .*{said}"):
        build.build_kernel(
            variant_of(kernel, BORDERS[kernel, name][1]), "sm_90", tmp_path, str(NVCC)
        )
    assert not list(tmp_path.glob("*.cubin")) and not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        (PLAIN, BORDERS[PLAIN, "whole_float4"][0]),
        (PLAIN, (256, 128, 8, 8, 4)),  # the most threads
        # three full passes for A and two for B, of rows that are no power of two
        (PLAIN, (96, 64, 12, 8, 8)),
        (PLAIN, (64, 96, 20, 8, 8)),  # the last pass is a part of one, for both
        (PLAIN, (32, 256, 8, 16, 8)),  # one row of B is longer than a pass
        (WARP, BORDERS[WARP, "lanes_cover_subtile"][0]),
        (WARP, BORDERS[WARP, "full_passes"][0]),
        (WARP, BORDERS[WARP, "register_file"][0]),
    ],
)
def test_what_meets_the_restrictions_builds_without_spills_and_is_right(
    kernel: str, values: tuple[int, ...], tmp_path: Path
) -> None:
    """On the emulator: the sweep's own case, which has more than one tile, wide rows, alpha and
    beta.
    """
    variant = variant_of(kernel, values)
    row = build_all([variant], tmp_path, ARCH, NVCC, jobs=1)[variant.name]
    assert not isinstance(row, UserError), row
    assert row["spill_bytes"] == 0 and row["blocks_per_sm"] >= 1
    result = check.run_case(EmulatedDevice(tmp_path), variant, sweep_case(variant), seed=11)
    assert result.passed, result.detail


def test_a_configuration_hashes_like_the_catalogue_s_entry_with_its_values() -> None:
    """So a winner's figures and the rung's are known to be of the same code; another value is
    another hash.
    """
    for kernel in RESTRICTIONS:
        entry = catalogue.load().kernels[kernel]
        same = catalogue.load().retiled(kernel, "other_name", entry.template, entry.threads)
        other = catalogue.load().retiled(
            kernel, "other_name", {**entry.template, "BK": 32}, entry.threads
        )
        assert same.source_hash == entry.source_hash != other.source_hash


def test_a_wrong_sweep_is_one_clear_line(tmp_path: Path) -> None:
    path, good = tmp_path / "tile_autotune.yaml", yaml.safe_load(space.SWEEP.read_text())
    changes: dict[str, dict[str, Any]] = {
        "unknown key 'sizes'; nearest: size": {"sizes": [1]},
        "one of sgemm_autotuned, sgemm_warptile": {"kernels": {"sgemm_naive": {"BM": [1]}}},
        "has BM; expected: BM, BN, BK, TM, TN": {"kernels": {PLAIN: {"BM": [64]}}},
    }
    for said, change in changes.items():
        path.write_text(yaml.safe_dump(good | change, sort_keys=False))
        with pytest.raises(UserError) as error:
            space.load(path)
        assert said in str(error.value) and "tile_autotune.yaml" in str(error.value)
