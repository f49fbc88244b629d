"""What ran, what stands in from an archive, and what was left out and why: coverage.csv.

A leg is judged by the rows of its table. Reasons are those that the legs themselves left behind: in provenance.json,
or in files of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.data import left_out
from analysis.inputs import Inputs
from contracts import UserError, choose
from contracts.registry import Leg, Table, legs, tables

Row = dict[str, Any]
ONLY_DRAWN = "only drawn again; snakemake --cores 1 all makes it here"  # of what needs no GPU


@dataclass
class Folder:
    """The tables of a run, and the reasons that it left behind."""

    inputs: Inputs

    def __post_init__(self) -> None:
        if not self.inputs.has("provenance"):
            raise UserError(f"no measurements in {self.inputs.tables['provenance'].parent}: it has no provenance.json")
        self.provenance = self.inputs.document("provenance")
        self.reasons = left_out(self.provenance)

    def rows(self, table: str, leg: Leg) -> list[Row] | None:
        """The leg's rows; None where there is no such table."""
        return [row for row in self.inputs.listed(table) if leg.has(row)] if self.inputs.has(table) else None


def archive_rows(folder: Folder) -> list[Row]:
    """The legs of a machine that is only archived."""
    machine = folder.provenance["machine"]
    return [_row(machine, one, leg, folder, "archived", folder.reasons.get(leg.stage)) for one, leg in _legs()]


def own_rows(machine: str, folder: Folder, here: dict[str, list[Row]], why_archived: str | None) -> list[Row]:
    """The legs of this run: `here` holds the rows of those that it ran in any case, the others are in `folder`.

    `why_archived`: why nothing was measured here, where `folder` is an archive.
    """
    found = []
    for one, leg in _legs():
        if here.get(leg.stage):
            row: dict[str, Any] = {"machine": machine, "leg": leg.leg, "status": "ran", "source": machine}
            found.append(row | {"rows": len(here[leg.stage]), "reason": folder.reasons.get(leg.stage)})
        elif why_archived is None:
            found.append(_row(machine, one, leg, folder, "ran", folder.reasons.get(leg.stage)))
        else:
            why = why_archived if _needs_gpu(one, leg) else ONLY_DRAWN
            reasons = [why, folder.reasons.get(leg.stage)] if folder.rows(one.name, leg) else []
            reason = "; ".join(filter(None, reasons)) or folder.reasons.get(leg.stage)
            found.append(_row(machine, one, leg, folder, "archived", reason))
    return found


def _legs() -> list[tuple[Table, Leg]]:
    """Each leg with its table, in the registry's order."""
    return [(one, leg) for one in tables().values() for leg in one.legs]


def _needs_gpu(one: Table, leg: Leg) -> bool:
    return one.needs_gpu and leg.where.get("device") != "ptxsim"


def _row(machine: str, one: Table, leg: Leg, folder: Folder, status: str, reason: str | None) -> Row:
    rows = folder.rows(one.name, leg)
    row: Row = {"machine": machine, "leg": leg.leg, "rows": len(rows or []), "reason": reason}
    if rows:
        undated = status == "ran" and not _needs_gpu(one, leg)
        return row | {
            "status": status,
            "source": folder.provenance["machine"],
            "date": None if undated else folder.provenance["date"],
        }
    absent = f"{one.file} was not made" if rows is None else f"no rows in {one.file}, and no reason next to it"
    if rows is None and one.optional:
        absent += f"; snakemake --cores 1 {one.target} makes it where there is a GPU"
    return row | {"status": "left out", "reason": reason or absent}


def reasons_in(files: Mapping[str, Path]) -> dict[str, str]:
    """Reasons by stage, from the files that measurements left behind; an empty file gives none."""
    found = {}
    for stage, path in files.items():
        choose(legs(), stage, "stage", "left_out of the inputs")
        try:
            found[stage] = path.read_text().strip()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
    return {stage: reason for stage, reason in found.items() if reason}


def coverage(inputs: Inputs) -> list[Row]:
    folder = Folder(inputs)
    folder.reasons = reasons_in(inputs.left_out) | folder.reasons
    ours = not inputs.archived or inputs.tables["resources"].parent != inputs.tables["provenance"].parent
    here = {"build": inputs.listed("resources") if ours else []}
    if inputs.archived:
        here["emulator"] = inputs.listed("emulated_checks")
    rows = own_rows(inputs.machine, folder, here, inputs.why_archived)
    for path in inputs.archives:
        archive = Folder(inputs.run_in(path))
        if archive.provenance["machine"] != inputs.machine:
            rows += archive_rows(archive)
    return rows
