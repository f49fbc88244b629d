"""What several tests of stages need."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ARCHIVE

from contracts import read_rows, write_json


@pytest.fixture
def pretended(tmp_path: Path) -> Path:
    """A folder that says of two kernels that they are built, and has an empty harness: no machine
    code.
    """
    # the header of an ELF file without sections
    (tmp_path / "harness.cubin").write_bytes(bytes(64))
    for row in read_rows(ARCHIVE / "resources.csv", "resources"):
        if row["variant"] in ("sgemm_naive", "sgemm_coalesced"):
            write_json(tmp_path / f"{row['variant']}.json", "resources", row)
    return tmp_path
