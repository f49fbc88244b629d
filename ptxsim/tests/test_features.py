"""Ordinary CUDA, compiled by nvcc, compared with the same in Python."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import ptxsim

N = 256


def run(compiled, entry, inputs, out, block=128, **options):
    result = ptxsim.Array(out, "out")
    kernel = compiled("features.cu", entry)
    kernel.launch(
        -(-len(inputs) // block) if inputs.dtype != np.int64 else 1, block, [result, ptxsim.Array(inputs)], **options
    )
    return result.numpy()


def ints(low=0, high=1000, seed=0):
    return np.random.default_rng(seed).integers(low, high, N).astype(np.int32)


def check(compiled, entry, inputs, expected, **options):
    got = run(compiled, entry, inputs, np.zeros(len(inputs), np.int32), **options)
    want = np.array([expected(int(v)) for v in inputs], np.int64).astype(np.int32)
    assert (got == want).all(), np.flatnonzero(got != want)[:5]


def test_recursion(compiled):
    fibonacci = [0, 1]
    for _ in range(20):
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    check(compiled, "recursion", ints(0, 12), lambda n: fibonacci[n])


def test_recursion_has_a_limit(compiled):
    with pytest.raises(ptxsim.PtxsimError, match="calls nest deeper than 8"):
        run(compiled, "recursion", ints(20, 21), np.zeros(N, np.int32), limits=ptxsim.Limits(depth=8))


def collatz(n):
    steps = 0
    while n != 1:
        n, steps = 3 * n + 1 if n % 2 else n // 2, steps + 1
    return steps


def test_calls_with_divergent_loops(compiled):
    check(compiled, "calls", ints(0, 500), lambda x: collatz(x + 1) if x % 3 else collatz(27) - 1)


def test_structs_by_value(compiled):
    check(compiled, "structs", ints(), lambda x: int(x * 2.0 + 0.75) * 3 + int(x * 0.5 * 2))


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


def test_nested_divergence_with_break_continue_and_return(compiled):
    check(compiled, "nested", ints(0, 25), nested)


def test_switch(compiled):
    def expected(x):
        cases = [x * 3, x ^ 77, x - 1000, x.bit_count(), 32 - x.bit_length(), int(f"{x:032b}"[::-1], 2), x // 7, -x, 5]
        return cases[x % 9]

    check(compiled, "switches", ints(), expected)


def test_constant_and_global_variables(compiled):
    table, lookup = [3, 1, 4, 1, 5, 9, 2, 6], [0.5, 1.5, 2.5, 3.5]
    check(compiled, "tables", ints(), lambda x: table[x & 7] + int(lookup[x & 3] * 2))


def test_local_memory(compiled):
    def expected(x):
        stack = [i * i for i in range(16)]
        for i in range(16):
            stack[(i * x) & 15] += i
        return stack[x & 15]

    check(compiled, "locals", ints(), expected)


def test_generic_addresses_into_several_spaces(compiled):
    x = ints()
    got = run(compiled, "generic", x, np.zeros(N, np.int32))
    lane = np.arange(N)
    expected = np.where(x % 3 == 0, x[lane ^ 1], np.where(x % 3 == 1, 9, x))
    assert (got == expected).all()


def test_warp_exchange(compiled):
    x = ints(0, 100)
    got = run(compiled, "warps", x, np.zeros(N, np.int32))
    for first in range(0, N, 32):
        w = [int(v) for v in x[first : first + 32]]
        odd, fives = sum(v & 1 for v in w), sum(v % 5 == 0 for v in w)
        for lane, v in enumerate(w):
            down = w[lane + 3] if lane % 8 + 3 < 8 else v
            same = sum((u & 3) == (v & 3) for u in w)
            active = fives if v % 5 == 0 else 0
            want = sum(w) + 3 * sum(w[: lane + 1]) + odd + 7 * down + 11 * min(w) + 13 * same + active
            assert got[first + lane] == want


def test_atomics(compiled):
    x = ints()
    got = run(compiled, "atomics", x, np.zeros(2 * 16 + 4, np.int32))
    for b in range(2):
        part = x[b * 128 : b * 128 + 128]
        assert [int(part[part % 8 == i].sum()) for i in range(8)] == got[b * 16 : b * 16 + 8].tolist()
        assert got[b * 16 + 8] == part.max()
    bits = np.bitwise_or.reduce(np.uint32(1) << (x & 31).astype(np.uint32))
    assert got[32:].tolist() == [N, 42, int(np.int32(bits.view(np.int32))), N % 10]


def test_a_lock_between_lanes(compiled):
    x = ints()
    got = run(compiled, "lock", x, np.zeros(2, np.int32), limits=ptxsim.Limits(steps=2_000_000))
    assert got[0] == x.sum()


def test_block_votes(compiled):
    x = ints(0, 30)
    got = run(compiled, "block_votes", x, np.zeros(N, np.int32))
    for b in range(2):
        part = x[b * 128 : b * 128 + 128]
        assert (got[b * 128 : b * 128 + 128] == (part & 1).sum() * 100 + 10 + int((part == 17).any())).all()


def test_named_barriers_with_arrive(compiled):
    x = ints()
    got = run(compiled, "producer", x, np.zeros(N, np.int32)).reshape(2, 128)
    assert (got[:, 64:] == x.reshape(2, 128)[:, :64][:, ::-1] * 2).all()
    assert (got[:, :64] == 0).all()


def test_half_precision(compiled):
    x = ints(0, 50)
    got = run(compiled, "halves", x, np.zeros(3 * N, np.int32)).reshape(N, 3)
    a, b = x.astype(np.float16), np.float16(0.37)
    low = (a.astype(np.float64) ** 2 + float(b)).astype(np.float16)
    high = (np.float64(b) ** 2 + a.astype(np.float64)).astype(np.float16)
    assert (got[:, 0].view(np.uint32) == low.view("u2") | (high.view("u2").astype(np.uint32) << 16)).all()
    bf16 = ml_dtypes.bfloat16
    c = (x.astype(np.float32) * np.float32(0.123)).astype(bf16)
    d = (c.astype(np.float32) ** 2).astype(bf16)
    total = (c.astype(np.float32) + d.astype(np.float32)).astype(bf16).view("u2").astype(np.uint32)
    assert (got[:, 1].view(np.uint32) == total | total << 16).all()
    quotient = (a.astype(np.float32) / np.float32(b)).astype(np.float16).astype(np.float64)
    compares = (a < b) * 2 + (c.astype(np.float32) > d.astype(np.float32))
    assert (got[:, 2] == compares + quotient.astype(int)).all()


def test_doubles(compiled):
    x = np.random.default_rng(1).uniform(-3, 3, N)
    got = run(compiled, "doubles", x, np.zeros(4 * N)).reshape(N, 4)
    from fractions import Fraction

    for row, v in zip(got, x.tolist(), strict=True):
        exact = Fraction(v) * Fraction(v) - Fraction(1.0 / 3)
        assert row[0] == exact.numerator / exact.denominator
        assert row[1] == v / 3.0 + math.sqrt(abs(v))
        assert row[2] == min(v, 0.25) - max(v, -0.25)
        down = v * 0.1
        if Fraction(down) > Fraction(v) * Fraction(0.1):
            down = math.nextafter(down, -math.inf)
        assert row[3] == pytest.approx(int(v * 1e6) + round(v * 10) + math.floor(v) + down, rel=1e-15)


def test_mathematical_functions(compiled):
    x = np.random.default_rng(2).uniform(-3, 3, N).astype(np.float32)
    got = run(compiled, "functions", x, np.zeros(8 * N, np.float32)).reshape(N, 8)
    wide = x.astype(np.float64)
    small = np.abs(x) + np.float32(0.1)
    erf = np.array([math.erf(v) for v in wide])
    expected = [
        np.exp(wide),
        np.log(small.astype(np.float64)),
        np.sin(wide),
        (np.abs(x) + np.float32(0.5)).astype(np.float64) ** np.float64(np.float32(1.7)),
        np.tanh(wide),
        1 / np.sqrt(np.abs(wide) + 1) + wide / np.float32(3.3),
        np.fmod(wide, np.float64(np.float32(0.7))) + erf,
        np.cos((x * np.float32(1000)).astype(np.float64)),
    ]
    for column, want in enumerate(expected):
        assert np.allclose(got[:, column], want, rtol=2e-6, atol=1e-6), column


def test_64_bit_integers(compiled):
    pairs = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 2 * 128, dtype=np.int64)
    pairs[:8] = [-(2**63), -1, 5, 0, -7, 3, 2**63 - 1, 2]
    got = run(compiled, "integers", pairs, np.zeros(10 * 128, np.int64)).reshape(-1, 10)
    for row, (x, y) in zip(got.tolist(), pairs.reshape(-1, 2).tolist(), strict=True):
        u, v = x % 2**64, y % 2**64
        signed = lambda value: (value + 2**63) % 2**64 - 2**63  # noqa: E731
        word = lambda value: (value + 2**31) % 2**32 - 2**31  # noqa: E731
        wide = u * v + u
        octets = list((u % 2**32).to_bytes(4, "little") + (v % 2**32).to_bytes(4, "little"))
        picked = int.from_bytes(bytes(octets[i] for i in (0, 4, 2, 6)), "little")
        a, b = (u % 2**32).to_bytes(4, "little"), (v % 2**32).to_bytes(4, "little")
        difference = int.from_bytes(bytes(abs(p - q) for p, q in zip(a, b, strict=True)), "little")
        want = [
            x * y,
            x * y >> 64,
            u * v >> 64,
            (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)) if y else 0,
            u % v if v else 0,
            64 - u.bit_length() + v.bit_count() + ((u & -u).bit_length()),
            (x >> (y & 63)) ^ (u << (v & 63)),
            (((((v % 2**32) << 32) | (u % 2**32)) << 13 >> 32) % 2**32) + (picked << 32),
            wide >> 64,
            min(x, y) - max(word(x), word(y)) + difference,
        ]
        assert row == [signed(value) for value in want]


def test_inline_assembly_with_scopes(compiled):
    def expected(x):
        return (x + 5 if x > 10 else 0) * 1000000 + (x if x < 10 else x + 1000)

    check(compiled, "inline_scopes", ints(0, 20), expected)


def test_calls_through_pointers(compiled):
    check(compiled, "pointers", ints(), lambda x: x + 1 if x & 1 else x * 2)


def test_printf(compiled, capsys):
    x = ints()
    run(compiled, "print", x, np.zeros(N, np.int32))
    lines = sorted(capsys.readouterr().out.splitlines())
    want = [f"thread {t} of block {b}: {x[b * 128 + t] * 0.5:5.2f} ok {1 << 40}" for b in (0, 1) for t in (0, 1)]
    assert lines == sorted(want)


def test_clocks_advance(compiled):
    got = run(compiled, "clocks", ints(), np.zeros(N, np.int64))
    assert (got > 0).all()


def test_texture_fetch_out_of_range_gives_zero(compiled):
    data = np.random.default_rng(0).random((100, 4), np.float32)
    out = ptxsim.Array(np.full((128, 4), np.nan, np.float32))
    compiled("features.cu", "texture").launch(1, 128, [out, ptxsim.Texture(ptxsim.Array(data), 4)])
    assert (out.numpy()[2:102] == data).all()
    assert (out.numpy()[:2] == 0).all() and (out.numpy()[102:] == 0).all()


def test_texture_begins_at_an_aligned_address_before_its_array(compiled):
    """What CUDA asks of linear memory; its end is reported in bytes."""
    data = np.random.default_rng(0).random((100, 4), np.float32)
    out = ptxsim.Array(np.full((128, 4), np.nan, np.float32))
    array = ptxsim.Array(data, offset=48)  # of an address that is a multiple of 256
    compiled("features.cu", "texture").launch(1, 128, [out, ptxsim.Texture(array, 4, align=256, nbytes=90 * 16)])
    assert (out.numpy()[5:95] == data[:90]).all() and (out.numpy()[95:] == 0).all()


def test_one_warp_waits_for_another(compiled):
    out, flag = ptxsim.Array(np.zeros(64, np.int32)), ptxsim.Array(np.zeros(1, np.int32))
    compiled("features.cu", "spin_between_warps").launch(1, 64, [out, flag])
    assert out.numpy().tolist() == [1] * 32 + [2] * 32


def test_exchange_through_shared_memory_within_a_warp(compiled):
    x = ints()[:32]
    got = run(compiled, "volatile_shared", x, np.zeros(32, np.int32), block=32)
    assert (got == x[::-1]).all()


@pytest.mark.parametrize("lanes", [128, 256, 4096])
def test_batches_do_not_show(compiled, lanes):
    x = ints(0, 500)
    got = run(compiled, "calls", x, np.zeros(N, np.int32), limits=ptxsim.Limits(lanes=lanes))
    assert got.tolist() == [collatz(int(v) + 1) if v % 3 else collatz(27) - 1 for v in x]


def test_a_block_that_is_no_multiple_of_a_warp(compiled):
    x = ints(0, 25)[:90]
    got = run(compiled, "nested", x, np.zeros(90, np.int32), block=45)
    assert got.tolist() == [nested(int(v)) for v in x]
