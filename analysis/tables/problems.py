"""Timings of problems of any shape: problems.csv, and what they come to.

experiment, regime, data, m, n, k, alpha, beta, variant, label, kind, dtype, stale, tflops, share_percent (of the
baseline, in turns), share_ci_low_percent, share_ci_high_percent, time_us_median, sm_clock_mhz, samples, rejected: a row
for each timing of an experiment that names other problems than plain squares.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.data import Measured
from analysis.inputs import Inputs
from analysis.statistics import SHARE

KIND = "problems"  # of such an experiment
_COPIED = [*("experiment", "regime", "data", "m", "n", "k", "alpha", "beta"), *("variant", "label", "kind", "dtype")]
_MEASURED = ["time_us_median", "sm_clock_mhz", "samples", "rejected"]


def timings(measured: Measured, experiments: list[str]) -> pd.DataFrame:
    """The columns of problems.csv for these experiments: by problem, variants in the catalogue's order."""
    rows = measured.timed[measured.timed["experiment"].isin(experiments)]
    rows = rows.sort_values(["experiment", "regime", "data", "m", "n", "k", "alpha", "beta", "order"], kind="stable")
    shares = dict(zip(("share", "share_ci_low", "share_ci_high"), SHARE, strict=True))
    found = rows[_COPIED].assign(stale=rows["stale"].astype(bool), tflops=rows["tflops"])
    found = found.assign(**{f"{name}_percent": 100 * rows[column].astype(float) for name, column in shares.items()})
    return found.join(rows[_MEASURED]).reset_index(drop=True)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A summary of rows of `timings`, by variant in their order: label, problems, mean (geometric, of the share in
    percent), least (share in percent)."""
    found = rows.groupby("variant", sort=False).agg(
        label=("label", "first"),
        problems=("share_percent", "size"),
        mean=("share_percent", lambda shares: float(np.exp(np.log(shares).mean()))),
        least=("share_percent", "min"),
    )
    return found.reset_index()


def written(rows: pd.DataFrame) -> list[str]:
    """Each problem as it is written on a command line: "64x4096x512,beta=1"."""
    found = []
    for row in rows[["m", "n", "k", "alpha", "beta"]].itertuples(index=False):
        scalars = [
            f",{key}={value:g}" for key, value, usual in (("alpha", row[3], 1), ("beta", row[4], 0)) if value != usual
        ]
        found.append("x".join(str(int(size)) for size in row[:3]) + "".join(scalars))
    return found


def edge(rows: pd.DataFrame) -> pd.Series:
    """The edge of the cube of as many multiplications as each problem has, the cube root of mnk."""
    return (rows["m"].astype(float) * rows["n"] * rows["k"]) ** (1 / 3)


def problems(inputs: Inputs) -> pd.DataFrame:
    named = [name for name, experiment in inputs.experiments.items() if experiment["kind"] == KIND]
    return timings(inputs.measured(), named)
