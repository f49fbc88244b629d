"""The sweep over tiles: its rounds, its failures, and the entry that it prints."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import ARCH, ROOT, assert_one_line, dict_rows, few_sms, refused, run_module

from contracts.rows import Tuning
from experiments.gpu import discovery
from experiments.gpu.worker import DeviceFault, Failure, work_through
from experiments.stages import build, toolchain
from experiments.tuning import space
from experiments.tuning import sweep as tune
from kernels import catalogue
from kernels.catalogue import Variant

KERNEL = "sgemm_autotuned"
# 2 x 1 x 2 x 2 x 1 = 8 configurations of one kernel
GRID = {"BM": [64, 128], "BN": [128], "BK": [8, 16], "TM": [4, 8], "TN": [8]}
SMALL = replace(space.load(), kernels={KERNEL: GRID}, finalists=3)
CONFIGURATIONS = {c.name: c for c in SMALL.configurations()}
FIRST, SECOND, THIRD, CRASHED, UNBUILT = (
    f"{KERNEL}_{tile}"
    for tile in (
        "128x128x16_8x8",
        "128x128x8_8x8",
        "64x128x16_8x8",
        "64x128x16_4x8",
        "64x128x8_4x8",
    )
)


def swept(
    first: dict[str, Any] | None = None, final: dict[str, Any] | None = None, **builds: str
) -> tuple[dict[str, tune.Row], list[tuple[str, int]]]:
    """The rows of a sweep, and what was measured in which order with how many samples.

    Rates are by a formula, and half as high in the last round. `first` and `final`: other results
    of these rounds by name. `builds`: why a configuration was not built.
    """
    rows = {name: tune.row_of(configuration) for name, configuration in CONFIGURATIONS.items()}
    for name, reason in builds.items():
        rows[name]["reason"] = reason
    calls: list[tuple[str, int]] = []

    def measure(names: list[str], samples: int) -> Iterator[tuple[Variant, Any]]:
        last = samples == SMALL.final_samples
        for name in names:
            calls.append((name, samples))
            values = CONFIGURATIONS[name].values
            rate = (30 + values["BM"] / 64 + values["TM"] + values["BK"] / 16) / (1 + last)
            row = {"checked": True, "samples": samples, "tflops": rate, "time_us": 1.0}
            row |= {"fraction_of_cublas": rate / 51.0}
            yield CONFIGURATIONS[name].variant(), ((final if last else first) or {}).get(name, row)

    tune.race(SMALL, rows, measure)
    return rows, calls


def test_all_are_measured_once_in_another_order_and_the_best_again() -> None:
    rows, calls = swept()
    assert [samples for _, samples in calls] == [11] * 8 + [41] * 3
    names = [name for name, _ in calls[:8]]
    assert sorted(names) == sorted(CONFIGURATIONS) and names != list(CONFIGURATIONS)
    assert {name for name, row in rows.items() if row["round"] == 2} == {FIRST, SECOND, THIRD}
    assert tune.winner(rows, KERNEL) is rows[FIRST]


def test_a_failure_is_a_row_with_its_reason_and_does_not_win() -> None:
    wrong = {"checked": False, "reason": "check after timing: 1 wrong"}
    first = {FIRST: wrong, CRASHED: Failure("illegal address", of_kernel=True)}
    final = {SECOND: Failure("lost", of_kernel=False)}
    rows, calls = swept(first, final, **{UNBUILT: "build: nvcc failed on it"})
    outcomes = {name: (rows[name]["checked"], rows[name]["reason"]) for name in rows}
    assert outcomes[FIRST] == (False, "check after timing: 1 wrong")
    assert outcomes[CRASHED] == (None, "run: illegal address")
    assert outcomes[UNBUILT] == (None, "build: nvcc failed on it") and UNBUILT not in dict(calls)
    assert outcomes[SECOND] == (None, "run: lost") and rows[SECOND]["round"] == 2
    assert rows[FIRST]["tflops"] is None and rows[SECOND]["tflops"] is None
    assert tune.winner(rows, KERNEL) is rows[THIRD]


def test_where_nothing_could_be_measured_the_commonest_reason_is_the_error() -> None:
    lost = Failure("the GPU has fallen off the bus", of_kernel=False)
    rows, _ = swept(dict.fromkeys(CONFIGURATIONS, lost))
    with refused(f"{KERNEL}: no configuration could be measured; run: the"):
        tune.winner(rows, KERNEL)


def test_what_is_built_stays_for_the_next_sweep_and_an_error_is_a_reason(tmp_path: Path) -> None:
    good = CONFIGURATIONS[FIRST].variant()
    variants = {"good": good, "bad": replace(good, name="bad", entry="none")}
    first = tune.build_all(variants, tmp_path, ARCH, toolchain.nvcc())
    assert first[0]["registers"] > 0 and first[1]["reason"].startswith("build: nvcc failed on bad")
    date = (tmp_path / f"{FIRST}.cubin").stat().st_mtime_ns
    assert tune.build_all(variants, tmp_path, ARCH, toolchain.nvcc())[0] == first[0]
    assert (tmp_path / f"{FIRST}.cubin").stat().st_mtime_ns == date


def test_a_configuration_that_spoils_the_context_costs_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Measurer:
        def __init__(self, *_: object) -> None:
            self.gpu, self.spoilt = self, False

        def measure(self, name: str, samples: int) -> tune.Row:
            self.spoilt = name == "wrong"
            return {"checked": True}

        def sync(self) -> None:
            if self.spoilt:
                raise DeviceFault("CUDA: illegal address")

    monkeypatch.setattr(tune, "GpuMeasurer", Measurer)
    opened = functools.partial(tune.opened, SMALL, tmp_path, tmp_path, 5)
    results = dict(work_through(["good", "wrong", "better"], opened))  # type: ignore[list-item]
    assert results["wrong"] == Failure("CUDA: illegal address", of_kernel=True)
    assert results["good"] == results["better"] == {"checked": True}


def test_without_a_gpu_it_is_one_clear_line(tmp_path: Path) -> None:
    options = ("--arch", ARCH, "--build-dir", tmp_path, "--out", tmp_path / "tuning.csv")
    assert_one_line(run_module("experiments.tuning.sweep", *options), "no GPU: ")
    assert list(tmp_path.iterdir()) == []


@contextlib.contextmanager
def opened_small(*arguments: Any) -> Iterator[Any]:
    """As `sweep.opened`, but on few SMs and without warming up, for an emulated GPU."""
    with pytest.MonkeyPatch.context() as patch:
        few_sms(patch)
        patch.setattr(tune, "warm_up", lambda gpu, work, *_, **__: work())
        with OPENED(*arguments) as task:
            yield task


OPENED = tune.opened


@pytest.mark.gpu
def test_a_sweep_of_a_few_configurations_on_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it prints goes into the catalogue, and is the entry of the fastest."""
    here = discovery.gpu()
    assert here is not None
    grid = GRID | {"BM": [128], "BK": [8]}  # two configurations
    sweep = replace(space.load(), kernels={KERNEL: grid}, also={KERNEL: [2048]})
    if discovery.rehearsing():
        grid = grid | {"TM": [8]}
        small = {
            "size": 128,
            "also": {KERNEL: [256]},
            "samples": 3,
            "final_samples": 4,
            "finalists": 1,
        }
        sweep = replace(sweep, kernels={KERNEL: grid}, **small)
        monkeypatch.setattr(tune, "opened", opened_small)
    harness, nvcc = ROOT / "experiments/gpu/harness.cu", toolchain.nvcc()
    build.compile_source(harness, tmp_path / "harness", here.arch, nvcc)
    out = tmp_path / "out" / "tuning.csv"
    tune.tune(sweep, here.arch, tmp_path, nvcc, out)
    rows = dict_rows(out, Tuning)
    assert [row["size"] for row in rows] == [
        size for size in (sweep.size, *sweep.also[KERNEL]) for _ in grid["TM"]
    ]
    assert {row["round"] for row in rows} == {2}
    assert all(row["checked"] and row["fraction_of_cublas"] > 0 for row in rows)
    plausible = [row["fraction_of_cublas"] < 1.2 and row["samples"] >= 30 for row in rows]
    assert all(plausible) or discovery.rehearsing()
    fastest = max((row for row in rows if row["size"] == sweep.size), key=lambda row: row["tflops"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{KERNEL} in kernels/catalogue.yaml, for {fastest['tflops']:.2f} TFLOP")
    entry = [f"  {KERNEL}_mine:", "    source: sgemm/autotuned.cu", *lines, "    idea: mine"]
    before, key, after = catalogue.CATALOGUE.read_text().partition(f"  {KERNEL}:\n")
    path = tmp_path / "catalogue.yaml"
    path.write_text(before + "\n".join([*entry, ""]) + key + after)
    pasted = catalogue.load(path).kernels[f"{KERNEL}_mine"]
    assert pasted.source_hash == fastest["source_hash"]
