"""How exactly each executed instruction is emulated, and whether what is not exact decides
anything.

- exact: the result is the one that the PTX ISA asks for, bit for bit.
- modelled: the ISA leaves something open, and a model of the hardware, or the emulator's own order,
  fills it in.
- approximate: the ISA gives a bound of the error; the emulator rounds rightly, a device may differ
  in the last bits.

What is modelled or approximate changes numbers alone, unless it reaches an address, a branch, a
barrier or the predicate of an access: then accesses and counts may differ on a device, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ..machine.observer import Observer
from ..ptx.program import Program
from ..ptx.reaching_definitions import Origins
from ..ptx.syntax import Instruction, Special
from .prediction import decides

EXACT, MODELLED, APPROXIMATE = LEVELS = ("exact", "modelled", "approximate")
TENSOR = "sums as a model of the tensor cores aligns and cuts them off (on an H200 equal in all cases that were tried)"
ORDER = "the order of additions by several threads is the emulator's own"
TIME = "time is not emulated: instructions are counted"
PLACE = "where a block runs, and with whom, is the emulator's own"
FILTER = "where a texture filters linearly: weights of 8 bits, a device may round the sum otherwise"
ERROR = "rounded rightly here; a device may differ in the last bits"
FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}
TENSOR_FLOATS = {*FLOATS, "tf32", "e4m3", "e5m2"}


class Executed(Observer):
    """Counts how often each instruction is executed, by warps; rounds of loops that poll again are
    left out.
    """

    def __init__(self) -> None:
        self.times: Counter[int] = Counter()

    def executed(self, instruction: Instruction, warps: int) -> None:
        self.times[instruction.pc] += warps


@dataclass(frozen=True)
class Row:
    """Instructions of one name: how many the program has that were executed, how often they were
    (by warps).
    """

    instruction: str
    level: str
    # The reason is empty for exact instructions.
    why: str
    places: int
    executed: int
    # `decides` is true where a result reaches an address, a branch, a barrier or the predicate of
    # an access.
    decides: bool


def level(i: Instruction) -> tuple[str, str]:
    """Return how exactly an instruction is emulated, and what is not exact about it."""
    modifiers = set(i.modifiers)
    special = [o.name for o in i.operands if isinstance(o, Special)]
    if any("clock" in name or "globaltimer" in name for name in special):
        return APPROXIMATE, TIME
    if (
        any(name.startswith(("%smid", "%warpid", "%nsmid", "%gridid")) for name in special)
        or i.opcode == "activemask"
    ):
        return MODELLED, PLACE
    if (
        i.opcode in ("mma", "wgmma", "wmma")
        and modifiers & TENSOR_FLOATS
        and not modifiers & {"load", "store"}
    ):
        return MODELLED, TENSOR
    if i.opcode in ("red", "atom", "cp") and "add" in modifiers and modifiers & FLOATS:
        return MODELLED, ORDER
    if modifiers & {"approx", "full"} and modifiers & FLOATS:
        return APPROXIMATE, ERROR
    if i.opcode == "tex" and "f32" in modifiers:
        return MODELLED, FILTER
    # On 16 bits, these are approximate without a modifier.
    if i.opcode in ("ex2", "tanh") and modifiers & FLOATS:
        return APPROXIMATE, ERROR
    return EXACT, ""


def rows(program: Program, origins: Mapping[int, Origins], executed: Executed) -> list[Row]:
    """Return the executed instructions of a program by name, the least exact first; `origins` as a
    `Machine` has them.
    """
    groups: dict[tuple[str, str, str], list[Instruction]] = defaultdict(list)
    for i in program.code:
        if executed.times[i.pc]:
            groups[i.name, *level(i)].append(i)
    result = []
    for (name, exactness, why), members in groups.items():
        reaches = exactness != EXACT and decides(program, members, origins) is not None
        times = sum(executed.times[i.pc] for i in members)
        result.append(Row(name, exactness, why, len(members), times, reaches))
    return sorted(result, key=lambda row: (-LEVELS.index(row.level), row.instruction))


def table(rows: list[Row]) -> str:
    """Return a line for each instruction that is not exact, one for all that are, and what that
    means.
    """
    lines = []
    for row in rows:
        if row.level != EXACT:
            reach = "; REACHES an address or a branch" if row.decides else ""
            lines.append(
                f"  {row.level:12s} {row.instruction:48s} {row.executed:>14,}  {row.why}{reach}"
            )
    exact = [row for row in rows if row.level == EXACT]
    lines.append(
        f"  {EXACT:12s} {f'{len(exact)} others':48s} {sum(row.executed for row in exact):>14,}"
    )
    deciding = [row.instruction for row in rows if row.decides]
    if deciding:
        lines.append(f"accesses and counts may differ on a device: {', '.join(deciding)}")
    else:
        lines.append(
            "nothing that is not exact reaches an address, a branch, a barrier or the predicate of an access"
        )
    return "\n".join(
        ["executed instructions (by warps), and how exactly they are emulated:", *lines]
    )
