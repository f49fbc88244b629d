"""Measures variants of one experiment, each alone and next to its baseline, in one fresh process
after another.

    python -m experiments.stages.bench sgemm_ladder sgemm_warptile sgemm_naive --build-dir results/build/sm_90a \
        --store measured --out manifest.json

For each variant, problem and kind of data of the experiment, each process measures: the variant
alone and the baseline alone, one directly after the other, for the isolated fraction, unless a run
is too short for that or the experiment does without; then a window in which both alternate (which
of a pair comes first is drawn), for the interleaved fraction and the one per clock. The outputs of
that window are checked where they lie. Two processes also read the power while the variant runs
alone, if the experiment asks for it. The baseline is the fastest call that its library has for the
problem, by an algorithm search that is made once and kept. A window ends once the fraction of the
baseline is known well enough, or at its longest time. What was measured is stored as it came;
`experiments.stages.tables` writes the tables, and analysis/timings.py derives from them.

A measurement is stored as soon as it is made, and one that is there is not made again, whichever
experiment asked for it: a run that is cut loses one window. A kernel that faults or hangs loses its
own rows; a fresh process measures the rest.

Clocks are left as they are, unless `--clock-policy locked` says to lock them through NVML while it
runs (`experiments.gpu.clocks`). A sample whose SM clock, by the stamps around it, is then more than
1% off is rejected; a problem with too few left is left out, and the manifest says why.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command
from contracts.dtypes import Types
from contracts.rows import Checks, Ended, MeasuredRows, Windows
from contracts.samples import GAP, NO_CLOCK, OFF_TARGET, SHORT_US, samples_table
from experiments import declarations
from experiments.command_line import add_build_dir, add_checked, add_manifest, add_variants
from experiments.declarations import Item, Protocol
from experiments.gpu import clocks, discovery, power
from experiments.gpu.device import Gpu
from experiments.gpu.libraries import Gemm, how_called, import_early, load_gemm
from experiments.gpu.session import UNKNOWN, Session, require_gpu
from experiments.gpu.timing import Samples, Stopwatch, Work, duration_us, warm_up
from experiments.gpu.worker import Failure, Watch, work_through
from experiments.stages import store, verify
from experiments.stages.interleave import (
    MIN_KEPT,
    ROLES,
    Interleaved,
    Matrices,
    check_output,
    interleave_until,
)
from experiments.stages.library_calls import LibraryCalls
from experiments.stages.machine_code import code_of
from experiments.stages.store import Key, Measurement, Store
from kernels.catalogue import Baseline, Catalogue, Dispatcher, Entry, Problem

logger = logging.getLogger(__name__)

# of one kernel back to back: until its clock has settled, and the time that counts
SETTLE_S, ALONE_S = 0.05, 0.04
# of pairs back to back, before the window in which they alternate
WARM_MOST_S, WARM_AFTER_ALONE_S = 0.4, 0.06
POWER_PROCESSES = 2  # that read the power: a value, and whether it repeats
LONG_US = 20_000.0  # a run above which one run alone is long enough to plan by
AS_FOUND = "back to back until steady, clocks as found"


@dataclass(frozen=True)
class Request:
    """What all items of a process share: the catalogue, the folder of its builds, and the SM and
    memory clock to lock.

    A clock of None: the usual one.
    """

    entries: Catalogue
    build_dir: Path
    sm_mhz: int | None = None
    memory_mhz: int | None = None

    @property
    def clocks(self) -> tuple[int | None, int | None]:
        """As `clocks.locked` takes them."""
        return self.sm_mhz, self.memory_mhz

    def pair(self, item: Item) -> tuple[Entry, Entry]:
        """The entry of an item, and the baseline that it is measured next to."""
        entry = self.entries.find(item.variant)
        return entry, self.entries[entry.baseline]


@dataclass(frozen=True)
class Result:
    """What one process measured on one problem with one kind of data."""

    problem: Problem
    data: str
    seed: int
    interleaved: Interleaved
    checked: dict[str, verify.CheckResult]
    power: power.Reading  # of the variant alone
    memory: str | None = None  # why the memory clock, if locked, did not stay
    baseline_call: str | None = None  # which of its library's calls the baseline was
    ci_half_width: float | None = None  # of the share, when the window ended
    ended: Ended | None = None  # why it ended then
    baseline_run_us: float | None = None  # a run of the baseline alone, back to back


def each_alone(
    gpu: Gpu, works: Mapping[str, Work], first_us: Mapping[str, float], flip: bool
) -> dict[str, float]:
    """The time of one run of each in microseconds, back to back, by role: one directly after the
    other, so that both meet the card equally warm. Where power binds, its clock settles within tens
    of milliseconds after the work changes.

    `first_us`: about as long as one run takes; with one below `SHORT_US`, none is timed. `flip`:
    the last goes first.
    """
    if min(first_us.values()) < SHORT_US:
        return {}
    time_us = {}
    for role, work in list(works.items())[:: -1 if flip else 1]:
        for seconds in (SETTLE_S, ALONE_S):
            time_us[role] = duration_us(gpu, work, max(1, round(seconds * 1e6 / first_us[role])))
    return time_us


def planned_us(gpu: Gpu, work: Work) -> float:
    """About how long a run takes, in microseconds; the first run loads the kernel, and does not
    count.
    """
    duration_us(gpu, work)
    second_us = duration_us(gpu, work)
    return second_us if second_us > LONG_US else min(second_us, duration_us(gpu, work))


class Bench:
    """Measures on the GPU that is held; `target`: what its clocks are locked at, if they are."""

    def __init__(
        self,
        build_dir: Path,
        handle: object,
        calls: LibraryCalls,
        request: Request,
        target: clocks.Target | None = None,
    ) -> None:
        self.handle, self.target, self.calls, self.request = handle, target, calls, request
        self.gpu = Gpu(build_dir)
        self._gemms: dict[str, Gemm] = {}
        self._stopwatches: dict[bool, Stopwatch] = {}
        self._matrices: Matrices | None = None

    def measure(self, item: Item, session: str) -> Result:
        """Measure one variant next to its baseline; `session`: what the GPU that is held is
        called.
        """
        gpu, protocol = self.gpu, item.protocol
        entry, baseline_entry = self.request.pair(item)
        problem = item.problem.of(entry.b_layout)
        matrices = self._filled(problem, entry.types, item.data)
        gemms = {
            role: self._loaded(loaded)
            for role, loaded in zip(ROLES, (entry, baseline_entry), strict=True)
        }
        for gemm in gemms.values():
            self.calls.settle(gemm, matrices, session)
        works = {role: matrices.bind(gemm, role) for role, gemm in gemms.items()}
        variant, baseline = works.values()

        def pair() -> None:
            variant()
            baseline()

        first_us = {role: planned_us(gpu, work) for role, work in works.items()}
        alone = (
            each_alone(gpu, works, first_us, flip=item.process % 2 == 1)
            if protocol.isolated
            else {}
        )
        reading = power.Reading(run_us=alone.get("variant"))
        if protocol.power_s and item.process < POWER_PROCESSES:
            reading = power.watch(gpu, self.handle, variant, first_us["variant"], protocol.power_s)
            # next to the baseline's
            reading = replace(reading, run_us=alone.get("variant", reading.run_us))
        most_s = WARM_AFTER_ALONE_S if alone or not protocol.isolated else WARM_MOST_S
        pair_us = warm_up(
            gpu, pair, protocol.warmup_s, most_s, chunk_s=max(protocol.warmup_s, 0.03) / 3
        )
        for role in works:  # what is checked below was written by timed runs
            matrices.poison(gpu, role)
        stopwatch = self._stopwatch(protocol)
        interleaved, half_width, ended = interleave_until(
            stopwatch, works, pair_us, protocol, matrices.seed
        )
        memory = clocks.memory_off_target(self.handle, self.target) if self.target else None
        checked = {
            role: check_output(gpu, matrices, role, work, isinstance(timed, Baseline))
            for (role, work), timed in zip(works.items(), (entry, baseline_entry), strict=True)
        }
        return Result(
            problem,
            item.data,
            matrices.seed,
            interleaved,
            checked,
            reading,
            memory,
            baseline_call=how_called(gemms["baseline"], problem),
            ci_half_width=half_width if np.isfinite(half_width) else None,
            ended=ended,
            baseline_run_us=alone.get("baseline"),
        )

    def _filled(self, problem: Problem, types: Types, data: str) -> Matrices:
        """Return the inputs of the measurement before, if they are the same, or new ones."""
        old = self._matrices
        if old and (old.problem, old.types, old.data) == (problem, types, data):
            return old
        self._matrices = old = None  # frees the memory first
        self._matrices = new = Matrices.fill(self.gpu, problem, types, data)
        return new

    def _loaded(self, entry: Entry) -> Gemm:
        if entry.name not in self._gemms:
            self._gemms[entry.name] = load_gemm(self.gpu, entry)
        return self._gemms[entry.name]

    def _stopwatch(self, protocol: Protocol) -> Stopwatch:
        known = self._stopwatches.get(protocol.flush_l2)
        if known is None or known.capacity < 2 * protocol.samples:
            known = Stopwatch(self.gpu, 2 * protocol.samples, protocol.flush_l2)
            self._stopwatches[protocol.flush_l2] = known
        return known


def measurement(
    item: Item, result: Result, target: clocks.Target | None, request: Request, session: str
) -> Measurement:
    """Return what is stored of a result: its window, its checks and its samples.

    Raises `UserError` where launch gaps leave too few samples: that is the host's fault, and worth
    another try.
    """
    entry, _ = request.pair(item)
    samples = result.interleaved.samples
    reasons = why_rejected(samples, target)
    passed = all(check.passed for check in result.checked.values())
    left_out = None
    if passed and target:
        left_out = result.memory or off_target(
            result.interleaved, reasons, target, result.power.throttle_fractions
        )
    kept = [len(result.interleaved.of(role, reasons == "").time_us) for role in ROLES]
    if passed and not left_out and min(kept) < MIN_KEPT:
        gaps, unknown = (int((reasons == reason).sum()) for reason in (GAP, NO_CLOCK))
        raise UserError(
            f"{entry.name} at {item.problem.shown}: launch gaps spoilt {gaps} of {len(reasons)} samples, "
            f"and the clock of {unknown} is not known; leave the host's processor to the measurement"
        )
    window = Windows(
        **_head(item),
        dtype=entry.dtype,
        b_layout=result.problem.b_layout,
        clock_source=target.clock_source if target else AS_FOUND,
        locked_sm_mhz=target.sm_mhz if target else None,
        baseline=entry.baseline,
        baseline_call=result.baseline_call,
        seed=result.seed,
        passed=passed,
        left_out=left_out,
        power_w=result.power.power_w,
        power_error_w=result.power.error_w,
        power_run_us=result.power.run_us,
        temperature_c=result.power.temperature_c,
        throttle_reasons=result.power.throttle_reasons,
        throttle_fractions=result.power.throttle_fractions,
        code_hash=code_of(entry, request.build_dir),
        session=session,
        ci_half_width=result.ci_half_width,
        ended=result.ended,
        baseline_run_us=result.baseline_run_us,
    )
    checks = [
        _check(item, request, result.problem, role, result.seed, result.checked[role])
        for role in ROLES
        # one row says that all of them passed
        if item.process == 0 or not result.checked[role].passed
    ]
    counted = reasons == ""
    columns = _head(item) | {
        "window": "interleaved",
        "role": result.interleaved.roles,
        "index": np.arange(len(reasons)),
        "time_us": samples.time_us,
        "sm_clock_mhz": samples.sm_clock_mhz.astype(np.float32),
        "kept": counted,
        "reason": np.where(counted, np.array(None), reasons),
    }
    return Measurement(
        fingerprint_of(item, request),
        session,
        MeasuredRows(windows=[window], checks=checks),
        samples=samples_table(len(reasons), columns),
    )


def lost(item: Item, reason: str, request: Request) -> Measurement:
    """Return what is stored of an item whose kernel faulted or hung: a failed check, no window."""
    problem = item.problem.of(request.pair(item)[0].b_layout)
    check = _check(item, request, problem, ROLES[0], 0, verify.CheckResult(None, reason))
    return Measurement(fingerprint_of(item, request), UNKNOWN, MeasuredRows(checks=[check]))


def fingerprint_of(item: Item, request: Request) -> dict[str, Any]:
    """What the measurement rests on."""
    entry, baseline = request.pair(item)
    locked = list(request.clocks) if item.clock_policy == "locked" else None
    return store.fingerprint_of(entry, request.build_dir) | {
        "baseline": store.fingerprint_of(baseline, request.build_dir),
        "locked_mhz": locked,
        "protocol": asdict(item.protocol),
    }


def _serves(item: Item, request: Request) -> Callable[[store.Fingerprint], bool]:
    """Whether a measurement that is kept stands for this item: by the same or a stricter
    protocol.
    """
    wanted = fingerprint_of(item, request)

    def serves(fingerprint: store.Fingerprint) -> bool:
        same = {**fingerprint, "protocol": None} == {**wanted, "protocol": None}
        # not of an older version's protocol
        known = fingerprint["protocol"].keys() == wanted["protocol"].keys()
        return same and known and Protocol(**fingerprint["protocol"]).covers(item.protocol)

    return serves


def _head(item: Item) -> dict[str, Any]:
    p = item.problem
    key = {"experiment": "", "variant": item.variant, **p.row, "alpha": p.alpha, "beta": p.beta}
    return {**key, "clock_policy": item.clock_policy, "data": item.data, "process": item.process}


def _check(
    item: Item, request: Request, p: Problem, role: str, seed: int, result: verify.CheckResult
) -> Checks:
    """Return the row of one output of a timed window. Its case is complete once the experiment's
    name stands before it."""
    entry, baseline = request.pair(item)
    timed = entry if role == ROLES[0] else baseline
    # rows of checks.csv are known by their case and m, n and k
    scalars = str(item.problem).partition(",")[2]
    data = item.data if item.data != "uniform" else ""
    policy = item.clock_policy if item.clock_policy != "boost" else ""
    beside = "" if role == ROLES[0] else f" next to {entry.name}"
    process = f" in process {item.process}" if item.process else ""
    return Checks(
        variant=timed.name,
        code_hash=code_of(timed, request.build_dir),
        device="gpu",
        case=beside + process + "".join(f", {part}" for part in (data, scalars, policy) if part),
        **p.numbers,
        seed=seed,
        error_over_bound=result.worst,
        passed=result.passed,
        detail=result.detail,
    )


def _picked(item: Item, request: Request) -> str:
    """Which kernel of a dispatcher runs this problem, where that needs no search."""
    entry, _ = request.pair(item)
    if not isinstance(entry, Dispatcher) or entry.predicted:
        return ""
    return f" by {entry.pick(item.problem.of(entry.b_layout)).name}"


def outcome(item: Item, stored: Measurement) -> str:
    """Return what came of an item, in words."""
    if not stored.rows.windows:
        return f"FAILED: {stored.rows.checks[0].detail}"
    (window,) = stored.rows.windows
    if not window.passed:
        return "FAILED its check after timing"  # a wrong result has no speed
    if window.left_out:
        return f"left out: {item.variant}, {item.problem.shown}: {window.left_out}"
    assert stored.samples is not None
    samples = stored.samples.to_pandas()
    samples = samples[(samples["window"] == "interleaved") & samples["kept"]]
    ours, theirs = (float(samples["time_us"][samples["role"] == role].median()) for role in ROLES)
    by = f" ({window.baseline_call})" if window.baseline_call else ""
    tflops = item.problem.flop / ours / 1e6
    return f"{tflops:.2f} TFLOP/s, {theirs / ours:.1%} of {window.baseline}{by}"


def why_rejected(samples: Samples, target: clocks.Target | None) -> np.ndarray:
    """For each sample, why it does not count, "" where it does; with locked clocks, one more than
    1% off does not.
    """
    reasons = np.full(len(samples.time_us), "", f"<U{max(map(len, (GAP, NO_CLOCK, OFF_TARGET)))}")
    if target:
        reasons[~clocks.on_target(samples.sm_clock_mhz, target.sm_mhz)] = OFF_TARGET
    reasons[np.isnan(samples.sm_clock_mhz)] = NO_CLOCK
    reasons[~samples.kept] = GAP
    return reasons


def off_target(
    interleaved: Interleaved, reasons: np.ndarray, target: clocks.Target, throttled: str | None
) -> str | None:
    """Why a locked window counts for nothing: of the samples without a launch gap, too few kept the
    clock.

    None where enough are left of both roles, or where it is launch gaps that left too few.
    """

    def fewest(kept: np.ndarray) -> int:
        return min(int(kept[interleaved.roles == role].sum()) for role in ROLES)

    no_gap, kept = reasons != GAP, reasons == ""
    if fewest(kept) >= MIN_KEPT or fewest(no_gap) < MIN_KEPT:
        return None
    off = no_gap & ~kept
    return (
        f"{int(off.sum())} of {len(off)} samples were more than 1% off the locked {target.sm_mhz} MHz "
        f"(their median: {np.nanmedian(interleaved.samples.sm_clock_mhz[off]):.0f} MHz; "
        f"throttle reasons: {throttled or 'not read'})"
    )


def in_order(items: Iterable[Item], request: Request) -> list[Item]:
    """Such that items on the same matrices follow each other, as they do within one layout and
    problem.
    """

    def matrices(item: Item) -> tuple[Any, ...]:
        entry, _ = request.pair(item)
        problem = item.problem.of(entry.b_layout)
        return entry.dtype, problem.b_layout, *problem.numbers.values()

    return sorted(items, key=matrices)


def measured(
    items: list[Item], options: argparse.Namespace, kept: Store
) -> dict[Item, Measurement]:
    """Return each item's measurement: the stored one, or else one that is made now, and stored at
    once.

    `options` has build_dir, sm_mhz and memory_mhz. Raises `UserError` for what the host is to blame
    for (launch gaps, too little memory), once the others are measured.
    """
    request = request_of(options)
    session, start = Session(), time.monotonic()

    def by_process(
        todo: list[Item], invalid: set[Item]
    ) -> Iterator[tuple[Item, Measurement | Failure]]:
        # Once, and before the GPU is held: each measuring process is a fork of this one, and begins
        # with what it imported. A fork cannot use its parent's CUDA: no import initialises it, and
        # nothing else here may.
        for name in dict.fromkeys(item.variant for item in todo):
            import_early(request.entries.find(name))
        for number in sorted({item.process for item in todo}):
            of_process = [
                item
                for item in todo
                if item.process == number and replace(item, process=0) not in invalid
            ]
            if of_process:
                with session.held():  # until the process has ended, and its context with it
                    opened = functools.partial(_opened, of_process, options, kept, session.name)
                    yield from work_through(of_process, opened)

    def measure(
        todo: list[Item], results: dict[Key, Measurement]
    ) -> Iterator[tuple[Item, Measurement | str]]:
        todo, before = in_order(todo, request), len(results)
        # An item that failed in one process is not measured by the others.
        invalid = {
            replace(item, process=0)
            for item in items
            if (stored := results.get(_key(item))) and not counts(stored)
        }
        for number, (item, result) in enumerate(by_process(todo, invalid), start=1):
            if isinstance(result, Failure) and not result.of_kernel:
                yield item, f"{item.variant}, {item.problem.shown}: {result.reason}"
                continue
            made = lost(item, result.reason, request) if isinstance(result, Failure) else result
            if not counts(made):
                invalid.add(replace(item, process=0))
            left = (time.monotonic() - start) * (len(todo) / number - 1)
            progress = f"{item.data} ({before + number}/{len(items)})"
            name = f"{item.variant}{_picked(item, request)}, {item.problem.shown}, {progress}"
            logger.info(f"{name}: {outcome(item, made)}; about {left:.0f} s left")
            yield item, made

    return dict(
        store.run_kept(kept, items, _key, functools.partial(_serves, request=request), measure)
    )


def counts(stored: Measurement) -> bool:
    """Return whether a row of timings comes of it: the kernel ran, its output was right, and its
    clocks stayed.
    """
    return any(window.passed and not window.left_out for window in stored.rows.windows)


@contextlib.contextmanager
def _opened(
    items: list[Item], options: argparse.Namespace, kept: Store, session: str, watch: Watch
) -> Iterator[Callable[[Item], Measurement]]:
    """Measures one item after the other in this process; `session`: what the GPU that is held is
    called.
    """
    request = request_of(options)
    opened: list[tuple[Bench, clocks.Target | None]] = []
    with contextlib.ExitStack() as stack:

        def begin() -> tuple[Bench, clocks.Target | None]:
            handle = stack.enter_context(discovery.nvml())
            locks = items[0].clock_policy == "locked"
            target = stack.enter_context(clocks.locked(handle, *request.clocks)) if locks else None
            calls = LibraryCalls(kept, request.entries, request.build_dir)
            return Bench(options.build_dir, handle, calls, request, target), target

        def measure(item: Item) -> Measurement:
            with watch.holding():
                if not opened:
                    opened.append(begin())
                bench, target = opened[0]
                if stored := kept.find(_key(item), _serves(item, request)):
                    return stored  # another job asked for it meanwhile
                try:
                    result = bench.measure(item, session)
                except UserError:
                    # where a kernel has spoilt the context, that is what there is to say
                    bench.gpu.sync()
                    raise
            return measurement(item, result, target, request, session)

        yield measure


def request_of(options: argparse.Namespace) -> Request:
    """What the command's options ask of all items."""
    return Request(options.catalogue, options.build_dir, options.sm_mhz, options.memory_mhz)


