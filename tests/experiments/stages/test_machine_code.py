"""The hash of machine code changes with what runs, and with nothing else."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import ARCH, json_dict, refused

from contracts.rows import Resources
from experiments.stages import build
from experiments.stages.machine_code import code_hash, code_of
from kernels import catalogue
from kernels.catalogue import Choice, Dispatcher, Variant

NAIVE = catalogue.load().kernels["sgemm_naive"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build.build_kernel(NAIVE, ARCH, folder)
    return folder


def edited(folder: Path, old: str, new: str) -> Variant:
    """The naive kernel with another source, built in `folder`."""
    source = folder / "mine.cu"
    text = NAIVE.source.read_text()
    assert old in text
    source.write_text(text.replace(old, new))
    variant = replace(NAIVE, source=source, entry="renamed" if new == "renamed(" else NAIVE.entry)
    build.build_kernel(variant, ARCH, folder)
    return variant


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("sgemm_naive(", "renamed(", True),
        ("#include", "// one line more\n#include", True),
        ("float sum = 0.0f", "float total = 0.0f, &sum = total", True),
        ("float sum = 0.0f", "float sum = 1.0f", False),
    ],
)
def test_names_and_comments_leave_the_hash_and_another_constant_does_not(
    old: str, new: str, same: bool, built: Path, tmp_path: Path
) -> None:
    mine = edited(tmp_path, old, new)
    assert (code_of(mine, tmp_path) == code_of(NAIVE, built)) is same


@pytest.mark.parametrize(
    "change",
    [
        {"threads": 512},
        {"shared_bytes": 16},
        {"cluster": (2, 1)},
        {"blocks_per_sm": 1},
        {"raster": "nm"},
    ],
)
def test_another_launch_of_the_same_code_is_another_hash(change: dict, built: Path) -> None:
    cubin = built / "sgemm_naive.cubin"
    same = replace(NAIVE, idea="other", template={"BLOCK": 16})
    assert code_hash(same, cubin) == code_hash(NAIVE, cubin)
    assert code_hash(replace(NAIVE, **change), cubin) != code_hash(NAIVE, cubin)


def test_a_dispatcher_has_the_hashes_of_its_kernels_and_choices(
    built: Path, tmp_path: Path
) -> None:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    path, other = tmp_path / "other.json", Choice(replace(NAIVE, name="other"), {})
    shutil.copy(tmp_path / "sgemm_naive.json", path)
    first, second = (
        Dispatcher("d", (Choice(NAIVE, {"n": n}), other), None, "", None, predicted=False)
        for n in (64, 65)
    )
    before = code_of(first, tmp_path)
    assert code_of(second, tmp_path) != before
    code = json_dict(path, Resources)["code_hash"]
    path.write_text(path.read_text().replace(code, "0" * 16))
    assert code_of(first, tmp_path) != before


def test_what_was_not_built_is_one_line(tmp_path: Path) -> None:
    with refused(r"sgemm_naive\.json"):
        code_of(NAIVE, tmp_path)
