"""Measures how many cycles a loop of FFMAs takes, by its registers and by what stands beside them.

    python -m experiments.studies ffma_issue --build-dir results/build/sm_90a --out ffma_issue.csv

One block on one SM runs each loop of ffma_issue.cu, and its warps note the clock before and after.
Cycles of an iteration are the difference between a long and a short run. What is in each loop is
read from its machine code. `ffma_machine_code` wrote some of that, and `ffma_orders` says which
registers it reads.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, atomic_write, write_rows
from contracts.rows import FfmaIssue
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from experiments.studies.counting import built
from experiments.studies.ffma_machine_code import Cubin, hot_loop
from experiments.studies.ffma_orders import Registers, orders
from ptxsim.count import register_banks as issue
from ptxsim.count import wavefronts
from ptxsim.ptx import sass

logger = logging.getLogger(__name__)

SHORT, LONG = 64, 320  # iterations
REPEATS = 5
WARPS = (4, 8, 16)  # A block has so many: 1, 2 and 4 for each scheduler.
SCHEDULERS = 4
REGISTERS_PER_SM = 65536
SHARED_BYTES = 32768
# A thread has so many floats of a and of b, of c (and at most), and of what is loaded.
VALUES, SUMS, MAX_SUMS, LOADED = 16, 64, 192, 32
# After so many iterations, a loop's results are compared with those of the loop it was made from.
CHECKED_ITERATIONS = 3
LANES = np.arange(32)
# Each lane's offset, in units of what it loads, says which of a warp's addresses are the same.
PATTERNS = {
    "distinct": LANES,
    "pairs (i, i^1)": LANES // 2,
    "pairs (i, i^2)": LANES // 4 * 2 + LANES % 2,
    "pairs (i, i^4)": LANES // 8 * 4 + LANES % 4,
    "pairs (i, i^8)": LANES // 16 * 8 + LANES % 8,
    "pairs (i, i^16)": LANES % 16,
    "fours": LANES // 4,
    "eights": LANES // 8,
    "all the same": LANES * 0,
    "one pair": np.where(LANES == 1, 0, LANES),
    "pairs (i, i^1) of 16 lanes": np.where(LANES < 16, LANES // 2, LANES),
    "stride 2": LANES * 2,
    "stride 8": LANES * 8,
}
SOURCES = {"distinct": LANES, "stride 8": LANES * 8}  # Copies read here in global memory.
# The last word of a loop's name says which loop is the same without loads.
BASES = {"sums": "sums"}
BASE = "outer_8x8_snake_shifted"


@dataclass(frozen=True)
class Loop:
    """One loop, and what its machine code says.

    name: in the table; entry: in the cubin. beside: nothing, load, copy or bulk. bits: what a
    thread loads or copies at once. count: loads or copies of an iteration. placement: of loads.
    """

    name: str
    entry: str
    beside: str
    bits: int | None = None
    count: int = 0
    placement: str | None = None
    code: list[sass.Instruction] = field(default_factory=list, compare=False)
    registers: int = 0

    @property
    def base(self) -> str:
        """Return the name of the same loop without what is beside."""
        return BASES.get(self.name.rpartition("_")[2], BASE)

    @property
    def made_from(self) -> str | None:
        """Return the loop whose loads were moved to make this one; results are the same."""
        moved = self.placement in ("burst", "spread")
        return self.entry.removesuffix(f"_{self.placement}") if moved else None

    def patterns(self) -> list[str | None]:
        """Return the names of the addresses that it is run with."""
        if self.beside == "load":
            return list(PATTERNS)
        return list(SOURCES) if self.beside == "copy" else [None]

    def warps(self) -> Iterator[int]:
        """Yield the numbers of warps that an SM's registers allow."""
        for warps in WARPS:
            if -(-self.registers // 8) * 8 * 32 * warps <= REGISTERS_PER_SM:
                yield warps

    def facts(self) -> dict[str, Any]:
        """Return the columns that its machine code gives."""
        # The reads of the second time round are those of every later one.
        reads = issue.bank_reads(self.code * 2)[len(self.code) :]
        memory = ("LDS", "LDGSTS", "UBLKCP")
        places = [n for n, i in enumerate(self.code) if i.name in memory and not i.never]
        alone = self.beside == "nothing"
        return {
            "ffma": sum(i.name == "FFMA" for i in self.code),
            "instructions": len(self.code),
            "reads_even": sum(even for even, _ in reads),
            "reads_odd": sum(odd for _, odd in reads),
            "modelled": issue.issue_cycles(reads),
            "places": None if alone else " ".join(map(str, places)),
            "operands": operands(self.code) if alone and self.name[:4] != "body" else None,
        }


def operands(code: list[sass.Instruction]) -> str:
    """Return the registers of a loop's FFMAs, joined by ";": "d a b c" with * behind one with
    .reuse. Other instructions are there by their opcode.
    """
    lines = []
    for i in code:
        registers = [o.removeprefix("R").replace(".reuse", "*") for o in i.operands]
        lines.append(" ".join(registers) if i.name == "FFMA" else i.name)
    return ";".join(lines)


@dataclass(frozen=True)
class Case:
    """A loop with addresses and a number of warps."""

    loop: Loop
    lanes: str | None
    warps: int

    @property
    def width(self) -> int:
        """Return the bytes that a thread loads or copies at once."""
        return (self.loop.bits or 32) // 8

    def offsets(self) -> np.ndarray:
        """Return byte offsets of each thread in shared memory, then in global memory."""
        threads = np.arange(32 * self.warps)
        shared, source = np.zeros_like(threads), np.zeros_like(threads)
        if self.loop.beside == "load":
            shared = np.tile(PATTERNS[self.lanes or ""], self.warps) * self.width
        if self.loop.beside == "copy":
            lanes = SOURCES[self.lanes or ""]
            shared = threads * self.width
            source = np.tile(lanes, self.warps) + threads // 32 * (lanes[-1] + 1)
            source *= self.width
        return np.concatenate([shared, source]).astype(np.int32)

    def wavefronts(self) -> int | None:
        """Return the wavefronts of one load of a warp, by ptxsim's rules."""
        if self.loop.beside != "load":
            return None
        lanes, active = self.offsets()[None, :32].astype(np.int64), np.ones((1, 32), bool)
        return int(wavefronts.shared(lanes, active, self.width)[0][0])


def rewrite(build_dir: Path, out: Path) -> None:
    """Write the cubin with our orders of FFMAs and our places of loads."""
    cubin = Cubin(built(build_dir, "ffma_issue.cubin"))
    names = sorted(name for name in cubin.functions if name.startswith("own_"))
    if len(names) < len(orders()):
        raise UserError(
            f"ffma_issue.cu has {len(names)} loops for our own orders, of which there are {len(orders())}"
        )
    for name, order in zip(names, orders().values(), strict=False):
        ffmas = [i for i in hot_loop(cubin.functions[name]) if i.name == "FFMA"]
        written = {int(i.operands[0][1:]) for i in ffmas}
        read = {r for i in ffmas for r, _ in i.sources() if r is not None} - written
        cubin.set_ffmas(name, order(Registers(written, read)))
    for name in cubin.functions:
        if name.startswith("load_") and name.endswith(("_burst", "_spread")):
            cubin.place_loads(name, name.endswith("_spread"))
    with atomic_write(out) as path:
        path.write_bytes(cubin.data)


def loops(cubin: Path) -> list[Loop]:
    """Return every loop of a cubin that `rewrite` wrote."""
    own, every = list(orders()), []
    for entry, function in sorted(sass.read_all(cubin).items()):
        kind, *words = entry.split("_")
        loop = Loop(entry, entry, "nothing", code=hot_loop(function), registers=function.registers)
        if kind == "own":
            if int(words[0]) >= len(own):
                continue
            loop = replace(loop, name=own[int(words[0])])
        elif kind == "load":
            moved = words[-1] in ("burst", "spread")
            placement = words[-1] if moved else "ptxas"
            loop = replace(loop, name=entry.removesuffix(f"_{placement}"), placement=placement)
        if kind in ("load", "copy"):
            bits = int(words[0]) * (8 if kind == "copy" else 1)
            loop = replace(loop, beside=kind, bits=bits, count=int(words[1]))
        elif kind == "bulk":
            loop = replace(loop, beside="bulk", count=int(words[0]))
        every.append(loop)
    return every


def cases(every: list[Loop]) -> list[Case]:
    """Return every launch that is timed."""
    return [
        Case(loop, lanes, warps)
        for loop in every
        for lanes in loop.patterns()
        for warps in loop.warps()
    ]


def row(case: Case, cycles: float) -> dict[str, Any]:
    """Return a row of ffma_issue.csv without what is compared with others.

    cycles: of the SM for an iteration.
    """
    loop = case.loop
    shared = {key: getattr(loop, key) for key in ("beside", "bits", "count", "placement")}
    launch = {"lanes": case.lanes, "warps": case.warps, "wavefronts": case.wavefronts()}
    issue_cycles = cycles / (case.warps / SCHEDULERS)
    times = {"cycles": cycles, "issue_cycles": issue_cycles, "extra": None}
    return {"loop": loop.name, **shared, **launch, **loop.facts(), **times}


def compare(rows: list[dict[str, Any]], todo: list[Case]) -> None:
    """Fill in `extra`: issue cycles that each load or copy adds to the same loop without them."""
    alone = {(r["loop"], r["warps"]): r["issue_cycles"] for r in rows if r["beside"] == "nothing"}
    for r, case in zip(rows, todo, strict=True):
        if r["beside"] != "nothing":
            r["extra"] = (r["issue_cycles"] - alone[case.loop.base, case.warps]) / r["count"]


class Runner:
    """Launches of the loops of a cubin on the GPU that is held.

    slots: how many launches note their clocks.
    """

    def __init__(self, cubin: Path, build_dir: Path, every: list[Loop], slots: int) -> None:
        from experiments.gpu.device import Gpu, Memory, load_cubin

        self.gpu, module = Gpu(build_dir), load_cubin(cubin)
        self.kernels = {loop.entry: module.get_kernel(loop.entry) for loop in every}
        threads = 32 * max(WARPS)
        drawn = np.random.default_rng(0).uniform(-1, 1, threads * (2 * VALUES + MAX_SUMS))
        self.given = self.gpu.upload(drawn.astype(np.float32))
        self.source = self.gpu.upload(np.zeros(2**18, np.float32))
        self.out = Memory(4 * threads * (MAX_SUMS + LOADED))
        self.clocks, self.slots = Memory(16 * max(WARPS) * slots), slots

    def run(self, case: Case, table: Any, iterations: int, slot: int) -> None:
        """Queue a launch, whose warps note their clocks in a slot.

        table: `case.offsets()` on the device.
        """
        from cuda.core import LaunchConfig, launch

        config = LaunchConfig(grid=1, block=32 * case.warps, shmem_size=SHARED_BYTES)
        inputs = (self.given.address, table.address, self.source.address, np.int32(iterations))
        outputs = (self.clocks.address + 16 * max(WARPS) * slot, self.out.address)
        launch(self.gpu.stream, config, self.kernels[case.loop.entry], *inputs, *outputs)

    def result(self, case: Case) -> np.ndarray:
        """Return what the loop of a case computes in a few iterations."""
        self.run(case, self.gpu.upload(case.offsets()), CHECKED_ITERATIONS, 0)
        return self.gpu.download(self.out, np.float32, 32 * case.warps * (SUMS + LOADED))

    def noted(self) -> np.ndarray:
        """Return clocks before and after the loop: slots x warps x 2."""
        flat = self.gpu.download(self.clocks, np.int64, 2 * max(WARPS) * self.slots)
        return flat.reshape(self.slots, max(WARPS), 2)


def wrongly_moved(runner: Runner, todo: list[Case]) -> set[str]:
    """Return entries that compute other values than the loop that they were made from."""
    loads = [case for case in todo if case.loop.beside == "load" and case.lanes == "distinct"]
    results = {case.loop.entry: runner.result(case) for case in loads if case.warps == min(WARPS)}
    pairs = {case.loop.entry: case.loop.made_from for case in loads}
    return {e for e, of in pairs.items() if of and not np.array_equal(results[e], results[of])}


def measure(cubin: Path, build_dir: Path) -> list[dict[str, Any]]:
    """Return rows of ffma_issue.csv."""
    every = loops(cubin)
    todo, each = cases(every), 2 * (REPEATS + 1)
    runner = Runner(cubin, build_dir, every, each * len(todo))
    wrong = wrongly_moved(runner, todo)
    for entry in sorted(wrong):
        logger.warning(
            f"{entry} is left out: its loads were moved wrongly, for it computes other values than before"
        )
    todo = [case for case in todo if case.loop.entry not in wrong]
    tables = [runner.gpu.upload(case.offsets()) for case in todo]
    for number, (case, table) in enumerate(zip(todo, tables, strict=True)):
        for repeat in range(each):
            runner.run(case, table, LONG if repeat % 2 else SHORT, number * each + repeat)
    noted = runner.noted()[: each * len(todo)].reshape(len(todo), REPEATS + 1, 2, max(WARPS), 2)
    rows = []
    # The first pair of each case only warms up.
    for case, counted in zip(todo, noted[:, 1:, :, :, :], strict=True):
        of_warps = counted[:, :, : case.warps]
        short, long = np.median(of_warps[..., 1].max(axis=2) - of_warps[..., 0].min(axis=2), axis=0)
        rows.append(row(case, float((long - short) / (LONG - SHORT))))
    compare(rows, todo)
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path, help="written: ffma_issue.csv")


def run(options: argparse.Namespace) -> None:
    """Write the table."""
    rewritten = options.out.with_suffix(".cubin")
    rewrite(options.build_dir, rewritten)
    with session():
        write_rows(options.out, FfmaIssue, measure(rewritten, options.build_dir))
