"""The sweep over tiles: what is left out and why, builds and correctness at the restrictions' borders, going on after a
stop, what is recorded, and what the catalogue takes from it. A GPU is needed by the last test only.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ARCH, ROOT, assert_one_line, environment, run_module, wait_until

from contracts import UserError, read_json, read_rows, write_json, write_rows
from experiments.emulation.device import EmulatedDevice
from experiments.gpu import discovery
from experiments.gpu.worker import DeviceFault, Failure, Worker
from experiments.stages import build, check, toolchain
from experiments.tuning import space
from experiments.tuning import sweep as tune
from experiments.tuning.space import RESTRICTIONS, Configuration, Sweep
from kernels import catalogue

SWEEP = space.load()
ALL = list(SWEEP.configurations())
VALID = [configuration for configuration in ALL if configuration.broken is None]
NVCC = toolchain.nvcc()


def tile(BM: int, BN: int, BK: int, TM: int, TN: int, size: int = 4096) -> dict[str, int]:
    return {"BM": BM, "BN": BN, "BK": BK, "TM": TM, "TN": TN, "size": size}


def warp(
    BM: int, BN: int, BK: int, WM: int, WN: int, WNITER: int, TM: int, TN: int, THREADS: int, size: int = 4096
) -> dict[str, int]:
    block = {"BM": BM, "BN": BN, "BK": BK, "WM": WM, "WN": WN, "WNITER": WNITER}
    return block | {"TM": TM, "TN": TN, "THREADS": THREADS, "size": size}


def configured(kernel: str, values: dict[str, int]) -> Configuration:
    return Configuration(kernel, {key: value for key, value in values.items() if key != "size"}, None)


# ---- the grid and its restrictions ------------------------------------------------------------------------------


def test_the_grid_has_more_than_200_configurations_of_each_kernel_to_measure() -> None:
    counts = Counter(configuration.kernel for configuration in VALID)
    assert set(counts) == {"sgemm_autotuned", "sgemm_warptile"} and min(counts.values()) >= 200
    assert len({configuration.name for configuration in ALL}) == len(ALL)


def test_every_kernel_s_own_values_are_in_the_grid_and_valid() -> None:
    """What the rungs used before a sweep is measured, too: boehm_sgemm's winner, its starting point, its warp tiles."""
    values = [(configuration.kernel, dict(configuration.values)) for configuration in VALID]
    shipped = copy.deepcopy(catalogue.entries_of(catalogue.CATALOGUE))["variants"]
    assert ("sgemm_autotuned", shipped["sgemm_autotuned"]["template"]) in values
    starting = {name: shipped["sgemm_vectorized"]["template"][name] for name in ("BM", "BN", "BK", "TM", "TN")}
    assert ("sgemm_autotuned", starting) in values
    assert ("sgemm_warptile", shipped["sgemm_warptile"]["template"]) in values


