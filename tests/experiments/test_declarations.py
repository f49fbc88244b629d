"""Experiments: those that ship load, and one that cannot be run says so before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from contracts import UserError
from experiments import declarations
from kernels.problem import ProblemSpec

GOOD = {
    "title": "T",
    "question": "Q?",
    "variants": ["sgemm_vectorized", "cublas_fp32"],
    "sizes": [1024, 2048],
}

DRAWN = ["120x3904x2600", "224x712x568", "1512x2936x104"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the loader takes for experiments/."""
    monkeypatch.setattr(declarations, "FOLDER", tmp_path / "experiments")
    (tmp_path / "experiments").mkdir()
    return tmp_path / "experiments"


def load(folder: Path, leave_out: str | None = None, **changes: Any) -> declarations.Experiment:
    """Load a good experiment with changes."""
    data = {key: value for key, value in (GOOD | changes).items() if key != leave_out}
    (folder / "mine.yaml").write_text(yaml.safe_dump(data))
    return declarations.load("mine")


def squares(*sizes: int) -> tuple[ProblemSpec, ...]:
    return tuple(map(ProblemSpec.square, sizes))


def test_the_experiments_load() -> None:
    loaded = {name: declarations.load(name) for name in declarations.names()}
    assert {"hgemm_ladder", "tf32_ladder", "sgemm_ladder", "sgemm_sizes"} <= set(loaded)
    assert loaded["sgemm_ladder"].problems == squares(4096) and not loaded["sgemm_ladder"].swept
    assert loaded["profile_reading_c"].problems == ()
    assert list(map(str, loaded["profile_reading_c"].profiled)) == ["4096x4096x4096,beta=1"]
    assert all(
        experiment.title and experiment.question.endswith("?") for experiment in loaded.values()
    )
    assert {experiment.processes for experiment in loaded.values()} == {5}


def test_a_sweep_runs_to_its_end_in_its_step_or_another_and_chosen_variants_limit_an_experiment() -> (
    None
):
    swept = declarations.load("sgemm_sizes")
    assert swept.swept and swept.problems == squares(*range(1024, 9217, 1024))
    assert declarations.load("sgemm_sizes", sizes_step=128).problems == squares(
        *range(1024, 9217, 128)
    )
    chosen = declarations.load(
        "sgemm_ladder", sizes_step=128, chosen=["sgemm_vectorized", "sgemm_naive"]
    )
    assert chosen.problems == squares(4096) and chosen.variants == (
        "sgemm_naive",
        "sgemm_vectorized",
    )
    assert declarations.load("hgemm_ladder", chosen=["sgemm_naive"]).variants == ()


def test_defaults_fill_what_is_left_out(folder: Path) -> None:
    experiment = load(folder)
    assert (experiment.data, experiment.flush_l2, experiment.profiled) == (("uniform",), True, ())
    assert experiment.protocol == declarations.Protocol() and not experiment.by_name
    assert load(folder, power_s=2).protocol == declarations.Protocol(power_s=2)
    # left empty
    assert load(folder, sizes=None, problems=[128], data=None) == load(
        folder, "sizes", problems=[128]
    )
    assert experiment.name == "mine" and declarations.names() == ["mine"]


def test_problems_are_named_or_drawn_next_to_plain_sizes(folder: Path) -> None:
    assert load(folder).kind == "ladder"
    named = load(folder, problems=[512, "128x256x64", "1024,alpha=0.5,beta=-1.5"])
    assert named.problems == (
        *squares(1024, 2048, 512),
        ProblemSpec(128, 256, 64),
        ProblemSpec(1024, 1024, 1024, 0.5, -1.5),
    )
    assert named.kind == "problems" and load(folder, problems=[512]).kind == "ladder"
    items = declarations.items(named, ["sgemm_vectorized"], "boost")[-5:]
    assert items[0].stem == "1024x1024x1024,alpha=0.5,beta=-1.5-uniform-boost"
    assert [item.process for item in items] == [0, 1, 2, 3, 4] and items[
        1
    ].stem == f"{items[0].stem}-process1"
    lone = load(folder, "sizes", problems=["128x128x8"])
    assert lone.problems == (ProblemSpec(128, 128, 8),)


def test_a_grid_has_each_m_with_each_pair_of_n_and_k_and_may_leave_out_what_runs_alone(
    folder: Path,
) -> None:
    grid = {"m": [128, 256], "nk": [[512, 64], [128, 1024]]}
    loaded = load(folder, "sizes", grid=grid, isolated=False)
    assert list(map(str, loaded.problems)) == [
        "128x512x64",
        "256x512x64",
        "128x128x1024",
        "256x128x1024",
    ]
    assert loaded.kind == "problems" and not loaded.protocol.isolated
    assert declarations.Protocol().covers(loaded.protocol) and not loaded.protocol.covers(
        declarations.Protocol()
    )


def test_random_problems_are_the_same_for_a_seed_and_lie_in_their_range(folder: Path) -> None:
    drawn = load(
        folder, "sizes", random={"count": 60, "seed": 1, "log2": [7, 13], "multiple": 128}
    ).problems
    assert len(set(drawn)) == 60
    assert all(
        128 <= size <= 8192 and size % 128 == 0
        for problem in drawn
        for size in problem.row.values()
    )
    assert (
        len({problem.m for problem in drawn}) > 10
        and sum(problem.m < 1024 for problem in drawn) > 15
    )
    # written out, so that no version of Python and no edit of the drawing moves what an archive
    # measured
    assert list(map(str, declarations.draw(count=3, seed=1, log2=[6, 13], multiple=8))) == DRAWN
    flat = {"m": [6, 6], "n": [12, 13], "k": [9, 10]}
    assert all(
        p.m == 64 and p.n >= 4096 and p.k <= 1024
        for p in declarations.draw(count=9, seed=2, log2=flat)
    )


