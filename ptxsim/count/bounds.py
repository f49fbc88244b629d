"""The minimum cycles that each resource of a GPU needs for a launch, from counts alone: no GPU is
needed.

    counters, traffic = Counters(), Traffic()
    kernel.launch(grid, block, arguments, observers=[counters, traffic])
    function = sass.read(cubin, kernel.name)
    print(compute(function, kernel.program, Work.observed(counters, traffic), machines.find("h100")).table())

From the emulator: what the memory system does, and how often each instruction of the PTX is
executed. From the cubin: the SASS, and with those counts how often each of its instructions is
executed (`executions`). Each resource's work over its rate is a time that the launch cannot be
faster than; the largest names the limiter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..gpus import KIB, Limits
from ..machine.arrays import Texture
from ..machine.memory import GLOBAL_BASE, Access
from ..machine.observer import Launched, MemoryEvent, Observer
from ..machine.values import distinct
from ..ptx import polling, sass
from ..ptx.demangle import split
from ..ptx.merging import require_same
from ..ptx.program import Program, shortened
from ..ptx.sizes import Dim3
from ..ptx.syntax import Instruction
from . import register_banks as issue
from . import wavefronts
from .block_counts import Executions, executions
from .counters import Counters
from .machines import Machine
from .occupancy import occupancy

WARP = 32
SECTOR, LINE = wavefronts.SECTOR, wavefronts.LINE
# Duplicates are removed once this many sector numbers are held.
KEEP = 1 << 20

# Clocks of the FMA pipe (of one scheduler) for an instruction. Held against ncu's
# sm__pipe_fma_cycles_active: docs/hardware.md. Multiplication to 64 bits takes two.
FMA_PIPE = {"FFMA": 1, "FMUL": 1, "FADD": 1, "IMAD": 1, "VIADD": 1}
FMA_PIPE_TWICE = ("WIDE", "HI")
FP64 = ("DFMA", "DMUL", "DADD")
# `HMMA_K` holds k of m16n8k for an HMMA's modifier.
HMMA_K = {"16816": 16, "1688": 8, "1684": 4}
# by k
GMMA = {
    "8": "wgmma_tf32_flop_per_clock",
    "16": "wgmma_flop_per_clock",
    "32": "wgmma_fp8_flop_per_clock",
}
TENSOR = (
    "HMMA",
    "IMMA",
    "BMMA",
    "DMMA",
    "HGMMA",
    "IGMMA",
    "BGMMA",
    "QGMMA",
    "QMMA",
    "OMMA",
    "UTCHMMA",
)

# Names of counts that a launch is asked for (`counters.sums`)
SHARED_WAVEFRONTS = "memory_l1_wavefronts_shared"
STORED_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
MERGED_LOADS = "shared_loads_merged.sum"

LABELS = {
    "fma": "FMA pipe",
    "fp64": "fp64 pipe",
    "tensor": "tensor cores",
    "issue": "issue slots",
    "registers": "register banks",
    "shared": "shared memory",
    "l1": "L1 lookups",
    "l2": "L2 to SM",
    "dram": "DRAM reads",
    "issue_model": "issue cycles",
}
# These follow from rules that are models.
ESTIMATES = ("l2", "issue_model")
# These are estimates, too, where too many executions of blocks are.
OF_BLOCKS = ("fma", "issue", "registers")
# A larger share of instructions with estimated executions makes them so.
ESTIMATED = 0.02
# All SMs share these resources: an uneven share of blocks does not slow them.
OF_THE_GPU = ("dram",)


class Traffic(Observer):
    """Counts how often each instruction is executed, and what of global memory must be fetched:
    lines looked up in L1, and sectors by block and by launch. Executions and lines are arrays where
    an observer of the launch asks for numbers by block."""

    def __init__(self) -> None:
        # `executions` counts executions by warp of the instruction at each pc.
        self.executions: Counter[int] = Counter()
        self.lines: Any = 0
        # Each number holds a block and a sector.
        self._seen: list[np.ndarray] = []
        self._held = 0

    def begins(self, kernel: Launched, grid: Dim3, block: Dim3) -> None:
        self._state = kernel.state

    def executed(self, instruction: Instruction, warps: int) -> None:
        self.executions[instruction.pc] += warps

    def memory(self, event: MemoryEvent) -> None:
        kind = event.kind.removesuffix("_ordered")
        if event.space not in ("global", "const") or kind not in ("ld", "atom", "cp_async_ld"):
            return
        addresses, active = event.addresses()
        key = ("lines", event.width, event.offset % LINE)
        if key not in event.cache:
            lines = count_lines(addresses, active, event.width)
            event.cache[key] = event.state.sum_of_warps(lines)
        self.lines = self.lines + event.cache[key]
        blocks = np.broadcast_to(event.blocks()[:, None], addresses.shape)
        self._fetch(blocks[active], addresses[active], event.width)

    def bulk(self, instruction: Instruction, access: Access, width: int, kind: str) -> None:
        if kind == "ld":
            block = self._state.blocks[self._state.block_of[access.lanes]]
            self._fetch(block, access.flat(), width)

    def texture(
        self, instruction: Instruction, texture: Texture, lanes: np.ndarray, index: np.ndarray
    ) -> None:
        inside = (index >= 0) & (index < texture.elements)
        lanes, width, state = lanes[inside], texture.element_bytes, self._state
        addresses = texture.address - GLOBAL_BASE + index[inside].astype(np.int64) * width
        full, active = np.zeros(state.lanes, np.int64), state.mask_of(lanes)
        full[lanes] = addresses
        lines = count_lines(full.reshape(-1, WARP), active.reshape(-1, WARP), width)
        self.lines = self.lines + state.sum_of_warps(lines)
        self._fetch(state.blocks[state.block_of[lanes]], addresses, width)

    def _fetch(self, blocks: np.ndarray, addresses: np.ndarray, width: int) -> None:
        """Record which sectors the blocks touch."""
        first, last = addresses // SECTOR, (addresses + width - 1) // SECTOR
        for sectors in (first,) if np.array_equal(first, last) else (first, last):
            self._keep(distinct((blocks.astype(np.int64) << 40) + sectors))

    def _keep(self, numbers: np.ndarray) -> None:
        self._seen.append(numbers)
        self._held += numbers.size
        if self._held > KEEP:
            self._seen = [distinct(np.concatenate(self._seen))]
            self._held = 0

    def sectors_of(self, blocks: Sequence[int]) -> np.ndarray:
        """Return the different sectors that these blocks read, by their numbers."""
        seen = self._distinct()
        ends = [np.searchsorted(seen, (block << 40, block + 1 << 40)) for block in blocks]
        parts = [seen[first:end] for first, end in ends]
        return distinct(np.concatenate(parts) & ((1 << 40) - 1))

    def _distinct(self) -> np.ndarray:
        """Return the blocks and sectors seen so far, in order."""
        if len(self._seen) != 1:
            self._seen = [distinct(np.concatenate([np.zeros(0, np.int64), *self._seen]))]
        return self._seen[0]

    def totals(self) -> dict[str, float]:
        """Return lines looked up; different sectors that each block reads, summed; different
        sectors that the launch reads.
        """
        seen = self._distinct()
        return {
            "lines": float(self.lines),
            "block_sectors": float(seen.size),
            "sectors": float(distinct(seen & ((1 << 40) - 1)).size),
        }


def count_lines(addresses: np.ndarray, active: np.ndarray, width: int) -> np.ndarray:
    """Return different 128-byte lines that each warp's request touches. `addresses` in bytes:
    [warps, 32].
    """
    lines = np.stack([addresses, addresses + width - 1], axis=-1) // LINE
    return wavefronts.distinct_of_rows(lines, active[..., None])


@dataclass
class Work:
    """What a launch asks of the GPU, by names; all but `sectors` add up over blocks."""

    blocks: int
    # `threads` is the number of threads of a block.
    threads: int
    counts: dict[str, float]

    @classmethod
    def observed(cls, counters: Counters, traffic: Traffic) -> Work:
        """Return the work of the launch that both observed."""
        counts = {f"executed:{pc}": float(times) for pc, times in traffic.executions.items()}
        counts |= cls.counts_of(counters.totals())
        return cls(math.prod(counters.grid), math.prod(counters.block), counts | traffic.totals())

    @staticmethod
    def counts_of(totals: Mapping[str, float]) -> dict[str, float]:
        """Return what bounds need of a launch's totals."""
        return {
            name: float(totals[name]) for name in (SHARED_WAVEFRONTS, STORED_SECTORS, MERGED_LOADS)
        }

    @property
    def executed(self) -> dict[int, float]:
        """Return executions by warp of the PTX instruction at each place."""
        return {
            int(name.partition(":")[2]): n
            for name, n in self.counts.items()
            if name.startswith("executed:")
        }

    @property
    def warps(self) -> int:
        return self.blocks * -(-self.threads // WARP)


@dataclass(frozen=True)
class Bound:
    """The minimum cycles that one resource needs: amount / (rate per clock and SM x SMs)."""

    resource: str
    cycles_per_sm: float
    # The amount is of the whole launch.
    amount: float
    unit: str


@dataclass
class Bounds:
    """Bounds of a launch. Cycles are of the SM, and of the average SM unless said otherwise."""

    kernel: str
    gpu: Machine
    blocks: int
    threads: int
    bounds: list[Bound]
    # These follow from models, and are no bounds.
    estimates: list[Bound]
    # `instructions` counts instructions executed by warps.
    instructions: float
    # `disagreement` is the share by which the SASS's executions differ from the PTX's.
    disagreement: float
    # `estimated` is the share of instructions whose executions are an estimate.
    estimated: float
    blocks_per_sm: int
    # `unrated` counts executions of tensor instructions without a known rate.
    unrated: dict[str, float] = field(default_factory=dict)
    # `waits` says why a device may execute more instructions; None where they are exact.
    waits: str | None = None

    @property
    def limiter(self) -> Bound:
        """Return the resource that needs the most cycles."""
        return max(self.bounds or self.estimates, key=lambda bound: bound.cycles_per_sm)

    @property
    def tail(self) -> float:
        """Return the minimum cycles of the launch: as many blocks as there are more than SMs make
        one SM do a block more."""
        uneven = math.ceil(self.blocks / self.gpu.sms) / (self.blocks / self.gpu.sms)
        return max(
            b.cycles_per_sm * (1 if b.resource in OF_THE_GPU else uneven)
            for b in self.bounds or self.estimates
        )

    @property
    def waves(self) -> float:
        """Return the blocks over those that the GPU holds at once."""
        return self.blocks / (self.gpu.sms * self.blocks_per_sm) if self.blocks_per_sm else math.inf

    def report(self) -> dict[str, Any]:
        """Return the report that `--out` writes."""
        return {
            "kernel": self.kernel,
            "gpu": asdict(self.gpu),
            "blocks": self.blocks,
            "threads": self.threads,
            "blocks_per_sm": self.blocks_per_sm,
            "waves": self.waves if math.isfinite(self.waves) else None,
            "instructions": self.instructions,
            "instructions_at_least": self.waits,
            "disagreement": self.disagreement,
            "estimated": self.estimated,
            "bounds": [asdict(bound) for bound in self.bounds],
            "estimates": [asdict(estimate) for estimate in self.estimates],
            "limiter": self.limiter.resource,
            "tail_cycles": self.tail,
            "unrated": self.unrated,
        }

    def table(self) -> str:
        """Return the bounds, largest first, as text."""
        lines = [
            f"{shortened(split(self.kernel)[0])}: {self.blocks:,} blocks of {self.threads} threads",
            f"{self.gpu.name}, {self.gpu.sms} SMs, {self.blocks_per_sm} blocks each: {self.waves:.2f} waves",
            f"  {'resource':<16s}{'cycles per SM':>16s}{'of largest':>12s}  amount",
        ]
        longest = self.limiter.cycles_per_sm
        for part in (self.bounds, self.estimates):
            lines += ["estimates, no bounds:"] if part is self.estimates and part else []
            for bound in sorted(part, key=lambda b: -b.cycles_per_sm):
                share = bound.cycles_per_sm / longest if longest else 0.0
                lines.append(
                    f"  {LABELS[bound.resource]:<16s}{bound.cycles_per_sm:>16,.0f}{share:>12.1%}"
                    f"  {bound.amount:,.0f} {bound.unit}"
                )
        lines.append(
            f"limiter: {LABELS[self.limiter.resource]}, at least {longest:,.0f} cycles per SM"
        )
        lines.append(f"the SM with the most blocks: at least {self.tail:,.0f} cycles")
        if self.disagreement > 1e-3:
            lines.append(
                f"SASS and PTX disagree on {self.disagreement:.1%} of the executions that were matched"
            )
        if self.estimated > ESTIMATED:
            lines.append(
                f"how often {self.estimated:.0%} of the instructions are executed is an estimate"
            )
        if self.waits:
            lines.append(
                f"a device executes {self.instructions:,.0f} instructions or more: {self.waits}"
            )
        if self.unrated:
            lines.append(
                f"without a known rate, left out of tensor cores: {', '.join(self.unrated)}"
            )
        return "\n".join(lines)


def compute(
    function: sass.Function, program: Program, work: Work, gpu: Machine, shared_bytes: int = 0
) -> Bounds:
    """Return the bounds of a launch. `shared_bytes`: its dynamic shared memory, for the blocks that
    an SM holds.

    Raises `PtxsimError` where PTX and cubin do not belong together.
    """
    require_same(program.code, function.ptx, function.name)
    executed = executions(function, program.code, work.executed)
    pipes = _pipes(function, executed, gpu)
    c = work.counts
    reads, modelled = issue.of_function(function, executed, c[MERGED_LOADS])
    issued = executed.total(function)
    dram_per_clock = gpu.dram_gb_per_s * 1e3 / gpu.clock_mhz / gpu.sms
    rows = [
        ("fma", pipes.pop("fma"), "pipe clocks", gpu.fma_per_clock),
        ("fp64", pipes.pop("fp64"), "instructions", gpu.fp64_per_clock),
        ("tensor", pipes.pop("tensor"), "SM clocks", 1.0),
        ("issue", issued, "instructions", gpu.issue_per_clock),
        ("registers", max(reads), "reads of the busier bank", gpu.register_reads_per_clock),
        ("shared", c[SHARED_WAVEFRONTS], "wavefronts", gpu.shared_wavefronts_per_clock),
        ("l1", c["lines"], "lines", gpu.l1_lines_per_clock),
        ("dram", SECTOR * c["sectors"], "bytes", dram_per_clock),
    ]
    # Blocks that share an SM may share what they read, through its L1. How a scheduler issues is
    # not documented.
    l2 = SECTOR * (c["block_sectors"] + c[STORED_SECTORS])
    rows.append(("l2", l2, "bytes", gpu.l2_bytes_per_clock))
    every = [
        Bound(name, float(a / (rate * gpu.sms)), float(a), unit)
        for name, a, unit, rate in rows
        if a > 0
    ]
    rough = ("l2", *(OF_BLOCKS if executed.estimated > ESTIMATED else ()))
    estimates = [bound for bound in every if bound.resource in rough]
    bounds = [bound for bound in every if bound.resource not in rough]
    if max(reads):
        cycles = float(modelled / (gpu.issue_per_clock * gpu.sms))
        estimates.append(Bound("issue_model", cycles, issued, "instructions"))
    return Bounds(
        function.name,
        gpu,
        work.blocks,
        work.threads,
        bounds,
        estimates,
        issued,
        executed.disagreement,
        executed.estimated,
        held(gpu, work.threads, function.registers, function.shared_bytes + shared_bytes),
        pipes,
        _waits(program),
    )


def _waits(program: Program) -> str | None:
    """Return why a device may execute more instructions than are counted, in words."""
    poll = polling.waits(program, polling.loops(program))
    if poll is None:
        return None
    return f"how often {poll.where} polls depends on time; once for each wait is counted"


def held(gpu: Machine, threads: int, registers: int, shared_bytes: int) -> int:
    """Return the number of blocks that one SM holds."""
    shared = gpu.shared_bytes
    limits = Limits(gpu.warps, gpu.blocks, shared, shared, KIB, gpu.registers)
    return occupancy(limits, threads, registers, shared_bytes).blocks_per_sm


def _pipes(function: sass.Function, executed: Executions, gpu: Machine) -> dict[str, float]:
    """Return clocks of the FMA pipe, instructions of the fp64 pipe, clocks of an SM's tensor cores;
    then the executions of tensor instructions whose rate is not known, by opcode."""
    clocks: Counter[str] = Counter({"fma": 0.0, "fp64": 0.0, "tensor": 0.0})
    for block, times in zip(function.blocks, executed.blocks, strict=True):
        for i in block.instructions if times else ():
            if i.name in FMA_PIPE:
                twice = not set(FMA_PIPE_TWICE).isdisjoint(i.modifiers)
                clocks["fma"] += times * (2 if twice else FMA_PIPE[i.name])
            elif i.name in FP64:
                clocks["fp64"] += times
            elif (shape := _gmma(i)) is not None:
                n, t = shape
                # One warp does 16 of the 64 rows of a wgmma.
                clocks["tensor"] += times * 2 * 16 * n * int(t) / getattr(gpu, GMMA[t])
            elif i.name in TENSOR:
                k = next((HMMA_K[m] for m in i.modifiers if m in HMMA_K), None)
                if k is None or i.name != "HMMA":
                    clocks[i.opcode] += times
                else:
                    tf32 = "TF32" in i.modifiers
                    rate = gpu.mma_tf32_flop_per_clock if tf32 else gpu.mma_flop_per_clock
                    clocks["tensor"] += times * 2 * 16 * 8 * k / rate
    return {name: float(value) for name, value in clocks.items()}


def _gmma(i: sass.Instruction) -> tuple[int, str] | None:
    """n and k of a wgmma of floats in gpu code, 64xNxK; n is 0 of one that ptxas puts in to end
    a group.
    """
    shape = next((m.split("x") for m in i.modifiers if m.startswith("64x")), [])
    if i.name not in ("HGMMA", "QGMMA") or len(shape) != 3 or shape[2] not in GMMA:
        return None
    return 0 if i.operands[0] == "RZ" else int(shape[1]), shape[2]
