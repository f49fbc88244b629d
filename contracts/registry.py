"""The registry of recorded tables: contracts/tables.yaml, and tables.yaml in the folder of each study."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contracts.errors import UserError, choose
from contracts.schema_files import STUDIES, schema, schema_path
from contracts.tables import read_yaml

REGISTRY = Path(__file__).resolve().parent / "tables.yaml"


@dataclass(frozen=True)
class Leg:
    """A line of coverage.csv: the stage that provenance.json may give a reason for, and the rows that belong to it."""

    stage: str
    leg: str
    where: Mapping[str, str] = field(default_factory=dict)

    def has(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of the table belongs to it."""
        return all(row[column] == value for column, value in self.where.items())


@dataclass(frozen=True)
class Command:
    """A measurement of its own; contracts/schemas/tables.schema.yaml explains the fields."""

    module: str
    each: str
    over: str | tuple[str, ...] = ()
    options: str = ""
    builds: tuple[str, ...] = ()
    emulates: bool = False
    without_gpu: bool = False
    kept: bool = False
    emulated: bool = False
    left_out: bool = False
    minutes: int | None = None


MADE_BY_OTHERS = ("all", "by hand")  # what is no target of a table's own


@dataclass(frozen=True)
class Derivation:
    """How a table is made from others: the module, and the names of those that it reads."""

    module: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A recorded table; contracts/schemas/tables.schema.yaml explains the fields."""

    name: str
    file: str
    schema: str
    needs_gpu: bool
    target: str
    parts: str | None
    command: Command | None
    derived: Derivation | None
    archive: str
    legs: tuple[Leg, ...]

    @property
    def optional(self) -> bool:
        """Whether a machine's folder is whole without it."""
        return self.archive != "always"

    @property
    def without_gpu(self) -> bool:
        """Whether its own target makes it on a machine without a GPU, too."""
        return bool(self.command and self.command.without_gpu) or not (self.needs_gpu or self.target in MADE_BY_OTHERS)

    @property
    def suffix(self) -> str:
        """The file's, with the dot."""
        return Path(self.file).suffix


@functools.cache
def tables(registry: Path = REGISTRY, studies: Path = STUDIES) -> dict[str, Table]:
    """Every recorded table by name, in the order of the files; a study's after the others.

    Raises `UserError` naming the file, the key and what is accepted; also for two tables of one name or one file.
    """
    found: dict[str, Table] = {}
    files: dict[str, str] = {}
    paths: dict[str, Path] = {}
    for path in [registry, *sorted(studies.glob("*/tables.yaml"))]:
        for name, entry in read_yaml(path, "tables").items():
            table = _table(name, entry, path)
            if name in found or table.file in files:
                what = f"table {name!r}" if name in found else f"file {table.file!r} (of {files[table.file]!r})"
                raise UserError(f"{path}: {what} is registered twice; names and files must differ")
            found[name], files[table.file] = table, name
            paths[name] = path
    for name, table in found.items():
        for source in table.derived.sources if table.derived else ():
            choose(found, source, "table", f"{paths[name]}: {name}.derived.from")
    return found


def _table(name: str, entry: Mapping[str, Any], path: Path) -> Table:
    kind = entry.get("schema", name)
    if not schema_path(kind).is_file():
        raise UserError(f"{path}: {name}.schema = {kind!r}: no such schema; contracts/schemas/ or the study's folder")
    made = [key for key in ("parts", "command", "derived") if key in entry]
    if len(made) > 1 or (not made and entry.get("target") != "by hand"):
        stated = " and ".join(made) or "none"
        raise UserError(f"{path}: {name}: {stated} of parts, command and derived; one says how it is made")
    command = dict(entry.get("command", {}))
    for key in ("over", "builds"):
        if isinstance(command.get(key), list):
            command[key] = tuple(command[key])
    return Table(
        name=name,
        file=entry.get("file", f"{name}.csv"),
        schema=kind,
        needs_gpu=entry.get("needs_gpu", True),
        target=entry.get("target", "all"),
        parts=entry.get("parts"),
        command=Command(**command) if command else None,
        derived=Derivation(derived["module"], tuple(derived["from"])) if (derived := entry.get("derived")) else None,
        archive=entry.get("archive", "never"),
        legs=tuple(Leg(**leg) for leg in entry.get("legs", [])),
    )


def find(name: str, source: object) -> Table:
    """The table called `name`, or a `UserError` that names `source` and the nearest tables."""
    return choose(tables(), name, "table", source)


def legs() -> dict[str, Leg]:
    """Every leg of coverage.csv by its stage, in the registry's order."""
    return {leg.stage: leg for table in tables().values() for leg in table.legs}


def columns(kind: str) -> list[str]:
    """The columns of a table's schema, in their order."""
    return list(schema(kind)["properties"])
