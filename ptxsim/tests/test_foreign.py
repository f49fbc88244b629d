"""Kernels in other people's styles (kernels/foreign.cu) for two architectures, compared with the
same in Python.
"""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest
from running import fails

import ptxsim

BLOCK = 128
TILES = 8
U32, I32 = np.uint32, np.int32


@pytest.fixture(params=["sm_80", "sm_90a"])
def kernel(request, compiled):
    """A function from an entry's name to a kernel of foreign.cu."""
    return lambda entry: compiled("foreign.cu", entry, request.param)


@pytest.fixture
def kernel90(compiled):
    """A function from an entry's name to a kernel of foreign_sm90.cu."""
    return lambda entry: compiled("foreign_sm90.cu", entry)


def ints(count=BLOCK, high=1000, seed=1):
    return np.random.default_rng(seed).integers(0, high, count).astype(I32)


def wrap(value: int) -> int:
    """Convert to a 32-bit signed integer."""
    return (int(value) + 2**31) % 2**32 - 2**31


def launch(kernel, entry, inputs, out=None, block=BLOCK, args=()):
    result = ptxsim.Array(np.zeros(BLOCK, I32) if out is None else out, "out")
    kernel(entry).launch(1, block, [result, ptxsim.Array(inputs, "in"), *args])
    return result.numpy()


def check(kernel, entry, count, expected, args=()):
    """`expected(x, i)` is what thread i leaves, of all `count` inputs."""
    inputs = ints(count)
    got = launch(kernel, entry, inputs, args=args)
    assert got.tolist() == [wrap(expected(inputs.tolist(), i)) for i in range(BLOCK)]


def many(x):
    bits = (x + 128) % 256 - 128 + (~x % 2**32 >> 28) + bool(x & 4)
    return x + int(x * 0.5 * 2) + int(x * 1.5) + (x * 100 >> 3) + (x - 500) * 3 + bits


def stack(x):
    return functools.reduce(lambda total, j: wrap(total * 2 + j * x), reversed(range(x % 9 + 1)), 0)


def constants(x):
    return (
        functools.reduce(lambda total, j: total * 7 + [3, 1, 4, 1, 5][(j + x) % 5], range(5), 5) + x
    )


def group_algorithms(x, i):
    tile, warp = x[i // 8 * 8 :][:8], x[i // 32 * 32 :][:32]
    r = (
        sum(tile)
        + 1000 * max(tile)
        + sum(v % 7 for v in tile[: i % 8 + 1])
        + tile[3] * 3
        + i // 8
        + i
    )
    if x[i] % 3 == 0:
        some = [j for j, v in enumerate(warp) if v % 3 == 0]
        r += 7 * len(some) + some.index(i % 32) + warp[some[0]]
    r += 100 * sum(v % 2 == x[i] % 2 for v in tile)
    return r + [j for j in range(8) if tile[j] % 3 == x[i] % 3].index(i % 8)


def arrivals(x, i):
    return x[(i + 1) % 128] + (1000 * x[(64 + (i + 1) % 64 + 1) % 128] if i >= 64 else 0)


def ring(x, i):
    return (
        sum(x[96 * tile + (i * 7 + tile) % 96] * (tile + 1) for tile in range(TILES))
        if i < 96
        else 0
    )


def pipelined(x, i):
    return sum(x[512 * stage + 4 * (127 - i) + j] * (j + 1) for stage in range(4) for j in range(4))


# entry: how many inputs, and what thread i leaves
COMPUTED = {
    "virtuals": (
        128,
        lambda x, i: (x[i] % 20) ** 2 * 10 + 4 if x[i] & 1 else (x[i] % 30) ** 2 // 2 * 10,
    ),
    "pointers_to_functions": (128, lambda x, i: [2 * x[i], x[i] * x[i], -x[i]][x[i] % 3]),
    "big_structs": (128, lambda x, i: x[i] + (x[i] % 12) ** 2 + x[i]),
    "many_arguments": (128, lambda x, i: many(x[i])),
    "variable_stack": (128, lambda x, i: stack(x[i])),
    "constants": (128, lambda x, i: constants(x[i])),
    "cache_hints": (128, lambda x, i: 255 * x[i]),
    "group_algorithms": (128, group_algorithms),
    "barriers_of_libcu": (128, lambda x, i: 6 + 10 * x[(i + 37) % 128]),
    "copies_by_barrier": (512, lambda x, i: x[511 - i] + x[i * 3]),
    "pipelines_of_libcu": (512, lambda x, i: sum(x[j * 128 + 127 - i] * (j + 1) for j in range(4))),
    "group_copies": (256, lambda x, i: x[i] * 2 + x[255 - i]),
    "pipelined": (4 * 512, pipelined, I32(4)),
}
COMPUTED_90 = {
    "ring": (96 * TILES, ring, I32(TILES), I32(0)),
    "back_in_bulk": (128, lambda x, i: x[127 - i] + 1),
    "arrivals": (128, arrivals),
    "wrappers": (256, lambda x, i: x[i] - x[255 - i]),
    "cluster_of_one": (128, lambda x, i: x[127 - i] + 1000),
    "dependent_launch": (128, lambda x, i: 3 * x[i]),
}


@pytest.mark.parametrize("entry", COMPUTED)
def test_what_each_thread_computes(kernel, entry):
    count, expected, *args = COMPUTED[entry]
    check(kernel, entry, count, expected, args)


@pytest.mark.parametrize("entry", COMPUTED_90)
def test_what_each_thread_computes_on_sm_90(kernel90, entry):
    count, expected, *args = COMPUTED_90[entry]
    check(kernel90, entry, count, expected, args)


# asserts and output


def test_asserts_that_hold_and_output(kernel, capsys):
    check(kernel, "asserts", BLOCK, lambda x, i: x[i] + 1)
    x = ints()[3]
    assert capsys.readouterr().out == f"thread 3 has {x}, {x * 0.5:5.2f} and text\n"


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("asserts", -5, "x >= 0"),
        ("asserts", 2000, 'x < 1000 && "too large"'),
        ("traps", 77, "trap"),
    ],
)
def test_an_assert_or_a_trap_names_itself_and_the_thread(kernel, entry, value, message):
    x = ints(high=70)
    x[70] = value
    with fails(rf"foreign\.cu:\d+: .*thread \(70, 0, 0\).*{re.escape(message)}"):
        launch(kernel, entry, x)


