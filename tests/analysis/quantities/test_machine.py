"""Quantities and functions of a machine's tables: each of them, what the tables lack, and typos."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT
from machine_folder import Folder
from planted import Planted, estimate, planted_bench

from analysis.claims import verdicts
from analysis.claims.files import Paper
from analysis.claims.verdicts import Ask
from analysis.fill_docs import judged
from analysis.inputs import Inputs
from analysis.quantities.estimates import Estimate
from analysis.quantities.machine import Machine, Missing
from analysis.quantities.registry import SOURCES, quantities
from analysis.statistics import IN_TURNS, SHARE
from analysis.tables import autotune
from contracts import UserError, archives, read_rows


@pytest.fixture
def planted(tmp_path: Path, variants_csv: Path) -> Planted:
    return Planted(tmp_path, variants_csv)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory, variants_csv: Path) -> Ask:
    return Planted(tmp_path_factory.mktemp("words"), variants_csv).ask()


def test_each_quantity_has_a_label_and_a_table() -> None:
    for key, one in quantities().items():
        assert one.key == key and one.label and one.source in SOURCES, key


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('sgemm_naive.time_us', (1000, 990, 1010)),
        ('sgemm_naive.time_us[experiment=occupancy]', (9000, 8955, 9045)),  # by the noise of what is not repeated
        ('sgemm_naive.tflops', (2e-9 * 4096**3, 2e-6 * 4096**3 / 1010, 2e-6 * 4096**3 / 990)),
        ('sgemm_warptile.share[1024]', (0.5, 0.49, 0.51)),
        ('sgemm_warptile.speedup[over=sgemm_naive]', (8, 8 * 0.98 / 1.02, 8 * 1.02 / 0.98)),  # shares, not 1000/125
        ('hgemm_naive_bf16.speedup[over=sgemm_naive]', (20, 20 * 0.99 / 1.01, 20 * 1.01 / 0.99)),  # no common baseline
        ('sgemm_naive.flop_per_clock_sm', (100, 99.5, 100.5)),
        ('sgemm_naive.peak_share', (0.5, 0.4975, 0.5025)),
        ('hgemm_naive_bf16.peak_share', (0.1, 0.0995, 0.1005)),  # of the better tensor ceiling
        ('sgemm_naive.sm_clock_mhz', (1900, 1890, 1905)),
        ('sgemm_naive.power_w', (500,) * 3), ('sgemm_naive.temperature_c', (50,) * 3),
        ('sgemm_naive.gflop_per_j', (1000,) * 3), ('sgemm_naive.throttle_reasons', "none"),
        ('sgemm_naive.occupancy', (0.5,) * 3), ('sgemm_naive.limiter', "registers"),
        ('sgemm_naive.global_load_sectors', (320,) * 3),
        ('sgemm_naive.shared_load_wavefronts[device=ptxsim]', (29,) * 3),
        ('sgemm_naive.global_load_bytes_per_sector', (4.5,) * 3),
        ('sgemm_naive.global_load_sectors_per_request', (32,) * 3),
        ('sgemm_naive.shared_load_wavefronts', (30,) * 3), ('sgemm_naive.shared_load_conflict_factor', (1.5,) * 3),
        ('sgemm_naive.shared_store_conflict_factor', (1,) * 3), ('sgemm_naive.dram_bytes', (4500,) * 3),
        ('sgemm_naive.l1_hit_rate', (40,) * 3), ('sgemm_naive.l2_hit_rate', (90,) * 3),
        ('sgemm_naive.stall_barrier', (0.25,) * 3), ('sgemm_naive.instructions', (1e6,) * 3),
        ('sgemm_naive.waves', (1.5,) * 3), ('sgemm_naive.achieved_occupancy', (24,) * 3),
        ('sgemm_naive.eligible_warps', (0.7,) * 3), ('sgemm_naive.issue_active', (61,) * 3),
        ('sgemm_naive.kernel', "naive_kernel"),
        ('sgemm_naive.bound_issue', (7,) * 3), ('sgemm_naive.bound_shared', (0,) * 3),
        ('sgemm_naive.bottleneck', "issue"),  # tail is larger, and no resource of its own
        ('sgemm_naive.protocol_us[protocol=no_flush]', (90,) * 3), ('sgemm_naive.gap[protocol=no_flush]', (0.9,) * 3),
        ('fastest(sgemm_warptile.share, sgemm_naive.share)', "sgemm_warptile"),
        ('fastest(sgemm_warptile.tflops, hgemm_naive_bf16.tflops)', "hgemm_naive_bf16"),
        ('fastest(sgemm_warptile.gflop_per_j, sgemm_naive.gflop_per_j)', "sgemm_naive"),
        ("fastest(sgemm_warptile.flop_per_clock_sm, sgemm_vectorized.flop_per_clock_sm)",
         "sgemm_warptile or sgemm_vectorized"),
        ('sgemm_warptile.crossover[over=sgemm_vectorized]', (2048, 2048, 2048)),
        ('sgemm_vectorized.crossover[over=sgemm_warptile]', (float("inf"),) * 3),
        ('min(sgemm_warptile.share[n] for n in sgemm_warptile.sizes)', (0.5, 0.49, 0.51)),
        ('max(sgemm_warptile.share[n] for n in sgemm_warptile.sizes)', (1.5, 1.47, 1.53)),
        ("mean(n for n in [2, 4])", (3,) * 3), ("mean(2, 4)", (3,) * 3),
        ('machine("sm_count")', (132,) * 3), ('machine("dram_copy_gb_per_s")', (1000,) * 3),
        ('machine("gpu")', "Planted GPU"),
        ('sgemm_naive.check_worst', (0.5,) * 3),
        ('analytic("a-case", "degree")', (8,) * 3), ('analytic("a-case", "limiter")', "shared"),
        ('published("a-number")', (6.4,) * 3),
        ("min(3, 2) + max([1, 5]) + abs(-1) + log2(8) + sum([1, 2])", (14,) * 3),
    ],
)  # fmt: skip
def test_each_function_reads_its_table(expression: str, expected: Any, ask: Ask) -> None:
    found = ask(expression)
    if isinstance(expected, str):
        assert found == expected
    else:
        found = Estimate.of(found)
        assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-6)


def test_sizes_and_parts_of_texts(ask: Ask) -> None:
    assert ask("sgemm_warptile.sizes") == (1024, 2048, 4096)
    assert ask('contains(sgemm_naive.kernel, "NAIVE")').holds is True
    assert ask('contains("a", "b")').holds is False


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("sgemm_naive.time_us[512]", "bench.csv has no row of sgemm_naive at n = 512, unlocked, uniform"),
        ("sgemm_naive.share[regime=locked]", "sgemm_naive at n = 4096, locked, uniform (not asked for)"),
        ("sgemm_naive.fma_pipe", "counters.csv has no row of sgemm_naive, sm__pipe_fma_cycles_active"),
        ("sgemm_warptile.registers", "resources.csv has no row of sgemm_warptile"),
        ("sgemm_warptile.bound_fma", "bounds.csv has no row of sgemm_warptile, fma, at n = 4096"),
        ("sgemm_naive.sanitizer_errors", "sanitizer.csv has no row of sgemm_naive, memcheck (no tool there)"),
        ("tuned('BK')", "no sweep over tiles: there is no tuning.csv"),
        ('inter_warp_conflicts("x", "loads")', "inter_warp_conflicts.csv has no row of kernel = x"),
        ('bank_wavefronts("ld_32", "stride 1")', "smem_microbench.csv has no row of ld_32, stride 1"),
        ("sgemm_vectorized.check_worst", "checks.csv has no row of sgemm_vectorized on gpu"),
        ("sgemm_naive.crossover[over=sgemm_warptile]", "fewer than two sizes of both"),
        ("sgemm_warptile.shared_load_conflict_factor", "counters.csv has no row of sgemm_warptile"),
    ],
)
def test_what_the_tables_lack_is_no_error(expression: str, why: str, ask: Ask) -> None:
    claim = {"id": "a", "theirs": 1, "measure": expression, "rule": {"near": 1}}
    found = verdicts.judge(claim, ask)
    untargeted = "fewer than two sizes" in why
    assert found.verdict == ("not testable here" if untargeted else "not measured") and why in found.why


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('sgemm_naiv.share', "unknown variant 'sgemm_naiv' in kernels/catalogue.yaml; nearest: sgemm_naive"),
        ('sgemm_naive.share[data=ones]', "unknown data 'ones' in bench.csv"),
        ('sgemm_naive.share[regime=free]', "unknown regime 'free' in bench.csv"),
        ('sgemm_naive.share[experiment=sgemm_lader]', "unknown experiment 'sgemm_lader' in experiments/; nearest"),
        ('sgemm_naive.share[0.5]', "n = 0.500 is not allowed; allowed: a whole number above zero"),
        ('sgemm_naive.l1_hits', "unknown quantity 'l1_hits' in sgemm_naive.l1_hits; nearest: "),
        ('sgemm_naive.register', "unknown quantity 'register' in sgemm_naive.register; nearest: registers"),
        ('sgemm_naive.bound_dram_read', "unknown quantity 'bound_dram_read' in "),
        ("sgemm_naive.share[m=4096]", "unknown selector 'm' in share; valid: data, experiment, machine, n, regime"),
        ("sgemm_naive.speedup", "speedup needs over: sgemm_naive.speedup[over=...]"),
        ("sgemm_naive.speedup[over=sgemm_naiv]", "unknown variant 'sgemm_naiv' in kernels/catalogue.yaml"),
        ('analytic("a-caze", "degree")', "unknown case 'a-caze' in analytic.csv; nearest: a-case"),
        ('analytic("a-case", "degrees")', "unknown quantity 'degrees' in analytic.csv: a-case; nearest: degree"),
        ('published("a-numbr")', "unknown id 'a-numbr' in published.csv; nearest: a-number"),
        ('machine("sm_cout")', "unknown key 'sm_cout' in machine.json; nearest: sm_count"),
        ("fastest(sgemm_naive.share)", "fastest needs at least two variants"),
        ("count([1])", "count takes a list of comparisons"),
    ],
)  # fmt: skip
def test_a_typo_is_an_error_that_names_the_claim(expression: str, said: str, ask: Ask) -> None:
    claim = {"id": "a-claim", "theirs": 1, "measure": expression, "rule": {"near": 1}}
    with pytest.raises(UserError, match=r"^a-claim: ") as error:
        verdicts.judge(claim, ask)
    assert expression in str(error.value) and said in str(error.value)


def test_stale_and_failed_variants_are_not_testable(planted: Planted) -> None:
    planted.write("checks", [planted.check("sgemm_naive", 0.25), planted.check("sgemm_warptile", 2.0, passed=False)])
    planted.hashes["sgemm_naive"] = "0" * 16
    for name in ("resources", "bounds"):
        planted.write(name, [r | {"source_hash": "0" * 16} for r in read_rows(planted.folder / f"{name}.csv", name)])
    planted.write("bench", planted_bench())
    ask = planted.ask()
    for key, table_name in {"share": "bench", "registers": "resources", "bottleneck": "bounds"}.items():
        why = f"^stale: the source of sgemm_naive changed since {table_name}.csv was made$"
        with pytest.raises(Missing, match=why):
            ask(f"sgemm_naive.{key}")
    for of_failed in ("sgemm_warptile.share", "sgemm_vectorized.speedup[over=sgemm_warptile]"):
        with pytest.raises(Missing, match="sgemm_warptile failed a check here"):
            ask(of_failed)


def test_a_speedup_is_of_shares_in_turns_where_both_rows_have_them(planted: Planted) -> None:
    """Not of the headline's, which may be of each alone: there they are 8 apart."""
    in_turns = {"sgemm_naive": 0.2, "sgemm_warptile": 0.6}
    rows = [
        row | (estimate(IN_TURNS, in_turns[row["variant"]], 0.01) if row["variant"] in in_turns else {})
        for row in planted_bench()
    ]
    planted.write("bench", rows)
    ask = planted.ask()
    assert ask("sgemm_warptile.speedup[over=sgemm_naive]").value == pytest.approx(3)
    assert ask("sgemm_warptile.speedup[over=sgemm_vectorized]").value == pytest.approx(0.8 / 0.5)


