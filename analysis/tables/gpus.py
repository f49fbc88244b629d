"""gpus.csv and spread.csv: how far GPUs of one model lie apart, and how models compare.

gpus.csv has a row for each model, variant and n of squares with uniform data and `boost` clocks:
fraction of cuBLAS, interleaved, then over the GPUs of the model that were measured again: their
number, the least, median and greatest fraction, and spread = (greatest - least) / least. change is
the fraction over that of the first model, less one; beyond_spread says whether the change is larger
than the spread of either model.

spread.csv sums the spread up: a row for each model and dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.results import Results, squares, usual

KEYS = ["variant", "n"]
COLUMNS = [
    "model",
    "gpu",
    "variant",
    "label",
    "kind",
    "dtype",
    "n",
    "fraction",
    "fraction_low",
    "fraction_high",
]
COLUMNS += [
    "tflops",
    "flop_per_clock_sm",
    "sm_clock_mhz",
    "gpus",
    "fraction_least",
    "fraction_median",
]
COLUMNS += ["fraction_greatest", "spread", "change", "beyond_spread"]


def medians(results: Results) -> pd.DataFrame:
    """Rows of squares that were measured on each GPU: variant, n, session, fraction."""
    rows = squares(results.table("gpu_medians", passed=True))
    rows = rows[rows["clock_policy"].eq("boost") & rows["data"].eq("uniform")]
    fraction = rows["baseline_time_us_median"] / rows["time_us_median"]
    return rows.assign(fraction=fraction)[["variant", "dtype", "n", "session", "fraction"]]


def spreads(results: Results) -> pd.DataFrame:
    """One row for each variant and n measured on two GPUs or more: variant, dtype, n, gpus,
    fraction_least, fraction_median, fraction_greatest, spread."""
    grouped = medians(results).groupby(["variant", "dtype", "n"], sort=False)["fraction"]
    rows = grouped.agg(
        gpus="size", fraction_least="min", fraction_median="median", fraction_greatest="max"
    ).reset_index()
    rows = rows[rows["gpus"] > 1].reset_index(drop=True)
    return rows.assign(spread=rows["fraction_greatest"] / rows["fraction_least"] - 1)


def gpus_table(archives: Mapping[str, Results]) -> pd.DataFrame:
    """The table, by variant and n, models in the order of `archives`."""
    parts = []
    for results in archives.values():
        rows = usual(results.squares)
        rows = rows[rows["kind"] != "baseline"].assign(model=results.name, gpu=results.gpu)
        parts.append(rows.merge(spreads(results).drop(columns="dtype"), on=KEYS, how="left"))
    rows = pd.concat(parts, ignore_index=True).sort_values(
        ["order", "n"], kind="stable", ignore_index=True
    )
    first = rows.groupby(KEYS)[["fraction", "model"]].transform("first")
    change = rows["fraction"] / first["fraction"] - 1
    rows = rows.assign(change=change.where(first["model"] != rows["model"]))
    widest = rows.groupby(KEYS)["spread"].transform("max")
    rows = rows[rows["spread"].notna() | (rows.groupby(KEYS)["model"].transform("size") > 1)]
    widest = widest[rows.index]
    beyond = (rows["change"].abs().fillna(0) > widest.fillna(1)).astype("boolean")
    beyond = beyond.where(rows["change"].notna() & widest.notna())
    return rows.assign(beyond_spread=beyond)[COLUMNS]


def spread_table(archives: Mapping[str, Results]) -> pd.DataFrame:
    """model, dtype, rows, gpus (at most), and of the spread: median, p90 (90th percentile) and
    greatest.
    """
    rows: list[list[Any]] = []
    for results in archives.values():
        for dtype, group in spreads(results).groupby("dtype", sort=False):
            quantiles = group["spread"].quantile([0.5, 0.9, 1.0])
            rows.append([results.name, dtype, len(group), group["gpus"].max(), *quantiles])
    columns = ["model", "dtype", "rows", "gpus", "median", "p90", "greatest"]
    return pd.DataFrame(rows, columns=columns)
