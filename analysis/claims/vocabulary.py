"""What a claim's expression may call besides quantities (`analysis.quantities`): tables of other kinds, and arithmetic.

A docstring's first line is what `python -m analysis.claims.judge --functions` prints.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pandas as pd

from analysis.quantities import estimates
from analysis.quantities.estimates import Estimate, Truth, Undefined
from analysis.quantities.machine import Machine, Missing, measures, whole
from analysis.tables import autotune
from contracts import UserError, choose, schema

F = TypeVar("F", bound=Callable[..., Any])


def reads(source: str) -> Callable[[F], F]:
    """Mark a function with the table that it reads (a key of `registry.SOURCES`)."""

    def mark(function: F) -> F:
        function.source = source  # type: ignore[attr-defined]
        return function

    return mark


def of_names(function: F) -> F:
    """Mark a function of several quantities that is given a dict of their values by the names of their variants."""
    function.of_names = True  # type: ignore[attr-defined]
    return function


class Vocabulary:
    """All functions, for one machine. `analytic` and `published` are values by (case, quantity) and by id."""

    def __init__(self, machine: Machine, analytic: Mapping[tuple[str, str], Any], published: Mapping[str, float]):
        self._machine, self._analytic, self._published = machine, analytic, published

    @classmethod
    def methods(cls) -> dict[str, Callable[..., Any]]:
        """The functions by the name that an expression calls them by; a name of Python's has an underscore here."""
        public = {n: f for n, f in vars(cls).items() if inspect.isfunction(f) and n[0] != "_" and n != "functions"}
        return {name.rstrip("_"): function for name, function in public.items()}

    @classmethod
    def sources(cls) -> dict[str, str]:
        """The tables that functions read, by function."""
        return {name: one.source for name, one in cls.methods().items() if hasattr(one, "source")}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The same, of this machine."""
        return {name: getattr(self, function.__name__) for name, function in self.methods().items()}

    # ---- the paper's tables, and those of the machine that hold no quantities ---------------------------------------

    @reads("published")
    def published(self, id: str) -> Estimate:
        """A worklog's number, by its id in published.csv."""
        return Estimate.of(choose(self._published, id, "id", "published.csv"))

    @reads("analytic")
    def analytic(self, case: str, quantity: str) -> Any:
        """What a case of analytic.yaml comes to: analytic("a-occupancy-64x64", "occupancy")."""
        cases = dict.fromkeys(name for name, _ in self._analytic)
        choose(cases, case, "case", "analytic.csv")
        of_case = {q: value for (name, q), value in self._analytic.items() if name == case}
        return choose(of_case, quantity, "quantity", f"analytic.csv: {case}")

    @reads("machine")
    def machine(self, key: str) -> Estimate | str:
        """An entry of machine.json, its ceilings' too: sm_count, l2_bytes, fp32_fma_tflops, dram_copy_gb_per_s, ..."""
        found = self._machine.measured.machine
        known = {**schema("machine")["properties"], **schema("machine")["properties"]["ceilings"]["properties"]}
        known.pop("ceilings")
        choose(known, key, "key", "machine.json")
        value = (found | found["ceilings"]).get(key)
        if value is None:
            raise Missing(f"machine.json has no {key}")
        return value if isinstance(value, str) else Estimate.of(value)

    @reads("inter_warp_conflicts")
    def inter_warp_conflicts(
        self,
        kernel: str,
        column: str,
        warps: Any = 8,
        blocks_per_sm: Any = 1,
        source: str | None = None,
        bits: Any = None,
    ) -> Estimate | str:
        """A column of inter_warp_conflicts.csv, of the first row with these values (source and bits: if given)."""
        wanted = {"kernel": kernel, "warps": whole(warps), "blocks_per_sm": whole(blocks_per_sm)}
        wanted |= {"source": source} if source is not None else {}
        wanted |= {"bits": whole(bits)} if bits is not None else {}
        words = "of " + ", ".join(f"{name} = {value}" for name, value in wanted.items())
        row = self._first("inter_warp_conflicts", wanted, words, kernel)
        choose(dict.fromkeys(row.index), column, "column", "inter_warp_conflicts.csv")
        return _cell(row, column, f"inter_warp_conflicts.csv has no {column} of {kernel}")

    @reads("smem_microbench")
    def bank_wavefronts(self, access: str, pattern: str) -> Estimate:
        """Wavefronts of one access to shared memory, as measured: bank_wavefronts("ld_32", "stride 32")."""
        wanted = {"access": access, "pattern": pattern}
        row = self._first("smem_microbench", wanted, f"of {access}, {pattern}")
        return Estimate.of(float(row["wavefronts"]))

    def _first(self, table: str, wanted: dict[str, Any], words: str, variant: str | None = None) -> pd.Series:
        """The first row of a table with these values."""
        rows = self._machine.readable(self._machine.inputs.rows, table)
        for name, value in wanted.items():
            rows = rows[rows[name] == value]
        if rows.empty:
            raise Missing(f"{table}.csv has no row {words}", variant, measures(table))
        row: pd.Series = rows.iloc[0]
        return row

    @reads("timeline")
    def timeline(self, v: str, table: str, name: str, column: str) -> Estimate | str:
        """A cell of timeline.csv: timeline("sgemm_blocktile_2d", "kernel", "sgemm_blocktile_2d", "mean_us")."""
        rows = self._machine.rows("timeline")
        properties = schema("timeline")["properties"]
        choose(properties, column, "column", "timeline.csv")
        choose(dict.fromkeys(properties["table"]["enum"]), table, "table", "timeline.csv")
        choose(self._machine.variants, v, "variant", "kernels/catalogue.yaml")
        rows = rows[(rows["variant"] == v) & (rows["table"] == table)]
        exact = rows[rows["name"] == name]
        rows = exact if len(exact) else rows[rows["name"].str.contains(rf"\b{re.escape(name)}\b", regex=True)]
        asked = f"{v}, {table}, {name}"
        if len(rows) != 1:
            found = f"{len(rows) or 'no'} row{'s' * (len(rows) > 1)}"
            raise Missing(f"timeline.csv has {found} of {asked}", v, measures("timeline"))
        if rows.iloc[0]["stale"]:
            words = f"stale: the source of {v} changed since timeline.csv was made"
            raise Missing(words, v, measures("timeline"))
        return _cell(rows.iloc[0], column, f"timeline.csv has no {column} of {asked}")

    # ---- the sweep over tiles ---------------------------------------------------------------------------------------

    def _sweep(self, kernel: str) -> autotune.Tuning:
        tuning = autotune.of(self._machine.inputs)
        if tuning is None:
            raise Missing("no sweep over tiles: there is no tuning.csv", command=measures("tuning"))
        choose(autotune.FOLLOWS, kernel, "kernel", "experiments/tuning/tile_autotune.yaml")
        if kernel not in tuning.record["kernels"]:
            raise Missing(f"tuned.json has no {kernel}", kernel, measures("tuning"))
        if tuning.stale(kernel):
            words = f"stale: the source of {kernel} changed since tuning.csv was made"
            raise Missing(words, kernel, measures("tuning"))
        return tuning

    @reads("tuning")
    def tuned(self, column: str, kernel: str = "sgemm_autotuned") -> Estimate:
        """A template value of the sweep's winner: BM, BN, BK, TM, TN (of sgemm_warptile also WM, WN, WNITER)."""
        values = self._sweep(kernel).record["kernels"][kernel]["template"]
        return Estimate.of(choose(values, column, "tile parameter", "tuned.json"))

    @reads("tuning")
    def tile_share(self, kernel: str = "sgemm_autotuned", n: Any = 4096, **tile: Any) -> Estimate:
        """The best share of cuBLAS (a fraction) among the swept tiles with these parameters: BM, BN, ..., threads."""
        return Estimate.of(float(self._tiles(kernel, n, tile)["share_of_cublas"].astype(float).max()))

    @reads("tuning")
    def tile_tflops(self, kernel: str = "sgemm_autotuned", n: Any = 4096, **tile: Any) -> Estimate:
        """The best TFLOP/s among the swept tiles with these parameters."""
        return Estimate.of(float(self._tiles(kernel, n, tile)["tflops"].astype(float).max()))

    @reads("tuning")
    def tile(self, column: str, kernel: str = "sgemm_autotuned", n: Any = 4096, **tile: Any) -> Estimate | str:
        """A column of tuning.csv (registers, occupancy, shared_bytes, BK, ...) of the fastest such tile."""
        choose(schema("tuning")["properties"], column, "column", "tuning.csv")
        return _cell(self._tiles(kernel, n, tile).iloc[0], column, f"tuning.csv has no {column} there")

    def _tiles(self, kernel: str, n: Any, tile: dict[str, Any]) -> pd.DataFrame:
        rows = self._sweep(kernel).of(kernel)
        rows = rows[rows["size"].astype(float) == whole(n)]
        for name, value in tile.items():
            choose(dict.fromkeys(autotune.PARAMETERS), name, "tile parameter", "tuning.csv")
            rows = rows[rows[name].astype(float) == float(Estimate.of(value).value)]
        if rows.empty:
            words = ", ".join(f"{name} = {value}" for name, value in [("n", n), *tile.items()])
            raise Missing(f"tuning.csv has no timed tile of {kernel} with {words}", kernel, measures("tuning"))
        return rows

    @reads("tuning")
    def tile_count(self, valid: bool | None = None, kernel: str = "sgemm_autotuned") -> Estimate:
        """How many configurations the sweep had; with valid=True those that can be built, with valid=False the rest."""
        tuning = self._sweep(kernel)
        rows = tuning.rows[tuning.rows["kernel"] == kernel]
        if valid is not None:
            rows = rows[rows["valid"].astype(bool) == valid]
        return Estimate.of(len(rows))

    # ---- arithmetic -------------------------------------------------------------------------------------------------

    @of_names
    def fastest(self, values: dict[str, Estimate]) -> str:
        """The variant of the greatest value: fastest(a.share, b.share); two whose intervals meet come as "a or b"."""
        if len(values) < 2:
            raise UserError("fastest needs at least two variants")
        best = max(values.values(), key=lambda estimate: estimate.value)
        ranked = sorted(values, key=lambda name: -values[name].value)
        return " or ".join(name for name in ranked if values[name] is best or values[name].high >= best.low)

    def contains(self, text: Any, part: Any) -> Truth:
        """Whether a text has a part, as a comparison: contains(cublas_fp32.kernel, "splitk")."""
        if not (isinstance(text, str) and isinstance(part, str)):
            raise UserError(f"contains compares texts, not {text} and {part}")
        return Truth(part.lower() in text.lower(), f"{part!r} in {text}")

    def min_(self, *values: Any) -> Estimate:
        """The smallest of its arguments, or of a list."""
        return estimates.least(_several(values))

    def max_(self, *values: Any) -> Estimate:
        """The largest of its arguments, or of a list."""
        return estimates.greatest(_several(values))

    def sum_(self, *values: Any) -> Estimate:
        """The sum of its arguments, or of a list."""
        return estimates.total(_several(values))

    def mean(self, *values: Any) -> Estimate:
        """The mean of its arguments, or of a list: mean(v.share[n] for n in v.sizes)."""
        found = _several(values)
        return estimates.divide(estimates.total(found), len(found))

    def count(self, values: Any) -> Estimate:
        """How many comparisons of a list are true: count(v.share[n] > 1 for n in v.sizes)."""
        if not isinstance(values, tuple) or not all(isinstance(one, Truth) for one in values):
            raise UserError("count takes a list of comparisons")
        return Estimate.of(sum(one.holds is True for one in values))

    def abs_(self, value: Any) -> Estimate:
        """Without its sign."""
        return abs(Estimate.of(value))

    def log2(self, value: Any) -> Estimate:
        """Logarithm to base two."""
        if Estimate.of(value).low <= 0:
            raise Undefined(f"log2 of {value}, which may not be above zero")
        return Estimate.of(value).map(math.log2)


def _cell(row: pd.Series, column: str, missing: str) -> Estimate | str:
    """A number or a text of a table. Raises `Missing` for an empty cell."""
    value = row[column]
    if isinstance(value, str):
        return value
    if pd.isna(value):
        raise Missing(missing)
    return Estimate.of(float(value))


def _several(values: tuple[Any, ...]) -> list[Any]:
    found = list(values[0]) if len(values) == 1 and isinstance(values[0], (tuple, list)) else list(values)
    if not found:
        raise UserError("nothing to choose from")
    return found
