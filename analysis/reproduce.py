"""Measurements of this machine beside an archive's: does the fraction of cuBLAS of each row repeat?

    python -m analysis reproduce --results results/h100/only/sgemm_ladder --archive data/h100
    python -m analysis reproduce --results … --archive data/h100 --cards results/h100/gpu_medians.csv

A row repeats where its interleaved fraction lies in the archive's range over processes, or within
1% of its median. Rows are the same problem, data and clock policy. On GPUs of one model, 95% of the
rows should repeat. Each measured row is shown, or named with the reason why it is not compared. The
exit code is 1 where fewer than nine in ten are compared, of the rows of windows.csv that have a
baseline other than themselves and whose variant the archive measured, too.
--cards also writes the medians on each card, of the archive's rows and of these, by which
`analysis.tables.gpus` says how far cards lie apart; `archive --only gpu_medians.csv` takes it. An
archive that was measured on several cards may stand beside itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.results import (
    Results,
    add_catalogue,
    lines_of,
    note_of,
    problem_of,
    records,
    tell_left_out,
)
from analysis.timings import KEY, of_windows
from contracts import UserError, write_rows
from contracts.rows import GpuMedians
from contracts.samples import read_samples

REL_TOL = 0.01  # A row that is so near to the archive's fraction repeats.
EXPECTED = 0.95  # On GPUs of one model, this fraction of the rows repeats.
MIN_COMPARED = 0.9  # This fraction of the measured rows has to have a row in the archive.
TYPES = {"fp32": "fp32", "tf32": "TF32", "bf16": "16-bit", "fp16": "16-bit"}
OTHER_CODE = "its machine code differs from the archive's"
NO_PROBLEM, NO_KERNEL = "the archive lacks the problem", "the archive lacks the kernel"
PROBLEM = [name for name in KEY if name != "experiment"]


def compared(here: Results, archive: Results) -> pd.DataFrame:
    """Every measured row of `here` that has a baseline other than itself, with its row of the
    archive, if any.

    Returned columns: those of `beside`, empty where there is no such row; label, dtype; reason, why
    a row is not compared, null where it is; and wanted: whether the archive measured the variant.
    """
    measured, archived = _measured(here), _measured(archive)
    first = archived.sort_values("reason", na_position="first", kind="stable")
    there = first.drop_duplicates(PROBLEM).set_index(PROBLEM)["reason"].rename("lost")
    both = beside(here.timings, archive.timings)
    rows = measured.drop_duplicates(KEY).merge(both, on=KEY, how="left")
    rows = rows.merge(there, left_on=PROBLEM, right_index=True, how="left")
    wanted = rows["variant"].isin(archived["variant"])
    reason = rows["reason"].fillna("in the archive, " + rows["lost"].astype("string"))
    reason = reason.mask(reason.isna() & rows["same_code"].eq(False), OTHER_CODE)
    lacking = reason.isna() & rows["fraction"].isna()
    reason = reason.mask(lacking & wanted, NO_PROBLEM).mask(lacking & ~wanted, NO_KERNEL)
    rows = rows.assign(label=rows["variant"].map(here.label), reason=reason, wanted=wanted)
    return rows.drop(columns="lost")


def _measured(results: Results) -> pd.DataFrame:
    """`KEY`, dtype and reason (why it does not count) of each window next to another baseline than
    itself.
    """
    windows = results.raw("windows")
    windows = windows.assign(reason=results.reasons(windows))
    return windows.loc[windows["variant"] != windows["baseline"], [*KEY, "dtype", "reason"]]


def beside(here: pd.DataFrame, archive: pd.DataFrame) -> pd.DataFrame:
    """The rows of `here`, timings of `analysis.timings`, that `archive` has, too.

    Returned columns: `KEY`, fraction, archived, archived_low, archived_high (fractions of cuBLAS),
    difference (relative), repeats, and same_code. Of several experiments of the archive, the same
    one comes first, then the one with the most processes. A library next to itself is left out.
    """
    fractions = {f"fraction{end}": f"archived{end}" for end in ("", "_low", "_high")}
    columns = fractions | {"experiment": "archived_in", "code_hash": "archived_code"}
    columns |= {"processes": "archived_processes"}
    known = archive[[*PROBLEM, *columns]].rename(columns=columns)
    rows = here[here["variant"] != here["baseline"]].merge(known, on=PROBLEM)
    rows = rows.assign(elsewhere=rows["experiment"] != rows["archived_in"])
    best = ["elsewhere", "archived_processes"]
    rows = rows.sort_values(best, ascending=[True, False], kind="stable").drop_duplicates(KEY)
    rows = rows.sort_values(["experiment", "order", "n"], kind="stable", ignore_index=True)
    difference = rows["fraction"] / rows["archived"] - 1
    inside = rows["fraction"].between(rows["archived_low"], rows["archived_high"])
    rows = rows.assign(difference=difference, repeats=inside | (difference.abs() <= REL_TOL))
    rows = rows.assign(same_code=rows["code_hash"] == rows["archived_code"])
    return rows[[*KEY, "fraction", *fractions.values(), "difference", "repeats", "same_code"]]


def by_card(measured: Sequence[Results]) -> pd.DataFrame:
    """Rows of gpu_medians: of each variant and problem, the median over a card's processes, each
    the median of a window's interleaved samples. A card is a session of provenance.json; times in
    microseconds, clocks in MHz.

    Rows on one card alone are left out, and so is what failed its check.
    """
    columns = list(GpuMedians.model_fields)
    key = [name for name in columns if name in (*PROBLEM, "session")]
    parts = []
    for results in measured:
        windows = results.raw("windows")
        windows = windows[windows["passed"].astype(bool) & windows["left_out"].isna()]
        values = of_windows(read_samples(results.path("samples")).to_pandas())
        parts.append(windows.merge(values, on=[*KEY, "process"]))
    processes = pd.concat(parts, ignore_index=True).drop_duplicates([*key, "process"])
    medians = processes.groupby(key, sort=False, as_index=False).agg(
        dtype=("dtype", "first"),
        baseline=("baseline", "first"),
        code_hash=("code_hash", "first"),
        time_us_median=("time_us", "median"),
        baseline_time_us_median=("baseline_time_us", "median"),
        sm_clock_mhz=("sm_clock_mhz", "median"),
        samples=("samples", "sum"),
    )
    several = medians.duplicated([name for name in key if name != "session"], keep=False)
    return medians[several].reindex(columns=columns)


def report(rows: pd.DataFrame) -> str:
    """The rows of `compared` as a person reads them: a line each, those that are not compared by
    reason, and counts.
    """
    columns = "here, in the archive (range over processes), difference"
    lines = [f"fraction of cuBLAS, interleaved: {columns}"]
    compared = rows[rows["reason"].isna()]
    for row in records(compared):
        ranged = f"{row.archived:.3f} ({row.archived_low:.3f} to {row.archived_high:.3f})"
        name = f"{row.experiment} {row.label} {problem_of(row)} {row.data}"
        differs = "" if row.repeats else "  differs"
        lines.append(f"{name:60} {row.fraction:.3f}  {ranged}  {row.difference:+.2%}{differs}")
    for (reason, experiment), group in rows.groupby(["reason", "experiment"], sort=False):
        names = (f"{row.label} {problem_of(row)} {row.data}" for row in records(group))
        lines.append(f"not compared, {reason}: {experiment}: {', '.join(names)}")
    types = compared["dtype"].map(lambda dtype: TYPES.get(dtype, dtype))
    for name, group in compared.groupby(types, sort=False):
        lines.append(f"{name}: {_repeating(group)}")
    lines.append(f"all: {_repeating(compared)}; expected on a GPU of this model: {EXPECTED:.0%}")
    others = int((~rows["wanted"]).sum())
    further = f"; {others} more of kernels that the archive lacks" if others else ""
    lines.append(f"compared {len(compared)} of {rows['wanted'].sum()} measured rows{further}")
    return "\n".join(lines)


def _repeating(rows: pd.DataFrame) -> str:
    repeating, median = int(rows["repeats"].sum()), rows["difference"].abs().median()
    share = repeating / max(len(rows), 1)
    return f"{repeating} of {len(rows)} rows ({share:.0%}) repeat, median difference {median:.2%}"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `reproduce`."""
    add_catalogue(parser)
    folder: dict[str, Any] = {"required": True, "type": Path, "metavar": "DIR"}
    parser.add_argument("--results", nargs="+", help="results/GPU/only/NAME", **folder)
    parser.add_argument("--archive", help="data/GPU", **folder)
    parser.add_argument(
        "--cards", type=Path, metavar="FILE", help="written: medians on each card, gpu_medians.csv"
    )


