"""Hostile input: each gives one line that names the file, the place and what is accepted."""

from __future__ import annotations

import csv
import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, assert_one_line, environment, run_module

from analysis.claims.expressions import evaluate
from analysis.claims.verdicts import judge
from analysis.inputs import Inputs
from analysis.tables import autotune
from contracts import UserError, atomic_write, load_yaml, parse_yaml_value, read_json, read_rows, validate
from experiments import declarations
from kernels import catalogue

BOMB = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)

# ---- YAML -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a: 1\nb: !!int "x"', r"line 2: the tag .*int is not allowed"),
        ('!!timestamp "x"', "line 1: the tag .*timestamp is not allowed"),
        ("&a [*a]", "line 1: the anchor &a is not allowed"),
        ("a: *b", "line 1: "),
        (BOMB, "line 1: the anchor &a is not allowed"),
        ("a: " + "9" * 5000, "line 1: a number of 5000 characters is not allowed; allowed: at most 40"),
        ("[" * 20_000, "line 1: "),
        ("[" * 500, "line 1: nested too deeply; allowed: 32 levels"),
        ("a:\n" + "".join(" " * i + "b:\n" for i in range(1, 40)), "line 33: nested too deeply"),
        ("a: b\nc: \0", r"line 2: the character '\\x00' is not allowed"),
        ('a: "\\0"', r"line 1: the character '\\x00' is not allowed"),
        ("a: 1\na: 2", "line 2: the key 'a' stands twice; allowed: once"),
        ("1: x", "line 1: the key 1 is not text"),
        ("true: x", "line 1: the key true is not text"),
        ("x: {null: y}", "line 1: the key null is not text"),
        ("? [a]\n: b", "line 1: a key that is a list or a mapping is not allowed"),
        ("a: 1e400", "line 1: 1e400 is not allowed; allowed: finite numbers"),
        ("a: .inf", "line 1: .inf is not allowed"),
        ("a: 1\n---\nb: 2", "line 2: a second document is not allowed"),
        ("x" * 4_000_001, "more than 4000000 bytes"),
    ],
)
def test_yaml_that_is_not_allowed(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=said) as error:
        load_yaml(path)
    assert str(path) in str(error.value) and len(str(error.value).splitlines()) == 1


def test_what_yaml_means(tmp_path: Path) -> None:
    """Plain decimal numbers, truths and null; everything else is text, dates too."""
    path = tmp_path / "x.yaml"
    path.write_text("a: [1, -2, +3, 0.5, .5, 1e-6, 1.0e+18, true, No, null, ~, ]\nb: {x: 'y', z: }\n")
    assert load_yaml(path) == {
        "a": [1, -2, 3, 0.5, 0.5, 1e-6, 1e18, True, False, None, None],
        "b": {"x": "y", "z": None},
    }
    for text in ("2001-99-99", "2001-01-01", "010", "0x10", "1_000", "1:30", "1.2.3", "-x", "3rd", "<<"):
        assert parse_yaml_value(text, "here") == text
    with pytest.raises(UserError, match=r"^config.yaml: nvcc = '\[x': not YAML"):
        parse_yaml_value("[x", "config.yaml: nvcc")
    assert parse_yaml_value("a'$(touch x)'/nvcc", "here") == "a'$(touch x)'/nvcc"


# ---- catalogue, experiments, configuration ------------------------------------------------------------------------

NAIVE = """
    source: {source}
    template: {{BLOCK: {block}}}
    threads: {threads}
    dtype: fp32
    tile: {{m: BLOCK, n: BLOCK, k: 1}}
    grid: mn
    builds_on: {builds_on}
    idea: one
    baseline: cublas_fp32
"""
USUAL = {"source": "sgemm/naive.cu", "block": 32, "threads": 1024, "builds_on": "null", "name": "sgemm_a"}


