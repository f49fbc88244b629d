"""Real sizes: indices beyond 32 bits, arrays that take memory where they are touched, counts of
large grids.
"""

from __future__ import annotations

import resource

import numpy as np
import pytest
from running import HEADER, fails

import ptxsim
from ptxsim import cli
from ptxsim.arguments import parse_argument
from ptxsim.count import prediction
from ptxsim.count.bounds import Traffic, Work
from ptxsim.count.counters import Counters

FILE = "real_sizes.cu"
MANY = "zeros:u8:2600000000"  # bytes: what 31 bits do not count


def faults(compiled, entry, *numbers, array=MANY):
    kernel = compiled(FILE, entry)
    launch = kernel.launch(1, 32, [parse_argument(array, 0).value, *numbers], stop_at_first=False)
    return [(found.kind, found.count, found.message) for found in launch.faults]


@pytest.mark.parametrize(
    ("entry", "numbers", "line", "threads", "exact"),
    [
        ("product", (50_000, 50_000), 5, 32, "2,500,000,000 becomes -1,794,967,296"),
        ("unsigned_product", (70_000, 70_000), 7, 32, "4,900,000,000 becomes 605,032,704"),
        ("shifted", (35_000,), 8, 32, "2,293,760,000 becomes -2,001,207,296"),
        ("sum", (2**31 - 8,), 10, 24, "2,147,483,648 becomes -2,147,483,648"),
        ("hidden", (65_536, 65_536, 0), 19, 32, "134,217,728 becomes 0"),
        ("hidden", (65_536, 65_536, 1), 19, 32, "65,536 becomes 0"),
        ("hidden", (65_536, 65_536, 2), 19, 32, "5,000 becomes 0"),
        ("hidden", (65_536, 65_536, 3), 19, 32, "4,294,967,296 becomes 7"),
        ("hidden", (65_536, 65_536, 4), 19, 32, "42,949,672 becomes 0"),
    ],
)
def test_an_index_that_wraps(compiled, entry, numbers, line, threads, exact):
    # one line: what is out of bounds follows from it
    ((kind, count, message),) = faults(compiled, entry, *numbers)
    assert (kind, count) == ("wrap", threads)
    assert f"{FILE}:{line}:" in message
    assert f"a 32-bit index wraps: {exact}, of which an address is made" in message


@pytest.mark.parametrize(
    ("entry", "numbers"),
    [
        ("wide", (50_000, 50_000)),
        ("product", (40_000, 40_000)),
        ("unsigned_product", (50_000, 50_000)),  # fits 32 bits without a sign
        ("shifted", (30_000,)),
        ("sum", (2**31 - 32,)),
        ("stored", (50_000, 50_000)),
        ("hashed", (2654435761,)),
        ("masked", (65_536, 65_536)),
        ("picked", (2_684_354_559,)),
        ("clamped", (2**31 - 1,)),
        *(("hidden", (40_000, 40_000, how)) for how in range(5)),
        ("before", (40,)),
        ("back_again", (70_000, 70_000)),
        ("branches", (50_000, 50_000)),
        ("less", (2_200_000_000, 200_000_000)),  # of numbers without a sign
    ],
)
def test_an_index_that_does_not_wrap(compiled, entry, numbers):
    assert faults(compiled, entry, *numbers) == []


INDEX = """.visible .entry k(.param .u64 p) {{ .reg .b64 %x<4>; .reg .b32 %t, %i, %a, %b; .reg .pred %p, %q;
ld.param.u64 %x0, [p]; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 4; setp.gt.u32 %q, %t, 99; mov.u32 %b, 1;
{lines} mul.wide.s32 %x1, %i, 4; add.s64 %x2, %x0, %x1; @%q ld.global.u32 %a, [%x2];
{more} ret; }}"""
BIG, HALF = 1 << 15, 1 << 30
AGAIN = f"""selp.b32 %a, {BIG}, 1, %p; mul.lo.s32 %i, %a, %a; add.s32 %i, %i, %i;
    mul.wide.s32 %x1, %i, 4; add.s64 %x3, %x0, %x1; @%q ld.global.u32 %a, [%x3];"""


