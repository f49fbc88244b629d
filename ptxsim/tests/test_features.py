"""Ordinary CUDA, compiled by nvcc, compared with the same in Python."""

from __future__ import annotations

import numpy as np
import pytest
from running import fails

import ptxsim

N = 256


def run(compiled, entry, inputs, out, block=128, **options):
    result = ptxsim.Array(out, "out")
    grid = -(-len(inputs) // block)
    compiled("features.cu", entry).launch(grid, block, [result, ptxsim.Array(inputs)], **options)
    return result.numpy()


def ints(low=0, high=1000, seed=0):
    return np.random.default_rng(seed).integers(low, high, N).astype(np.int32)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def collatz(n):
    steps = 0
    while n != 1:
        n, steps = 3 * n + 1 if n % 2 else n // 2, steps + 1
    return steps


def calls(x):
    return collatz(x + 1) if x % 3 else collatz(27) - 1


def nested(x):
    total = 0
    for i in range(20):
        if i > x:
            break
        if i % 3 == 0:
            total += i if x & 1 else -i
            continue
        total += 100
        if total > 700:
            return -total
    return total


def switches(x):
    cases = [
        x * 3,
        x ^ 77,
        x - 1000,
        x.bit_count(),
        32 - x.bit_length(),
        int(f"{x:032b}"[::-1], 2),
        x // 7,
        -x,
        5,
    ]
    return cases[x % 9]


def inline_scopes(x):
    return (x + 5 if x > 10 else 0) * 1000000 + (x if x < 10 else x + 1000)


@pytest.mark.parametrize(
    ("entry", "inputs", "expected", "options"),
    [
        ("recursion", ints(0, 12), fibonacci, {}),
        ("switches", ints(), switches, {}),
        ("inline_scopes", ints(0, 20), inline_scopes, {}),
        ("nested", ints(0, 25), nested, {}),
        ("nested", ints(0, 25)[:90], nested, {"block": 45}),  # no multiple of a warp
        *[
            ("calls", ints(0, 500), calls, {"limits": ptxsim.Limits(lanes=lanes)})
            for lanes in (128, 256, 4096)
        ],
    ],
)
def test_what_each_thread_computes(compiled, entry, inputs, expected, options):
    got = run(compiled, entry, inputs, np.zeros(len(inputs), np.int32), **options)
    want = np.array([expected(int(v)) for v in inputs], np.int64).astype(np.int32)
    assert (got == want).all(), np.flatnonzero(got != want)[:5]


def test_recursion_has_a_limit(compiled):
    with fails("calls nest deeper than 8"):
        run(
            compiled,
            "recursion",
            ints(20, 21),
            np.zeros(N, np.int32),
            limits=ptxsim.Limits(depth=8),
        )


def test_generic_addresses_into_several_spaces(compiled):
    x = ints()
    got = run(compiled, "generic", x, np.zeros(N, np.int32))
    lane = np.arange(N)
    expected = np.where(x % 3 == 0, x[lane ^ 1], np.where(x % 3 == 1, 9, x))
    assert (got == expected).all()


def test_a_lock_between_lanes(compiled):
    x = ints()[:40]  # of two warps
    got = run(compiled, "lock", x, np.zeros(2, np.int32), block=40)
    assert got[0] == x.sum()


def test_named_barriers_with_arrive(compiled):
    x = ints()
    got = run(compiled, "producer", x, np.zeros(N, np.int32)).reshape(2, 128)
    assert (got[:, 64:] == x.reshape(2, 128)[:, :64][:, ::-1] * 2).all()
    assert (got[:, :64] == 0).all()


@pytest.mark.parametrize(
    ("array", "texture", "first", "last"),
    [
        ({}, {}, 2, 102),  # out of range it gives zero
        # at an aligned address before its array, as CUDA asks of linear memory; its end is given in
        # bytes
        ({"offset": 48}, {"align": 256, "nbytes": 90 * 16}, 5, 95),
    ],
)
def test_texture_fetch(compiled, array, texture, first, last):
    data = np.random.default_rng(0).random((100, 4), np.float32)
    out = ptxsim.Array(np.full((128, 4), np.nan, np.float32))
    given = ptxsim.Texture(ptxsim.Array(data, **array), 4, **texture)
    compiled("features.cu", "texture").launch(1, 128, [out, given])
    got = out.numpy()
    assert (got[first:last] == data[: last - first]).all()
    assert (got[last:] == 0).all() and (texture or (got[:first] == 0).all())


def test_one_warp_waits_for_another(compiled):
    out, flag = ptxsim.Array(np.zeros(64, np.int32)), ptxsim.Array(np.zeros(1, np.int32))
    compiled("features.cu", "spin_between_warps").launch(1, 64, [out, flag])
    assert out.numpy().tolist() == [1] * 32 + [2] * 32


# Kernels made of libraries that this project does not use: CUB, cooperative groups


X = np.random.default_rng(0).integers(-1000, 1000, 1024).astype(np.int32)


def computed(compiled, entry, grid, block, out, *args):
    result = ptxsim.Array(out)
    arguments = [ptxsim.Array(a) if isinstance(a, np.ndarray) else a for a in args]
    compiled("libraries.cu", entry).launch(grid, block, [result, *arguments])
    return result.numpy()


@pytest.mark.parametrize(
    ("entry", "blocks", "want"),
    [
        ("reduce", 8, X.reshape(8, 128).sum(1)),
        ("scan", 8, X.reshape(8, 128).cumsum(1).reshape(-1)),
        ("sort", 2, np.sort(X.reshape(2, 512), 1).reshape(-1)),
        ("coop", 8, np.repeat(X.reshape(-1, 16).sum(1), 16) + 32),
    ],
)
def test_cub_and_cooperative_groups(compiled, entry, blocks, want):
    assert (computed(compiled, entry, blocks, 128, np.zeros(len(want), np.int32), X) == want).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_cooperative_groups_of_several_warps(compiled, arch):
    """Their barriers lie in shared memory that the driver reserves, next to the kernel's own."""
    out = ptxsim.Array(np.zeros(1024, np.int32))
    compiled("libraries.cu", "coop_wide", arch).launch(4, 256, [out, ptxsim.Array(X)])
    assert (out.numpy() == np.repeat(X.reshape(-1, 64).sum(1), 64) + X).all()


def test_memory_of_the_device_s_heap(compiled):
    out = computed(compiled, "heap", 8, 128, np.zeros(2048, np.int32), X, 0)
    assert (out[:1024] == 2 * X + 3).all() and (out[1024:] == 1).all()


@pytest.mark.parametrize(
    ("fault", "message"),
    {
        1: r"out-of-bounds global store of 4 bytes at .*: 0 bytes past the end of memory of malloc \(16 bytes\)",
        2: "out-of-bounds global load of 4 bytes at .*: 0 bytes into memory of malloc that was freed",
        3: "free of global address 0x[0-9a-f]+: it has been freed already",
    }.items(),
)
def test_faults_with_memory_of_the_heap_are_found(compiled, fault, message):
    with fails(message):
        computed(compiled, "heap", 1, 128, np.zeros(2048, np.int32), X, fault)


@pytest.mark.parametrize("lanes", [64, 16384])
def test_a_grid_that_synchronises(compiled, lanes):
    out, limits = ptxsim.Array(np.zeros(4 * 640, np.int32)), ptxsim.Limits(lanes=lanes)
    kernel = compiled("libraries.cu", "grid_sync")
    kernel.launch(10, 64, [out, ptxsim.Array(X[:640]), 0], limits=limits)
    rounds = out.numpy().reshape(4, 640)
    assert (rounds[0] == X[:640]).all()
    assert all((rounds[r + 1] == rounds[r][::-1] + 1).all() for r in range(3))
    with pytest.raises(ptxsim.KernelFault, match="race in global memory: reads what block"):
        kernel.launch(10, 64, [out, ptxsim.Array(X[:640]), 1], limits=limits)


def test_a_grid_that_cannot_synchronise_is_refused(compiled):
    kernel = compiled("libraries.cu", "grid_sync")
    args = [ptxsim.Array(np.zeros(1, np.int32)), ptxsim.Array(np.zeros(1, np.int32)), 0]
    with fails("5000 blocks do not run at a time: a GPU of 132"):
        kernel.launch(5000, 64, args)
    with fails("all of its blocks must run"):
        kernel.launch(10, 64, args, blocks=[1])


def test_softmax(compiled):
    x = np.random.default_rng(1).normal(size=(4, 1000)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    got = computed(compiled, "softmax", 4, 128, np.zeros_like(x), x, 1000)
    assert got == pytest.approx(e / e.sum(1, keepdims=True), abs=1e-7)
