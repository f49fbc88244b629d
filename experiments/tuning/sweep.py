"""Sweeps a grid of tiles: builds, checks and measures every configuration, and records the best
ones.

    python -m experiments.tuning.sweep --count
    python -m experiments.tuning.sweep --machine h200 --arch sm_90a --build-dir results/build/sm_90a \
        --out-dir results/h200
    python -m experiments.tuning.sweep --rank --arch sm_90a --out-dir results/no-gpu

The grid is tile_autotune.yaml, what is left out of it and why space.py (both here). Builds run on
all processors ahead of the GPU, which measures in an order drawn at random, so that a drift of the
machine does not look like an effect of the tile. The best of each kernel are measured again with
more samples; the winner is the best then. --rank, which needs no GPU, puts all in an order by the
emulator (ranking.py), in OUT_DIR/tuning_ranked.csv;
--static N does so and measures only the first N of each kernel.

Each result is appended to OUT_DIR/tune/ as soon as it is there. A sweep that was stopped, by
whatever, goes on from there when the same command runs again: what was measured or failed its check
is kept as long as sources, template values, compiler and settings are the same, and what could not
be built or run is tried again. At the end OUT_DIR gets tuning.csv, one row a configuration, and
tuned.json, the winners.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import hashlib
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from contracts import (
    UserError,
    read_json,
    run_command,
    validated,
    write_json,
    write_rows,
    write_text,
)
from contracts.rows import Resources, Tuned, Tuning, TuningRanked
from experiments.command_line import find_machine
from experiments.gpu import discovery
from experiments.gpu.worker import Failure, Worker
from experiments.stages import build, toolchain
from experiments.tuning import ranking, space
from experiments.tuning.space import Configuration, Sweep
from kernels.catalogue import Variant

logger = logging.getLogger(__name__)

SEED = 9
MOST_FAULTS = 8  # in a row: then it is not the configurations
BUILT = [
    "arch",
    "compiler",
    "source_hash",
    "registers",
    "stack_bytes",
    "spill_bytes",
    "shared_bytes",
    "occupancy",
]


# Measures a variant with so many samples: columns of tuning.csv, `checked`, `reason` and, without a
# reason, the figures
Measure = Callable[[tuple[Variant, int]], dict[str, Any] | Failure]


class Parts:
    """The results so far: a file of JSON lines, rows of tuning.csv, each on disk before the next is
    begun.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text() if path.is_file() else ""
        except OSError as error:
            raise UserError(f"cannot use {path}: {error.strerror}") from error
        # a line that was being written when the process was killed has no end
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            write_text(path, whole)
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UserError(
                    f"{path} line {number}: not JSON; remove the file to measure again"
                ) from error
            validated(row, Tuning, f"{path} line {number}")
            self.rows[self.key(row)] = row

    @staticmethod
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        """What a result belongs to."""
        return row["source_hash"], row["compiler"], row["arch"], row["round"]

    def find(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """The result for these sources, compiler and round; None where there is none, or it could
        not be run.
        """
        found = self.rows.get(self.key(row))
        return found if found and found["checked"] is not None else None

    def append(self, row: dict[str, Any]) -> None:
        """Keep a result."""
        validated(row, Tuning, self.path)
        with self.path.open("a") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.rows[self.key(row)] = row


def settings_digest(sweep: Sweep) -> str:
    """Changes with whatever a result depends on in addition to the configuration."""
    settings = [sweep.size, sweep.data, sweep.flush_l2, sweep.samples, sweep.final_samples]
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]


class Builder:
    """Builds configurations in `folder`, `jobs` at a time; what is there already, whole and
    current, is kept.
    """

    def __init__(self, folder: Path, arch: str, nvcc: Path, jobs: int) -> None:
        self.folder, self.arch, self.nvcc = folder, arch, nvcc
        self.compiler = build.compiler_name(nvcc)
        self.pool = ThreadPoolExecutor(jobs)

    def submit(self, variant: Variant) -> Future[dict[str, Any]]:
        """Its row of resources.csv, later; `UserError` where the compiler refuses it."""
        return self.pool.submit(self.build, variant)

    def build(self, variant: Variant) -> dict[str, Any]:
        """Its row, of a build that is there or is made now, in this process."""
        row = build.current(variant, self.folder / variant.name, self.arch, self.nvcc)
        if row is None:
            cubin = build.build_kernel(variant, self.arch, self.folder, str(self.nvcc))
            row = read_json(cubin.with_suffix(".json"), Resources)
        return vars(row)

    def close(self) -> None:
        """Drop what is not begun."""
        self.pool.shutdown(wait=True, cancel_futures=True)


