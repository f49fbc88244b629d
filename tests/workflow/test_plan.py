"""What a run does, as a value: tables of cases, and no Snakemake."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT

from contracts import UserError, load_yaml, registry, validate
from experiments import declarations
from experiments.stages import bench
from kernels import catalogue
from kernels.problem import ProblemSpec
from workflow.plan import (
    BUILT,
    EMULATED,
    PART,
    TIMED,
    WINDOWS,
    Device,
    Inventory,
    Plan,
    drawn,
    mode_for,
    named_in,
    plan,
)

CONFIG = load_yaml(ROOT / "config.yaml") | {"archive": "h200"}
TOOLCHAIN = {"nvcc": "13.0.88", "ptxas": "13.0.88", "host_compiler": "g++ 12", "cuobjdump": "13.5", "arch": "sm_90a"}
LAPTOP = Device(TOOLCHAIN | {"gpu": None, "driver": None})
H200 = Device(TOOLCHAIN | {"gpu": "NVIDIA H200", "driver": "580.0"})
WHOLE = [t.file for t in registry.tables().values() if t.archive == "always"]
ARCHIVE = Inventory(frozenset(f"data/h200/{file}" for file in WHOLE))


def made(*targets: str, device: Device = LAPTOP, files: Inventory = ARCHIVE, more: Any = (), **config: Any) -> Plan:
    """The plan of `snakemake targets --config config`, with further files on disk."""
    return plan(CONFIG | config, device, Inventory(files.files | set(more)), targets)


@pytest.mark.parametrize(
    ("mode", "targets", "becomes"),
    [
        ("auto", [], "auto"),
        ("auto", ["all"], "auto"),
        ("auto", ["paper"], "redraw"),
        ("auto", ["explorer"], "redraw"),
        ("auto", ["claims", "paper"], "redraw"),
        ("auto", ["results/figures/energy.svg"], "auto"),
        ("auto", ["all", "explorer"], "auto"),
        ("auto", ["all", "paper"], "auto"),
        ("auto", ["paper", "sgemm_ladder"], "auto"),
        ("measure", ["paper"], "measure"),
        ("redraw", ["all"], "redraw"),
    ],
)
def test_targets_imply_a_mode(mode: str, targets: list[str], becomes: str) -> None:
    assert mode_for(mode, targets) == becomes


@pytest.mark.parametrize(
    ("device", "targets", "config", "measuring", "source", "why"),
    [
        (LAPTOP, ["all"], {}, False, "data/h200", "no NVIDIA GPU is visible here"),
        (LAPTOP, ["paper"], {}, False, "data/h200", "no NVIDIA GPU is visible here"),
        (H200, ["all"], {}, True, "results/h200", None),
        (H200, ["all", "paper"], {}, True, "results/h200", None),
        (H200, ["paper"], {}, False, "data/h200", "only drawn again"),
        (H200, ["all"], {"mode": "redraw"}, False, "data/h200", "only drawn again"),
        (H200, ["all"], {"mode": "measure"}, True, "results/h200", None),
        (H200, ["all"], {"machine": "mine"}, True, "results/mine", None),
    ],
)
def test_where_the_tables_come_from(
    device: Device, targets: list[str], config: dict[str, Any], measuring: bool, source: str, why: str | None
) -> None:
    found = made(*targets, device=device, **config)
    assert (found.measuring, found.source, found.why_archived) == (measuring, source, why)
    assert found.archived == source.startswith("data/")
    assert found.tables["windows"] == f"{source}/windows.csv"
    drawing = targets == ["paper"]
    assert found.drawing == drawing
    assert found.tables["resources"] == f"{source if drawing else found.results}/resources.csv"


def test_an_archive_takes_what_all_measures_and_what_else_the_command_names() -> None:
    whole = made("archive", device=H200).to_archive
    assert {f"results/h200/{file}" for file in (*WHOLE, "emulator_next_to_gpu.csv", "bounds.csv")} < {*whole}
    named = made("archive", "sanitize", "tile_autotune", device=H200).to_archive
    assert set(named) - set(whole) == {f"results/h200/{file}" for file in ("sanitizer.csv", "tuning.csv", "tuned.json")}
    assert made("archive").to_archive == []  # without a GPU there is nothing that it could take


def test_what_this_machine_measured_before_is_drawn_rather_than_an_archive() -> None:
    found = made("paper", device=H200, more={f"results/h200/{file}" for file in WHOLE})
    assert not found.measuring and not found.archived and found.source == "results/h200"
    assert "emulated_checks" not in found.tables  # its own table of checks holds them
    some = made("paper", device=H200, more={f"results/h200/{file}" for file in WHOLE[1:]})
    assert some.archived and some.tables["windows"] == "data/h200/windows.csv"


@pytest.mark.parametrize(
    ("target", "is_drawn"),
    [
        ("paper", True),
        ("claims", True),
        ("results/figures/energy.svg", True),
        ("results/figures/ladder_sgemm_ladder.pdf", True),
        ("results/tables/coverage.csv", True),
        ("results/supplement.pdf", True),
        ("results/report/tables.html", True),
        ("results/report.html", True),
        ("results/figures/banks_ldmatrix.svg", False),  # it shows what the emulator does today
        ("results/no-gpu/predictions.csv", False),
        ("results/no-gpu/emulated-checks.csv", False),
        ("results/inputs.json", False),
        ("all", False),
        ("sgemm_ladder", False),
        ("compare", False),
    ],
)
def test_what_is_drawn(target: str, is_drawn: bool) -> None:
    assert drawn(target) == is_drawn
    pair = {"variant_a": "sgemm_naive", "variant_b": "sgemm_tiling"}
    assert made(target, **pair).drawing == is_drawn and not made(target, "all", **pair).drawing


EMULATED_TABLES = ("emulated_checks", "predictions", "bounds", "shared_widths")
ONE = {"variants": ["sgemm_naive"]}
PARTS = {f"results/no-gpu/parts/emulate/sgemm_naive/{file}" for file in EMULATED}
BUILDS = {f"results/build/sm_90a/sgemm_naive{suffix}" for suffix in BUILT}


def sources(found: Plan, *names: str) -> list[str | None]:
    """The folders that these tables are read from."""
    return [str(Path(found.tables[name]).parent) if name in found.tables else None for name in names]


def test_drawing_reads_the_archive_of_what_this_tree_has_not_made() -> None:
    archived = {f"data/h200/{name}.csv" for name in ("predictions", "bounds")}
    fresh = made("results/figures/energy.svg", more=archived)
    assert sources(fresh, "resources", *EMULATED_TABLES) == ["data/h200", None, "data/h200", "data/h200", None]
    assert not any(fresh.joins(name) for name in ("resources", "predictions", "bounds"))
    older = made("results/figures/energy.svg")  # an archive without them: they are made
    assert sources(older, "predictions", "bounds") == ["results/no-gpu", "results/no-gpu"]
    assert older.joins("bounds") and not older.kept


def test_drawing_takes_what_this_tree_has_made_as_it_is() -> None:
    found = made("paper", more=PARTS | BUILDS, **ONE)
    assert found.kept == {"build", "emulate"} and found.joins("emulated_checks")
    assert sources(found, "resources", *EMULATED_TABLES) == ["results/no-gpu"] * 5
    assert found.tables == made("all", more=PARTS | BUILDS, **ONE).tables  # so nothing is drawn again after `all`
    assert made("paper", more=PARTS - {sorted(PARTS)[0]}, **ONE).kept == frozenset()
    assert made("paper", more=PARTS | BUILDS).kept == frozenset()  # of one kernel alone
    assert made("all", more=PARTS | BUILDS, **ONE).kept == frozenset()


def test_a_table_that_need_not_be_there_is_read_where_it_is_and_made_where_it_is_asked_for() -> None:
    there = {"results/h200/sanitizer.csv"}
    assert "sanitizer" not in made("all", device=H200).tables
    kept = made("all", device=H200, more=there)
    assert kept.tables["sanitizer"] == "results/h200/sanitizer.csv" and "sanitizer" not in kept.made
    assert "sanitizer" in made("sanitize", device=H200).made
    by_name = [t.name for t in registry.tables().values() if t.target == "cross_validation"]
    assert [*made("cross_validation", device=H200).made[-len(by_name) :]] == by_name or not by_name
    assert "emulator_next_to_gpu" in made("all", device=H200).made and made("all").made == ()


def test_what_needs_no_gpu_is_made_by_its_name_on_any_machine() -> None:
    own, archived = "results/no-gpu/tuning_ranked.csv", "data/h200/tuning_ranked.csv"
    assert made("tile_ranking").made == ("tuning_ranked",) and made("tile_ranking").tables["tuning_ranked"] == own
    assert "tuning_ranked" in made("tile_ranking", device=H200).made
    assert made("all").made == () and made("all", more={archived}).tables["tuning_ranked"] == archived


def test_a_table_that_the_emulator_can_make_is_made_where_there_is_no_gpu_and_stands_before_an_archive_s() -> None:
    own, archived = "results/no-gpu/error_over_k.csv", "data/h200/error_over_k.csv"
    asked = made("error_over_k", more={archived})
    assert asked.made == ("error_over_k",) and asked.tables["error_over_k"] == own
    assert made("all", more={archived}).made == () and "error_over_k" not in made("all").tables
    assert made("all", more={archived}).tables["error_over_k"] == archived
    assert made("all", more={archived, own}).tables["error_over_k"] == own
    assert "error_over_k" in made("error_over_k", device=H200).made
    assert made("error_over_k", device=H200, mode="redraw").made == ()
    assert made("smem_microbench").made == ()


@pytest.mark.parametrize(
    ("targets", "named"),
    [
        (["all"], False),
        (["sgemm_sweep"], True),
        (["all", "sgemm_sweep"], True),
        (["results/figures/sizes_sgemm_sweep.svg"], True),
        (["results/h200/only/sgemm_sweep/windows.csv"], True),
        (["results/figures/sizes_hgemm_sweep.svg"], False),
    ],
)
def test_an_experiment_kept_out_of_all_is_planned_where_a_target_names_it(targets: list[str], named: bool) -> None:
    assert ("sgemm_sweep" in made(*targets, device=H200).planned) is named
    assert "sgemm_ladder" in made(*targets, device=H200).planned


def test_targets_name_experiments_whole() -> None:
    assert named_in(["ladder"], ["sgemm_ladder"]) == []
    assert named_in(["results/figures/counters_sgemm_ladder.pdf"], ["ladder_x", "sgemm_ladder"]) == ["sgemm_ladder"]


def test_what_was_timed_by_name_joins_the_tables_of_all() -> None:
    stems = [f"sgemm_sweep/{stem}" for stem in ("fp32-1-1of6-boost", "fp32-1-2of6-boost")]
    first = f"results/h200/parts/bench/{stems[0]}"
    timed = {f"results/h200/parts/bench/{stem}{suffix}" for stem in stems for suffix in TIMED}
    every = made("all", device=H200).parts("sgemm_sweep")
    checked = {f"results/h200/parts/check/sgemm_sweep/{part}.csv" for part in every}
    parts = timed | checked
    assert made("all", device=H200, more=timed).timed_before == ()  # without the checks that belong to it
    assert made("all", device=H200, more={f"{first}.csv"}).timed_before == ()  # cut off: its job is not whole
    found = made("all", device=H200, more=parts)
    assert found.timed_before == tuple(stems)
    assert set(stems) <= set(found.timed("")) and found.timed_before[0] not in found.timed("/only/sgemm_ladder")
    assert "sgemm_sweep/fp32-1" in found.checked("") and "sgemm_sweep/fp32-1" not in made("all", device=H200).checked(
        ""
    )
    assert made("sgemm_sweep", device=H200, more=parts).timed_before == ()


def test_the_variants_of_an_experiment_are_measured_in_parts_of_one_dtype_each() -> None:
    found = made("all", device=H200)
    parts = found.parts("hopper_ladder")
    assert max(map(len, parts.values())) <= PART
    assert sorted(name for names in parts.values() for name in names) == sorted(
        found.everything["hopper_ladder"].variants
    )
    for part, names in parts.items():
        assert {catalogue.load().find(name).dtype for name in names} == {part.partition("-")[0]}
    libraries = made("all", device=H200, variants=["cublas_fp32"])
    assert libraries.timed("/only/sgemm_ladder") == ("sgemm_ladder/fp32-1-1of1-boost",)
    assert libraries.checked("/only/sgemm_ladder") == ()  # libraries are checked where they are timed


def test_a_sweep_is_timed_by_several_jobs_which_together_time_each_problem_once() -> None:
    plan = made("sgemm_sweep", device=H200)
    whole = plan.everything["sgemm_sweep"]
    slices = [bench.sliced(whole, words).problems for words in plan.slices("sgemm_sweep", "fp32-1")]
    assert sorted(itertools.chain(*slices), key=whole.problems.index) == list(whole.problems)
    assert max(map(len, slices)) * len(whole.variants) <= WINDOWS + len(whole.variants)
    assert max(map(len, slices)) - min(map(len, slices)) <= 1
    assert plan.slices("sgemm_ladder", "fp32-1") == ["1of1"]


@pytest.mark.parametrize("words", ["0of3", "4of3", "2/3", "of", ""])
def test_a_slice_of_problems_is_one_of_as_many_as_it_says(words: str) -> None:
    with pytest.raises(UserError, match=f"--slice {re.escape(words)} is not allowed; allowed: 1of1"):
        bench.sliced(declarations.load("sgemm_sweep"), words)


def test_clocks_are_locked_only_where_that_is_asked_for() -> None:
    stems = made("all", device=H200, lock_clocks=True).timed("/only/odd_sizes")
    assert {stem.rpartition("-")[2] for stem in stems} == {"boost", "locked"}
    assert made("all", device=H200).clock_policies == ("boost",)


def test_the_tuned_record_is_this_machine_s_own_before_an_archive_s(tmp_path: Path) -> None:
    assert made("all").catalogue.record is None
    real = made("all", more={"data/h200/tuned.json", "data/h200/tuning.csv"})
    assert (real.catalogue.record, real.tuning) == (Path("data/h200/tuned.json"), "data/h200")
    assert made("all", more={"data/h200/tuned.json"}).tuning is None
    assert made("tile_autotune", device=H200).sweeping


def test_variants_limit_everything() -> None:
    found = made("all", variants=["sgemm_naive", "cublas_fp32", "sgemm_c_dispatch"])
    assert found.variants == ("sgemm_naive", "sgemm_c_dispatch", "cublas_fp32")
    assert found.runnable == ("sgemm_naive", "sgemm_c_dispatch")
    assert set(found.kernels) > {"sgemm_naive"} and "hgemm_ladder" not in found.experiments


def test_a_pair_is_an_experiment_that_only_profiles() -> None:
    pair = {"variant_a": "sgemm_naive", "variant_b": "sgemm_warptile"}
    found = made("compare", device=H200, **pair)
    assert found.compared and found.compared.profiled == (ProblemSpec.square(4096),)
    assert found.compared.variants == ("sgemm_naive", "sgemm_warptile") and not found.compared.problems
    assert found.folder_of("compare") == "results/h200/only/compare" and not found.counters_required
    assert made("all", device=H200).compared is None


def test_a_problem_with_beta_is_profiled_next_to_the_one_without() -> None:
    """Predictions do not read C, so that one serves both."""
    found = made("profile_reading_c", device=H200)
    assert [problem.beta for problem in found.everything["profile_reading_c"].profiled] == [1.0]
    assert found.predicted("sgemm_blocktile_2d") == (ProblemSpec.square(4096),)
    assert made("all").predicted("sgemm_c_texld") == ()


@pytest.mark.parametrize(
    ("config", "targets", "said"),
    [
        ({"mode": "measure"}, ["all"], "mode = 'measure' needs an NVIDIA GPU, and none is visible here; allowed: auto"),
        ({"mode": "draw"}, ["all"], 'mode = "draw" is not allowed; allowed: one of auto, measure, redraw'),
        ({"archive": "foo"}, ["all"], "archive = 'foo': no such folder in data/; there: h200"),
        ({"lock_sm_mhz": 1500}, ["all"], "lock_sm_mhz = 1500 needs lock_clocks = true"),
        ({"variants": ["sgemm_naiv"]}, ["all"], "unknown variant 'sgemm_naiv' in config.yaml: variants; nearest"),
        ({}, ["compare"], "variant_a = null, variant_b = null; compare needs two variants"),
        ({"variant_a": "sgemm_naive"}, ["compare"], "compare needs two variants"),
        ({}, ["tile_autotune"], "tile_autotune needs a GPU: none here, and no sweep to draw"),
    ],
)
def test_what_cannot_be_run_is_one_line(config: dict[str, Any], targets: list[str], said: str) -> None:
    with pytest.raises(UserError) as error:
        made(*targets, **config)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_planning_is_a_function_of_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same value wherever it is called, with nothing written; the inventory alone says what is on disk."""
    before = made("all", device=H200)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert made("all", device=H200) == before
    assert list(tmp_path.iterdir()) == []


