"""How near the emulator's counters come to the hardware's: a table in Markdown, from an archive.

    python -m analysis.tables.exactness --measured data/h200 --doc ptxsim/README.md

puts it between <!-- exactness --> and <!-- end --> of the document. Both sides are of the archive: what ncu counted,
and what the emulator predicted for the same sources.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pandas as pd

from analysis.data import table as frame
from analysis.data import with_hashes_of_today
from analysis.tables.predicted import CONFLICTS, differences, names
from analysis.words import significant
from contracts import UserError, read_rows, run_command, write_text

EXACT = 1e-4  # percent: the digits that ncu gives
PLACE = re.compile(r"(<!-- exactness -->\n).*?(<!-- end -->)", re.S)


def compared(folder: Path) -> pd.DataFrame:
    """`differences` of an archive's own kernels. Raises `UserError` where it has no counters or no predictions."""
    path = folder / "same_code.csv"
    same_code = read_rows(path, "same_code") if path.is_file() else []
    tables = {}
    for name in ("counters", "predictions"):
        path = folder / f"{name}.csv"
        if not path.is_file():
            raise UserError(f"{path}: no such file; a folder with counters.csv and predictions.csv is needed")
        tables[name] = frame(with_hashes_of_today(read_rows(path, "counters"), same_code), "counters")
    keys = ["variant", "n", "source_hash"]
    same = tables["counters"].merge(tables["predictions"][keys].drop_duplicates(), on=keys)
    return differences(same.assign(stale=False, label=same["variant"]), tables["predictions"])


def table(rows: pd.DataFrame) -> str:
    """The table: a line for each counter, those that are always exact first."""
    found = []
    for key, own in rows.groupby("metric"):
        metric = str(key)
        off = own["difference_percent"].abs()
        exact = int((off < EXACT).sum())
        worst = own.iloc[int(off.argmax())]
        far = (
            "–" if exact == len(own) else f"{'+' if worst['difference_percent'] > 0 else '-'}{significant(off.max())}%"
        )
        whose = "" if exact == len(own) else f"`{worst['variant']}`"
        middle = "–" if exact == len(own) else f"{significant(off.median())}%" if off.median() >= EXACT else "0"
        share = " (of wavefronts)" if CONFLICTS in metric else ""
        cells = (names()[metric] + share, f"`{metric}`", f"{exact} of {len(own)}", middle, far, whose)
        found.append((-exact / len(own), off.max(), "| " + " | ".join(cells) + " |"))
    head = ["counter", "ncu's name", "exact", "median difference", "largest", "of"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---:|---:|---:|---|", *(line for *_, line in sorted(found))]
    return "\n".join(lines)


def fill(text: str, folder: Path) -> str:
    """The document with the table as it is now. Raises `UserError` where it has no place for it."""
    if not PLACE.search(text):
        raise UserError("no place for the table: <!-- exactness --> ... <!-- end -->")
    return PLACE.sub(lambda found: f"{found[1]}\n{table(compared(folder))}\n\n{found[2]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Put into a document how exact the emulator's counters are.")
    parser.add_argument("--measured", required=True, type=Path, metavar="DIR", help="an archive: data/MACHINE")
    parser.add_argument("--doc", required=True, type=Path, metavar="FILE.md", help="filled in place")
    options = parser.parse_args()
    try:
        text = options.doc.read_text()
    except OSError as error:
        raise UserError(f"{options.doc}: {error.strerror}") from None
    write_text(options.doc, fill(text, options.measured))


if __name__ == "__main__":
    run_command(main)
