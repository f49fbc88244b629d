"""Runs kernels on the GPU and on ptxsim with the same inputs, and compares the two results bit by
bit.

    python -m experiments.emulation.compare_gpu sgemm_warptile --build-dir results/build/sm_90a \
        --out emulator_next_to_gpu.csv

With --emulated, the emulator's results are those that `python -m experiments.emulation --results`
saved, and nothing is emulated again. In fp32 the program states the order of every addition, so that
the two must be equal in every bit; persistent kernels are launched with the emulator's number of
blocks, by which some divide their sums. What the tensor cores do inside one mma is not documented:
there the two may differ by what both bounds of `experiments.stages.verify` allow.
"""

from __future__ import annotations

import argparse
import functools
import logging
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ptxsim
from contracts import UserError, atomic_write, run_command, write_rows
from contracts.dtypes import Types
from contracts.files import checksum
from contracts.rows import EmulatorNextToGpu, MeasuredRows
from experiments.command_line import add_build_dir, add_store, add_variants
from experiments.emulation import launching
from experiments.emulation.device import EmulatedDevice
from experiments.gpu.worker import Failure, Watch, work_through
from experiments.stages import store, verify
from experiments.stages.cases import OTHER_ALPHA, OTHER_BETA, Case, cases
from experiments.stages.check import Checked, Device, HeldGpu, Inputs, inside, prepare
from experiments.stages.store import Key, Measurement
from kernels.catalogue import Problem, Runnable, Variant

logger = logging.getLogger(__name__)

MAX_FLOP = 2**26  # A case up to this size takes the emulator about a second.


@functools.cache
def _emulator() -> str:
    """Return a hash of the code that runs kernels."""
    folder = Path(ptxsim.__file__).parent
    paths = sorted(path for path in folder.rglob("*.py") if "tests" not in path.parts)
    return checksum(b"".join(path.read_bytes() for path in paths))[:16]


def chosen(variant: Variant) -> list[Case]:
    """Return the cases that both run: all kinds of scalars, rows and shapes, up to `MAX_FLOP`."""
    return [
        case
        for case in cases(variant)
        if not case.refused
        and case.problem.flop <= MAX_FLOP
        and (case.problem.alpha, case.problem.beta) in ((1.0, 0.0), (OTHER_ALPHA, OTHER_BETA))
    ]


def compare(
    p: Problem,
    types: Types,
    a: np.ndarray,
    b: np.ndarray,
    c0: np.ndarray,
    measured: np.ndarray,
    emulated: np.ndarray,
) -> tuple[int, float | None]:
    """Return how many elements differ in any bit, and the largest difference over its bound.

    The bound is twice that of rounding, since the two may lie on either side of the exact result.
    The difference is None where it is not finite.
    """
    bits = np.dtype(f"u{measured.dtype.itemsize}")
    differing = int((measured.view(bits) != emulated.view(bits)).sum())
    if not differing:
        return 0, 0.0
    x, y = measured.astype(np.float64), emulated.astype(np.float64)
    with np.errstate(invalid="ignore"):
        allowed = 2.0 * verify.bound(p, types, y, verify.magnitude(p, a, b, c0))
        max_difference = float((np.abs(x - y) / allowed).max())
    return differing, max_difference if np.isfinite(max_difference) else None


@dataclass(frozen=True)
class Emulated:
    """What the emulator made of a case, and the seed of its inputs."""

    seed: int
    c: np.ndarray


def save(path: Path, entry: Runnable, checked: Iterable[Checked]) -> None:
    """Write the results of the cases that are compared, as bits; a dispatcher has none."""
    names = {case.name for case in chosen(entry)} if isinstance(entry, Variant) else set()
    results = {}
    for case in checked:
        if case.inputs.case.name in names and not isinstance(case.after, str):
            c = _c_of(case.inputs, case.after.c)
            results[f"{case.inputs.seed} {case.inputs.case.name}"] = c.view(f"u{c.itemsize}")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **results)


def load_saved(folders: Sequence[Path], variant: Variant) -> dict[str, Emulated]:
    """Return what `save` wrote in one of these folders, by the name of the case.

    Raises `UserError` for another file.
    """
    paths = [folder / f"{variant.name}.npz" for folder in folders]
    path = next(filter(Path.is_file, paths), paths[-1])
    results = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                seed, _, name = key.partition(" ")
                results[name] = Emulated(int(seed), file[key].view(variant.types.c.numpy))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: not the results of an emulated kernel ({error}); emulate it again"
        ) from error
    return results


def emulate(variant: Variant, emulator: Device, seed: int) -> dict[str, Emulated]:
    """Return the same, made now."""
    results = {}
    for number, case in enumerate(chosen(variant), start=seed):
        inputs = prepare(variant, case, number)
        results[case.name] = Emulated(number, run(emulator, variant, inputs))
    return results


