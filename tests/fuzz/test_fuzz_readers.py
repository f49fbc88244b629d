"""Whatever a file that a person writes holds, its reader takes it or says in one line what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT
from hypothesis import given
from hypothesis import strategies as st
from mutations import (
    FUZZ,
    VALUES,
    changed_bytes,
    changed_value,
    reported_in_one_line,
    yaml_bytes,
)

from contracts import load_yaml, parse_yaml_value, validate
from experiments import declarations
from kernels import catalogue

YAML_FILES = [
    "kernels/catalogue.yaml",
    "paper/worklogs/boehm_sgemm/source.yaml",
    "experiments/sgemm_ladder.yaml",
    "config.yaml",
]


def either(whole: bytes, value: Any, written: Any) -> st.SearchStrategy[bytes]:
    """Changes of a file's bytes, and of what it holds."""
    return st.one_of(changed_bytes(whole), changed_value(value).map(written))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def test_yaml(folder: Path) -> None:
    path = folder / "some.yaml"
    texts = [(ROOT / name).read_bytes() for name in YAML_FILES]

    @FUZZ
    @given(st.sampled_from(texts).flatmap(changed_bytes))
    def mutated(content: bytes) -> None:
        path.write_bytes(content)
        with reported_in_one_line(path.name):
            load_yaml(path)

    mutated()


def test_the_catalogue(folder: Path) -> None:
    path = folder / "catalogue.yaml"
    data = load_yaml(catalogue.CATALOGUE)
    few = ["sgemm_naive", "sgemm_coalesced", "sgemm_autotuned", "tf32gemm_bcf_dbf_rna"]
    chosen = {name: entry for name, entry in data["variants"].items() if name in few}
    for before, entry in zip([None, *chosen], chosen.values(), strict=False):
        entry["builds_on"] = before
    small = {"defaults": data["defaults"], "variants": chosen, "baselines": data["baselines"], "dispatchers": {
        "sgemm_some": {"choices": [{"variant": "sgemm_naive", "at_least": {"m": 128}}], "idea": "some"}}}  # fmt: skip
    problem = catalogue.Problem.square(4096)

    @FUZZ
    @given(either(yaml_bytes(small), small, yaml_bytes))
    def mutated(content: bytes) -> None:
        path.write_bytes(content)
        with reported_in_one_line(path.name):
            for entry in catalogue.load(path=path).values():  # and what was taken can be used
                assert entry.refusal(problem) is None or entry.name in str(entry.refusal(problem))
                assert len(entry.source_hash) == 16
                if isinstance(entry, catalogue.Variant):
                    assert entry.translation_unit() and min(entry.grid(problem, 4)) > 0

    catalogue.load(path=_written(path, yaml_bytes(small)))
    mutated()


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_experiments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiments = folder / "experiments"
    experiments.mkdir()
    monkeypatch.setattr(declarations, "FOLDER", experiments)
    files = [ROOT / "experiments" / f"{name}.yaml" for name in ("sgemm_ladder", "sgemm_sweep", "clock_policies")]

    @FUZZ
    @given(st.sampled_from(files).flatmap(lambda file: either(file.read_bytes(), load_yaml(file), yaml_bytes)))
    def mutated(content: bytes) -> None:
        (experiments / "mine.yaml").write_bytes(content)
        with reported_in_one_line("mine.yaml"):
            found = declarations.load("mine")
            assert all(
                type(n) is int
                for n in (
                    *(n for problem in found.problems for n in problem.row.values()),
                    found.samples,
                    found.processes,
                )
            )

    shutil.copyfile(files[0], experiments / "mine.yaml")
    declarations.load("mine")
    mutated()


def test_the_configuration() -> None:
    config = load_yaml(ROOT / "config.yaml")
    texts = st.one_of(
        st.sampled_from([str(value) for value in VALUES]), changed_bytes(b"[sgemm_naive, sgemm_warptile]").map(_text)
    )

    @FUZZ
    @given(st.sampled_from(sorted(config)), texts, changed_value(config))
    def mutated(key: str, text: str, changed: Any) -> None:
        with reported_in_one_line("config.yaml"):
            value = parse_yaml_value(text, f"config.yaml: {key}")
            validate(config | {key: value}, "config", "config.yaml")
            if key in ("machine", "archive") and value is not None:
                assert (Path("results") / value).parent == Path("results") and value[0] != "-"
        with reported_in_one_line("config.yaml"):
            validate(changed, "config", "config.yaml")

    mutated()


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")
