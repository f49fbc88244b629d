"""What a claim's expression may ask of a machine's tables: each function, what the tables lack, and typos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machine_folder import Folder
from planted import EXPERIMENTS, Planted, planted_bench

from analysis.claims import verdicts, vocabulary
from analysis.claims.estimates import Estimate
from analysis.claims.expressions import evaluate
from analysis.claims.machine_tables import Machine, Missing
from analysis.claims.vocabulary import Vocabulary
from contracts import UserError, read_rows


@pytest.fixture
def planted(tmp_path: Path, variants_csv: Path) -> Planted:
    return Planted(tmp_path, variants_csv)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory, variants_csv: Path) -> dict[str, Callable[..., Any]]:
    return Planted(tmp_path_factory.mktemp("words"), variants_csv).words()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('time_us("sgemm_naive")', (1000, 990, 1010)),
        ('time_us("sgemm_naive", experiment="occupancy")', (9000, 9000, 9000)),
        ('tflops("sgemm_naive")', (2e-9 * 4096**3, 2e-6 * 4096**3 / 1010, 2e-6 * 4096**3 / 990)),
        ('share("sgemm_warptile", n=1024)', (0.5, 0.49, 0.51)),
        ('speedup("sgemm_warptile", "sgemm_naive")', (8, 8 * 0.98 / 1.02, 8 * 1.02 / 0.98)),  # shares, not 1000/125
        ('speedup("hgemm_naive_bf16", "sgemm_naive")', (20, 20 * 0.99 / 1.01, 20 * 1.01 / 0.99)),  # no common baseline
        ('flop_per_clock("sgemm_naive")', (100, 100 / 1.01, 100 / 0.99)),
        ('peak_share("sgemm_naive")', (0.5, 0.5 / 1.01, 0.5 / 0.99)),
        ('peak_share("hgemm_naive_bf16")', (0.1, 0.1 / 1.01, 0.1 / 0.99)),  # of the better tensor ceiling
        ('sm_clock("sgemm_naive")', (1900, 1890, 1905)),
        ('power_w("sgemm_naive")', (500,) * 3), ('temperature_c("sgemm_naive")', (50,) * 3),
        ('gflop_per_j("sgemm_naive")', (1000,) * 3), ('throttle_reasons("sgemm_naive")', "none"),
        ('resource("sgemm_naive", "occupancy")', (0.5,) * 3), ('resource("sgemm_naive", "limiter")', "registers"),
        ('counter("sgemm_naive", "global_load_sectors")', (320,) * 3),
        ('counter("sgemm_naive", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")', (320,) * 3),
        ('predicted("sgemm_naive", "shared_load_wavefronts")', (29,) * 3),
        ('bytes_per_sector("sgemm_naive", "load")', (4.5,) * 3),
        ('sectors_per_request("sgemm_naive", "load")', (32,) * 3),
        ('wavefronts("sgemm_naive", "load")', (30,) * 3), ('conflicts("sgemm_naive", "load")', (1.5,) * 3),
        ('conflicts("sgemm_naive", "store")', (1,) * 3), ('dram_bytes("sgemm_naive")', (4500,) * 3),
        ('l1_hit("sgemm_naive")', (40,) * 3), ('l2_hit("sgemm_naive")', (90,) * 3),
        ('stall("sgemm_naive", "barrier")', (0.25,) * 3), ('instructions("sgemm_naive")', (1e6,) * 3),
        ('waves("sgemm_naive")', (1.5,) * 3), ('achieved_occupancy("sgemm_naive")', (24,) * 3),
        ('warps_eligible("sgemm_naive")', (0.7,) * 3), ('issue_active("sgemm_naive")', (61,) * 3),
        ('kernel_name("sgemm_naive")', "naive_kernel"),
        ('bound("sgemm_naive", "issue")', (7,) * 3), ('bound("sgemm_naive", "shared")', (0,) * 3),
        ('bottleneck("sgemm_naive")', "issue"),  # tail is larger, and no resource of its own
        ('protocol_us("sgemm_naive", "no_flush")', (90,) * 3), ('gap("sgemm_naive", "no_flush")', (0.9,) * 3),
        ('fastest(4096, "sgemm_warptile", "sgemm_naive")', "sgemm_warptile"),
        ('fastest(4096, "sgemm_warptile", "hgemm_naive_bf16")', "hgemm_naive_bf16"),
        ('fastest(4096, "sgemm_warptile", "sgemm_naive", per="joule")', "sgemm_naive"),
        ('fastest(4096, "sgemm_warptile", "sgemm_vectorized", per="clock")', "sgemm_warptile or sgemm_vectorized"),
        ('crossover("sgemm_warptile", "sgemm_vectorized")', (2048, 2048, 2048)),
        ('crossover("sgemm_vectorized", "sgemm_warptile")', (float("inf"),) * 3),
        ('min_over(lambda n: share("sgemm_warptile", n), sizes("sgemm_warptile"))', (0.5, 0.49, 0.51)),
        ('max_over(lambda n: share("sgemm_warptile", n), sizes("sgemm_warptile"))', (1.5, 1.47, 1.53)),
        ('mean_over(lambda n: n, [2, 4])', (3,) * 3), ('spread(lambda n: n, [2, 8])', (4,) * 3),
        ('machine("sm_count")', (132,) * 3), ('machine("dram_copy_gb_per_s")', (1000,) * 3),
        ('machine("gpu")', "Planted GPU"),
        ('check_worst("sgemm_naive")', (0.5,) * 3),
        ('analytic("a-case", "degree")', (8,) * 3), ('analytic("a-case", "limiter")', "shared"),
        ('published("a-number")', (6.4,) * 3),
        ("min(3, 2) + max([1, 5]) + abs(-1) + log2(8) + sum([1, 2])", (14,) * 3),
    ],
)  # fmt: skip
def test_each_function_reads_its_table(expression: str, expected: Any, words: dict[str, Callable[..., Any]]) -> None:
    found = evaluate(expression, words)
    if isinstance(expected, str):
        assert found == expected
    else:
        found = Estimate.of(found)
        assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-6)


def test_sizes_and_parts_of_texts(words: dict[str, Callable[..., Any]]) -> None:
    assert evaluate('sizes("sgemm_warptile")', words) == (1024, 2048, 4096)
    assert evaluate('contains(kernel_name("sgemm_naive"), "NAIVE")', words).holds is True
    assert evaluate('contains("a", "b")', words).holds is False


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ('time_us("sgemm_naive", n=512)', "bench.csv has no row of sgemm_naive at n = 512, unlocked, uniform"),
        ('share("sgemm_naive", regime="locked")', "sgemm_naive at n = 4096, locked, uniform (not asked for)"),
        ('counter("sgemm_naive", "fma_pipe")', "counters.csv has no row of sgemm_naive, sm__pipe_fma_cycles_active"),
        ('resource("sgemm_warptile", "registers")', "resources.csv has no row of sgemm_warptile"),
        ('bound("sgemm_warptile", "fma")', "bounds.csv has no row of sgemm_warptile, fma, at n = 4096"),
        ('sanitizer_errors("sgemm_naive")', "sanitizer.csv has no row of sgemm_naive, memcheck (no tool there)"),
        ("tuned('BK')", "no sweep over tiles: there is no tuning.csv"),
        ('inter_warp_conflicts("x", "loads")', "inter_warp_conflicts.csv has no row of kernel = x"),
        ('bank_wavefronts("ld_32", "stride 1")', "smem_microbench.csv has no row of ld_32, stride 1"),
        ('check_worst("sgemm_vectorized")', "checks.csv has no row of sgemm_vectorized on gpu"),
        ('crossover("sgemm_naive", "sgemm_warptile")', "fewer than two sizes of both"),
        ('conflicts("sgemm_warptile", "load")', "counters.csv has no row of sgemm_warptile"),
    ],
)
def test_what_the_tables_lack_is_no_error(expression: str, why: str, words: dict[str, Callable[..., Any]]) -> None:
    claim = {"id": "a", "theirs": 1, "measure": expression, "rule": {"near": 1}}
    found = verdicts.judge(claim, words)
    assert found.verdict == "not testable here" and why in found.why


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('share("sgemm_naiv")', "unknown variant 'sgemm_naiv' in kernels/catalogue.yaml; nearest: sgemm_naive"),
        ('share("sgemm_naive", data="ones")', "unknown data 'ones' in bench.csv"),
        ('share("sgemm_naive", regime="free")', "unknown regime 'free' in bench.csv"),
        ('share("sgemm_naive", experiment="sgemm_lader")', "unknown experiment 'sgemm_lader' in experiments/; nearest"),
        ('share("sgemm_naive", n=0.5)', "n = 0.500 is not allowed; allowed: a whole number above zero"),
        ('counter("sgemm_naive", "l1_hits")', "unknown counter 'l1_hits' in contracts/metrics.yaml; nearest: "),
        ('resource("sgemm_naive", "register")', "unknown column 'register' in resources.csv; nearest: registers"),
        ('bound("sgemm_naive", "dram_read")', "unknown resource 'dram_read' in bounds.csv; nearest: dram"),
        ('conflicts("sgemm_naive", "loads")', "unknown side 'loads' in the expression; nearest: load"),
        ('analytic("a-caze", "degree")', "unknown case 'a-caze' in analytic.csv; nearest: a-case"),
        ('analytic("a-case", "degrees")', "unknown quantity 'degrees' in analytic.csv: a-case; nearest: degree"),
        ('published("a-numbr")', "unknown id 'a-numbr' in published.csv; nearest: a-number"),
        ('machine("sm_cout")', "unknown key 'sm_cout' in machine.json; nearest: sm_count"),
        ('fastest(4096, "sgemm_naive")', "fastest needs at least two variants"),
        ('min_over("sgemm_naive", [1])', "expected a lambda of n, and sizes"),
    ],
)  # fmt: skip
def test_a_typo_is_an_error_that_names_the_claim(
    expression: str, said: str, words: dict[str, Callable[..., Any]]
) -> None:
    claim = {"id": "a-claim", "theirs": 1, "measure": expression, "rule": {"near": 1}}
    with pytest.raises(UserError, match=r"^a-claim: ") as error:
        verdicts.judge(claim, words)
    assert expression in str(error.value) and said in str(error.value)


def test_stale_and_failed_variants_are_not_testable(planted: Planted) -> None:
    planted.write("checks", [planted.check("sgemm_naive", 0.25), planted.check("sgemm_warptile", 2.0, passed=False)])
    planted.hashes["sgemm_naive"] = "0" * 16
    for name in ("resources", "bounds"):
        planted.write(name, [r | {"source_hash": "0" * 16} for r in read_rows(planted.folder / f"{name}.csv", name)])
    planted.write("bench", planted_bench())
    words = planted.words()
    for expression, table_name in {"share": "bench", "resource": "resources", "bottleneck": "bounds"}.items():
        arguments = '"sgemm_naive", "registers"' if expression == "resource" else '"sgemm_naive"'
        with pytest.raises(
            Missing, match=f"^stale: the source of sgemm_naive changed since {table_name}.csv was made$"
        ):
            evaluate(f"{expression}({arguments})", words)
    with pytest.raises(Missing, match="sgemm_warptile failed a check here"):
        evaluate('share("sgemm_warptile")', words)


def test_the_sweep_over_tiles(archive: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path, archive)
    machine = Machine.read(folder.measured, folder.variants, archived=True)
    words = Vocabulary(machine, {}, {}, EXPERIMENTS).functions()
    rows = [r for r in read_rows(folder.measured / "tuning.csv", "tuning") if r["kernel"] == "sgemm_autotuned"]
    timed = [row for row in rows if row["tflops"] and row["checked"]]
    best = max(timed, key=lambda row: row["tflops"])
    if machine.tuning.stale("sgemm_autotuned"):
        pytest.skip("the archived sweep is of another source")
    assert evaluate('tuned("BK")', words).value == best["BK"]
    eight = [row for row in timed if row["BK"] == 8 and row["TM"] == 8]
    assert evaluate("tile_share(BK=8, TM=8)", words).value == max(row["share_of_cublas"] for row in eight)
    assert evaluate('tile("registers", BK=8, TM=8)', words).value == max(eight, key=lambda r: r["tflops"])["registers"]
    counts = [evaluate(f"tile_count({x})", words).value for x in ("", "valid=True", "valid=False")]
    assert counts == [len(rows), sum(r["valid"] for r in rows), sum(not r["valid"] for r in rows)]
    with pytest.raises(Missing, match="no timed tile of sgemm_autotuned with n = 4096, BK = 7"):
        evaluate("tile_share(BK=7)", words)
    with pytest.raises(UserError, match="unknown tile parameter 'BX' in tuning"):
        evaluate("tile_share(BX=7)", words)


def test_a_thing_is_looked_up_once_and_an_error_is_told_each_time(words: dict[str, Callable[..., Any]]) -> None:
    assert words["tflops"]("sgemm_naive") is words["tflops"]("sgemm_naive")
    for _ in range(2):
        with pytest.raises(Missing, match="n = 512"):
            words["time_us"]("sgemm_naive", n=512)
    asked: list[object] = []
    noted = vocabulary._once(lambda *values: asked.append(values))
    for value in (1, 1.0, True, 1, [1], [1]):
        noted(value)
    assert asked == [(1,), (1.0,), (True,), ([1],), ([1],)]


# ---- tables of the paper's own, and of problems beside the ladder's --------------------------------------------------


def test_what_other_gpus_get_compiled_and_what_reads_c(planted: Planted) -> None:
    """compiled.csv and emulated.csv are the paper's: no machine has another value."""
    machine = Machine.read(planted.folder, planted.variants, archived=True)
    compiled = {("sgemm_naive", "sm_86"): {"registers": 40, "limiter": "threads", "tex": None}}
    metric = "memory_l2_theoretical_sectors_global"
    emulated = {("sgemm_naive", 4096, 1.0, metric): 7.0}
    words = Vocabulary(machine, {}, {}, EXPERIMENTS, compiled, emulated).functions()
    assert evaluate('compiled("sgemm_naive", "sm_86", "registers") + 2', words).value == 42
    assert evaluate('compiled("sgemm_naive", "sm_86", "limiter")', words) == "threads"
    assert evaluate('emulated("sgemm_naive", "global_sectors_l2", beta=1)', words).value == 7
    for lacking, said in (
        ('compiled("sgemm_naive", "sm_120", "registers")', "compiled.csv has no row of sgemm_naive for sm_120"),
        ('compiled("sgemm_naive", "sm_86", "tex")', "compiled.csv has no tex of sgemm_naive for sm_86"),
        ('emulated("sgemm_naive", "global_sectors_l2", beta=2)', "at n = 4096 and beta = 2"),
        ('counter("sgemm_naive", "global_sectors_l2", beta=1)', "counters_with_beta.csv has no row of sgemm_naive"),
    ):
        with pytest.raises(Missing, match=said):
            evaluate(lacking, words)