def test_a_table_shows_what_is_stale_and_marks_it(planted: Planted) -> None:
    planted.hashes["sgemm_naive"] = "0" * 16
    planted.write("bench", planted_bench())
    machine = planted.machine()
    assert machine.plain("sgemm_naive", "share") == 0.1 and machine.stale("sgemm_naive", "share")
    assert machine.plain("sgemm_naive", "share", 512) is None and not machine.stale("sgemm_naive", "share", 512)


def test_the_sweep_over_tiles(archive: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path, archive)
    inputs = Inputs.of_folder(folder.measured, folder.variants, archived=True)
    ask = verdicts.asking(Paper({}, [], [], {}), Machine(inputs))
    rows = [r for r in read_rows(folder.measured / "tuning.csv", "tuning") if r["kernel"] == "sgemm_autotuned"]
    timed = [row for row in rows if row["tflops"] and row["checked"]]
    best = max(timed, key=lambda row: row["tflops"])
    if autotune.of(inputs).stale("sgemm_autotuned"):
        pytest.skip("the archived sweep is of another source")
    assert ask('tuned("BK")').value == best["BK"]
    eight = [row for row in timed if row["BK"] == 8 and row["TM"] == 8]
    assert ask("tile_share(BK=8, TM=8)").value == max(row["share_of_cublas"] for row in eight)
    assert ask('tile("registers", BK=8, TM=8)').value == max(eight, key=lambda r: r["tflops"])["registers"]
    counts = [ask(f"tile_count({x})").value for x in ("", "valid=True", "valid=False")]
    assert counts == [len(rows), sum(r["valid"] for r in rows), sum(not r["valid"] for r in rows)]
    with pytest.raises(Missing, match="no timed tile of sgemm_autotuned with n = 4096, BK = 7"):
        ask("tile_share(BK=7)")
    with pytest.raises(UserError, match="unknown tile parameter 'BX' in tuning"):
        ask("tile_share(BX=7)")


