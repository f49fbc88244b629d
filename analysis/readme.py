"""Fills the two marked blocks of README.md: the table of the best kernels, and three findings.

    python -m analysis readme --findings results/tables/findings.json README.md

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
from analysis.figures import style
from analysis.results import Results, archives_of, note_of, tell_left_out
from contracts import UserError, write_text

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


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `readme`."""
    parser.add_argument("readme", type=Path, metavar="README.md")
    parser.add_argument(
        "--findings", required=True, type=Path, metavar="FILE", help="findings.json"
    )
    parser.add_argument(
        "--ladder", type=Path, metavar="FILE.svg", help="of which docs/ladder-*.svg are made"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where README.md is not up to date"
    )


def run(args: argparse.Namespace) -> int:
    """Fill in the blocks of README.md, of the archives alone."""
    gpus = archives_of(args)
    if note := note_of(gpus):
        raise UserError(
            f"{', '.join(one.folder.as_posix() for one in gpus if one.note)}: {note}; README has measurements"
        )
    found = json.loads(args.findings.read_text())
    text = args.readme.read_text()
    tell_left_out(*gpus)
    blocks = {"best-kernels": best_kernels(gpus), "findings": findings(found)}
    new = filled(text, blocks, args.readme)
    if args.check and new != text:
        print(f"{args.readme} is not up to date; write it by the same command without --check")
        return 1
    if new != text:
        write_text(args.readme, new)
    if args.ladder:
        svg = args.ladder.read_text()
        write_text(args.readme.parent / "docs" / "ladder-light.svg", svg)
        write_text(args.readme.parent / "docs" / "ladder-dark.svg", style.on_dark(svg))
    return 0
