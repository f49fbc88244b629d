"""A GEMM and its baseline on the same inputs: their runs interleaved, and their outputs checked
where they lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from cuda.bindings import driver

from contracts.dtypes import Dtype, Types
from contracts.rows import Ended
from experiments.declarations import Protocol
from experiments.gpu.device import Gpu, Memory, cuda
from experiments.gpu.libraries import Gemm, bind_for_timing
from experiments.gpu.timing import Samples, Stopwatch, Work
from experiments.stages import verify
from kernels.catalogue import Problem

T = TypeVar("T")
ROLES = ("variant", "baseline")
MIN_KEPT = 3  # samples of each, below which a process says nothing
SAMPLED_ROWS = 8


@dataclass(frozen=True)
class Matrices:
    """A, B and an output for each role of one packed problem on the device; `seed` made A and B, of
    the kind `data`.
    """

    problem: Problem
    types: Types
    a: Memory
    b: Memory
    c: dict[str, Memory]
    seed: int
    data: str

    @classmethod
    def fill(
        cls, gpu: Gpu, p: Problem, types: Types, data: str, roles: Sequence[str] = ROLES
    ) -> Matrices:
        """New inputs each time."""
        seed = verify.fresh_seed()
        a, b = (
            gpu.filled(types.ab, count, seed + i, data)
            for i, count in enumerate((p.m * p.k, p.k * p.n))
        )
        return cls(
            p, types, a, b, {role: Memory(p.m * p.n * types.c.bytes) for role in roles}, seed, data
        )

    def bind(self, gemm: Gemm, role: str) -> Work:
        """A launch of `gemm` that writes this role's output."""
        return bind_for_timing(
            gemm, self.problem, self.a.address, self.b.address, self.c[role].address
        )

    def poison(self, gpu: Gpu, role: str) -> None:
        """NaN in all of an output, so that what is checked later was written since; where beta is
        not 0, and so C is read, numbers of the kind `data`."""
        kind = self.data if self.problem.beta else "nans"
        gpu.fill(self.c[role], self.types.c, self.problem.m * self.problem.n, self.seed + 2, kind)


@dataclass(frozen=True)
class Interleaved:
    """Samples in the order they ran, and whose each is."""

    samples: Samples
    roles: np.ndarray

    @classmethod
    def none(cls) -> Interleaved:
        """Return no samples."""
        return cls(Samples(np.empty(0), np.empty(0), np.empty(0, bool)), np.empty(0, "<U8"))

    def followed_by(self, other: Interleaved) -> Interleaved:
        """Return the samples of both, the other's last."""
        pairs = [
            (getattr(self.samples, name), getattr(other.samples, name))
            for name in vars(self.samples)
        ]
        return Interleaved(
            Samples(*map(np.concatenate, pairs)), np.concatenate([self.roles, other.roles])
        )

    def of(self, role: str, kept: np.ndarray | None = None) -> Samples:
        """A role's samples: those without a launch gap, or those of the mask `kept`."""
        return self.samples.of((self.roles == role) & (self.samples.kept if kept is None else kept))


def interleave(
    stopwatch: Stopwatch, works: Mapping[str, Work], pairs: int, seed: int
) -> Interleaved:
    """Time the works of the roles in pairs, or rounds; which of a pair goes first is drawn."""
    order = drawn_order(list(works), pairs, seed)
    return Interleaved(stopwatch.run([works[role] for role in order]), np.array(order))


CHUNK_S = 0.04  # of samples, between two looks at how good they are
DRAWS = 300
LEVEL = 0.95


