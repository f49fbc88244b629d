"""Estimates of DRAM traffic: the order of tiles is the kernels' own, and the estimate is near what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import assert_one_line, run_module

from contracts.dtypes import dtypes
from experiments.emulation import l2_traffic, launching
from experiments.emulation.l2_traffic import Tiling
from kernels import catalogue
from kernels.catalogue import Problem
from ptxsim import l2, machines

H100, H200 = machines.find("h100-sxm"), machines.find("h200")
# Problems with more than one strip; those of stream-K kernels divide tiles
ORDERS = [
    ("hgemm_wgmma_streamk_bf16", (768, 2304, 18 * 64), 10),
    ("hgemm_wgmma_256_bf16", (512, 2304, 128), 4),
    pytest.param("hgemm_wgmma_pingpong_bf16", (768, 2176, 28 * 64), 10, marks=pytest.mark.slow),
    pytest.param("hgemm_wgmma_pingpong_bcol_bf16", (768, 2176, 28 * 64), 10, marks=pytest.mark.slow),
    pytest.param("hgemm_wgmma_persistent_bf16", (512, 2304, 192), 4, marks=pytest.mark.slow),
    pytest.param("hgemm_wgmma_cluster_bf16", (1024, 2304, 192), 8, marks=pytest.mark.slow),
    pytest.param("hgemm_wgmma_store_bf16", (1024, 2304, 192), 8, marks=pytest.mark.slow),
    pytest.param("hgemm_wgmma_tma_bf16", (512, 1280, 192), 4, marks=pytest.mark.slow),
    pytest.param("tf32gemm_wgmma", (512, 1280, 96), 4, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "sides", "sms"), ORDERS)
def test_the_order_of_tiles_is_the_kernel_s(name: str, sides: tuple[int, int, int], sms: int, ptx) -> None:
    """Every load of the first row of a tile of A, and of the first column of one of B, by unit and in order."""
    variant = catalogue.load().kernels[name]
    problem = Problem.packed(*sides, variant.b_layout)
    requests = l2.Requests()
    launching.count(launching.load(variant, ptx(name), cubin=False), variant, problem, [requests], sms)
    tiling = Tiling.of(variant, problem, machines.with_sms(H100, sms), 1)
    units = sorted(requests.by_unit)
    if variant.persistent:
        parts = [list(l2_traffic.share(variant, tiling, unit)) for unit in range(len(units))]
    else:
        parts = [[(unit, 0, tiling.steps)] for unit in range(len(units))]
    if "WAYS" in variant.template:
        assert any(first for own in parts for _, first, _ in own), "no tile is divided"
    item = dtypes()[variant.dtype].bytes
    copies = {  # addresses of boxes; what is not one belongs to sums of divided tiles
        unit: [what[0] for what, _ in asked if isinstance(what, tuple)] for unit, asked in requests.by_unit.items()
    }
    starts = sorted({start for asked in copies.values() for start in asked})
    a_start = starts[0]
    b_start = min(start for start in starts if start >= a_start + problem.m * problem.lda * item)
    for unit, own in zip(units, parts, strict=True):
        found_a, found_b = [], []
        for address in copies[unit]:
            if address < b_start:
                row, k = divmod((address - a_start) // item, problem.lda)
                found_a += [(row // tiling.m, k // tiling.k)] if row % tiling.m == 0 else []
            else:
                outer, inner = divmod((address - b_start) // item, problem.ldb)
                k, column = (outer, inner) if problem.b_layout == "row" else (inner, outer)
                if column % tiling.n == 0 and k % tiling.k == 0:
                    found_b.append((column // tiling.n, k // tiling.k))
        steps = [(tiling.place(tile), step) for tile, first, last in own for step in range(first, last)]
        assert found_a == [(row, step) for (row, _), step in steps]
        assert found_b == [(column, step) for (_, column), step in steps]


@pytest.fixture(scope="module")
def read() -> Callable[..., float]:
    """A function: kernel, size and machine to the GB that are estimated to be read."""

    def of(name: str, n: int, machine: machines.Machine, drift: float = l2.DRIFT) -> float:
        variant = catalogue.load().kernels[name]
        return l2_traffic.estimate(variant, Problem.square(n, variant.b_layout), machine, drift=drift).read / 1e9

    return of


def test_ping_pong_collapses_on_an_h100(read) -> None:
    """At 16384: it reads several times what it does in step, more than stream-K, and more than on an H200."""
    pingpong, streamk = "hgemm_wgmma_pingpong_bf16", "hgemm_wgmma_streamk_bf16"
    assert read(pingpong, 16384, H100) > 3 * read(pingpong, 16384, H100, drift=0)
    assert read(pingpong, 16384, H100) > 1.1 * read(pingpong, 16384, H200)
    assert read(pingpong, 16384, H100) > 1.5 * read(streamk, 16384, H100)


def test_estimates_are_near_what_was_measured(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes up to 8192, which take seconds, of kernels whose number of blocks per SM is in the catalogue."""
    whole = l2_traffic.measured

    def quick(archive: Path) -> Iterator[dict]:
        kernels = catalogue.load().kernels
        for row in whole(archive):
            known = kernels[row.get("like") or row["variant"]]
            if row["n"] <= 8192 and known.shared_bytes and known.dtype != "tf32":
                yield row

    monkeypatch.setattr(l2_traffic, "measured", quick)
    found = l2_traffic.compare(archive, None)
    archived = [row for row in found if row.n == 4096]
    assert len(archived) > 15 and all(abs(row.error) < 0.16 for row in archived)
    assert l2_traffic.root_mean_square(found) < 0.2
    assert "a factor of" in l2_traffic.table(found)