def _key(item: Item) -> Key:
    return Key("bench", item.variant, item.stem)


def sliced(experiment: declarations.Experiment, words: str) -> declarations.Experiment:
    """The experiment with some of its problems: 2of3 is every third from the second on.

    Raises `UserError` for other words.
    """
    numbers = re.fullmatch(r"([0-9]+)of([0-9]+)", words)
    number, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= count:
        raise UserError(
            f"--slice {words} is not allowed; allowed: 1of1, or one of 1of3, 2of3 and 3of3, and so on"
        )
    return replace(experiment, problems=experiment.problems[number - 1 :: count])


def run(options: argparse.Namespace) -> None:
    """Measure what the experiment asks for of these variants, and write the manifest."""
    whole = declarations.load(options.experiment, options.sizes_step, known=options.catalogue)
    experiment = sliced(whole, options.slice)
    for name in options.variants:
        if options.catalogue.find(name).name not in experiment.variants:
            raise UserError(
                f"{name} takes no part in {experiment.name}; it has {', '.join(experiment.variants)}"
            )
    kept = Store(options.store)
    failed = store.failed_checks(kept, options.checked)
    for name in failed.keys() & set(options.variants):
        logger.warning(
            f"{name} is not timed: it failed {len(failed[name])} checks, first: {failed[name][0].case}"
        )
    passed = [name for name in options.variants if name not in failed]
    if passed:
        require_gpu()
    items = declarations.items(
        experiment, passed, options.clock_policy, options.sizes_step, options.catalogue
    )
    results = measured(items, options, kept)
    searches = LibraryCalls(kept, options.catalogue, options.build_dir).searches(items)
    lines = [
        f"{row.variant}, {item.problem.shown}, {item.data}: {row.left_out}"
        for item, stored in results.items()
        for row in stored.rows.windows
        if row.left_out
    ]
    store.write_manifest(
        options.out,
        [*(results[item] for item in items if item in results), *searches],
        experiment.name,
        {"locked": lines},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure variants of one experiment.")
    parser.add_argument("experiment", help="name of a file in experiments/")
    add_variants(parser)
    add_build_dir(parser)
    add_manifest(parser)
    add_checked(parser)
    parser.add_argument("--sizes-step", type=int, help="step of swept sizes")
    words = "of its problems, every third from the second on, say (default: all)"
    parser.add_argument("--slice", default="1of1", metavar="2of3", help=words)
    parser.add_argument(
        "--clock-policy",
        choices=["boost", "locked"],
        default="boost",
        help="locked: sets the clocks",
    )
    clocks.lock_arguments(parser)
    run(parser.parse_args())


if __name__ == "__main__":
    run_command(main)
