"""Dispatchers over sgemm_cu's kernels, and arguments that are textures."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers import ARCH, assert_one_line, refused, run_module

from experiments.emulation.device import EmulatedDevice
from experiments.stages.cases import Case, cases
from experiments.stages.check import run_case
from kernels import arguments, catalogue
from kernels.catalogue import Problem

RUNNABLE = catalogue.load().runnable
SIZES, TEXTURES = RUNNABLE["sgemm_c_dispatch"], RUNNABLE["sgemm_c_texld"]
PLAIN, LARGE, TEXLD = "sgemm_t128x128x8", "sgemm_t128x256x8_cpasync", "sgemm_t128x128x8_texld"
FEW = Problem(5, 6, 7, 8, 8, 9, alpha=0.75, beta=-1.5)  # less than a texel at each end


@pytest.fixture(scope="module")
def built(ptx) -> Path:
    """A folder with the PTX of both kernels of the dispatcher over textures."""
    ptx(PLAIN)
    return ptx(TEXLD)


@pytest.mark.parametrize(
    ("m", "n", "picked"), [(2500, 2500, LARGE), (2499, 2500, PLAIN), (9999, 2499, PLAIN)]
)
def test_a_dispatcher_picks_by_size(m: int, n: int, picked: str) -> None:
    assert SIZES.pick(Problem(m, n, 1, 1, n, n)).name == picked


@pytest.mark.parametrize(
    ("problem", "addresses", "picked"),
    [
        (Problem.square(64), {"A": 16, "B": 32, "C": 4}, TEXLD),
        (Problem.square(64), {"A": 24, "B": 32, "C": 4}, PLAIN),
        (Problem(5, 5, 5, 8, 8, 5), {}, TEXLD),
        (Problem(5, 5, 5, 8, 7, 5), {}, PLAIN),
        # 128 rows of the tile of A: as many texels as there may be
        (Problem(1, 4, 4, 2**22 - 4, 4, 4), {}, TEXLD),
        (Problem(1, 4, 4, 2**22, 4, 4), {}, PLAIN),
    ],
)
def test_a_dispatcher_passes_over_a_choice_that_refuses(
    problem: Problem, addresses: dict, picked: str
) -> None:
    assert TEXTURES.pick(problem, addresses).name == picked


def test_a_dispatcher_without_a_choice_for_a_problem_says_why() -> None:
    last = catalogue.Dispatcher("d", SIZES.choices[:1], None, "", None, predicted=False)
    with refused(r"d cannot take this problem: its last choice is .*_cpasync for m >= 2500"):
        last.pick(Problem.square(100))


@pytest.mark.parametrize(
    ("problem", "addresses", "reason"),
    [
        (Problem.packed(0, 64, 64), {}, "m = 0, but m must be at least 1"),
        (Problem.packed(2**16, 2**15, 8), {}, "C spans 2147483648 elements, but at most .*"),
        (Problem.packed(64, 64, 63), {}, "lda = 63, but lda must be a multiple of 8"),
        (Problem.square(64), {"A": 0, "B": 0, "C": 8}, "C starts at byte 8, .* to 16 bytes"),
    ],
)
def test_what_no_kernel_of_a_dispatcher_takes_is_one_line(
    problem: Problem, addresses: dict, reason: str
) -> None:
    with refused(f"^hgemm_best_bf16 cannot take this problem: .*{reason}$"):
        RUNNABLE["hgemm_best_bf16"].pick(problem, addresses)


@pytest.mark.parametrize(
    ("c", "overlapped"),
    [
        (4096, "A at byte 4096"),
        (4096 + 14, "A at byte 4096"),
        (4096 + 16, None),  # A and C are columns of one matrix, next to each other
        (8192 + 7 * 64 + 14, "B at byte 8192"),  # its last element
        (8192 + 7 * 64 + 16, None),
    ],
)
def test_c_may_not_lie_where_an_element_of_a_or_b_is(c: int, overlapped: str | None) -> None:
    problem = Problem(8, 8, 8, 32, 32, 32)
    reason = problem.overlap(RUNNABLE["hgemm_naive_bf16"].types, {"A": 4096, "B": 8192, "C": c})
    assert reason == (overlapped and f"C at byte {c} overlaps {overlapped}")


def test_the_dispatcher_over_textures_falls_back_where_they_cannot_go(built: Path) -> None:
    names = re.compile("off by one|misaligned")
    fallen_back = [case for case in cases(TEXTURES) if names.search(case.name)]
    assert len(fallen_back) == 3 and all(case.name.endswith(f"by {PLAIN}") for case in fallen_back)
    for case in fallen_back:
        assert not case.refused and run_case(EmulatedDevice(built), TEXTURES, case, seed=2).passed


def test_a_dispatcher_s_cases_are_on_each_side_of_its_sizes() -> None:
    names = [case.name for case in cases(SIZES, 4096)]
    sides = {"2500 x 2500": LARGE, "2499 x 2500": PLAIN, "2500 x 2499": PLAIN}
    assert {f"{size} x 9, by {kernel}" for size, kernel in sides.items()} <= {*names}
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("offset", [4, 124])
def test_a_texture_finds_a_matrix_anywhere_in_its_first_512_bytes(offset: int, built: Path) -> None:
    texld = RUNNABLE[TEXLD]
    assert run_case(EmulatedDevice(built), texld, Case("", FEW, offset=offset), seed=1).passed
    refused = Case("", FEW, offset=offset + 2, refused=True)
    assert run_case(EmulatedDevice(built), texld, refused, seed=1).passed


def test_a_dispatcher_has_nothing_to_build(tmp_path: Path) -> None:
    done = run_module("experiments.stages.build", SIZES.name, "--arch", ARCH, "--out-dir", tmp_path)
    assert_one_line(done, "sgemm_c_dispatch is a dispatcher", LARGE)


def test_arguments_follow_the_signature() -> None:
    """Eleven for all; the textures of a kernel that takes them end with the texel of the last
    element.
    """

    class Makers:
        def texture(self, *given):
            return given

    matrices = {"A": 100, "B": 200, "C": 300}
    packed = arguments.pack(RUNNABLE[PLAIN].arguments, FEW, matrices, 1, None)
    assert [float(value) for value in packed] == [5, 6, 7, 0.75, 100, 8, 200, 8, -1.5, 300, 9]
    assert [type(value) for value in packed[:4]] == [np.int32, np.int32, np.int32, np.float32]
    texld = arguments.pack(RUNNABLE[TEXLD].arguments, FEW, matrices, 1, Makers())
    # A: 4 rows of 8 and 7 elements, 10 texels; B: 6 rows of 8 and 6 elements, 14 texels
    assert texld[:11] == packed and texld[11:] == ((100, 160), (200, 224))
