"""Microbenchmark of issue: how many cycles a loop of FFMAs takes, by its registers, and by what
stands next to them.

    python -m experiments.studies ffma_issue --build-dir results/build/sm_90a --out ffma_issue.csv

One block on one SM runs each loop of ffma_issue.cu; its warps note the clock before and after.
Cycles an iteration are the difference between a long and a short run. What is in each loop is read
from its machine code, some of which `ffma_machine_code` wrote: `ffma_orders` says which registers
those read.
"""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, atomic_write, write_rows
from contracts.rows import FfmaIssue
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from experiments.studies.ffma_machine_code import Cubin, hot_loop
from experiments.studies.ffma_orders import Registers, orders
from ptxsim.count import register_banks as issue
from ptxsim.count import wavefronts
from ptxsim.ptx import sass

logger = logging.getLogger(__name__)

SHORT, LONG = 64, 320  # iterations
REPEATS = 5
WARPS = (4, 8, 16)  # of the block: 1, 2 and 4 a scheduler
SCHEDULERS = 4
REGISTERS = 65536  # of an SM
SHARED_BYTES = 32768
# floats of a thread: a and b each; c, and at most; what is loaded
VALUES, SUMS, MOST_SUMS, LOADED = 16, 64, 192, 32
# iterations after which a loop's results are compared with those of the loop that it was made from
CHECKED = 3
LANES = np.arange(32)
# Which of a warp's addresses are the same: a lane's place, in units of what it loads
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
SOURCES = {"distinct": LANES, "stride 8": LANES * 8}  # of copies: in global memory
BASES = {"sums": "sums"}  # loop without loads, by the last word of the name of one with them
BASE = "outer_8x8_snake_shifted"


