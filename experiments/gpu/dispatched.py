"""Binds a dispatcher as measurements run it: the fastest on this card of its likeliest kernels."""

from __future__ import annotations

from experiments.gpu.device import CatalogueKernel, Gpu
from experiments.gpu.fastest_call import Call, FastestCall
from kernels.catalogue import Dispatcher, Problem

TIMED = 14  # docs/measuring.md says what that leaves of the fastest of all kernels.


class DispatchedGemm(FastestCall):
    """The kernel that a dispatcher predicts to be fastest; by `bind_fastest`, one of TIMED."""

    entry: Dispatcher

    def __init__(self, gpu: Gpu, entry: Dispatcher) -> None:
        super().__init__(gpu)
        self.entry, self._kernel = entry, CatalogueKernel(gpu, entry)
        self._variants = {variant.name: variant for variant in entry.variants}

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """See `FastestCall.bind`; raises `UserError` where no kernel takes the problem."""
        return self._kernel.bind(problem, a, b, c)

    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """See `FastestCall.calls`; raises `UserError` where no kernel takes the problem."""
        likely = self.entry.candidates(problem, {"A": a, "B": b, "C": c})[:TIMED]
        calls = {
            variant.name: self._kernel.bind(problem, a, b, c, variant=variant) for variant in likely
        }
        for call in calls.values():
            call()
        return calls

    def named(self, name: str, problem: Problem, a: int, b: int, c: int) -> Call | None:
        """See `FastestCall.named`: None also where the kernel does not take these matrices.

        Nothing is ranked.
        """
        variant = self._variants.get(name)
        if variant is None or variant.unsupported_reason(problem, {"A": a, "B": b, "C": c}):
            return None
        return self._kernel.bind(problem, a, b, c, variant=variant)
