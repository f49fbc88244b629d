"""The sweep over tiles: going on after a stop, failures, what is recorded, and what the catalogue
takes from it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ARCH, ROOT, assert_one_line, dict_rows, few_sms, json_dict, run_module

from contracts import UserError, write_json
from contracts.rows import Resources, Tuned, Tuning, Variants
from experiments.gpu import discovery
from experiments.gpu.worker import DeviceFault, Failure, Worker
from experiments.stages import build, toolchain
from experiments.tuning import measure, space
from experiments.tuning import sweep as tune
from kernels import catalogue

# 2 x 1 x 2 x 2 x 1 = 8 configurations of one kernel
GRID = {"BM": [64, 128], "BN": [128], "BK": [8, 16], "TM": [4, 8], "TN": [8]}
SMALL = replace(space.load(), kernels={"sgemm_autotuned": GRID}, finalists=3)
CONFIGURATIONS = list(SMALL.configurations())
WINNER = {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}  # by the formula of `NoGpu`


class NoCompiler:
    """A test double of `tune.Builder`: rows as of a build, from nothing."""

    compiler, arch = "nvcc 0, ptxas 0", "sm_90a"

    def __init__(self, broken: str = "") -> None:
        self.broken, self.built = broken, []

    def submit(self, variant: catalogue.Variant) -> Future:
        future: Future = Future()
        self.built.append(variant.name)
        if variant.name == self.broken:
            future.set_exception(UserError("nvcc failed on it"))
            return future
        row = {
            "arch": self.arch,
            "compiler": self.compiler,
            "source_hash": variant.source_hash,
            "registers": 99,
        }
        future.set_result(
            row | {"stack_bytes": 0, "spill_bytes": 0, "shared_bytes": 8192, "occupancy": 0.25}
        )
        return future


class NoGpu:
    """A test double of a measurer: times by a formula, twice as long in the last round. `faults`:
    by name.
    """

    def __init__(self, faults: dict[str, Any] | None = None, stop_after: int | None = None) -> None:
        self.faults, self.stop_after, self.calls = faults or {}, stop_after, []

    def measure(self, item: tuple[catalogue.Variant, int]) -> dict[str, Any] | Failure:
        variant, samples = item
        if len(self.calls) == self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((variant.name, samples))
        if variant.name in self.faults:
            return self.faults[variant.name]
        rate = (
            30 + variant.template["BM"] / 64 + variant.template["TM"] + variant.template["BK"] / 16
        )
        rate /= 1 + (samples == SMALL.final_samples)
        time_us = 2 * 4096**3 / rate / 1e6
        figures = {
            "samples": samples,
            "time_us": time_us,
            "tflops": rate,
            "fraction_of_cublas": rate / 51.0,
        }
        return {"checked": True, "reason": None, **figures, "sm_clock_mhz": 1980.0}


@pytest.fixture(autouse=True)
def unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, and a busy disk takes seconds for each row."""
    monkeypatch.setattr(tune.os, "fsync", lambda _: None)


def sweep_run(
    folder: Path, gpu: NoGpu, compiler: NoCompiler | None = None
) -> dict[str, dict[str, Any]]:
    parts = tune.Parts(folder / "parts.jsonl")
    return tune.Run(SMALL, compiler or NoCompiler(), gpu.measure, parts).all(CONFIGURATIONS)


def test_all_are_measured_once_the_best_again_and_a_restart_measures_nothing(
    tmp_path: Path,
) -> None:
    gpu = NoGpu()
    rows = sweep_run(tmp_path, gpu)
    assert len(rows) == 8 and [samples for _, samples in gpu.calls] == [11] * 8 + [41] * 3
    best = {
        f"sgemm_autotuned_{tile}" for tile in ("128x128x16_8x8", "128x128x8_8x8", "64x128x16_8x8")
    }
    assert {name for name, row in rows.items() if row["round"] == 2} == best
    assert tune.winners(CONFIGURATIONS, rows)["sgemm_autotuned"]["template"] == WINNER
    gpu, compiler = NoGpu(), NoCompiler()
    assert sweep_run(tmp_path, gpu, compiler) == rows and gpu.calls == [] and compiler.built == []


