"""Kernels of which only the source has changed since an archive was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import ARCHIVE, ROOT, assert_one_line, copy_tree, run_module

from contracts import UserError, read_json, write_rows
from experiments.stages.build import build_variant
from experiments.stages.same_code import Tree, chained, find

NAIVE = Path("kernels", "sgemm", "naive.cu")


@pytest.fixture(scope="module")
def before() -> Tree:
    return Tree(ROOT)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what sgemm_naive was built to, and nothing else."""
    folder = tmp_path_factory.mktemp("archive")
    build_variant("sgemm_naive", "sm_90a", folder)
    write_rows(folder / "resources.csv", "resources", [read_json(folder / "sgemm_naive.json", "resources")])
    return folder


def edited(to: Path, old: str, new: str) -> Tree:
    """A copy of the project with other words in the source of sgemm_naive."""
    tree = copy_tree(to)
    text = (tree / NAIVE).read_text()
    assert text.count(old) == 1
    (tree / NAIVE).write_text(text.replace(old, new))
    return Tree(tree)


def test_another_source_of_the_same_code_is_found(before: Tree, archive: Path, tmp_path: Path) -> None:
    now = edited(tmp_path / "tree", "float sum = 0.0f;", "float total = 0.0f;\n    float& sum = total;")
    (row,) = find(archive, before, now)
    assert (row["variant"], row["arch"]) == ("sgemm_naive", "sm_90a") and len(row["code"]) == 64
    assert row["measured_hash"] == before.entries["sgemm_naive"]["hash"]
    assert row["source_hash"] == now.entries["sgemm_naive"]["hash"] != row["measured_hash"]


def test_a_tuned_kernel_is_listed_with_the_archive_s_own_tile(before: Tree, tmp_path: Path) -> None:
    record = json.loads((ARCHIVE / "tuned.json").read_text())
    record["kernels"]["sgemm_autotuned"]["template"]["BK"] += 8
    (tmp_path / "tuned.json").write_text(json.dumps(record))
    now = Tree(ROOT, tmp_path / "tuned.json")
    changed = [name for name, entry in now.entries.items() if entry["hash"] != before.entries[name]["hash"]]
    assert changed == ["sgemm_autotuned"]


def test_other_code_stays_stale(before: Tree, archive: Path, tmp_path: Path) -> None:
    assert find(archive, before, edited(tmp_path / "tree", "sum = 0.0f", "sum = 1.0f")) == []


def test_another_launch_of_the_same_code_stays_stale(before: Tree, archive: Path, tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "tree")
    catalogue = tree / "kernels" / "catalogue.yaml"
    own, rest = catalogue.read_text().split("sgemm_coalesced:", 1)
    catalogue.write_text(f"{own.replace('grid: mn', 'grid: nm')}sgemm_coalesced:{rest}")
    now = Tree(tree)
    assert now.entries["sgemm_naive"]["hash"] != before.entries["sgemm_naive"]["hash"]
    assert find(archive, before, now) == []


def test_an_archive_of_another_commit_is_refused(before: Tree, archive: Path, tmp_path: Path) -> None:
    now = edited(tmp_path / "tree", "sum = 0.0f", "sum = 1.0f")
    with pytest.raises(UserError, match=r"sgemm_naive: \w+ = .* in the archive; name the commit that was measured"):
        find(archive, now, before)


def test_earlier_rows_are_kept_where_they_still_hold(before: Tree) -> None:
    now = before.entries["sgemm_naive"]["hash"]
    row = {"variant": "sgemm_naive", "measured_hash": "0", "source_hash": now}
    again = row | {"measured_hash": "1"}
    assert chained([row], [], before) == [row]  # the source has not changed since
    assert chained([row | {"source_hash": "1"}], [again], before) == [row, again]  # its code is the same once more
    assert chained([row | {"source_hash": "1"}, row | {"source_hash": "2"}], [], before) == []
    assert chained([row | {"variant": "gone"}, again], [again], before) == [again]


def test_a_commit_that_is_not_there_is_one_line(archive: Path) -> None:
    done = run_module("experiments.stages.same_code", "--data", archive, "--commit", "no-such-commit")
    assert_one_line(done, "--commit no-such-commit:")
    assert not (archive / "same_code.csv").exists()
