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

# Titles of `ladders.KINDS` that README shows
KINDS = {"fp32": "fp32 without tensor cores", "fp32 by 3xTF32": "fp32 by 3xTF32", "bf16": "bf16"}
LEADING = 3  # findings: the first that hold on the first GPU


def best_kernels(gpus: Sequence[Results]) -> str:
    """The table: for each GPU and kind, the best kernel at each size, with TFLOP/s and its fraction
    of cuBLAS.
    """
    sizes = ladders.BEST_SIZES
    lines = [f"| GPU | type | n = {' | '.join(map(str, sizes))} |"]
    lines.append(f"| --- | --- |{' ---: |' * len(sizes)}")
    for results in gpus:
        best = {(row["kind"], row["n"]): row for row in ladders.best_kernels(results)}
        for title, kind in KINDS.items():
            cells = [_cell(best.get((kind, n))) for n in sizes]
            lines.append(f"| {results.model} | {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    return f"{row['tflops']:.0f} ({100 * row['fraction']:.0f}%)<br>`{row['label'].removesuffix('_bf16')}`"


def findings(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return one list item for each of the leading findings: its title, its GPU and numbers, and
    where else it holds.
    """
    lines = []
    for row in [row for row in rows if row["holds"]][:LEADING]:
        text = f"*{row['gpus'][0]['model']}.* {row['sentence']} {_elsewhere(row['gpus'])}"
        lines.append(f"- **{row['title']}.** {text}")
    return "\n".join(lines)


def _elsewhere(gpus: Sequence[Mapping[str, Any]]) -> str:
    """On which GPUs a finding holds: "Holds on H100; undecided on H200."."""
    words = {True: "holds on", False: "does not hold on", None: "undecided on"}
    parts = []
    for holds, verb in words.items():
        names = [
            gpu["model"] + " (emulated)" * (gpu["numbers"].get("measured") is False)
            for gpu in gpus
            if gpu["holds"] is holds
        ]
        parts += [f"{verb} {' and '.join(names)}"] if names else []
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def filled(text: str, blocks: Mapping[str, str], source: object) -> str:
    """The text with each block's content. Raises `UserError` where a block has no marks."""
    for name, content in blocks.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        match = block.search(text)
        if not match:
            needed = f"a line <!-- {name} --> and a later line <!-- end -->"
            raise UserError(f"{source}: no block {name}; needed: {needed}")
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
        rehearsed = ", ".join(gpu.folder.as_posix() for gpu in gpus if gpu.note)
        raise UserError(f"{rehearsed}: {note}; README has measurements")
    rows = json.loads(args.findings.read_text())
    text = args.readme.read_text()
    tell_left_out(*gpus)
    blocks = {"best-kernels": best_kernels(gpus), "findings": findings(rows)}
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
