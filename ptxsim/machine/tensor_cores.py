"""Arithmetic of Hopper's tensor cores, bit by bit: inner products with an accumulator, of mma.sync,
wmma and wgmma.

One element of D = A B + C comes about so. Products are exact. Products and accumulator are aligned
to the largest of their exponents, where the exponent of a product is the sum of those of its
factors; what lies more than `fraction` bits below that exponent's unit is cut off, of each term by
itself. The sum of what is left is exact, and is rounded once, to fp32 towards zero, or to fp16 to
nearest even. An instruction whose k is more than one step is that several times, each with the
result of the one before.

| instruction | products a step | fraction | result in fp32 keeps |
|---|---|---|---|
| mma.sync, wmma, wgmma of fp16, bf16 | 16 (k8: 8) | 25 bits | 23 bits |
| mma.sync, wgmma of tf32 | 8 (k4: 4) | 25 | 23 |
| wmma of tf32 | 4 | 25 | 23 |
| wgmma of fp8 | 32 | 13 | 13 |
| mma.sync of fp8 | 16 (k16: 8) | 25 | 23 |

Sources. Blocks, alignment with 2 bits beyond fp32's 23 for 16-bit and tf32 inputs and 10 fewer for
fp8, final rounding: Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv
2512.07004 (2025), with their model H100TC. The same parameters, fp8 of wgmma and of mma.sync apart,
13 bits of an fp8 wgmma's fp32 result: Xie et al., "MMA-Sim", arXiv
2511.10909 (2025). The method of both: Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of
NVIDIA tensor cores", PeerJ Computer Science 7:e330 (2021). From the machine code that ptxas 13.0
makes: Hopper has no mma.sync of fp8; it is converted to fp16, two bytes of each word are
multiplied, then the other two, from zero, and the accumulator is added apart; and a wmma of tf32
takes two steps of 4 (here: the first four columns of A, then the last).

Where the two models disagree, the first is followed: nothing is aligned to an exponent below -133,
and an accumulator of zero has none. That concerns products below 2^-126 only. Neither gives the
sign of a zero: here an exact one is +0.

Not yet compared with a card by this project (tests/experiments/gpu/test_tensor_cores.py does it
where there is a GPU).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import native

F8 = np.dtype("f8")
# A zero has this exponent.
NO_EXPONENT = -5000
# Terms are aligned to no smaller exponent.
MIN_EXPONENT = -133
# From this exponent on, fp32 has infinity.
LARGEST_EXPONENT = 128
# This many elements of D are computed at once: they stay in a cache.
CHUNK = 1 << 14
# Each format's subnormals have this exponent, its smallest.
SUBNORMAL = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "f32": -126}
FP8 = ("e4m3", "e5m2")


@dataclass(frozen=True)
class Rule:
    """The precision of one step: bits kept below the largest exponent, and of the fraction of an
    fp32 result.
    """

    fraction: int = 25
    keeps: int = 23


USUAL, WGMMA_FP8 = Rule(), Rule(13, 13)


def mma(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, names: tuple[str, str], result: str
) -> np.ndarray:
    """mma.sync and wmma: D of matrices a [..., m, k], b [..., n, k], c [..., m, n], as float64.

    `names`: formats of a and b. `result`: "f32" or "f16", the format of D. A k of more than the
    step that the formats have is done in several."""
    if names[0] in FP8:
        k = a.shape[-1]
        lower = np.arange(k) % 4 < 2
        zero = np.zeros(c.shape)
        part = multiply(a[..., lower], b[..., lower], zero, ("f16", "f16"), result)
        part = multiply(a[..., ~lower], b[..., ~lower], part, ("f16", "f16"), result)
        held = np.float16 if result == "f16" else np.float32
        with np.errstate(all="ignore"):
            return (part.astype(held) + c.astype(held)).astype(F8)
    return multiply(a, b, c, names, result)


def wmma(a: np.ndarray, b: np.ndarray, c: np.ndarray, name: str, result: str) -> np.ndarray:
    """wmma.mma: as `mma`, a and b of one format; of tf32 in two steps."""
    for part in (slice(0, 4), slice(4, 8)) if name == "tf32" else (slice(None),):
        c = multiply(a[..., part], b[..., part], c, (name, name), result)
    return c


def wgmma(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, names: tuple[str, str], result: str
) -> np.ndarray:
    """wgmma.mma_async: as `mma`, by the rule that is its own for 8-bit inputs."""
    return multiply(a, b, c, names, result, WGMMA_FP8 if names[0] in FP8 else USUAL)


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    names: tuple[str, str],
    result: str,
    rule: Rule = USUAL,
) -> np.ndarray:
    """Compute one step over all of its k.

    Shapes as of `mma`; returns float64 values of the result's format.
    """
    (m, k), n = a.shape[-2:], b.shape[-2]
    left, right, c_ = a.reshape(-1, m, k), b.reshape(-1, n, k), c.reshape(-1, m, n)
    min_exponents = SUBNORMAL[names[0]], SUBNORMAL[names[1]], SUBNORMAL[result]
    if (total := native.multiply(left, right, c_, min_exponents, rule.fraction)) is not None:
        with np.errstate(all="ignore"):
            return _rounded(total, result, rule.keeps).reshape(c.shape)
    # NumPy loops over the last axis, which is best the longer one.
    many = len(c_) > n
    if many:
        left = left.transpose(2, 1, 0)[:, :, None]
        right = right.transpose(2, 1, 0)[:, None]
        c_ = c_.transpose(1, 2, 0)
    else:
        left, right = left.transpose(2, 0, 1)[..., None], right.transpose(2, 0, 1)[:, :, None]
    left, right, c_ = (np.ascontiguousarray(x, F8) for x in (left, right, c_))
    exponents = _exponents(left, names[0]), _exponents(right, names[1])
    e_c, out = _exponents(c_, result), np.empty(c_.shape)
    step = max(1, CHUNK // (c_.shape[1] * c_.shape[2]))
    with np.errstate(all="ignore"):
        for first in range(0, len(out), step):
            here = slice(first, first + step)
            x, y, ex, ey = (z[:, here] if z.shape[1] > 1 else z for z in (left, right, *exponents))
            total = _aligned_sum(x, y, c_[here], _largest(ex, ey, e_c[here]), rule.fraction)
            out[here] = _rounded(total, result, rule.keeps)
    return (out.transpose(2, 0, 1) if many else out).reshape(c.shape)


def _exponents(x: np.ndarray, name: str) -> np.ndarray:
    """Return the exponents that the hardware aligns by: of 1.f, and of subnormal numbers that of
    the least normal ones.
    """
    _, powers = np.frexp(x)
    return np.where(x == 0, NO_EXPONENT, np.maximum(powers - 1, SUBNORMAL[name])).astype(np.int16)


def _largest(left: np.ndarray, right: np.ndarray, top: np.ndarray) -> np.ndarray:
    """Return the largest exponent of products and accumulator."""
    top = np.maximum(top, np.int16(MIN_EXPONENT))
    sums = np.empty_like(top)
    for x, y in zip(left, right, strict=True):
        np.maximum(top, np.add(x, y, out=sums), out=top)
    return top


def _aligned_sum(
    left: np.ndarray, right: np.ndarray, c: np.ndarray, top: np.ndarray, fraction: int
) -> np.ndarray:
    """Return the sum of terms cut off `fraction` bits below the unit of 2^top; exact in float64."""
    scale = np.ldexp(1.0, fraction - top.astype(np.int32))
    total = np.trunc(c * scale)
    term = np.empty_like(total)
    for x, y in zip(left, right, strict=True):
        np.multiply(x, y, out=term)
        term *= scale
        np.trunc(term, out=term)
        total += term
    # An exact zero is +0.
    total += 0.0
    total /= scale
    return total


def _rounded(total: np.ndarray, result: str, keeps: int) -> np.ndarray:
    """To fp16 to nearest even; to fp32 towards zero, `keeps` bits of fraction; what is too large
    becomes infinite.
    """
    if result == "f16":
        return total.astype(np.float16).astype(F8)
    whole = (total.view(np.int64) & ~np.int64((1 << 52 - keeps) - 1)).view(F8)
    size = np.abs(total)
    tiny = (size < 2.0**-126) & (size > 0)
    if np.count_nonzero(tiny):
        unit = 2.0 ** (-126 - keeps)
        whole = np.where(tiny, np.copysign(np.trunc(total / unit) * unit, total), whole)
    odd = size >= 2.0**LARGEST_EXPONENT
    if np.count_nonzero(odd):
        whole = np.where(odd, np.copysign(np.inf, total), whole)
    return np.where(np.isnan(total), total, whole)
