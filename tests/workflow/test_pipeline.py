"""Real Snakemake runs: what is made, what is made again, and what an error looks like."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers import (
    ARCHIVE,
    ROOT,
    copy_tree,
    dict_rows,
    environment,
    json_dict,
    run_module,
    snakemake,
    stuck_nvcc,
    wait_until,
)
from trees import GPU, OF_SOME, SOME, Tree, jobs

from analysis import readme
from analysis.results import Results
from contracts.rows import Checks, Counters, Resources, Toolchain
from experiments import declarations
from experiments.stages import toolchain
from experiments.stages.store import Key, Measurement, Store
from kernels import catalogue

NOTHING = "Nothing to be done"
KERNELS = [name for name in SOME if name in catalogue.load().kernels]
RESOURCES = "results/no-gpu/resources.csv"
OWN = {".snakemake", "__pycache__"}  # What Snakemake and Python leave, also of a run that fails.
WITH_GPU = {"GEMM_LADDER_TOOLCHAIN": json.dumps(GPU)}


# ---- what `all` makes ----------------------------------------------------------------------------


def test_all_builds_and_checks_what_was_asked_for_and_then_has_nothing_to_do(done: Tree) -> None:
    assert set(done.dates()) == {*KERNELS}
    results = done.folder / "results" / "no-gpu"
    assert {row["variant"] for row in dict_rows(done.folder / RESOURCES, Resources)} == {*KERNELS}
    checks = dict_rows(results / "emulated-checks.csv", Checks)
    assert {row["variant"] for row in checks} == {*KERNELS} and all(row["passed"] for row in checks)
    assert {row["variant"] for row in dict_rows(results / "predictions.csv", Counters)} <= {
        *KERNELS
    }
    assert json_dict(done.folder / "results" / "toolchain.json", Toolchain)["gpu"] is None
    assert NOTHING in done.succeed("all") and NOTHING in done.succeed("paper")


def test_documents_need_nothing_else(done: Tree) -> None:
    loads = r"""<(?:script|img|link|iframe)[^>]*\b(?:src|href)\s*=\s*["']?(?:https?:)?//"""
    for name, smallest, largest in (("report", 1e6, 12e6), ("explorer", 5e5, 6e6)):
        page = (done.folder / "results" / f"{name}.html").read_text()
        assert smallest < len(page) < largest and not re.search(loads, page)
    assert {*re.findall(r'id="part-lens_(\w+)"', page)} == {*KERNELS}  # of the explorer
    for name in ("paper", "supplement"):
        assert (done.folder / "results" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_report_has_every_figure_and_table(done: Tree) -> None:
    page = (done.folder / "results" / "report.html").read_text()
    for category in ("Paper", "Speed", "Counters", "Studies", "Experiments", "Tables"):
        assert f'"{category}"' in page, category
    figures = {path.name for path in (done.folder / "results" / "figures").glob("*.svg")}
    tables = {path.name for path in (done.folder / "results" / "tables").glob("*.csv")}
    assert len(figures) > 30 and len(tables) >= 9
    assert [name for name in figures | tables if name not in page] == []


def test_a_figure_is_drawn_again_alone_and_is_the_same(done: Tree, tmp_path: Path) -> None:
    options = ("--results", "data/h100", "--catalogue", "results/variants.csv", "--out", tmp_path)
    # in another order than the rules draw them
    names = ("issue", "fractions", "ladder:sgemm_ladder")
    hashes = {"PYTHONHASHSEED": "7", "PYTHONPATH": str(done.folder)}
    drawn = run_module("analysis", "draw", *options, *names, cwd=done.folder, **hashes)
    assert drawn.returncode == 0, drawn.stderr
    files, figures = [*tmp_path.iterdir()], done.folder / "results" / "figures"
    assert len(files) == 6
    assert all(file.read_bytes() == (figures / file.name).read_bytes() for file in files)


def test_the_readme_s_pictures_are_what_the_archive_draws(
    archive: Path, variants_csv: Path, tmp_path: Path
) -> None:
    options = ("--results", archive, "--catalogue", variants_csv, "--out", tmp_path)
    drawn = run_module("analysis", "draw", *options, "ladder:sgemm_ladder")
    assert drawn.returncode == 0, drawn.stderr
    results = Results(archive, variants_csv)
    pictures = readme.pictures(results, tmp_path / "ladder_sgemm_ladder.svg")
    assert set(pictures) == {path.name for path in (ROOT / "docs").glob("*.svg")}
    for name, svg in pictures.items():
        assert (ROOT / "docs" / name).read_text() == svg, name


def test_two_variants_are_compared_and_printed_every_time(own: Tree) -> None:
    pair = ("--config", "variant_a=sgemm_naive", "variant_b=sgemm_coalesced")
    for _ in range(2):
        compared = snakemake(own.folder, "compare", *pair)
        words = compared.stdout + compared.stderr
        assert compared.returncode == 0 and "b / a" in words and "Global load" in words, words
    assert (own.folder / "results" / "tables" / "compare_sgemm_naive_sgemm_coalesced.csv").is_file()


# ---- what is made again --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "old", "new", "built", "emulated"),
    [
        ("kernels/sgemm/vectorized.cu", "float", "float ", 1, 1),
        ("kernels/include/tma.cuh", "\n", "\n// edited\n", 0, 0),  # none of the four includes it
        ("kernels/catalogue.yaml", "template: {BLOCK: 32}", "template: {BLOCK: 16}", 1, 1),
        ("ptxsim/engine/kernel.py", "\n", "\n# edited\n", 0, 2),
    ],
)
def test_an_edit_makes_again_what_rests_on_it(
    path: str, old: str, new: str, built: int, emulated: int, own: Tree
) -> None:
    """Of two batches; drawing takes what was built and emulated as it is."""
    own.edit(path, old, new)
    planned = own.planned("all")
    assert planned.get("build_kernels", 0) == built, planned
    assert planned.get("emulate", 0) == emulated, planned
    assert not {"build_kernels", "emulate", "joined_table"} & {*own.planned("paper")}


def test_another_toolchain_builds_all_again(done: Tree, tmp_path: Path) -> None:
    """A g++ that gives another version is another toolchain."""
    version = '[ "$1" = --version ] && echo "g++ 99.9.9" && exit'
    fake = tmp_path / "g++"
    fake.write_text(f'#!/bin/sh\n{version}\nexec {shutil.which("g++")} "$@"\n')
    fake.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), environment()["PATH"]])
    assert done.planned("build", PATH=path)["build_kernels"] == 2


