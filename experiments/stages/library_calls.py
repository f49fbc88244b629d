"""Which call of a library, or kernel of a dispatcher, stands for it on a problem: found once by a
search, and kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contracts.rows import AlgorithmSearch, MeasuredRows
from experiments.declarations import Item
from experiments.gpu.dispatched import DispatchedGemm
from experiments.gpu.fastest_call import Choice, FastestCall, by_stopwatch
from experiments.gpu.libraries import Gemm
from experiments.stages import store
from experiments.stages.interleave import ROLES, Matrices
from experiments.stages.store import Key, Measurement, Store
from experiments.stages.tile_builds import TileBuilds
from kernels.catalogue import Catalogue, Dispatcher, Entry, Problem, Variant
from kernels.problem import ProblemSpec


class LibraryCalls:
    """The algorithm searches that a store has, and those that are made when it lacks them.

    build_dir: with the harness, which they rest on.
    """

    def __init__(self, store_: Store, entries: Catalogue, build_dir: Path) -> None:
        self.store, self.entries, self.build_dir = store_, entries, build_dir
        self.tiles = TileBuilds(entries, build_dir)

    def _search(self, entry: Entry, p: Problem) -> Measurement | None:
        """Return the stored search of a library or a dispatcher on a problem; None for a kernel."""
        if isinstance(entry, Variant):
            return None
        return self.store.find(_key(entry, p), store.fingerprint_of(entry, self.build_dir).__eq__)

    def compile_tiles(
        self, asked: Iterable[tuple[Entry, ProblemSpec]], jobs: int | None
    ) -> list[str]:
        """Compile the tiles of the searches that are not stored, so many at a time; return their
        names.
        """
        lacking = [
            (entry, problem)
            for entry, spec in asked
            if isinstance(entry, Dispatcher)
            and not self._search(entry, problem := spec.of(entry.b_layout))
        ]
        return self.tiles.compile_likeliest(lacking, jobs)

    def settle(self, gemm: Gemm, matrices: Matrices, session: str) -> None:
        """Let `gemm`, where it has several calls, use the fastest: kept, or found by a search on
        `matrices`.

        C is written many times then. Use while the GPU is held: of two jobs, the second takes what
        the first kept.
        """
        p = matrices.problem
        if not isinstance(gemm, FastestCall) or gemm.choice(p):
            return
        if self.known(gemm, p):
            return
        if isinstance(gemm, DispatchedGemm):
            self.tiles.offer_likeliest(gemm, matrices)
        gemm.bind_fastest(
            p, matrices.a.address, matrices.b.address, matrices.c[ROLES[1]].address, by_stopwatch
        )
        choice = gemm.choice(p)
        assert choice is not None
        row = AlgorithmSearch(
            baseline=gemm.entry.name, dtype=gemm.entry.dtype, **_sizes(p), **asdict(choice)
        )
        fingerprint = store.fingerprint_of(gemm.entry, self.build_dir)
        rows = MeasuredRows(algorithm_search=[row])
        self.store.keep(_key(gemm.entry, p), Measurement(fingerprint, session, rows))
        self.known(gemm, p)  # a job on another GPU may have been first

    def known(self, gemm: FastestCall, p: Problem) -> bool:
        """Use the call that is stored for this problem; return whether there is one."""
        search = self._search(gemm.entry, p)
        if search is None:
            return False
        (row,) = search.rows.algorithm_search
        if isinstance(gemm, DispatchedGemm):
            self.tiles.offer_named(gemm, p, row.call)
        gemm.choose(p, Choice(**{key: getattr(row, key) for key in asdict(Choice("", 0))}))
        return True

    def searches(self, items: Iterable[Item]) -> list[Measurement]:
        """Return the searches that the measurements of these items rest on."""
        searches = []
        for item in items:
            entry = self.entries.find(item.variant)
            p = item.problem.of(entry.b_layout)
            searches += [self._search(entry, p), self._search(self.entries[entry.baseline], p)]
        return [search for search in searches if search]


def _sizes(p: Problem) -> dict[str, Any]:
    return {"m": p.m, "n": p.n, "k": p.k, "b_layout": p.b_layout}


def _key(entry: Entry, p: Problem) -> Key:
    return Key("search", entry.name, f"{p.m}x{p.n}x{p.k}-{p.b_layout}")
