"""What a target ends with, whoever edits the Snakefile: a dry run on a GPU that is not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

from helpers import copy_tree
from trees import GPU, OF_SOME, Tree


def test_a_run_of_everything_and_one_of_an_experiment_end_with_their_own_checks(
    tmp_path: Path,
) -> None:
    """`passed` is what ends a run non-zero where a check failed: one job for `all`, and one for the
    experiment.
    """
    tree = Tree(copy_tree(tmp_path / "project", ["sgemm_ladder"]), (*OF_SOME, "mode=measure"))
    said = tree.succeed("-n", "all", "sgemm_ladder", GEMM_LADDER_TOOLCHAIN=json.dumps(GPU))
    for folder in ("results/h200", "results/h200/only/sgemm_ladder"):
        assert said.count(f"    output: {folder}/passed.txt\n") == 1, folder


def test_an_experiment_that_only_counts_where_c_is_read_has_its_table_and_no_figure_of_nothing(
    tmp_path: Path,
) -> None:
    tree = Tree(copy_tree(tmp_path / "project", ["profile_reading_c"]), options=())
    said = tree.succeed("-n", "profile_reading_c", GEMM_LADDER_TOOLCHAIN=json.dumps(GPU))
    assert re.search(
        "    output: .*results/h200/only/profile_reading_c/counters_with_beta.csv", said
    )
    assert "results/figures/counters_profile_reading_c" not in said


def test_the_list_has_a_sentence_for_each_target_and_no_rule_of_the_inside(tmp_path: Path) -> None:
    tree = Tree(copy_tree(tmp_path / "project", ["sgemm_ladder"]), options=())
    rows = [line.split(maxsplit=1) for line in tree.succeed("--list").splitlines()]
    texts = {row[0]: row[1] for row in rows if len(row) > 1}
    assert {"all", "explorer", "lens", "paper", "claims", "archive", "sgemm_ladder"} <= set(texts)
    assert texts["sgemm_ladder"].startswith("The SGEMM ladder: How much does each rung gain")
    assert not {"emulate", "report_tables", "paper_pdf", "joined_table"} & set(texts)