def run(args: argparse.Namespace) -> int:
    """Print the comparison; the exit code is 1 where too few rows are compared."""
    archive = Results(args.archive, args.catalogue)
    here = [Results(folder, args.catalogue) for folder in args.results]
    rows = pd.concat([compared(results, archive) for results in here], ignore_index=True)
    count, wanted = int(rows["reason"].isna().sum()), int(rows["wanted"].sum())
    if not count:
        lost = lines_of(kernel for results in (*here, archive) for kernel in results.left_out)
        why = f"{', '.join(map(str, args.results))} and {args.archive} share no row"
        remedy = "measure an experiment that the archive has, with kernels as they were then"
        raise UserError("; ".join([why, remedy, *(f"left out: {line}" for line in lost)]))
    # A rehearsal, or another model, is told before the rows.
    lines = [report(rows)]
    if other := sorted({results.gpu for results in here} - {archive.gpu}):
        another = "another model need not repeat its fractions"
        lines.insert(0, f"{', '.join(other)} here, {archive.gpu} in the archive: {another}")
    note = note_of([*here, archive])
    print("\n".join(filter(None, [note, *lines, note])))
    tell_left_out(*here, archive)
    if args.cards:
        medians = [row.dropna() for _, row in by_card([archive, *here]).iterrows()]
        rows_of_cards = [{str(key): value for key, value in row.items()} for row in medians]
        write_rows(args.cards, GpuMedians, rows_of_cards)
    if count < MIN_COMPARED * wanted:
        why = f"{count} of {wanted} measured rows are compared, fewer than nine in ten"
        print(f"error: {why}", file=sys.stderr)
        return 1
    return 0
