"""What the kernels of sgemm/plain.cu decide at run time, on the emulator: how wide B is copied, and
which eights of k the first step has.
"""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim
from experiments.emulation import launching
from experiments.emulation.device import EmulatedDevice
from experiments.stages.check import guarded, inside
from kernels import catalogue
from kernels.catalogue import Problem

PLAIN = "sgemm_plain_64x128"
CATALOGUE = catalogue.load()
KERNEL = CATALOGUE.kernels[PLAIN]
COPIES = "smsp__inst_executed_op_ldgsts.sum"
WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
LOADS = "smsp__inst_executed_op_shared_ld.sum"
OF_A, OF_B = 64 * 64 / 32, 64 * 128 / 32  # copies by a warp, a word each


# n, the leading dimension of B and the words past 16 bytes at which the matrices begin: B in copies of
# one, two and four words
@pytest.mark.parametrize(
    ("n", "ldb", "offset"),
    [(131, 131, 0), (132, 134, 0), (132, 132, 2), (132, 132, 3), (130, 132, 0), (132, 136, 0)],
)
@pytest.mark.parametrize("k", [1, 8, 9, 16, 24, 41, 80])
def test_any_alignment_and_rest_of_k_gives_the_product(
    n: int, ldb: int, offset: int, k: int, ptx
) -> None:
    rng = np.random.default_rng(k)
    m, lda, ldc = 67, k + 1, n + 3
    a, b, c = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    buffers = [guarded(x, ld, offset) for x, ld in zip((a, b, c), (lda, ldb, ldc), strict=True)]
    problem = Problem(m, n, k, lda, ldb, ldc, alpha=2.0, beta=0.5)
    after = EmulatedDevice(ptx(PLAIN)).run(KERNEL, problem, buffers, offset)
    found = inside(after[2], m, n, ldc, offset)
    assert (found == 2 * (a @ b) + c / 2).all()  # whole numbers and halves: exact


def counted(ptx, lda: int, ldb: int, k: int = 64) -> dict[str, float]:
    """Counters of one tile."""
    kernel, counters = launching.load(KERNEL, ptx(PLAIN), cubin=False), ptxsim.Counters()
    problem = Problem(64, 128, k, lda, ldb, 128)
    kernel.launch(**launching.to_count(KERNEL, problem), observers=[counters])
    return counters.totals()


def test_an_aligned_b_takes_a_quarter_of_the_copies(ptx) -> None:
    copies = [counted(ptx, 64, ldb)[COPIES] for ldb in (128, 130, 129)]
    assert copies == [OF_A + OF_B / 4, OF_A + OF_B / 2, OF_A + OF_B]


def test_copies_of_a_do_not_meet_in_a_bank(ptx) -> None:
    """A wavefront for each of two rows, and eight for 32 x 4 words of B."""
    assert counted(ptx, 64, 128)[WAVEFRONTS] == 2 * OF_A + 8 * OF_B / 4


def test_eight_of_k_or_less_take_half_a_step(ptx) -> None:
    """Four warps load four fragments of four words for each k."""
    loads = {k: counted(ptx, 64, 128, k)[LOADS] for k in (8, 9, 16, 24, 32)}
    assert loads[9] == loads[16] == loads[8] + 8 * 4 * 4
    assert loads[32] == loads[24] + 8 * 4 * 4
