"""What the worklogs claim, and what of it holds on each GPU.

    python -m analysis.claims                                       # a readable list, of data/*
    python -m analysis.claims --check                               # fails where a verdict is not the recorded one
    python -m analysis.claims --only sgemm_cu/texld-faster          # one of them

A claim is an entry of paper/worklogs/NAME/claims.yaml, or of paper/claims.yaml for our own kernels.
Its test is a comparison over `analysis.numbers`. It "holds" where all of our interval meets the
comparison, it "does not hold" where none of the interval does, and else it is "within noise".
Numbers of an author's GPU are no claims; `analysis.tables.published` prints them beside ours.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.estimates import Estimate, Missing, Truth, number
from analysis.numbers import Numbers
from analysis.results import Results, note_of, of_archives
from contracts import (
    UserError,
    choose,
    read_rows,
    read_yaml,
    rules,
    run_command,
    worklogs,
    write_rows,
)
from contracts.declared import ClaimEntry, Claims, RecordedVerdict, TableRow, Worklog
from contracts.rows import Analytic, Emulated, Resources

QUOTE_WORDS = 25  # at most, of a text that is not ours
VERDICTS = {True: "holds", False: "does not hold", None: "within noise"}
ORDER = [*VERDICTS.values(), "not measured", "not testable"]
ANY = "any"  # in place of a GPU, where none takes part in a test
ANYWHERE, MECHANISM, UNTESTABLE = "anywhere", "mechanism", "untestable"
# What an expression may call that reads no measurement; quantities do not, either, with arch= or
# device="ptxsim"
NO_MEASUREMENT = {
    "published",
    "analytic",
    "min",
    "max",
    "mean",
    "sum",
    "abs",
    "log2",
    "count",
    "all_of",
    "any_of",
}
NO_MEASUREMENT |= {"geometric_mean", "rounds_to", "equals", "is_", "contains"}
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")  # an expression in a remark
COLUMNS = list(TableRow.model_fields)


# ---- the files -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """An entry with its worklog. `kind` follows from what its test reads."""

    worklog: str
    kind: str
    entry: ClaimEntry

    @property
    def name(self) -> str:
        return f"{self.worklog}/{self.entry.id}"

    @property
    def rule_hash(self) -> str:
        """Of test and quotation: what a recorded verdict answers."""
        return rules.of_claim(self.entry)


def read_claims(numbers: Numbers, root: Path = worklogs.FOLDER) -> list[Claim]:
    """Every claim, worklog after worklog, then ours.

    numbers: of any results folder; it has the names that a test may use. Raises `UserError` naming
    file and claim for a name that is none, a quotation that is too long, and a line outside the
    text.
    """
    sources = worklogs.sources(root)
    found = []
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
            kind = UNTESTABLE if entry.test is None else _kind(entry.test, numbers, worklog, where)
            for expression in PLACEHOLDER.findall(entry.remark or ""):
                if _kind(expression, numbers, worklog, where) == MECHANISM and kind != MECHANISM:
                    raise UserError(
                        f"{where}: {expression!r} in its remark reads a measurement, as its test does not"
                    )
            found.append(Claim(worklog, kind, entry))
    return found


def _check_quotation(entry: ClaimEntry, source: Worklog | None, where: str) -> None:
    """A worklog's claim has a line of its text and a short quotation; one of ours has neither."""
    if source is None:
        if entry.line or entry.quote:
            raise UserError(f"{where}: line or quote is given; allowed: in a worklog's claims")
        return
    if not entry.line or not entry.quote:
        raise UserError(f"{where}: line or quote is missing; a worklog's claim has both")
    if not any(section.first <= entry.line <= section.last for section in source.sections):
        raise UserError(
            f"{where}: line = {entry.line} is in no section of source.yaml (1 to {source.lines})"
        )
    if (words := len(entry.quote.split())) > QUOTE_WORDS:
        raise UserError(f"{where}: quote has {words} words; allowed: at most {QUOTE_WORDS}")


