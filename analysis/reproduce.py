"""Measurements of this machine beside an archive's: does the fraction of cuBLAS of each row repeat?

    python -m analysis.reproduce --results results/h100/only/sgemm_ladder results/h100/only/hopper_ladder \
        --archive data/h100 --catalogue results/variants.csv

    python -m analysis.reproduce --results … --archive data/h100 --catalogue … --cards results/h100/gpu_medians.csv

A row repeats where its interleaved fraction lies in the archive's range over processes, or within 1% of its median.
Rows are the same problem, data and clock policy; a kernel whose machine code differs is left out and named. On GPUs
of one model, 95% of the rows should repeat. --cards also writes the medians on each card, of the archive's rows and of
these, by which `analysis.tables.gpus` says how far cards lie apart; `archive --only gpu_medians.csv` takes it. An
archive that was measured on several cards may stand beside itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.results import Results, records
from analysis.timings import KEY, of_windows
from contracts import UserError, registry, run_command, write_rows
from contracts.samples import read_samples

NEAR = 0.01  # relative to the archive's fraction
EXPECTED = 0.95  # of the rows, on GPUs of one model
PROBLEM = [name for name in KEY if name != "experiment"]


def beside(here: pd.DataFrame, archive: pd.DataFrame) -> pd.DataFrame:
    """The rows of `here`, timings of `analysis.timings`, that `archive` has, too.

    Returned columns: `KEY`, label, fraction, archived, archived_low, archived_high (fractions of cuBLAS), difference
    (relative), repeats, and same_code. Of several experiments of the archive, the same one comes first, then the one
    with the most processes. A library next to itself is left out.
    """
    columns = {"fraction": "archived", "fraction_low": "archived_low", "fraction_high": "archived_high"}
    columns |= {"experiment": "archived_in", "code_hash": "archived_code", "processes": "archived_processes"}
    known = archive[[*PROBLEM, *columns]].rename(columns=columns)
    joined = here[here["variant"] != here["baseline"]].merge(known, on=PROBLEM)
    joined = joined.assign(elsewhere=joined["experiment"] != joined["archived_in"])
    joined = joined.sort_values(["elsewhere", "archived_processes"], ascending=[True, False], kind="stable")
    found = joined.drop_duplicates(KEY).sort_values([*KEY[:1], "order", "n"], kind="stable", ignore_index=True)
    difference = found["fraction"] / found["archived"] - 1
    inside = found["fraction"].between(found["archived_low"], found["archived_high"])
    found = found.assign(difference=difference, repeats=inside | (difference.abs() <= NEAR))
    found = found.assign(same_code=found["code_hash"] == found["archived_code"])
    return found[[*KEY, "label", "fraction", *list(columns.values())[:3], "difference", "repeats", "same_code"]]


def by_card(measured: Sequence[Results]) -> pd.DataFrame:
    """Rows of gpu_medians: of each variant and problem, the median over a card's processes, each the median of a
    window's interleaved samples. A card is a session of provenance.json; times in microseconds, clocks in MHz.

    Rows on one card alone are left out, and so is what failed its check.
    """
    columns = registry.columns("gpu_medians")
    key = [name for name in columns if name in (*PROBLEM, "session")]
    parts = []
    for results in measured:
        windows = results.raw("windows")
        windows = windows[windows["passed"].astype(bool) & windows["left_out"].isna()]
        values = of_windows(read_samples(results.path("samples")).to_pandas())
        parts.append(windows.merge(values, on=[*KEY, "process"]))
    grouped = pd.concat(parts, ignore_index=True).drop_duplicates([*key, "process"]).groupby(key, sort=False)
    found = grouped[["dtype", "baseline", "code_hash"]].first()
    found["time_us_median"] = grouped["time_us"].median()
    found["baseline_time_us_median"] = grouped["baseline_time_us"].median()
    found["sm_clock_mhz"] = grouped["sm_clock_mhz"].median()
    found["samples"] = grouped["samples"].sum()
    found = found.reset_index()
    several = found.duplicated([name for name in key if name != "session"], keep=False)
    return found[several].reindex(columns=columns)


def report(rows: pd.DataFrame) -> str:
    """The rows as a person reads them, one line each, and the count of those that repeat."""
    lines = ["fraction of cuBLAS, interleaved: here, in the archive (range over processes), difference"]
    for row in records(rows[rows["same_code"]]):
        problem = f"{row.n}" if row.m == row.n == row.k else f"{row.m}x{row.n}x{row.k}"
        ranged = f"{row.archived:.3f} ({row.archived_low:.3f} to {row.archived_high:.3f})"
        name = f"{row.experiment} {row.label} {problem} {row.data}"
        lines.append(
            f"{name:60} {row.fraction:.3f}  {ranged}  {row.difference:+.2%}{'' if row.repeats else '  differs'}"
        )
    compared = rows[rows["same_code"]]
    if left_out := sorted(set(rows.loc[~rows["same_code"], "label"])):
        lines.append(f"left out, since their machine code differs: {', '.join(left_out)}")
    repeating = int(compared["repeats"].sum())
    lines.append(
        f"{repeating} of {len(compared)} rows ({repeating / max(len(compared), 1):.0%}) repeat; expected on a GPU of "
        f"this model: {EXPECTED:.0%}; median difference {compared['difference'].abs().median():.2%}"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare this machine's fractions of cuBLAS with an archive's.")
    parser.add_argument("--results", required=True, nargs="+", type=Path, metavar="DIR", help="results/GPU/only/NAME")
    parser.add_argument("--archive", required=True, type=Path, metavar="DIR", help="data/GPU")
    parser.add_argument("--catalogue", required=True, type=Path, metavar="FILE", help="results/variants.csv")
    parser.add_argument("--cards", type=Path, metavar="FILE", help="written: medians on each card, gpu_medians.csv")
    options = parser.parse_args(arguments)
    archive = Results(options.archive, options.catalogue)
    here = [Results(folder, options.catalogue) for folder in options.results]
    rows = pd.concat([beside(one.timings, archive.timings) for one in here], ignore_index=True)
    if not rows["same_code"].any():
        raise UserError(
            f"{', '.join(map(str, options.results))} and {options.archive} share no row; measure an experiment that "
            "the archive has, with kernels as they were then"
        )
    if other := sorted({one.gpu for one in here} - {archive.gpu}):
        print(f"{', '.join(other)} here, {archive.gpu} in the archive: another model need not repeat its fractions")
    print(report(rows))
    if options.cards:
        medians = by_card([archive, *here])
        write_rows(
            options.cards,
            "gpu_medians",
            ({str(key): value for key, value in row.dropna().items()} for _, row in medians.iterrows()),
        )


if __name__ == "__main__":
    run_command(main)
