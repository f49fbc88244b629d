"""Reading the Snakefile leaves the disk as it was, and nothing from the configuration reaches a shell unquoted."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from helpers import ROOT, copy_tree, environment, snakemake

from contracts import load_yaml
from experiments.stages import toolchain

HOSTILE = "a'$(touch PWNED)'`touch PWNED`;touch PWNED #{wildcards}"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("reading") / "project", experiments={"sgemm_ladder", "hgemm_ladder"})


def everything(tree: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder but Snakemake's own and Python's caches: size and date of change."""
    found = {}
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name not in (".snakemake", "__pycache__")]
        for name in names:
            stat = Path(folder, name).stat()
            found[str(Path(folder, name))] = (stat.st_size, stat.st_mtime_ns)
        found[folder] = (0, 0)
    return found


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-n", "all"], 0),
        (["-n", "paper"], 0),
        (["--list"], 0),
        (["all", "--config", "archive=nope"], 1),
        (["all", "--config", "mode=measure"], 1),
        (["compare"], 1),
        (["sgemm_laddr"], 1),
    ],
)
def test_reading_and_refusing_leave_no_trace(arguments: list[str], code: int, tree: Path) -> None:
    tuned = tree / "results" / "tuned.json"  # an earlier version kept one there, and removed it
    tuned.parent.mkdir(exist_ok=True)
    tuned.write_text("{}")
    before = everything(tree)
    done = snakemake(tree, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert everything(tree) == before


GPU = {"nvcc": "13.0.88", "ptxas": "13.0.88", "host_compiler": "g++ 12", "cuobjdump": "13.5", "driver": "580.0"}
GPU |= {"gpu": "NVIDIA H200", "arch": "sm_90a"}


def test_a_sweep_times_no_experiment_but_its_own(tree: Path) -> None:
    """What it finds says what the tuned kernels are, so that it comes before the experiments that time these."""
    done = snakemake(tree, "-n", "tile_autotune", "dispatch", GEMM_LADDER_TOOLCHAIN=json.dumps(GPU))
    assert done.returncode == 0, done.stdout + done.stderr
    planned = set(re.findall(r"^(?:local)?rule (\w+):", done.stdout + done.stderr, re.M))
    assert {"tune", "measure_dispatch", "figure_of_tiles"} <= planned and "bench" not in planned


KEYS = sorted(load_yaml(ROOT / "config.yaml"))


@pytest.mark.parametrize("key", KEYS)
def test_a_hostile_value_is_one_line_and_no_command(key: str, tree: Path) -> None:
    done = snakemake(tree, "build", "--config", f"{key}={HOSTILE}")
    words = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in words, words
    assert len([line for line in words.splitlines() if line.startswith("error: ")]) == 1, words
    assert not list(tree.rglob("PWNED"))


def test_a_compiler_in_a_folder_with_a_hostile_name_builds(tree: Path, tmp_path: Path) -> None:
    """Both keys that are paths, quoted on their way to the shell."""
    folder = tmp_path / "it's $(touch PWNED) `touch PWNED`"
    folder.mkdir()
    nvcc = folder / "nvcc"
    nvcc.write_text(f'#!/bin/sh\nexec "{toolchain.nvcc()}" "$@"\n')
    nvcc.chmod(0o755)
    ptxas = folder / "ptxas"
    ptxas.symlink_to(toolchain.ptxas(toolchain.nvcc()))
    own = Path(shutil.copytree(tree, tmp_path / "project"))
    given = ["--config", f"nvcc={nvcc}", 'variants=["sgemm_naive"]']
    done = snakemake(own, "build", *given, **{"PATH": environment()["PATH"]})
    assert done.returncode == 0, done.stdout + done.stderr
    node = folder / "node.json"
    shutil.copyfile(own / "results" / "toolchain.json", node)
    done = snakemake(own, "build", *given, f"gpu_node={node}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.rglob("PWNED"))
