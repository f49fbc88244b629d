"""What orders two accesses: right forms run without a word, wrong ones are reported, in whatever
order blocks run.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from running import HEADER

import ptxsim

ACROSS = (
    r"race in global memory: (reads|writes|changes) what .* and "
    r"(no fence and atomic operation order the two|one of the two is of block scope)"
)
RELAXED = (
    r"this read is relaxed, .* without a fence between: add __threadfence(_block)?\(\) after it"
)
WITHIN = r"race: (reads|writes) what thread .* without a barrier between"
# kernel: blocks, threads, forms that are right, and what the wrong ones must say
FORMS = {
    "chain": (3, 32, [0], {1: ACROSS}),
    "lock": (4, 32, [0], {1: ACROSS}),
    "stencil": (3, 64, [0], {1: ACROSS}),
    "many_readers": (2, 32, [0], {1: ACROSS}),
    "named": (1, 96, [0], {1: WITHIN, 2: WITHIN, 3: WITHIN}),
    "producer": (1, 96, [0], {1: WITHIN}),
    "half_warps": (1, 96, [0], {1: WITHIN, 2: WITHIN}),
    "shared_flag": (1, 96, [0, 3], {1: WITHIN, 2: WITHIN}),
    "arrivals": (1, 96, [0, 2], {1: WITHIN, 3: WITHIN}),
    "neighbours": (2, 96, [0, 2], {1: r"race: reads what block .* thread .* writes"}),
    "peer": (2, 96, [0, 2], {1: r"memory of a block that may not have begun.*, of block \([01], 0, 0\)\)"}),
    "landed": (1, 96, [0], {1: WITHIN, 2: r"read before the wait: a cp.async of thread", 3: WITHIN}),
    "staged": (1, 96, [0], {1: r"read before the wait: a cp.async of thread"}),
    "tile": (1, 96, [0], {1: WITHIN}),
    "fragments": (1, 32, [0], dict.fromkeys([1, 2, 3, 4], WITHIN)),
    "fetch": (1, 96, [0, 3], {
        1: r"thread \(0, 0, 0\) writes at .* by an ordinary store, without a fence.proxy.async .*, 0 bytes into array",
        2: r"thread \(0, 0, 0\) writes at .* by an ordinary store, without a fence.proxy.async .*, 0 bytes into array",
        4: r"race in global memory: reads what thread .* without a barrier between"}),
    "bulk_stored": (2, 32, [0, 3], {
        1: r"that block \(0, 0, 0\), thread \(0, 0, 0\) writes at .*, a bulk store for which no .*, 20 bytes into",
        2: r"that the thread itself writes at .*, a bulk store for which no .*, 12 bytes into"}),
    "read_only": (1, 96, [0], {
        1: r"reads through the read-only cache \(ld.global.nc\) what the thread itself writes at",
        2: r"reads through the read-only cache \(ld.global.nc\) what thread \(1, 0, 0\) writes at"}),
    "three_groups": (1, 128, [0], {1: r"reads the result of the wgmma .* before a wait_group for it"}),
}  # fmt: skip


def numbers(size: int) -> ptxsim.Array:
    return ptxsim.Array(np.zeros(size, np.int32))


# Block 0, and all others.
PAIR = (
    HEADER
    + """.visible .entry k(.param .u64 data, .param .u64 flag) {
.reg .b64 %d, %f; .reg .b32 %b, %t, %v, %w; .reg .b16 %h; .reg .pred %p; .shared .align 16 .b8 s[32];
ld.param.u64 %d, [data]; ld.param.u64 %f, [flag]; mov.u32 %b, %ctaid.x;
setp.ne.u32 %p, %b, 0; @%p bra OTHERS; FIRST exit; OTHERS: SECOND exit; }"""
)


def of_two(
    first: str, second: str, lanes: int = 16_384, blocks: int = 2, threads: int = 1
) -> list[str]:
    """The faults of what block 0 and the others do."""
    kernel = ptxsim.load(PAIR.replace("FIRST", first).replace("SECOND", second))
    arrays, limits = [numbers(8), numbers(2)], ptxsim.Limits(lanes=lanes)
    done = kernel.launch(blocks, threads, arrays, stop_at_first=False, limits=limits)
    return [str(fault) for fault in done.faults]


@pytest.fixture
def faults(compiled):
    """A function: a kernel of order.cu with its arguments to the faults that it has, as lines."""

    def launch(name, grid, block, args, **options):
        done = compiled("order.cu", name).launch(grid, block, args, stop_at_first=False, **options)
        launch.notes = done.notes
        return [str(fault) for fault in done.faults]

    return launch


@pytest.mark.parametrize("lanes", [96, 16_384])  # each block in a batch of its own, or all together
@pytest.mark.parametrize(
    ("name", "form"),
    [(n, f) for n, (_, _, right, wrong) in FORMS.items() for f in (*right, *wrong)],
)
def test_wrong_forms_are_reported_and_right_ones_are_not(faults, name, form, lanes):
    grid, block, right, wrong = FORMS[name]
    args = [numbers(512), numbers(512), numbers(8), form]
    found = faults(name, grid, block, args, limits=ptxsim.Limits(lanes=lanes))
    if form in right:
        assert found == []
        noted = name == "shared_flag" and form == 3
        assert [re.search(RELAXED, note) is not None for note in faults.notes] == [True] * noted
        return
    # one cause, one line
    assert len(found) == 1 or name in ("chain", "lock", "stencil", "neighbours"), found
    assert re.search(wrong[form], found[0]), found


@pytest.mark.parametrize("form", [0, 1, 2])
def test_a_texture_does_not_see_what_the_launch_writes(faults, form):
    given = numbers(96)
    found = faults("fetched", 1, 96, [numbers(96), given, ptxsim.Texture(given, 1), form])
    assert len(found) == (form > 0)
    assert all("reads through the read-only cache (a texture) what" in f for f in found)


def handed_over(faults, flag=0, writer=0, form=0, lanes=16_384):
    args = [numbers(96), numbers(32), ptxsim.Array(np.array([flag], np.int32)), writer, form]
    return faults("hand_over", 3, 32, args, limits=ptxsim.Limits(lanes=lanes))


@pytest.mark.parametrize("writer", [0, 1, 2])
@pytest.mark.parametrize("form", range(11))
def test_a_flag_hands_over_what_a_fence_came_after(faults, writer, form):
    """Forms 0 and 7 are right; the others lack a wait or a fence, or their flag is of block scope
    (3). Form 10, whose relaxed wait no fence follows, is noted.
    """
    found = handed_over(faults, 0, writer, form)
    assert found == [] if form in (0, 7, 10) else any(re.search(ACROSS, fault) for fault in found)
    assert [re.search(RELAXED, note) is not None for note in faults.notes] == [True] * (form == 10)


@pytest.mark.parametrize("lanes", [32, 16_384])
@pytest.mark.parametrize("writer", [0, 1, 2])
@pytest.mark.parametrize("flag", [1, 5])
def test_a_wait_that_an_older_value_satisfies_is_no_order(faults, flag, writer, lanes):
    assert any(re.search(ACROSS, fault) for fault in handed_over(faults, flag, writer, 0, lanes))


@pytest.mark.parametrize(
    ("count", "wrong"), [(0, False), (-3, False), (1, True), (3, True), (7, True)]
)
def test_a_count_that_is_there_from_before_ends_a_wait_too_early(faults, count, wrong):
    """Three blocks count up. From -3 on the wait would never end, were not all of them to come six
    times.
    """
    blocks = 4 if count >= 0 else 7
    flag = ptxsim.Array(np.array([max(0, count)], np.int32))
    args = [numbers(256), numbers(256), flag, 0]
    found = faults("count_up", blocks, 32, args)
    assert bool(found) == wrong and all(re.search(ACROSS, fault) for fault in found)


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize("name", ["chain", "lock", "stencil", "many_readers"])
def test_many_releases_of_a_flag_are_taken_together(faults, monkeypatch, name, form):
    monkeypatch.setattr("ptxsim.check.flags.MAX_RELEASES", 2)
    found = faults(name, 4, FORMS[name][1], [numbers(512), numbers(512), numbers(8), form])
    assert bool(found) == (form == 1) and all(re.search(ACROSS, fault) for fault in found)
    args = [numbers(256), numbers(256), numbers(1), 0]
    assert faults("count_up", 7, 32, args) == []
    args[2] = ptxsim.Array(np.array([2], np.int32))
    assert faults("count_up", 4, 32, args)


@pytest.mark.parametrize("order", ["release", "relaxed"])
def test_many_releases_within_a_block(order, monkeypatch):
    """The first lanes of 7 warps store and count up; that of the last warp waits for all."""
    monkeypatch.setattr("ptxsim.check.flags.MAX_RELEASES", 4)
    text = (
        HEADER
        + f""".visible .entry k(.param .u64 data, .param .u64 count) {{
.reg .b64 %d, %f, %x; .reg .b32 %t, %v; .reg .pred %p; ld.param.u64 %d, [data]; ld.param.u64 %f, [count];
mov.u32 %t, %tid.x; and.b32 %v, %t, 31; setp.ne.u32 %p, %v, 0; @%p exit; setp.eq.u32 %p, %t, 224; @%p bra A;
mul.wide.u32 %x, %t, 4; add.u64 %d, %d, %x; st.global.u32 [%d], 7; red.{order}.cta.global.add.u32 [%f], 1; exit;
A: ld.acquire.cta.global.u32 %v, [%f]; setp.ne.u32 %p, %v, 7; @%p bra A;
{"".join(f"ld.global.u32 %v, [%d+{128 * n}];" for n in range(7))} exit; }}"""
    )
    done = ptxsim.load(text).launch(1, 256, [numbers(224), numbers(1)], stop_at_first=False)
    assert bool(done.faults) == (order == "relaxed")


LOCKS = """.visible .entry k(.param .u64 data, .param .u64 locks) {{
.reg .b64 %d, %l; .reg .b32 %t, %v; .reg .pred %p; ld.param.u64 %d, [data]; ld.param.u64 %l, [locks];
mov.u32 %t, %tid.x; {which} mad.wide.u32 %d, %t, 4, %d; mad.wide.u32 %l, %t, 4, %l;
AGAIN: atom.acquire.gpu.global.cas.b32 %v, [%l], 0, 1; setp.ne.u32 %p, %v, 0; @%p bra AGAIN;
ld.global.u32 %v, [%d]; add.u32 %v, %v, 1; st.global.u32 [%d], %v; {free} }}"""


@pytest.mark.parametrize("lanes", [32, 16_384])
@pytest.mark.parametrize("which", ["", "and.b32 %t, %t, 3;", "mov.u32 %t, 0;"])
@pytest.mark.parametrize(
    ("free", "right"),
    [
        ("st.release.gpu.global.u32 [%l], 0;", True),
        ("atom.release.gpu.global.exch.b32 %v, [%l], 0;", True),
        ("fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%l], 0;", True),
        ("fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%l], 0;", False),
        ("st.relaxed.gpu.global.u32 [%l], 0;", False),
    ],
)
def test_a_lock_of_each_lane_or_of_several(free, right, which, lanes):
    """Two blocks of 16 threads count under locks: one for each thread of both, for 8, or for all."""
    data, locks = numbers(32), numbers(32)
    kernel = ptxsim.load(HEADER + LOCKS.format(which=which, free=free))
    limits = ptxsim.Limits(lanes=lanes)
    done = kernel.launch(2, 16, [data, locks], stop_at_first=False, limits=limits)
    assert (not done.faults) == right, done.faults
    assert data.numpy().sum() == 32 and not locks.numpy().any()


@pytest.mark.parametrize(
    ("form", "lacks"),
    [
        (0, None),
        (1, None),
        (2, "acquire"),
    ],
)
def test_a_tensor_map_is_seen_after_its_fences(faults, form, lacks):
    x, other = (ptxsim.Array(np.full((32, 32), n, np.int32)) for n in (1, 2))
    out = numbers(1024)
    found = faults("retarget", 1, 64, [out, ptxsim.TensorMap(x, (32, 32)), other, form])
    if lacks is None:
        assert found == [] and (out.numpy() == 2).all()
        return
    what = r"uses the tensor map .* that thread \(0, 0, 0\) changes at .*, without a fence.proxy.tensormap::generic."
    (fault,) = found
    assert re.search(what + re.escape(lacks) + " between", fault)


FILL = "st.shared.v4.u32 [s], {%b, %b, %b, %b}; st.shared.v4.u32 [s+16], {%b, %b, %b, %b}; fence.proxy.async;"
PUT = (
    "cp.async.bulk.global.shared::cta.bulk_group [%d+{0}], [s+{0}], 16; cp.async.bulk.commit_group;"
)
PUT_0, PUT_16 = PUT.format(0), PUT.format(16)
ADD_0 = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d], [s], 16; cp.async.bulk.commit_group;"
TELL = "st.release.gpu.global.u32 [%f], 1;"
UNFINISHED = r"{} writes at PTX line \d+, a bulk store for which no .*, {} bytes into array"
BY_ITSELF, BY_OTHER = "the thread itself", r"block \(0, 0, 0\), thread \(0, 0, 0\)"
BULK_STORES = {
    "waited for": (f"{PUT_0} cp.async.bulk.wait_group 0; ld.global.u32 %v, [%d]; {TELL}", 0, None),
    "waited for its source": (f"{PUT_0} cp.async.bulk.wait_group.read 0; {TELL}", 0, UNFINISHED.format(BY_OTHER, 0)),
    "the first of two": (f"{PUT_0}{PUT_16} cp.async.bulk.wait_group 1; {TELL}", 4, None),
    "the second of two": (f"{PUT_0}{PUT_16} cp.async.bulk.wait_group 1; {TELL}", 20, UNFINISHED.format(BY_OTHER, 20)),
    "told before": (f"{TELL}{PUT_0} cp.async.bulk.wait_group 0;", 0, "race in global memory: reads what block"),
    "read by itself": (f"{PUT_0} ld.global.u32 %v, [%d+8]; cp.async.bulk.wait_group 0; {TELL}", 0,
                       UNFINISHED.format(BY_ITSELF, 8)),
    "written by itself": (f"{PUT_0} st.global.u32 [%d+8], 1; cp.async.bulk.wait_group 0; {TELL}", 0,
                          UNFINISHED.format(BY_ITSELF, 8)),
    "read next to it": (f"{PUT_0} ld.global.u32 %v, [%d+16]; cp.async.bulk.wait_group 0; {TELL}", 0, None),
    "added to by itself": (f"{PUT_0}{ADD_0} cp.async.bulk.wait_group 0; {TELL}", 0, None),
}  # fmt: skip


@pytest.mark.parametrize("lanes", [32, 16_384])
@pytest.mark.parametrize("case", BULK_STORES)
def test_bulk_stores_and_who_waits_for_them(case, lanes):
    first, at, message = BULK_STORES[case]
    found = of_two(FILL + first, f"{AWAITED} ld.global.u32 %v, [%d+{at}];", lanes)
    assert [re.search(message or "", fault) is not None for fault in found] == [True] * bool(
        message
    ), found


@pytest.mark.parametrize(
    ("taken", "right"),
    [
        ("atom.acquire.gpu.global.add.u32 %v, [%f], 1; setp.eq.u32 %p, %v, 1; @%p", True),
        ("ld.acquire.gpu.global.u32 %v, [%f]; setp.eq.u32 %p, %v, 1; @%p", True),
        ("atom.acquire.gpu.global.add.u32 %w, [%f], 1;", False),  # nobody looks at the result
        ("red.acq_rel.gpu.global.add.u32 [%f], 1;", False),
        ("st.release.gpu.global.u32 [%f], 1;", False),
        ("atom.acquire.gpu.global.cas.b32 %v, [%f], 1, 2; setp.eq.u32 %p, %v, 1; @%p", True),
        ("atom.acquire.gpu.global.cas.b32 %v, [%f+8], 1, 2; setp.eq.u32 %p, %v, 1; @!%p", False),
    ],
)
def test_what_takes_what_a_release_left(taken, right):
    """It comes after the release, of which a relaxed flag tells nothing."""
    first = f"{STORE} {TELL} st.relaxed.gpu.global.u32 [%f+4], 1;"
    second = "A: ld.relaxed.gpu.global.u32 %v, [%f+4]; setp.eq.u32 %p, %v, 0; @%p bra A;"
    assert (not of_two(first, f"{second} {taken} ld.global.u32 %v, [%d];")) == right


# Thread 0 of block 0 changes a map; thread USER of block BLOCK uses it. The flag orders the two.
MAP = (
    HEADER
    + """.visible .entry k(.param .u64 map, .param .u64 flag) {
.reg .b64 %m, %f, %w; .reg .b32 %b, %t, %v; .reg .pred %p, %q; ld.param.u64 %m, [map]; ld.param.u64 %f, [flag];
mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %v, 0; setp.eq.u32 %p, %b, BLOCK; setp.eq.and.u32 %p, %t, USER, %p;
setp.eq.u32 %q, %b, 0; setp.eq.and.u32 %q, %t, 0, %q; @%q bra FIRST; @%p bra USE; exit;
FIRST: CHANGE st.release.gpu.global.u32 [%f], 1; exit;
USE: ACQUIRE cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%m, {%v, %v}]; exit; }"""
)
AWAITED = "A: ld.acquire.gpu.global.u32 %v, [%f]; setp.eq.u32 %p, %v, 0; @%p bra A; mov.u32 %v, 0;"
REPLACED = "tensormap.replace.tile.box_dim.global.b1024.b32 [%m], 0, 8;"
STORED = "ld.global.u64 %w, [%m+120]; st.global.u64 [%m+120], %w;"
SHOWN, SEEN = (
    f"fence.proxy.tensormap::generic.{x};" for x in ("release.gpu", "acquire.gpu [%m], 128")
)


@pytest.mark.parametrize(
    ("change", "verb"), [(REPLACED, "changes"), (STORED, "writes by an ordinary store")]
)
@pytest.mark.parametrize(("block", "user"), [(0, 40), (1, 0), (1, 40)])
@pytest.mark.parametrize(
    ("left", "taken", "lacks"),
    [
        ("CHANGE {shown}", "{awaited} {seen}", None),
        ("CHANGE {shown}", "{awaited}", "acquire"),
        ("CHANGE", "{awaited} {seen}", "release and .acquire"),
        ("CHANGE {shown}", "{seen} {awaited}", "acquire"),
        ("{shown} CHANGE", "{awaited} {seen}", "release and .acquire"),
        ("CHANGE st.relaxed.gpu.global.u32 [%f], 1; exit; {shown}", "{awaited} {seen}", "release and .acquire"),
        # The second change is not shown, or is; and another fence before it does no harm.
        ("CHANGE {shown} CHANGE", "{awaited} {seen}", "release and .acquire"),
        ("CHANGE {shown} CHANGE {shown}", "{awaited} {seen}", None),
    ],
)  # fmt: skip
def test_a_change_of_a_tensor_map_and_its_fences(left, taken, lacks, block, user, change, verb):
    words = {"shown": SHOWN, "seen": SEEN, "awaited": AWAITED}
    text = MAP.replace("BLOCK", str(block)).replace("USER", str(user))
    text = text.replace("CHANGE", left.format(**words)).replace("ACQUIRE", taken.format(**words))
    kernel = ptxsim.load(text.replace("CHANGE", change))
    arrays = [ptxsim.TensorMap(ptxsim.Array(np.zeros((32, 32), np.int32)), (32, 32)), numbers(1)]
    found = kernel.launch(2, 64, arrays, stop_at_first=False).faults
    assert bool(found) == (lacks is not None), found
    if lacks is not None:
        who = r"block \(0, 0, 0\), " * block + rf"thread \(0, 0, 0\) {verb} at PTX line \d+, "
        what = "without a fence.proxy.tensormap::generic."
        assert re.search(who + re.escape(what + lacks + " between"), str(found[-1])), found


def test_a_shuffle_from_outside_of_its_mask_is_noted(faults):
    assert faults("shuffle", 1, 32, [numbers(32), numbers(1), numbers(1), 0]) == []
    assert faults.notes == ()
    assert faults("shuffle", 1, 32, [numbers(32), numbers(1), numbers(1), 1]) == []
    outside = r"the value of lane 16, which is outside of its mask 0x0000ffff"
    assert re.search(rf"thread \(8, 0, 0\): a shuffle takes {outside}", *faults.notes)


@pytest.mark.parametrize("threads", [96, 64, 40])
def test_exited_threads_are_noted_at_a_barrier(faults, threads):
    assert faults("exited", 2, 96, [numbers(96), numbers(96), numbers(1), threads]) == []
    assert len(faults.notes) == (threads < 96)
    exited = r"threads of the block, as .*, have exited before this barrier"
    assert all(re.search(exited, note) for note in faults.notes)


def test_what_a_block_has_left(faults, monkeypatch):
    """A barrier of its cluster (form 1) goes on without it, one of its grid (form 2) does not."""
    monkeypatch.setattr("ptxsim.engine.scheduler.IDLE", 500)
    args = [numbers(1), numbers(1), numbers(1)]
    assert faults("left", 2, 32, [*args, 0]) == [] and faults.notes == ()
    assert faults("left", 2, 32, [*args, 1]) == []
    assert re.search(r"a block of the cluster, \(1, 0, 0\), has ended before this", *faults.notes)
    (fault,) = faults("left", 2, 32, [*args, 2])
    waits = r"deadlock.*the grid's barrier waits for block \(1, 0, 0\), too, .* ended"
    assert re.search(waits, fault)
    (fault,) = faults("left", 2, 32, [*args, 2], cooperative=False)
    assert "trap: grid.sync() in an ordinary launch" in fault


SCOPES = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flag) {
.reg .b64 %d, %f; .reg .b32 %b, %t, %v; .reg .pred %p;
ld.param.u64 %d, [data]; ld.param.u64 %f, [flag];
mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p exit; mov.u32 %b, %ctaid.x;
setp.eq.u32 %p, %b, 1; @%p bra SECOND; setp.eq.u32 %p, %b, 2; @%p bra THIRD;
st.global.u32 [%d], 7; st.release.{left}.global.u32 [%f], 1; exit;
SECOND: ld.relaxed.gpu.global.u32 %v, [%f]; setp.eq.u32 %p, %v, 0; @%p bra SECOND;
{between} exit;
THIRD: ld.acquire.{taken}.global.u32 %v, [%f]; setp.ne.u32 %p, %v, {awaited}; @%p bra THIRD;
ld.global.u32 %v, [%d]; exit;
}
"""


