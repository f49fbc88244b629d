"""Files that cannot be written are named."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, assert_one_line, environment

from contracts import UserError, atomic_write


def test_a_file_that_grows_too_large_is_named(tmp_path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    command = [sys.executable, "-m", "kernels.catalogue", "--out", str(tmp_path / "variants.csv")]
    done = subprocess.run(command, cwd=ROOT, env=environment(), preexec_fn=limited, capture_output=True, text=True)
    assert_one_line(done, "variants.csv", "File too large")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named_and_another_file_s_error_is_not_renamed(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"cannot write .*table\.csv: No space left"),
        atomic_write(tmp_path / "table.csv"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(FileNotFoundError, match="absent"), atomic_write(tmp_path / "table.csv"):
        (tmp_path / "absent").read_text()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ('{"machine": ', "standard input: not JSON: "),
        ('{"machine": "h200"}', "'archived' is a required property"),
    ],
)
def test_a_document_that_is_none_of_its_kind_is_not_written(document: str, said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "contracts.write", "inputs", str(tmp_path / "inputs.json")]
    done = subprocess.run(command, cwd=ROOT, env=environment(), input=document, capture_output=True, text=True)
    assert_one_line(done, said)
    assert list(tmp_path.iterdir()) == []
