"""No state space coincides with another: a pointer that is used in the wrong one is a fault that
says so.
"""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n) {
    .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<16>;
    .shared .align 16 .b8 s[512];
    .local .align 16 .b8 a[64];
    ld.param.u64 %d1, [out];
    mov.u32 %r1, s;
    mov.u64 %d2, s;
    cvta.shared.u64 %d3, %d2;
    mov.u64 %d4, a;
    cvta.local.u64 %d5, %d4;
    mov.u32 %r2, 9;
    st.shared.u32 [s], %r2;
    st.local.u32 [a], %r2;
    st.global.u32 [%d1+4], %r2;
"""
CUT = "cvt.u32.u64 %r4, {};"
WRONG = {
    "generic shared, cut": (CUT.format("%d3") + "ld.shared.u32 %r3, [%r4];", "generic address of shared memory cut"),
    "generic shared, whole": ("ld.shared.u32 %r3, [%d3];", "shared memory must stand"),
    "generic local, cut": (CUT.format("%d5") + "ld.local.u32 %r3, [%r4];", "generic address of local memory cut to 32"),
    "local as shared": (CUT.format("%d5") + "ld.shared.u32 %r3, [%r4];", "generic address of local memory cut to 32"),
    "global, cut": (CUT.format("%d1") + "ld.shared.u32 %r3, [%r4];", "address of global memory cut to 32 bits"),
    "shared as generic": ("ld.u32 %r3, [%d2];", "an offset in shared memory, not a generic address"),
    "generic shared as global": ("ld.global.u32 %r3, [%d3];", "a generic address of shared memory"),
    "generic local as global": ("st.global.u32 [%d5], %r2;", "a generic address of local memory"),
    "store, too": (CUT.format("%d3") + "st.shared.u32 [%r4], %r2;", "cut to 32 bits: __cvta_generic_to_shared"),
    "atomic": (CUT.format("%d3") + "red.shared.add.u32 [%r4], %r2;", "generic address of shared memory cut to 32"),
}  # fmt: skip
RIGHT = {
    "generic": "ld.u32 %r3, [%d3];",
    "back again": "cvta.to.shared.u64 %d6, %d3; cvt.u32.u64 %r4, %d6; ld.shared.u32 %r3, [%r4];",
    "an offset": "ld.shared.u32 %r3, [%r1];",
    "an offset in 64 bits": "ld.shared.u32 %r3, [%d2];",
    "local": "ld.u32 %r3, [%d5];",
    "local, back again": "cvta.to.local.u64 %d6, %d5; ld.local.u32 %r3, [%d6];",
    "global": "cvta.global.u64 %d6, %d1; ld.u32 %r3, [%d6+4];",
    "asked for": "isspacep.shared::cta %p1, %d3; selp.b32 %r3, 9, 0, %p1;",
    "rank": "getctarank.u64 %r4, %d3; add.u32 %r3, %r4, 9;",
}  # fmt: skip


def launch(body):
    out = ptxsim.Array(np.zeros(64, np.uint32), "out")
    ptxsim.load(f"{HEAD}\n{body}\nst.global.u32 [%d1], %r3;\nret;\n}}\n").launch(1, 1, [out, 1])
    return int(out.numpy()[0])


@pytest.mark.parametrize(("body", "message"), WRONG.values(), ids=WRONG)
def test_a_pointer_in_the_wrong_space_is_a_fault(body, message):
    with pytest.raises(ptxsim.KernelFault, match=f"out-of-bounds .*{message}"):
        launch(body)


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_pointer_in_its_own_space_is_silent(body):
    assert launch(body) == 9
