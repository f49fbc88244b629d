"""ldmatrix and mma.sync, with fragments laid out thread by thread as the PTX ISA's figures show."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from running import execute

import ptxsim


def launch(
    lines: str, inputs: list[np.ndarray], outputs: int, warps: int = 1, declare: str = ""
) -> np.ndarray:
    """Each thread has its words of the inputs in %i0, %i1 ... and leaves words in %o0 ...; result
    [thread, word].
    """
    columns = np.tile(np.concatenate([x.astype(np.uint32) for x in inputs], axis=1), (warps, 1)).T
    return np.stack(execute(lines, list(columns), [32] * outputs, declare), axis=1)


def pairs(low, high):
    return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16


@pytest.mark.parametrize("warps", [1, 3])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, trans, warps):
    matrices = np.random.default_rng(0).integers(0, 65536, (count, 8, 8)).astype(np.uint16)
    stored = np.zeros((32, 4), np.uint32)  # thread 8i+j stores row j of matrix i
    stored[: 8 * count] = matrices.view(np.uint32).reshape(8 * count, 4)
    to = registers(0, count, "o")
    lines = f"""
        mov.u32 %s, buffer; mad.lo.u32 %s, %t, 16, %s; st.shared.v4.b32 [%s], {{%i0, %i1, %i2, %i3}};
        bar.sync 0; ldmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 {to}, [%s];"""
    got = launch(lines, [stored], count, warps, ".reg .b32 %s; .shared .align 16 .b8 buffer[512];")
    for lane in range(32 * warps):
        for i in range(count):
            m = matrices[i].T if trans else matrices[i]
            row, column = lane % 32 // 4, lane % 4 * 2
            assert got[lane, i] == int(m[row, column]) | int(m[row, column + 1]) << 16


def places(rows: int, columns: int, lane: np.ndarray, width: int):
    """Rows and columns of the elements of each word of A (rows x columns, 16 rows) or of B's
    transpose (8 rows).
    """
    group, place = lane // 4, lane % 4 * width
    return [
        (group + row, place + k) for k in range(0, columns, 4 * width) for row in range(0, rows, 8)
    ]


def words(x: np.ndarray) -> np.ndarray:
    """A matrix as the words of each thread."""
    width = 4 // x.dtype.itemsize
    found = []
    for row, column in places(*x.shape, np.arange(32), width):
        one = x[row, column].view(f"u{x.dtype.itemsize}").astype(np.uint32)
        found.append(one if width == 1 else pairs(x[row, column], x[row, column + 1]))
    return np.stack(found, axis=1)


def accumulator(c):
    group, place = np.arange(32) // 4, np.arange(32) % 4 * 2
    return np.stack(
        [c[group, place], c[group, place + 1], c[group + 8, place], c[group + 8, place + 1]], axis=1
    )


def registers(first: int, count: int, name: str = "i") -> str:
    return "{" + ", ".join(f"%{name}{first + i}" for i in range(count)) + "}"


def product(kind: str, a, b, c, outputs: int = 4) -> np.ndarray:
    """The words of D, by two warps; `kind` names the shape and the types."""
    inputs = [words(a), words(np.ascontiguousarray(b.T)), c]
    first, listed = 0, [registers(0, outputs, "o")]
    for x in inputs:
        listed.append(registers(first, x.shape[1]))
        first += x.shape[1]
    return launch(f"mma.sync.aligned.{kind} {', '.join(listed)};", inputs, outputs, warps=2)


def eighths(rng, *shape: int) -> np.ndarray:
    """Numbers of which sums of products are exact; what is rounded, and how, is in
    test_tensor_cores.py.
    """
    return rng.integers(-32, 33, shape) / 8


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(
    ("name", "dtype", "step"),
    [("bf16", ml_dtypes.bfloat16, 8), ("f16", np.float16, 8), ("tf32", np.float32, 4)],
)
def test_mma(name, dtype, step, steps):
    rng, depth = np.random.default_rng(1), step * steps
    a, b = eighths(rng, 16, depth).astype(dtype), eighths(rng, depth, 8).astype(dtype)
    c = eighths(rng, 16, 8).astype(np.float32)
    want = accumulator((a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float32))
    if name == "tf32":  # the upper 19 bits count
        a, b = (
            (x.view(np.uint32) | rng.integers(0, 1 << 13, x.shape, np.uint32)).view(np.float32)
            for x in (a, b)
        )
    kind = f"m16n8k{depth}.row.col.f32.{name}.{name}.f32"
    got = product(kind, a, b, accumulator(c).view(np.uint32))
    assert (got.view(np.float32) == np.tile(want, (2, 1))).all()


def test_mma_f16_accumulators():
    rng = np.random.default_rng(2)
    a, b, c = (eighths(rng, *shape).astype(np.float16) for shape in ((16, 16), (16, 8), (16, 8)))

    def packed(x):
        four = accumulator(x)
        return np.stack([pairs(four[:, 0], four[:, 1]), pairs(four[:, 2], four[:, 3])], axis=1)

    got = product("m16n8k16.row.col.f16.f16.f16.f16", a, b, packed(c), 2)
    want = packed((a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float16))
    assert (got == np.tile(want, (2, 1))).all()


def test_movmatrix():
    given = np.arange(32, dtype=np.uint32)[:, None] * 0x00020002 + 0x00010000
    got = launch("movmatrix.sync.aligned.m8n8.trans.b16 %o0, %i0;", [given], 1)
    matrix = np.arange(64).reshape(8, 8).T
    want = [
        int(matrix[lane // 4, lane % 4 * 2]) | int(matrix[lane // 4, lane % 4 * 2 + 1]) << 16
        for lane in range(32)
    ]
    assert got[:, 0].tolist() == want


def test_a_part_of_a_warp_cannot_execute_mma():
    lines = (
        "setp.lt.u32 %p, %t, 7; @%p mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%o0, %o1, %o2, %o3}, "
        "{%i0, %i1}, {%i2}, {%i3, %i3, %i3, %i3};"
    )
    with pytest.raises(ptxsim.PtxsimError, match="not all threads of the warp are here"):
        launch(lines, [np.zeros((32, 4), np.uint32)], 4)
