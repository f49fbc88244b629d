"""Two variants head to head: their counters section by section, as worklog 002 compares two kernels.

    python -m analysis.tables.compare --inputs results/inputs.json --a sgemm_tiling --b sgemm_at_tiling --out a.csv

The table is printed, too. Its columns: section, metric, unit, n, one named after each of the two (its label), and
better: the label of the one with the better value, "same" within 1%, or empty where neither more nor less is better in
itself. Stalls and pipes that neither of the two knows are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from analysis.data import DAGGER, Measured, metric_names, metrics, wide, write_csv
from analysis.inputs import Inputs
from analysis.metrics import COMPARISON, Shown, with_derived
from contracts import UserError, choose, run_command

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


def side(first: float, second: float, direction: int) -> int:
    """Which value is better: 1, 2, or 3 where they are the same within `SAME`; 0 where neither is better in itself.

    direction: +1 where more is better, -1 where less is, 0 where neither is.
    """
    if pd.isna(first) or pd.isna(second) or not direction:
        return 0
    if abs(first - second) <= SAME * max(abs(first), abs(second)):
        return 3
    return 1 + ((second > first) == (direction > 0))


def counted(measured: Measured, variant: str, folder: Path) -> set[int]:
    """Sizes at which a variant has counters. Raises `UserError` where it has none."""
    if variant in set(measured.failed["variant"]):
        raise UserError(f"{variant} failed a check in {folder}/checks.csv, and is not compared with another")
    known = measured.counters
    if variant not in set(known["variant"]):
        there = ", ".join(dict.fromkeys(known["variant"])) or "none"
        why = measured.reason("profile")
        what = f"no counters of {variant} in {folder}/counters.csv{f' ({why})' if why else ''}"
        raise UserError(f"{what}; there: {there}; snakemake compare reads them where there is a GPU")
    return {int(n) for n in known.loc[known["variant"] == variant, "n"]}


def chosen_size(measured: Measured, a: str, b: str, n: int | None, folder: Path) -> int:
    """`n`, or the largest size at which both have counters. Raises `UserError` where they have none in common."""
    for name in (a, b):
        choose(dict.fromkeys(measured.variants["variant"]), name, "variant", "the catalogue")
    if a == b:
        raise UserError(f"{a} is named twice; two different variants can be compared")
    sizes = {name: counted(measured, name, folder) for name in (a, b)}
    common = sizes[a] & sizes[b]
    if not common or (n is not None and n not in common):
        told = ", ".join(f"{name} at n = {', '.join(map(str, sorted(of)))}" for name, of in sizes.items())
        raise UserError(f"no counters of both{'' if n is None else f' at n = {n}'} in {folder}/counters.csv; {told}")
    return max(common) if n is None else n


def number(value: float) -> str:
    """Three significant digits, whole numbers whole; a dash where there is none."""
    if pd.isna(value):
        return "–"
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
        f"{a} and {b}, m = n = k = {table['n'].iloc[0]}; {measured.origin}; ncu with clocks not locked",
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
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.csv")
    args = parser.parse_args()
    inputs = Inputs.read(args.inputs)
    inputs = inputs.of(args.experiment) if args.experiment else inputs
    measured = inputs.measured()
    size = chosen_size(measured, args.a, args.b, args.size, inputs.tables["counters"].parent)
    made = compare(measured, args.a, args.b, size)
    write_csv(args.out, made)
    print(text(measured, made, args.a, args.b))


if __name__ == "__main__":
    run_command(main)