def test_one_kind_of_data_or_several(folder: Path) -> None:
    assert load(folder, data="normal").data == ("normal",)
    assert load(folder, data=["zeros", "normal"]).data == ("zeros", "normal")
    assert load(folder, data=["zeros"], sizes={"first": 1024, "last": 2048, "step": 512}).data == (
        "zeros",
    )


def test_an_unknown_experiment_gives_the_nearest() -> None:
    with pytest.raises(
        UserError, match=r"unknown experiment 'sgemm_size' in experiments/; nearest: sgemm_sizes"
    ):
        declarations.load("sgemm_size")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"variants": ["sgemm_vectorised"]},
            "unknown variant 'sgemm_vectorised' in experiments/mine.yaml; near",
        ),
        ({"variants": []}, "variants = [] is not allowed; allowed: at least 1 item(s)"),
        ({"samples": 3}, "samples = 3 is not allowed; allowed: at least 5"),
        ({"flush_l2": 1}, "flush_l2 = 1 is not allowed; allowed: true or false"),
        (
            {"sizes": {"first": 2048, "last": 1024, "step": 512}},
            "sizes.last = 1024 is not allowed; allowed: at l",
        ),
        (
            {"sizes": {"first": 2048, "last": 4096, "step": 0}},
            "sizes.step = 0 is not allowed; allowed: at least 1",
        ),
        ({"sizes": {"first": 2048, "last": 4096}}, "sizes: 'step' is missing"),
        ({"data": "ones"}, 'data = "ones" is not allowed; allowed: '),
        ({"data": ["zeros", "zeros"]}, 'data = ["zeros", "zeros"] is not allowed'),
        (
            {"data": ["zeros", "normal"], "sizes": {"first": 1024, "last": 2048, "step": 512}},
            "data = zeros, normal over a range of sizes is not allowed; allowed: one kind of data, or a list of sizes",
        ),
        ({"windows_s": 1}, "unknown key 'windows_s'; nearest: window_s"),
        (
            {"sizes": [1000]},
            "sizes: sgemm_vectorized cannot take this problem: m = 1000, but m must be a mu",
        ),
        (
            {"sizes": {"first": 1024, "last": 1152, "step": 64}},
            "m = 1088, but m must be a multiple of 128",
        ),
        (
            {"profile": [1000]},
            "profile: sgemm_vectorized cannot take this problem: m = 1000, but m must",
        ),
        (
            {"profile": ["128,alpha=2"]},
            "profile: 128x128x128,alpha=2 is not allowed; allowed: alpha = 1, on which",
        ),
        ({"problems": ["128x128"]}, 'problems.0 = "128x128" is not allowed; allowed: text like'),
        (
            {"problems": ["128,gamma=1"]},
            "problem = '128,gamma=1' is not allowed; allowed: N or MxNxK, then ,alpha=",
        ),
        (
            {"problems": ["128x64x0"]},
            "problems: sgemm_vectorized cannot take this problem: k = 0, but k must be at",
        ),
        (
            {"problems": ["128,b=column"]},
            "sgemm_vectorized cannot take this problem: B is column-major, but it must",
        ),
        (
            {"problems": [1024]},
            "problems: 1024x1024x1024 stands there twice; allowed: each problem once",
        ),
        (
            {"grid": {"m": [100], "nk": [[128, 64]]}},
            "grid: sgemm_vectorized cannot take this problem: m = 100, but m",
        ),
        (
            {"grid": {"m": [128], "nk": [[128]]}},
            "grid.nk.0 = [128] is not allowed; allowed: at least 2 item(s)",
        ),
        (
            {"grid": {"m": [], "nk": [[128, 64]]}},
            "grid.m = [] is not allowed; allowed: at least 1 item(s)",
        ),
        (
            {"grid": {"m": [128, 128], "nk": [[128, 64]]}},
            "grid.m = [128, 128] is not allowed; allowed: each item once",
        ),
        ({"grid": {"m": [128]}}, "grid: 'nk' is missing"),
        (
            {"random": {"count": 2, "seed": 1, "log2": [7, 9]}},
            "random: sgemm_vectorized cannot take this problem: m =",
        ),
        (
            {"random": {"count": 2, "seed": 1, "log2": [7]}},
            "random.log2 = [7] is not allowed; allowed: at least 2",
        ),
        (
            {"random": {"count": 9, "seed": 1, "log2": [7, 8], "multiple": 128}},
            "random.count = 9 is not allowed; allowed: at most 8, for there are no more",
        ),
    ],
)
def test_a_value_out_of_range_names_file_key_value_and_allowed(
    changes: dict[str, Any], said: str, folder: Path
) -> None:
    with pytest.raises(UserError) as error:
        load(folder, **changes)
    assert said in str(error.value)
    assert "experiments/mine.yaml" in str(error.value).replace(str(folder.parent) + "/", "")


def test_an_experiment_without_any_size_is_refused(folder: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"experiments/mine\.yaml: no sizes, problems, grid, random or profile is given",
    ):
        load(folder, leave_out="sizes")


def test_a_file_that_is_empty_or_not_yaml_is_refused(folder: Path) -> None:
    for text, said in (("", "the file = null is not allowed"), ("a: [", "not YAML")):
        (folder / "mine.yaml").write_text(text)
        with pytest.raises(UserError, match=said):
            declarations.load("mine")
