"""Numbers of one GPU by name, for claims, findings, README and explorer alike.

    numbers = Numbers(results)
    numbers.value("sgemm_warptile", "fraction", n=8192)             # an Estimate: 0.817 [0.816, 0.818]
    numbers.evaluate('fraction(sgemm_warptile) > 0.9')              # a Truth: false
    numbers.evaluate('speedup(sgemm_coalesced, over=sgemm_naive)')

An expression is Python's: names of the catalogue's variants, arithmetic, comparisons joined by
`and`, `or` and `not`, lists, and as functions every quantity, every counter (analysis.counters) and
what `Numbers.functions` lists. An undecided comparison stays undecided: it is neither true nor
false to `and`. What this GPU's tables lack, or have only of an older source, raises `Missing`.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pandas as pd
import simpleeval

from analysis import counters, estimates
from analysis.estimates import Estimate, Missing, Truth
from analysis.results import Results, best_measured, squares
from analysis.timings import POWER, POWERS, RANGES, SINGLE_PROCESS
from contracts import UserError, choose
from contracts.rows import TABLES

SIZE = 4096  # n where none is given: the size that the experiments profile
# Columns of timings with an interval, and those without: a quantity of the same name each
TIMED = RANGES
PLAIN = ("time_isolated_us", "temperature_c", "throttle_reasons", "clock_held")
BUILT: tuple[str, ...] = (
    "registers",
    "shared_bytes",
    "stack_bytes",
    "spill_bytes",
    "threads",
    "blocks_per_sm",
)
BUILT += ("occupancy", "limiter", "sass_total", "ffma", "hmma", "ldgsts", "ldsm", "bar", "tex")
BUILT += tuple(
    f"{access}_{bits}" for access in ("lds", "sts", "ldg", "stg") for bits in (32, 64, 128)
)
# columns of tuning.csv that another round changes
SPEEDS = ("time_us", "tflops", "fraction_of_cublas")
# Units of quantities that are neither counters nor counts (`unit_of`).
OF_ONE = ("fraction", "fraction_per_clock", "fraction_of_cublas", "occupancy")
UNITS = dict.fromkeys(OF_ONE, "fraction") | {
    "tflops": "TFLOP/s",
    "fp32_fma_tflops": "TFLOP/s",
    "time_us": "µs",
    "sm_clock_mhz": "MHz",
    "sm_clock_max_mhz": "MHz",
    "power_w": "W",
    "power_limit_w": "W",
    "gflop_per_j": "GFLOP/J",
    "flop_per_clock_sm": "FLOP/clock/SM",
    "minimum_cycles": "cycles",
    "degree": "ways",
    "blocks_per_sm": "blocks per SM",
    "stores_need": "wavefronts",
    "sass_total": "instructions",
    "ffma": "FFMA",
}
COUNTED = (
    *("wavefronts", "sectors", "requests", "instructions", "conflicts"),
    *("bytes", "banks", "registers"),
)
PUBLISHED = {"x": "×", "us": "µs", "count": "", "index": "", "mask": ""}  # Units of published.csv.
MAX_EXPRESSION = 4000
MAX_TEXT = 40  # Characters of a text that a comparison shows.
ORDERS = {ast.Lt: operator.lt, ast.Gt: operator.gt, ast.LtE: operator.le, ast.GtE: operator.ge}

Value = TypeVar("Value", Estimate, Estimate | str)


class Numbers:
    """The numbers of one results folder.

    paper: tables of the worklogs that are of no GPU, by name: "published" (value by FOLDER/ID),
    "analytic" (value by FOLDER/CASE and quantity), "compiled" (rows of resources by variant and
    architecture), "emulated" (value by variant, size, beta and ncu's name).
    `analysis.claims.paper_tables` reads them. worklog: the folder in which an id without one is
    looked for.
    """

    def __init__(
        self,
        results: Results,
        paper: Mapping[str, Mapping[Any, Any]] | None = None,
        worklog: str = "",
    ) -> None:
        self.results, self.paper, self.worklog = results, paper or {}, worklog
        self.known = {row["variant"]: row for row in results.variants.to_dict("records")}
        self.failed = set(results.failed["variant"])

    # ---- quantities ------------------------------------------------------------------------------

    def value(self, variant: str, quantity: str, n: int = SIZE, **selectors: Any) -> Estimate | str:
        """A quantity of a variant at m = n = k.

        selectors, where a quantity has them: data ("uniform", "normal", "zeros"), experiment,
        clock_policy ("boost", "locked"), arch (of the build, "sm_86"), beta, device ("gpu" or
        "ptxsim": who counted). Raises `UserError` for a name that is none, `Missing` for what this
        GPU does not have.
        """
        self._checked(variant)
        if quantity in (*TIMED, *PLAIN):
            return self._timed(variant, quantity, n, **selectors)
        is_built = self.known[variant]["kind"] != "baseline" and not selectors.get("device")
        if quantity in BUILT and is_built:
            return self._built(variant, quantity, **selectors)
        known = dict.fromkeys([*counters.COUNTERS, "kernel"])
        choose(known, quantity, "quantity", "analysis/numbers.py")
        return self._counted(variant, quantity, n, **selectors)

    def _checked(self, variant: str) -> str:
        """A variant's name. Raises `UserError` for one that is none, `Missing` for one that failed
        a check.
        """
        choose(self.known, variant, "variant", "kernels/catalogue.yaml")
        if variant in self.failed:
            raise Missing(f"{variant} failed a check")
        return variant

    def _timed(
        self,
        variant: str,
        quantity: str,
        n: int,
        data: str = "uniform",
        experiment: str | None = None,
        clock_policy: str = "boost",
    ) -> Estimate | str:
        row = self._timing(variant, n, data, experiment, clock_policy, quantity)
        if quantity in TIMED and not math.isnan(row[quantity]):
            return timed(row, quantity)
        return _cell(row, quantity, f"no {quantity} of {variant}, n = {n}, {data}, {clock_policy}")

    def _timing(
        self,
        variant: str,
        n: int,
        data: str,
        experiment: str | None = None,
        clock_policy: str = "boost",
        quantity: str = "fraction",
    ) -> pd.Series:
        """The best row of `best_measured` that has the quantity: not every experiment reads the
        power.
        """
        rows = self._timings(variant, data, clock_policy)
        rows = rows[rows["n"] == n]
        if experiment is not None:
            rows = rows[rows["experiment"] == experiment]
        where = f", in {experiment}" if experiment else ""
        words = f"{variant}, n = {n}, {data}, {clock_policy}{where}"
        rows = known if len(known := rows[rows[quantity].notna()]) else rows
        return self._first(rows, f"no timing of {words}")

    @functools.cache  # noqa: B019 - as long as the object itself
    def _timings(self, variant: str, data: str, clock_policy: str) -> pd.DataFrame:
        """Timings of one variant, in the order of `best_measured`."""
        rows = self.results.squares
        rows = rows[(rows["variant"] == variant) & (rows["data"] == data)]
        return best_measured(rows[rows["clock_policy"] == clock_policy])

    def _built(self, variant: str, quantity: str, arch: str | None = None) -> Estimate | str:
        if arch is not None:
            row = self.paper.get("compiled", {}).get((variant, arch))
            if row is None:
                raise Missing(f"{variant} was not compiled for {arch}")
            return _cell(pd.Series(row), quantity, f"no {quantity} of {variant} for {arch}")
        rows = self.results.table("resources")
        row = self._first(rows[rows["variant"] == variant], f"{variant} was not built")
        return _cell(row, quantity, f"no {quantity} of {variant}")

    def _counted(
        self, variant: str, quantity: str, n: int, device: str = "gpu", beta: float = 0.0
    ) -> Estimate | str:
        words = f"{quantity} of {variant} at n = {n}" + (f" with beta = {beta:g}" if beta else "")
        if beta:
            return self._with_beta(variant, quantity, n, device, beta, words)
        choose(dict.fromkeys(("gpu", "ptxsim")), device, "device", quantity)
        rows = self.results.counters if device == "gpu" else self.results.predictions
        rows = rows[(rows["variant"] == variant) & (rows["n"] == n)]
        row = self._first(rows, f"no counters: {words}")
        return _cell(row, quantity, f"not counted: {words}")

    def _with_beta(
        self, variant: str, quantity: str, n: int, device: str, beta: float, words: str
    ) -> Estimate:
        """Counters of the few problems that read C, too: measured, or the emulator's in the
        worklog's own table.
        """
        counter = counters.COUNTERS.get(quantity)
        ncu = counter.ncu if counter else ""
        if device == "ptxsim":
            value = self.paper.get("emulated", {}).get((variant, n, beta, ncu))
            if value is None:
                raise Missing(f"not emulated: {words}")
            return Estimate.of(value)
        rows = self.results.table("counters_with_beta")
        rows = squares(rows[rows["beta"] == beta].drop(columns="beta"))
        rows = rows[(rows["variant"] == variant) & (rows["n"] == n) & (rows["metric"] == ncu)]
        row = self._first(rows, f"not counted: {words}")
        return Estimate.of(float(row["value"]) * counters.SCALE.get(row["unit"], 1.0))

    def _first(self, rows: pd.DataFrame, missing: str) -> pd.Series:
        """The first row. Raises `Missing` where there is none."""
        if rows.empty:
            raise Missing(missing)
        return rows.iloc[0]

    # ---- functions of an expression, besides the quantities --------------------------------------

    def speedup(self, variant: str, over: str, n: int = SIZE, data: str = "uniform") -> Estimate:
        """How many times as fast a variant is as another: the ratio of their fractions of cuBLAS,
        interleaved.

        Without one baseline in common, the ratio of their interleaved times.
        """
        ours, theirs = (self._timing(self._checked(name), n, data) for name in (variant, over))
        return replace(gain(ours, theirs), unit="×")

    def same_gpu(
        self,
        quantity: str,
        variant: str,
        over: str | None = None,
        n: int = SIZE,
        data: str = "uniform",
        over_data: str | None = None,
    ) -> Estimate:
        """A quantity of a variant over that of another, or of itself on other data, GPU by GPU.

        Two GPUs of one model clock differently and draw different power, so medians are divided on
        each GPU that measured both. The value is the median over GPUs, and the interval their range;
        of a lone GPU that of its processes, and of a single process the spread between GPUs.
        """
        choose(dict.fromkeys(RANGES), quantity, "quantity", "same_gpu")
        pairs = [(variant, data), (over or variant, over_data or data)]
        ours, theirs = (self._by_gpu(*pair, quantity, n) for pair in pairs)
        gpus = [gpu for gpu in ours if gpu in theirs]
        if not gpus:
            words = " and ".join(" on ".join(pair) for pair in pairs)
            raise Missing(f"no GPU measured {quantity} of both {words}, n = {n}")
        ratios = [ours[gpu].median() / theirs[gpu].median() for gpu in gpus]
        ends = ratios
        if len(gpus) == 1:
            above, below = ours[gpus[0]], theirs[gpus[0]]
            ends = [above.min() / below.max(), above.max() / below.min()]
            if 1 in (len(above), len(below)):
                dtype = self.known[variant]["dtype"]
                spread = POWER if quantity in POWERS else SINGLE_PROCESS[dtype]
                ends = [ratios[0] * (1 - spread), ratios[0] * (1 + spread)]
        return Estimate.around(float(statistics.median(ratios)), map(float, ends))

    def _by_gpu(self, variant: str, data: str, quantity: str, n: int) -> dict[Any, pd.Series]:
        """A quantity in each process of each GPU that measured it; by session."""
        rows = squares(self.results.by_process)
        rows = rows[(rows["variant"] == self._checked(variant)) & (rows["data"] == data)]
        rows = rows[(rows["clock_policy"] == "boost") & (rows["n"] == n) & rows[quantity].notna()]
        rows = rows.assign(session=rows["session"].fillna(""))
        # a measurement that several experiments ask for is in each
        rows = rows.drop_duplicates(["session", "process", quantity])
        return {gpu: group[quantity] for gpu, group in rows.groupby("session")}

    def sizes(
        self, variant: str, data: str = "uniform", experiment: str | None = None
    ) -> list[int]:
        """The sizes at which a variant was timed, ascending."""
        choose(self.known, variant, "variant", "kernels/catalogue.yaml")
        rows = self._timings(variant, data, "boost")
        rows = rows if experiment is None else rows[rows["experiment"] == experiment]
        if rows.empty:
            raise Missing(f"no timing of {variant}")
        return sorted(int(n) for n in rows["n"].unique())

    def fractions(self, variant: str, experiment: str, m: int | None = None) -> list[Estimate]:
        """The fraction of cuBLAS, interleaved, of each problem of an experiment, of any shape; `m`:
        those with it.
        """
        rows = self.results.timings
        rows = rows[rows["variant"] == self._checked(variant)]
        rows = rows[rows["experiment"] == experiment]
        rows = rows[(rows["data"] == "uniform") & (rows["clock_policy"] == "boost")]
        rows = rows if m is None else rows[rows["m"] == Estimate.of(m).value]
        words = f"no timing of {variant} in {experiment}" + (f" with m = {m}" if m else "")
        self._first(rows, words)
        return [in_unit_of("fraction", timed(row, "fraction")) for row in rows.to_dict("records")]

    def minimum_cycles(self, variant: str, resource: str, n: int = SIZE) -> Estimate:
        """Cycles of an SM that a unit needs at least, by the emulator's count of its work.

        A unit without work has no row. Where not even `issue` has one, executions are estimates and
        none are told.
        """
        rows = squares(self.results.table("bounds"))
        rows = rows[(rows["variant"] == variant) & (rows["n"] == n)]
        self._first(rows, f"no minimum cycles of {variant} at n = {n}")
        cycles = rows.loc[rows["resource"] == resource, "minimum_cycles"]
        if cycles.empty and "issue" not in set(rows["resource"]):
            raise Missing(f"the {resource} cycles of {variant} at n = {n} are an estimate")
        least = float(cycles.iloc[0]) if len(cycles) else 0.0
        return in_unit_of("minimum_cycles", Estimate.of(least))

    def cell(self, table: str, column: str, **where: Any) -> Estimate | str:
        """A cell of a recorded table: of the only row, or the first one, with these values in other
        columns.

        cell("bounds", "minimum_cycles", variant="sgemm_naive", n=4096, resource="dram")
        cell("machine", "sm_count")                                              # of machine.json
        """
        if table == "machine":
            machine = self.results.machine
            known = vars(machine) | vars(machine.ceilings)
            value = _cell(pd.Series(known), column, f"machine.json has no {column}")
            return in_unit_of(column, value)
        row = self._rows(table, column, where).iloc[0]
        words = ", ".join(f"{name} = {value}" for name, value in where.items())
        return in_unit_of(column, _cell(row, column, f"{table} has no {column} of {words}"))

    def values(self, table: str, column: str, **where: Any) -> list[int]:
        """The integers in a column of a recorded table, ascending: of the rows with these values in
        other columns.

        values("timing_methods", "n", variant="cublas_fp32", protocol="sgemm_cu")
        """
        return sorted({int(value) for value in self._rows(table, column, where)[column]})

    def _rows(self, table: str, column: str, where: Mapping[str, Any]) -> pd.DataFrame:
        """The rows of a recorded table with these values, of which there is one at least."""
        of_variants = "variant" in choose(TABLES, table, "table", "cell").model.model_fields
        rows = self.results.table(table) if of_variants else self.results.raw(table)
        if rows.empty:
            raise Missing(f"{table} was not measured")
        for name in (column, *where):
            choose(dict.fromkeys(rows.columns), name, "column", table)
        for name, value in where.items():
            rows = rows[rows[name] == (value.value if isinstance(value, Estimate) else value)]
        words = ", ".join(f"{name} = {value}" for name, value in where.items())
        self._first(rows, f"{table} has no row of {words}")
        return rows

    def tile(
        self, column: str, kernel: str = "sgemm_autotuned", n: int = SIZE, **where: int
    ) -> Estimate:
        """A column of the fastest tile of a sweep with these parameters: tile("fraction_of_cublas",
        BM=128, BK=16).

        Speeds have the range over the rounds in which the tile was timed, or the spread between
        GPUs after one round.
        """
        rows = self.results.raw("tuning")
        rows = rows[(rows["kernel"] == kernel) & (rows["size"] == n)]
        if len(rows) and self.known[kernel]["source_hash"] not in set(rows["source_hash"]):
            raise Missing(f"the sweep over tiles has {kernel} of an older source only")
        rows = rows[rows["tflops"].notna() & (rows["checked"] == True)]  # noqa: E712 - it may be empty
        for name, value in where.items():
            choose(dict.fromkeys(rows.columns), name, "column", "tuning.csv")
            rows = rows[rows[name] == Estimate.of(value).value]
        if rows.empty:
            words = ", ".join([f"n = {n}", *(f"{name} = {value}" for name, value in where.items())])
            raise Missing(f"the sweep over tiles has no timed tile of {kernel} with {words}")
        choose(dict.fromkeys(rows.columns), column, "column", "tuning.csv")
        parameters = ["BM", "BN", "BK", "WM", "WN", "WNITER", "TM", "TN", "threads"]
        tiles = rows.groupby(parameters, dropna=False)
        best = tiles.get_group(tiles["fraction_of_cublas"].median().idxmax())[column].astype(float)
        spread = SINGLE_PROCESS["fp32"] if column in SPEEDS and len(best) == 1 else 0.0
        ends = best.min() * (1 - spread), best.max() * (1 + spread)
        return in_unit_of(column, Estimate.around(float(best.median()), ends))

    def published(self, id: str) -> Estimate:
        """A worklog's number, by its id in published.csv: of this worklog, or of another with its
        folder.
        """
        known = self.paper.get("published", {})
        value = Estimate.of(choose(known, self._full(id), "id", "published.csv"))
        unit = self.paper.get("units", {}).get(self._full(id), "")
        return replace(value, unit=PUBLISHED.get(unit, unit))

    def analytic(self, case: str, quantity: str) -> Estimate | str:
        """What a case of a worklog's analytic.yaml comes to: analytic("smem-tile-sm86",
        "occupancy").
        """
        name, table = self._full(case), self.paper.get("analytic", {})
        choose({known: None for known, _ in table}, name, "case", "analytic.csv")
        of_case = {key: value for (known, key), value in table.items() if known == name}
        value = choose(of_case, quantity, "quantity", name)
        return value if isinstance(value, str) else in_unit_of(quantity, Estimate.of(value))

    def _full(self, id: str) -> str:
        return id if "/" in id or not self.worklog else f"{self.worklog}/{id}"

    # ---- expressions -----------------------------------------------------------------------------

    @functools.cached_property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """What an expression may call."""
        quantities = dict.fromkeys([*TIMED, *PLAIN, *BUILT, *counters.COUNTERS, "kernel"])
        functions: dict[str, Callable[..., Any]] = {
            name: functools.partial(self._quantity, name) for name in quantities
        }
        others: list[Callable[..., Any]] = [
            self.speedup,
            self.same_gpu,
            self.sizes,
            self.cell,
            self.values,
        ]
        others += [self.fractions, self.minimum_cycles, self.tile, self.published, self.analytic]
        functions |= {function.__name__: function for function in others}
        functions |= {"rounds_to": rounds_to, "contains": contains}
        functions |= {"count": count, "range": range}
        functions |= {"min": _over(estimates.smallest), "max": _over(estimates.largest)}
        functions |= {"mean": _over(estimates.mean), "abs": lambda value: abs(Estimate.of(value))}
        return functions | {"geometric_mean": _over(estimates.geometric_mean)}

    def _quantity(self, quantity: str, variant: str, **selectors: Any) -> Estimate | str:
        return in_unit_of(quantity, self.value(variant, quantity, **selectors))

    def evaluate(self, expression: str) -> Any:
        """The value of an expression: an Estimate, a Truth or a text.

        Raises `UserError` for what is no expression, and `Missing`.
        """
        text = " ".join(str(expression).split())
        if len(text) > MAX_EXPRESSION:
            long = f"an expression of {len(text)} characters is not allowed"
            raise UserError(f"{long}; allowed: {MAX_EXPRESSION}")
        names = {name: name for name in self.known}
        evaluator = _Evaluator(functions=self.functions, names=names)
        try:
            value = evaluator.eval(text)
        except (Missing, UserError):
            raise
        except simpleeval.NameNotDefined as error:
            return choose(self.known, error.name, "variant", repr(text))
        except simpleeval.FunctionNotDefined as error:
            return choose(self.functions, error.func_name, "function", repr(text))
        except Exception as error:  # simpleeval's, and those of Python's operators and calls
            raise UserError(f"{text!r} is not allowed: {error}") from error
        plain = isinstance(value, (int, float)) and not isinstance(value, bool)
        return Estimate.of(value) if plain else value


def unit_of(quantity: str) -> str:
    """The unit of a quantity or column by its name, "fraction" of one, "" where it has none."""
    last = quantity.rpartition("_")[2]
    if re.fullmatch(r"(ld|st)[gs]_\d+", quantity):
        return "instructions"
    counter = counters.COUNTERS.get(quantity)
    unit = UNITS.get(quantity) or (counter.unit if counter else "")
    return unit or (last if last in COUNTED else "")


def in_unit_of(quantity: str, value: Value) -> Value:
    """The value with the unit of its quantity; a text as it is."""
    return value if isinstance(value, str) else replace(value, unit=unit_of(quantity))


def timed(row: Any, quantity: str) -> Estimate:
    """A quantity of `TIMED` of a timing, with its interval. row: a mapping with the columns of
    `analysis.timings`.
    """
    return Estimate(*(float(row[f"{quantity}{end}"]) for end in ("", "_low", "_high")))


def gain(after: Any, before: Any) -> Estimate:
    """How many times as fast a timing is as another: of their fractions of one baseline, else of
    their times.
    """
    if after["baseline"] == before["baseline"]:
        return timed(after, "fraction") / timed(before, "fraction")
    return timed(before, "time_us") / timed(after, "time_us")


class _Evaluator(simpleeval.EvalWithCompoundTypes):  # type: ignore[misc]  # simpleeval has no types
    """Python's expressions over `Estimate` and `Truth`, whose `and`, `or`, `not` and `==` keep what
    is undecided.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.operators |= {ast.Eq: _same, ast.Not: estimates.not_}
        self.operators |= {node: _ordered(compare) for node, compare in ORDERS.items()}
        self.operators.pop(ast.NotEq)
        self.nodes[ast.BoolOp] = self._joined

    def _joined(self, node: ast.BoolOp) -> Truth:
        join = estimates.all_of if isinstance(node.op, ast.And) else estimates.any_of
        return join(*(self._eval(part) for part in node.values))