def _kind(expression: str, numbers: Numbers, worklog: str, where: str) -> str:
    """`ANYWHERE` where an expression reads no measurement, else `MECHANISM`.

    Raises `UserError` for an unknown name.
    """
    try:
        nodes = list(ast.walk(ast.parse(" ".join(expression.split()), mode="eval")))
    except SyntaxError as error:
        raise UserError(f"{where}: {expression!r} is not an expression ({error.msg})") from error
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    targets = {
        getattr(node.target, "id", "") for node in nodes if isinstance(node, ast.comprehension)
    }
    kind = ANYWHERE
    for node in nodes:
        if isinstance(node, ast.Name) and id(node) not in called and node.id not in targets:
            choose(numbers.known, node.id, "variant", where)
        if isinstance(node, ast.Call):
            function = node.func.id if isinstance(node.func, ast.Name) else ""
            choose(numbers.functions, function, "function", where)
            if function == "published" and node.args and isinstance(node.args[0], ast.Constant):
                id_ = str(node.args[0].value)
                choose(
                    numbers.paper["published"],
                    id_ if "/" in id_ else f"{worklog}/{id_}",
                    "id",
                    where,
                )
            if not _reads_no_measurement(function, node):
                kind = MECHANISM
    return kind


def _reads_no_measurement(function: str, call: ast.Call) -> bool:
    given = {
        one.arg: one.value.value for one in call.keywords if isinstance(one.value, ast.Constant)
    }
    return function in NO_MEASUREMENT or "arch" in given or given.get("device") == "ptxsim"


def paper_tables(analytic: Path, root: Path = worklogs.FOLDER) -> dict[str, dict[Any, Any]]:
    """The tables of no GPU that `Numbers` reads. analytic: analytic.csv
    (experiments.stages.analytic).
    """
    compiled = worklogs.rows("compiled.csv", Resources, root)
    emulated = worklogs.rows("emulated.csv", Emulated, root)
    return {
        "published": {name: row.value for name, row in worklogs.published(root).items()},
        "analytic": {(row.case, row.quantity): row.value for row in read_rows(analytic, Analytic)},
        "compiled": {(row.variant, row.arch): vars(row) for _, row in compiled},
        "emulated": {
            (row.variant, row.size, row.beta, row.metric): row.value for _, row in emulated
        },
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
    if not numbers:
        raise UserError(
            "no results folder and no archive is given; a folder with machine.json and tables is needed"
        )
    claims = read_claims(next(iter(numbers.values())), root)
    for name in only:
        choose({claim.name: claim for claim in claims}, name, "claim", "--only")
    claims = [claim for claim in claims if not only or claim.name in only]
    rows = [row for claim in claims for row in _rows(claim, numbers)]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"line": "Int64"})


def _rows(claim: Claim, numbers: Mapping[str, Numbers]) -> list[dict[str, Any]]:
    if claim.kind == MECHANISM:
        return [_row(claim, gpu, of_gpu) for gpu, of_gpu in numbers.items()]
    found = [_row(claim, ANY, of_gpu) for of_gpu in numbers.values()]
    return [next((row for row in found if row["verdict"] != "not measured"), found[0])]


def _row(claim: Claim, gpu: str, numbers: Numbers) -> dict[str, Any]:
    numbers.worklog = claim.worklog
    verdict, ours, words = _verdict(claim, numbers)
    found = claim.entry.model_dump() | {"gpu": gpu, "worklog": claim.worklog, "kind": claim.kind}
    found |= {"verdict": verdict, "ours": ours, "words": words, "rule_hash": claim.rule_hash}
    found["note"] = numbers.results.note or None if gpu != ANY else None
    found["remark"] = (
        filled(claim.entry.remark, numbers, claim.name) if claim.entry.remark else None
    )
    return {name: found[name] for name in COLUMNS}


def _verdict(claim: Claim, numbers: Numbers) -> tuple[str, str | None, str]:
    """The verdict, our value as text, and the comparison with its values or why there is none."""
    test = claim.entry.test
    if test is None:
        return "not testable", None, str(claim.entry.untestable)
    try:
        truth = numbers.evaluate(test)
    except Missing as missing:
        return "not measured", None, str(missing)
    except UserError as error:
        raise UserError(f"{claim.name}: {error}") from error
    if not isinstance(truth, Truth):
        raise UserError(f"{claim.name}: test = {test!r} is {truth}; allowed: a comparison")
    return VERDICTS[truth.holds], None if truth.ours is None else str(truth.ours), truth.words


