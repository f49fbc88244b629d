"""The session's one run of the pipeline, as it is and to be edited."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from trees import Tree


@pytest.fixture(scope="session")
def done(pipeline: Path) -> Tree:
    """The session's run; not to be written to."""
    return Tree(pipeline)


@pytest.fixture
def own(pipeline: Path, tmp_path: Path) -> Tree:
    """A copy of that run, for tests that edit its files."""
    return Tree(Path(shutil.copytree(pipeline, tmp_path / "project")))
