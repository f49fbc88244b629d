"""bench.csv is what samples.parquet and windows.csv say: of the archives, and of planted ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from helpers import ROOT, assert_one_line, run_module

from analysis import bench, inputs
from analysis.statistics import SHARE, TIME
from contracts import UserError, read_rows, registry, write_rows
from contracts.samples import GAP, OFF_TARGET, read_samples, samples_table, write_samples
from experiments.stages.bench import worklog_replays
from experiments.stages.turns import drawn_order

ARCHIVES = sorted(path.parent for path in ROOT.glob("data/*/samples.parquet"))
HEAD = {"experiment": "e", "variant": "v", "m": 64, "n": 64, "k": 64, "alpha": 1.0, "beta": 0.0}
HEAD |= {"regime": "unlocked", "data": "uniform", "process": 0}
WINDOW = HEAD | {
    **{"dtype": "fp32", "mechanism": "as found", "locked_sm_mhz": None, "baseline": "b", "seed": 1, "passed": True},
    **{"left_out": None, "power_w": 500.0, "power_run_us": 2.0, "temperature_c": 40.0, "throttle_reasons": "none"},
    "source_hash": "0",
    "b_layout": "row",
    **{"lease": None, "process": 0, "baseline_run_us": None},
}
FLOP = 2 * 64**3


def planted(ours: Any, theirs: Any = (3.0,) * 6, rejected: dict[int, str] | None = None, **head: Any) -> pd.DataFrame:
    """Samples in turns with these times in us; `rejected` says why ours of these numbers do not count."""
    roles = np.repeat(["variant", "baseline"], [len(ours), len(theirs)])
    reasons = np.full(len(roles), None, object)
    for index, reason in (rejected or {}).items():
        reasons[index] = reason
    columns = {"window": "interleaved", "role": roles, "index": np.arange(len(roles)), "time_us": [*ours, *theirs]}
    columns |= {"sm_clock_mhz": np.full(len(roles), 1500.0, np.float32), "reason": reasons}
    columns["kept"] = [reason is None for reason in reasons]
    return samples_table(len(roles), HEAD | columns | head).to_pandas()


def derived(samples: pd.DataFrame, **window: Any) -> list[dict[str, Any]]:
    return bench.derive([WINDOW | window], samples, 10, "windows.csv")


# ---- the archives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ARCHIVES, ids=lambda path: path.name)
def test_a_row_of_an_archive_depends_on_its_own_samples_alone(folder: Path, tmp_path: Path) -> None:
    """To the last digit: a part of the windows gives the same rows as all of them."""
    files = {name: folder / file for name, file in FILES.items()}
    table = inputs.derived(registry.tables()["bench"], files | {"machine": folder / "machine.json"})
    windows = read_rows(files["windows"], "windows")
    counted = [(bench_key(row), row["process"]) for row in windows if row["passed"] and not row["left_out"]]
    assert len(set(counted)) == len(counted)  # a row is of one window of each of its processes
    assert list(dict.fromkeys(key for key, _ in counted)) == list(map(bench_key, table))
    chosen = {bench_key(row) for row in table if row["experiment"] == "sgemm_ladder"}
    samples = read_samples(files["samples"])
    write_rows(tmp_path / "windows.csv", "windows", [row for row in windows if bench_key(row) in chosen])
    rows = pd.MultiIndex.from_frame(samples.select(bench.KEY).to_pandas().astype({"m": int, "n": int, "k": int}))
    write_samples(tmp_path / "samples.parquet", [samples.filter(rows.isin(chosen))])
    done = derive_files(tmp_path, folder / "machine.json")
    assert done.returncode == 0, done.stderr
    kept = [row for row in table if bench_key(row) in chosen]
    assert len(kept) >= 20 and read_rows(tmp_path / "bench.csv", "bench") == kept


def bench_key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in bench.KEY)


def derive_files(folder: Path, machine: Path) -> Any:
    arguments = [f"--{name}={folder / file}" for name, file in FILES.items()]
    return run_module("analysis.bench", *arguments, "--machine", machine, "--out", folder / "bench.csv")


FILES = {"samples": "samples.parquet", "windows": "windows.csv"}


# ---- planted samples -------------------------------------------------------------------------------------------------


def test_what_the_columns_are_of() -> None:
    (row,) = derived(planted([2.0, 4.0, 2.0, 2.0, 2.0], [3.0, 3.0, 1.0, 3.0]))
    assert (row["time_us_median"], row["share_of_baseline"], row["samples"], row["rejected"]) == (2.0, 1.5, 5, 0)
    (_, shortest, longest), (_, least, most) = TIME, SHARE
    assert row[shortest] == 2.0 <= row[longest] <= 4.0
    assert row[least] < 1.5 <= row[most]
    assert row["tflops"] == pytest.approx(FLOP / 2.0 / 1e6)
    assert row["flop_per_clock_sm"] == pytest.approx(FLOP / (2.0 * 1500 * 10))
    assert row["gflop_per_j"] == pytest.approx(FLOP / (500.0 * 2.0 / 1e6) / 1e9)
    assert row["time_us_worklog"] is None
    assert {name: row[name] for name in bench.COPIED} == {name: WINDOW[name] for name in bench.COPIED}


@pytest.mark.parametrize("reason", [GAP, OFF_TARGET])
def test_a_sample_that_is_not_kept_counts_for_nothing(reason: str) -> None:
    times = [2.0, 2.1, 2.2, 2.1, 2.0, 2.3]
    (alone,), (rejected,) = (
        derived(planted(times)),
        derived(planted([*times, 9.0, 99.0], rejected={6: reason, 7: reason})),
    )
    assert rejected.pop("rejected") == 2 and alone.pop("rejected") == 0
    assert rejected == alone
    (theirs,) = derived(planted(times, [3.0] * 6 + [99.0], rejected={12: reason}))
    assert theirs["share_of_baseline"] == alone["share_of_baseline"] and theirs["rejected"] == 0


def processes(*runs: tuple[float, float], **window: Any) -> list[dict[str, Any]]:
    """Rows of processes in which a run alone takes these times, ours and the baseline's; in turns, 200 and 300 us."""
    windows = [
        WINDOW | {"process": number, "power_run_us": ours, "baseline_run_us": theirs} | window
        for number, (ours, theirs) in enumerate(runs)
    ]
    samples = [planted([200.0 + number] * 6, [300.0] * 6, process=number) for number in range(len(runs))]
    return bench.derive(windows, pd.concat(samples), 10, "windows.csv")


