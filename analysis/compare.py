"""Two variants side by side: speed, build, minimum cycles and counters.

    python -m analysis compare --a sgemm_tiling --b sgemm_at_tiling
        --out results/tables/compare_sgemm_tiling_sgemm_at_tiling.csv

The table is printed, and written next to --out as text. Where one of the two has no counters, those
that the emulator predicts of both stand in; --emulated and --built name the folders of this tree's
own runs, a folder or file each.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import counters
from analysis.counters import Counter
from analysis.estimates import number
from analysis.results import (
    Results,
    frame,
    lines_of,
    of_options,
    records,
    squares,
    tell_left_out,
    usual,
)
from analysis.tables.steps import UNITS
from analysis.tabulate import as_csv, noted
from contracts import UserError, choose, read_json, read_rows, write_text
from contracts.rows import TABLES, Resources

SAME = 0.01  # relative: values that differ by less are called the same
COLUMNS = ["section", "metric", "unit", "n", "a", "b", "b_over_a", "better"]
SPEED = [
    Counter("time_us", "Time", "µs", -1),
    Counter("tflops", "Throughput", "TFLOP/s", +1),
    Counter("fraction", "Fraction of cuBLAS, interleaved", "", +1),
    Counter("flop_per_clock_sm", "FLOP per clock and SM", "", +1),
    Counter("power_w", "Power", "W", -1),
]
BUILD = [
    counters.COUNTERS["registers"],
    Counter("shared_bytes", "Shared memory per block", "byte"),
    Counter("spill_bytes", "Spilled", "byte", -1),
    Counter("threads", "Threads per block", ""),
    Counter("blocks_per_sm", "Blocks per SM", "", +1),
    replace(counters.COUNTERS["theoretical_occupancy"], key="occupancy", unit=""),
    Counter("limiter", "Occupancy limited by", ""),
    Counter("sass_total", "Instructions in the SASS", ""),
]
# of either, to be shown
LEAST = {"fma_pipe": 1.0, "tensor_pipe": 1.0} | {stall.key: 0.1 for stall in counters.STALLS}
Pair = tuple[Mapping[str, Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Known:
    """What is known of two variants at one size: rows of timings, builds, counters and minimum
    cycles by unit.

    predicted says whether the counters are the emulator's.
    """

    n: int
    timings: Pair
    builds: Pair
    counted: Pair
    cycles: Pair
    predicted: bool = False


def known(
    results: Results, a: str, b: str, emulated: Sequence[Path] = (), built: Path | None = None
) -> Known:
    """Everything that is known of both.

    Raises `UserError` where no size has counters or predictions of both.
    """
    for name in (a, b):
        choose(
            dict.fromkeys(results.variants["variant"]), name, "variant", "kernels/catalogue.yaml"
        )
    if a == b:
        raise UserError(f"{a} is named twice; allowed: two different variants")
    if failed := {a, b} & set(results.failed["variant"]):
        raise UserError(
            f"{failed.pop()} failed a check and is not compared; allowed: variants that passed"
        )
    predictions = counters.wide(squares(_own(results, "predictions", emulated, a, b)))
    rows, predicted = results.counters, False
    if not _common(rows, a, b):
        rows, predicted = predictions, True
    if not (sizes := _common(rows, a, b)):
        lost = [
            one for one in results.left_out if one.label in (results.label(a), results.label(b))
        ]
        why = f" ({'; '.join(lines_of(lost))})" if lost else ""
        raise UserError(
            f"no size has counters or predictions of both {a} and {b}{why}; allowed: variants that were profiled"
        )
    n = 4096 if 4096 in sizes else max(sizes)
    bounds = squares(_own(results, "bounds", emulated, a, b))
    counted = _pair(rows[rows["n"] == n], a, b)
    return Known(
        n=n,
        timings=_pair(usual(results.squares).query("n == @n"), a, b),
        builds=tuple(_build(results, built, name) for name in (a, b)),  # type: ignore[arg-type]
        counted=counted,
        cycles=tuple(_cycles(bounds, name, n) for name in (a, b)),  # type: ignore[arg-type]
        predicted=predicted,
    )


def _own(results: Results, table: str, emulated: Sequence[Path], a: str, b: str) -> pd.DataFrame:
    """Rows of both variants: of this tree's own runs of the emulator where those are there, else
    recorded ones.
    """
    paths = (folder / f"{table}.csv" for folder in emulated)
    model = TABLES[table].model
    rows = [
        row
        for path in paths
        if path.is_file()
        for row in read_rows(path, model)
        if row.variant in (a, b)
    ]
    if rows:
        return results.described(frame(rows, model))
    found = results.table(table)
    return found[found["variant"].isin([a, b])]


def _common(rows: pd.DataFrame, a: str, b: str) -> set[int]:
    sizes = [
        set(rows.loc[rows["variant"] == name, "n"].astype(int)) if len(rows) else set()
        for name in (a, b)
    ]
    return sizes[0] & sizes[1]


def _pair(rows: pd.DataFrame, a: str, b: str) -> Pair:
    found: dict[str, Mapping[str, Any]] = {row.variant: row._asdict() for row in records(rows)}
    return found.get(a, {}), found.get(b, {})


def _build(results: Results, built: Path | None, name: str) -> Mapping[str, Any]:
    """The row of resources.csv of a variant, of this tree's own build where that is there."""
    if built and (path := built / f"{name}.json").is_file():
        return vars(read_json(path, Resources))
    return _pair(results.raw("resources"), name, name)[0]


