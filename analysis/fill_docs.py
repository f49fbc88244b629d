"""Fills the tables of documents from measurements, and judges the statements that their sentences rest on.

    python -m analysis.fill_docs --measured data/h200 --variants results/variants.csv \\
        --doc docs/kernels/*.md docs/statements/*.txt

The text is written by hand, its numbers are not. In a Markdown file, HTML comments on lines of their own say what
belongs where:

    <!-- origin --> ... <!-- end -->
        where and when all of this was measured
    <!-- table: VARIANT ... | KEY ... --> ... <!-- end -->
        a column per variant at n = 4096; rows: time, share of cuBLAS, registers, blocks per SM, then the keys
    <!-- sizes: VARIANT ... | N ... --> ... <!-- end -->
        the share of cuBLAS at these sizes
    <!-- exactness --> ... <!-- end -->
        how near the emulator's counters come to those of Nsight Compute, for all kernels of the archive
    <!-- findings --> ... <!-- end -->
        on which machines each finding holds, from --findings, with the shares of the kernels that it is about
    <!-- summaries --> ... <!-- end -->
        a sentence or two with what the run's machine measured of each leading finding, from --findings

A text file has one statement a line: an expression that compares values by < <= > >=, also in a chain. Lines that begin
with # say which sentences it is about. Keys and expressions are those of `analysis.quantities`; `python -m
analysis.claims.judge --functions` lists them; `share` is 1 for cuBLAS. A statement about a kernel that was not
measured, or whose source changed since (marked †), waits; a kernel that failed a check has no values.

The tables are written in any case. False statements are reported, one per line, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

from analysis.data import DAGGER, one_row_each
from analysis.findings.matrix import WORDS, measured_findings
from analysis.findings.sources import Row
from analysis.inputs import Inputs
from analysis.quantities.estimates import Estimate, Truth, Undefined
from analysis.quantities.expressions import evaluate
from analysis.quantities.machine import SIZE, Machine, Missing
from analysis.quantities.registry import quantities
from analysis.tables import exactness
from analysis.words import data_text, regime_text, significant
from contracts import UserError, choose, run_command, write_text
from contracts.json_files import json_value

ALWAYS = ["time_us", "share", "registers", "blocks_per_sm"]
COMMENT = re.compile(r"^<!-- *(.*?) *-->$", re.MULTILINE | re.DOTALL)
LEADING = 3  # findings, in the order of findings.json, that README gives in sentences
# Whether each takes arguments; python -m ptxsim.coverage fills `instructions`
DIRECTIVES = dict.fromkeys(("origin", "findings", "summaries", "exactness", "instructions", "end"), False)
DIRECTIVES |= {"table": True, "sizes": True}


@dataclass(frozen=True)
class Statement:
    """The line that it is in, whether it is true (None: it waits), and why not or what for."""

    line: int
    expression: str
    verdict: bool | None
    detail: str
    waits_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comment:
    """A directive of the document: its name, what follows the colon, and where it stands."""

    name: str
    text: str
    line: int
    start: int
    stop: int


def comments(text: str, source: Path) -> list[Comment]:
    """All directives, each known, and each that is filled followed by its end."""
    found = []
    for match in COMMENT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        name, colon, rest = (part.strip() for part in " ".join(match[1].split()).partition(":"))
        takes = choose(DIRECTIVES, name, "comment", f"{source}:{line}")
        if bool(rest) != takes:
            raise UserError(f"{source}:{line}: {name}{colon} {rest} is not allowed; allowed: {usage(name)}")
        found.append(Comment(name, rest, line, match.start(), match.end()))
    for comment, following in zip_longest(found, found[1:]):
        closing = following if following is not None and following.name == "end" else None
        if comment.name != "end" and closing is None:
            raise UserError(f"{source}:{comment.line}: no <!-- end --> follows <!-- {comment.name} -->")
        if closing is not None and comment.name == "end":
            raise UserError(f"{source}:{closing.line}: <!-- end --> has nothing to end")
    if found and found[0].name == "end":
        raise UserError(f"{source}:{found[0].line}: <!-- end --> has nothing to end")
    return found


def usage(name: str) -> str:
    """How a directive is written."""
    arguments = {"table": ": VARIANT ... | KEY ...", "sizes": ": VARIANT ... | N ..."}
    return f"<!-- {name}{arguments.get(name, '')} -->"


def columns(machine: Machine, comment: Comment, where: str) -> tuple[list[str], list[str]]:
    """The variants of a table, each in the catalogue, and what stands behind its bar."""
    names, _, rest = comment.text.partition("|")
    if not names.split() or (comment.name == "sizes" and not rest.split()):
        raise UserError(f"{where}: {comment.name}: {comment.text} is not allowed; allowed: {usage(comment.name)}")
    for name in names.split():
        choose(machine.variants, name, "variant", where)
    return names.split(), rest.split()


def absent(machine: Machine, variants: Sequence[str]) -> list[str]:
    """A line for variants that have no timing: whether they failed, or are still to be measured."""
    failed = [f"`{name}`" for name in variants if name in set(machine.measured.failed["variant"])]
    missing = [f"`{name}`" for name in variants if f"`{name}`" not in failed]
    lines = [f"*Failed a check, so not shown: {', '.join(failed)}.*"] if failed else []
    if missing:
        lines.append(f"*Not measured yet on {machine.measured.provenance['gpu']}: {', '.join(missing)}.*")
    return lines


def grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table: the first column to the left, all others to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *body)]


def mark(machine: Machine, variant: str, keys: Sequence[str], n: int = SIZE) -> str:
    """A variant's label, with a dagger where one of its values is of an older source."""
    stale = any(machine.stale(variant, key, n) for key in keys)
    return f"{machine.variants[variant]['label']}{DAGGER if stale else ''}"