def test_of_a_batch_only_what_changed_is_built_and_one_that_fails_leaves_the_others(
    own: Tree,
) -> None:
    before, table = own.dates(), (own.folder / RESOURCES).read_text()
    own.edit("kernels/sgemm/vectorized.cu", "__global__ void", "__global__ viod")
    own.edit("kernels/sgemm/naive.cu", "float sum = 0.0f", "float sum = -0.0f")
    said = own.fail("build", *OF_SOME)
    assert said.startswith("error: nvcc failed on sgemm_vectorized.cu: ")
    assert re.search(r"vectorized\.cu\(\d+\): error", said)
    after = own.dates()
    assert after["sgemm_naive"] > before["sgemm_naive"]
    assert {name for name in after if after[name] == before[name]} == {*KERNELS} - {"sgemm_naive"}
    assert not list(own.build.glob(".*")) and not (own.build / "sgemm_vectorized.json").exists()
    own.edit("kernels/sgemm/vectorized.cu", "__global__ viod", "__global__ void")
    own.succeed("build")
    assert [name for name in after if own.dates()[name] != after[name]] == ["sgemm_vectorized"]
    assert (own.folder / RESOURCES).read_text() != table  # another source hash
    figure = "results/figures/ladder_sgemm_ladder.svg"
    own.succeed(figure)
    words = " ".join(re.findall(r">([^<]+)<", (own.folder / figure).read_text()))
    # Its time is of the source before.
    assert "not have its source as it is now: naive" in " ".join(words.split())


