"""Experiments: those that ship load, and one that cannot be run says so before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import refused

from contracts import UserError
from experiments import declarations
from kernels.problem import ProblemSpec

GOOD = {
    "title": "T",
    "question": "Q?",
    "variants": ["sgemm_vectorized", "cublas_fp32"],
    "sizes": [1024, 2048],
}
RANGE = {"first": 1024, "last": 2048, "step": 512}
RANDOM = {"count": 2, "seed": 1, "log2": [7, 9]}
DRAWN = ["120x3904x2600", "224x712x568", "1512x2936x104"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the loader takes for experiments/."""
    monkeypatch.setattr(declarations, "FOLDER", tmp_path / "experiments")
    (tmp_path / "experiments").mkdir()
    return tmp_path / "experiments"


def load(folder: Path, **changes: Any) -> declarations.Experiment:
    """Load a good experiment with changes; a key that is None counts as left out."""
    (folder / "mine.yaml").write_text(yaml.safe_dump(GOOD | changes))
    return declarations.load("mine")


def texts(problems: Iterable[ProblemSpec]) -> list[str]:
    return list(map(str, problems))


def squares(*sizes: int) -> tuple[ProblemSpec, ...]:
    return tuple(map(ProblemSpec.square, sizes))


def test_the_experiments_load() -> None:
    loaded = {name: declarations.load(name) for name in declarations.names()}
    assert loaded["sgemm_ladder"].problems == squares(4096)
    assert loaded["sgemm_sizes"].problems == squares(*range(1024, 9217, 1024))
    assert loaded["profile_reading_c"].problems == ()
    assert texts(loaded["profile_reading_c"].profiled) == ["4096x4096x4096,beta=1"]
    assert all(experiment.question.endswith("?") for experiment in loaded.values())
    assert {experiment.processes for experiment in loaded.values()} == {5}


def test_a_range_of_sizes_takes_another_step_and_chosen_variants_limit_an_experiment() -> None:
    fine = declarations.load("sgemm_sizes", sizes_step=128)
    assert fine.problems == squares(*range(1024, 9217, 128))
    names = ["sgemm_vectorized", "sgemm_naive"]
    chosen = declarations.load("sgemm_ladder", sizes_step=128, chosen=names)
    assert chosen.problems == squares(4096) and chosen.variants == tuple(reversed(names))
    assert declarations.load("hgemm_ladder", chosen=["sgemm_naive"]).variants == ()


def test_defaults_fill_what_is_left_out(folder: Path) -> None:
    experiment = load(folder)
    assert (experiment.data, experiment.flush_l2, experiment.profiled) == (("uniform",), True, ())
    assert experiment.protocol == declarations.Protocol() and not experiment.by_name
    assert load(folder, power_s=2).protocol == declarations.Protocol(power_s=2)
    assert load(folder, sizes=None, problems=[128], data=None).problems == squares(128)
    assert experiment.name == "mine" and declarations.names() == ["mine"]


def test_problems_are_plain_named_and_of_a_grid(folder: Path) -> None:
    assert not load(folder, problems=[512]).any_shape
    grid = {"m": [128, 256], "nk": [[512, 64], [128, 1024]]}
    mixed = load(folder, problems=["128x256x64", "512,alpha=0.5,beta=-1.5"], grid=grid)
    plain = ["1024x1024x1024", "2048x2048x2048", "128x256x64", "512x512x512,alpha=0.5,beta=-1.5"]
    of_grid = ["128x512x64", "256x512x64", "128x128x1024", "256x128x1024"]
    assert texts(mixed.problems) == [*plain, *of_grid] and mixed.any_shape


def test_each_process_is_an_item_of_its_own(folder: Path) -> None:
    scaled = load(folder, problems=["1024,alpha=0.5,beta=-1.5"], sizes=None)
    items = declarations.items(scaled, ["sgemm_vectorized"], "boost")
    stem = "1024x1024x1024,alpha=0.5,beta=-1.5-uniform-boost"
    processes = ["", *(f"-process{number}" for number in range(1, 5))]
    assert [item.stem for item in items] == [stem + process for process in processes]


