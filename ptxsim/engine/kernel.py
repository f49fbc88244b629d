"""A kernel that can be launched: its parameters are packed, its arrays placed, its blocks run batch
by batch.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ..errors import KernelFault, PtxsimError
from ..machine.arrays import Array, Texture
from ..machine.clusters import in_clusters
from ..machine.device import Device
from ..machine.faults import Accepted, Faults, Found
from ..machine.launch import NO_CHECKS, Checks, LaunchConfig, Limits
from ..machine.memory import Arena
from ..machine.observer import Observer
from ..machine.state import WARP, State
from ..machine.tensor_maps import BYTES as MAP_BYTES
from ..machine.tensor_maps import TensorMap, encoded
from ..machine.texture_arrays import TextureArray
from ..ptx import merging, polling, sass, sizes
from ..ptx.program import Program, align_up
from ..ptx.syntax import Module, Variable, plain_name
from .device_memory import DeviceMemory
from .linking import link, place_globals
from .machine import Machine, names_special

MOST_CLUSTER = 16  # blocks, of any GPU, where a kernel asks for more than the portable 8
GRID_WORKSPACE = 64  # bytes that cooperative groups keep for a grid's barrier
FIRST_TEXTURE = 0x7E0001  # the number that stands for the first texture of a launch
REGISTERS = 65536  # of a multiprocessor


class Struct:
    """A parameter that is a struct, passed by value: what lies at which of its bytes; the rest is
    zero.

        ptxsim.Struct({0: a, 8: np.int32(5), 128: ptxsim.TensorMap(b, (64, 64))})

    Values: an `Array` or texture (its 8-byte pointer or object), a `TensorMap` (128 bytes, at a
    multiple of 64; CUDA 13 aligns it to 128), NumPy scalars and arrays, bytes, or another `Struct`
    (with `size`). Offsets are those of the compiler: `offsetof`, or the `ld.param` of the PTX.
    `size`: bytes; left out, as the parameter's, which must hold all parts."""

    def __init__(self, parts: Mapping[int, Any], size: int | None = None) -> None:
        self.parts, self.size = dict(sorted(parts.items())), size

    def held(self) -> list[Any]:
        """Its arrays, textures and tensor maps, those of inner structs too."""
        found = []
        for value in self.parts.values():
            found += value.held() if isinstance(value, Struct) else [value]
        return [value for value in found if isinstance(value, Array | Texture | TensorMap)]

    def __repr__(self) -> str:
        return f"Struct({self.parts!r})"


Argument = Any  # an Array, Texture, TensorMap or Struct, a number of Python's or NumPy's, or bytes
Constant = Array | np.ndarray | np.generic | bytes
Placed = dict[int, tuple[Array, int]]  # arrays and their addresses, by id


@dataclass(frozen=True)
class Request:
    """What a kernel is to be launched with.

    Attributes: grid, block: one to three sizes. args: one for each parameter, in order.
        shared_bytes: of dynamic shared memory. observers: what watches the launch. checks: False
        leaves out the watch over memory and barriers; bounds and alignment are always checked.
        limits: None: the defaults of `Limits`. values: False computes only what addresses and the
        flow of control depend on: observers see the same, several times sooner, but arrays stay as
        they were. It goes without checks. constants: what `__constant__` variables (and
        `__device__` ones) hold, by name, from their first byte on. blocks: run only those, with
        their clusters, by their linear number in the grid. cluster: blocks of one, as the launch
        attribute; a kernel with `__cluster_dims__` needs none. stop_at_first: False: go on after a
        fault, without the threads that cannot; `Launch.faults` has them all. After one that nobody
        can go on from, a deadlock say, the blocks of other batches are run. accept: faults that are
        none, each with its reason.
    """

    grid: int | Sequence[int]
    block: int | Sequence[int]
    args: Sequence[Argument]
    shared_bytes: int = 0
    observers: Iterable[Observer] = ()
    checks: Checks | bool = True
    limits: Limits | None = None
    values: bool = True
    constants: Mapping[str, Constant] | None = None
    blocks: Sequence[int] | None = None
    cluster: int | Sequence[int] | None = None
    stop_at_first: bool = True
    accept: Sequence[Accepted] = ()