def small_catalogue(path: Path, **changes: Any) -> Path:
    found = {**USUAL, **changes}
    second = NAIVE.format(**USUAL | {"builds_on": found["name"]})
    baseline = "{library: cublas, dtype: fp32, baseline: cublas_fp32, idea: x}"
    path.write_text(
        f"variants:\n  {found['name']}:{NAIVE.format(**found)}  sgemm_b:{second}baselines:\n  cublas_fp32: {baseline}\n"
    )
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "1"}, "line 2: the key 1 is not text"),
        ({"name": "true"}, "line 2: the key true is not text"),
        ({"name": "sgemm_b"}, "the key 'sgemm_b' stands twice"),
        ({"name": "x" * 500}, "variants: a key = "),
        ({"source": "/etc/passwd"}, 'source = "/etc/passwd" is not allowed; allowed: text like'),
        ({"source": "../experiments/gpu/harness.cu"}, "source = .* is not allowed"),
        ({"source": "sgemm/../../experiments/gpu/harness.cu"}, "source = .* is not allowed"),
        ({"block": 0}, "sgemm_a.tile.m = 0 is not allowed; allowed: a number of at least 1"),
        ({"block": -32}, "template.BLOCK = -32 is not allowed; allowed: at least 0"),
        ({"block": "true"}, "sgemm_a.tile.m = True is not allowed; allowed: a number of at least 1"),
        ({"block": "'1>; x'"}, "template.BLOCK = .* is not allowed"),
        ({"threads": "1024.0"}, "threads = 1024.0 is not allowed; allowed: integer"),
        ({"builds_on": "sgemm_a"}, "sgemm_a.builds_on = 'sgemm_a' is not allowed, for sgemm_a builds on sgemm_a"),
        ({"builds_on": "sgemm_b"}, "builds on"),
    ],
)
def test_a_catalogue_that_is_not_allowed(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert set(catalogue.load(small_catalogue(tmp_path / "good.yaml"))) == {"sgemm_a", "sgemm_b", "cublas_fp32"}
    with pytest.raises(UserError, match=said) as error:
        catalogue.load(small_catalogue(tmp_path / "catalogue.yaml", **changes))
    assert "catalogue.yaml" in str(error.value) and len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sizes: {first: 1024.0, last: 2048, step: 128}", "sizes.first = 1024.0 is not allowed; allowed: integer"),
        ("sizes: [1024]\nleast_samples: 1024.0", "least_samples = 1024.0 is not allowed; allowed: integer"),
        ("sizes: [1024, 1024]", "is not allowed; allowed: "),
        ("sizes: [1024]\nsizes: [2048]", "line 5: the key 'sizes' stands twice"),
    ],
)
def test_an_experiment_that_is_not_allowed(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    monkeypatch.setattr(declarations, "FOLDER", folder)
    (folder / "mine.yaml").write_text(f"title: t\nquestion: q\nvariants: [sgemm_naive]\n{line}\n")
    with pytest.raises(UserError, match=said) as error:
        declarations.load("mine")
    assert "experiments/mine.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("machine", "x" * 5000, "allowed: text like"),
        ("machine", "-x", 'machine = "-x" is not allowed'),
        ("machine", "x\n", "is not allowed"),
        ("archive", "../data", "is not allowed"),
        ("sizes_step", 128.0, "sizes_step = 128.0 is not allowed; allowed: integer or null"),
        ("sizes_step", True, "sizes_step = true is not allowed"),
        ("nvcc", "", "at least 1 character"),
    ],
)
def test_a_configuration_that_is_not_allowed(key: str, value: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        validate(load_yaml(ROOT / "config.yaml") | {key: value}, "config", "config.yaml")
    assert str(error.value).startswith(f"config.yaml: {key}") and len(str(error.value)) < 300


# ---- tables and documents -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"time_us_median": "1", "time_us_ci_low": "900000", "time_us_ci_high": "2"},
            "time_us_ci_low = 900000, .*order",
        ),
        ({"share_ci_high": "0.0000001"}, "share_ci_low = .* allowed: in ascending order"),
        ({"samples": "1_0"}, 'samples = "1_0" is not allowed; allowed: integer'),
        ({"samples": "٣"}, "samples = .* is not allowed; allowed: integer"),
        ({"samples": " 3"}, 'samples = " 3" is not allowed; allowed: integer'),
        ({"samples": "007"}, "samples = .* is not allowed"),
        ({"tflops": "1e308"}, r"tflops = 1e\+308 is not allowed; allowed: -1e\+18 to 1e\+18"),
        ({"tflops": "1e400"}, "tflops = inf is not allowed; allowed: finite numbers"),
        ({"tflops": "9" * 5000}, "tflops = .* is not allowed"),
        ({"m": "9999999999"}, "m = 9999999999 is not allowed; allowed: at most 2147483647"),
        ({}, "row 2: a second row of experiment = .* is not allowed .the first is row 1.; allowed: one"),
    ],
)
def test_a_table_that_is_not_allowed(change: dict[str, str], said: str, archive: Path, tmp_path: Path) -> None:
    with (archive / "bench.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    with (tmp_path / "bench.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerows([row | change] if change else [row, row])
    with pytest.raises(UserError, match=said) as error:
        read_rows(tmp_path / "bench.csv", "bench")
    assert "bench.csv row" in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * 40 + "]" * 40, "nested too deeply"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ('{"a": 1e400}', "1e400 is too large"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_a_document_that_is_not_allowed(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text(content)
    with pytest.raises(UserError, match=said) as error:
        read_json(tmp_path / "machine.json", "machine")
    assert "machine.json" in str(error.value) and len(str(error.value)) < 300


# ---- archives -----------------------------------------------------------------------------------------------------


@pytest.fixture
def archived(tmp_path: Path, archive: Path) -> Path:
    return Path(shutil.copytree(archive, tmp_path / "h200"))


def edited(content: bytes) -> bytes:
    return content.replace(b",uniform,", b",normal,", 1)


def without_a_row(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:5] + lines[6:])


def cut(content: bytes) -> bytes:
    return b"".join(content.splitlines(keepends=True)[:-3])


@pytest.mark.parametrize("change", [edited, without_a_row, cut])
def test_an_archived_table_that_was_changed_is_refused_by_name(change: Any, archived: Path) -> None:
    path = archived / "bench.csv"
    assert read_rows(path, "bench")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=r"bench\.csv: not as it was archived"):
        read_rows(path, "bench")
    done = run_module("experiments.stages.archive", "--checksums", archived)
    assert_one_line(done, "bench.csv: not as it was archived")
    assert read_rows(archived / "counters.csv", "counters")


def test_every_archived_file_has_its_checksum() -> None:
    for path in ROOT.glob("data/*/archived.json"):
        before = path.read_bytes()
        done = run_module("experiments.stages.archive", "--checksums", path.parent)
        assert done.returncode == 0, done.stderr
        assert "0 checksums added" in done.stderr and path.read_bytes() == before


def test_an_empty_sweep_is_one_line(archived: Path, variants_csv: Path, tmp_path: Path) -> None:
    (archived / "archived.json").unlink()
    path = archived / "tuning.csv"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(UserError, match=r"tuning\.csv: no rows"):
        autotune.of(Inputs.of_folder(archived, variants_csv, archived=True))


# ---- expressions --------------------------------------------------------------------------------------------------


def size_of(name: str) -> float:
    return {"a": 1.0}[name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("size([1])", r"size\(a list of 1\): arguments that it does not take"),
        ("size('b')", "arguments that it does not take"),
        ("1e300**64", "a number out of range; allowed: finite numbers"),
        ("1e308*10", "a number out of range"),
        ("1e308+1e308", "a number out of range"),
        ("1e400", "inf is not allowed; allowed: finite numbers"),
        ("+".join(["1"] * 20_000), "39999 characters are not allowed; allowed: at most 4000"),
        ("+".join(["1"] * 1500), "operations within each other"),
        ("(" * 500 + "1" + ")" * 500, "not an expression"),
        ("9" * 3999, "finite numbers|not an expression"),
        ("1 + [2]", "a list of 1 is no number"),
    ],
)
def test_an_expression_that_is_not_allowed(text: str, said: str) -> None:
    claim = {"id": "a-claim", "measure": text, "rule": {"at_least": 1}, "theirs": 1, "unit": None}
    with pytest.raises(UserError, match=said) as error:
        judge(claim, {"size": size_of})
    assert str(error.value).startswith("a-claim: ") and "\n" not in str(error.value)


def test_an_expression_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many loops stand within each other."""
    text = "each(lambda n: each(lambda n: each(lambda n: each(lambda n: 1, s), s), s), s)".replace("s)", "few())")
    functions = {"few": lambda: tuple(range(60)), "each": lambda f, values: max([f(n) for n in values])}
    with pytest.raises(UserError, match="takes more than 200000 steps"):
        evaluate(text, functions)


# ---- writing ------------------------------------------------------------------------------------------------------


def test_a_file_that_grows_too_large_is_named(tmp_path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    command = [sys.executable, "-m", "kernels.catalogue", "--out", str(tmp_path / "variants.csv")]
    done = subprocess.run(command, cwd=ROOT, env=environment(), preexec_fn=limited, capture_output=True, text=True)
    assert_one_line(done, "variants.csv", "File too large")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named_and_another_file_s_error_is_not_renamed(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"cannot write .*table\.csv: No space left"),
        atomic_write(tmp_path / "table.csv"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(FileNotFoundError, match="absent"), atomic_write(tmp_path / "table.csv"):
        (tmp_path / "absent").read_text()
    assert list(tmp_path.iterdir()) == []
