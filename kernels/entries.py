"""The entries of the catalogue: kernels and libraries' GEMMs, what each asks of a problem, how it
is launched.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from contracts import UserError
from contracts.dtypes import Types
from contracts.files import digest
from kernels import expand
from kernels.arguments import SIGNATURE, TEXEL_BYTES, TEXTURES, Argument, declaration
from kernels.problem import Layout, Problem
from kernels.sources import ROOT, included, without_comments

FAMILIES = ("sgemm", "hgemm", "tf32gemm")
# TMA, and products of 8-bit floats in cublasLt, need matrices and rows aligned to so many bytes.
ALIGNED_BYTES = 16

# The CUDA C++ Programming Guide has these limits under technical specifications per compute
# capability. `MAX_TEXELS` is that of a 1-D texture over linear memory.
MAX_GRID = (2**31 - 1, 65535)
MAX_TEXELS = 2**27
# Linear memory of a texture begins at multiples of CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT.
TEXTURE_ALIGNMENT = 512


def _number(arch: str) -> int:
    """Return 90 for "sm_90a". Raises `UserError` for what names no architecture."""
    # This imports the whole emulator, so it is imported only where it is needed.
    from ptxsim import PtxsimError, gpus

    try:
        return gpus.architecture(arch)
    except PtxsimError as error:
        raise UserError(str(error)) from error


@dataclass(frozen=True)
class Baseline:
    """A library's GEMM, measured by the same harness.

    b_layout: the layout of B where it is measured by itself; as a kernel's baseline it takes that
    kernel's problem.
    """

    name: str
    library: Literal["cublas", "cublaslt", "torch", "triton"]
    types: Types
    baseline: str
    idea: str
    source: str | None = None
    b_layout: Layout = "row"
    arch: int = 75

    @property
    def dtype(self) -> str:
        """The name of its types."""
        return self.types.name

    @property
    def label(self) -> str:
        """Short name for figures."""
        libraries = {
            "cublas": "cuBLAS",
            "cublaslt": "cuBLASLt",
            "torch": "torch.matmul",
            "triton": "Triton",
        }
        return f"{libraries[self.library]} {self.dtype}"

    @property
    def tensor_cores(self) -> bool:
        """Whether it does its arithmetic on them."""
        return self.types.ab.tensor

    @property
    def source_hash(self) -> str:
        """Changes with the source; for a library without a source here, only with the entry."""
        parts = [(ROOT.parent / self.source).read_text()] if self.source else []
        return digest(self.library, self.dtype, *parts)

    def unsupported(self, arch: str) -> str | None:
        """Return why it cannot run on `arch`, as "sm_90a"; None where it can."""
        if _number(arch) < self.arch:
            return f"{self.name} needs compute capability {self.arch / 10:.1f}, but arch = {arch}"
        return None

    def unsupported_reason(
        self, problem: Problem, addresses: Mapping[str, int] | None = None
    ) -> str | None:
        """Return why this problem is not taken (see `Variant.unsupported_reason`)."""
        reason = problem.unsupported_reason() or self._misaligned(problem, addresses or {})
        return f"{self.name} cannot take this problem: {reason}" if reason else None

    def _misaligned(self, problem: Problem, addresses: Mapping[str, int]) -> str | None:
        """Return what is not aligned to 16 bytes, where the library moves these; else None."""
        if self.library not in ("triton", "cublaslt"):
            return None
        if problem.b_layout != self.b_layout:
            return f"B is {problem.b_layout}-major, but it must be {self.b_layout}-major"
        per_row = {
            name: ALIGNED_BYTES // self.types.of(name[-1].upper()).bytes
            for name in ("lda", "ldb", "ldc")
        }
        # TMA would store beyond the end of a row of C; cuBLAS asks it of m, n and k.
        sizes = (
            {"n": per_row["ldc"]}
            if self.library == "triton"
            else dict.fromkeys("mnk", per_row["lda"])
        )
        for name, multiple in (sizes | per_row).items():
            if (value := getattr(problem, name)) % multiple:
                return f"{name} = {value}, but it must be a multiple of {multiple}"
        for matrix, address in addresses.items():
            if past := address % ALIGNED_BYTES:
                return f"{matrix} begins {past} bytes past a multiple of {ALIGNED_BYTES}, but it must not"
        return None


@dataclass(frozen=True)
class Variant:
    """A kernel source with its template values: one row of every table.

    b_layout: the layout of B in memory. blocks_per_sm: of a persistent kernel, whose grid
    does not follow the tiles; 0 for a block a tile. stream_k: several of its blocks may compute one
    tile. cluster: blocks in x and y, each with a tile of its own. splits: blocks in z, in one
    cluster, that compute one tile. raster: which axes of C the blocks in x and y run over.
    cooperative: all blocks run at a time, or the launch fails. tensor_cores: it does its arithmetic
    on them. one_arch: it needs features that only
    `arch` has, as sm_90a. stages: tiles of A and of B that shared memory holds at a time. sums: who
    has which, as the entry says it (contracts/declared.py, `Sums`); none of it changes a launch.
    """

    name: str
    source: Path
    entry: str
    template: Mapping[str, int | str | bool]
    threads: int
    shared_bytes: int
    types: Types
    narrowing: Literal["truncate", "nearest"]
    tile: Mapping[str, int]
    raster: str
    multiples: Mapping[str, int]
    align_bytes: int
    arch: int
    builds_on: str | None
    idea: str
    origin: Mapping[str, str] | None
    baseline: str
    b_layout: Layout = "row"
    arguments: tuple[Argument, ...] = SIGNATURE
    blocks_per_sm: int = 0
    stream_k: bool = False
    cluster: tuple[int, int] = (1, 1)
    splits: int = 1
    cooperative: bool = False
    tensor_cores: bool = False
    one_arch: bool = False
    stages: int = 1
    sums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # the machine whose sweep chose the template; None: the catalogue's own values

    @property
    def dtype(self) -> str:
        """The name of its types."""
        return self.types.name

    @property
    def textures(self) -> bool:
        """Whether A and B come through texture objects too."""
        return TEXTURES[0] in self.arguments

    @property
    def family(self) -> str:
        """sgemm, hgemm or tf32gemm: the first word of its name, or else the folder of its
        source.
        """
        first = self.name.partition("_")[0]
        return first if first in FAMILIES else self.source.parent.name

    @property
    def label(self) -> str:
        """Short name for figures, with the dtype where that is not fp32."""
        short = self.name.removeprefix(f"{self.family}_")
        return (
            short if self.dtype == "fp32" or short.endswith(self.dtype) else f"{short}_{self.dtype}"
        )

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The kernels that it may run: itself."""
        return (self,)

    def pick(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> Variant:
        """Return the kernel that runs `problem`: itself.

        Raises `UserError` where it is refused (see `unsupported_reason`).
        """
        if reason := self.unsupported_reason(problem, addresses):
            raise UserError(reason)
        return self

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster, splits included."""
        return math.prod(self.cluster) * self.splits

    @property
    def blocks_of_cluster(self) -> str | None:
        """Blocks of a cluster down and across C, as 2 x 1; None where a block is alone."""
        along = dict(zip(self.raster, self.cluster, strict=True))
        return f"{along['m']} x {along['n']}" if max(self.cluster) > 1 else None

    def divided_sums(self) -> str | None:
        """Return who has which sums of the tile, its arithmetic done; None where the entry does not
        say it.

        Raises `UserError` where the factors do not make up the tile, or 32 lanes.
        """
        lanes, axes = 1, []
        for axis, shares in self.sums.items():
            where, factors = f"{self.name}.sums.{axis}", []
            for share in shares:
                count, _, who = share.rpartition(" ")
                factors.append((expand.number(count, self.template, where, minimum=0), who))
            if (product := math.prod(count for count, _ in factors)) != self.tile[axis]:
                reason = f"makes {product}, but the tile has {self.tile[axis]}"
                raise UserError(f"{where} {reason}; `sums: null` draws no picture")
            lanes *= math.prod(count for count, who in factors if who.startswith("lane"))
            axes.append(f"{axis}: {', '.join(f'{count} {who}' for count, who in factors)}")
        if axes and lanes != 32:
            raise UserError(f"{self.name}.sums has {lanes} lanes, but a warp has 32")
        return "; ".join(axes) or None

    def tiles(self, problem: Problem) -> tuple[int, int]:
        """Return the tiles of C along the grid's x and y; whole clusters of them."""
        tiles = {axis: -(-getattr(problem, axis) // self.tile[axis]) for axis in "mn"}
        x, y = (
            -(-tiles[axis] // blocks) * blocks
            for axis, blocks in zip(self.raster, self.cluster, strict=True)
        )
        return x, y

    def grid(self, problem: Problem, sms: int) -> tuple[int, int, int]:
        """Return the blocks in x, y and z: one a tile and slice; of a persistent kernel, as many as
        a GPU with so many SMs holds, or fewer where there are fewer tiles and it does not share
        them.
        """
        x, y = self.tiles(problem)
        if not self.blocks_per_sm:
            return x, y, self.splits
        if self.splits > 1:  # what a cluster has for sums of its slices serves one tile
            return x * y, 1, self.splits
        cluster = math.prod(self.cluster)
        resident = max(self.blocks_per_sm * sms // cluster, 1) * cluster
        return (resident if self.stream_k else min(x * y, resident)), 1, 1

    def unsupported_reason(
        self, problem: Problem, addresses: Mapping[str, int] | None = None
    ) -> str | None:
        """Return why this kernel cannot take `problem` with matrices at `addresses` (bytes; keys A,
        B, C).

        None where it can, else one line that names the requirement and the value.
        """
        reason = problem.unsupported_reason()
        if reason is None and problem.b_layout != self.b_layout:
            reason = f"B is {problem.b_layout}-major, but it must be {self.b_layout}-major"
        for name, multiple in self.multiples.items():
            value = getattr(problem, name)
            if reason is None and value % multiple:
                reason = f"{name} = {value}, but {name} must be a multiple of {multiple}"
        for matrix, address in (addresses or {}).items():
            if reason is None and matrix in self.aligned and address % self.align_bytes:
                reason = f"{matrix} starts at byte {address}, but it must be aligned to {self.align_bytes} bytes"
        if reason is None:
            for axis, blocks, limit in zip("xy", self.tiles(problem), MAX_GRID, strict=True):
                if blocks > limit and not self.blocks_per_sm:
                    reason = f"the grid has {blocks} blocks in {axis}, but CUDA allows {limit}"
        if reason is None and self.textures:
            for matrix, texels in zip("AB", self._texels_of_tiles(problem), strict=True):
                if texels > MAX_TEXELS:
                    reason = f"the tiles of {matrix} span {texels} texels, but a texture has at most {MAX_TEXELS}"
        return f"{self.name} cannot take this problem: {reason}" if reason else None

    def _texels_of_tiles(self, problem: Problem) -> tuple[int, int]:
        """Return up to where its whole tiles reach in the textures of A and B; an index beyond must
        not run over.
        """
        rows = [-(-getattr(problem, axis) // self.tile[axis]) * self.tile[axis] for axis in "mk"]
        before = TEXTURE_ALIGNMENT // TEXEL_BYTES
        return tuple(
            before + r * ld * 4 // TEXEL_BYTES
            for r, ld in zip(rows, (problem.lda, problem.ldb), strict=True)
        )

    @property
    def requires(self) -> str:
        """What it asks of a problem, for people."""
        parts = ["B column-major"] if self.b_layout == "column" else []
        parts += [f"{name} % {multiple} = 0" for name, multiple in self.multiples.items()]
        if self.align_bytes > 4:
            parts.append(
                f"{self.align_bytes}-byte aligned {'A and B' if self.textures else 'matrices'}"
            )
        return ", ".join(parts) or "nothing"

    def sources(self) -> list[Path]:
        """Return the .cu file and every file below `kernels/` or next to it that it includes,
        directly or not.
        """
        return [self.source, *included(self.source)]

    @property
    def aligned(self) -> str:
        """The matrices that `align_bytes` speaks of: of a kernel with textures, those that they
        hold.
        """
        return "AB" if self.textures else "ABC"

    def unsupported(self, arch: str) -> str | None:
        """Return why it cannot be built for `arch`, as "sm_90a"; None where it can."""
        if self.one_arch and arch != f"sm_{self.arch}a":
            return f"{self.name} needs what sm_{self.arch}a alone has, but arch = {arch}"
        if _number(arch) < self.arch:
            return f"{self.name} needs compute capability {self.arch / 10:.1f}, but arch = {arch}"
        return None

    def translation_unit(self) -> str:
        """Return CUDA source that instantiates the template once, with the catalogue's values."""
        arguments = ", ".join(
            str(value).lower() if isinstance(value, bool) else str(value)
            for value in self.template.values()
        )
        parameters = textwrap.fill(
            ", ".join(
                declaration(argument, self.types).replace(" ", "\0") for argument in self.arguments
            ),
            width=112,
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        ).replace("\0", " ")
        path = self.source
        path = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        return (
            f'#include "{path.as_posix()}"\n\n'
            f"template __global__ void {self.entry}<{arguments}>(\n"
            f"{parameters});\n"
        )

    @property
    def launch(self) -> str:
        """What a launch needs beside the machine code: block, dynamic shared memory, grid, cluster
        and arguments.
        """
        return json.dumps([self.dtype, *self._launch])

    @property
    def source_hash(self) -> str:
        """Changes with the sources, template values or launch; not with comments or white space."""
        head = json.dumps([self.entry, self.dtype, dict(self.template), *self._launch])
        return digest(head, *(without_comments(path.read_text()) for path in self.sources()))

    @property
    def _launch(self) -> list[Any]:
        return [
            self.threads,
            self.shared_bytes,
            dict(self.tile),
            self.raster,
            *(["textures"] if self.textures else []),
            *(["B column-major"] if self.b_layout == "column" else []),
            *([repr(self.arguments)] if set(self.arguments) - {*SIGNATURE, *TEXTURES} else []),
            *(
                [self.blocks_per_sm, self.cluster, self.cooperative]
                if self.blocks_per_sm or self.cluster != (1, 1) or self.cooperative
                else []
            ),
            *(["shares tiles"] if self.stream_k else []),
            *([f"{self.splits} slices"] if self.splits > 1 else []),
        ]
