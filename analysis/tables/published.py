"""What the worklogs publish of a kernel's speed, as shares of cuBLAS on the GPU that each names."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.data import records

PER_SECOND = {"GFLOP/s": 1e9, "TFLOP/s": 1e12}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
SPEEDS = ["tflops", "gflops", "performance"]
SHARES = {  # quantities that state a share, from their value in parts of one
    "share_of_cublas": lambda value: value,
    "lead_over_cublas": lambda value: 1 + value,
    "gap_to_cublas": lambda value: 1 - value,
}
UNITS = {"%": 0.01, "x": 1.0}


def speeds(published: pd.DataFrame) -> pd.DataFrame:
    """Rows that say how fast a rung is, with `speed` in FLOP/s, or in runs a second where they give its time."""
    flop = published["quantity"].isin(SPEEDS) & published["unit"].isin(list(PER_SECOND))
    time = (published["quantity"] == "time") & published["unit"].isin(list(SECONDS))
    value = published["value"].astype(float)
    speed = (value * published["unit"].map(PER_SECOND)).where(flop, 1 / (value * published["unit"].map(SECONDS)))
    rows = published.assign(speed=speed, of=flop.map({True: "flop", False: "time"}))
    return rows[(flop | time) & published["rung"].notna()]


def shares(published: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """Every share of cuBLAS that a worklog states of a kernel of the catalogue, or that follows from what it states.

    Columns: worklog, variant, gpu (None where it is not said), n (NaN where it is not said), share (of one), how:
    "stated" (a share), "ratio" (of two speeds) or "derived" (from another rung's speed and share).
    """
    kernels = variants[variants["kind"] != "baseline"].set_index("variant")["baseline"]
    own = published[published["rung"].isin(list(kernels.index))]
    stated = own[own["quantity"].isin(list(SHARES)) & own["unit"].isin(list(UNITS))]
    stated = stated.assign(
        share=[SHARES[row.quantity](float(row.value) * UNITS[row.unit]) for row in records(stated)], how="stated"
    )
    fast = speeds(published)
    columns = ["worklog", "rung", "gpu", "n", "share", "how"]
    found = stated[columns].to_dict(orient="records")
    for row in records(fast[fast["rung"].isin(list(kernels.index))]):
        theirs = fast[(fast["rung"] == kernels[row.rung]) & alike(fast, row)]
        if len(theirs):
            nearest = theirs.loc[(theirs["line"] - row.line).abs().idxmin()]
            share, how = row.speed / nearest["speed"], "ratio"
        else:
            library = derived_speed(fast[alike(fast, row)], stated)
            if library is None or row.rung in set(stated.loc[stated["worklog"] == row.worklog, "rung"]):
                continue
            share, how = row.speed / library, "derived"
        found.append(dict(zip(columns, (row.worklog, row.rung, row.gpu, row.n, share, how), strict=True)))
    return pd.DataFrame(found, columns=columns).astype({"n": float}).rename(columns={"rung": "variant"})


def alike(fast: pd.DataFrame, row: Any) -> pd.Series:
    """Which speeds are of the worklog, GPU and size of one of their rows, stated in the same way."""
    size = (fast["n"] == row.n) | (fast["n"].isna() & pd.isna(row.n))
    found: pd.Series = (fast["worklog"] == row.worklog) & (fast["gpu"] == row.gpu) & size & (fast["of"] == row.of)
    return found


def derived_speed(fast: pd.DataFrame, stated: pd.DataFrame) -> float | None:
    """cuBLAS's speed as it follows from a rung's speed and share of cuBLAS; None where no rung has both."""
    both = fast.merge(
        stated[stated["quantity"] == "share_of_cublas"][["worklog", "rung", "share"]], on=["worklog", "rung"]
    )
    return float((both["speed"] / both["share"]).median()) if len(both) else None
