"""The worklogs: one folder each in paper/worklogs/, which is also the worklog's name everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts.errors import UserError
from contracts.tables import read_rows, read_yaml

FOLDER = Path("paper/worklogs")
# in place of a worklog, of this project's own kernels: paper/claims.yaml and paper/steps.yaml
OURS = "ours"


def sources(root: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """What each worklog's source.yaml says, with its `folder`, by the folder's name and in the
    order of names.

    Raises `UserError` where there is none.
    """
    paths = sorted(root.glob("*/source.yaml"))
    if not paths:
        raise UserError(f"{root}: no worklog is there; allowed: a folder with source.yaml for each")
    return {
        path.parent.name: read_yaml(path, "worklog") | {"folder": path.parent} for path in paths
    }


def files(name: str, root: Path = FOLDER) -> dict[str, Path]:
    """The file of this name of each worklog that has it, by worklog."""
    return {
        worklog: path
        for worklog, one in sources(root).items()
        if (path := one["folder"] / name).is_file()
    }


def claims(root: Path = FOLDER) -> dict[str, Path]:
    """claims.yaml of each worklog, then that of our own kernels (paper/claims.yaml) as `OURS`."""
    ours = root.parent / "claims.yaml"
    return files("claims.yaml", root) | ({OURS: ours} if ours.is_file() else {})


def rows(name: str, schema: str, root: Path = FOLDER) -> list[dict[str, Any]]:
    """The rows of a table that worklogs have parts of, each with its `worklog`."""
    return [
        row | {"worklog": worklog}
        for worklog, path in files(name, root).items()
        for row in read_rows(path, schema)
    ]


def published(root: Path = FOLDER) -> list[dict[str, Any]]:
    """Every number that a worklog publishes."""
    return rows("published.csv", "published", root)


def steps(root: Path = FOLDER) -> list[dict[str, Any]]:
    """The steps of each worklog's ladder, then ours (paper/steps.yaml), each with its `worklog`."""
    ours = root.parent / "steps.yaml"
    paths = files("steps.yaml", root) | ({OURS: ours} if ours.is_file() else {})
    return [
        {"worklog": worklog} | step
        for worklog, path in paths.items()
        for step in read_yaml(path, "steps")
    ]
