"""The least cycles that each resource needs, from counts alone, as a share of the cycles measured.

bounds.csv: variant, label, n, kind, resource, cycles_per_sm, measured (cycles), percent. A kind is bound, what no
launch can be faster than, or estimate, by a rule that is only a model. A kernel whose source changed since it was
measured is left out. bounds_rules.md: the tables of docs/bounds.md, which hold the count of instructions, and
the model of issue, against what ncu measured.
"""

from __future__ import annotations

import pandas as pd

from analysis.data import Measured, records
from analysis.inputs import Inputs

RESOURCES = {
    "fma": "FMA pipe",
    "fp64": "fp64 pipe",
    "tensor": "tensor cores",
    "issue": "issue slots",
    "registers": "register banks",
    "shared": "shared memory",
    "l1": "L1 lookups",
    "dram": "DRAM reads",
}
MODEL = "issue_model"
ESTIMATES = {"l2": "L2 to SM", MODEL: "issue cycles"}
AVERAGE, SLOWEST = "sm__cycles_active.avg", "sm__cycles_active.max"
EXECUTED = "sm__inst_executed.sum"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = ("barrier", "long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle", "wait")
EXACT = 1e-8  # the tables hold nine digits
KEYS = ["variant", "n"]


def shares(counters: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    """One row per kernel, size and resource with bounds and cycles of the same source, in the catalogue's order.

    Columns: variant, label, n, order, kind, resource, cycles_per_sm, measured (cycles), percent. `tail` is a share of
    the slowest SM's cycles, the others of the average SM's.
    """
    current = counters[~counters["stale"].astype(bool)]
    cycles = current[current["metric"].isin([AVERAGE, SLOWEST])][[*KEYS, "m", "k", "label", "order", "metric", "value"]]
    wanted = bounds[bounds["resource"].isin([*RESOURCES, *ESTIMATES, "tail"])]
    wanted = wanted.assign(kind=wanted["resource"].map(lambda name: "estimate" if name in ESTIMATES else "bound"))
    wanted = wanted.assign(metric=wanted["resource"].map(lambda name: SLOWEST if name == "tail" else AVERAGE))
    both = wanted.merge(cycles, on=[*KEYS, "m", "k", "metric"]).rename(columns={"value": "measured"})
    both = both.assign(percent=100 * both["cycles_per_sm"] / both["measured"])
    columns = [*KEYS, "label", "order", "kind", "resource", "cycles_per_sm", "measured", "percent"]
    return both[columns].sort_values("order", kind="stable").reset_index(drop=True)


def bottlenecks(rows: pd.DataFrame) -> pd.DataFrame:
    """From `shares`, the row of the resource that needs the most cycles, for each kernel and size."""
    rows = rows[(rows["kind"] == "bound") & (rows["resource"] != "tail")]
    return rows.loc[rows.groupby(KEYS, sort=False)["cycles_per_sm"].idxmax()]


def in_words(rows: pd.DataFrame) -> pd.DataFrame:
    """What --table writes of `shares`: resources by the names that the figure has."""
    rows = rows.assign(resource=rows["resource"].map(RESOURCES | ESTIMATES | {"tail": "tail"}))
    return rows[["variant", "label", "n", "kind", "resource", "cycles_per_sm", "measured", "percent"]]


def broken(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `shares` that the hardware was faster than."""
    return rows[rows["percent"] > 100]


def errors(rows: pd.DataFrame) -> list[str]:
    """In words, how each estimate of `shares` stands to the measured cycles of all kernels."""
    found = []
    for resource, label in ESTIMATES.items():
        own = rows[rows["resource"] == resource]
        if not own.empty:
            most = own.iloc[int(own["percent"].argmax())]
            words = f"{label}: at most {most['percent']:.1f}% of the measured cycles ({most['label']})"
            found.append(f"{words}, above them in {len(broken(own))} of {len(own)}")
    return found


def unmeasured(counters: pd.DataFrame, bounds: pd.DataFrame) -> int:
    """How many kernels have bounds but no cycles to hold them against."""
    return len(set(bounds["variant"]) - set(shares(counters, bounds)["variant"]))


def rules(measured: Measured, bounds: pd.DataFrame) -> str:
    """Two tables in Markdown: instructions counted in the SASS next to ncu's; and, of kernels with FFMAs, what issue
    takes of the measured cycles: by slots, by the bandwidth of the register banks, and by the model of issue."""
    counters = measured.counters[~measured.counters["stale"].astype(bool)]
    value = counters.set_index([*KEYS, "metric"])["value"]
    amount = bounds.set_index([*KEYS, "resource"])["amount"]
    rows = shares(counters, bounds)
    percent = rows.set_index([*KEYS, "resource"])["percent"]
    largest = bottlenecks(rows).set_index(KEYS)
    first = ["| kernel | instructions from the SASS | counted by ncu | difference |", "|---|---:|---:|---:|"]
    second = [
        "| kernel | issue slots | register banks | model of issue | largest bound | dispatch stalls | other stalls |",
        "|---|---:|---:|---:|---|---:|---|",
    ]
    for kernel in records(rows[[*KEYS, "label"]].drop_duplicates()):
        key = (kernel.variant, kernel.n)
        own, counted = amount[(*key, "issue")], value[(*key, EXECUTED)]
        apart = own / counted - 1
        difference = "none" if abs(apart) < EXACT else f"{100 * apart:+.4f}%"
        first.append(f"| {kernel.label} | {own:,.0f} | {counted:,.0f} | {difference} |")
        if (*key, MODEL) not in percent.index:
            continue
        stalls = {name: value[(*key, STALL.format(name))] for name in STALLS}
        worst = max(stalls, key=lambda name: stalls[name])
        most = largest.loc[key]
        second.append(
            f"| {kernel.label} | {percent[(*key, 'issue')]:.1f}% | {percent[(*key, 'registers')]:.1f}% "
            f"| {percent[(*key, MODEL)]:.1f}% | {RESOURCES[most['resource']]} {most['percent']:.1f}% "
            f"| {value[(*key, STALL.format('dispatch_stall'))]:.2f} | {worst.replace('_', ' ')} {stalls[worst]:.2f} |"
        )
    return "\n".join([*first, "", *second, ""])


def bounds_table(inputs: Inputs) -> pd.DataFrame:
    return in_words(shares(inputs.measured().counters, inputs.rows("bounds")))
