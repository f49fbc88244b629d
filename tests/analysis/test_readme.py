"""README.md: its two blocks are those of the archives, and what it points to is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT

from analysis import findings, readme
from analysis.results import Results
from contracts import UserError, write_rows
from kernels import catalogue

README = ROOT / "README.md"
ARCHIVES = [ROOT / "data" / name for name in ("h100", "h200")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with variants.csv, and with findings.json of both archives."""
    folder = tmp_path_factory.mktemp("made")
    write_rows(folder / "variants.csv", "variants", catalogue.load().rows())
    found = findings.document([Results(path, folder / "variants.csv") for path in ARCHIVES])
    (folder / "findings.json").write_text(json.dumps(found))
    return folder


def run(made: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "analysis.readme", "--findings", made / "findings.json", "--archives", *ARCHIVES]
    command += ["--catalogue", made / "variants.csv", *arguments]
    return subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)


def test_the_blocks_are_those_of_the_archives(made: Path) -> None:
    done = run(made, "--check", README)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stale_block_fails_the_check_and_is_written_again(made: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(README, tmp_path / "README.md"))
    copy.write_text(README.read_text().replace("57 (110%)", "58 (112%)", 1))
    stale = copy.read_text()
    assert run(made, "--check", copy).returncode == 1 and copy.read_text() == stale != README.read_text()
    assert run(made, copy).returncode == 0 and copy.read_text() == README.read_text()


def test_without_its_marks_one_line_says_what_is_needed() -> None:
    with pytest.raises(UserError, match="no block findings; needed: a line <!-- findings -->"):
        readme.filled("<!-- best-kernels -->\n<!-- end -->\n", {"best-kernels": "x", "findings": "y"}, "README.md")


def test_a_finding_says_where_it_holds_and_what_was_emulated() -> None:
    def gpu(name: str, holds: bool | None, **numbers: Any) -> dict[str, Any]:
        return {"gpu": name.lower(), "model": name, "holds": holds, "numbers": numbers}

    gpus = [gpu("H100", True, measured=True), gpu("H200", True, measured=False), gpu("A100", False), gpu("L40", None)]
    text = readme.findings([{"title": "T", "sentence": "S.", "gpus": gpus}])
    assert text == "- **T.** *H100.* S. Holds on H100 and H200 (emulated); does not hold on A100; undecided on L40."


def test_the_best_kernel_is_the_one_whose_interval_begins_highest(made: Path) -> None:
    results = Results(ARCHIVES[0], made / "variants.csv")
    row = next(line for line in readme.best_kernels([results]).splitlines() if line.startswith("| H100 | bf16 |"))
    assert "`wgmma_store`" in row.split("|")[4] and "bcol" not in row  # B by rows, as for every other kernel
    rows = results.timings.copy()
    rows.loc[(rows["variant"] == "hgemm_wgmma_store_bf16") & (rows["n"] == 4096), "fraction_low"] = 0.5
    other = Results(ARCHIVES[0], made / "variants.csv")
    other.__dict__["timings"] = rows
    row = next(line for line in readme.best_kernels([other]).splitlines() if line.startswith("| H100 | bf16 |"))
    assert "`wgmma_store`" not in row.split("|")[4]


def test_it_is_short_and_what_it_points_to_is_there() -> None:
    text = README.read_text()
    assert README.stat().st_size <= 8192
    paths = re.findall(r"\]\((?!http)([^)#]+)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert len(paths) > 15 and [path for path in paths if not (ROOT / path).exists()] == []


def test_it_counts_the_kernels_of_the_catalogue() -> None:
    kernels = [row for row in catalogue.load().rows() if row["kind"] == "kernel"]
    assert f"**{len(kernels)} CUDA matrix-multiplication kernels" in README.read_text()
