"""Whatever a file or an expression holds, its reader takes it or says in one line what is wrong."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import ARCHIVE, ROOT
from hypothesis import given
from hypothesis import strategies as st
from mutations import (
    FUZZ,
    VALUES,
    changed_bytes,
    changed_cells,
    changed_value,
    json_bytes,
    reported_in_one_line,
    yaml_bytes,
)
from planted import Planted

import contracts
from analysis.claims import files as claim_files
from analysis.claims.verdicts import value_of
from analysis.quantities.estimates import Estimate, Undefined
from analysis.quantities.machine import Missing
from contracts import load_yaml, parse_yaml_value, read_json, read_rows, registry, validate
from experiments import declarations
from kernels import catalogue

YAML_FILES = [
    "kernels/catalogue.yaml",
    "paper/worklogs/boehm_sgemm/source.yaml",
    "experiments/sgemm_ladder.yaml",
    "config.yaml",
]
ARCHIVED = {table.file: table.schema for table in registry.tables().values()} | {"verdicts.csv": "verdicts"}
TABLES = {path.name: path for path in sorted(ARCHIVE.glob("*.csv")) if path.name in ARCHIVED}
DOCUMENTS = {path.name: path for path in sorted(ARCHIVE.glob("*.json"))}
ROWS = 12  # of each table: enough for a key to stand twice
CLAIMS = [
    entry for entry in load_yaml(ROOT / "paper" / "worklogs" / "boehm_sgemm" / "claims.yaml") if "measure" in entry
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
    small = {"variants": chosen, "baselines": data["baselines"], "dispatchers": {
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
    files = [ROOT / "experiments" / f"{name}.yaml" for name in ("sgemm_ladder", "sgemm_sweep", "clock_regimes")]

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
                    found.least_samples,
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


@pytest.mark.parametrize("file", TABLES)
def test_tables(file: str, folder: Path) -> None:
    name = ARCHIVED[file]
    whole = b"".join(TABLES[file].read_bytes().splitlines(keepends=True)[: ROWS + 1])
    path = folder / file
    key = contracts.schema(name)["key"]

    @FUZZ
    @given(st.one_of(changed_cells(whole), changed_cells(whole), changed_bytes(whole)))
    def mutated(content: bytes) -> None:
        path.write_bytes(content)
        with reported_in_one_line(path.name):
            rows = read_rows(path, name)
            assert len({tuple(row[column] for column in key) for row in rows}) == len(rows)
            numbers = [value for row in rows for value in row.values() if isinstance(value, (int, float))]
            assert all(abs(value) <= 1e18 for value in numbers)

    read_rows(_written(path, whole), name)
    mutated()


@pytest.mark.parametrize("file", DOCUMENTS)
def test_documents(file: str, folder: Path) -> None:
    name, path = file.removesuffix(".json"), folder / f"some-{file}"
    whole = DOCUMENTS[file].read_bytes()

    @FUZZ
    @given(either(whole, read_json(DOCUMENTS[file], name), json_bytes))
    def mutated(content: bytes) -> None:
        path.write_bytes(content)
        with reported_in_one_line(path.name):
            read_json(path, name)

    mutated()


def test_claims(folder: Path) -> None:
    path = folder / "claims.yaml"
    few = CLAIMS[:6]

    @FUZZ
    @given(either(yaml_bytes(few), few, yaml_bytes))
    def mutated(content: bytes) -> None:
        path.write_bytes(content)
        remarks: list[str] = []
        with reported_in_one_line(path.name):
            for claim in claim_files.read_claims(path, remarks):
                claim_files.rule_faults(claim)
        assert all(len(line.splitlines()) == 1 and path.name in line for line in remarks), remarks

    mutated()


PARTS = [
    *(
        "[1]",
        "1e400",
        "1e300**64",
        "(2**64)**64",
        "tuple(3)",
        "lambda n: n",
        "'x'",
        "None",
        "True",
        "()",
        "{}",
        "**",
        "//",
    ),
    *("0", "-1", "1e308", "+".join(["1"] * 3000), "(" * 300, "[[1]]", "x", ".real", "[0]", " if 1 else "),
    *(
        "sizes('sgemm_warptile')",
        "tflops([1])",
        "min_over",
        "9" * 5000,
        "\0",
        "é",
        "'sgemm_naive'",
        ",",
        "(",
        ")",
        "==",
    ),
    *(
        "[a for a in (1,2) for b in (1,2)]",
        "not ",
        " and ",
        "%",
        "n=",
        ".share",
        "[512]",
        "[data=zeros]",
        "__import__('os')",
        "/0",
        "1<2",
        "2**0.5",
        "**",
        "//",
        " for n in ",
    ),
]


@st.composite
def changed_expression(draw: st.DrawFn) -> str:
    """A real claim's measure with parts of it gone, or replaced by what is no such argument."""
    text = str(CLAIMS[draw(st.integers(0, len(CLAIMS) - 1))]["measure"])
    for _ in range(draw(st.integers(1, 2))):
        ends = sorted(i for i, c in enumerate(text) if not c.isalnum() and c not in "_'\"") or [0]
        start = draw(st.sampled_from(ends))
        end = draw(st.sampled_from([i for i in [*ends, len(text)] if i >= start][:4]))
        text = text[:start] + draw(st.sampled_from(["", *PARTS])) + text[end:]
    return draw(st.sampled_from([text, text, text, draw(st.sampled_from(PARTS))]))


def test_expressions(folder: Path, variants_csv: Path) -> None:
    ask = Planted(folder, variants_csv).ask()

    @FUZZ
    @given(changed_expression())
    def mutated(expression: str) -> None:
        with reported_in_one_line("a-claim: "):
            try:
                value = value_of(expression, ask, "a-claim")
            except (Missing, Undefined):
                return
            if isinstance(value, Estimate):
                assert not math.isnan(value.value)
                assert math.isfinite(value.value) or "crossover" in expression

    mutated()