@pytest.mark.parametrize(
    ("left", "taken", "between", "right"),
    [
        ("gpu", "gpu", "", True),
        ("sys", "gpu", "", True),
        ("cta", "gpu", "", False),
        ("gpu", "cta", "", False),
        # atomics go on with a release
        ("gpu", "gpu", "red.relaxed.gpu.global.add.u32 [%f], 1;", True),
        ("gpu", "gpu", "st.relaxed.gpu.global.u32 [%f], 2;", False),  # a store is no part of it
        # what this block knows a fence of its scope does not show to others
        ("gpu", "gpu", "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%f], 2;", True),
        ("gpu", "gpu", "fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%f], 2;", False),
    ],
)
def test_a_release_orders_within_its_scope_until_another_store(left, taken, between, right):
    awaited = "2" if between else "1"
    text = SCOPES.replace("{left}", left).replace("{taken}", taken).replace("{between}", between)
    kernel = ptxsim.load(text.replace("{awaited}", awaited))
    done = kernel.launch(3, 32, [numbers(1), numbers(1)], stop_at_first=False)
    assert (not done.faults) == right
    assert all(re.search(ACROSS, str(fault)) for fault in done.faults)


def added(scope: str) -> str:
    return f"red.relaxed.{scope}.global.add.u32 [%d], 1;"


