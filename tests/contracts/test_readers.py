"""Catalogue, experiments and configuration: what is not allowed is one line with the file, the place and what is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT

from contracts import UserError, load_yaml, validate
from experiments import declarations
from kernels import catalogue

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
    assert set(catalogue.load(path=small_catalogue(tmp_path / "good.yaml"))) == {"sgemm_a", "sgemm_b", "cublas_fp32"}
    with pytest.raises(UserError, match=said) as error:
        catalogue.load(path=small_catalogue(tmp_path / "catalogue.yaml", **changes))
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
