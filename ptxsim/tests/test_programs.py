"""Straight-line programs made by hypothesis, compared with a direct evaluator on Python integers
and NumPy scalars.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from running import execute

MASK = 0xFFFFFFFF
LANES = 32
signed = lambda x: x - (1 << 32) if x >> 31 else x

INTEGER = {
    "add.s32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.s32": lambda a, b: signed(a) * signed(b) >> 32,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.u32": lambda a, b: max(a, b),
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.s32": lambda a, b: signed(a) >> min(b, 32),
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
}

step = st.tuples(
    st.sampled_from([*sorted(INTEGER), "mad.lo.u32", "selp.b32"]),
    st.integers(0, 5),  # destination
    st.integers(0, 5),
    st.one_of(st.integers(0, 5), st.integers(6, MASK).map(lambda v: ("immediate", v))),
    st.integers(0, 5),
    st.booleans(),  # guarded by a predicate
)


def shown(operand):
    return str(operand[1]) if isinstance(operand, tuple) else f"%v{operand}"


@settings(max_examples=40)
@given(st.lists(step, min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_integer_programs(steps, seed):
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(0, 2**32, LANES, dtype=np.uint32) for _ in range(3)]
    lines = [f"mov.u32 %v{i}, %i{i % 3};" for i in range(6)] + ["setp.lt.u32 %p, %i0, %i1;"]
    state = [[int(inputs[i % 3][lane]) for i in range(6)] for lane in range(LANES)]
    truth = [bool(inputs[0][lane] < inputs[1][lane]) for lane in range(LANES)]
    for name, d, a, b, c, guarded in steps:
        guard = "@%p " if guarded else ""
        if name == "mad.lo.u32":
            lines.append(f"{guard}{name} %v{d}, %v{a}, {shown(b)}, %v{c};")
        elif name == "selp.b32":
            lines.append(f"{guard}{name} %v{d}, %v{a}, {shown(b)}, %p;")
        else:
            lines.append(f"{guard}{name} %v{d}, %v{a}, {shown(b)};")
        for lane, v in enumerate(state):
            if guarded and not truth[lane]:
                continue
            y = b[1] if isinstance(b, tuple) else v[b]
            if name == "mad.lo.u32":
                result = v[a] * y + v[c]
            elif name == "selp.b32":
                result = v[a] if truth[lane] else y
            else:
                result = INTEGER[name](v[a], y)
            v[d] = result & MASK
    lines += [f"mov.u32 %o{i}, %v{i};" for i in range(6)]
    got = execute("\n".join(lines), inputs, [32] * 6, ".reg .b32 %v<6>;")
    assert [[int(g[lane]) for g in got] for lane in range(LANES)] == state


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 31), min_size=LANES, max_size=LANES),
    st.integers(1, 7),
    st.integers(0, 40),
)
def test_divergent_loops(trips, stride, bound):
    """Each thread leaves a loop by itself: by its count, or by a break in the middle."""
    inputs = [np.array(trips, np.uint32)]
    lines = f"""
        mov.u32 %v0, 0; mov.u32 %v1, 0;
        LOOP: setp.ge.u32 %p, %v0, %i0; @%p bra DONE;
        mad.lo.u32 %v1, %v0, %v0, %v1;
        setp.gt.u32 %q, %v1, {bound * 50}; @%q bra DONE;
        add.u32 %v0, %v0, {stride}; bra LOOP;
        DONE: mov.u32 %o0, %v1; mov.u32 %o1, %v0;"""
    got = execute(lines, inputs, [32, 32], ".reg .b32 %v<2>;")
    for lane, trip in enumerate(trips):
        i = total = 0
        while i < trip:
            total += i * i
            if total > bound * 50:
                break
            i += stride
        assert (int(got[0][lane]), int(got[1][lane])) == (total, i)
