"""Each command of QUESTIONS.md prints what stands under it there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import ptxsim
from ptxsim.cli import main

ROOT = Path(ptxsim.__file__).parent
TEXT = (ROOT / "QUESTIONS.md").read_text()
COMMANDS = re.findall(r"^    (ptxsim [^\n]*)\n\n```\n(.*?)^```$", TEXT, re.M | re.S)


def test_every_command_has_its_output_and_every_kernel_its_command():
    assert len(COMMANDS) == TEXT.count("\n    ptxsim ") >= 10
    for path in (ROOT / "examples" / "questions").iterdir():
        assert path.name in TEXT
        assert (
            len([line for line in path.read_text().splitlines() if not line.startswith("//")]) <= 20
        )


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[f"{n}" for n in range(len(COMMANDS))])
def test_the_outputs_are_real(command, shown, compiled, monkeypatch, capsys):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    monkeypatch.chdir(ROOT)
    main(shlex.split(command)[1:])
    printed = "".join(capsys.readouterr()).splitlines()
    at = 0
    for line in shown.splitlines():
        if line == "...":
            continue
        assert line in printed[at:], f"{line}\nis not in\n" + "\n".join(printed[at:])
        at += printed[at:].index(line) + 1
