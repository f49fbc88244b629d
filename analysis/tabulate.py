"""Writes the report tables of a results folder, all in one process.

    python -m analysis tabulate --results data/h100 --out results/tables [NAME ...]

--here names the folder of this tree's own build and emulation, where there is one. Names: those of
`TABLES`; a table that is asked for by name and has no row is an error. Rows of a rehearsal say so
in a last column, `note`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.results import Results, lines_of, several, tell_left_out
from analysis.tables import (
    coverage,
    emulator,
    gpus,
    kernels,
    published,
    shapes,
    steps,
    summary,
    timings,
)
from contracts import UserError, choose, write_text
from contracts.rows import ApiCalls


@dataclass(frozen=True)
class Sources:
    """What tables are made of: one results folder, and the archives of all GPU models by name."""

    results: Results
    archives: Mapping[str, Results]


TABLES: dict[str, Callable[[Sources], pd.DataFrame | dict[str, Any]]] = {
    "summary": lambda sources: summary.summary_table(sources.results),
    "timings": lambda sources: timings.timings_table(sources.results),
    "llm_shapes": lambda sources: shapes.llm_shapes_table(sources.results),
    "kernels": lambda sources: kernels.kernels_table(sources.results),
    "steps": lambda sources: steps.steps_table(sources.results),
    # Columns have our names of counters; times are in ns, volumes in bytes.
    "counters": lambda sources: sources.results.counters.drop(columns="order"),
    "emulator": lambda sources: emulator.emulator_table(sources.results),
    "published": lambda sources: published.published_table(sources.archives),
    "gpus": lambda sources: gpus.gpus_table(sources.archives),
    "spread": lambda sources: gpus.spread_table(sources.archives),
    "coverage": lambda sources: coverage.coverage_table(sources.archives),
    "api_calls": lambda sources: sources.results.table("api_calls")[[*ApiCalls.model_fields]],
}

# These tables have rows of several GPUs, which this column names.
GPU_COLUMN = {"published": "here", "gpus": "model", "spread": "model", "coverage": "gpu"}


def write(sources: Sources, names: Sequence[str], out: Path) -> None:
    """Write the tables named, or all of them, as NAME.csv or NAME.json.

    Raises `UserError` for a name that is none.
    """
    chosen = {
        name: choose(TABLES, name, "table", "analysis/tabulate.py") for name in names or TABLES
    }
    for name, function in chosen.items():
        made = function(sources)
        if isinstance(made, pd.DataFrame):
            if names and made.empty:
                why = "; ".join(lines_of(sources.results.left_out)) or "it was not measured"
                raise UserError(f"{sources.results.folder}: table {name} has no row: {why}")
            notes = {gpu: results.note for gpu, results in sources.archives.items()}
            note = made[GPU_COLUMN[name]].map(notes) if name in GPU_COLUMN else sources.results.note
            write_text(out / f"{name}.csv", as_csv(noted(made, note)))
        else:
            write_text(out / f"{name}.json", json.dumps(made, indent=1) + "\n")


def noted(rows: pd.DataFrame, note: pd.Series | str) -> pd.DataFrame:
    """A table with a last column `note`, of a text or one for each row; as it is where there is
    nothing to note.
    """
    noted = pd.Series(note, dtype=object).fillna("").astype(bool).any()
    return rows.assign(note=note) if noted else rows


def as_csv(rows: pd.DataFrame) -> str:
    """A table's text: seven significant digits, true and false in lower case."""
    rows = rows.infer_objects()
    for name in rows.columns:
        if pd.api.types.is_bool_dtype(rows[name].dtype):
            rows = rows.assign(**{name: rows[name].map({True: "true", False: "false"})})
    return str(rows.to_csv(index=False, float_format="%.7g", lineterminator="\n"))


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tabulate`."""
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="those to write (if left out: all)"
    )


def run(args: argparse.Namespace) -> None:
    """Write the tables that the options name."""
    archives = several(args)
    write(Sources(next(iter(archives.values())), archives), args.names, args.out)
    tell_left_out(*archives.values())