def test_five_processes_have_a_median_and_the_least_and_the_greatest_of_each() -> None:
    (row,) = processes(*[(250.0, theirs) for theirs in (240.0, 230.0, 250.0, 235.0, 245.0)])
    assert (row["share_kind"], row["processes"], row["samples"]) == ("alone", 5, 30)
    assert [row[column] for column in SHARE] == [0.96, 0.92, 1.0]
    assert row["share_alone"] == 0.96 and row["tflops"] == pytest.approx(FLOP / 250.0 / 1e6)
    assert (row["time_us_median"], row["time_us_in_turns"]) == (250.0, 202.0)
    assert (row["share_in_turns_ci_low"], row["share_in_turns"]) == (300 / 204, 300 / 202)
    assert row["share_per_clock"] == pytest.approx(300 / 202, rel=1e-6)  # at one clock, as planted


@pytest.mark.parametrize("runs", [(250.0, None), (None, 250.0), (140.0, 240.0), (250.0, 149.0)])
def test_without_either_alone_or_where_a_run_is_short_the_share_is_in_turns(runs: Any) -> None:
    (row,) = processes(runs)
    assert (row["share_kind"], row["share_of_baseline"], row["share_alone"]) == ("in turns", 1.5, None)


def test_an_older_baseline_s_own_row_gives_a_share_alone_that_is_not_the_headline() -> None:
    of_baseline = WINDOW | {"variant": "b", "power_run_us": 240.0}
    samples = pd.concat([planted([200.0] * 6, [300.0] * 6, variant=name) for name in ("v", "b")])
    row, _ = bench.derive([WINDOW | {"power_run_us": 300.0}, of_baseline], samples, 10, "windows.csv")
    assert (row["share_kind"], row["share_of_baseline"], row["share_alone"]) == ("in turns", 1.5, 0.8)