def test_counters_with_beta_stand_in_a_table_of_their_own(planted: Planted) -> None:
    planted.write("counters_with_beta", [planted.counter("global_load_sectors", 500.0) | {"beta": 1.0}])
    words = planted.words()
    assert evaluate('counter("sgemm_naive", "global_load_sectors", beta=1)', words).value == 500
    assert evaluate('counter("sgemm_naive", "global_load_sectors")', words).value == 320


def test_watts_are_within_what_all_windows_drew(planted: Planted) -> None:
    rows = planted_bench()
    for row in rows:
        if row["variant"] == "sgemm_naive" and row["n"] == 4096 and row["experiment"] == "occupancy":
            row["power_w"] = 530.0
    planted.write("bench", rows)
    found = evaluate('power_w("sgemm_naive")', planted.words())
    assert (found.value, found.low, found.high) == (500, 500, 530)


def test_sizes_are_counted_where_a_comparison_is_true(words: dict[str, Callable[..., Any]]) -> None:
    of = 'share("sgemm_warptile", n)'
    assert evaluate(f'count_over(lambda n: {of} > 0, sizes("sgemm_warptile"))', words).value >= 1
    assert evaluate(f'count_over(lambda n: {of} > 99, sizes("sgemm_warptile"))', words).value == 0
    with pytest.raises(UserError, match="count_over takes a lambda that compares"):
        evaluate(f'count_over(lambda n: {of}, sizes("sgemm_warptile"))', words)
