"""Which call of a library, or kernel of a dispatcher, stands for it on a problem: found once by a
search, and kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contracts import write_rows
from contracts.rows import AlgorithmSearch
from experiments.declarations import Item
from experiments.gpu.fastest_call import Choice, FastestCall, by_stopwatch
from experiments.gpu.libraries import Gemm
from experiments.stages import store
from experiments.stages.store import Measurement, Place, Store
from experiments.stages.turns import ROLES, Matrices
from kernels.catalogue import Catalogue, Entry, Problem, Variant


class LibraryCalls:
    """The algorithm searches that a store has, and those that are made when it lacks them.

    build_dir: with the harness, which they rest on.
    """

    def __init__(self, kept: Store, entries: Catalogue, build_dir: Path) -> None:
        self.kept, self.entries, self.build_dir = kept, entries, build_dir

    def _found(self, entry: Entry, p: Problem) -> Measurement | None:
        """The search that is kept of a library or a dispatcher and a problem; None for a kernel."""
        if isinstance(entry, Variant):
            return None
        return self.kept.find(_place(entry, p), store.basis_of(entry, self.build_dir).__eq__)

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
        gemm.bind_fastest(
            p, matrices.a.address, matrices.b.address, matrices.c[ROLES[1]].address, by_stopwatch
        )
        choice = gemm.choice(p)
        assert choice is not None
        rows = {"algorithm_search": [_row(gemm.entry, p, choice)]}
        self.kept.keep(
            _place(gemm.entry, p),
            Measurement(store.basis_of(gemm.entry, self.build_dir), session, rows),
        )
        self.known(gemm, p)  # a job on another GPU may have been first

    def known(self, gemm: FastestCall, p: Problem) -> bool:
        """Use the call that is kept for this problem; whether there is one."""
        one = self._found(gemm.entry, p)
        if one is None:
            return False
        (row,) = one.rows["algorithm_search"]
        gemm.choose(p, Choice(**{key: row[key] for key in asdict(Choice("", 0))}))
        return True

    def write(self, path: Path, items: Iterable[Item]) -> None:
        """The rows of algorithm_search.csv that these measurements rest on."""
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for item in items:
            entry = self.entries.find(item.variant)
            p = item.problem.of(entry.b_layout)
            for one in (entry, self.entries[entry.baseline]):
                found = self._found(one, p)
                for row in found.rows["algorithm_search"] if found else ():
                    rows[row["baseline"], row["b_layout"], row["m"], row["n"], row["k"]] = row
        write_rows(path, AlgorithmSearch, rows.values())


def _place(entry: Entry, p: Problem) -> Place:
    return Place("search", entry.name, f"{p.m}x{p.n}x{p.k}-{p.b_layout}")


def _row(entry: Entry, p: Problem, choice: Choice) -> dict[str, Any]:
    sizes = {"m": p.m, "n": p.n, "k": p.k, "b_layout": p.b_layout}
    return {"baseline": entry.name, "dtype": entry.dtype, **sizes, **asdict(choice)}
