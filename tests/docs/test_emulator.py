"""Each command of docs/emulator.md prints what stands under it there.

PYTHONPATH=tests python tests/docs/test_emulator.py    # write the outputs anew
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers import BIN, ROOT

DOC = ROOT / "docs" / "emulator.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.M)


def commands(block: str) -> list[str]:
    """The command lines of a console block, with their continuations."""
    return COMMAND.findall(block)


def run(block: str, folder: Path) -> str:
    """The block with what its commands print now. `folder` looks like the project's."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    shown = []
    for command in commands(block):
        done = subprocess.run(
            ["bash", "-c", command.removeprefix("$ ")],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        shown.append(f"{command}\n{done.stdout}")
    return "".join(shown)


def filled(text: str, folder: Path) -> str:
    """The document with all outputs as they are now."""
    (folder / "docs").symlink_to(ROOT / "docs")
    return BLOCK.sub(lambda block: f"```console\n{run(block[1], folder)}```", text)


def test_the_outputs_are_real(tmp_path: Path) -> None:
    text = DOC.read_text()
    assert sum(len(commands(block)) for block in BLOCK.findall(text)) >= 9
    assert filled(text, tmp_path) == text


def test_each_example_is_told_of_and_shows_its_fault() -> None:
    text = DOC.read_text()
    for path in (ROOT / "docs" / "examples").iterdir():
        assert f"docs/examples/{path.name}" in text
    outputs = "\n".join(BLOCK.findall(text))
    for words in ("32-way conflict", "called from softmax.cu", "in partial)", "into part)", "[1. 1.]", "[256. 256.]"):
        assert words in outputs, words


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        DOC.write_text(filled(DOC.read_text(), Path(made)))
    sys.exit(0)
