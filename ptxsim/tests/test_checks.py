"""Races in global memory, arrays that are left, barriers that a part of a block reaches, memory
that nobody wrote, constants that nobody set: each is reported, and there is no false alarm from the
same kernel without the fault."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from running import HEADER, fails

import ptxsim
from ptxsim.check import intervals, races

BLOCKS = 3
ELSEWHERE = r"and no fence and atomic operation order the two"
AT = r"checks\.cu:\d+(, called from checks\.cu:\d+)?"
# kernel: what the message must say
FAULTS = {
    "same_tile": rf"writes what block .*, thread \(0, 0, 0\) writes at {AT}, {ELSEWHERE}",
    "accumulate": rf"(reads|writes) what (block|other blocks).* (reads?|writes) at {AT}, {ELSEWHERE}",
    "overwrite": rf"writes what block \(0, 0, 0\), thread \(0, 0, 0\) reads at {AT}, {ELSEWHERE}",
    "split_without_fence": rf"reads what block \(0, 0, 0\), thread \(0, 0, 0\) writes at {AT}, {ELSEWHERE}",
    "split_without_barrier": rf"reads what block .*, thread \(1, 0, 0\) writes at {AT}, {ELSEWHERE}",
    "stream": rf"(reads|writes) what (block|other blocks).* (reads?|writes) at {AT}, {ELSEWHERE}",
    "lowered_flag_unseen": rf"writes what block \([01], 0, 0\), thread \(0, 0, 0\) writes at {AT}, {ELSEWHERE}",
    "lowered_flag_late": rf"writes what block \(0, 0, 0\), thread \(0, 0, 0\) writes at {AT}, {ELSEWHERE}",
    "neighbour": rf"reads what thread \(63, 0, 0\) writes at {AT}, without a barrier between.*, 252 bytes into c\)",
    "shift": rf"writes what thread \(63, 0, 0\) reads at {AT}, without a barrier between",
    "next_array": r"shared load of 4 bytes at shared address 0x4c0: 0 bytes past the end of first, in second$",
    "misaligned_vector": r"misaligned 16-byte load at shared address 0x404, 4 bytes into s$",
    "half_barrier": rf"race: reads what thread .* a part of the block passed the barrier at {AT}, another at",
    "half_volatile": r"block \(0, 0, 0\), thread \(0, 0, 0\): "  # the first of those that read
    rf"race: reads what thread \(63, 0, 0\) writes at {AT}, without a barrier between",
}
CLEAN = [f"{name}_good" for name in FAULTS if not name.startswith(("split_", "lowered_"))]
CLEAN += [
    "lowered_flag_good",
    "split_good",
    "split_reader_without_fence_good",
    "one_thread_good",
    "flag_good",
]


def launch(compiled, name: str, *more, **options) -> ptxsim.Launch:
    """Three blocks of 64 threads; `c` starts as zeros, `a` as whole numbers from 1 on."""
    options.setdefault("c", np.zeros(512, np.float32))
    c = options["c"] if isinstance(options["c"], ptxsim.Array) else ptxsim.Array(options["c"], "c")
    del options["c"]
    a = ptxsim.Array(np.arange(512, dtype=np.float32), "a")
    done = compiled("checks.cu", name).launch(
        options.pop("grid", BLOCKS), 64, [c, a, *more], **options
    )
    launch.c = c.numpy()
    return done


# all blocks together, and each in a batch of its own
@pytest.mark.parametrize("lanes", [16_384, 64])
@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_reported(compiled, name, lanes):
    with pytest.raises(ptxsim.PtxsimError) as caught:
        launch(compiled, f"{name}_bad", limits=ptxsim.Limits(lanes=lanes))
    text = str(caught.value)
    assert "\n" not in text and re.match(rf"{name}_bad: {AT}: block ", text), text
    assert re.search(FAULTS[name], text), text


@pytest.mark.parametrize("lanes", [16_384, 64])
@pytest.mark.parametrize("name", CLEAN)
def test_same_kernel_without_the_fault_runs(compiled, name, lanes):
    launch(compiled, name, limits=ptxsim.Limits(lanes=lanes))
    if name.startswith(("split", "stream", "accumulate")):
        assert (launch.c[:64] == np.arange(192).reshape(3, 64).sum(axis=0)).all()


@pytest.mark.parametrize("name", ["same_tile", "accumulate", "neighbour", "shift", "stream"])
def test_the_watch_over_global_memory_can_be_switched_off(compiled, name):
    launch(compiled, f"{name}_bad", checks=ptxsim.Checks(global_races=False))


@pytest.mark.parametrize(
    ("name", "more", "memory"),
    [
        ("both_volatile", (), "shared"),
        ("half_volatile_good", (), None),
        ("volatile_pairs", (0,), "global"),
        ("volatile_pairs", (1,), None),
    ],
)
def test_volatile_accesses_that_meet_are_noted(compiled, name, more, memory):
    notes = launch(compiled, name, *more).notes
    what = (
        rf"checks\.cu:\d+: volatile accesses of {memory} memory .* meet here .* add __syncwarp\(\)"
    )
    assert [re.match(what, note) is not None for note in notes] == [True] * (memory is not None)


def test_a_race_with_a_volatile_read_names_the_plain_store(compiled):
    source = (Path(__file__).parent / "kernels/checks.cu").read_text().splitlines()
    line = next(n for n, text in enumerate(source, 1) if "// the plain store" in text)
    with fails(f"race: reads what .* writes at checks.cu:{line},"):
        launch(compiled, "volatile_and_plain")


def test_two_extern_arrays_at_one_address_are_noted(compiled):
    (note,) = launch(compiled, "two_extern_arrays", grid=1, shared_bytes=512).notes
    assert note.startswith(
        "one_place and same_place are extern __shared__ arrays, which all begin at"
    )


def test_unwritten_global_memory_is_reported_when_it_is_read(compiled):
    def unwritten():
        return ptxsim.Array(np.full(512, np.nan, np.float32), "c", unwritten=True)

    message = r"scaled: checks\.cu:\d+: block .*: read of global memory that nobody wrote \(.*, 0 bytes into c\)"
    with fails(message):
        launch(compiled, "scaled", 0.0, c=unwritten())
    launch(compiled, "scaled", 0.0)
    launch(compiled, "scaled", 0.0, c=unwritten(), checks=False)
    launch(compiled, "written_first", c=unwritten())
    assert (launch.c[:192] == np.arange(192) + 1).all()


def test_constants_are_set_or_missed(compiled):
    taps, x = np.array([1, 10, 100], np.float32), np.arange(512, dtype=np.float32)
    want = x[:64] + 10 * x[1:65] + 100 * x[2:66] + np.tile(np.float32([0.5, 0.25]), 32)
    assert launch(compiled, "convolve", grid=1, constants={"taps": taps}).notes == ()
    assert (launch.c[:64] == want).all()
    (note,) = launch(compiled, "convolve", grid=1).notes
    assert (
        note
        == "constant taps (12 bytes) is read, but has no initialiser and was not set: it holds zeros"
    )
    launch(
        compiled,
        "convolve",
        grid=1,
        constants={"taps": taps, "preset": ptxsim.Array(np.zeros(2, np.float32))},
    )
    assert (launch.c[:64] == want - np.tile(np.float32([0.5, 0.25]), 32)).all()
    with fails(r"taps holds 12 bytes, not 16"):
        launch(compiled, "convolve", grid=1, constants={"taps": np.zeros(4, np.float32)})
    with fails(r"no constant or device variable 'tap'; the PTX has: .*taps"):
        launch(compiled, "convolve", grid=1, constants={"tap": taps})


@pytest.mark.parametrize("name", ["many_atomics", "many_phases"])
def test_the_watch_over_races_takes_time_in_proportion(compiled, name, monkeypatch):
    """Counted in accesses that are looked at: a loop four times as long makes at most five times as
    many.
    """
    looked = [0]

    def counting(*args):
        looked[0] += 1
        return real(*args)

    real = races.granules
    monkeypatch.setattr(races, "granules", counting)
    monkeypatch.setattr(intervals, "granules", counting)
    found = []
    for n in (16, 64):
        looked[0] = 0
        launch(compiled, name, n)
        found.append(looked[0])
    assert found[0] < found[1] < 5 * found[0]


def test_mbarriers_and_bulk_copies_are_no_shared_loads_or_stores(compiled):
    counters = ptxsim.Counters(merge_loads=False)
    launch(compiled, "many_phases", 10, observers=[counters])
    totals = counters.totals()
    # the reads of the buffers
    assert totals["smsp__inst_executed_op_shared_ld.sum"] == BLOCKS * 2 * 10
    assert totals["smsp__inst_executed_op_shared_st.sum"] == 0
    assert totals["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == BLOCKS * 2 * 10
    assert totals["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"] == 0


BY_HAND = """.visible .entry k(.param .u64 out) {{
.reg .b32 %r<9>, %t, %a, %b; .reg .b64 %x, %y; .reg .pred %p, %q; .shared .align 8 .b8 s[512];
ld.param.u64 %x, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.wide.u32 %x, %b, 4, %x;
shl.b32 %a, %t, 2; mov.u32 %r8, s; add.u32 %a, %a, %r8;
st.shared.u32 [%a], 0; st.shared.u32 [%a+256], 0; bar.sync 0;
{lines}
ret; }}
"""
RACE = r"race: {} what thread \({}, 0, 0\) writes at PTX line \d+, without a barrier between"

MATRIX = """setp.ge.u32 %p, %t, 32; @%p bra END; mad.lo.u32 %r1, %t, 16, %r8;
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {{%t}}; shr.u32 %r2, %t, 2; {} mad.lo.u32 %r2, %r2, 16, %r8;
and.b32 %r3, %t, 3; setp.eq.u32 %p, %r3, 0; @%p ld.shared.u32 %r4, [%r2]; END:"""


@pytest.mark.parametrize("lanes", [16_384, 64])
@pytest.mark.parametrize(
    ("lines", "message"),
    {
        # an atomic operation after a plain store
        (
            "setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [s], 1;"
            "setp.eq.u32 %p, %t, 33; @%p atom.shared.add.u32 %r0, [s], 1;"
        ): RACE.format("changes", 0),
        # the last of those that read is one of two that change it: the other is named
        (
            "setp.eq.u32 %p, %t, 31; setp.eq.or.u32 %p, %t, 63, %p;"
            "@%p atom.shared.add.u32 %r0, [s+124], 1;"
            "setp.lt.u32 %p, %t, 32; @%p ld.shared.u32 %r1, [%a];"
        ): RACE.format("reads", 63),
        # one instruction stores several values, or one, to one place of many
        "min.u32 %r0, %t, 5; shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %r8; st.shared.u32 [%r1], %t;": RACE.format(
            "writes", r"\d+"
        ),
        "min.u32 %r0, %t, 5; shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %r8; st.shared.u32 [%r1], %r0;": None,
        # what all threads of a block have read twice one of them writes after a barrier
        (
            "ld.global.u32 %r0, [%x]; ld.global.u32 %r1, [%x]; bar.sync 0;"
            "setp.eq.u32 %p, %t, 0; @%p st.global.u32 [%x], 1;"
        ): None,
        # an atomic operation before a plain load, by a lower thread and by a higher one
        (
            "setp.eq.u32 %p, %t, 40; @%p atom.shared.add.u32 %r0, [s+12], 1;"
            "setp.eq.u32 %p, %t, 3; @%p ld.shared.u32 %r0, [s+12];"
        ): RACE.format("reads", 40),
        (
            "setp.eq.u32 %p, %t, 3; @%p atom.shared.add.u32 %r0, [s+12], 1;"
            "setp.eq.u32 %p, %t, 40; @%p ld.shared.u32 %r0, [s+12];"
        ): RACE.format("reads", 3),
        # lanes 4n to 4n+3 store row n of a matrix: what lane 4n stored it may load, the next may not
        MATRIX.format(""): None,
        # of four matrices, lane 4n+i stored word i of row n of matrix i, too
        (
            "setp.ge.u32 %p, %t, 32; @%p bra END; mad.lo.u32 %r1, %t, 16, %r8;"
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%t, %t, %t, %t}; shr.u32 %r2, %t, 2;"
            "and.b32 %r3, %t, 3; mad.lo.u32 %r2, %r3, 8, %r2; mad.lo.u32 %r2, %r2, 16, %r8;"
            "mad.lo.u32 %r2, %r3, 4, %r2; ld.shared.u32 %r4, [%r2]; END:"
        ): None,
        MATRIX.format("add.u32 %r2, %r2, 1; and.b32 %r2, %r2, 7;"): RACE.format("reads", r"\d+"),
        # what lanes of a warp have read one of them writes after a barrier of the warp, or another warp
        (
            "setp.lt.u32 %p, %t, 32; @%p ld.global.u32 %r0, [%x]; bar.warp.sync -1;"
            "setp.eq.u32 %p, %t, 4; @%p st.global.u32 [%x], 1;"
        ): None,
        (
            "setp.lt.u32 %p, %t, 32; @%p ld.global.u32 %r0, [%x]; bar.warp.sync -1;"
            "setp.eq.u32 %p, %t, 40; @%p st.global.u32 [%x], 1;"
        ): "writes what another thread reads at PTX line .*, without a barrier between",
        (
            "ld.global.u32 %r0, [%x]; bar.warp.sync -1;"
            "setp.eq.u32 %p, %t, 4; @%p st.global.u32 [%x], 1;"
        ): "writes what another thread reads at PTX line .*, without a barrier between",
        # a thread initialises an mbarrier, for which another of its warp, or it, stores something
        (
            "setp.eq.u32 %p, %t, 40; @%p mbarrier.init.shared.b64 [s], 1; setp.eq.u32 %p, %t, 33;"
            "@%p st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%a], 1, [%r8];"
        ): r"signals an mbarrier that thread \(40, 0, 0\) initialises at .*, without a barrier between",
        # one word alone lacks a proxy fence
        (
            "fence.proxy.async; bar.sync 0; ld.param.u64 %y, [out]; mad.wide.u32 %y, %b, 16, %y;"
            "setp.eq.u32 %p, %t, 5; @%p st.shared.u32 [%a], 1;"
            "@%p cp.async.bulk.global.shared::cta.bulk_group [%y], [s+16], 16;"
            "@%p cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        ): r"reads what thread \(5, 0, 0\) writes at PTX line \d+ by an ordinary store, without a fence.proxy.async",
        # a barrier of one warp of each block
        (
            "setp.ge.u32 %p, %t, 32; @%p bra END; st.shared.u32 [%a], %t; bar.sync 1, 32;"
            "ld.shared.u32 %r0, [s+4]; END:"
        ): None,
    }.items(),
)
def test_accesses_by_hand(lines, message, lanes):
    """In two blocks of 64 threads, whose 128 words of shared memory, `s`, are zeros."""
    done = ptxsim.load(HEADER + BY_HAND.format(lines=lines)).launch(
        2,
        64,
        [ptxsim.Array(np.zeros(8, np.int32))],
        stop_at_first=False,
        limits=ptxsim.Limits(lanes=lanes),
    )
    assert bool(done.faults) == (message is not None), done.faults
    assert message is None or re.search(message, str(done.faults[0])), done.faults


# ---- where shared memory begins ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "arch", "wrong"),
    [
        ("switch_address", "sm_80", 0),
        ("switch_address", "sm_90a", 256),
        ("switch_offset", "sm_90a", 0),
    ],
)
def test_an_xor_of_the_address_trusts_an_alignment_that_sm_90_does_not_give(
    compiled, entry, arch, wrong
):
    """With the window's first KB taken, the switched addresses of one buffer's last KB lie in what
    is to be kept.
    """
    steps, x = 4, np.arange(2048, dtype=np.float32)
    out = ptxsim.Array(np.zeros(2048, np.float32))
    compiled("alignment.cu", entry, arch).launch(1, 256, [out, ptxsim.Array(x), steps])
    sums = sum(x[255::-1] + step + i for step in range(steps) for i in range(0, 4096, 1024))
    bad = np.flatnonzero(out.numpy() != x + np.tile(sums, 8))
    assert len(bad) == wrong and (bad >= 2048 - 256).all()


@pytest.mark.parametrize(
    ("arch", "want"),
    [
        ("sm_75", [0, 1024, 0, 0, 0, 0]),
        ("sm_80", [0, 1024, 5120, 6144, 6144, 5120]),  # the system's part behind the block's own
        ("sm_90a", [1024, 2048, 0, 1024, 1024, 0]),
        ("sm_100", [1024, 2048, 0, 1024, 1024, 64]),
    ],
)
def test_shared_memory_begins_where_the_architecture_puts_it(compiled, arch, want):
    out = ptxsim.Array(np.zeros(6, np.uint32))
    compiled("alignment.cu", "places", arch).launch(1, 256, [out], shared_bytes=4096)
    assert out.numpy().tolist() == want


# Each memory check: a planted fault is reported, with its kernel, line, block and thread;
# without it all is well


# What the message must say of each kernel
PLANTED = {
    "global_bounds": r"out-of-bounds global store of 4 bytes .* 0 bytes past the end of a \(256 bytes\)",
    "shared_bounds": r"out-of-bounds shared store of 4 bytes at shared address 0x500: 0 bytes past the end",
    "local_bounds": r"out-of-bounds local load of 4 bytes",
    "misaligned": r"misaligned 16-byte store at global address 0x2000",
    "unwritten": r"read of shared memory that nobody wrote \(shared address 0x414, 20 bytes into s\)",
    "race_raw": r"race: reads what thread \(63, 0, 0\) writes at faults.cu:\d+, without a barrier between",
    "race_war": r"race: reads what thread \(63, 0, 0\) writes at faults.cu:\d+",
    "race_waw": r"race: writes what thread \(32, 0, 0\) writes",
    "warp_race": r"race: reads what thread \(16, 0, 0\) writes",
    "deadlock": r"deadlock: barrier 1 .* thread \(32, 0, 0\) waits at another barrier at faults.cu:\d+",
    "split_barrier": r"barrier reached by part of a warp here, by the other part at faults.cu:\d+",
    "early_read": r"read before the wait: a cp.async of thread \(63, 0, 0\)",
    "copy_race": r"race: reads what thread \(63, 0, 0\) writes",
    "pipeline": r"race: reads what thread \(63, 0, 0\) writes",
    "endless": r"more than 20,000 instructions executed: an endless loop, or a long one",
    "assert": r"assertion `a\[threadIdx.x\] != 17 \|\| n == 0` failed at .*faults.cu:\d+ in void assert_bad",
    "trap": r"trap$",
    "dynamic_bounds": r"out-of-bounds shared store of 4 bytes at shared address 0x504: 4 bytes past the end",
}
# The thread that it names is the first but in these.
THREADS = {"global_bounds": 63, "shared_bounds": 63, "local_bounds": 32, "unwritten": 58}
THREADS |= {"split_barrier": 1, "assert": 17, "trap": 3, "dynamic_bounds": 16}
INTEGER = ("local_bounds", "endless", "assert", "trap")


def planted(compiled, name: str, **options):
    kernel = compiled("faults.cu", name)
    dtype = np.int32 if name.rsplit("_", 1)[0] in INTEGER else np.float32
    array = ptxsim.Array(np.arange(64, dtype=dtype), "a")
    options.setdefault("shared_bytes", 256 if name.startswith("dynamic") else 0)
    kernel.launch(1, 64, [array, 64], limits=ptxsim.Limits(steps=20_000), **options)
    return array.numpy()


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_names_its_thread(compiled, name):
    with pytest.raises(ptxsim.PtxsimError) as caught:
        planted(compiled, f"{name}_bad")
    text, place = str(caught.value), rf"{name}_bad: faults\.cu:\d+(, called from faults\.cu:\d+)?"
    assert re.fullmatch(f".*{PLANTED[name]}.*", text), text
    thread = rf"block \(0, 0, 0\), thread \({THREADS.get(name, 0)}, 0, 0\)"
    assert re.match(f"{place}: {thread}: ", text), text


@pytest.mark.parametrize("name", PLANTED)
def test_the_kernel_without_the_fault_runs(compiled, name):
    planted(compiled, f"{name}_good")


@pytest.mark.parametrize("name", ["race_raw", "race_war", "race_waw", "warp_race", "unwritten"])
def test_checks_can_be_switched_off(compiled, name):
    planted(compiled, f"{name}_bad", checks=False)


def test_results_of_clean_kernels(compiled):
    x = np.arange(64, dtype=np.float32)
    assert (planted(compiled, "race_raw_good") == x[::-1]).all()
    assert (planted(compiled, "early_read_good") == x[::-1]).all()
    assert (planted(compiled, "pipeline_good") == 64 * x[::-1]).all()
