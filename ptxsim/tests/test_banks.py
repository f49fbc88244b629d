"""Bank conflicts in detail: what is shown is what the counters count."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from running import fails, launch_options

import ptxsim
from ptxsim import banks
from ptxsim.cli import main
from ptxsim.count import wavefronts
from ptxsim.count.first_accesses import FirstAccesses

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"  # there shared memory begins at 0
LANE = np.arange(32)
ON = np.ones(32, bool)


# ---- which lanes go in which wavefront -----------------------------------------------------------


def count(parts) -> int:
    return sum(len(part.wavefronts) for part in parts)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kind", ["ld", "st", "atom"])
def test_as_many_wavefronts_as_are_counted(width: int, kind: str) -> None:
    """On random addresses, with strides, broadcasts, equal pairs and lanes that are not active."""
    generator = np.random.default_rng(width)
    for _ in range(60):
        shape = generator.integers(4)
        addresses = [
            generator.integers(0, 512, 32) * width,
            LANE * generator.integers(1, 40) * width,
            LANE // generator.integers(1, 33) * generator.integers(1, 40) * width,
            np.repeat(generator.integers(0, 512, 16), 2) * width,
        ][shape]
        active = ON if generator.integers(2) else generator.random(32) < 0.6
        parts = wavefronts.serve(addresses, active, width, kind)
        assert (
            count(parts)
            == wavefronts.shared(addresses[None], active[None], width, kind == "st")[0][0]
        )
        complete(parts, addresses, active, width)


def complete(parts, addresses, active, width: int) -> None:
    """Each active lane gets each of its words once; no bank serves two words at a time."""
    got = [
        (lane, word.address)
        for part in parts
        for row in part.wavefronts
        for word in row
        for lane in word.lanes
    ]
    words = range(0, max(width, 4), 4)
    wanted = [
        (lane, int(addresses[lane]) // 4 * 4 + w)
        for lane in np.flatnonzero(active).tolist()
        for w in words
    ]
    assert sorted(got) == sorted(wanted)
    rows = [row for part in parts for row in part.wavefronts]
    assert all(len({word.bank for word in row}) == len(row) for row in rows)
    assert sorted(lane for part in parts for lane in part.lanes) == np.flatnonzero(active).tolist()


def test_ldmatrix_goes_matrix_by_matrix() -> None:
    addresses = LANE % 8 * 64 + LANE // 8 * 4096
    parts = wavefronts.serve(addresses, ON, 16, "ldmatrix")
    assert [part.lanes for part in parts] == [tuple(range(8 * i, 8 * i + 8)) for i in range(4)]
    assert count(parts) == wavefronts.ldmatrix(addresses[None], ON[None])[0][0] == 16
    complete(parts, addresses, ON, 16)


def test_cp_async_goes_by_lines_of_its_source() -> None:
    addresses, source, reading = LANE * 16, LANE // 4 * 4096 + LANE % 4 * 16, LANE < 28
    parts = wavefronts.serve(addresses, ON, 16, "cp_async", source, reading)
    counted = wavefronts.cp_async(addresses[None], ON[None], 16, source[None], reading[None])
    assert count(parts) == counted[0][0] == len(parts) == 8
    complete(parts, addresses, ON, 16)


def test_halves_that_pair_up_are_one_part() -> None:
    assert [len(part.lanes) for part in wavefronts.serve(LANE // 2 * 8, ON, 8)] == [32]
    assert [len(part.lanes) for part in wavefronts.serve(LANE // 2 * 8, ON, 8, "st")] == [16, 16]
    assert wavefronts.serve(LANE * 4, ON & False, 4) == []
    # a copy that reads nothing has no lines
    assert [len(part.lanes) for part in wavefronts.serve(LANE * 16, ON, 16, "cp_async")] == [32]


# ---- what the picture says -----------------------------------------------------------------------


def kernel_of(lines: str) -> ptxsim.Kernel:
    """A kernel with these lines of PTX at line 7 of a made-up source."""
    text = f"""{HEADER}.visible .entry k(.param .u64 p) {{ .reg .b32 %r<9>, %t, %a; .reg .b64 %x, %y;
        .reg .pred %q; .reg .f32 %f<9>; .shared .align 16 .b8 s[8192];
        mov.u32 %t, %tid.x; mov.u32 %a, s; ld.param.u64 %x, [p];
        .loc 1 7 1
        {lines}
        .loc 1 8 1
        ret; }}
        .file 1 "made-up.cu"
        """
    return ptxsim.load(text)


def access(lines: str, width: int = 32, grid=1, **chosen) -> list[banks.Access]:
    """Accesses at line 7 of a made-up source, by one warp."""
    return banks.accesses(
        kernel_of(lines),
        grid,
        width,
        [ptxsim.Array(np.zeros(9999, np.uint8))],
        **{"line": 7} | chosen,
    )


def test_the_first_warp_that_accesses_memory_is_recorded_with_its_addresses() -> None:
    """Lanes 8 to 31 of the second warp, once for each of two rounds; global addresses from a line."""
    kernel = kernel_of(
        """mov.u32 %r2, 0; setp.ge.u32 %q, %t, 40;
        L: shl.b32 %r0, %t, 2; add.u32 %r0, %r0, %r2; cvt.u64.u32 %y, %r0; add.u64 %y, %x, %y;
        @%q ld.global.b32 %r1, [%y+256]; @%q st.shared.b32 [%r0], %r1;
        add.u32 %r2, %r2, 64; setp.ne.u32 %q, %r2, 128; @%q bra L;"""
    )
    first = FirstAccesses()
    array = ptxsim.Array(np.zeros(9999, np.uint8))
    kernel.launch(2, 96, [array], observers=[first], checks=False)
    load, store = (accesses for _, accesses in sorted(first.of.items()))
    active = [None] * 8 + [4 * thread for thread in range(40, 64)]
    assert store.shared and store.shared.warp == 1 and store.shared.addresses == tuple(active)
    assert store.global_ is None and load.shared is None and load.global_ and load.global_.warp == 1
    assert load.global_.addresses == tuple(a if a is None else a - 128 for a in active)


def test_a_conflict_as_a_table() -> None:
    (found,) = access("shl.b32 %r0, %t, 5; st.shared.b32 [%r0], %t;")
    assert found.summary == "store, 32-bit, 8-way conflict: 8 wavefronts where 1 would do"
    assert [word.lanes for word in found.parts[0].wavefronts[1]] == [(4,), (5,), (6,), (7,)]
    lines = banks.table(found).splitlines()
    assert lines[:2] == [found.summary, "made-up.cu:7 · st.shared.b32"]
    rows = [line.split() for line in lines if line.split() and line.split()[0].isdigit()]
    assert [row[0] for row in rows] == [str(number) for number in range(1, 9)]
    assert [[cell for cell in row[1:] if cell != "."] for row in rows] == [
        [str(4 * row + i) for i in range(4)] for row in range(8)
    ]
    assert rows[1][1::8] == ["4", "5", "6", "7"]  # every eighth bank


@pytest.mark.parametrize(
    ("lines", "summary"),
    [
        ("ld.shared.b32 %r0, [%a];", "load, 32-bit, no conflict: 1 wavefront"),
        (
            "shl.b32 %r0, %t, 4; ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%r0];",
            "load, 128-bit, no conflict: 4 wavefronts, one a quarter-warp",
        ),
        (
            "shl.b32 %r0, %t, 3; atom.shared.add.u32 %r1, [%r0], 1;",
            "atomic, 32-bit, 2-way conflict: 2 wavefronts where 1 would do",
        ),
        (
            "and.b32 %r0, %t, 7; shl.b32 %r0, %r0, 7; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r0];",
            "ldmatrix of 1 matrix, 8-way conflict: 8 wavefronts where 1 would do",
        ),
        (
            "shl.b32 %r0, %t, 2; cvt.u64.u32 %x, %r0; ld.param.u64 %x, [p]; cp.async.ca.shared.global [%r0], [%x], 4;",
            "cp.async write, 32-bit, no conflict: 1 wavefront",
        ),
    ],
)
def test_each_kind_in_words(lines: str, summary: str) -> None:
    (found,) = access(lines)
    assert found.summary == summary


@pytest.mark.parametrize(
    ("lines", "shown"),
    {
        "shr.u32 %r0, %t, 4; shl.b32 %r0, %r0, 2; ld.shared.b32 %r1, [%r0];": "  0+ 16+  . ",
        "setp.lt.u32 %q, %t, 30; shl.b32 %r0, %t, 2; @%q st.shared.b32 [%r0], %t;": "not active: lanes 30, 31",
        "shl.b32 %r0, %t, 3; ld.shared.v2.f32 {%f0, %f1}, [%r0];": "\nlanes 16–31",
        "setp.eq.u32 %q, %t, 2; shl.b32 %r0, %t, 2; @%q st.shared.b32 [%r0], %t;": "not active: lanes 0, 1, 3–31",
        (
            "shl.b32 %r0, %t, 3; cvt.u64.u32 %y, %r0; add.u64 %x, %x, %y;"
            "shl.b32 %r0, %t, 2; cp.async.ca.shared.global [%r0], [%x], 4;"
        ): "\nfrom line 2",
    }.items(),
)
def test_what_a_table_shows(lines: str, shown: str) -> None:
    (found,) = access(lines)
    assert shown in banks.table(found)


def test_accesses_that_look_alike_are_shown_once() -> None:
    stores = [f"st.shared.b32 [%r0{at}], %t;" for at in ("", "+512", "+4", "")]
    stores[0], stores[3] = "shl.b32 %r0, %t, 2;" + stores[0], "shl.b32 %r0, %t, 3;" + stores[3]
    found = access("".join(stores))
    assert [a.alike for a in found] == [(2, 3), (1, 3), (1, 2), ()]
    assert [a.number for a in banks.distinct(found)] == [1, 4]


def test_the_costliest_execution_is_taken_unless_one_is_named() -> None:
    loop = """mov.u32 %r2, 0; L: shl.b32 %r0, %t, 2; shl.b32 %r0, %r0, %r2; st.shared.b32 [%r0], %t;
    add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, 3; @%q bra L;"""
    (found,) = access(loop)
    assert (found.execution, found.executions, found.wavefronts, found.least, found.most) == (
        3,
        3,
        4,
        1,
        4,
    )
    assert access(loop, execution=1)[0].wavefronts == 1


@pytest.mark.parametrize(
    ("lines", "about"),
    [
        ("ld.shared.f32 %f0, [%a]; ld.shared.f32 %f1, [%a+4];", [
            "made-up.cu:7 · ld.shared.f32 and 1 load more, made one LDS.64 by ptxas",
            "block (0, 0, 0), warp 0"]),
        ("st.shared.b32 [%a], %t; st.shared.b32 [%a+4], %t;", [
            "made-up.cu:7 · st.shared.b32 and 1 store more, made one STS.64 by ptxas",
            "block (0, 0, 0), warp 0"]),
        ("st.shared.b32 [%a], %t; st.shared.b32 [%a+512], %t; st.shared.b32 [%a+1028], %t;", [
            "made-up.cu:7 · st.shared.b32",
            "block (0, 0, 0), warp 0 · access 1 of 3 on this line (2 others the same or shifted)"]),
        ("mov.u32 %r2, 0; L: st.shared.b32 [%a], %t; add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, 3; @%q bra L;", [
            "made-up.cu:7 · st.shared.b32",
            "block (0, 0, 0), warp 0, execution 1 of 3 (all cost the same)"]),
    ],
)  # fmt: skip
def test_an_access_in_two_lines(lines: str, about: list[str]) -> None:
    assert access(lines)[0].about == about


@pytest.mark.parametrize(("block", "ways"), [((0, 0), 1), ((1, 0), 2), ((0, 1), 1), ((1, 1), 4)])
def test_an_access_of_a_block(block: tuple[int, int], ways: int) -> None:
    """Block n of 2 x 3 stores each n + 1 words."""
    lines = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r1, %r2, 2, %r1;
        add.u32 %r1, %r1, 1; mul.lo.u32 %r0, %t, %r1; shl.b32 %r0, %r0, 2; st.shared.b32 [%r0], %t;"""
    (found,) = access(lines, grid=(2, 3), of_block=block)
    assert (found.block, found.ways) == ((*block, 0), ways)


