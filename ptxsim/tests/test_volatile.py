"""Volatile accesses that nothing orders: no race to PTX, but a note, unless they are a flag's."""

from __future__ import annotations

import re

import numpy as np
import pytest
from running import HEADER

import ptxsim

# Threads 0 of two blocks.
KERNEL = f"""{HEADER}.visible .entry k(.param .u64 data, .param .u64 flag) {{
.reg .b64 %d, %f; .reg .b32 %b, %v, %w; .reg .pred %p; ld.param.u64 %d, [data]; ld.param.u64 %f, [flag];
mov.u32 %b, %tid.x; setp.ne.u32 %p, %b, 0; @%p exit; mov.u32 %b, %ctaid.x; setp.ne.u32 %p, %b, 0; @%p bra OTHER;
FIRST exit; OTHER: SECOND exit; }}"""
WRITE = "st.volatile.global.u32 [%d], 1;"
WRITE_2 = WRITE.replace("1;", "2;")
READ = "ld.volatile.global.u32 %v, [%d]; add.u32 %w, %v, 1; st.global.u32 [%f+8], %w;"
ADDRESS = "ld.volatile.global.u32 %v, [%d]; mad.wide.u32 %f, %v, 4, %f; ld.global.u32 %v, [%f];"
BRANCH = "ld.volatile.global.u32 %v, [%d]; setp.eq.u32 %p, %v, 1; @%p st.global.u32 [%f+8], 1;"
HAND_OVER = f"{WRITE} fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%f], 1;"
POLL = "A: ld.relaxed.gpu.global.u32 %v, [%f]; setp.eq.u32 %p, %v, 0; @%p bra A;"
POLL_DATA = POLL.replace("relaxed.gpu", "volatile").replace("%f", "%d")
STAYS = "and the (volatile write|relaxed write|atomic operation) at .* the value that stays is not"
READS = "and the volatile (read|write) at .*, by another thread, .* the value that is read is not"
RELAXED = "this read is relaxed"
CASES = {
    "two writes": (WRITE, WRITE_2, STAYS),
    "two writes of one value": (WRITE, WRITE, None),
    "an atomic": (WRITE, "atom.global.exch.b32 %v, [%d], 2;", STAYS),
    "relaxed and volatile": (WRITE, "st.relaxed.gpu.global.u32 [%d], 2;", STAYS),
    "compare-and-swap": (WRITE_2, "atom.global.cas.b32 %v, [%d], 0, 1;", None),
    "a value is used": (WRITE, READ, READS),
    "a value decides a branch": (WRITE, BRANCH, None),
    "a flag that both set": (WRITE, f"{WRITE_2} {BRANCH}", None),
    "an address": (WRITE, ADDRESS, READS),
    "a flag is polled and put back": (WRITE, f"{POLL_DATA} st.volatile.global.u32 [%d], 0;", None),
    "read after a poll": (HAND_OVER, f"{POLL} {READ}", None),
    "write after a poll": (HAND_OVER, f"{POLL} {WRITE_2}", RELAXED),
    "write after a poll and a fence": (HAND_OVER, f"{POLL} fence.acq_rel.gpu; {WRITE_2}", None),
    "write after a poll and a read": (HAND_OVER, f"{POLL} {READ} {WRITE_2}", None),
    "write after a poll and an older read": (
        f"{POLL.replace('%f', '%f+4')} {WRITE} st.relaxed.gpu.global.u32 [%f], 1;",
        f"{READ} fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%f+4], 1; {POLL.replace('A', 'B')} {WRITE_2}", STAYS),
    "write after a poll of no fence": (f"{WRITE} st.relaxed.gpu.global.u32 [%f], 1;", f"{POLL} {WRITE_2}", STAYS),
}  # fmt: skip


def notes(first, second, blocks=2, **options):
    text = KERNEL.replace("FIRST", first).replace("SECOND", second)
    arrays = [ptxsim.Array(np.zeros(4, np.int32)) for _ in range(2)]
    done = ptxsim.load(text).launch(blocks, 32, arrays, stop_at_first=False, **options)
    assert not done.faults
    return done.notes


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_volatile_accesses_of_two_blocks(case, backwards):
    first, second, expected = CASES[case]
    found = notes(first, second, backwards=backwards)
    assert len(found) == (expected is not None)
    assert all(re.search(expected, note) and "__threadfence()" in note for note in found)


def test_threads_that_store_different_values_at_once():
    text = KERNEL.replace("setp.ne.u32 %p, %b, 0; @%p exit;", "")
    store = "mov.u32 %w, %tid.x; {} st.volatile.global.u32 [%d], %w;"
    arrays = [ptxsim.Array(np.zeros(4, np.int32)) for _ in range(2)]
    for same in ("", "mov.u32 %w, 5;"):
        kernel = ptxsim.load(text.replace("FIRST", store.format(same)).replace("SECOND", ""))
        done = kernel.launch(1, 64, arrays)
        assert len(done.notes) == (not same)
        assert all("the value that stays" in n and "__syncthreads(), or" in n for n in done.notes)
