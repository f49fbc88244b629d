"""A kernel that can be launched: its parameters are packed, its arrays placed, its blocks run batch
by batch.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import KernelFault, PtxsimError
from ..machine.arrays import Array, Texture
from ..machine.clusters import in_clusters
from ..machine.device import Device
from ..machine.faults import Accepted, Faults, Found
from ..machine.launch import NO_CHECKS, Checks, LaunchConfig, Limits, Request
from ..machine.memory import Arena
from ..machine.observer import Observer
from ..machine.state import WARP, State
from ..machine.tensor_maps import BYTES as MAP_BYTES
from ..machine.tensor_maps import TensorMap, encoded
from ..machine.texture_arrays import TextureArray
from ..ptx import merging, polling, sass, sizes
from ..ptx.program import Program, align_up
from ..ptx.sizes import Dim3
from ..ptx.syntax import Module, Variable, plain_name
from .device_memory import DeviceMemory
from .linking import link, place_globals
from .machine import Machine, names_special

# 8 blocks are portable; a kernel may ask for 16 where the GPU has them.
MAX_CLUSTER_BLOCKS = 16
# Cooperative groups keep this many bytes for a grid's barrier.
GRID_WORKSPACE = 64
# This number stands for the first texture of a launch.
FIRST_TEXTURE = 0x7E0001
# A multiprocessor has 65536 registers.
REGISTERS = 65536


class Struct:
    """A parameter that is a struct, passed by value: what lies at which of its bytes; the rest is
    zero.

    >>> ptxsim.Struct({8: np.int32(5), 0: ptxsim.Array(np.zeros(4))}, size=16)
    Struct({0: Array('array', float64, (4,)), 8: np.int32(5)})

    Values: an `Array` or texture (its 8-byte pointer or object), a `TensorMap` (128 bytes, at a
    multiple of 64; CUDA 13 aligns it to 128), NumPy scalars and arrays, bytes, or another `Struct`
    (with `size`). Offsets are those of the compiler: `offsetof`, or the `ld.param` of the PTX.
    `size`: bytes; left out, as the parameter's, which must hold all parts."""

    def __init__(self, parts: Mapping[int, Any], size: int | None = None) -> None:
        self.parts, self.size = dict(sorted(parts.items())), size

    def held(self) -> list[Any]:
        """Return its arrays, textures and tensor maps, those of inner structs too."""
        parts = []
        for value in self.parts.values():
            parts += value.held() if isinstance(value, Struct) else [value]
        return [value for value in parts if isinstance(value, Array | Texture | TensorMap)]

    def __repr__(self) -> str:
        return f"Struct({self.parts!r})"


# An argument is an Array, Texture, TensorMap, Struct, number (Python's or NumPy's) or bytes.
Argument = Any
Constant = Array | np.ndarray | np.generic | bytes
# Arrays and their addresses are listed by id.
Placed = dict[int, tuple[Array, int]]


@dataclass(frozen=True)
class Batches:
    """The blocks that a launch runs, in order, `size` of them together."""

    # `blocks` is an array only where it must be, since a grid can be huge.
    blocks: range | np.ndarray
    size: int

    def __iter__(self) -> Iterator[np.ndarray]:
        for first in range(0, len(self.blocks), self.size):
            yield np.asarray(self.blocks[first : first + self.size])


@dataclass(frozen=True)
class Launch:
    """The result of a launch.

    Attributes: kernel: its mangled name. grid, block: sizes. steps: instructions, each for all
        threads that were there. notes: what is no fault, but worth a word, one line each. faults:
        each line and kind once; where the launch stops at its first, only accepted ones.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    steps: int
    notes: tuple[str, ...] = ()
    faults: tuple[Found, ...] = ()


def dimensions(value: int | Sequence[int]) -> Dim3:
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
        """Return the bytes of a program's parameters.

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

    def write_arrays(self) -> None:
        """Copy what the arrays hold to device memory."""
        for array, address in self.arrays.values():
            if not array.blank:
                self.arena.write(address, np.ascontiguousarray(array.numpy()))

    def read_arrays(self) -> None:
        """Copy what device memory holds back to the arrays."""
        for array, address in self.arrays.values():
            array.keep(self.arena.read(address, array.nbytes))

    def unwritten(self) -> list[tuple[int, int]]:
        """Return the addresses, from and to, of arrays that nobody has written."""
        return [(at, at + a.nbytes) for a, at in self.arrays.values() if a.unwritten]

    def _argument(self, name: str, value: Argument, variable: Variable) -> bytes:
        """Return the bytes of a parameter; `name`: of the argument, in messages."""
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
        """Return the bytes of a struct."""
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
        """Return the bytes of what has a size of its own; None: it has none."""
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
        """Return the device address of an array; one that is passed twice is placed once."""
        if id(array) not in self.arrays:
            start = self.arena.allocate(array.offset + max(1, array.nbytes), array.name)
            self.arrays[id(array)] = (array, start + array.offset)
        return self.arrays[id(array)][1]


