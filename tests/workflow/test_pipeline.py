"""Real Snakemake runs in copies of the project: what is made, what is made again, and what an error looks like."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ARCHIVE, copy_tree, environment, heed_ctrl_c, snakemake, stuck_nvcc, wait_until

from contracts import read_json, read_rows, write_rows
from workflow.plan import TIMED

TWO = ("--config", 'variants=["sgemm_naive","sgemm_vectorized"]')
NOTHING = "Nothing to be done"
BUILD = Path("results/build/sm_90a")
RESOURCES = Path("results/no-gpu/resources.csv")


def output(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def build(tree: Path) -> str:
    """Build two kernels; Snakemake's words."""
    done = snakemake(tree, "build", *TWO)
    assert done.returncode == 0, output(done)
    return output(done)


def the_error(done: subprocess.CompletedProcess[str]) -> str:
    """The run failed with one line that begins with "error:", and no traceback."""
    errors = [line for line in output(done).splitlines() if line.startswith("error: ")]
    assert done.returncode != 0 and len(errors) == 1, output(done)
    assert "Traceback" not in output(done) and 'File "' not in output(done), output(done)
    return errors[0]


def jobs(words: str) -> dict[str, int]:
    """Snakemake's table of jobs."""
    table = words.partition("Job stats:")[2].partition("\n\n")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}


def dates(tree: Path) -> dict[str, int]:
    """When each cubin was written."""
    return {path.stem: path.stat().st_mtime_ns for path in (tree / BUILD).glob("*.cubin")}


# ---- building ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, with few experiments, in which two kernels are built."""
    tree = copy_tree(tmp_path_factory.mktemp("small") / "project", experiments={"sgemm_ladder", "sgemm_sweep"})
    made = jobs(build(tree))
    assert (made["build_variant"], made["toolchain"], made["resources_table"]) == (2, 1, 1)
    return tree


@pytest.fixture
def own(small: Path, tmp_path: Path) -> Path:
    """A copy of that copy, for tests that edit its files."""
    return Path(shutil.copytree(small, tmp_path / "project"))


def edit(path: Path, how: Callable[[str], str]) -> None:
    text = path.read_text()
    assert how(text) != text
    path.write_text(how(text))


def test_just_the_two_are_built_and_a_second_run_has_nothing_to_do(small: Path) -> None:
    assert NOTHING in build(small)
    assert set(dates(small)) == {"sgemm_naive", "sgemm_vectorized"}
    rows = read_rows(small / RESOURCES, "resources")
    assert [row["variant"] for row in rows] == ["sgemm_naive", "sgemm_vectorized"]
    assert all(row["ffma"] > 0 and row["arch"] == "sm_90a" for row in rows)
    assert read_json(small / "results/toolchain.json", "toolchain")["gpu"] is None


def test_editing_one_kernel_builds_that_one_again(own: Path) -> None:
    before, table = dates(own), (own / RESOURCES).read_text()
    edited = own / "kernels/sgemm/vectorized.cu"
    edit(edited, lambda text: text.replace("float", "float ", 1) + "\nstruct Edited {};\n")
    assert jobs(build(own))["build_variant"] == 1
    after = dates(own)
    assert after["sgemm_vectorized"] > before["sgemm_vectorized"] and after["sgemm_naive"] == before["sgemm_naive"]
    assert (own / RESOURCES).read_text() != table  # another source hash
    assert NOTHING in build(own)


def test_editing_a_header_builds_its_users_again(own: Path) -> None:
    edit(own / "kernels/include/ptx.cuh", lambda text: text + "\n// edited\n")  # neither includes it
    assert NOTHING in build(own)
    before = dates(own)
    edit(own / "kernels/include/epilogue.cuh", lambda text: text + "\n// edited\n")  # both do
    assert jobs(build(own))["build_variant"] == 2
    assert all(date > before[name] for name, date in dates(own).items())


