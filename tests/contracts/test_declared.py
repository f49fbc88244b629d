"""Configuration, catalogue, experiments and YAML: what is not allowed is one line with file, key,
value and remedy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, refused

from contracts import choose, load_yaml, parse_yaml_value, read_yaml, validated
from contracts.declared import Config, ExperimentFile
from kernels import catalogue

RANGE = {"first": 1, "last": 8, "step": 1}
EXPERIMENT = {"title": "t", "question": "q", "variants": ["v"], "sizes": [128]}
CONFIG = [
    ({"arch": "pascal"}, r'arch = "pascal" is not allowed; allowed: text like \^sm_'),
    ({"mode": "maybe"}, 'mode = "maybe" is not allowed; allowed: one of auto, measure, redraw'),
    ({"sizes_step": 0}, "sizes_step = 0 .* at least 128"),
    ({"sizes_step": 128.0}, "sizes_step = 128.0 is not allowed; allowed: integer"),
    ({"lock_clocks": 1}, "lock_clocks = 1 is not allowed; allowed: true or false"),
    ({"variants": []}, r"variants = \[\] .* at least 1 item"),
    ({"variants": ["a", 3]}, "variants.1 = 3 is not allowed; allowed: string"),
    ({"variants": ["a", "a"]}, "variants = .* each item once"),
    ({"machine": "x" * 5000}, "machine = .* text like"),
    ({"machine": "../x"}, "machine = .* text like"),
    ({"varients": None}, "unknown key 'varients'; nearest: variants"),
]
EXPERIMENTS = [
    ({"data": "ones"}, 'data = "ones" is not allowed; allowed: one of uniform, normal, zeros'),
    ({"window_s": 0}, "window_s = 0 .* more than 0"),
    ({"window_s": None}, "window_s = null is not allowed; allowed: number"),
    ({"window_s": float("nan")}, "window_s = NaN is not allowed; allowed: finite numbers"),
    ({"sizes": [0]}, "sizes.0 = 0 .* at least 1"),
    ({"sizes": RANGE | {"step": 0}}, "sizes.step = 0 .* at least 1"),
    ({"sizes": RANGE | {"stop": 1}}, "sizes: unknown key 'stop'; nearest: step"),
    ({"sizes": "all"}, 'sizes = "all" is not allowed; allowed: list or mapping'),
]


def test_a_configuration_or_an_experiment_that_is_not_allowed() -> None:
    config = load_yaml(ROOT / "config.yaml")
    documents = ((config, Config, CONFIG), (EXPERIMENT, ExperimentFile, EXPERIMENTS))
    for whole, kind, changes in documents:
        validated(whole, kind, "x.yaml")
        for change, said in changes:
            with refused(f"^x.yaml: {said}") as error:
                validated(whole | change, kind, "x.yaml")
            assert len(str(error.value)) < 300
    with refused("'question' is missing"):
        validated({"title": "t", "variants": ["v"]}, ExperimentFile, "x.yaml")


NAIVE = """
    source: {source}
    template: {{BLOCK: {block}}}
    threads: {threads}
    dtype: {dtype}
    tile: {{m: BLOCK, n: BLOCK, k: 1}}
    raster: mn
    builds_on: {builds_on}
    idea: one
    baseline: cublas_fp32
"""
USUAL = {"source": "sgemm/naive.cu", "block": 32, "threads": 1024, "builds_on": "null"}
USUAL |= {"name": "a", "dtype": "fp32"}


def small_catalogue(path: Path, **changes: Any) -> Path:
    entry = {**USUAL, **changes}
    second = NAIVE.format(**USUAL | {"builds_on": entry["name"]})
    baseline = "{library: cublas, dtype: fp32, baseline: cublas_fp32, idea: x}"
    variants = f"variants:\n  {entry['name']}:{NAIVE.format(**entry)}  b:{second}"
    path.write_text(f"{variants}baselines:\n  cublas_fp32: {baseline}\n")
    return path


def test_a_catalogue_that_is_not_allowed(tmp_path: Path) -> None:
    good = catalogue.load(path=small_catalogue(tmp_path / "good.yaml"))
    assert list(good) == ["a", "b", "cublas_fp32"]
    for key, value, said in (
        ("name", "1", "line 2: not YAML .the key 1 is not text"),
        ("name", "x" * 500, "a key = "),
        ("source", "/etc/passwd", 'source = "/etc/passwd" is not allowed; allowed: text like'),
        ("block", 0, "a.tile.m = 0 is not allowed; allowed: a number of at least 1"),
        ("block", -32, "template.BLOCK = -32 is not allowed; allowed: at least 0"),
        ("threads", "1024.0", "threads = 1024.0 is not allowed; allowed: integer"),
        ("dtype", "fp31", "dtype = .fp31. is not allowed"),
        ("builds_on", "a", "a.builds_on = 'a' is not allowed, for a builds on a"),
    ):
        with refused(said) as error:
            catalogue.load(path=small_catalogue(tmp_path / "catalogue.yaml", **{key: value}))
        assert "catalogue.yaml" in str(error.value) and len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1,\nb: 2", "line 3: not YAML"),
        ('!!timestamp "x"', "not YAML"),
        ("a: &a [x]\nb: *a", "line 2: not YAML .an alias is not allowed"),
        ("a: " + "9" * 5000, "not YAML"),
        ("a: 1\na: 2", "line 2: not YAML .the key 'a' stands twice"),
        ("[" * 20_000, "not YAML|nested too deeply"),
        ("", "the file = null is not allowed; allowed: mapping"),
        ("x" * 4_000_001, "more than 4000000 bytes"),
    ],
)
def test_yaml_that_is_not_allowed(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with refused(said) as error:
        read_yaml(tmp_path / "x.yaml", Config)
    assert "x.yaml" in str(error.value)


def test_a_value_of_the_command_line_means_what_it_would_in_the_file() -> None:
    values = {"false": False, "12": 12, "[a, b]": ["a", "b"]}
    values |= {"a'$(touch x)'/nvcc": "a'$(touch x)'/nvcc"}
    assert {text: parse_yaml_value(text, "here") for text in values} == values
    with refused(r"^config.yaml: nvcc = '\[x': not YAML"):
        parse_yaml_value("[x", "config.yaml: nvcc")


def test_an_unknown_name_lists_the_nearest_or_all_valid() -> None:
    for name, said in (("zzz", "valid: one, two"), ("twos", "nearest: two")):
        with refused(rf"unknown variant '{name}' in a\.yaml; {said}"):
            choose({"two": 2, "one": 1}, name, "variant", "a.yaml")
