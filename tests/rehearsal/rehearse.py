"""Rehearses a measuring run without a GPU: the project's own commands, from Snakefile to archive,
on ptxsim's H100.

    make rehearse                                        # three kernels and two libraries, as CI does: two minutes
    make rehearse EXPERIMENT=my_experiment               # one experiment with all of its variants that can be emulated
    python tests/rehearsal/rehearse.py my_experiment --variants sgemm_warptile cublas_fp32 --size 256

It works in a copy of the project, in rehearsal/, and touches nothing else. There, problems have at
most --size rows, columns and k, and two processes measure each. Launches and checks are real, on an
emulated GPU; NVML and ncu are stand-ins. Times come from a made-up clock, and every output says so.
A rehearsal that was cut starts anew, but compiles no kernel again.
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
from contracts.rows import Checks, Counters, CountersWithBeta  # noqa: E402
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
VARIANTS = (
    "sgemm_blocktile_2d",
    "sgemm_c_dispatch",
    "hgemm_wgmma_tma_bf16",
    "cublas_fp32",
    "cublas_bf16",
)
EMULATED_LIBRARIES = ("cublas", "cublaslt")
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
        path = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        found = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GEMM_LADDER_", "MAKE"))
        }
        found |= {"PYTHONPATH": str(self.tree), "GEMM_LADDER_REHEARSAL": "1"}
        if gpu:
            path.insert(0, str(HERE / "nsight"))
            stand_in = self.tree / STAND_IN
            found |= {"NVML_STAND_IN": str(stand_in / "state"), "GEMM_LADDER_LOCKS": str(stand_in)}
            found |= {
                "LD_LIBRARY_PATH": os.pathsep.join(
                    [str(stand_in), os.environ.get("LD_LIBRARY_PATH", "")]
                )
            }
            found.pop("CUDA_VISIBLE_DEVICES", None)
        else:
            found["CUDA_VISIBLE_DEVICES"] = ""
        return found | {"PATH": os.pathsep.join(path)}

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
        measure = {
            "measure, check, count, draw": lambda: self.snakemake(*self.experiments, gpu=True)
        }
        only = [
            f"results/{MACHINE}/only/{name}"
            for name in self.experiments
            if self.asked(name).get("problems")
        ]
        if not only:  # an archive is of what was timed
            return measure
        of_archive = {"mode": "redraw", "archive": MACHINE}
        shown = ["--archive", f"data/{MACHINE}", "--catalogue", "results/variants.csv"]
        return measure | {
            "archive": lambda: self.snakemake("archive", gpu=True),
            "archive --check": lambda: self.run(
                "experiments.stages.archive", "--check", f"data/{MACHINE}"
            ),
            "reproduce": lambda: self.run("analysis", "reproduce", "--results", *only, *shown),
            "paper, explorer": lambda: self.snakemake("paper", "explorer", gpu=False, **of_archive),
        }

    def asked(self, name: str) -> dict[str, Any]:
        """The file of an experiment, as it is rehearsed."""
        found: dict[str, Any] = yaml.safe_load(
            (self.tree / "experiments" / f"{name}.yaml").read_text()
        )
        return found

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
        tables = self.results / "only" / name
        windows, counters = (
            dict_rows(tables / f"{table}.csv", table) for table in ("windows", "counters")
        )
        if (with_beta := tables / "counters_with_beta.csv").is_file():
            counters += dict_rows(with_beta, CountersWithBeta)
        checks = dict_rows(tables / "checks.csv", Checks)
        samples = read_samples(tables / "samples.parquet").to_pandas()
        expected = (
            len(asked.get("problems", [])) * len(asked.get("data", [])) * PROTOCOL["processes"]
        )
        for variant in asked["variants"]:
            own = [row for row in windows if row["variant"] == variant]
            if len(own) != expected:
                yield f"{name}: {variant} has {len(own)} of {expected} windows"
            if not any(row["variant"] == variant and row["device"] == "gpu" for row in checks) and (
                expected or variant in kernels
            ):
                yield f"{name}: {variant} was not checked on the GPU"
            values = {row["metric"]: row["value"] for row in counters if row["variant"] == variant}
            known = {row["metric"] for row in predicted if row["variant"] == variant} or {DURATION}
            if (
                asked.get("profile")
                and variant in kernels
                and (lacking := sorted(known - values.keys() - EMULATOR_S_OWN))
            ):
                yield f"{name}: {variant} lacks counters: {', '.join(lacking)}"
            if (
                own
                and DURATION in values
                and asked["problems"] == asked["profile"]
                and len(asked["problems"]) == 1
            ):
                timed = samples[(samples["variant"] == variant) & (samples["role"] == "variant")][
                    "time_us"
                ].median()
                if abs(timed * 1e3 / values[DURATION] - 1) > SAME_TIME:
                    yield f"{name}: {variant} takes {timed:.0f} us in windows, {values[DURATION] / 1e3:.0f} under ncu"


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
    shutil.rmtree(folder, ignore_errors=True)

    def ignored(path: str, names: list[str]) -> list[str]:
        top = Path(path) == ROOT
        hidden = [
            name for name in names if name.startswith(".") and not (top and name == ".gitignore")
        ]
        return [
            *hidden,
            *(name for name in names if (top and name in LEFT_OUT) or name == "__pycache__"),
        ]

    shutil.copytree(ROOT, folder, ignore=ignored)
    (folder / "data").mkdir()
    if kept.is_dir():
        kept.rename(folder / "results")
    for path in (folder / "experiments").glob("*.yaml"):
        path.unlink()
    for name, document in shrunk.items():
        (folder / "experiments" / f"{name}.yaml").write_text(
            yaml.safe_dump(document, sort_keys=False)
        )
    stand_in = folder / STAND_IN
    stand_in.mkdir()
    (stand_in / "state").write_text(f"cards {GPUS}\nname {GPU}\n")
    library = stand_in / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(NVML)], check=True)
    commit(folder)
    names = dict.fromkeys(name for document in shrunk.values() for name in document["variants"])
    return Rehearsal(folder, experiments, [*names])


def small(experiment: Experiment, variants: Sequence[str], size: int) -> Mapping[str, Any]:
    """An experiment's file with problems of at most `size` and few samples, of `variants` or all
    that are emulated.
    """
    entries = catalogue.load()
    names = [name for name in experiment.variants if not variants or name in variants]
    names = [name for name in names if emulated(entries.find(name))]
    if not names:
        raise UserError(
            f"{experiment.name}: none of its variants can be emulated, or is among --variants"
        )

    def shrunk(problems: Sequence[ProblemSpec]) -> list[str]:
        axes = [{axis: min(getattr(p, axis), size) for axis in "mnk"} for p in problems]
        found = [
            ProblemSpec(**own, alpha=p.alpha, beta=p.beta)
            for own, p in zip(axes, problems, strict=True)
        ]
        return list(dict.fromkeys(map(str, found)))

    problems, profiled = shrunk(experiment.problems), shrunk(experiment.profiled)
    document = {"title": experiment.title, "question": experiment.question, "variants": names}
    document |= {"problems": problems} if problems else {}
    document |= {"profile": profiled} if profiled else {}
    document |= {"data": list(experiment.data)} if problems else {}
    document |= (
        {"flush_l2": experiment.flush_l2, "isolated": experiment.isolated} if problems else {}
    )
    return document | (PROTOCOL if problems else {})


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
        for words in (
            "init -q",
            "add -A",
            "-c user.name=rehearsal -c user.email= commit -q -m rehearsal",
        ):
            subprocess.run(["git", *words.split()], cwd=folder, check=True, capture_output=True)


def estimate(experiment: Experiment) -> str:
    """How much of a GPU the real run of an experiment takes, in words."""
    entries = catalogue.load()
    windows = (
        len(experiment.variants)
        * len(experiment.problems)
        * len(experiment.data)
        * experiment.processes
    )
    alone = 2 * (bench.SETTLE_S + bench.ALONE_S) if experiment.isolated else 0.0
    power = (
        min(bench.POWER_PROCESSES, experiment.processes) * experiment.power_s / experiment.processes
    )
    seconds = windows * (alone + experiment.warmup_s + experiment.window_s + power)
    seconds += START_S * experiment.processes * -(-len(experiment.variants) // 8)
    kernels = sum(not isinstance(entries.find(name), Baseline) for name in experiment.variants)
    counted = len(experiment.variants) * len(experiment.profiled)
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
    asked = dict.fromkeys(
        variant for name in experiments for variant in declarations.load(name).variants
    )
    if left_out := [name for name in asked if name not in rehearsal.variants]:
        why = "not among the chosen" if variants else "torch and Triton bring their own CUDA"
        print(f"left out, {why}: {', '.join(left_out)}", flush=True)
    print(f"{REHEARSAL}; of {', '.join(rehearsal.variants)}, in {options.folder}", flush=True)
    for name, step in rehearsal.steps.items():
        start = time.monotonic()
        done = step()
        log = rehearsal.tree / f"{name.replace(', ', '-').replace(' ', '-')}.log"
        log.write_text(done.stdout + done.stderr)
        print(
            f"{name}: {'passed' if not done.returncode else 'FAILED'}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
        if done.returncode:
            errors = dict.fromkeys(
                line for line in log.read_text().splitlines() if line.startswith("error: ")
            )
            raise UserError(
                f"{name}: {next(iter(errors), 'exit code ' + str(done.returncode))}; see {log}"
            )
    if amiss := rehearsal.amiss():
        raise UserError("; ".join(amiss))
    print(f"rehearsed; see {options.folder}/results")


if __name__ == "__main__":
    run_command(main)
