"""Compiles the likeliest tiles of a problem when it is new, and offers a dispatcher those that are
right.

They lie below the build folder, in a folder for each compiler and architecture, and stay: a tile
that is there and of today's source is not compiled again. Two processes that compile the same one
write the same bytes, each file at once.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from contracts import UserError
from contracts.files import digest
from experiments.gpu import discovery
from experiments.gpu.dispatched import DispatchedGemm
from experiments.stages import build, toolchain
from experiments.stages.interleave import ROLES, Matrices, check_output
from kernels import tile_choice, tiles
from kernels.catalogue import Catalogue, Dispatcher, Problem, Variant

logger = logging.getLogger(__name__)

# The likeliest tiles that are compiled for a problem.
COMPILED = 16
# FP32 lanes of an SM of compute capability 9.0, which alone has tiles.
CORES_OF_SM = 128


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning, the first time that it is given."""
    logger.warning(message)


class TileBuilds:
    """The tiles that were compiled on this machine.

    entries: the catalogue, which makes their kernels. build_dir: of the other kernels. nvcc: the
    compiler's path; None: the pinned one.
    """

    def __init__(self, entries: Catalogue, build_dir: Path, nvcc: str | None = None) -> None:
        self.entries, self.build_dir, self.nvcc = entries, build_dir, nvcc

    def folder(self, arch: str) -> Path:
        """Return where tiles of this compiler and architecture lie.

        Raises `UserError` where there is no compiler.
        """
        compiler = build.compiler_name(toolchain.nvcc(self.nvcc))
        return self.build_dir / "tiles" / digest(compiler, arch)

    def built(
        self, variants: Sequence[Variant], arch: str, jobs: int | None = None
    ) -> list[Variant]:
        """Return the tiles that are built, after those that lack were compiled, so many at a time;
        None: one a core.

        Without a compiler there are none; that, and a tile that does not compile, is logged once.
        """
        try:
            folder, compiler = self.folder(arch), toolchain.nvcc(self.nvcc)
        except UserError as error:
            warn_once(f"no tile is compiled, and only built kernels are timed: {error}")
            return []
        lacking = [
            variant
            for variant in variants
            if build.current(variant, folder / variant.name, arch, compiler) is None
        ]
        begin = time.monotonic()

        def make(variant: Variant) -> str | None:
            try:
                build.build_kernel(variant, arch, folder, self.nvcc)
            except UserError as error:
                warn_once(f"{variant.name} is left out: {error}")
                return variant.name
            return None

        with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
            failed = set(pool.map(make, lacking))
        if lacking:
            seconds = time.monotonic() - begin
            logger.info(
                f"{len(lacking)} tiles compiled in {seconds:.0f} s, for this and later runs"
            )
        return [variant for variant in variants if variant.name not in failed]

    def compile_likeliest(
        self, asked: Iterable[tuple[Dispatcher, Problem]], jobs: int | None = None
    ) -> list[str]:
        """Compile what `offer_likeliest` would for these problems, so many at a time, without a
        CUDA context; return the names. There are none where no GPU is seen, or its SMs are not
        known: then the search compiles.
        """
        gpu = discovery.gpu()
        cores = discovery.cores() if gpu else None
        if gpu is None or cores is None:
            return []
        names = dict.fromkeys(
            name
            for entry, problem in asked
            for name in _likeliest(entry, problem, cores // CORES_OF_SM, gpu.name)
        )
        built = self.built([self._kernel(name) for name in names], gpu.arch, jobs)
        return [variant.name for variant in built]

    def offer_likeliest(self, gemm: DispatchedGemm, matrices: Matrices) -> None:
        """Offer a dispatcher over tiles those that are likeliest to be fastest on these matrices
        and compute them right; C is written.
        """
        entry, problem, gpu = gemm.entry, matrices.problem, gemm.gpu
        likely = _likeliest(entry, problem, gpu.sm_count, gpu.device.name)
        addresses = matrices.a.address, matrices.b.address, matrices.c[ROLES[1]].address
        kernels = [self._kernel(name) for name in likely]
        arch = _arch(kernels[0]) if kernels else ""
        for variant in self.built(kernels, arch):
            if variant.unsupported_reason(problem, dict(zip("ABC", addresses, strict=True))):
                continue
            work = gemm.offer(problem, variant, self.folder(arch)).bind(problem, *addresses)
            matrices.poison(gpu, ROLES[1])
            work()
            checked = check_output(gpu, matrices, ROLES[1], work)
            if not checked.passed:
                gemm.withdraw(problem, variant)
                warn_once(f"{variant.name} is left out: wrong on {problem}: {checked.detail}")

    def offer_named(self, gemm: DispatchedGemm, problem: Problem, name: str) -> None:
        """Offer a dispatcher the tile that an earlier search found for a problem, if it is one."""
        if gemm.entry.any_tile and tiles.named(name):
            variant = self._kernel(name)
            arch = _arch(variant)
            for built in self.built([variant], arch):
                gemm.offer(problem, built, self.folder(arch))

    def _kernel(self, name: str) -> Variant:
        kernel = self.entries.find(name)
        assert isinstance(kernel, Variant)
        return kernel


def _likeliest(entry: Dispatcher, problem: Problem, sms: int, gpu: str) -> list[str]:
    """Return the names of the likeliest tiles of a dispatcher; one of them in a rehearsal."""
    if not entry.any_tile:
        return []
    likely = tile_choice.ranked(problem, entry.dtype, sms, gpu)
    return [tile.name for tile in likely[: 1 if discovery.rehearsing() else COMPILED]]


def _arch(variant: Variant) -> str:
    """Return what a tile is compiled for: the GPU's architecture, or the tile's where none is seen."""
    gpu = discovery.gpu()
    return gpu.arch if gpu else f"sm_{variant.arch}a"
