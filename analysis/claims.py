"""What the worklogs claim, and what of it holds on each GPU.

    python -m analysis claims                                       # a readable list, of data/*
    python -m analysis claims --check                               # fails where a verdict is not the recorded one
    python -m analysis claims --only sgemm_cu/texld-faster          # one of them

A claim is an entry of paper/worklogs/NAME/claims.yaml, or of paper/claims.yaml for our own kernels.
Its test is a comparison over `analysis.numbers`. It "holds" where all of our interval meets the
comparison, it "does not hold" where none of the interval does, and else it is "within noise".
Numbers of an author's GPU are no claims; `analysis.tables.published` prints them beside ours.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd

from analysis.estimates import Estimate, Missing, Truth, number
from analysis.numbers import Numbers
from analysis.results import Results, note_of, several
from contracts import (
    UserError,
    choose,
    read_rows,
    read_yaml,
    worklogs,
    write_rows,
)
from contracts.declared import ClaimEntry, Claims, RecordedVerdict, TableRow, Worklog
from contracts.files import digest
from contracts.rows import Analytic, Emulated, Resources

MAX_QUOTE_WORDS = 25  # Of a text that is not ours.
VERDICTS = {True: "holds", False: "does not hold", None: "within noise"}
ORDER = [*VERDICTS.values(), "not measured", "not testable"]
ANY = "any"  # in place of a GPU, where none takes part in a test
ANYWHERE, MECHANISM, UNTESTABLE = "anywhere", "mechanism", "untestable"
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")  # an expression in a remark
COLUMNS = list(TableRow.model_fields)


# ---- the files -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """An entry with its worklog."""

    worklog: str
    entry: ClaimEntry

    @property
    def name(self) -> str:
        return f"{self.worklog}/{self.entry.id}"

    @property
    def kind(self) -> str:
        return UNTESTABLE if self.entry.test is None else self.entry.kind

    @property
    def rule_hash(self) -> str:
        """Of test and quotation: what a recorded verdict answers."""
        return digest(f"{self.entry.test}\n{self.entry.quote}")


class _Unmeasured:
    """The part of a folder's results in which no GPU takes part."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def __getattr__(self, name: str) -> Any:
        if name not in ("variants", "failed", "predictions"):
            raise UserError("an expression of kind 'anywhere' reads a measurement")
        return getattr(self._results, name)


def read_claims(root: Path = worklogs.FOLDER) -> list[Claim]:
    """Return every claim, worklog after worklog, then ours.

    Raises `UserError` naming file and claim for a quotation that is too long and for a line outside
    the text.
    """
    sources = worklogs.sources(root)
    read = []
    for worklog, path in worklogs.claims(root).items():
        seen: set[str] = set()
        for entry in read_yaml(path, Claims).root:
            where = f"{path}: {entry.id}"
            if entry.id in seen:
                raise UserError(f"{where}: the id stands twice; allowed: once")
            seen.add(entry.id)
            if (entry.test is None) == (entry.untestable is None):
                raise UserError(f"{where}: test and untestable, or neither; allowed: one of them")
            _check_quotation(entry, sources.get(worklog), where)
            read.append(Claim(worklog, entry))
    return read


def _check_quotation(entry: ClaimEntry, source: Worklog | None, where: str) -> None:
    """A worklog's claim has a line of its text and a short quotation; one of ours has neither."""
    if source is None:
        if entry.line or entry.quote:
            raise UserError(f"{where}: line or quote is given; allowed: in a worklog's claims")
        return
    if not entry.line or not entry.quote:
        raise UserError(f"{where}: line or quote is missing; a worklog's claim has both")
    if not any(section.first <= entry.line <= section.last for section in source.sections):
        lines = f"in no section of source.yaml (1 to {source.lines})"
        raise UserError(f"{where}: line = {entry.line} is {lines}")
    if (words := len(entry.quote.split())) > MAX_QUOTE_WORDS:
        raise UserError(f"{where}: quote has {words} words; allowed: at most {MAX_QUOTE_WORDS}")


