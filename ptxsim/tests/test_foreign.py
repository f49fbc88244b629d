"""Kernels in other people's styles (kernels/foreign.cu) for two architectures, compared with the same in Python."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ptxsim

KERNELS = Path(__file__).parent / "kernels"
BLOCK = 128
U32, I32 = np.uint32, np.int32


@pytest.fixture(params=["sm_80", "sm_90a"])
def kernel(request, compiled):
    """A function from an entry's name to a kernel of foreign.cu."""
    return lambda entry: compiled("foreign.cu", entry, request.param)


def ints(count=BLOCK, high=1000, seed=1):
    return np.random.default_rng(seed).integers(0, high, count).astype(I32)


def wrap(value: int) -> int:
    """Convert to a 32-bit signed integer."""
    return (int(value) + 2**31) % 2**32 - 2**31


def launch(kernel, entry, inputs, out=None, block=BLOCK, args=(), **options):
    result = ptxsim.Array(np.zeros(BLOCK, I32) if out is None else out, "out")
    kernel(entry).launch(1, block, [result, ptxsim.Array(inputs, "in"), *args], **options)
    return result.numpy()


def check(kernel, entry, expected, inputs=None, **options):
    """`expected(x, i)` for each thread's input and number."""
    inputs = ints() if inputs is None else inputs
    got = launch(kernel, entry, inputs, **options)
    want = [wrap(expected(int(inputs[i]), i)) for i in range(BLOCK)]
    assert got[:BLOCK].tolist() == want


# asserts and output


def test_asserts_that_hold_and_output(kernel, capsys):
    x = ints()
    check(kernel, "asserts", lambda x, i: x + 1, x)
    assert capsys.readouterr().out == f"thread 3 has {x[3]}, {x[3] * 0.5:5.2f} and text\n"


@pytest.mark.parametrize(("value", "message"), [(-5, "x >= 0"), (2000, 'x < 1000 && "too large"')])
def test_an_assert_that_fails_names_itself_and_the_thread(kernel, value, message):
    x = ints()
    x[70] = value
    with pytest.raises(ptxsim.PtxsimError, match=re.escape(message)) as error:
        launch(kernel, "asserts", x)
    assert "thread (70, 0, 0)" in str(error.value) and "foreign.cu" in str(error.value)


def test_a_trap_names_its_line(kernel):
    x = ints(high=70)
    check(kernel, "traps", lambda x, i: 2 * x, x)
    x[5] = 77
    with pytest.raises(ptxsim.PtxsimError, match=r"foreign\.cu:\d+: .*thread \(5, 0, 0\).*trap"):
        launch(kernel, "traps", x)


# functions, objects, local memory


def sort(x, i):
    v = sorted(x * (j + 7) % 101 for j in range(16))
    return v[x % 16] * 1000 + v[15 - x % 16]


def many(x, i):
    bits = signed(x, 8) + (~x % 2**32 >> 28) + bool(x & 4)
    return x + int(x * 0.5 * 2) + int(x * 1.5) + (x * 100 >> 3) + (x - 500) * 3 + bits


def stack(x, i):
    return functools.reduce(lambda total, j: wrap(total * 2 + j * x), reversed(range(x % 9 + 1)), 0)


def constants(x, i):
    return functools.reduce(lambda total, j: total * 7 + [3, 1, 4, 1, 5][(j + x) % 5], range(5), 5) + x


SIMPLE = {
    "virtuals": lambda x, i: (x % 20) ** 2 * 10 + 4 if x & 1 else (x % 30) ** 2 // 2 * 10,
    "pointers_to_functions": lambda x, i: [2 * x, x * x, -x][x % 3],
    "insertion_sort": sort,
    "big_structs": lambda x, i: x + (x % 12) ** 2 + int(x * 0.25 * 4),
    "many_arguments": many,
    "variable_stack": stack,
    "constants": constants,
    "cache_hints": lambda x, i: 255 * x,
}


@pytest.mark.parametrize("entry", SIMPLE)
def test_what_each_thread_computes_by_itself(kernel, entry):
    check(kernel, entry, SIMPLE[entry])


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


def test_deep_recursion(kernel):
    check(kernel, "deep_recursion", lambda x, i: ackermann(x % 3, x % 4), limits=ptxsim.Limits(depth=64))


