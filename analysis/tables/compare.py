"""Two variants head to head: their counters section by section, as worklog 002 compares two kernels.

    python -m analysis.tables.compare --inputs results/inputs.json --a sgemm_tiling --b sgemm_at_tiling --out a.csv

The table is printed, too. Its columns: section, metric, unit, n, one named after each of the two (its label), and
better: the label of the one with the better value, "same" within 1%, or empty where neither more nor less is better in
itself. Stalls and pipes that neither of the two knows are left out.

With --emulated and --built, what the emulator and the compiler report of both is there, too: resources, the least
cycles of each resource, the bottleneck, and times where both have some. Where one of the two has no counters, those
that the emulator predicts of both stand in.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data import DAGGER, Measured, describe, metric_names, metrics, table, wide, write_csv
from analysis.inputs import Inputs
from analysis.metrics import COMPARISON, Shown, with_derived
from analysis.tables.bounds import ESTIMATES, RESOURCES
from contracts import UserError, choose, read_json, read_rows, run_command, write_text

Row = dict[str, Any]
SAME = 0.01  # of the larger value
HEAD = ["section", "metric", "unit", "n"]


def stalls() -> list[Shown]:
    """Every reason for a stall that contracts/metrics.yaml has; a warp that is selected or could be is not held up."""
    reasons = metrics()["stalls"]
    neutral = ("stall_selected", "stall_not_selected")
    return [Shown(key, reason["label"], "cycle", 0 if key in neutral else -1) for key, reason in reasons.items()]


STALLS = stalls()
# What either of the two must have for a row to be shown
LEAST = {"fma_pipe": 1.0, "tensor_pipe": 1.0} | {stall.key: 0.1 for stall in STALLS}


def columns(measured: Measured, a: str, b: str) -> list[str]:
    """The columns of the table for variants `a` and `b` of the catalogue."""
    labels = measured.variants.set_index("variant")["label"]
    return [*HEAD, labels[a], labels[b], "better"]


def compare(measured: Measured, a: str, b: str, n: int | None = None) -> pd.DataFrame:
    """The table described above, at size `n` or the largest at which both have counters; else without rows."""
    rows = wide(measured.counters, metric_names())
    rows = with_derived(rows[rows["variant"].isin([a, b])])
    sizes = set.intersection(*(set(rows.loc[rows["variant"] == name, "n"]) for name in (a, b)))
    chosen = n if n is not None else max(sizes, default=None)
    names = columns(measured, a, b)
    if chosen not in sizes:
        return pd.DataFrame(columns=names)
    first, second = (rows[(rows["variant"] == name) & (rows["n"] == chosen)].iloc[0] for name in (a, b))
    made = []
    for section, shown in (COMPARISON | {"Stalls, per issued instruction": STALLS}).items():
        for metric in shown:
            one, other = values = [float(row.get(metric.key, float("nan"))) for row in (first, second)]
            if metric.key not in LEAST or any(value >= LEAST[metric.key] for value in values):
                better = ["", *names[-3:-1], "same"][side(one, other, metric.better)]
                made.append([section, metric.label, metric.unit, chosen, *values, better])
    return pd.DataFrame(made, columns=names)


@dataclasses.dataclass(frozen=True)
class Unmeasured:
    """What is known of two variants without a GPU, of each by its name: rows of resources.csv, bounds.csv and
    predictions.csv; none of a library."""

    resources: Mapping[str, Row]
    bounds: Mapping[str, list[Row]]
    predictions: Mapping[str, list[Row]]

    @classmethod
    def read(cls, names: Sequence[str], built: Path, emulated: Path) -> Unmeasured:
        """From the folders of the built kernels and of the emulator's runs."""

        def tables(table: str, schema: str) -> dict[str, list[Row]]:
            paths = {name: emulated / name / f"{table}.csv" for name in names}
            return {name: read_rows(path, schema) for name, path in paths.items() if path.is_file()}

        files = {name: built / f"{name}.json" for name in names}
        resources = {name: read_json(path, "resources") for name, path in files.items() if path.is_file()}
        return cls(resources, tables("bounds", "bounds"), tables("predictions", "counters"))


