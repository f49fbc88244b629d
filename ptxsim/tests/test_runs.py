"""Straight runs: FMAs that are computed together, and what a launch without values leaves out."""

from __future__ import annotations

import numpy as np
import pytest
from running import HEADER, fails

import ptxsim
from ptxsim.count import bounds
from ptxsim.count.counters import Counters
from ptxsim.engine import basic_blocks as runs
from ptxsim.engine import slicing
from ptxsim.machine import floats, native
from ptxsim.ptx import reaching_definitions as origins

F4 = np.float32


def kernel(lines: str, shared: int = 4096) -> ptxsim.Kernel:
    return ptxsim.load(
        f"""{HEADER}.visible .entry k(.param .u64 p) {{ .reg .b32 %r<20>, %t, %a; .reg .b64 %x, %y<9>; .reg .pred %q<4>;
        .reg .f32 %f<40>; .shared .align 16 .b8 s[{shared}]; mov.u32 %t, %tid.x; mov.u32 %a, s; shl.b32 %r0, %t, 2;
        add.u32 %a, %a, %r0; ld.param.u64 %x, [p]; cvt.u64.u32 %y0, %r0; add.u64 %y0, %x, %y0;\n{lines}\nret; }}"""
    )


def hard_values(count: int) -> np.ndarray:
    """Small whole numbers, so that sums fall half-way between two floats, and what no arithmetic likes."""
    rng = np.random.default_rng(1)
    values = (rng.integers(-8, 8, count) * 2.0 ** rng.integers(-25, 25, count)).astype(F4)
    values[::17] = rng.choice(
        np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, 2.0**-126, 3e38], F4), len(values[::17])
    )
    return values


def test_rows_of_fmas_are_rounded_as_one_by_one() -> None:
    values = hard_values(3 * 8 * 512).reshape(3, 8, 512)
    # a little less than half-way between two floats, which float64 rounds to half-way, and then to the even one
    values[0, 0, 0], values[1, 0, 0], values[2, 0, 0] = (
        F4(1 + 2.0**-23),
        F4(2.0**-24 * (1 - 2.0**-23)),
        F4(1 + 2.0**-23),
    )
    with np.errstate(all="ignore"):
        one_by_one = [floats.fma32(a, b, c) for a, b, c in zip(*values, strict=True)]
        wide = values.astype(np.float64)
        rows = floats.fma32_rows(list(zip(wide[0], wide[1], strict=True)), list(values[2]))
    assert one_by_one[0][0] == F4(1 + 2.0**-23)
    assert (
        floats.canonical_bits(rows).tobytes()
        == floats.canonical_bits(np.stack(one_by_one)).tobytes()
    )


PRODUCTS = """
ld.global.u32 %r1, [%y0]; ld.global.u32 %r2, [%y0+512]; mov.b32 %f0, %r1; mov.b32 %f1, %r2;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f2,%f3,%f4,%f5}, {%r1,%r2,%r2,%r1}, {%r2,%r1}, {%f0,%f1,%f0,%f1};
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f6,%f7,%f8,%f9}, {%r2,%r2,%r1,%r1}, {%r1,%r1}, {%f0,%f0,%f0,%f0};
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f0,%f1}, {%r2,%r1,%r1,%r1}, {%r1,%r2}, {%f0,%f1,%f1,%f0};
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f6,%f7,%f8,%f9}, {%r2,%r2,%r1,%r1}, {%r1,%r1}, {%f6,%f7,%f2,%f1};
add.f32 %f0, %f0, %f2; add.f32 %f0, %f0, %f3; add.f32 %f0, %f0, %f4; add.f32 %f0, %f0, %f5; add.f32 %f1, %f1, %f6;
add.f32 %f1, %f1, %f7; add.f32 %f1, %f1, %f8; add.f32 %f1, %f1, %f9; st.global.f32 [%y0], %f0;
st.global.f32 [%y0+512], %f1;
"""