def test_editing_a_template_value_builds_that_variant_again(own: Path) -> None:
    naive = "    template: {BLOCK: 32}\n    threads: 1024"
    other = naive.replace("32", "16").replace("1024", "256")
    edit(own / "kernels/catalogue.yaml", lambda text: text.replace(naive, other, 1))
    assert jobs(build(own))["build_variant"] == 1
    assert read_rows(own / RESOURCES, "resources")[0]["threads"] == 256


def test_another_toolchain_builds_all_again(small: Path, tmp_path: Path) -> None:
    """A g++ that gives another version is another toolchain."""
    fake = tmp_path / "g++"
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "g++ 99.9.9" && exit\nexec {shutil.which("g++")} "$@"\n')
    fake.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), environment()["PATH"]])
    done = snakemake(small, "-n", "build", *TWO, PATH=path)
    assert jobs(output(done)).get("build_variant") == 2, output(done)


def test_a_kernel_that_does_not_compile_is_one_clear_line_and_no_cubin(own: Path) -> None:
    edit(own / "kernels/sgemm/vectorized.cu", lambda text: text.replace("__global__ void", "__global__ viod", 1))
    done = snakemake(own, "build", *TWO)
    assert done.returncode != 0 and "Traceback" not in output(done)
    assert re.search(r"^error: nvcc failed on sgemm_vectorized\.cu: .*vectorized\.cu\(\d+\): error", output(done), re.M)
    assert set(dates(own)) == {"sgemm_naive"}
    assert not list((own / BUILD).glob(".*"))


# ---- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("varients=1", "config.yaml: unknown key 'varients'; nearest: variants"),
        ("sizes_step=abc", 'config.yaml: sizes_step = "abc" is not allowed; allowed: integer'),
        ("sizes_step=100", "sizes_step = 100 is not allowed; allowed: "),
        ("arch=pascal", 'config.yaml: arch = "pascal" is not allowed; allowed: text like ^sm_'),
        ('variants=["sgemm_naiv"]', "unknown variant 'sgemm_naiv' in config.yaml: variants; nearest: sgemm_naive"),
        ("archive=foo", "archive = 'foo': no such folder in data/; there: h100, h200"),
        ("nvcc=/no/such/nvcc", "config key nvcc = '/no/such/nvcc': not an executable file"),
        ("nvcc=/tmp", "config key nvcc = '/tmp': not an executable file"),
        ("nvcc=/bin/false", "/bin/false --version failed"),
    ],
)
def test_a_wrong_configuration_is_one_line(setting: str, said: str, small: Path) -> None:
    before = dates(small)
    assert said in the_error(snakemake(small, "build", "--config", setting))
    assert dates(small) == before


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read nowhere.tar.xz: No such file"), (b"cut", "nowhere.tar.xz: not a whole pack of measurements")],
)
def test_a_run_that_cannot_go_on_from_a_file_is_one_line(content: bytes | None, said: str, small: Path) -> None:
    path = small / "nowhere.tar.xz"
    if content:
        path.write_bytes(content)
    try:
        assert said in the_error(snakemake(small, "build", "--config", "resume=nowhere.tar.xz"))
    finally:
        path.unlink(missing_ok=True)


def test_an_unknown_target_is_named(small: Path) -> None:
    done = snakemake(small, "sgemm_laddr")
    assert done.returncode != 0 and "Traceback" not in output(done)
    assert "sgemm_laddr" in output(done).strip().splitlines()[-1]


def test_no_host_compiler_is_one_line(small: Path, tmp_path: Path) -> None:
    for tool in ("bash", "sh", "env", "tee", "cat", "uname", "git", "which", "snakemake"):
        (tmp_path / tool).symlink_to(shutil.which(tool, path=environment()["PATH"]) or "/bin/false")
    assert "no g++ on PATH: nvcc needs a host compiler" in the_error(
        snakemake(small, "build", *TWO, PATH=str(tmp_path))
    )