def test_a_baseline_whose_library_is_missing_is_left_out_of_measuring_with_the_reason() -> None:
    without = Device(H200.toolchain, {"triton": "needs Triton, which is not installed"})
    found = made(device=without)
    assert found.unfit["triton_bf16"] == "triton_bf16 needs Triton, which is not installed"
    left = {name for experiment in found.experiments.values() for name in experiment.variants}
    assert not {name for name in left if name.startswith("triton")} and "cublas_bf16" in left
    assert "triton_bf16" in made(device=H200).experiments["hopper_ladder"].variants
    drawn = made(mode="redraw", device=without)  # what an archive has of it is drawn
    assert "triton_bf16" in drawn.variants and not drawn.unfit
    with pytest.raises(UserError, match=r"^config.yaml: variants: triton_bf16 needs Triton, which is not installed"):
        made(device=without, variants=["triton_bf16"])


def test_what_another_architecture_is_needed_for_is_left_out_with_the_reason() -> None:
    turing = Device(TOOLCHAIN | {"arch": "sm_75", "gpu": None, "driver": None})
    found = made(device=turing)
    assert found.unfit["hgemm_naive_bf16"] == "hgemm_naive_bf16 needs compute capability 8.0, but arch = sm_75"
    assert not set(found.unfit) & {*found.kernels, *found.variants} and "sgemm_warptile" in found.kernels
    assert "hgemm_naive_bf16" not in {name for e in found.experiments.values() for name in e.variants}
    assert not made().unfit
    with pytest.raises(UserError, match=r"^config.yaml: variants: hgemm_naive_bf16 needs compute capability 8.0, but"):
        made(device=turing, variants=["hgemm_naive_bf16"])