def test_lambdas(kernel):
    x = ints()

    def fold(value, i):
        bias = total = value % 7
        for b in x[:8].tolist():
            total = wrap(total * 3 + b % (bias + 1))
        return total

    check(kernel, "lambdas", fold, x)


# memory


def test_dynamic_shared_memory(kernel):
    x = ints()
    got = launch(kernel, "dynamic_shared", x, shared_bytes=12 * BLOCK)
    assert (got == x[::-1] + x[::-1] * 2).all()
    with pytest.raises(ptxsim.PtxsimError, match="out-of-bounds shared"):
        launch(kernel, "dynamic_shared", x, shared_bytes=11 * BLOCK)


def test_wide_accesses(kernel):
    x = np.random.default_rng(2).integers(-(2**31), 2**31, (BLOCK, 4)).astype(I32)
    got = launch(kernel, "wide_accesses", x, np.zeros_like(x))
    want = x.astype(np.int64)
    bytes_ = x.view(np.uint8).reshape(BLOCK, 16).astype(np.int64)
    halves = x.view(np.int16).reshape(BLOCK, 8).astype(np.int64)
    want[:, 0] += x[:, 3]
    want[:, 1] += bytes_[:, :4] @ [1, 2, 3, 4]
    want[:, 2] += halves[:, 0] - halves[:, 1]
    assert (got == want.astype(I32)).all()


# atomics


def test_atomics_of_all_kinds(kernel):
    x = ints()
    got = launch(kernel, "all_atomics", x)
    total = int(x.sum())
    inc = 0
    for _ in range(BLOCK):
        inc = 0 if inc >= 40 else inc + 1
    assert got[:8].tolist() == [
        total,
        -total,
        x.max(),
        x.min(),
        wrap(np.bitwise_or.reduce(1 << (x.astype(np.int64) & 31))),
        np.bitwise_xor.reduce(x),
        inc,
        int((x % 3).sum()),
    ]
    assert got[8] == 128 + 2500 and got[9] == 128 and got[10] == 128 + 1000 * x.max()
    assert got[16:18].tolist() == [128, 256]


def test_atomics_on_halves(kernel):
    x = ints()
    got = launch(kernel, "half_atomics", x, np.zeros(8, np.float32))
    assert got[:5].tolist() == [64, float((x % 4).sum()), 128, 32, 16]


# warps and groups


