"""Declares a sweep over tiles: its grid of template values, and what is left out of it.

A restriction is a function of the values that is true where they may be built. Its docstring is the
reason why others may not, and its name stands in tuning.csv. Those of a kernel are tried in order,
and the first that does not hold counts. The numbers are of CUDA's compute capabilities 7.5 to 12.0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from contracts import UserError, read_yaml
from contracts.declared import Tune
from kernels import catalogue
from kernels.catalogue import Variant

SWEEP = Path(__file__).resolve().with_name("tile_autotune.yaml")

WARP = 32
STATIC_SHARED_BYTES = 48 * 1024
REGISTERS_PER_THREAD = 255
REGISTERS_PER_SM = 65536

Values = Mapping[str, int]  # These are the template values, and `size`: m = n = k.
Restriction = Callable[[Values], bool]


# ---- both kernels --------------------------------------------------------------------------------


def whole_tiles(v: Values) -> bool:
    """The problem is made of whole tiles: the kernels have no code for a part of one."""
    return all(v["size"] % v[key] == 0 for key in ("BM", "BN", "BK"))


def whole_float4(v: Values) -> bool:
    """Rows of a tile and of a patch are made of float4, the widest access there is."""
    return v["BK"] % 4 == 0 and v["TM"] % 4 == 0 and v["TN"] % 4 == 0


def shared_memory(v: Values) -> bool:
    """Both tiles fit the 48 KiB of shared memory that a block may declare on every architecture."""
    return (v["BM"] + v["BN"]) * v["BK"] * 4 <= STATIC_SHARED_BYTES


def thread_registers(v: Values) -> bool:
    """A thread's sums and the operands of one step fit its 255 registers, or they would live in
    memory.
    """
    return registers_needed(v) <= REGISTERS_PER_THREAD


def register_file(v: Values) -> bool:
    """The sums and operands of all threads of a block fit the 65536 registers of a
    multiprocessor.
    """
    return threads(v) * registers_needed(v) <= REGISTERS_PER_SM


# ---- the autotuned kernel ------------------------------------------------------------------------


def patches_cover_tile(v: Values) -> bool:
    """Patches of TM x TN cover the block's tile."""
    return v["BM"] % v["TM"] == 0 and v["BN"] % v["TN"] == 0


def whole_warps(v: Values) -> bool:
    """One thread a patch makes whole warps, and not more than the 1024 threads that a block may
    have.
    """
    return threads(v) % WARP == 0 and WARP <= threads(v) <= 1024


# ---- the warp-tile kernel ------------------------------------------------------------------------


def warp_tiles_divide_block(v: Values) -> bool:
    """Warp tiles of WM x WN divide the block's tile."""
    return v["BM"] % v["WM"] == 0 and v["BN"] % v["WN"] == 0


