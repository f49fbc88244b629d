"""Modules of the explorer's page that compute: each beside what the emulator counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ARCH, ROOT

from experiments.emulation import bank_pictures, launching
from experiments.emulation.device import EmulatedDevice
from experiments.stages import build, toolchain
from experiments.stages.check import GUARD
from kernels import catalogue
from kernels.catalogue import Problem, Variant
from ptxsim import banks
from ptxsim.count import wavefronts

pytestmark = pytest.mark.browser
EXPLORER = ROOT / "analysis" / "explorer"
LANES = np.arange(32)


def scripts(*names: str) -> str:
    return "\n".join((EXPLORER / f"{name}.js").read_text() for name in names)


def patterns(count: int) -> list[dict[str, Any]]:
    """Return accesses of one warp: strides, swizzles, pairs of equal lanes, scattered words; some
    lanes inactive.
    """
    random = np.random.default_rng(7)
    rows = []
    for index in range(count):
        kind = ("ld", "st", "ldmatrix", "cp_async")[index % 4]
        width = 16 if kind == "ldmatrix" else 2 ** int(random.integers(2 * (kind == "cp_async"), 5))
        stride, low = int(random.choice([0, 1, 2, 3, 4, 8, 9, 16, 32, 33])), random.integers(5)
        lanes = LANES >> int(low)
        elements = {
            0: lanes * stride,
            1: (LANES % 8) * 33 + LANES // 8 * stride,
            2: (LANES ^ (LANES >> 3)) * max(1, stride),
            3: random.integers(64, size=16)[LANES // 4 * 2 + LANES % 2],
            4: random.integers(64, size=16)[LANES // 2],
            5: random.integers(256, size=32),
        }[index // 4 % 6]
        active = random.random(32) < (1 if index % 3 else 0.7)
        source = 4 * random.integers(64, size=32) * 4
        read = active & (random.random(32) < 0.8)
        rows.append(
            {
                "kind": kind,
                "bytes": width,
                "addresses": np.where(active, elements * width, None).tolist(),
                "source": np.where(read, source, None).tolist(),
            }
        )
    return rows


def test_wavefronts_and_sectors_of_the_page_are_those_of_the_emulator(chromium: Any) -> None:
    accesses = patterns(1200)
    ask = (
        f"{scripts('banks')}; return arguments[0].map(({{ addresses, bytes, kind, source }}) => ["
        "wavefronts(addresses, bytes, kind, source), idealWavefronts(addresses, bytes, kind, source),"
        "sectors(addresses, bytes)]);"
    )
    answers = chromium.execute_script(ask, accesses)
    conflicts = 0
    for access, (rows, ideal, touched) in zip(accesses, answers, strict=True):
        kind, width = access["kind"], access["bytes"]
        active, addresses = masked(access["addresses"])
        read, source = masked(access["source"])
        parts = wavefronts.serve(addresses, active, width, kind, source, read)
        expected = [
            [(word.bank, word.address, list(word.lanes), index) for word in row]
            for index, part in enumerate(parts)
            for row in part.wavefronts
        ]
        keys = ("bank", "address", "lanes", "part")
        assert [[tuple(word[key] for key in keys) for word in row] for row in rows] == expected
        assert (len(rows), ideal) == counted(kind, addresses, active, width, source, read)
        conflicts += len(rows) > ideal
        requested = [
            int(values[0]) for values in wavefronts.sectors(addresses[None], active[None], width)
        ]
        assert [len(touched), sum(sector["used"] for sector in touched)] == requested
        for sector in touched:
            at = sector["address"]
            assert sector["lanes"] == list(np.flatnonzero(active & (addresses // 32 * 32 == at)))
    assert len(answers) / 4 < conflicts < len(answers)


def masked(values: list[int | None]) -> tuple[np.ndarray, np.ndarray]:
    """Return which lanes have an address, and the addresses, 0 for the others."""
    active = np.array([value is not None for value in values])
    return active, np.array([value or 0 for value in values], np.int64)


def counted(
    kind: str,
    addresses: np.ndarray,
    active: np.ndarray,
    width: int,
    source: np.ndarray,
    read: np.ndarray,
) -> tuple[int, ...]:
    """Return the emulator's count of wavefronts, and its ideal."""
    warp = addresses[None], active[None]
    if kind == "ldmatrix":
        counts = wavefronts.ldmatrix(*warp)
    elif kind == "cp_async":
        counts = wavefronts.cp_async(*warp, width, source[None], read[None])
    else:
        counts = wavefronts.shared(*warp, width, kind == "st")
    return tuple(int(values[0]) for values in counts)


