"""Lays out an entry of a module with all it can reach, and puts its variables in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from .. import instructions
from ..errors import NoEntryError, PtxError
from ..instructions import registry
from ..machine.layout import shared_base
from ..machine.memory import Arena
from ..ptx.demangle import demangle, matching
from ..ptx.program import (
    Parameter,
    Program,
    align_up,
    function_address,
    immediate_bytes,
    shortened,
    targets,
)
from ..ptx.sizes import MAX_PARAMETER_BYTES
from ..ptx.syntax import Function, Instruction, Label, Module, Symbol, Variable

# Kernels launch others by these functions of the device's own runtime.
DEVICE_LAUNCHES = ("cudaGetParameterBuffer", "cudaLaunchDevice", "cudaCDP", "cudaDeviceSynchronize")
BUILTIN_CALLS = ("vprintf", "__assertfail", "malloc", "free")


def callees(module: Module, function: Function) -> Iterator[tuple[Instruction, str]]:
    """Yield names that a function calls, or whose address it takes: itself, or out of a variable
    that it uses (a table of virtual functions, say).
    """
    for instruction in function.code or ():
        if instruction.opcode == "call" and _is_named(instruction):
            yield instruction, instruction.operands[1].name
        for name in _names(instruction):
            for reached in reachable_names(module, name):
                yield instruction, reached


def _is_named(call: Instruction) -> bool:
    return isinstance(call.operands[1], Symbol)


def reachable_names(module: Module, name: str) -> list[str]:
    """Return a name, and those that the initialisers of variables lead to from there."""
    names, left = [], [name]
    while left:
        name = left.pop()
        if name not in names:
            names.append(name)
            if name in module.variables:
                left += _initial_names([module.variables[name]])
    return names


def _initial_names(variables: Iterable[Variable]) -> list[str]:
    """Return the names in the initialisers of variables."""
    items = [item for variable in variables for item in variable.initial or ()]
    return [item.name for item in items if isinstance(item, Symbol)]


def address_taken(module: Module) -> list[str]:
    """Return the functions whose addresses are in variables or registers: an indirect call may
    reach any of them.
    """
    symbols = _initial_names(module.variables.values())
    for function in module.functions.values():
        symbols += _initial_names(function.variables)
        for i in function.code or ():
            symbols += [] if i.opcode == "call" else _names(i)
    defined = {f.name for f in module.functions.values() if f.code is not None}
    return [s for s in dict.fromkeys(symbols) if s in defined and s not in module.entries]


def choose_entry(module: Module, entry: str | None) -> Function:
    """Return the entry by its name, mangled or as in the source (`tiled<128, 8>`), or by a part
    that only its name has.

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
    """Lay out an entry. Raises `PtxError` for what is missing or not known, with its source
    line.
    """
    _require_operands(module)
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


def _require_operands(module: Module) -> None:
    """Check the operands of all functions, reached or not."""
    if not module.operands_checked:
        for function in module.functions.values():
            for instruction in function.code or ():
                registry.require_operands(instruction)
        module.operands_checked = True


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
        # A call by address may reach any function whose address is taken.
        reached = list(callees(program.module, function))
        calls = [i for i in function.code or () if i.opcode == "call"]
        for indirect in [i for i in calls if not _is_named(i)][:1]:
            reached += [(indirect, name) for name in address_taken(program.module)]
        # Callees come first; what the system provides has no code here.
        for instruction, name in reached:
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
    """Give each label of a function its index in the program, once."""
    seen: set[Label] = set()
    for instruction in function.code or ():
        if instruction.opcode in ("bra", "brx"):
            last = instruction.operands[-1]
            for label in last if isinstance(last, tuple) else (last,):
                if label not in seen:
                    seen.add(label)
                    label.index = base + label.pc


def _number_blocks(program: Program) -> None:
    """Number the basic blocks."""
    leaders = set(program.start.values())
    for instruction in program.code:
        destinations = targets(instruction)
        leaders.update(destinations)
        if destinations or instruction.opcode in ("ret", "exit", "trap", "call"):
            leaders.add(instruction.pc + 1)
    block = -1
    for instruction in program.code:
        block += instruction.pc in leaders
        instruction.block = block


def _place_variables(program: Program) -> None:
    # The entry's parameters are laid out one after the other.
    for variable in program.entry.params:
        if not isinstance(variable, Variable):
            raise PtxError(
                f"{program.name}: parameter {variable.name} is a register; those of an .entry are .param"
            )
        program.parameter_bytes = align_up(program.parameter_bytes, variable.align)
        program.parameters.append(Parameter(variable, program.parameter_bytes))
        program.parameter_bytes += variable.size
        if program.parameter_bytes > MAX_PARAMETER_BYTES:
            raise PtxError(f"{program.name}: more than {MAX_PARAMETER_BYTES} bytes of parameters")
    # Static shared memory holds the module's variables that are used, and those of functions.
    base = program.shared_base = shared_base(program.module.target)
    used = program.names = {operand for i in program.code for operand in _names(i)}
    of_module = [v for v in program.module.variables.values() if v.name in used]
    function_variables = [v for f in program.functions for v in f.variables]
    dynamic = [v for v in of_module if v.space == "shared" and (v.extern or not v.size)]
    static = [v for v in (*of_module, *function_variables) if v not in dynamic]
    for variable in [v for v in static if v.space == "shared"]:
        program.static_shared_bytes = align_up(program.static_shared_bytes, variable.align)
        program.shared[variable] = base + program.static_shared_bytes
        program.static_shared_bytes += variable.size
    # Dynamic arrays all start where the static part ends, which is padded to their alignment.
    for variable in dynamic:
        program.static_shared_bytes = align_up(program.static_shared_bytes, max(16, variable.align))
    for variable in dynamic:
        program.shared[variable] = base + program.static_shared_bytes
    # A thread's frame holds local variables, and what functions pass to each other.
    locals_ = [v for v in function_variables if v.space in ("local", "param")]
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
    """Put the global and constant variables that the program uses in memory, initialised; their
    addresses.
    """
    placed: dict[str, tuple[Variable, int]] = {}
    used = {reached for name in program.names for reached in reachable_names(program.module, name)}
    variables = [variable for name, variable in program.module.variables.items() if name in used]
    variables += [v for f in program.functions for v in f.variables]
    for variable in variables:
        if variable.space in ("global", "const") and not variable.extern and not variable.opaque:
            address = arena.allocate(max(1, variable.size), variable.name, variable.align)
            placed[variable.name] = variable, address
    addresses = {name: address for name, (_, address) in placed.items()}
    for variable, address in placed.values():
        if variable.initial:
            arena.write(address, initial_bytes(program, variable, addresses))
    return addresses


def initial_bytes(program: Program, variable: Variable, addresses: dict[str, int]) -> np.ndarray:
    """Return a variable's initial bytes; `addresses`: of the variables that its initialiser may
    name.
    """
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
