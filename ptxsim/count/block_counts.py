"""How often each basic block of a kernel's SASS is executed, from how often the emulator executed its PTX.

ptxas unrolls loops further than the PTX shows, peels them, moves and merges instructions. What it does not do is make
two fused multiply-adds, stores, copies or barriers out of one. Each such machine instruction stands for one execution
of the PTX instruction that the cubin's line table names for it; so over the blocks that hold copies of it, executions
add up to those of the PTX. With the flow of control (as many warps come to a block as leave it; where a warp parts,
both ways are counted) this is a linear programme. It is solved twice: for the least disagreement with the counts, and,
with that disagreement, for the fewest instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import highspy
import numpy as np

from ..errors import PtxError, PtxsimError
from ..ptx import sass, syntax

# SASS opcodes of which each execution is one of a PTX instruction: opcodes of that, and words that it must have
ONE_TO_ONE: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "FFMA": (("fma",), frozenset({"f32"})),
    "DFMA": (("fma",), frozenset({"f64"})),
    "HMMA": (("mma",), frozenset({"sync"})),
    "LDG": (("ld", "ldu"), frozenset()),
    "STG": (("st",), frozenset()),
    "STS": (("st",), frozenset()),
    "LDGSTS": (("cp",), frozenset({"async"})),
    "LDSM": (("ldmatrix",), frozenset()),
    "BAR": (("bar", "barrier"), frozenset()),
    "ATOMG": (("atom",), frozenset()),
    "ATOMS": (("atom",), frozenset()),
    "RED": (("red", "atom"), frozenset()),
    "SHFL": (("shfl",), frozenset()),
    "TEX": (("tex",), frozenset()),
    "TLD": (("tex",), frozenset()),
}
# shapes of mma.sync that are one HMMA each, on every architecture from Ampere on
ONE_HMMA = {("m16n8k16", "f16"), ("m16n8k16", "bf16"), ("m16n8k8", "f16"), ("m16n8k8", "bf16"), ("m16n8k8", "tf32")}
ONE_HMMA |= {("m16n8k4", "tf32")}
GMMA = ("HGMMA", "QGMMA")
APART = 1e-4  # what one divergence, or reconvergence, of each warp costs, relative to a count that is missed altogether
SOME = 1e-4  # executions a warp above which a block counts as executed
LOOSE = 1e-6  # by how much the second solution may fit worse than the first
ROUNDS = 8  # of looking for loops that nobody enters
NODES = 100  # of the search for a second solution in whole numbers, before it is given up
SYNCHRONISES = ("BSYNC", "WARPSYNC")  # parted threads come to what follows one by one, and leave together


@dataclass(frozen=True)
class Executions:
    """Executions, by warp, of each block of `function.blocks`."""

    blocks: np.ndarray
    compared: float  # executions of the PTX that were matched
    missed: float  # of these, those that the blocks' executions do not give, or give too many

    @property
    def disagreement(self) -> float:
        """Executions missed as a share of those compared."""
        return self.missed / self.compared if self.compared else 0.0

    def total(self, function: sass.Function) -> float:
        """Instructions executed, by warp: ncu's sm__inst_executed.sum."""
        return float(sum(x * len(b.instructions) for x, b in zip(self.blocks, function.blocks, strict=True)))


@dataclass
class _Anchor:
    """An equation: executions of blocks, each times the copies in it, add up to a count; or to more, or fewer."""

    blocks: dict[int, float]
    count: float
    more: bool
    fewer: bool
    weight: float = 1.0  # how many instructions say the same

    def cost(self, warps: float) -> float:
        """The cost of missing the count by one execution a warp: 1 for missing it altogether."""
        return self.weight / max(self.count / warps, 1e-3)


Merged = dict[tuple[tuple[tuple[int, float], ...], float, bool, bool], _Anchor]  # equations that say the same


def require_same(function: sass.Function, code: list[syntax.Instruction], source: str) -> None:
    """Raise `PtxError` where the PTX is not the one that the cubin was made from."""
    if function.ptx is None or not any(i.ptx_line for i in function.instructions):
        raise PtxError(f"{function.name}: the cubin has no line table; remedy: compile with -lineinfo (nvcc or ptxas)")
    lines = function.ptx.splitlines()
    for instruction in code:
        line = instruction.ptx_line
        if line > len(lines) or instruction.opcode not in lines[line - 1]:
            raise PtxError(
                f"{source}: not the PTX that the cubin was made from (line {line} of it has no {instruction.opcode})"
            )