@pytest.mark.parametrize("lanes", [32, 16_384])
@pytest.mark.parametrize(
    ("first", "second", "blocks", "right"),
    [
        (added("cta"), added("gpu"), 2, False),
        (added("gpu"), added("cta"), 2, False),
        (added("gpu"), added("cta"), 3, False),
        ("ld.relaxed.cta.global.u32 %v, [%d];", added("gpu"), 2, False),
        (added("gpu"), added("sys"), 3, True),
        (added("cta"), "", 3, True),
    ],
)
def test_atomics_of_block_scope_race_with_other_blocks(first, second, blocks, right, lanes):
    found = of_two(first, second, lanes, blocks, threads=32)
    assert (not found) == right
    assert all("one of the two is of block scope" in fault for fault in found)


IN_CLUSTERS = f"""{HEADER}.visible .entry k(.param .u64 data, .param .u64 flag) .explicitcluster
.reqnctapercluster 2, 2, 1 {{
.reg .b64 %d, %f; .reg .b32 %b, %c, %v; .reg .pred %p; ld.param.u64 %d, [data]; ld.param.u64 %f, [flag];
mov.u32 %b, %tid.x; setp.ne.u32 %p, %b, 0; @%p exit; mov.u32 %b, %ctaid.x; mov.u32 %c, %ctaid.y;
mad.lo.u32 %b, %c, 8, %b; setp.eq.u32 %p, %b, 0; @%p bra FIRST; setp.ne.u32 %p, %b, READER; @%p exit;
SECOND exit; FIRST: WRITE exit; }}"""
STORE = "st.global.u32 [%d], 7;"
RAISE = "st.relaxed.gpu.global.u32 [%f], 1;"
WAIT = "A: ld.{}.global.u32 %v, [%f]; setp.eq.u32 %p, %v, 0; @%p bra A; {} ld.global.u32 %v, [%d];"
CLUSTER_CASES = {
    "release": (f"{STORE} st.release.cluster.global.u32 [%f], 1;", WAIT.format("acquire.gpu", "")),
    "acquire": (f"{STORE} st.release.gpu.global.u32 [%f], 1;", WAIT.format("acquire.cluster", "")),
    "fence before": (f"{STORE} fence.acq_rel.cluster; {RAISE}", WAIT.format("acquire.gpu", "")),
    "fence after": (
        f"{STORE} fence.acq_rel.gpu; {RAISE}",
        WAIT.format("relaxed.gpu", "fence.acq_rel.cluster;"),
    ),
    "atomics": (added("cluster"), added("gpu")),
    "read": ("ld.relaxed.cluster.global.u32 %v, [%d];", "st.relaxed.gpu.global.u32 [%d], 1;"),
}


