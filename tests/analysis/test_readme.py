"""README.md: its two blocks are those of the archives, and it is short."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, run_module

from analysis import ladders, readme
from analysis.results import Results
from contracts import REHEARSAL, UserError

README = ROOT / "README.md"


def test_the_blocks_are_those_of_the_archives_and_a_stale_one_is_written_again(
    made: Path, variants_csv: Path, tmp_path: Path
) -> None:
    def run(*arguments: object) -> int:
        given = (
            "--findings",
            made / "tables" / "findings.json",
            "--archives",
            "data/h100",
            "data/h200",
        )
        return run_module(
            "analysis", "readme", *arguments, *given, "--catalogue", variants_csv
        ).returncode

    assert README.stat().st_size <= 8192
    assert run("--check", README) == 0, "README.md is not up to date: snakemake --cores 1 readme"
    copy = Path(shutil.copy(README, tmp_path))
    stale = README.read_text().replace("%)<br>", "1%)<br>", 1)
    copy.write_text(stale)
    assert run("--check", copy) == 1 and copy.read_text() == stale != README.read_text()
    assert run(copy) == 0 and copy.read_text() == README.read_text()
    with pytest.raises(UserError, match="no block findings; needed: a line <!-- findings -->"):
        readme.filled(
            "<!-- best-kernels -->\n<!-- end -->\n",
            {"best-kernels": "x", "findings": "y"},
            "README.md",
        )


def test_a_rehearsal_is_not_taken(rehearsed: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme, "archives_of", lambda _: [rehearsed])
    with pytest.raises(UserError, match=f"data/h100: {REHEARSAL}; README has measurements"):
        readme.run(argparse.Namespace())


def test_a_finding_says_where_it_holds_and_what_was_emulated() -> None:
    def gpu(name: str, holds: bool | None, **numbers: Any) -> dict[str, Any]:
        return {"gpu": name.lower(), "model": name, "holds": holds, "numbers": numbers}

    gpus = [
        gpu("H100", True, measured=True),
        gpu("H200", True, measured=False),
        gpu("A100", False),
        gpu("L40", None),
    ]
    found = {"title": "T", "sentence": "S.", "holds": True, "gpus": gpus}
    text = readme.findings([found | {"holds": None}, found])
    assert (
        text
        == "- **T.** *H100.* S. Holds on H100 and H200 (emulated); does not hold on A100; undecided on L40."
    )


def test_the_best_kernel_is_the_one_whose_interval_begins_highest(
    h100: Results, changed: Callable[..., Results]
) -> None:
    def best(results: Results) -> str:
        rows = ladders.best_kernels(results)
        return next(
            str(row["variant"]) for row in rows if row["kind"] == "bf16" and row["n"] == 4096
        )

    def widen(rows):  # type: ignore[no-untyped-def]
        rows.loc[(rows["variant"] == first) & (rows["n"] == 4096), "fraction_low"] = 0.5
        return rows

    def twice(rows):  # type: ignore[no-untyped-def]
        """Fast, but measured by two processes alone."""
        rows.loc[
            (rows["variant"] == "hgemm_naive_bf16") & (rows["n"] == 4096),
            ["processes", "fraction_low"],
        ] = 2, 9.0
        return rows

    first = best(h100)
    assert best(changed(h100, timings=twice)) == first
    # B by rows, as for every other kernel
    assert "bcol" not in first and best(changed(h100, timings=widen)) != first
