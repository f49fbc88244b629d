"""The sweep over tiles: rounds, failures, what is kept of a build, and what it prints and writes."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import ARCH, ROOT, assert_one_line, dict_rows, few_sms, json_dict, run_module

from contracts import UserError, write_json
from contracts.rows import Resources, Tuning
from experiments.gpu import discovery
from experiments.gpu.worker import DeviceFault, Failure, work_through
from experiments.stages import build, toolchain
from experiments.tuning import space
from experiments.tuning import sweep as tune
from kernels import catalogue
from kernels.catalogue import Variant

# 2 x 1 x 2 x 2 x 1 = 8 configurations of one kernel
GRID = {"BM": [64, 128], "BN": [128], "BK": [8, 16], "TM": [4, 8], "TN": [8]}
KERNEL = "sgemm_autotuned"
SMALL = replace(space.load(), kernels={KERNEL: GRID}, finalists=3)
CONFIGURATIONS = list(SMALL.configurations())
BUILT = dict.fromkeys(tune.OF_BUILD, 1)
WINNER = {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}  # by the formula of `measure`


def named(*tiles: str) -> list[str]:
    return [f"{KERNEL}_{tile}" for tile in tiles]


def measure(
    variants: list[Variant], samples: int, faults: dict[str, Any] | None = None
) -> Iterator[tuple[Variant, dict[str, Any] | Failure]]:
    """Times by a formula, twice as long in the last round; `faults`: results by name."""
    for one in variants:
        rate = 30 + one.template["BM"] / 64 + one.template["TM"] + one.template["BK"] / 16
        rate /= 1 + (samples == SMALL.final_samples)
        speed = {"time_us": 2 * 4096**3 / rate / 1e6, "fraction_of_cublas": rate / 51.0}
        row = {"checked": True, "samples": samples, "tflops": rate, **speed}
        yield one, (faults or {}).get(one.name, row)


def swept(
    faults: dict[str, Any] | None = None, **builds: UserError
) -> tuple[dict[str, dict[str, Any]], list[tuple[str, int]]]:
    """The rows of a sweep, and what was measured in which order with how many samples."""
    calls: list[tuple[str, int]] = []

    def noted(variants: list[Variant], samples: int) -> Iterator[Any]:
        calls.extend((one.name, samples) for one in variants)
        return measure(variants, samples, faults)

    built = {c.name: builds.get(c.name, BUILT) for c in CONFIGURATIONS}
    return tune.run(SMALL, CONFIGURATIONS, built, noted), calls


def test_all_are_measured_once_in_another_order_and_the_best_again() -> None:
    rows, calls = swept()
    assert [samples for _, samples in calls] == [11] * 8 + [41] * 3
    names = [configuration.name for configuration in CONFIGURATIONS]
    assert sorted(name for name, _ in calls[:8]) == sorted(names) != [name for name, _ in calls[:8]]
    best = {*named("128x128x16_8x8", "128x128x8_8x8", "64x128x16_8x8")}
    assert {name for name, row in rows.items() if row["round"] == 2} == best
    assert tune.winner(rows, KERNEL) == named("128x128x16_8x8")[0]


def test_a_failure_is_a_row_with_its_reason_and_does_not_win() -> None:
    best, crashed, unbuilt = named("128x128x16_8x8", "64x128x16_4x8", "64x128x8_4x8")
    faults = {best: {"checked": False, "reason": "check after timing: 1 wrong"}}
    faults |= {crashed: Failure("illegal address", of_kernel=True)}
    rows, calls = swept(faults, **{unbuilt: UserError("nvcc failed on it")})
    reasons = [(rows[name]["checked"], rows[name]["reason"]) for name in (best, crashed, unbuilt)]
    wrong = (False, "check after timing: 1 wrong")
    assert reasons == [wrong, (None, "run: illegal address"), (None, "build: nvcc failed on it")]
    assert unbuilt not in dict(calls) and rows[best]["tflops"] is None
    assert tune.winner(rows, KERNEL) == named("128x128x8_8x8")[0]


def test_a_finalist_that_fails_in_the_second_round_has_no_time() -> None:
    lost = {name: Failure("lost", of_kernel=False) for name in named("128x128x16_8x8")}

    def second(variants: list[Variant], samples: int) -> Iterator[Any]:
        return measure(variants, samples, lost if samples == SMALL.final_samples else None)

    rows = tune.run(SMALL, CONFIGURATIONS, {c.name: BUILT for c in CONFIGURATIONS}, second)
    row = rows[named("128x128x16_8x8")[0]]
    assert (row["round"], row["reason"], row["tflops"]) == (2, "run: lost", None)
    assert tune.winner(rows, KERNEL) == named("128x128x8_8x8")[0]


def test_where_nothing_could_be_measured_the_commonest_reason_is_the_error() -> None:
    lost = Failure("the GPU has fallen off the bus", of_kernel=False)
    rows, _ = swept({configuration.name: lost for configuration in CONFIGURATIONS})
    with pytest.raises(UserError, match=f"{KERNEL}: no configuration could be measured; run: the"):
        tune.winner(rows, KERNEL)


def test_a_configuration_that_spoils_the_context_costs_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fault = DeviceFault("CUDA: illegal address")

    class Measurer:
        def __init__(self, *_: object) -> None:
            self.gpu, self.last = self, ""

        def measure(self, name: str, samples: int) -> dict[str, Any]:
            self.last = name
            return {"checked": name != "wrong"}

        def sync(self) -> None:
            if self.last == "wrong":
                raise fault

    monkeypatch.setattr(tune, "GpuMeasurer", Measurer)
    opened = functools.partial(tune.opened, SMALL, tmp_path, tmp_path, 5)
    found = dict(work_through(["good", "wrong", "better"], opened))  # type: ignore[list-item]
    assert found.pop("wrong") == Failure("CUDA: illegal address", of_kernel=True)
    assert found == {"good": {"checked": True}, "better": {"checked": True}}


def test_a_build_that_is_there_is_kept_and_an_unfinished_one_is_not(
    built: Path, tmp_path: Path
) -> None:
    variant = replace(CONFIGURATIONS[-1], values=WINNER | {"BK": 8}).variant()

    def row() -> Any:
        return tune.build_all([variant], tmp_path, ARCH, toolchain.nvcc(), 2)[variant.name]

    first = row()
    cubin, path = (tmp_path / f"{variant.name}.{suffix}" for suffix in ("cubin", "json"))
    date = cubin.stat().st_mtime_ns
    assert row() == first and cubin.stat().st_mtime_ns == date
    path.unlink()  # as a kill between compiling and this leaves it
    assert row() == first and cubin.stat().st_mtime_ns > date
    write_json(path, Resources, json_dict(path, Resources) | {"source_hash": "0" * 16})
    assert row() == first
    # the same tile, with copies for it alone
    of_rung = json_dict(built / "sgemm_vectorized.json", Resources)
    same = ["registers", "shared_bytes", "spill_bytes"]
    same += ["lds_128", "sts_32", "sts_128", "ldg_128", "stg_128"]
    assert [first[key] for key in same] == [of_rung[key] for key in same]


def test_bad_options_are_one_clear_line(tmp_path: Path) -> None:
    need = ("--arch", ARCH, "--build-dir", tmp_path, "--out", tmp_path / "tuning.csv")
    for options, words in (
        ((*need, "--limit", 0), "--limit 0 is not allowed; allowed: at least 1"),
        (need, "no GPU: "),
    ):
        assert_one_line(run_module("experiments.tuning.sweep", *options), words)


@contextlib.contextmanager
def opened_small(*arguments: Any) -> Iterator[Any]:
    """As `sweep.opened`, on few SMs and without warming up: for an emulated GPU, in the process
    that measures.
    """
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
    here, few, sweep = discovery.gpu(), 3, replace(space.load(), kernels={KERNEL: GRID})
    assert here is not None
    if discovery.rehearsing():
        few, sweep = 1, replace(sweep, size=128, samples=3, final_samples=4, finalists=1)
        monkeypatch.setattr(tune, "opened", opened_small)
    build.compile_source(
        ROOT / "experiments/gpu/harness.cu", tmp_path / "harness", here.arch, toolchain.nvcc()
    )
    out = tmp_path / "out" / "tuning.csv"
    places = {"out": out, "build_dir": tmp_path, "arch": here.arch}
    tune.tune(argparse.Namespace(**places, jobs=2, limit=few, nvcc=None), sweep)
    rows = [row for row in dict_rows(out, Tuning) if row["time_us"]]
    assert len(rows) == few and all(
        row["checked"] and row["fraction_of_cublas"] > 0 for row in rows
    )
    assert (
        all(row["fraction_of_cublas"] < 1.2 and row["samples"] >= 30 for row in rows)
        or discovery.rehearsing()
    )
    finals = [row for row in rows if row["round"] == 2]
    assert len(finals) == min(few, sweep.finalists)
    # what it prints goes into the catalogue, and is the entry of the fastest
    fastest = max(finals, key=lambda row: row["tflops"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{KERNEL} in kernels/catalogue.yaml, for {fastest['tflops']:.2f} TFLOP")
    path, text = tmp_path / "catalogue.yaml", catalogue.CATALOGUE.read_text()
    before, entry, after = text.partition(f"  {KERNEL}:\n")
    mine = "\n".join(
        [f"  {KERNEL}_mine:", f"    source: {KERNEL.replace('_', '/')}.cu", *lines, ""]
    )
    path.write_text(before + mine + "    idea: mine\n" + entry + after)
    pasted = catalogue.load(path).kernels[f"{KERNEL}_mine"]
    assert pasted.source_hash == fastest["source_hash"]