@pytest.mark.parametrize(
    ("lanes", "reader"), [*itertools.product([128, 16_384], [1, 9, 2, 8]), (256, 6)]
)
@pytest.mark.parametrize("case", CLUSTER_CASES)
def test_the_scope_of_a_cluster_ends_with_it(case, reader, lanes):
    """Blocks (0, 0), (1, 0), (0, 1), (1, 1) are one cluster; numbers here are x + 8y. Block 6 is of
    the second batch of two clusters, if it does not wait."""
    first, second = CLUSTER_CASES[case]
    text = IN_CLUSTERS.replace("READER", str(reader)).replace("SECOND", second)
    text = text.replace("@%p bra A;", "@%p exit;") if reader == 6 else text
    kernel, limits = ptxsim.load(text.replace("WRITE", first)), ptxsim.Limits(lanes=lanes)
    arrays = [numbers(1), numbers(1)]
    done = kernel.launch((8, 2), 32, arrays, limits=limits, stop_at_first=False)
    # A relaxed read without a fence that reaches far enough is a note.
    outside = reader in (2, 6)
    noted = case == "fence after" and outside
    assert bool(done.faults) == (outside and not noted)
    assert [re.search(RELAXED, note) is not None for note in done.notes] == [True] * noted
    assert all("race in global memory" in str(fault) for fault in done.faults)
    if case in ("atomics", "read"):
        assert all("one of the two is of cluster scope (.cluster)" in str(f) for f in done.faults)