Owner = TypeVar("Owner")
Value = TypeVar("Value")
Result = TypeVar("Result")
Fields = ParamSpec("Fields")


def takes_fields(
    make: Callable[Fields, Value],
) -> Callable[[Callable[[Owner, Value], Result]], Callable[Concatenate[Owner, Fields], Result]]:
    """Let a method of one value be called with the fields of that value."""

    def decorate(
        method: Callable[[Owner, Value], Result],
    ) -> Callable[Concatenate[Owner, Fields], Result]:
        @wraps(method)
        def called(owner: Owner, /, *args: Fields.args, **named: Fields.kwargs) -> Result:
            return method(owner, make(*args, **named))

        return called

    return decorate


@dataclass(frozen=True)
class Launch:
    """The result of a launch."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    steps: int  # instructions, each for all threads that were there
    notes: tuple[str, ...] = ()  # what is no fault, but worth a word; each one line
    # each line and kind once; where the launch stops at its first, only accepted ones
    faults: tuple[Found, ...] = ()


def dimensions(value: int | Sequence[int]) -> tuple[int, int, int]:
    """Return a grid or block size as three numbers."""
    given = tuple(value) if isinstance(value, Sequence | np.ndarray) else (value,)
    if not 1 <= len(given) <= 3 or any(int(s) < 1 for s in given):
        raise PtxsimError(f"a grid or block needs one to three positive sizes, got {value!r}")
    x, y, z = (int(s) for s in (*given, 1, 1)[:3])
    return x, y, z


class Packing:
    """The arguments of a launch: as bytes of its parameters, with what they point to placed in
    memory.
    """

    def __init__(self, title: str, arena: Arena, memory: DeviceMemory | None) -> None:
        self.title, self.arena = title, arena
        self.arrays: Placed = {}
        self.textures: dict[int, Texture | TextureArray] = {} if memory is None else memory.textures
        self.maps: list[TensorMap] = [] if memory is None else memory.tensor_maps

    def parameters(self, program: Program, args: Sequence[Argument]) -> bytes:
        """The bytes of a program's parameters.

        Raises `PtxsimError` for an argument that does not fit its parameter.
        """
        if len(args) != len(program.parameters):
            raise PtxsimError(
                f"{self.title} takes {len(program.parameters)} arguments, got {len(args)}"
            )
        raw = bytearray(program.parameter_bytes)
        for number, (value, parameter) in enumerate(zip(args, program.parameters, strict=True)):
            data = self._argument(f"{self.title}: argument {number}", value, parameter.variable)
            raw[parameter.offset : parameter.offset + len(data)] = data
        return bytes(raw)

    def _argument(self, name: str, value: Argument, variable: Variable) -> bytes:
        """The bytes of a parameter; `name`: of the argument, in messages."""
        size = variable.size
        if isinstance(value, Struct):
            if value.size not in (None, size):
                raise PtxsimError(
                    f"{name} is a struct of {value.size} bytes, its parameter has {size}"
                )
            return self._struct(name, value, size)
        if isinstance(value, np.floating) and variable.type.kind in "su" and value.nbytes == size:
            raise _not_whole(name, value, variable)
        data = self._bytes_of(value)
        if data is None:
            return _number(name, value, variable)
        if isinstance(value, Array) and size != 8:
            raise PtxsimError(f"{name} is {size} bytes wide, not a pointer")
        if isinstance(value, TensorMap) and size != MAP_BYTES:
            if size != 8:
                raise PtxsimError(
                    f"{name} is {size} bytes wide, not a tensor map ({MAP_BYTES}) or a pointer to one"
                )
            address = self.arena.allocate(MAP_BYTES, f"tensor map of {value.name}")
            self.arena.write(address, np.frombuffer(data, np.uint8))
            return address.to_bytes(8, "little")
        if len(data) != size:
            raise PtxsimError(f"{name} has {len(data)} bytes, the parameter {size}")
        return data

    def _struct(self, name: str, value: Struct, size: int) -> bytes:
        """The bytes of a struct."""
        raw, end = bytearray(size), 0
        for offset, part in value.parts.items():
            if isinstance(part, Struct):
                data: bytes | None = self._struct(name, part, part.size or 0)
            else:
                data = self._bytes_of(part)
            if data is None:
                raise PtxsimError(
                    f"{name}: at byte {offset} of a struct a {type(part).__name__} has no size: pass np.int32(...), "
                    "np.float32(...) and the like"
                )
            if not end <= offset <= size - len(data):
                what = f"at byte {offset} of a struct of {size} bytes there is no room for {len(data)} bytes"
                raise PtxsimError(f"{name}: {what}, the parts before it taking {end}")
            raw[offset : offset + len(data)] = data
            end = offset + len(data)
        return bytes(raw)

    def _bytes_of(self, value: Argument) -> bytes | None:
        """The bytes of what has a size of its own; None: it has none."""
        if isinstance(value, TensorMap):
            value.place(self._place(value.array))
            self.maps.append(value)
            return encoded(len(self.maps) - 1)
        if isinstance(value, Array):
            return self._place(value).to_bytes(8, "little")
        if isinstance(value, Texture | TextureArray):
            if isinstance(value, Texture):
                value.place(self._place(value.array))
            handle = FIRST_TEXTURE + len(self.textures)
            self.textures[handle] = value
            return handle.to_bytes(8, "little")
        if isinstance(value, np.generic | np.ndarray):
            return value.tobytes()
        return value if isinstance(value, bytes) else None

    def _place(self, array: Array) -> int:
        """The device address of an array; one that is passed twice is placed once."""
        if id(array) not in self.arrays:
            address = (
                self.arena.allocate(array.offset + max(1, array.nbytes), array.name) + array.offset
            )
            self.arrays[id(array)] = (array, address)
        return self.arrays[id(array)][1]


def _number(name: str, value: Argument, variable: Variable) -> bytes:
    """The bytes of a number of Python's."""
    size, kind = variable.size, variable.type.kind
    if not isinstance(value, bool | int | float):
        raise PtxsimError(f"{name} is a {type(value).__name__}; wrap arrays in ptxsim.Array")
    if size not in (1, 2, 4, 8):
        raise PtxsimError(
            f"{name} = {value} is a number, but parameter {variable.name} is a struct of {size} bytes: pass a "
            "ptxsim.Struct, or its bytes"
        )
    if isinstance(value, float) and kind in "su":  # bits take anything
        raise _not_whole(name, value, variable)
    if not isinstance(value, float) and (kind != "f" or variable.type.bits < 32):
        if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
            raise PtxsimError(f"{name} = {value} does not fit {size} bytes")
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    try:
        data = struct.pack("<" + {2: "e", 4: "f"}.get(size, "d"), value)
    except OverflowError:
        raise PtxsimError(f"{name} = {value} is too large for its parameter") from None
    if len(data) != size:
        raise PtxsimError(f"{name} has {len(data)} bytes, the parameter {size}")
    return data