# ---- tables of the paper's own, and of problems outside the ladder --------------------------------------------------


def test_what_other_gpus_get_compiled_and_what_reads_c(planted: Planted) -> None:
    """compiled.csv and emulated.csv are the paper's: no machine has another value."""
    compiled = {("sgemm_naive", "sm_86"): {"registers": 40, "limiter": "threads", "tex": None}}
    metric = "memory_l2_theoretical_sectors_global"
    emulated = {("sgemm_naive", 4096, 1.0, metric): 7.0}
    ask = planted.ask(compiled=compiled, emulated=emulated)
    assert ask("sgemm_naive.registers[arch=sm_86] + 2").value == 42
    assert ask("sgemm_naive.limiter[arch=sm_86]") == "threads"
    assert ask("sgemm_naive.global_sectors_l2[beta=1, device=ptxsim]").value == 7
    for lacking, said in (
        ("sgemm_naive.registers[arch=sm_120]", "compiled.csv has no row of sgemm_naive for sm_120"),
        ("sgemm_naive.tex[arch=sm_86]", "compiled.csv has no tex of sgemm_naive for sm_86"),
        ("sgemm_naive.global_sectors_l2[beta=2, device=ptxsim]", "at n = 4096 and beta = 2"),
        ("sgemm_naive.global_sectors_l2[beta=1]", "counters_with_beta.csv has no row of sgemm_naive"),
    ):
        with pytest.raises(Missing, match=said):
            ask(lacking)