def paper_tables(analytic: Path, root: Path = worklogs.FOLDER) -> dict[str, dict[Any, Any]]:
    """The tables of no GPU that `Numbers` reads. analytic: analytic.csv
    (experiments.stages.analytic).
    """
    published = worklogs.published(root)
    compiled = worklogs.rows("compiled.csv", Resources, root)
    emulated = worklogs.rows("emulated.csv", Emulated, root)
    counted = {(row.variant, row.size, row.beta, row.metric): row.value for _, row in emulated}
    return {
        "published": {name: row.value for name, row in published.items()},
        "units": {name: row.unit for name, row in published.items()},
        "analytic": {(row.case, row.quantity): row.value for row in read_rows(analytic, Analytic)},
        "compiled": {(row.variant, row.arch): vars(row) for _, row in compiled},
        "emulated": counted,
    }


# ---- verdicts ------------------------------------------------------------------------------------


def claims_table(
    folders: Mapping[str, Results],
    analytic: Path,
    root: Path = worklogs.FOLDER,
    only: Sequence[str] = (),
) -> pd.DataFrame:
    """One row for each claim and GPU, or for each claim alone where its test reads no measurement
    (gpu = "any").

    folders: results folders and archives by name. only: full ids; all claims where there are none.
    Columns: the fields of `TableRow`.
    """
    paper = paper_tables(analytic, root)
    numbers = {name: Numbers(results, paper) for name, results in folders.items()}
    claims = read_claims(root)
    for name in only:
        choose({claim.name: claim for claim in claims}, name, "claim", "--only")
    claims = [claim for claim in claims if not only or claim.name in only]
    rows = [row for claim in claims for row in _rows(claim, numbers)]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"line": "Int64"})


def _rows(claim: Claim, numbers: Mapping[str, Numbers]) -> list[dict[str, Any]]:
    if claim.kind == MECHANISM:
        return [_row(claim, gpu, of_gpu) for gpu, of_gpu in numbers.items()]
    rows = []
    for of_gpu in numbers.values():
        unmeasured = cast(Results, _Unmeasured(of_gpu.results))
        rows.append(_row(claim, ANY, Numbers(unmeasured, of_gpu.paper)))
    return [next((row for row in rows if row["verdict"] != "not measured"), rows[0])]


def _row(claim: Claim, gpu: str, numbers: Numbers) -> dict[str, Any]:
    numbers.worklog = claim.worklog
    row = claim.entry.model_dump() | {"gpu": gpu, "worklog": claim.worklog, "kind": claim.kind}
    row |= _verdict(claim, numbers)
    remark = claim.entry.remark
    row["rule_hash"] = claim.rule_hash
    row["note"] = numbers.results.note or None if gpu != ANY else None
    row["remark"] = filled(remark, numbers, claim.name) if remark else None
    return {name: row[name] for name in COLUMNS}


def _verdict(claim: Claim, numbers: Numbers) -> dict[str, str | None]:
    """The verdict, our value as text, both sides of the comparison, and its words or why there is
    none.
    """
    row = dict.fromkeys(("verdict", "ours", "claimed", "measured", "words"))
    test = claim.entry.test
    if test is None:
        return row | {"verdict": "not testable", "words": str(claim.entry.untestable)}
    try:
        truth = numbers.evaluate(test)
    except Missing as missing:
        return row | {"verdict": "not measured", "words": str(missing)}
    except UserError as error:
        raise UserError(f"{claim.name}: {error}") from error
    if not isinstance(truth, Truth):
        raise UserError(f"{claim.name}: test = {test!r} is {truth}; allowed: a comparison")
    ours = None if truth.ours is None else str(truth.ours)
    row |= {"verdict": VERDICTS[truth.holds], "ours": ours, "words": truth.words}
    if truth.claimed is None or truth.measured is None:
        return row | {"measured": ours and truth.words}
    return row | {"claimed": truth.claimed, "measured": truth.measured}


def filled(text: str, numbers: Numbers, where: str) -> str:
    """A text with the value of each {expression} in its place, and "not measured" for what a GPU
    does not have.
    """

    def text_of(match: re.Match[str]) -> str:
        try:
            value = numbers.evaluate(match[1])
        except Missing:
            return "not measured"
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        return number(value.value) if isinstance(value, Estimate) else str(value)

    return PLACEHOLDER.sub(text_of, " ".join(text.split()))


