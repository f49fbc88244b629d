"""kernels.csv: one row for each kernel, dispatcher and baseline of the catalogue, with its build
and its checks.

cases and passed count correctness cases; error_over_bound is the largest error as a fraction of its
bound; dispatchers are those that may choose a kernel; sanitizer_errors is empty where
compute-sanitizer did not run this machine code.
"""

from __future__ import annotations

import pandas as pd

from analysis.results import Results, records

OF_CATALOGUE = [
    "variant",
    "label",
    "dtype",
    "kind",
    "worklog",
    "idea",
    "builds_on",
    "source",
    "template",
]
OF_BUILD = [
    "registers",
    "shared_bytes",
    "spill_bytes",
    "threads",
    "blocks_per_sm",
    "occupancy",
    "limiter",
]
OF_CHECKS = ["dispatchers", "cases", "passed", "error_over_bound", "sanitizer_errors"]


def checked(results: Results) -> pd.DataFrame:
    """Cases, those passed and the largest error over its bound, by variant."""
    types = {"passed": bool, "error_over_bound": float}
    grouped = results.checks.astype(types).groupby("variant", sort=False)
    return grouped.agg(
        cases=("case", "size"),
        passed=("passed", "sum"),
        error_over_bound=("error_over_bound", "max"),
    )


def dispatchers_of(variants: pd.DataFrame) -> dict[str, str]:
    """Return the labels of the dispatchers that may choose a kernel, by the kernel's name."""
    chosen_by: dict[str, list[str]] = {}
    for row in records(variants[variants["kind"] == "dispatcher"]):
        for name in row.kernels.split():
            chosen_by.setdefault(name, []).append(row.label)
    return {name: " ".join(labels) for name, labels in chosen_by.items()}


def kernels_table(results: Results) -> pd.DataFrame:
    """The table, in the catalogue's order."""
    rows = results.variants[OF_CATALOGUE]
    rows = rows.merge(results.raw("resources")[["variant", *OF_BUILD]], on="variant", how="left")
    rows = rows.merge(checked(results), on="variant", how="left")
    errors = results.table("sanitizer").groupby("variant")["errors"].sum()
    rows = rows.assign(sanitizer_errors=rows["variant"].map(errors))
    rows = rows.assign(dispatchers=rows["variant"].map(dispatchers_of(results.variants)).fillna(""))
    return rows[[*OF_CATALOGUE, *OF_BUILD, *OF_CHECKS]]
