"""What the worklogs claim, tested on each machine's tables.

    python -m analysis.claims.judge                 # prints the table, of every archive in data/
    python -m analysis.claims.judge --measured results/h200 --out claims.csv
    python -m analysis.claims.judge --check         # non-zero where a verdict is not the recorded one
    python -m analysis.claims.judge --record        # writes data/MACHINE/verdicts.csv

claims.yaml of a worklog has each claim with an expression over the tables and the rule that turns its value into a
verdict: holds, direction only, does not hold, or not testable here. `--functions` lists the quantities and functions
that an expression may use.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.claims import files
from analysis.claims.files import Paper
from analysis.claims.verdicts import CLAIM, DIRECTION, FAILS, KINDS, VERDICTS, Row, across, rule_hash, table
from analysis.claims.vocabulary import Vocabulary
from analysis.inputs import Inputs, archived_folders
from analysis.quantities.expressions import usage
from analysis.quantities.machine import Machine
from analysis.quantities.registry import quantities
from contracts import choose, read_rows, run_command, worklogs, write_rows

NARROWEST, WIDEST = 60, 120

# ---- in a terminal --------------------------------------------------------------------------------------------------


def text(rows: list[Row], paper: Paper, width: int) -> str:
    """By machine and worklog, each claim wrapped to the width; at the end the counts, on paper and of each machine."""
    lines, counts = [], []
    for machine in dict.fromkeys(row["machine"] for row in rows):
        of_machine = [row for row in rows if row["machine"] == machine]
        lines += [f"{machine} ({of_machine[0]['origin']})", ""]
        for key, title in paper.titles.items():
            of_worklog = [row for row in of_machine if row["worklog"] == key]
            if of_worklog:
                heading = f"{title}; {counted(of_worklog)}" if any(row["counted"] for row in of_worklog) else title
                lines += [*textwrap.wrap(heading, width), ""]
            for row in of_worklog:
                lines += claim_lines(row, width)
            lines += [""] if of_worklog else []
        counts += textwrap.wrap(f"{machine}: {counted([r for r in of_machine if not r['independent']])}", width)
    free = [row for row in rows if row["independent"]]
    if any(row["counted"] for row in free):
        counts[:0] = textwrap.wrap(f"On any machine: {counted(free)}", width)
    others = Counter(row["class"] for row in rows if row["machine"] == rows[0]["machine"] and row["class"] != CLAIM)
    if others:
        listed = ", ".join(f"{count} {name}{'s' if count != 1 else ''}" for name, count in others.items())
        counts.append(f"Not counted: {listed}.")
    return "\n".join([*lines, *counts])


def counted(rows: list[Row]) -> str:
    """How many claims have which verdict, in words, and of which kind those are that do not hold."""
    rows = [row for row in rows if row["counted"]]
    counts = Counter(row["verdict"] for row in rows)
    kinds = Counter(row["kind"] for row in rows if row["verdict"] in (DIRECTION, FAILS))
    listed = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    why = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
    return f"{len(rows)} claim{'s' if len(rows) != 1 else ''}: {listed}" + (f" ({why})" if why else "")


def claim_lines(row: Row, width: int) -> list[str]:
    """One claim: verdict, name and place; the claim; their value and ours; the remark."""
    indent = " " * 4
    here = f"{in_unit(ours_text(row), row['unit'])}: {row['why']}" if row["ours"] and not is_truth(row) else row["why"]
    values = f"Theirs: {in_unit(row['theirs'], row['unit'])}" + (f" ({row['gpu']})" if row["gpu"] else "") + ". "
    said = f"\u201c{row['quote']}\u201d" if row["quote"] else ""
    parts = [row["claim"], said, (values if row["theirs"] is not None else "") + f"Here: {here}", row["remark"] or ""]
    wrap: dict[str, Any] = {"width": width, "initial_indent": indent, "subsequent_indent": indent}
    where = row["section"] + (f", line {row['lines']}" if row["lines"] else "")
    first = f"{row['verdict']:17}  {row['id']} ({where})" + (f": {row['kind']}" if row["kind"] else "")
    return [
        *textwrap.wrap(first, width, subsequent_indent=" " * 19),
        *(line for part in parts if part for line in textwrap.wrap(part, **wrap)),
    ]


def ours_text(row: Row) -> str:
    """Our value with three digits, and its interval where it has one."""
    return files.short(row["ours"], row["ours_low"], row["ours_high"])


def is_truth(row: Row) -> bool:
    """Whether ours is the truth of a comparison, which `why` states."""
    return row["ours"] in ("true", "false", "undecided")


def in_unit(value: str, unit: str | None) -> str:
    """A value with its unit: 6.4x, 93.7%, 12 GB/s."""
    if not unit or unit == "count":
        return value
    return f"{value}{unit}" if unit in ("x", "%") else f"{value} {unit}"


def terminal_width() -> int:
    """Columns of the terminal, also where stdout goes through a pipe; COLUMNS in the environment says otherwise."""
    found = WIDEST
    if (columns := os.environ.get("COLUMNS", "")).isdigit():
        found = int(columns)
    else:
        for stream in (1, 2, 0):
            with contextlib.suppress(OSError):
                found = os.get_terminal_size(stream).columns
                break
    return max(NARROWEST, min(found, WIDEST))


# ---- records --------------------------------------------------------------------------------------------------------


def record(rows: list[Row], claims: list[dict[str, Any]], folder: Path) -> None:
    """Write the verdicts on an archive next to its tables."""
    hashes = {claim["id"]: rule_hash(claim) for claim in claims}
    wanted = [{key: row[key] for key in ("id", "verdict", "ours")} | {"rule_hash": hashes[row["id"]]} for row in rows]
    write_rows(folder / "verdicts.csv", "verdicts", wanted)


def differences(rows: list[Row], claims: list[dict[str, Any]], folder: Path) -> list[str]:
    """How the verdicts on an archive differ from those recorded next to it, a line for each claim."""
    path = folder / "verdicts.csv"
    if not path.is_file():
        return [f"{folder}: no verdicts are recorded; python -m analysis.claims.judge --record writes them"]
    recorded = {row["id"]: row for row in read_rows(path, "verdicts")}
    hashes = {claim["id"]: rule_hash(claim) for claim in claims}
    found = []
    for row in rows:
        now = f"{folder}: {row['id']}: {row['verdict']}"
        now += f" ({ours_text(row)}: {row['why']})" if row["ours"] else f" ({row['why']})"
        before = recorded.pop(row["id"], None)
        if before is None:
            found.append(f"{now}, and no verdict is recorded")
        elif before["verdict"] != row["verdict"]:
            then = f" ({files.short(before['ours'])})" if before["ours"] else ""
            found.append(f"{now}, and recorded is: {before['verdict']}{then}")
        elif before["rule_hash"] != hashes[row["id"]]:
            found.append(f"{now}, and its measure, rule or value changed since that verdict was recorded")
    return found + [f"{folder}: {name}: recorded as {r['verdict']}, and no such claim" for name, r in recorded.items()]


# ---- the table ------------------------------------------------------------------------------------------------------


def judged(
    paper: Paper, own: Inputs | None, archives: Mapping[Path, Inputs]
) -> tuple[list[Row], dict[Path, list[Row]]]:
    """The rows of claims.csv, this run's where it measured and other machines' archives'; and each archive's."""

    def on(inputs: Inputs) -> list[Row]:
        return table(paper, Machine(inputs, paper.compiled, paper.emulated))

    rows = on(own) if own else []
    here = {row["machine"] for row in rows}
    archived = {folder: on(inputs) for folder, inputs in archives.items()}
    alone = {folder: [dict(row) for row in part] for folder, part in archived.items()}  # what is recorded next to each
    across([rows, *archived.values()])
    for part in archived.values():
        rows += [row for row in part if row["machine"] not in here]  # this run's stand for its archive's
    once: set[str] = set()
    for row in rows:
        if row["independent"]:
            row["counted"] = row["counted"] and row["id"] not in once
            once.add(row["id"])
    return rows, alone


def claims(inputs: Inputs) -> list[Row]:
    paper = files.read(analytic=[inputs.tables["analytic"]])
    own = None if inputs.archived else inputs
    return judged(paper, own, {path: inputs.run_in(path) for path in inputs.archives})[0]


# ---- the command ----------------------------------------------------------------------------------------------------


def words_text() -> str:
    """What an expression may name and call, with what it gives."""
    lines = []
    for one in quantities().values():
        selectors = ", ".join(one.allowed)
        lines += [
            f"VARIANT.{one.key}" + (f"[{selectors}]" if selectors else ""),
            f"    {one.label}, from {one.source}.",
        ]
    for name, function in Vocabulary.methods().items():
        lines += [usage(name, function), f"    {(function.__doc__ or '').splitlines()[0]}"]
    return "\n".join(lines)


def only(paper: Paper, wanted: list[str]) -> Paper:
    """The claims named. Raises `UserError` for a name that is none."""
    known = {claim["id"]: claim for claim in paper.claims}
    chosen = [choose(known, name, "claim", worklogs.FOLDER) for name in wanted]
    return replace(paper, claims=chosen)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worklogs", type=Path, default=worklogs.FOLDER, metavar="DIR", help="a folder for each")
    parser.add_argument("--analytic", type=Path, nargs="+", default=[Path("results/analytic.csv")], metavar="FILE")
    parser.add_argument("--inputs", type=Path, metavar="FILE.json", help="a run's tables, in place of the next four")
    parser.add_argument("--measured", type=Path, metavar="DIR", help="tables of this run, for instance results/h200")
    parser.add_argument(
        "--archives", type=Path, nargs="*", metavar="DIR", help="archived tables (if left out: every folder of data/)"
    )
    parser.add_argument("--variants", type=Path, default=Path("results/variants.csv"), metavar="FILE")
    parser.add_argument("--only", nargs="+", metavar="ID", help="print these claims alone")
    parser.add_argument("--out", type=Path, metavar="FILE.csv", help="write the table in place of printing it")
    parser.add_argument(
        "--check", action="store_true", help="exit non-zero where an archive's verdicts are not those recorded"
    )
    parser.add_argument("--record", action="store_true", help="write each archive's verdicts next to its tables")
    parser.add_argument("--functions", action="store_true", help="list quantities and functions, and end")
    return parser


def main() -> int:
    parser = arguments()
    args = parser.parse_args()
    if args.functions:
        print(words_text())
        return 0
    if args.only and (args.check or args.record or args.out):
        parser.error("--only prints; without it --check, --record and --out have all claims")
    if args.inputs:
        inputs = Inputs.read(args.inputs)
        args.analytic, args.measured = [inputs.tables["analytic"]], None
        args.archives, args.variants = list(inputs.archives), inputs.tables["variants"]
    folders = archived_folders() if args.archives is None else args.archives
    paper = files.read(args.worklogs, args.analytic)
    paper = only(paper, args.only) if args.only else paper

    def of_folder(folder: Path, archived: bool) -> Inputs:
        return replace(Inputs.of_folder(folder, args.variants, archived=archived), archives=tuple(folders))

    own = of_folder(args.measured, archived=False) if args.measured else None
    if args.inputs and not inputs.archived:
        own = inputs
    archives = {folder: of_folder(folder, archived=True) for folder in folders}
    rows, archived = judged(paper, own, archives)
    if args.out:
        write_rows(args.out, "claims_table", rows)
    else:
        print(text(rows, paper, terminal_width()))
    if args.record:
        for folder, part in archived.items():
            record(part, paper.claims, folder)
    found = [line for f, part in archived.items() for line in differences(part, paper.claims, f)] if args.check else []
    for line in found:
        print(f"differs: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    run_command(main)