@pytest.mark.parametrize(
    ("lines", "more", "found"),
    [
        # the last number that fits, and one more
        (f"mad.lo.s32 %i, {BIG}, {BIG}, {HALF - 1};", "", []),
        (f"mad.lo.s32 %i, {BIG}, {BIG}, {HALF};", "", ["2,147,483,648 becomes -2,147,483,648"]),
        (f"mad.lo.s32 %i, {-BIG}, {2 * BIG}, 0;", "", []),
        (f"mad.lo.s32 %i, {-BIG}, {2 * BIG}, -1;", "", ["-2,147,483,649 becomes 2,147,483,647"]),
        (f"sub.s32 %i, {-HALF}, {HALF};", "", []),
        (f"sub.s32 %i, {-HALF}, {HALF + 1};", "", ["-2,147,483,649 becomes 2,147,483,647"]),
        ("shl.b32 %i, %b, 30;", "", []),
        (f"selp.b32 %a, {BIG}, 1, %p; shl.b32 %i, %a, 17;", "", ["4,294,967,296 becomes 0"]),
        ("shl.b32 %i, %t, 40;", "", []),
        # products that may be the largest at any corner of their ranges
        ("sub.s32 %a, %t, 31; mul.lo.s32 %i, %a, -69273666;", "", []),
        ("sub.s32 %a, %t, 31; mul.lo.s32 %i, %a, -69273667;", "", ["2,147,483,677 becomes"]),
        # a sum of numbers without a sign that fits 32 bits, and comes back
        (f"add.u32 %i, %b, {2**32 - 2}; add.u32 %i, %i, 1;", "", []),
        (f"mov.u32 %a, {-HALF}; sub.s32 %i, %a, {HALF + 1}; @%p add.s32 %i, %b, 1;", "", []),
        # where some lanes compute, and others have what they had
        (f"mov.u32 %i, 5; @%p mad.lo.s32 %i, {BIG}, {BIG}, {HALF};", "", ["2,147,483,648 becomes"]),
        # once for each thread: of four, then of eight, twice
        (AGAIN, "setp.lt.u32 %p, %t, 8;" + AGAIN + AGAIN, ["8: 2,147,483,648"]),
    ],
)
def test_where_a_wrap_begins(lines, more, found):
    kernel = ptxsim.load(HEADER + INDEX.format(lines=lines, more=more))
    done = kernel.launch(1, 32, [ptxsim.Array(np.zeros(4, np.int32))], stop_at_first=False)
    told = [f"{f.count}: {f.message.partition('wraps: ')[2]}" for f in done.faults]
    assert len(told) == len(found), told
    assert all(part in text for part, text in zip(found, told, strict=True)), told


def test_a_check_that_is_off_finds_no_wraps(compiled):
    kernel = compiled(FILE, "unsigned_product")
    array = parse_argument("zeros:u8:700000000", 0).value
    # what a GPU does: it writes elsewhere
    kernel.launch(1, 32, [array, 70_000, 70_000], checks=False)
    assert np.flatnonzero(array.numpy()[605_032_704:605_032_800]).tolist() == list(range(32))


def test_memory_is_taken_where_it_is_touched(compiled):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    array = parse_argument("uninit:u8:100000000000", 0).value
    compiled(FILE, "wide").launch(1, 32, [array, 300_000, 300_000], checks=False)
    assert array.numpy()[90_000_000_000:90_000_000_040].tolist() == [1] * 32 + [0] * 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # KiB


def test_contents_are_made_once_they_are_needed(compiled):
    n = 1 << 16
    arrays = [parse_argument(f"random:f32:{n}x{n}", i).value for i in range(3)]
    counted = compiled(FILE, "tiles").count((1, 1), (32, 8), [*arrays, 64])
    assert counted.totals()["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] == 8
    with fails(r"an array of float32 65536x65536: .* are needed"):
        compiled(FILE, "tiles").launch((1, 1), (32, 8), [*arrays, 64])
    small = parse_argument("random:f32:4x4:7", 0).value
    assert (small.numpy() == parse_argument("random:f32:4x4:7", 3).value.numpy()).all()
    assert small.numpy().any()


def test_counts_of_a_large_grid_follow_by_instruction(compiled):
    kernel, n = compiled(FILE, "tiles"), 192
    args = [parse_argument(f"zeros:f32:{n}x{n}", i).value for i in range(3)] + [n]
    grid, block = (n // 32, n // 32), (32, 8)
    counters, traffic = Counters(), Traffic()
    kernel.launch(grid, block, args, observers=[counters, traffic], checks=False, values=False)
    found = prediction.predict(kernel, grid, block, args, by_instruction=True)
    assert found.sampled < found.blocks == 36
    assert found.counters.totals() == counters.totals() == found.totals
    for own, whole in zip(found.counters.by_instruction(), counters.by_instruction(), strict=True):
        assert {n: getattr(own, n) for n in prediction.OF_INSTRUCTION} == {
            n: getattr(whole, n) for n in prediction.OF_INSTRUCTION
        }
        assert set(own.ways) == set(whole.ways)
    # t[x][i] is stored by columns
    assert any(max(stats.ways, default=0) == 32 for stats in counters.by_instruction())
    assert found.work == Work.observed(counters, traffic)


def test_a_grid_that_is_too_large_is_tried_at_its_edges(ptx, tmp_path, capsys):
    file = tmp_path / "kernel.ptx"
    file.write_text(ptx(FILE))
    grid = ["--entry=tiles", "--grid=512,512", "--block=32,8", "--thread-instructions=1e8"]
    arguments = [f"--arg=zeros:f32:{size}" for size in ("16384x16384", "16384x64")]
    status = cli.main(["run", str(file), *grid, *arguments, "--arg=zeros:f32:64x16384", "--arg=64"])
    out = capsys.readouterr()
    assert status == cli.NOTES and "the limit is 1e+08" in out.err, out.err
    assert "Instead 15 blocks are run, at the edges of the grid and between" in out.err
    # 20,416 are read
    status = cli.main(["run", str(file), *grid, *arguments, "--arg=zeros:f32:20000", "--arg=64"])
    out = capsys.readouterr()
    assert (
        status == 1 and "block (511, 0, 0)" in out.err and "out-of-bounds global load" in out.err
    ), out.err