@pytest.mark.parametrize("reader", [9, 2])
def test_a_fence_of_the_cluster_passes_on_what_was_learnt(reader):
    """Block (0, 1) hands on to its cluster what block (0, 0) did."""
    wait = WAIT.format("acquire.gpu", "")
    middle = f"{wait.replace('A', 'B')} fence.acq_rel.cluster; st.relaxed.gpu.global.u32 [%f+4], 1; exit;"
    text = IN_CLUSTERS.replace(
        "READER; @%p", f"{reader}; setp.eq.u32 %q, %b, 8; @%q bra MIDDLE; @%p"
    )
    text = text.replace("%p;", "%p, %q;", 1).replace("SECOND", wait.replace("%f", "%f+4"))
    text = text.replace("WRITE", f"{STORE} st.release.gpu.global.u32 [%f], 1;")
    kernel = ptxsim.load(text.replace("FIRST: ", f"MIDDLE: {middle} FIRST: "))
    done = kernel.launch((4, 2), 32, [numbers(1), numbers(2)], stop_at_first=False)
    assert bool(done.faults) == (reader == 2) and not done.notes


@pytest.mark.parametrize("blocks", [(2, 2), (4, 2)])
def test_atomics_of_one_cluster_at_once(blocks):
    text = IN_CLUSTERS[: IN_CLUSTERS.index("mov")] + "red.relaxed.cluster.global.add.u32 [%d], 1; }"
    done = ptxsim.load(text).launch(blocks, 32, [numbers(1), numbers(1)], stop_at_first=False)
    assert bool(done.faults) == (blocks == (4, 2))


