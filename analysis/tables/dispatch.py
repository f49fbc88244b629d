"""Which kernel is fastest on which problem, of the sweep that a dispatcher picks by."""

from __future__ import annotations

import pandas as pd

ALIGNED = 128  # sizes of the rectangular problems that are multiples of something, are of this
SHAPES = ["tall", "wide", "deep", "of no multiple"]


def shape(m: int, n: int, k: int) -> str:
    """A word for a problem's shape: "square" or one of SHAPES."""
    if m == n == k:
        return "square"
    if m % ALIGNED or n % ALIGNED or k % ALIGNED:
        return "of no multiple"
    if k > max(m, n):
        return "deep"
    return "tall" if m > n else "wide"


def best(rows: pd.DataFrame) -> pd.DataFrame:
    """From rows of dispatch.csv, the fastest kernel of each problem, with `shape`."""
    found = rows.loc[rows.groupby(["dispatcher", "m", "n", "k"], sort=False)["share"].idxmax()]
    shapes = [shape(*sizes) for sizes in found[["m", "n", "k"]].itertuples(index=False, name=None)]
    return found.assign(shape=shapes)
