"""Second opinions on what was measured, as tidy tables in the folder --out. A table that was not measured has no rows.

    python -m analysis.tables.cross_validation --measured data/h200 --archived --variants results/variants.csv --out results/tables

timing_methods.csv: one row per variant, size and way of timing: variant, label, n, stale, protocol, description, time_us,
    difference_percent (of the time, from that of `ours` in the same process), beside and alone_percent (a protocol that
    differs in one thing only, and the difference from that), sm_clock_mhz, cycles_difference_percent (that from `ours`
    of time x clock, where the clock was seen), replays.

cross_checks.csv: our median against another tool's: method ("nvbench": in the same process; "ncu": its duration of one
    launch, from counters.csv, against the timing of bench.csv), variant, label, n, stale, time_us, other_time_us,
    time_difference_percent, time_within (true where that is at most 1%), sm_clock_mhz, other_sm_clock_mhz,
    cycles_difference_percent (of time x clock, which removes a difference in clock), cycles_within, samples,
    other_samples.

timeline.csv: worklog 002's tables of a recorded benchmark process: table ("api", "kernel" or "memory"), variant, label,
    stale, name, calls, share_percent (of the table's time), total_us, mean_us, median_us, min_us, max_us, stddev_us,
    bytes.

agreement.csv: the GPU's results beside the emulator's, one row per kernel: variant, label, dtype, stale, cases,
    elements, differing (in any bit), worst_difference_share (of twice the rounding bound; empty where not finite),
    passed.

sanitizer.csv: NVIDIA's compute-sanitizer, one row per kernel: variant, label, dtype, stale, launches (of each tool),
    memcheck, racecheck, initcheck and synccheck (errors; empty where the tool did not run), passed, detail (the first
    thing reported).
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.data import Measured, input_arguments, metric_names, offered, one_row_each, read, wide, write_csv
from contracts import run_command

WITHIN_PERCENT = 1.0
OURS = "ours"
# Protocols that depart from ours in more than their name says, and what they share the rest with
BESIDE = {"launch_gap": "no_flush", "host_clock": "no_flush", "after_idle": "host_clock"}
ARGUMENTS = r"\((?!anonymous namespace).*"  # of a function's name
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def difference_percent(ours: pd.Series, others: pd.Series) -> pd.Series:
    """How much more `ours` is than `others`, in % of the latter; NaN where either is missing."""
    return 100 * (ours.astype(float) / others.astype(float) - 1)


def timing_methods(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of timing_methods.csv from its rows as measured."""
    keys = ["variant", "n", "protocol"]
    known = rows.drop_duplicates(keys).set_index(keys)[["time_us", "sm_clock_mhz"]].astype(float)

    def other(names: pd.Series) -> pd.DataFrame:
        """Of each row, the time and clock by the protocol named."""
        places = pd.MultiIndex.from_frame(rows[keys].assign(protocol=names))
        return known.reindex(places).set_axis(rows.index)

    beside = rows["protocol"].map(lambda name: BESIDE.get(name, OURS))
    ours = other(pd.Series(OURS, rows.index))
    cycles = rows["time_us"].astype(float) * rows["sm_clock_mhz"].astype(float)
    made = rows.assign(
        difference_percent=difference_percent(rows["time_us"], ours["time_us"]),
        beside=beside,
        alone_percent=difference_percent(rows["time_us"], other(beside)["time_us"]),
        cycles_difference_percent=difference_percent(cycles, ours["time_us"] * ours["sm_clock_mhz"]),
    )
    first = ["variant", "label", "n", "stale", "protocol", "description", "time_us", "difference_percent"]
    return made[[*first, "beside", "alone_percent", "sm_clock_mhz", "cycles_difference_percent", "replays"]]


