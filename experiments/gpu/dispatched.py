"""Binds a dispatcher as measurements run it: the fastest on this card of its likeliest kernels."""

from __future__ import annotations

from pathlib import Path

from experiments.gpu import discovery
from experiments.gpu.device import CatalogueKernel, Gpu
from experiments.gpu.fastest_call import Call, FastestCall
from kernels.catalogue import Dispatcher, Problem, Variant

TIMED = 14  # docs/measuring.md says what that leaves of the fastest of all kernels.


class DispatchedGemm(FastestCall):
    """The kernel that a dispatcher predicts to be fastest; by `bind_fastest`, one of TIMED, or of the
    tiles that it was offered.
    """

    entry: Dispatcher

    def __init__(self, gpu: Gpu, entry: Dispatcher) -> None:
        super().__init__(gpu)
        self.entry, self._kernel = entry, CatalogueKernel(gpu, entry)
        self._variants = {variant.name: variant for variant in entry.variants}
        self._tiles: dict[str, CatalogueKernel] = {}
        self._offered: dict[Problem, set[str]] = {}

    def offer(self, problem: Problem, tile: Variant, folder: Path) -> CatalogueKernel:
        """Take a tile, built in `folder`, as a further candidate for a problem; return it, loaded."""
        if tile.name not in self._tiles:
            self._tiles[tile.name] = CatalogueKernel(self.gpu, tile, folder)
        self._offered.setdefault(problem, set()).add(tile.name)
        return self._tiles[tile.name]

    def withdraw(self, problem: Problem, tile: Variant) -> None:
        """Take it for this problem no longer."""
        self._offered[problem].remove(tile.name)

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """See `FastestCall.bind`; raises `UserError` where no kernel takes the problem."""
        return self._kernel.bind(problem, a, b, c)

    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """See `FastestCall.calls`; raises `UserError` where no kernel takes the problem."""
        count = 2 if discovery.rehearsing() else TIMED  # Each takes an emulator seconds.
        likely = self.entry.candidates(problem, {"A": a, "B": b, "C": c})[:count]
        calls = {
            variant.name: self._kernel.bind(problem, a, b, c, variant=variant) for variant in likely
        }
        for name in sorted(self._offered.get(problem, ())):
            tile = self._tiles[name]
            if not tile.entry.unsupported_reason(problem, {"A": a, "B": b, "C": c}):
                calls[name] = tile.bind(problem, a, b, c)
        for call in calls.values():
            call()
        return calls

    def named(self, name: str, problem: Problem, a: int, b: int, c: int) -> Call | None:
        """See `FastestCall.named`: None also where the kernel does not take these matrices.

        Nothing is ranked.
        """
        offered = name in self._offered.get(problem, ())
        variant, tile = self._variants.get(name), self._tiles[name] if offered else None
        entry = tile.entry if tile else variant
        if entry is None or entry.unsupported_reason(problem, {"A": a, "B": b, "C": c}):
            return None
        if tile:
            return tile.bind(problem, a, b, c)
        return self._kernel.bind(problem, a, b, c, variant=variant)
