"""Loops that retry a compare-and-swap: the threads of a word do at once what they stand for."""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim

SOURCE = """
template <class T> __device__ T as(unsigned long long bits);
template <> __device__ double as(unsigned long long bits) { return __longlong_as_double(bits); }
template <> __device__ long long as(unsigned long long bits) { return bits; }
__device__ unsigned long long bits(double x) { return __double_as_longlong(x); }
__device__ unsigned long long bits(long long x) { return x; }
template <class T, class F> __device__ T until_swapped(T* to, F f) {
    unsigned long long *p = reinterpret_cast<unsigned long long*>(to), old = *p, expected;
    do {
        expected = old;
        old = atomicCAS(p, expected, bits(f(as<T>(expected))));
    } while (old != expected);
    return as<T>(old);
}
template <class T, class F> __device__ T while_(T* to, T value, F f) {
    unsigned long long *p = reinterpret_cast<unsigned long long*>(to), old = *p, expected;
    while (f(value, as<T>(old))) {
        expected = old;
        if ((old = atomicCAS(p, expected, bits(value))) == expected) break;
    }
    return as<T>(old);
}
#define KERNEL(name, T, call)                                      \\
    extern "C" __global__ void name(T* to, const T* from, T* found) { \\
        const int i = threadIdx.x + blockIdx.x * blockDim.x;       \\
        const T value = from[i];                                   \\
        found[i] = call;                                           \\
    }
KERNEL(add, double, until_swapped(to, [=](double old) { return old + value; }))
KERNEL(add_whole, long long, until_swapped(to, [=](long long old) { return old + value; }))
KERNEL(sub, double, until_swapped(to, [=](double old) { return old - value; }))
KERNEL(mul, double, until_swapped(to, [=](double old) { return old * value; }))
KERNEL(least, long long, while_(to, value, [](long long x, long long y) { return x < y; }))
KERNEL(most, double, while_(to, value, [](double x, double y) { return x > y; }))
KERNEL(other, double, until_swapped(to, [=](double old) { return 0.5 * old + value; }))
KERNEL(after_all, double, until_swapped(to, [=](double old) { return value - old; }))
"""
UPDATES = {
    "add": lambda old, v: old + v,
    "add_whole": lambda old, v: old + v,
    "sub": lambda old, v: old - v,
    "mul": lambda old, v: old * v,
    "least": min,
    "most": max,
    # These are done one after the other.
    "other": lambda old, v: 0.5 * old + v,
    "after_all": lambda old, v: v - old,
}


@pytest.mark.parametrize("name", UPDATES)
def test_threads_that_retry_come_one_after_the_other(built, name):
    kernel = ptxsim.load(built(SOURCE), name)
    dtype = np.int64 if name in ("add_whole", "least") else np.float64
    values = (np.arange(96) * 7 % 97 / 64 + 1).astype(dtype)
    # Each thread changes what those before it left.
    expected = [dtype(3 if name == "least" else 1)]
    for value in values:
        expected.append(dtype(UPDATES[name](expected[-1], value)))
    to = ptxsim.Array(np.array(expected[:1]), "to")
    found = ptxsim.Array(np.zeros(96, dtype), "found")
    done = kernel.launch(3, 32, [to, ptxsim.Array(values, "from"), found])
    assert to.numpy()[0] == expected[-1]
    assert (found.numpy() == np.array(expected[:-1])).all()
    assert (done.steps < 100) == (name not in ("other", "after_all"))