def filled(text: str, numbers: Numbers, where: str) -> str:
    """A text with the value of each {expression} in its place, and "not measured" for what a GPU
    does not have.
    """

    def value(match: re.Match[str]) -> str:
        try:
            found = numbers.evaluate(match[1])
        except Missing:
            return "not measured"
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        return number(found.value) if isinstance(found, Estimate) else str(found)

    return PLACEHOLDER.sub(value, " ".join(text.split()))


# ---- what was recorded ---------------------------------------------------------------------------


def records(table: pd.DataFrame, gpu: str) -> list[dict[str, Any]]:
    """The rows of a GPU's verdicts.csv: its own verdicts, and those of no GPU."""
    return [
        {
            "id": f"{row.worklog}/{row.id}",
            "verdict": row.verdict,
            "ours": row.ours,
            "rule_hash": row.rule_hash,
        }
        for row in _entries(table)
        if row.gpu in (gpu, ANY)
    ]


def changes(now: Sequence[Mapping[str, Any]], path: Path, whole: bool = True) -> list[str]:
    """Where verdicts differ from those in a verdicts.csv, a line each. whole: whether `now` has all
    claims.
    """
    if not path.is_file():
        return [f"{path}: no verdicts are recorded; python -m analysis.claims --record writes them"]
    recorded = {row.id: row for row in read_rows(path, RecordedVerdict)}
    found = []
    for row in now:
        before = recorded.pop(row["id"], None)
        if before is None or before.rule_hash != row["rule_hash"]:
            found.append(
                f"{path}: {row['id']}: the claim is new or its test changed; now {row['verdict']}"
            )
        elif before.verdict != row["verdict"]:
            found.append(f"{path}: {row['id']}: {before.verdict} -> {row['verdict']}")
    return found + [
        f"{path}: {name}: recorded, and no longer a claim" for name in (recorded if whole else ())
    ]


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
            place = "" if row.line is None else f"line {row.line}: "
            lines.append(
                f"  {row.verdict:<13} {row.gpu:<5} {row.id}: {place}{row.claim} [{row.words}]"
            )
    for by in ("worklog", "kind"):
        counted = table.groupby([by, "gpu", "verdict"], sort=False).size().unstack(fill_value=0)
        lines += ["", counted.reindex(columns=[one for one in ORDER if one in counted]).to_string()]
    return "\n".join(lines).lstrip("\n")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    table: dict[str, Any] = {"type": Path, "metavar": "FILE.csv"}
    folder: dict[str, Any] = {"type": Path, "metavar": "FOLDER"}
    parser.add_argument("--archives", nargs="*", help="default: all of data/", **folder)
    parser.add_argument(
        "--results", help="what was measured here; stands for an archive of its name", **folder
    )
    parser.add_argument("--catalogue", default=Path("results/variants.csv"), **table)
    parser.add_argument("--analytic", default=Path("results/analytic.csv"), **table)
    parser.add_argument("--out", help="write the table, too", **table)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="FOLDER/ID", help="these claims; default: all"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--check", action="store_true", help="fail where a verdict is not the recorded one"
    )
    action.add_argument("--record", action="store_true", help="write verdicts.csv in each archive")
    options = parser.parse_args()
    if options.record and options.only:
        raise UserError(
            "--record with --only is not allowed; allowed: --record alone, which writes all verdicts"
        )
    return options


def main() -> int:
    options = parsed()
    folders = of_archives(options.catalogue)
    if options.archives is not None:
        folders = {path.name: Results(path, options.catalogue) for path in options.archives}
    if options.results:
        own = Results(options.results, options.catalogue)
        folders = {own.name: own} | {name: one for name, one in folders.items() if name != own.name}
    table = claims_table(folders, options.analytic, only=options.only)
    print("\n".join([*filter(None, [note_of(folders.values())]), listing(table)]))
    if options.out:
        write_rows(options.out, TableRow, [row._asdict() for row in _entries(table)])
    found = []
    for name, results in folders.items():
        rows, path = records(table, name), results.folder / "verdicts.csv"
        if results.archived and options.record:
            write_rows(path, RecordedVerdict, rows)
        if results.archived and options.check:
            found += changes(rows, path, whole=not options.only)
    print("\n".join(["", *found]))
    return 1 if found else 0


if __name__ == "__main__":
    run_command(main)
