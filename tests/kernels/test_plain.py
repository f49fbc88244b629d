"""What the kernels of sgemm/plain.cu decide at run time, on the emulator: how wide B is copied,
which eights of k the first step has, and which steps are a slice's.
"""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim
from experiments.emulation import launching
from experiments.emulation.device import EmulatedDevice
from experiments.stages.check import guarded, inside
from kernels import catalogue, cost
from kernels.catalogue import Problem

PLAIN = "sgemm_plain_64x128"
SLICED = "sgemm_plain_slices_64x128_k3"
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


def product(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, beta: float, ptx) -> np.ndarray:
    """2 * a b + beta * c by a kernel of the catalogue, rows of a word more than they have."""
    (m, k), n = a.shape, b.shape[1]
    buffers = [guarded(x, x.shape[1] + 1) for x in (a, b, c)]
    problem = Problem(m, n, k, k + 1, n + 1, n + 1, alpha=2.0, beta=beta)
    after = EmulatedDevice(ptx(name)).run(CATALOGUE.kernels[name], problem, buffers, 0)
    return inside(after[2], m, n, n + 1)


# Rows of slices and of warps that end within a tile of 64; fewer steps than slices, a step of eight
# or less, and a step more for one slice or two.
@pytest.mark.parametrize("k", [1, 8, 16, 17, 40, 48, 49, 72, 80])
def test_slices_of_any_k_make_up_the_product(k: int, ptx) -> None:
    rng = np.random.default_rng(k)
    a, b, c = (
        rng.integers(-8, 9, shape).astype(np.float32) for shape in ((85, k), (k, 131), (85, 131))
    )
    assert (product(SLICED, a, b, c, 0.5, ptx) == 2 * (a @ b) + c / 2).all()
    c[:] = np.nan
    assert (product(SLICED, a, b, c, 0.0, ptx) == 2 * (a @ b)).all()


def test_slices_are_added_in_their_order_whoever_adds(ptx) -> None:
    """2^24 + 1 rounds to 2^24; in any other order one remains."""
    a, b, c = (np.zeros(shape, np.float32) for shape in ((64, 48), (48, 128), (64, 128)))
    a[:] = 1
    b[: 3 * 16 : 16] = np.array([2**24, 1, -(2**24)])[:, None]
    assert (product(SLICED, a, b, c, 0.0, ptx) == 0).all()
    b[: 3 * 16 : 16] = np.array([2**24, -(2**24), 1])[:, None]
    assert (product(SLICED, a, b, c, 0.0, ptx) == 2).all()


# Steps over k, and those of each slice
@pytest.mark.parametrize(("steps", "of_slices"), [(7, [2, 2, 3]), (5, [1, 2, 2]), (6, [2, 2, 2])])
def test_slices_have_equal_parts_of_the_steps_and_of_the_rows(
    steps: int, of_slices: list[int], ptx
) -> None:
    variant = CATALOGUE.kernels[SLICED]
    kernel, counters = (
        launching.load(variant, ptx(SLICED), cubin=False),
        ptxsim.Counters(by_block=True),
    )
    problem = Problem(64, 128, 16 * steps, 16 * steps, 128, 128)
    kernel.launch(**launching.to_count(variant, problem), observers=[counters])
    found = counters.stats.values()
    copies = sum(s.requests for s in found if s.kind == "cp_async")
    of_step = (OF_A + OF_B / 4) / 4
    assert (copies == np.multiply(of_slices, of_step)).all()
    stores = sum(s.requests for s in found if (s.space, s.kind) == ("global", "st"))
    assert (stores == np.multiply([21, 21, 22], 128 // 32)).all()  # whole lines of 32 words
    assert max(of_slices) == cost.schedule(variant, problem).steps