def row_of(configuration: Configuration) -> dict[str, Any]:
    """A configuration's row before anything is known of it."""
    row: dict[str, Any] = dict.fromkeys(Tuning.model_fields)
    values = {key: value for key, value in configuration.values.items() if key in row}
    valid = configuration.broken is None
    return (
        row
        | values
        | {
            "kernel": configuration.kernel,
            "threads": configuration.threads,
            "valid": valid,
            "reason": configuration.broken,
        }
    )


class Run:
    """One run of a sweep: what is there is taken from `parts`, the rest is built and measured."""

    def __init__(self, sweep: Sweep, builder: Builder, measure_one: Measure, parts: Parts) -> None:
        self.sweep, self.builder, self.measure_one, self.parts = sweep, builder, measure_one, parts
        self.faults = 0

    def measure(
        self, todo: list[Configuration], number: int, samples: int
    ) -> dict[str, dict[str, Any]]:
        """Round `number` for these configurations: their rows, by the configuration's name."""
        variants = {configuration.name: configuration.variant() for configuration in todo}
        blank = {
            c.name: row_of(c)
            | {"source_hash": variants[c.name].source_hash, "compiler": self.builder.compiler}
            | {"arch": self.builder.arch, "round": number, "size": self.sweep.size}
            for c in todo
        }
        rows = {
            name: found
            for name, row in blank.items()
            if (found := self.parts.find(row)) is not None
        }
        missing = [name for name in blank if name not in rows]
        if rows:
            logger.info(
                f"round {number}: {len(rows)} of {len(blank)} configurations are measured already"
            )
        builds = {name: self.builder.submit(variants[name]) for name in missing}
        start = time.monotonic()
        for done, name in enumerate(missing, start=1):
            row = blank[name] | self.result(variants[name], builds.pop(name), samples)
            self.parts.append(row)
            rows[name] = row
            left = (time.monotonic() - start) / done * (len(missing) - done)
            outcome = (
                row["reason"]
                or f"{row['tflops']:.2f} TFLOP/s, {row['fraction_of_cublas']:.1%} of cuBLAS"
            )
            logger.info(
                f"round {number}, {done}/{len(missing)}: {name}: {outcome}; about {left:.0f} s left"
            )
        # in the order asked for, whatever was there before
        return {name: rows[name] for name in blank}

    def result(
        self, variant: Variant, built: Future[dict[str, Any]], samples: int
    ) -> dict[str, Any]:
        """The columns that building and measuring add."""
        try:
            resources = built.result()
        except UserError as error:
            return {"checked": None, "reason": f"build: {error}"}
        row = {key: resources[key] for key in BUILT}
        found = self.measure_one((variant, samples))
        row |= (
            {"checked": None, "reason": f"run: {found.reason}"}
            if isinstance(found, Failure)
            else found
        )
        self.faults = self.faults + 1 if row["checked"] is None else 0
        if self.faults >= MOST_FAULTS:
            raise UserError(
                f"{self.faults} configurations in a row could not be run, the last: {row['reason']}"
            )
        return row

    def all(self, configurations: list[Configuration]) -> dict[str, dict[str, Any]]:
        """Both rounds. A row is of its configuration's last round."""
        order = list(configurations)
        random.Random(SEED).shuffle(order)
        rows = self.measure(order, 1, self.sweep.samples)
        named = {configuration.name: configuration for configuration in order}
        finalists = [
            named[name]
            for kernel in self.sweep.kernels
            for name in best(
                [(name, row) for name, row in rows.items() if row["kernel"] == kernel]
            )[: self.sweep.finalists]
        ]
        return rows | self.measure(finalists, 2, self.sweep.final_samples)


def best(rows: Iterable[tuple[str, dict[str, Any]]]) -> list[str]:
    """Names of the configurations that have a time, the fastest first."""
    timed = [(name, row) for name, row in rows if not row["reason"] and row["tflops"]]
    return [name for name, row in sorted(timed, key=lambda item: -item[1]["tflops"])]


