"""How often each basic block of a kernel's SASS is executed, from how often the emulator executed
its PTX.

ptxas unrolls loops further than the PTX shows, peels them, moves and merges instructions. What it
does not do is make two fused multiply-adds, stores, copies or barriers out of one. Each such
machine instruction stands for one execution of the PTX instruction that the cubin's line table
names for it: so a block that alone holds its copies is executed as often as the PTX says, over the
copies. Where several blocks hold copies, as of a loop that is unrolled and its rest, the one with
most of them is taken to do all of the work. A block without such an instruction is executed as
often as most of its lines are, over the blocks that hold these: an estimate
(`Executions.estimated`), unless all agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..ptx import sass, syntax
from ..ptx.reaching_definitions import access_bytes, named_spaces

# SASS opcodes of which each execution is one of a PTX instruction: opcodes of that, and words that
# it must have
ONE_TO_ONE: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "FFMA": (("fma",), frozenset({"f32"})),
    "DFMA": (("fma",), frozenset({"f64"})),
    "HMMA": (("mma",), frozenset({"sync"})),
    "LDG": (("ld", "ldu"), frozenset()),
    "STG": (("st",), frozenset()),
    "STS": (("st",), frozenset()),
    "STAS": (("st",), frozenset({"async"})),
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
# An mma.sync of these shapes is one HMMA on every architecture from Ampere on.
ONE_HMMA = {
    ("m16n8k16", "f16"),
    ("m16n8k16", "bf16"),
    ("m16n8k8", "f16"),
    ("m16n8k8", "bf16"),
    ("m16n8k8", "tf32"),
}
ONE_HMMA |= {("m16n8k4", "tf32")}
GMMA = ("HGMMA", "QGMMA")


@dataclass(frozen=True)
class Executions:
    """Executions, by warp, of each block of `function.blocks`."""

    blocks: np.ndarray
    # `compared` counts executions of the PTX that were matched.
    compared: float
    # `missed` counts those of them that the blocks' executions do not give, or give too many.
    missed: float
    # `estimated` is the share of instructions in blocks without a count of their own.
    estimated: float = 0.0

    @property
    def disagreement(self) -> float:
        """Return executions missed as a share of those compared."""
        return self.missed / self.compared if self.compared else 0.0

    def total(self, function: sass.Function) -> float:
        """Return instructions executed, by warp: ncu's sm__inst_executed.sum."""
        return float(
            sum(x * len(b.instructions) for x, b in zip(self.blocks, function.blocks, strict=True))
        )


@dataclass
class _Anchor:
    """An equation: executions of blocks, each times the copies in it, add up to a count."""

    blocks: dict[int, float]
    count: float
    # This many instructions give the same equation.
    weight: int = 1


# Each instruction is given with its block.
Placed = list[tuple[int, sass.Instruction]]
Code = list[syntax.Instruction]
# `Counts` holds executions by pc.
Counts = Mapping[int, float]
# Equal equations are merged.
Merged = dict[tuple[tuple[tuple[int, float], ...], float], _Anchor]


def executions(
    function: sass.Function, code: list[syntax.Instruction], counts: Mapping[int, float]
) -> Executions:
    """Return executions of each SASS block. `counts`: executions by warp of each instruction of
    `code`, by its pc; a missing one was not executed."""
    reached = _reachable(function.blocks)
    anchors = _anchors(function, code, counts, reached)
    # `votes` holds, by block, the executions that instructions give, with their weights.
    votes: defaultdict[int, Counter[float]] = defaultdict(Counter)
    for anchor in anchors:
        max_copies = max(anchor.blocks.values())
        doing = [number for number, copies in anchor.blocks.items() if copies == max_copies]
        for number in anchor.blocks:
            told = anchor.count / max_copies / len(doing) if number in doing else 0.0
            votes[number].update({told: anchor.weight})
    counted = set(votes)
    lines = {instruction.ptx_line: float(counts.get(instruction.pc, 0.0)) for instruction in code}
    holding = Counter(line for b in function.blocks if b.number in reached for line in _lines(b))
    for block in function.blocks:
        if block.number in reached - counted:
            known = [line for line in _lines(block) if line in lines]
            votes[block.number].update(lines[line] / holding[line] for line in known)
            if len(votes[block.number]) == 1 and all(holding[line] == 1 for line in known):
                counted.add(block.number)
    result = np.zeros(len(function.blocks))
    for number, told_by in votes.items():
        result[number] = told_by.most_common(1)[0][0] if told_by else 0.0
    length = np.array([len(block.instructions) for block in function.blocks])
    alone = [number for number in reached if number not in counted]
    total = float(result @ length)
    return Executions(
        result,
        sum(a.weight * a.count for a in anchors),
        sum(
            a.weight * abs(sum(c * result[b] for b, c in a.blocks.items()) - a.count)
            for a in anchors
        ),
        float(result[alone] @ length[alone]) / total if total else 0.0,
    )


def _lines(block: sass.Block) -> set[int]:
    """Return lines of the PTX that a block has code of."""
    return {instruction.ptx_line for instruction in block.instructions}


