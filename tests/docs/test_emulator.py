"""Each command of docs/emulator.md and docs/exec.md prints what stands under it there; times may differ.

PYTHONPATH=tests python tests/docs/test_emulator.py    # write the outputs anew
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers import BIN, ROOT

DOC = ROOT / "docs" / "emulator.md"
DOCS = {DOC: 9, ROOT / "docs" / "exec.md": 14}  # with how many commands each has at least
SECONDS = re.compile(r"\b\d+\.\d\d s\b")
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
    for name in ("docs", "kernels"):
        (folder / name).symlink_to(ROOT / name)
    return BLOCK.sub(lambda block: f"```console\n{run(block[1], folder)}```", text)


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: doc.stem)
def test_the_outputs_are_real(tmp_path: Path, doc: Path) -> None:
    text = doc.read_text()
    assert sum(len(commands(block)) for block in BLOCK.findall(text)) >= DOCS[doc]
    assert SECONDS.sub("", filled(text, tmp_path)) == SECONDS.sub("", text)


def test_each_program_is_described() -> None:
    text = (ROOT / "docs" / "exec.md").read_text()
    for path in (ROOT / "docs" / "examples" / "exec").iterdir():
        assert f"docs/examples/exec/{path.name}" in text


def test_each_example_is_described_and_shows_its_fault() -> None:
    text = DOC.read_text()
    for path in (ROOT / "docs" / "examples").iterdir():
        assert f"docs/examples/{path.name}" in text
    outputs = "\n".join(BLOCK.findall(text))
    for words in ("32-way conflict", "called from softmax.cu", "in partial)", "into part)", "[1. 1.]", "[256. 256.]"):
        assert words in outputs, words


if __name__ == "__main__":
    for doc in DOCS:
        with tempfile.TemporaryDirectory() as made:
            doc.write_text(filled(doc.read_text(), Path(made)))
    sys.exit(0)
