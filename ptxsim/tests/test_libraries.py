"""Kernels made of libraries that this project does not use: CUB, cooperative groups."""

from __future__ import annotations

import numpy as np
import pytest
from running import fails

import ptxsim

X = np.random.default_rng(0).integers(-1000, 1000, 1024).astype(np.int32)


def run(compiled, entry, grid, block, out, *args):
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
    assert (run(compiled, entry, blocks, 128, np.zeros(len(want), np.int32), X) == want).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_cooperative_groups_of_several_warps(compiled, arch):
    """Their barriers lie in shared memory that the driver reserves, next to the kernel's own."""
    out = ptxsim.Array(np.zeros(1024, np.int32))
    compiled("libraries.cu", "coop_wide", arch).launch(4, 256, [out, ptxsim.Array(X)])
    assert (out.numpy() == np.repeat(X.reshape(-1, 64).sum(1), 64) + X).all()


def test_memory_of_the_device_s_heap(compiled):
    out = run(compiled, "heap", 8, 128, np.zeros(2048, np.int32), X, 0)
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
        run(compiled, "heap", 1, 128, np.zeros(2048, np.int32), X, fault)


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
    got = run(compiled, "softmax", 4, 128, np.zeros_like(x), x, 1000)
    assert got == pytest.approx(e / e.sum(1, keepdims=True), abs=1e-7)