def _cycles(bounds: pd.DataFrame, name: str, n: int) -> dict[str, float]:
    rows = bounds[(bounds["variant"] == name) & (bounds["n"] == n)] if len(bounds) else bounds
    return {
        UNITS[row["resource"]]: row["minimum_cycles"]
        for row in rows.to_dict("records")
        if row["resource"] in UNITS
    }


def compare(found: Known, labels: tuple[str, str]) -> pd.DataFrame:
    """The table: `COLUMNS`, a row for each metric that either has. `better` names the better one,
    or says "same".
    """
    units = [
        Counter(unit, unit, "cycle", -1)
        for unit in dict.fromkeys([*found.cycles[0], *found.cycles[1]])
    ]
    by = "predicted" if found.predicted else "Nsight Compute"
    parts = [("Speed", SPEED, found.timings), ("Build", BUILD, found.builds)]
    parts.append(("Minimum cycles per SM", units, found.cycles))
    sections = counters.SECTIONS | {"Stalls": counters.STALLS}
    parts += [(f"{name}, {by}", shown, found.counted) for name, shown in sections.items()]
    rows = []
    for section, shown, pair in parts:
        for metric in shown:
            one, other = (_value(row, metric.key) for row in pair)
            if _shown(metric.key, one, other):
                row = [section, metric.label, metric.unit, found.n, one, other]
                rows.append([*row, _ratio(one, other), _better(one, other, metric.better, labels)])
    return pd.DataFrame(rows, columns=COLUMNS)


def _value(row: Mapping[str, Any], key: str) -> Any:
    value = row.get(key)
    return None if value is None or (not isinstance(value, str) and pd.isna(value)) else value


def _shown(key: str, one: Any, other: Any) -> bool:
    if one is None and other is None:
        return False
    return key not in LEAST or max(one or 0, other or 0) >= LEAST[key]


def _numbers(one: Any, other: Any) -> bool:
    return (
        one is not None
        and other is not None
        and not isinstance(one, str)
        and not isinstance(other, str)
    )


def _ratio(one: Any, other: Any) -> float | None:
    return float(other) / float(one) if _numbers(one, other) and one else None


def _better(one: Any, other: Any, direction: int | None, labels: tuple[str, str]) -> str:
    if not direction or not _numbers(one, other):
        return ""
    if abs(one - other) <= SAME * max(abs(one), abs(other)):
        return "same"
    return labels[1] if (other > one) == (direction > 0) else labels[0]


def as_text(table: pd.DataFrame, heads: Sequence[str], title: str) -> str:
    """The table for a terminal, with aligned columns."""
    lines = [("", *heads, "b / a", "better")]
    for row in records(table):
        unit = f" [{row.unit}]" if row.unit else ""
        ratio = "" if pd.isna(row.b_over_a) else f"{row.b_over_a:.3f}"
        lines.append((f"  {row.metric}{unit}", _text(row.a), _text(row.b), ratio, row.better))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]

    def aligned(line: Sequence[str]) -> str:
        middle = [f"{cell:>{width}}" for cell, width in zip(line[1:4], widths[1:], strict=True)]
        return "  ".join([f"{line[0]:<{widths[0]}}", *middle, line[4]]).rstrip()

    found, section = [title, aligned(lines[0])], ""
    for row, line in zip(records(table), lines[1:], strict=True):
        if row.section != section:
            section = row.section
            found.append(section)
        found.append(aligned(line))
    return "\n".join(found)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None or pd.isna(value) else number(float(value))


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `compare`."""
    parser.add_argument(
        "--a", required=True, metavar="VARIANT", help="name in kernels/catalogue.yaml"
    )
    parser.add_argument(
        "--b", required=True, metavar="VARIANT", help="name in kernels/catalogue.yaml"
    )
    words = "folders with predictions.csv and bounds.csv, as the emulator leaves them"
    parser.add_argument("--emulated", type=Path, nargs="+", default=[], metavar="DIR", help=words)
    parser.add_argument(
        "--built", type=Path, metavar="DIR", help="folder of VARIANT.json, as the build leaves them"
    )
    parser.add_argument(
        "--out", required=True, type=Path, metavar="FILE.csv", help="FILE.txt is written, too"
    )


def run(args: argparse.Namespace) -> None:
    """Print the comparison and write it."""
    results = of_options(args)
    found = known(results, args.a, args.b, args.emulated, args.built)
    labels = (results.label(args.a), results.label(args.b))
    table = compare(found, labels)
    title = f"{args.a} (a) and {args.b} (b), m = n = k = {found.n}; {results.gpu}, {results.date}"
    title += f"\n{results.note}" if results.note else ""
    text = as_text(table, labels, title)
    write_text(args.out, as_csv(noted(table, results.note)))
    write_text(args.out.with_suffix(".txt"), text + "\n")
    print(text)
    tell_left_out(results)