def test_counters_with_beta_stand_in_a_table_of_their_own(planted: Planted) -> None:
    planted.write("counters_with_beta", [planted.counter("global_load_sectors", 500.0) | {"beta": 1.0}])
    ask = planted.ask()
    assert ask("sgemm_naive.global_load_sectors[beta=1]").value == 500
    assert ask("sgemm_naive.global_load_sectors").value == 320


def test_watts_are_within_what_all_windows_drew(planted: Planted) -> None:
    rows = planted_bench()
    for row in rows:
        if row["variant"] == "sgemm_naive" and row["n"] == 4096 and row["experiment"] == "occupancy":
            row["power_w"] = 530.0
    planted.write("bench", rows)
    found = planted.ask()("sgemm_naive.power_w")
    assert (found.value, found.low, found.high) == (500, 500, 530)


def test_sizes_are_counted_where_a_comparison_is_true(ask: Ask) -> None:
    assert ask("count(sgemm_warptile.share[n] > 0 for n in sgemm_warptile.sizes)").value == 3
    assert ask("count(sgemm_warptile.share[n] > 99 for n in sgemm_warptile.sizes)").value == 0
    assert ask("count(v.share > 0.2 for v in (sgemm_naive, sgemm_warptile))").value == 1


# ---- on another machine ----------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path, variants_csv: Path) -> Ask:
    """Two archives, `planted` and `other`, which has half of the shares, and no timing of sgemm_vectorized."""
    folders = {name: Planted(tmp_path / name, variants_csv) for name in ("planted", "other")}
    rows = [row | {key: row[key] / 2 for key in SHARE} for row in planted_bench()]
    other = folders["other"]
    other.write("bench", [row for row in rows if row["variant"] != "sgemm_vectorized"])
    other.document("provenance", {"machine": "other"})
    archives = tuple(folder.folder for folder in folders.values())
    here = folders["planted"].machine().inputs
    return verdicts.asking(Paper({}, [], [], {}), Machine(dataclasses.replace(here, archives=archives)))


