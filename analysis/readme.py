"""Fills the marked blocks of README.md: the ladder, the best kernels, and three findings.

    python -m analysis readme --findings results/tables/findings.json README.md

A block stands between <!-- NAME --> and <!-- end -->. With --check
nothing is written, and the exit code is 1 where a block is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis import ladders
from analysis.figures import style
from analysis.figures.ladder import draw_narrow, speeds
from analysis.results import Results, archives_of, note_of, records, tell_left_out
from analysis.tables.timings import with_gains
from analysis.timings import PROCESSES
from contracts import UserError, write_text

LADDER, SIZE = "sgemm_ladder", 4096
# The rungs of the table, by worklog: those on which another builds, and the last of each
RUNGS = {
    "boehm_sgemm": "naive coalesced smem_tile blocktile_1d blocktile_2d vectorized warptile",
    "wingedge_sgemm": "tiling at_tiling at_swizzle at_swizzle_dbf_rw",
    "sgemm_cu": "t128x128x8 t128x256x8_cpasync",
    "ours": "t128x256x8_apart tma tma_streamk",
}
EXPLAINED = {
    "boehm_sgemm": "docs/kernels/boehm_sgemm.md",
    "wingedge_sgemm": "docs/kernels/wingedge_sgemm.md",
    "sgemm_cu": "docs/kernels/sgemm_cu.md",
    "ours": "docs/kernels/sgemm_cu.md#past-cublas-without-tensor-cores",
}
# of `ladders.KINDS`
KINDS = {"fp32": "fp32 without tensor cores", "fp32 by 3xTF32": "fp32 by 3xTF32", "bf16": "bf16"}
LEADING = 3  # findings: the first that hold on the first GPU


def best_kernels(gpus: Sequence[Results]) -> str:
    """Return the table: for each GPU, kind and size the best kernel with the TFLOP/s of kernel and
    cuBLAS in the same windows.

    Where five processes measured some GPU, the others are left out: they have no range.
    """
    lines = [
        "| type | n | % of cuBLAS | TFLOP/s of cuBLAS | kernel |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    best = {results.model: ladders.best_kernels(results) for results in gpus}
    often = {model: rows for model, rows in best.items() if rows[0]["processes"] >= PROCESSES}
    sources = dict(zip(*(gpus[0].variants[key] for key in ("variant", "source")), strict=True))
    for model, rows in (often or best).items():
        gpu = f", {model}" if len(often or best) > 1 else ""
        for title, kind in KINDS.items():
            own = [row for row in rows if row["kind"] == kind]
            lines += [_line(title + gpu, row, sources[row["variant"]]) for row in own]
    return "\n".join(lines)


def _line(title: str, row: Mapping[str, Any], source: str) -> str:
    kernel = f"[`{row['label'].removesuffix('_bf16')}`]({source})"
    speed = f"{row['tflops']:.0f} of {row['baseline_tflops']:.0f}"
    return f"| {title} | {row['n']} | {100 * row['fraction']:.0f}% | {speed} | {kernel} |"


def rungs(results: Results) -> str:
    """Return the table of the fp32 ladder at `SIZE`: each rung with speed, fraction and gain, its
    source and its explanation.
    """
    lines = [
        "| rung | % of cuBLAS | TFLOP/s of cuBLAS | gain | idea |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    rows = results.squares
    rows = rows[(rows["experiment"] == LADDER) & (rows["n"] == SIZE) & (rows["kind"] == "kernel")]
    rows = with_gains(rows)
    entries = results.variants
    for worklog, labels in RUNGS.items():
        lines.append(f"| **[{ladders.titles()[worklog]}]({EXPLAINED[worklog]})** | | | | |")
        for name in (f"sgemm_{label}" for label in labels.split()):
            row = next(records(rows[rows["variant"] == name]))
            entry = next(records(entries[entries["variant"] == name]))
            gain = "" if math.isnan(row.gain) else style.times(row.gain)
            lines.append(
                f"| [`{row.label}`]({entry.source}) | {style.percent(row.fraction)} | {speeds(row)} |"
                f" {gain} | {entry.idea} |"
            )
    return "\n".join(lines)


def pictures(results: Results, ladder: Path) -> dict[str, str]:
    """Return the figure of the ladder and that of `RUNGS` for a phone, each for light and dark, by
    file name.
    """
    variants = [f"sgemm_{name}" for names in RUNGS.values() for name in names.split()]
    with tempfile.TemporaryDirectory() as folder:
        narrow = Path(folder, "ladder.svg")
        style.save(draw_narrow(results, variants), narrow)
        light = {"ladder": ladder.read_text(), "ladder-narrow": narrow.read_text()}
    dark = {f"{name}-dark.svg": style.on_dark(svg) for name, svg in light.items()}
    return dark | {f"{name}-light.svg": svg for name, svg in light.items()}


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
    blocks["rungs"] = rungs(gpus[0])
    new = filled(text, blocks, args.readme)
    if args.check and new != text:
        print(f"{args.readme} is not up to date; write it by the same command without --check")
        return 1
    if new != text:
        write_text(args.readme, new)
    if args.ladder:
        for name, svg in pictures(gpus[0], args.ladder).items():
            write_text(args.readme.parent / "docs" / name, svg)
    return 0
