"""Each command of docs/emulator.md prints the output below it; times may differ.

PYTHONPATH=.:tests python tests/docs/test_examples.py    # write the outputs again
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from helpers import BIN, ROOT

DOC = ROOT / "docs" / "emulator.md"
SECONDS = re.compile(r"\b\d+\.\d\d s\b")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.M)  # with its continuation lines


def run(block: str, folder: Path) -> str:
    """A console block with what its commands print now. `folder` looks like the project's."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    given: dict[str, Any] = {"cwd": folder, "env": environment, "text": True}
    given |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    text = ""
    for command in COMMAND.findall(block):
        done = subprocess.run(["bash", "-c", command.removeprefix("$ ")], **given)
        text += f"{command}\n{done.stdout}"
    return text


def filled(text: str, folder: Path) -> str:
    """The document with all outputs as they are now."""
    for name in ("docs", "kernels", "ptxsim"):
        (folder / name).symlink_to(ROOT / name)
    return BLOCK.sub(lambda block: f"```console\n{run(block[1], folder)}```", text)


def test_the_outputs_are_real(tmp_path: Path) -> None:
    text = DOC.read_text()
    assert len(BLOCK.findall(text)) >= 15
    assert SECONDS.sub("", filled(text, tmp_path)) == SECONDS.sub("", text)


def test_each_example_is_described() -> None:
    text = DOC.read_text()
    missing = [str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "examples").rglob("*.cu")]
    assert [path for path in missing if path not in text] == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        DOC.write_text(filled(DOC.read_text(), Path(made)))