def ncu_pairs(measured: Measured) -> pd.DataFrame:
    """Rows like those of cross_checks.csv as measured: our timings beside ncu's duration and mean SM clock."""
    counted = wide(measured.counters, metric_names())
    counted = counted.assign(**{key: counted.get(key) for key in ("duration", "sm_frequency")})
    counted = counted[["variant", "n", "stale", "duration", "sm_frequency"]]
    both = one_row_each(measured.bench).merge(counted, on=["variant", "n"], suffixes=("", "_counted"))
    return both.assign(
        method="ncu",
        time_us=both["time_us_median"],
        other_time_us=both["duration"].astype(float) / 1e3,  # wide() gives ns
        other_sm_clock_mhz=both["sm_frequency"].astype(float) / 1e6,
        other_samples=1,
        stale=both["stale"].astype(bool) | both["stale_counted"].astype(bool),
    ).dropna(subset=["other_time_us"])


def cross_checks(rows: pd.DataFrame, measured: Measured) -> pd.DataFrame:
    """The columns of cross_checks.csv: the rows as measured, then ncu's."""
    kept = ["method", "variant", "label", "n", "stale", "time_us", "other_time_us"]
    clocks, counts = ["sm_clock_mhz", "other_sm_clock_mhz"], ["samples", "other_samples"]
    parts = [part[[*kept, *clocks, *counts]] for part in (rows, ncu_pairs(measured)) if len(part)]
    both = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*kept, *clocks, *counts])
    time = difference_percent(both["time_us"], both["other_time_us"])
    cycles = 100 * ((1 + time / 100) * both[clocks[0]].astype(float) / both[clocks[1]].astype(float) - 1)
    return pd.DataFrame(
        {
            **{name: both[name] for name in kept},
            "time_difference_percent": time,
            "time_within": within(time),
            **{name: both[name] for name in clocks},
            "cycles_difference_percent": cycles,
            "cycles_within": within(cycles),
            **{name: both[name] for name in counts},
        }
    )


def within(percent: pd.Series) -> pd.Series:
    """Whether it is at most `WITHIN_PERCENT`, as true or false in words; None where there is no difference to judge."""
    return (percent.abs() <= WITHIN_PERCENT).map({True: "true", False: "false"}).where(percent.notna(), None)


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


def agreement(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of agreement.csv: all cases of a kernel in one row."""
    rows = rows.assign(worst=rows["worst_difference_share"].astype(float), passed=rows["passed"].astype(bool))
    grouped = rows.groupby(["variant", "label", "dtype"], sort=False)
    return grouped.agg(
        stale=("stale", "any"),
        cases=("case", "size"),
        elements=("elements", "sum"),
        differing=("differing", "sum"),
        worst_difference_share=("worst", lambda worst: worst.max(skipna=False)),
        passed=("passed", "all"),
    ).reset_index()


def sanitizer(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of sanitizer.csv: the tools of a kernel in one row."""
    columns = ["variant", "label", "dtype", "stale", "launches", *TOOLS, "passed", "detail"]
    found = []
    for (variant, label, dtype), part in rows.groupby(["variant", "label", "dtype"], sort=False):
        errors = part.set_index("tool")["errors"]
        told = [text for text in part["detail"] if isinstance(text, str) and text]
        known = [variant, label, dtype, bool(part["stale"].any()), int(part["launches"].max())]
        counts = [int(errors[tool]) if tool in errors.index else None for tool in TOOLS]
        found.append([*known, *counts, bool(part["passed"].all()), told[0] if told else None])
    made = pd.DataFrame(found, columns=columns)
    return made.astype(dict.fromkeys(TOOLS, "Int64"))


def main() -> None:
    parser = input_arguments(__doc__)
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for the tables")
    args = parser.parse_args()
    measured = read(args)
    rows = {
        name: offered(args.measured, name, measured, timed=name in ("timing_methods", "cross_checks", "timeline"))
        for name in ("timing_methods", "cross_checks", "timeline", "agreement", "sanitizer")
    }
    made = {
        "timing_methods": timing_methods(rows["timing_methods"]),
        "cross_checks": cross_checks(rows["cross_checks"], measured),
        "timeline": timeline(rows["timeline"]),
        "agreement": agreement(rows["agreement"]),
        "sanitizer": sanitizer(rows["sanitizer"]),
    }
    for name, part in made.items():
        write_csv(args.out / f"{name}.csv", part)


if __name__ == "__main__":
    run_command(main)
