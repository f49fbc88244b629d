"""Quantities of one machine: the rows of its tables, looked up by variant and selectors.

What no machine could have (an unknown variant, quantity or selector) is a `UserError`; what this one lacks, or has only
of an older source, is `Missing`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import data
from analysis.inputs import Inputs, archived_folders
from analysis.metrics import with_derived
from analysis.quantities.estimates import Estimate
from analysis.quantities.registry import Quantity, Value, quantities
from contracts import UserError, choose, load_yaml, registry, schema

SIZE = 4096  # n where none is given: what the experiments profile
Row = dict[str, Any]
Rows = dict[tuple[Any, ...], list[Row]]
KEYS: dict[str, tuple[str, ...]] = {  # by what a table's rows are looked up, besides the variant
    "bench": ("n", "data", "regime"),
    **dict.fromkeys(("counters", "predictions", "bounds", "dispatch", "error_over_k"), ("n",)),
    "counters_with_beta": ("n", "beta", "metric"),
    "checks": ("device",),
    "sanitizer": ("tool",),
    "timing_methods": ("n", "protocol"),
}


class Unreadable(UserError):
    """A table that cannot be read, which is no fault of what asks for it."""


class Missing(Exception):
    """What a machine's tables do not have, or have only of another source. `variant`: whose it is, if it is of one;
    `command`: what would measure it, on a machine with its GPU."""

    def __init__(self, message: str, variant: str | None = None, command: str | None = None):
        super().__init__(message)
        self.variant, self.command = variant, command


@dataclass(frozen=True)
class Asked:
    """Whose quantity, and the row that it is of."""

    variant: str
    n: int = SIZE
    data: str = "uniform"
    experiment: str | None = None
    regime: str = "unlocked"
    device: str = "gpu"
    arch: str | None = None
    beta: float = 0.0
    over: str | None = None
    protocol: str | None = None
    tool: str = "memcheck"
    machine: str | None = None

    def __str__(self) -> str:
        return f"{self.variant} at n = {self.n}"

    @property
    def timing(self) -> str:
        """Which timing: variant, size, clocks, data and experiment in words."""
        return f"{self}, {self.regime}, {self.data}" + (f", in {self.experiment}" if self.experiment else "")


def measures(table: str, asked: Asked | None = None) -> str | None:
    """The command that makes these rows of a table; None where no target does."""
    if table == "bench" and asked is not None and asked.regime == "locked":
        return "snakemake --cores 1 all --config lock_clocks=true"
    if table == "bench" and asked is not None:
        fits = {name: sum(_fit(one, asked)) for name, one in _plans().items() if asked.variant in one["variants"]}
        name = asked.experiment or max(fits, key=lambda name: fits[name], default=None)
        return f"snakemake --cores 1 {name}" if name else None
    made = registry.tables().get(table)
    return None if made is None or made.target == "by hand" else f"snakemake --cores 1 {made.target}"


def _fit(experiment: Row, asked: Asked) -> tuple[bool, bool]:
    """Whether an experiment has these data and this size."""
    sizes = experiment.get("sizes") or []
    if isinstance(sizes, dict):
        sizes = range(sizes["first"], sizes["last"] + 1, sizes["step"])
    return asked.data in experiment.get("data", ["uniform"]), asked.n in sizes


@functools.cache
def _plans() -> dict[str, Row]:
    """The experiments' files by name."""
    return {name: load_yaml(Path("experiments", f"{name}.yaml")) for name in experiments()}


