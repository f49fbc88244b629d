"""Writes the tables of a folder of results.

    python -m experiments.stages.tables stored results/h100/parts/bench/sgemm_ladder/*.json \
        --store results/h100/measured --emulated-checks emulated-checks.csv --toolchain toolchain.json \
        --command "snakemake --cores 1 all" --out-dir results/h100

stored: what was measured on a GPU, of the manifests that jobs left: windows.csv, samples.parquet,
algorithm_search.csv, checks.csv, counters.csv, counters_with_beta.csv, machine.json and
provenance.json. joined: one table of the parts that builds, the emulator and studies wrote. passed:
ends non-zero where a check failed.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contracts import (
    UserError,
    read_json,
    read_rows,
    run_command,
    write_json,
    write_rows,
    write_text,
)
from contracts.model import Row
from contracts.rows import TABLES, Checks, Machine, Manifest, Provenance
from experiments.stages import provenance
from experiments.stages.store import Measurement, Store, few

MEASURED = ("windows", "algorithm_search", "counters", "counters_with_beta")


def once(rows: Iterable[Row]) -> list[Row]:
    """Return the rows without those that are equal to one before.

    What one kernel's check, or one measurement, gave is asked for by several experiments.
    """
    return list({tuple(vars(row).items()): row for row in rows}.values())


class Run:
    """The stored measurements of a run, by the manifests that its jobs left."""

    def __init__(self, store: Store, manifests: Iterable[Path]) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in (*MEASURED, "checks", "machine")}
        self.timed_checks: list[Checks] = []
        self.samples: list[Any] = []
        self.left_out: defaultdict[str, list[str]] = defaultdict(list)
        for path in manifests:
            manifest = read_json(path, Manifest)
            for stored in map(store.at, manifest.measurements):
                self._add(manifest.experiment, stored)
            for stage, reasons in manifest.left_out.items():
                self.left_out[stage] += reasons

    def _add(self, experiment: str, stored: Measurement) -> None:
        """Append the rows of a measurement, as this experiment's."""
        rows = stored.rows
        for name in MEASURED:
            self.rows[name] += getattr(rows, name)
        if rows.machine:
            self.rows["machine"].append(rows.machine)
        if not experiment:
            self.rows["checks"] += rows.checks
            return
        for window in rows.windows:
            window.experiment = experiment
        for check in rows.checks:
            check.case = f"after timing {experiment}{check.case}"
        self.timed_checks += rows.checks
        if stored.samples is not None:
            from contracts.samples import named

            self.samples.append(named(stored.samples, experiment))

    def write(self, folder: Path, emulated_checks: Iterable[Path]) -> Machine:
        """Write all tables but provenance.json; return the GPU that they were measured on."""
        from contracts.samples import write_samples

        if len({machine.gpu for machine in self.rows["machine"]}) != 1:
            raise UserError(f"{folder}: the manifests name no GPU, or several; allowed: one")
        # The checks of each kernel on the GPU, then on the emulator, then those of the timed runs
        on_emulator = [row for path in emulated_checks for row in read_rows(path, Checks)]
        self.rows["checks"] += [*on_emulator, *self.timed_checks]
        for name in (*MEASURED, "checks"):
            table = TABLES[name]
            write_rows(folder / table.file, table.model, once(self.rows[name]))
        write_samples(folder / TABLES["samples"].file, self.samples)
        machine: Machine = self.rows["machine"][0]
        write_json(folder / TABLES["machine"].file, Machine, machine)
        return machine


def stored(options: argparse.Namespace) -> None:
    """Write what was measured, and its provenance."""
    store = Store(options.store)
    run = Run(store, options.manifests)
    machine = run.write(options.out_dir, options.emulated_checks)
    left_out = {stage: few(list(dict.fromkeys(lines))) for stage, lines in run.left_out.items()}
    document = provenance.of_run(
        machine, options.toolchain, options.command, left_out, provenance.sessions(options.store)
    )
    write_json(options.out_dir / TABLES["provenance"].file, Provenance, document)


def joined(options: argparse.Namespace) -> None:
    """Write one table of its parts."""
    model = TABLES[options.table].model
    rows = [row for part in options.parts for row in read_rows(part, model)]
    if order := {name: place for place, name in enumerate(options.variants)}:
        rows = [row for row in rows if row.variant in order]
        rows.sort(key=lambda row: order[row.variant])
    write_rows(options.out, model, once(rows))


def passed(options: argparse.Namespace) -> None:
    """End with an error where a check failed, after everything else is done."""
    rows = read_rows(options.checks, Checks)
    failed = [row for row in rows if not row.passed]
    if failed:
        names = ", ".join(sorted({row.variant for row in failed}))
        first = failed[0]
        raise UserError(
            f"{len(failed)} of {len(rows)} checks failed, of: {names}; first: {first.variant}, "
            f"{first.case}: {first.detail}"
        )
    write_text(options.out, f"{len(rows)} checks passed\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the tables of a folder of results.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("stored", help="what was measured on a GPU")
    command.add_argument("manifests", nargs="+", type=Path, metavar="MANIFEST")
    command.add_argument("--store", required=True, type=Path, metavar="DIR")
    command.add_argument("--emulated-checks", nargs="*", default=[], type=Path, metavar="FILE")
    command.add_argument("--toolchain", required=True, type=Path, help="toolchain.json")
    command.add_argument("--command", required=True, help="what the user ran")
    command.add_argument("--out-dir", required=True, type=Path)
    command.set_defaults(run=stored)

    command = commands.add_parser("joined", help="one table of its parts, each row once")
    tables = [name for name, table in TABLES.items() if table.suffix == ".csv"]
    command.add_argument("table", choices=tables, metavar="TABLE", help="in contracts/rows.py")
    command.add_argument("parts", nargs="*", type=Path)
    words = "take the rows of these alone, in this order"
    command.add_argument("--variants", nargs="+", default=[], metavar="VARIANT", help=words)
    command.add_argument("--out", required=True, type=Path)
    command.set_defaults(run=joined)

    command = commands.add_parser("passed", help="end non-zero where a check failed")
    command.add_argument("--checks", required=True, type=Path)
    command.add_argument("--out", required=True, type=Path, help="written only where all passed")
    command.set_defaults(run=passed)

    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    run_command(main)