STORE = "shl.b32 %r0, %t, 2; st.shared.b32 [%r0], %t;"


def test_a_part_of_a_warp_is_a_warp() -> None:
    (found,) = access(STORE, width=33, warp=1)
    assert (found.warp, found.wavefronts, np.flatnonzero(found.active).tolist()) == (1, 1, [0])


@pytest.mark.parametrize(
    ("lines", "chosen", "message"),
    [
        (STORE, {"line": 9}, "made-up.cu:9: no access to shared memory; lines that have one: 7"),
        (STORE, {"warp": 1}, "warp 1 is not in a block of 1 warps"),
        (STORE, {"of_block": (1, 0)}, "block (1, 0, 0) is not in the grid (1, 1, 1)"),
        (STORE, {"of_block": (-1, 0)}, "block (-1, 0, 0) is not in the grid (1, 1, 1)"),
        (STORE, {"execution": 2}, "accesses shared memory there 2 times; warps that do: 0"),
        (
            STORE,
            {"file": "other.cu"},
            "other.cu is no file of k; its line information names: made-up.cu",
        ),
        ("ld.global.b32 %r0, [%x];", {}, "accesses only global memory, which has no banks"),
    ],
)
def test_what_is_not_there_is_reported(lines: str, chosen: dict, message: str) -> None:
    with fails(re.escape(message)) as caught:
        access(lines, **chosen)
    assert "\n" not in str(caught.value)


# ---- the command line ----------------------------------------------------------------------------

TRANSPOSE = """
__global__ void transpose(float* out, const float* in) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""


def test_the_command_shows_a_cuda_file(built, tmp_path, capsys) -> None:
    source, out = built(TRANSPOSE).with_suffix(".cu"), tmp_path / "deep" / "accesses.json"
    command = ["banks", str(source), *launch_options(1, "32,32", "zeros:f32:1024", "ones:f32:1024")]
    assert main([*command, "--line", "6", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "32-way conflict" in shown
    assert "out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x]" in shown
    (kept,) = json.loads(out.read_text())
    assert kept["summary"] in shown
    assert kept["wavefronts"] == sum(len(part["wavefronts"]) for part in kept["parts"])
    assert main([*command, "--line", "6", "--occurrence", "2"]) == 2
    assert "--occurrence 2: line 6 has 1" in capsys.readouterr().err