def test_one_process_that_failed_its_check_takes_the_row_and_one_left_out_only_itself() -> None:
    windows = [WINDOW | {"process": number} for number in range(3)]
    samples = pd.concat([planted([2.0] * 6, process=number) for number in range(3)])
    (row,) = bench.derive([windows[0], windows[1] | {"left_out": "the clock fell"}, windows[2]], samples, 10, "")
    assert row["processes"] == 2
    assert bench.derive([*windows[:2], windows[2] | {"passed": False}], samples, 10, "") == []


def test_the_clock_s_range_is_from_the_fifth_to_the_ninety_fifth_percentile() -> None:
    clocks = np.concatenate([np.arange(1000.0, 1101.0), np.full(6, 9000.0)]).astype(np.float32)
    (row,) = derived(planted([2.0] * 101, sm_clock_mhz=clocks))
    assert [row[f"sm_clock_{name}mhz"] for name in ("min_", "", "max_")] == [1005.0, 1050.0, 1095.0]


@pytest.mark.parametrize("window", [{"passed": False}, {"left_out": "the clock fell"}])
def test_a_window_that_does_not_count_has_no_row(window: dict[str, Any]) -> None:
    assert derived(planted([2.0] * 6), **window) == []


def test_without_energy_there_is_no_power() -> None:
    (row,) = derived(planted([2.0] * 6), power_w=None)
    assert row["power_w"] is row["gflop_per_j"] is None


def test_a_row_depends_on_no_other() -> None:
    rng = np.random.default_rng(1)
    first, second = (planted(rng.normal(9, 1, 40), rng.normal(9, 1, 40), variant=name) for name in ("v", "w"))
    both = [WINDOW, WINDOW | {"variant": "w"}]
    together = bench.derive(both, pd.concat([first, second]), 10, "")
    assert together == bench.derive(both[::-1], pd.concat([second, first]).sample(frac=1, random_state=1), 10, "")[::-1]
    assert together[:1] == bench.derive(both[:1], first, 10, "")
    same = bench.derive(both, pd.concat([first, first.assign(variant="w")]), 10, "")
    assert same[0][TIME[1]] != same[1][TIME[1]]  # other draws


def test_the_worklog_s_own_figure() -> None:
    """Worklog C: int(800000 / n) replays, and the mean of the second half of them."""
    assert [worklog_replays(n) for n in (4096, 1024, 12800)] == [195, 781, 62]
    rest = planted([2.0] * 6)

    def figure(times: list[float], rejected: dict[int, str] | None = None) -> float | None:
        replays = planted(times, (), rejected, window="worklog")
        return derived(pd.concat([replays.sample(frac=1, random_state=1), rest]))[0]["time_us_worklog"]

    assert figure([100.0, 100.0, 3.0, 5.0]) == 4.0
    assert figure([100.0, 2.0, 3.0]) == 2.5
    assert figure([100.0, 100.0, 3.0, 5.0], {2: OFF_TARGET}) == 5.0
    assert figure([100.0, 100.0, 3.0, 5.0], {2: GAP, 3: OFF_TARGET}) is None


@pytest.mark.parametrize(
    ("windows", "samples", "words"),
    [
        ([WINDOW], planted([2.0]), "e v 64 64 64 unlocked uniform has 1 kept samples, its baseline 6; at least 2"),
        ([WINDOW], planted([]), "has 0 kept samples"),
        ([WINDOW], planted([2.0] * 6, [3.0]), "its baseline 1; at least 2"),
        ([], planted([2.0] * 6), "has no row of e v 64 64 64 unlocked uniform, which has samples"),
        ([WINDOW], planted([2.0] * 6).iloc[:0], "e v 64 64 64 unlocked uniform has no samples"),
    ],
)
def test_tables_that_do_not_belong_together(windows: list[dict[str, Any]], samples: pd.DataFrame, words: str) -> None:
    with pytest.raises(UserError, match=words):
        bench.derive(windows, samples, 10, "windows.csv")


# ---- the files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a planted window and machine.json."""
    write_rows(tmp_path / "windows.csv", "windows", [WINDOW])
    write(tmp_path, planted([2.0, 2.1, 2.2] * 2))
    machine = json.loads((ARCHIVES[0] / "machine.json").read_text())
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    return tmp_path