def test_warp_intrinsics(kernel):
    x = ints()

    def expected(value, i):
        warp = x[i // 32 * 32 : i // 32 * 32 + 32].astype(np.int64)
        lane = i % 32
        r = int(warp[(lane + 5) % 32])
        r = r * 3 + int(warp[lane - 3] if lane >= 3 else value)
        r = r * 3 + int(warp[lane + 7] if lane % 16 + 7 < 16 else value)
        other = lane ^ 9
        r = r * 3 + int(warp[other] if other // 8 <= lane // 8 else value)
        r = r * 3 + int((warp & 1).sum()) + bool((warp > 990).any()) + 2
        r = r * 3 + (sum(1 << j for j in range(32) if warp[j] % 5 == value % 5) & 0xFFFF)
        r = r * 3 + 1 + int(warp.sum()) + int(warp.max()) - int(warp.min())
        r = wrap(r) ^ wrap(int(np.bitwise_xor.reduce(warp)) + int(np.bitwise_or.reduce(warp)))
        return r + (20 if lane < 20 else 0) + int(warp[0])

    check(kernel, "warp_intrinsics", expected, x)


def test_cooperative_groups(kernel):
    x = ints()

    def expected(value, i):
        tile = x[i // 8 * 8 : i // 8 * 8 + 8].tolist()
        warp = x[i // 32 * 32 : i // 32 * 32 + 32].tolist()
        r = sum(tile) + 1000 * max(tile) + sum(v % 7 for v in tile[: i % 8 + 1]) + tile[3] * 3 + i // 8 + i
        if value % 3 == 0:
            some = [j for j, v in enumerate(warp) if v % 3 == 0]
            r += 7 * len(some) + some.index(i % 32) + warp[some[0]]
        r += 100 * sum(v % 2 == value % 2 for v in tile)
        return r + [j for j in range(8) if tile[j] % 3 == value % 3].index(i % 8)

    check(kernel, "group_algorithms", expected, x)


# arithmetic


def bytes_of(x):
    return [x >> 8 * i & 255 for i in range(4)]


def signed(x, bits):
    return (x + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def test_bit_intrinsics(kernel):
    def expected(value, i):
        mask = 2**32 - 1
        x, y = value * 2654435761 & mask, value + 12345
        pool = bytes_of(x) + bytes_of(y)
        perm = sum(pool[k] << 8 * j for j, k in enumerate((5, 1, 7, 3)))
        r = perm ^ ((y << 7 | x >> 25) & mask) ^ y  # a clamped shift by 40 is one by 32
        sx = [signed(b, 8) for b in bytes_of(x)]
        sy = [signed(b, 8) for b in bytes_of(y)]
        r += (
            sum(a * b for a, b in zip(sx, sy, strict=True))
            + 17
            + sum(a * b for a, b in zip(bytes_of(x), bytes_of(y), strict=True))
            + 3
        )
        r += signed(x & 0xFFFF, 16) * sy[0] + signed(x >> 16, 16) * sy[1] + 5
        r &= mask
        long = x << 9 | y
        brev = int(f"{x:032b}"[::-1], 2)
        ffs = (x & -x).bit_length()
        r ^= (brev + 32 - y.bit_length() + ffs + long.bit_count() + 64 - y.bit_length()) & mask
        r += (
            (x * y >> 32)
            + (signed(x, 32) * -7 >> 32)
            + signed(x & 0xFFFFFF, 24) * signed(y & 0xFFFFFF, 24)
            + abs(x - y)
            + 1
        )
        r += abs(signed(x, 32) - 5) + 2
        r &= mask
        add = sum((a + b & 255) << 8 * j for j, (a, b) in enumerate(zip(bytes_of(x), bytes_of(y), strict=True)))
        most = sum((max(signed(x >> s & 0xFFFF, 16), signed(y >> s & 0xFFFF, 16)) & 0xFFFF) << s for s in (0, 16))
        gap = sum(abs(a - b) << 8 * j for j, (a, b) in enumerate(zip(bytes_of(x), bytes_of(y), strict=True)))
        same = sum(
            (255 if a & 15 == b & 15 else 0) << 8 * j
            for j, (a, b) in enumerate(zip(bytes_of(x), bytes_of(y), strict=True))
        )
        mean = sum((a + b + 1 >> 1) << 8 * j for j, (a, b) in enumerate(zip(bytes_of(x), bytes_of(y), strict=True)))
        r ^= (add + most + gap + same + mean) & mask
        r += (signed(x, 32) + y >> 1) + (signed(x, 32) + y + 1 >> 1)
        return r + ((x << 30) * (y << 30) >> 64)

    check(kernel, "bit_intrinsics", expected)


def test_integer_division(kernel):
    x = ints()
    got = launch(kernel, "integer_division", x, np.zeros(BLOCK, np.int64))

    def divided(a, b):
        return int(math.copysign(1, a)) * (abs(a) // b) if a else 0

    for value, found in zip(x.tolist(), got.tolist(), strict=True):
        v = value - 500
        y = v * 123456789012345
        z = y % 2**64
        rest = v - divided(v, 7) * 7
        small = v - divided(v, 5) * 5 + 6
        want = (
            divided(v, 7) + rest * 10 + divided(y, 1000003) + (y - divided(y, 97) * 97) + z // 12345 + z % (v * v + 1)
        )
        want += (y >> 5) + (z >> 60) + divided(v, small)
        assert found == signed(want, 64), value


def test_functions_of_floats(kernel):
    x = np.random.default_rng(3).uniform(-4, 4, BLOCK).astype(np.float32)
    got = launch(kernel, "special_functions", x, np.zeros(BLOCK, np.float32))
    v = x.astype(np.float64)
    erf, cbrt = np.vectorize(math.erf), np.cbrt
    want = 2 * (np.exp(v) + np.log(v + 9) + np.sin(v) + np.cos(v) + (v + 9) ** 1.5) + v / 3
    want += np.tanh(v) + erf(v) + cbrt(v) + np.arctan2(v, 2)
    want += 1 / np.sqrt(v + 9) + np.sqrt(v + 9) + np.fmod(v, np.float64(np.float32(0.7))) + np.floor(v) + np.ceil(v)
    want += np.rint(v) + np.trunc(v) + np.abs(v) + v * v + 1
    want += np.exp2(v) + np.log2(v + 9) + np.hypot(v, 3) + np.maximum(v, 0.5) + np.minimum(v, 0.5)
    want += np.copysign(2, v) + v * 8 + np.sin(np.pi * v)
    want += v + 0.1 + v * 0.1 + v / 0.3 + 1 / (v + 9) + np.clip(v, 0, 1) + np.sqrt(v + 9)
    assert np.allclose(got, want, rtol=2e-5, atol=2e-4)


def test_rounding(kernel):
    x = np.round(np.random.default_rng(4).uniform(-30, 30, BLOCK) * 2).astype(np.float32) / 2  # many ties
    got = launch(kernel, "rounding", x, np.zeros(BLOCK, I32))
    for value, found in zip(x.tolist(), got.tolist(), strict=True):
        rn, rz, ru, rd = round(value), math.trunc(value), math.ceil(value), math.floor(value)
        bits = int(np.float32(value).view(I32))
        toward_zero = np.float32(bits)
        if abs(int(toward_zero)) > abs(bits):
            toward_zero = np.nextafter(toward_zero, np.float32(0))
        own = int(toward_zero.view(I32))
        rest = own - int(own / 1000) * 1000
        want = rn + 10 * rz + 100 * ru + 1000 * rd + round(abs(value)) + round(value * 1000)
        assert found == wrap(want + math.trunc(value * 2) + round(value * 2.5) + rest), value


def test_arithmetic_of_halves(kernel):
    x = np.round(np.random.default_rng(5).uniform(-4, 4, BLOCK) * 8).astype(np.float32) / 8  # no rounding up to the end
    got = launch(kernel, "half_arithmetic", x, np.zeros(BLOCK, np.float32))
    v = x.astype(np.float64)
    low, high = v, v / 2
    r = np.minimum(np.maximum(low * 1.25 + low * low + 1.25 - low, 1.25), 30)
    h = r + np.exp(-np.abs(high))
    c = np.array([v * v + 0.5, np.full(BLOCK, 9.5)])
    want = h + h / 3 + np.where(h > 2, 100, 0) + 1000 + c[0] + c[1] + np.sqrt(np.abs(h))
    assert np.allclose(got, want, rtol=2e-3, atol=2e-2)


def test_inline_assembly(kernel):
    def expected(x, i):
        t = 3 if x > 500 else 105
        u = x * t & 0xFFFFFFFF
        t = (t & u) | (t & x) | (u & x)  # 0xE8 is the majority
        t = min(max((t & 0xFFFFFFFF) + signed(u, 32), -(2**31)), 2**31 - 1)
        r = t * 17 + (u >> 4 & 127)
        first = x * 0x9E3779B9 % 2**32
        lo, hi = (first + 2**32 - 1) % 2**32, x + 7 + (first + 2**32 - 1 >= 2**32)
        return wrap(r) + wrap(lo ^ hi) + i % 32 * 3 + i % 32 + 1

    check(kernel, "inline_assembly", expected)


def test_timers_go_on(kernel):
    x = ints()
    assert (launch(kernel, "timers", x, np.zeros(BLOCK, np.int64)) == x + 7).all()


# copies, pipelines, barriers of libcu++


def test_a_pipeline_of_copies(kernel):
    x = ints(4 * 512)
    weighted = (x.reshape(4, 128, 4).astype(np.int64) @ [1, 2, 3, 4]).sum(axis=0)[::-1]
    check(kernel, "pipelined", lambda v, i: weighted[i], x, args=[np.int32(4)])


def test_copies_that_fill_with_zeros(kernel):
    x = ints(256)

    def row(thread):
        start, words = thread * 8 % 120, thread % 5
        values = [int(x[start + j]) if j < words else 0 for j in range(4)]
        values += [int(x[start + 4 + j]) if j < min(words, 2) else 0 for j in range(2)]
        return [*values, int(x[start + 6]) if words else -1, int(x[start + 7])]

    def expected(value, i):
        total = 0
        for v in row(127 - i):
            total = wrap(total * 3 + v)
        return total

    check(kernel, "zero_filled", expected, x)


def test_barriers_of_libcu(kernel):
    x = ints()
    check(kernel, "barriers_of_libcu", lambda v, i: 6 + 10 * int(x[(i + 37) % 128]), x)


def test_copies_that_signal_a_barrier(kernel):
    x = ints(512)
    check(kernel, "copies_by_barrier", lambda v, i: int(x[511 - i]) + int(x[i * 3]), x)


def test_pipelines_of_libcu(kernel):
    x = ints(512)
    check(kernel, "pipelines_of_libcu", lambda v, i: sum(int(x[j * 128 + 127 - i]) * (j + 1) for j in range(4)), x)


def test_copies_of_a_group(kernel):
    x = ints(256)
    check(kernel, "group_copies", lambda v, i: int(x[i]) * 2 + int(x[255 - i]), x)


# tensor cores


def test_ldmatrix_in_all_sizes(kernel):
    x = np.random.default_rng(6).integers(0, 2**32, 128).astype(U32)
    got = launch(kernel, "matrices", x, np.zeros(32, U32), block=32)
    matrices = x.view(np.uint16).reshape(4, 8, 8)
    plain = matrices.reshape(4, 64).view(U32).astype(object)
    turned = np.ascontiguousarray(matrices.transpose(0, 2, 1)).reshape(4, 64).view(U32).astype(object)
    for lane in range(32):
        total = 0
        for source in (plain, turned):
            for i in range(4):
                total = total * 3 + source[i][lane]
        total += plain[0][lane] * 5 + plain[1][lane] * 7 + turned[0][lane] * 11
        assert got[lane] == total % 2**32


KINDS = {  # entry -> rows, depth, bits of an element, and how its bits become numbers
    "mma_f16_k16": (16, 16, "f16"),
    "mma_f16_k8": (16, 8, "f16"),
    "mma_f16_f16": (16, 16, "f16"),
    "mma_f16_f16_k8": (16, 8, "f16"),
    "mma_bf16_k16": (16, 16, "bf16"),
    "mma_bf16_k8": (16, 8, "bf16"),
    "mma_tf32_k8": (16, 8, "tf32"),
    "mma_tf32_k4": (16, 4, "tf32"),
    "mma_s8_k32": (16, 32, "s8"),
    "mma_u8_k16": (16, 16, "u8"),
    "mma_s8_sat": (16, 32, "s8"),
    "mma_s4_k64": (16, 64, "s4"),
    "mma_b1_k256": (16, 256, "b1"),
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "b1": 1}


def number(bits: int, kind: str) -> float:
    match kind:
        case "f16":
            return float(np.uint16(bits).view(np.float16))
        case "bf16":
            return float(np.uint16(bits).view(ml_dtypes.bfloat16))
        case "tf32":
            return float(np.uint32(bits & 0xFFFFE000).view(np.float32))
        case "s8" | "s4":
            return signed(bits, BITS[kind])
    return bits


@pytest.mark.parametrize("entry", KINDS)
def test_mma_of_each_shape_and_type(kernel, entry):
    """Element by element, from the figures of the PTX ISA: lane 4 g + t holds, of rows g and g + 8, the elements whose
    word is t, then those 4 words further; of B the same by columns; of C columns 2 t and 2 t + 1."""
    _, depth, kind = KINDS[entry]
    rng = np.random.default_rng(7)
    per_word = 32 // BITS[kind]
    words = depth // per_word
    left, right = np.zeros((16, depth)), np.zeros((8, depth))
    x = np.zeros((32, 10), U32)

    def random_word() -> int:
        if kind in ("f16", "bf16", "tf32"):
            values = rng.integers(-8, 9, per_word) / 4
            dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}[kind]
            return int(values.astype(dtype).view(np.uint8).view(U32)[0])
        return int(rng.integers(0, 2**32))

    other = {"mma_u8_k16": "s8", "mma_s8_sat": "u8"}.get(entry, kind)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for group in range(words // 4):
            for half in range(2):
                x[lane, 2 * group + half] = word = random_word()
                for e in range(per_word):
                    bits = word >> e * BITS[kind] & (1 << BITS[kind]) - 1
                    left[g + 8 * half, (4 * group + t) * per_word + e] = number(bits, kind)
            x[lane, 4 + group] = word = random_word()
            for e in range(per_word):
                bits = word >> e * BITS[kind] & (1 << BITS[kind]) - 1
                right[g, (4 * group + t) * per_word + e] = number(bits, other)
    in_halves = "f16_f16" in entry
    start = rng.integers(-50, 50, (16, 8))
    if entry == "mma_s8_sat":
        start = start + 2**31 - 1000
    c = np.zeros((32, 4), np.float32 if kind in ("f16", "bf16", "tf32") else np.int64)
    for lane in range(32):
        for i in range(4):
            c[lane, i] = start[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2]
    if in_halves:
        x[:, 6:8] = np.ascontiguousarray(c.astype(np.float16)).view(U32)
    else:
        x[:, 6:10] = (c if c.dtype == np.float32 else c.astype(I32)).view(U32)
    got = launch(kernel, entry, x, np.zeros((32, 4), U32), block=32)
    want = left @ right.T + start
    if entry == "mma_s8_sat":
        assert (want > 2**31 - 1).any()
        want = np.minimum(want, 2**31 - 1)
    if in_halves:
        found = np.ascontiguousarray(got[:, :2]).view(np.float16).astype(np.float64)
        want = want.astype(np.float16)
    else:
        found = got.view(np.float32 if c.dtype == np.float32 else I32).astype(np.float64)
    for lane in range(32):
        for i in range(4):
            assert found[lane, i] == want[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2]


def test_mma_of_doubles(kernel):
    rng = np.random.default_rng(8)
    a, b, c = rng.uniform(-1, 1, (8, 4)), rng.uniform(-1, 1, (8, 4)), rng.uniform(-1, 1, (8, 8))
    got = launch(kernel, "mma_f64", np.r_[a.ravel(), b.ravel(), c.ravel()], np.zeros(64), block=32)
    assert np.allclose(got.reshape(8, 8), a @ b.T + c, rtol=1e-14)


# what only sm_90 has


@pytest.fixture
def kernel90(compiled):
    """Return a function that loads a kernel of foreign_sm90.cu."""
    return lambda entry: compiled("foreign_sm90.cu", entry)


TILES = 8


def ring(kernel, fault):
    x = ints(96 * TILES)
    got = launch(kernel, "ring", x, args=[np.int32(TILES), np.int32(fault)])
    tiles = x.reshape(TILES, 96).astype(np.int64)
    want = [sum(int(tiles[i, (me * 7 + i) % 96]) * (i + 1) for i in range(TILES)) for me in range(96)]
    assert got[:96].tolist() == want


def test_a_ring_of_bulk_copies_between_warps_with_roles(kernel90):
    ring(kernel90, 0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (1, "deadlock: the phase of this mbarrier waits for 16 bytes of copies"),
        (
            2,
            r"read of shared memory that nobody wrote|a bulk copy of thread \(0, 0, 0\), at foreign_sm90",
        ),
        (3, "deadlock: the phase of this mbarrier waits for 96 of 96 arrivals"),
    ],
)
def test_faults_of_such_a_ring_are_found(kernel90, fault, message):
    with pytest.raises(ptxsim.PtxsimError, match=message) as error:
        ring(kernel90, fault)
    assert "foreign_sm90.cu" in str(error.value)


def test_bulk_copies_to_global_memory(kernel90):
    x = ints()
    check(kernel90, "back_in_bulk", lambda v, i: int(x[127 - i]) + 1, x)


def test_bulk_copies_beyond_an_array_are_found(kernel90):
    with pytest.raises(ptxsim.PtxsimError, match="out-of-bounds global"):
        launch(kernel90, "ring", ints(96 * TILES - 4), args=[np.int32(TILES), np.int32(0)])


def test_arrivals_drops_tokens_and_phases(kernel90):
    x = ints()

    def expected(v, i):
        here = int(x[(i + 1) % 128])
        return here + (1000 * int(x[(64 + (i + 1) % 64 + 1) % 128]) if i >= 64 else 0)

    check(kernel90, "arrivals", expected, x)


def test_wrappers_of_cuda_ptx(kernel90):
    x = ints(256)
    check(kernel90, "wrappers", lambda v, i: int(x[i]) - int(x[255 - i]), x)


def test_stmatrix_in_all_sizes(kernel90):
    x = np.random.default_rng(9).integers(0, 2**32, (32, 4)).astype(U32)
    got = launch(kernel90, "stored_matrices", x, np.zeros((3, 4, 32), U32), block=32)
    fragments = np.ascontiguousarray(x.T).view(np.uint16).reshape(4, 8, 8)
    matrices = got.view(np.uint16).reshape(3, 4, 8, 8)
    assert (matrices[0] == fragments).all()
    assert (matrices[1, :2] == fragments[:2].transpose(0, 2, 1)).all() and not matrices[1, 2:].any()
    assert (matrices[2, 0] == fragments[3]).all() and not matrices[2, 1:].any()


def test_conversions_of_8_bit_floats(kernel90):
    x = np.random.default_rng(10).uniform(-8, 8, BLOCK).astype(np.float32)
    x[:4] = [0.0, 448.0, 1e6, np.nan]
    got = launch(kernel90, "eighths", x, np.zeros((BLOCK, 6), np.float32))

    def rounded(v, dtype):
        largest = np.float32(ml_dtypes.finfo(dtype).max)
        return np.clip(v.astype(np.float32), -largest, largest).astype(dtype).astype(np.float32)

    e4m3, e5m2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
    with np.errstate(over="ignore"):  # beyond 65504: infinity, which saturates
        half, own = (np.clip(v, -70000, 70000).astype(np.float16) for v in (np.float32(3) * x, x))
    want = [
        rounded(x, e4m3),
        rounded(-x * 100, e4m3),
        rounded(x * np.float32(1000), e5m2),
        rounded(x / np.float32(1000), e5m2),
        rounded(own, e4m3),
        rounded(half, e4m3),
    ]
    assert np.array_equal(got, np.stack(want, axis=1), equal_nan=True)


def test_mma_of_8_bit_floats(kernel90):
    rng = np.random.default_rng(11)
    left = (rng.integers(-8, 9, (16, 32)) / 4).astype(ml_dtypes.float8_e4m3fn)
    right = (rng.integers(-4, 5, (8, 32)) / 2).astype(ml_dtypes.float8_e5m2)
    a, b = left.view(np.uint8).reshape(16, 8, 4), right.view(np.uint8).reshape(8, 8, 4)
    x = np.zeros((32, 6, 4), np.uint8)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        x[lane] = [a[g, t], a[g + 8, t], a[g, t + 4], a[g + 8, t + 4], b[g, t], b[g, t + 4]]
    got = launch(kernel90, "mma_fp8", x.view(U32), np.zeros((32, 4), np.float32), block=32)
    want = left.astype(float) @ right.astype(float).T + 1
    for lane in range(32):
        for i in range(4):
            assert got[lane, i] == want[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2]


def test_mma_of_16_by_8_doubles(kernel90):
    rng = np.random.default_rng(12)
    a, b = rng.uniform(-1, 1, (16, 8)), rng.uniform(-1, 1, (8, 8))
    x = np.zeros((32, 6))
    for lane in range(32):
        g, t = lane // 4, lane % 4
        x[lane] = [a[g, t], a[g + 8, t], a[g, t + 4], a[g + 8, t + 4], b[g, t], b[g, t + 4]]
    got = launch(kernel90, "mma_f64_k8", x, np.zeros((32, 4)), block=32)
    want = a @ b.T + 0.5
    for lane in range(32):
        for i in range(4):
            assert abs(got[lane, i] - want[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2]) < 1e-14


def test_pairs_of_integers(kernel90):
    x = ints()

    def expected(v, i):
        p, q = wrap(v * 70001 - 40000000), wrap(int(x[127 - i]) * 65537 - 30000000)
        pairs = [(signed(p >> s & 0xFFFF, 16), signed(q >> s & 0xFFFF, 16)) for s in (0, 16)]
        most = sum((max(a, b, 0) & 0xFFFF) << s for (a, b), s in zip(pairs, (0, 16), strict=True))
        least = sum((min(a, b) & 0xFFFF) << s for (a, b), s in zip(pairs, (0, 16), strict=True))
        return most + least * 3 + max(p + 5, q) + max(p % 2**32, q % 2**32, 7)

    check(kernel90, "integer_pairs", expected, x)


def test_a_cluster_of_one_block(kernel90):
    x = ints()
    check(kernel90, "cluster_of_one", lambda v, i: int(x[127 - i]) + 1000, x)


def test_a_grid_that_is_no_multiple_of_its_cluster_is_refused(kernel90):
    with pytest.raises(ptxsim.PtxsimError, match=r"grid \(1, 1, 1\) is no multiple of its cluster \(2, 1, 1\)"):
        launch(kernel90, "cluster_of_two", ints())


def test_dependent_launches(kernel90):
    check(kernel90, "dependent_launch", lambda v, i: 3 * v)


def test_a_pointer_is_no_tensor_map(kernel90):
    with pytest.raises(ptxsim.PtxsimError, match=r"foreign_sm90\.cu:\d+: .*there is no tensor map at generic address"):
        launch(kernel90, "with_a_tensor_map", ints())