def test_products_of_matrices_together_are_those_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some need results of others, one overwrites what the others read."""
    data = np.random.default_rng(2).standard_normal(256).astype(F4)
    found = []
    for apart in (False, True):
        if apart:
            monkeypatch.setattr(runs, "_kind", lambda instruction: None)
        array = ptxsim.Array(data)
        kernel(PRODUCTS).launch(1, 128, [array])
        found.append(array.numpy().tobytes())
    assert found[0] == found[1] != data.tobytes()


OUTER = """
ld.global.f32 %f0, [%y0]; ld.global.f32 %f1, [%y0+512]; ld.global.f32 %f2, [%y0+1024]; ld.global.f32 %f3, [%y0+1536];
mov.f32 %f10, %f0; mov.f32 %f15, %f1; mov.f32 %f16, %f2; mov.f32 %f17, %f3; mov.f32 %f18, %f0; mov.f32 %f19, %f1;
setp.lt.u32 %q0, %t, 40; @%q0 bra L;
fma.rn.f32 %f10, %f0, %f1, %f2; fma.rn.f32 %f11, %f1, %f2, %f3; fma.rn.f32 %f12, %f2, %f3, %f0;
fma.rn.f32 %f13, %f3, %f0, %f1; fma.rn.f32 %f14, %f0, %f0, %f0; fma.rn.f32 %f0, %f1, %f1, %f0;
fma.rn.f32 %f15, %f0, %f10, %f14; fma.rn.f32 %f10, %f15, %f0, %f10; fma.rn.f32 %f10, %f1, %f2, %f10;
fma.rn.f32 %f16, %f11, %f12, %f13; fma.rn.f32 %f17, %f12, %f13, %f10; fma.rn.f32 %f18, %f1, %f3, %f2;
fma.rn.f32 %f19, %f1, %f1, %f1;
L: add.f32 %f0, %f0, %f10; add.f32 %f0, %f0, %f15; add.f32 %f0, %f0, %f16; add.f32 %f0, %f0, %f17;
add.f32 %f0, %f0, %f18; add.f32 %f0, %f0, %f19; st.global.f32 [%y0+2048], %f0;
"""


def test_fmas_together_are_those_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some need results of others, some overwrite what others read; a part of the threads branches around them."""
    data = hard_values(640)
    found = []
    if native.library is not None:
        together = native.fma_rows
        calls = []
        monkeypatch.setattr(native, "fma_rows", lambda *given: calls.append(1) or together(*given))
        array = ptxsim.Array(data)
        kernel(OUTER).launch(1, 128, [array])
        assert calls
        found.append(array.numpy().tobytes())
    monkeypatch.setattr(native, "library", None)
    for chunk in (runs.CHUNK, 1):  # with 1, each by itself
        monkeypatch.setattr(runs, "CHUNK", chunk)
        fused = []
        together = floats.fma32_rows
        monkeypatch.setattr(
            floats, "fma32_rows", lambda *g, f=fused, t=together: f.append(1) or t(*g)
        )
        array = ptxsim.Array(data)
        kernel(OUTER).launch(1, 128, [array])
        monkeypatch.setattr(floats, "fma32_rows", together)
        found.append(array.numpy().tobytes())
        assert bool(fused) == (chunk > 1)
    assert len(set(found)) == 1 and found[0] != data.tobytes()


# ---- without values ------------------------------------------------------------------------------------------------

LOOP = """mov.u32 %r1, 0; mov.f32 %f0, 0f00000000; mov.u64 %y1, %y0;
L: ld.global.f32 %f1, [%y1]; st.shared.f32 [%a], %f1; bar.sync 0; ld.shared.f32 %f2, [%a+64];
fma.rn.f32 %f0, %f1, %f2, %f0; bar.sync 0; add.u64 %y1, %y1, 64; add.u32 %r1, %r1, 1; setp.lt.u32 %q0, %r1, 5;
@%q0 bra L; st.global.f32 [%y0], %f0;"""
INDIRECT = """st.shared.u32 [%a], %r0; bar.sync 0; xor.b32 %r2, %r0, 28; mov.u32 %r3, s; add.u32 %r3, %r3, %r2;
ld.shared.u32 %r4, [%r3]; mul.lo.u32 %r5, %r4, %r4; shl.b32 %r6, %r4, 3; mov.u32 %r3, s; add.u32 %r3, %r3, %r6;
ld.shared.f32 %f0, [%r3];
fma.rn.f32 %f0, %f0, %f0, %f0; st.global.f32 [%y0], %f0;"""
COPIES = """cp.async.ca.shared.global [%a], [%y0], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
ld.shared.f32 %f0, [%a]; mul.f32 %f1, %f0, %f0; @%q1 st.shared.f32 [%a], %f1; st.global.f32 [%y0], %f1;"""
LOADED_BOUND = """ld.global.u32 %r6, [%y0]; and.b32 %r6, %r6, 7; mov.u32 %r1, 0;
L: ld.shared.f32 %f1, [%a]; add.u32 %r1, %r1, 1; setp.lt.u32 %q0, %r1, %r6; @%q0 bra L; st.global.f32 [%y0], %f1;"""