def test_divided_tiles_have_all_of_their_steps() -> None:
    """n = 8192: of 1024 tiles of stream-K, 66 clusters divide the last 34, and ask for all of their steps."""
    variant = catalogue.load().kernels["hgemm_wgmma_streamk_bf16"]
    problem = Problem.square(8192)
    tiling = Tiling.of(variant, problem, H100, 1)
    steps = [0] * (tiling.tiles_m * tiling.tiles_n)
    for unit in range(tiling.units):
        for tile, first, last in l2_traffic.share(variant, tiling, unit):
            steps[tile] += last - first
    assert steps == [tiling.steps] * len(steps)
    assert any(first for unit in range(tiling.units) for _, first, _ in l2_traffic.share(variant, tiling, unit))


# ---- the command ---------------------------------------------------------------------------------------------------

MODULE = "experiments.emulation.l2_traffic"


def test_the_command_reports_drift_and_altered_tiles() -> None:
    done = run_module(MODULE, "hgemm_wgmma_streamk_bf16", "--n", "2048", "--tile", "256x192", "--cluster", "1x2")
    assert done.returncode == 0, done.stderr
    assert "256 x 384" in done.stdout and done.stdout.count("\n") == 6 and "none" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to do: give the name of a kernel, or --compare ARCHIVE"),
        (["sgemm_naive"], "the order of its tiles is not known; known: kernels of hgemm and tf32gemm"),
        (["hgemm_naive_bf16"], "give --build-dir, the folder in which it was built"),
        (["hgemm_wgmma_store_bf16", "--tile", "256"], "tile = '256' is not allowed; allowed: ROWSxCOLUMNS, as 256x128"),
        (["hgemm_wgmma_store_bf16", "--strip", "-1"], "strip = -1 is not allowed; allowed: 0 or more tile columns"),
        (["hgemm_wgmma_store_bf16", "--machine", "h300"], "machine 'h300' is not known"),
        (["hgemm_wgmma_store_bf16", "--n", "100"], "must be a multiple of 8"),
        (["hgemm_wgmma_store_bf16", "--drift", "-1"], "drift = -0.5 is not allowed"),
        (["cublas_bf16"], "its tiles are not known"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], words: str) -> None:
    assert_one_line(run_module(MODULE, *arguments), words)
