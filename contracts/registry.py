"""The recorded tables by name. contracts/recorded.py, where a table stands with its columns, is the
only list.
"""

from __future__ import annotations

from contracts import recorded as recorded  # which fills the list
from contracts.errors import choose
from contracts.model import MADE_BY_OTHERS, MODELS, TABLES, Table

__all__ = ["MADE_BY_OTHERS", "Table", "columns", "find", "tables"]


def tables() -> dict[str, Table]:
    """Every recorded table by name."""
    return TABLES


def find(name: str, source: object) -> Table:
    """The table called `name`, or a `UserError` that names `source` and the nearest tables."""
    return choose(TABLES, name, "table", source)


def columns(kind: str) -> list[str]:
    """The columns of a table, or the keys of a document, in their order."""
    return list(MODELS[kind].model_fields)