def executions(
    function: sass.Function, code: list[syntax.Instruction], counts: Mapping[int, float], warps: float
) -> Executions:
    """Executions of each SASS block. `counts`: executions by warp of each instruction of `code`, by its pc; a missing
    one was not executed. `warps`: those of the launch. Raises `PtxsimError` where no flow of control fits."""
    reached = _reachable(function.blocks)
    anchors = _anchors(function, code, counts, reached)
    flow = _Flow(function.blocks, reached, anchors, float(warps))
    solved = flow.solve()
    for _ in range(ROUNDS):
        cut_off = flow.cut_off(solved)
        if not cut_off:
            break
        for loop in cut_off:
            flow.require_entry(loop)
        solved = flow.solve()
    missed = sum(
        a.weight * warps * ((not a.more) * solved[over] + (not a.fewer) * solved[under])
        for a, over, under in zip(anchors, flow.over, flow.under, strict=True)
    )
    result = np.zeros(len(function.blocks))
    for number, column in flow.block.items():
        result[number] = round(solved[column] * warps)
    return Executions(result, sum(a.weight * a.count for a in anchors), float(missed))


class _Flow:
    """The linear programme. All quantities are shares of the warps launched; each is a column:

    executions of a block, and of an edge between two; warps that part at a block's end, and that meet at its start; by
    how much an anchor's blocks are executed too often, and too seldom; by how much a loop is entered too seldom.
    """

    def __init__(self, blocks: list[sass.Block], reached: set[int], anchors: list[_Anchor], warps: float) -> None:
        self.columns = 0
        self.whole = True  # whether a solution in whole numbers is worth looking for
        self.cost: list[float] = []
        self.limit: list[float] = []
        self.equalities: list[tuple[dict[int, float], float]] = []
        self.at_most: list[tuple[dict[int, float], float]] = []  # sums of columns times numbers, and their bounds
        self.blocks = [block for block in blocks if block.number in reached]
        self.block = {b.number: self._column() for b in self.blocks}
        self.edge = {(b.number, s): self._column() for b in self.blocks for s in b.successors}
        self.into: defaultdict[int, list[int]] = defaultdict(list)  # edges' columns, by the block that they come to
        for (_, to), column in self.edge.items():
            self.into[to].append(column)
        self.entered: list[frozenset[int]] = []
        callers = defaultdict(list)
        for b in self.blocks:
            if b.calls is not None:
                callers[b.calls].append(b.number)
        self.callers = callers
        synchronised = {s for b in self.blocks if b.instructions[-1].name in SYNCHRONISES for s in b.successors}
        for b in self.blocks:
            self._comes(b, b.number in synchronised)
            self._leaves(b)
        self.over = [self._column(0.0 if a.more else a.cost(warps)) for a in anchors]
        self.under = [self._column(0.0 if a.fewer else a.cost(warps)) for a in anchors]
        for anchor, over, under in zip(anchors, self.over, self.under, strict=True):
            terms = {self.block[b]: float(c) for b, c in anchor.blocks.items()}
            self.equalities.append((terms | {over: -1.0, under: 1.0}, anchor.count / warps))

    def _column(self, cost: float = 0.0, limit: float = np.inf) -> int:
        self.cost.append(cost)
        self.limit.append(limit)
        self.columns += 1
        return self.columns - 1

    def _comes(self, b: sass.Block, synchronised: bool) -> None:
        """Who comes to a block: from blocks before it, by a call, and at the start every warp once."""
        before = self.into[b.number]
        calling = [self.block[c] for c in self.callers[b.number]]
        terms = dict.fromkeys([*before, *calling], 1.0)
        terms[self.block[b.number]] = terms.get(self.block[b.number], 0.0) - 1.0
        if synchronised or len(before) + len(calling) + (b.number == 0) > 1:
            terms[self._column(APART)] = -1.0
        self.equalities.append((terms, -1.0 if b.number == 0 else 0.0))
        if not synchronised:
            self.at_most += [({column: 1.0, self.block[b.number]: -1.0}, 0.0) for column in before]

    def _leaves(self, b: sass.Block) -> None:
        """Who leaves it: all, and each way at most all of them."""
        after = [self.edge[b.number, s] for s in b.successors]
        if not after:
            return
        own = self.block[b.number]
        terms = dict.fromkeys(after, 1.0) | {own: -1.0}
        if len(after) > 1:
            terms[self._column(APART)] = -1.0
        (self.at_most if b.leaves else self.equalities).append((terms, 0.0))
        self.at_most += [({column: 1.0, own: -1.0}, 0.0) for column in after]

    def cut_off(self, solved: np.ndarray) -> list[frozenset[int]]:
        """Sets of blocks that are executed though nothing comes to them: loops that only go round. Without those of
        before, which could not be helped."""
        taken = defaultdict(list)
        for (a, b), column in self.edge.items():
            if solved[column] > SOME:
                taken[a].append(b)
        for block in self.blocks:
            if block.calls is not None and solved[self.block[block.number]] > SOME:
                taken[block.number].append(block.calls)

        there = _reached(taken, 0)
        before = defaultdict(list)
        for a, following in taken.items():
            for b in following:
                before[b].append(a)
        lost = (b.number for b in self.blocks if b.number not in there and solved[self.block[b.number]] > SOME)
        found = dict.fromkeys(frozenset(_reached(taken, b) & _reached(before, b)) for b in lost)
        return [loop for loop in found if loop not in self.entered]

    def require_entry(self, loop: frozenset[int]) -> None:
        """Every warp enters the loop, where that costs no more than a parting of warps would."""
        self.entered.append(loop)
        entries = [column for (a, b), column in self.edge.items() if b in loop and a not in loop]
        short = self._column(APART / 2)
        self.at_most.append((dict.fromkeys([*entries, short], -1.0), -1.0))

    def solve(self) -> np.ndarray:
        """The flow that fits best; of those one where all warps do the same, if there is one; of those the one with the
        fewest instructions."""
        cost, limit = np.array(self.cost), np.array(self.limit)
        fitted = self._least(cost, limit)
        size = np.zeros(self.columns)
        for b in self.blocks:
            size[self.block[b.number]] = len(b.instructions)
        no_worse = np.where(cost > 0, np.minimum(limit, fitted + LOOSE * np.maximum(1.0, fitted)), limit)
        solved = self._minimum(size, no_worse, whole=True) if self.whole else None
        if solved is not None:
            return solved
        self.whole = False  # nor would there be one with more loops entered
        return self._least(size, no_worse)

    def _least(self, cost: np.ndarray, limit: np.ndarray) -> np.ndarray:
        """The columns of least cost. Raises `PtxsimError` where there are none."""
        found = self._minimum(cost, limit)
        if found is None:
            raise PtxsimError("no executions of the SASS fit those of the PTX: the flow of control cannot be followed")
        return found

    def _minimum(self, cost: np.ndarray, limit: np.ndarray, whole: bool = False) -> np.ndarray | None:
        """The columns of least cost, with `whole` numbers of executions of blocks; None where none are found."""
        slack = LOOSE if whole else 0.0
        rows = [(terms, value - slack, value + slack) for terms, value in self.equalities]
        rows += [(terms, -np.inf, value + slack) for terms, value in self.at_most]
        programme = highspy.HighsLp()
        programme.num_col_, programme.num_row_ = self.columns, len(rows)
        programme.col_cost_, programme.col_lower_, programme.col_upper_ = cost, np.zeros(self.columns), limit
        programme.row_lower_ = np.array([lower for _, lower, _ in rows])
        programme.row_upper_ = np.array([upper for _, _, upper in rows])
        matrix = programme.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = np.cumsum([0, *(len(terms) for terms, _, _ in rows)])
        matrix.index_ = np.array([column for terms, _, _ in rows for column in terms])
        matrix.value_ = np.array([value for terms, _, _ in rows for value in terms.values()])
        solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the library does not say
        solver.silent()
        solver.setOptionValue("log_to_console", False)  # its banner, which some versions print all the same
        blocks = list(self.block.values())
        if whole:
            kinds = [highspy.HighsVarType.kContinuous] * self.columns
            for column in blocks:
                kinds[column] = highspy.HighsVarType.kInteger
            programme.integrality_ = kinds
            solver.setOptionValue("mip_max_nodes", NODES)
        solver.passModel(programme)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = np.array(solver.getSolution().col_value)
        if whole:
            found[blocks] = np.round(found[blocks])
        return found


