"""A dispatcher in measurements: its likeliest kernels are timed once for a problem, and the choice
is remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import refused

from experiments.gpu import dispatched, fastest_call
from experiments.gpu.device import CatalogueKernel
from experiments.gpu.dispatched import TIMED, DispatchedGemm
from experiments.gpu.fastest_call import Choice
from kernels import catalogue, cost
from kernels.catalogue import Dispatcher, Problem, Variant

P, PLACES = Problem.packed(128, 4096, 4096), (1 << 20, 1 << 28, 1 << 30)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that ran, in order; a stand-in for a GPU."""
    names: list[str] = []

    class Kernel:
        def __init__(self, gpu: object, entry: Dispatcher, folder: Path | None = None) -> None:
            self.entry = entry

        def bind(
            self, problem: Problem, *places: int, variant: Variant | None = None
        ) -> Callable[[], None]:
            kernel = variant or self.entry.pick(problem)
            return lambda: names.append(kernel.name)

    monkeypatch.setattr(dispatched, "CatalogueKernel", Kernel)
    monkeypatch.setattr(fastest_call, "warm_up", lambda *_, **__: 0.0)
    return names


def gemm(name: str = "hgemm_best_bf16") -> DispatchedGemm:
    entry = catalogue.load()[name]
    assert isinstance(entry, Dispatcher)
    return DispatchedGemm(None, entry)  # type: ignore[arg-type]  # a stand-in has none


def timed_by(fastest: str, ran: list[str]) -> Callable[[Any, list[Callable[[], None]]], np.ndarray]:
    def times(_: Any, calls: list[Callable[[], None]]) -> np.ndarray:
        taken = []
        for call in calls:
            call()
            taken.append(1.0 if ran[-1] == fastest else 9.0)
        return np.array(taken)

    return times


def test_the_fastest_of_the_likeliest_is_bound_and_a_plain_bind_takes_the_first(
    ran: list[str],
) -> None:
    one = gemm()
    likely = [variant.name for variant in one.entry.candidates(P)]
    one.bind_fastest(P, *PLACES, timed_by(likely[3], ran))()
    assert ran[-1] == likely[3] and set(ran) == {*likely[:TIMED]} and len(likely) > TIMED
    choice = one.choice(P)
    assert choice and (choice.call, choice.calls) == (likely[3], TIMED)
    one.bind(P, *PLACES)()
    assert ran[-1] == likely[0]


def test_a_remembered_choice_is_neither_ranked_nor_timed_again(
    ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, known = gemm(), "hgemm_transposed_128x128_c1x2_k2_bf16"
    one.choose(P, Choice(known, TIMED))
    monkeypatch.setattr(cost, "fastest_first", None)
    one.bind_fastest(P, *PLACES, lambda *_: pytest.fail("timed"))()
    assert ran == [known]


def test_a_remembered_kernel_that_cannot_take_these_matrices_is_chosen_anew(ran: list[str]) -> None:
    one, aligned = gemm("sgemm_best"), "sgemm_tma_streamk"
    one.choose(P, Choice(aligned, TIMED))
    places = (PLACES[0] + 4, *PLACES[1:])
    one.bind_fastest(P, *places, timed_by("sgemm_splitk_128x64", ran))()
    assert ran[-1] == "sgemm_splitk_128x64" and aligned not in ran
    one.choose(P, Choice("of an older catalogue", TIMED))
    one.bind_fastest(P, *PLACES, timed_by(aligned, ran))()
    assert ran[-1] == aligned


def test_what_no_kernel_takes_is_refused_before_anything_runs(ran: list[str]) -> None:
    with refused(r"hgemm_best_bf16 cannot take this problem: .* A starts at byte 2, but it must"):
        gemm().bind_fastest(P, 2, *PLACES[1:], lambda *_: pytest.fail("timed"))
    assert ran == []


def test_an_offered_tile_is_timed_and_remembered_by_its_name(
    ran: list[str], tmp_path: Path
) -> None:
    tile = catalogue.load().find("hgemm_tile_64x128_bfirst_c2x1_s8_bf16")
    assert isinstance(tile, Variant)
    for known in (None, Choice(tile.name, TIMED + 1)):
        one = gemm("hgemm_best_bf16")
        one.offer(P, tile, tmp_path)
        if known:
            one.choose(P, known)
        one.bind_fastest(P, *PLACES, timed_by(tile.name, ran))()
        choice = one.choice(P)
        assert ran[-1] == tile.name and choice and choice.call == tile.name
    # Elsewhere it was not checked.
    assert tile.name not in one.calls(replace(P, m=2 * P.m), *PLACES)
    assert one.named(tile.name, replace(P, m=2 * P.m), *PLACES) is None
    one.withdraw(P, tile)
    one.bind_fastest(P, *PLACES, timed_by(tile.name, ran))()
    assert ran[-1] != tile.name


@pytest.mark.parametrize(
    ("name", "held", "grid"),
    [
        ("128x128_c1x1_s4", 0, (132, 1, 1)),
        ("128x128_c2x1_s4", 66, (132, 1, 1)),
        ("128x128_c4x2_s4", 15, (120, 1, 1)),
        ("128x128_c2x1_k4_s4", 0, (64 * 64, 1, 4)),  # not persistent
    ],
)
def test_persistent_clusters_are_as_many_as_the_gpu_holds_at_a_time(
    name: str, held: int, grid: tuple[int, int, int]
) -> None:
    """An H100 holds 15 clusters of eight: a sixteenth would begin when all others have ended."""
    tile = catalogue.load().find(f"hgemm_tile_{name}_bf16")
    assert isinstance(tile, Variant)
    kernel = CatalogueKernel.__new__(CatalogueKernel)
    occupancy = SimpleNamespace(max_active_clusters=lambda *_, **__: held)
    kernel.gpu = SimpleNamespace(sm_count=132, stream=None)  # type: ignore[assignment]
    kernel._kernels, kernel._filled = {tile.name: SimpleNamespace(occupancy=occupancy)}, {}  # type: ignore[dict-item]
    filled = kernel.filled_sms(tile)
    assert tile.grid(Problem.square(8192), filled) == grid
