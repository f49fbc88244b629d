"""Random straight programs of two blocks: a race is reported where vector clocks of single threads
find one, and nowhere else. The clocks of blocks are compared with tables.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from running import HEADER

import ptxsim
from ptxsim.check.clocks import EMPTY, Clock

THREADS, BLOCKS = 64, 2
WORDS = {
    "t": lambda t: t,
    "63 - t": lambda t: 63 - t,
    "t ^ 1": lambda t: t ^ 1,
    "t / 2": lambda t: t // 2,
    "t % 32": lambda t: t % 32,
    "5": lambda t: 5,
}
# how %r0 is made of the thread %t
LINES = {
    "t": "mov.u32 %r0, %t;",
    "63 - t": "sub.u32 %r0, 63, %t;",
    "t ^ 1": "xor.b32 %r0, %t, 1;",
    "t / 2": "shr.u32 %r0, %t, 1;",
    "t % 32": "and.b32 %r0, %t, 31;",
    "5": "mov.u32 %r0, 5;",
}
ACCESSES = {
    "load": "ld.{space}.u32 %r1, [%a];",
    "store": "st.{space}.u32 [%a], %v;",
    "add": "atom.{space}.add.u32 %r1, [%a], 1;",
    "volatile load": "ld.volatile.{space}.u32 %r1, [%a];",
    "volatile store": "st.volatile.{space}.u32 [%a], %v;",
}
PLAIN = ("load", "store")
FLAG = """setp.eq.u32 %p, %u, 0; @%p {release} setp.ne.u32 %p, %u, 64; @%p bra F{n};
W{n}: {acquire} setp.eq.u32 %p, %r1, 0; @%p bra W{n}; {fence} F{n}: bar.warp.sync -1;"""
EDGES = {
    "block": "bar.sync 0;",
    "warp": "bar.warp.sync -1;",
    # the second warp of each block by itself; the first arrives, for which the second waits
    "part": "setp.ge.u32 %p, %t, 32; @%p bar.sync 1, 32;",
    "arrive": "setp.lt.u32 %p, %t, 32; @%p bar.arrive {n}, 64; @!%p bar.sync {n}, 64;",
    # thread 0 of block 0 raises a flag, for which thread 0 of block 1 waits; then warps meet
    "flag": FLAG.replace("{release}", "st.release.gpu.global.u32 [%x+{at}], 1;")
    .replace("{acquire}", "ld.acquire.gpu.global.u32 %r1, [%x+{at}];")
    .replace("{fence}", ""),
    "fenced flag": FLAG.replace(
        "{release}", "fence.acq_rel.gpu; @%p st.relaxed.gpu.global.u32 [%x+{at}], 1;"
    )
    .replace("{acquire}", "ld.relaxed.gpu.global.u32 %r1, [%x+{at}];")
    .replace("{fence}", "fence.acq_rel.gpu;"),
    "cluster": "barrier.cluster.arrive; barrier.cluster.wait;",
}


# the lanes of a batch, and the blocks of a cluster
RUNS = {
    "shared": [(64, 1), (16_384, 1)],
    "global": [(64, 1), (16_384, 1), (16_384, 2)],
    "cluster": [(64, 2), (16_384, 2)],
}


@dataclass
class Step:
    kind: str
    word: str = "t"
    first: int = 0
    end: int = THREADS * BLOCKS
    # whether the word is in the other block's shared memory
    other: bool = False

    def lines(self, number: int, space: str) -> str:
        if self.kind in EDGES:
            return (
                EDGES[self.kind].replace("{n}", str(number)).replace("{at}", str(256 + 4 * number))
            )
        named = "shared::cluster" if space == "cluster" else space
        access = ACCESSES[self.kind].replace("{space}", named)
        to = "mad.wide.u32 %a, %r0, 4, %x;" if space == "global" else "mad.lo.u32 %a, %r0, 4, %s;"
        if self.other:
            to += "mapa.shared::cluster.u32 %a, %a, %c;"
        return f"""{LINES[self.word]} {to} mad.lo.u32 %v, %t, 1000, {number};
            setp.ge.u32 %p, %u, {self.first}; setp.lt.and.u32 %p, %u, {self.end}, %p; @%p {access}"""


def program(draw: random.Random, kinds: list[str], space: str) -> list[Step]:
    edges = [edge for edge in EDGES if edge != "cluster" or space == "cluster"]
    steps = []
    for _ in range(draw.randint(2, 8)):
        if draw.random() < 0.5:
            steps.append(Step(draw.choice(["block", *edges])))
            continue
        first = draw.choice([0, 0, 1, 32, 33, 64])
        end = draw.choice([first + 1, first + 2, first + 32, first + 64, 128])
        other = space == "cluster" and draw.random() < 0.5
        steps.append(Step(draw.choice(kinds), draw.choice([*WORDS]), first, end, other))
    return steps


def learn(known: np.ndarray, kind: str, now: int) -> None:
    """Let threads know until when what others did comes before what they do next."""
    if "flag" in kind:
        row = known[0].copy()
        row[0] = now
        known[64:96] = np.maximum(known[64:96], row)
        kind = "warp"
    size = {"warp": 32, "part": 32, "cluster": 128}.get(kind, 64)
    for first in range(0, len(known), size):
        if kind == "part" and first % 64 == 0:
            continue
        # Of those who only arrive, none learns.
        learners = slice(first + 32 * (kind == "arrive"), first + size)
        known[learners] = known[first : first + size].max(axis=0)
        known[learners, first : first + size] = now


def races(steps: list[Step], space: str) -> bool:
    """Return whether two accesses of a word, not both strong and one a write, have no order."""
    known = np.full((THREADS * BLOCKS, THREADS * BLOCKS), -1)
    seen: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for now, step in enumerate(steps):
        if step.kind in EDGES:
            learn(known, step.kind, now)
            continue
        for thread in range(step.first, min(step.end, THREADS * BLOCKS)):
            block = 0 if space == "global" else thread // THREADS ^ step.other
            others = seen.setdefault((block, WORDS[step.word](thread % THREADS)), [])
            for other, time, kind in others:
                write = "load" not in step.kind or "load" not in kind
                plain = step.kind in PLAIN or kind in PLAIN
                if write and plain and other != thread and known[thread, other] < time:
                    return True
            others.append((thread, now, step.kind))
    return False


@pytest.mark.parametrize("space", RUNS)
@pytest.mark.parametrize("kinds", ["plain", "all"])
@pytest.mark.parametrize("seed", range(80))
def test_random_programs(space, kinds, seed):
    draw = random.Random(f"{seed} {space} {kinds}")
    steps = program(draw, list(PLAIN if kinds == "plain" else ACCESSES), space)
    text = f"""{HEADER}.visible .entry k(.param .u64 out) {{ .reg .b64 %x; .reg .pred %p;
        .reg .b{64 if space == "global" else 32} %a; .reg .b32 %r<3>, %t, %u, %v, %s, %b, %c;
        .shared .align 4 .b8 s[256]; ld.param.u64 %x, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
        mad.lo.u32 %u, %b, 64, %t; xor.b32 %c, %b, 1; mov.u32 %s, s; mad.lo.u32 %v, %t, 4, %s;
        st.shared.u32 [%v], 0; {EDGES["cluster" if space == "cluster" else "block"]}
        {"".join(step.lines(n, space) for n, step in enumerate(steps, 2))}
        {EDGES["cluster"] if space == "cluster" else ""} ret; }}"""
    for lanes, cluster in RUNS[space]:
        done = ptxsim.load(text).launch(
            BLOCKS,
            THREADS,
            [ptxsim.Array(np.zeros(128, np.uint32))],
            stop_at_first=False,
            limits=ptxsim.Limits(lanes=lanes),
            cluster=cluster,
        )
        assert races(steps, space) == bool(done.faults), (steps, done.faults[:1])


@pytest.mark.parametrize("seed", range(30))
def test_clocks_compared_with_tables(seed):
    """A table holds a time for each thread of four blocks."""
    draw, padded = np.random.default_rng(seed), 4
    tables, clocks = [np.zeros((4, padded), int)], [EMPTY]
    for _ in range(20):
        a, b = draw.integers(0, len(tables), 2)
        if draw.random() < 0.4:
            blocks = draw.permutation(4)[: draw.integers(1, 4)]
            rows = draw.integers(0, 3, (len(blocks), padded)) * draw.integers(0, 4)
            table = np.zeros((4, padded), int)
            table[blocks] = rows
            clock = Clock.of_rows(blocks, rows, padded)
        else:
            table, clock = np.maximum(tables[a], tables[b]), clocks[a].joined(clocks[b], padded)
        tables.append(table)
        clocks.append(clock)
        threads, times = np.repeat(np.arange(16), 10), np.tile(np.arange(10), 16)
        # Nobody asks for the time 0, which is before all.
        want = (times <= table.reshape(-1)[threads]) | (times == 0)
        assert ((clock.knows(threads, times, padded) | (times == 0)) == want).all()
        assert bool(clock) == bool(table.any())
        assert clocks[a].covers(clock, padded) == (tables[a] >= table).all()
