"""Render the paper: Typst, offline, and the same bytes for the same tables and figures.

The paper reads the tables of `analysis.tables.paper` and the figures of the other commands; every number in it is theirs. Of
some it says that they are not there: it is told which files there are, since Typst cannot look.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import typst

from contracts import UserError, replacing, run_command

CSV_TABLES = ["ladder", "sizes", "data_kinds", "resources", "checks", "counters", "comparison", "wave_quantization"]
TABLES = ["summary.json", *(f"{name}.csv" for name in CSV_TABLES)]
TRUST_TABLES = ["agreement", "sanitizer", "timing_methods", "cross_checks", "timeline"]
FIGURES = [
    "roofline",
    "counters",
    "stalls",
    "wave_quantization",
    "predicted",
    "bounds",
    "correctness",
    "timing_methods",
]


def required(tables: Path, figures: Path, bank_pictures: list[str]) -> list[tuple[Path, str]]:
    """Every file that the paper reads, with the command that makes it."""
    needed = [(tables / name, "analysis.tables.paper") for name in TABLES] + [
        (tables / "coverage.csv", "analysis.tables.coverage")
    ]
    needed += [(tables / f"{name}.csv", "analysis.tables.cross_validation") for name in TRUST_TABLES]
    needed += [(figures / f"{name}.pdf", f"analysis.{name}") for name in FIGURES]
    summary = json.loads((tables / "summary.json").read_text())
    if summary["autotune"]:
        needed.append((figures / "autotune.pdf", "analysis.figures.autotune"))
    for experiment in summary["experiments"]:
        kind, name = experiment["kind"], experiment["name"]
        needed.append((figures / f"{kind}_{name}.pdf", f"analysis.{kind} --experiment {name}"))
    for name in bank_pictures:
        made_by = f"experiments.bank_pictures {name}"
        needed += [(figures / f"banks_{name}.{suffix}", made_by) for suffix in ("pdf", "json")]
    return needed


def render(paper: Path, tables: Path, figures: Path, out: Path, bank_pictures: list[str] | None = None) -> None:
    """Compile `paper` to `out`. Paths may lie anywhere: Typst's root is the folder that they share."""
    for path, what in (
        (paper, "the paper's source"),
        (tables / "summary.json", "made by python -m analysis.tables.paper"),
    ):
        if not path.is_file():
            raise UserError(f"no such file: {path} ({what})")
    for path, command in required(tables, figures, bank_pictures or []):
        if not path.is_file():
            raise UserError(f"no such file: {path} (made by python -m {command})")
    paper, tables, figures = (path.resolve() for path in (paper, tables, figures))
    root = Path(os.path.commonpath([paper.parent, tables, figures]))
    folders = {"tables": tables, "figures": figures}
    inputs = {name: f"/{path.relative_to(root).as_posix()}" for name, path in folders.items()}
    inputs["bank_pictures"] = ",".join(bank_pictures or [])
    inputs["tables_there"] = ",".join(sorted(path.stem for path in tables.glob("*.csv")))
    inputs["figures_there"] = ",".join(sorted(path.stem for path in figures.glob("*.pdf")))
    with replacing(out) as temporary:
        try:
            typst.compile(
                paper,
                output=temporary,
                root=root,
                sys_inputs=inputs,
                format="pdf",
                ignore_system_fonts=True,
                timestamp=0,
            )
        except typst.TypstError as error:
            raise UserError(f"{paper}: {' '.join(str(error).split())}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paper", required=True, type=Path, metavar="FILE.typ")
    parser.add_argument("--tables", required=True, type=Path, metavar="DIR", help="from analysis.tables.paper")
    parser.add_argument("--figures", required=True, type=Path, metavar="DIR", help="with PDFs, KIND_EXPERIMENT.pdf")
    parser.add_argument("--bank-pictures", nargs="*", default=[], metavar="NAME", help="of banks_NAME.pdf, .json")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.pdf")
    args = parser.parse_args()
    render(args.paper, args.tables, args.figures, args.out, args.bank_pictures)


if __name__ == "__main__":
    run_command(main)
