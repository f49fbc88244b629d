"""Which registers a program may read before it has written them, found without running it.

A backward analysis over each function: a register is live at its entry if some path reads it before
a write that always happens. nvcc writes nearly every register first, so that the watch over
undefined values (check/defined.py) has nothing to do for them while a kernel runs.
"""

from __future__ import annotations

from .program import Program, targets
from .syntax import Address, Function, Instruction, Register, registers_of

NO_RESULT = {
    "st",
    "red",
    "bra",
    "brx",
    "bar",
    "barrier",
    "ret",
    "exit",
    "trap",
    "brkpt",
    "prefetch",
    "prefetchu",
    "cp",
}
NO_RESULT |= {
    "fence",
    "membar",
    "setmaxnreg",
    "nanosleep",
    "griddepcontrol",
    "stmatrix",
    "sust",
    "tensormap",
}
NO_RESULT |= {"stackrestore", "discard", "applypriority", "pmevent"}
ENDS = ("ret", "exit", "trap")


def results(i: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction writes."""
    if not i.operands or isinstance(i.operands[0], Address):
        return ()
    if i.opcode in NO_RESULT and not (i.opcode in ("bar", "barrier") and "red" in i.modifiers):
        return ()
    return tuple(registers_of(i.operands[0]))


def sources(i: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction reads, its predicate among them.

    wgmma.mma_async reads its accumulators, too, unless a constant says that it does not add to
    them.
    """
    operands = i.operands[1:] if results(i) else i.operands
    read = [register for operand in operands for register in registers_of(operand)]
    if i.opcode == "wgmma" and i.operands:
        read += registers_of(i.operands[0])
    if i.predicate is not None:
        read.append(i.predicate)
    return tuple(read)


def undefined_at_entry(program: Program) -> list[Register]:
    """Return the registers that may be read before they are written, of all functions, in the order
    of their slots.
    """
    registers: dict[int, Register] = {}
    for function in program.functions:
        for register in _live_at_entry(program, function):
            registers[register.slot] = register
    return [registers[slot] for slot in sorted(registers)]


def _live_at_entry(program: Program, function: Function) -> list[Register]:
    start = program.start[function.name]
    code = program.code[start : start + len(function.body)]
    given = {p for p in (*function.params, *function.returns) if isinstance(p, Register)}
    number: dict[Register, int] = {}

    def bits(registers: tuple[Register, ...]) -> int:
        return sum({1 << number.setdefault(register, len(number)) for register in registers})

    reads = [bits(sources(i)) for i in code]
    kills = [bits(results(i)) if i.predicate is None else 0 for i in code]
    live = [0] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for at in range(len(code) - 1, -1, -1):
            i = code[at]
            after = 0
            for target in targets(i):
                after |= live[target - start] if 0 <= target - start < len(code) else 0
            if i.predicate is not None or i.opcode not in (*ENDS, "bra", "brx"):
                after |= live[at + 1]
            now = reads[at] | after & ~kills[at]
            if now != live[at]:
                live[at], changed = now, True
    return [r for r, n in number.items() if live[0] >> n & 1 and r not in given]
