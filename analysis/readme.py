"""Fills the two marked blocks of README.md: the table of the best kernels, and three findings.

    python -m analysis.readme --findings results/tables/findings.json --archives data/h100 data/h200 \
        --catalogue results/variants.csv README.md

A block stands between <!-- best-kernels --> or <!-- findings --> and <!-- end -->. With --check
nothing is written, and the exit code is 1 where a block is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis import ladders
from analysis.results import Results, note_of, tell_left_out
from contracts import UserError, run_command, write_text

SIZES = (2048, 4096, 8192, 16384)
# of `ladders.KINDS`
KINDS = {"fp32": "fp32 without tensor cores", "fp32 by 3xTF32": "fp32 by 3xTF32", "bf16": "bf16"}
LEADING = 3  # findings: the first that hold on the first GPU


def best_kernels(gpus: Sequence[Results]) -> str:
    """The table: for each GPU and kind, the best kernel at each size, with TFLOP/s and its fraction
    of cuBLAS.
    """
    lines = [
        "| GPU | type | n = 2048 | 4096 | 8192 | 16384 |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for results in gpus:
        best = {(row["kind"], row["n"]): row for row in ladders.best_kernels(results)}
        for title, kind in KINDS.items():
            cells = [_cell(best.get((kind, n))) for n in SIZES]
            lines.append(f"| {results.model} | {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    return f"{row['tflops']:.0f} ({100 * row['fraction']:.0f}%)<br>`{row['label'].removesuffix('_bf16')}`"


def findings(found: Sequence[Mapping[str, Any]]) -> str:
    """One list item for each of the leading findings: its title, its GPU and numbers, and where
    else it holds.
    """
    lines = [
        f"- **{one['title']}.** *{one['gpus'][0]['model']}.* {one['sentence']} {_elsewhere(one['gpus'])}"
        for one in [one for one in found if one["holds"]][:LEADING]
    ]
    return "\n".join(lines)


def _elsewhere(gpus: Sequence[Mapping[str, Any]]) -> str:
    """On which GPUs a finding holds: "Holds on H100; undecided on H200."."""
    words = {True: "holds on", False: "does not hold on", None: "undecided on"}
    names = {
        one["gpu"]: one["model"] + " (emulated)" * (one["numbers"].get("measured") is False)
        for one in gpus
    }
    models = {
        word: [names[one["gpu"]] for one in gpus if one["holds"] is holds]
        for holds, word in words.items()
    }
    text = "; ".join(f"{word} {' and '.join(listed)}" for word, listed in models.items() if listed)
    return f"{text[:1].upper()}{text[1:]}."


def filled(text: str, blocks: Mapping[str, str], source: object) -> str:
    """The text with each block's content. Raises `UserError` where a block has no marks."""
    for name, content in blocks.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        match = block.search(text)
        if not match:
            raise UserError(
                f"{source}: no block {name}; needed: a line <!-- {name} --> and a later line <!-- end -->"
            )
        text = f"{text[: match.start()]}{match[1]}\n{content}\n\n{match[2]}{text[match.end() :]}"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("readme", type=Path, metavar="README.md")
    parser.add_argument(
        "--findings", required=True, type=Path, metavar="FILE", help="findings.json"
    )
    parser.add_argument(
        "--archives",
        nargs="+",
        required=True,
        type=Path,
        metavar="DIR",
        help="data/GPU of each model",
    )
    parser.add_argument(
        "--catalogue", required=True, type=Path, metavar="FILE", help="results/variants.csv"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where README.md is not up to date"
    )
    options = parser.parse_args()
    gpus = [Results(folder, options.catalogue) for folder in options.archives]
    if note := note_of(gpus):
        raise UserError(
            f"{', '.join(one.folder.as_posix() for one in gpus if one.note)}: {note}; README has measurements"
        )
    found = json.loads(options.findings.read_text())
    text = options.readme.read_text()
    tell_left_out(*gpus)
    new = filled(
        text, {"best-kernels": best_kernels(gpus), "findings": findings(found)}, options.readme
    )
    if options.check and new != text:
        print(f"{options.readme} is not up to date; write it by the same command without --check")
        return 1
    if new != text:
        write_text(options.readme, new)
    return 0


if __name__ == "__main__":
    run_command(main)