def rows_of(table: pd.DataFrame) -> list[Row]:
    """The rows, by column."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def experiments() -> list[str]:
    """Every experiment that an expression may name, whether it takes part in a run or not."""
    return [path.stem for path in sorted(Path("experiments").glob("*.yaml"))]


def grouped(rows: Iterable[Row], *keys: str) -> Rows:
    """Rows by the values of these columns, in order."""
    found: Rows = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


class Machine:
    """One machine's quantities. compiled: what nvcc makes of a kernel for another GPU, by variant and architecture;
    emulated: counters of problems that no GPU counted, by (variant, size, beta, ncu's name); both are the paper's."""

    def __init__(
        self,
        inputs: Inputs,
        compiled: Mapping[tuple[str, str], Row] | None = None,
        emulated: Mapping[tuple[str, int, float, str], float] | None = None,
    ):
        self.inputs, self.measured = inputs, inputs.measured()
        self.compiled, self.emulated = compiled or {}, emulated or {}
        self.variants: dict[str, Row] = {row["variant"]: row for row in rows_of(self.measured.variants)}
        self.failed = set(self.measured.failed["variant"])
        self.experiments = experiments()
        self._values: dict[tuple[str, Asked], Value] = {}

    @property
    def name(self) -> str:
        return str(self.measured.provenance["machine"])

    @cached_property
    def archives(self) -> dict[str, Inputs]:
        """The tables of each archived machine by its name, with the catalogue of today."""
        runs = map(self.inputs.run_in, self.inputs.archives or archived_folders())
        return {run.document("provenance")["machine"]: run for run in runs}

    @functools.cache  # noqa: B019 - as long as the machine itself
    def other(self, name: str) -> Machine:
        """An archived machine. Raises `UserError` for a name that is none."""
        return Machine(choose(self.archives, name, "machine", "data/"), self.compiled, self.emulated)

    # ---- values -----------------------------------------------------------------------------------------------------

    def value(self, variant: str, key: str, **selectors: Any) -> Value:
        """A quantity of a variant, of the current source, here or on another `machine`. Raises `Missing` where there is
        none."""
        asked = self.asked(variant, key, **selectors)
        if asked.machine not in (None, self.name):
            try:
                return self.other(str(asked.machine)).value(variant, key, **selectors)
            except Missing as missing:
                raise Missing(f"on {asked.machine}: {missing}", missing.variant, missing.command) from missing
        if variant in self.failed:
            raise Missing(f"{variant} failed a check here", variant)
        if (key, asked) not in self._values:
            self._values[key, asked] = Reading(self, quantities()[key], asked).current
        return self._values[key, asked]

    def marked(self, variant: str, key: str, n: int = SIZE) -> Value | None:
        """The same for a table that marks stale values; None where there is none."""
        try:
            return Reading(self, quantities()[key], Asked(variant, n)).value
        except Missing:
            return None

    def plain(self, variant: str, key: str, n: int = SIZE) -> Any:
        """The same without its interval: a number, a text or None."""
        found = self.marked(variant, key, n)
        return found.value if isinstance(found, Estimate) else found

    def stale(self, variant: str, key: str, n: int = SIZE) -> bool:
        """Whether the kernel's source changed after this value was measured."""
        try:
            return bool(Reading(self, quantities()[key], Asked(variant, n)).row["stale"])
        except Missing:
            return False

    def asked(self, variant: str, key: str, **selectors: Any) -> Asked:
        """What a reference asks for. Raises `UserError` for what no machine has."""
        choose(self.variants, variant, "variant", "kernels/catalogue.yaml")
        quantity = choose(quantities(), key, "quantity", "the registry of quantities")
        for name, value in selectors.items():
            choose(dict.fromkeys(quantity.allowed), name, "selector", key)
            if name == "machine" and value != self.name:
                choose(self.archives, value, "machine", "data/")
            elif name in ("data", "regime"):
                choose(dict.fromkeys(schema("bench")["properties"][name]["enum"]), value, name, "bench.csv")
            elif name == "device":
                choose(dict.fromkeys(schema("checks")["properties"]["device"]["enum"]), value, "device", "checks.csv")
            elif name == "experiment":
                choose(dict.fromkeys(self.experiments), value, "experiment", "experiments/")
            elif name == "over":
                choose(self.variants, value, "variant", "kernels/catalogue.yaml")
        for name in quantity.selectors:
            if name not in selectors:
                raise UserError(f"{key} needs {name}: {variant}.{key}[{name}=...]")
        if "n" in selectors:
            selectors["n"] = whole(selectors["n"])
        return Asked(variant, **selectors)

    # ---- rows -------------------------------------------------------------------------------------------------------

    def rows(self, name: str) -> pd.DataFrame:
        """A table of variants by its name, described, empty where it is not there."""
        own = {"bench": self.measured.bench, "checks": self.measured.checks, "counters": self.measured.counters}
        return own[name] if name in own else self.readable(self.inputs.described, name)

    def readable(self, read: Callable[[str], pd.DataFrame], name: str) -> pd.DataFrame:
        """A table that need not be there: a side study's folder may be gone."""
        if name not in registry.tables():
            raise Missing(f"{name}.csv is of a side study whose folder is not there")
        try:
            return read(name)
        except UserError as error:
            raise Unreadable(str(error)) from error

    @cached_property
    def _indexed(self) -> dict[str, Rows]:
        return {}

    def index(self, name: str) -> Rows:
        """Rows of a table by what its quantities are looked up by, made once."""
        if name not in self._indexed:
            self._indexed[name] = self._index(name)
        return self._indexed[name]

    def _index(self, name: str) -> Rows:
        rows = self.rows(name)
        if {"m", "n", "k"} <= set(rows) and name != "checks":  # n speaks of squares
            rows = rows[(rows["m"] == rows["n"]) & (rows["n"] == rows["k"])]
        if name == "bench":  # current rows of the most samples first
            plain = data.squares(rows).sort_values(["stale", "samples", "experiment"], ascending=[True, False, True])
            return grouped(rows_of(plain), "variant", *KEYS[name])
        if name in ("counters", "predictions"):
            counted = with_derived(data.wide(rows, data.metric_names()))
            limits = counted.filter(regex="^blocks_by_")
            return grouped(rows_of(counted.assign(blocks_per_sm=limits.min(axis=1))), "variant", *KEYS[name])
        if name == "error_over_k":
            merged: Rows = {}
            for row in rows_of(rows):
                (one,) = merged.setdefault((row["variant"], row["k"]), [{"stale": row["stale"]}])
                one |= {f"error_{key}_{row['data']}": row[key] for key in ("rms", "worst")}
            return merged
        return grouped(rows_of(rows), "variant", *KEYS.get(name, ()))

    def missing(self, name: str, words: str, asked: Asked) -> Missing:
        """No such row, with the reason that provenance.json has for a table without any."""
        if name == "bench" and asked.regime == "locked":
            why = self.measured.reason("locked")
        else:
            stage = {"counters": "profile"}.get(name, name)
            why = self.measured.reason(stage) if self.rows(name).empty else None
        lacking = f"{name}.csv has no row of {words}" + (f" ({why})" if why else "")
        return Missing(lacking, asked.variant, measures(name, asked))


@dataclass(frozen=True)
class Reading:
    """One quantity of one variant on one machine: its row, and the value made of it."""

    machine: Machine
    quantity: Quantity
    asked: Asked

    @property
    def table(self) -> str:
        """Where the row is: of a library, whose build nobody sees, the counters give the resources that it took."""
        changed = {"device"} if self.asked.device != "gpu" else set()
        changed |= {"beta"} if self.asked.beta else set()
        changed |= {"arch"} if self.asked.arch else set()
        found = self.quantity.read_from(changed)
        library = self.machine.variants[self.asked.variant]["kind"] == "baseline"
        return "counters" if found == "resources" and library else found

    @cached_property
    def row(self) -> Row:
        """The row. Raises `Missing` where there is none."""
        table, asked, machine = self.table, self.asked, self.machine
        column = self.quantity.column or self.quantity.key
        if table == "compiled":
            row = machine.compiled.get((asked.variant, str(asked.arch)))
            if row is None:
                lacking = f"compiled.csv has no row of {asked.variant} for {asked.arch}"
                raise Missing(lacking, asked.variant, "python -m experiments.stages.compiled")
            return row | {"stale": False}
        if table == "emulated":
            value = machine.emulated.get((asked.variant, asked.n, asked.beta, column))
            if value is None:
                lacking = f"{asked.variant}, {column}, at n = {asked.n} and beta = {asked.beta:g}"
                command = "python -m experiments.emulation.other_problems"
                raise Missing(f"emulated.csv has no row of {lacking}", asked.variant, command)
            return {self.quantity.key: value, "stale": False}
        if table == "variants":
            return machine.variants[asked.variant] | {"stale": False}
        at = f"at n = {asked.n}"
        counter = f"{asked.variant}, {column}, {at}"
        words = {
            "bench": asked.timing,
            **dict.fromkeys(("counters", "predictions", "bounds"), counter),
            "counters_with_beta": f"{counter} and beta = {asked.beta:g}",
            "dispatch": str(asked),
            "error_over_k": f"{asked.variant} at k = {asked.n}",
            "checks": f"{asked.variant} on {asked.device}",
            "sanitizer": f"{asked.variant}, {asked.tool}",
            "timing_methods": f"{asked.variant}, {asked.protocol}, {at}",
        }.get(table, asked.variant)
        keys = [column if name == "metric" else getattr(asked, name) for name in KEYS.get(table, ())]
        rows = machine.index(table).get((asked.variant, *keys), [])
        if table == "bench" and asked.experiment is not None:
            rows = [row for row in rows if row["experiment"] == asked.experiment]
        if not rows or (table in ("counters", "predictions") and self._lacks(rows[-1])):
            raise machine.missing(table, words, asked)
        if table == "bounds":
            return self._bounds(rows, words)
        if table == "checks":
            rows = [row for row in rows if not pd.isna(row["worst_error_share"])]
            if not rows:
                raise machine.missing(table, words, asked)
            worst = max(float(row["worst_error_share"]) for row in rows)
            return {"check_worst": worst, "stale": any(row["stale"] for row in rows)}
        if table == "sanitizer":
            errors = sum(row["errors"] for row in rows)
            return {"sanitizer_errors": errors, "stale": any(row["stale"] for row in rows)}
        if table == "counters_with_beta":
            row = rows[0]
            return row | {self.quantity.key: float(row["value"]) * data.SCALE.get(row["unit"], 1.0)}
        return rows[0]

    def _lacks(self, row: Row) -> bool:
        """Whether a row of counters has not this one; what is made of several has none of its own."""
        return self.quantity.value is None and pd.isna(row.get(self.quantity.key))

    def _bounds(self, rows: list[Row], words: str) -> Row:
        """Least cycles by resource; none of a resource that a kernel does not use, and no estimate is a bottleneck."""
        cycles = {row["resource"]: row["cycles_per_sm"] for row in rows}
        least = [row for row in rows if row["resource"] not in ("tail", "l2", "issue_model")]
        found: Row = {"stale": rows[0]["stale"]}
        found |= {"bottleneck": max(least, key=lambda row: float(row["cycles_per_sm"]))["resource"]} if least else {}
        if self.quantity.column == "tail" and "tail" not in cycles:
            raise self.machine.missing("bounds", words, self.asked)
        return found | {name: 0.0 for name in schema("bounds")["properties"]["resource"]["enum"]} | cycles

    @property
    def current(self) -> Value:
        """The value. Raises `Missing` where the kernel's source changed after its row was made."""
        if not self.quantity.over_sizes:
            self.refuse_stale(self.row)
        return self.value

    def refuse_stale(self, row: Row) -> None:
        if row["stale"]:
            name = row.get("variant", self.asked.variant)
            lacking = f"stale: the source of {name} changed since {self.table}.csv was made"
            raise Missing(lacking, name, measures(self.table, self.asked))

    @property
    def value(self) -> Value:
        """The value, with its interval."""
        return self.cell() if self.quantity.value is None else self.quantity.value(self)

    def cell(self) -> Value:
        """The value that stands in the row, with the ends of its interval if the registry names their columns."""
        quantity, row = self.quantity, self.row
        counted = self.table in ("counters", "predictions", "counters_with_beta", "emulated")
        column = quantity.key if counted else quantity.column or quantity.key
        found = row.get(column)
        if isinstance(found, str):
            return found
        if found is None or pd.isna(found):
            of = f" for {self.asked.arch}" if self.table == "compiled" else ""
            raise Missing(f"{self.table}.csv has no {column} of {self.asked.variant}{of}", self.asked.variant)
        if quantity.low and quantity.low in row:
            return Estimate(float(found), float(row[quantity.low]), float(row[quantity.high]))
        return Estimate.of(float(found))

    # ---- what quantities of several rows or cells are made of -------------------------------------------------------

    def get(self, key: str, **selectors: Any) -> Any:
        """Another quantity of the same variant and row."""
        asked = dataclasses.replace(self.asked, **selectors)
        return Reading(self.machine, quantities()[key], asked).value

    def pair(self) -> list[Row]:
        """A timing of the variant and of `over`, of the same experiment if they have one in common."""
        asked = [self.asked, dataclasses.replace(self.asked, variant=str(self.asked.over))]
        bench = self.machine.index("bench")
        found = [bench.get((one.variant, one.n, one.data, one.regime), []) for one in asked]
        names = {row["experiment"] for row in found[1]}
        common = [row["experiment"] for row in found[0] if row["experiment"] in names]
        if self.asked.experiment is None and common:
            asked = [dataclasses.replace(one, experiment=common[0]) for one in asked]
        rows = []
        for one in asked:
            if one.variant in self.machine.failed:
                raise Missing(f"{one.variant} failed a check here", one.variant)
            rows.append(Reading(self.machine, self.quantity, one).row)
            self.refuse_stale(rows[-1])
        return rows

    def windows(self) -> Estimate:
        """A reading, within what windows of the same variant, size and data gave in all experiments."""
        column, asked = self.quantity.column, self.asked
        if pd.isna(self.row[column]):
            raise Missing(f"bench.csv has no {column} of {asked}", asked.variant)
        value = float(self.row[column])
        rows = self.machine.index("bench")[asked.variant, asked.n, asked.data, asked.regime]
        others = [float(row[column]) for row in rows if not row["stale"] and not pd.isna(row[column])]
        return Estimate(value, min(value, *others), max(value, *others))

    def ceiling(self, keys: Iterable[str]) -> float:
        """The greatest of these measured ceilings."""
        ceilings = self.machine.measured.machine["ceilings"]
        found = [ceilings[key] for key in keys if key in ceilings]
        if not found:
            raise Missing(f"machine.json has no measured ceiling of {self.row['dtype']} arithmetic")
        return float(max(found))

    def sizes(self) -> tuple[int, ...]:
        """The sizes at which the variant was timed."""
        asked = self.asked
        rows = self.machine.index("bench")
        of = [row for key, found in rows.items() if key[0] == asked.variant and key[2:] == (asked.data, asked.regime)
              for row in found if asked.experiment in (None, row["experiment"])]  # fmt: skip
        if not of:
            raise self.machine.missing("bench", f"{asked.variant}, {asked.regime}, {asked.data}", asked)
        self.refuse_stale(of[0])
        return tuple(sorted({int(row["n"]) for row in of}))

    def crossover(self) -> Estimate:
        """The smallest measured size from which on the variant stays faster than `over` at every larger one."""
        other = dataclasses.replace(self.asked, variant=str(self.asked.over))
        common = sorted(set(self.sizes()) & set(dataclasses.replace(self, asked=other).sizes()))
        if len(common) < 2:
            lacking = f"{self.asked.variant} and {self.asked.over}, {self.asked.regime}, {self.asked.data}"
            raise Missing(f"bench.csv has fewer than two sizes of both {lacking}", self.asked.variant)
        gains = [self.get("speedup", n=n) for n in common]

        def start(end: str) -> float:
            stays = float("inf")
            for n, gain in zip(reversed(common), reversed(gains), strict=True):
                if getattr(gain, end) <= 1:
                    break
                stays = n
            return stays

        return Estimate(start("value"), start("high"), start("low"))


def whole(n: Any) -> int:
    """A size as a whole number."""
    value = Estimate.of(n)
    if not value.exact or not value.value.is_integer() or value.value < 1:
        raise UserError(f"n = {value} is not allowed; allowed: a whole number above zero")
    return int(value.value)