def scale(values: Sequence[float]) -> tuple[float, str]:
    """What to divide counts by, and its name, so that the largest has at most four digits before the point."""
    largest = max(values, default=0.0)
    return next((step for step in ((1e9, "billions"), (1e6, "millions")) if largest >= step[0]), (1.0, ""))


def number(value: float, *, percent: bool = False) -> str:
    """Three digits, whole numbers that are no percentages as they are, and thousands set apart."""
    if value == 0 or (not percent and value == int(value) and abs(value) < 1e6):
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return significant(value) if abs(value) >= 0.001 else "< 0.001"


def quantity_row(machine: Machine, key: str, variants: Sequence[str]) -> list[str]:
    """Label and cells of one row of a table."""
    quantity = quantities()[key]
    values = [machine.plain(variant, key) for variant in variants]
    if quantity.source == "variants":
        return [quantity.label, *(f"`{value}`" if value else "–" for value in values)]
    unit = quantity.unit
    if quantity.shown_times != 1:
        values = [None if value is None else quantity.shown_times * value for value in values]
    if not unit:
        step, unit = scale([value for value in values if value is not None])
        values = [None if value is None else value / step for value in values]
    label = quantity.label + (f", {unit}" if unit and unit not in quantity.label else "")
    return [label, *("–" if value is None else number(value, percent=unit == "%") for value in values)]


def variant_table(machine: Machine, comment: Comment, where: str) -> list[str]:
    """The lines of <!-- table -->."""
    variants, keys = columns(machine, comment, where)
    for key in keys:
        choose(quantities(), key, "quantity", where)
    timed = [variant for variant in variants if machine.plain(variant, "time_us") is not None]
    rest = absent(machine, [variant for variant in variants if variant not in timed])
    if not timed:
        return rest
    keys = [*ALWAYS, *keys]
    head = ["", *(mark(machine, variant, keys) for variant in timed)]
    return [*grid(head, [quantity_row(machine, key, timed) for key in keys]), *(["", *rest] if rest else [])]


def size_table(machine: Machine, comment: Comment, where: str) -> list[str]:
    """The lines of <!-- sizes -->."""
    variants, sizes = columns(machine, comment, where)
    if odd := [text for text in sizes if not text.isdecimal()]:
        raise UserError(f"{where}: {odd[0]!r} is not a size; allowed: whole numbers, such as 4096")
    numbers = [int(text) for text in sizes]
    body, missing = [], []
    for variant in variants:
        shares = [machine.plain(variant, "share", n) for n in numbers]
        if all(share is None for share in shares):
            missing.append(variant)
            continue
        stale = any(machine.stale(variant, "share", n) for n in numbers)
        label = machine.variants[variant]["label"] + (DAGGER if stale else "")
        body.append([label, *("–" if share is None else number(100 * share, percent=True) for share in shares)])
    rest = absent(machine, missing)
    lines = grid(["Share of cuBLAS, %, at n =", *(f"{n:,}" for n in numbers)], body) if body else []
    return [*lines, *(["", *rest] if rest and body else rest)]


