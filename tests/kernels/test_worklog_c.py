"""sgemm_cu's kernels, built here and run on the emulator: textures, edges, and the dispatchers over them."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from helpers import ARCH, assert_one_line, run_module

from contracts import read_json
from experiments.emulation import launching, predictions, scaling
from experiments.emulation.device import EmulatedDevice
from experiments.stages.cases import Case, cases
from experiments.stages.check import run_case
from kernels import arguments, catalogue
from kernels.catalogue import Problem
from kernels.problem import ProblemSpec

RUNNABLE = catalogue.load().runnable
KERNELS = ("sgemm_t128x128x8", "sgemm_t128x128x8_texld", "sgemm_t128x256x8_cpasync")
ONE_CHANGE = ("sgemm_t128x128x8_direct", "sgemm_t128x128x8_cpasync")  # kernels that differ from the first in one thing
FEW = Problem(5, 6, 7, 8, 8, 9, alpha=0.75, beta=-1.5)  # less than a texel at each end


@pytest.fixture(scope="module")
def built(builds) -> Path:
    """A folder with real builds of the kernels."""
    return builds(*KERNELS, *ONE_CHANGE)


@pytest.mark.parametrize("name", (*KERNELS, *ONE_CHANGE))
def test_neither_padding_nor_what_lies_beyond_k_is_taken_in(name: str, built: Path) -> None:
    """All that is not the matrices is NaN."""
    rest = [FEW, Problem(130, 260, 21, 24, 264, 261), Problem(1, 1, 1, 4, 4, 1), Problem(129, 3, 9, 12, 4, 4, beta=1.0)]
    for number, problem in enumerate(rest):
        result = run_case(EmulatedDevice(built), RUNNABLE[name], Case("", problem), seed=number)
        assert result.passed, (problem, result.detail)


@functools.cache
def scaled(name: str, size: int, built: Path) -> tuple[str, scaling.Scaled]:
    """A kernel's name in its PTX, and what it asks at m = n = k = `size`."""
    variant = catalogue.load().kernels[name]
    kernel = launching.load(variant, built)
    return kernel.name, scaling.emulate(kernel, variant, ProblemSpec.square(size), 132)


def predicted(entry: catalogue.Runnable, size: int, built: Path) -> list[dict]:
    """Rows of predictions.csv of a kernel or dispatcher."""
    return predictions.rows(
        entry, ProblemSpec.square(size), *scaled(entry.pick(Problem.square(size)).name, size, built)
    )


def counted(name: str, built: Path) -> dict[str, float]:
    """Predicted counters of 2 x 2 tiles over 32 k-steps."""
    return {row["metric"]: row["value"] for row in predicted(RUNNABLE[name], 256, built)}