def _not_whole(name: str, value: object, variable: Variable) -> PtxsimError:
    wanted = f"parameter {variable.name} ({variable.type}) takes"
    return PtxsimError(f"{name} = {value} is no whole number, which {wanted}")


class Kernel:
    """One entry of a module, ready to be launched. `memory`: device memory that launches work on,
    with the module's variables in it; None: each launch has its own, with copies of the arrays that
    it is given."""

    def __init__(
        self,
        module: Module,
        entry: str | None = None,
        cubin: Path | None = None,
        memory: DeviceMemory | None = None,
    ) -> None:
        self.module, self.memory = module, memory
        self.program = link(module, entry)
        self.cubin: Path | None = None
        self._from_cubin: merging.Merges | None = None
        if cubin is not None:
            self.use_cubin(cubin)
        self.machine = Machine(self.program)

    def use_cubin(self, cubin: Path) -> None:
        """Count merged accesses as they are in what ptxas made of this PTX.

        Raises `PtxError`: nothing changes then.
        """
        self._from_cubin = merging.from_cubin(self.program, cubin)
        self.cubin = cubin

    @property
    def state(self) -> State:
        """The threads of the batch that runs."""
        return self.machine.state

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def title(self) -> str:
        """The name as in the source, with its template arguments."""
        return self.program.title

    @cached_property
    def merges(self) -> merging.Merges:
        """Merged shared accesses: those in the cubin where there is one, or those that the rule
        predicts.
        """
        return self._from_cubin or merging.predicted(self.program)

    @property
    def parameters(self) -> list[Variable]:
        return [p.variable for p in self.program.parameters]

    @takes_fields(Request)
    def launch(self, request: Request) -> Launch:
        """Run the grid to its end; the fields of a `Request` are the arguments.

        Raises `PtxsimError`, one line; of a fault of the kernel, `KernelFault`."""
        return self.run(request)

    def run(self, request: Request) -> Launch:
        """Run the grid of a request to its end. Raises as `launch` does."""
        grid, block, shared_bytes = (
            dimensions(request.grid),
            dimensions(request.block),
            request.shared_bytes,
        )
        sizes.require_launch(self.title, grid, block, shared_bytes)
        self._require_block(block)
        checks, values, blocks = request.checks, request.values, request.blocks
        cluster = self.cluster_of(grid, request.cluster)
        if not isinstance(checks, Checks):
            checks = Checks() if checks else NO_CHECKS
        if not values and checks != NO_CHECKS:
            raise PtxsimError(f"{self.title}: values=False goes with checks=False only")
        limits = request.limits or Limits()
        memory = self.memory
        arena = Arena() if memory is None else memory
        packing = Packing(self.title, arena, memory)
        params = packing.parameters(self.program, request.args)
        arrays = packing.arrays
        symbols = (
            place_globals(self.program, arena) if memory is None else memory.symbols(self.program)
        )
        given = self._set_variables(request.constants or {}, arena, symbols)
        padded = align_up(math.prod(block), WARP)
        together = math.prod(cluster)
        # an array only where it must be: a grid can be huge
        chosen: range | np.ndarray = range(math.prod(grid))
        if blocks is not None:
            chosen = in_clusters(grid, cluster, np.asarray(blocks))
        places, homes = self._places(request.args, arrays)
        machine = self.machine
        if values or machine.runs.reads_contents(places):
            for array, address in arrays.values():
                if not array.blank:
                    arena.write(address, np.ascontiguousarray(array.numpy()))
        total = len(chosen)
        # refuses what is too much
        cost = sizes.Cost(self.title, total, padded, limits.thread_instructions)
        if blocks is None and together > 1:
            chosen = in_clusters(grid, cluster, np.arange(total))
        at_once = max(1, limits.lanes // (padded * together))
        grid_workspace = 0
        # where cooperative groups find what a grid's barrier needs
        if names_special(self.program, "envreg"):
            self._require_cooperative(total, math.prod(grid), padded, shared_bytes)
            grid_workspace = arena.allocate(GRID_WORKSPACE, "the grid's barrier")
            arena.write(grid_workspace, np.array([GRID_WORKSPACE], np.uint32))
        if polling.across_blocks(self.machine.scheduler.polls) is not None:
            at_once = max(
                at_once,
                sizes.resident_blocks(padded, self.program.static_shared_bytes + shared_bytes),
            )
        per_batch = min(at_once * together, total)
        sizes.require_batch(
            self.title, self.program, shared_bytes, per_batch * padded, padded, arena.nbytes
        )
        if self.program.allocates:
            arena.make_heap()
        arena.finish()
        unwritten = [(at, at + array.nbytes) for array, at in arrays.values() if array.unwritten]
        if memory is not None:
            places |= memory.places(self.program, params)
            unwritten += memory.unwritten()
            given |= set(symbols) - memory.never_written(self.module)
        faults = Faults(request.stop_at_first, request.accept)
        machine.prepare(
            LaunchConfig(
                grid=grid,
                block=block,
                cluster=cluster,
                dynamic_shared_bytes=shared_bytes,
                arena=arena,
                symbols=symbols,
                params=params,
                places=places,
                homes=homes,
                unwritten=unwritten,
                textures=packing.textures,
                tensor_maps=packing.maps,
                registers=self._registers(block),
                grid_workspace=grid_workspace,
                checks=checks,
                values=values,
                faults=faults,
                device=Device() if memory is None else memory.device,
            )
        )
        machine.launch.device.launched()
        steps = lanes = 0
        watching = tuple(request.observers)
        for observer in watching:
            observer.begins(self, grid, block)
        kept = [
            (t, t.numpy().copy())
            for t in packing.textures.values()
            if isinstance(t, TextureArray) and not values
        ]
        try:
            for first in range(0, total, per_batch):
                batch = np.asarray(chosen[first : first + per_batch])
                for observer in watching:
                    observer.batch(batch)
                try:
                    machine.run_batch(batch, limits, watching)
                except KernelFault as fault:
                    faults.take(fault, ended=True)
                steps += machine.scheduler.executed
                lanes += machine.scheduler.executed * machine.state.lanes
                cost.after(min(first + per_batch, total), lanes)
        finally:
            if memory is not None:
                memory.after(machine)
            machine.release()
            for texture, content in kept:
                texture.numpy()[...] = content
        for array, address in arrays.values() if values else ():
            array.keep(arena.read(address, array.nbytes))
        notes = (*machine.diag.notes, *self._unset_constants(given))
        return Launch(self.name, grid, block, steps, notes, tuple(faults.found.values()))

    def _require_cooperative(
        self, chosen: int, blocks: int, padded: int, shared_bytes: int
    ) -> None:
        """All blocks of a grid that synchronises must run at a time, as of a cooperative launch."""
        held = sizes.resident_blocks(padded, self.program.static_shared_bytes + shared_bytes)
        if chosen < blocks:
            raise PtxsimError(
                f"{self.title}: the grid synchronises (cooperative groups): all of its blocks must run"
            )
        if blocks > held:
            raise PtxsimError(
                f"{self.title}: the grid synchronises (cooperative groups), but its {blocks} blocks do not run at a "
                f"time: a GPU of {sizes.SMS} multiprocessors holds {held} of this size"
            )

    def _set_variables(
        self, constants: Mapping[str, Constant], arena: Arena, symbols: dict[str, int]
    ) -> set[str]:
        """Put contents in variables; their names in the PTX."""
        variables = {
            v.name: v for v in self.module.variables.values() if v.space in ("const", "global")
        }
        given = set()
        for name, value in constants.items():
            close = [v for v in variables if name in (v, plain_name(v))]
            if len(close) != 1:
                known = ", ".join(plain_name(v) for v in variables) or "none"
                raise PtxsimError(
                    f"{self.title}: no constant or device variable {name!r}; the PTX has: {known}"
                )
            variable = variables[close[0]]
            value = value.numpy() if isinstance(value, Array) else value
            data = np.frombuffer(
                value if isinstance(value, bytes) else np.asarray(value).tobytes(), np.uint8
            )
            if data.nbytes > variable.size:
                raise PtxsimError(
                    f"{self.title}: {name} holds {variable.size} bytes, not {data.nbytes}"
                )
            given.add(variable.name)
            if variable.name in symbols:
                arena.write(symbols[variable.name], data)
        return given

    def _unset_constants(self, given: set[str]) -> list[str]:
        """Constants that were read though neither the program nor the host says what they hold."""
        read = self.machine.launch.constants_read
        return [
            f"constant {plain_name(v.name)} ({v.size} bytes) is read, but has no initialiser and was not set: it holds "
            "zeros"
            for v in self.module.variables.values()
            if v in read and v.space == "const" and not v.initial and v.name not in given
        ]

    def _require_block(self, block: tuple[int, int, int]) -> None:
        attributes = self.program.entry.attributes
        threads = block[0] * block[1] * block[2]
        for name, exact in (("reqntid", True), ("maxntid", False)):
            if name in attributes:
                sizes = (*attributes[name], 1, 1)[:3]
                bound = sizes[0] * sizes[1] * sizes[2]
                if (exact and block != sizes) or threads > bound:
                    raise PtxsimError(
                        f"{self.title}: block {block} does not fit its .{name} {sizes}"
                    )

    def cluster_of(
        self, grid: tuple[int, int, int], given: int | Sequence[int] | None
    ) -> tuple[int, int, int]:
        """Blocks of a cluster of this grid: as the kernel says, or the launch (`given`).

        Raises `PtxsimError`.
        """
        own = self.program.entry.attributes.get("reqnctapercluster")
        own = None if own is None else dimensions(own)
        cluster = own or (1, 1, 1) if given is None else dimensions(given)
        if own is not None and cluster != own:
            raise PtxsimError(
                f"{self.title}: a cluster of {cluster} does not fit its __cluster_dims__ {own}"
            )
        if math.prod(cluster) > MOST_CLUSTER:
            raise PtxsimError(
                f"{self.title}: a cluster has at most {MOST_CLUSTER} blocks, not {math.prod(cluster)}"
            )
        if any(g % c for g, c in zip(grid, cluster, strict=True)):
            raise PtxsimError(f"{self.title}: grid {grid} is no multiple of its cluster {cluster}")
        return cluster

    def _registers(self, block: tuple[int, int, int]) -> int | None:
        """Registers that a thread starts with, where setmaxnreg needs to know and the PTX or a
        cubin says; 0 where the cubin shows that ptxas left setmaxnreg out."""
        if not any(i.opcode == "setmaxnreg" for i in self.program.code):
            return None
        attributes = self.program.entry.attributes
        if self.cubin is not None:
            function = sass.read(self.cubin, self.name)
            kept = any(i.name == "USETMAXREG" for i in function.instructions)
            return align_up(function.registers, 8) if kept else 0
        if "maxnreg" in attributes:
            return attributes["maxnreg"][0] // 8 * 8
        threads = attributes.get("reqntid") or attributes.get("maxntid")
        if threads and "minnctapersm" in attributes:
            warps = attributes["minnctapersm"][0] * align_up(math.prod(threads), WARP) // WARP
            return min(255, REGISTERS // (warps * WARP)) // 8 * 8
        return None

    def _places(
        self, args: Sequence[Argument], arrays: Placed
    ) -> tuple[dict[Variable, int], dict[int, int]]:
        """For each parameter with pointers, a place, the same where parameters have a buffer in
        common; and the place of each such buffer, by its address. A parameter's place is its
        buffer's address; a struct's is that of one."""
        held: dict[Variable, set[int]] = {}
        for value, parameter in zip(args, self.program.parameters, strict=True):
            parts = value.held() if isinstance(value, Struct) else [value]
            buffers = [part.array if isinstance(part, TensorMap) else part for part in parts]
            addresses = {arrays[id(buffer)][1] for buffer in buffers if id(buffer) in arrays}
            if addresses:
                held[parameter.variable] = addresses
        homes = {address: min(addresses) for addresses in held.values() for address in addresses}
        changed = True
        while changed:
            changed = False
            for addresses in held.values():
                least = min(homes[address] for address in addresses)
                for address in addresses:
                    changed |= homes[address] != least
                    homes[address] = least
        return {variable: homes[min(addresses)] for variable, addresses in held.items()}, homes
