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

SAME_REL_TOL = 0.01  # Values that differ by less are called the same.
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
# A row is shown where either value reaches this.
MIN_SHOWN = {"fma_pipe": 1.0, "tensor_pipe": 1.0} | {stall.key: 0.1 for stall in counters.STALLS}
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
        known = dict.fromkeys(results.variants["variant"])
        choose(known, name, "variant", "kernels/catalogue.yaml")
        if name in set(results.failed["variant"]):
            why = f"{name} failed a check and is not compared"
            raise UserError(f"{why}; allowed: variants that passed")
    if a == b:
        raise UserError(f"{a} is named twice; allowed: two different variants")
    # Predictions of both stand in where one has no counters.
    rows, predicted = results.counters, False
    if not _common(rows, a, b):
        rows = counters.wide(squares(_recorded(results, "predictions", emulated, a, b)))
        predicted = True
    if not (sizes := _common(rows, a, b)):
        labels = (results.label(a), results.label(b))
        lost = lines_of(kernel for kernel in results.left_out if kernel.label in labels)
        why = f"no size has counters or predictions of both {a} and {b}"
        why += f" ({'; '.join(lost)})" if lost else ""
        raise UserError(f"{why}; allowed: variants that were profiled")
    n = 4096 if 4096 in sizes else max(sizes)
    bounds = squares(_recorded(results, "bounds", emulated, a, b))
    return Known(
        n=n,
        timings=_pair(usual(results.squares).query("n == @n"), a, b),
        builds=(_build(results, built, a), _build(results, built, b)),
        counted=_pair(rows[rows["n"] == n], a, b),
        cycles=(_cycles(bounds, a, n), _cycles(bounds, b, n)),
        predicted=predicted,
    )


def _recorded(
    results: Results, table: str, emulated: Sequence[Path], a: str, b: str
) -> pd.DataFrame:
    """Return the rows of both variants: of this tree's own runs of the emulator where those are
    there, else recorded ones.
    """
    model = TABLES[table].model
    paths = [path for folder in emulated if (path := folder / f"{table}.csv").is_file()]
    rows = [row for path in paths for row in read_rows(path, model) if row.variant in (a, b)]
    if rows:
        return results.described(frame(rows, model))
    return results.table(table).query("variant in (@a, @b)")


def _common(rows: pd.DataFrame, a: str, b: str) -> set[int]:
    """Return the sizes of both variants."""
    sizes = {name: set(rows.loc[rows["variant"] == name, "n"]) for name in (a, b)}
    return {int(n) for n in sizes[a] & sizes[b]}


def _pair(rows: pd.DataFrame, a: str, b: str) -> Pair:
    by_variant = {row.variant: row._asdict() for row in records(rows)}
    return by_variant.get(a, {}), by_variant.get(b, {})


def _build(results: Results, built: Path | None, name: str) -> Mapping[str, Any]:
    """The row of resources.csv of a variant, of this tree's own build where that is there."""
    if built and (path := built / f"{name}.json").is_file():
        return vars(read_json(path, Resources))
    return _pair(results.raw("resources"), name, name)[0]


def _cycles(bounds: pd.DataFrame, name: str, n: int) -> dict[str, float]:
    rows = bounds[(bounds["variant"] == name) & (bounds["n"] == n)]
    rows = rows[rows["resource"].isin(list(UNITS))]
    return dict(zip(rows["resource"].map(UNITS), rows["minimum_cycles"], strict=True))


def compare(known: Known, labels: tuple[str, str]) -> pd.DataFrame:
    """Return the table: `COLUMNS`, a row for each metric that either has. `better` names the better
    one, or says "same".
    """
    units = dict.fromkeys([*known.cycles[0], *known.cycles[1]])
    cycles = [Counter(unit, unit, "cycle", -1) for unit in units]
    by = "predicted" if known.predicted else "Nsight Compute"
    parts = [("Speed", SPEED, known.timings), ("Build", BUILD, known.builds)]
    parts.append(("Minimum cycles per SM", cycles, known.cycles))
    sections = counters.SECTIONS | {"Stalls": counters.STALLS}
    parts += [(f"{name}, {by}", metrics, known.counted) for name, metrics in sections.items()]
    rows = []
    for section, metrics, pair in parts:
        for metric in metrics:
            a, b = (_value(row, metric.key) for row in pair)
            if _shown(metric.key, a, b):
                row = [section, metric.label, metric.unit, known.n, a, b]
                rows.append([*row, *_compared(a, b, metric.better, labels)])
    return pd.DataFrame(rows, columns=COLUMNS)


def _value(row: Mapping[str, Any], key: str) -> Any:
    value = row.get(key)
    return None if value is None or (not isinstance(value, str) and pd.isna(value)) else value


def _shown(key: str, a: Any, b: Any) -> bool:
    if a is None and b is None:
        return False
    return key not in MIN_SHOWN or max(a or 0, b or 0) >= MIN_SHOWN[key]


def _compared(
    a: Any, b: Any, direction: int | None, labels: tuple[str, str]
) -> tuple[float | None, str]:
    """Return b / a, and which is better."""
    if any(value is None or isinstance(value, str) for value in (a, b)):
        return None, ""
    ratio, better = float(b) / float(a) if a else None, ""
    if direction:
        better = labels[1] if (b > a) == (direction > 0) else labels[0]
        same = abs(a - b) <= SAME_REL_TOL * max(abs(a), abs(b))
        better = "same" if same else better
    return ratio, better


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

    texts, section = [title, aligned(lines[0])], ""
    for row, line in zip(records(table), lines[1:], strict=True):
        if row.section != section:
            section = row.section
            texts.append(section)
        texts.append(aligned(line))
    return "\n".join(texts)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None or pd.isna(value) else number(float(value))


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `compare`."""
    for name in ("--a", "--b"):
        help = "name in kernels/catalogue.yaml"
        parser.add_argument(name, required=True, metavar="VARIANT", help=help)
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
    pair = known(results, args.a, args.b, args.emulated, args.built)
    labels = (results.label(args.a), results.label(args.b))
    table = compare(pair, labels)
    title = f"{args.a} (a) and {args.b} (b), m = n = k = {pair.n}; {results.gpu}, {results.date}"
    title += f"\n{results.note}" if results.note else ""
    text = as_text(table, labels, title)
    write_text(args.out, as_csv(noted(table, results.note)))
    write_text(args.out.with_suffix(".txt"), text + "\n")
    print(text)
    tell_left_out(results)
