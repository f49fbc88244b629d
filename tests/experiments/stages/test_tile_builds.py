"""Tiles that are compiled when a problem is new: once for each compiler, in a folder of their own,
and taken where they are right.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contracts import UserError
from experiments.gpu import discovery
from experiments.stages import build, tile_builds, toolchain
from experiments.stages.interleave import ROLES
from experiments.stages.library_calls import LibraryCalls
from experiments.stages.store import Store
from experiments.stages.tile_builds import TileBuilds
from kernels import catalogue, tile_choice
from kernels.catalogue import Problem, Variant
from kernels.problem import ProblemSpec

CATALOGUE = catalogue.load()
ENTRY: Any = CATALOGUE["hgemm_best_bf16"]
P = Problem.packed(2816, 776, 3008)
LIKELY = [tile.name for tile in tile_choice.ranked(P, gpu="NVIDIA H200")[: tile_builds.COMPILED]]


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tiles that were compiled; a stand-in for the compiler, of version 1."""
    names: list[str] = []

    def make(variant: Variant, arch: str, folder: Path, nvcc: str | None) -> None:
        names.append(variant.name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{variant.name}.json").touch()

    monkeypatch.setattr(build, "build_kernel", make)
    monkeypatch.setattr(build, "compiler_name", lambda _: "nvcc 1")
    monkeypatch.setattr(
        build, "current", lambda _, stem, *__: stem.with_suffix(".json").exists() or None
    )
    tile_builds.warn_once.cache_clear()
    return names


class Gemm:
    """A dispatcher that notes what it is offered."""

    entry, gpu = ENTRY, SimpleNamespace(sm_count=132, device=SimpleNamespace(name="NVIDIA H200"))

    def __init__(self) -> None:
        self.offered: list[str] = []
        self.ran: list[str] = []

    def offer(self, problem: Problem, tile: Variant, folder: Path) -> Any:
        assert problem == P and (folder / f"{tile.name}.json").exists()
        self.offered.append(tile.name)
        return SimpleNamespace(bind=lambda *_: lambda: self.ran.append(tile.name))

    def withdraw(self, problem: Problem, tile: Variant) -> None:
        self.offered.remove(tile.name)


def matrices() -> Any:
    memory = SimpleNamespace(address=4096)
    nothing = lambda *_: None
    return SimpleNamespace(problem=P, a=memory, b=memory, c={ROLES[1]: memory}, poison=nothing)


def checks_fail_of(monkeypatch: pytest.MonkeyPatch, gemm: Gemm, *wrong: str) -> None:
    """The check of outputs finds these tiles, of those that ran last, wrong."""
    result = lambda *_: SimpleNamespace(passed=gemm.ran[-1] not in wrong, detail="off")
    monkeypatch.setattr(tile_builds, "check_output", result)


def test_the_likeliest_tiles_are_compiled_once_and_offered_where_they_are_right(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiled: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):  # the second process finds all compiled
        gemm: Any = Gemm()
        checks_fail_of(monkeypatch, gemm, LIKELY[1])
        TileBuilds(CATALOGUE, tmp_path).offer_likeliest(gemm, matrices())
        assert gemm.ran == LIKELY and gemm.offered == [n for n in LIKELY if n != LIKELY[1]]
    assert sorted(compiled) == sorted(LIKELY)
    assert next(r.message for r in caplog.records if LIKELY[1] in r.message).endswith(": off")


def sees_an_h200(monkeypatch: pytest.MonkeyPatch, cores: int | None = 132 * 128) -> None:
    monkeypatch.setattr(discovery, "gpu", lambda: discovery.Gpu("NVIDIA H200", "sm_90a", "1"))
    monkeypatch.setattr(discovery, "cores", lambda: cores)


def test_before_a_gpu_is_held_all_is_compiled_that_a_search_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    sees_an_h200(monkeypatch)
    plain = replace(ENTRY, any_tile=False)
    TileBuilds(CATALOGUE, tmp_path).compile_likeliest([(ENTRY, P), (ENTRY, P), (plain, P)])
    assert sorted(compiled) == sorted(LIKELY)
    gemm: Any = Gemm()
    checks_fail_of(monkeypatch, gemm)
    TileBuilds(CATALOGUE, tmp_path).offer_likeliest(gemm, matrices())
    assert gemm.offered == LIKELY and len(compiled) == len(LIKELY)
    sees_an_h200(monkeypatch, cores=None)
    assert TileBuilds(CATALOGUE, tmp_path / "other").compile_likeliest([(ENTRY, P)]) == []


def test_nothing_is_compiled_for_a_search_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    sees_an_h200(monkeypatch)
    calls = LibraryCalls(Store(tmp_path / "measured"), CATALOGUE, tmp_path)
    stored = [P]
    monkeypatch.setattr(calls, "_search", lambda _, problem: problem in stored or None)
    kernel = CATALOGUE.find("sgemm_naive")
    asked = [(entry, ProblemSpec(P.m, P.n, P.k)) for entry in (ENTRY, kernel)]
    assert calls.compile_tiles(asked, jobs=2) == [] == compiled
    stored.clear()
    assert calls.compile_tiles(asked, jobs=2) == LIKELY and sorted(compiled) == sorted(LIKELY)


def test_a_cache_of_another_compiler_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    name = LIKELY[0]
    for version in ("nvcc 1", "nvcc 2", "nvcc 1"):
        monkeypatch.setattr(build, "compiler_name", lambda _, version=version: version)
        gemm: Any = Gemm()
        TileBuilds(CATALOGUE, tmp_path).offer_named(gemm, P, name)
        assert gemm.offered == [name]
    assert compiled == [name, name]


def test_without_a_compiler_built_kernels_are_timed_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(_: str | None) -> Path:
        raise UserError("no nvcc")

    monkeypatch.setattr(toolchain, "nvcc", missing)
    gemm: Any = Gemm()
    for _ in range(2):
        TileBuilds(CATALOGUE, tmp_path).offer_likeliest(gemm, matrices())
    assert gemm.offered == []
    assert [r.message for r in caplog.records] == [
        "no tile is compiled, and only built kernels are timed: no nvcc"
    ]


def test_a_tile_that_does_not_compile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make = build.build_kernel

    def fails(variant: Variant, *rest: Any) -> Any:
        if variant.name == LIKELY[0]:
            raise UserError("ptxas failed")
        return make(variant, *rest)

    monkeypatch.setattr(build, "build_kernel", fails)
    gemm: Any = Gemm()
    checks_fail_of(monkeypatch, gemm)
    with caplog.at_level(logging.WARNING):
        TileBuilds(CATALOGUE, tmp_path).offer_likeliest(gemm, matrices())
    assert gemm.offered == LIKELY[1:]
    assert f"{LIKELY[0]} is left out: ptxas failed" in caplog.text


def test_other_dispatchers_and_other_names_are_offered_nothing(
    tmp_path: Path, compiled: list[str]
) -> None:
    gemm: Any = Gemm()
    TileBuilds(CATALOGUE, tmp_path).offer_named(gemm, P, "hgemm_wgmma_coop_bf16")
    gemm.entry = replace(ENTRY, any_tile=False)
    TileBuilds(CATALOGUE, tmp_path).offer_likeliest(gemm, matrices())
    assert gemm.offered == compiled == []
