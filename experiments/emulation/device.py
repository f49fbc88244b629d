"""The emulator as a device that checks run on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

import ptxsim
from contracts import UserError
from experiments.emulation import launching
from experiments.emulation.owners import Owners
from experiments.stages.check import GUARD, DeviceName
from experiments.stages.machine_code import code_of
from experiments.stages.patterns import Stores
from kernels import arguments
from kernels.catalogue import Entry, Problem, Runnable, Variant


class EmulatedDevice:
    """ptxsim on the PTX that the cubin was made from; it watches memory in place of guard bands.

    loaded: kernels that are there already, by variant. sms: of the GPU that it stands for, which a
    persistent kernel's grid follows; None: those of `launching.sms_of`.
    """

    name: DeviceName = "ptxsim"

    def __init__(
        self,
        build_dir: Path,
        loaded: Mapping[str, ptxsim.Kernel] | None = None,
        sms: int | None = None,
    ) -> None:
        self.build_dir, self.sms = build_dir, sms
        self._loaded = dict(loaded or {})

    def run(
        self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int
    ) -> list[np.ndarray]:
        """See `experiments.stages.check.Device.run`.

        A fault that the emulator finds is a `UserError` too.
        """
        arrays, spans = self._launch(variant, problem, buffers, offset)
        after = [buffer.copy() for buffer in buffers]
        for buffer, span, array in zip(after, spans, arrays, strict=True):
            buffer[span] = array.numpy()
        return after

    def code_hash(self, entry: Entry) -> str:
        """See `experiments.stages.check.Device.code_hash`."""
        return code_of(entry, self.build_dir)

    def grid(self, kernel: Variant, problem: Problem) -> tuple[int, int, int]:
        """See `experiments.stages.check.Device.grid`."""
        return kernel.grid(problem, self.sms or launching.sms_of(kernel, problem))

    def stores(
        self, variant: Runnable, problem: Problem, buffers: list[np.ndarray], offset: int
    ) -> Stores:
        """See `experiments.stages.check.Device.stores`."""
        owners: list[Owners] = []

        def observe(c: ptxsim.Array) -> list[Owners]:
            owners.append(Owners(c, buffers[2].itemsize))
            return owners

        self._launch(variant, problem, buffers, offset, observe)
        (last,), rows = owners, (problem.m, problem.ldc)
        thread, line = (x.reshape(rows)[:, : problem.n] for x in (last.thread, last.line))
        return Stores(thread, line, tuple(last.lines))

    def _launch(
        self,
        variant: Runnable,
        p: Problem,
        buffers: list[np.ndarray],
        offset: int,
        observe: Callable[[ptxsim.Array], Iterable[ptxsim.Observer]] = lambda c: (),
    ) -> tuple[list[ptxsim.Array], list[slice]]:
        """Launch; return A, B and C afterwards, and where in the buffers they lie.

        observe: returns who watches, given C.
        """
        named = dict(zip("ABC", buffers, strict=True))
        starts = {name: offset * buffer.itemsize for name, buffer in named.items()}
        variant = variant.pick(p, starts)
        if variant.name not in self._loaded:
            self._loaded[variant.name] = launching.load(variant, self.build_dir, cubin=False)
        # What BLAS does not read is undefined for the emulator.
        first, unread = GUARD + offset, {"A": p.alpha == 0, "B": p.alpha == 0, "C": p.beta == 0}
        spans = {x: slice(first, first + rows * ld) for x, (rows, _, ld) in p.stored.items()}
        matrices = {
            x: ptxsim.Array(named[x][span], x, starts[x], unwritten=unread[x])
            for x, span in spans.items()
        }
        grid, made = self.grid(variant, p), launching.Arguments()
        with launching.refusals():
            packed = arguments.pack(variant.arguments, p, matrices, math.prod(grid), made)
            launch = (grid, variant.threads, packed, variant.shared_bytes)
            self._loaded[variant.name].launch(*launch, observers=observe(matrices["C"]))
        for array in made.left_zero:
            if (changed := np.flatnonzero(array.numpy())).size:
                raise UserError(
                    f"ptxsim: byte {changed[0]} of the {array.name} is not zero after the launch, as the next needs it"
                )
        return list(matrices.values()), list(spans.values())
