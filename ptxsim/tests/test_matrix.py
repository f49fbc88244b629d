"""ldmatrix and mma.sync, with fragments laid out thread by thread as the PTX ISA's figures show."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptxsim

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
LANES = range(32)


def launch(declare: str, lines: str, inputs: list[np.ndarray], outputs: int, warps: int = 1) -> np.ndarray:
    """Each thread loads its words of the inputs to %a0, %a1 ...; leaves words in %d0 ...; result [thread, word]."""
    words = sum(x.shape[1] for x in inputs)
    loads = []
    row = np.concatenate([x.astype(np.uint32) for x in inputs], axis=1)
    for i in range(words):
        loads.append(f"ld.global.b32 %a{i}, [%p0+{4 * i}];")
    stores = [f"st.global.b32 [%p1+{4 * i}], %d{i};" for i in range(outputs)]
    text = HEADER + "\n".join(
        [
            ".visible .entry k(.param .u64 in, .param .u64 out) {",
            f".reg .b32 %a<{max(words, 1)}>, %d<{outputs}>, %t, %s<8>; .reg .b64 %p<2>;",
            declare,
            "mov.u32 %t, %tid.x; ld.param.u64 %p0, [in]; ld.param.u64 %p1, [out];",
            f"mad.wide.u32 %p0, %t, {4 * words}, %p0; mad.wide.u32 %p1, %t, {4 * outputs}, %p1;",
            *loads,
            lines,
            *stores,
            "ret; }",
        ]
    )
    out = ptxsim.Array(np.zeros((32 * warps, outputs), np.uint32))
    ptxsim.load(text).launch(1, 32 * warps, [ptxsim.Array(np.tile(row, (warps, 1))), out])
    return out.numpy()


def pairs(low, high):
    return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16


@pytest.mark.parametrize("warps", [1, 3])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, trans, warps):
    matrices = np.random.default_rng(0).integers(0, 65536, (count, 8, 8)).astype(np.uint16)
    words = np.zeros((32, 4), np.uint32)  # thread 8i+j stores row j of matrix i
    rows = np.ascontiguousarray(matrices).view(np.uint32).reshape(8 * count, 4)
    words[: 8 * count] = rows
    registers = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    lines = f"""
        mov.u32 %s0, buffer; mad.lo.u32 %s0, %t, 16, %s0; st.shared.v4.b32 [%s0], {{%a0, %a1, %a2, %a3}};
        bar.sync 0; ldmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 {registers}, [%s0];"""
    got = launch(f".shared .align 16 .b8 buffer[{512 * warps}];", lines, [words], count, warps)
    for lane in range(32 * warps):
        for i in range(count):
            m = matrices[i].T if trans else matrices[i]
            row, column = lane % 32 // 4, lane % 4 * 2
            assert got[lane, i] == int(m[row, column]) | int(m[row, column + 1]) << 16


def fragments_16bit(a, b, depth):
    """A (16 x depth) and B (depth x 8) as the words of each thread."""
    group, place = np.array([lane // 4 for lane in LANES]), np.array([lane % 4 * 2 for lane in LANES])
    words_a = []
    for k in range(0, depth, 8):
        for row in (0, 8):
            words_a.append(pairs(a[group + row, place + k], a[group + row, place + k + 1]))
    words_b = [pairs(b[place + k, group], b[place + k + 1, group]) for k in range(0, depth, 8)]
    return np.stack(words_a, axis=1), np.stack(words_b, axis=1)


def accumulator(c):
    group, place = np.array([lane // 4 for lane in LANES]), np.array([lane % 4 * 2 for lane in LANES])
    return np.stack([c[group, place], c[group, place + 1], c[group + 8, place], c[group + 8, place + 1]], axis=1)


DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def eighths(rng, *shape: int) -> np.ndarray:
    """Numbers of which sums of products are exact; what is rounded, and how, is in test_tensor_cores.py."""
    return rng.integers(-32, 33, shape) / 8


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("name", DTYPES)
def test_mma_16_bit(name, depth):
    rng = np.random.default_rng(1)
    a, b = eighths(rng, 16, depth).astype(DTYPES[name]), eighths(rng, depth, 8).astype(DTYPES[name])
    c = eighths(rng, 16, 8).astype(np.float32)
    words_a, words_b = fragments_16bit(a, b, depth)
    n, m = words_a.shape[1], words_b.shape[1]
    reg = lambda first, count: "{" + ", ".join(f"%a{first + i}" for i in range(count)) + "}"  # noqa: E731
    lines = (
        f"mma.sync.aligned.m16n8k{depth}.row.col.f32.{name}.{name}.f32 {{%d0, %d1, %d2, %d3}}, "
        f"{reg(0, n)}, {reg(n, m)}, {reg(n + m, 4)};"
    )
    got = launch("", lines, [words_a, words_b, accumulator(c).view(np.uint32)], 4, warps=2)
    want = (a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float32)
    assert (got.view(np.float32) == np.tile(accumulator(want), (2, 1))).all()


def test_mma_f16_accumulators():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(16, 16)).astype(np.float16), rng.normal(size=(16, 8)).astype(np.float16)
    c = rng.normal(size=(16, 8)).astype(np.float16)
    words_a, words_b = fragments_16bit(a, b, 16)
    four = accumulator(c)
    words_c = np.stack([pairs(four[:, 0], four[:, 1]), pairs(four[:, 2], four[:, 3])], axis=1)
    lines = (
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%d0, %d1}, {%a0, %a1, %a2, %a3}, {%a4, %a5}, {%a6, %a7};"
    )
    got = launch("", lines, [words_a, words_b, words_c], 2)
    want = accumulator((a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float16))
    assert (got[:, 0] == pairs(want[:, 0], want[:, 1])).all() and (got[:, 1] == pairs(want[:, 2], want[:, 3])).all()


@pytest.mark.parametrize("depth", [4, 8])
def test_mma_tf32_uses_the_upper_19_bits(depth):
    rng = np.random.default_rng(3)
    a, b = (eighths(rng, *shape).astype(np.float32) for shape in ((16, depth), (depth, 8)))
    a, b = ((x.view(np.uint32) | rng.integers(0, 1 << 13, x.shape, np.uint32)).view(np.float32) for x in (a, b))
    group, place = np.array([lane // 4 for lane in LANES]), np.array([lane % 4 for lane in LANES])
    words_a = np.stack([a[group + r, place + k] for k in range(0, depth, 4) for r in (0, 8)], axis=1)
    words_b = np.stack([b[place + k, group] for k in range(0, depth, 4)], axis=1)
    zero = np.zeros((32, 4), np.uint32)
    n, m = words_a.shape[1], words_b.shape[1]
    reg = lambda first, count: "{" + ", ".join(f"%a{first + i}" for i in range(count)) + "}"  # noqa: E731
    lines = (
        f"mma.sync.aligned.m16n8k{depth}.row.col.f32.tf32.tf32.f32 {{%d0, %d1, %d2, %d3}}, "
        f"{reg(0, n)}, {reg(n, m)}, {reg(n + m, 4)};"
    )
    got = launch("", lines, [words_a.view(np.uint32), words_b.view(np.uint32), zero], 4)
    cut = lambda x: (x.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64)  # noqa: E731
    assert (got.view(np.float32) == accumulator((cut(a) @ cut(b)).astype(np.float32))).all()


def test_movmatrix():
    words = np.arange(32, dtype=np.uint32)[:, None] * 0x00020002 + 0x00010000
    got = launch("", "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;", [words], 1)
    matrix = np.arange(64).reshape(8, 8).T
    want = [int(matrix[lane // 4, lane % 4 * 2]) | int(matrix[lane // 4, lane % 4 * 2 + 1]) << 16 for lane in LANES]
    assert got[:, 0].tolist() == want


def test_a_part_of_a_warp_cannot_execute_mma():
    lines = (
        "setp.lt.u32 %c, %t, 7; @%c mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, "
        "{%a0, %a1}, {%a2}, {%a3, %a3, %a3, %a3};"
    )
    with pytest.raises(ptxsim.PtxsimError, match="not all threads of the warp are here"):
        launch(".reg .pred %c;", lines, [np.zeros((32, 4), np.uint32)], 4)