def origin(machine: Machine) -> list[str]:
    """The lines of <!-- origin -->."""
    provenance, bench = machine.measured.provenance, one_row_each(machine.measured.bench)
    shown = bench[bench["n"] == SIZE]
    cublas = provenance.get("packages", {}).get("nvidia-cublas")
    parts = [
        f"m = n = k = {SIZE} where no other size is named",
        provenance["gpu"],
        provenance["date"],
        *([regime_text(shown["regime"]), data_text(shown["data"])] if len(shown) else []),
        f"cuBLAS {cublas}" if cublas else "",
        f"{DAGGER} source changed since measured" if machine.measured.bench["stale"].any() else "",
    ]
    return [f"*{' · '.join(part for part in parts if part)}.*"]


def finding_table(found: Sequence[Row] | None, where: str) -> list[str]:
    """The lines of <!-- findings -->: a row per finding that rests on measurements, a column per machine."""
    shown = shown_findings(found, "findings", where)
    gpus = {one["machine"]: one["gpu"] for row in shown for one in row["tried"]}
    body = []
    for row in shown:
        on = {one["machine"]: one for one in row["tried"]}
        body.append([row["title"], *(finding_cell(on[name]) if name in on else WORDS[None] for name in gpus)])
    note = (
        "*In brackets: the least and the greatest share of cuBLAS, in turns, over all n, data and clocks, of the "
        "kernels that a finding is about.*"
    )
    return [*grid(["Finding", *(f"{gpu} (`{name}`)" for name, gpu in gpus.items())], body), "", note]


def finding_summaries(found: Sequence[Row] | None, where: str) -> list[str]:
    """The lines of <!-- summaries -->: what the run's machine measured of the leading findings."""
    shown = [row for row in shown_findings(found, "summaries", where)[:LEADING] if row["summary"]]
    gpus = dict.fromkeys(one["gpu"] for row in shown for one in row["tried"][:1])
    heads = {row["name"]: f"**{row['title']}**" + ("" if row["holds"] else f" ({row['status']})") for row in shown}
    return [f"On {', '.join(gpus)}:", "", *(f"- {heads[row['name']]}: {row['summary']}" for row in shown)]


def shown_findings(found: Sequence[Row] | None, directive: str, where: str) -> list[Row]:
    """The findings that rest on measurements. Raises `UserError` where none are given."""
    if found is None:
        raise UserError(
            f"{where}: {directive} needs --findings FILE.json, which python -m analysis.tabulate findings makes"
        )
    return [row for row in found if row["name"] in measured_findings()]


def finding_cell(one: Row) -> str:
    """Whether a finding holds on a machine, and the range of shares there."""
    if one["least_percent"] is None:
        return WORDS[one["holds"]]
    return f"{WORDS[one['holds']]} ({one['least_percent']:.0f} to {one['greatest_percent']:.0f}%)"


def summary(machine: Machine, statements: Sequence[Statement]) -> str:
    """How many statements hold, and what the others wait for."""
    count = [sum(statement.verdict is verdict for statement in statements) for verdict in (True, False, None)]
    gpu = machine.measured.provenance["gpu"]
    text = f"Of {len(statements)} statements that are checked, {count[0]} hold on {gpu}, {count[1]} do not."
    if count[2]:
        names = {name for statement in statements for name in statement.waits_for}
        waiting = ", ".join(f"`{name}`" for name in machine.variants if name in names)
        text = f"{text[:-1]}; {count[2]} wait for measurements of {waiting}."
    return text