def restrictions(configurations: Iterable[Configuration], kernel: str) -> list[dict[str, Any]]:
    """What is left out of a kernel's grid: each restriction with its reason and count."""
    counts = Counter(c.broken for c in configurations if c.kernel == kernel)
    return [
        {
            "name": r.__name__,
            "reason": " ".join((r.__doc__ or "").split()),
            "left_out": counts[r.__name__],
        }
        for r in space.RESTRICTIONS[kernel]
    ]


def winners(
    configurations: list[Configuration], rows: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The `kernels` of tuned.json: of each kernel, the fastest of the second round."""
    found = {}
    by_name = {configuration.name: configuration for configuration in configurations}
    for kernel in dict.fromkeys(c.kernel for c in configurations):
        names = best(
            [(n, row) for n, row in rows.items() if row["kernel"] == kernel and row["round"] == 2]
        )
        if not names:
            reasons = Counter(row["reason"] for row in rows.values() if row["kernel"] == kernel)
            raise UserError(
                f"{kernel}: no configuration could be measured; {reasons.most_common(1)[0][0]}"
            )
        configuration, row = by_name[names[0]], rows[names[0]]
        found[kernel] = {
            "template": dict(configuration.values),
            "threads": configuration.threads,
            **{key: row[key] for key in ("tflops", "fraction_of_cublas", "source_hash")},
            "restrictions": restrictions(configurations, kernel),
        }
    return found


def tell_counts(configurations: list[Configuration]) -> None:
    """How many configurations there are, and why some are left out."""
    for kernel in dict.fromkeys(c.kernel for c in configurations):
        of_it = [c for c in configurations if c.kernel == kernel]
        print(
            f"{kernel}: {len(of_it)} configurations, {sum(c.broken is None for c in of_it)} to measure"
        )
        for entry in restrictions(of_it, kernel):
            print(f"  {entry['left_out']:6} left out by {entry['name']}: {entry['reason']}")


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0))


def ranked(
    options: argparse.Namespace, sweep: Sweep, valid: list[Configuration]
) -> list[Configuration]:
    """Write tuning_ranked.csv, tell the first of each kernel, and give them: as many as --static
    says.
    """
    machine = find_machine(options.rates, "--rates")
    folder = options.out_dir / "tune" / "build" / options.arch
    builder = Builder(folder, options.arch, toolchain.nvcc(options.nvcc), options.jobs)
    builds = {}
    try:
        for number, (name, built) in enumerate(
            [(c.name, builder.submit(c.variant())) for c in valid], start=1
        ):
            try:
                builds[name] = built.result()
            except UserError as error:
                logger.warning(f"FAILED {name}: {error}")
            if number % 50 == 0:
                logger.info(f"built {number} of {len(valid)}")
    finally:
        builder.close()
    found = ranking.rank(builds, valid, sweep.size, folder, machine, options.jobs)
    template = [key for key in row_of(valid[0]) if key in TuningRanked.model_fields]
    rows = [
        {key: row_of(configuration)[key] for key in template} | row for configuration, row in found
    ]
    write_rows(options.out_dir / "tuning_ranked.csv", TuningRanked, rows)
    chosen: list[Configuration] = []
    for kernel in sweep.kernels:
        own = [(c, row) for c, row in found if c.kernel == kernel and "estimate" in row][
            : options.static or sweep.finalists
        ]
        for configuration, row in own:
            print(f"{row['estimate']:12,.0f} cycles  {row['resource']:12s} {configuration.name}")
        chosen += [configuration for configuration, _ in own]
    return chosen


def drawn(options: argparse.Namespace, configurations: list[Configuration]) -> list[Configuration]:
    """The configurations that may be built; with --limit, so many of them at random."""
    valid = [configuration for configuration in configurations if configuration.broken is None]
    return random.Random(SEED).sample(valid, min(options.limit or len(valid), len(valid)))


def tune(options: argparse.Namespace, sweep: Sweep, configurations: list[Configuration]) -> None:
    """Measure, and write tuning.csv and tuned.json."""
    from experiments.gpu.session import session
    from experiments.tuning.measure import opened

    gpu = discovery.gpu()
    if gpu is None:
        raise UserError(
            "no GPU: this stage needs an NVIDIA GPU and its driver; --count and --rank need none"
        )
    folder = options.out_dir / "tune"
    builds = folder / "build" / options.arch
    parts = Parts(folder / f"measured-{settings_digest(sweep)}.jsonl")
    chosen = drawn(options, configurations)
    if options.static:
        chosen = ranked(options, sweep, chosen)
    builder = Builder(builds, options.arch, toolchain.nvcc(options.nvcc), options.jobs)
    measuring = functools.partial(opened, sweep, options.build_dir, builds)
    try:
        # a fork next to the builder's threads might hang
        with session(), Worker(measuring, start="spawn") as worker:
            rows = Run(sweep, builder, worker.do, parts).all(chosen)
    except KeyboardInterrupt:
        logger.warning(
            f"interrupted: {len(parts.rows)} results are kept in {parts.path}; the same command goes on from there"
        )
        raise SystemExit(130) from None
    finally:
        builder.close()
    failed = [name for name, row in rows.items() if row["reason"]]
    for name in failed:
        logger.warning(f"FAILED {name}: {rows[name]['reason']}")
    chosen_kernels = winners(
        [c for c in configurations if c.kernel in {c.kernel for c in chosen}], rows
    )
    left_out = {
        "reason": "not measured: beyond --limit"
        if options.limit
        else "not measured: not among --static"
    }
    write_rows(
        options.out_dir / "tuning.csv",
        Tuning,
        [
            rows.get(c.name) or row_of(c) | (left_out if c.broken is None else {})
            for c in configurations
        ],
    )
    write_json(
        options.out_dir / "tuned.json",
        Tuned,
        {
            "machine": options.machine,
            "gpu": gpu.name,
            "arch": options.arch,
            "compiler": builder.compiler,
            "driver": gpu.driver,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "size": sweep.size,
            "kernels": chosen_kernels,
        },
    )
    logger.info(f"measured {len(rows) - len(failed)} configurations, {len(failed)} failed")
    for kernel, winner in chosen_kernels.items():
        values = ", ".join(f"{key} = {value}" for key, value in winner["template"].items())
        logger.info(
            f"{kernel}: {values}: {winner['tflops']:.2f} TFLOP/s, {winner['fraction_of_cublas']:.1%} of cuBLAS"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Sweep a grid of tiles and record the best.")
    parser.add_argument(
        "--count", action="store_true", help="only say how many configurations there are, and stop"
    )
    parser.add_argument("--machine", help="name of the folder of results/ and data/")
    parser.add_argument("--arch", help="for instance sm_90a")
    parser.add_argument("--build-dir", type=Path, help="with harness.cubin")
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--out-dir", type=Path, help="tuning.csv and tuned.json are written there")
    parser.add_argument(
        "--kernel", choices=list(space.RESTRICTIONS), help="only this kernel's grid"
    )
    parser.add_argument(
        "--limit", type=int, help="measure only so many configurations, drawn at random: a trial"
    )
    parser.add_argument(
        "--rank", action="store_true", help="only write tuning_ranked.csv, on the emulator"
    )
    parser.add_argument(
        "--static",
        type=int,
        metavar="N",
        help="measure only the N of each kernel that come first there",
    )
    parser.add_argument(
        "--rates",
        default="h200",
        help="whose rates the emulator's are: one of ptxsim's, or a .toml file",
    )
    parser.add_argument(
        "--jobs", type=int, default=max(1, processors() - 1), help="builds at a time (%(default)s)"
    )
    options = parser.parse_args()
    sweep = space.load()
    if options.kernel:
        sweep = replace(sweep, kernels={options.kernel: sweep.kernels[options.kernel]})
    for name, least in (("limit", 1), ("static", 1), ("jobs", 1)):
        if (value := getattr(options, name)) is not None and value < least:
            raise UserError(f"--{name} {value} is not allowed; allowed: at least {least}")
    configurations = list(sweep.configurations())
    if options.count:
        tell_counts(configurations)
        return
    needed = ("arch", "out_dir") if options.rank else ("machine", "arch", "build_dir", "out_dir")
    if missing := [key for key in needed if getattr(options, key) is None]:
        raise UserError(
            f"--{missing[0].replace('_', '-')} is needed; see python -m experiments.tuning.sweep --help"
        )
    if options.rank:
        ranked(options, sweep, drawn(options, configurations))
        return
    tune(options, sweep, configurations)


if __name__ == "__main__":
    run_command(main)