def test_a_stopped_sweep_goes_on_where_it_was_also_after_a_line_that_was_cut(
    tmp_path: Path,
) -> None:
    stopped, rest = NoGpu(stop_after=5), NoGpu()
    with pytest.raises(KeyboardInterrupt):
        sweep_run(tmp_path, stopped)
    assert len(sweep_run(tmp_path, rest)) == 8 and len(rest.calls) == 3 + 3
    assert not set(stopped.calls) & set(rest.calls)
    path = tmp_path / "parts.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:70])
    rest = NoGpu()
    assert len(sweep_run(tmp_path, rest)) == 8 and len(rest.calls) == 4 + 3
    assert (
        len(tune.Parts(path).rows)
        == 11
        == len([json.loads(line) for line in path.read_text().splitlines()])
    )
    for text, said in (
        ("{}\n", "line 1: .*'kernel' is missing"),
        ("nonsense\n", "line 1: not JSON; remove the file"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=rf"parts\.jsonl {said}"):
            tune.Parts(path)


def test_each_row_is_in_the_file_before_the_next_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a kill leaves what was measured."""
    path, rows, measured = tmp_path / "parts.jsonl", [], NoGpu.measure

    def counted(gpu: NoGpu, item: Any) -> Any:
        rows.append(path.read_text().count("\n") if path.is_file() else 0)
        return measured(gpu, item)

    monkeypatch.setattr(NoGpu, "measure", counted)
    sweep_run(tmp_path, NoGpu())
    assert rows == list(range(11))


def test_another_compiler_or_source_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_run(tmp_path, NoGpu())
    monkeypatch.setattr(NoCompiler, "compiler", "nvcc 1, ptxas 1")
    gpu = NoGpu()
    sweep_run(tmp_path, gpu)
    assert len(gpu.calls) == 11
    assert tune.settings_digest(SMALL) != tune.settings_digest(replace(SMALL, samples=12))


def test_a_failure_is_a_row_with_its_reason_and_does_not_win(tmp_path: Path) -> None:
    best, crashed, unbuilt = (
        f"sgemm_autotuned_{tile}" for tile in ("128x128x16_8x8", "64x128x16_4x8", "64x128x8_4x8")
    )
    crash = Failure("illegal address", of_kernel=True)
    faults = {best: {"checked": False, "reason": "check after timing: 1 wrong"}, crashed: crash}
    rows = sweep_run(tmp_path, NoGpu(faults), NoCompiler(unbuilt))
    reasons = [(rows[name]["checked"], rows[name]["reason"]) for name in (best, crashed, unbuilt)]
    wrong = (False, "check after timing: 1 wrong")
    assert reasons == [wrong, (None, "run: illegal address"), (None, "build: nvcc failed on it")]
    assert rows[best]["tflops"] is None
    assert tune.winners(CONFIGURATIONS, rows)["sgemm_autotuned"]["template"] == WINNER | {"BK": 8}
    again = NoGpu()
    sweep_run(tmp_path, again)  # what could not run is tried again; what was wrong stays wrong
    assert {name for name, samples in again.calls if samples == 11} == {unbuilt, crashed}


def test_many_failures_in_a_row_end_the_sweep_and_keep_what_there_is(tmp_path: Path) -> None:
    lost = Failure("the GPU has fallen off the bus", of_kernel=False)
    with pytest.raises(
        UserError, match="8 configurations in a row could not be run, the last: run: the GPU"
    ):
        sweep_run(tmp_path, NoGpu({one.name: lost for one in CONFIGURATIONS}))
    rows = {
        c.name: tune.row_of(c) | {"round": 1, "checked": None, "reason": "run: lost"}
        for c in CONFIGURATIONS
    }
    with pytest.raises(
        UserError, match="sgemm_autotuned: no configuration could be measured; run: lost"
    ):
        tune.winners(CONFIGURATIONS, rows)


def test_a_configuration_that_spoils_the_context_keeps_its_row_and_a_fresh_process_does_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of the four passes, one fails its check with a fault, one faults while it is timed, one
    is refused.
    """
    fault = DeviceFault("CUDA: illegal address")
    row = {"checked": True, "reason": None}
    outcomes = {"good": row, "wrong": row | {"checked": False, "reason": f"check: {fault}"}}
    outcomes |= {"faulty": fault, "refused": UserError("GPU out of memory")}

    class Measurer:
        def __init__(self, *_: object) -> None:
            self.gpu, self.last = self, ""

        def measure(self, name: str, samples: int) -> dict[str, Any]:
            self.last, outcome = name, outcomes[name]
            if isinstance(outcome, UserError):
                raise outcome
            return outcome | {"process": os.getpid()}

        def sync(self) -> None:
            if self.last in ("wrong", "faulty"):
                raise fault

    monkeypatch.setattr(measure, "GpuMeasurer", Measurer)
    names = ("good", "wrong", "good", "faulty", "good", "refused", "good")
    with Worker(functools.partial(measure.opened, SMALL, tmp_path, tmp_path)) as worker:
        first, wrong, second, faulty, third, refused, fourth = (
            worker.do((name, 5)) for name in names
        )
    assert (wrong["checked"], wrong["reason"]) == (False, "check: CUDA: illegal address")
    assert faulty == Failure("CUDA: illegal address", of_kernel=True)
    assert refused == Failure("GPU out of memory", of_kernel=False)
    assert first["process"] == wrong["process"] != second["process"]
    assert second["process"] != third["process"] == fourth["process"]


def test_a_build_that_is_there_is_kept_and_an_unfinished_one_is_not(
    built: Path, tmp_path: Path
) -> None:
    builder = tune.Builder(tmp_path, ARCH, toolchain.nvcc(), jobs=2)
    variant = replace(CONFIGURATIONS[-1], values=WINNER | {"BK": 8}).variant()
    first = builder.submit(variant).result()
    cubin, row = (tmp_path / f"{variant.name}.{suffix}" for suffix in ("cubin", "json"))
    date = cubin.stat().st_mtime_ns
    assert builder.build(variant) == first and cubin.stat().st_mtime_ns == date
    row.unlink()  # as a kill between compiling and this leaves it
    assert builder.build(variant) == first and cubin.stat().st_mtime_ns > date
    write_json(row, Resources, json_dict(row, Resources) | {"source_hash": "0" * 16})
    assert builder.build(variant) == first
    builder.close()
    # the same tile, with copies for it alone
    of_rung = json_dict(built / "sgemm_vectorized.json", Resources)
    same = [
        "registers",
        "shared_bytes",
        "spill_bytes",
        "lds_128",
        "sts_32",
        "sts_128",
        "ldg_128",
        "stg_128",
    ]
    assert [first[key] for key in same] == [of_rung[key] for key in same]


# ---- the record and the catalogue ----------------------------------------------------------------


def record(**changes: Any) -> dict[str, Any]:
    """A record with a winner that is not the catalogue's own tile."""
    template = {"BM": 64, "BN": 256, "BK": 16, "TM": 8, "TN": 8}
    winner = {
        "template": template,
        "threads": 256,
        "tflops": 33.0,
        "fraction_of_cublas": 0.65,
        "source_hash": "0" * 16,
    }
    head = {
        "machine": "toy",
        "gpu": "A made-up GPU",
        "arch": "sm_90a",
        "compiler": "nvcc 0",
        "driver": "0",
    }
    kernels = {"sgemm_autotuned": winner | {"restrictions": []} | changes}
    return head | {"date": "2026-01-02", "size": 4096, "kernels": kernels}


def autotuned(folder: Path, content: str | None) -> catalogue.Variant:
    """The rung in the catalogue as it is, with a record of this content, or with none anywhere."""
    # a copy without aliases
    entries = json.loads(json.dumps(catalogue.entries_of(catalogue.CATALOGUE)))
    entries["variants"]["sgemm_autotuned"]["tuned"] = "no-such-archive"
    path, tuned = folder / "catalogue.yaml", folder / "tuned.json"
    path.write_text(yaml.safe_dump(entries, sort_keys=False))
    tuned.write_text(content or "")
    return catalogue.load(tuned if content else None, path).kernels["sgemm_autotuned"]


def test_the_autotuned_rung_takes_template_and_threads_from_the_record(tmp_path: Path) -> None:
    own, chosen = autotuned(tmp_path, None), autotuned(tmp_path, json.dumps(record()))
    assert (own.template, own.tuned) == (WINNER, None)
    assert chosen.template == record()["kernels"]["sgemm_autotuned"]["template"]
    assert (chosen.threads, chosen.tile, chosen.multiples["n"]) == (
        256,
        {"m": 64, "n": 256, "k": 16},
        256,
    )
    assert chosen.tuned == "toy" and "<64, 256, 16, 8, 8>" in chosen.translation_unit()
    assert chosen.source_hash != own.source_hash
    short = json.dumps(record(template={"BM": 64, "BN": 64}))
    refused = {"has template values BM, BN, but .* BM, BN, BK,": short, "not JSON, truncated": "{"}
    for said, content in refused.items():
        with pytest.raises(UserError, match=rf"tuned\.json: .*{said}"):
            autotuned(tmp_path, content)


def test_a_command_takes_the_record_that_it_is_given(tmp_path: Path) -> None:
    write_json(tmp_path / "tuned.json", Tuned, record())
    out = tmp_path / "variants.csv"
    for option in ([], ["--tuned", tmp_path / "tuned.json"]):
        assert run_module("kernels.catalogue", *option, "--out", out).returncode == 0
        (found,) = [row for row in dict_rows(out, Variants) if row["variant"] == "sgemm_autotuned"]
        assert (found["tuned"] == "toy", "BN=256, BK=16, TM=8" in found["template"]) == (
            bool(option),
            bool(option),
        )


def test_the_count_needs_no_gpu_and_bad_options_are_one_clear_line(tmp_path: Path) -> None:
    done = run_module("experiments.tuning.sweep", "--count", "--kernel", "sgemm_autotuned")
    assert (
        done.returncode == 0
        and "60 left out by whole_warps: One thread a patch makes whole warps" in done.stdout
    )
    need = ("--machine", "m", "--arch", ARCH, "--build-dir", tmp_path, "--out-dir", tmp_path)
    for options, words in (
        ((), "--machine is needed"),
        ((*need, "--limit", 0), "--limit 0 is not allowed; allowed: at least 1"),
        ((*need, "--static", 0), "--static 0 is not allowed; allowed: at least 1"),
        ((*need, "--rank", "--rates", "h300", "--limit", 1), "--rates: "),
        (need, "no GPU: this stage needs"),
    ):
        assert_one_line(run_module("experiments.tuning.sweep", *options), words)


@contextlib.contextmanager
def opened_small(*arguments: Any) -> Iterator[Any]:
    """As `measure.opened`, on few SMs and without warming up: for an emulated GPU, in the process
    that measures.
    """
    with pytest.MonkeyPatch.context() as patch:
        few_sms(patch)
        patch.setattr(measure, "warm_up", lambda gpu, work, *_, **__: work())
        with OPENED(*arguments) as task:
            yield task


OPENED = measure.opened


@pytest.mark.gpu
def test_a_sweep_of_a_few_configurations_on_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here, few, sweep = discovery.gpu(), 3, replace(space.load(), kernels={"sgemm_autotuned": GRID})
    assert here is not None
    if discovery.rehearsing():
        few, sweep = 1, replace(sweep, size=128, samples=3, final_samples=4, finalists=1)
        monkeypatch.setattr(measure, "opened", opened_small)
    build.compile_source(
        ROOT / "experiments/gpu/harness.cu", tmp_path / "harness", here.arch, toolchain.nvcc()
    )
    out = {
        "out_dir": tmp_path / "out",
        "build_dir": tmp_path,
        "machine": "trial",
        "arch": here.arch,
        "jobs": 2,
    }
    options = argparse.Namespace(**out, limit=few, nvcc=None, static=None)
    configurations = list(sweep.configurations())
    tune.tune(options, sweep, configurations)
    rows = [row for row in dict_rows(tmp_path / "out" / "tuning.csv", Tuning) if row["time_us"]]
    assert len(rows) == few and all(
        row["checked"] and row["fraction_of_cublas"] > 0 for row in rows
    )
    assert (
        all(row["fraction_of_cublas"] < 1.2 and row["samples"] >= 30 for row in rows)
        or discovery.rehearsing()
    )
    assert sum(row["round"] == 2 for row in rows) == min(few, sweep.finalists)
    won = json_dict(tmp_path / "out" / "tuned.json", Tuned)["kernels"]["sgemm_autotuned"]
    assert won["tflops"] == pytest.approx(
        max(row["tflops"] for row in rows if row["round"] == 2), rel=1e-6
    )
    caplog.set_level("INFO")
    tune.tune(options, sweep, configurations)
    assert f"round 1: {few} of {few} configurations are measured already" in caplog.text
