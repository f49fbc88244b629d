"""Which kernel is fastest on which problem, of the sweep that a dispatcher picks by."""

from __future__ import annotations

import pandas as pd

ALIGNED = 128  # sizes of the rectangular problems of older sweeps that are multiples of something, are of this
SHAPES = ["tall", "wide", "deep", "random", "of no multiple"]


def shape(m: int, n: int, k: int) -> str:
    """A word for a problem's shape, where the sweep does not say what it was drawn as: "square" or one of SHAPES."""
    if m == n == k:
        return "square"
    if m % ALIGNED or n % ALIGNED or k % ALIGNED:
        return "of no multiple"
    if k > max(m, n):
        return "deep"
    return "tall" if m > n else "wide"


def of_kernels(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of dispatch.csv of kernels, with `shape` and `library_us`: the time of the library's fastest call."""
    found = rows[rows["call"].isna()]
    shapes = [shape(*sizes) for sizes in found[["m", "n", "k"]].itertuples(index=False, name=None)]
    library_us = found["time_us"].astype(float) * found["share"].astype(float)
    return found.assign(shape=found["shape"].where(found["shape"].notna(), shapes), library_us=library_us)


def best(rows: pd.DataFrame) -> pd.DataFrame:
    """From rows of dispatch.csv, the fastest kernel of each problem, as `of_kernels` has them."""
    found = of_kernels(rows)
    return found.loc[found.groupby(["dispatcher", "m", "n", "k"], sort=False)["share"].idxmax()]
