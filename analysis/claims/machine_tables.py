"""One machine's tables, as the functions of a claim's expression look rows up in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import data
from analysis.claims.estimates import Estimate
from analysis.data import squares
from analysis.inputs import Inputs
from analysis.tables import autotune
from contracts import UserError, choose, registry, schema

BY = {"bench": ["variant", "n", "data", "regime"], "counters": ["variant", "metric", "n"]}


class Unreadable(UserError):
    """A table that cannot be read: no claim's fault."""


class Missing(Exception):
    """What a machine's tables do not have, or have only of another source: the claim cannot be tested there."""


@dataclass(frozen=True)
class Machine:
    """One machine's tables."""

    inputs: Inputs

    @classmethod
    def read(cls, folder: Path, variants: Path, *, archived: bool) -> Machine:
        return cls(Inputs.of_folder(folder, variants, archived=archived))

    @cached_property
    def measured(self) -> data.Measured:
        return self.inputs.measured()

    @property
    def name(self) -> str:
        return str(self.measured.provenance["machine"])

    @cached_property
    def _tables(self) -> dict[str, pd.DataFrame]:
        return {"bench": self.measured.bench, "checks": self.measured.checks, "counters": self.measured.counters}

    def rows(self, name: str) -> pd.DataFrame:
        """A table by its name, empty where it is not there, with the catalogue's columns and `stale`."""
        if name not in self._tables:
            self._tables[name] = self._readable(self.inputs.described, name)
        return self._tables[name]

    @cached_property
    def _groups(self) -> dict[str, tuple[pd.DataFrame, dict[Any, Any]]]:
        return {}

    def square(self, name: str, *keys: Any) -> pd.DataFrame:
        """Rows of square problems by the columns of `BY`: they are looked up a thousand times, and grouped once.

        Of bench, current rows of the most samples come first.
        """
        if name not in self._groups:
            rows = self.rows(name)
            rows = squares(rows)
            if name == "bench":
                rows = rows.sort_values(["stale", "samples", "experiment"], ascending=[True, False, True])
            self._groups[name] = rows, rows.groupby(BY.get(name, BY["counters"]), sort=False).indices
        rows, places = self._groups[name]
        chosen: pd.DataFrame = rows.iloc[places.get(keys, [])]
        return chosen

    def plain(self, name: str) -> pd.DataFrame:
        """A table whose rows are of no variant, empty where it is not there."""
        return self._readable(self.inputs.rows, name)

    @staticmethod
    def _readable(read: Callable[[str], pd.DataFrame], name: str) -> pd.DataFrame:
        if name not in registry.tables():
            raise Missing(f"{name}.csv is of a side study whose folder is not there")
        try:
            return read(name)
        except UserError as error:
            raise Unreadable(str(error)) from error

    @cached_property
    def tuning(self) -> autotune.Tuning | None:
        return autotune.of(self.inputs)