@dataclass(frozen=True)
class Loop:
    """One loop, and what its machine code says."""

    name: str  # in the table
    entry: str  # in the cubin
    beside: str  # nothing, load, copy or bulk
    bits: int | None = None  # a thread of a load or copy
    count: int = 0  # loads or copies an iteration
    placement: str | None = None  # of loads
    code: list[sass.Instruction] = field(default_factory=list, compare=False)
    registers: int = 0

    @property
    def base(self) -> str:
        """The same loop without what is beside."""
        return BASES.get(self.name.rpartition("_")[2], BASE)

    @property
    def made_from(self) -> str | None:
        """The loop whose loads were moved to make this one; results are the same."""
        return (
            self.entry.removesuffix(f"_{self.placement}")
            if self.placement in ("burst", "spread")
            else None
        )

    def patterns(self) -> list[str | None]:
        """Names of the addresses that it is run with."""
        if self.beside == "load":
            return list(PATTERNS)
        return list(SOURCES) if self.beside == "copy" else [None]

    def warps(self) -> Iterator[int]:
        """As many as an SM's registers allow."""
        for warps in WARPS:
            if -(-self.registers // 8) * 8 * 32 * warps <= REGISTERS:
                yield warps

    def facts(self) -> dict[str, Any]:
        """Columns that its machine code gives."""
        # as in every iteration after the first
        reads = issue.bank_reads(self.code * 2)[len(self.code) :]
        there = [
            n
            for n, i in enumerate(self.code)
            if i.name in ("LDS", "LDGSTS", "UBLKCP") and not i.never
        ]
        return {
            "ffma": sum(i.name == "FFMA" for i in self.code),
            "instructions": len(self.code),
            "reads_even": sum(even for even, _ in reads),
            "reads_odd": sum(odd for _, odd in reads),
            "modelled": issue.issue_cycles(reads),
            "places": " ".join(map(str, there)) if self.beside != "nothing" else None,
            "operands": operands(self.code)
            if self.beside == "nothing" and not self.name.startswith("body")
            else None,
        }


def operands(code: list[sass.Instruction]) -> str:
    """Registers of a loop's FFMAs, "d a b c" with * behind one that is kept, joined by ";"; others
    by their opcode.
    """
    lines = []
    for i in code:
        if i.name == "FFMA":
            numbers = [
                re.sub(r"^R(\d+)(\.reuse)?$", lambda m: m[1] + ("*" if m[2] else ""), o)
                for o in i.operands
            ]
            lines.append(" ".join(numbers))
        else:
            lines.append(i.name)
    return ";".join(lines)


@dataclass(frozen=True)
class Case:
    """A loop with addresses and a number of warps."""

    loop: Loop
    lanes: str | None
    warps: int

    def offsets(self) -> np.ndarray:
        """Byte offsets of each thread in shared memory, then in global memory."""
        threads = np.arange(32 * self.warps)
        width = (self.loop.bits or 32) // 8
        shared = np.zeros_like(threads)
        source = np.zeros_like(threads)
        if self.loop.beside == "load":
            shared = np.tile(PATTERNS[self.lanes or ""], self.warps) * width
        if self.loop.beside == "copy":
            place = SOURCES[self.lanes or ""]
            shared = threads * width
            source = (np.tile(place, self.warps) + threads // 32 * (place[-1] + 1)) * width
        return np.concatenate([shared, source]).astype(np.int32)

    def wavefronts(self) -> int | None:
        """The wavefronts of one load of a warp, by ptxsim's rules."""
        if self.loop.beside != "load":
            return None
        width = (self.loop.bits or 32) // 8
        waves, _ = wavefronts.shared(
            self.offsets()[None, :32].astype(np.int64), np.ones((1, 32), bool), width
        )
        return int(waves[0])


def rewrite(build_dir: Path, out: Path) -> None:
    """Write the cubin with our orders of FFMAs and our places of loads."""
    cubin = Cubin(built(build_dir))
    own = [name for name in cubin.functions if name.startswith("own_")]
    if len(own) < len(orders()):
        raise UserError(
            f"ffma_issue.cu has {len(own)} loops for our own orders, of which there are {len(orders())}"
        )
    for name, order in zip(sorted(own), orders().values(), strict=False):
        ffmas = [i for i in hot_loop(cubin.functions[name]) if i.name == "FFMA"]
        written = {int(i.operands[0][1:]) for i in ffmas}
        read = {r for i in ffmas for r, _ in i.sources() if r is not None} - written
        cubin.set_ffmas(name, order(Registers(written, read)))
    for name in cubin.functions:
        if name.startswith("load_") and name.endswith(("_burst", "_spread")):
            cubin.place_loads(name, name.endswith("_spread"))
    with atomic_write(out) as path:
        path.write_bytes(cubin.data)


def built(build_dir: Path) -> Path:
    """The cubin that ptxas made."""
    path = build_dir / "ffma_issue.cubin"
    if not path.is_file():
        source = "experiments/studies/ffma_issue/ffma_issue.cu"
        raise UserError(f"{path}: not built; python -m experiments.stages.build --source {source}")
    return path


def loops(cubin: Path) -> list[Loop]:
    """Every loop of a cubin that `rewrite` wrote."""
    own = list(orders())
    found = []
    for entry, function in sorted(sass.read_all(cubin).items()):
        code = hot_loop(function)
        words = entry.split("_")
        if words[0] == "own":
            if int(words[1]) >= len(own):
                continue
            loop = Loop(
                own[int(words[1])], entry, "nothing", code=code, registers=function.registers
            )
        elif words[0] in ("load", "copy"):
            bits, count = (int(word) for word in words[1:3])
            placed = (
                words[-1]
                if words[-1] in ("burst", "spread")
                else "ptxas"
                if words[0] == "load"
                else None
            )
            name = entry.removesuffix(f"_{placed}")
            bits *= 8 if words[0] == "copy" else 1
            loop = Loop(name, entry, words[0], bits, count, placed, code, function.registers)
        elif words[0] == "bulk":
            loop = Loop(entry, entry, "bulk", None, int(words[1]), None, code, function.registers)
        else:
            loop = Loop(entry, entry, "nothing", code=code, registers=function.registers)
        found.append(loop)
    return found


def cases(found: list[Loop]) -> list[Case]:
    """Every launch that is timed."""
    return [
        Case(loop, lanes, warps)
        for loop in found
        for lanes in loop.patterns()
        for warps in loop.warps()
    ]


def row(case: Case, cycles: float) -> dict[str, Any]:
    """A row of ffma_issue.csv without what is compared with others. `cycles` of the SM for an
    iteration.
    """
    loop = case.loop
    return {
        "loop": loop.name,
        "beside": loop.beside,
        "bits": loop.bits,
        "count": loop.count,
        "placement": loop.placement,
        "lanes": case.lanes,
        "warps": case.warps,
        "wavefronts": case.wavefronts(),
        **loop.facts(),
        "cycles": cycles,
        "issue_cycles": cycles / (case.warps / SCHEDULERS),
        "extra": None,
    }


def compare(rows: list[dict[str, Any]], todo: list[Case]) -> None:
    """Fill in `extra`: issue cycles that each load or copy adds to the same loop without them."""
    alone = {(r["loop"], r["warps"]): r["issue_cycles"] for r in rows if r["beside"] == "nothing"}
    for r, case in zip(rows, todo, strict=True):
        if r["beside"] != "nothing":
            r["extra"] = (r["issue_cycles"] - alone[case.loop.base, case.warps]) / r["count"]


class Runner:
    """Launches of the loops of a cubin on the GPU that is held; `slots`: how many launches note
    their clocks.
    """

    def __init__(self, cubin: Path, build_dir: Path, found: list[Loop], slots: int) -> None:
        from experiments.gpu.device import Gpu, Memory, load_cubin

        self.gpu, module = Gpu(build_dir), load_cubin(cubin)
        self.kernels = {loop.entry: module.get_kernel(loop.entry) for loop in found}
        threads = 32 * max(WARPS)
        values = (
            np.random.default_rng(0)
            .uniform(-1, 1, threads * (2 * VALUES + MOST_SUMS))
            .astype(np.float32)
        )
        self.given, self.source = (
            self.gpu.upload(values),
            self.gpu.upload(np.zeros(2**18, np.float32)),
        )
        self.out = Memory(4 * threads * (MOST_SUMS + LOADED))
        self.clocks, self.slots = Memory(16 * max(WARPS) * slots), slots

    def run(self, case: Case, table: Any, iterations: int, slot: int) -> None:
        """Queue a launch, whose warps note their clocks in a slot. table: `case.offsets()` on the
        device.
        """
        from cuda.core import LaunchConfig, launch

        config = LaunchConfig(grid=1, block=32 * case.warps, shmem_size=SHARED_BYTES)
        arguments = (self.given.address, table.address, self.source.address, np.int32(iterations))
        clocks = self.clocks.address + 16 * max(WARPS) * slot
        launch(
            self.gpu.stream,
            config,
            self.kernels[case.loop.entry],
            *arguments,
            clocks,
            self.out.address,
        )

    def result(self, case: Case) -> np.ndarray:
        """What the loop of a case computes in a few iterations."""
        self.run(case, self.gpu.upload(case.offsets()), CHECKED, 0)
        return self.gpu.download(self.out, np.float32, 32 * case.warps * (SUMS + LOADED))

    def noted(self) -> np.ndarray:
        """Clocks before and after the loop: slots x warps x 2."""
        flat = self.gpu.download(self.clocks, np.int64, 2 * max(WARPS) * self.slots)
        return flat.reshape(self.slots, max(WARPS), 2)


def wrongly_moved(runner: Runner, todo: list[Case]) -> set[str]:
    """Entries that compute other values than the loop that they were made from."""
    loads = [case for case in todo if case.loop.beside == "load" and case.lanes == "distinct"]
    results = {case.loop.entry: runner.result(case) for case in loads if case.warps == min(WARPS)}
    made = {case.loop.entry: case.loop.made_from for case in loads}
    return {
        e
        for e, before in made.items()
        if before and not np.array_equal(results[e], results[before])
    }


def measure(cubin: Path, build_dir: Path) -> list[dict[str, Any]]:
    """Rows of ffma_issue.csv."""
    found = loops(cubin)
    todo, each = cases(found), 2 * (REPEATS + 1)
    runner = Runner(cubin, build_dir, found, each * len(todo))
    wrong = wrongly_moved(runner, todo)
    for entry in sorted(wrong):
        logger.warning(
            f"{entry} is left out: its loads were moved wrongly, for it computes other values than before"
        )
    todo = [case for case in todo if case.loop.entry not in wrong]
    tables = [runner.gpu.upload(case.offsets()) for case in todo]
    for place, (case, table) in enumerate(zip(todo, tables, strict=True)):
        for repeat in range(each):
            runner.run(case, table, LONG if repeat % 2 else SHORT, place * each + repeat)
    noted = runner.noted()[: each * len(todo)].reshape(len(todo), REPEATS + 1, 2, max(WARPS), 2)
    rows = []
    # the first pair of each warms up
    for case, counted in zip(todo, noted[:, 1:, :, :, :], strict=True):
        of_warps = counted[:, :, : case.warps]
        short, long = np.median(of_warps[..., 1].max(axis=2) - of_warps[..., 0].min(axis=2), axis=0)
        rows.append(row(case, float((long - short) / (LONG - SHORT))))
    compare(rows, todo)
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the study."""
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path, help="written: ffma_issue.csv")


def run(options: argparse.Namespace) -> None:
    """Writes the table."""
    rewritten = options.out.with_suffix(".cubin")
    rewrite(options.build_dir, rewritten)
    with session():
        write_rows(options.out, FfmaIssue, measure(rewritten, options.build_dir))