def counts(lines: str, values: bool) -> tuple:
    counters, traffic = Counters(), bounds.Traffic()
    data = np.arange(4096, dtype=np.uint32)
    array = ptxsim.Array(data)
    kernel(lines).launch(2, 64, [array], observers=[counters, traffic], checks=False, values=values)
    return (
        counters.totals(),
        traffic.executions,
        traffic.totals(),
        array.numpy().tobytes() == data.tobytes(),
    )


@pytest.mark.parametrize("lines", [LOOP, INDIRECT, COPIES, LOADED_BOUND, OUTER])
def test_counts_are_the_same_without_values(lines: str) -> None:
    *with_values, kept = counts(lines, True)
    *without, untouched = counts(lines, False)
    assert with_values == without and not kept and untouched


def test_what_is_left_out() -> None:
    def names(lines: str) -> tuple[list[str], list[str]]:
        program = kernel(lines).program
        found = slicing.slice_of(program, origins.find(program), {})
        return [program.code[pc].opcode for pc in sorted(found.skipped)], [
            program.code[pc].opcode for pc in sorted(found.blind)
        ]

    assert names(LOOP) == (["mov", "fma"], ["ld", "st", "ld", "st"])
    # an address is loaded from shared memory: what is stored there is computed, but not what goes elsewhere
    assert names(INDIRECT) == (["mul", "fma"], ["ld", "st"])
    assert "fma" in names(OUTER)[0]


TWO = f"""{HEADER}.visible .entry k(.param .u64 p, .param .u64 q) {{ .reg .b32 %r<9>; .reg .b64 %y<9>; .reg .pred %c;
.reg .f32 %f<9>; ld.param.u64 %y0, [p]; ld.param.u64 %y1, [q]; mov.u32 %r1, 0; mov.f32 %f0, 0f00000000;
L: add.f32 %f0, %f0, 0f3f800000; cvt.rzi.u32.f32 %r2, %f0; st.global.u32 [%y1], %r2; ld.global.u32 %r3, [%y0];
add.u32 %r1, %r1, 1; setp.lt.u32 %c, %r1, %r3; @%c bra L; ret; }}"""  # as many rounds as p[0] says; q[0] counts them


def test_stores_matter_where_a_loaded_value_does() -> None:
    """A loop as long as one buffer says, and sums in another: they are left out, unless both are one."""
    two = ptxsim.load(TWO)

    def rounds(p: ptxsim.Array, q: ptxsim.Array, values: bool) -> tuple[int, list[str]]:
        traffic = bounds.Traffic()
        two.launch(1, 32, [p, q], observers=[traffic], checks=False, values=values)
        found = slicing.slice_of(two.program, two.machine.origins, two.machine.runs._same)
        stores = [two.program.code[pc].opcode for pc in found.blind]
        return max(traffic.executions.values()), stores

    def array(first: int) -> ptxsim.Array:
        return ptxsim.Array(np.full(8, first, np.uint32))

    for values in (True, False):
        assert rounds(array(5), array(0), values) == (5, ["st"])
        both = array(5)
        assert rounds(both, both, values) == (1, [])  # its own count is never above the rounds
    assert rounds(array(3), array(0), False) == (3, ["st"])


def test_values_are_needed_for_checks() -> None:
    with fails("values=False goes with checks=False only"):
        kernel(LOOP).launch(1, 64, [ptxsim.Array(np.zeros(4096, F4))], values=False)
