"""The worklogs: one folder each in paper/worklogs/, and no other list of them anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts.errors import UserError
from contracts.tables import read_rows, read_yaml

FOLDER = Path("paper/worklogs")
OWN = "own"  # in place of a worklog's letter, of claims about this project's own kernels


def sources(root: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """What each worklog's source.yaml says, with its `folder`, by its letter and in the order of letters.

    Raises `UserError` where there is none, and where two share a letter.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(root.glob("*/source.yaml")):
        source = read_yaml(path, "worklog") | {"folder": path.parent}
        if source["key"] in found:
            other = found[source["key"]]["folder"]
            raise UserError(f"{path}: key = {source['key']!r} is that of {other}; allowed: a letter of its own")
        found[source["key"]] = source
    if not found:
        raise UserError(f"{root}: no worklog is there; allowed: a folder with source.yaml for each")
    return dict(sorted(found.items()))


def files(name: str, root: Path = FOLDER) -> dict[str, Path]:
    """The file of this name of each worklog that has it, by the worklog's letter."""
    return {key: path for key, one in sources(root).items() if (path := one["folder"] / name).is_file()}


def claims(root: Path = FOLDER) -> dict[str, Path]:
    """claims.yaml of each worklog by its letter, then that of our own kernels (paper/claims.yaml) as `OWN`."""
    ours = root.parent / "claims.yaml"
    return files("claims.yaml", root) | ({OWN: ours} if ours.is_file() else {})


def rows(name: str, schema: str, root: Path = FOLDER) -> list[dict[str, Any]]:
    """The rows of a table that worklogs have parts of, each with its `worklog`."""
    return [row | {"worklog": key} for key, path in files(name, root).items() for row in read_rows(path, schema)]


def published(root: Path = FOLDER) -> list[dict[str, Any]]:
    """Every number that a worklog publishes."""
    return rows("published.csv", "published", root)


def steps(root: Path = FOLDER) -> list[dict[str, Any]]:
    """The steps of each worklog's ladder, then ours (paper/steps.yaml), each with its `part` of the supplement."""
    of_worklogs = [
        {"part": key} | step for key, path in files("steps.yaml", root).items() for step in read_yaml(path, "steps")
    ]
    ours = root.parent / "steps.yaml"
    return of_worklogs + (read_yaml(ours, "steps") if ours.is_file() else [])