# ---- what was recorded ---------------------------------------------------------------------------


def records(table: pd.DataFrame, gpu: str) -> list[dict[str, Any]]:
    """The rows of a GPU's verdicts.csv: its own verdicts, and those of no GPU."""
    rows = table[table["gpu"].isin([gpu, ANY])]
    rows = rows.assign(id=rows["worklog"] + "/" + rows["id"])
    return [row._asdict() for row in _entries(rows[["id", "verdict", "ours", "rule_hash"]])]


def changes(now: Sequence[Mapping[str, Any]], path: Path, whole: bool = True) -> list[str]:
    """Where verdicts differ from those in a verdicts.csv, a line each. whole: whether `now` has all
    claims.
    """
    if not path.is_file():
        return [f"{path}: no verdicts are recorded; python -m analysis claims --record writes them"]
    recorded = {row.id: row for row in read_rows(path, RecordedVerdict)}
    lines = []
    for row in now:
        before, what = recorded.pop(row["id"], None), f"{path}: {row['id']}"
        if before is None or before.rule_hash != row["rule_hash"]:
            lines.append(f"{what}: the claim is new or its test changed; now {row['verdict']}")
        elif before.verdict != row["verdict"]:
            lines.append(f"{what}: {before.verdict} -> {row['verdict']}")
    gone = [f"{path}: {name}: recorded, and no longer a claim" for name in recorded]
    return lines + (gone if whole else [])


def _entries(table: pd.DataFrame) -> Iterator[Any]:
    """The rows, each with its columns as attributes; an empty cell is None."""
    return iter(table.astype(object).where(table.notna(), None).itertuples(index=False))


# ---- the command ---------------------------------------------------------------------------------


def listing(table: pd.DataFrame) -> str:
    """The table as a person reads it: a line for each row, then counts by worklog and by kind."""
    lines = []
    for worklog, rows in table.groupby("worklog", sort=False):
        lines.append(f"\n{worklog}")
        for row in _entries(rows):
            line = "" if row.line is None else f"line {row.line}: "
            head = f"  {row.verdict:<13} {row.gpu:<5} {row.id}"
            lines.append(f"{head}: {line}{row.claim} [{row.words}]")
    for by in ("worklog", "kind"):
        counted = table.groupby([by, "gpu", "verdict"], sort=False).size().unstack(fill_value=0)
        verdicts = [verdict for verdict in ORDER if verdict in counted]
        lines += ["", counted.reindex(columns=verdicts).to_string()]
    return "\n".join(lines).lstrip("\n")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `claims`."""
    table: dict[str, Any] = {"type": Path, "metavar": "FILE.csv"}
    parser.add_argument("--analytic", default=Path("results/analytic.csv"), **table)
    parser.add_argument("--out", help="write the table, too", **table)
    only: dict[str, Any] = {"metavar": "FOLDER/ID", "help": "these claims; default: all"}
    parser.add_argument("--only", nargs="+", default=[], **only)
    action = parser.add_mutually_exclusive_group()
    check = "fail where a verdict is not the recorded one"
    action.add_argument("--check", action="store_true", help=check)
    action.add_argument("--record", action="store_true", help="write verdicts.csv in each archive")


def run(args: argparse.Namespace) -> int:
    """Print the verdicts; write or check those that are recorded."""
    if args.record and args.only:
        alone = "--record alone, which writes all verdicts"
        raise UserError(f"--record with --only is not allowed; allowed: {alone}")
    folders = several(args)
    if not args.analytic.is_file():
        raise UserError(f"{args.analytic}: no such file; made by: snakemake --cores 1 claims")
    table = claims_table(folders, args.analytic, only=args.only)
    print("\n".join([*filter(None, [note_of(folders.values())]), listing(table)]))
    if args.out:
        write_rows(args.out, TableRow, [row._asdict() for row in _entries(table)])
    lines = []
    for name, results in folders.items():
        rows, path = records(table, name), results.folder / "verdicts.csv"
        if results.archived and args.record:
            write_rows(path, RecordedVerdict, rows)
        if results.archived and args.check:
            lines += changes(rows, path, whole=not args.only)
    print("\n".join(["", *lines]))
    return 1 if lines else 0
