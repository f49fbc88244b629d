"""What figures and report tables are made from: the files that a run's plan names, each read once in a process."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from analysis import data
from analysis.data import Measured
from analysis.statistics import covering
from contracts import UserError, archives, read_json, read_rows, scratch, write_rows
from contracts import registry as recorded

Row = dict[str, Any]
Made = TypeVar("Made")


@dataclass(frozen=True)
class Inputs:
    """What contracts/schemas/inputs.schema.yaml explains, with paths, and the tables themselves.

    `experiment`: that of which a figure is drawn, or None. `tuned_by`: the archive whose sweeps say which source its
    tuned kernels have; None: as the catalogue says. `reports`: the folder of this run's report tables. What is
    read is shared by all that stem from one `Inputs`: frames are never changed in place.
    """

    machine: str
    archived: bool
    why_archived: str | None = None
    tables: Mapping[str, Path] = field(default_factory=dict)
    of_experiment: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    tuning: Mapping[str, bool] | None = None
    experiments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    other_runs: tuple[Path, ...] = ()
    archives: tuple[Path, ...] = ()
    left_out: Mapping[str, Path] = field(default_factory=dict)
    experiment: str | None = None
    tuned_by: str | None = None
    reports: Path = Path("results/tables")
    _read: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, path: Path, reports: Path | None = None) -> Inputs:
        """Read inputs.json. Raises `UserError` for one that breaks its schema."""
        planned = read_json(path, "inputs")
        return cls(
            machine=planned["machine"],
            archived=planned["archived"],
            why_archived=planned["why_archived"],
            tables=_paths(planned["tables"]),
            of_experiment={name: _paths(own) for name, own in planned["of_experiment"].items()},
            tuning=planned["tuning"],
            experiments=planned["experiments"],
            other_runs=tuple(map(Path, planned["other_runs"])),
            archives=tuple(map(Path, planned["archives"])),
            left_out=_paths(planned["left_out"]),
            reports=reports or cls.reports,
        )

    @classmethod
    def of_folder(cls, folder: Path, variants: Path, *, archived: bool, emulated: Path | None = None) -> Inputs:
        """A machine's folder alone, and the catalogue. `emulated`: this tree's checks on ptxsim, for its own."""
        if not folder.is_dir():
            raise UserError(f"no such folder: {folder}; name one with machine.json, provenance.json and the tables")
        files = {name: folder / one.file for name, one in recorded.tables().items()}
        there = {
            name: files[name]
            for name, one in recorded.tables().items()
            if not one.optional or one.derived or files[name].is_file()
        }
        there = {**there, "variants": variants} | ({"emulated_checks": emulated} if emulated else {})
        tuning = {"archived": archived} if {"tuning", "tuned"} <= there.keys() else None
        tuned_by = folder.name if archived else None
        return cls(machine=folder.name, archived=archived, tables=there, tuning=tuning, tuned_by=tuned_by)

    def run_in(self, folder: Path) -> Inputs:
        """Another run's folder, which is an archive, by this one's catalogue."""
        other = Inputs.of_folder(folder, self.tables["variants"], archived=True)
        own = {name: self.tables[name] for name in ("analytic",) if name in self.tables}
        for name, one in recorded.tables().items():
            if one.derived and all(self.tables.get(source) == other.tables[source] for source in one.derived.sources):
                own[name] = self.tables[name]
        tables = {**other.tables, **own}
        return dataclasses.replace(other, tables=tables, archives=self.archives, reports=self.reports, _read=self._read)

    def of(self, experiment: str) -> Inputs:
        """The same for the figures of one experiment, with tables of its own where it has some."""
        if experiment not in self.experiments:
            raise UserError(f"{experiment!r} is no experiment of these inputs; there: {', '.join(self.experiments)}")
        tables = {**self.tables, **self.of_experiment.get(experiment, {})}
        return dataclasses.replace(self, experiment=experiment, tables=tables, _read=self._read)

    # ---- tables -----------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether a table is there, or can be derived."""
        return name in self.tables and (self.tables[name].is_file() or self._derivable(name))

    def _derivable(self, name: str) -> bool:
        one = recorded.tables().get(name)
        return bool(one and one.derived and all(map(self.has, one.derived.sources)))

    def listed(self, name: str) -> list[Row]:
        """The rows of a table; none where it is not there."""
        schema = _schema(name)
        if name not in self.tables:
            return []
        path = self.tables[name]
        return self._once(("rows", path, schema), lambda: self._with_hashes_of_today(name, self._rows(name, schema)))

    def _rows(self, name: str, schema: str) -> list[Row]:
        """The rows as they are read or, of a derived table that no run has made yet, derived."""
        if not self.tables[name].is_file() and self._derivable(name):
            return derived(recorded.tables()[name], self.tables)
        return read_rows(self.tables[name], schema)

    def _with_hashes_of_today(self, name: str, rows: list[Row]) -> list[Row]:
        """See `analysis.data.with_hashes_of_today`; same_code.csv is of the tables next to it, and of what is derived
        from them."""
        one, same_code = recorded.tables().get(name), self.tables.get("same_code")
        measured = self.tables[one.derived.sources[0] if one and one.derived else name]
        if same_code is None or name == "same_code" or same_code.parent != measured.parent or not same_code.is_file():
            return rows
        return data.with_hashes_of_today(rows, self.listed("same_code"))

    def document(self, name: str) -> Any:
        """A recorded JSON file. Raises `UserError` where it is not there."""
        path = self.tables.get(name)
        if path is None:
            raise UserError(f"{name}: not there; {recorded.find(name, 'the inputs').file} is needed")
        return self._once(("json", path), lambda: read_json(path, _schema(name)))

    def rows(self, name: str) -> pd.DataFrame:
        """The same as `listed`, as a frame with every column of the schema."""
        key = ("frame", self.tables.get(name), name)
        return self._once(key, lambda: data.table(self.listed(name), _schema(name)))

    def described(self, name: str) -> pd.DataFrame:
        """Rows of variants in the catalogue, with what that says of each, and whether it is stale."""
        key = ("described", self.tables.get(name), self.tables["variants"], self.tuned_by, name)
        return self._once(key, lambda: data.describe(self.rows(name), self.variants))

    def offered(self, name: str, *, timed: bool) -> pd.DataFrame:
        """Rows of a table that need not be there, described; of times, without variants that failed a check."""
        rows = self.described(name)
        rows = rows.assign(stale=rows["stale"].astype(bool))
        return rows[~rows["variant"].isin(self.measured().failed["variant"])] if timed else rows

    def report(self, name: str, schema: str) -> pd.DataFrame:
        """A report table of this run, which has a schema."""
        path = self.reports / f"{name}.csv"
        return self._once(("frame", path, schema), lambda: data.table(read_rows(path, schema), schema))

    def findings(self) -> list[Row]:
        """findings.json of this run; none where it was not made."""
        path = self.reports / "findings.json"
        if not path.is_file():
            return []
        return self._once(("findings", path), lambda: json.loads(path.read_text()))

    @cached_property
    def variants(self) -> pd.DataFrame:
        """The catalogue, with `order` and labels that are unique."""
        key = ("variants", self.tables["variants"], self.tuned_by)
        return self._once(key, lambda: data.with_labels(data.as_tuned_by(self.tuned_by or "", self.rows("variants"))))

    def measured(self, experiment: str | None = None) -> Measured:
        """This run's measurements, or those for one experiment's figures: archived checks with this tree's emulated
        ones in place of their own."""
        if experiment is not None and experiment != self.experiment:
            return self.of(experiment).measured()
        emulated = self.archived and "emulated_checks" in self.tables
        names = ["machine", "provenance", "variants", "bench", "checks", "counters", "lease_medians"]
        names += ["emulated_checks"] * emulated
        key = ("measured", self.archived, self.tuned_by, *(self.tables.get(name) for name in names))
        return self._once(key, lambda: self._combined(emulated))

    def _combined(self, emulated: bool) -> Measured:
        """Failed and unknown variants dropped, stale rows marked, and what the catalogue says of each variant joined.

        Intervals of times and shares are made to cover fresh processes and leases.
        """
        variants, checks = self.variants, self.rows("checks")
        if emulated:
            parts = [checks[checks["device"] != "ptxsim"], self.rows("emulated_checks")]
            checks = pd.concat([part for part in parts if len(part)] or parts[:1])
        leases = self.rows("lease_medians") if self.has("lease_medians") else None
        tables = (covering(self.rows("bench"), leases), checks, self.rows("counters"))
        failed = data.failures(checks, variants)
        bench, checks, counters = (data.describe(rows, variants) for rows in tables)
        timed, counted = (rows[~rows["variant"].isin(failed["variant"])] for rows in (bench, counters))
        return Measured(
            machine=self.document("machine"),
            provenance=self.document("provenance"),
            variants=variants,
            bench=data.squares(timed),
            timed=timed,
            checks=checks,
            counters=data.squares(counted),
            failed=failed,
            gone=sorted(set().union(*(rows["variant"] for rows in tables)) - set(variants["variant"])),
            archived=self.archived,
            emulated_here=emulated or not self.archived,
        )

    def _once(self, key: Any, make: Callable[[], Made]) -> Made:
        if key not in self._read:
            self._read[key] = make()
        made: Made = self._read[key]
        return made


def derived(table: recorded.Table, files: Mapping[str, Path]) -> list[Row]:
    """The rows of a table that is derived from others, of which these are the files by name: as written and read."""
    assert table.derived
    module = importlib.import_module(table.derived.module)
    with scratch() as folder:
        write_rows(
            folder / table.file, table.schema, module.made(**{name: files[name] for name in table.derived.sources})
        )
        return read_rows(folder / table.file, table.schema)


def archived_folders() -> list[Path]:
    """The folder of each archive in data/."""
    return archives.folders(Path())


def _paths(names: Mapping[str, str]) -> dict[str, Path]:
    return {name: Path(path) for name, path in names.items()}


def _schema(name: str) -> str:
    """The schema of a recorded table, or of one that every run makes."""
    return name if name in ("variants", "analytic") else recorded.find(name, "the inputs").schema
