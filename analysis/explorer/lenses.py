"""The lens's data: what `experiments.emulation` wrote of each kernel, packed for the page, and what
docs/kernels/ says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.counters import KEY_OF_NCU
from contracts import read_json
from contracts.rows import Lens

Row = dict[str, Any]
DOCUMENTS = Path("docs/kernels")
NAME = re.compile(r"`(\w+)`")
# A paragraph or an item that begins so is about these kernels.
NAMED = re.compile(r"(?:- )?((?:\*\*`\w+`\*\*(?:, | and )?)+)")


def read(folders: Iterable[Path]) -> dict[str, Lens]:
    """Return the lens of each kernel, by variant, in the folders' files VARIANT.json."""
    paths = sorted(path for folder in folders for path in folder.glob("*.json"))
    return {lens.variant: lens for lens in (read_json(path, Lens) for path in paths)}


def sources(lenses: Iterable[Lens]) -> dict[str, str]:
    """Return the text of each file that has code of these kernels, by its path."""
    return {path: text for lens in lenses for path, text in lens.sources.items()}


def packed(lens: Lens) -> Row:
    """Return what the page unpacks (`unpackedLens` of lens.js): columns in place of rows, numbers as
    steps from the one before.
    """
    wanted = ("launch", "unknown", "files", "source", "chains", "gpu", "cycles", "checks", "passed")
    totals = {KEY_OF_NCU[name]: x for name, x in lens.totals.items() if name in KEY_OF_NCU}
    numbers, texts, chains = columns(lens.ptx, 3)
    _, machine_code, lines, of_lines, executed, cycles = columns(lens.sass, 6)
    return {name: getattr(lens, name) for name in wanted} | {
        "totals": totals,
        "ptx": {"text": "\n".join(texts), "line": steps(numbers), "chain": steps(chains)},
        "sass": {
            "text": "\n".join(machine_code),
            "ptx": steps(lines),
            "chain": steps(of_lines),
            "executed": steps(executed),
            "cycles": cycles,
        },
        "accesses": [
            access.model_dump(by_alias=True, exclude_none=True) for access in lens.accesses
        ],
    }


def columns(rows: list[list[Any]], count: int) -> list[list[Any]]:
    """Return the columns of a table with `count` of them."""
    return [[row[index] for row in rows] for index in range(count)]


def steps(numbers: list[Any]) -> list[float]:
    """Return each number less the one before; None counts as -1."""
    plain = [-1 if number is None else number for number in numbers]
    return [x - before for x, before in zip(plain, [0, *plain], strict=False)]


def explanations(variants: Iterable[str], folder: Path = DOCUMENTS) -> dict[str, Row]:
    """Return what the documents say of each kernel, in Markdown, with the file's name: sections,
    paragraphs and items that begin with its name, with or without family and data type.
    """
    pieces: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(folder.glob("*.md")):
        names: list[str] = []
        for block in re.split(r"\n{2,}|\n(?=- )", path.read_text()):
            head, paragraph = block.startswith("#"), NAMED.match(block)
            if head or paragraph:
                names = NAME.findall(paragraph[1] if paragraph else block)
            for name in names if not head else ():
                pieces.setdefault(name, []).append((path.as_posix(), block))
    texts = {}
    for variant in variants:
        whole = re.sub(r"_(bf16|fp16)$", "", variant)
        for name in (variant, whole, whole.partition("_")[2]):
            if name in pieces:
                files, blocks = zip(*pieces[name], strict=True)
                texts[variant] = {"file": files[0], "text": "\n\n".join(blocks)}
                break
    return texts