def agree(
    variant: Variant,
    gpu: AbstractContextManager[Device],
    emulated: Mapping[str, Emulated],
) -> list[EmulatorNextToGpu]:
    """Return rows of emulator_next_to_gpu.csv for the cases that were emulated.

    The GPU is held only while it runs.
    """
    todo = [case for case in chosen(variant) if case.name in emulated]
    prepared = [prepare(variant, case, emulated[case.name].seed) for case in todo]
    with gpu as opened:
        outputs = [run(opened, variant, inputs) for inputs in prepared]
    table = []
    for inputs, c in zip(prepared, outputs, strict=True):
        p, name = inputs.case.problem, inputs.case.name
        matrices = (inputs.a, inputs.b, inputs.c0, c, emulated[name].c)
        differing, over_bound = compare(p, variant.types, *matrices)
        exact = variant.dtype == "fp32"
        table.append(
            EmulatorNextToGpu(
                variant=variant.name,
                dtype=variant.dtype,
                case=name,
                **p.numbers,
                seed=inputs.seed,
                elements=p.m * p.n,
                differing=differing,
                difference_over_bound=over_bound,
                passed=not differing if exact else over_bound is not None and over_bound <= 1.0,
                code_hash=opened.code_hash(variant),
            )
        )
    return table


def run(device: Device, variant: Variant, inputs: Inputs) -> np.ndarray:
    """Return C as the device leaves it."""
    case = inputs.case
    return _c_of(inputs, device.run(variant, case.problem, inputs.before, case.offset)[2])


def _c_of(inputs: Inputs, c: np.ndarray) -> np.ndarray:
    p = inputs.case.problem
    return inside(c, p.m, p.n, p.ldc, inputs.case.offset).copy()


def measured(
    variants: list[Variant],
    build_dir: Path,
    emulated: Sequence[Path],
    store_: store.Store,
    seed: int,
) -> list[tuple[Variant, Measurement]]:
    """Return the comparison of each variant, stored or made now.

    Raises `UserError` for what failed, once the others are made.
    """

    def key(variant: Variant) -> Key:
        return Key("compare", variant.name, "cases")

    def fingerprint(variant: Variant) -> store.Fingerprint:
        of_emulator = {"emulator": _emulator(), "sms": [launching.FEW_SMS, launching.MORE_SMS]}
        return store.fingerprint_of(variant, build_dir) | of_emulator

    @contextmanager
    def opened(watch: Watch) -> Iterator[Callable[[Variant], Measurement]]:
        gpu = HeldGpu(build_dir, watch, launching.sms_of)

        def compared(variant: Variant) -> Measurement:
            made = (
                load_saved(emulated, variant)
                if emulated
                else emulate(variant, EmulatedDevice(build_dir), seed)
            )
            rows = agree(variant, gpu, made)
            stored = MeasuredRows(emulator_next_to_gpu=rows)
            return Measurement(fingerprint(variant), gpu.session.name, stored)

        yield compared

    def measure(
        todo: list[Variant], _: dict[Key, Measurement]
    ) -> Iterator[tuple[Variant, Measurement | str]]:
        for variant, result in work_through(todo, opened):
            if isinstance(result, Failure):
                yield variant, f"{variant.name}: {result.reason}"
            else:
                yield variant, result

    def serves(variant: Variant) -> Callable[[store.Fingerprint], bool]:
        return fingerprint(variant).__eq__

    return store.run_kept(store_, variants, key, serves, measure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare the GPU's results with the emulator's, bit by bit."
    )
    # An experiment may have dispatchers alone, which are not compared.
    add_variants(parser, required=False)
    add_build_dir(parser)
    add_store(parser)
    words = "folders with the emulator's saved results; default: they are made now"
    parser.add_argument("--emulated", type=Path, nargs="*", default=[], metavar="DIR", help=words)
    parser.add_argument(
        "--seed", type=int, help="of the first case of each; drawn afresh when left out"
    )
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    variants = []
    for name in options.variants:
        variant = options.catalogue.find(name)
        if not isinstance(variant, Variant):
            raise UserError(f"{variant.name} is no kernel: there is no PTX to run")
        variants.append(variant)
    seed = options.seed if options.seed is not None else verify.fresh_seed()
    store_ = store.Store(options.store)
    results = measured(variants, options.build_dir, options.emulated, store_, seed)
    for variant, stored in results:
        rows = stored.rows.emulator_next_to_gpu
        differing, elements = (
            sum(getattr(row, name) for row in rows) for name in ("differing", "elements")
        )
        logger.info(f"{variant.name}: {differing} of {elements} elements differ from the GPU's")
    every = [row for _, stored in results for row in stored.rows.emulator_next_to_gpu]
    write_rows(options.out, EmulatorNextToGpu, every)


if __name__ == "__main__":
    run_command(main)