def test_a_fresh_clone_draws_without_building_and_all_draws_after_its_checks(
    tmp_path: Path,
) -> None:
    tree = Tree(copy_tree(tmp_path / "project"), options=())
    emulating = {"build_kernels", "emulate", "joined_table"}
    one = tree.planned("results/figures/power.svg")
    assert one["total"] <= 5 and "figures_of_timings" in one and not emulating & {*one}
    drawn = {*tree.planned("paper", "explorer", "claims", "results/report.html")}
    assert {"paper_pdf", "explorer_html", "claims", "bank_pictures"} <= drawn
    assert not emulating & drawn
    words = tree.succeed("-n", "all")
    assert emulating <= {*jobs(words)}
    tables = next(rule for rule in words.split("rule ") if rule.startswith("report_tables:"))
    assert "results/no-gpu/emulated-checks.csv" in tables


# ---- with a GPU, as far as a plan shows ----------------------------------------------------------


def test_an_experiment_by_its_name_builds_and_measures_its_own_kernels(tmp_path: Path) -> None:
    tree, known = Tree(copy_tree(tmp_path / "project"), options=()), catalogue.load().kernels

    def commands(target: str) -> tuple[set[str], set[str]]:
        words = tree.succeed("-n", "-p", target, **WITH_GPU)
        builds = re.findall(r"-m experiments\.stages\.build ((?:\w+ )+)", words)
        timed = re.findall(r"-m experiments\.stages\.bench (\w+)", words)
        return {*" ".join(builds).split()}, {*timed}

    built, timed = commands("sgemm_ladder")
    assert timed == {"sgemm_ladder"}
    assert {name for name in declarations.load("sgemm_ladder").variants if name in known} <= built
    assert len(built) < len(known) / 2
    assert commands("sgemm_sweep")[1] == {"sgemm_sweep"} and "sgemm_sweep" not in commands("all")[1]


def test_a_sweep_times_no_experiment(own: Tree) -> None:
    planned = own.planned("tile_autotune", **WITH_GPU)
    assert "tile_autotune" in planned and "bench" not in planned


def test_locked_legs_are_planned_where_they_are_asked_for(done: Tree) -> None:
    config = ("--config", 'variants=["sgemm_naive"]', "lock_clocks=true", "lock_sm_mhz=1260")
    planned = snakemake(done.folder, "-n", "-p", "sgemm_ladder", *config, **WITH_GPU)
    words = planned.stdout + planned.stderr
    assert planned.returncode == 0 and "stages.try_lock --lock --sm-mhz 1260 " in words, words
    locked = words.count("--clock-policy locked --sm-mhz 1260")
    assert locked == words.count("--clock-policy boost") > 0


def test_a_store_of_another_gpu_model_is_one_line(own: Tree) -> None:
    key = Key("bench", "sgemm_naive", "64x64x64-uniform-boost")
    store = Store(own.folder / "results" / "h200" / "measured")
    store.keep(key, Measurement({"gpu": "NVIDIA H200"}, "0" * 8))
    assert own.planned("sgemm_ladder", **WITH_GPU)["bench"] == 1
    other = {"GEMM_LADDER_TOOLCHAIN": json.dumps(GPU | {"gpu": "NVIDIA H100 80GB HBM3"})}
    said = own.fail("sgemm_ladder", "--config", "machine=h200", **other)
    for word in ("results/h200/measured", "NVIDIA H200", "NVIDIA H100 80GB HBM3"):
        assert word in said


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("all --config varients=1", ["unknown key 'varients'", "nearest: variants"]),
        ("all --config nvcc=/no/such/nvcc", ["nvcc", "/no/such/nvcc"]),
        ("all --config nvcc=/bin/false", ["/bin/false"]),
        ("sgemm_laddr", ["'sgemm_laddr'", "sgemm_ladder"]),
        ("results/figures/step.svg", ["step.svg'", "nearest: results/figures/steps.svg"]),
        ("sanitize", ["sanitize", "GPU"]),
    ],
)
def test_what_cannot_be_run_is_one_line_and_leaves_no_trace(
    words: str, told: list[str], done: Tree
) -> None:
    def dates() -> dict[Path, int]:
        files = (path for path in done.folder.rglob("*") if not OWN & {*path.parts})
        return {path: path.stat().st_mtime_ns for path in files}

    before = dates()
    said = done.fail(*words.split())
    assert [word for word in told if word not in said] == [], said
    assert dates() == before


