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
from contracts import UserError, interval_columns, read_json, read_rows, run_command, schema, write_rows
from contracts.samples import SHORT_US, read_samples
from contracts.schema_files import added_columns

# What a row is of. A window, in both tables, is of one process, too
KEY: list[str] = [name for name in schema("windows")["key"] if name != "process"]
COPIED = [
    *("experiment", "variant", "dtype", "m", "n", "k", "alpha", "beta", "b_layout"),
    *("regime", "mechanism", "data", "baseline"),
    *("temperature_c", "source_hash"),
]
LEAST = 2  # kept samples of each role: of one alone there is no interval
ALONE, IN_TURNS = "alone", "in turns"

Row = dict[str, Any]
Interval = tuple[float, float, float]  # a value and the ends of its interval


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
    """Rows of bench.csv, in the order of `windows`, no two of which share a `KEY` and a process.

    `samples` has the columns of samples.parquet. Raises `UserError`, naming `source` and the window, where the
    two tables do not belong together.
    """
    found = launches(samples)
    known = [(*_key(window), window["process"]) for window in windows]
    if strange := found.keys() - set(known):
        raise UserError(f"{source}: has no row of {_shown(min(strange))}, which has samples; truncated or foreign")
    alone = {_alone_key(window, "variant"): window["power_run_us"] for window in windows if _counts(window)}
    rows: dict[tuple[Any, ...], list[tuple[Row, Launches]]] = {}
    failed = {_key(window) for window in windows if not window["passed"]}
    for key, window in zip(known, windows, strict=True):
        if _counts(window) and _key(window) not in failed:
            if key not in found:
                raise UserError(f"{source}: {_shown(key)} has no samples; truncated or foreign")
            theirs = alone.get(_alone_key(window, "baseline"))
            rows.setdefault(_key(window), []).append((window | {"baseline_row_us": theirs}, found[key]))
    return [row(measured, sm_count, source) for measured in rows.values()]


def _counts(window: Row) -> bool:
    return window["passed"] and not window["left_out"]


def _key(window: Row) -> tuple[Any, ...]:
    return tuple(window[name] for name in KEY)


def _alone_key(window: Row, role: str) -> tuple[Any, ...]:
    """What a window of one kernel alone is of; a baseline's own window stands for it where the variant's has none."""
    same = ("experiment", "m", "n", "k", "alpha", "beta", "b_layout", "regime", "data", "process", "lease")
    return (window[role], *(window[name] for name in same))


def launches(samples: pd.DataFrame) -> dict[tuple[Any, ...], Launches]:
    """The samples of each window, by `KEY` and process."""
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
    groups: dict[Any, Any] = samples.groupby([*KEY, "process"], observed=True, sort=False).indices
    return {key: every.of(np.sort(rows)) for key, rows in groups.items()}


def row(measured: list[tuple[Row, Launches]], sm_count: int, source: object) -> Row:
    """The row of bench.csv of the windows of one key, one for each process, and their samples.

    Raises `UserError` where too few samples of a window are kept.
    """
    window, name = measured[0][0], _shown(_key(measured[0][0]))
    turns = [_turns(every, f"{name} in process {one['process']}" if one["process"] else name, source)
             for one, every in measured]  # fmt: skip
    time, share = _over_processes([(ours.time_us, theirs.time_us) for ours, theirs in turns], name)
    cycles = ((role.time_us * role.sm_clock_mhz for role in pair) for pair in turns)
    per_clock = float(np.median([_time_and_share(*pair)[1] for pair in cycles]))
    runs = [(one["power_run_us"], one["baseline_run_us"] or one["baseline_row_us"]) for one, _ in measured]
    long = all(ours and theirs and min(ours, theirs) >= SHORT_US for ours, theirs in runs)
    alone = _middle([theirs / ours for ours, theirs in runs]) if long else None
    shown = {"time_us": time, "share": share}
    steady = alone is not None and all(one["baseline_run_us"] for one, _ in measured)
    if alone is not None and steady:
        shown = {"time_us": _middle([ours for ours, _ in runs]), "share": alone}
    flop = 2.0 * window["m"] * window["n"] * window["k"]
    watts = [one["power_w"] for one, _ in measured if one["power_w"]]
    energies = [
        one["power_w"] * one["power_run_us"] / 1e6 for one, _ in measured if one["power_w"] and one["power_run_us"]
    ]
    ours = _joined([pair[0] for pair in turns])
    clock, lowest, highest = np.quantile(ours.sm_clock_mhz, [0.5, 0.05, 0.95])
    worklog = [worklog_figure(every.of(~every.interleaved)) for _, every in measured]
    return {column: window[column] for column in COPIED} | {
        **_columns("time_us_median", shown["time_us"]),
        "time_us_in_turns": time[0],
        "time_us_worklog": next((figure for figure in worklog if figure is not None), None),
        "tflops": flop / shown["time_us"][0] / 1e6,
        "share_kind": ALONE if steady else IN_TURNS,
        **_columns("share_of_baseline", shown["share"]),
        **_columns("share_in_turns", share),
        "share_alone": alone[0] if alone else None,
        "share_per_clock": per_clock,
        "flop_per_clock_sm": float(np.median(flop / (ours.time_us * ours.sm_clock_mhz * sm_count))),
        "sm_clock_mhz": float(clock),
        "sm_clock_min_mhz": float(lowest),
        "sm_clock_max_mhz": float(highest),
        "power_w": float(np.mean(watts)) if watts else None,
        "throttle_reasons": _reasons(one["throttle_reasons"] for one, _ in measured),
        "gflop_per_j": flop / float(np.mean(energies)) / 1e9 if energies else None,
        "processes": len(measured),
        "samples": len(ours.kept),
        "rejected": sum(int((every.interleaved & every.ours & ~every.kept).sum()) for _, every in measured),
    }