class Lookup:
    """Rows of one machine. `analytic` and `published` are values by (case, quantity) and by id.

    `compiled` has rows by (variant, architecture): what nvcc makes of a kernel for a GPU that is not this one;
    `emulated` a value by (variant, size, beta, counter): problems that no counter was read of.

    What no machine could have (an unknown variant, column or counter) is a `UserError`, what this one lacks `Missing`.
    """

    def __init__(
        self,
        machine: Machine,
        analytic: dict[tuple[str, str], Any],
        published: dict[str, float],
        experiments: Sequence[str],
        compiled: Mapping[tuple[str, str], dict[str, Any]] | None = None,
        emulated: Mapping[tuple[str, int, float, str], float] | None = None,
    ):
        self._machine = machine
        self._analytic = analytic
        self._published = published
        self._compiled = compiled or {}
        self._emulated = emulated or {}
        self._experiments = dict.fromkeys(experiments)
        self._variants = dict.fromkeys(machine.measured.variants["variant"])
        self._failed = set(machine.measured.failed["variant"])
        self._found: dict[Any, pd.Series] = {}  # rows of bench, by what was asked

    def _known(self, variant: Any) -> str:
        choose(self._variants, variant, "variant", "kernels/catalogue.yaml")
        if variant in self._failed:
            raise Missing(f"{variant} failed a check here")
        return str(variant)

    def _one(self, name: str, rows: pd.DataFrame, asked: str) -> pd.Series:
        """The first row. Raises `Missing` where there is none, or it is stale."""
        if rows.empty:
            raise Missing(f"{name}.csv has no row of {asked}{self._reason(name, asked)}")
        row = rows.iloc[0]
        if row["stale"]:
            raise Missing(f"stale: the source of {row['variant']} changed since {name}.csv was made")
        return row

    def _reason(self, name: str, asked: str) -> str:
        """Why a table has no rows at all of what was asked, where provenance.json says so."""
        if name == "bench" and ", locked" in asked:
            why = self._machine.measured.reason("locked")
        else:
            stage = {"bench": "bench", "counters": "profile"}.get(name, name)
            why = self._machine.measured.reason(stage) if self._machine.rows(name).empty else None
        return f" ({why})" if why else ""

    def _timed(self, variant: str, n: Any, data: str, experiment: str | None, regime: str) -> tuple[pd.DataFrame, str]:
        """Rows of bench, current ones of the most samples first, and what was asked for, in words."""
        self._known(variant)
        columns = schema("bench")["properties"]
        for name, value in (("data", data), ("regime", regime)):
            choose(dict.fromkeys(columns[name]["enum"]), value, name, "bench.csv")
        if experiment is not None:
            choose(self._experiments, experiment, "experiment", "experiments/")
        size = whole(n)
        rows = self._machine.square("bench", variant, size, data, regime)
        if experiment is not None:
            rows = rows[rows["experiment"] == experiment]
        asked = f"{variant} at n = {size}, {regime}, {data}" + (f", in {experiment}" if experiment else "")
        return rows, asked

    def _bench(self, variant: str, n: Any, data: str, experiment: str | None, regime: str) -> pd.Series:
        key = (variant, whole(n), data, experiment, regime)
        if key not in self._found:
            self._found[key] = self._one("bench", *self._timed(variant, n, data, experiment, regime))
        return self._found[key]

    def _pair(self, a: str, b: str, n: Any, data: str, experiment: str | None, regime: str) -> list[pd.Series]:
        """A row of each, of the same experiment if they have one in common."""
        found = [self._timed(name, n, data, experiment, regime) for name in (a, b)]
        common = [name for name in found[0][0]["experiment"] if name in set(found[1][0]["experiment"])]
        if common:
            found = [(rows[rows["experiment"] == common[0]], asked) for rows, asked in found]
        return [self._one("bench", rows, asked) for rows, asked in found]

    def _reading(self, column: str, *query: Any) -> Estimate:
        row = self._bench(*query)
        if pd.isna(row[column]):
            raise Missing(f"bench.csv has no {column} of {row['variant']} at n = {row['n']}")
        return Estimate.of(float(row[column]))

    def _of_windows(
        self, column: str, variant: str, n: Any, data: str, experiment: str | None, regime: str
    ) -> Estimate:
        """A reading, within what windows of the same variant, size and data say in all experiments."""
        one = self._reading(column, variant, n, data, experiment, regime)
        rows, _ = self._timed(variant, n, data, None, regime)
        found = rows.loc[~rows["stale"].astype(bool), column].dropna().astype(float)
        return Estimate(one.value, min(one.value, *found), max(one.value, *found))


def whole(n: Any) -> int:
    """A size as a whole number."""
    value = Estimate.of(n)
    if not value.exact or not value.value.is_integer() or value.value < 1:
        raise UserError(f"n = {value} is not allowed; allowed: a whole number above zero")
    return int(value.value)
