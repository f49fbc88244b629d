"""What a kernel of the catalogue reads from DRAM at any size, estimated without running it (ptxsim/l2.py).

    python -m experiments.emulation.l2_traffic hgemm_wgmma_pingpong_bf16 --n 8192 16384 --machine h100-sxm
    python -m experiments.emulation.l2_traffic hgemm_wgmma_streamk_bf16 --n 16384 --tile 256x192 --cluster 1x2 --strip 5
    python -m experiments.emulation.l2_traffic --compare data/h200 --build-dir results/build/sm_90a

Which tiles a block computes, in which order, follows from the catalogue for the families hgemm and tf32gemm: persistent
kernels have it from `tile_at` (kernels/include/tile_order.cuh) and `Share` (stream_k.cuh), others from `tile_in_strips`
(grid.cuh). Tests hold it to the loads of the kernels themselves, as the emulator executes them.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contracts import UserError, read_json, read_rows, run_command
from experiments.command_line import find_machine, find_runnable
from experiments.emulation import launching
from kernels import catalogue, cost
from kernels.catalogue import Problem, Variant
from ptxsim import PtxsimError, l2, machines, sass
from ptxsim.bounds import held
from ptxsim.machines import Machine

MEASURED = Path(__file__).with_name("l2_measured.csv")
GRID_STRIP = 8  # the default of `tile_in_strips`, kernels/include/grid.cuh
FAMILIES = ("hgemm", "tf32gemm")  # those whose order of tiles is known
DRAM_READ = "dram__bytes_read.sum"
SLICE = 256  # elements of k that are looked up at once; finer slices change the estimate by a few percent
Part = tuple[int, int, int]  # number of a tile, its first step over k, and the step after its last


@dataclasses.dataclass(frozen=True)
class Tiling:
    """How a launch divides its problem: a unit is a cluster, or a block that has none."""

    m: int  # rows of C of a unit's tile
    n: int
    k: int  # of a step
    tiles_m: int
    tiles_n: int
    steps: int  # over k
    strip: int  # tile columns of a strip; 0: row after row
    units: int  # that run at a time

    @classmethod
    def of(cls, variant: Variant, problem: Problem, machine: Machine, blocks_per_sm: int) -> Tiling:
        along_x, along_y = variant.cluster
        m, n = variant.tile["m"], variant.tile["n"]
        rows, columns = (along_x, along_y) if variant.grid_axes == "mn" else (along_y, along_x)
        strip = int(variant.template.get("STRIP", GRID_STRIP))
        blocks = variant.cluster_blocks
        units = math.prod(variant.grid(problem, machine.sms)) // blocks
        if not variant.persistent:
            units = min(units, machine.sms * blocks_per_sm // blocks)
        tiles = (-(-problem.m // (rows * m)), -(-problem.n // (columns * n)))
        return cls(rows * m, columns * n, variant.tile["k"], *tiles, -(-problem.k // variant.tile["k"]), strip, units)

    def place(self, tile: int) -> tuple[int, int]:
        """Tile row and column of a tile's number."""
        if not self.strip:
            return divmod(tile, self.tiles_n)
        strip, inside = divmod(tile, self.strip * self.tiles_m)
        row, column = divmod(inside, min(self.strip, self.tiles_n - strip * self.strip))
        return row, strip * self.strip + column