@pytest.mark.parametrize("key", ["machine", "nvcc", "gpu_node", "variants"])
def test_a_hostile_value_is_one_line_and_no_command(key: str, done: Tree) -> None:
    hostile = "a'$(touch PWNED)'`touch PWNED`;touch PWNED #{wildcards}"
    done.fail("build", "--config", f"{key}={hostile}")
    assert not list(done.folder.rglob("PWNED"))


def test_a_compiler_in_a_folder_with_a_hostile_name_builds(own: Tree, tmp_path: Path) -> None:
    """Both keys that are paths, quoted on their way to the shell."""
    folder = tmp_path / "it's $(touch PWNED) `touch PWNED`"
    folder.mkdir()
    (folder / "nvcc").write_text(f'#!/bin/sh\nexec "{toolchain.nvcc()}" "$@"\n')
    (folder / "nvcc").chmod(0o755)
    (folder / "ptxas").symlink_to(toolchain.ptxas(toolchain.nvcc()))
    shutil.copyfile(own.folder / "results" / "toolchain.json", folder / "node.json")
    paths = (f"nvcc={folder / 'nvcc'}", f"gpu_node={folder / 'node.json'}")
    done = snakemake(own.folder, "build", "--config", *paths, 'variants=["sgemm_naive"]')
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.rglob("PWNED"))


def test_no_host_compiler_is_one_line(done: Tree, tmp_path: Path) -> None:
    for tool in ("bash", "sh", "env", "tee", "cat", "uname", "git", "which", "snakemake"):
        (tmp_path / tool).symlink_to(shutil.which(tool, path=environment()["PATH"]) or "/bin/false")
    assert "no g++ on PATH" in done.fail("build", PATH=str(tmp_path))


def test_a_truncated_archive_is_a_clear_line_and_no_figure(own: Tree) -> None:
    path = own.folder / "data" / ARCHIVE.name / "windows.csv"
    figure = "results/figures/ladder_sgemm_ladder.svg"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    said = own.fail(figure, *OF_SOME)
    assert f"data/{ARCHIVE.name}/windows.csv" in said
    assert not (own.folder / figure).exists()


def test_results_that_cannot_be_written_is_one_line_and_nothing_is_archived_without_a_gpu(
    tmp_path: Path,
) -> None:
    tree = Tree(copy_tree(tmp_path / "project", experiments={"sgemm_ladder"}))
    before = sorted(path.as_posix() for path in (tree.folder / "data").rglob("*"))
    tree.fail("archive")
    assert sorted(path.as_posix() for path in (tree.folder / "data").rglob("*")) == before
    shutil.rmtree(tree.folder / "results")
    (tree.folder / "results").write_text("a file where the folder should be")
    assert str(tree.folder / "results") in tree.fail("build")


# ---- a run that is cut ---------------------------------------------------------------------------


def test_a_run_that_is_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    """The whole group, while the third of four kernels is being compiled; Snakemake's lock outlives
    it.
    """
    tree = Tree(copy_tree(tmp_path / "project", experiments={"sgemm_ladder"}))
    names = ["sgemm_naive", "sgemm_coalesced", "sgemm_smem_tile", "sgemm_vectorized"]
    chosen = ("--config", f"variants={json.dumps(names)}", f"nvcc={stuck_nvcc(tmp_path, after=2)}")
    command = ["snakemake", "--cores", "1", "build", *chosen]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    started = subprocess.Popen(
        command, cwd=tree.folder, env=environment(), start_new_session=True, **streams
    )
    wait_until((tmp_path / "waiting").exists, started)
    kept = tree.dates()
    assert len(kept) == 2
    os.killpg(started.pid, signal.SIGKILL)
    words = started.communicate()[0].decode()
    assert started.returncode != 0 and "Traceback" not in words, words
    assert tree.dates() == kept and not (tree.folder / RESOURCES).exists()
    (tmp_path / "stuck").unlink()
    assert "--unlock" in snakemake(tree.folder, "build", *chosen).stderr
    assert snakemake(tree.folder, "--unlock", *chosen).returncode == 0
    again = snakemake(tree.folder, "build", *chosen)
    assert again.returncode == 0, again.stdout + again.stderr
    assert {name: tree.dates()[name] for name in kept} == kept
    assert [row["variant"] for row in dict_rows(tree.folder / RESOURCES, Resources)] == names
