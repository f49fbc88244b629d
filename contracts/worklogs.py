"""The worklogs: one folder each in paper/worklogs/, which is also the worklog's name everywhere."""

from __future__ import annotations

from pathlib import Path

from contracts.declared import Published, Step, Steps, Worklog
from contracts.errors import UserError
from contracts.files import read_rows, read_yaml
from contracts.model import RowType

FOLDER = Path("paper/worklogs")
# in place of a worklog, of this project's own kernels: paper/claims.yaml and paper/steps.yaml
OURS = "ours"


def sources(root: Path = FOLDER) -> dict[str, Worklog]:
    """Return what each worklog's source.yaml says, by the folder's name and in that order.

    Raises `UserError` where there is none.
    """
    paths = sorted(root.glob("*/source.yaml"))
    if not paths:
        raise UserError(f"{root}: no worklog is there; allowed: a folder with source.yaml for each")
    return {path.parent.name: read_yaml(path, Worklog) for path in paths}


def files(name: str, root: Path = FOLDER) -> dict[str, Path]:
    """Return the file of this name of each worklog that has it, by worklog."""
    paths = {worklog: root / worklog / name for worklog in sources(root)}
    return {worklog: path for worklog, path in paths.items() if path.is_file()}


def claims(root: Path = FOLDER) -> dict[str, Path]:
    """Return claims.yaml of each worklog, then paper/claims.yaml of our own kernels as `OURS`."""
    ours = root.parent / "claims.yaml"
    return files("claims.yaml", root) | ({OURS: ours} if ours.is_file() else {})


def rows(name: str, model: type[RowType], root: Path = FOLDER) -> list[tuple[str, RowType]]:
    """Return the rows of a table that worklogs have parts of, each after its worklog's name."""
    return [
        (worklog, row)
        for worklog, path in files(name, root).items()
        for row in read_rows(path, model)
    ]


def published(root: Path = FOLDER) -> dict[str, Published]:
    """Return every number that a worklog publishes, by WORKLOG/ID."""
    return {f"{worklog}/{row.id}": row for worklog, row in rows("published.csv", Published, root)}


def steps(root: Path = FOLDER) -> list[tuple[str, Step]]:
    """Return the steps of each ladder after their worklog's name; ours (paper/steps.yaml) last."""
    ours = root.parent / "steps.yaml"
    paths = files("steps.yaml", root) | ({OURS: ours} if ours.is_file() else {})
    return [
        (worklog, step) for worklog, path in paths.items() for step in read_yaml(path, Steps).root
    ]
