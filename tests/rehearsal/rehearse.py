"""Rehearses a measuring run without a GPU: the project's own commands, from Snakefile to archive,
on ptxsim's H100.

    make rehearse                                        # three kernels and two libraries, as CI does: two minutes
    make rehearse EXPERIMENT=my_experiment               # one experiment with all of its variants that can be emulated
    python tests/rehearsal/rehearse.py my_experiment --variants sgemm_warptile cublas_fp32 --size 256

It works in a copy of the project, in rehearsal/, and touches nothing else. There, an experiment
has at most four problems, of at most --size rows, columns and k, and two processes measure each.
Launches and checks are real, on an emulated GPU; NVML and ncu are stand-ins. Times come from a
made-up clock, and every output says so. A rehearsal that was cut starts anew, but compiles no kernel again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers import dict_rows  # noqa: E402

from contracts import REHEARSAL, UserError, choose, run_command  # noqa: E402
from contracts.rows import Counters, CountersWithBeta  # noqa: E402
from contracts.samples import read_samples  # noqa: E402
from experiments import declarations  # noqa: E402
from experiments.declarations import Experiment  # noqa: E402
from experiments.stages import bench  # noqa: E402
from kernels import catalogue  # noqa: E402
from kernels.catalogue import Baseline  # noqa: E402
from kernels.problem import ProblemSpec  # noqa: E402

HERE = Path(__file__).resolve().parent
NVML = HERE.parent / "nvml" / "stand_in.c"
GPU = "NVIDIA H100 rehearsal"
MACHINE = "rehearsal"
GPUS = 2
EXPERIMENTS = ("sgemm_ladder", "hopper_ladder")
KERNELS = ("sgemm_blocktile_2d", "sgemm_c_dispatch", "hgemm_wgmma_tma_bf16")
VARIANTS = (*KERNELS, "cublas_fp32", "cublas_bf16")
EMULATED_LIBRARIES = ("cublas", "cublaslt")
PROBLEMS = 4  # that an experiment has at most
PROTOCOL = {"processes": 2, "samples": 5, "window_s": 0.02, "warmup_s": 0.01}
STAND_IN = ".stand-in"  # in the copy: NVML's stand-in and its state, and the locks of its cards
BUILDS = ("build", "toolchain.json")  # of results/: what another rehearsal need not make again
# of the copy; and hidden files but .gitignore
LEFT_OUT = {"results", "rehearsal", "tests", "data", "__pycache__"}
DURATION = "gpu__time_duration.sum"
# no counters of ncu
EMULATOR_S_OWN = {"l2_sectors_bulk_ld.sum", "l2_sectors_bulk_st.sum", "shared_loads_merged.sum"}
SAME_TIME = 0.01  # relative: events lie around the launch, with a little more between them
# Seconds of a GPU: one of a job's processes without its windows, an entry under ncu, the checks of
# a kernel. By these, sgemm_ladder comes to the 208 s that it held an H100, and hopper_ladder to 111
# of the 112 s that its whole run took.
START_S, COUNTER_S, CHECK_S = 4.0, 2.0, 0.4


@dataclass(frozen=True)
class Rehearsal:
    """A copy of the project in `tree`, and what is rehearsed there."""

    tree: Path
    experiments: Sequence[str]
    variants: Sequence[str]

    @property
    def results(self) -> Path:
        """Folder of what the emulated GPU measures."""
        return self.tree / "results" / MACHINE

    def environment(self, gpu: bool) -> dict[str, str]:
        """With the emulated GPUs and ncu to be seen, or with none."""
        dropped = ("GEMM_LADDER_", "MAKE", "CUDA_VISIBLE_DEVICES")
        values = {name: v for name, v in os.environ.items() if not name.startswith(dropped)}
        values |= {"PYTHONPATH": str(self.tree), "GEMM_LADDER_REHEARSAL": "1"}
        path, stand_in = f"{Path(sys.executable).parent}", self.tree / STAND_IN
        if gpu:
            path = f"{HERE / 'nsight'}{os.pathsep}{path}"
            libraries = f"{stand_in}{os.pathsep}{values.get('LD_LIBRARY_PATH', '')}"
            values |= {"NVML_STAND_IN": str(stand_in / "state"), "GEMM_LADDER_LOCKS": str(stand_in)}
            values |= {"LD_LIBRARY_PATH": libraries}
        else:
            values["CUDA_VISIBLE_DEVICES"] = ""
        return values | {"PATH": f"{path}{os.pathsep}{values.get('PATH', '')}"}

    def run(self, *command: str, gpu: bool = False) -> subprocess.CompletedProcess[str]:
        """A command of the project in the copy, `python -m` left out; `gpu`: on the emulated
        GPUs.
        """
        emulated = ["-m", "ptxsim", "exec", "-q", "--no-checks", sys.executable] if gpu else []
        whole = [sys.executable, *emulated, "-m", *command]
        return subprocess.run(
            whole, cwd=self.tree, env=self.environment(gpu), capture_output=True, text=True
        )

    def snakemake(
        self, *targets: str, gpu: bool, **config: str
    ) -> subprocess.CompletedProcess[str]:
        """Snakemake for these targets."""
        config = {"machine": MACHINE, "variants": json.dumps(list(self.variants))} | config
        options = ["--config", *(f"{key}={value}" for key, value in config.items())]
        resources = ["--resources", f"gpu={GPUS}"] if gpu else []
        return self.run("snakemake", "--cores", "2", *targets, *resources, *options, gpu=gpu)

    @property
    def steps(self) -> dict[str, Callable[[], subprocess.CompletedProcess[str]]]:
        """What is rehearsed, in order: a name, and what runs it."""
        measure = lambda: self.snakemake(*self.experiments, gpu=True)
        timed = [name for name in self.experiments if self.asked(name).get("problems")]
        only = [f"results/{MACHINE}/only/{name}" for name in timed]
        folder, catalogue = f"data/{MACHINE}", ("--catalogue", "results/variants.csv")
        check = ("experiments.stages.archive", "check", folder)
        reproduce = ("analysis", "reproduce", "--archive", folder, *catalogue, "--results", *only)
        redraw = {"mode": "redraw", "archive": MACHINE}
        of_archive = {
            "archive": lambda: self.snakemake("archive", gpu=True),
            "archive check": lambda: self.run(*check),
            "reproduce": lambda: self.run(*reproduce),
            "paper, explorer": lambda: self.snakemake("paper", "explorer", gpu=False, **redraw),
        }
        # An archive is of what was timed.
        return {"measure, check, count, draw": measure} | (of_archive if timed else {})

    def asked(self, name: str) -> Any:
        """The file of an experiment, as it is rehearsed."""
        return yaml.safe_load((self.tree / "experiments" / f"{name}.yaml").read_text())

    def amiss(self) -> list[str]:
        """What the tables lack of what was asked for, or have wrong, each in a line; nothing where
        all is well.

        Each variant has a window a problem, kind of data and process. A kernel has its checks and
        counters: those that the emulator predicts where an archive was made, else any. On the
        made-up clock a launch always takes the same time, so a kernel's samples agree with the
        duration that ncu's stand-in saw.
        """
        path = self.results / "predictions.csv"
        predicted = dict_rows(path, Counters) if path.is_file() or len(self.steps) > 1 else []
        return [line for name in self.experiments for line in self._amiss_in(name, predicted)]

    def _amiss_in(self, name: str, predicted: list[dict[str, Any]]) -> Iterator[str]:
        asked, kernels = self.asked(name), catalogue.load().runnable
        problems, profiled = asked.get("problems", []), asked.get("profile", [])
        tables = self.results / "only" / name
        windows, counters, checks = (
            dict_rows(tables / f"{table}.csv", table) for table in ("windows", "counters", "checks")
        )
        if (with_beta := tables / "counters_with_beta.csv").is_file():
            counters += dict_rows(with_beta, CountersWithBeta)
        on_gpu = {row["variant"] for row in checks if row["device"] == "gpu"}
        samples = read_samples(tables / "samples.parquet").to_pandas()
        times = (
            samples[samples["role"] == "variant"]
            .groupby("variant", observed=True)["time_us"]
            .median()
        )
        expected = len(problems) * len(asked.get("data", [])) * PROTOCOL["processes"]
        for variant in asked["variants"]:
            count = sum(row["variant"] == variant for row in windows)
            if count != expected:
                yield f"{name}: {variant} has {count} of {expected} windows"
            if variant not in on_gpu and (expected or variant in kernels):
                yield f"{name}: {variant} was not checked on the GPU"
            values = {row["metric"]: row["value"] for row in counters if row["variant"] == variant}
            known = {row["metric"] for row in predicted if row["variant"] == variant} or {DURATION}
            lacking = sorted(known - values.keys() - EMULATOR_S_OWN)
            if profiled and variant in kernels and lacking:
                yield f"{name}: {variant} lacks counters: {', '.join(lacking)}"
            if count and DURATION in values and problems == profiled and len(problems) == 1:
                timed, duration = times[variant], values[DURATION] / 1e3
                if abs(timed / duration - 1) > SAME_TIME:
                    yield f"{name}: {variant} takes {timed:.0f} us in windows, {duration:.0f} under ncu"


def prepare(
    folder: Path, experiments: Sequence[str], variants: Sequence[str], size: int
) -> Rehearsal:
    """A fresh copy of the project in `folder`: small experiments, NVML's stand-in, kernels that
    were built there.
    """
    if folder.exists() and not (folder / STAND_IN).is_dir():
        raise UserError(
            f"--folder {folder}: not a rehearsal's; allowed: a folder that is not there, or one of those"
        )
    entries = catalogue.load()
    for name in variants:
        choose(entries, name, "variant", "--variants")
    shrunk = {
        name: small(declarations.load(name, known=entries), variants, size) for name in experiments
    }
    kept = folder.with_name(f".{folder.name}-builds")
    shutil.rmtree(kept, ignore_errors=True)
    for name in BUILDS:
        if (path := folder / "results" / name).exists():
            kept.mkdir(exist_ok=True)
            path.rename(kept / name)
    # A job of several kernels runs again without its table, and builds those that have changed.
    for table in kept.glob("build/*/*.csv"):
        table.unlink()
    shutil.rmtree(folder, ignore_errors=True)

    def ignored(path: str, names: list[str]) -> list[str]:
        dropped = LEFT_OUT if Path(path) == ROOT else {"__pycache__"}
        hidden = [name for name in names if name.startswith(".") and name != ".gitignore"]
        return [*hidden, *dropped]

    shutil.copytree(ROOT, folder, ignore=ignored)
    (folder / "data").mkdir()
    if kept.is_dir():
        kept.rename(folder / "results")
    for path in (folder / "experiments").glob("*.yaml"):
        path.unlink()
    for name, document in shrunk.items():
        text = yaml.safe_dump(document, sort_keys=False)
        (folder / "experiments" / f"{name}.yaml").write_text(text)
    stand_in = folder / STAND_IN
    stand_in.mkdir()
    (stand_in / "state").write_text(f"cards {GPUS}\nname {GPU}\n")
    library = stand_in / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(NVML)], check=True)
    commit(folder)
    names = dict.fromkeys(name for document in shrunk.values() for name in document["variants"])
    return Rehearsal(folder, experiments, [*names])


def small(experiment: Experiment, variants: Sequence[str], size: int) -> Mapping[str, Any]:
    """An experiment's file with a few problems of at most `size` and few samples, of `variants` or
    all that are emulated.
    """
    entries = catalogue.load()
    names = [name for name in experiment.variants if not variants or name in variants]
    names = [name for name in names if emulated(entries.find(name))]
    if not names:
        why = "none of its variants can be emulated, or is among --variants"
        raise UserError(f"{experiment.name}: {why}")

    def shrunk(problems: Sequence[ProblemSpec]) -> list[str]:
        axes = [{axis: min(getattr(p, axis), size) for axis in "mnk"} for p in problems]
        pairs = zip(axes, problems, strict=True)
        small = [ProblemSpec(**own, alpha=p.alpha, beta=p.beta) for own, p in pairs]
        distinct = list(dict.fromkeys(map(str, small)))
        return distinct[:: -(-len(distinct) // PROBLEMS) or 1]

    problems, profiled = shrunk(experiment.problems), shrunk(experiment.profiled)
    document = {"title": experiment.title, "question": experiment.question, "variants": names}
    document |= {"profile": profiled} if profiled else {}
    if not problems:
        return document
    document |= {
        "problems": problems,
        "data": list(experiment.data),
        "isolated": experiment.isolated,
    }
    return document | {"flush_l2": experiment.flush_l2} | PROTOCOL


def emulated(entry: catalogue.Entry) -> bool:
    """Whether the emulated GPU runs it: kernels and cuBLAS; torch and Triton bring their own
    CUDA.
    """
    return not isinstance(entry, Baseline) or entry.library in EMULATED_LIBRARIES


def commit(folder: Path) -> None:
    """Make the copy a commit, which provenance names; without git it is none, and provenance says
    so.
    """
    if shutil.which("git"):
        user = "-c user.name=rehearsal -c user.email="
        for words in ("init -q", "add -A", f"{user} commit -q -m rehearsal"):
            subprocess.run(["git", *words.split()], cwd=folder, check=True, capture_output=True)


def estimate(experiment: Experiment) -> str:
    """How much of a GPU the real run of an experiment takes, in words."""
    entries = catalogue.load()
    variants, processes = len(experiment.variants), experiment.processes
    windows = variants * len(experiment.problems) * len(experiment.data) * processes
    alone = 2 * (bench.SETTLE_S + bench.ALONE_S) if experiment.isolated else 0.0
    power = min(bench.POWER_PROCESSES, processes) * experiment.power_s / processes
    seconds = windows * (alone + experiment.warmup_s + experiment.window_s + power)
    seconds += START_S * processes * -(-variants // 8)
    kernels = sum(not isinstance(entries.find(name), Baseline) for name in experiment.variants)
    counted = variants * len(experiment.profiled)
    seconds += COUNTER_S * counted + CHECK_S * kernels
    return f"{experiment.name}: {windows} windows, {counted} profiles; about {seconds:.0f} s of an H100"


def main() -> None:
    parser = argparse.ArgumentParser(description="Rehearse a measuring run on an emulated GPU.")
    parser.add_argument(
        "experiments", nargs="*", default=[], metavar="EXPERIMENT", help="default: two ladders"
    )
    parser.add_argument("--variants", nargs="+", default=[], metavar="VARIANT", help="these alone")
    parser.add_argument(
        "--size", type=int, default=128, help="the most rows and columns (default: %(default)s)"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "rehearsal", help="of the copy (default: rehearsal)"
    )
    options = parser.parse_args()
    variants = options.variants or ([] if options.experiments else VARIANTS)
    experiments = options.experiments or EXPERIMENTS
    for name in experiments:
        print(f"the real run of {estimate(declarations.load(name))}", flush=True)
    rehearsal = prepare(options.folder.resolve(), experiments, variants, options.size)
    declared = [
        name for experiment in experiments for name in declarations.load(experiment).variants
    ]
    if left_out := [name for name in dict.fromkeys(declared) if name not in rehearsal.variants]:
        why = "not among the chosen" if variants else "torch and Triton bring their own CUDA"
        print(f"left out, {why}: {', '.join(left_out)}", flush=True)
    print(f"{REHEARSAL}; of {', '.join(rehearsal.variants)}, in {options.folder}", flush=True)
    for name, step in rehearsal.steps.items():
        start = time.monotonic()
        done = step()
        log = rehearsal.tree / f"{name.replace(', ', '-').replace(' ', '-')}.log"
        log.write_text(done.stdout + done.stderr)
        outcome = "FAILED" if done.returncode else "passed"
        print(f"{name}: {outcome}, {time.monotonic() - start:.0f} s", flush=True)
        if done.returncode:
            lines = [line for line in log.read_text().splitlines() if line.startswith("error: ")]
            raise UserError(f"{name}: {[*lines, f'exit code {done.returncode}'][0]}; see {log}")
    if amiss := rehearsal.amiss():
        raise UserError("; ".join(amiss))
    print(f"rehearsed; see {options.folder}/results")


if __name__ == "__main__":
    run_command(main)