def _number(name: str, value: Argument, variable: Variable) -> bytes:
    """Return the bytes of a number of Python's."""
    size, kind = variable.size, variable.type.kind
    if not isinstance(value, bool | int | float):
        raise PtxsimError(f"{name} is a {type(value).__name__}; wrap arrays in ptxsim.Array")
    if size not in (1, 2, 4, 8):
        raise PtxsimError(
            f"{name} = {value} is a number, but parameter {variable.name} is a struct of {size} bytes: pass a "
            "ptxsim.Struct, or its bytes"
        )
    # Bits take any number.
    if isinstance(value, float) and kind in "su":
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
        """Return the threads of the batch that runs."""
        return self.machine.state

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def title(self) -> str:
        """Return the name as in the source, with its template arguments."""
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

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Argument],
        shared_bytes: int = 0,
        *,
        observers: Iterable[Observer] = (),
        checks: Checks | bool = True,
        limits: Limits | None = None,
        values: bool = True,
        constants: Mapping[str, Constant] | None = None,
        blocks: Sequence[int] | None = None,
        cluster: int | Sequence[int] | None = None,
        cooperative: bool = True,
        backwards: bool = False,
        stop_at_first: bool = True,
        accept: Sequence[Accepted] = (),
    ) -> Launch:
        """Run the grid to its end.

        :param grid: Blocks of the grid: one to three sizes.
        :param block: Threads of a block: one to three sizes.
        :param args: One argument for each parameter, in order.
        :param shared_bytes: Bytes of dynamic shared memory.
        :param observers: What watches the launch, such as `Counters`.
        :param checks: What is checked; False leaves out all but bounds and alignment.
        :param limits: Limits of the launch; None: the defaults of `Limits`.
        :param values: False computes only what addresses and the flow of control depend on.
            Observers see the same, several times sooner, but arrays stay as they were. It goes
            without checks.
        :param constants: What `__constant__` variables (and `__device__` ones) hold, by name, from
            their first byte on.
        :param blocks: Run only the blocks with these linear numbers, with their clusters.
        :param cluster: Blocks of a cluster, as the launch attribute. A kernel with
            `__cluster_dims__` needs none.
        :param cooperative: False for an ordinary launch, in which a barrier of the grid traps.
        :param backwards: Run the blocks, and the threads of a block where they meet at an atomic,
            in the opposite order: which of them takes a lock first is not defined.
        :param stop_at_first: False goes on after a fault, without the threads that cannot.
            `Launch.faults` has all of them. After a fault that ends its blocks, such as a deadlock,
            the other batches of blocks are run.
        :param accept: Faults that are accepted, each with its reason.

        Raises `KernelFault` for a fault of the kernel, `PtxsimError` for a launch that cannot be
        made; either message is one line.

        >>> kernel = ptxsim.load("scale.ptx")
        >>> x = ptxsim.Array(np.arange(64, dtype=np.float32), "x")
        >>> y = ptxsim.Array(np.zeros(64, np.float32), "y")
        >>> kernel.launch(grid=2, block=32, args=[y, x, 2.0, 64]).faults
        ()
        >>> y.numpy()[:4]
        array([0., 2., 4., 6.], dtype=float32)
        >>> kernel.launch(grid=3, block=32, args=[y, x, 2.0, 96])
        Traceback (most recent call last):
        ptxsim.errors.KernelFault: scale: scale.cu:4: block (2, 0, 0), thread (0, 0, 0): out-of-bounds ...
        """
        if not isinstance(checks, Checks):
            checks = Checks() if checks else NO_CHECKS
        if not values and checks != NO_CHECKS:
            raise self._error("values=False goes with checks=False only")
        grid, block = dimensions(grid), dimensions(block)
        sizes.require_launch(self.title, grid, block, shared_bytes)
        self._require_block(block)
        request = Request(
            grid=grid,
            block=block,
            cluster=self.cluster_of(grid, cluster),
            args=args,
            dynamic_shared_bytes=shared_bytes,
            observers=tuple(observers),
            checks=checks,
            limits=limits or Limits(),
            values=values,
            constants=constants or {},
            blocks=blocks,
            cooperative=cooperative,
            backwards=backwards,
            faults=Faults(stop_at_first, accept),
        )
        return self._run(request)

    def _run(self, request: Request) -> Launch:
        """Place the arguments in memory, run the blocks batch by batch, and read arrays back."""
        arena = Arena() if self.memory is None else self.memory
        packing = Packing(self.title, arena, self.memory)
        config, batches, given = self._configure(request, packing, arena)
        self.machine.prepare(config)
        config.device.launched()
        for observer in request.observers:
            observer.begins(self, request.grid, request.block)
        steps = self._run_batches(request, batches, packing)
        if request.values:
            packing.read_arrays()
        notes = (
            *self.machine.diag.notes.values(),
            *self._unset_constants(given),
            *self._shared_start_notes(),
        )
        faults = tuple(request.faults.recorded.values())
        return Launch(self.name, request.grid, request.block, steps, notes, faults)

    def _configure(
        self, request: Request, packing: Packing, arena: Arena
    ) -> tuple[LaunchConfig, Batches, set[str]]:
        """Place arguments and variables in memory. Return the launch for the machine, the batches
        of blocks, and the names of variables that have a content.
        """
        memory = self.memory
        # Arguments and variables get their addresses.
        params = packing.parameters(self.program, request.args)
        symbols = (
            place_globals(self.program, arena) if memory is None else memory.symbols(self.program)
        )
        given = self._set_variables(request.constants, arena, symbols)
        buffers, homes = self._buffers(request.args, packing.arrays)
        # Contents are copied where anything depends on them.
        if request.values or self.machine.runs.reads_contents(buffers):
            packing.write_arrays()
        blocks = self._chosen(request)
        # Cooperative groups find here what a grid's barrier needs.
        workspace = 0
        if request.cooperative and names_special(self.program, "envreg"):
            self._require_cooperative(request, len(blocks))
            workspace = arena.allocate(GRID_WORKSPACE, "the grid's barrier")
            arena.write(workspace, np.array([GRID_WORKSPACE], np.uint32))
        batches = Batches(blocks, self._batch_size(request, len(blocks), arena))
        if self.program.allocates:
            arena.make_heap()
        arena.finish()
        # The checks need what nobody has written, and which variables have a content.
        unwritten = packing.unwritten()
        if memory is not None:
            buffers |= memory.buffers(self.program, params)
            unwritten += memory.unwritten()
            given |= set(symbols) - memory.never_written(self.module)
        config = LaunchConfig(
            **vars(request),
            arena=arena,
            symbols=symbols,
            params=params,
            buffers=buffers,
            homes=homes,
            unwritten=unwritten,
            textures=packing.textures,
            tensor_maps=packing.maps,
            registers=self._registers(request.block),
            grid_workspace=workspace,
            device=Device() if memory is None else memory.device,
        )
        return config, batches, given

    def _chosen(self, request: Request) -> range | np.ndarray:
        """Return the linear numbers of the blocks that are run, those of a cluster in sequence.

        Raises `TooCostlyError` where there are too many.
        """
        grid, cluster, total = request.grid, request.cluster, math.prod(request.grid)
        chosen: range | np.ndarray
        if request.blocks is not None:
            chosen = in_clusters(grid, cluster, np.asarray(request.blocks))
            self._cost(request, len(chosen))
        else:
            # The cost is checked before a large array is made.
            self._cost(request, total)
            chosen = range(total)
            if max(cluster) > 1:
                chosen = in_clusters(grid, cluster, np.arange(total))
        if request.backwards and max(cluster) > 1:
            return np.asarray(chosen).reshape(-1, math.prod(cluster))[::-1].reshape(-1)
        return chosen[::-1] if request.backwards else chosen

    def _cost(self, request: Request, blocks: int) -> sizes.Cost:
        limit = request.limits.thread_instructions
        return sizes.Cost(self.title, blocks, request.padded_block, limit)

    def _batch_size(self, request: Request, total: int, arena: Arena) -> int:
        """Return how many blocks run together: as many as the limit of threads allows, or as a
        device holds where blocks wait for each other.
        """
        padded, together = request.padded_block, math.prod(request.cluster)
        at_once = max(1, request.limits.lanes // (padded * together))
        if polling.across_blocks(self.machine.scheduler.polls) is not None:
            at_once = max(at_once, self._resident_blocks(request))
        size = min(at_once * together, total)
        sizes.require_batch(
            self.title,
            self.program,
            request.dynamic_shared_bytes,
            size * padded,
            padded,
            arena.nbytes,
        )
        return size

    def _resident_blocks(self, request: Request) -> int:
        """Return how many blocks a device holds at a time."""
        shared = self.program.static_shared_bytes + request.dynamic_shared_bytes
        return sizes.resident_blocks(request.padded_block, shared)

    def _run_batches(self, request: Request, batches: Batches, packing: Packing) -> int:
        """Run all blocks; return the number of instructions, each for all threads of a batch."""
        machine, cost = self.machine, self._cost(request, len(batches.blocks))
        # Without values, stores must not change textures.
        arrays = [t for t in packing.textures.values() if isinstance(t, TextureArray)]
        saved = [(t, t.numpy().copy()) for t in arrays if not request.values]
        steps = lanes = done = 0
        try:
            for batch in batches:
                for observer in request.observers:
                    observer.batch(batch)
                try:
                    machine.run_batch(batch, request.limits, request.observers)
                except KernelFault as fault:
                    request.faults.take(fault, ended=True)
                # A grid that turns out to cost too much is refused after its first blocks.
                done += len(batch)
                steps += machine.scheduler.executed
                lanes += machine.scheduler.executed * machine.state.lanes
                cost.after(done, lanes)
        finally:
            if self.memory is not None:
                self.memory.after(machine)
            machine.release()
            for texture, content in saved:
                texture.numpy()[...] = content
        return steps

    def _require_cooperative(self, request: Request, chosen: int) -> None:
        """All blocks of a grid that synchronises must run at a time, as of a cooperative launch."""
        blocks, held = math.prod(request.grid), self._resident_blocks(request)
        what = "the grid synchronises (cooperative groups)"
        if chosen < blocks:
            raise self._error(f"{what}: all of its blocks must run")
        if blocks > held:
            raise self._error(
                f"{what}, but its {blocks} blocks do not run at a time: "
                f"a GPU of {sizes.SMS} multiprocessors holds {held} of this size"
            )

    def _set_variables(
        self, constants: Mapping[str, Constant], arena: Arena, symbols: dict[str, int]
    ) -> set[str]:
        """Put contents in variables; their names in the PTX."""
        declared = self.module.variables.values()
        variables = {v.name: v for v in declared if v.space in ("const", "global")}
        given = set()
        for name, value in constants.items():
            close = [v for v in variables if name in (v, plain_name(v))]
            if len(close) != 1:
                known = ", ".join(plain_name(v) for v in variables) or "none"
                raise self._error(f"no constant or device variable {name!r}; the PTX has: {known}")
            variable = variables[close[0]]
            value = value.numpy() if isinstance(value, Array) else value
            raw = value if isinstance(value, bytes) else np.asarray(value).tobytes()
            data = np.frombuffer(raw, np.uint8)
            if data.nbytes > variable.size:
                raise self._error(f"{name} holds {variable.size} bytes, not {data.nbytes}")
            given.add(variable.name)
            if variable.name in symbols:
                arena.write(symbols[variable.name], data)
        return given

    def _unset_constants(self, given: set[str]) -> list[str]:
        """Return constants that were read though neither the program nor the host says what they
        hold.
        """
        read = self.machine.launch.constants_read
        return [
            f"constant {plain_name(v.name)} ({v.size} bytes) is read, but has no initialiser and was not set: it holds "
            "zeros"
            for v in self.module.variables.values()
            if v in read and v.space == "const" and not v.initial and v.name not in given
        ]

    def _shared_start_notes(self) -> list[str]:
        """Return a note on arrays of dynamic shared memory that all begin where the first does."""
        names = sorted(plain_name(v.name) for v in self.program.shared if v.extern or not v.size)
        if len(names) < 2:
            return []
        return [
            f"{' and '.join(names)} are extern __shared__ arrays, which all begin at the same address: what is "
            "written to one is in the others, too; the second must be a pointer into the first"
        ]

    def _error(self, what: str) -> PtxsimError:
        return PtxsimError(f"{self.title}: {what}")

    def _require_block(self, block: Dim3) -> None:
        attributes = self.program.entry.attributes
        for name, exact in (("reqntid", True), ("maxntid", False)):
            if name in attributes:
                sizes = (*attributes[name], 1, 1)[:3]
                if (exact and block != sizes) or math.prod(block) > math.prod(sizes):
                    raise self._error(f"block {block} does not fit its .{name} {sizes}")

    def cluster_of(self, grid: Dim3, given: int | Sequence[int] | None) -> Dim3:
        """Return the blocks of a cluster of this grid: as the kernel says, or the launch (`given`).

        Raises `PtxsimError`.
        """
        declared = self.program.entry.attributes.get("reqnctapercluster")
        declared = None if declared is None else dimensions(declared)
        cluster = declared or (1, 1, 1) if given is None else dimensions(given)
        if declared is not None and cluster != declared:
            raise self._error(
                f"a cluster of {cluster} does not fit its __cluster_dims__ {declared}"
            )
        if (blocks := math.prod(cluster)) > MAX_CLUSTER_BLOCKS:
            raise self._error(f"a cluster has at most {MAX_CLUSTER_BLOCKS} blocks, not {blocks}")
        if any(g % c for g, c in zip(grid, cluster, strict=True)):
            raise self._error(f"grid {grid} is no multiple of its cluster {cluster}")
        return cluster

    def _registers(self, block: Dim3) -> int | None:
        """Return the registers that a thread starts with, where setmaxnreg needs to know and the
        PTX or a cubin says; 0 where the cubin shows that ptxas left setmaxnreg out.
        """
        if not any(i.opcode == "setmaxnreg" for i in self.program.code):
            return None
        attributes = self.program.entry.attributes
        if self.cubin is not None:
            function = sass.read(self.cubin, self.name)
            emitted = any(i.name == "USETMAXREG" for i in function.instructions)
            return align_up(function.registers, 8) if emitted else 0
        if "maxnreg" in attributes:
            return attributes["maxnreg"][0] // 8 * 8
        threads = attributes.get("reqntid") or attributes.get("maxntid")
        if threads and "minnctapersm" in attributes:
            warps = attributes["minnctapersm"][0] * align_up(math.prod(threads), WARP) // WARP
            return min(255, REGISTERS // (warps * WARP)) // 8 * 8
        return None

    def _buffers(
        self, args: Sequence[Argument], arrays: Placed
    ) -> tuple[dict[Variable, int], dict[int, int]]:
        """Return, for each parameter with pointers, the address that stands for its buffers, the
        same where parameters have a buffer in common; and, by address, the one that stands for each
        buffer.
        """
        held: dict[Variable, set[int]] = {}
        for value, parameter in zip(args, self.program.parameters, strict=True):
            parts = value.held() if isinstance(value, Struct) else [value]
            buffers = [part.array if isinstance(part, TensorMap) else part for part in parts]
            addresses = {arrays[id(buffer)][1] for buffer in buffers if id(buffer) in arrays}
            if addresses:
                held[parameter.variable] = addresses
        homes = {address: min(addresses) for addresses in held.values() for address in addresses}
        before: dict[int, int] = {}
        while before != homes:
            before = dict(homes)
            for addresses in held.values():
                homes |= dict.fromkeys(addresses, min(homes[address] for address in addresses))
        return {variable: homes[min(addresses)] for variable, addresses in held.items()}, homes