def test_random_problems_are_the_same_for_a_seed_and_lie_in_their_range(folder: Path) -> None:
    random = {"count": 60, "seed": 1, "log2": [7, 13], "multiple": 128}
    drawn = load(folder, sizes=None, random=random).problems
    sizes = [size for problem in drawn for size in problem.row.values()]
    assert len(set(drawn)) == 60 and all(128 <= n <= 8192 and n % 128 == 0 for n in sizes)
    assert len({p.m for p in drawn}) > 10 and sum(p.m < 1024 for p in drawn) > 15
    # No version of Python and no edit of the drawing may move what an archive measured.
    assert texts(declarations.draw(count=3, seed=1, log2=[6, 13], multiple=8)) == DRAWN
    flat = declarations.draw(count=9, seed=2, log2={"m": [6, 6], "n": [12, 13], "k": [9, 10]})
    assert all(p.m == 64 and p.n >= 4096 and p.k <= 1024 for p in flat)


def test_one_kind_of_data_or_several(folder: Path) -> None:
    assert load(folder, data="normal").data == ("normal",)
    assert load(folder, data=["zeros", "normal"]).data == ("zeros", "normal")
    assert load(folder, data=["zeros"], sizes=RANGE).data == ("zeros",)


def test_an_unknown_experiment_gives_the_nearest() -> None:
    with refused(r"unknown experiment 'sgemm_size' in experiments/; nearest: sgemm_sizes"):
        declarations.load("sgemm_size")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variants": ["sgemm_vectorised"]}, "unknown variant 'sgemm_vectorised' in experiments/"),
        ({"variants": []}, "variants = [] is not allowed; allowed: at least 1 item(s)"),
        ({"samples": 3}, "samples = 3 is not allowed; allowed: at least 5"),
        ({"sizes": RANGE | {"last": 512}}, "sizes.last = 512 is not allowed; allowed: at least 10"),
        ({"sizes": RANGE | {"step": 0}}, "sizes.step = 0 is not allowed; allowed: at least 1"),
        ({"sizes": {"first": 2048, "last": 4096}}, "sizes: 'step' is missing"),
        ({"data": ["zeros", "zeros"]}, 'data = ["zeros", "zeros"] is not allowed'),
        (
            {"data": ["zeros", "normal"], "sizes": RANGE},
            "data = zeros, normal over a range of sizes is not allowed; allowed: one kind of data,",
        ),
        ({"windows_s": 1}, "unknown key 'windows_s'; nearest: window_s"),
        (
            {"sizes": [1000]},
            "sizes: sgemm_vectorized cannot take this problem: m = 1000, but m mus",
        ),
        ({"profile": [1000]}, "profile: sgemm_vectorized cannot take this problem: m = 1000, but"),
        (
            {"profile": ["128,alpha=2"]},
            "profile: 128x128x128,alpha=2 is not allowed; allowed: alph",
        ),
        ({"problems": ["128x128"]}, 'problems.0 = "128x128" is not allowed; allowed: text like'),
        ({"problems": ["128,gamma=1"]}, "problem = '128,gamma=1' is not allowed; allowed: N or Mx"),
        (
            {"problems": ["128,b=column"]},
            "cannot take this problem: B is column-major, but it must",
        ),
        (
            {"problems": [1024]},
            "problems: 1024x1024x1024 stands there twice; allowed: each problem",
        ),
        ({"grid": {"m": [100], "nk": [[128, 64]]}}, "grid: sgemm_vectorized cannot take this prob"),
        ({"grid": {"m": [128], "nk": [[128]]}}, "grid.nk.0 = [128] is not allowed; allowed: at le"),
        ({"grid": {"m": [128]}}, "grid: 'nk' is missing"),
        ({"random": RANDOM}, "random: sgemm_vectorized cannot take this problem: m ="),
        ({"random": RANDOM | {"log2": [7]}}, "random.log2 = [7] is not allowed; allowed: at least"),
        (
            {"random": RANDOM | {"count": 9, "log2": [7, 8], "multiple": 128}},
            "random.count = 9 is not allowed; allowed: at most 8, for there are no more",
        ),
        ({"sizes": None}, "no sizes, problems, grid, random or profile is given"),
    ],
)
def test_a_value_out_of_range_names_file_key_value_and_allowed(
    changes: dict[str, Any], message: str, folder: Path
) -> None:
    with pytest.raises(UserError) as error:
        load(folder, **changes)
    assert message in str(error.value) and "experiments/mine.yaml" in str(error.value)


def test_a_file_that_is_empty_or_not_yaml_is_refused(folder: Path) -> None:
    for text, said in (("", "the file = null is not allowed"), ("a: [", "not YAML")):
        (folder / "mine.yaml").write_text(text)
        with refused(said):
            declarations.load("mine")