# Thread 0 of block 0 resets a flag; block 1 has two warps.
RESET = (
    HEADER
    + """.visible .entry k(.param .u64 flag) {
.reg .b64 %f; .reg .b32 %b, %t, %v; .reg .pred %p, %q; ld.param.u64 %f, [flag];
mov.u32 %t, %tid.x; and.b32 %v, %t, 31; setp.ne.u32 %q, %v, 0; mov.u32 %b, %ctaid.x;
setp.eq.u32 %p, %b, 1; @%p bra READER; setp.ne.u32 %p, %t, 0; @%p exit; WRITER exit; READER: READ exit; }"""
)
LOOK = "@!%q ld.volatile.global.u32 %v, [%f];"
ONE_LOOKS = f"setp.ne.u32 %p, %t, 0; @%p exit; {LOOK}"
AWAIT = "A: ld.acquire.gpu.global.u32 %v, [%f+4]; setp.ne.u32 %p, %v, {}; @%p bra A;"
PUT_BACK = "st.global.u32 [%f], 9;"
READ_FLAGS = {
    "nothing between": (ONE_LOOKS, PUT_BACK, False),
    "an atomic": (ONE_LOOKS, "atom.global.exch.b32 %v, [%f], 9;", True),
    "an atomic of the block": (ONE_LOOKS, "atom.cta.global.exch.b32 %v, [%f], 9;", False),
    "each tells by itself": (
        f"{LOOK} @!%q red.release.gpu.global.add.u32 [%f+4], 1;", f"{AWAIT.format(2)} {PUT_BACK}", True),
    "one does not tell": (
        f"{LOOK} setp.eq.or.u32 %q, %t, 0, %q; @!%q red.release.gpu.global.add.u32 [%f+4], 1;",
        f"{AWAIT.format(1)} {PUT_BACK}", False),
    "the reader counts itself in the flag": (
        f"{ONE_LOOKS} atom.relaxed.gpu.global.add.u32 %v, [%f], 1;",
        f"A: ld.relaxed.gpu.global.u32 %v, [%f]; setp.eq.u32 %p, %v, 0; @%p bra A;"
        f"atom.relaxed.gpu.global.add.u32 %v, [%f], 1; {PUT_BACK}", True),
    "told after a barrier": (
        f"{LOOK} bar.sync 0; setp.ne.u32 %p, %t, 32; @%p exit; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%f+4], 1;",
        f"{AWAIT.format(1)} {PUT_BACK}", True),
    "told without a fence": (
        f"{ONE_LOOKS} st.relaxed.gpu.global.u32 [%f+4], 1;", f"{AWAIT.format(1)} {PUT_BACK}", False),
    "the value that is there": (
        f"{ONE_LOOKS} st.relaxed.gpu.global.u32 [%f+4], 1;", f"{AWAIT.format(1)} st.global.u32 [%f], 0;", True),
}  # fmt: skip


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("case", READ_FLAGS)
def test_a_plain_write_of_a_flag_that_others_read(case, backwards):
    reader, writer, right = READ_FLAGS[case]
    kernel = ptxsim.load(RESET.replace("WRITER", writer).replace("READ ", f"{reader} "))
    done = kernel.launch(2, 64, [numbers(2)], stop_at_first=False, backwards=backwards)
    assert bool(done.faults) != right and all(re.search(ACROSS, str(f)) for f in done.faults)


