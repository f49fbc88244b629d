"""A rung that is added without a GPU, as docs/add-a-kernel.md says, is "not measured" and breaks
nothing.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from helpers import ROOT, dict_rows, run_module

from contracts.rows import Variants

NAME = "sgemm_mine"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """This project with a kernel of one's own: its source, its entry and its name in an experiment;
    else links.
    """
    for path in ROOT.iterdir():
        if (
            path.is_dir()
            and path.name[0] != "."
            and path.name not in ("kernels", "experiments", "tests", "results")
        ):
            (tmp_path / path.name).symlink_to(path)
    for name in ("kernels", "experiments"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    source = (ROOT / "kernels" / "sgemm" / "naive.cu").read_text()
    (tmp_path / "kernels" / "sgemm" / "mine.cu").write_text(source.replace("sgemm_naive", NAME))
    catalogue = tmp_path / "kernels" / "catalogue.yaml"
    entry = yaml.safe_load(catalogue.read_text())["variants"]["sgemm_naive"]
    entry = {key: value for key, value in entry.items() if key != "origin"} | {
        "source": "sgemm/mine.cu"
    }
    written = yaml.safe_dump(
        {NAME: entry | {"builds_on": "sgemm_naive", "idea": "mine"}}, sort_keys=False
    )
    indented = re.sub("^", "  ", written.strip(), flags=re.M)
    catalogue.write_text(
        catalogue.read_text().replace("\nvariants:\n", f"\nvariants:\n{indented}\n", 1)
    )
    experiment = tmp_path / "experiments" / "sgemm_ladder.yaml"
    experiment.write_text(
        experiment.read_text().replace("  - sgemm_naive\n", f"  - sgemm_naive\n  - {NAME}\n", 1)
    )
    return tmp_path


def test_a_kernel_that_no_archive_has_is_not_measured_and_breaks_nothing(tree: Path) -> None:
    out, variants = tree / "out", tree / "out" / "variants.csv"

    def ran(module: str, *options: object) -> None:
        done = run_module(module, *options, cwd=tree)
        assert done.returncode == 0, f"{module}: {done.stdout}{done.stderr}"

    ran("kernels.catalogue", "--out", variants)
    common, results = ("--catalogue", variants), ("--results", "data/h100")
    ran("analysis.tabulate", *results, *common, "--out", out, "summary", "timings", "kernels")
    ran("experiments.stages.analytic", "--out", out / "analytic.csv")
    claims = ("--analytic", out / "analytic.csv", "--out", out / "claims.csv")
    # no verdict changed
    ran("analysis.claims", *common, "--archives", "data/h100", *claims, "--check")
    ran("analysis.draw", *results, *common, "--out", out, "ladder:sgemm_ladder")
    (own,) = [row for row in dict_rows(variants, Variants) if row["variant"] == NAME]
    assert own["builds_on"] == "sgemm_naive" and own["source"] == "kernels/sgemm/mine.cu"
    summary = json.loads((out / "summary.json").read_text())
    ladder = next(one for one in summary["experiments"] if one["name"] == "sgemm_ladder")
    assert ladder["missing"] == [NAME] and not summary["failed"]
    kernels = (out / "kernels.csv").read_text()
    assert re.search(rf"^{NAME},", kernels, re.M) and NAME not in (out / "timings.csv").read_text()
    # built, checked and emulated
    ran("experiments.try_kernel", NAME, "--size", 256, "--out-dir", out / "try")