# arithmetic


def test_functions_of_floats(kernel):
    x = np.random.default_rng(3).uniform(-4, 4, BLOCK).astype(np.float32)
    got = launch(kernel, "special_functions", x, np.zeros(BLOCK, np.float32))
    v = x.astype(np.float64)
    erf, cbrt = np.vectorize(math.erf), np.cbrt
    want = 2 * (np.exp(v) + np.log(v + 9) + np.sin(v) + np.cos(v) + (v + 9) ** 1.5) + v / 3
    want += np.tanh(v) + erf(v) + cbrt(v) + np.arctan2(v, 2)
    want += (
        1 / np.sqrt(v + 9)
        + np.sqrt(v + 9)
        + np.fmod(v, np.float64(np.float32(0.7)))
        + np.floor(v)
        + np.ceil(v)
    )
    want += np.rint(v) + np.trunc(v) + np.abs(v) + v * v + 1
    want += np.exp2(v) + np.log2(v + 9) + np.hypot(v, 3) + np.maximum(v, 0.5) + np.minimum(v, 0.5)
    want += np.copysign(2, v) + v * 8 + np.sin(np.pi * v)
    want += v + 0.1 + v * 0.1 + v / 0.3 + 1 / (v + 9) + np.clip(v, 0, 1) + np.sqrt(v + 9)
    assert np.allclose(got, want, rtol=2e-5, atol=2e-4)


def test_timers_go_on(kernel):
    x = ints()
    assert (launch(kernel, "timers", x, np.zeros(BLOCK, np.int64)) == x + 7).all()


# faults that only sm_90 has


@pytest.mark.parametrize(
    ("entry", "count", "args", "message"),
    [
        (
            "ring",
            96 * TILES,
            (TILES, 1),
            r"foreign_sm90\.cu.*the phase of this mbarrier waits for 16 bytes of copies",
        ),
        (
            "ring",
            96 * TILES,
            (TILES, 2),
            r"that nobody wrote|a bulk copy of thread \(0, 0, 0\), at foreign_sm90",
        ),
        (
            "ring",
            96 * TILES,
            (TILES, 3),
            r"foreign_sm90\.cu.*this mbarrier waits for 96 of 96 arrivals",
        ),
        ("ring", 96 * TILES - 4, (TILES, 0), "out-of-bounds global"),
        ("cluster_of_two", 128, (), r"grid \(1, 1, 1\) is no multiple of its cluster \(2, 1, 1\)"),
        (
            "with_a_tensor_map",
            128,
            (),
            r"foreign_sm90\.cu:\d+: .*there is no tensor map at generic address",
        ),
    ],
)
def test_faults_on_sm_90(kernel90, entry, count, args, message):
    with fails(message):
        launch(kernel90, entry, ints(count), args=[I32(value) for value in args])
