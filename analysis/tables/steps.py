"""steps.csv: each step of the ladders at n = 4096, one row for each counter that it was meant to
move.

speedup says how many times as fast `variant` is as `over`, interleaved. before and after are the
counter of `over` and of `variant`; meant (fall or rise) is declared in steps.yaml; moved says what
came of it. stall_* is the reason for which warps wait longest, limiter_* the unit with the most
minimum cycles. Cells are empty where nothing was measured.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis import counters, ladders
from analysis.numbers import SIZE, gain
from analysis.results import Results, squares, usual
from contracts import choose

REL_TOL = 0.02  # A counter that moves by less of its value before has hardly moved.
# No launch is faster than the minimum cycles of these.
UNITS = {
    "fma": "FMA pipe",
    "fp64": "FP64 pipe",
    "tensor": "tensor cores",
    "issue": "issue slots",
    "registers": "register banks",
    "shared": "shared memory",
    "l1": "L1 lookups",
    "dram": "DRAM reads",
}
COLUMNS = [
    "worklog",
    "variant",
    "over",
    "label",
    "over_label",
    "changed",
    "n",
    "speedup",
    "speedup_low",
    "speedup_high",
]
COLUMNS += ["counter", "counter_label", "unit", "before", "after", "meant", "moved"]
COLUMNS += ["stall_before", "stall_after", "limiter_before", "limiter_after"]


def moved(before: float | None, after: float | None, meant: str) -> str:
    """How a counter moved, next to how it was meant to; empty where a value is missing."""
    if before is None or after is None:
        return ""
    if abs(after - before) <= REL_TOL * abs(before):
        return "hardly"
    return "as meant" if (after > before) == (meant == "rise") else "the other way"


def limiters(results: Results) -> pd.DataFrame:
    """The unit with the most minimum cycles, one row for each variant and size: variant, n,
    limiter, minimum_cycles.
    """
    rows = squares(results.table("bounds"))
    rows = rows[rows["resource"].isin(list(UNITS))]
    rows = rows.loc[rows.groupby(["variant", "n"], sort=False)["minimum_cycles"].idxmax()]
    rows = rows.assign(limiter=rows["resource"].map(UNITS))
    return rows[["variant", "n", "limiter", "minimum_cycles"]]


def _by_variant(rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Rows at `SIZE`, by variant."""
    rows = rows[rows["n"] == SIZE].drop_duplicates("variant")
    return {
        str(row["variant"]): {str(key): value for key, value in row.items()}
        for row in rows.to_dict("records")
    }


def _known(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)


def _step_rows(
    step: dict[str, Any], measured: dict[str, dict[str, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The rows of one step. measured: timings, counters, limiters and resources, each by
    variant.
    """
    pair = {"before": step["over"], "after": step["variant"]}
    of_pair = {
        table: {when: rows.get(name, {}) for when, name in pair.items()}
        for table, rows in measured.items()
    }
    timing, counted = of_pair["timings"], of_pair["counters"]
    head = ("worklog", "variant", "over", "changed")
    row: dict[str, Any] = {key: step[key] for key in head} | {"n": SIZE}
    if timing["before"] and timing["after"]:
        faster = gain(timing["after"], timing["before"])
        row |= {"speedup": faster.value, "speedup_low": faster.low, "speedup_high": faster.high}
    for when in pair:
        row[f"stall_{when}"] = (counters.top_stall(counted[when]) or (None,))[0]
        row[f"limiter_{when}"] = of_pair["limiters"][when].get("limiter")
    rows = []
    # A declared counter is a column of the build, or one that Nsight Compute collected.
    for declared in step["counters"]:
        key, meant = declared["key"], declared["meant"]
        of_build = key in of_pair["resources"]["after"]
        table = of_pair["resources"] if of_build else counted
        before, after = (_known(table[when].get(key)) for when in pair)
        label, unit = key.replace("_", " "), ""
        if not of_build:
            counter = choose(counters.COUNTERS, key, "counter", "steps.yaml")
            label, unit = counter.label, counter.unit
        of_counter = {"counter": key, "counter_label": label, "unit": unit, "meant": meant}
        of_counter |= {"before": before, "after": after, "moved": moved(before, after, meant)}
        rows.append(row | of_counter)
    measured_at_all = "speedup" in row or any(row["moved"] for row in rows)
    return rows if measured_at_all else []


def steps_table(results: Results) -> pd.DataFrame:
    """The table, by ladder and in the order of each steps.yaml; steps that were not measured at all
    are left out.
    """
    measured = {
        "timings": _by_variant(usual(results.squares)),
        "counters": _by_variant(results.counters),
        "limiters": _by_variant(limiters(results)),
        "resources": _by_variant(results.table("resources").assign(n=SIZE)),
    }
    rows = [row for step in ladders.steps(results.variants) for row in _step_rows(step, measured)]
    table, label = pd.DataFrame(rows, columns=COLUMNS), results.label
    return table.assign(label=table["variant"].map(label), over_label=table["over"].map(label))
