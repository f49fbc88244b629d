"""What the lanes of a warp do together, compared with the pseudo-code and tables of the PTX ISA: in
whole warps, in a part of one, and with a mask for each lane.
"""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from running import execute

import ptxsim

RNG = np.random.default_rng(3)
X = RNG.integers(0, 2**32, 64, np.uint32)
X[::5] = 7
SMALL = np.array([lane // 3 % 3 for lane in range(64)], np.uint32)
LANE = np.arange(64, dtype=np.uint32) % 32
EVEN, ODD, FULL = 0x55555555, 0xAAAAAAAA, 0xFFFFFFFF
# Code that sets %q for the lanes that execute an instruction, and their mask
PARTS = {
    "all": ("setp.lt.u32 %q, %t, 32;", FULL),
    "the first 20": ("setp.lt.u32 %q, %t, 20;", 0xFFFFF),
    "odd": ("and.b32 %m, %t, 1; setp.eq.u32 %q, %m, 1;", ODD),
}
MASK_OF_EACH = f"and.b32 %m, %t, 1; setp.eq.u32 %q, %m, 1; selp.b32 %m, {ODD}, {EVEN}, %q;"


def members(mask: int, lane: int) -> list[int]:
    """The lanes of a mask in the warp of a lane."""
    return [lane // 32 * 32 + n for n in range(32) if mask >> n & 1]


def warp(lines: str, inputs, outputs: int, part: str) -> list[np.ndarray]:
    """Run `lines` for the lanes of a part, `@%q` before the instruction; the others leave 99."""
    preset = "".join(f"mov.u32 %o{n}, 99;" for n in range(outputs))
    return execute(f"{part} {preset} {lines}", inputs, [32] * outputs, ".reg .b32 %m;")


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Which lane's value a shuffle gives, and whether that is in range (PTX ISA 9.7.9.6)."""
    b, clamp, mask = b & 31, c & 31, c >> 8 & 31
    high, low = lane & mask | clamp & ~mask, lane & mask
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | b & ~mask}[mode]
    good = j >= high if mode == "up" else j <= high
    return (j, True) if good else (lane, False)


@pytest.mark.parametrize("c", [0, 31, 0x1800, 0x181F, 0x1C03, 0x100F, 0x0417])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(mode, c):
    by = RNG.integers(0, 40, 64, np.uint32)
    lines = f"shfl.sync.{mode}.b32 %o0|%p, %i0, %i1, {c}, -1; selp.b32 %o1, 1, 0, %p;"
    got, inside = warp(lines, [X, by], 2, "")
    for lane in range(64):
        j, good = shuffled(mode, lane % 32, int(by[lane]), c)
        assert (got[lane], inside[lane]) == (X[lane // 32 * 32 + j], good), lane


VOTES = {
    "all": lambda flags: all(flags),
    "any": lambda flags: any(flags),
    "uni": lambda flags: len(set(flags)) == 1,
}


@pytest.mark.parametrize("limit", [0, 1, 10, 26, 32])
@pytest.mark.parametrize("part", PARTS)
def test_votes(part, limit):
    """The second warp votes the other way round."""
    before, mask = PARTS[part]
    given = np.where(np.arange(64) < 32, limit > LANE, limit <= LANE).astype(np.uint32)
    for sync in (".sync", ""):
        last = f", {mask}" if sync else ""
        lines = "setp.ne.u32 %p, %i0, 0; @%q vote" + f"{sync}.ballot.b32 %o0, %p{last};"
        for n, name in enumerate(VOTES, 1):
            lines += f"setp.ne.u32 %p, %i0, 0; @%q vote{sync}.{name}.pred %p, %p{last};"
            lines += f"@%q selp.b32 %o{n}, 1, 0, %p;"
        got = warp(lines + "@%q activemask.b32 %o4;", [given], 5, before)
        for lane in range(64):
            here = members(mask, lane)
            ballot = sum(int(given[n]) << n % 32 for n in here)
            flags = [bool(given[n]) for n in here]
            want = [ballot, *(vote(flags) for vote in VOTES.values()), mask]
            assert [int(x[lane]) for x in got] == (want if lane in here else [99] * 5), lane


REDUCTIONS = {
    "add": operator.add,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


@pytest.mark.parametrize("type_", ["s32", "u32", "b32"])
def test_reductions_of_lanes_with_one_mask(type_):
    names = list(REDUCTIONS)[:3] if type_ != "b32" else list(REDUCTIONS)[3:]
    lines = "".join(f"redux.sync.{name}.{type_} %o{n}, %i0, %m;" for n, name in enumerate(names))
    values = [int(x) for x in (X.view(np.int32) if type_ == "s32" else X)]
    got = warp(lines, [X], 3, MASK_OF_EACH)
    for lane in range(64):
        group = [values[n] for n in members(ODD if lane % 2 else EVEN, lane)]
        for n, name in enumerate(names):
            assert got[n][lane] == functools.reduce(REDUCTIONS[name], group) % 2**32, (name, lane)


@pytest.mark.parametrize("same", [False, True])
def test_lanes_with_equal_values(same):
    values = (LANE % 2 if same else SMALL).astype(np.uint32)
    lines = "match.any.sync.b32 %o0, %i0, %m; mov.b64 %w, {%m, %i0};"
    lines += "match.any.sync.b64 %o1, %w, %m; match.all.sync.b32 %o2|%p, %i0, %m;"
    lines += "selp.b32 %o3, 1, 0, %p; match.all.sync.b32 %o4, %i0, %m;"
    got = execute(f"{MASK_OF_EACH} {lines}", [values], [32] * 5, ".reg .b32 %m; .reg .b64 %w;")
    for lane in range(64):
        mask = ODD if lane % 2 else EVEN
        here = members(mask, lane)
        equal = sum(1 << n % 32 for n in here if values[n] == values[lane])
        every = len({int(values[n]) for n in here}) == 1
        want = [equal, equal, mask * every, every, mask * every]
        assert [int(x[lane]) for x in got] == want, lane


@pytest.mark.parametrize(("mask", "leader"), [(FULL, 0), (0xFFFFF000, 12), (1 << 31, 31)])
def test_the_lowest_lane_is_elected(mask, leader):
    part = f"shl.b32 %m, 1, %t; and.b32 %m, %m, {mask}; setp.ne.u32 %q, %m, 0;"
    lines = f"@%q elect.sync %o0|%p, {mask}; @%q selp.b32 %o1, 1, 0, %p;"
    got = warp(lines, [X], 2, part)
    inside = np.isin(LANE, members(mask, 0))
    assert (got[0] == np.where(inside, leader, 99)).all()
    assert (got[1] == np.where(inside, leader == LANE, 99)).all()


@pytest.mark.parametrize(
    ("mask", "lanes"), [(FULL, 20), (0xFFFFE, 20), (0x1FFFFF, 20)], ids=["more", "lacks 0", "waits"]
)
def test_a_mask_names_those_who_are_here(mask, lanes):
    with pytest.raises(ptxsim.KernelFault, match=f"member mask 0x{mask:08x}, but .* 0x000fffff"):
        warp(f"@%q vote.sync.any.pred %p, %q, {mask};", [X], 1, PARTS[f"the first {lanes}"][0])