def _reached(ways: Mapping[int, list[int]], first: int) -> set[int]:
    """The blocks to which ways lead from `first`, and itself."""
    found, waiting = {first}, [first]
    while waiting:
        new = [b for b in ways.get(waiting.pop(), ()) if b not in found]
        found.update(new)
        waiting += new
    return found


def _reachable(blocks: list[sass.Block]) -> set[int]:
    found, waiting = set(), [0]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            block = blocks[number]
            waiting += block.successors + ([block.calls] if block.calls is not None else [])
    return found


def _anchors(
    function: sass.Function, code: list[syntax.Instruction], counts: Mapping[int, float], reached: set[int]
) -> list[_Anchor]:
    by_line: dict[int, list[syntax.Instruction]] = defaultdict(list)
    for instruction in code:
        by_line[instruction.ptx_line].append(instruction)
    copies: dict[tuple[str, int], list[tuple[int, sass.Instruction]]] = defaultdict(list)
    read: dict[tuple[str, int], list[tuple[int, sass.Instruction]]] = defaultdict(list)
    for block in function.blocks:
        if block.number in reached:
            for i in block.instructions:
                if i.name in ONE_TO_ONE and not i.never:
                    copies[i.name, i.ptx_line].append((block.number, i))
                elif i.name == "LDS" and not i.never:
                    read[i.file, i.line].append((block.number, i))
    merged: Merged = {}
    for (name, line), places in copies.items():
        origin = [p for p in by_line[line] if _corresponds(name, p)]
        if len(origin) != 1:
            continue
        count = float(counts.get(origin[0].pc, 0.0))
        # a branch in one and a predicate in the other: a predicate counts the warps that it leaves out, too
        guarded, conditional = any(not i.always for _, i in places), origin[0].predicate is not None
        more, fewer = guarded and not conditional, conditional and not guarded
        held: dict[int, int] = defaultdict(int)
        for number, _ in places:
            held[number] += 1
        _add(merged, dict(held), count, more, fewer)
    # of wgmma the cubin's line table names other lines: all of one shape and type together
    multiplied: dict[frozenset[str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for block in function.blocks:
        for i in block.instructions if block.number in reached else ():
            if i.name in GMMA and not i.never:
                multiplied[frozenset(i.modifiers)][block.number] += 1
    for form, held in multiplied.items():
        same = [p for p in code if _gmma_modifiers(p) == form]
        if same:
            _add(merged, dict(held), sum(float(counts.get(p.pc, 0.0)) for p in same), False, False)
    # loads of shared memory are merged into wider ones: of each source line, the bits stay the same
    wanted: dict[tuple[str, int], float] = defaultdict(float)
    predicated: set[tuple[str, int]] = set()
    for p in code:
        if p.opcode == "ld" and "shared" in {m.split("::")[0] for m in p.modifiers} and p.location:
            key = (p.location.file, p.location.line)
            wanted[key] += _bits(p) * float(counts.get(p.pc, 0.0))
            if p.predicate is not None:
                predicated.add(key)
    for key, places in read.items():
        if key in wanted and key not in predicated and all(i.always for _, i in places):
            held = defaultdict(int)
            for number, i in places:
                held[number] += i.bits
            unit = min(held.values())
            _add(merged, {b: v / unit for b, v in held.items()}, wanted[key] / unit, False, False)
    return list(merged.values())


def _add(merged: Merged, held: Mapping[int, float], count: float, more: bool, fewer: bool) -> None:
    key = (tuple(sorted(held.items())), count, more, fewer)
    if key in merged:
        merged[key].weight += 1
    else:
        merged[key] = _Anchor(dict(held), count, more, fewer)


def _gmma_modifiers(p: syntax.Instruction) -> frozenset[str] | None:
    """The modifiers that a wgmma of floats has as machine code."""
    if p.opcode != "wgmma" or "mma_async" not in p.modifiers:
        return None
    shape = next(m for m in p.modifiers if m.startswith("m64n"))
    types = [t for t in p.modifiers[p.modifiers.index(shape) + 1 :] if t != "f16" or t == p.modifiers[-3]]
    return frozenset([shape.removeprefix("m").replace("n", "x").replace("k", "x"), *(t.upper() for t in types)])


def _corresponds(name: str, p: syntax.Instruction) -> bool:
    opcodes, words = ONE_TO_ONE[name]
    if p.opcode not in opcodes or not words <= set(p.modifiers):
        return False
    spaces = {m.split("::")[0] for m in p.modifiers}
    if name in ("LDG", "STG", "ATOMG"):
        return not spaces & {"shared", "local", "param", "const"}
    if name in ("STS", "ATOMS"):
        return "shared" in spaces
    if name == "HMMA":
        shape = next((m for m in p.modifiers if m.startswith("m16n8k")), None)
        return any((shape, t) in ONE_HMMA for t in p.modifiers)
    return True


def _bits(p: syntax.Instruction) -> int:
    count = next((int(m[1]) for m in p.modifiers if m in ("v2", "v4")), 1)
    return int(p.modifiers[-1][1:]) * count