def compare_whole(
    measured: Measured, unmeasured: Unmeasured | None, a: str, b: str, n: int | None = None
) -> pd.DataFrame:
    """Everything that is known of both, in the columns of `compare`; counters are predicted where one has none. Without
    `unmeasured`, measured counters alone.

    `n`: the size; else the largest at which both have counters, or predictions. Raises `UserError` where there is none.
    """
    known = measured.counters
    have = {name: set(known.loc[known["variant"] == name, "n"].astype(int)) for name in (a, b)}
    hoped = {name: sizes_of(unmeasured.predictions.get(name, [])) if unmeasured else set() for name in (a, b)}
    counted, predicted = have[a] & have[b], hoped[a] & hoped[b]
    common = counted or predicted
    if not (common if n is None else n in counted | predicted):
        at, why = "" if n is None else f" at n = {n}", measured.reason("profile")
        of = "; ".join(
            f"{name}: {', '.join(f'n = {n}' for n in sorted(have[name] | hoped[name])) or 'none'}" for name in (a, b)
        )
        what = "no counters and no predictions" if unmeasured else "no counters"
        raise UserError(f"{what} of both{at}{f' ({why})' if why else ''}; {of}")
    size = max(common) if n is None else n
    if unmeasured is None:
        return compare(measured, a, b, size)
    names = columns(measured, a, b)
    parts = [
        _speeds(measured, a, b, size, names),
        _resources(unmeasured, a, b, size, names),
        _bounds(unmeasured, a, b, size, names),
    ]
    if size in counted:
        parts.append(compare(measured, a, b, size))
    else:
        rows = [row for name in (a, b) for row in unmeasured.predictions[name]]
        stand_in = dataclasses.replace(measured, counters=describe(table(rows, "counters"), measured.variants))
        expected = compare(stand_in, a, b, size)
        expected = expected[~expected.iloc[:, 4:6].isna().all(axis=1)]
        parts.append(expected.assign(section=expected["section"] + ", predicted"))
    return pd.DataFrame([row for part in parts for row in part.to_numpy()], columns=names)


# Section, metric, unit, the values of both, and which way is better
Line = tuple[str, str, str, Sequence[Any], int]


def sizes_of(rows: Iterable[Row]) -> set[int]:
    """The sizes that rows are about."""
    return {int(row["n"]) for row in rows}


def _rows(names: Sequence[str], n: int, shown: Iterable[Line]) -> pd.DataFrame:
    """What neither has is left out."""
    made = []
    for section, metric, unit, (one, other), direction in shown:
        if one is not None or other is not None:
            numbers = isinstance(one, int | float) and isinstance(other, int | float)
            better = ["", *names[4:6], "same"][side(one, other, direction)] if numbers else ""
            made.append([section, metric, unit, n, one, other, better])
    return pd.DataFrame(made, columns=list(names))


def _speeds(measured: Measured, a: str, b: str, n: int, names: Sequence[str]) -> pd.DataFrame:
    """Times, shares and clocks of the first experiment that has both."""
    rows = measured.bench
    rows = rows[(rows["n"] == n) & (rows["regime"] == "unlocked") & (rows["data"] == "uniform")]
    both = [e for e, own in rows.groupby("experiment", sort=False) if {a, b} <= set(own["variant"])]
    if not both:
        return _rows(names, n, [])
    rows = rows[rows["experiment"] == both[0]].drop_duplicates("variant").set_index("variant")
    shown = [
        ("time_us_median", "Time", "µs", -1),
        ("share_of_baseline", "Share of its baseline", "", +1),
        ("flop_per_clock_sm", "FLOP/clock/SM", "", +1),
    ]
    return _rows(
        names, n, [("Speed", label, unit, [float(rows[k][v]) for v in (a, b)], d) for k, label, unit, d in shown]
    )


def _resources(unmeasured: Unmeasured, a: str, b: str, n: int, names: Sequence[str]) -> pd.DataFrame:
    shown = [
        ("registers", "Registers per thread", "", -1),
        ("shared_bytes", "Shared memory of a block", "byte", 0),
        ("spill_bytes", "Spilled", "byte", -1),
        ("blocks_per_sm", "Blocks per SM", "", +1),
        ("occupancy", "Theoretical occupancy, a share", "", +1),
        ("limiter", "Limited by", "", 0),
        ("sass_total", "Instructions in the SASS", "", 0),
    ]
    known = [unmeasured.resources.get(name, {}) for name in (a, b)]
    return _rows(
        names, n, [("Resources", label, unit, [row.get(key) for row in known], d) for key, label, unit, d in shown]
    )


def _bounds(unmeasured: Unmeasured, a: str, b: str, n: int, names: Sequence[str]) -> pd.DataFrame:
    """Least cycles by resource, the largest first, and the bottleneck."""
    known = [
        {row["resource"]: row["cycles_per_sm"] for row in unmeasured.bounds.get(v, []) if row["n"] == n} for v in (a, b)
    ]
    labels = RESOURCES | {key: f"{label} (estimate)" for key, label in ESTIMATES.items()}
    keys = sorted((key for key in labels if any(key in one for one in known)), key=lambda key: -known[0].get(key, 0))
    section = (
        f"Least cycles per SM, {next((row['machine'] for rows in unmeasured.bounds.values() for row in rows), '')}"
    )
    shown: list[Line] = [(section, labels[key], "cycle", [one.get(key) for one in known], -1) for key in keys]
    most = [max((k for k in one if k in RESOURCES), key=one.__getitem__, default=None) for one in known]
    shown.append((section, "Bottleneck", "", [key and RESOURCES[key] for key in most], 0))
    return _rows(names, n, shown)