# Each restriction: values that just meet it, and values one step beyond that break it and none before it.
BORDERS = {
    ("sgemm_autotuned", "whole_float4"): (tile(64, 64, 4, 4, 4), tile(64, 64, 6, 4, 4)),
    ("sgemm_autotuned", "whole_tiles"): (tile(96, 64, 8, 8, 4, 768), tile(96, 64, 8, 8, 4, 4096)),
    ("sgemm_autotuned", "patches_cover_tile"): (tile(48, 64, 8, 12, 4, 768), tile(64, 64, 8, 12, 4, 768)),
    ("sgemm_autotuned", "whole_warps"): (tile(256, 64, 8, 4, 4), tile(256, 128, 8, 4, 4)),
    ("sgemm_autotuned", "shared_memory"): (tile(256, 128, 32, 8, 8), tile(256, 256, 32, 16, 8)),
    ("sgemm_autotuned", "thread_registers"): (tile(128, 128, 8, 16, 8), tile(128, 128, 8, 16, 16)),
    ("sgemm_autotuned", "register_file"): (tile(256, 128, 8, 8, 4), tile(256, 256, 8, 8, 8)),
    ("sgemm_warptile", "whole_float4"): (
        warp(128, 128, 16, 64, 64, 4, 8, 4, 128),
        warp(128, 128, 16, 64, 64, 8, 8, 2, 128),
    ),
    ("sgemm_warptile", "whole_tiles"): (
        warp(128, 128, 16, 64, 64, 4, 8, 4, 128),
        warp(128, 128, 16, 64, 64, 4, 8, 4, 128, 4096 + 64),
    ),
    ("sgemm_warptile", "warp_tiles_divide_block"): (
        warp(128, 64, 16, 64, 32, 1, 8, 4, 128),
        warp(64, 128, 16, 128, 32, 1, 8, 4, 128),
    ),
    ("sgemm_warptile", "warps_cover_tile"): (
        warp(256, 128, 16, 64, 64, 4, 8, 4, 256),
        warp(256, 128, 16, 64, 64, 4, 8, 4, 128),
    ),
    ("sgemm_warptile", "lanes_cover_subtile"): (
        warp(64, 64, 16, 32, 32, 1, 8, 4, 128),
        warp(64, 64, 16, 32, 32, 2, 8, 4, 128),
    ),
    ("sgemm_warptile", "full_passes"): (
        warp(64, 64, 8, 32, 32, 1, 8, 4, 128),
        warp(64, 128, 8, 32, 32, 1, 8, 4, 256),
    ),
    ("sgemm_warptile", "shared_memory"): (
        warp(128, 256, 32, 64, 64, 2, 8, 8, 256),
        warp(256, 256, 32, 128, 64, 1, 8, 8, 256),
    ),
    ("sgemm_warptile", "thread_registers"): (
        warp(128, 256, 16, 64, 64, 4, 8, 4, 256),
        warp(256, 256, 16, 128, 64, 2, 8, 8, 256),
    ),
    ("sgemm_warptile", "register_file"): (
        warp(256, 128, 16, 64, 32, 2, 8, 4, 512),
        warp(256, 256, 8, 64, 64, 4, 8, 4, 512),
    ),
}


def test_every_restriction_has_a_border_and_a_reason() -> None:
    assert set(BORDERS) == {(kernel, r.__name__) for kernel, rs in RESTRICTIONS.items() for r in rs}
    assert all((r.__doc__ or "").strip().endswith(".") for rs in RESTRICTIONS.values() for r in rs)


@pytest.mark.parametrize(("kernel", "name"), list(BORDERS))
def test_a_restriction_breaks_one_step_beyond_its_border(kernel: str, name: str) -> None:
    inside, beyond = BORDERS[kernel, name]
    broken = [next((r.__name__ for r in RESTRICTIONS[kernel] if not r(v)), None) for v in (inside, beyond)]
    assert broken == [None, name]


COMPILED_IN = {
    ("sgemm_autotuned", "whole_float4"): "patches made of float4",
    ("sgemm_autotuned", "patches_cover_tile"): "the patches cover the block's tile",
    ("sgemm_autotuned", "whole_warps"): "a block of whole warps",
    ("sgemm_autotuned", "shared_memory"): "too much shared data",
    ("sgemm_warptile", "whole_float4"): "patches made of float4",
    ("sgemm_warptile", "warps_cover_tile"): "the warps cover the block's tile",
    ("sgemm_warptile", "lanes_cover_subtile"): "",
    ("sgemm_warptile", "full_passes"): "the last pass is a full one",
    ("sgemm_warptile", "shared_memory"): "too much shared data",
}


@pytest.mark.parametrize(("kernel", "name"), list(COMPILED_IN))
def test_the_compiler_refuses_what_lies_beyond(kernel: str, name: str, tmp_path: Path) -> None:
    """The restrictions hold for the source, not only for the sweep: without them the build would fail."""
    builder = tune.Builder(tmp_path, "sm_90", NVCC, jobs=1)  # ptxas does not look at the 48 KiB for sm_90a
    beyond = configured(kernel, BORDERS[kernel, name][1]).variant()
    with pytest.raises(UserError, match=r"failed on .*" + COMPILED_IN[kernel, name]):
        builder.build(beyond)
    assert not list(tmp_path.glob("*.cubin")) and not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(("kernel", "name"), list(BORDERS))
