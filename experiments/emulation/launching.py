"""A catalogue's kernel on the emulator: loaded from what was built, and launched to be counted."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from contracts import UserError
from kernels import arguments
from kernels.arguments import TensorMap, Workspace
from kernels.catalogue import TEXTURE_ALIGNMENT, Problem, Variant

FEW_SMS, MORE_SMS = 4, 16  # Checks are emulated on GPUs with so many SMs.


class Arguments:
    """What `experiments.gpu.device.Arguments` is on the GPU."""

    def __init__(self) -> None:
        self.left_zero: list[ptxsim.Array] = []  # A launch must leave these workspaces zero.

    def texture(self, matrix: ptxsim.Array, nbytes: int) -> ptxsim.Texture:
        """Return a texture that ends where the matrix does."""
        return ptxsim.Texture(matrix, 4, TEXTURE_ALIGNMENT, nbytes)

    def tensor_map(
        self, matrix: ptxsim.Array, rows: int, columns: int, ld: int, spec: TensorMap
    ) -> ptxsim.TensorMap:
        """Return a tensor map over the matrix as it lies in memory."""
        return ptxsim.TensorMap(
            matrix,
            spec.box,
            (rows, columns),
            (ld * matrix.numpy().itemsize,),
            swizzle=spec.swizzle or "none",
            l2_promotion=spec.l2_promotion or "none",
        )

    def workspace(self, nbytes: int, spec: Workspace) -> ptxsim.Array:
        """Return memory that is unwritten, or zero."""
        array = ptxsim.Array(
            np.zeros(nbytes, np.uint8), spec.name, unwritten=spec.zeroed == "never"
        )
        if spec.zeroed == "once":
            self.left_zero.append(array)
        return array


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn what ptxsim refuses in the block into a `UserError`."""
    try:
        yield
    except ptxsim.PtxsimError as error:
        raise UserError(f"ptxsim: {error}") from error


def load(variant: Variant, build_dir: Path, cubin: bool = True) -> ptxsim.Kernel:
    """Return the variant's PTX; with `cubin`, shared accesses are merged as in the machine code.

    Raises `UserError` where it was not built or cannot be emulated.
    """
    path = build_dir / f"{variant.name}.ptx"
    if not path.is_file():
        raise UserError(f"{path}: not built; run the build first (snakemake --cores 1 build)")
    return load_file(path, path.with_suffix(".cubin") if cubin else None)


def load_file(path: Path, cubin: Path | None = None) -> ptxsim.Kernel:
    """Return the kernel in a .ptx file. Raises `UserError` where it cannot be emulated."""
    with refusals():
        return ptxsim.load(path, cubin=cubin)


def sms_of(kernel: Variant, problem: Problem) -> int:
    """Return the number of SMs of the GPU that a check is emulated on.

    They are few, so that small problems take a persistent kernel's blocks round their loop. Few
    tiles take no block round: then there are more SMs, so that blocks which share a tile outnumber
    its steps.
    """
    return MORE_SMS if math.prod(kernel.tiles(problem)) <= FEW_SMS else FEW_SMS


def to_count(variant: Variant, problem: Problem, sms: int = FEW_SMS) -> dict[str, Any]:
    """Return arguments of `Kernel.launch` or `banks.accesses` for a launch that is only counted.

    All matrices are zero. sms: of the GPU, which a persistent kernel's grid follows.
    """
    p = problem
    matrices = {
        name: ptxsim.Array(np.zeros(rows * ld, f"u{variant.types.of(name).bytes}"), name)
        for name, (rows, _, ld) in p.stored.items()
    }
    grid = variant.grid(p, sms)
    return {
        "grid": grid,
        "block": variant.threads,
        "args": arguments.pack(variant.arguments, p, matrices, math.prod(grid), Arguments()),
        "shared_bytes": variant.shared_bytes,
        "checks": False,
        "values": False,
    }
