"""The claims' files: what their schemas forbid is one line an entry."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from analysis.claims.files import read_claims


@pytest.mark.parametrize("name", ["a\nb", "a" * 500, 3, ["a\nb"]])
def test_an_entry_that_is_not_allowed_is_one_line_whatever_its_name(name: object, tmp_path: Path) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump([{"id": name}]))
    faults: list[str] = []
    assert read_claims(path, faults) == []
    (line,) = faults
    assert line.startswith(f"{path}: ") and len(line.splitlines()) == 1 and len(line) < len(str(path)) + 500