def test_a_quantity_of_another_machine_is_that_of_its_archive(two: Ask) -> None:
    assert two("sgemm_warptile.share[machine=other]").value == two("sgemm_warptile.share").value / 2 == 0.4
    assert two("sgemm_warptile.share[1024, machine=other, data=uniform]").value == 0.25
    assert two('sgemm_warptile.share[machine="planted"] / sgemm_warptile.share[machine=other]').value == 2
    assert two("sgemm_warptile.share[machine=other] < sgemm_warptile.share").holds is True
    assert two("sgemm_warptile.sizes[machine=other]") == (1024, 2048, 4096)
    assert two("sgemm_warptile.speedup[over=sgemm_naive, machine=other]").value == 8
    assert two("max([sgemm_warptile.share[machine=m] for m in (planted, other)])").value == 0.8


def test_another_machine_s_missing_value_and_an_unknown_machine_are_one_line_each(two: Ask) -> None:
    claim = {"id": "a", "theirs": 1, "measure": "sgemm_vectorized.share[machine=other]", "rule": {"near": 1}}
    found = verdicts.judge(claim, two)
    why = "on other: bench.csv has no row of sgemm_vectorized at n = 4096, unlocked, uniform; this measures it: "
    assert found.verdict == "not measured" and found.why.startswith(why)
    for expression, said in (
        ("sgemm_warptile.share[machine=othr]", "unknown machine 'othr' in data/; nearest: other"),
        ("sgemm_warptile.share[machine=3]", "unknown machine 3 in data/; valid: other, planted"),
        ("sgemm_warptile.template[machine=other]", "unknown selector 'machine' in template; valid: "),
    ):
        with pytest.raises(UserError) as error:
            two(expression)
        assert str(error.value).startswith(said)


def test_without_a_plan_the_other_machines_are_those_in_data(planted: Planted) -> None:
    machine = planted.machine()
    assert list(machine.archives) == [folder.name for folder in archives.folders(ROOT)]
    with pytest.raises(UserError, match=r"^a.txt:1: unknown machine 'h2000' in data/; nearest: h200, "):
        judged("sgemm_warptile.share[machine=h2000] > 0", machine, Path("a.txt"))