def test_what_just_meets_a_restriction_builds_without_spills_and_is_right(
    kernel: str, name: str, tmp_path: Path
) -> None:
    """On the emulator: the sweep's own case, which has more than one tile, wide rows, alpha and beta."""
    from experiments.tuning.measure import sweep_case

    variant = configured(kernel, BORDERS[kernel, name][0]).variant()
    row = tune.Builder(tmp_path, ARCH, NVCC, jobs=1).build(variant)
    assert row["spill_bytes"] == 0 and row["blocks_per_sm"] >= 1
    result = check.run_case(EmulatedDevice(tmp_path), variant, sweep_case(variant), seed=11)
    assert result.passed, result.detail


@pytest.mark.parametrize(
    "values",
    [
        tile(64, 64, 8, 4, 4),  # fewer float4s in a tile than the block has threads: the only pass is not full
        tile(96, 64, 12, 8, 8, 768),  # three full passes for A and two for B, of rows that are no power of two
        tile(64, 96, 20, 8, 8, 1920),  # the last pass is a part of one, for both
        tile(32, 256, 8, 16, 16 // 2),  # one row of B is longer than a pass
    ],
    ids=["under one pass", "odd rows", "a part of a pass", "long rows"],
)
def test_copies_of_the_autotuned_kernel_take_any_tile(values: dict[str, int], tmp_path: Path) -> None:
    from experiments.tuning.measure import sweep_case

    variant = configured("sgemm_autotuned", values).variant()
    tune.Builder(tmp_path, ARCH, NVCC, jobs=1).build(variant)
    result = check.run_case(EmulatedDevice(tmp_path), variant, sweep_case(variant), seed=12)
    assert result.passed, result.detail


def test_a_configuration_hashes_like_the_catalogue_s_entry_with_its_values() -> None:
    """So a winner's figures and the rung's are known to be of the same code; another value is another hash."""
    for kernel in RESTRICTIONS:
        entry = catalogue.load().kernels[kernel]
        same = catalogue.load().retiled(kernel, "other_name", entry.template, entry.threads)
        other = catalogue.load().retiled(kernel, "other_name", {**entry.template, "BK": 32}, entry.threads)
        assert same.source_hash == entry.source_hash != other.source_hash


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": 100}, "size = 100 is not allowed; allowed: at least 128"),
        ({"samples": 2}, "samples = 2 is not allowed; allowed: at least 5"),
        ({"sizes": [1]}, "unknown key 'sizes'; nearest: size"),
        ({"kernels": {"sgemm_naive": {"BM": [1]}}}, "one of sgemm_autotuned, sgemm_warptile"),
        ({"kernels": {"sgemm_autotuned": {"BM": [64]}}}, "has BM; expected: BM, BN, BK, TM, TN"),
        ({"kernels": {"sgemm_autotuned": {"BM": [0]}}}, "BM.0 = 0 is not allowed; allowed: at least 1"),
    ],
)
def test_a_wrong_sweep_is_one_clear_line(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "tile_autotune.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(space.SWEEP.read_text()) | change, sort_keys=False))
    with pytest.raises(UserError) as error:
        space.load(path)
    assert words in str(error.value) and "tile_autotune.yaml" in str(error.value)


# ---- measuring, with doubles in place of compiler and GPU ----------------------------------------------------------


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
        row = {"arch": self.arch, "compiler": self.compiler, "source_hash": variant.source_hash, "registers": 99}
        future.set_result(row | {"stack_bytes": 0, "spill_bytes": 0, "shared_bytes": 8192, "occupancy": 0.25})
        return future


class NoGpu:
    """A test double of a measurer: times by a formula. `faults` maps names to what goes wrong with them."""

    def __init__(
        self, faults: dict[str, dict[str, Any] | Failure] | None = None, stop_after: int | None = None
    ) -> None:
        self.faults, self.stop_after, self.calls = faults or {}, stop_after, []

    @staticmethod
    def tflops(template: dict[str, int]) -> float:
        t = template
        return (
            40
            - abs(t["BM"] - 128) / 20
            - abs(t["BN"] - 128) / 25
            - abs(t["TM"] - 8)
            - abs(t["TN"] - 8) / 2
            + t["BK"] / 16
        )

    def measure(self, item: tuple[catalogue.Variant, int]) -> dict[str, Any] | Failure:
        variant, samples = item
        if self.stop_after is not None and len(self.calls) == self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((variant.name, samples))
        if variant.name in self.faults:
            return self.faults[variant.name]
        rate = self.tflops(variant.template)
        time_us = 2 * 4096**3 / rate / 1e6
        figures = {"samples": samples, "time_us": time_us, "tflops": rate, "fraction_of_cublas": rate / 51.0}
        return {"checked": True, "reason": None, **figures, "sm_clock_mhz": 1980.0}


def small(**changes: Any) -> Sweep:
    """A sweep of 2 x 1 x 2 x 2 x 1 = 8 configurations of one kernel."""
    grid = {"BM": [64, 128], "BN": [128], "BK": [8, 16], "TM": [4, 8], "TN": [8]}
    return replace(SWEEP, kernels={"sgemm_autotuned": grid}, finalists=3, **changes)


def sweep_run(
    folder: Path, measurer: NoGpu, builder: NoCompiler | None = None, sweep: Sweep | None = None
) -> dict[str, Any]:
    sweep = sweep or small()
    parts = tune.Parts(folder / "parts.jsonl")
    todo = [configuration for configuration in sweep.configurations() if configuration.broken is None]
    return tune.Run(sweep, builder or NoCompiler(), measurer.measure, parts).all(todo)


def test_all_are_measured_once_and_the_best_again_with_more_samples(tmp_path: Path) -> None:
    gpu = NoGpu()
    rows = sweep_run(tmp_path, gpu)
    assert len(rows) == 8 and [samples for _, samples in gpu.calls] == [11] * 8 + [41] * 3
    again = sorted(name for name, row in rows.items() if row["round"] == 2)
    assert again == sorted(sorted(rows, key=lambda name: -rows[name]["tflops"])[:3])


def test_a_restart_measures_nothing_again(tmp_path: Path) -> None:
    first = sweep_run(tmp_path, NoGpu())
    gpu, compiler = NoGpu(), NoCompiler()
    assert sweep_run(tmp_path, gpu, compiler) == first
    assert gpu.calls == [] and compiler.built == []


def test_a_stopped_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    stopped = NoGpu(stop_after=5)
    with pytest.raises(KeyboardInterrupt):
        sweep_run(tmp_path, stopped)
    rest = NoGpu()
    rows = sweep_run(tmp_path, rest)
    assert len(rows) == 8 and len(rest.calls) == 3 + 3
    assert not set(stopped.calls) & set(rest.calls)


def test_a_line_cut_off_by_a_kill_is_measured_again(tmp_path: Path) -> None:
    sweep_run(tmp_path, NoGpu())
    path = tmp_path / "parts.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:70])
    gpu = NoGpu()
    assert len(sweep_run(tmp_path, gpu)) == 8 and len(gpu.calls) == 4 + 3
    assert all(json.loads(line) for line in path.read_text().splitlines())
    assert len(tune.Parts(path).rows) == 11


KILLED = """
import signal, sys
sys.path[:0] = [{root!r}, {tests!r}, {here!r}]
from pathlib import Path
from test_sweep import NoGpu, sweep_run
class Stuck(NoGpu):
    def measure(self, item):
        if len(self.calls) == 4:
            signal.pause()
        return super().measure(item)
sweep_run(Path({folder!r}), Stuck())
"""


def test_kill_9_in_the_middle_leaves_what_was_measured(tmp_path: Path) -> None:
    code = KILLED.format(
        root=str(ROOT), tests=str(ROOT / "tests"), here=str(Path(__file__).parent), folder=str(tmp_path)
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment())
    path = tmp_path / "parts.jsonl"
    wait_until(lambda: path.is_file() and path.read_text().count("\n") >= 3, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = len(tune.Parts(path).rows)
    assert 3 <= done < 11, "killed too early or too late for this test to show anything"
    gpu = NoGpu()
    assert len(sweep_run(tmp_path, gpu)) == 8 and len(gpu.calls) == 11 - done


def test_a_changed_source_compiler_or_setting_measures_again(tmp_path: Path) -> None:
    sweep_run(tmp_path, NoGpu())
    newer, gpu = NoCompiler(), NoGpu()
    newer.compiler = "nvcc 1, ptxas 1"
    sweep_run(tmp_path, gpu, newer)
    assert len(gpu.calls) == 11
    row = next(iter(tune.Parts(tmp_path / "parts.jsonl").rows.values()))
    assert tune.Parts(tmp_path / "parts.jsonl").find(row | {"source_hash": "0" * 16}) is None
    assert tune.settings_digest(small()) != tune.settings_digest(small(samples=12))
    assert tune.settings_digest(small()) == tune.settings_digest(SWEEP)  # a wider grid goes on from a smaller one


NAME = "sgemm_autotuned_128x128x16_8x8"  # the formula's best


def test_failures_are_rows_with_a_reason_and_never_the_winner(tmp_path: Path) -> None:
    wrong = {"checked": False, "reason": "check after timing: C[0, 1] = 2, expected 1 +- 0.1; 9 of 16 elements are off"}
    crash = Failure("CUDA: an illegal memory access was encountered", of_kernel=True)
    unbuilt, crashed = "sgemm_autotuned_64x128x8_4x8", "sgemm_autotuned_64x128x16_4x8"
    rows = sweep_run(tmp_path, NoGpu({NAME: wrong, crashed: crash}), NoCompiler(unbuilt))
    assert rows[NAME]["reason"].startswith("check after timing") and rows[NAME]["tflops"] is None
    assert rows[crashed]["reason"] == f"run: {crash.reason}" and rows[crashed]["checked"] is None
    assert rows[unbuilt]["reason"] == "build: nvcc failed on it" and rows[unbuilt]["checked"] is None
    won = tune.winners(list(small().configurations()), rows)["sgemm_autotuned"]
    assert won["template"] == {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}
    again = NoGpu()
    sweep_run(tmp_path, again)  # what could not run is tried again; what was wrong stays wrong
    assert {name for name, samples in again.calls if samples == 11} == {unbuilt, crashed}


def test_many_failures_in_a_row_end_the_sweep_and_keep_what_there_is(tmp_path: Path) -> None:
    crash = {"checked": None, "reason": "run: the GPU has fallen off the bus"}
    faults = {
        configuration.name: Failure("the GPU has fallen off the bus", of_kernel=False)
        for configuration in small().configurations()
    }
    with pytest.raises(UserError, match="8 configurations in a row could not be run, the last: run: the GPU"):
        sweep_run(tmp_path, NoGpu(faults))
    rows = {c.name: tune.row_of(c) | {"round": 1, **crash} for c in small().configurations()}
    with pytest.raises(UserError, match="sgemm_autotuned: no configuration could be measured; run: the GPU has fallen"):
        tune.winners(list(small().configurations()), rows)


def test_a_configuration_that_spoils_the_context_keeps_its_row_and_a_fresh_process_does_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of the four passes, one fails its check with a fault, one faults while it is timed, one is refused."""
    from experiments.tuning import measure

    row = {"checked": True, "reason": None, "process": 0}
    outcomes = {
        "good": row,
        "wrong": row | {"checked": False, "reason": "check: CUDA: illegal address"},
        "faulty": DeviceFault("CUDA: illegal address"),
        "refused": UserError("GPU out of memory"),
    }

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
                raise DeviceFault("CUDA: illegal address")

    monkeypatch.setattr(measure, "GpuMeasurer", Measurer)
    with Worker(functools.partial(measure.opened, SWEEP, tmp_path, tmp_path)) as worker:
        found = [worker.do((name, 5)) for name in ("good", "wrong", "good", "faulty", "good", "refused", "good")]
    first, wrong, second, faulty, third, refused, fourth = found
    assert (wrong["checked"], wrong["reason"]) == (False, "check: CUDA: illegal address")
    assert faulty == Failure("CUDA: illegal address", of_kernel=True)
    assert refused == Failure("GPU out of memory", of_kernel=False)
    processes = [one["process"] for one in (first, wrong, second, third, fourth)]
    assert processes[0] == processes[1] and processes[3] == processes[4] and len(set(processes)) == 3


def test_a_sweep_that_cannot_begin_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from experiments.tuning import measure

    def refuses(*_: object) -> None:
        raise UserError("cublas_fp32 failed its check")

    monkeypatch.setattr(measure, "GpuMeasurer", refuses)
    measuring = functools.partial(measure.opened, SWEEP, tmp_path, tmp_path)
    with Worker(measuring) as worker, pytest.raises(UserError, match=r"^cublas_fp32 failed its check$"):
        worker.do((VALID[0].variant(), 5))


def test_a_broken_file_of_results_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "parts.jsonl"
    path.write_text("{}\n")
    with pytest.raises(UserError, match=r"parts\.jsonl line 1: .*'kernel' is missing"):
        tune.Parts(path)
    path.write_text("nonsense\n")
    with pytest.raises(UserError, match=r"parts\.jsonl line 1: not JSON; remove the file"):
        tune.Parts(path)


# ---- builds -----------------------------------------------------------------------------------------------------


def test_a_build_that_is_there_is_kept_and_an_unfinished_one_is_not(tmp_path: Path) -> None:
    builder = tune.Builder(tmp_path, ARCH, NVCC, jobs=2)
    variant = configured("sgemm_autotuned", tile(64, 64, 8, 8, 8)).variant()
    first = builder.submit(variant).result()
    cubin = tmp_path / f"{variant.name}.cubin"
    date = cubin.stat().st_mtime_ns
    assert builder.build(variant) == first and cubin.stat().st_mtime_ns == date
    (tmp_path / f"{variant.name}.json").unlink()  # as a kill between compiling and this leaves it
    assert builder.build(variant) == first and cubin.stat().st_mtime_ns > date
    stale = read_json(tmp_path / f"{variant.name}.json", "resources") | {"source_hash": "0" * 16}
    write_json(tmp_path / f"{variant.name}.json", "resources", stale)
    assert builder.build(variant) == first
    builder.close()


def test_the_autotuned_kernel_costs_what_the_vectorized_one_does(built: Path, tmp_path: Path) -> None:
    """At the tile that both take, its general copies compile to the same accesses and registers."""
    theirs = read_json(built / "sgemm_vectorized.json", "resources")
    values = configured("sgemm_autotuned", tile(128, 128, 8, 8, 8))
    ours = tune.Builder(tmp_path, ARCH, NVCC, jobs=1).build(values.variant())
    same = ["registers", "shared_bytes", "spill_bytes", "lds_128", "sts_32", "sts_128", "ldg_128", "stg_128"]
    assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}
    assert ours["ffma"] == theirs["ffma"] + 1  # which scales C where alpha is zero


# ---- the record and the catalogue -------------------------------------------------------------------------------


def record(**changes: Any) -> dict[str, Any]:
    """A record with a winner that is not the catalogue's own tile."""
    template = {"BM": 64, "BN": 256, "BK": 16, "TM": 8, "TN": 8}
    winner = {"template": template, "threads": 256, "tflops": 33.0, "fraction_of_cublas": 0.65, "source_hash": "0" * 16}
    head = {"machine": "toy", "gpu": "A made-up GPU", "arch": "sm_90a", "compiler": "nvcc 0", "driver": "0"}
    return head | {
        "date": "2026-01-02",
        "size": 4096,
        "kernels": {"sgemm_autotuned": winner | {"restrictions": []} | changes},
    }


@pytest.fixture
def catalogue_with(tmp_path: Path) -> Any:
    """Loads the catalogue as it is with a record (a dict, or a file's text), or with none anywhere."""
    entry = json.loads(json.dumps(catalogue.entries_of(catalogue.CATALOGUE)))  # a copy without aliases
    entry["variants"]["sgemm_autotuned"]["tuned"] = "no-such-archive"
    path = tmp_path / "catalogue.yaml"
    path.write_text(yaml.safe_dump(entry, sort_keys=False))
    tuned = tmp_path / "tuned.json"

    def load(content: dict[str, Any] | str | None) -> catalogue.Variant:
        if isinstance(content, dict):
            write_json(tuned, "tuned", content)
        elif content is not None:
            tuned.write_text(content)
        return catalogue.load(None if content is None else tuned, path).kernels["sgemm_autotuned"]

    return load


def test_the_autotuned_rung_takes_template_and_threads_from_the_record(catalogue_with: Any) -> None:
    own = catalogue_with(None)
    assert own.template == {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8} and own.tuned is None
    chosen = catalogue_with(record())
    assert chosen.template == record()["kernels"]["sgemm_autotuned"]["template"]
    assert (chosen.threads, chosen.tile, chosen.multiples["n"]) == (256, {"m": 64, "n": 256, "k": 16}, 256)
    assert chosen.tuned == "toy" and "<64, 256, 16, 8, 8>" in chosen.translation_unit()
    assert chosen.source_hash != own.source_hash


def test_a_record_that_does_not_fit_is_one_clear_line(catalogue_with: Any) -> None:
    with pytest.raises(UserError, match=r"tuned\.json: sgemm_autotuned has template values BM, BN, but .* BM, BN, BK,"):
        catalogue_with(record(template={"BM": 64, "BN": 64}))
    with pytest.raises(UserError, match=r"tuned\.json: not JSON, truncated"):
        catalogue_with("{")
    with pytest.raises(UserError, match=r"tuned\.json: the file: 'machine' is missing"):
        catalogue_with("{}")


def test_the_template_in_use_stands_in_variants_csv() -> None:
    row = next(row for row in catalogue.load().rows() if row["variant"] == "sgemm_autotuned")
    entry = catalogue.load().kernels["sgemm_autotuned"]
    assert row["template"] == ", ".join(f"{key}={value}" for key, value in entry.template.items())
    assert row["tuned"] == entry.tuned


def test_a_command_takes_the_record_that_it_is_given(tmp_path: Path) -> None:
    """The same catalogue loads to the same templates wherever it is loaded, but for what --tuned says."""
    write_json(tmp_path / "tuned.json", "tuned", record())
    out = tmp_path / "variants.csv"
    for option in ([], ["--tuned", tmp_path / "tuned.json"], []):
        assert run_module("kernels.catalogue", *option, "--out", out, cwd=ROOT).returncode == 0
        found = next(row for row in read_rows(out, "variants") if row["variant"] == "sgemm_autotuned")
        assert (found["tuned"] == "toy") is bool(option)
        assert ("TM=8" in found["template"]) is bool(option)


# ---- the table --------------------------------------------------------------------------------------------------


def test_invalid_ones_are_rows_too_and_counted_by_reason(tmp_path: Path) -> None:
    few = VALID[::100]
    rows = tune.Run(SWEEP, NoCompiler(), NoGpu({}).measure, tune.Parts(tmp_path / "p.jsonl")).all(few)
    known = [configuration for configuration in ALL if configuration.broken or configuration.name in rows]
    write_rows(tmp_path / "tuning.csv", "tuning", [rows.get(c.name) or tune.row_of(c) for c in known])
    kernels = tune.winners(ALL, rows)
    write_json(tmp_path / "tuned.json", "tuned", record() | {"kernels": kernels})
    table = read_rows(tmp_path / "tuning.csv", "tuning")
    counts = Counter((row["kernel"], row["reason"]) for row in table if not row["valid"])
    left_out = {(k, e["name"]): e["left_out"] for k in kernels for e in kernels[k]["restrictions"] if e["left_out"]}
    assert counts == left_out and sum(row["valid"] for row in table) == len(few)
    assert all((row["time_us"] is None) == (row["reason"] is not None) for row in table)


# ---- the command ------------------------------------------------------------------------------------------------


def test_the_count_needs_no_gpu() -> None:
    done = run_module("experiments.tuning.sweep", "--count")
    assert done.returncode == 0 and f"{len(VALID) - 280} to measure" in done.stdout
    assert "60 left out by whole_warps: One thread a patch makes whole warps" in done.stdout


def test_bad_options_are_one_clear_line(tmp_path: Path) -> None:
    need = ("--machine", "m", "--arch", ARCH, "--build-dir", tmp_path, "--out-dir", tmp_path)
    assert_one_line(run_module("experiments.tuning.sweep"), "--machine is needed")
    assert_one_line(
        run_module("experiments.tuning.sweep", *need, "--limit", 0),
        "--limit 0 is not allowed",
        "at least 1",
    )
    assert_one_line(run_module("experiments.tuning.sweep", *need), "no GPU", "--count and --rank need none")


@pytest.mark.gpu
def test_a_sweep_of_three_configurations_on_the_gpu(tmp_path: Path) -> None:
    here = discovery.gpu()
    assert here is not None
    build.compile_source(ROOT / "experiments" / "gpu" / "harness.cu", tmp_path / "harness", here.arch, NVCC)
    arguments = ["--machine", "trial", "--arch", here.arch, "--build-dir", tmp_path, "--out-dir", tmp_path / "out"]
    chosen = ["--kernel", "sgemm_autotuned", "--limit", "3"]
    code = [sys.executable, "-m", "experiments.tuning.sweep", *map(str, arguments), *chosen]
    env = environment(CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES", "0"))
    done = subprocess.run(code, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [row for row in read_rows(tmp_path / "out" / "tuning.csv", "tuning") if row["time_us"]]
    assert len(rows) == 3 and all(row["checked"] and 0 < row["fraction_of_cublas"] < 1.2 for row in rows)
    assert all(row["round"] == 2 and row["samples"] >= 30 for row in rows)
    won = read_json(tmp_path / "out" / "tuned.json", "tuned")["kernels"]["sgemm_autotuned"]
    assert won["tflops"] == pytest.approx(max(row["tflops"] for row in rows), rel=1e-6)  # the table has nine digits
    again = subprocess.run(code, cwd=ROOT, env=env, capture_output=True, text=True)
    assert again.returncode == 0 and "3 of 3 configurations are measured already" in again.stderr


@pytest.mark.gpu
def test_a_kernel_that_faults_costs_one_row_and_a_new_process(tmp_path: Path) -> None:
    """Its launch asks for more shared memory than it has, then it reads beyond its matrices: the next one runs well."""
    from experiments.gpu.session import session
    from experiments.tuning.measure import opened

    here = discovery.gpu()
    assert here is not None
    build.compile_source(ROOT / "experiments" / "gpu" / "harness.cu", tmp_path / "harness", here.arch, NVCC)
    good = configured("sgemm_autotuned", tile(64, 64, 8, 8, 8)).variant()
    tune.Builder(tmp_path, here.arch, NVCC, jobs=1).build(good)
    bad = replace(good, name="bad")
    text = (tmp_path / f"{good.name}.cu").read_text()
    faulty = text.replace("#include", "#define update_c4(c, ...) (*(volatile int*)(1ull << 44) = 1)\n#include", 1)
    (tmp_path / "bad.cu").write_text(f'#include "include/epilogue.cuh"\n{faulty}')
    build.compile_source(tmp_path / "bad.cu", tmp_path / "bad", here.arch, NVCC)
    measuring = functools.partial(opened, replace(SWEEP, size=1024), tmp_path, tmp_path)
    with session(wait_s=600), Worker(measuring, start="spawn") as worker:
        rows = [worker.do((variant, 5)) for variant in (good, bad, good)]
    assert [row["checked"] for row in rows] == [True, False, True], rows
    assert "illegal" in rows[1]["reason"] or "CUDA" in rows[1]["reason"]
