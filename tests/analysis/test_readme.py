"""README.md: its two blocks are those of the archives, and it is short."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frames import Change, with_cells
from helpers import ROOT, refused, run_module

from analysis import ladders, readme
from analysis.results import Results
from contracts import REHEARSAL

README = ROOT / "README.md"


def test_the_blocks_are_those_of_the_archives_and_a_stale_one_is_written_again(
    made: Path, variants_csv: Path, tmp_path: Path
) -> None:
    findings = ("--findings", made / "tables" / "findings.json")
    given = (*findings, "--archives", "data/h100", "data/h200", "--catalogue", variants_csv)

    def run(*arguments: object) -> int:
        return run_module("analysis", "readme", *arguments, *given).returncode

    assert README.stat().st_size <= 10_240
    assert run("--check", README) == 0, "README.md is not up to date: snakemake --cores 1 readme"
    copy = Path(shutil.copy(README, tmp_path))
    stale = README.read_text().replace("% | ", "1% | ", 1)
    copy.write_text(stale)
    assert run("--check", copy) == 1 and copy.read_text() == stale != README.read_text()
    assert run(copy) == 0 and copy.read_text() == README.read_text()
    blocks = {"best-kernels": "x", "findings": "y"}
    with refused("no block findings; needed: a line <!-- findings -->"):
        readme.filled("<!-- best-kernels -->\n<!-- end -->\n", blocks, "README.md")


def test_a_rehearsal_is_not_taken(rehearsed: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme, "archives_of", lambda _: [rehearsed])
    with refused(f"data/h100: {REHEARSAL}; README has measurements"):
        readme.run(argparse.Namespace())


def test_a_finding_says_where_it_holds_and_what_was_emulated() -> None:
    def gpu(name: str, holds: bool | None, **numbers: Any) -> dict[str, Any]:
        return {"gpu": name.lower(), "model": name, "holds": holds, "numbers": numbers}

    gpus = [gpu("H100", True, measured=True), gpu("H200", True, measured=False)]
    gpus += [gpu("A100", False), gpu("L40", None)]
    finding = {"title": "T", "sentence": "S.", "holds": True, "gpus": gpus}
    text = readme.findings([finding | {"holds": None}, finding])
    where = "Holds on H100 and H200 (emulated); does not hold on A100; undecided on L40."
    assert text == f"- **T.** *H100.* S. {where}"


def test_the_best_kernel_is_the_one_whose_interval_begins_highest(
    h100: Results, changed: Callable[..., Results]
) -> None:
    def best(results: Results) -> str:
        rows = {(row["kind"], row["n"]): row for row in ladders.best_kernels(results)}
        return str(rows["bf16", 4096]["variant"])

    def fast_in(processes: int) -> Change:
        """The naive kernel begins highest, measured in so many processes."""
        naive = {"variant": "hgemm_naive_bf16", "n": 4096}
        fast = with_cells("fraction_low", 9.0, **naive)
        return lambda rows: fast(with_cells("processes", processes, **naive)(rows))

    first = best(h100)
    assert "bcol" not in first  # B lies by rows, as for every other kernel.
    assert best(changed(h100, timings=fast_in(2))) == first
    assert best(changed(h100, timings=fast_in(5))) == "hgemm_naive_bf16"