SEQUENCE = (
    """st.global.u32 [%d], 7; st.release.gpu.global.u32 [%f], 1;
st.global.u32 [%d+4], 7; st.release.gpu.global.u32 [%f], 2;
red.release.gpu.global.add.u32 [%f], 1; st.release.gpu.global.u32 [%f], 4;""",
    """mbarrier.init.shared.b64 [s], 1; mbarrier.arrive.shared.b64 _, [s];
ANOTHER: mbarrier.test_wait.parity.shared.b64 %p, [s], 0; @!%p bra ANOTHER;
A: ld.acquire.gpu.global.u32 %v, [%f]; setp.lt.u32 %p, %v, 1; @%p bra A; READ
AGAIN: ld.acquire.gpu.global.u32 %w, [%f]; setp.lt.u32 %p, %w, 2; @%p bra AGAIN; ld.global.u32 %t, [%d+4];""",
)


@pytest.mark.parametrize(
    ("read", "right"),
    [
        ("ld.global.u32 %t, [%d];", True),
        ("ld.global.u32 %t, [%d+4];", False),
        ("setp.eq.u32 %p, %v, 2; @%p ld.global.u32 %t, [%d+4];", True),
    ],
)
def test_a_wait_is_ordered_after_the_first_release_that_ends_it(read, right):
    """Both releases may be there when the second block begins to wait."""
    assert (not of_two(SEQUENCE[0], SEQUENCE[1].replace("READ", read))) == right