@pytest.mark.parametrize(
    "name",
    ["sgemm_warptile", "sgemm_at_swizzle_rw", "sgemm_t128x128x8_direct", "hgemm_wgmma_ws_bf16"],
)
def test_a_picture_gives_each_thread_the_sums_that_it_stores(
    name: str, chromium: Any, ptx: Callable[[str], Path]
) -> None:
    variant = catalogue.load().kernels[name]
    m, n, k = (variant.tile[axis] for axis in "mnk")
    problem = Problem(m, n, k, k, n, n)
    buffers = [
        np.zeros(2 * GUARD + rows * ld, np.dtype(variant.types.of(matrix).numpy))
        for matrix, (rows, _, ld) in problem.stored.items()
    ]
    stores = EmulatedDevice(ptx(name)).stores(variant, problem, buffers, 0)
    ask = f"{scripts('picture')}; return sumOwners(arguments[0]);"
    owners = chromium.execute_script(ask, variant.divided_sums())
    lane, warp = (np.add.outer(owners["m"][who], owners["n"][who]) for who in ("lane", "warp"))
    assert np.array_equal(stores.owner % variant.threads, 32 * warp + lane)


def retiled(name: str, **template: int) -> Variant:
    """Return the kernel with other template values, under a name that has them."""
    known, values = catalogue.load(), "".join(f"_{key}{value}" for key, value in template.items())
    variant = known.kernels[name]
    return known.retiled(name, name + values, {**variant.template, **template}, variant.threads)


@pytest.mark.parametrize(
    "variant",
    [
        catalogue.load().kernels["sgemm_vectorized"],
        retiled("sgemm_vectorized", A_PAD=1),
        retiled("sgemm_vectorized", BK=16, A_PAD=4),
        catalogue.load().kernels["sgemm_at_tiling"],
        catalogue.load().kernels["sgemm_at_swizzle"],
    ],
    ids=lambda variant: variant.name,
)
def test_the_playground_has_the_addresses_that_the_emulator_records(
    variant: Variant, chromium: Any, tmp_path: Path
) -> None:
    unit = tmp_path / f"{variant.name}.cu"
    unit.write_text(variant.translation_unit())
    build.compile_source(unit, tmp_path / variant.name, ARCH, toolchain.nvcc(None))
    loaded = launching.load(variant, tmp_path)
    template = ", ".join(f"{name}={value}" for name, value in variant.template.items())
    kernel = {"source": f"kernels/sgemm/{variant.source.name}", "template": template}
    ask = (
        f"{scripts('banks', 'playground')}; const [kernel] = arguments, own = parametersOf(kernel);"
        "return playOf(kernel).accesses.map(access => playedAccess(access, own));"
    )
    played = chromium.execute_script(ask, kernel)
    assert len(played) >= 2
    for access in played:
        line = bank_pictures.source_line(variant, access["line"])
        launch = bank_pictures.small_launch(variant)
        recorded = [
            (found.kind, found.width, found.addresses.tolist())
            for found in banks.accesses(loaded, line=line, warp=0, **launch)
        ]
        assert (access["kind"], access["bytes"], access["addresses"]) in recorded, access["says"]


def test_a_timeline_is_drawn_from_the_head_comment_or_the_one_that_it_names(chromium: Any) -> None:
    paths = [f"kernels/hgemm/wgmma_{name}.cu" for name in ("store", "pingpong", "pingpong_wide")]
    ask = (
        f"{scripts('picture')}; const [paths, sources] = arguments;"
        "return paths.map(path => timelineRows(headParagraph(sources, path, 'Timeline')));"
    )
    sources = {path: (ROOT / path).read_text() for path in paths}
    store, pingpong, wide = chromium.execute_script(ask, paths, sources)
    assert [row["name"] for row in store] == ["producer", "consumer", "its warps"]
    assert [part["text"] for part in store[2]["parts"]][:2] == [
        "fill 0, store 0",
        "fill 1, store 1",
    ]
    load, mainloop, epilogue = store[0]["parts"][0], *store[1]["parts"][:2]
    assert (load["from"], load["to"]) == (mainloop["from"], epilogue["to"])
    assert wide == pingpong and [row["name"] for row in wide] == ["producer", "group 0", "group 1"]
