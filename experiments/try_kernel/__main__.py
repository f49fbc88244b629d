"""The kernel author's loop: build, check, emulate and, where there is a GPU, measure one kernel,
and report on one screen.

    python -m experiments.try_kernel sgemm_mine            a kernel of the catalogue, compared with the rung that it
    builds on python -m experiments.try_kernel mine.cu --like sgemm_vectorized --template BK=16 --watch
                                                           one that is not in the catalogue, again whenever it is saved

The exit code is 1 where a check failed. Everything goes into results/try; what the rung's part
needs is kept there.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
import time
from pathlib import Path

from contracts import UserError, run_command
from experiments.command_line import add_gpu, add_kernel, find_gpu, find_kernel, kernel_arguments
from experiments.gpu import discovery
from experiments.try_kernel import findings, on_gpu, screen
from kernels import catalogue
from kernels.catalogue import Variant

POLL_S = 0.3
CLEAR = "\033[2J\033[H"


def chosen(options: argparse.Namespace) -> Variant:
    """The kernel that is tried. Raises `UserError` where it is none."""
    entry = find_kernel(options)
    if isinstance(entry, catalogue.Dispatcher):
        raise UserError(
            f"{entry.name} is a dispatcher; try one of its kernels: {', '.join(v.name for v in entry.variants)}"
        )
    if not isinstance(entry, Variant):
        raise UserError(f"{entry.name} is a library baseline: there is nothing to build")
    return entry


def once(options: argparse.Namespace) -> int:
    """One round: prints the screen; 1 where a check failed, else 0."""
    variant = chosen(options)
    against = options.against or variant.builds_on
    known: catalogue.Catalogue = options.catalogue
    base = known.find(against) if against else None
    if base is not None and not isinstance(base, Variant):
        raise UserError(f"--against {against}: not a kernel; allowed: a variant of the catalogue")
    gpu = discovery.gpu()
    arch, root = gpu.arch if gpu else options.arch, options.out_dir
    size = findings.common_size(options.size, *([variant, base] if base else [variant]))
    rates = find_gpu(options.gpu)
    theirs = findings.find_kept(base, size, arch, rates, root, options.nvcc) if base else None
    own = findings.find(variant, size, arch, rates, root, checked=True, nvcc=options.nvcc)
    measured, why = None, "no NVIDIA GPU is visible here"
    if gpu and own.passed:
        named = kernel_arguments(options)
        measured = on_gpu.measure(known, variant, base, size, gpu, root, named, options.nvcc)
        why = "a check failed on the GPU"
    elif gpu:
        why = "a check failed"
    print("\n".join(screen.render(variant, own, theirs, measured, why)), flush=True)
    return 0 if own.passed and (measured is None or measured.passed) else 1


def _round(options: argparse.Namespace) -> None:
    """One round in a process of its own, that sees the files as they are now."""
    with contextlib.suppress(KeyboardInterrupt):
        try:
            once(reread(options))
        except (UserError, OSError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)


def reread(options: argparse.Namespace) -> argparse.Namespace:
    """The same options with the catalogue as its file is now."""
    return argparse.Namespace(**vars(options) | {"catalogue": catalogue.load()})


def stamps(options: argparse.Namespace, before: dict[Path, int]) -> dict[Path, int]:
    """When the kernel's files and the catalogue were saved last; while they cannot be read, those
    of `before`.
    """
    paths = [catalogue.CATALOGUE, *before]
    with contextlib.suppress(UserError, OSError):
        paths = [catalogue.CATALOGUE, *chosen(reread(options)).sources()]
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):  # an editor may be replacing it
            found[path] = path.stat().st_mtime_ns
    return found


def watch(options: argparse.Namespace) -> int:
    """A round now and whenever a file of the kernel is saved, until Ctrl-C."""
    fork = multiprocessing.get_context("fork")  # with all that is imported, and no GPU in use yet
    seen: dict[Path, int] = {}
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            now = stamps(options, seen)
            if now != seen:
                seen = now
                if os.isatty(sys.stdout.fileno()):
                    print(CLEAR, end="", flush=True)
                process = fork.Process(target=_round, args=(options,))
                process.start()
                process.join()
            time.sleep(POLL_S)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Try one kernel: build, check, emulate, measure.")
    add_kernel(parser)
    parser.set_defaults(catalogue=catalogue.load())
    parser.add_argument(
        "--against", metavar="VARIANT", help="compared with; default: the rung that it builds on"
    )
    parser.add_argument(
        "--size", type=int, default=4096, metavar="N", help="m = n = k; rounded to what both take"
    )
    parser.add_argument("--arch", default="sm_90a", help="built for where there is no GPU")
    add_gpu(parser)
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument(
        "--out-dir", type=Path, default=Path("results/try"), help="results/try when left out"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="again whenever a file of the kernel is saved; ends by Ctrl-C",
    )
    options = parser.parse_args()
    if not 1 <= options.size <= 32768:
        raise UserError(f"--size {options.size} is not allowed; allowed: 1 to 32768")
    return watch(options) if options.watch else once(options)


if __name__ == "__main__":
    run_command(main)