def side(first: float, second: float, direction: int) -> int:
    """Which value is better: 1, 2, or 3 where they are the same within `SAME`; 0 where neither is better in itself.

    direction: +1 where more is better, -1 where less is, 0 where neither is.
    """
    if pd.isna(first) or pd.isna(second) or not direction:
        return 0
    if abs(first - second) <= SAME * max(abs(first), abs(second)):
        return 3
    return 1 + ((second > first) == (direction > 0))


def require_pair(measured: Measured, a: str, b: str, folder: Path) -> None:
    """Raises `UserError` where these are not two variants of the catalogue that passed their checks."""
    for name in (a, b):
        choose(dict.fromkeys(measured.variants["variant"]), name, "variant", "the catalogue")
    if a == b:
        raise UserError(f"{a} is named twice; two different variants can be compared")
    if failed := [name for name in (a, b) if name in set(measured.failed["variant"])]:
        raise UserError(f"{failed[0]} failed a check in {folder}/checks.csv, and is not compared with another")


def number(value: float | str) -> str:
    """Three significant digits, whole numbers whole; a dash where there is none. Words as they are."""
    if pd.isna(value):
        return "–"
    if isinstance(value, str):
        return value
    if float(value).is_integer() or abs(value) >= 1e5:
        return f"{value:.0f}"
    return f"{value:.{3 if abs(value) < 1 else 2 if abs(value) < 9.995 else 1}f}"


def text(measured: Measured, table: pd.DataFrame, a: str, b: str) -> str:
    """The table for a terminal, with a dagger at what is stale, and what the two builds are."""
    stale = set(measured.counters.loc[measured.counters["stale"].astype(bool), "variant"])
    labels = list(table.columns[4:6])
    heads = [label + (DAGGER if name in stale else "") for label, name in zip(labels, (a, b), strict=True)]
    rows = [(f"  {r[1]}{f' [{r[2]}]' if r[2] else ''}", number(r[4]), number(r[5]), r[6]) for r in table.to_numpy()]
    wide_, *values = (max(len(row[i]) for row in [*rows, ("", *heads, "")]) for i in range(3))
    lines = [
        f"{a} and {b}, m = n = k = {table['n'].iloc[0]}; {measured.origin}",
        "counters: ncu with clocks not locked",
        f"{'':{wide_}}  {heads[0]:>{values[0]}}  {heads[1]:>{values[1]}}  better",
    ]
    section = None
    for name, row in zip(table["section"], rows, strict=True):
        if name != section:
            lines.append(name)
            section = name
        lines.append(f"{row[0]:{wide_}}  {row[1]:>{values[0]}}  {row[2]:>{values[1]}}  {row[3]}".rstrip())
    if stale & {a, b}:
        lines.append(f"{DAGGER} source changed since measured")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", required=True, type=Path, metavar="FILE.json")
    parser.add_argument("--experiment", metavar="NAME", help="whose tables these are, where it has some of its own")
    parser.add_argument("--a", required=True, metavar="VARIANT", help="name in kernels/catalogue.yaml")
    parser.add_argument("--b", required=True, metavar="VARIANT", help="name in kernels/catalogue.yaml")
    parser.add_argument("--size", type=int, metavar="N", help="m = n = k; the largest that both have when left out")
    parser.add_argument("--emulated", type=Path, metavar="FOLDER", help="the emulator's tables, in a folder a variant")
    parser.add_argument(
        "--emulated-checks", type=Path, metavar="FILE.csv", help="of these two, for those of all kernels"
    )
    parser.add_argument("--built", type=Path, metavar="FOLDER", help="of the cubins")
    parser.add_argument("--text", type=Path, metavar="FILE", help="written: what is printed")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.csv")
    args = parser.parse_args()
    inputs = Inputs.read(args.inputs)
    inputs = inputs.of(args.experiment) if args.experiment else inputs
    if args.emulated_checks:
        inputs = dataclasses.replace(inputs, tables={**inputs.tables, "emulated_checks": args.emulated_checks})
    measured = inputs.measured()
    if (args.emulated is None) != (args.built is None):
        raise UserError("--emulated and --built go together")
    require_pair(measured, args.a, args.b, inputs.tables["counters"].parent)
    unmeasured = Unmeasured.read((args.a, args.b), args.built, args.emulated) if args.emulated else None
    made = compare_whole(measured, unmeasured, args.a, args.b, args.size)
    words = text(measured, made, args.a, args.b)
    write_csv(args.out, made)
    if args.text:
        write_text(args.text, words + "\n")
    print(words)


if __name__ == "__main__":
    run_command(main)