def judge(machine: Machine, expression: str, line: int, where: str) -> Statement:
    """Whether a statement is true of the values, whatever their intervals."""

    def value(variant: str, key: str, **selectors: object) -> object:
        found = machine.value(variant, key, **selectors)
        return Estimate.of(found.value) if isinstance(found, Estimate) else found

    try:
        found = evaluate(expression, {}, value)
        if not isinstance(found, Truth):
            raise UserError(f"{expression} is not allowed; allowed: a comparison")
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    except Undefined as error:
        return Statement(line, expression, False, str(error))
    except Missing as missing:
        return Statement(line, expression, None, str(missing), (missing.variant,) if missing.variant else ())
    return Statement(line, expression, found.holds, f"values: {found.words}")


def judged(text: str, machine: Machine, source: Path) -> list[Statement]:
    """The verdict on every statement of a text file. Raises `UserError` with the line of one that cannot be judged."""
    return [
        judge(machine, line.strip(), number, f"{source}:{number}")
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]


def fill(text: str, machine: Machine, source: Path, findings: Sequence[Row] | None = None) -> str:
    """The Markdown document with every block made anew.

    Raises `UserError` for a comment, variant or key that is unknown, with the line it stands in.
    """
    found = comments(text, source)
    fill: dict[str, Callable[[Comment, str], list[str]]] = {
        "origin": lambda *_: origin(machine),
        "exactness": lambda *_: exactness.table(exactness.compared(machine.inputs)),
        "findings": lambda _, where: finding_table(findings, where),
        "summaries": lambda _, where: finding_summaries(findings, where),
        "table": lambda comment, where: variant_table(machine, comment, where),
        "sizes": lambda comment, where: size_table(machine, comment, where),
    }
    parts, done = [], 0
    for comment, following in pairwise(found):
        if comment.name in fill:
            lines = fill[comment.name](comment, f"{source}:{comment.line}")
            parts += [text[done : comment.stop], "\n\n", "\n".join(lines), "\n\n"]
            done = following.start
    return "".join([*parts, text[done:]])


def read_machine(args: argparse.Namespace) -> Machine:
    """The measurements that the options name, and their resources."""
    if args.inputs:
        inputs = Inputs.read(args.inputs)
    elif args.measured and args.variants:
        inputs = Inputs.of_folder(args.measured, args.variants, archived=True)
    else:
        raise UserError(
            "no measurements are named; allowed: --measured DIR with --variants FILE, or --inputs FILE.json"
        )
    return Machine(inputs)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--measured", type=Path, metavar="DIR", help="results/MACHINE or data/MACHINE")
    options.add_argument("--variants", type=Path, metavar="FILE", help="the catalogue as variants.csv")
    options.add_argument("--inputs", type=Path, metavar="FILE.json", help="in place of the two above")
    about = "findings.json of a run, for <!-- findings -->"
    options.add_argument("--findings", type=Path, metavar="FILE.json", help=about)
    about = "documents, filled in place, and files of statements"
    options.add_argument("--doc", required=True, nargs="+", type=Path, metavar="FILE.md|FILE.txt", help=about)
    return options


def main() -> int:
    args = parser().parse_args()
    texts = {doc: read_text(doc) for doc in args.doc}
    machine = read_machine(args)
    findings = read_findings(args.findings) if args.findings else None
    statements: list[Statement] = []
    false = 0
    for doc, text in texts.items():
        if doc.suffix != ".txt":
            write_text(doc, fill(text, machine, doc, findings), only_if_changed=True)
            continue
        found = judged(text, machine, doc)
        statements += found
        for statement in found:
            if statement.verdict is False:
                gpu = machine.measured.provenance["gpu"]
                print(f"{doc}:{statement.line}: false on {gpu}: {statement.expression} ({statement.detail})")
                false += 1
    if statements:
        print(summary(machine, statements))
    return 1 if false else 0


def read_findings(path: Path) -> list[Row]:
    """The findings of a run. Raises `UserError` for a file that is not that."""
    found = json_value(read_text(path), path)
    if not isinstance(found, list) or not all(isinstance(row, dict) and "tried" in row for row in found):
        raise UserError(f"{path}: not a findings.json; python -m analysis.tabulate findings makes one")
    return found


def read_text(doc: Path) -> str:
    try:
        return doc.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {doc}: {getattr(error, 'strerror', None) or 'not a text file'}") from error


if __name__ == "__main__":
    run_command(main)
