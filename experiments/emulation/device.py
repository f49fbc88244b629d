"""The emulator as a device that checks run on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from experiments.stages.check import GUARD
from kernels import arguments
from kernels.catalogue import Problem, Runnable


class EmulatedDevice:
    """ptxsim, on the PTX that the cubin was made from. Its own watch over memory takes the guard bands' place.

    `loaded`: kernels that are there already, by variant.
    """

    name = "ptxsim"

    def __init__(self, build_dir: Path, loaded: Mapping[str, ptxsim.Kernel] | None = None) -> None:
        self.build_dir = build_dir
        self._loaded = dict(loaded or {})

    def run(self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int) -> list[np.ndarray]:
        """See `experiments.stages.check.Device.run`. A fault that the emulator finds is a `UserError` too."""
        starts = {name: offset * buffer.itemsize for name, buffer in zip("ABC", buffers, strict=True)}
        variant, p = variant.pick(problem, starts), problem
        if variant.name not in self._loaded:
            self._loaded[variant.name] = launching.load(variant, self.build_dir, cubin=False)
        sizes = (p.m * p.lda, p.k * p.ldb, p.m * p.ldc)
        spans = [slice(GUARD + offset, GUARD + offset + size) for size in sizes]
        a, b, c = (
            ptxsim.Array(x[span], name, starts[name], unwritten=name == "C" and p.beta == 0)
            for x, span, name in zip(buffers, spans, "ABC", strict=True)
        )
        packed = arguments.pack(variant, p, a, b, c, launching.texture)
        try:
            self._loaded[variant.name].launch(variant.grid(p), variant.threads, packed, variant.shared_bytes)
        except ptxsim.PtxsimError as error:
            raise UserError(f"ptxsim: {error}") from error
        after = [buffer.copy() for buffer in buffers]
        for buffer, span, array in zip(after, spans, (a, b, c), strict=True):
            buffer[span] = array.numpy()
        return after
