"""Worklog C's kernels, built here and run on the emulator: textures, edges, and the dispatchers over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import ARCH, assert_one_line, run_module

from experiments import arguments, build, predict
from experiments.cases import Case, cases
from experiments.check import EmulatedDevice, run_case
from kernels import catalogue
from kernels.catalogue import Problem

RUNNABLE = catalogue.runnable()
KERNELS = ("sgemm_t128x128x8", "sgemm_t128x128x8_texld", "sgemm_t128x256x8_cpasync")
FEW = Problem(5, 6, 7, 8, 8, 9, alpha=0.75, beta=-1.5)  # less than a texel at each end


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with real builds of the three kernels."""
    folder = tmp_path_factory.mktemp("build")
    for name in KERNELS:
        build.build_variant(name, ARCH, folder)
    return folder


@pytest.mark.parametrize("name", KERNELS)
def test_neither_padding_nor_what_lies_beyond_k_is_taken_in(name: str, built: Path) -> None:
    """All that is not the matrices is NaN."""
    rest = [FEW, Problem(130, 260, 21, 24, 264, 261), Problem(1, 1, 1, 4, 4, 1), Problem(129, 3, 9, 12, 4, 4, beta=1.0)]
    for number, problem in enumerate(rest):
        verdict = run_case(EmulatedDevice(built), RUNNABLE[name], Case("", problem), seed=number)
        assert verdict.passed, (problem, verdict.detail)


@pytest.mark.parametrize("offset", [4, 124])
def test_a_texture_finds_a_matrix_anywhere_in_its_first_512_bytes(offset: int, built: Path) -> None:
    texld = RUNNABLE["sgemm_t128x128x8_texld"]
    assert run_case(EmulatedDevice(built), texld, Case("", FEW, offset=offset), seed=1).passed
    refused = run_case(EmulatedDevice(built), texld, Case("", FEW, offset=offset + 2, refused=True), seed=1)
    assert refused.passed


def test_the_texture_dispatcher_falls_back_where_textures_cannot_go(built: Path) -> None:
    """Each case that only texld refuses runs, under the name of the kernel that ran it, and is right."""
    entry = RUNNABLE["sgemm_c_texld"]
    fallen_back = [case for case in cases(entry) if "off by one" in case.name or "misaligned" in case.name]
    assert [case.name for case in fallen_back] == [
        f"{what}, by sgemm_t128x128x8" for what in ("lda off by one", "ldb off by one", "misaligned matrices")
    ]
    for case in fallen_back:
        assert not case.refused and run_case(EmulatedDevice(built), entry, case, seed=2).passed


def test_a_dispatchers_cases_name_the_kernel_on_each_side_of_its_sizes() -> None:
    names = {case.name for case in cases(RUNNABLE["sgemm_c_dispatch"])}
    assert {
        "2500 x 2500 x 9, by sgemm_t128x256x8_cpasync",
        "2499 x 2500 x 9, by sgemm_t128x128x8",
        "2500 x 2499 x 9, by sgemm_t128x128x8",
    } <= names
    assert len(names) == len(list(cases(RUNNABLE["sgemm_c_dispatch"])))


def test_a_dispatcher_is_predicted_as_the_kernel_that_it_picks(built: Path) -> None:
    rows = {name: predict.predict(RUNNABLE[name], 4096, built) for name in ("sgemm_c_dispatch", KERNELS[2])}
    of_dispatcher, of_kernel = rows.values()
    same = ("metric", "value", "unit", "kernel", "n")
    assert [[row[key] for key in same] for row in of_dispatcher] == [[row[key] for key in same] for row in of_kernel]
    assert {row["variant"] for row in of_dispatcher} == {"sgemm_c_dispatch"}
    conflicts = {row["metric"]: row["value"] for row in of_kernel if "bank_conflicts" in row["metric"]}
    assert conflicts and set(conflicts.values()) == {0.0}


def test_a_dispatcher_has_nothing_to_build(tmp_path: Path) -> None:
    done = run_module("experiments.build", "sgemm_c_dispatch", "--arch", ARCH, "--out-dir", tmp_path)
    assert_one_line(done, "sgemm_c_dispatch is a dispatcher: there is nothing to build but its kernels, sgemm_t128x2")


def test_arguments_follow_the_signature() -> None:
    """Eleven for all; the textures of a kernel that takes them end with the texel of the last element."""
    packed = arguments.pack(RUNNABLE["sgemm_t128x128x8"], FEW, 100, 200, 300, lambda *_: pytest.fail("no textures"))
    assert [float(value) for value in packed] == [5, 6, 7, 0.75, 100, 8, 200, 8, -1.5, 300, 9]
    assert [type(value) for value in packed[:4]] == [np.int32, np.int32, np.int32, np.float32]
    texld = arguments.pack(RUNNABLE["sgemm_t128x128x8_texld"], FEW, 100, 200, 300, lambda *matrix: matrix)
    # A: 4 rows of 8 and 7 elements, 10 texels; B: 6 rows of 8 and 6 elements, 14 texels
    assert texld[:11] == packed and texld[11:] == ((100, 160), (200, 224))
