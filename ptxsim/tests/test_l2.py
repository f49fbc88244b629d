"""The model of L2: what is read follows from the order of requests, the size of L2, and drift."""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim
from ptxsim import PtxsimError, l2, machines
from ptxsim.l2 import Job, simulate

COPY = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry reads(.param .u64 from) {
    .reg .u32 %r<8>; .reg .u64 %rd<8>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [from];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    shr.u32 %r3, %r2, 1;
    mad.lo.u32 %r4, %r3, 64, %r1;
    mul.wide.u32 %rd2, %r4, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    ret;
}
"""


def grid(side: int, steps: int) -> list[Job]:
    """Tiles of a square, row by row: tile (i, j) reads 100 bytes of row i and of column j at each step."""
    return [
        Job(((i * steps, 100), ((side + j) * steps, 100)), steps, 1000.0, ("C", i, j), 10)
        for i in range(side)
        for j in range(side)
    ]


def test_units_in_step_read_what_they_share_once() -> None:
    """All 16 tiles at a time: each slice of 4 rows and 4 columns once, from a cache of one step of all."""
    found = simulate([iter([job]) for job in grid(4, 50)], 8 * 100, drift=0)
    assert (found.asked, found.read) == (16 * 50 * 200, 8 * 50 * 100)
    assert found.missed == 0.25


def test_a_cache_that_holds_nothing_reads_what_is_asked_for() -> None:
    found = simulate([iter([job]) for job in grid(4, 50)], 1, drift=0)
    assert found.read == found.asked and found.written == 16 * 10


def test_what_fits_is_read_once_in_any_order_and_written_later() -> None:
    found = simulate([iter(grid(4, 50))] * 3, 1 << 20, drift=100)
    assert (found.read, found.written) == (8 * 50 * 100, 0)


def test_drift_costs_and_waiting_for_each_other_mends_it() -> None:
    """Four units, two rounds a row: a tile's 400 steps are 4 * 10^5 clocks, of which L2 holds a few steps."""

    def read(drift: float, every: int = 0) -> int:
        jobs = grid(16, 400)
        return simulate([iter(jobs[unit::16]) for unit in range(16)], 17 * 100 * 4, drift, in_step_every=every).read

    assert read(0) == 16 * 17 * 400 * 100
    assert read(0) < read(2) < read(8)
    assert read(0) <= read(2, every=1) < read(2)


def test_units_with_one_iterator_take_the_next_job() -> None:
    """The second of two units has a long job, and the first takes all others."""
    jobs = iter([Job(((0, 1),), 1, 1.0), Job(((10, 1),), 1, 1000.0), *(Job(((20 + i, 1),), 1, 1.0) for i in range(9))])
    assert simulate([jobs] * 2, 100, drift=0).asked == 11


@pytest.mark.parametrize(
    ("capacity", "drift", "words"),
    [(0, 1.0, "capacity = 0"), (1, -1.0, "drift = -1.0"), (1, float("nan"), "drift = nan")],
)
def test_what_cannot_be_is_refused(capacity: int, drift: float, words: str) -> None:
    with pytest.raises(PtxsimError, match=f"{words} is not allowed"):
        simulate([iter(())], capacity, drift)


def test_an_emulated_launch_in_lines(tmp_path) -> None:
    """64 threads read 256 bytes, two lines, the same in every two blocks."""
    path = tmp_path / "reads.ptx"
    path.write_text(COPY)
    requests = l2.Requests()
    array = ptxsim.Array(np.zeros(4096, np.float32), "from")
    ptxsim.load(path).launch(grid=8, block=64, args=[array], observers=[requests])
    assert [len(asked) for asked in requests.by_unit.values()] == [2] * 8
    found = requests.estimate(machines.find("h100-sxm"), blocks_per_sm=1)
    assert (found.asked, found.read) == (8 * 256, 4 * 256)


def test_half_of_l2_counts() -> None:
    assert l2.held_bytes(machines.find("h200")) == machines.find("h200").l2_bytes // 2
