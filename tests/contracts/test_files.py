"""Files are whole or not there, and a command ends with one line."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, refused, run

from contracts import UserError, atomic_write, run_command, write_text


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_nothing_and_keeps_the_old_file(
    fault: type, tmp_path: Path
) -> None:
    target = tmp_path / "table.csv"
    target.write_text("old")
    with pytest.raises(fault), atomic_write(target) as temporary:
        temporary.write_text("half")
        raise fault
    assert list(tmp_path.iterdir()) == [target] and target.read_text() == "old"


def test_a_replaced_file_is_whole_and_readable_by_others(tmp_path: Path) -> None:
    target = tmp_path / "new" / "table.csv"
    with atomic_write(target) as temporary:
        temporary.write_text("whole")
        assert not target.exists() and temporary.suffix == ".csv"
    umask = os.umask(0)
    os.umask(umask)
    assert target.read_text() == "whole" and target.stat().st_mode & 0o777 == 0o666 & ~umask
    assert list(target.parent.iterdir()) == [target]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    # a file where the folder should be: this fails for root, too
    (tmp_path / "results").write_text("")
    with refused(r"cannot write .*results/deep/x\.txt: .*choose a folder"):
        write_text(tmp_path / "results" / "deep" / "x.txt", "text")
    with refused(r"cannot write .*t\.csv: No space left"), atomic_write(tmp_path / "t.csv"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(FileNotFoundError, match="absent"), atomic_write(tmp_path / "t.csv"):
        (tmp_path / "absent").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_a_text_that_did_not_change_keeps_its_date(tmp_path: Path) -> None:
    path = tmp_path / "fingerprint.json"
    write_text(path, "same", only_if_changed=True)
    os.utime(path, (1, 1))
    write_text(path, "same", only_if_changed=True)
    assert path.stat().st_mtime == 1
    write_text(path, "other", only_if_changed=True)
    assert path.stat().st_mtime > 1 and path.read_text() == "other"


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("main", "code", "said"),
    [
        (lambda: 3, 3, ""),
        (lambda: _raise(UserError("what was wrong")), 2, "error: what was wrong\n"),
        (Path("/nowhere").read_text, 2, "error: No such file or directory: /nowhere\n"),
        (lambda: _raise(KeyboardInterrupt()), 130, "interrupted: nothing was written\n"),
    ],
)
def test_a_command_ends_with_its_code_and_no_traceback(
    main: Any, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        run_command(main)
    assert end.value.code == code and capsys.readouterr().err == said


def test_progress_goes_to_stderr_as_it_is_and_other_packages_only_warn() -> None:
    text = "import logging\nfrom contracts import run_command\ndef main():\n"
    text += "    logging.getLogger('experiments.x').info('half done, 50% of it')\n"
    text += "    logging.getLogger('other').info('chatter'); logging.getLogger('other').warning('a warning')\n"
    done = run([sys.executable, "-c", f"{text}run_command(main)\n"], ROOT)
    assert done.stderr == "half done, 50% of it\na warning\n"