def test_a_flag_of_a_byte_may_be_negative():
    """The wait ends with -1, of which the byte says 255."""
    wait = "A: ld.acquire.gpu.global.s8 %h, [%f]; setp.ne.s16 %p, %h, -1; @%p bra A; ld.global.u32 %v, [%d];"
    assert not of_two(f"{STORE} mov.b16 %h, -1; st.release.gpu.global.b8 [%f], %h;", wait)


@pytest.mark.parametrize(
    ("copies", "awaited", "read", "right"),
    [(2, 0, 0, True), (2, 0, 1, False), (20, 19, 19, True), (20, 19, 18, False)],
)
def test_a_wait_for_one_mbarrier_is_none_for_another(copies, awaited, read, right):
    """Warp 0 starts copies, each for an mbarrier of its own, and waits for all; warp 1 for one."""

    def each(text):
        return "".join(text.format(i=i, at=8 * i, to=16 * i) for i in range(copies))

    text = f"""{HEADER}.visible .entry k(.param .u64 from) {{
.reg .b64 %x; .reg .b32 %t, %v; .reg .pred %p, %q; .shared .align 16 .b8 s[512]; .shared .align 8 .b8 m[256];
ld.param.u64 %x, [from]; mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra MADE;
{each("mbarrier.init.shared.b64 [m+{at}], 1;")} fence.mbarrier_init.release.cluster;
{
        each('''mbarrier.arrive.expect_tx.shared.b64 _, [m+{at}], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s+{to}], [%x], 16, [m+{at}];''')
    }
MADE: bar.sync 0; setp.ge.u32 %p, %t, 32; @%p bra OTHERS;
{
        each("W{i}: mbarrier.try_wait.parity.shared.b64 %q, [m+{at}], 0; @!%q bra W{i};")
    } bar.sync 1; exit;
OTHERS: mbarrier.try_wait.parity.shared.b64 %q, [m+{8 * awaited}], 0; @!%q bra OTHERS;
ld.shared.u32 %v, [s+{16 * read}]; bar.sync 1; exit;
}}"""
    found = ptxsim.load(text).launch(1, 64, [numbers(4)], stop_at_first=False).faults
    assert right == (not found) and all(
        "reads what a bulk copy writes at" in str(fault) for fault in found
    ), found


@pytest.mark.parametrize("right", [True, False])
def test_another_block_may_hand_on_what_a_warp_did_in_shared_memory(right):
    """Warp 1 raises a flag, for which block 1 waits before it raises another; warp 0 waits for
    that.
    """
    wait = "A: ld.acquire.gpu.global.u32 %v, [%f]; setp.eq.u32 %p, %v, 0; @%p bra A;"
    text = f"""{HEADER}.visible .entry k(.param .u64 flags) {{
.reg .b64 %f; .reg .b32 %b, %t, %v; .reg .pred %p; .shared .align 4 .b8 s[4];
ld.param.u64 %f, [flags]; mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x;
rem.u32 %v, %t, 32; setp.ne.u32 %p, %v, 0; @%p exit; setp.eq.u32 %p, %b, 1; @%p bra OTHER;
setp.eq.u32 %p, %t, 0; @%p bra SECOND;
st.shared.u32 [s], 7; st.release.gpu.global.u32 [%f], 1; exit;
SECOND: ld.acquire.gpu.global.u32 %v, [%f+4]; setp.eq.u32 %p, %v, 0; @%p bra SECOND;
ld.shared.u32 %v, [s]; exit;
OTHER: setp.eq.u32 %p, %t, 32; @%p exit; {wait if right else ""}
st.release.gpu.global.u32 [%f+4], 1; exit;
}}"""
    found = ptxsim.load(text).launch(2, 64, [numbers(2)], stop_at_first=False).faults
    assert right == (not found) and all(re.search(WITHIN, str(fault)) for fault in found), found
