"""The fastest fp32 kernel without tensor cores compared with cuBLAS: at each square size that is timed, and on the
other problems of the dispatcher's sweep, if that is there and current."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.findings.sources import Sources, Statement
from analysis.quantities.machine import Missing, rows_of
from analysis.tables import dispatch

SQUARES = "sgemm_sizes"  # the experiment of fp32 over square sizes
DISPATCHER = "sgemm_best"  # picks among fp32 kernels without tensor cores


def compute(of: Sources) -> Statement:
    timed = of.timed[
        (of.timed["experiment"] == SQUARES) & (of.timed["kind"] == "kernel") & ~of.timed["tensor"].astype(bool)
    ]
    if timed.empty:
        raise Missing(f"{SQUARES} has no timings of kernels of ours")
    squares = timed.loc[timed.groupby("n")["share_of_baseline"].idxmax()].sort_values("n")
    squares = squares.assign(share=squares["share_of_baseline"].astype(float), shape="square")
    others = _swept(of)
    shares = squares["share"]
    numbers = {
        "label": str(squares["label"].mode().iloc[0]),
        "squares": len(squares),
        "ahead": int((shares > 1).sum()),
        "from_n": int(squares["n"].min()),
        "to_n": int(squares["n"].max()),
        "least_percent": 100 * (float(shares.min()) - 1),
        "most_percent": 100 * (float(shares.max()) - 1),
        "mean_percent": 100 * (float(np.exp(np.log(shares).mean())) - 1),
        "others": len(others),
        "others_ahead": int((others["share"] > 1).sum()),
    }
    summary = (
        f"`{numbers['label']}` is ahead of the fastest call of cuBLAS at {numbers['ahead']} of {numbers['squares']} "
        f"sizes from {numbers['from_n']} to {numbers['to_n']}, by {numbers['mean_percent']:.0f}% in the geometric mean "
        f"({numbers['least_percent']:.0f} to {numbers['most_percent']:.0f}%)"
    )
    if len(others):
        summary += f"; of {numbers['others']} problems that are not square it is at {numbers['others_ahead']}"
    keys = ["m", "n", "k", "shape", "label", "share"]
    kept = [*rows_of(squares[keys]), *rows_of(others[keys])]
    return Statement(holds=numbers["ahead"] == len(squares), summary=f"{summary}.", numbers=numbers, rows=kept)


def _swept(of: Sources) -> pd.DataFrame:
    """The fastest kernel of each problem of the dispatcher's sweep that is not square; none if one of its kernels has
    changed since, for then the fastest is not known."""
    rows = of.inputs.offered("dispatch", timed=True)
    rows = rows[rows["dispatcher"] == DISPATCHER]
    best = dispatch.best(rows if not rows["stale"].any() else rows.iloc[:0])
    return best[best["shape"] != "square"].assign(share=lambda found: found["share"].astype(float))
