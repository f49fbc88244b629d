"""Derives bench.csv from what was measured: medians, intervals, shares of the baseline, rates.

    python -m analysis.bench --samples data/h200/samples.parquet --windows data/h200/windows.csv \
        --machine data/h200/machine.json --out bench.csv

A window whose outputs failed their check after timing, or that was left out, has no row; a sample that is not kept
counts for nothing but `rejected`. The same files give the same table, to the byte, and each row by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.statistics import interval
from contracts import UserError, read_json, read_rows, run_command, schema, write_rows
from contracts.samples import read_samples
from contracts.schema_files import added_columns

KEY: list[str] = schema("windows")["key"]  # of a window, in both tables
COPIED = [
    *("experiment", "variant", "dtype", "m", "n", "k", "alpha", "beta", "b_layout"),
    *("regime", "mechanism", "data", "baseline"),
    *("power_w", "temperature_c", "throttle_reasons", "source_hash"),
]
LEAST = 2  # kept samples of each role: of one alone there is no interval

Row = dict[str, Any]


@dataclass(frozen=True)
class Launches:
    """What a window's samples say, one array entry a launch, in the order they ran."""

    interleaved: np.ndarray  # or of worklog C's own protocol
    ours: np.ndarray  # or the baseline's
    kept: np.ndarray
    time_us: np.ndarray
    sm_clock_mhz: np.ndarray

    def of(self, chosen: np.ndarray) -> Launches:
        """The chosen entries (mask or indices)."""
        return Launches(*(getattr(self, field.name)[chosen] for field in fields(self)))


def derive(windows: list[Row], samples: pd.DataFrame, sm_count: int, source: object) -> list[Row]:
    """Rows of bench.csv, in the order of `windows`, no two of which share a `KEY`.

    `samples` has the columns of samples.parquet. Raises `UserError`, naming `source` and the window, where the
    two tables do not belong together.
    """
    found = launches(samples)
    known = [tuple(window[name] for name in KEY) for window in windows]
    if strange := found.keys() - set(known):
        raise UserError(f"{source}: has no row of {_told(min(strange))}, which has samples; truncated or foreign")
    rows = []
    for key, window in zip(known, windows, strict=True):
        if window["passed"] and not window["left_out"]:
            if key not in found:
                raise UserError(f"{source}: {_told(key)} has no samples; truncated or foreign")
            rows.append(row(window, found[key], sm_count, source))
    return rows


def launches(samples: pd.DataFrame) -> dict[tuple[Any, ...], Launches]:
    """The samples of each window, by `KEY`."""
    if samples.empty:
        return {}
    samples = samples.sort_values("index", kind="stable")
    every = Launches(
        interleaved=(samples["window"] == "interleaved").to_numpy(),
        ours=(samples["role"] == "variant").to_numpy(),
        kept=samples["kept"].to_numpy(bool),
        time_us=samples["time_us"].to_numpy(np.float64),
        sm_clock_mhz=samples["sm_clock_mhz"].to_numpy(np.float64),
    )
    groups: dict[Any, Any] = samples.groupby(KEY, observed=True, sort=False).indices
    return {key: every.of(np.sort(rows)) for key, rows in groups.items()}


def row(window: Row, every: Launches, sm_count: int, source: object) -> Row:
    """The row of bench.csv of one window and its samples. Raises `UserError` where too few of these are kept."""
    name = _told(window[column] for column in KEY)
    ours, theirs = (every.of(every.interleaved & every.kept & mine) for mine in (every.ours, ~every.ours))
    if min(len(ours.kept), len(theirs.kept)) < LEAST:
        kept = f"{len(ours.kept)} kept samples, its baseline {len(theirs.kept)}"
        raise UserError(f"{source}: {name} has {kept}; at least {LEAST} are needed")
    time, share = _time_and_share(ours.time_us, theirs.time_us)
    (time_low, share_low), (time_high, share_high) = interval(_time_and_share, (ours.time_us, theirs.time_us), name)
    flop = 2.0 * window["m"] * window["n"] * window["k"]
    joules = window["power_w"] * window["power_run_us"] / 1e6 if window["power_w"] and window["power_run_us"] else None
    clock, lowest, highest = np.quantile(ours.sm_clock_mhz, [0.5, 0.05, 0.95])
    return {column: window[column] for column in COPIED} | {
        "time_us_median": float(time),
        "time_us_ci_low": float(time_low),
        "time_us_ci_high": float(time_high),
        "time_us_worklog": worklog_figure(every.of(~every.interleaved)),
        "tflops": float(flop / time / 1e6),
        "share_of_baseline": float(share),
        "share_ci_low": float(share_low),
        "share_ci_high": float(share_high),
        "flop_per_clock_sm": float(np.median(flop / (ours.time_us * ours.sm_clock_mhz * sm_count))),
        "sm_clock_mhz": float(clock),
        "sm_clock_min_mhz": float(lowest),
        "sm_clock_max_mhz": float(highest),
        "gflop_per_j": flop / joules / 1e9 if joules else None,
        "samples": len(ours.kept),
        "rejected": int((every.interleaved & every.ours & ~every.kept).sum()),
    }


def _time_and_share(ours: np.ndarray, theirs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Our median time, and the baseline's over it; the same draws serve both."""
    time = np.median(ours, axis)
    return np.stack([time, np.median(theirs, axis) / time])


def worklog_figure(replays: Launches) -> float | None:
    """Worklog C's figure: the mean of the second half of the replays, of those that are kept; None without any."""
    count = len(replays.kept)
    times = replays.of(replays.kept & (np.arange(count) >= count // 2)).time_us
    return float(np.mean(times)) if len(times) else None


def _told(key: Iterable[Any]) -> str:
    """A window in words, without the alpha and beta of most problems; also what its resampling is seeded with."""
    usual = added_columns("windows")
    return " ".join(str(value) for name, value in zip(KEY, key, strict=True) if value != usual.get(name, ""))


def main() -> None:
    parser = argparse.ArgumentParser(description="Derive bench.csv from samples and windows.")
    parser.add_argument("--samples", required=True, type=Path, metavar="samples.parquet")
    parser.add_argument("--windows", required=True, type=Path, metavar="windows.csv")
    parser.add_argument("--machine", required=True, type=Path, metavar="machine.json", help="for its number of SMs")
    parser.add_argument("--out", required=True, type=Path, metavar="bench.csv")
    options = parser.parse_args()
    windows = read_rows(options.windows, "windows")
    samples = read_samples(options.samples).to_pandas()
    sm_count = read_json(options.machine, "machine")["sm_count"]
    write_rows(options.out, "bench", derive(windows, samples, sm_count, options.windows))


if __name__ == "__main__":
    run_command(main)
