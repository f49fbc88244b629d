"""Local memory is counted as the machine code has it."""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim
from ptxsim.ptx.sass import assemble

HEAD = """
.version 8.0
.target sm_90a
.address_size 64
.file 1 "k.cu"
.visible .entry k(.param .u64 out, .param .u32 n) {
    .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .pred %p;
    .local .align 16 .b8 a[256];
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %d2, %r2, 4;
    add.s64 %d3, %d1, %d2;
    mov.u64 %d4, a;
    mul.wide.u32 %d5, %r1, 4;
    add.s64 %d6, %d4, %d5;
    and.b32 %r4, %r2, 7;
    mul.wide.u32 %d7, %r4, 4;
    add.s64 %d8, %d4, %d7;
    .loc 1 5 0
"""
NAME = "l1tex__t_{}_pipe_lsu_mem_local_op_{}.sum"
# requests and sectors of loads, and of stores, by two warps
COUNTED = {
    "one word": ("st.local.u32 [%d6], %r2; ld.local.u32 %r3, [%d6];", (2, 8, 2, 8)),
    "eight rows": ("st.local.u32 [%d8], %r2; ld.local.u32 %r3, [%d8];", (2, 64, 2, 64)),
    "four words": ("st.local.v4.u32 [%d4], {%r2, %r2, %r2, %r2}; ld.local.u32 %r3, [a+12];", (2, 8, 2, 32)),
    "a byte": ("st.local.u8 [%d6], %r2; ld.local.u8 %r3, [%d6];", (2, 8, 2, 8)),
    "generic": ("cvta.local.u64 %d9, %d6; st.u32 [%d9], %r2; ld.local.u32 %r3, [%d6];", (2, 8, 2, 8)),
    "half of a warp": (
        "setp.lt.u32 %p, %r2, 16; mov.u32 %r3, 0; @%p st.local.u32 [%d6], %r2; @%p ld.local.u32 %r3, [%d6];",
        (1, 2, 1, 2),
    ),
}  # fmt: skip


def launched(body, cubin=None):
    text = (
        body
        if body.lstrip().startswith(".version")
        else f"{HEAD}\n{body}\nst.global.u32 [%d3], %r3;\nret;\n}}\n"
    )
    kernel = ptxsim.load(text, cubin=cubin)
    counters = ptxsim.Counters()
    kernel.launch(1, 64, [ptxsim.Array(np.zeros(64, np.uint32)), 3], observers=[counters])
    return kernel, counters


@pytest.mark.parametrize(("body", "expected"), COUNTED.values(), ids=COUNTED)
def test_sectors_of_local_memory(body, expected):
    kernel, counters = launched(body)
    totals = counters.totals()
    found = [
        totals[NAME.format(what, kind)] for kind in ("ld", "st") for what in ("requests", "sectors")
    ]
    assert tuple(found) == expected
    # not among those of global memory
    assert totals["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 0
    predicted = ptxsim.predict(kernel, 4, 64, [ptxsim.Array(np.zeros(64, np.uint32)), 3]).totals
    assert predicted[NAME.format("sectors", "st")] == 4 * expected[3]


def test_what_functions_pass_is_not_counted():
    callee = """
.func (.param .b32 y) same(.param .b32 x) { .reg .b32 %q; ld.param.b32 %q, [x]; st.param.b32 [y], %q; ret; }
.visible .entry"""
    body = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r2; call (y), same, (x); ld.param.b32 %r3, [y]; }"
    text = f"{HEAD}\n{body}\nst.global.u32 [%d3], %r3;\nret;\n}}\n".replace(
        "\n.visible .entry", callee, 1
    )
    assert NAME.format("sectors", "st") not in launched(text)[1].totals()


@pytest.mark.parametrize(("at", "kept"), [("a+4", False), ("%d6", True)])
def test_an_array_that_ptxas_keeps_in_registers_is_not_counted(at, kept, tmp_path):
    body = f"st.local.u32 [a], %r1;\nst.local.u32 [a+4], %r2;\nst.local.u32 [a+12], %r2;\nld.local.u32 %r3, [{at}];"
    source = tmp_path / "k.ptx"
    source.write_text(f"{HEAD.strip()}\n{body}\nst.global.u32 [%d3], %r3;\nret;\n}}\n")
    try:
        assemble(source, tmp_path / "k.cubin")
    except ptxsim.PtxsimError as error:
        pytest.skip(str(error))
    totals = launched(source.read_text(), tmp_path / "k.cubin")[1].totals()
    assert (NAME.format("sectors", "ld") in totals) == kept


def test_a_line_says_what_it_does_to_local_memory():
    _, counters = launched(
        "st.local.u32 [%d8], %r2; st.local.u32 [%d8], %r1; ld.local.u32 %r3, [%d8];"
    )
    (lines,) = ptxsim.annotate.costs(counters).values()
    (cost,) = (cost for cost in lines.values() if cost.local.stats)
    assert str(cost.local) == "local memory: 2 loads, 4 stores, 192 sectors"
    assert not cost.excess_sectors