def _turns(every: Launches, name: str, source: object) -> tuple[Launches, Launches]:
    """The kept samples in turns, the variant's and its baseline's."""
    ours, theirs = (every.of(every.interleaved & every.kept & mine) for mine in (every.ours, ~every.ours))
    if min(len(ours.kept), len(theirs.kept)) < LEAST:
        kept = f"{len(ours.kept)} kept samples, its baseline {len(theirs.kept)}"
        raise UserError(f"{source}: {name} has {kept}; at least {LEAST} are needed")
    return ours, theirs


def _joined(parts: list[Launches]) -> Launches:
    return Launches(*(np.concatenate([getattr(one, field.name) for one in parts]) for field in fields(Launches)))


def _over_processes(pairs: list[tuple[np.ndarray, np.ndarray]], name: str) -> list[Interval]:
    """Our time and share, with their intervals: over processes, or by resampling the samples of the only one.

    `pairs`: our times and the baseline's in microseconds, of each process.
    """
    values = np.array([_time_and_share(*pair) for pair in pairs])
    if len(values) > 1:
        return [_middle(of) for of in values.T]
    low, high = interval(_time_and_share, pairs[0], name)
    return [(float(value), float(a), float(b)) for value, a, b in zip(values[0], low, high, strict=True)]


def _middle(values: Any) -> Interval:
    """The median over processes, the least and the greatest: from one to the other is a 94% interval for five."""
    return float(np.median(values)), float(np.min(values)), float(np.max(values))


def _columns(name: str, value: Interval) -> Row:
    return dict(zip(interval_columns("bench", name), value, strict=True))


def _reasons(seen: Iterable[str]) -> str:
    """The throttle reasons of all windows, joined by +."""
    reasons = {reason for one in seen for reason in one.split("+")} - {"none"}
    return "+".join(sorted(reasons)) or "none"


def _time_and_share(ours: np.ndarray, theirs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Our median time, and the baseline's over it; the same draws serve both."""
    time = np.median(ours, axis)
    return np.stack([time, np.median(theirs, axis) / time])


def worklog_figure(replays: Launches) -> float | None:
    """Worklog C's figure: the mean of the second half of the replays, of those that are kept; None without any."""
    count = len(replays.kept)
    times = replays.of(replays.kept & (np.arange(count) >= count // 2)).time_us
    return float(np.mean(times)) if len(times) else None


def _shown(key: Iterable[Any]) -> str:
    """A window in words, without the alpha and beta of most problems; also what its resampling is seeded with."""
    usual = added_columns("windows")
    named = zip((*KEY, "process"), key, strict=False)
    return " ".join(str(value) for name, value in named if value != usual.get(name, ""))


def made(samples: Path, windows: Path, machine: Path) -> list[Row]:
    """The rows of bench.csv of these files."""
    return derive(
        read_rows(windows, "windows"),
        read_samples(samples).to_pandas(),
        read_json(machine, "machine")["sm_count"],
        windows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Derive bench.csv from samples and windows.")
    parser.add_argument("--samples", required=True, type=Path, metavar="samples.parquet")
    parser.add_argument("--windows", required=True, type=Path, metavar="windows.csv")
    parser.add_argument("--machine", required=True, type=Path, metavar="machine.json", help="for its number of SMs")
    parser.add_argument("--out", required=True, type=Path, metavar="bench.csv")
    options = parser.parse_args()
    write_rows(options.out, "bench", made(options.samples, options.windows, options.machine))


if __name__ == "__main__":
    run_command(main)