@pytest.mark.parametrize("name", ONE_CHANGE)
def test_a_kernel_with_one_change_keeps_all_else(name: str, built: Path) -> None:
    """Tile, block, launch bounds and what they leave; reads of the tiles and of global memory."""
    of, plain = RUNNABLE[name], RUNNABLE["sgemm_t128x128x8"]
    tile = ("BM", "BN", "BK")
    assert [of.template[key] for key in tile] == [plain.template[key] for key in tile]
    assert (of.threads, of.tile, of.grid_axes) == (plain.threads, plain.tile, plain.grid_axes)
    assert of.requires == "nothing" and of.builds_on == plain.name
    row, before = (read_json(built / f"{each}.json", "resources") for each in (name, plain.name))
    assert row["registers"] <= 128 and row["spill_bytes"] == 0
    same = ("shared_bytes", "blocks_per_sm", "lds_128")
    assert [row[key] for key in same] == [before[key] for key in same]
    assert before["bar"] - row["bar"] == (name == "sgemm_t128x128x8_direct")  # that before C is rearranged
    metrics, expected = counted(name, built), counted(plain.name, built)
    for what in ("requests", "sectors"):
        metric = f"l1tex__t_{what}_pipe_lsu_mem_global_op_ld.sum"
        assert metrics[metric] == expected[metric], metric
    for op in ("ld", "st"):
        assert metrics[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"] == 0


def test_direct_stores_fill_a_quarter_of_four_times_the_sectors(built: Path) -> None:
    per_request = {}
    for name in ("sgemm_t128x128x8", "sgemm_t128x128x8_direct"):
        metrics = counted(name, built)
        requests, sectors = (
            metrics[f"l1tex__t_{what}_pipe_lsu_mem_global_op_st.sum"] for what in ("requests", "sectors")
        )
        assert requests == 256 * 256 / 32  # a word a lane
        used = metrics["smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"]
        per_request[name] = (sectors / requests, used)
    assert per_request == {"sgemm_t128x128x8": (4, 32), "sgemm_t128x128x8_direct": (16, 8)}
    row = read_json(built / "sgemm_t128x128x8_direct.json", "resources")
    scaling = 1  # of C, where alpha = 0
    assert row["stg_32"] == 2 * (64 + scaling) and row["stg_64"] == row["stg_128"] == 0  # for beta = 0 and for others
    assert row["lds_32"] == 0 and row["sts_128"] == 2  # none but those of the tiles


def test_asynchronous_copies_take_the_place_of_loads_and_stores_one_by_one(built: Path) -> None:
    metrics, before = (counted(name, built) for name in ("sgemm_t128x128x8_cpasync", "sgemm_t128x128x8"))
    loads, stores = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "smsp__inst_executed_op_shared_st.sum"
    assert (
        metrics["smsp__inst_executed_op_ldgsts.sum"] == before[loads] == 4 * 8 * 32 * 8
    )  # blocks, warps, steps, words
    rearranging = 4 * 8 * 8 * 2  # blocks, warps, rows of a thread, float4 in a row
    assert metrics[stores] == rearranging
    assert before[stores] == rearranging + 4 * 8 * 32 * 5  # a float4 of A and four words of B at each step
    row = read_json(built / "sgemm_t128x128x8_cpasync.json", "resources")
    assert row["ldgsts"] == 2 * 8 and row["sts_32"] == 0  # before the loop and in it


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
    found = list(cases(RUNNABLE["sgemm_c_dispatch"], 4096))
    names = {case.name for case in found}
    assert {
        "2500 x 2500 x 9, by sgemm_t128x256x8_cpasync",
        "2499 x 2500 x 9, by sgemm_t128x128x8",
        "2500 x 2499 x 9, by sgemm_t128x128x8",
    } <= names
    assert len(names) == len(found)


def test_a_dispatcher_is_predicted_as_the_kernel_that_it_picks(built: Path) -> None:
    rows = {name: predicted(RUNNABLE[name], 4096, built) for name in ("sgemm_c_dispatch", KERNELS[2])}
    of_dispatcher, of_kernel = rows.values()
    same = ("metric", "value", "unit", "kernel", "n")
    assert [[row[key] for key in same] for row in of_dispatcher] == [[row[key] for key in same] for row in of_kernel]
    assert {row["variant"] for row in of_dispatcher} == {"sgemm_c_dispatch"}
    conflicts = {row["metric"]: row["value"] for row in of_kernel if "bank_conflicts" in row["metric"]}
    assert conflicts and set(conflicts.values()) == {0.0}


def test_a_dispatcher_has_nothing_to_build(tmp_path: Path) -> None:
    done = run_module("experiments.stages.build", "sgemm_c_dispatch", "--arch", ARCH, "--out-dir", tmp_path)
    assert_one_line(done, "sgemm_c_dispatch is a dispatcher: there is nothing to build but its kernels, sgemm_t128x2")


def test_arguments_follow_the_signature() -> None:
    """Eleven for all; the textures of a kernel that takes them end with the texel of the last element."""

    class Makers:
        def texture(self, *given):
            return given

    matrices = {"A": 100, "B": 200, "C": 300}
    packed = arguments.pack(RUNNABLE["sgemm_t128x128x8"].arguments, FEW, matrices, 1, None)
    assert [float(value) for value in packed] == [5, 6, 7, 0.75, 100, 8, 200, 8, -1.5, 300, 9]
    assert [type(value) for value in packed[:4]] == [np.int32, np.int32, np.int32, np.float32]
    texld = arguments.pack(RUNNABLE["sgemm_t128x128x8_texld"].arguments, FEW, matrices, 1, Makers())
    # A: 4 rows of 8 and 7 elements, 10 texels; B: 6 rows of 8 and 6 elements, 14 texels
    assert texld[:11] == packed and texld[11:] == ((100, 160), (200, 224))
