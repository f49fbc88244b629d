"""Changes to frames of recorded rows, for tests that plant other measurements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

Change = Callable[[pd.DataFrame], pd.DataFrame]


def rows_with(rows: pd.DataFrame, **where: Any) -> pd.Series:
    """Return which rows have these values: each one value, or a list of those allowed."""
    chosen = pd.Series(True, index=rows.index)
    for name, wanted in where.items():
        chosen &= rows[name].isin(wanted if isinstance(wanted, list) else [wanted])
    return chosen


def with_cells(column: str, value: Any, **where: Any) -> Change:
    """Return a change that puts `value`, or what it makes of the column, into the rows of `where`.

    Some row must have the values of `where`.
    """

    def change(rows: pd.DataFrame) -> pd.DataFrame:
        chosen, cells = rows_with(rows, **where), rows[column]
        assert chosen.any(), where
        other = value(cells) if callable(value) else value
        cells = cells.astype(object) if isinstance(other, str) else cells
        return rows.assign(**{column: cells.mask(chosen, other)})

    return change