def interleave_until(
    stopwatch: Stopwatch, works: Mapping[str, Work], pair_us: float, limits: Protocol, seed: int
) -> tuple[Interleaved, float, Ended]:
    """Interleave two works until the share of the second is known well enough.

    Returns the samples, half of the share's 95% interval as a part of the share, and why they ended:
    "precise" (the half width is at most `limits.precision`), "longest time" or "most samples".
    """
    longest = int(np.clip(limits.window_s * 1e6 / pair_us, MIN_KEPT, limits.samples))
    chunk = max(int(CHUNK_S * 1e6 / pair_us), MIN_KEPT)
    runs, half_width = Interleaved.none(), np.inf
    while (taken := len(runs.roles) // 2) < longest:
        more = interleave(stopwatch, works, min(chunk, longest - taken), seed + taken)
        runs = runs.followed_by(more)
        half_width = half_width_of(*(runs.of(role).time_us for role in works))
        if half_width <= limits.precision:
            return runs, half_width, "precise"
    return runs, half_width, "most samples" if longest == limits.samples else "longest time"


def half_width_of(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Half of the 95% bootstrap interval of the ratio of medians, as a part of the ratio: for when
    to stop, not for reporting. Infinite for fewer than `MIN_KEPT` of either."""
    if min(len(ours), len(theirs)) < MIN_KEPT:
        return float("inf")
    rng = np.random.default_rng(0)
    medians = [
        np.median(rng.choice(times, (DRAWS, len(times))), axis=1) for times in (ours, theirs)
    ]
    low, high = np.quantile(medians[1] / medians[0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float((high - low) / 2 * np.median(ours) / np.median(theirs))


def drawn_order(roles: Sequence[T], pairs: int, seed: int) -> list[T]:
    """Every role once in each pair (or round); in half of them, drawn at random, in reverse.

    On an H200 what flushing leaves of the L2 cache recurs every four samples: with every second
    pair reversed, one role always met the better states, and cuBLAS had 0.87 to 1.11 times its own
    speed where it takes 10 to 40 us.
    """
    reverse = np.random.default_rng(seed).permutation(np.arange(pairs) % 2 == 1)
    return [role for flip in reverse for role in (reversed(roles) if flip else roles)]


def check_output(
    gpu: Gpu, matrices: Matrices, role: str, work: Work, of_library: bool = False
) -> verify.CheckResult:
    """Rows of C and all of C by Freivalds' test, in float64 on the device; `of_library` as of
    `verify.expected`.

    Where beta is not 0, the timed runs added to what the ones before them had left: then one more
    run of `work`, on a fresh C, is checked.
    """
    p, types = matrices.problem, matrices.types
    of_b = matrices.b if p.b_layout == "row" else _transposed(gpu, matrices.b, p.n, p.k, types.ab)
    a, b, c = matrices.a.address, of_b.address, matrices.c[role].address
    rng = np.random.default_rng()
    rows = rng.choice(p.m, min(SAMPLED_ROWS, p.m), replace=False).astype(np.int32)
    row_numbers, signs = gpu.upload(rows), gpu.upload(rng.choice([-1.0, 1.0], p.n))
    i32 = np.int32

    def matvec(matrix: int, dtype: Dtype, shape: tuple[int, int], x: int, mode: int) -> Memory:
        out, name = Memory(shape[0] * 8), f"matvec_{dtype.stored_as}"
        gpu.harness(
            name, shape[0], 256, matrix, i32(shape[1]), i32(shape[1]), x, i32(mode), out.address
        )
        return out

    def of_c(x: int, mode: int) -> np.ndarray:
        return gpu.download(matvec(c, types.c, (p.m, p.n), x, mode), np.float64, p.m)

    def exact_rows(mode: int) -> np.ndarray:
        out = Memory(len(rows) * p.n * 8)
        sizes = i32(p.lda), b, i32(p.n), i32(p.n), i32(p.k)
        grid = -(-p.n // 128), len(rows)
        name = f"row_products_{types.ab.stored_as}"
        gpu.harness(name, grid, 128, a, *sizes, row_numbers.address, i32(mode), out.address)
        return gpu.download(out, np.float64, len(rows) * p.n).reshape(len(rows), p.n)

    plain, absolute, square = 0, 1, 2
    bx, b_sums = (
        matvec(b, types.ab, (p.k, p.n), x, mode)
        for x, mode in ((signs.address, plain), (0, absolute))
    )
    products = [
        matvec(a, types.ab, (p.m, p.k), x.address, mode)
        for x, mode in ((bx, plain), (b_sums, absolute))
    ]
    abx, magnitudes = (gpu.download(x, np.float64, p.m) for x in products)
    abx, magnitudes = p.alpha * abx, abs(p.alpha) * magnitudes
    reference, magnitude = p.alpha * exact_rows(plain), abs(p.alpha) * exact_rows(absolute)
    product = reference if of_library else None
    if p.beta:
        matrices.poison(gpu, role)
        gpu.sync()
        c0 = _rows_of(matrices.c[role], rows, p.n, types.c).astype(np.float64)
        reference, magnitude = reference + p.beta * c0, magnitude + abs(p.beta * c0)
        abx, magnitudes = (
            abx + p.beta * of_c(signs.address, plain),
            magnitudes + abs(p.beta) * of_c(0, absolute),
        )
        work()
        gpu.sync()
    whole = verify.freivalds(
        p, types, of_c(signs.address, plain), abx, magnitudes, np.sqrt(of_c(0, square))
    )
    output = _rows_of(matrices.c[role], rows, p.n, types.c)
    sampled = verify.evaluate(
        output, reference, verify.bound(p, types, reference, magnitude, product)
    )
    return verify.combine(sampled, whole)


def _transposed(gpu: Gpu, matrix: Memory, rows: int, columns: int, dtype: Dtype) -> Memory:
    """A copy of a packed rows x columns matrix, as columns x rows."""
    out = Memory(rows * columns * dtype.bytes)
    tiles = -(-columns // 32), -(-rows // 32)
    sizes = np.int32(rows), np.int32(columns)
    gpu.harness(f"transpose_{dtype.stored_as}", tiles, 256, matrix.address, *sizes, out.address)
    return out


def _rows_of(c: Memory, rows: np.ndarray, n: int, dtype: Dtype) -> np.ndarray:
    out = np.empty((len(rows), n), dtype.numpy)
    for i, row in enumerate(rows):
        cuda(
            driver.cuMemcpyDtoH(
                out[i].ctypes.data, c.address + int(row) * out[i].nbytes, out[i].nbytes
            )
        )
    return out
