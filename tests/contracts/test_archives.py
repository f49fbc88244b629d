"""Archives whose files are not as archived."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, assert_one_line, run_module

from analysis.inputs import Inputs
from analysis.tables import autotune
from contracts import UserError, read_json, read_rows
from contracts.archives import checksum


@pytest.fixture
def archived(tmp_path: Path, archive: Path) -> Path:
    return Path(shutil.copytree(archive, tmp_path / archive.name))


def edited(content: bytes) -> bytes:
    return content.replace(b",uniform,", b",normal,", 1)


def without_a_row(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:5] + lines[6:])


def cut(content: bytes) -> bytes:
    return b"".join(content.splitlines(keepends=True)[:-3])


@pytest.mark.parametrize("change", [edited, without_a_row, cut])
def test_an_archived_table_that_was_changed_is_refused_by_name(change: Any, archived: Path) -> None:
    path = archived / "windows.csv"
    assert read_rows(path, "windows")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=r"windows\.csv: not as it was archived"):
        read_rows(path, "windows")
    done = run_module("experiments.stages.archive", "--check", archived)
    assert_one_line(done, "not as archived: windows.csv")
    assert read_rows(archived / "counters.csv", "counters")


def test_every_archived_file_has_its_checksum() -> None:
    for path in ROOT.glob("data/*/archived.json"):
        for name, run in read_json(path, "archived").items():
            assert run["sha256"] == checksum((path.parent / name).read_bytes()), path.parent / name


def test_an_empty_sweep_is_one_line(archived: Path, variants_csv: Path, tmp_path: Path) -> None:
    (archived / "archived.json").unlink()
    path = archived / "tuning.csv"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(UserError, match=r"tuning\.csv: no rows"):
        autotune.of(Inputs.of_folder(archived, variants_csv, archived=True))