def test_a_truncated_archive_is_a_clear_line_and_no_figure(small: Path) -> None:
    path = small / "data" / ARCHIVE.name / "windows.csv"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[: len(whole) // 2])
        done = snakemake(small, "results/figures/ladder_sgemm_ladder.svg", *TWO)
    finally:
        path.write_bytes(whole)
    assert done.returncode != 0 and "Traceback" not in output(done)
    assert re.search(rf"^error: data/{ARCHIVE.name}/windows\.csv.*truncated", output(done), re.M), output(done)
    assert not (small / "results" / "figures" / "ladder_sgemm_ladder.svg").exists()


def test_results_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "project")
    (tree / "results").write_text("a file where the folder should be")
    said = the_error(snakemake(tree, "build", *TWO))
    assert said.startswith(f"error: {tree / 'results'}: not a folder that can be written")


# ---- Ctrl-C -----------------------------------------------------------------------------------------------------


def test_an_interrupted_run_is_completed_by_the_next(tmp_path: Path) -> None:
    """SIGINT to the whole group, as the terminal sends it, while kernels are being compiled."""
    tree = copy_tree(tmp_path / "project")
    names = ["sgemm_naive", "sgemm_vectorized", "sgemm_warptile", "sgemm_at_swizzle_dbf_rw"]
    chosen = ("--config", f"variants={json.dumps(names)}", f"nvcc={stuck_nvcc(tmp_path, after=2)}")
    command = ["snakemake", "--cores", "1", "build", *chosen]
    started = subprocess.Popen(
        command,
        cwd=tree,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    )
    folder = tree / BUILD
    wait_until((tmp_path / "waiting").exists, started)
    assert len(list(folder.glob("[a-z]*.cubin"))) == 2  # no hidden one
    os.killpg(started.pid, signal.SIGINT)
    words = started.communicate()[0].decode()
    assert started.returncode != 0, words
    assert "Traceback" not in words
    done = {path.stem for path in folder.glob("*.json")}
    assert len(done) < len(names) and not (tree / RESOURCES).exists()
    for path in folder.iterdir():  # nothing half-written: a temporary file is gone, and a cubin has all its company
        assert not path.name.startswith("."), path
        assert path.suffix != ".cubin" or path.stem in done, path

    (tmp_path / "stuck").unlink()
    kept = {name: date for name, date in dates(tree).items() if name in done}
    again = snakemake(tree, "build", *chosen)
    assert again.returncode == 0, output(again)
    assert {name: dates(tree)[name] for name in kept} == kept
    assert [row["variant"] for row in read_rows(tree / RESOURCES, "resources")] == names
    assert all((folder / f"{name}.cubin").read_bytes().startswith(b"\x7fELF") for name in names)


# ---- from two kernels and an archive ----------------------------------------------------------------------------


def test_a_table_that_need_not_be_there_is_reported_where_it_is(small: Path) -> None:
    """Coverage has it as measured; without it, as left out with the command that makes it."""
    archived = small / "data" / ARCHIVE.name / "sanitizer.csv"
    coverage = small / "results/tables/coverage.csv"
    before = archived.read_bytes()

    def sanitized() -> str:
        done = snakemake(small, str(coverage.relative_to(small)), *TWO)
        assert done.returncode == 0, output(done)
        return next(line for line in coverage.read_text().splitlines() if f"{ARCHIVE.name},compute-sanitizer" in line)

    try:
        assert ",measured," in sanitized()
        archived.unlink()
        assert ",left out," in sanitized() and "snakemake" in sanitized()
    finally:
        archived.write_bytes(before)