def write(folder: Path, samples: pd.DataFrame) -> None:
    columns = {name: samples[name].to_numpy() for name in samples}
    write_samples(folder / "samples.parquet", [samples_table(len(samples), columns)])


def foreign(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Path], None]:
    """Writes samples.parquet by another hand, changed."""

    def spoil(folder: Path) -> None:
        samples = pq.read_table(folder / "samples.parquet").to_pandas()
        plain = samples.astype({name: object for name in samples.select_dtypes("category")})
        change(plain).to_parquet(folder / "samples.parquet")

    return spoil


def cut(folder: Path) -> None:
    path = folder / "samples.parquet"
    path.write_bytes(path.read_bytes()[:-300])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (cut, ["not a table of samples"]),
        (lambda folder: (folder / "samples.parquet").unlink(), ["cannot read", "No such file"]),
        (foreign(lambda t: t.drop(columns="role")), ["columns: role"]),
        (foreign(lambda t: t.assign(role="both")), ['role = "both" is not allowed', "one of variant, baseline"]),
        (foreign(lambda t: t.assign(time_us=-1.0)), ["time_us = -1.0 is not allowed", "more than 0"]),
        (foreign(lambda t: t.assign(time_us=np.inf)), ["time_us", "finite"]),
        (foreign(lambda t: t.assign(time_us=np.nan)), ["time_us"]),
        (foreign(lambda t: t.assign(index=0)), ["two rows of the same experiment, variant,"]),
        (foreign(lambda t: t[t.columns[::-1]]), ["columns: the order"]),
        (lambda folder: (folder / "samples.parquet").write_text("a,b\n"), ["not a table of samples"]),
        (foreign(lambda t: t.assign(reason=GAP)), ["kept with a reason"]),
        (foreign(lambda t: t.assign(kept=False)), ["kept with a reason"]),
        (foreign(lambda t: t.assign(reason="a whim", kept=False)), ['reason = "a whim" is not allowed']),
    ],
)
def test_samples_that_are_not_whole_are_one_line(files: Path, spoil: Callable[[Path], None], words: list[str]) -> None:
    spoil(files)
    assert_one_line(derive_files(files, files / "machine.json"), "samples.parquet", *words)
    assert not (files / "bench.csv").exists()


def test_parts_are_merged(files: Path) -> None:
    """As jobs write them: samples and windows joined by themselves, and the table derived from the whole."""
    other = files / "other"
    other.mkdir()
    write_rows(other / "windows.csv", "windows", [WINDOW | {"variant": "w"}])
    write(other, planted([4.0, 4.1, 4.2] * 2, variant="w"))
    for table, name in FILES.items():
        done = run_module("experiments.stages.merge", table, files / name, other / name, "--out", files / "both" / name)
        assert done.returncode == 0, done.stderr
    assert derive_files(files / "both", files / "machine.json").returncode == 0
    rows = read_rows(files / "both" / "bench.csv", "bench")
    assert [(row["variant"], row["time_us_median"]) for row in rows] == [("v", 2.1), ("w", 4.1)]


def test_no_windows_are_an_empty_table(tmp_path: Path, files: Path) -> None:
    write_rows(files / "windows.csv", "windows", [])
    write_samples(files / "samples.parquet", [])
    assert derive_files(files, files / "machine.json").returncode == 0
    assert read_rows(files / "bench.csv", "bench") == []


def test_the_order_of_a_pair_is_drawn_and_balanced() -> None:
    """Neither role is first more often, nor tied to a place among four samples, as by reversing every second pair."""
    order = np.array(drawn_order(["variant", "baseline"], 400, seed=3)).reshape(-1, 2)
    assert all(sorted(pair) == ["baseline", "variant"] for pair in order.tolist())
    assert (order[:, 0] == "variant").sum() == 200
    first = (order[:, 0] == "variant").reshape(-1, 2)  # of each four samples
    assert 60 < first[:, 0].sum() < 140 and 60 < first[:, 1].sum() < 140
    assert drawn_order([1, 2], 9, seed=1) == drawn_order([1, 2], 9, seed=1) != drawn_order([1, 2], 9, seed=2)
