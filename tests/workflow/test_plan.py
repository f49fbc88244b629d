"""What a run does, as a value: tables of cases, and no Snakemake."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, refused
from trees import GPU

from contracts import load_yaml
from contracts.rows import TABLES
from experiments import declarations
from experiments.declarations import Experiment
from experiments.stages import bench
from kernels import catalogue
from kernels.problem import ProblemSpec
from workflow.plan import BATCH, PART, WINDOWS, Device, Inventory, Plan, drawn, named_in, plan

CONFIG = load_yaml(ROOT / "config.yaml") | {"archive": "h200"}
NO_GPU = GPU | {"gpu": None, "driver": None}
LAPTOP, H200 = Device(NO_GPU), Device(GPU)
WHOLE = [t.file for t in TABLES.values() if t.archive == "always"]
ARCHIVE = Inventory(frozenset(f"data/h200/{file}" for file in WHOLE))


PLANS: dict[str, Plan] = {}


def made(*targets: str, device: Device = LAPTOP, more: Any = (), **config: Any) -> Plan:
    """The plan of `snakemake targets --config config`, with further files on disk; made once, for
    it is a value.
    """
    asked = repr((targets, device, sorted(more), config))
    if asked not in PLANS:
        PLANS[asked] = plan(CONFIG | config, device, Inventory(ARCHIVE.files | set(more)), targets)
    return PLANS[asked]


@pytest.mark.parametrize(
    ("device", "targets", "mode", "measuring", "source"),
    [
        (LAPTOP, "all", "auto", False, "data/h200"),
        (LAPTOP, "paper", "auto", False, "data/h200"),
        (H200, "all", "auto", True, "results/h200"),
        (H200, "all paper", "auto", True, "results/h200"),
        (H200, "paper sgemm_ladder", "auto", True, "results/h200"),
        (H200, "results/figures/power.svg", "auto", True, "results/h200"),
        (H200, "paper", "auto", False, "data/h200"),
        (H200, "claims explorer", "auto", False, "data/h200"),
        (H200, "all", "redraw", False, "data/h200"),
        (H200, "paper", "measure", True, "results/h200"),
    ],
)
def test_where_the_tables_come_from(
    device: Device, targets: str, mode: str, measuring: bool, source: str
) -> None:
    found = made(*targets.split(), device=device, mode=mode)
    assert (found.measuring, found.source) == (measuring, source)
    assert found.archived == source.startswith("data/")
    assert found.tables["windows"] == f"{source}/windows.csv"


def test_an_archive_takes_what_all_measures_and_what_else_the_command_names() -> None:
    whole = set(made("archive", device=H200).to_archive)
    files = (*WHOLE, "emulator_next_to_gpu.csv", "bounds.csv")
    assert {f"results/h200/{file}" for file in files} < whole
    named = set(made("archive", "sanitize", "tile_autotune", device=H200).to_archive)
    assert named - whole == {"results/h200/sanitizer.csv", "results/h200/tuning.csv"}
    assert made("archive").to_archive == []  # without a GPU there is nothing that it could take


def test_an_experiment_s_figures_are_drawn_from_its_own_tables_where_it_is_measured() -> None:
    assert made("all").folder_of("sgemm_ladder") == "data/h200"
    measured = made("all", device=H200)
    assert measured.folder_of("sgemm_ladder") == "results/h200/only/sgemm_ladder"
    assert measured.folder_of("sgemm_sweep") == "results/h200"  # it was not asked for


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
        ("results/figures/ladder_sgemm_ladder.pdf", True),
        ("results/tables/coverage.csv", True),
        ("results/report.html", True),
        ("results/figures/banks_ldmatrix.json", False),  # it shows what the emulator does today
        ("results/no-gpu/predictions.csv", False),
        ("all", False),
        ("compare", False),
    ],
)
def test_what_is_drawn(target: str, is_drawn: bool) -> None:
    assert drawn(target) == is_drawn
    pair = {"variant_a": "sgemm_naive", "variant_b": "sgemm_tiling"}
    assert made(target, **pair).drawing == is_drawn and not made(target, "all", **pair).drawing


def test_drawing_reads_the_archive_of_what_this_tree_has_not_made() -> None:
    names = ("resources", "emulated_checks", "predictions", "bounds")

    def sources(plan: Plan) -> list[str]:
        return [str(Path(plan.tables.get(name, "none")).parent) for name in names]

    archived, here = {"data/h200/predictions.csv"}, ["results/no-gpu"] * len(names)
    drawn = made("results/figures/power.svg", more=archived)
    assert sources(drawn) == ["data/h200", ".", "data/h200", "."]
    files = {name.replace("_", "-") for name in names} | {"shared_widths"}
    own = {f"results/no-gpu/{file}.csv" for file in files}
    assert sources(made("paper", more=archived | own)) == here
    assert sources(made("all", more=archived)) == here
    # so nothing is drawn again after `all`
    assert made("paper", more=own).tables == made("all", more=own).tables


def test_a_table_that_need_not_be_there_is_read_where_it_is_and_made_by_its_name() -> None:
    there = {"results/h200/sanitizer.csv"}
    assert "sanitizer" not in made("all", device=H200).tables
    kept = made("all", device=H200, more=there)
    assert kept.tables["sanitizer"] == "results/h200/sanitizer.csv" and "sanitizer" not in kept.made
    assert "sanitizer" in made("sanitize", device=H200).made
    crossed = made("cross_validation", device=H200).made
    assert {t.name for t in TABLES.values() if t.target == "cross_validation"} <= {*crossed}
    assert "emulator_next_to_gpu" in made("all", device=H200).made and made("all").made == ()


def test_a_table_that_needs_no_gpu_is_made_by_its_name_and_stands_before_an_archive_s() -> None:
    name = "error_over_k"
    own, archived = f"results/no-gpu/{name}.csv", f"data/h200/{name}.csv"
    asked = made(name, more={archived})
    assert asked.made == (name,) and asked.tables[name] == own
    assert made("all", more={archived}).made == () and name not in made("all").tables
    assert made("all", more={archived}).tables[name] == archived
    assert made("all", more={archived, own}).tables[name] == own
    assert name in made(name, device=H200).made
    assert made("error_over_k", device=H200, mode="redraw").made == ()


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
def test_an_experiment_kept_out_of_all_is_planned_where_a_target_names_it(
    targets: list[str], named: bool
) -> None:
    assert ("sgemm_sweep" in made(*targets, device=H200).planned) is named
    assert "sgemm_ladder" in made(*targets, device=H200).planned


def test_targets_name_experiments_whole() -> None:
    assert named_in(["ladder"], ["sgemm_ladder"]) == []
    figure = "results/figures/counters_sgemm_ladder.pdf"
    assert named_in([figure], ["ladder_x", "sgemm_ladder"]) == ["sgemm_ladder"]


def test_the_variants_of_an_experiment_are_measured_in_parts_of_one_dtype_each() -> None:
    found = made("all", device=H200)
    parts, variants = found.parts("hopper_ladder"), found.everything["hopper_ladder"].variants
    assert max(map(len, parts.values())) <= PART
    assert sorted(itertools.chain(*parts.values())) == sorted(variants)
    for part, names in parts.items():
        assert {catalogue.load().find(name).dtype for name in names} == {part.partition("-")[0]}
    libraries = made("all", device=H200, variants=["cublas_fp32"])
    assert libraries.timed("/only/sgemm_ladder") == ["sgemm_ladder/fp32-1-1of1-boost"]
    # libraries are checked where they are timed
    assert libraries.checked("/only/sgemm_ladder") == []


def test_a_sweep_is_timed_by_several_jobs_which_together_time_each_problem_once() -> None:
    plan = made("sgemm_sweep", device=H200)
    whole = plan.everything["sgemm_sweep"]
    slices = [bench.sliced(whole, words).problems for words in plan.slices("sgemm_sweep", "fp32-1")]
    assert sorted(itertools.chain(*slices), key=whole.problems.index) == list(whole.problems)
    most, fewest = max(map(len, slices)), min(map(len, slices))
    assert most * len(whole.variants) <= WINDOWS + len(whole.variants) and most - fewest <= 1


@pytest.mark.parametrize(
    ("problems", "kinds", "processes", "jobs"),
    [(6, 1, 5, 1), (7, 1, 5, 2), (7, 1, 1, 1), (4, 2, 5, 2), (4, 1, 50, 4), (3, 1, 500, 3)],
)
def test_a_job_has_so_many_windows_of_all_problems_kinds_of_data_and_processes(
    problems: int, kinds: int, processes: int, jobs: int
) -> None:
    """Of a part of four variants; a problem is in one job."""
    variants = ("sgemm_naive", "sgemm_coalesced", "sgemm_smem_tile", "cublas_fp32")
    sizes = tuple(ProblemSpec.square(64 * (i + 1)) for i in range(problems))
    data = ("uniform", "zeros")[:kinds]
    head = {"name": "pairs", "title": "t", "question": "q?", "variants": variants}
    asked = Experiment(**head, problems=sizes, data=data, processes=processes)
    pairs = replace(made("all", device=H200), experiments={"pairs": asked}, compared=None)
    assert pairs.slices("pairs", "fp32-1") == [f"{job + 1}of{jobs}" for job in range(jobs)]


@pytest.mark.parametrize("words", ["0of3", "4of3", "2/3", "of", ""])
def test_a_slice_of_problems_is_one_of_as_many_as_it_says(words: str) -> None:
    with refused(f"--slice {re.escape(words)} is not allowed; allowed: 1of1"):
        bench.sliced(declarations.load("sgemm_sweep"), words)


def test_variants_limit_everything() -> None:
    found = made("all", variants=["sgemm_naive", "cublas_fp32", "sgemm_c_dispatch"])
    assert found.variants == ("sgemm_naive", "sgemm_c_dispatch", "cublas_fp32")
    assert found.runnable == ("sgemm_naive", "sgemm_c_dispatch")
    assert "hgemm_ladder" not in found.experiments
    measuring = made("all", device=H200, variants=["sgemm_naive", "sgemm_c_dispatch"])
    needed = ("sgemm_naive", *found.catalogue.runnable["sgemm_c_dispatch"].variants)
    assert {*measuring.kernels} == {getattr(one, "name", one) for one in needed}
    assert {name for batch in measuring.builds.values() for name in batch} == {*measuring.kernels}
    assert measuring.kernels_in("/only/sgemm_ladder") == measuring.kernels


def test_what_experiments_name_is_built_and_on_a_gpu_the_dispatchers_kernels_too() -> None:
    found = made("all")
    named = {name for experiment in found.in_scope("") for name in experiment.variants}
    assert {*found.kernels} == {*found.emulated} & {*found.catalogue.kernels} <= named
    assert "sgemm_c_dispatch" in found.emulated
    here, there = made("hopper_sizes"), made("hopper_sizes", device=H200)
    assert "hgemm_best_bf16" in {*here.named} - {*here.emulated}
    dispatched = {kernel for name in here.named for kernel in there.kernels_of(name)}
    assert {*there.kernels} - {*here.kernels} == dispatched - {*here.kernels} != set()


def test_each_kernel_is_in_one_batch_with_others_of_its_experiment_or_dispatcher() -> None:
    plan = made("all", device=H200)
    kernels, emulated = plan.catalogue.kernels, plan.emulated
    for batches, names in ((plan.builds, kernels), (plan.emulations, emulated)):
        members = [name for batch in batches.values() for name in batch]
        assert sorted(members) == sorted(names) and max(map(len, batches.values())) <= BATCH
    variants = plan.experiments["sgemm_ladder"].variants
    ladder = {kernel for name in variants for kernel in plan.kernels_of(name)}
    named = {kernel for experiment in plan.experiments.values() for kernel in experiment.variants}
    for together in (ladder, {*plan.kernels_of("hgemm_best_bf16")} - named):
        holding = [{*batch} for batch in plan.builds.values() if together & {*batch}]
        assert len(holding) == -(-len(together) // BATCH) and set().union(*holding) == together


def test_a_pair_is_an_experiment_that_only_profiles() -> None:
    pair = {"variant_a": "sgemm_naive", "variant_b": "sgemm_warptile"}
    plan = made("compare", device=H200, **pair)
    assert plan.compared and plan.compared.variants == ("sgemm_naive", "sgemm_warptile")
    assert plan.compared.profiled == (ProblemSpec.square(4096),) and not plan.compared.problems
    assert plan.folder_of("compare") == "results/h200/only/compare" and not plan.counters_required
    assert made("all", device=H200).compared is None


def test_a_problem_with_beta_is_profiled_next_to_the_one_without() -> None:
    """Predictions do not read C, so that one serves both."""
    found = made("profile_reading_c", device=H200)
    assert [problem.beta for problem in found.everything["profile_reading_c"].profiled] == [1.0]
    assert found.predicted("sgemm_blocktile_2d") == (ProblemSpec.square(4096),)
    assert made("all").predicted("sgemm_splitk_32x32") == ()


@pytest.mark.parametrize(
    ("config", "targets", "said"),
    [
        ({"mode": "measure"}, ["all"], "mode = 'measure'"),
        ({"mode": "draw"}, ["all"], 'mode = "draw"'),
        ({"archive": "foo"}, ["all"], "archive = 'foo': no such folder in data/; there: h200"),
        ({"lock_sm_mhz": 1500}, ["all"], "lock_sm_mhz = 1500"),
        ({"variants": ["sgemm_naiv"]}, ["all"], "'sgemm_naiv'"),
        ({"variant_a": "sgemm_naive"}, ["compare"], "variant_b = null"),
        ({}, ["tile_autotune"], "tile_autotune"),
        ({}, ["sanitize"], "sanitize"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    config: dict[str, Any], targets: list[str], said: str
) -> None:
    with refused(re.escape(said)):
        made(*targets, **config)


def test_a_baseline_whose_library_is_missing_is_left_out_of_measuring_with_the_reason() -> None:
    without = Device(H200.toolchain, {"triton": "needs Triton, which is not installed"})
    plan, reason = made(device=without), "triton_bf16 needs Triton, which is not installed"
    assert plan.unsupported["triton_bf16"] == reason
    left = {name for experiment in plan.experiments.values() for name in experiment.variants}
    assert "triton_bf16" not in left and "cublas_bf16" in left
    assert "triton_bf16" in made(device=H200).experiments["hopper_ladder"].variants
    drawn = made(mode="redraw", device=without)  # what an archive has of it is drawn
    assert "triton_bf16" in drawn.variants and not drawn.unsupported
    with refused(f"^config.yaml: variants: {reason}"):
        made(device=without, variants=["triton_bf16"])


def test_what_another_architecture_is_needed_for_is_left_out_with_the_reason() -> None:
    turing, name = Device(NO_GPU | {"arch": "sm_75"}), "hgemm_naive_bf16"
    plan, reason = made(device=turing), f"{name} needs compute capability 8.0, but arch = sm_75"
    assert plan.unsupported[name] == reason and not made().unsupported
    assert (
        not {*plan.unsupported} & {*plan.kernels, *plan.variants}
        and "sgemm_warptile" in plan.kernels
    )
    assert all(name not in experiment.variants for experiment in plan.experiments.values())
    with refused(f"^config.yaml: variants: {reason}"):
        made(device=turing, variants=[name])


def test_tiles_are_compiled_for_dispatchers_that_run_any() -> None:
    run = made("all", device=H200)
    assert run.tiled("any_shape_bf16", "bf16-1") == ["hgemm_best_bf16"]
    assert run.tiled("sgemm_ladder", "fp32-4") == run.tiled("any_shape_fp32", "fp32-1") == []


def test_every_architecture_has_a_plan() -> None:
    for arch in ("sm_75", "sm_86", "sm_89", "sm_100a", "sm_120"):
        found = made(device=Device(NO_GPU | {"arch": arch}))
        assert len(found.builds) > 5 and len(found.emulations) > 5, arch


@pytest.mark.parametrize(
    ("gpu", "folder"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),  # another card: fewer multiprocessors
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA", "nvidia"),
        (None, "no-gpu"),
    ],
)
def test_a_machine_s_folder_has_a_short_name(gpu: str | None, folder: str) -> None:
    assert Device(GPU | {"gpu": gpu}).machine == folder


def test_the_end_of_a_run_says_what_to_open_what_was_measured_and_what_was_left_out() -> None:
    lines = "\n".join(made().summary())
    assert "results/explorer.html" in lines and "results/paper.pdf" in lines
    assert re.search(r"Measured on NVIDIA H\d00.*, 2026-.*, archived in data/h\d00\.", lines)
    assert re.search(r"[1-9]\d* kernels built", lines)
    left_out = replace(made(), unsupported={"sgemm_tma": "sgemm_tma needs sm_90a"}).summary()
    assert left_out[-1] == "Left out: sgemm_tma needs sm_90a."
