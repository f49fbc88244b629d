"""A `Program`: one entry of a module with all it can reach, laid out.

Functions lie one after the other, callees before callers and the entry last, so that of several places where threads
wait the one with the least pc is the one to run (see machine.py). Registers get slots, variables get addresses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from . import instructions
from .demangle import demangle, matching, split
from .errors import NoEntryError, PtxError
from .layout import shared_base
from .memory import Arena
from .ptx_types import Type
from .sizes import MOST_PARAMETERS
from .syntax import Function, Immediate, Instruction, Label, Module, Symbol, Variable

# of the device's own runtime, by which kernels launch others
DEVICE_LAUNCHES = ("cudaGetParameterBuffer", "cudaLaunchDevice", "cudaCDP", "cudaDeviceSynchronize")
BUILTIN_CALLS = ("vprintf", "__assertfail", "malloc", "free")


def align_up(value: int, to: int) -> int:
    return -(-value // to) * to


@dataclass(eq=False)
class Parameter:
    """A parameter of the entry."""

    variable: Variable
    offset: int


@dataclass(eq=False)
class Program:
    """What `Machine` runs."""

    module: Module
    entry: Function
    functions: list[Function] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    start: dict[str, int] = field(default_factory=dict)  # pc of each function
    owner: list[Function] = field(default_factory=list)  # of each pc
    slots: int = 0
    parameters: list[Parameter] = field(default_factory=list)
    parameter_bytes: int = 0
    shared_base: int = 0  # where shared memory begins in its window
    shared: dict[Variable, int] = field(default_factory=dict)  # addresses in the window
    static_shared_bytes: int = 0
    frames: dict[Variable, int] = field(default_factory=dict)  # offsets in the thread's local memory
    local_bytes: int = 0
    recursive: bool = False
    allocates: bool = False  # calls malloc
    saved_slots: dict[str, list[int]] = field(default_factory=dict)  # of each function, for recursion
    names: set[str] = field(default_factory=set)  # of variables and functions that its instructions name

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def title(self) -> str:
        """The entry's name as in the source, with its template arguments; of long ones only their beginning."""
        return shortened(split(self.entry.name)[0])


MOST_TITLE = 120  # characters


def shortened(title: str) -> str:
    """A name in at most `MOST_TITLE` characters: those of CuTe's kernels have thousands."""
    if len(title) <= MOST_TITLE:
        return title
    name, bracket, arguments = title.partition("<")
    name = name if len(name) <= MOST_TITLE // 2 else "..." + name[3 - MOST_TITLE // 2 :]
    return f"{name}{bracket}{arguments[: MOST_TITLE - len(name) - len(bracket) - 4]}...>" if bracket else name


def callees(module: Module, function: Function) -> Iterator[tuple[Instruction, str]]:
    """Names that a function calls, or whose address it takes: itself, or out of a variable that it uses (a table of
    virtual functions, say)."""
    for instruction in function.code or ():
        if instruction.opcode == "call" and isinstance(instruction.operands[1], Symbol):
            yield instruction, instruction.operands[1].name
        for name in _names(instruction):
            for reached in reachable_names(module, name):
                yield instruction, reached


def reachable_names(module: Module, name: str) -> list[str]:
    """A name, and those that the initialisers of variables lead to from there."""
    found, left = [], [name]
    while left:
        name = left.pop()
        if name not in found:
            found.append(name)
            variable = module.variables.get(name)
            left += [item.name for item in (variable.initial or ()) if isinstance(item, Symbol)] if variable else []
    return found


def choose_entry(module: Module, entry: str | None) -> Function:
    """The entry by its name, mangled or as in the source (`tiled<128, 8>`), or by a part that only its name has.

    Raises `NoEntryError` where there is none, `PtxError` where there are several."""
    names = module.entries
    if not names:
        raise NoEntryError("the PTX has no entry (.entry with a body)")
    if entry is None:
        if len(names) > 1:
            raise PtxError(f"the PTX has {len(names)} entries, name one: {_listed(names)}")
        return module.functions[names[0]]
    close = matching(names, entry)
    if not close:
        raise NoEntryError(f"no entry {entry!r} in the PTX; it has: {_listed(names)}")
    if len(close) > 1:
        raise PtxError(f"{len(close)} entries match {entry!r}: {_listed(close)}")
    return module.functions[close[0]]


