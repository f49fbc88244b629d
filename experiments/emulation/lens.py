"""A kernel's source, PTX and machine code side by side, and what each line costs: lens/NAME.json
(contracts/rows.py, `Lens`), which the explorer shows.

Costs are those of a prediction; where there is none, those of a launch of one tile of C. The lanes'
addresses at each access are recorded in that small launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from experiments.emulation.bank_pictures import small_launch
from kernels import catalogue
from kernels.catalogue import Variant
from kernels.problem import ProblemSpec
from ptxsim.count import block_counts, register_banks
from ptxsim.count.bounds import Traffic, Work
from ptxsim.count.counters import Counters, Stats
from ptxsim.count.first_accesses import Accesses, FirstAccesses, Lanes
from ptxsim.count.prediction import Prediction
from ptxsim.count.wavefronts import LINE
from ptxsim.ptx import sass
from ptxsim.ptx.sources import find_source, locations
from ptxsim.ptx.syntax import Location

ROOT = catalogue.ROOT.parent
LABEL = re.compile(r"\s*\$?[\w$]+:\s*$")
FLOP = 2 * 4096**3  # of the problem whose costs are shown, or of the nearest
ONE_TILE = "one tile of C and a few steps over k"


@dataclass(frozen=True)
class Costs:
    """The costs of a launch: predicted by instruction, or of one tile where `unknown` says why.

    launch: which it is, in words. cycles: minimum cycles an SM, by unit.
    """

    predicted: Prediction | None = None
    launch: str = ONE_TILE
    cycles: dict[str, float] = field(default_factory=dict)
    unknown: str | None = None

    @classmethod
    def of(cls, problem: ProblemSpec, predicted: Prediction, rows: list[dict[str, Any]]) -> Costs:
        """Return the costs of a problem that was predicted; rows: of its bounds."""
        cycles = {row["resource"]: float(row["minimum_cycles"]) for row in rows}
        return cls(predicted, problem.shown, cycles)


class Chains:
    """The lines of the source that instructions come from, each chain once.

    A chain has files of the project and of the kernel's own folder alone.
    """

    def __init__(self, variant: Variant, known: Iterable[tuple[Location, ...]]) -> None:
        self.near = (ROOT, variant.source.parent)
        self.callers = {(c[0].file, c[0].line): c for c in known}
        self.paths: dict[str, Path | None] = {}
        self.files: dict[str, int] = {}
        self.chains: dict[tuple[tuple[int, int], ...], int] = {}

    def of(self, chain: Sequence[Location]) -> int | None:
        """Return the chain's index; None where no line of it is of a file that is shown."""
        lines = tuple(
            (self.files.setdefault(at.file, len(self.files)), at.line)
            for at in chain
            if self._path(at.file)
        )
        return self.chains.setdefault(lines, len(self.chains)) if lines else None

    def of_line(self, file: str, line: int) -> int | None:
        """Return the index of a line's chain, with the callers that the PTX knows."""
        return self.of(self.callers.get((file, line), (Location(file, line),))) if line else None

    def _path(self, file: str) -> Path | None:
        if file not in self.paths:
            path = find_source(file, self.near)
            within = path and any(path.resolve().is_relative_to(folder) for folder in self.near)
            self.paths[file] = path if within and not file.startswith("cuda/") else None
        return self.paths[file]

    @property
    def sources(self) -> dict[str, str]:
        """Return the text of each file."""
        return {file: path.read_text() for file, path in self.paths.items() if path is not None}


