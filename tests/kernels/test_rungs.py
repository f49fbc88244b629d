"""Each rung of wingedge_sgemm and each padded kernel does what its header says: banks, sectors,
blocks per SM.
"""

from __future__ import annotations

import functools

import pytest

import ptxsim
from experiments.emulation import launching
from kernels import catalogue
from kernels.catalogue import Problem

# of the wavefronts of shared loads and of shared stores, the share that are conflicts; bytes of C
# used per sector
MEMORY = {
    "tiling": (1 / 2, 0, 16),  # A: 8 rows on one bank, 8 wavefronts for 2; B: none
    # of A's 8 stores each takes 4 wavefronts for 1; B's 2 take their 4
    "at_tiling": (0, 3 / 5, 16),
    "at_swizzle": (0, 0, 16),
    "at_swizzle_rw": (0, 0, 32),
    "at_swizzle_dbf_rw": (0, 0, 32),
    "at_swizzle_dbf_rw_snake": (0, 0, 32),
    "blocktile_2d": (1 / 2, 0, 4),  # A and B both take twice what they must
    "blocktile_2d_padded": (1 / 3, 1 / 3, 4),  # A no longer, but its stores do, by the gaps
    "blocktile_2d_padded_ab": (3 / 5, 1 / 3, 4),  # B's reads are scalar, 4-way
    "vectorized": (2 / 5, 1 / 3, 16),
    # the loads' conflicts are B's, which no padding of rows changes
    "vectorized_padded": (2 / 5, 0, 16),
    "vectorized_padded_1": (1 / 3, 1 / 3, 16),
}


CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
PER_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"


@pytest.fixture(scope="module")
def counted_of(ptx):
    """A function: a kernel's name to its counters of one block over three k-steps on the emulator,
    beta = 0.
    """

    @functools.cache
    def of(name: str) -> dict[str, float]:
        variant = catalogue.load().kernels[name]
        kernel = launching.load(variant, ptx(name), cubin=False)
        m, n, k = (variant.tile[axis] for axis in "mnk")
        counters = ptxsim.Counters()
        launch = launching.to_count(variant, Problem(m, n, 3 * k, 3 * k, n, n))
        kernel.launch(**launch, observers=[counters])
        return counters.totals()

    return of


@pytest.mark.parametrize("rung", MEMORY)
def test_banks_and_sectors(rung: str, counted_of) -> None:
    counted = counted_of(f"sgemm_{rung}")
    loads, stores, per_sector = MEMORY[rung]
    for op, share in (("ld", loads), ("st", stores)):
        conflicts = counted[CONFLICTS.format(op)]
        wavefronts = counted[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"]
        assert conflicts / wavefronts == pytest.approx(share), op
    assert counted[PER_SECTOR] == per_sector


def test_the_swizzle_for_stores_alone_frees_them_and_costs_loads(counted_of) -> None:
    alone, whole = (counted_of(f"sgemm_{rung}") for rung in ("at_swizzle_stores", "at_swizzle"))
    assert (
        alone[CONFLICTS.format("st")]
        == whole[CONFLICTS.format("st")]
        == whole[CONFLICTS.format("ld")]
        == 0
    )
    loads = "smsp__inst_executed_op_shared_ld.sum"
    assert alone[CONFLICTS.format("ld")] > 0 and alone[loads] > 2 * whole[loads]


@pytest.mark.parametrize("rung", ["blocktile_2d", "vectorized"])
def test_a_stage_for_stores_fills_their_sectors_and_changes_no_load(rung: str, counted_of) -> None:
    staged, plain = (counted_of(f"sgemm_{rung}{suffix}") for suffix in ("_staged", ""))
    assert plain[PER_SECTOR] < staged[PER_SECTOR] == 32
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert staged[sectors] == plain[sectors]


def test_the_text_s_swizzle_of_b_in_tf32_changes_no_bank(counted_of) -> None:
    """A row's number modulo 8 in place of 4 sends rows 4 to 7 to another line of the same banks."""
    ours, theirs = (counted_of(f"tf32gemm_{rung}") for rung in ("bcf", "bcf_8rows"))
    assert theirs == ours