def _listed(names: list[str]) -> str:
    return "; ".join(shortened(demangle(name)) for name in names)


def link(module: Module, entry: str | None = None) -> Program:
    """Lay out an entry. Raises `PtxError` for what is missing or not known, with its source line."""
    program = Program(module, choose_entry(module, entry))
    _order(program)
    for function in program.functions:
        program.start[function.name] = base = len(program.code)
        for instruction in function.code or ():
            instruction.pc = len(program.code)
            instructions.require_known(instruction)
            program.code.append(instruction)
            program.owner.append(function)
        _shift_labels(function, base)
        for register in function.registers:
            register.slot = program.slots
            program.slots += 1
        program.saved_slots[function.name] = [register.slot for register in function.registers]
    _number_blocks(program)
    _place_variables(program)
    return program


def _order(program: Program) -> None:
    """Reachable functions, callees first; finds recursion."""
    done, path = set(), []

    def visit(function: Function) -> None:
        if function.name in path:
            program.recursive = True
            return
        if function.name in done:
            return
        path.append(function.name)
        for instruction, name in callees(program.module, function):
            target = program.module.functions.get(name)
            program.allocates |= name == "malloc"
            if target is None or name in BUILTIN_CALLS:
                continue
            if target.code is None:
                if name.lstrip("_").startswith(DEVICE_LAUNCHES):
                    raise PtxError(
                        f"{instruction.where}: {name} is called: kernels that launch others from the device (dynamic "
                        "parallelism) are not supported; remedy: launch the inner kernel by itself"
                    )
                raise PtxError(f"{instruction.where}: {name} is called but has no body here")
            visit(target)
        path.pop()
        done.add(function.name)
        program.functions.append(function)

    visit(program.entry)


def _shift_labels(function: Function, base: int) -> None:
    """Labels of a function to places in the program; each label once."""
    seen: set[Label] = set()
    for instruction in function.code or ():
        if instruction.opcode in ("bra", "brx"):
            last = instruction.operands[-1]
            for label in last if isinstance(last, tuple) else (last,):
                if label not in seen:
                    seen.add(label)
                    label.place = base + label.pc


def targets(instruction: Instruction) -> tuple[int, ...]:
    """Places where a branch may go."""
    if instruction.opcode not in ("bra", "brx"):
        return ()
    last = instruction.operands[-1]
    return tuple(label.place for label in (last if isinstance(last, tuple) else (last,)))


def _number_blocks(program: Program) -> None:
    """Number the basic blocks."""
    leaders = set(program.start.values())
    for instruction in program.code:
        places = targets(instruction)
        leaders.update(places)
        if places or instruction.opcode in ("ret", "exit", "trap", "call"):
            leaders.add(instruction.pc + 1)
    block = -1
    for instruction in program.code:
        block += instruction.pc in leaders
        instruction.block = block


