"""A catalogue's kernel on the emulator: loaded from what was built, and launched to be counted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from contracts import UserError
from contracts.dtypes import dtypes
from kernels import arguments
from kernels.catalogue import TEXTURE_ALIGNMENT, Problem, Variant


def texture(matrix: ptxsim.Array, nbytes: int) -> ptxsim.Texture:
    """What `experiments.gpu.device.Texture` is on the GPU; the matrix ends where it does."""
    return ptxsim.Texture(matrix, 4, TEXTURE_ALIGNMENT, nbytes)


def load(variant: Variant, build_dir: Path, cubin: bool = True) -> ptxsim.Kernel:
    """The variant's PTX; with `cubin`, merged shared accesses are those of the machine code.

    Raises `UserError` where it was not built or cannot be emulated.
    """
    path = build_dir / f"{variant.name}.ptx"
    if not path.is_file():
        raise UserError(f"{path}: not built; run the build first (snakemake --cores 1 build)")
    try:
        return ptxsim.load(path, cubin=path.with_suffix(".cubin") if cubin else None)
    except ptxsim.PtxsimError as error:
        raise UserError(f"ptxsim: {error}") from error


def to_count(variant: Variant, problem: Problem) -> dict[str, Any]:
    """Arguments of `Kernel.launch` or `banks.accesses` for a launch that is only counted: all matrices are zero."""
    p = problem
    element = np.dtype(f"u{dtypes()[variant.dtype].bytes}")
    a, b, c = (
        ptxsim.Array(np.zeros(rows * ld, element), name)
        for name, rows, ld in (("A", p.m, p.lda), ("B", p.k, p.ldb), ("C", p.m, p.ldc))
    )
    return {
        "grid": variant.grid(p),
        "block": variant.threads,
        "args": arguments.pack(variant, p, a, b, c, texture),
        "shared_bytes": variant.shared_bytes,
        "checks": False,
        "values": False,
    }


def count(kernel: ptxsim.Kernel, variant: Variant, problem: Problem, observers: Iterable[ptxsim.Observer]) -> None:
    """Launch it, observed; nothing that does not bear on counts is computed."""
    kernel.launch(**to_count(variant, problem), observers=observers)