def content(
    variant: Variant,
    kernel: ptxsim.Kernel,
    build_dir: Path,
    gpu: str,
    costs: Costs,
    checks: Sequence[str],
) -> dict[str, Any]:
    """Return what lens/NAME.json holds.

    gpu: whose minimum cycles `costs` has. checks: how the checks went, the failures first.

    Raises `UserError` for a kernel without line information.
    """
    program, cubin = kernel.program, build_dir / f"{variant.name}.cubin"
    known = locations(program)
    if not known:
        raise UserError(f"{variant.name}: no line information; compile with nvcc -lineinfo")
    first, counters, traffic, unknown = FirstAccesses(), Counters(), Traffic(), costs.unknown
    try:
        with launching.refusals():
            kernel.launch(**small_launch(variant), observers=[first, counters, traffic])
    except UserError as error:  # What ran until then is shown.
        unknown = str(error)
    small = {stats.instruction.pc: stats for stats in counters.by_instruction()}
    work = Work.observed(counters, traffic)
    if costs.predicted is not None:
        counters, work = costs.predicted.counters, costs.predicted.work
    with launching.refusals():
        function = sass.read(cubin, kernel.name)
        executed = block_counts.executions(function, program.code, work.executed)
    chains = Chains(variant, known.values())
    of_ptx = {i.ptx_line: chains.of(known[i.pc]) for i in program.code if i.pc in known}
    ptx = (build_dir / f"{variant.name}.ptx").read_text().splitlines()
    lines = {i.ptx_line for i in program.code}
    accesses = [
        _access(stats, first.of.get(pc, Accesses()), small.get(pc, stats), of_ptx)
        for pc, stats in ((stats.instruction.pc, stats) for stats in counters.by_instruction())
        if _touches(stats)
    ]
    machine_code = _machine_code(function, executed, of_ptx, chains)
    name = next(
        (n for n, path in chains.paths.items() if path and path.samefile(variant.source)), None
    )
    return {
        "variant": variant.name,
        "label": variant.label,
        "dtype": variant.dtype,
        "idea": variant.idea,
        "builds_on": variant.builds_on,
        "source": name,
        "launch": costs.launch,
        "unknown": unknown,
        "files": list(chains.files),
        "sources": chains.sources,
        "chains": [list(map(list, chain)) for chain in chains.chains],
        "ptx": [
            [number, ptx[number - 1].partition("//")[0].strip(), of_ptx.get(number)]
            for number in range(min(lines), max(lines) + 1)
            if number in lines or LABEL.match(ptx[number - 1])
        ],
        "sass": machine_code,
        "accesses": accesses,
        "totals": {name: float(value) for name, value in counters.totals().items()},
        "gpu": gpu,
        "cycles": costs.cycles,
        "checks": list(checks),
        "passed": not any(line.startswith("FAILED") for line in checks),
    }


def _touches(stats: Stats) -> bool:
    counts = (stats.wavefronts, stats.sectors, stats.local_sectors, stats.operand_bytes)
    return stats.space != "const" and (any(counts) or stats.merged_into is not None)


def _access(
    stats: Stats, first: Accesses, small: Stats, chains: dict[int, int | None]
) -> dict[str, Any]:
    """Return an entry of `accesses`. small: the counts of the launch that `first` is of."""
    operands = stats.operand_bytes // LINE
    local = stats.local_sectors if stats.space == "local" else 0
    leader = stats.merged_into

    def lanes(of: Lanes | None) -> dict[str, Any] | None:
        return None if of is None or leader else asdict(of) | {"addresses": list(of.addresses)}

    return {
        "ptx_line": stats.instruction.ptx_line,
        "instruction": stats.instruction.name,
        "chain": chains.get(stats.instruction.ptx_line),
        "space": "shared" if operands else stats.space or "shared",
        "kind": "wgmma" if operands else stats.kind or "ld",
        "width": small.width or stats.width,
        "executed": stats.executed,
        "requests": stats.requests,
        "wavefronts": stats.wavefronts + operands,
        "ideal": stats.ideal + operands,
        "ways": max(stats.ways, default=0),
        "sectors": stats.sectors + local,
        "ideal_sectors": stats.ideal_sectors + local,
        "used": stats.bytes,
        "merged_loads": float(stats.merged_loads),
        "merged_into": leader.ptx_line if leader else None,
        "shared": lanes(first.shared),
        "global": lanes(first.global_),
    }


def _machine_code(
    function: sass.Function,
    executed: block_counts.Executions,
    of_ptx: dict[int, int | None],
    chains: Chains,
) -> list[list[Any]]:
    """Return the rows of `sass`, labels among them."""
    labels: dict[int, list[str]] = {}
    for name, index in function.labels.items():
        labels.setdefault(index, []).append(name)
    rows: list[list[Any]] = []
    index = 0
    for block, times in zip(function.blocks, executed.blocks, strict=True):
        reads = register_banks.bank_reads(block.instructions)
        each = register_banks.cycles_of_each(reads)
        for i, cycles in zip(block.instructions, each, strict=True):
            rows += [[None, f"{name}:", 0, None, 0.0, 0] for name in labels.get(index, ())]
            chain = of_ptx.get(i.ptx_line)
            chain = chains.of_line(i.file, i.line) if chain is None else chain
            guard = f"@{i.predicate} " if i.predicate else ""
            text = f"{guard}{i.opcode} {', '.join(i.operands)}".strip()
            rows.append([i.address, text, i.ptx_line, chain, float(times), cycles])
            index += 1
    return rows
