"""What ran, what stands in from an archive, and what was left out and why: coverage.csv.

    python -m analysis.tables.coverage --machine h200 --measured results/h200 --resources results/h200/resources.csv \
        --archives data/h100 --out results/tables/coverage.csv

A leg is judged by the rows of its table. Reasons are those that the legs themselves left behind: in provenance.json,
or in the files that `--left-out` names.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.data import STAGES, left_out
from contracts import UserError, read_json, read_rows, run_command, write_rows

Row = dict[str, Any]


@dataclass(frozen=True)
class Leg:
    """A key of `STAGES`, the table that its rows are in, and the target that makes a table that need not be there."""

    stage: str
    table: str
    belongs: Callable[[Row], bool] = lambda row: True
    target: str | None = None


LEGS = [
    Leg("build", "resources"),
    Leg("check", "checks", lambda row: row["device"] == "gpu"),
    Leg("emulator", "checks", lambda row: row["device"] == "ptxsim"),
    Leg("bench", "bench", lambda row: row["regime"] == "unlocked"),
    Leg("locked", "bench", lambda row: row["regime"] == "locked"),
    Leg("profile", "counters"),
    Leg("agreement", "agreement", target="all"),
    Leg("timing_methods", "timing_methods", target="trust"),
    Leg("cross_checks", "cross_checks", target="trust"),
    Leg("timeline", "timeline", target="trust"),
    Leg("sanitizer", "sanitizer", target="sanitize"),
    Leg("tuning", "tuning", target="tile_autotune"),
]
NO_GPU_NEEDED = ("build", "emulator")


@dataclass
class Folder:
    """The tables in results/MACHINE or data/MACHINE, read as they are asked for."""

    path: Path
    _rows: dict[str, list[Row] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.path / "provenance.json").is_file():
            raise UserError(f"no measurements in {self.path}: it has no provenance.json")
        self.provenance = read_json(self.path / "provenance.json", "provenance")
        self.reasons = left_out(self.provenance)

    def rows(self, leg: Leg) -> list[Row] | None:
        """The leg's rows; None where there is no such table."""
        if leg.table not in self._rows:
            path = self.path / f"{leg.table}.csv"
            self._rows[leg.table] = read_rows(path, leg.table) if path.is_file() else None
        found = self._rows[leg.table]
        return None if found is None else [row for row in found if leg.belongs(row)]


def archive_rows(folder: Folder) -> list[Row]:
    """The legs of a machine that is only archived."""
    return [_row(folder.provenance["machine"], leg, folder, "archived", folder.reasons.get(leg.stage)) for leg in LEGS]


def own_rows(machine: str, folder: Folder, here: dict[str, list[Row]], why_archived: str | None) -> list[Row]:
    """The legs of this run: `here` holds the rows of those that it ran in any case, the others are in `folder`.

    `why_archived`: why nothing was measured here, where `folder` is an archive.
    """
    found = []
    for leg in LEGS:
        if here.get(leg.stage):
            row = {"machine": machine, "leg": STAGES[leg.stage], "status": "ran", "source": machine}
            found.append(row | {"rows": len(here[leg.stage]), "reason": folder.reasons.get(leg.stage)})
        elif why_archived is None:
            found.append(_row(machine, leg, folder, "ran", folder.reasons.get(leg.stage)))
        else:
            reasons = [why_archived, folder.reasons.get(leg.stage)] if folder.rows(leg) else []
            reason = "; ".join(filter(None, reasons)) or folder.reasons.get(leg.stage)
            found.append(_row(machine, leg, folder, "archived", reason))
    return found


def _row(machine: str, leg: Leg, folder: Folder, status: str, reason: str | None) -> Row:
    rows = folder.rows(leg)
    row: Row = {"machine": machine, "leg": STAGES[leg.stage], "rows": len(rows or []), "reason": reason}
    if rows:
        date = None if leg.stage in NO_GPU_NEEDED and status == "ran" else folder.provenance["date"]
        return row | {"status": status, "source": folder.provenance["machine"], "date": date}
    absent = f"{leg.table}.csv was not made" if rows is None else f"no rows in {leg.table}.csv, and no reason beside it"
    if rows is None and leg.target:
        absent += f"; snakemake --cores 1 {leg.target} makes it where there is a GPU"
    return row | {"status": "left out", "reason": reason or absent}


def reasons_in(arguments: list[str]) -> dict[str, str]:
    """Stage to reason, from STAGE=FILE arguments; an empty file gives none."""
    found = {}
    for argument in arguments:
        stage, _, path = argument.partition("=")
        if stage not in STAGES or not path:
            raise UserError(f"--left-out {argument!r} is not allowed; allowed: STAGE=FILE, of {', '.join(STAGES)}")
        try:
            found[stage] = Path(path).read_text().strip()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
    return {stage: reason for stage, reason in found.items() if reason}


def main() -> None:
    parser = argparse.ArgumentParser(description="What ran, what is archived, what was left out, and why.")
    parser.add_argument("--machine", required=True, help="this run's name")
    parser.add_argument("--measured", required=True, type=Path, metavar="DIR", help="results/MACHINE or data/MACHINE")
    parser.add_argument("--archived", metavar="WHY", help="that folder is an archive, as nothing was measured here")
    parser.add_argument("--resources", required=True, type=Path, metavar="FILE", help="resources.csv of this build")
    parser.add_argument("--emulated", type=Path, metavar="FILE", help="checks.csv of this tree on ptxsim")
    parser.add_argument(
        "--left-out", action="append", default=[], metavar="STAGE=FILE", help="a reason that is not in provenance.json"
    )
    parser.add_argument("--archives", nargs="*", default=[], type=Path, metavar="DIR", help="other machines, of data/")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    folder = Folder(options.measured)
    folder.reasons = reasons_in(options.left_out) | folder.reasons
    here = {"build": read_rows(options.resources, "resources")}
    if options.emulated:
        here["emulator"] = read_rows(options.emulated, "checks")
    rows = own_rows(options.machine, folder, here, options.archived)
    for path in options.archives:
        archive = Folder(path)
        if archive.provenance["machine"] != options.machine:
            rows += archive_rows(archive)
    write_rows(options.out, "coverage", rows)


if __name__ == "__main__":
    run_command(main)