def share(variant: Variant, tiling: Tiling, unit: int) -> Iterator[Part]:
    """The parts of tiles that one unit of a persistent kernel computes, in its order (`Share` in stream_k.cuh)."""
    tiles, steps, units = tiling.tiles_m * tiling.tiles_n, tiling.steps, tiling.units
    left, sharing = cost.stream_k(variant, tiles, steps, units)
    whole = tiles - left
    for tile in range(unit, whole, units):
        yield tile, 0, steps
    at, end = (left * steps * min(number, sharing) // max(sharing, 1) for number in (unit, unit + 1))
    while at < end:
        first = at % steps
        last = min(steps, first + end - at)
        yield whole + at // steps, first, last
        at += last - first


def queues(variant: Variant, problem: Problem, machine: Machine, blocks: int, dynamic: bool) -> list[Iterator[l2.Job]]:
    """The jobs of each unit that runs at a time. The GPU gives the blocks of a grid out in turn, to whoever is free.
    A persistent kernel's blocks have their tiles from the beginning; `dynamic`: they take the next in turn, too."""
    tiling = Tiling.of(variant, problem, machine, blocks)
    if variant.persistent and not dynamic:
        parts = [share(variant, tiling, unit) for unit in range(tiling.units)]
        return [_jobs(own, variant, problem, tiling, machine, blocks) for own in parts]
    tiles = ((tile, 0, tiling.steps) for tile in range(tiling.tiles_m * tiling.tiles_n))
    return [_jobs(tiles, variant, problem, tiling, machine, blocks)] * tiling.units


def _jobs(
    parts: Iterator[Part], variant: Variant, problem: Problem, tiling: Tiling, machine: Machine, blocks: int
) -> Iterator[l2.Job]:
    """Slices of A are numbered by tile row and step, then those of B by tile column and step."""
    merged = max(1, SLICE // tiling.k)  # steps that are looked up at once
    slices = -(-tiling.steps // merged)
    flop = 2 * tiling.m * tiling.n * tiling.k * merged / variant.cluster_blocks  # of a block
    clocks = flop * blocks / flop_per_clock(variant, machine)
    for tile, first, last in parts:
        row, column = tiling.place(tile)
        rows = min(tiling.m, problem.m - row * tiling.m)
        columns = min(tiling.n, problem.n - column * tiling.n)
        begin, end = first // merged, -(-last // merged)
        size = merged * tiling.k * variant.types.ab.bytes
        yield l2.Job(
            ((row * slices + begin, rows * size), ((tiling.tiles_m + column) * slices + begin, columns * size)),
            end - begin,
            clocks,
            None if first else ("C", tile),
            rows * columns * variant.types.c.bytes,
        )


def flop_per_clock(variant: Variant, machine: Machine) -> float:
    """The FLOP per clock of one SM, by the instructions that a kernel of this dtype and architecture multiplies
    with."""
    if not variant.tensor_cores:
        return 2 * 32 * machine.fma_per_clock
    wide = variant.types.ab.bytes == 4
    if variant.one_arch:
        by_bytes = machine.wgmma_fp8_flop_per_clock, machine.wgmma_flop_per_clock, machine.wgmma_tf32_flop_per_clock
        return by_bytes[variant.types.ab.bytes // 2]
    return machine.mma_tf32_flop_per_clock if wide else machine.mma_flop_per_clock


def blocks_per_sm(variant: Variant, machine: Machine, build_dir: Path | None) -> int:
    """From the registers and shared memory of what was built; without it, of a kernel whose shared memory the catalogue
    has. Raises `UserError` where neither is there."""
    if variant.persistent:
        return variant.persistent
    if build_dir is None:
        if not variant.shared_bytes:
            said = f"{variant.name}: the catalogue does not have how many of its blocks an SM holds"
            raise UserError(f"{said}; give --build-dir, the folder in which it was built")
        return held(machine, variant.threads, 0, variant.shared_bytes)
    with launching.refusals():
        function = sass.read(build_dir / f"{variant.name}.cubin")
    return held(machine, variant.threads, function.registers, function.shared_bytes + variant.shared_bytes)


def require_known_order(variant: Variant) -> None:
    """Raises `UserError` for a kernel of another family."""
    if variant.family not in FAMILIES:
        known = f"known: kernels of {' and '.join(FAMILIES)}"
        raise UserError(f"{variant.name}: the order of its tiles is not known; {known}")


def estimate(
    variant: Variant,
    problem: Problem,
    machine: Machine,
    blocks: int = 1,
    drift: float = l2.DRIFT,
    dynamic: bool = False,
    in_step_every: int = 0,
) -> l2.L2Traffic:
    """Bytes that a launch asks of L2, reads from DRAM and writes there.

    `blocks`: that an SM holds; `drift`, `in_step_every`: see `ptxsim.l2.simulate`; `dynamic`: see `queues`. Raises
    `UserError` where the kernel does not take the problem.
    """
    if reason := variant.refusal(problem):
        raise UserError(reason)
    require_known_order(variant)
    units = queues(variant, problem, machine, blocks, dynamic)
    try:
        return l2.simulate(units, l2.held_bytes(machine), drift, in_step_every=in_step_every)
    except PtxsimError as error:
        raise UserError(str(error)) from error


# ---- what was measured ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Compared:
    """A measured launch and its estimates, bytes read from DRAM."""

    machine: str
    variant: str
    n: int
    note: str  # what differs from the catalogue's entry
    measured: float
    in_step: float
    estimated: float

    @property
    def error(self) -> float:
        """The relative error of the estimate."""
        return self.estimated / self.measured - 1


PRESET_OF = {"h100": "h100-sxm"}  # ptxsim's names of machines that archives call otherwise


def measured(archive: Path | None) -> Iterator[dict[str, Any]]:
    """Rows of l2_measured.csv; and of an archive's counters, those of kernels whose order of tiles is known."""
    yield from read_rows(MEASURED, "l2_measured")
    if archive is None:
        return
    machine = read_json(archive / "machine.json", "machine")["machine"]
    machine = PRESET_OF.get(machine, machine)
    kernels = catalogue.load().kernels
    for row in read_rows(archive / "counters.csv", "counters"):
        known = kernels.get(row["variant"])
        if row["metric"] == DRAM_READ and known and known.types.ab.bytes == 2 and row["m"] == row["n"] == row["k"]:
            yield {"machine": machine, "variant": known.name, "n": row["n"], "dram_read_bytes": row["value"]}


def compare(archive: Path | None, build_dir: Path | None, drift: float = l2.DRIFT) -> list[Compared]:
    """Every measured launch with its estimates. A library's kernel, of which only tile and cluster are known, is taken
    to go through its tiles as the entry `like` does, in strips of about as many columns."""
    found = []
    for row in measured(archive):
        machine = machines.find(row["machine"])
        variant = catalogue.load().kernels[row.get("like") or row["variant"]]
        changed = {key: row[key] for key in ("tile", "cluster", "strip") if row.get(key)}
        variant = altered(variant, **changed)
        problem = Problem.square(row["n"], variant.b_layout)
        blocks = blocks_per_sm(variant, machine, build_dir)
        in_step, drifting = (
            estimate(variant, problem, machine, blocks, lag, dynamic=bool(row.get("like"))) for lag in (0.0, drift)
        )
        note = ", ".join(f"{key} {value}" for key, value in changed.items())
        found.append(
            Compared(
                row["machine"], row["variant"], row["n"], note, row["dram_read_bytes"], in_step.read, drifting.read
            )
        )
    return found


def root_mean_square(errors: Sequence[Compared]) -> float:
    """The root mean square of the logarithms of estimate over measurement, as a relative error: 0.2 is a factor of 1.2
    either way."""
    return math.exp(math.sqrt(sum(math.log1p(one.error) ** 2 for one in errors) / len(errors))) - 1


def table(rows: Sequence[Compared]) -> str:
    """As Markdown, with the error by size and machine below it."""
    lines = [
        "| card | kernel | n | measured, GB | in step, GB | with drift, GB | error |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        name = f"{row.variant} ({row.note})" if row.note else row.variant
        values = " | ".join(f"{value / 1e9:.3g}" for value in (row.measured, row.in_step, row.estimated))
        lines.append(f"| {row.machine} | {name} | {row.n} | {values} | {row.error:+.0%} |")
    lines.append("")
    for key in sorted({(row.machine, row.n) for row in rows}):
        own = [row for row in rows if (row.machine, row.n) == key]
        lines.append(f"{key[0]}, n = {key[1]}: a factor of {1 + root_mean_square(own):.2f} over {len(own)} launches")
    return "\n".join(lines)


# ---- the command ---------------------------------------------------------------------------------------------------


def altered(variant: Variant, tile: str = "", cluster: str = "", strip: int | None = None) -> Variant:
    """The variant with another tile of a block and another cluster, ROWSxCOLUMNS each, and other strips."""
    if tile:
        rows, columns = _sides(tile, "tile")
        variant = dataclasses.replace(variant, tile={**variant.tile, "m": rows, "n": columns})
    if cluster:
        rows, columns = _sides(cluster, "cluster")
        variant = dataclasses.replace(
            variant, cluster=(rows, columns) if variant.grid_axes == "mn" else (columns, rows)
        )
    if strip is not None:
        variant = dataclasses.replace(variant, template={**variant.template, "STRIP": strip})
    return variant


def _sides(text: str, what: str) -> tuple[int, int]:
    rows, _, columns = text.partition("x")
    if not (rows.isascii() and rows.isdigit() and columns.isascii() and columns.isdigit() and int(rows) * int(columns)):
        raise UserError(f"{what} = {text!r} is not allowed; allowed: ROWSxCOLUMNS, as 256x128")
    return int(rows), int(columns)


def report(variant: Variant, problem: Problem, machine: Machine, options: argparse.Namespace) -> str:
    """Text: the estimate without drift, and with half, once and twice of it."""
    require_known_order(variant)
    blocks = blocks_per_sm(variant, machine, options.build_dir)
    tiling = Tiling.of(variant, problem, machine, blocks)
    order = f"strips of {tiling.strip} tile columns" if tiling.strip else "row after row"
    lines = [
        f"{variant.name}, m = n = k = {problem.n}, {machine.name}: {tiling.units} at a time with "
        f"{tiling.m} x {tiling.n} each, {order}; L2 holds {l2.held_bytes(machine) / 2**20:.0f} MiB of different data",
        f"  {'drift':>22s}{'asked of L2, GB':>17s}{'read, GB':>11s}{'share':>8s}{'written, GB':>13s}",
    ]
    for factor in (0.0, 0.5, 1.0, 2.0):
        drift = factor * options.drift
        found = estimate(variant, problem, machine, blocks, drift, options.dynamic, options.in_step_every)
        lines.append(
            f"  {f'{drift:.1f}' if drift else 'none':>22s}{found.asked / 1e9:>17.2f}{found.read / 1e9:>11.3f}"
            f"{found.missed:>8.1%}{found.written / 1e9:>13.3f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Estimate what a kernel reads from DRAM, without a GPU.")
    parser.add_argument("variant", nargs="?", help="name in kernels/catalogue.yaml")
    parser.add_argument("--n", type=int, nargs="+", default=[4096, 8192, 16384], help="m = n = k")
    parser.add_argument("--machine", default="h100-sxm", help="one of ptxsim's, or a .toml file")
    parser.add_argument("--drift", type=float, default=l2.DRIFT, help="clocks per square root of a clock (%(default)s)")
    parser.add_argument(
        "--in-step-every", type=int, default=0, metavar="TILES", help="units wait for each other so often"
    )
    parser.add_argument("--dynamic", action="store_true", help="persistent blocks take the next tile from a counter")
    parser.add_argument("--tile", default="", metavar="ROWSxCOLUMNS", help="another tile of a block")
    parser.add_argument("--cluster", default="", metavar="ROWSxCOLUMNS", help="another cluster, in blocks")
    parser.add_argument("--strip", type=int, help="another number of tile columns in a strip; 0: row after row")
    parser.add_argument("--build-dir", type=Path, help="folder of the cubins, for how many blocks an SM holds")
    parser.add_argument("--compare", type=Path, metavar="ARCHIVE", help="measured launches next to their estimates")
    options = parser.parse_args()
    if options.compare:
        print(table(compare(options.compare, options.build_dir, options.drift)))
        return
    if options.variant is None:
        raise UserError("nothing to do: give the name of a kernel, or --compare ARCHIVE")
    if options.strip is not None and options.strip < 0:
        raise UserError(f"strip = {options.strip} is not allowed; allowed: 0 or more tile columns")
    entry = find_runnable(catalogue.load(), options.variant, "its tiles are not known")
    machine = find_machine(options.machine)
    for n in options.n:
        problem = Problem.square(n, entry.b_layout)
        variant = altered(entry.pick(problem), options.tile, options.cluster, options.strip)
        print(report(variant, problem, machine, options))


if __name__ == "__main__":
    run_command(main)
