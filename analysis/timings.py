"""Timings of a results folder: one row for each experiment, variant, problem, clock policy and kind
of data.

A window is one process that runs a variant and its baseline (a cuBLAS call) in alternation. Its
median time and its fraction of the baseline are one value each; a row has the median over its
processes and, as interval, their range.

    fraction             of cuBLAS, interleaved: both kernels meet the same clock, temperature and power. The headline.
    baseline_tflops      of cuBLAS beside this row's tflops: tflops over fraction. Clocks of two rows may differ by a
                         tenth, so compare rows by their fractions.
    fraction_isolated    of cuBLAS, each kernel back to back at its own steady clock; only of rows with five processes
    fraction_per_clock   of cuBLAS, interleaved, from SM cycles instead of time

A row of one process has no range. Its interval is the spread between GPUs of one model
(`SINGLE_PROCESS`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from contracts import UserError
from contracts.samples import SHORT_US

# These columns name a row; a window has its process, too.
KEY = ["experiment", "variant", "m", "n", "k", "alpha", "beta", "clock_policy", "data"]
COPIED = ["dtype", "b_layout", "clock_source", "baseline", "temperature_c", "code_hash"]
# The range of so many fresh processes is an interval: the median of all lies inside with a
# probability of 94%.
PROCESSES = 5
# A clock is held where 90% of the samples of both kernels lie within this of their median.
HELD = 0.01
# Half-width of the interval of a row with one process, relative: the 90th percentile over rows of
# how far apart six H100s lay, (greatest - least) / least, in data/h100 of 2026-11-25. Other types
# have that of 16 bits.
SINGLE_PROCESS = {"fp32": 0.003, "tf32": 0.039, "bf16": 0.085, "fp16": 0.086}
# The same of power, which one process of a row reads: how far apart experiments lie that measured
# the same row.
POWER = 0.1
# A throttle reason counts where at least this part of the polls showed it, as the median over
# processes.
THROTTLED = 0.5
POWERS = ("power_w", "gflop_per_j")
FRACTIONS = ("fraction", "fraction_isolated", "fraction_per_clock")
RANGES = ("time_us", "tflops", *FRACTIONS, "flop_per_clock_sm", "sm_clock_mhz", *POWERS)


def timings(
    windows: pd.DataFrame, samples: pd.DataFrame, sm_count: int, source: object = "windows"
) -> pd.DataFrame:
    """The rows, in the order of `windows`.

    windows, samples: the recorded tables of one folder, with clock_policy and clock_source.
    sm_count: of the GPU. Returned columns: `KEY`, `COPIED`, processes, samples, rejected,
    throttle_reasons, clock_held, time_isolated_us, baseline_tflops,
    and for each name of `RANGES` NAME, NAME_low and NAME_high. Times in microseconds, fractions of
    one, power in watts, clocks in MHz; NaN where a value was not measured. A window that failed its
    check or was left out excludes its row. Raises `UserError`, naming `source`, where a window that
    counts has no samples.
    """
    # A row has the median over its processes.
    grouped = by_process(windows, samples, sm_count, source).groupby(KEY, sort=False, dropna=False)
    rows = grouped[COPIED].first().reset_index()
    sizes = grouped.size().to_numpy()
    rows = rows.assign(processes=sizes, samples=grouped["samples"].sum().to_numpy())
    rows["rejected"] = grouped["rejected"].sum().to_numpy()
    rows["throttle_reasons"] = [throttle_reasons(windows) for _, windows in grouped]
    rows["clock_held"] = grouped["clock_held"].all().to_numpy()
    isolated_us = grouped["power_run_us"].median()
    rows["time_isolated_us"] = isolated_us.where(sizes >= PROCESSES).to_numpy()
    # A value of one process has the spread between GPUs as its interval.
    single = rows["dtype"].map(SINGLE_PROCESS).fillna(SINGLE_PROCESS["fp16"]).to_numpy()
    for name in RANGES:
        middle, low, high = (grouped[name].agg(how).to_numpy() for how in ("median", "min", "max"))
        alone = (grouped[name].count().to_numpy() == 1) if name in POWERS else (sizes == 1)
        spread = POWER if name in POWERS else single
        rows[name] = middle
        rows[f"{name}_low"] = np.where(alone, middle * (1 - spread), low)
        rows[f"{name}_high"] = np.where(alone, middle * (1 + spread), high)
    rows["baseline_tflops"] = rows["tflops"] / rows["fraction"]
    # Only rows of five processes have an isolated fraction.
    isolated = [f"fraction_isolated{end}" for end in ("", "_low", "_high")]
    rows.loc[rows["processes"] < PROCESSES, isolated] = np.nan
    return rows


def by_process(
    windows: pd.DataFrame, samples: pd.DataFrame, sm_count: int, source: object = "windows"
) -> pd.DataFrame:
    """The windows that count, one row a process, with the values of `RANGES`; likewise."""
    window_key = [*KEY, "process"]
    excluded = windows[~windows["passed"].astype(bool) | windows["left_out"].notna()]
    # A window that failed or was left out excludes all processes of its row.
    rows_excluded = excluded[KEY].drop_duplicates()
    counted = windows.merge(rows_excluded, on=KEY, how="left", indicator="excluded")
    counted = counted[counted.pop("excluded") == "left_only"]
    counted = counted.merge(of_windows(samples), on=window_key, how="left")
    if (lacking := counted["time_us"].isna() | counted["baseline_time_us"].isna()).any():
        window = " ".join(map(str, counted.loc[lacking, window_key].iloc[0]))
        why = "the table is truncated or foreign"
        raise UserError(f"{source}: {window} has no samples; {why}")
    return _with_values(counted, sm_count)


def _with_values(rows: pd.DataFrame, sm_count: int) -> pd.DataFrame:
    """The windows with the values of `RANGES`, one each."""
    flop = 2.0 * rows["m"] * rows["n"] * rows["k"]
    run, baseline_run = (rows[name].astype(float) for name in ("power_run_us", "baseline_run_us"))
    long = (run >= SHORT_US) & (baseline_run >= SHORT_US)
    return rows.assign(
        tflops=flop / rows["time_us"] / 1e6,
        fraction=rows["baseline_time_us"] / rows["time_us"],
        fraction_isolated=(baseline_run / run).where(long),
        fraction_per_clock=rows["baseline_cycles"] / rows["cycles"],
        flop_per_clock_sm=flop / (rows["cycles"] * sm_count),
        power_w=rows["power_w"].astype(float),
        gflop_per_j=flop / (rows["power_w"].astype(float) * run / 1e6) / 1e9,
    )


def of_windows(samples: pd.DataFrame) -> pd.DataFrame:
    """One row a window: medians of its interleaved samples that count, for the variant and its
    baseline.
    """
    by_process = [*KEY, "process"]
    samples = samples.assign(cycles=samples["time_us"] * samples["sm_clock_mhz"].astype(float))
    interleaved = samples[samples["window"] == "interleaved"]
    counted, of_variant = interleaved["kept"].astype(bool), interleaved["role"] == "variant"

    def grouped(rows: pd.Series) -> Any:
        return interleaved[rows].groupby(by_process, observed=True, sort=False)

    values = ["time_us", "cycles", "sm_clock_mhz"]
    windows: pd.DataFrame = grouped(counted & of_variant)[values].median()
    baseline = grouped(counted & ~of_variant)[values].median().add_prefix("baseline_")
    windows = windows.join(baseline, how="left")
    windows["samples"] = grouped(counted & of_variant).size()
    windows["rejected"] = grouped(~counted & of_variant).size()
    windows["rejected"] = windows["rejected"].fillna(0).astype(int)
    # The clock is of both kernels.
    clocks = grouped(counted)["sm_clock_mhz"]
    low, middle, high = (clocks.quantile(part) for part in (0.05, 0.5, 0.95))
    windows["clock_held"] = (low >= (1 - HELD) * middle) & (high <= (1 + HELD) * middle)
    texts = ("experiment", "variant", "clock_policy", "data")
    return windows.reset_index().astype(dict.fromkeys(texts, str))


def throttle_reasons(windows: pd.DataFrame) -> str | None:
    """What held the clock in the windows of one row, joined by +; "none"; None where the power was
    not read.

    A reason counts from `THROTTLED` of the polls on. In older windows, which lack the fractions,
    any poll counts.
    """
    if "throttle_fractions" in windows and (texts := windows["throttle_fractions"].dropna()).size:
        polls = pd.DataFrame(
            [dict(part.split("=") for part in text.split("+") if text != "none") for text in texts]
        )
        medians = polls.astype(float).fillna(0.0).median()
        seen = set(medians.index[medians >= THROTTLED])
    elif (texts := windows["throttle_reasons"].dropna()).size:
        seen = {reason for text in texts for reason in text.split("+")} - {"none"}
    else:
        return None
    return "+".join(sorted(seen)) or "none"