def test_drawing_builds_and_emulates_nothing_and_all_does(tmp_path: Path, archive: Path) -> None:
    """On a fresh clone. In `all`, each figure of measurements waits for this tree's checks on the emulator."""
    tree = copy_tree(tmp_path / "project")
    emulating = {"build_variant", "emulate", "emulated_checks_table"}

    def planned(*targets: str) -> tuple[dict[str, int], str]:
        done = snakemake(tree, "-n", *targets)
        assert done.returncode == 0, output(done)
        return jobs(output(done)), output(done)

    one, _ = planned("results/figures/power.svg")
    assert one["total"] <= 5 and "figures_of_timings" in one and not emulating & set(one)
    everything, _ = planned("paper", "explorer", "claims", "results/report.html")
    assert {"paper_pdf", "explorer_html", "claims", "bank_pictures", "report_html"} <= set(everything)
    assert not emulating & set(everything)
    counts, words = planned("all")
    assert emulating <= set(counts) and counts["build_variant"] > 60 and counts["emulate"] > 60
    tables = next(rule for rule in words.split("rule ") if rule.startswith("report_tables:"))
    assert "results/no-gpu/emulated-checks.csv" in tables


def test_one_experiment_by_its_name(small: Path) -> None:
    """Without a GPU, it is its figures from the archive."""
    done = snakemake(small, "sgemm_ladder", *TWO)
    assert done.returncode == 0, output(done)
    assert (small / "results/figures/ladder_sgemm_ladder.svg").is_file()


def test_what_was_measured_by_its_name_joins_the_tables_and_is_not_measured_again(small: Path) -> None:
    """A plan for a GPU: `all` leaves the full sweep out, takes a part of it that is there, and measures it if named."""
    known = read_json(small / "results/toolchain.json", "toolchain") | {"gpu": "NVIDIA H200", "driver": "580.0"}
    one = ("--config", 'variants=["sgemm_warptile"]')
    part = small / "results/h200/parts/bench/sgemm_sweep/fp32-1-1of1-boost.csv"

    def commands(*targets: str) -> dict[str, list[str]]:
        done = snakemake(small, "-n", "-p", *targets, *one, GEMM_LADDER_TOOLCHAIN=json.dumps(known))
        assert done.returncode == 0, output(done)
        called = {
            "timed": r"-m experiments\.stages\.bench (\w+)",
            "joined": r"-m experiments\.stages\.merge windows (.*?) *--out",
        }
        return {name: re.findall(pattern, output(done)) for name, pattern in called.items()}

    try:
        before = commands("all")
        assert "sgemm_ladder" in before["timed"] and "sgemm_sweep" not in before["timed"]
        assert not any("sgemm_sweep" in parts for parts in before["joined"])
        write_rows(part, "windows", [])
        checked = part.parents[2] / "check" / "sgemm_sweep" / "fp32-1.csv"
        checked.parent.mkdir(parents=True)
        checked.touch()
        for suffix in TIMED[1:]:
            part.with_suffix(suffix).touch()
        after = commands("all")
        assert "sgemm_sweep" not in after["timed"]
        assert sum(str(part.relative_to(small)) in parts for parts in after["joined"]) == 1
        shutil.rmtree(part.parent)
        for target in ("sgemm_sweep", "results/figures/sizes_sgemm_sweep.svg"):
            named = commands(target)
            assert named["timed"] == ["sgemm_sweep"], target
            assert named["joined"] == [str(part.relative_to(small))], target
    finally:
        shutil.rmtree(small / "results/h200")


def test_an_edited_kernel_is_marked_in_the_figures_drawn_next(small: Path) -> None:
    path = small / "kernels" / "sgemm" / "naive.cu"
    text = path.read_text()
    try:
        path.write_text(text.replace("float sum = 0.0f", "float sum = -0.0f"))
        done = snakemake(small, "results/figures/ladder_sgemm_ladder.svg", *TWO)
        words = (small / "results/figures/ladder_sgemm_ladder.svg").read_text()
    finally:
        path.write_text(text)
    assert done.returncode == 0, output(done)
    assert "naive†" in words
