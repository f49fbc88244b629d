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

NEAR = 0.01  # relative to the archive's fraction
EXPECTED = 0.95  # of the rows, on GPUs of one model
ENOUGH = 0.9  # of the measured rows have to find their row in the archive
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
    ours, theirs = (_measured(one) for one in (here, archive))
    there = theirs.sort_values("reason", na_position="first", kind="stable").drop_duplicates(
        PROBLEM
    )
    rows = ours.drop_duplicates(KEY).merge(
        beside(here.timings, archive.timings), on=KEY, how="left"
    )
    rows = rows.merge(
        there[[*PROBLEM, "reason"]].rename(columns={"reason": "lost"}), on=PROBLEM, how="left"
    )
    wanted = rows["variant"].isin(theirs["variant"])
    reason = rows["reason"].fillna("in the archive, " + rows["lost"].astype("string"))
    reason = reason.mask(reason.isna() & rows["same_code"].eq(False), OTHER_CODE)
    lacking = reason.isna() & rows["fraction"].isna()
    reason = reason.mask(lacking & wanted, NO_PROBLEM).mask(lacking & ~wanted, NO_KERNEL)
    return rows.assign(label=rows["variant"].map(here.label), reason=reason, wanted=wanted).drop(
        columns="lost"
    )


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
    columns = {
        "fraction": "archived",
        "fraction_low": "archived_low",
        "fraction_high": "archived_high",
    }
    columns |= {
        "experiment": "archived_in",
        "code_hash": "archived_code",
        "processes": "archived_processes",
    }
    known = archive[[*PROBLEM, *columns]].rename(columns=columns)
    joined = here[here["variant"] != here["baseline"]].merge(known, on=PROBLEM)
    joined = joined.assign(elsewhere=joined["experiment"] != joined["archived_in"])
    joined = joined.sort_values(
        ["elsewhere", "archived_processes"], ascending=[True, False], kind="stable"
    )
    found = joined.drop_duplicates(KEY).sort_values(
        [*KEY[:1], "order", "n"], kind="stable", ignore_index=True
    )
    difference = found["fraction"] / found["archived"] - 1
    inside = found["fraction"].between(found["archived_low"], found["archived_high"])
    found = found.assign(difference=difference, repeats=inside | (difference.abs() <= NEAR))
    found = found.assign(same_code=found["code_hash"] == found["archived_code"])
    return found[
        [*KEY, "fraction", *list(columns.values())[:3], "difference", "repeats", "same_code"]
    ]


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
    grouped = (
        pd.concat(parts, ignore_index=True)
        .drop_duplicates([*key, "process"])
        .groupby(key, sort=False)
    )
    found = grouped[["dtype", "baseline", "code_hash"]].first()
    found["time_us_median"] = grouped["time_us"].median()
    found["baseline_time_us_median"] = grouped["baseline_time_us"].median()
    found["sm_clock_mhz"] = grouped["sm_clock_mhz"].median()
    found["samples"] = grouped["samples"].sum()
    found = found.reset_index()
    several = found.duplicated([name for name in key if name != "session"], keep=False)
    return found[several].reindex(columns=columns)


def report(rows: pd.DataFrame) -> str:
    """The rows of `compared` as a person reads them: a line each, those that are not compared by
    reason, and counts.
    """
    lines = [
        "fraction of cuBLAS, interleaved: here, in the archive (range over processes), difference"
    ]
    shown = rows[rows["reason"].isna()]
    for row in records(shown):
        ranged = f"{row.archived:.3f} ({row.archived_low:.3f} to {row.archived_high:.3f})"
        name = f"{row.experiment} {row.label} {problem_of(row)} {row.data}"
        lines.append(
            f"{name:60} {row.fraction:.3f}  {ranged}  {row.difference:+.2%}{'' if row.repeats else '  differs'}"
        )
    for (reason, experiment), group in rows.groupby(["reason", "experiment"], sort=False):
        names = (f"{row.label} {problem_of(row)} {row.data}" for row in records(group))
        lines.append(f"not compared, {reason}: {experiment}: {', '.join(names)}")
    for name, group in shown.groupby(
        shown["dtype"].map(lambda dtype: TYPES.get(dtype, dtype)), sort=False
    ):
        lines.append(f"{name}: {_repeating(group)}")
    lines.append(f"all: {_repeating(shown)}; expected on a GPU of this model: {EXPECTED:.0%}")
    others = int((~rows["wanted"]).sum())
    further = f"; {others} more of kernels that the archive lacks" if others else ""
    return "\n".join(
        [*lines, f"compared {len(shown)} of {rows['wanted'].sum()} measured rows{further}"]
    )


def _repeating(rows: pd.DataFrame) -> str:
    repeating, median = int(rows["repeats"].sum()), rows["difference"].abs().median()
    share = repeating / max(len(rows), 1)
    return f"{repeating} of {len(rows)} rows ({share:.0%}) repeat, median difference {median:.2%}"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `reproduce`."""
    add_catalogue(parser)
    parser.add_argument(
        "--results",
        required=True,
        nargs="+",
        type=Path,
        metavar="DIR",
        help="results/GPU/only/NAME",
    )
    parser.add_argument("--archive", required=True, type=Path, metavar="DIR", help="data/GPU")
    parser.add_argument(
        "--cards", type=Path, metavar="FILE", help="written: medians on each card, gpu_medians.csv"
    )


def run(args: argparse.Namespace) -> int:
    """Print the comparison; the exit code is 1 where too few rows are compared."""
    archive = Results(args.archive, args.catalogue)
    here = [Results(folder, args.catalogue) for folder in args.results]
    rows = pd.concat([compared(one, archive) for one in here], ignore_index=True)
    shown, wanted = int(rows["reason"].isna().sum()), int(rows["wanted"].sum())
    if not shown:
        lost = lines_of(one for results in (*here, archive) for one in results.left_out)
        raise UserError(
            f"{', '.join(map(str, args.results))} and {args.archive} share no row; measure an experiment that "
            f"the archive has, with kernels as they were then{'; left out: ' * bool(lost)}{'; '.join(lost)}"
        )
    lines = [report(rows)]
    if other := sorted({one.gpu for one in here} - {archive.gpu}):
        another = "another model need not repeat its fractions"
        lines.insert(0, f"{', '.join(other)} here, {archive.gpu} in the archive: {another}")
    note = note_of([*here, archive])
    print("\n".join(filter(None, [note, *lines, note])))
    tell_left_out(*here, archive)
    if args.cards:
        medians = by_card([archive, *here])
        write_rows(
            args.cards,
            GpuMedians,
            (
                {str(key): value for key, value in row.dropna().items()}
                for _, row in medians.iterrows()
            ),
        )
    if shown < ENOUGH * wanted:
        print(
            f"error: {shown} of {wanted} measured rows are compared, fewer than nine in ten",
            file=sys.stderr,
        )
        return 1
    return 0
