"""Render the paper and its supplement: Typst, offline, and the same bytes for the same tables and figures.

    python -m analysis.render paper/paper.typ paper/supplement.typ --tables DIR --figures DIR --out results

Both read report tables and figures; every number in them is theirs. Of some they say that they are not there: they are
given a list of the files that exist, since Typst cannot look.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

import typst

from analysis import registry
from contracts import UserError, atomic_write, run_command

# What sources read whatever this copy has, and other sources that they take in
READS = re.compile(r'rows-of\("(\w+)"\)|(?:#|\()drawn\(\s*"(\w+)"')
TAKES = re.compile(r'#(?:include|import) "([^"@]+)"')
TAKES_EACH = re.compile(r'include "([^"]+/)" \+ [\w.]+ \+ "(/[^"]+)"')  # one of each folder


def sources(document: Path) -> list[Path]:
    """A document's source and all that it includes or imports, each once. A `UserError` names one that is not there."""
    found: dict[Path, None] = {}
    wanted = [document.resolve()]
    while wanted:
        path = wanted.pop(0)
        if path in found:
            continue
        if not path.is_file():
            raise UserError(f"no such file: {path} (taken in by {document})")
        found[path] = None
        text = path.read_text()
        wanted += [(path.parent / name).resolve() for name in TAKES.findall(text)]
        wanted += [one for folder, rest in TAKES_EACH.findall(text)
                   for one in sorted((path.parent / folder).resolve().glob(f"*{rest}"))]  # fmt: skip
    return list(found)


def required(document: Path, tables: Path, figures: Path, bank_pictures: list[str]) -> list[tuple[Path, str]]:
    """Every file that a document reads, with the command that makes it."""
    texts = [path.read_text() for path in sources(document)]
    named = [match for text in texts for match in READS.findall(text)]
    needed = {tables / f"{table}.csv": f"analysis.tabulate {table}" for table, _ in named if table}
    needed[tables / "findings.json"] = "analysis.tabulate findings"
    always = {name for name, one in registry.figures().items() if not one.where_needed}
    drawn = [figure for _, figure in named if figure in always]
    if any("bank-picture(" in text for text in texts):  # the supplement: a figure of each experiment and picture
        summary = json.loads((tables / "summary.json").read_text())
        drawn += ["autotune"] if summary["autotune"] else []
        drawn += [f"{experiment['kind']}_{experiment['name']}" for experiment in summary["experiments"]]
        for name in bank_pictures:
            made_by = f"experiments.bank_pictures {name}"
            needed |= {figures / f"banks_{name}.{suffix}": made_by for suffix in ("pdf", "json")}
    needed |= {figures / f"{name}.pdf": f"analysis.draw {name}" for name in drawn}
    return list(needed.items())


def render(document: Path, tables: Path, figures: Path, out: Path, bank_pictures: list[str] | None = None) -> None:
    """Compile `document` to `out`. Paths may lie anywhere: Typst's root is the folder that they share."""
    for path, what in (
        (document, "a document's source"),
        (tables / "summary.json", "made by python -m analysis.tabulate"),
    ):
        if not path.is_file():
            raise UserError(f"no such file: {path} ({what})")
    for path, command in required(document, tables, figures, bank_pictures or []):
        if not path.is_file():
            raise UserError(f"no such file: {path} (made by python -m {command})")
    document, tables, figures = (path.resolve() for path in (document, tables, figures))
    root = Path(os.path.commonpath([*(path.parent for path in sources(document)), tables, figures]))
    folders = {"tables": tables, "figures": figures}
    inputs = {name: f"/{path.relative_to(root).as_posix()}" for name, path in folders.items()}
    inputs["bank_pictures"] = ",".join(bank_pictures or [])
    inputs["tables_there"] = ",".join(sorted(path.stem for path in tables.glob("*.csv")))
    inputs["figures_there"] = ",".join(sorted(path.stem for path in figures.glob("*.pdf")))
    with atomic_write(out) as temporary:
        try:
            typst.compile(
                document,
                output=temporary,
                root=root,
                sys_inputs=inputs,
                format="pdf",
                ignore_system_fonts=True,
                timestamp=0,
            )
        except typst.TypstError as error:
            raise UserError(f"{document}: {' '.join(str(error).split())}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("documents", nargs="+", type=Path, metavar="FILE.typ")
    parser.add_argument("--tables", required=True, type=Path, metavar="DIR", help="from analysis.tabulate")
    parser.add_argument("--figures", required=True, type=Path, metavar="DIR", help="with PDFs, KIND_EXPERIMENT.pdf")
    parser.add_argument("--bank-pictures", nargs="*", default=[], metavar="NAME", help="of banks_NAME.pdf, .json")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="for FILE.pdf of each")
    args = parser.parse_args()
    for document in args.documents:
        render(document, args.tables, args.figures, args.out / f"{document.stem}.pdf", args.bank_pictures)


if __name__ == "__main__":
    run_command(main)
