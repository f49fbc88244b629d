"""What several tests of stages need."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ARCHIVE, dict_rows

from contracts import write_json
from contracts.rows import Resources


@pytest.fixture
def pretended(tmp_path: Path) -> Path:
    """A folder that says of two kernels that they are built, and has an empty harness: no machine
    code.
    """
    # the header of an ELF file without sections
    (tmp_path / "harness.cubin").write_bytes(bytes(64))
    for row in dict_rows(ARCHIVE / "resources.csv", Resources):
        if row["variant"] in ("sgemm_naive", "sgemm_coalesced"):
            write_json(tmp_path / f"{row['variant']}.json", Resources, row)
    return tmp_path