def test_a_key_that_nothing_interprets_reaches_the_stages_resolved() -> None:
    """An option from the configuration to a stage is a key of `Config`, and the option."""
    job = made("all", device=H200, sizes_step=256, lock_clocks=True, lock_sm_mhz=1500, nvcc="/nvcc").job
    assert (job["sizes_step"], job["sm_mhz"], job["lock"], job["nvcc"]) == (256, 1500, True, "/nvcc")
    assert job["store"] == "results/h200/measured" and job["build_dir"] == "results/build/sm_90a"
    validate(dict(job), "job", "job.json")
    assert not {"variants", "machine", "archive", "lock_sm_mhz"} & job.keys()
    file = load_yaml(ROOT / "config.yaml")
    standing_in = Inventory(frozenset(f"data/{file['archive']}/{name}" for name in WHOLE))
    assert plan({}, LAPTOP, standing_in).config == file


@pytest.mark.parametrize(
    ("gpu", "folder"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),  # another card: fewer multiprocessors
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA", "nvidia"),
        (None, "no-gpu"),
    ],
)
def test_a_machine_s_folder_has_a_short_name(gpu: str | None, folder: str) -> None:
    assert Device(TOOLCHAIN | {"gpu": gpu}).machine == folder


def test_what_has_to_be_named_for_a_whole_archive_is_documented() -> None:
    text = (ROOT / "docs" / "use.md").read_text()
    part = text[text.index("## Add your GPU") :].split("\n## ")[0]
    by_name = {name for name, experiment in made("all").experiments.items() if experiment.by_name}
    recorded = [t for t in registry.tables().values() if t.archive != "never"]
    by_name |= {t.target for t in recorded} - set(registry.MADE_BY_OTHERS)
    assert len(by_name) > 10 and {name for name in by_name if not re.search(rf"^    .*\b{name}\b", part, re.M)} == set()
