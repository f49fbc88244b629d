"""The report's tables as pages that can be sorted and searched, one for each CSV file.

    python -m analysis.tables.report_tables "results/tables/ladder.csv=Timings, ladders" --out results/report

Each FILE.csv=TITLE becomes FILE.html in the folder --out; `analysis.tables.sortable` says what a page can do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from analysis.tables.sortable import page
from contracts import UserError, run_command, write_text


def titled(text: str) -> tuple[Path, str]:
    """FILE.csv=TITLE in two; for argparse."""
    path, equals, title = text.partition("=")
    if not (path.endswith(".csv") and equals and title):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: FILE.csv=TITLE")
    return Path(path), title


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="+", type=titled, metavar="FILE.csv=TITLE")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    args = parser.parse_args()
    pages = {}
    for path, title in args.tables:
        try:
            rows = pd.read_csv(path, dtype=str, keep_default_na=False)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {path}: {error}") from error
        pages[args.out / f"{path.stem}.html"] = page(rows, title)
    for path, text in pages.items():
        write_text(path, text)


if __name__ == "__main__":
    run_command(main)
