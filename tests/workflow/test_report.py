"""Paper, explorer and report of a few kernels, drawn from the archive by Snakemake, and what a change draws again."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from helpers import ROOT, copy_tree, run, run_module, snakemake

from kernels import catalogue

NOTHING = "Nothing to be done"
SOME = ["sgemm_naive", "sgemm_coalesced", "sgemm_warptile", "hgemm_naive_bf16", "cublas_fp32", "cublas_bf16"]
OF_SOME = ("--config", f"variants={json.dumps(SOME)}")
OFFLINE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")  # none there


def output(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def jobs(words: str) -> dict[str, int]:
    """Snakemake's table of jobs."""
    table = words.partition("Job stats:")[2].partition("\n\n")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which `all` was made from the archive."""
    tree = copy_tree(tmp_path_factory.mktemp("full") / "project")
    done = snakemake(tree, "all", *OF_SOME, **OFFLINE)
    assert done.returncode == 0, output(done)
    return tree


def test_all_makes_documents_that_need_nothing_else_and_then_has_nothing_to_do(full: Path) -> None:
    for name, least, most in (("report", 1e6, 12e6), ("explorer", 5e5, 5e6)):
        page = (full / "results" / f"{name}.html").read_text()
        assert least < len(page) < most
        assert re.findall(r"""<(?:script|img|link|iframe)[^>]*\b(?:src|href)\s*=\s*["']?(?:https?:)?//""", page) == []
    for name in ("paper", "supplement"):
        assert (full / "results" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert NOTHING in output(snakemake(full, "all", *OF_SOME))
    assert NOTHING in output(run(["snakemake", "--cores", "2", "paper", *OF_SOME], full))


def test_the_report_has_every_figure_and_table_with_its_caption(full: Path) -> None:
    page = (full / "results" / "report.html").read_text()
    for category in ("Paper", "Speed", "Counters", "Studies", "Experiments", "Tables"):
        assert f'"{category}"' in page, category
    figures = [path for path in (full / "results" / "figures").glob("*.svg") if not path.stem.startswith("banks_")]
    tables = [path for path in (full / "results" / "tables").glob("*.csv") if path.stem != "counter_names"]
    assert len(figures) > 30 and len(tables) >= 9
    assert [path.name for path in [*figures, *tables] if path.name not in page] == []
    captions = [path.read_text().split() for path in (full / "workflow" / "report").glob("*.rst")]
    used = " ".join(path.read_text() for path in (full / "workflow" / "rules").glob("*.smk"))
    unused = [path.name for path in (full / "workflow" / "report").glob("*.rst") if f"/{path.name}" not in used]
    # those of an experiment's figure are named by its kind
    assert set(unused) <= {"workflow.rst", "ladder.rst", "counters.rst"} and all(
        8 < len(words) < 140 for words in captions
    )


def test_a_figure_is_drawn_again_alone_and_is_the_same(full: Path, tmp_path: Path) -> None:
    options = ("--results", "data/h100", "--catalogue", "results/variants.csv", "--out", tmp_path)
    names = ("issue", "fractions", "ladder:sgemm_ladder")  # in another order than the rules draw them
    done = run_module("analysis.draw", *options, *names, cwd=full, PYTHONHASHSEED="7", PYTHONPATH=str(full))
    assert done.returncode == 0, output(done)
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(drawn) == 6
    assert [name for name in drawn if (full / "results" / "figures" / name).read_bytes() != drawn[name]] == []


def test_drawing_takes_what_was_emulated_as_it_is(full: Path) -> None:
    """After a change of the emulator and of a kernel, `all` runs them again, and a figure is only drawn."""
    changed = [full / "ptxsim" / "banks.py", full / "kernels" / "sgemm" / "naive.cu"]
    before = [path.read_text() for path in changed]
    try:
        for path, text in zip(changed, before, strict=True):
            path.write_text(text + "\n")
        drawing = snakemake(full, "-n", "paper", *OF_SOME)
        made = snakemake(full, "-n", "all", *OF_SOME)
    finally:
        for path, text in zip(changed, before, strict=True):
            path.write_text(text)
    assert drawing.returncode == made.returncode == 0, output(drawing) + output(made)
    planned = jobs(output(made))
    assert planned["emulate"] == len([name for name in SOME if name in catalogue.load().runnable])
    assert planned["build_variant"] == 1
    assert not {"emulate", "build_variant", "resources_table"} & set(jobs(output(drawing)))
    assert "figures_of_timings" in jobs(output(drawing))  # the kernel that changed is marked


def test_one_experiment_without_a_gpu_builds_and_emulates_its_own_kernels_alone(full: Path) -> None:
    done = snakemake(
        full, "-n", "sgemm_ladder", "--config", 'variants=["sgemm_naive","hgemm_naive_bf16","cublas_fp32"]'
    )
    planned = jobs(output(done))
    assert done.returncode == 0 and not {"check", "bench", "profile"} & set(planned), output(done)
    assert planned.get("build_variant", 0) <= 1 and "report_tables" not in planned


def test_nothing_is_measured_or_archived_without_a_gpu(full: Path) -> None:
    done = snakemake(full, "-n", "all")
    assert done.returncode == 0 and not {"check", "bench", "profile"} & set(jobs(output(done)))
    before = sorted(path.as_posix() for path in (full / "data").rglob("*"))
    done = snakemake(full, "archive")
    assert done.returncode != 0 and sorted(path.as_posix() for path in (full / "data").rglob("*")) == before


def test_two_variants_are_compared_and_printed_every_time(full: Path) -> None:
    pair = ("--config", "variant_a=sgemm_naive", "variant_b=sgemm_coalesced")
    for _ in range(2):
        done = snakemake(full, "compare", *pair)
        assert done.returncode == 0 and "b / a" in output(done) and "Global load" in output(done), output(done)
    assert (full / "results" / "tables" / "compare_sgemm_naive_sgemm_coalesced.csv").is_file()


def test_the_readme_s_pictures_are_what_the_archive_draws(archive: Path, variants_csv: Path, tmp_path: Path) -> None:
    options = ("--results", archive, "--catalogue", variants_csv, "--out", tmp_path)
    done = run_module("analysis.draw", *options, "overview:light", "overview:dark")
    assert done.returncode == 0, done.stderr
    for background in ("light", "dark"):
        drawn = (tmp_path / f"overview_{background}.svg").read_bytes()
        assert (ROOT / "docs" / f"ladder-{background}.svg").read_bytes() == drawn