def warps_cover_tile(v: Values) -> bool:
    """One warp a warp tile makes exactly the THREADS of the block."""
    return (v["BM"] // v["WM"]) * (v["BN"] // v["WN"]) * WARP == v["THREADS"]


def lanes_cover_subtile(v: Values) -> bool:
    """The 32 lanes, a patch of TM x TN each, cover a subtile exactly, and subtiles the warp
    tile.
    """
    if v["WM"] * v["WN"] % (WARP * v["TM"] * v["TN"] * v["WNITER"]):
        return False
    subtile_m, rest_m = divmod(v["WM"], subtiles_m(v))
    subtile_n, rest_n = divmod(v["WN"], v["WNITER"])
    lanes = (subtile_m // v["TM"]) * (subtile_n // v["TN"])
    return not (rest_m or rest_n or subtile_m % v["TM"] or subtile_n % v["TN"]) and lanes == WARP


def full_passes(v: Values) -> bool:
    """Every pass that copies a tile keeps all threads busy with whole rows: this kernel has no code
    for another.
    """
    rows = v["BK"] // 4, v["BN"] // 4  # float4s in a row of A's tile and of B's
    if any(v["THREADS"] % row for row in rows):
        return False
    rows_a, rows_b = (v["THREADS"] // row for row in rows)
    return v["BM"] % rows_a == 0 and v["BK"] % rows_b == 0


# ---- what they count with ------------------------------------------------------------------------


def threads(v: Values) -> int:
    """Return the threads of a block: given, or one for each patch."""
    return v["THREADS"] if "THREADS" in v else v["BM"] * v["BN"] // (v["TM"] * v["TN"])


def subtiles_m(v: Values) -> int:
    """Return the subtiles of a warp tile along m; 1 without warp tiles."""
    return v["WM"] * v["WN"] // (WARP * v["TM"] * v["TN"] * v["WNITER"]) if "WM" in v else 1


def registers_needed(v: Values) -> int:
    """Return the registers of a thread for its sums and one step's operands, without addresses."""
    m, n = subtiles_m(v) * v["TM"], v.get("WNITER", 1) * v["TN"]
    return m * n + m + n


OF_TILES = (whole_float4, whole_tiles)
OF_HARDWARE = (shared_memory, thread_registers, register_file)
WARPS = (warp_tiles_divide_block, warps_cover_tile, lanes_cover_subtile, full_passes)
RESTRICTIONS: dict[str, tuple[Restriction, ...]] = {
    "sgemm_autotuned": (*OF_TILES, patches_cover_tile, whole_warps, *OF_HARDWARE),
    "sgemm_warptile": (*OF_TILES, *WARPS, *OF_HARDWARE),
}


@dataclass(frozen=True)
class Configuration:
    """A kernel with template values; `broken` names the first restriction that they do not meet."""

    kernel: str
    values: Values
    broken: str | None

    @property
    def threads(self) -> int:
        """Return the threads of a block."""
        return threads(self.values)

    @property
    def name(self) -> str:
        """Return a name for files and progress: sgemm_autotuned_128x128x16_8x8."""
        v = self.values
        parts = [f"{v['BM']}x{v['BN']}x{v['BK']}"]
        if "WM" in v:
            parts.append(f"{v['WM']}x{v['WN']}_{v['WNITER']}")
        parts.append(f"{v['TM']}x{v['TN']}")
        return "_".join([self.kernel, *parts, *([str(v["THREADS"])] if "THREADS" in v else [])])

    def variant(self) -> Variant:
        """Return the catalogue's kernel with these values."""
        return _catalogue().retiled(self.kernel, self.name, self.values, self.threads)


@dataclass(frozen=True)
class Sweep:
    """experiments/tuning/tile_autotune.yaml; contracts/declared.py, `Tune`, explains the fields."""

    size: int
    also: Mapping[str, list[int]]
    data: str
    flush_l2: bool
    samples: int
    finalists: int
    final_samples: int
    kernels: Mapping[str, Mapping[str, list[int]]]

    def by_size(self) -> Iterator[Sweep]:
        """Yield the sweep at each of its sizes, the main one first."""
        yield replace(self, also={})
        for size in dict.fromkeys(itertools.chain.from_iterable(self.also.values())):
            kernels = {name: self.kernels[name] for name in self.also if size in self.also[name]}
            yield replace(self, size=size, also={}, kernels=kernels)

    def configurations(self) -> Iterator[Configuration]:
        """Yield every combination of every kernel's values, in the order of the grid."""
        for kernel, grid in self.kernels.items():
            for combination in itertools.product(*grid.values()):
                values = dict(zip(grid, combination, strict=True))
                full = values | {"size": self.size}
                broken = next((r.__name__ for r in RESTRICTIONS[kernel] if not r(full)), None)
                yield Configuration(kernel, values, broken)


@functools.cache
def _catalogue() -> catalogue.Catalogue:
    """Load the catalogue once for the hundreds of configurations of a sweep."""
    return catalogue.load()


def load(path: Path = SWEEP) -> Sweep:
    """Return the sweep. Raises `UserError` naming the file, the key and what is accepted."""
    sweep = Sweep(**read_yaml(path, Tune).model_dump())
    for kernel, grid in sweep.kernels.items():
        parameters = list(_catalogue().kernels[kernel].template)
        if list(grid) != parameters:
            raise UserError(
                f"{path}: kernels.{kernel} has {', '.join(grid)}; expected: {', '.join(parameters)}"
            )
    return sweep
