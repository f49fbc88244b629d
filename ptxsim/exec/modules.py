"""The modules of a program: PTX out of fat binaries, variables in device memory, and kernels."""

from __future__ import annotations

import contextlib
import math
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..engine.device_memory import DeviceMemory
from ..errors import PtxError, PtxsimError
from ..interface import Kernel
from ..ptx import sass
from ..ptx.demangle import split
from ..ptx.parser import parse
from ..ptx.syntax import Module, Variable, plain_name
from . import fatbin
from .options import Options
from .protocol import Error, Payload, Reply
from .reporter import Reporter

MANAGED = re.compile(r"\.attribute\s*\(\s*\.managed\s*\)[^;={]*?([\w$]+)\s*(?:\[[^;=]*)?(?:;|=)")


@dataclass
class Loaded:
    """A module of the program."""

    ptx: Module
    cubin: Path | None
    variables: dict[str, Variable]
    # These variables are in managed memory.
    managed: set[str]
    kernels: dict[str, Kernel] = field(default_factory=dict)
    # `registers` counts the registers of a thread, by kernel; 0 where it is not known.
    registers: dict[str, int] = field(default_factory=dict)
    warned: bool = False

    def registers_of(self, name: str) -> int:
        """Return the registers of a thread, by the machine code; 0 where there is none."""
        if name not in self.registers:
            self.registers[name] = 0
            if self.cubin is not None:
                with contextlib.suppress(PtxError):
                    self.registers[name] = sass.read(self.cubin, name).registers
        return self.registers[name]


class Modules:
    """Answers messages about modules. `folder`: where their machine code is written."""

    def __init__(
        self, memory: DeviceMemory, options: Options, folder: Path, reporter: Reporter
    ) -> None:
        self.memory, self.options, self.folder, self.reporter = memory, options, folder, reporter
        self.loaded: dict[int, Loaded] = {}

    def load(self, payload: Payload) -> Reply:
        """Answer MODULE_LOAD with the module's variables and kernels."""
        number, contents = payload.u32(), [payload.raw() for _ in range(payload.u32())]
        frame = payload.frame()
        try:
            loaded = self._read(contents, number)
        except (PtxsimError, OSError) as error:
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"cannot write {self.folder}: {error.strerror}"
            name = Path(frame.file or self.reporter.executable).name
            self.reporter.report("unsupported", f"{name}: {reason}")
            return Reply().u32(
                Error.NO_BINARY if isinstance(error, fatbin.NoBinaryError) else Error.INVALID_PTX
            )
        self.loaded[number] = loaded
        reply = Reply().u32(Error.NONE).u32(len(loaded.variables))
        for name, variable in loaded.variables.items():
            flags = (variable.space == "const") | (name in loaded.managed) << 1
            reply.text(name).u64(variable.size).u32(flags)
        reply.u32(len(loaded.ptx.entries))
        for name in loaded.ptx.entries:
            reply.text(name)
        return reply

    def _read(self, contents: list[bytes], number: int) -> Loaded:
        """Read a module; of relocatable device code the linked machine code, and the parts that it
        was made of.
        """
        chosen = fatbin.choose_all(
            [fatbin.unpacked(content, self.folder) for content in contents],
            self.options.gpu.architecture,
        )
        texts = [
            (text.content or b"").decode(errors="replace") for text, _ in chosen if text is not None
        ]
        cubin, machine_code = None, chosen[0][1]
        if machine_code is not None:
            cubin = self.folder / f"{os.getpid()}-{number}.cubin"
            cubin.write_bytes(machine_code.content or b"")
        if not texts and cubin is not None:
            with contextlib.suppress(PtxError):
                texts = [held for held in [sass.embedded_ptx(cubin)] if held is not None]
        if not texts:
            raise fatbin.NoBinaryError(
                "its kernels are machine code only; add PTX: nvcc -gencode "
                "arch=compute_90a,code=[sm_90a,compute_90a] (ptxsim nvcc does so)"
            )
        module = linked([parse(text) for text in texts])
        inner = [v for f in module.functions.values() for v in f.variables]
        variables = {
            v.name: v
            for v in (*module.variables.values(), *inner)
            if v.space in ("global", "const") and not v.extern and not v.opaque
        }
        managed = {name for text in texts for name in MANAGED.findall(text)}
        return Loaded(module, cubin, variables, managed)

    def place(self, payload: Payload) -> Reply:
        """Answer MODULE_PLACE: the addresses of a module's variables."""
        loaded = self.loaded[payload.u32()]
        addresses = {payload.text(): payload.u64() for _ in loaded.variables}
        for name, address in addresses.items():
            held = self.memory.live[address]
            self.memory.live[address] = replace(held, name=f"variable {plain_name(name)}")
            self.reporter.allocations.pop(held.name, None)
        try:
            if loaded.ptx.functions:
                self.memory.place(loaded.ptx, loaded.variables.values(), addresses)
        except PtxsimError as error:
            self.reporter.say(str(error))
            return Reply().u32(Error.INVALID_PTX)
        return Reply().u32(Error.NONE)

    def kernel(self, payload: Payload) -> Reply:
        """Answer KERNEL with a kernel's parameters and attributes."""
        loaded, name = self.loaded[payload.u32()], payload.text()
        if name not in loaded.ptx.entries:
            return Reply().u32(Error.NOT_FOUND)
        try:
            program = self.kernel_of(loaded, name).program
        except PtxsimError as error:
            self.reporter.report("unsupported", f"{split(name)[0]}: {error}")
            return Reply().u32(Error.NOT_SUPPORTED)
        reply = Reply().u32(Error.NONE).u32(len(program.parameters))
        for parameter in program.parameters:
            reply.u32(parameter.offset).u32(parameter.variable.size)
        registers, attributes = loaded.registers_of(name), program.entry.attributes
        bounds = [math.prod(attributes[b]) for b in ("reqntid", "maxntid") if b in attributes]
        threads = min([1024, *bounds])
        if registers:
            threads = min(threads, max(32, 65536 // (-(-registers // 8) * 8) // 32 * 32))
        constants = sum(v.size for v in loaded.variables.values() if v.space == "const")
        sizes = (program.static_shared_bytes, program.local_bytes, registers, threads, constants)
        for value in (*sizes, *(*attributes.get("reqnctapercluster", (0, 0, 0)), 1, 1)[:3]):
            reply.u32(value)
        return reply

    def kernel_of(self, loaded: Loaded, name: str) -> Kernel:
        """Return a kernel of a module, linked once. Raises `PtxsimError`."""
        if name not in loaded.kernels:
            made = Kernel(loaded.ptx, name, memory=self.memory)
            if loaded.cubin is not None:
                # The rule must do where there is no line information, or the PTX is another.
                with contextlib.suppress(PtxError):
                    made.use_cubin(loaded.cubin)
            loaded.kernels[name] = made
            if not loaded.warned and not any(i.location for i in made.program.code):
                loaded.warned = True
                self.reporter.once(
                    "the program's kernels have no line information: compile with nvcc -lineinfo to see source lines"
                )
        return loaded.kernels[name]


def linked(parts: list[Module]) -> Module:
    """Link modules that name each other's functions and variables into one."""
    first = parts[0]
    for part in parts[1:]:
        for name, variable in part.variables.items():
            if name not in first.variables or first.variables[name].extern:
                first.variables[name] = variable
        for name, function in part.functions.items():
            if name not in first.functions or first.functions[name].code is None:
                first.functions[name] = function
    return first