def _place_variables(program: Program) -> None:
    for variable in program.entry.params:
        if not isinstance(variable, Variable):
            raise PtxError(f"{program.name}: parameter {variable.name} is a register; those of an .entry are .param")
        program.parameter_bytes = align_up(program.parameter_bytes, variable.align)
        program.parameters.append(Parameter(variable, program.parameter_bytes))
        program.parameter_bytes += variable.size
        if program.parameter_bytes > MOST_PARAMETERS:
            raise PtxError(f"{program.name}: more than {MOST_PARAMETERS} bytes of parameters")
    base = program.shared_base = shared_base(program.module.target)
    used = program.names = {operand for i in program.code for operand in _names(i)}
    module_shared = [v for v in program.module.variables.values() if v.space == "shared" and v.name in used]
    own = [v for f in program.functions for v in f.variables]
    dynamic = [v for v in module_shared if v.extern or not v.size]
    for variable in [v for v in module_shared if v not in dynamic] + [v for v in own if v.space == "shared"]:
        program.static_shared_bytes = align_up(program.static_shared_bytes, variable.align)
        program.shared[variable] = base + program.static_shared_bytes
        program.static_shared_bytes += variable.size
    for variable in dynamic:  # all of them start where the static part ends, which is as long as they are aligned
        program.static_shared_bytes = align_up(program.static_shared_bytes, max(16, variable.align))
    for variable in dynamic:
        program.shared[variable] = base + program.static_shared_bytes
    locals_ = [v for v in own if v.space in ("local", "param")]
    called = [f for f in program.functions if f is not program.entry]
    locals_ += [v for f in called for v in (*f.params, *f.returns) if isinstance(v, Variable)]
    for variable in locals_:
        program.local_bytes = align_up(program.local_bytes, max(variable.align, 1))
        program.frames[variable] = program.local_bytes
        program.local_bytes += variable.size
    program.local_bytes = align_up(program.local_bytes, 16)


def _names(instruction: Instruction) -> Iterator[str]:
    stack = list(instruction.operands)
    while stack:
        operand = stack.pop()
        if isinstance(operand, Symbol):
            yield operand.name
        elif hasattr(operand, "base"):
            stack.append(operand.base)
        elif hasattr(operand, "items") and isinstance(operand.items, tuple):
            stack.extend(operand.items)


def place_globals(program: Program, arena: Arena) -> dict[str, int]:
    """Put the global and constant variables that the program uses in memory, initialised; their addresses."""
    placed: dict[str, tuple[Variable, int]] = {}
    used = {reached for name in program.names for reached in reachable_names(program.module, name)}
    variables = [variable for name, variable in program.module.variables.items() if name in used]
    variables += [v for f in program.functions for v in f.variables]
    for variable in variables:
        if variable.space in ("global", "const") and not variable.extern and not variable.opaque:
            placed[variable.name] = (variable, arena.allocate(max(1, variable.size), variable.name, variable.align))
    addresses = {name: address for name, (_, address) in placed.items()}
    for variable, address in placed.values():
        if variable.initial:
            arena.write(address, initial_bytes(program, variable, addresses))
    return addresses


def function_address(program: Program, name: str) -> int | None:
    """The number that stands for a function's address: its pc + 1, so that it is not null."""
    return program.start[name] + 1 if name in program.start else None


def initial_bytes(program: Program, variable: Variable, addresses: dict[str, int]) -> np.ndarray:
    """What a variable holds at first; `addresses`: of the variables that its initialiser may name."""
    size, parts = variable.type.bytes, []
    for item in variable.initial or ():
        if isinstance(item, Symbol):
            value = addresses.get(item.name, function_address(program, item.name))
            if value is None:
                raise PtxError(f"initialiser of {variable.name}: {item.name} has no address")
            parts.append(((value + item.offset) & (1 << 64) - 1).to_bytes(8, "little")[:size])
        else:
            parts.append(immediate_bytes(item, variable.type))
    return np.frombuffer(b"".join(parts), np.uint8)


def immediate_bytes(item: Immediate, type_: Type) -> bytes:
    """The bytes of a constant in a type."""
    if item.bits is not None and item.width == type_.bits:
        return item.bits.to_bytes(type_.bytes, "little")
    try:
        if type_.kind == "f" and type_.name in ("f32", "f64"):
            return struct.pack("<f" if type_.bits == 32 else "<d", item.value)
        return (int(item.value) & ((1 << type_.bits) - 1)).to_bytes(type_.bytes, "little")
    except (OverflowError, ValueError):  # too large, infinite or NaN
        raise PtxError(f"the constant {item.value} is no {type_}") from None