def _reachable(blocks: list[sass.Block]) -> set[int]:
    reached, waiting = set(), [0]
    while waiting:
        number = waiting.pop()
        if number not in reached:
            reached.add(number)
            block = blocks[number]
            waiting += block.successors + ([block.calls] if block.calls is not None else [])
    return reached


def _anchors(
    function: sass.Function,
    code: Code,
    counts: Counts,
    reached: set[int],
) -> list[_Anchor]:
    """Return what is known of executions: by instructions that correspond one to one, by wgmmas of
    one form, and by the bits that loads of a source line read.
    """
    placed = [
        (block.number, i)
        for block in function.blocks
        if block.number in reached
        for i in block.instructions
        if not i.never
    ]
    merged: Merged = {}
    _add_one_to_one(merged, placed, code, counts)
    _add_wgmma(merged, placed, code, counts)
    _add_loads(merged, placed, code, counts)
    return list(merged.values())


def _add_one_to_one(merged: Merged, placed: Placed, code: Code, counts: Counts) -> None:
    """Add instructions of the PTX with copies in the machine code under the same line."""
    by_line: dict[int, list[syntax.Instruction]] = defaultdict(list)
    for instruction in code:
        by_line[instruction.ptx_line].append(instruction)
    copies: defaultdict[tuple[str, int], Placed] = defaultdict(list)
    for number, i in placed:
        if i.name in ONE_TO_ONE:
            copies[i.name, i.ptx_line].append((number, i))
    for (name, line), matches in copies.items():
        origin = [p for p in by_line[line] if _corresponds(name, p)]
        if len(origin) != 1:
            continue
        # Where one has a branch and the other a predicate, the counts differ: a predicate counts the
        # warps that it leaves out, too.
        if any(not i.always for _, i in matches) != (origin[0].predicate is not None):
            continue
        held = Counter(number for number, _ in matches)
        _add(merged, held, float(counts.get(origin[0].pc, 0.0)))


def _add_wgmma(merged: Merged, placed: Placed, code: Code, counts: Counts) -> None:
    """Add all wgmmas of one shape and type together: the cubin's line table names other lines."""
    multiplied: dict[frozenset[str], Counter[int]] = defaultdict(Counter)
    for number, i in placed:
        if i.name in GMMA:
            multiplied[frozenset(i.modifiers)][number] += 1
    for form, held in multiplied.items():
        same = [p for p in code if _gmma_modifiers(p) == form]
        if same:
            _add(merged, held, sum(float(counts.get(p.pc, 0.0)) for p in same))


def _add_loads(merged: Merged, placed: Placed, code: Code, counts: Counts) -> None:
    """Add loads of shared memory. They are merged into wider ones: of each source line, the bits
    stay the same.
    """
    wanted: dict[tuple[str, int], float] = defaultdict(float)
    predicated: set[tuple[str, int]] = set()
    for p in code:
        if p.opcode == "ld" and "shared" in named_spaces(p) and p.location:
            key = (p.location.file, p.location.line)
            wanted[key] += 8 * access_bytes(p) * float(counts.get(p.pc, 0.0))
            if p.predicate is not None:
                predicated.add(key)
    bits: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for number, i in placed:
        if i.name == "LDS":
            bits[i.file, i.line][number] += i.bits
            if not i.always:
                predicated.add((i.file, i.line))
    for key, held in bits.items():
        if key in wanted and key not in predicated:
            unit = min(held.values())
            _add(merged, {b: v / unit for b, v in held.items()}, wanted[key] / unit)


def _add(merged: Merged, held: Mapping[int, float], count: float) -> None:
    key = (tuple(sorted(held.items())), count)
    if key in merged:
        merged[key].weight += 1
    else:
        merged[key] = _Anchor(dict(held), count)


def _gmma_modifiers(p: syntax.Instruction) -> frozenset[str] | None:
    """Return the modifiers that a wgmma of floats has as machine code."""
    if p.opcode != "wgmma" or "mma_async" not in p.modifiers:
        return None
    shape = next(m for m in p.modifiers if m.startswith("m64n"))
    types = [
        t for t in p.modifiers[p.modifiers.index(shape) + 1 :] if t != "f16" or t == p.modifiers[-3]
    ]
    return frozenset(
        [shape.removeprefix("m").replace("n", "x").replace("k", "x"), *(t.upper() for t in types)]
    )


def _corresponds(name: str, p: syntax.Instruction) -> bool:
    opcodes, modifiers = ONE_TO_ONE[name]
    if p.opcode not in opcodes or not modifiers <= set(p.modifiers):
        return False
    spaces = named_spaces(p)
    if name in ("LDG", "STG", "ATOMG"):
        return not spaces & {"shared", "local", "param", "const"}
    if name in ("STS", "ATOMS"):
        return "shared" in spaces
    if name == "HMMA":
        shape = next((m for m in p.modifiers if m.startswith("m16n8k")), None)
        return any((shape, t) in ONE_HMMA for t in p.modifiers)
    return True