def _ordered(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison that shows its left side on the left, also where that is a plain number."""

    def call(ours: Any, wanted: Any) -> Any:
        return compare(Estimate.of(ours) if isinstance(wanted, Estimate) else ours, wanted)

    return call


def _same(ours: Any, wanted: Any) -> Truth:
    """Whether two texts, or two exact numbers, are the same: to the nine digits of the tables."""
    if isinstance(wanted, str):
        equal = str(ours) == wanted
        words = wanted if equal else f"{ours}, not {wanted}"
        return Truth(equal, words, str(ours), wanted, str(ours))
    ours, wanted = Estimate.of(ours), Estimate.of(wanted)
    same = math.isclose(ours.value, wanted.value, rel_tol=1e-6)
    apart = ours.high < wanted.low or wanted.high < ours.low
    exact = ours.low == ours.high and wanted.low == wanted.high
    holds = same if exact else (False if apart else None)
    return estimates.compared(holds, ours, "=", wanted)


def _over(function: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """A function of several values, which takes them as arguments or as one list."""

    def call(*values: Any) -> Any:
        one_list = len(values) == 1 and isinstance(values[0], (list, tuple))
        several = list(values[0] if one_list else values)
        if not several:
            raise Missing("nothing to choose from")
        return function(several)

    return call


def rounds_to(ours: Any, theirs: Any, digit: float) -> Truth:
    """Whether ours, rounded as a text rounds, is theirs: rounds_to(268.2, 268, digit=1)."""
    ours, theirs, half = Estimate.of(ours), Estimate.of(theirs), digit * (0.5 + 1e-9)
    inside = abs(ours - theirs)
    holds = True if inside.high <= half else False if inside.low > half else None
    return estimates.compared(holds, ours, "=", theirs, end=f" to the nearest {digit:g}")


def count(truths: list[Truth]) -> Estimate:
    """How many comparisons of a list hold; its interval counts undecided ones as either."""
    holds = [truth.holds for truth in truths]
    return Estimate(holds.count(True), holds.count(True), len(holds) - holds.count(False))


def contains(text: Any, part: str) -> Truth:
    """Whether a text has a part, in whichever case."""
    excerpt = str(text) if len(str(text)) <= MAX_TEXT else f"{str(text)[: MAX_TEXT - 3]}..."
    inside = part.lower() in str(text).lower()
    return Truth(inside, f"{part!r} in {excerpt}", excerpt, part, excerpt)


def _cell(row: pd.Series, column: str, missing: str) -> Estimate | str:
    """A number or a text of a row.

    Raises `Missing` for an empty cell, or a column that the row does not have.
    """
    value = row.get(column)
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        raise Missing(missing)
    return Estimate.of(float(value))
