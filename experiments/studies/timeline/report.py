"""Worklog 002's tables of a recorded benchmark process: timeline.csv.

table ("api", "kernel" or "memory"), variant, label, stale, name, calls, share_percent (of the table's time), total_us,
mean_us, median_us, min_us, max_us, stddev_us, bytes. Without rows where it was not measured.
"""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs

ARGUMENTS = r"\((?!anonymous namespace).*"  # of a function's name


def timeline(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of timeline.csv: table after table, in each the kernels in catalogue order.

    Functions are named without their types and arguments.
    """
    order = ["api", "kernel", "memory"]
    function = rows["name"].astype(str).str.removeprefix("void ").str.replace(ARGUMENTS, "", regex=True)
    rows = rows.assign(
        name=rows["name"].where(rows["table"] != "kernel", function),
        share_percent=100 * rows["share"].astype(float),
        place=rows["table"].map(order.index),
        bytes=rows["bytes"].astype("Int64"),
    )
    rows = rows.sort_values(["place", "order", "total_us"], ascending=[True, True, False], kind="stable")
    times = [f"{what}_us" for what in ("total", "mean", "median", "min", "max", "stddev")]
    return rows[["table", "variant", "label", "stale", "name", "calls", "share_percent", *times, "bytes"]]


def timeline_table(inputs: Inputs) -> pd.DataFrame:
    return timeline(inputs.offered("timeline", timed=True))
